"""A study on the screen: what it is, how far it is, what it found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from wiretime import files
from wiretime.errors import WiretimeError
from wiretime.study import execute, metrics
from wiretime.study.folder import Study, Task, query, unique
from wiretime.tables import plain

ROWS_MAX = 200
# Tables of a sweep under way are this old at most, and at its end whole: writing them takes the points' cores.
STORE_SECONDS = 30.0


def span(seconds: float) -> str:
    """Return a time as a person estimates it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def about(console: Console, name: str, tasks: Sequence[Task], jobs: int | None, alone: bool = False) -> None:
    """Say how many points there are, and what they will take; ``alone``: one at a time."""
    done = sum(t.finished for t in tasks)
    count = 1 if alone else execute.jobs_of(jobs)
    guess = "" if done else ", a guess before the first is done"
    left = execute.expected_seconds(tasks, count)
    what = f"{len(tasks)} points, {done} of them done" if done else f"{len(tasks)} points"
    rest = (
        f"; about {span(left)}{', one at a time' if alone else f' with {count} at once'}{guess}"
        if done < len(tasks)
        else ""
    )
    console.print(f"{name}: {what}{rest}", highlight=False, soft_wrap=True)


def _options(texts: Sequence[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise WiretimeError(f"--cluster-set {text}: must be NAME=VALUE")
        options[name] = int(value) if value.isdigit() else value
    return options


def progress(console: Console) -> Progress:
    """Return a display of how far something is; its tasks say what is ``left``."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
    )


def _store(studies: Sequence[Study]) -> None:
    for study in studies:
        study.store()


def sweep(
    console: Console,
    name: str,
    studies: Sequence[Study],
    jobs: int | None = None,
    cluster: str | None = None,
    options: Sequence[str] = (),
) -> int:
    """Run what is not finished, tell how far it is, and write the tables; returns how many points failed."""
    tasks = unique(studies)
    # Folders, which are theirs alone.
    failed: set[Path] = set()
    count = execute.jobs_of(jobs)
    stored = time.monotonic()
    with progress(console) as bar:
        shown = bar.add_task(name, total=len(tasks), completed=sum(t.finished for t in tasks), left="")

        def report(task: Task, reason: str | None) -> None:
            if reason is not None:
                failed.add(task.folder)
                console.print(f"failed: {task.point.text()}: {reason}", markup=False, highlight=False, soft_wrap=True)
            nonlocal stored
            if time.monotonic() - stored > STORE_SECONDS:
                _store(studies)
                stored = time.monotonic()
            over = sum(t.finished for t in tasks) + len(failed)
            left = execute.expected_seconds([t for t in tasks if t.folder not in failed], count)
            bar.update(shown, completed=over, left=f"about {span(left)} left" if over < len(tasks) else "")

        try:
            execute.sweep_studies(studies, report, jobs, cluster, _options(options))
        finally:
            _store(studies)
    return len(failed)


def resumed(console: Console, name: str, studies: Sequence[Study], jobs: int | None = None) -> int:
    """Go on with studies where they were left, or begin them; returns how many points failed."""
    for study in studies:
        study.prepare(resume=True)
    return sweep(console, name, studies, jobs) if studies else 0


def rows(found: pa.Table) -> RenderableType:
    """Return an Arrow table for the screen."""
    table = plain("")
    table.title = None
    for name in found.column_names:
        table.add_column(Text(name))
    # By place: a query may name two columns alike.
    for row in zip(*(column.to_pylist() for column in found.slice(0, ROWS_MAX).columns), strict=True):
        told = ("" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v) for v in row)
        table.add_row(*(Text(text) for text in told))
    if found.num_rows > ROWS_MAX:
        table.caption = f"{found.num_rows} rows; --csv FILE writes all"
    return table


def table(study: Study) -> RenderableType:
    """Return the metrics that a study asks for, at every point."""
    if not any(t.finished for t in study.tasks):
        return "no point is finished"
    there = query(study.path, "SELECT * FROM points LIMIT 0").column_names
    asked = (*study.plan.axes, *study.plan.metrics)
    # What no point has, such as a counter of a core that no machine has, is empty.
    names = ", ".join(f'"{name}"' if name in there else f'NULL AS "{name}"' for name in asked)
    found = query(study.path, f"SELECT {names} FROM points")
    units = [
        f"{name} ({u})" if (u := metrics.unit(name)) and name in study.plan.metrics else name
        for name in found.column_names
    ]
    return rows(found.rename_columns(units))


def write(found: pa.Table, csv_file: Path | None, arrow_file: Path | None) -> None:
    """Write a table into files."""
    try:
        if csv_file is not None:
            with files.written(csv_file) as place:
                pyarrow.csv.write_csv(found, place)
        if arrow_file is not None:
            with files.written(arrow_file) as place:
                pyarrow.feather.write_feather(found, str(place))
    except pa.ArrowException as e:
        raise WiretimeError(f"{csv_file or arrow_file}: {str(e).splitlines()[0]}") from None
    except OSError as e:
        raise WiretimeError(f"{csv_file or arrow_file}: {e.strerror or e}") from None
