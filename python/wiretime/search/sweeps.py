"""Loads one after the other: latency at fractions of the maximum, a ramp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from wiretime import load, runs
from wiretime.errors import WiretimeError
from wiretime.search.boot import in_one_boot, length, line, link
from wiretime.search.maximum import Found, find
from wiretime.search.trials import Steps, Tell, Trial, ask, drain

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
STEPS_MAX = 1000


def latency(
    request: runs.Request, size: int, threshold: float, tell: Tell, factor: float = 1.0
) -> tuple[Found, list[Trial]]:
    """Find the MSB of a size, then measure latency at fractions of it, lowest first, in the same boot."""
    highest, trial_length = line(request, size), length(request, factor)
    results: list[Found] = []
    trials: list[Trial] = []

    def steps() -> Steps:
        found = yield from find(size, highest, threshold, tell, trial_length)
        results.append(found)
        if found.best is None:
            return
        yield from drain(size, found.best.offered)
        for fraction in FRACTIONS:
            rate = found.best.offered * fraction
            trials.append((yield from ask(tell, size, rate, trial_length.microseconds(size, rate), follow="5ms")))

    in_one_boot(request, [size], steps())
    return results[0], trials


def ramp(request: runs.Request, size: int, rates: Sequence[float], tell: Tell, factor: float = 1.0) -> list[Trial]:
    """Offer one rate after the other in one boot."""
    trial_length = length(request, factor)
    trials: list[Trial] = []

    def steps() -> Steps:
        for rate in rates:
            trials.append((yield from ask(tell, size, rate, trial_length.microseconds(size, rate))))

    in_one_boot(request, [size], steps())
    return trials


def rates(request: runs.Request, size: int, first: str, last: str, steps: int) -> list[float]:
    """Return ``steps`` rates from ``first`` to ``last``, each at most what the line carries."""
    if not 2 <= steps <= STEPS_MAX:
        raise WiretimeError(f"--steps {steps}: allowed are 2 to {STEPS_MAX}")
    of, highest = link(replace(request, packet_size=size)), line(request, size)
    ends = []
    for option, text in (("--from", first), ("--to", last)):
        bits = load.rate(option, text, of, Fraction(size))
        if bits > highest:
            raise WiretimeError(f"{option} {text}: the line carries {highest / 1e9:.2f} Gb/s of frames at {size} B")
        ends.append(bits)
    return [ends[0] + (ends[1] - ends[0]) * i / (steps - 1) for i in range(steps)]
