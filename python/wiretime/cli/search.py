"""Commands that search within one boot, and advice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from wiretime import files, load, offered, runs, search
from wiretime.cli.base import (
    USUAL_SIZE,
    Jobs,
    Loss,
    OneSize,
    PlotFile,
    SearchedSize,
    Sizes,
    TrialLength,
    app,
    notes,
    screen,
)  # fmt: skip
from wiretime.cli.help import Sectioned
from wiretime.cli.request import with_request
from wiretime.errors import WiretimeError
from wiretime.search import show


def _sizes(request: runs.Request, packet_sizes: str | None) -> list[int]:
    """Return the sizes of a search, in order."""
    return search.sizes_of(request, None if packet_sizes is None else list(show.sizes_of(packet_sizes)))


def _size(request: runs.Request, packet_size: int | None) -> int:
    return search.sizes_of(request, None if packet_size is None else [packet_size], [USUAL_SIZE])[0]


JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write what was found into this file, with every trial; bits of frames a second."),
]


def _check(plot: Path | None, json_file: Path | None) -> None:
    """Raise where a file cannot be written, before there is anything to write."""
    if plot is not None:
        show.check_plot(plot)
    if json_file is not None:
        if str(json_file) == "-":
            raise WiretimeError("--json -: name a file; the screen has the table")
        files.check("--json", json_file)


def _save(found: Sequence[Any], json_file: Path | None, more: Sequence[dict[str, Any]] = ()) -> None:
    """Write what was found, each with what else is known of it."""
    if json_file is not None:
        each = [{**known, **asdict(f)} for f, known in zip(found, more or [{}] * len(found), strict=True)]
        files.write(json_file, json.dumps(each, indent=1) + "\n")


def _tell(trial: search.Trial) -> None:
    notes.print(show.line_of(trial), highlight=False, soft_wrap=True)


def _draw(trials: list[search.Trial], plot: Path | None, title: str) -> None:
    """Draw bandwidth against loss, and say where it is not monotone."""
    curves = show.curves(trials)
    screen.print(Text.from_ansi(show.terminal(curves, min(screen.width, 110))))
    for remark in show.monotone(curves):
        screen.print(f"not monotone: {remark}", style="yellow", highlight=False, soft_wrap=True)
    if plot is not None:
        show.plot(curves, plot, title)


@app.command("msb", cls=Sectioned)
@with_request()
def msb_command(
    request: runs.Request,
    packet_sizes: Sizes = None,
    loss: Annotated[
        float | None,
        typer.Option(help="Highest loss that counts as sustained, in percent.", show_default="1.0"),
    ] = None,
    ndr_pdr: Annotated[
        bool, typer.Option("--ndr-pdr", help="NDR and PDR instead, by multiple loss ratio search (MLRsearch).")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Seeds, one boot each: the spread of the result.")] = 1,
    trial_length: TrialLength = 1.0,
    plot: PlotFile = None,
    json_file: JsonFile = None,
) -> None:
    """Find the highest load with at most so much loss, for each packet size, in one boot."""
    sizes, threshold = _sizes(request, packet_sizes), search.share(1.0 if loss is None else loss)
    _check(plot, json_file)
    title = f"{request.app} on {request.platform}"
    if ndr_pdr:
        if seeds != 1:
            raise WiretimeError("--seeds: not with --ndr-pdr, which repeats its trials")
        if loss is not None:
            raise WiretimeError("--loss: not with --ndr-pdr, whose losses are none and 0.5 %")
        ratios = search.ndr_pdr(request, sizes, _tell, trial_length)
        _save(ratios, json_file)
        screen.print(show.ratios(ratios))
        _draw([trial for r in ratios for trial in r.trials], plot, title)
        return

    def tell_of(seed: int) -> search.Tell:
        return _tell if seeds == 1 else lambda t: notes.print(f"seed {seed} {show.line_of(t)}", highlight=False)

    by_seed, spreads = search.over_seeds(request, sizes, threshold, seeds, tell_of, trial_length)
    all_found = [f for found in by_seed for f in found]
    _save(all_found, json_file, [{"seed": request.seed + i} for i, found in enumerate(by_seed) for _ in found])
    screen.print(show.table(by_seed[0], threshold))
    if seeds > 1:
        screen.print(f"(of seed {request.seed})", highlight=False)
        screen.print(show.spreads(spreads, seeds))
        title += f", seed {request.seed}"
    _draw([trial for found in by_seed[0] for trial in (*found.trials, *found.around)], plot, title)


@app.command("advise", cls=Sectioned)
@with_request("testpmd", without=("ports", "files", "role", "kernel", "hugepages"))
def advise_command(
    request: runs.Request,
    rate: Annotated[str, typer.Option(help=f"Offered load: {load.RATES}.")] = offered.RATE,
    packet_size: OneSize = 256,
    loss: Annotated[float, typer.Option(help="Highest loss that counts as sustained, in percent.")] = 0.0,
    jobs: Jobs = None,
) -> None:
    """Say how many receive descriptors a rate needs: by arithmetic, and the smallest ring that does in simulation."""
    from wiretime import advise  # which runs studies, and loads what they are made with

    def tell(what: str) -> None:
        notes.print(what, highlight=False)

    search.share(loss)
    screen.print(advise.show(advise.advise(replace(request, packet_size=packet_size), rate, loss, jobs, tell)))


@app.command("rfc2544", cls=Sectioned)
@with_request()
def rfc2544_command(
    request: runs.Request,
    packet_sizes: Sizes = None,
    trial_length: TrialLength = 1.0,
    json_file: JsonFile = None,
) -> None:
    """Run RFC 2544: throughput, latency there, loss by load, back-to-back frames, recovery, in one boot."""
    _check(None, json_file)
    found = search.benchmarks(request, _sizes(request, packet_sizes), _tell, trial_length)
    _save(found, json_file)
    screen.print(show.benchmarks(found))


@app.command("latency", cls=Sectioned)
@with_request()
def latency_command(
    request: runs.Request,
    packet_size: SearchedSize = None,
    loss: Loss = 1.0,
    trial_length: TrialLength = 1.0,
    json_file: JsonFile = None,
) -> None:
    """Find the highest load, then measure latency at 0.1 to 0.95 of it, in one boot."""
    threshold = search.share(loss)
    _check(None, json_file)
    found, trials = search.latency(request, _size(request, packet_size), threshold, _tell, trial_length)
    _save([found], json_file, [{"latencies": [asdict(t) for t in trials]}])
    screen.print(show.table([found], threshold))
    if found.best is not None:
        screen.print(show.latencies(trials, found.best))


@app.command("ramp", cls=Sectioned)
@with_request()
def ramp_command(
    request: runs.Request,
    packet_size: SearchedSize = None,
    first: Annotated[str, typer.Option("--from", help=f"First rate: {load.RATES}.")] = "10%",
    last: Annotated[str, typer.Option("--to", help="Last rate.")] = "100%",
    steps: Annotated[int, typer.Option(help="Rates, at equal distances.")] = 10,
    trial_length: TrialLength = 1.0,
    plot: PlotFile = None,
    json_file: JsonFile = None,
) -> None:
    """Offer one rate after the other, in one boot: bandwidth against loss."""
    _check(plot, json_file)
    size = _size(request, packet_size)
    rates = search.rates(request, size, first, last, steps)
    trials = search.ramp(request, size, rates, _tell, trial_length)
    _save(trials, json_file)
    _draw(trials, plot, f"{request.app} on {request.platform}")
    screen.print(show.curve(trials))
