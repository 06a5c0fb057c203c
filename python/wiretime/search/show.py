"""What searches found, as lines, tables and plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from rich.console import RenderableType

from wiretime import files, load
from wiretime.errors import WiretimeError
from wiretime.search.maximum import WIDTH, Found, Spread
from wiretime.search.ratios import Ratios
from wiretime.search.rfc2544 import Benchmarks
from wiretime.search.trials import Trial
from wiretime.tables import plain

PLOT_FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours: told apart by everybody.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
TERMINAL_COLOURS = ("blue", "orange", "green", "magenta", "yellow", "cyan", "white")


def gbps(bits: float) -> str:
    """Return a rate as a person reads it."""
    return f"{bits / 1e9:.2f} Gb/s" if bits >= 1e9 else f"{bits / 1e6:.1f} Mb/s"


def _mpps(bits: float, size: int) -> str:
    mpps = bits / 8 / size / 1e6
    return f"{mpps:.2f}" if mpps >= 1 else f"{mpps:.4f}"


def _of_each(trials: Sequence[Trial]) -> str:
    """Say that rates are of one port, where there are several."""
    ports = trials[0].ports
    return f" of each of {ports} ports" if ports > 1 else ""


def line_of(t: Trial) -> str:
    """Return a trial as one line of progress."""
    return (
        f"{t.size:5d} B  {gbps(t.offered):>12} offered  {gbps(t.forwarded):>12} forwarded  "
        f"loss {100 * t.loss:6.2f} %  {t.concluded}"
    )


def sizes_of(text: str) -> Iterator[int]:
    """Yield the packet sizes of a comma-separated list."""
    for part in text.split(","):
        s = load.sizes(part)
        if s["kind"] != "fixed":
            raise WiretimeError(f"--packet-sizes {text}: must be sizes, such as 64,1518")
        yield s["size"]


def table(found: Sequence[Found], threshold: float) -> RenderableType:
    """Return the results as a table."""
    t = plain(f"maximum sustainable bandwidth{_of_each(found[0].trials)}, loss of at most {100 * threshold:g} %")
    for name in ("size", "MSB", "Mpps", "loss there", "lossy from", "loss there", "trials"):
        t.add_column(name, justify="right")
    t.add_column("lost as")
    for f in found:
        if f.best is None:
            lowest = min(trial.offered for trial in f.trials)
            none = f"none down to {gbps(lowest)}"
            t.add_row(f"{f.size} B", none, "", "", "", "", str(len(f.trials)), f.trials[-1].classes)
            continue
        best = f.best
        bound = ("the line", "") if f.bound is None else (gbps(f.bound.offered), f"{100 * f.bound.loss:.2f} %")
        classes = f.bound.classes if f.bound else ""
        loss = f"{100 * best.loss:.2f} %"
        mpps = _mpps(best.offered, f.size)
        tried = f"{len(f.trials)}, not closed" if f.wide else str(len(f.trials))
        t.add_row(f"{f.size} B", gbps(best.offered), mpps, loss, *bound, tried, classes)
    return t


def spreads(found: Sequence[Spread], seeds: int) -> RenderableType:
    """Return the results of several seeds as a table."""
    t = plain(f"maximum sustainable bandwidth over {seeds} seeds")
    for name in ("size", "mean", "deviation", "lowest", "highest", "Mpps", "seeds"):
        t.add_column(name, justify="right")
    for s in found:
        deviation = f"{gbps(s.deviation)} ({100 * s.deviation / s.mean:.2f} %)"
        ends = (gbps(min(s.values)), gbps(max(s.values)))
        t.add_row(f"{s.size} B", gbps(s.mean), deviation, *ends, _mpps(s.mean, s.size), str(len(s.values)))
    return t


def ratios(found: Sequence[Ratios]) -> RenderableType:
    """Return NDR and PDR as a table."""
    t = plain(f"multiple loss ratio search (MLRsearch){_of_each(found[0].trials)}")
    for name in ("size", "goal", "throughput", "Mpps", "lower bound", "upper bound", "trials"):
        t.add_column(name, justify="right")
    for r in found:
        for goal in r.goals:
            shown = [gbps(bits) if bits is not None else "none" for bits in (goal.throughput, goal.lower)]
            upper = gbps(goal.upper) if goal.upper is not None else "the line"
            mpps = _mpps(goal.throughput, r.size) if goal.throughput is not None else ""
            t.add_row(f"{r.size} B", goal.name, shown[0], mpps, shown[1], upper, str(len(r.trials)))
    return t


def benchmarks(found: Sequence[Benchmarks]) -> RenderableType:
    """Return the RFC 2544 tests as a table."""
    t = plain(f"RFC 2544{_of_each(found[0].throughput.trials)}")
    for name in (
        "size",
        "throughput",
        "Mpps",
        "latency there",
        "back-to-back",
        "last loss",
        "backlog gone",
        "loss by share of the line",
    ):
        t.add_column(name, justify="right")
    for b in found:
        best = b.throughput.best
        rate, mpps = (gbps(best.offered), _mpps(best.offered, b.size)) if best else ("none", "")
        latency = f"{b.latency['mean']:.0f} ns" if b.latency else ""
        burst = f"{b.back_to_back} frames" if b.back_to_back is not None else "any"
        if best is None:
            burst = "none"
        overloaded = b.recovery_ns is not None
        recovery = f"{(b.recovery_ns or 0) / 1000:.2f} us" if overloaded else ("no overload" if best else "")
        drained = f"{b.drained_ns / 1000:.0f} us" if b.drained_ns is not None else ("longer" if overloaded else "")
        losses = ", ".join(f"{100 - 10 * i}: {100 * trial.loss:.1f}" for i, trial in enumerate(b.loss))
        t.add_row(f"{b.size} B", rate, mpps, latency, burst, recovery, drained, f"{losses} %")
    return t


def latencies(trials: Sequence[Trial], best: Trial) -> RenderableType:
    """Return latency by load as a table."""
    t = plain(f"latency of {best.size} B packets at fractions of {gbps(best.offered)}{_of_each([best])}, ns")
    keys = ("mean", "deviation", "median", "p90", "p99", "p999", "p9999", "max")
    for name in ("load", "offered", *keys):
        t.add_column(name, justify="right")
    for trial in trials:
        values = [f"{trial.latency[key]:.0f}" if trial.latency else "" for key in keys]
        t.add_row(f"{100 * trial.offered / best.offered:.0f} %", gbps(trial.offered), *values)
    return t


def falls(before: Trial, trial: Trial) -> bool:
    """Whether a higher load loses less, by more than a bracket is wide."""
    return trial.offered > before.offered and trial.loss < before.loss - WIDTH


def curve(trials: Sequence[Trial]) -> RenderableType:
    """Return bandwidth against loss as a table; says where loss falls although the load grows."""
    t = plain(f"{trials[0].size} B packets{_of_each(trials)}")
    for name in ("offered", "forwarded", "loss", "median latency"):
        t.add_column(name, justify="right")
    t.add_column("lost as")
    t.add_column("")
    for before, trial in zip((None, *trials), trials, strict=False):
        median = f"{trial.latency['median']:.0f} ns" if trial.latency else ""
        note = "less loss than at the rate before" if before is not None and falls(before, trial) else ""
        loss = f"{100 * trial.loss:.2f} %"
        t.add_row(gbps(trial.offered), gbps(trial.forwarded), loss, median, trial.classes, note)
    return t


Curves = dict[str, list[Trial]]


def curves(trials: Sequence[Trial]) -> Curves:
    """Return trials by packet size, in order of load; of several of one load the last, which began with its backlog."""
    last = {(t.size, t.offered): t for t in trials}
    found: Curves = {}
    for (size, _), trial in sorted(last.items()):
        found.setdefault(f"{size} B", []).append(trial)
    return found


def monotone(all_curves: Curves) -> list[str]:
    """Return a line for every place at which loss falls although the load grows."""
    return [
        f"{name}: loss falls from {100 * a.loss:.2f} % at {gbps(a.offered)} to {100 * b.loss:.2f} % at "
        f"{gbps(b.offered)}: the lighter trial still had the backlog of a heavier one, or took smaller bursts"
        for name, trials in all_curves.items()
        for a, b in pairwise(trials)
        if falls(a, b)
    ]


def terminal(all_curves: Curves, width: int, height: int = 20) -> str:
    """Return bandwidth against loss, drawn with characters."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, height)
    for i, (name, trials) in enumerate(all_curves.items()):
        x, y = [t.offered / 1e9 for t in trials], [100 * t.loss for t in trials]
        plotext.plot(x, y, label=name, marker="braille", color=TERMINAL_COLOURS[i % len(TERMINAL_COLOURS)])
    plotext.xlabel("offered, Gb/s")
    plotext.ylabel("loss, %")
    drawn: str = plotext.build()
    return drawn


def check_plot(path: Path) -> None:
    """Raise where a plot cannot be written to a file of that name."""
    if path.suffix not in PLOT_FORMATS:
        raise WiretimeError(f"--plot {path}: allowed are {', '.join(PLOT_FORMATS)}")
    files.check("--plot", path)


def plot(all_curves: Curves, path: Path, title: str) -> None:
    """Draw forwarded against offered, and loss against offered, into a file."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "wiretime"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for i, (name, trials) in enumerate(all_curves.items()):
        x = [t.offered / 1e9 for t in trials]
        style = {"color": COLOURS[i % len(COLOURS)], "marker": "o", "markersize": 3.5, "linewidth": 1.4, "label": name}
        # More than was offered is what was left of a backlog.
        axes[0].plot(x, [min(t.forwarded, t.offered) / 1e9 for t in trials], **style)
        axes[1].plot(x, [100 * t.loss for t in trials], **style)
        axes[0].annotate(
            name, (x[-1], trials[-1].forwarded / 1e9), xytext=(5, 0), textcoords="offset points",
            color=COLOURS[i % len(COLOURS)], va="center", fontsize=9,
        )  # fmt: skip
    top = axes[0].get_xlim()[1]
    axes[0].plot([0, top], [0, top], color="0.7", linewidth=0.8, zorder=0)
    axes[0].set(xlabel="offered, Gb/s", ylabel="forwarded, Gb/s", xlim=(0, top * 1.06), ylim=(0, None))
    axes[1].set(xlabel="offered, Gb/s", ylabel="loss, %", xlim=(0, top), ylim=(-1, None))
    axes[1].legend(frameon=False, fontsize=9, title="packet size")
    for axis in axes:
        axis.grid(color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
