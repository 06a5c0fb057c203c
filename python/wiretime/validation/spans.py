"""Where the estimates of a platform may take each row: all is run again, with all estimates drawn together.

Each sample is judged as the row is, by its own rule: so a gain varies as a gain does, one machine against another in
the same sample. The span is of all samples; few are drawn, since each is a whole validation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from wiretime.study import show, uncertainty
from wiretime.study.folder import Study
from wiretime.validation import qdma
from wiretime.validation.apart import Apart
from wiretime.validation.claims import Claim
from wiretime.validation.judge import Tables, Verdict, verdict

FOLDER, SEED = "uncertainty", 1


def with_spans(
    notes: Console,
    verdicts: Sequence[Verdict],
    claims: Sequence[Claim],
    studies: Mapping[str, Study],
    apart: Apart,
    base: Path,
    pool: str,
    count: int,
    jobs: int,
    narrowed: Collection[str] = (),
) -> tuple[int, list[Verdict]]:
    """Run studies, and rows apart from them, with so many samples.

    Returns how many points failed, and the rows with their spans: those of claims about studies first.
    """
    names = {name for study in studies.values() for name in uncertainty.estimates_of(study.plan, study.source)}
    columns: list[list[float | str | None]] = []
    failed = 0
    for n, places in enumerate(uncertainty.drawn(sorted(names | apart.parameters()), count, SEED)):
        folder = base / FOLDER / f"{n:03}"
        sampled = {
            name: uncertainty.sampled(study, places, folder / name, f"../../{pool}") for name, study in studies.items()
        }
        failed += show.resumed(notes, f"estimates, sample {n + 1} of {count}", list(sampled.values()), jobs)
        failed += apart.run(notes, jobs, places)
        tables = Tables(sampled, narrowed)
        # A machine that could not be measured with these places has no rows in this sample.
        others = {_row_of(v): v.simulated for v in apart.verdicts(places)}
        columns.append(
            [
                *(verdict(claim, tables).simulated for claim in claims),
                *(others.get(_row_of(v)) for v in verdicts[len(claims) :]),
            ]
        )
    return failed, [_spanned(v, found) for v, *found in zip(verdicts, *columns, strict=True)]


def _row_of(v: Verdict) -> tuple[str, str, str, str]:
    # What binds a cell may be another thing in a sample.
    return v.claim.source, v.claim.figure, v.claim.what.partition(qdma.BINDS)[0], v.claim.published


def _spanned(v: Verdict, found: Sequence[float | str | None]) -> Verdict:
    values = [value for value in (v.simulated, *found) if isinstance(value, float)]
    if not isinstance(v.simulated, float) or len(values) == 1:
        return v
    return replace(v, span=(min(values), max(values)))
