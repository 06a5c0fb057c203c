"""Two runs side by side: what differs between their machines, and what moved."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from wiretime.lab import charts, work
from wiretime.lab.details import GRID, chart, table
from wiretime.models import Report
from wiretime.statistics import Moved, compared


class Comparison:
    """Two runs, picked among those that are finished."""

    def __init__(self, lab: work.Lab):
        self.lab = lab
        self.found: dict[str, work.Under] = {}
        with ui.row().classes("w-full no-wrap gap-4"):
            self.first = self._select("A")
            self.second = self._select("B")
        self.element = ui.column().classes("w-full gap-3")
        self.look()

    def _select(self, label: str) -> ui.select:
        made = ui.select([], label=label, on_change=self._build).classes("w-1/2")
        return made.props(f"dense options-dense data-test={label}")

    def look(self) -> None:
        """Offer the runs that are finished."""
        now = {
            f"{e.name.removeprefix('lab-')}. {p.task.point.command().removeprefix('wiretime run ')}": p
            for e in self.lab.experiments
            for p in e.points
            if p.state == "done" and p.task.point.about.measure == "run"
        }
        if list(now) == list(self.found):
            return
        self.found = now
        for select in (self.first, self.second):
            select.set_options(list(now), value=select.value if select.value in now else None)

    def _build(self) -> None:
        self.element.clear()
        picked = [self.found.get(s.value) for s in (self.first, self.second)]
        results = [p.task.result if p is not None else None for p in picked]
        a, b = results
        if a is None or b is None:
            return
        with self.element:
            self._show(a, b)

    def _show(self, a: Report, b: Report) -> None:
        d = compared(a, b)
        runs = {"A": a, "B": b}
        with ui.row().classes(GRID):
            with ui.column().classes("w-full gap-2"):
                ui.label("What differs").classes("text-sm font-medium")
                table(["parameter", "A", "B"], d.configuration).props("data-test=differs")
            with ui.column().classes("w-full gap-2"):
                ui.label("What came of it").classes("text-sm font-medium")
                table(["", "A", "B", "B / A", ""], [_row(m, 2) for m in d.result], (0, 4)).props("data-test=came")
            for options in (charts.fates(runs), charts.cycles(runs), charts.hops(runs)):
                chart(options, 220)
            chart(charts.latencies(runs))
        ui.label("Counters per packet that moved most").classes("text-sm font-medium")
        heads = ["counter", "A", "B", "B / A", "unit", "meaning"]
        table(heads, [[*_row(m, 3), m.meaning] for m in d.counters], (0, 4, 5)).props("data-test=moved")


def _row(m: Moved, digits: int) -> list[Any]:
    return [
        m.name,
        f"{m.before:.{digits}f}",
        f"{m.after:.{digits}f}",
        f"{m.ratio:.3f}" if m.ratio is not None else "",
        m.unit,
    ]
