"""Rows that need no study: micro-benchmarks of hardware, and the cells of the QDMA's tables. Runs what is left of them.

Where places are given, the estimates of their platforms are at those places of their ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from wiretime.estimates import NOWHERE, Places
from wiretime.study import show as progress
from wiretime.validation import hardware, qdma
from wiretime.validation.judge import Verdict


@dataclass(frozen=True)
class Apart:
    """Which of them are wanted, and where they are kept."""

    base: Path
    names: Sequence[str]

    def seconds(self, count: int) -> float:
        """Return how long what is left takes with so many at once."""
        machines = self.machines_left()
        seconds = len(machines) * hardware.GUESS_SECONDS / min(count, max(1, len(machines)))
        return seconds + (qdma.GUESS_SECONDS / count if self.cells_left() else 0.0)

    def machines_left(self, places: Places = NOWHERE) -> list[str]:
        """Return the machines that are not measured yet."""
        return hardware.left(self.base, places) if hardware.NAME in self.names else []

    def cells_left(self, places: Places = NOWHERE) -> bool:
        """Return whether cells are not simulated yet."""
        return qdma.NAME in self.names and qdma.left(self.base, places)

    def parameters(self) -> set[str]:
        """Return the estimates of their platforms, by parameter."""
        return {name for part in (hardware, qdma) if part.NAME in self.names for name in part.parameters()}

    def run(self, notes: Console, jobs: int, places: Places = NOWHERE) -> int:
        """Run what is left; returns how many failed."""
        failed = 0
        if machines := self.machines_left(places):
            with progress.progress(notes) as bar:
                shown = bar.add_task("micro-benchmarks", total=len(machines), left="")
                for machine, reason in hardware.run(self.base, machines, jobs, places):
                    bar.advance(shown)
                    if reason is not None:
                        failed += 1
                        notes.print(f"failed: micro-benchmarks of {machine}: {reason}", markup=False, highlight=False)
        if self.cells_left(places):
            with progress.progress(notes) as bar:
                shown = bar.add_task("cells of the QDMA study", total=qdma.CELLS, left="")
                for _ in qdma.run(self.base, jobs, places):
                    bar.advance(shown)
        return failed

    def verdicts(self, places: Places = NOWHERE) -> list[Verdict]:
        """Return the rows, those that were run with a value."""
        return [v for part in (hardware, qdma) if part.NAME in self.names for v in part.verdicts(self.base, places)]
