"""How uncertain a study's answers are, from its plan to its tables: on the screen, as a file, as plots."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.console import Console, RenderableType

from wiretime import files, software
from wiretime.errors import WiretimeError
from wiretime.study import draw, metrics, show
from wiretime.study.plan import Plan
from wiretime.study.uncertainty import FEW, OUTSIDE, Answer, Swing, Uncertainty
from wiretime.tables import plain

FILE, PLOT = "uncertainty.json", "uncertainty.png"
ROW = 0.3
MODELLED = (
    "--engine packet: what the core takes is in the software's model, so estimates of core.* change nothing there"
)


def _told(value: float) -> str:
    return f"{value:.4g}"


def _swing(swing: Swing, answer: float) -> str:
    ends = " / ".join("?" if a is None else _told(a) for a in swing.answers)
    values = " / ".join(str(v) for v in swing.ends)
    return f"{swing.parameter} {swing.value} -> {values}: {ends}" if swing.change(answer) else ""


def _samples(answer: Answer) -> str:
    """Return which samples an answer's range is of."""
    if answer.samples < FEW:
        return f"all of {answer.samples} samples"
    return f"{round(100 * (1 - 2 * OUTSIDE))} % of {answer.samples} samples"


def table(answers: Sequence[Answer], tried: int, known: int) -> RenderableType:
    """Return what a person wants to know, of so many estimates put to their ends by themselves."""
    told = " or ".join(sorted({_samples(a) for a in answers}))
    of = f"all {known}" if tried == known else f"the {tried} of {known} estimates that they follow most"
    t = plain(f"answers, their range ({told}), and what moves them most, one estimate at its ends ({of} tried)")
    for column in ("at", "metric", "answer", "range", "", "hangs on"):
        t.add_column(column, justify="right" if column in ("answer", "range", "") else "left")
    for a in answers:
        unit = metrics.unit(a.metric)
        width = f"{100 * (a.low / a.value - 1):+.0f} / {100 * (a.high / a.value - 1):+.0f} %" if a.value else ""
        hangs = "\n".join(text for swing in a.swings if (text := _swing(swing, a.value))) or "none of those tried"
        name = f"{a.metric} ({unit})" if unit else a.metric
        t.add_row(a.place, name, _told(a.value), f"{_told(a.low)} to {_told(a.high)}", width, hangs)
    return t


def plotted(answers: Sequence[Answer]) -> Figure:
    """Draw answers as points on their ranges, relative to the answer, with what each estimate alone does below."""
    rows: list[tuple[str, float, float, bool]] = []
    for a in answers:
        if a.value:
            rows.append((f"{a.place}: {a.metric}", a.low / a.value, a.high / a.value, True))
            for s in a.swings:
                ends = [1.0, *(e / a.value for e in s.answers if e is not None)]
                if s.change(a.value):
                    rows.append((s.parameter, min(ends), max(ends), False))
    figure = Figure(figsize=(8, 1.2 + ROW * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1, color="#555555", linewidth=0.8)
    for y, (_, low, high, whole) in enumerate(rows):
        axes.hlines(y, low, high, color="#1f6f8b" if whole else "#c8a25f", linewidth=5 if whole else 2.5)
    axes.set_yticks(range(len(rows)), [name if whole else f"    {name}" for name, _, _, whole in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("relative to the answer: all estimates together (thick), one alone (thin)")
    return figure


def run(
    notes: Console,
    screen: Console,
    plan: Plan,
    source: str,
    folder: Path,
    *,
    samples: int,
    seed: int,
    jobs: int | None = None,
    dry_run: bool = False,
) -> bool:
    """Vary and report, going on where it was interrupted; returns whether every point could be run."""
    whole = Uncertainty(plan, source, folder, samples, seed)
    whole.base.check_plan()
    name = f"{plan.study.name}, uncertainty"
    first = [whole.base, *whole.together]
    notes.print(f"{len(whole.known)} estimates: {', '.join(whole.known)}", highlight=False, soft_wrap=True)
    show.about(notes, name, [task for study in first for task in study.tasks], jobs)
    notes.print(
        f"then at most {whole.alone_most} more, each with one estimate at an end of its range",
        highlight=False,
        soft_wrap=True,
    )
    if any(task.point.request().engine == software.PACKET for task in whole.base.tasks):
        notes.print(MODELLED, highlight=False, soft_wrap=True)
    if dry_run:
        return True
    failed = show.resumed(notes, f"{name}, all together", first, jobs)
    candidates = whole.candidates()
    alone = whole.alone(candidates)
    failed += show.resumed(notes, f"{name}, one by one", list(alone.values()), jobs)
    answers = list(whole.answers(alone))
    if not answers:
        raise WiretimeError(f"{source}: no metric has a value at any point in more than half of the samples")
    files.replace(folder / FILE, json.dumps([dataclasses.asdict(a) for a in answers], indent=1) + "\n")
    with mpl.rc_context(draw.STYLE):
        plotted(answers).savefig(folder / PLOT, dpi=120)
    screen.print(table(answers, len(candidates), len(whole.known)), markup=False)
    screen.print(str(folder / FILE), highlight=False, soft_wrap=True)
    return failed == 0
