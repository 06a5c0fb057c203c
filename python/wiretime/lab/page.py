"""The page: what can be picked on the left, experiments and comparisons on the right."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nicegui import app, run, ui
from starlette.middleware.trustedhost import TrustedHostMiddleware

from wiretime import __version__, apps, platforms, runs, software
from wiretime.apps import QUEUES
from wiretime.errors import WiretimeError
from wiretime.lab import form, work
from wiretime.lab.comparison import Comparison
from wiretime.lab.details import Details, command
from wiretime.request import Request
from wiretime.study.execute import expected_seconds
from wiretime.study.folder import Task
from wiretime.study.plan import Point
from wiretime.study.show import span

SIZES = ("64", "128", "256", "512", "1024", "1518", "imix")
# How long after the last change what is picked is checked; how often the page looks for news.
SETTLED_SECONDS, TICK_SECONDS, LOOK_SECONDS = 0.3, 0.1, 0.4
WIDTH = 400
# Command lines that are shown of many points: all of an experiment have one together.
LINES_MAX = 4
OWN_NIC = ""
# What this machine is called by itself.
HERE = ("127.0.0.1", "localhost")


def _about(name: str, options: Mapping[str, str], platform: str, nic: str | None) -> str:
    """Return what a parameter means, its value on a machine, and what it may be; of an option, what it is."""
    if name in options:
        return f"of the run, not the machine; {f'usually {options[name]}' if options[name] else 'usually as it comes'}"
    node = platforms.by_name()[name]
    try:
        now = dict(platforms.flatten(runs.machine(Request(platform=platform, nic=nic)))).get(name)
    except WiretimeError:
        now = None
    unit = f" {node['unit']}" if "unit" in node else ""
    parts = [f"now {now}{unit}" if now is not None else "not of this machine"]
    if words := platforms.choices(node):
        parts.append(f"one of {', '.join(words)}")
    elif "minimum" in node and "maximum" in node:
        parts.append(f"{node['minimum']} to {node['maximum']}")
    meaning = str(node.get("description", "")).split("\n")[0]
    return f"{'; '.join(parts)}. {meaning}"


class Row:
    """A parameter of the machine or an option of the run to change, and its values."""

    def __init__(self, pane: FormPane):
        self.pane = pane
        with ui.column().classes("w-full gap-0") as self.element:
            with ui.row().classes("w-full no-wrap items-end gap-2"):
                self.name = ui.select([], label="parameter", with_input=True, on_change=self._named)
                self.name.classes("w-3/5").props("dense data-test=parameter")
                self.values = ui.input("value, value, ...", on_change=pane.changed)
                self.values.classes("w-2/5").props("dense data-test=values")
                close = ui.button(icon="close", on_click=lambda: pane.drop(self))
                close.props("flat round dense size=sm data-test=drop")
            self.about = ui.label().classes("text-xs text-grey-7")
        self.describe()

    def _named(self) -> None:
        self.describe()
        self.pane.changed()

    def describe(self) -> None:
        """Say what the parameter is on the machine that is picked; offer those of the application that is."""
        name, pane = self.name.value, self.pane
        options = form.options(pane.app.value)
        offered = [*platforms.by_name(), *options]
        if self.name.options != offered:
            name = name if name in offered else None
            self.name.set_options(offered, value=name)
        self.about.text = _about(name, options, pane.platform.value, pane.nic.value or None) if name else ""


class FormPane:
    """What can be picked."""

    def __init__(self, lab: work.Lab, jobs: int, begun: Callable[[work.Experiment], None]):
        self.lab, self.jobs, self.begun = lab, jobs, begun
        self.rows: list[Row] = []
        # When something was picked last that is not checked yet.
        self.touched: float | None = None
        # Whose usual rate is shown.
        self.shown = ""
        self._build()
        self.changed()
        ui.timer(TICK_SECONDS, self._settle)

    def _build(self) -> None:
        programs = {a.name: f"{a.name}: {a.summary}" for a in apps.APPS.values()}
        machines = {name: f"{name}: {platforms.load(name)['description']}" for name in platforms.names()}
        cards = {OWN_NIC: "the platform's own", **{name: name for name in QUEUES}}
        engines = {software.FULL: "full system", software.PACKET: "software as a model"}
        self.app = self._select(programs, "testpmd", "application", "app")
        self.engine = ui.toggle(engines, value=software.FULL, on_change=self.changed).props("dense no-caps")
        self.platform = self._select(machines, platforms.DEFAULT, "platform", "platform")
        with ui.row().classes("w-full no-wrap gap-2"):
            self.nic = self._select(cards, OWN_NIC, "NIC", "nic").classes("w-1/2")
            self.cores = self._number("cores", 1)
            self.queues = self._number("queues", 1)
        ui.separator()
        measures = {form.RUN: "at a load", form.SEARCH: "the highest load"}
        self.measure = ui.toggle(measures, value=form.RUN, on_change=self.changed).props("dense no-caps")
        self.sizes = ui.select(
            list(SIZES), value=["256"], multiple=True, new_value_mode="add-unique", label="packet sizes, B",
            on_change=self.changed,
        )  # fmt: skip
        self.sizes.classes("w-full").props("dense use-chips data-test=sizes")
        self.trace = ui.input("or a trace: a file of this machine (pcap, pcapng)", on_change=self.changed)
        self.trace.classes("w-full").props("dense data-test=trace")
        self.rate = ui.input("rate", placeholder="40Gbps", on_change=self.changed).classes("w-full")
        self.rate.props('dense data-test=rate hint="10Gbps, 5Mpps, 50% of the line"')
        self.loss = ui.number("loss that counts as sustained, %", value=1.0, min=0, max=99, on_change=self.changed)
        self.loss.classes("w-full").props("dense")
        ui.separator()
        with ui.row().classes("w-full items-center justify-between"):
            ui.label("What to change of the machine and the run").classes("text-sm")
            ui.button("parameter", icon="add", on_click=self.add).props("flat dense no-caps data-test=add")
        self.changes = ui.column().classes("w-full gap-1")
        self.app_args = ui.input("further arguments of the application", on_change=self.changed).classes("w-full")
        self.app_args.props("dense data-test=args")
        self.error = ui.label().classes("text-sm text-negative").props("data-test=error")
        self.count = ui.label().classes("text-xs text-grey-7").props("data-test=count")
        self.start = ui.button("Run", icon="play_arrow", on_click=self.go).classes("w-full")
        self.start.props("no-caps data-test=start")
        self.line = command("")

    def _select(self, options: dict[str, str], value: str, label: str, test: str) -> ui.select:
        made = ui.select(options, value=value, label=label, on_change=self.changed)
        return made.classes("w-full").props(f"dense options-dense data-test={test}")

    def _number(self, label: str, value: int) -> ui.number:
        made = ui.number(label, value=value, min=1, precision=0, on_change=self.changed)
        return made.classes("w-1/4").props(f"dense data-test={label}")

    def add(self) -> None:
        """Add a parameter to change."""
        with self.changes:
            self.rows.append(Row(self))

    def drop(self, row: Row) -> None:
        """Take a parameter away."""
        self.rows.remove(row)
        row.element.delete()
        self.changed()

    def read(self) -> form.Form:
        """Return what is picked."""
        return form.Form(
            app=self.app.value,
            engine=self.engine.value,
            platform=self.platform.value,
            nic=self.nic.value or None,
            measure=self.measure.value,
            sizes=tuple(self.sizes.value or ()),
            trace=self.trace.value or "",
            rate=self.rate.value or "",
            loss=float(self.loss.value if self.loss.value is not None else 1.0),
            cores=int(self.cores.value or 1),
            queues=int(self.queues.value or 1),
            app_args=self.app_args.value or "",
            changes=tuple(form.Change(r.name.value, r.values.value or "") for r in self.rows if r.name.value),
        )

    def changed(self) -> None:
        """Check what is picked, once it has settled."""
        wanted = self.read()
        self.rate.set_visibility(form.takes_rate(wanted))
        self.loss.set_visibility(wanted.measure == form.SEARCH)
        self.sizes.set_visibility(form.takes_sizes(wanted))
        self.trace.set_visibility(form.takes_trace(wanted))
        if wanted.app != self.shown:
            # Only then: what is told anew of a field takes away what is being typed.
            self.shown = wanted.app
            self.rate.props(f'placeholder="{apps.get(wanted.app).rate}"')
        self.start.disable()
        self.touched = time.monotonic()

    async def _settle(self) -> None:
        if self.touched is not None and time.monotonic() - self.touched >= SETTLED_SECONDS:
            self.touched = None
            await self._check(self.read())

    async def _check(self, wanted: form.Form) -> None:
        for row in self.rows:
            row.describe()
        try:
            found = await run.io_bound(_checked, wanted, self.jobs)
        except WiretimeError as e:
            self.error.text, self.count.text = str(e), ""
            self.line.show("")
            return
        if found is None or self.touched is not None:  # the server ends; something else is picked by now
            return
        points, seconds = found
        self.error.text = ""
        more = len(points) - LINES_MAX
        self.count.text = f"{len(points)} point{'s'[: len(points) != 1]}; about {span(seconds)}"
        lines = [p.command() for p in points[:LINES_MAX]]
        self.line.show("\n".join([*lines, *([f"# and {more} more"] if more > 0 else [])]))
        self.start.enable()

    async def go(self) -> None:
        """Begin what is picked."""
        self.start.disable()
        try:
            experiment = await run.io_bound(self.lab.begin, self.read())
        except (WiretimeError, OSError) as e:
            ui.notify(str(e), type="negative")
            return
        finally:
            self.changed()  # it is enabled once what is picked by now has been looked at
        if experiment is not None:
            self.begun(experiment)


def _checked(wanted: form.Form, jobs: int) -> tuple[list[Point], float]:
    """Return the points of what is picked, and how long they may take."""
    points = form.check(wanted)
    tasks = [Task(p, {}, Path("none")) for p in points]
    return points, expected_seconds(tasks, jobs)


class Page:
    """One user's view."""

    def __init__(self, lab: work.Lab, jobs: int):
        self.lab = lab
        self.seen = -1
        self.listed: Any = None
        self.selected: work.Experiment | None = lab.experiments[0] if lab.experiments else None
        self.drawer: ui.left_drawer
        ui.page_title("Wiretime lab")
        ui.colors(primary="#0072B2", negative="#B33A00")
        ui.query(".nicegui-content").classes("p-4")
        with ui.header().classes("items-center py-1 gap-4"):
            ui.button(icon="menu", on_click=lambda: self.drawer.toggle()).props("flat round dense color=white")
            ui.label("Wiretime lab").classes("text-lg font-medium")
            with ui.tabs().props("dense no-caps inline-label") as tabs:
                here = ui.tab("Experiments")
                both = ui.tab("Compare").props("data-test=compare")
            ui.space()
            ui.label(f"{__version__}; everything is in {lab.folder}").classes("text-xs")
        with ui.left_drawer(bordered=True).props(f"width={WIDTH}").classes("gap-2") as self.drawer:
            FormPane(lab, jobs, self.begun)
        with ui.tab_panels(tabs, value=here).classes("w-full") as self.panels:
            with ui.tab_panel(here).classes("p-0"):
                self.list = ui.column().classes("w-full gap-1")
                self.details = Details(lab)
            with ui.tab_panel(both).classes("p-0"):
                self.comparison = Comparison(lab)
        ui.timer(LOOK_SECONDS, self.look)
        self.look()

    def begun(self, experiment: work.Experiment) -> None:
        """Show an experiment that has begun."""
        self.panels.set_value("Experiments")
        self.select(experiment)

    def select(self, experiment: work.Experiment | None) -> None:
        """Show an experiment."""
        self.selected = experiment
        self.seen = -1
        self.look()

    def look(self) -> None:
        """Show what is new."""
        if self.seen == self.lab.version:
            return
        self.seen = self.lab.version
        if self.selected not in self.lab.experiments:
            self.selected = self.lab.experiments[0] if self.lab.experiments else None
        self._list()
        self.details.show(self.selected)
        self.comparison.look()

    def _list(self) -> None:
        now = [(e.name, e.state, e.over, e is self.selected) for e in self.lab.experiments]
        if now == self.listed:
            return
        self.listed = now
        self.list.clear()
        with self.list:
            for name, reason in self.lab.unreadable.items():
                ui.label(f"{name}: {reason}").classes("text-xs text-grey-7")
            if not self.lab.experiments:
                ui.label("Pick something on the left, and run it.").classes("text-grey-7")
            with ui.row().classes("w-full gap-2"):
                for experiment in self.lab.experiments:
                    self._chip(experiment)

    def _chip(self, experiment: work.Experiment) -> None:
        state, n = experiment.state, len(experiment.points)
        icon = {"done": "check", "failed": "error", "stopped": "stop", "waits": "hourglass_empty", "runs": "autorenew"}
        far = f" {experiment.over}/{n}" if n > 1 and state not in ("done",) else ""
        fixed = experiment.study.plan.fixed
        text = f"{experiment.name.removeprefix('lab-')}. {fixed['app']}{far}"
        chip = ui.chip(text, icon=icon[state], on_click=lambda e=experiment: self.select(e))
        chip.props(f"{'' if experiment is self.selected else 'outline'} color=primary text-color=")
        if experiment is self.selected:
            chip.props("text-color=white")
        chip.props(f"data-test={experiment.name} data-state={state}")


def serve(lab: work.Lab, jobs: int, host: str, port: int, show: bool) -> None:
    """Serve the page until the process is told to end."""

    def root() -> None:
        Page(lab, jobs)

    if host in HERE:
        # A page of somebody else's whose name leads here is none of ours.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(HERE))
    ui.run(
        root,
        host=host,
        port=port,
        show=show,
        title="Wiretime lab",
        favicon="🔌",
        reload=False,
        show_welcome_message=False,
    )
