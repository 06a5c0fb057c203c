"""The page in the browser."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from wiretime.cli.base import Jobs, app, notes
from wiretime.errors import WiretimeError


@app.command("lab")
def lab_command(
    folder: Annotated[Path, typer.Option(help="Where experiments are kept; those that are there are shown.")] = Path(
        "studies/lab"
    ),
    port: Annotated[int, typer.Option(help="Port of this machine that the page is at.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Address that it listens on; whoever can reach it can run experiments here.")
    ] = "127.0.0.1",
    jobs: Jobs = None,
    browser: Annotated[bool, typer.Option(help="Open the page.")] = True,
) -> None:
    """Experiments in the browser: pick, run, watch, explain, compare; each is a study with its command line."""
    # They load what studies and pages are made with.
    from wiretime.lab import work
    from wiretime.lab.page import serve
    from wiretime.study.execute import jobs_of

    if not 0 < port < 1 << 16:
        raise WiretimeError(f"--port {port}: must be from 1 to {(1 << 16) - 1}")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as e:
        raise WiretimeError(f"--host {host} --port {port}: {e.strerror}") from None
    count = jobs_of(jobs)
    lab = work.Lab(folder, count)
    notes.print(f"http://{host}:{port}  experiments are in {folder}; Ctrl-C ends", highlight=False, soft_wrap=True)
    try:
        serve(lab, count, host, port, browser)
    finally:
        lab.close()
