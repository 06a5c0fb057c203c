"""A trial: one load, and what it showed.

A trial that starts with rings full of an overload's packets is conclusive: while a backlog lasts, the program gets as
much as it takes, so what is forwarded in a window against what is offered in it is the loss of a load of any length;
rings and FIFO hide nothing. Where nothing is refused, the slope of the backlog decides: one that grows is loss, one
that falls or stays is none. Each trial lasts many turnovers of the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, linear_regression
from typing import Any

from wiretime.apps.model import ANSWERS, CONSUMES, FORWARDS

# Turnovers of the receive ring: to settle under a new load, and to measure.
SETTLE, MEASURE = 2, 20
SHORTEST_US, LONGEST_US = 60, 20_000
# Packets that wait at any time in a run without backlog: a few bursts.
FEW = 160
# A slope counts when it is so many standard errors, so large a share of what arrives, and a burst in all.
CERTAIN, GROWTH, BURST = 1.96, 0.001, 32
# How far what is sent may differ in length from what is offered: beyond, it is an earlier load, or, where it stays the
# same for so many trials, a program that changes lengths. How often to wait.
MIXED, STEADY, SAME, WAITS_MAX = 0.01, 0.001, 20, 50
# Answers that a window may miss, since those to its last requests come later.
UNANSWERED = 0.005
# What earlier loads have left goes under so small a share of a load, in steps of so long; so many at most.
DRAIN_SHARE, DRAIN_US, DRAINS_MAX = 0.01, 5000, 100
CLASSES = {"dma_drop": "DmaDrop", "core_drop": "CoreDrop", "tx_drop": "TxDrop", "host_drop": "HostDrop"}


@dataclass(frozen=True)
class Trial:
    """One load: bits a second of each port, offered and forwarded; loss as a share, how it was concluded, drops."""

    size: int
    offered: float
    forwarded: float
    packets: float
    loss: float
    concluded: str
    classes: str
    latency: dict[str, float] | None = None
    # Packets by class of drop.
    drops: Mapping[str, int] = field(default_factory=dict)
    # Bytes of a packet sent, and whether that is another length than this load's.
    sent_length: float = 0.0
    mixed: bool = False
    ports: int = 1


# What is asked of the engine; the trials of a search as a dialogue.
Asked = dict[str, Any]
Steps = Generator[Asked, dict[str, Any], None]
Tell = Callable[[Trial], None]
Asking = Generator[Asked, dict[str, Any], Trial]


def silent(_: Trial) -> None:
    """Hear of a trial and say nothing."""


@dataclass(frozen=True)
class Length:
    """How long trials are: packets of one ring turnover, times ``factor``."""

    packets: int
    factor: float = 1.0

    def microseconds(self, size: int, rate: float) -> float:
        """Return how long so many turnovers of the rings take at a rate, as far as a trial may last."""
        microseconds = self.factor * MEASURE * self.packets * size * 8 / max(rate, 1.0) * 1e6
        return min(max(microseconds, SHORTEST_US), LONGEST_US * max(1.0, self.factor))


def full(result: dict[str, Any]) -> bool:
    """Whether a NIC refused a packet, or a queue had no buffer for one."""
    receive = result["statistics"]["receive"]
    refused: int = receive["refused"] + receive["out_of_buffer"]
    return refused > 0


def waiting(result: Mapping[str, Any], size: float) -> list[float]:
    """Return how many packets wait, in RX FIFOs and rings, over the trial."""
    found = result["occupancy"]
    fifo, ring = (found["columns"].index(name) for name in ("rx_fifo_bytes", "rx_ring_waiting"))
    return [sum(row[fifo] / size + row[ring] for row in rows) for rows in zip(*found["ports"], strict=True)]


def growing(result: Mapping[str, Any], size: float) -> tuple[float, float]:
    """Return the packets that wait at the end, and how many more they become a second: 0 where that is not certain.

    Certain is a slope beyond 1.96 standard errors, over the second half of the trial: a backlog that builds up to a
    level at which the program takes larger bursts is not loss.
    """
    found = result["occupancy"]
    all_of_it = waiting(result, size)
    later = all_of_it[len(all_of_it) // 2 :]
    if len(later) < 3:
        return (all_of_it[-1] if all_of_it else 0.0), 0.0
    times = [i * found["interval_ns"] / 1e9 for i in range(len(later))]
    slope, start = linear_regression(times, later)
    rest = sum((y - start - slope * x) ** 2 for x, y in zip(times, later, strict=True))
    spread = sum((x - fmean(times)) ** 2 for x in times)
    error = sqrt(rest / (len(later) - 2) / spread)
    certain = slope > CERTAIN * error and slope * times[-1] >= BURST * len(found["ports"])
    return fmean(all_of_it[-10:]), slope if certain else 0.0


def backlog(result: Mapping[str, Any]) -> float:
    """Return the share of what a run was offered that only rings took in: a backlog that grows, where that is certain.

    It is no loss of the run's, and would be one of a load without end.
    """
    if not (offered := result["offered_mpps"] * 1e6):
        return 0.0
    _, growth = growing(result, result["offered_gbps"] * 1e9 / 8 / offered)
    return growth / offered if growth > GROWTH * offered else 0.0


def read(size: int, rate: float, result: dict[str, Any], own_length: bool = False) -> Trial:
    """Read a trial off the engine's result; ``rate`` is offered to each port.

    Packets of another length are an earlier load's, of which no more than their bytes counts, unless it is known that
    the program sends such.
    """
    s = result["statistics"]
    ports = len(result["ports"])
    seconds = s["time_ps"] / 1e12
    # What is taken, where nothing is sent. Packets are counted; answers, however long they are.
    role = result.get("role", FORWARDS)
    through = s["receive"]["delivered"] if role == CONSUMES else s["transmit"]["frames"]
    sent_length = s["transmit"]["bytes"] / max(s["transmit"]["frames"], 1) if role == FORWARDS and through else size
    mixed = abs(sent_length - size) > MIXED * size
    forwarded = through * (size if own_length else min(size, sent_length)) * 8 / seconds / ports
    packets = through / seconds / ports
    left, growth = growing(result, size)
    refused = full(result)
    counts = {key: sum(port["cohort"][key] for port in result["ports"]) for key in CLASSES}
    thrown = counts["host_drop"] > 0
    arrivals = ports * rate / 8 / size
    offered, lost = float(rate), 0.0
    # Arrivals by chance, or in bursts, are more or fewer in a window than the rate has. Whether they keep coming faster
    # than they are taken a backlog from before does not tell, so that all that was lost counts. (Of the cohort those
    # that have come by the end: a long wire has the others. What came in the window are others as well.)
    if result.get("chance") and (came := s["receive"]["frames"]):
        offered = came * size * 8 / seconds / ports
        lost = sum(counts.values()) / max(sum(port["cohort"]["offered"] for port in result["ports"]), 1)
    unanswered = 1 - forwarded / offered if role == ANSWERS else 0.0
    if unanswered > UNANSWERED and not refused:
        loss, concluded = unanswered, "the program drops"
    elif refused or thrown:
        loss, concluded = max(lost, 1 - forwarded / offered), "full" if refused else "the program drops"
    elif growth > GROWTH * arrivals:
        loss, concluded = growth / arrivals, "backlog grows"
    else:
        loss, concluded = 0.0, "backlog falls or stays" if left > FEW * ports else "no backlog"
    # What the NIC's filters did not take, such as frames that are too long for it, has not come through either.
    sent, filtered = (sum(port["cohort"][key] for port in result["ports"]) for key in ("offered", "filtered"))
    if filtered and filtered > loss * sent:
        loss, concluded = filtered / sent, "the NIC's filters drop"
    names = [name for key, name in CLASSES.items() if counts[key]]
    if role == ANSWERS and loss > 0 and unanswered > UNANSWERED and not refused:
        names.append("unanswered")
    classes = ", ".join(names)
    latency = result["latency_ns"]
    return Trial(size, rate, forwarded, packets, loss, concluded, classes, latency, counts, sent_length, mixed, ports)


def drain(size: int, rate: float) -> Steps:
    """Offer hardly anything of a rate until what earlier loads have left in rings and FIFOs is gone."""
    for _ in range(DRAINS_MAX):
        result = yield {
            "size": size,
            "rate": f"{max(int(rate * DRAIN_SHARE), 1)}bps",
            "arrivals": {"kind": "constant"},
            "idle": "0ns",
            "warm_up": "0ns",
            "duration": f"{DRAIN_US}us",
            "follow": "0ns",
        }
        if all(left <= FEW * len(result["ports"]) for left in waiting(result, size)[-1:]):
            return


def ask(
    tell: Tell,
    size: int,
    rate: float,
    microseconds: float,
    settle_us: float | None = None,
    follow: str = "0ns",
    mixed: bool = False,
    idle: str = "0ns",
) -> Asking:
    """Ask for a trial of a constant rate and read it; again while it forwards an earlier load, unless that may be."""
    measure = max(microseconds, SHORTEST_US)
    settle = measure * SETTLE / MEASURE if settle_us is None else settle_us
    before, same = 0.0, 0
    for _ in range(WAITS_MAX):
        result = yield {
            "size": size,
            "rate": f"{int(rate)}bps",
            "idle": idle,
            "warm_up": f"{int(settle * 1000)}ns",
            "duration": f"{int(measure * 1000)}ns",
            "follow": follow,
        }
        trial = read(size, int(rate), result)
        same = same + 1 if abs(trial.sent_length - before) <= STEADY * before else 0
        if mixed or not trial.mixed:
            break
        if same == SAME:
            trial = read(size, int(rate), result, own_length=True)
            break
        before = trial.sent_length
    tell(trial)
    return trial
