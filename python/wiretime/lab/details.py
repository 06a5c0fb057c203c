"""An experiment on the page: how far it is, what came of it, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from wiretime import explain, report
from wiretime.lab import charts, work
from wiretime.models import Report
from wiretime.study import metrics
from wiretime.study.folder import PLAN

# What is shown before anything is.
NOTHING = object()
GRID = "w-full grid grid-cols-1 xl:grid-cols-2 gap-4"


class command:  # noqa: N801 - used like an element of the page
    """A command line that can be copied."""

    def __init__(self, text: str):
        with ui.row().classes("w-full no-wrap items-start gap-1") as self.element:
            self.code = ui.label().classes("grow whitespace-pre-wrap break-all font-mono text-xs bg-grey-2 rounded p-2")
            self.code.props("data-test=command")
            ui.button(icon="content_copy", on_click=self._copy).props(
                "flat round dense size=sm data-test=copy"
            ).tooltip("copy the command line that does the same")
        self.show(text)

    def show(self, text: str) -> None:
        """Show another one."""
        self.text = text
        self.code.text = text
        self.element.set_visibility(bool(text))

    def _copy(self) -> None:
        ui.clipboard.write(self.text)
        ui.notify("copied", position="bottom-right", timeout=1000)


def chart(options: Mapping[str, Any], height: int = 280) -> ui.echart:
    """Show a chart."""
    return ui.echart(dict(options)).classes("w-full").style(f"height: {height}px")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = (0,)) -> ui.table:
    """Show a table of texts; figures, which are all columns but those of ``words``, are to the right."""
    heads = [
        {"name": str(i), "label": name, "field": str(i), "align": "left" if i in words else "right"}
        for i, name in enumerate(columns)
    ]
    made = ui.table(columns=heads, rows=[{str(i): v for i, v in enumerate(row)} for row in rows], row_key="0")
    return made.props("dense flat bordered hide-pagination wrap-cells").classes("w-full")


# From here on a figure's digits before the point are enough.
LARGE = 10_000


def _figure(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else {True: "yes", False: "no"}.get(value, str(value))
    if abs(value) >= LARGE:
        return f"{value:,.0f}"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


class Details:
    """The experiment that is selected."""

    def __init__(self, lab: work.Lab):
        self.lab = lab
        self.experiment: work.Experiment | None = None
        # Which of its points, and which metric is drawn.
        self.index, self.metric = 0, ""
        # What was shown last; what changes while it runs, to be brought up to date in place.
        self.shown: Any = NOTHING
        self.bars: dict[int, tuple[ui.linear_progress, ui.label]] = {}
        self.trials: tuple[work.Under, ui.echart] | None = None
        self.element = ui.column().classes("w-full gap-3")

    def show(self, experiment: work.Experiment | None) -> None:
        """Show an experiment as it is."""
        if experiment is not self.experiment:
            self.experiment, self.index, self.metric, self.shown = experiment, 0, "", NOTHING
        now = self._state()
        if now != self.shown:
            self.shown = now
            self._build()
        self._progress()

    def _state(self) -> Any:
        """Return what decides how the page is built."""
        if self.experiment is None:
            return None
        points = self.experiment.points
        at = points[self.index]
        told = self.lab.explanation(at.task)
        # A search's chart comes with its first trial.
        return ([p.state for p in points], self.index, self.metric, bool(at.trials), told and told.running)

    def _rebuild(self) -> None:
        self.shown = NOTHING
        self.show(self.experiment)

    def _build(self) -> None:
        self.element.clear()
        self.bars, self.trials = {}, None
        if self.experiment is None:
            return
        with self.element:
            self._head(self.experiment)
            if len(self.experiment.points) > 1:
                self._all(self.experiment)
            self._point(self.experiment.points[self.index])

    def _head(self, experiment: work.Experiment) -> None:
        with ui.row().classes("w-full items-center gap-2"):
            fixed = ", ".join(f"{k} {v}" for k, v in experiment.study.plan.fixed.items() if k != "app")
            ui.label(f"{experiment.name}: {experiment.study.plan.fixed['app']}").classes("text-base font-medium")
            ui.label(fixed).classes("text-sm text-grey-7")
            ui.space()
            state = experiment.state
            if state in ("runs", "waits"):
                ui.button("stop", icon="stop", on_click=lambda: self.lab.stop(experiment)).props(
                    "flat dense no-caps data-test=stop"
                )
            elif state != "done":
                ui.button("go on", icon="play_arrow", on_click=lambda: self.lab.go_on(experiment)).props(
                    "flat dense no-caps data-test=go-on"
                )
            ui.button("remove", icon="delete", on_click=lambda: self.lab.remove(experiment)).props(
                "flat dense no-caps data-test=remove"
            )
        if len(experiment.points) > 1:
            command(f"wiretime sweep {experiment.study.path / PLAN}")
        for i, under in enumerate(experiment.points):
            if under.state == "runs":
                with ui.row().classes("w-full no-wrap items-center gap-2"):
                    ui.label(under.task.point.text()).classes("text-sm w-1/4")
                    bar = ui.linear_progress(0, show_value=False).classes("w-1/4").props("data-test=progress")
                    self.bars[i] = (bar, ui.label("starts").classes("text-sm text-grey-7"))

    def _progress(self) -> None:
        """Bring up to date what moves."""
        if self.experiment is None:
            return
        for i, (bar, label) in self.bars.items():
            under = self.experiment.points[i]
            p = under.progress
            if under.share is None:
                bar.props("indeterminate")
            else:
                bar.props(remove="indeterminate")
                bar.set_value(under.share)
            if under.trials:
                label.text = f"{len(under.trials)} trials"
            elif p:
                label.text = f"{p['phase']}: {p['simulated_ns'] / 1e6:.3f} ms simulated, {under.mips:.0f} MIPS"
        if self.trials is not None:
            under, drawn = self.trials
            drawn.options.clear()
            drawn.options.update(charts.trials(_trials(under)))
            drawn.update()

    def _all(self, experiment: work.Experiment) -> None:
        study = experiment.study
        names = study.plan.metrics
        axes = list(study.plan.axes)
        done = any(p.task.finished for p in experiment.points)
        if done:
            self.metric = self.metric or names[0]
            # Over the axis with most places: the others are lines.
            axis = max(axes, key=lambda a: len(study.plan.axes[a]))
            with ui.row().classes("w-full items-center"):
                ui.select(
                    {n: metrics.meaning(n) for n in names}, value=self.metric, on_change=lambda e: self._draw(e.value)
                ).props("dense options-dense data-test=metric")
            chart(charts.over_axis(study, axis, self.metric), 320).props("data-test=over-axis")
        units = [f"{n}, {u}" if (u := metrics.unit(n)) else n for n in names]
        rows = []
        for p in experiment.points:
            figures = [_figure(p.task.row.get(n)) if p.task.finished else "" for n in names]
            rows.append([*(str(v) for v in p.task.point.place.values()), *figures, p.reason or p.state])
        made = table([*axes, *units, "state"], rows)
        for i, row in enumerate(made.rows):
            row["index"] = i
        made.on("rowClick", lambda e: self._select(e.args[1]["index"])).classes("cursor-pointer")
        made.props("data-test=points")

    def _draw(self, metric: str) -> None:
        self.metric = metric
        self._rebuild()

    def _select(self, index: int) -> None:
        self.index = index
        self._rebuild()

    def _point(self, under: work.Under) -> None:
        task = under.task
        with ui.column().classes("w-full gap-2"):
            if self.experiment is not None and len(self.experiment.points) > 1:
                ui.label(task.point.text()).classes("text-base font-medium").props("data-test=point")
            command(task.point.command())
            # Of one that waits or runs again it would be what came of it before.
            reason = under.reason or task.failed if under.state in ("failed", "stopped") else None
            if reason is not None and not task.finished:
                ui.label(reason).classes("text-negative").props("data-test=reason")
            if trials := _trials(under):
                drawn = chart(charts.trials(trials), 340).props("data-test=trials")
                if under.state == "runs":
                    self.trials = (under, drawn)
            if not task.finished:
                return
            if (result := task.result) is None:
                self._search(under)
            else:
                self._run(under, result)

    def _search(self, under: work.Under) -> None:
        rows = [
            [metrics.meaning(n), _figure(under.task.row.get(n)), metrics.unit(n)]
            for n in metrics.OF_SEARCH
            if under.task.row.get(n) is not None
        ]
        table(["", "", ""], rows, (0, 2)).props("hide-header data-test=result")

    def _run(self, under: work.Under, result: Report) -> None:
        with ui.row().classes(GRID):
            rows = report.rows(result, under.task.host)
            with ui.column().classes("w-full gap-2"):
                ui.label(report.title(result)).classes("text-sm font-medium")
                table(["", "", ""], rows, (0, 2)).props("hide-header data-test=result")
                for warning in result["warnings"]:
                    ui.label(f"warning: {warning}").classes("text-xs text-orange-10")
            with ui.column().classes("w-full gap-2"):
                ui.label("What limits it").classes("text-sm font-medium")
                with ui.column().classes("gap-1").props("data-test=explained"):
                    for sentence in explain.sentences(result):
                        ui.label(sentence).classes("text-sm")
                self._moves(under)
        named = {under.task.point.text(): result}
        with ui.row().classes(GRID):
            for options in (charts.fates(named), charts.cycles(named), charts.hops(named)):
                chart(options, 190)
            chart(charts.latencies(named))
            chart(charts.occupancy(result))

    def _moves(self, under: work.Under) -> None:
        """Offer to find out what would move it, or say it."""
        told = self.lab.explanation(under.task)
        if told is None or told.failed:

            def find() -> None:
                self.lab.explain(under.task)
                self._rebuild()

            for sentence in told.sentences if told else []:
                ui.label(sentence).classes("text-sm").props("data-test=unexplained")
            ui.button("Try again" if told else "What would move it?", icon="science", on_click=find).props(
                "outline dense no-caps data-test=explain"
            ).tooltip("runs the changes that the counters suggest")
            return
        if told.running:
            with ui.row().classes("items-center"):
                ui.spinner()
                ui.label("runs the changes that the counters suggest").classes("text-sm text-grey-7")
            return
        ui.label("What would move it").classes("text-sm font-medium")
        with ui.column().classes("gap-1").props("data-test=moves"):
            for sentence in told.sentences:
                ui.label(sentence).classes("text-sm")


def _trials(under: work.Under) -> list[Mapping[str, Any]]:
    return [dataclasses.asdict(t) for t in under.trials] or list(under.task.trials or [])
