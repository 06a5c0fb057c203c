"""Commands that read what a run has left."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from wiretime import (
    compare,
    explain,
    packets,
    profile,
    statistics,
)
from wiretime.cli.base import (
    Jobs,
    app,
    notes,
    screen,
)


@app.command("compare")
def compare_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--out).")],
    measurements: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="perf stat -j; ethtool -S; what testpmd prints: of the real machine."),
    ],
    packets: Annotated[
        int | None, typer.Option(help="Packets of the measurement, where no file says how many there were.")
    ] = None,
) -> None:
    """Set a run beside a measurement of the same program on a real machine: counters per packet."""
    screen.print(compare.table(statistics.load(folder), compare.read(measurements), packets))


@app.command("stats")
def stats_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--out).")],
    everything: Annotated[bool, typer.Option("--all", help="Counters that are zero and idle cores as well.")] = False,
    series: Annotated[bool, typer.Option("--series", help="The time series (--interval) as CSV.")] = False,
    occupancy: Annotated[bool, typer.Option("--occupancy", help="Fill of FIFO and rings over time as CSV.")] = False,
) -> None:
    """Print a run's counters: latency by hop, queues, where cycles went, misses, memory, PCIe; total and a packet."""
    result = statistics.load(folder)
    if series:
        csv.writer(sys.stdout, lineterminator="\n").writerows(statistics.series(result))
    elif occupancy:
        csv.writer(sys.stdout, lineterminator="\n").writerows(packets.occupancy(result))
    else:
        screen.print(statistics.show(result, everything))


@app.command("explain")
def explain_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--out).")],
    counters: Annotated[
        bool, typer.Option("--counters", help="Only what the counters say: runs nothing to find what would move it.")
    ] = False,
    jobs: Jobs = None,
) -> None:
    """Say in sentences what limits a run, by how much, and what would move it: changes are run, not guessed."""
    said, result = explain.explain(folder)
    for sentence in said:
        screen.print(sentence, markup=False, highlight=False)
    if counters:
        return
    settings = explain.asked(folder)
    tried = explain.changes(result, settings)
    notes.print(f"{len(tried)} changes and the run itself, to see what moves it", highlight=False)
    screen.print()
    for sentence in explain.told(*explain.measure(settings, tried, jobs)):
        screen.print(sentence, markup=False, highlight=False)


@app.command("profile")
def profile_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--profile --out).")],
    rows: Annotated[int, typer.Option(min=1, help="Symbols to show.")] = 25,
    symbol: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this one's instructions, and what each was charged."),
    ] = None,
) -> None:
    """Print the symbols that a run's cycles went to, or the instructions of one."""
    for table in profile.show_code(folder, symbol) if symbol else [profile.show(folder, rows)]:
        screen.print(table)


@app.command("diff")
def diff_command(
    first: Annotated[Path, typer.Argument(metavar="DIR_A")],
    second: Annotated[Path, typer.Argument(metavar="DIR_B")],
    rows: Annotated[int, typer.Option(min=1, help="Counters to show.")] = 25,
) -> None:
    """Rank what moved between two runs, a packet."""
    screen.print(statistics.difference(statistics.load(first), statistics.load(second), rows))
