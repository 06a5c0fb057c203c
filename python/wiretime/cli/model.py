"""The command that makes cost models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wiretime import files, runs
from wiretime.cli.base import app, notes, screen
from wiretime.cli.help import Sectioned
from wiretime.cli.request import with_request


@app.command("model", cls=Sectioned)
@with_request("testpmd", without=("ports", "files", "role", "kernel", "hugepages", "engine", "model"))
def model_command(
    request: runs.Request,
    out: Annotated[Path, typer.Option(help="File of the model.")] = Path("model.toml"),
) -> None:
    """Make a model of a program for the packet-level engine, from runs in full system; show both beside each other."""
    from wiretime import modelling  # which loads numpy

    files.check("--out", out)
    found = modelling.make(request, lambda what: notes.print(what, highlight=False))
    files.replace(out, modelling.text(found.model))
    screen.print(modelling.table(found))
    screen.print(str(out), highlight=False, soft_wrap=True)
