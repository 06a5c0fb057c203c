"""Commands that run an application once."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from wiretime import explain, far, files, load, offered, platforms, report, runs
from wiretime.cli.base import AppArgs, Application, Changes, Cores, NicName, PlatformName, Queues, app, notes, screen
from wiretime.cli.help import Sectioned
from wiretime.cli.request import with_request
from wiretime.errors import GuestError, WiretimeError


class _Display:
    """One line: phase, simulated time, speed."""

    def __init__(self) -> None:
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:8}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=notes,
            transient=True,
        )
        self.task = self.bar.add_task("start", total=None, state="")
        self.last = (0.0, 0)

    def __call__(self, p: Any) -> None:
        now = time.monotonic()
        before, instructions = self.last
        speed = (p["instructions"] - instructions) / (now - before) / 1e6 if before else 0.0
        self.last = (now, p["instructions"])
        total = p["total_ns"] if p["phase"] != "boot" else None
        state = f"{p['simulated_ns'] / 1e6:10.3f} ms simulated  {speed:4.0f} MIPS"
        self.bar.update(self.task, description=p["phase"], completed=p["done_ns"], total=total, state=state)


@app.command("run", cls=Sectioned)
@with_request()
def run_command(
    request: runs.Request,
    packet_size: Annotated[
        str, typer.Option(help="Frame bytes, FCS included: 256; 64,128; 64:7,570:4,1518:1; 64-1518; imix.")
    ] = "256",
    rate: Annotated[str | None, typer.Option(help=f"Offered load: {load.RATES}.", show_default=offered.RATE)] = None,
    duration: Annotated[
        str | None, typer.Option(help="Length of the measurement, simulated.", show_default="2ms; a whole trace")
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(help="Traffic before the measurement, simulated.", show_default="500us; none of a trace"),
    ] = None,
    follow: Annotated[str, typer.Option(help="Longest time to follow the measured packets to their end.")] = "5ms",
    interval: Annotated[str, typer.Option(help="Step of a time series of all counters; 0ns: none.")] = "0ns",
    with_profile: Annotated[bool, typer.Option("--profile", help="Charge cycles to symbols; needs --out.")] = False,
    iperf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What the iperf3 client does: protocol, reverse, streams, length, ..."),
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="Closed loop: so many clients of each port, who wait for answers.")
    ] = None,
    think: Annotated[
        str, typer.Option(help="From an answer to the next request: a time, or exponential:TIME.")
    ] = "0ns",
    timeout: Annotated[str, typer.Option(help="When a client gives a request up.")] = "10ms",
    replay: Annotated[
        Path | None, typer.Option(help="Send a trace (pcap, pcapng): by its own clock, or at --rate by --arrivals.")
    ] = None,
    speed: Annotated[float, typer.Option(help="Factor of the trace's clock.")] = 1.0,
    loops: Annotated[int, typer.Option(help="How often the trace is sent; 0: until --duration is over.")] = 1,
    lenient: Annotated[bool, typer.Option("--lenient", help="Send what can be sent of a damaged trace.")] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="OFFSET:LENGTH", help="Bytes of the frame that tell a trace's transactions apart."),
    ] = None,
    capture: Annotated[
        str | None,
        typer.Option(metavar="all|BEGIN+LENGTH", help="Write the wire, as wire.pcapng, in this time; needs --out."),
    ] = None,
    peer: Annotated[
        str, typer.Option(help="What is at the other end of the wire: generator, or host (a second simulated one).")
    ] = "generator",
    trace: Annotated[
        str | None, typer.Option(metavar="BEGIN+LENGTH", help="Timeline of this time of the measurement; needs --out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for result.json, host.json and console.log.")] = None,
    json_output: Annotated[
        str | None, typer.Option("--json", help="'-': print result.json instead of the table.")
    ] = None,
) -> None:
    """Run an application on a simulated server under the load generator."""
    request = replace(
        request,
        packet_size=packet_size,
        rate=rate,
        duration=duration,
        warm_up=warmup,
        follow=follow,
        interval=interval,
        profile=with_profile,
        iperf=tuple(iperf or ()),
        clients=clients,
        think=think,
        timeout=timeout,
        replay=replay,
        speed=speed,
        loops=loops,
        lenient=lenient,
        key=key,
        capture=capture,
        peer=peer,
        trace=trace,
    )
    for option, wanted in (("--trace", trace), ("--profile", with_profile or None), ("--capture", capture)):
        if wanted is not None and out is None:
            raise WiretimeError(f"{option}: needs --out DIR for its files")
    checked = runs.check(request)
    if interval != runs.Request().interval and out is None and json_output is None:
        raise WiretimeError("--interval: needs --out DIR or --json, where the series goes")
    for warning in checked.trace.warnings if checked.trace else ():
        notes.print(f"warning: {warning}", markup=False, highlight=False)
    if json_output not in (None, "-"):
        files.check("--json", Path(json_output))
    if out is not None:
        runs.prepare_folder(out, replay)
    file = out / runs.CAPTURING if out is not None and capture is not None else None
    try:
        if notes.is_terminal:
            display = _Display()
            with display.bar:
                done = runs.execute(request, display, capture=file)
        else:
            done = runs.execute(request, capture=file)
    except GuestError:
        # What was on the wire may say why.
        if file is not None and file.is_file():
            runs.clear(file.parent)
            file.rename(file.with_name(runs.CAPTURED))
        raise
    except BaseException:
        if file is not None:
            file.unlink(missing_ok=True)
        raise
    result, host = done.result, done.host
    if out is not None:
        runs.write(out, done)
        explain.keep(out, request)
    if json_output == "-":
        sys.stdout.write(runs.dump(result))
    elif json_output is not None:
        files.write(Path(json_output), runs.dump(result))
    else:
        screen.print(report.table(result, host))


class _Joined:
    """Says when the guest can be reached, and counts its frames."""

    def __init__(self, tap: str) -> None:
        self.tap = tap
        self.frames: tuple[int, int] | None = None

    def __call__(self, p: Any) -> None:
        if p["phase"] == "boot":
            return
        if self.frames is None:
            here = far.ADDRESS.split("/")[0]
            notes.print(f"{self.tap} is {here}; the guest is 10.0.0.2 and 2001:2:0:1::2; Ctrl-C ends", highlight=False)
        self.frames = (p["frames"][0], p["frames"][1])


@app.command("wire")
def wire_command(
    application: Application,
    tap: Annotated[str, typer.Option(help="TAP of this machine; made, with an address, where there is none.")] = "wt0",
    duration: Annotated[str | None, typer.Option(help="End after so much of the guest's time.")] = None,
    platform: PlatformName = platforms.DEFAULT,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Join the wire to a TAP of this machine, to talk to the guest with ordinary programs.

    Time passes as fast as here, instructions take a fixed time, and nothing about it is deterministic.
    """
    request = runs.Request(
        app=application,
        platform=platform,
        tap=tap,
        duration=duration or runs.EVER,
        warm_up="0ns",
        nic=nic,
        cores=cores,
        queues=queues,
        changes=tuple(changes or ()),
        app_args=app_args,
        internals={"timing": "blocks", "host_speed": True},
    )
    joined = _Joined(tap)
    try:
        done = runs.execute(request, joined)
    except KeyboardInterrupt:
        there, back = joined.frames or (0, 0)
        notes.print(f"{there} frames to the guest, {back} from it", highlight=False)
        return
    screen.print(report.table(done.result, done.host))
