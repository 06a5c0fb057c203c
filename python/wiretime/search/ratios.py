"""Several loss ratios at once: NDR, which allows no loss, and PDR, which allows half a percent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiretime import runs
from wiretime.search.boot import for_each_size
from wiretime.search.trials import Tell, Trial

NAMED = {"NDR": 0.0, "PDR": 0.005}


@dataclass(frozen=True)
class Goal:
    """The result for a goal: bounds and conditional throughput in bits of frames a second, or ``None``."""

    name: str
    lower: float | None
    upper: float | None
    throughput: float | None


@dataclass(frozen=True)
class Ratios:
    """The results for a packet size."""

    size: int
    goals: Sequence[Goal]
    trials: Sequence[Trial]


def ndr_pdr(request: runs.Request, sizes: Sequence[int], tell: Tell, factor: float = 1.0) -> list[Ratios]:
    """Find NDR and PDR of every size in one boot."""
    from wiretime.search.mlr import find  # whose package takes longer to load than all the rest

    return for_each_size(
        request, sizes, factor, lambda size, highest, trial_length: find(size, highest, NAMED, tell, trial_length)
    )
