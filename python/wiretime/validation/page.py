"""The validation as one page, as Markdown, and as pictures: all that a documentation page needs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from wiretime import files
from wiretime.study import draw, report
from wiretime.study.folder import Study
from wiretime.study.point import simulator
from wiretime.validation import engines, judge, qdma, show
from wiretime.validation.claims import Claim
from wiretime.validation.judge import Verdict

PAGE, TABLE, FIGURES, PLOTS = "validation.html", "rows.md", "figures.md", "plots"
# Pages of their own beside the table of all rows: title, and whose rows.
OWN: dict[str, tuple[str, Callable[[Claim], bool]]] = {
    qdma.PAGE: ("Every cell of the QDMA's tables", lambda c: c.source == qdma.SOURCE),
    "forwarding.md": ("Published forwarding rates", lambda c: c.figure == "forwarding"),
    "grace.md": ("l3fwd on Grace", lambda c: c.figure == "grace"),
}
DESCRIPTION = (
    "Published measurements against simulated ones. One parameter set a platform; none was tuned for a result."
)


def _plots(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, tuple[Figure, draw.Data] | None]]:
    """Yield what is drawn: titles, figures and their data."""
    yield "Errors", show.errors([v for v in verdicts if v.claim.studies])
    yield "Errors of the micro-benchmarks", show.errors([v for v in verdicts if not v.claim.studies])
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        if v.claim.studies:
            groups.setdefault((v.claim.figure, v.claim.unit), []).append(v)
    for (figure, unit), rows in groups.items():
        yield f"{figure}, {unit}", show.pairs(rows)


def write(
    base: Path,
    verdicts: Sequence[Verdict],
    summary: Sequence[str],
    studies: Mapping[str, Study],
    further: Mapping[str, tuple[Figure, draw.Data] | None],
    both: Sequence[engines.Row],
) -> Path:
    """Write the page, the table and the plots, with further ones by title; returns the page's path."""
    folder = base / PLOTS
    folder.mkdir(parents=True, exist_ok=True)
    plots = []
    with mpl.rc_context(draw.STYLE):
        for title, drawn in (*_plots(verdicts), *further.items()):
            if drawn is not None:
                plots.append(report.plotted(title, *drawn, folder / report.file_name(title)))
    files.replace(base / TABLE, _rows(summary, verdicts, plots))
    rows = [{"source": v.claim.source, **show.columns(v)} for v in verdicts]
    finished = {name: s for name, s in studies.items() if any(t.finished for t in s.tasks)}
    links = [(name, report.write(study).relative_to(base)) for name, study in finished.items()]
    files.replace(base / FIGURES, _figures(finished))
    if both:
        files.replace(engines.page(base), engines.markdown(both, _made()))
    for name, (title, whose) in OWN.items():
        if mine := [v for v in verdicts if whose(v.claim)]:
            parts = [f"# {title}", _made(), show.markdown(mine, judge.summary(mine))]
            files.replace(base / name, "\n\n".join(parts) + "\n")
    text = report.page(
        name="validation",
        description=DESCRIPTION,
        about=f"{len(rows)} rows",
        facts=summary,
        simulator=simulator(),
        plots=plots,
        table_title="Rows",
        columns=list(rows[0]) if rows else [],
        table=rows,
        links=links,
    )
    return files.replace(base / PAGE, text)


def _made() -> str:
    made = simulator()
    parts = ", ".join(f"{part} {digest[:12]}" for part, digest in made.items() if part != "wiretime")
    return f"Made by `wiretime validate`, version {made['wiretime']} ({parts}), seed 1."


def _rows(summary: Sequence[str], verdicts: Sequence[Verdict], plots: Sequence[Mapping[str, Any]]) -> str:
    """Return all rows and their plots as Markdown."""
    parts = ["# Published against simulated", _made(), show.markdown(verdicts, summary), "## Plots"]
    for plot in plots:
        parts += _shown(plot["title"], f"{PLOTS}/{report.file_name(plot['title'])}")
    return "\n\n".join(parts) + "\n"


def _shown(title: str, file: str) -> list[str]:
    """Return a picture as Markdown, with its data."""
    return [f"*{title}* ([data]({file}.csv))", f"![{title}]({file}.png)"]


def _figures(studies: Mapping[str, Study]) -> str:
    """Return the figures of all studies as Markdown."""
    parts = ["# Figures from real sweeps", _made()]
    for name, study in studies.items():
        done = sum(t.finished for t in study.tasks)
        about = f"`wiretime sweep {study.source}`: {done} of {len(study.tasks)} points."
        parts += [f"## {name}", study.plan.study.description, about]
        for n, plot in enumerate(study.plan.plots, 1):
            parts += _shown(plot.title, f"{name}/{report.PLOTS}/{report.plot_file(n, plot.title)}")
    return "\n\n".join(parts) + "\n"


def publish(base: Path, target: Path) -> None:
    """Copy the Markdown pages with their pictures and data, and nothing else: small enough to be committed."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (TABLE, FIGURES, engines.PAGE, *OWN):
        if not (base / name).is_file():
            continue  # not asked for
        text = (base / name).read_text()
        for file in re.findall(r"\]\(([^)]+\.(?:png|csv))\)", text):
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(base / file, target / file)
        files.replace(target / name, text)
