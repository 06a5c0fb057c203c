"""A study as one page that works offline: plots with their data and commands, tables that sort, what failed."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from wiretime import __version__, files
from wiretime.errors import WiretimeError
from wiretime.study import draw
from wiretime.study.folder import PLAN, Study, Task

PAGE, PLOTS = "report.html", "plots"
# Of the pictures: enough for a page of print.
DPI = 150


def _figure_text(value: Any) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _svg(figure: Figure) -> str:
    """Return a figure as SVG that scales with the page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    return re.sub(r'(<svg[^>]*?) height="([0-9.]+)pt" version="1.1"', r'\1 version="1.1"', svg, count=1)


def file_name(title: str) -> str:
    """Return a title as a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]


def plot_file(number: int, title: str) -> str:
    """Return the name of a study's plot, without its ending."""
    return f"{number}-{file_name(title)}"


def plotted(title: str, figure: Figure, data: draw.Data, base: Path, commands: Sequence[str] = ()) -> dict[str, Any]:
    """Write a plot and its data into files, and return what the page says of it."""
    figure.savefig(f"{base}.png", dpi=DPI, metadata={"Software": None})
    figure.savefig(f"{base}.svg", metadata={"Date": None})
    pd.DataFrame(data).to_csv(f"{base}.csv", index=False, lineterminator="\n")
    return {
        "title": title,
        "svg": _svg(figure),
        "data": data,
        "columns": list(dict.fromkeys(k for row in data for k in row)),
        "commands": commands,
    }


def page(**what: Any) -> str:
    """Return a page of plots and a table."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["figure"] = _figure_text
    template = environment.from_string((Path(__file__).parent / PAGE).read_text())
    return template.render(**{"version": __version__, "failed": [], "facts": [], "links": [], "plan": None, **what})


def _simulator(tasks: Sequence[Task]) -> Mapping[str, str]:
    """Return what made the points: of each engine, where several did."""
    parts: dict[str, str] = {}
    for task in tasks:
        about = files.read(task.folder / "point.json")
        parts |= about["simulator"] if isinstance(about, dict) else {}
    return parts


def write(study: Study) -> Path:
    """Write the page and the plots as PNG and SVG; returns the page's path."""
    finished = [t for t in study.tasks if t.finished]
    if not finished:
        raise WiretimeError(f"{study.path}: no point is finished yet")
    folder = study.path / PLOTS
    folder.mkdir(exist_ok=True)
    plots = []
    with mpl.rc_context(draw.STYLE):
        for n, plot in enumerate(study.plan.plots, 1):
            drawn = draw.draw(plot, study)
            base = folder / plot_file(n, plot.title)
            commands = [t.point.command() for t in drawn.tasks]
            plots.append(plotted(plot.title, drawn.figure, drawn.data, base, commands))
    columns = [*study.plan.axes, *study.plan.metrics]
    text = page(
        name=study.plan.study.name,
        description=study.plan.study.description,
        about=f"{len(finished)} of {len(study.tasks)} points",
        simulator=_simulator(finished),
        failed=[(t.point.text(), reason) for t in study.tasks if (reason := t.failed) is not None],
        plots=plots,
        table_title="Points",
        columns=columns,
        table=[{c: t.row.get(c) for c in columns} for t in finished],
        plan={"file": PLAN, "text": study.text()},
    )
    return files.replace(study.path / PAGE, text)
