"""A study as one page that works offline: plots with their data and commands, tables that sort, what failed."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure

from wiretime import __version__
from wiretime.errors import WiretimeError
from wiretime.study import draw
from wiretime.study.folder import PLAN, Study
from wiretime.study.plan import Plot

PAGE, PLOTS = "report.html", "plots"


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


def _file_name(plot: Plot, number: int) -> str:
    return f"{number}-{re.sub(r'[^a-z0-9]+', '-', plot.title.lower()).strip('-')[:60]}"


def _plot(study: Study, plot: Plot, base: Path) -> dict[str, Any]:
    """Draw a plot into files, and return what the page says of it."""
    drawn = draw.draw(plot, study)
    drawn.figure.savefig(f"{base}.png", dpi=200, metadata={"Software": None})
    drawn.figure.savefig(f"{base}.svg", metadata={"Date": None})
    return {
        "title": plot.title,
        "svg": _svg(drawn.figure),
        "data": drawn.data,
        "columns": list(dict.fromkeys(k for row in drawn.data for k in row)),
        "commands": [t.point.command() for t in drawn.tasks],
    }


def write(study: Study) -> Path:
    """Write the page and the plots as PNG and SVG; returns the page's path."""
    finished = [t for t in study.tasks if t.finished]
    if not finished:
        raise WiretimeError(f"{study.path}: no point is finished yet")
    folder = study.path / PLOTS
    folder.mkdir(exist_ok=True)
    with mpl.rc_context(draw.STYLE):
        plots = [_plot(study, plot, folder / _file_name(plot, n)) for n, plot in enumerate(study.plan.plots, 1)]
    rows = [json.loads((t.folder / "row.json").read_text()) for t in finished]
    columns = [*study.plan.axes, *study.plan.metrics]
    plan_file = study.path / PLAN
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["figure"] = _figure_text
    template = environment.from_string((Path(__file__).parent / PAGE).read_text())
    page = template.render(
        name=study.plan.study.name,
        description=study.plan.study.description,
        finished=len(finished),
        points=len(study.tasks),
        version=__version__,
        simulator=json.loads((finished[0].folder / "point.json").read_text())["simulator"],
        failed=[(t.point.text(), reason) for t in study.tasks if (reason := t.failed) is not None],
        plots=plots,
        columns=columns,
        table=[{c: row.get(c) for c in columns} for row in rows],
        plan_file=PLAN if not plan_file.is_file() else plan_file.name,
        plan_text=plan_file.read_text() if plan_file.is_file() else "",
    )
    path = study.path / PAGE
    part = study.path / f".{PAGE}"
    part.write_text(page)
    part.rename(path)
    return path
