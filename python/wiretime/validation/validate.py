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
from wiretime.validation import claims, execute, hardware, judge, page, show

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


@dataclass(frozen=True)
class Asked:
    """What a user asks for."""

    base: Path
    only: Sequence[str] = ()
    quick: bool = False
    jobs: int | None = None
    dry_run: bool = False
    publish: Path | None = None


def run(notes: Console, screen: Console, asked: Asked) -> bool:
    """Validate; returns whether every point could be run."""
    # Parts of studies are not the studies: they have a folder of their own, and share the points.
    base, pool = (asked.base / QUICK, f"../{execute.POOL}") if asked.quick else (asked.base, execute.POOL)
    count = progress.jobs_of(asked.jobs)
    wanted, others = execute.chosen(claims.load(), asked.only, [*claims.further(), hardware.NAME])
    studies = execute.studies(wanted, [o for o in others if o != hardware.NAME], base, pool, asked.quick)
    if not studies and not others:
        raise WiretimeError(f"--quick: nothing of --only {','.join(asked.only)} is part of it")
    with_hardware = hardware.NAME in others
    machines = hardware.left(asked.base) if with_hardware else []
    _announce(notes, list(studies.values()), machines, count)
    if asked.dry_run:
        return True
    for study in studies.values():
        study.prepare(resume=True)
    failed = 0
    if machines:
        failed += _measure_hardware(notes, asked.base, machines, count)
    failed += progress.sweep(notes, NAME, list(studies.values()), count) if studies else 0
    tables = judge.Tables(studies)
    verdicts = [judge.verdict(claim, tables) for claim in wanted]
    if with_hardware:
        verdicts += hardware.verdicts(asked.base)
    summary = judge.summary(verdicts)
    screen.print(show.table(verdicts))
    for line in summary:
        screen.print(line, highlight=False)
    screen.print(str(page.write(base, verdicts, summary, studies)), highlight=False, soft_wrap=True)
    if asked.publish is not None:
        page.publish(base, asked.publish)
    return failed == 0


def _announce(notes: Console, studies: Sequence[Study], machines: Sequence[str], count: int) -> None:
    """Say what there is to run, and how long it will take."""
    tasks = unique(studies)
    left = [t for t in tasks if not t.finished]
    seconds = points.expected_seconds(tasks, count) if left else 0.0
    seconds += len(machines) * hardware.GUESS_SECONDS / min(count, max(1, len(machines)))
    micro = f", micro-benchmarks of {len(machines)} machines" if machines else ""
    done = f", {len(tasks) - len(left)} of them done" if len(left) < len(tasks) else ""
    rest = f"; about {progress.span(seconds)} with {count} at once" if left or machines else ""
    notes.print(
        f"{NAME}: {len(tasks)} points of {len(studies)} studies{done}{micro}{rest}", highlight=False, soft_wrap=True
    )
