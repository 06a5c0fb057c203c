"""The benchmarks of RFC 2544: throughput, latency, frame loss rate, back-to-back frames, system recovery.

Trials last many ring turnovers instead of that document's 60 s (see ``trials`` why that is enough), and are not
repeated: the simulator gives the same answer every time.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from wiretime import runs
from wiretime.apps.model import CONSUMES
from wiretime.search.boot import for_each_size
from wiretime.search.maximum import Found, find
from wiretime.search.trials import CLASSES, FEW, Asked, Length, Tell, Trial, ask, drain, full, waiting

# Frame loss is measured at these shares of the line, until two in a row lose nothing (section 26.3).
LOSS_STEPS = tuple(i / 10 for i in range(10, 0, -1))
# Bursts: the first length tried, and the one at which the line itself is sustained.
BURST_FIRST, BURST_MAX = 64, 1 << 20
# An overload is 110 % of the throughput, or the line; recovery is measured at half of it (section 26.5).
OVERLOAD, HALF = 1.1, 0.5
IDLE = "2ms"
# How long a burst is followed, where it takes no longer than that to be forwarded.
FOLLOW_US, SLACK = 20_000.0, 1.5
# Overloads, each of some ring turnovers, until something is lost: a FIFO may hold many rings.
FILLING_MAX = 200


@dataclass(frozen=True)
class Benchmarks:
    """What the tests found for a packet size; ``None`` where no load overloads the device."""

    size: int
    throughput: Found
    latency: dict[str, float] | None
    loss: Sequence[Trial]
    # Frames of the longest burst at the line's rate without loss; 0 where there is no throughput.
    back_to_back: int | None
    # From the end of an overload to the last frame lost, in ns; and until no backlog is left.
    recovery_ns: float | None
    drained_ns: float | None


def _burst(size: int, rate: float, packets: int, forwards: float) -> Generator[Asked, dict[str, Any], bool]:
    """Send a burst after a pause; whether nothing of it is lost."""
    follow_us = max(FOLLOW_US, SLACK * packets * size * 8 / forwards * 1e6)
    result = yield {
        "size": size,
        "rate": f"{int(rate)}bps",
        "packets": packets,
        "idle": IDLE,
        "warm_up": "0ns",
        "duration": f"{int(packets * size * 8 / rate * 1e9) + 1000}ns",
        "follow": f"{int(follow_us)}us",
    }
    counts = [port["cohort"] for port in result["ports"]]
    if result.get("role") == CONSUMES:
        lost = (*CLASSES, "filtered", "lost_in_reset")
        return all(c["offered"] > 0 and not any(c[name] for name in lost) for c in counts)
    return all(c["forwarded"] == c["offered"] > 0 for c in counts)


def back_to_back(size: int, rate: float, forwards: float) -> Generator[Asked, dict[str, Any], int | None]:
    """Find the longest burst that is forwarded whole; ``None`` where even the longest tried is.

    Bursts come at ``rate``, and ``forwards`` bits a second are forwarded.
    """
    yield from drain(size, forwards)
    low, high = 0, BURST_FIRST
    while (yield from _burst(size, rate, high, forwards)):
        low, high = high, 2 * high
        if high > BURST_MAX:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if (yield from _burst(size, rate, middle, forwards)):
            low = middle
        else:
            high = middle
    return low


def recovery(
    size: int, overload: float, half: float, trial_length: Length
) -> Generator[Asked, dict[str, Any], tuple[float | None, float | None]]:
    """Overload until frames are lost and halve the load.

    Returns when the last frame after that was lost, and when the backlog was gone, in ns; nothing where no overload
    loses any.
    """
    asked = {"size": size, "idle": "0ns", "follow": "0ns"}
    microseconds = int(trial_length.microseconds(size, overload))
    for _ in range(FILLING_MAX):
        if full((yield {**asked, "rate": f"{int(overload)}bps", "warm_up": "0ns", "duration": f"{microseconds}us"})):
            break
    else:
        return None, None
    # From when it reaches the device, however long the wire.
    result = yield {**asked, "rate": f"{int(half)}bps", "warm_up": "1ns", "duration": f"{microseconds}us"}
    step = result["occupancy"]["interval_ns"]
    left = waiting(result, size)
    drained = next((i * step for i, n in enumerate(left) if n <= FEW * len(result["ports"])), None)
    return max(port["last_drop_ns"] or 0.0 for port in result["ports"]), drained


def _one(size: int, highest: float, tell: Tell, trial_length: Length) -> Generator[Asked, dict[str, Any], Benchmarks]:
    found = yield from find(size, highest, 0.0, tell, trial_length)
    best = found.best
    latency = None
    if best is not None:
        microseconds = trial_length.microseconds(size, best.offered)
        # Of a fresh load: the search has left full rings.
        yield from drain(size, best.offered)
        at_throughput = yield from ask(tell, size, best.offered, microseconds, follow="5ms", idle=IDLE)
        latency = at_throughput.latency
    losses: list[Trial] = []
    for fraction in LOSS_STEPS:
        rate = highest * fraction
        losses.append((yield from ask(tell, size, rate, trial_length.microseconds(size, rate))))
        if all(trial.loss == 0 for trial in losses[-2:]) and len(losses) > 1:
            break
    if best is None:
        return Benchmarks(size, found, None, losses, 0, None, None)
    if found.line:
        return Benchmarks(size, found, latency, losses, None, None, None)
    recovered, drained = yield from recovery(
        size, min(best.offered * OVERLOAD, highest), best.offered * HALF, trial_length
    )
    burst = yield from back_to_back(size, highest, best.offered)
    return Benchmarks(size, found, latency, losses, burst, recovered, drained)


def benchmarks(request: runs.Request, sizes: Sequence[int], tell: Tell, factor: float = 1.0) -> list[Benchmarks]:
    """Run the tests for every size in one boot."""
    return for_each_size(
        request, sizes, factor, lambda size, highest, trial_length: _one(size, highest, tell, trial_length)
    )
