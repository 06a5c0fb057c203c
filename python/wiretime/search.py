"""The maximum sustainable bandwidth (MSB): the highest load whose loss is at most a threshold, within one boot.

For each packet size: overload first; the rate that is forwarded under that backlog is the centre of the bracket, which
is then bisected, every trial from the backlog that the overload has left. While a backlog lasts, the program gets as
much as it takes, so what is forwarded in a window against what is offered in it is the loss of a load of any length:
rings and FIFO hide nothing. A trial whose backlog is gone at its end has no loss. Each trial lasts several turnovers of
the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table

import wiretime._native as _native
from wiretime import apps, load, run
from wiretime.errors import WiretimeError

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


@dataclass(frozen=True)
class Found:
    """The result for a packet size."""

    size: int
    trials: Sequence[Trial]
    best: Trial | None
    bound: Trial | None
    line: bool


def _trial(size: int, rate: float, result: dict[str, Any]) -> Trial:
    """Read a trial off the engine's result."""
    s = result["statistics"]
    seconds = s["time_ps"] / 1e12
    forwarded = s["transmit"]["bytes"] * 8 / seconds
    packets = s["transmit"]["frames"] / seconds
    rows = [row for port in result["occupancy"]["ports"] for row in port[-10:]]
    waiting = sum(row[0] / size + row[2] for row in rows) / max(len(rows), 1)
    refused = s["receive"]["refused"] + s["receive"]["out_of_buffer"]
    backlog = waiting > FEW or refused > 0
    loss = max(0.0, 1 - forwarded / rate) if backlog else 0.0
    concluded = "under backlog" if backlog else "backlog gone"
    counts = result["ports"][0]["cohort"]
    classes = ", ".join(name for key, name in CLASSES.items() if counts[key])
    return Trial(size, rate, forwarded, packets, loss, concluded, classes)


Asked = dict[str, Any]
Steps = Generator[Asked, dict[str, Any], None]


class Search:
    """Asks for one trial after the other."""

    def __init__(self, sizes: Sequence[int], line: float, gap: int, threshold: float, tell: Callable[[Trial], None]):
        self.found: list[Found] = []
        self._steps: Steps = self._all(sizes, line, gap, threshold)
        self._tell = tell
        self.first: Asked = next(self._steps)

    def __call__(self, result: dict[str, Any]) -> Asked | None:
        """Take a trial's result; return the next trial, or None at the end."""
        try:
            return self._steps.send(result)
        except StopIteration:
            return None

    def _all(self, sizes: Sequence[int], line: float, gap: int, threshold: float) -> Steps:
        for size in sizes:
            yield from self._one(size, line * size / (size + gap), threshold)

    def _one(self, size: int, highest: float, threshold: float) -> Steps:
        trials: list[Trial] = []

        def ask(rate: float, microseconds: float) -> Generator[Asked, dict[str, Any], Trial]:
            measure = min(max(microseconds, SHORTEST_US), LONGEST_US)
            result = yield {
                "sizes": {"kind": "fixed", "size": size},
                "rate": f"{int(rate)}bps",
                "arrivals": {"kind": "constant"},
                "warm_up": f"{int(measure * 1000 * SETTLE / MEASURE)}ns",
                "duration": f"{int(measure * 1000)}ns",
                "follow": "0ns",
            }
            trial = _trial(size, int(rate), result)
            trials.append(trial)
            self._tell(trial)
            return trial

        overload = yield from ask(highest, FIRST_US)
        overload = yield from ask(highest, self._microseconds(overload))
        if overload.loss <= threshold:
            self.found.append(Found(size, trials, overload, None, True))
            return
        low: Trial | None = None
        high = overload
        centre = min(overload.forwarded / (1 - threshold), highest)
        rate = centre * (1 - WIDTH / 2)
        step = WIDTH
        while len(trials) < TRIALS_MAX and rate >= LOWEST:
            trial = yield from ask(rate, self._microseconds(overload))
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
        self.found.append(Found(size, trials, low, high, False))

    @staticmethod
    def _microseconds(t: Trial) -> float:
        return MEASURE * apps.RING / max(t.packets, 1.0) * 1e6


def msb(request: run.Request, sizes: Sequence[int], threshold: float, tell: Callable[[Trial], None]) -> list[Found]:
    """Find the MSB of every size in one boot."""
    if not 0 <= threshold < 1:
        raise WiretimeError(f"--loss {threshold * 100:g}: allowed are 0 to below 100 %")
    if request.ports not in (None, 1):
        raise WiretimeError(f"--ports {request.ports}: the search takes one port")
    platform, *_ = run.check(replace(request, packet_size=max(sizes)))
    line = _native.parse_rate(platform["link"]["rate"])
    search = Search(sizes, float(line), platform["link"]["gap_bytes"], threshold, tell)
    # The boot's own load is the first trial.
    first = search.first
    start = replace(
        request,
        packet_size=",".join(str(s) for s in (first["sizes"]["size"], max(sizes))) if len(sizes) > 1 else sizes[0],
        rate=first["rate"],
        warm_up=first["warm_up"],
        duration=first["duration"],
        follow="0ns",
    )
    pending = [True]

    def on_trial(result: dict[str, Any]) -> Asked | None:
        # What the boot starts with only wakes the program up; the first trial of the search follows.
        if pending:
            pending.clear()
            return first
        return search(result)

    run.execute(start, on_trial=on_trial)
    return search.found


def table(found: Sequence[Found], threshold: float) -> RenderableType:
    """Return the results as a table."""
    t = Table(
        title=f"maximum sustainable bandwidth, loss of at most {100 * threshold:g} %",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
    )
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
