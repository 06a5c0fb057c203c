"""The maximum sustainable bandwidth (MSB): the highest load whose loss is at most a threshold, within one boot.

For each packet size: overload first; the rate that is forwarded under that backlog is the centre of the bracket, which
is then bisected, every trial from the backlog that the overload has left. While a backlog lasts, the program gets as
much as it takes, so what is forwarded in a window against what is offered in it is the loss of a load of any length:
rings and FIFO hide nothing. Where nothing is refused, the slope of the backlog decides: one that grows is loss, one
that falls or stays is none. Each trial lasts many turnovers of the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, linear_regression
from typing import Any

from rich.console import RenderableType

import wiretime._native as _native
from wiretime import apps, load, run
from wiretime.errors import WiretimeError
from wiretime.tables import plain

# Turnovers of the receive ring: to settle under a new load, and to measure.
SETTLE, MEASURE = 2, 20
# The first trial of a size does not know its rate yet.
FIRST_US = 400
SHORTEST_US, LONGEST_US = 60, 20_000
# A program that does not forward this much forwards nothing.
LOWEST = 1e6
# Relative width of a bracket that is narrow enough.
WIDTH = 0.005
TRIALS_MAX = 24
# Packets that wait at any time in a run without backlog: a few bursts.
FEW = 160
# A slope counts when it is so many standard errors, and so large a share of what arrives.
CERTAIN, GROWTH = 1.96, 0.001
CLASSES = {"dma_drop": "DmaDrop", "core_drop": "CoreDrop", "tx_drop": "TxDrop", "host_drop": "HostDrop"}


@dataclass(frozen=True)
class Trial:
    """One load: offered and forwarded bits a second, loss as a share, how it was concluded, classes of drops."""

    size: int
    offered: float
    forwarded: float
    packets: float
    loss: float
    concluded: str
    classes: str
    latency: dict[str, float] | None = None


@dataclass(frozen=True)
class Found:
    """The result for a packet size."""

    size: int
    trials: Sequence[Trial]
    best: Trial | None
    bound: Trial | None
    line: bool


def _growth(result: dict[str, Any], size: int) -> tuple[float, float]:
    """Return the packets that wait at the end, and how many more they become a second: 0 where that is not certain.

    Certain is a slope beyond 1.96 standard errors, over the second half of the trial: a backlog that builds up to a
    level at which the program takes larger bursts is not loss.
    """
    found = result["occupancy"]
    rows = found["ports"][0]
    waiting = [row[0] / size + row[2] for row in rows]
    later = waiting[len(waiting) // 2 :]
    if len(later) < 3:
        return (waiting[-1] if waiting else 0.0), 0.0
    times = [i * found["interval_ns"] / 1e9 for i in range(len(later))]
    slope, start = linear_regression(times, later)
    rest = sum((y - start - slope * x) ** 2 for x, y in zip(times, later, strict=True))
    spread = sum((x - fmean(times)) ** 2 for x in times)
    error = sqrt(rest / (len(later) - 2) / spread)
    return fmean(waiting[-10:]), slope if slope > CERTAIN * error else 0.0


def _trial(size: int, rate: float, result: dict[str, Any]) -> Trial:
    """Read a trial off the engine's result."""
    s = result["statistics"]
    seconds = s["time_ps"] / 1e12
    forwarded = s["transmit"]["bytes"] * 8 / seconds
    packets = s["transmit"]["frames"] / seconds
    waiting, growth = _growth(result, size)
    refused = s["receive"]["refused"] + s["receive"]["out_of_buffer"] > 0
    counts = result["ports"][0]["cohort"]
    thrown = counts["host_drop"] > 0
    arrivals = rate / 8 / size
    if refused or thrown:
        loss, concluded = max(0.0, 1 - forwarded / rate), "full" if refused else "the program drops"
    elif growth > GROWTH * arrivals:
        loss, concluded = growth / arrivals, "backlog grows"
    else:
        loss, concluded = 0.0, "backlog falls or stays" if waiting > FEW else "no backlog"
    classes = ", ".join(name for key, name in CLASSES.items() if counts[key])
    return Trial(size, rate, forwarded, packets, loss, concluded, classes, result["latency_ns"])


Asked = dict[str, Any]
Steps = Generator[Asked, dict[str, Any], None]
Tell = Callable[[Trial], None]
Asking = Generator[Asked, dict[str, Any], Trial]


def _microseconds(size: int, rate: float, queues: int) -> float:
    """Return how long so many turnovers of the rings take at a rate."""
    return MEASURE * apps.RING * queues * size * 8 / max(rate, 1.0) * 1e6


def _ask(
    tell: Tell, size: int, rate: float, microseconds: float, settle_us: float | None = None, follow: str = "0ns"
) -> Asking:
    measure = min(max(microseconds, SHORTEST_US), LONGEST_US)
    settle = measure * SETTLE / MEASURE if settle_us is None else settle_us
    result = yield {
        "sizes": {"kind": "fixed", "size": size},
        "rate": f"{int(rate)}bps",
        "arrivals": {"kind": "constant"},
        "warm_up": f"{int(settle * 1000)}ns",
        "duration": f"{int(measure * 1000)}ns",
        "follow": follow,
    }
    trial = _trial(size, int(rate), result)
    tell(trial)
    return trial


def find(
    size: int, highest: float, threshold: float, tell: Tell, queues: int = 1
) -> Generator[Asked, dict[str, Any], Found]:
    """Ask for the trials that find the MSB of one size; ``highest`` is what the line carries."""
    trials: list[Trial] = []

    def ask(rate: float, microseconds: float) -> Asking:
        trial = yield from _ask(tell, size, rate, microseconds)
        trials.append(trial)
        return trial

    overload = yield from ask(highest, FIRST_US)
    overload = yield from ask(highest, _microseconds(size, overload.forwarded, queues))
    if overload.loss <= threshold:
        return Found(size, trials, overload, None, True)
    low: Trial | None = None
    high = overload
    centre = min(overload.forwarded / (1 - threshold), highest)
    rate = centre * (1 - WIDTH / 2)
    step = WIDTH
    while len(trials) < TRIALS_MAX and rate >= LOWEST:
        trial = yield from ask(rate, _microseconds(size, overload.forwarded, queues))
        if trial.loss <= threshold:
            low = trial
        else:
            high = trial
        if low is None:
            rate = centre * (1 - step)
            step *= 2
        elif (high.offered - low.offered) / high.offered <= WIDTH:
            break
        elif high is overload:
            rate = min(low.offered * (1 + step), highest)
            step *= 2
        else:
            rate = (low.offered + high.offered) / 2
    return Found(size, trials, low, high, False)


def in_one_boot(request: run.Request, sizes: Sequence[int], steps: Steps) -> None:
    """Boot once and run the trials that ``steps`` asks for, of these packet sizes."""
    first = next(steps)
    # What the boot starts with only wakes the program up.
    woken = False

    def on_trial(result: dict[str, Any]) -> Asked | None:
        nonlocal woken
        if not woken:
            woken = True
            return first
        try:
            return steps.send(result)
        except StopIteration:
            return None

    packet_sizes = ",".join(str(size) for size in sorted(set(sizes)))
    run.execute(
        replace(request, packet_size=packet_sizes, rate="100Mbps", warm_up="10us", duration="10us", follow="0ns"),
        on_trial=on_trial,
    )


def _line(request: run.Request, size: int) -> float:
    """Return the bits of frames a second that the line carries at a packet size, the request checked."""
    if request.ports not in (None, 1):
        raise WiretimeError(f"--ports {request.ports}: the search takes one port")
    platform, *_ = run.check(replace(request, packet_size=size, rate="1Mbps"))
    link = platform["link"]
    carried: float = _native.parse_rate(link["rate"]) * size / (size + link["gap_bytes"])
    return carried


def msb(request: run.Request, sizes: Sequence[int], threshold: float, tell: Tell) -> list[Found]:
    """Find the MSB of every size in one boot."""
    if not 0 <= threshold < 1:
        raise WiretimeError(f"--loss {threshold * 100:g}: allowed are 0 to below 100 %")
    lines = [_line(request, size) for size in sizes]
    found: list[Found] = []

    def steps() -> Steps:
        for size, line in zip(sizes, lines, strict=True):
            found.append((yield from find(size, line, threshold, tell, request.queues)))

    in_one_boot(request, sizes, steps())
    return found


FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Before the first fraction the backlog of the search drains: rings and FIFO, many times over.
DRAIN_US = 5000


def latency(request: run.Request, size: int, threshold: float, tell: Tell) -> tuple[Found, list[Trial]]:
    """Find the MSB of a size, then measure latency at fractions of it, lowest first, in the same boot."""
    line = _line(request, size)
    results: list[Found] = []
    trials: list[Trial] = []

    def steps() -> Steps:
        found = yield from find(size, line, threshold, tell, request.queues)
        results.append(found)
        if found.best is None:
            return
        for fraction in FRACTIONS:
            rate = found.best.offered * fraction
            settle = None if trials else DRAIN_US
            trial = yield from _ask(tell, size, rate, _microseconds(size, rate, request.queues), settle, follow="5ms")
            trials.append(trial)

    in_one_boot(request, [size], steps())
    return results[0], trials


def ramp(request: run.Request, size: int, rates: Sequence[float], tell: Tell) -> list[Trial]:
    """Offer one rate after the other in one boot."""
    line = _line(request, size)
    for rate in rates:
        if rate > line:
            raise WiretimeError(f"--to {_gbps(rate)}: the line carries {_gbps(line)} of frames at {size} B")
    trials: list[Trial] = []

    def steps() -> Steps:
        for rate in rates:
            trials.append((yield from _ask(tell, size, rate, _microseconds(size, rate, request.queues))))

    in_one_boot(request, [size], steps())
    return trials


def latencies(trials: Sequence[Trial], best: Trial) -> RenderableType:
    """Return latency by load as a table."""
    title = f"latency of {best.size} B packets at fractions of {_gbps(best.offered)}, ns"
    t = plain(title)
    keys = ("mean", "deviation", "median", "p90", "p99", "p999", "p9999", "max")
    for name in ("load", "offered", *keys):
        t.add_column(name, justify="right")
    for trial in trials:
        values = [f"{trial.latency[key]:.0f}" if trial.latency else "" for key in keys]
        t.add_row(f"{100 * trial.offered / best.offered:.0f} %", _gbps(trial.offered), *values)
    return t


def table(found: Sequence[Found], threshold: float) -> RenderableType:
    """Return the results as a table."""
    t = plain(f"maximum sustainable bandwidth, loss of at most {100 * threshold:g} %")
    for name in ("size", "MSB", "Mpps", "loss there", "lossy from", "loss there", "trials"):
        t.add_column(name, justify="right")
    t.add_column("lost as")
    for f in found:
        if f.best is None:
            t.add_row(f"{f.size} B", "none", "", "", "", "", str(len(f.trials)), f.trials[-1].classes)
            continue
        best = f.best
        bound = ("the line", "") if f.bound is None else (_gbps(f.bound.offered), f"{100 * f.bound.loss:.2f} %")
        classes = f.bound.classes if f.bound else ""
        mpps = f"{best.offered / 8 / f.size / 1e6:.2f}"
        loss = f"{100 * best.loss:.2f} %"
        t.add_row(f"{f.size} B", _gbps(best.offered), mpps, loss, *bound, str(len(f.trials)), classes)
    return t


def _gbps(bits: float) -> str:
    return f"{bits / 1e9:.2f} Gb/s"


def line_of(t: Trial) -> str:
    """Return a trial as one line of progress."""
    return (
        f"{t.size:5d} B  {_gbps(t.offered):>12} offered  {_gbps(t.forwarded):>12} forwarded  "
        f"loss {100 * t.loss:6.2f} %  {t.concluded}"
    )


def sizes_of(text: str) -> Iterator[int]:
    """Yield the packet sizes of a comma-separated list."""
    for part in text.split(","):
        s = load.sizes(part)
        if s["kind"] != "fixed":
            raise WiretimeError(f"--packet-sizes {text}: must be sizes, such as 64,1518")
        yield s["size"]


STEPS_MAX = 1000


def rates(first: str, last: str, steps: int) -> list[float]:
    """Return ``steps`` rates from ``first`` to ``last``."""
    ends = []
    for option, text in (("--from", first), ("--to", last)):
        try:
            ends.append(float(_native.parse_rate(text)))
        except ValueError as e:
            raise WiretimeError(f"{option}: {e}") from None
    if not 2 <= steps <= STEPS_MAX:
        raise WiretimeError(f"--steps {steps}: allowed are 2 to {STEPS_MAX}")
    return [ends[0] + (ends[1] - ends[0]) * i / (steps - 1) for i in range(steps)]


def curve(trials: Sequence[Trial]) -> RenderableType:
    """Return bandwidth against loss as a table; says where loss falls although the load grows."""
    t = plain(f"{trials[0].size} B packets")
    for name in ("offered", "forwarded", "loss", "median latency"):
        t.add_column(name, justify="right")
    t.add_column("lost as")
    t.add_column("")
    for before, trial in zip((None, *trials), trials, strict=False):
        median = f"{trial.latency['median']:.0f} ns" if trial.latency else ""
        falls = before is not None and trial.offered > before.offered and trial.loss < before.loss - WIDTH
        note = "less loss than at the rate before" if falls else ""
        loss = f"{100 * trial.loss:.2f} %"
        t.add_row(_gbps(trial.offered), _gbps(trial.forwarded), loss, median, trial.classes, note)
    return t
