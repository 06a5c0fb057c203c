"""Several loss ratios at once: the Multiple Loss Ratio search of FD.io (the MLRsearch package), over our trials.

Goals are that package's: NDR allows no loss, PDR half a percent; at a load's final trials, half of the time may
exceed the ratio. A second of its trials is a number of ring turnovers here, and each trial is concluded as in
``trials``: from what an overload has left, so that rings and FIFO hide nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from typing import Any

from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from wiretime.errors import WiretimeError
from wiretime.search.maximum import FIRST_US
from wiretime.search.ratios import Goal, Ratios
from wiretime.search.trials import SHORTEST_US, Asked, Length, Tell, Trial, ask

# Relative width of the final bracket; a goal's trials: the first ones, the last ones, their sum (in whole trials).
WIDTH, INITIAL, FINAL, SUM = 0.005, 0.25, 1.0, 5.0
EXCEED = 0.5
# The package's own limit is in host time: it would make results depend on the host.
NO_LIMIT_S = 1e9
# Loads below this share of the line count as none.
LOWEST = 1e-4


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    """Hands the search's trials over to whoever runs them, and its results back."""

    def __init__(self) -> None:
        self.asked: queue.Queue[tuple[float, float] | None] = queue.Queue()
        self.answers: queue.Queue[MeasurementResult | None] = queue.Queue()

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Have a trial run."""
        self.asked.put((intended_duration, intended_load))
        answer = self.answers.get()
        if answer is None:
            raise EOFError("no more trials")
        return answer


def _goal(ratio: float) -> SearchGoal:
    return SearchGoal(
        loss_ratio=ratio,
        exceed_ratio=EXCEED,
        relative_width=WIDTH,
        initial_trial_duration=INITIAL,
        final_trial_duration=FINAL,
        duration_sum=SUM,
        preceding_targets=2,
        expansion_coefficient=4,
        fail_fast=False,
    )


def _dialogue(measurer: _Measurer, config: Config, results: list[Any]) -> None:
    """Search, in a thread of its own."""
    try:
        results.append(MultipleLossRatioSearch(config=config).search(measurer=measurer, debug=lambda _: None))
    except Exception as e:
        results.append(e)
    finally:
        measurer.asked.put(None)


def find(
    size: int, highest: float, goals: dict[str, float], tell: Tell, trial_length: Length
) -> Generator[Asked, dict[str, Any], Ratios]:
    """Ask for the trials that the search wants for one packet size."""
    trials: list[Trial] = []
    overload = yield from ask(tell, size, highest, FIRST_US)
    second_us = trial_length.microseconds(size, overload.forwarded)
    bits = size * 8
    config = Config()
    config.goals = [_goal(ratio) for ratio in goals.values()]
    # In this order: each is checked against the other.
    config.min_load = highest / bits * LOWEST
    config.max_load = highest / bits
    config.search_duration_max = NO_LIMIT_S
    config.warmup_duration = FINAL
    measurer = _Measurer()
    results: list[Any] = []
    thread = threading.Thread(target=_dialogue, args=(measurer, config, results), daemon=True)
    thread.start()
    try:
        while (asked := measurer.asked.get()) is not None:
            seconds, packets = asked
            microseconds = max(second_us * seconds, SHORTEST_US)
            rate = min(int(packets * bits), int(highest))
            trial = yield from ask(tell, size, rate, microseconds, settle_us=second_us * INITIAL / 2)
            trials.append(trial)
            offered = max(1, round(rate / bits * microseconds / 1e6))
            # Loss that is no whole packet of so short a trial is loss all the same.
            lost = max(1, round(trial.loss * offered)) if trial.loss > 0 else 0
            measurer.answers.put(MeasurementResult(seconds, packets, offered_count=offered, loss_count=lost))
    finally:
        measurer.answers.put(None)
        thread.join()
    (found,) = results
    if isinstance(found, Exception):
        raise WiretimeError(f"the search has no answer at {size} B: {found}")

    def load(bound: Any) -> float | None:
        return None if bound is None else float(bound) * bits

    answers = []
    for (name, _), goal in zip(goals.items(), config.goals, strict=True):
        r = found[goal]
        bounds = (load(r.relevant_lower_bound), load(r.relevant_upper_bound))
        answers.append(Goal(name, *bounds, load(r.conditional_throughput)))
    return Ratios(size, answers, trials)
