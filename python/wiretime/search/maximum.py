"""The maximum sustainable bandwidth (MSB): the highest load whose loss is at most a threshold.

For each packet size: overload first; the rate that is forwarded under that backlog is the centre of the bracket,
which is then bisected, every trial from the backlog that the overload has left (see ``trials``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from wiretime import runs, vm
from wiretime.errors import WiretimeError
from wiretime.search.boot import for_each_size
from wiretime.search.trials import Asked, Asking, Length, Tell, Trial, ask

# The first trial of a size does not know its rate yet.
FIRST_US = 400
# An overload beyond this many times what is forwarded shows nothing more, and takes long.
OVERLOAD = 8
# A program that does not forward this much forwards nothing.
LOWEST = 1e6
# Relative width of a bracket that is narrow enough.
WIDTH = 0.005
# From this distance on a search that has lost everywhere halves the load.
HALF = 0.5
TRIALS_MAX = 40
# Where the curve is measured besides: shares of the best load.
CURVE = (2.0, 1.4, 1.2, 1.1, 1.05, 0.9, 0.6, 0.3)
SEEDS_MAX = 1000


@dataclass(frozen=True)
class Found:
    """The result for a packet size: the best load, the lowest lossy one above it, or the line; trials around it."""

    size: int
    trials: Sequence[Trial]
    best: Trial | None
    bound: Trial | None
    line: bool
    around: Sequence[Trial] = ()

    @property
    def wide(self) -> bool:
        """Whether the search ended, after all the trials it may make, before the bracket was narrow."""
        best, bound = self.best, self.bound
        return best is not None and bound is not None and bound.offered - best.offered > WIDTH * bound.offered


def find(
    size: int, highest: float, threshold: float, tell: Tell, trial_length: Length
) -> Generator[Asked, dict[str, Any], Found]:
    """Ask for the trials that find the MSB of one size; ``highest`` is what the line carries."""
    trials: list[Trial] = []

    def one(rate: float, microseconds: float, mixed: bool = False) -> Asking:
        trial = yield from ask(tell, size, rate, microseconds, mixed=mixed)
        trials.append(trial)
        return trial

    # These only find a centre: that packets of the load before may be among theirs does no harm.
    overload = yield from one(highest, FIRST_US, mixed=True)
    load = min(highest, max(OVERLOAD * overload.forwarded, LOWEST))
    overload = yield from one(load, trial_length.microseconds(size, overload.forwarded), mixed=True)
    while overload.loss <= threshold and load < highest:
        # Nothing had come back so soon.
        load = min(highest, OVERLOAD * load)
        overload = yield from one(load, trial_length.microseconds(size, overload.forwarded), mixed=True)
    if overload.loss <= threshold:
        return Found(size, trials, overload, None, True)
    low: Trial | None = None
    high = overload
    centre = min(overload.forwarded / (1 - threshold), highest)
    rate = centre * (1 - WIDTH / 2)
    step = WIDTH
    while len(trials) < TRIALS_MAX and rate >= LOWEST:
        through = overload.forwarded if rate > HALF * overload.forwarded else rate
        trial = yield from one(rate, trial_length.microseconds(size, through))
        if trial.loss <= threshold:
            low = trial
        else:
            high = trial
        while low is not None and low.offered >= high.offered and len(trials) < TRIALS_MAX:
            # What seemed an overload lost what the one before had left: a real one has to be found.
            load = min(highest, OVERLOAD * low.offered)
            trial = yield from one(load, trial_length.microseconds(size, low.forwarded))
            if trial.loss > threshold:
                high = overload = trial
            elif load >= highest:
                return Found(size, trials, trial, None, True)
            else:
                low = trial
        if low is None:
            # Far below, shares of what was forwarded under overload lead nowhere: one queue of many may take it all.
            rate = centre * (1 - step) if step < HALF else trial.offered / 2
            step *= 2
        elif (high.offered - low.offered) / high.offered <= WIDTH:
            if high is not overload:
                break
            # It was the first of its load, and may have lost what the one before had left.
            rate = high.offered
        elif high is overload:
            rate = min(low.offered * (1 + step), highest)
            step *= 2
        else:
            rate = (low.offered + high.offered) / 2
    return Found(size, trials, low, high, False)


def curve(
    found: Found, highest: float, tell: Tell, trial_length: Length
) -> Generator[Asked, dict[str, Any], list[Trial]]:
    """Ask for trials around the best load, heaviest first: from the backlog of the one before, as in the search."""
    trials: list[Trial] = []
    if found.best is None:
        return trials
    best = found.best
    for part in CURVE:
        rate = best.offered * part
        if rate < highest:
            microseconds = trial_length.microseconds(found.size, min(rate, best.offered))
            # Below the best load what is left of the backlog has to go first.
            settle = None if part > 1 else microseconds
            trials.append((yield from ask(tell, found.size, rate, microseconds, settle)))
    return trials


def share(percent: float) -> float:
    """Return a loss in percent as a share, checked."""
    if not 0 <= percent < 100:
        raise WiretimeError(f"--loss {percent:g}: allowed are 0 to below 100 %")
    return percent / 100


def msb(request: runs.Request, sizes: Sequence[int], threshold: float, tell: Tell, factor: float = 1.0) -> list[Found]:
    """Find the MSB of every size in one boot."""

    def search(size: int, highest: float, trial_length: Length) -> Generator[Asked, dict[str, Any], Found]:
        found = yield from find(size, highest, threshold, tell, trial_length)
        around = yield from curve(found, highest, tell, trial_length)
        return replace(found, around=around)

    return for_each_size(request, sizes, factor, search)


@dataclass(frozen=True)
class Spread:
    """The MSB of a packet size over several seeds, in bits a second."""

    size: int
    values: Sequence[float]

    @property
    def mean(self) -> float:
        """The mean."""
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        """The standard deviation of one seed's value; 0 of one seed."""
        return stdev(self.values) if len(self.values) > 1 else 0.0


def over_seeds(
    request: runs.Request,
    sizes: Sequence[int],
    threshold: float,
    seeds: int,
    tell: Callable[[int], Tell],
    factor: float = 1.0,
) -> tuple[list[list[Found]], list[Spread]]:
    """Find the MSB with so many seeds, one boot each, on all of the host's cores; ``tell`` is chosen by seed."""
    if not 1 <= seeds <= SEEDS_MAX:
        raise WiretimeError(f"--seeds {seeds}: allowed are 1 to {SEEDS_MAX}")
    requests = [replace(request, seed=request.seed + i) for i in range(seeds)]
    if seeds == 1:
        runs = [msb(request, sizes, threshold, tell(request.seed), factor)]
    else:
        runs = list(vm.at_once(lambda r: msb(r, sizes, threshold, tell(r.seed), factor), requests))
    spreads = []
    for i, size in enumerate(sizes):
        values = [one[i].best.offered for one in runs if one[i].best is not None]  # type: ignore[union-attr]
        if values:
            spreads.append(Spread(size, values))
    return runs, spreads
