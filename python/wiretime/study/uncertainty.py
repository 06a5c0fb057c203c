"""What a study's answers hang on: all estimates of its machines varied together, then the strongest one at a time.

All estimates are drawn together, by a Latin hypercube (McKay, Beckman and Conover, 1979): so many samples, each
estimate's range in as many equal parts, one sample in each. What the answer comes to in them is its range. Which
estimates it follows is first told by rank correlation over the samples, of each answer by itself and one estimate after
the other, the effect of those before taken out (matching pursuit), which finds candidates; where software is a model
and points are runs, which take a moment, all are. Then each candidate alone is put to both ends of its range, all else
as the platform has it, and what that changes is what is reported.

A point of a study keeps its place in the tables: only what is set there differs. The same sample has every machine of
a study, so that gains from one machine to another vary as they would.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc, rankdata

from wiretime import estimates, software
from wiretime.errors import WiretimeError
from wiretime.estimates import Estimate, Places
from wiretime.request import Request
from wiretime.study.folder import Study
from wiretime.study.plan import Plan, Point, points, text_of

SAMPLES, SAMPLES_LEAST = 32, 8
# How many estimates are put to the ends of their ranges, found by each answer and in all; how many are told.
CANDIDATES, CANDIDATES_MOST, TOLD = 6, 12, 3
# Of the samples, the share that the range leaves out on each side.
OUTSIDE = 0.05
# Of fewer samples the ends are told: a twentieth of them is hardly one.
FEW = 40
POOL = "../points"
BASE, TOGETHER, ALONE = "base", "sample", "end"


def estimates_of(plan: Plan, source: str) -> dict[str, list[Estimate]]:
    """Return the estimates of a plan's machines, by parameter: those of several machines together."""
    found: dict[str, dict[Estimate, None]] = {}
    for point in points(plan, source):
        for estimate in estimates.of(point.request()):
            found.setdefault(estimate.parameter, {})[estimate] = None
    return {name: list(found[name]) for name in sorted(found)}


def drawn(names: Sequence[str], count: int, seed: int) -> list[Places]:
    """Return the samples: a place in its range for every estimate."""
    if count < SAMPLES_LEAST:
        raise WiretimeError(f"--samples {count}: at least {SAMPLES_LEAST}")
    if not names:
        return []
    cube = qmc.LatinHypercube(len(names), rng=seed).random(count)
    return [dict(zip(names, map(float, row), strict=True)) for row in cube]


def _changed(request: Request, places: Places) -> dict[str, estimates.Value]:
    return {e.parameter: e.at(places[e.parameter]) for e in estimates.of(request) if e.parameter in places}


def moved(request: Request, places: Places) -> Request:
    """Return a request with the estimates of its machine at other places of their ranges."""
    changes = (f"{name}={text_of(value)}" for name, value in _changed(request, places).items())
    return dataclasses.replace(request, changes=(*request.changes, *changes))


def varied(point: Point, places: Places) -> Point:
    """Return a point with the estimates of its machine at other places of their ranges."""
    request = point.request()
    changed = _changed(request, places)
    # Its boot is of no use to any other.
    once = {"boot": True} if request.engine == software.FULL else {}
    return dataclasses.replace(point, settings={**point.settings, **changed, **once})


def sampled(study: Study, places: Places, folder: Path, pool: str) -> Study:
    """Return a study with the estimates of all its machines at other places of their ranges."""
    return Study(study.plan, study.source, folder, pool, lambda point: varied(point, places))


def at_end(point: Point, parameter: str, end: int) -> Point:
    """Return a point with one estimate of its machine at an end of its range."""
    changed = {e.parameter: e.ends[end] for e in estimates.of(point.request()) if e.parameter == parameter}
    return dataclasses.replace(point, settings={**point.settings, **changed})


def _ranks(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ranks down each column, about their mean."""
    ranks: NDArray[np.float64] = rankdata(columns, axis=0)
    centred: NDArray[np.float64] = ranks - ranks.mean(axis=0)
    return centred


def followed(places: Sequence[Sequence[float]], answers: Sequence[float]) -> list[tuple[int, float]]:
    """Return the columns of the samples that answers follow, strongest first, each with how much of them it tells.

    By ranks, one column after the other: of what the ones before it leave unexplained (orthogonal matching pursuit).
    """
    x, y = _ranks(np.array(places, dtype=float)), _ranks(np.array(answers, dtype=float))
    lengths = np.linalg.norm(x, axis=0)
    # What stays as it is tells nothing.
    lengths[lengths == 0] = np.inf
    columns: list[int] = []
    shares: list[float] = []
    rest, whole = y, np.linalg.norm(y)
    while whole and len(columns) < min(CANDIDATES, x.shape[1]):
        fit = np.abs(x.T @ rest) / lengths
        fit[columns] = 0
        best = int(fit.argmax())
        if fit[best] <= 0:
            break
        columns.append(best)
        shares.append(float(fit[best] / whole))
        rest = y - x[:, columns] @ np.linalg.lstsq(x[:, columns], y, rcond=None)[0]
    return list(zip(columns, shares, strict=True))


@dataclass(frozen=True)
class Swing:
    """What an answer comes to with one estimate at its two ends."""

    parameter: str
    value: estimates.Value
    ends: tuple[estimates.Value, estimates.Value]
    answers: tuple[float | None, float | None]
    why: str

    def change(self, answer: float) -> float:
        """Return how far it moves the answer, the larger of both ways."""
        return max((abs(a - answer) for a in self.answers if a is not None), default=0.0)


@dataclass(frozen=True)
class Answer:
    """A metric at a point: as the platform has it, its range over the samples, and what it hangs on most."""

    place: str
    metric: str
    value: float
    low: float
    high: float
    samples: int
    swings: Sequence[Swing]


def _number(row: Mapping[str, object], metric: str) -> float | None:
    value = row.get(metric)
    return float(value) if isinstance(value, int | float) else None


def _rows(study: Study, metric: str) -> list[float | None]:
    return [_number(task.row, metric) if task.finished else None for task in study.tasks]


class Uncertainty:
    """The studies that tell how uncertain another's answers are: as it is, with samples, with one estimate alone."""

    def __init__(self, plan: Plan, source: str, folder: Path, count: int = SAMPLES, seed: int = 1):
        self.plan, self.source, self.folder = plan, source, folder
        self.known = estimates_of(plan, source)
        if not self.known:
            raise WiretimeError(f"{source}: its machines have no estimates")
        self.samples = drawn(list(self.known), count, seed)
        self.base = Study(plan, source, folder / BASE, POOL)
        self.together = [self._varied(n, places) for n, places in enumerate(self.samples)]

    def _varied(self, n: int, places: Places) -> Study:
        folder = self.folder / f"{TOGETHER}-{n:03}"
        return sampled(self.base, places, folder, POOL)

    def _enough(self, there: Sized) -> bool:
        """Return whether most samples are there: of fewer no range is known; an answer says how many there are."""
        return 2 * len(there) > len(self.together)

    @cached_property
    def cheap(self) -> bool:
        """Whether a point takes so little that every estimate is put to its ends."""
        tasks = self.base.tasks
        return all(t.point.about.measure == "run" and t.point.request().engine == software.PACKET for t in tasks)

    def candidates(self) -> list[str]:
        """Return the estimates that some answer follows most, over the samples: all of them, where points are cheap."""
        if self.cheap:
            return list(self.known)
        strength = dict.fromkeys(self.known, 0.0)
        machines = [{e.parameter for e in estimates.of(task.point.request())} for task in self.base.tasks]
        for metric in self.plan.metrics:
            columns = [_rows(study, metric) for study in self.together]
            # Of one machine with another's estimates only chance would tell.
            for mine, answers in zip(machines, zip(*columns, strict=True), strict=True):
                there = [(places, a) for places, a in zip(self.samples, answers, strict=True) if a is not None]
                values = [a for _, a in there]
                if not self._enough(there) or len(set(values)) == 1:
                    continue
                names = sorted(mine)
                for name, share in followed([[places[name] for name in names] for places, _ in there], values):
                    strength[names[name]] = max(strength[names[name]], share)
        ranked = sorted(strength, key=lambda name: (-strength[name], name))
        return [name for name in ranked[:CANDIDATES_MOST] if strength[name] > 0]

    @property
    def alone_most(self) -> int:
        """How many points with one estimate at an end there may be: which estimates those are, only the samples say."""
        names = len(self.known) if self.cheap else min(CANDIDATES_MOST, len(self.known))
        return 2 * names * len(self.base.tasks)

    def alone(self, names: Sequence[str]) -> dict[tuple[str, int], Study]:
        """Return the studies with one estimate at an end, by its name and which end."""
        return {(name, end): self._alone(name, end) for name, end in itertools.product(names, (0, 1))}

    def _alone(self, name: str, end: int) -> Study:
        folder = self.folder / f"{ALONE}-{name}-{'high' if end else 'low'}"
        return Study(self.plan, self.source, folder, POOL, lambda point: at_end(point, name, end))

    def answers(self, alone: Mapping[tuple[str, int], Study]) -> Iterator[Answer]:
        """Yield every metric at every point that has a value."""
        for metric in self.plan.metrics:
            columns = [_rows(study, metric) for study in self.together]
            for n, (task, value) in enumerate(zip(self.base.tasks, _rows(self.base, metric), strict=True)):
                found = sorted(a for a in (column[n] for column in columns) if a is not None)
                if value is None or not self._enough(found):
                    continue
                swings = [self._swing(task.point, name, n, metric, alone) for name in sorted({k for k, _ in alone})]
                # The ends may be more than the samples showed.
                moved = sorted((s for s in swings if s is not None), key=lambda s: (-s.change(value), s.parameter))
                low, high = _range(found)
                yield Answer(task.point.text(), metric, value, low, high, len(found), moved[:TOLD])

    def _swing(
        self, point: Point, name: str, n: int, metric: str, alone: Mapping[tuple[str, int], Study]
    ) -> Swing | None:
        mine = next((e for e in estimates.of(point.request()) if e.parameter == name), None)
        if mine is None:
            return None
        low, high = (_rows(alone[name, end], metric)[n] for end in (0, 1))
        return Swing(name, mine.value, mine.ends, (low, high), mine.rule.why)


def _range(found: Sequence[float]) -> tuple[float, float]:
    """Return the range that all but a share of sorted samples are in."""
    if len(set(found)) == 1:
        return found[0], found[0]
    if len(found) < FEW:
        return found[0], found[-1]
    parts = round(1 / OUTSIDE)
    cuts = statistics.quantiles(found, n=parts, method="inclusive")
    return cuts[0], cuts[-1]
