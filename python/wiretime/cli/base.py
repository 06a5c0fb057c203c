"""What the commands share: the application, the screen, options that several take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wiretime import __version__, search

app = typer.Typer(
    help="Wiretime: a full-system simulator for host networking.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
platforms_app = typer.Typer(help="The machines that can be simulated.", rich_markup_mode=None)
guest_app = typer.Typer(help="Look into the guest.", rich_markup_mode=None)
app.add_typer(platforms_app, name="platforms")
app.add_typer(guest_app, name="guest")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"wiretime {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Wiretime: a full-system simulator for host networking."""


# A pipe or a file has no width of its own: wide enough for every table.
screen = Console(width=None if sys.stdout.isatty() else 150)
notes = Console(stderr=True)


# What several commands take.
USUAL_SIZE = 256
Application = Annotated[str, typer.Argument(help="What runs in the guest: see `wiretime apps`; or a program of yours.")]
PlatformName = Annotated[str, typer.Option(help="Platform by name, or a .toml file.")]
Loss = Annotated[float, typer.Option(help="Highest loss that counts as sustained, in percent.")]
NicName = Annotated[str | None, typer.Option(help="NIC: 8254x (one queue), 82599, connectx-6dx, connectx-7, qdma.")]
Cores = Annotated[
    int | None,
    typer.Option(help="Cores of the application, beside one for the system; forwarders use one a queue (--queues)."),
]
Queues = Annotated[int, typer.Option(help="Receive and transmit queues of each port.")]
Seed = Annotated[int, typer.Option(help="Of the memory layout and the arrivals.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a platform parameter: key=value.")]
Jobs = Annotated[int | None, typer.Option(help="Runs at once.", show_default="cores of this machine")]
AppArgs = Annotated[str, typer.Option(help="Further arguments of the application.")]
Sizes = Annotated[
    str | None,
    typer.Option(help="Frame sizes, FCS included.", show_default=",".join(map(str, search.STANDARD_SIZES))),
]
SearchedSize = Annotated[int | None, typer.Option(help="Frame bytes, FCS included.", show_default=str(USUAL_SIZE))]
Ports = Annotated[int | None, typer.Option(help="NICs, each with a link and a generator of its own.")]
TrialLength = Annotated[float, typer.Option(help="Factor of the length of trials: 1 is 20 turnovers of the ring.")]
PlotFile = Annotated[Path | None, typer.Option(help="Draw bandwidth against loss into this file (.png, .svg, .pdf).")]
DropClasses = Annotated[str, typer.Option(help="wiretime, or gem5: the published state machine.")]
OneSize = Annotated[int, typer.Option(help="Frame bytes, FCS included.")]
Engine = Annotated[str, typer.Option(help="What runs software: full-system, or packet (a model of it; no guest).")]
ModelName = Annotated[str | None, typer.Option(help="Model of the software, with --engine packet: name or .toml.")]
