"""The validation as one page, as Markdown, and as pictures: all that a documentation page needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from wiretime.study import draw, report
from wiretime.study.folder import Study
from wiretime.study.point import simulator
from wiretime.validation import show
from wiretime.validation.judge import Verdict

PAGE, TABLE, PLOTS = "validation.html", "validation.md", "plots"
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


def write(base: Path, verdicts: Sequence[Verdict], summary: Sequence[str], studies: Mapping[str, Study]) -> Path:
    """Write the page, the table and the plots; returns the page's path."""
    folder = base / PLOTS
    folder.mkdir(parents=True, exist_ok=True)
    plots = []
    with mpl.rc_context(draw.STYLE):
        for title, drawn in _plots(verdicts):
            if drawn is not None:
                plots.append(report.plotted(title, *drawn, folder / report.file_name(title)))
    (base / TABLE).write_text(show.markdown(verdicts, summary))
    rows = [{"source": v.claim.source, **show.columns(v)} for v in verdicts]
    links = [
        (name, report.write(s).relative_to(base)) for name, s in studies.items() if any(t.finished for t in s.tasks)
    ]
    text = report.page(
        name="validation",
        description=DESCRIPTION,
        about="; ".join(summary),
        simulator=simulator(),
        plots=plots,
        table_title="Rows",
        columns=list(rows[0]) if rows else [],
        table=rows,
        links=links,
    )
    return report.replace(base / PAGE, text)
