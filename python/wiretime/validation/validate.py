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

NAME, QUICK = "validation", "quick"


def _measure_hardware(notes: Console, base: Path, machines: Sequence[str], jobs: int) -> int:
    """Run the micro-benchmarks of machines; returns how many failed."""
    with progress.progress(notes) as bar:
        shown = bar.add_task("micro-benchmarks", total=len(machines), left="")
        failed = 0
        for machine, reason in hardware.run(base, machines, jobs):
            bar.advance(shown)
            if reason is not None:
                failed += 1
                notes.print(f"failed: micro-benchmarks of {machine}: {reason}", markup=False, highlight=False)
        return failed


def _simulate_cells(notes: Console, base: Path, jobs: int) -> None:
    """Run every cell of the tables of the study of the QDMA."""
    with progress.progress(notes) as bar:
        total = len(qdma.PLATFORMS) * len(qdma.SIZES) * len(qdma.QUEUES)
        shown = bar.add_task("cells of the QDMA study", total=total, left="")
        for _ in qdma.run(base, jobs):
            bar.advance(shown)


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
    apart = (hardware.NAME, qdma.NAME, engines.NAME)
    wanted, others = execute.chosen(claims.load(), asked.only, [*claims.further(), *apart])
    further = [o for o in others if o not in apart]
    if engines.NAME in others and not asked.quick:
        further += engines.STUDIES
    studies = execute.studies(wanted, further, base, pool, asked.quick)
    if not studies and not others:
        raise WiretimeError(f"--quick: nothing of --only {','.join(asked.only)} is part of it")
    with_hardware = hardware.NAME in others
    machines = hardware.left(asked.base) if with_hardware else []
    # A minute for one source: of a quick look only where it is asked for.
    with_qdma = qdma.NAME in others and bool(asked.only or not asked.quick)
    cells = with_qdma and qdma.left(asked.base)
    _announce(notes, list(studies.values()), machines, cells, count)
    if asked.dry_run:
        return True
    for study in studies.values():
        study.prepare(resume=True)
    failed = 0
    if machines:
        failed += _measure_hardware(notes, asked.base, machines, count)
    if cells:
        _simulate_cells(notes, asked.base, count)
    failed += progress.sweep(notes, NAME, list(studies.values()), count) if studies else 0
    tables = judge.Tables(studies)
    verdicts = [judge.verdict(claim, tables) for claim in wanted]
    if asked.samples:
        missed, verdicts = spans.with_spans(notes, verdicts, studies, base, pool, asked.samples, count)
        failed += missed
    if with_hardware:
        verdicts += hardware.verdicts(asked.base)
    if with_qdma:
        verdicts += qdma.verdicts(asked.base)
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


def _announce(notes: Console, studies: Sequence[Study], machines: Sequence[str], cells: bool, count: int) -> None:
    """Say what there is to run, and how long it will take."""
    tasks = unique(studies)
    left = [t for t in tasks if not t.finished]
    seconds = points.expected_seconds(tasks, count) if left else 0.0
    seconds += len(machines) * hardware.GUESS_SECONDS / min(count, max(1, len(machines)))
    micro = f", micro-benchmarks of {len(machines)} machines" if machines else ""
    if cells:
        seconds += qdma.GUESS_SECONDS / count
        micro += ", all cells of the QDMA study"
    done = f", {len(tasks) - len(left)} of them done" if len(left) < len(tasks) else ""
    rest = f"; about {progress.span(seconds)} with {count} at once" if left or machines or cells else ""
    notes.print(
        f"{NAME}: {len(tasks)} points of {len(studies)} studies{done}{micro}{rest}", highlight=False, soft_wrap=True
    )
