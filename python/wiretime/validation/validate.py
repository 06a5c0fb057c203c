"""A validation from its claims to its page: says how long it takes, runs what is left, compares, draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from wiretime.errors import WiretimeError
from wiretime.study import execute as points
from wiretime.study import show as progress
from wiretime.study.folder import Study, unique
from wiretime.study.uncertainty import SAMPLES_LEAST
from wiretime.validation import claims, engines, execute, hardware, judge, page, qdma, show, spans
from wiretime.validation.apart import Apart

NAME, QUICK = "validation", "quick"


@dataclass(frozen=True)
class Asked:
    """What a user asks for."""

    base: Path
    only: Sequence[str] = ()
    quick: bool = False
    jobs: int | None = None
    dry_run: bool = False
    publish: Path | None = None
    # How often the platforms' estimates are drawn, to show where they may take each row.
    samples: int = 0


def run(notes: Console, screen: Console, asked: Asked) -> bool:
    """Validate; returns whether every point could be run."""
    if asked.samples and asked.samples < SAMPLES_LEAST:
        raise WiretimeError(f"--uncertainty {asked.samples}: 0, or at least {SAMPLES_LEAST}")
    # Parts of studies are not the studies: they have a folder of their own, and share the points.
    base, pool = (asked.base / QUICK, f"../{execute.POOL}") if asked.quick else (asked.base, execute.POOL)
    count = points.jobs_of(asked.jobs)
    no_claims = (hardware.NAME, qdma.NAME, engines.NAME)
    wanted, others = execute.chosen(claims.load(), asked.only, [*claims.further(), *no_claims])
    further = [o for o in others if o not in no_claims]
    if engines.NAME in others and not asked.quick:
        further += engines.STUDIES
    studies = execute.studies(wanted, further, base, pool, asked.quick)
    # A minute for one source: of a quick look only where it is asked for.
    with_qdma = qdma.NAME in others and bool(asked.only or not asked.quick)
    if not studies and not with_qdma and hardware.NAME not in others:
        raise WiretimeError(f"--quick: nothing of --only {','.join(asked.only)} is part of it")
    apart = Apart(asked.base, [hardware.NAME] * (hardware.NAME in others) + [qdma.NAME] * with_qdma)
    _announce(notes, list(studies.values()), apart, count)
    if missing := execute.left_out(studies):
        notes.print(
            f"left out, since it is not set up: {', '.join(missing)}; what needs it counts as not possible",
            highlight=False,
            soft_wrap=True,
        )
    if asked.dry_run:
        return True
    for study in studies.values():
        study.prepare(resume=True)
    failed = apart.run(notes, count)
    failed += progress.sweep(notes, NAME, list(studies.values()), count) if studies else 0
    tables = judge.Tables(studies, execute.narrowed_by_quick() if asked.quick else ())
    verdicts = [*(judge.verdict(claim, tables) for claim in wanted), *apart.verdicts()]
    if asked.samples:
        missed, verdicts = spans.with_spans(
            notes, verdicts, wanted, studies, apart, base, pool, asked.samples, count, tables.narrowed
        )
        failed += missed
    summary = judge.summary(verdicts)
    drawn = {"Bandwidth of the QDMA by packet size": qdma.drawn(asked.base)} if with_qdma else {}
    both = engines.rows(studies)
    if verdicts:
        screen.print(show.table(verdicts))
    if both:
        screen.print(engines.table(both))
        summary += engines.summary(both)
    for line in summary:
        screen.print(line, highlight=False)
    written = page.write(base, verdicts, summary, studies, drawn, both)
    screen.print(str(written), highlight=False, soft_wrap=True)
    if asked.publish is not None:
        page.publish(base, asked.publish)
    return failed == 0


def _announce(notes: Console, studies: Sequence[Study], apart: Apart, count: int) -> None:
    """Say what there is to run, and how long it will take."""
    tasks = unique(studies)
    left = [t for t in tasks if not t.finished]
    seconds = points.expected_seconds(tasks, count) if left else 0.0
    machines, cells = apart.machines_left(), apart.cells_left()
    seconds += apart.seconds(count)
    micro = f", micro-benchmarks of {len(machines)} machines" if machines else ""
    if cells:
        micro += ", all cells of the QDMA study"
    done = f", {len(tasks) - len(left)} of them done" if len(left) < len(tasks) else ""
    rest = f"; about {progress.span(seconds)} with {count} at once" if left or machines or cells else ""
    notes.print(
        f"{NAME}: {len(tasks)} points of {len(studies)} studies{done}{micro}{rest}", highlight=False, soft_wrap=True
    )
