"""A study's folder: its plan, a folder for each point, and all finished points as one table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import tomlkit

from wiretime import __version__, files, runs
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.search import waking
from wiretime.study import metrics
from wiretime.study import point as one
from wiretime.study.plan import Plan, Point, parse, points

STUDY, PLAN, POOL = "study.json", "plan.toml", "points"
POINTS, TRIALS, TIMES = "points.parquet", "trials.parquet", "times.parquet"
ROW = "row"
# Of a study whose points are not what its plan says: their settings.
VARIED = "varied"


@dataclass(frozen=True)
class Task:
    """A point, the machine it runs on, and where what it yields is."""

    point: Point
    platform: Mapping[str, Any]
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether it has been run: what it yielded is there, and whole."""
        return bool(self.row)

    @property
    def failed(self) -> str | None:
        """Why it has failed, where it has."""
        found = files.read(self.folder / one.FAILED)
        return str(found.get("reason", "")) if isinstance(found, dict) else None

    @property
    def row(self) -> Mapping[str, Any]:
        """Its place and what it yielded, where it is finished: never again anything else."""
        kept = vars(self)
        if ROW not in kept:
            found = files.read(self.folder / one.ROW)
            if not isinstance(found, dict):
                return {}
            kept[ROW] = {**self.point.place, **found}
        row: Mapping[str, Any] = kept[ROW]
        return row

    def figure(self, name: str) -> Any:
        """Return a metric: of its row, or, as ``host.NAME``, of what its run took of the host."""
        group, _, rest = name.partition(".")
        return self.host.get(rest) if group == metrics.HOST else self.row.get(name)

    @property
    def result(self) -> Report | None:
        """The result of its run, where it is no search."""
        found: Report | None = files.read(self.folder / "result.json")
        return found

    @property
    def trials(self) -> list[dict[str, Any]] | None:
        """The trials of its search, where it is one."""
        found: list[dict[str, Any]] | None = files.read(self.folder / one.TRIALS)
        return found

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        found = files.read(self.folder / "time.json")
        return float(found["seconds"]) if isinstance(found, dict) and "seconds" in found else None

    @property
    def host(self) -> Mapping[str, Any]:
        """What its run took of the host, where it is no search."""
        found = files.read(self.folder / "host.json")
        return found if isinstance(found, dict) else {}


class Study:
    """A plan and its folder; ``pool`` is where its points are, relative to that: studies may share them.

    ``vary`` changes what is set at a point, whose place stays what the plan calls it.
    """

    def __init__(
        self,
        plan: Plan,
        source: str,
        folder: Path,
        pool: str = POOL,
        vary: Callable[[Point], Point] | None = None,
    ):
        self.plan, self.source, self.path, self.pool = plan, source, folder, pool
        self._varied = vary is not None
        machines: dict[tuple[str, tuple[str, ...]], Mapping[str, Any]] = {}
        # The same path for the same point, whichever study has it.
        self.points = Path(os.path.normpath(folder / pool))
        self.tasks: list[Task] = []
        for planned in points(plan, source):
            point = planned if vary is None else vary(planned)
            try:
                request = point.request()
                # A search chooses its loads itself.
                if point.about.measure == "msb":
                    one.size_of_search(request, waking(request))
                else:
                    runs.check(request)
                # Points share the machines that they have in common.
                known = (
                    json.dumps([request.platform, request.nic, request.cores, request.ports]),
                    tuple(request.changes),
                )
                if known not in machines:
                    machines[known] = runs.machine(request)
            except (WiretimeError, TypeError) as e:
                raise WiretimeError(f"{source}: at {point.text()}: {e}") from None
            machine = machines[known]
            self.tasks.append(Task(point, machine, self.points / one.key(point, machine)))

    @property
    def alone(self) -> bool:
        """Whether its points run one at a time: where host times are drawn, which others would lengthen."""
        names = (*self.plan.metrics, *(plot.y for plot in self.plan.plots))
        return any(name.startswith(f"{metrics.HOST}.") for name in names)

    def text(self) -> str:
        """Return the plan as a file."""
        return tomlkit.dumps(self.plan.model_dump(exclude_defaults=True))

    def check_plan(self) -> None:
        """Raise where the folder holds another plan's study."""
        about = files.read(self.path / STUDY)
        if isinstance(about, dict) and about.get("plan") != json.loads(json.dumps(self.plan.model_dump())):
            raise WiretimeError(f"{self.path}: holds another plan's study: name another --out")

    def prepare(self, resume: bool) -> None:
        """Make the folder, or take up one that is there."""
        about = self.path / STUDY
        if about.is_file():
            check_format(self.path)
            finished = sum(t.finished for t in self.tasks)
            others = sum(1 for _ in self.points.glob("[0-9a-f]*"))
            if not resume:
                raise WiretimeError(
                    f"{self.path}: holds a study ({others} points, {finished} of them this plan's): "
                    "--resume to go on, or another --out"
                )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.points.mkdir(parents=True, exist_ok=True)
            what = {"format": one.FORMAT, "wiretime": __version__, "pool": self.pool, "plan": self.plan.model_dump()}
            if self._varied:
                what[VARIED] = {task.point.text(): dict(task.point.settings) for task in self.tasks}
            files.replace(about, json.dumps(what) + "\n")
        except OSError as e:
            raise WiretimeError(f"{self.path}: {e.strerror}") from None
        files.replace(self.path / PLAN, self.text())

    def store(self) -> int:
        """Write the tables of all finished points; returns how many there are."""
        rows, trials, times = [], [], []
        for task in self.tasks:
            if not task.finished:
                continue
            rows.append({"point": task.folder.name, **task.row})
            times.append({"point": task.folder.name, "seconds": task.seconds, **task.host})
            for trial in map(_flat_trial, task.trials or ()):
                # An axis may be named as a column of a trial, whatever its case: SQL's names have none.
                own = {"point", *(name.lower() for name in trial)}
                places = {f"at {k}" if k.lower() in own else k: v for k, v in task.point.place.items()}
                trials.append({"point": task.folder.name, **places, **trial})
        for name, table in ((POINTS, rows), (TRIALS, trials), (TIMES, times)):
            if table:
                with files.whole(self.path / name) as part:
                    pq.write_table(_table(table), part, compression="zstd")
            else:
                # Points of another version are none of this study's.
                (self.path / name).unlink(missing_ok=True)
        return len(rows)


def _flat_trial(t: Mapping[str, Any]) -> dict[str, Any]:
    flat = {k: v for k, v in t.items() if k not in ("latency", "drops")}
    return flat | {f"latency_{k}_ns": v for k, v in (t["latency"] or {}).items()} | dict(t["drops"])


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table: every column that any row has; numbers of two kinds become floating."""
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        values = [row.get(name) for row in rows]
        kinds = {type(v) for v in values if v is not None}
        if kinds == {int, float}:
            values = [None if v is None else float(v) for v in values]
        elif len(kinds) > 1:
            values = [None if v is None else str(v) for v in values]
        columns[name] = values
    return pa.table(columns)


def unique(studies: Iterable[Study]) -> list[Task]:
    """Return the points of studies, each once."""
    return list({task.folder: task for study in studies for task in study.tasks}.values())


def check_format(folder: Path) -> Mapping[str, Any]:
    """Return what a study's folder says of itself; raise where it is none, or of another version."""
    about = files.read(folder / STUDY)
    if not isinstance(about, dict):
        raise WiretimeError(f"{folder}: is no study's folder (wiretime sweep makes one)")
    if about.get("format") != one.FORMAT:
        raise WiretimeError(
            f"{folder}: was written by Wiretime {about.get('wiretime')}, in format {about.get('format')}; this is "
            f"{__version__}, format {one.FORMAT}: sweep anew into another folder"
        )
    if not {"plan", "pool"} <= set(about):
        raise WiretimeError(f"{folder / STUDY}: is damaged: sweep anew into another folder")
    return about


def open_study(folder: Path) -> Study:
    """Return the study that a folder holds."""
    about = check_format(folder)
    plan = parse(about["plan"], str(folder))
    if (varied := about.get(VARIED)) is None:
        return Study(plan, str(folder), folder, about["pool"])

    def as_run(point: Point) -> Point:
        return replace(point, settings=varied[point.text()])

    return Study(plan, str(folder), folder, about["pool"], as_run)


def query(folder: Path, sql: str) -> pa.Table:
    """Return what a query finds in a study's tables: ``points``, ``trials``, and ``times``, those of the host."""
    check_format(folder)
    if not (folder / POINTS).is_file():
        raise WiretimeError(f"{folder}: no point is finished yet")
    with duckdb.connect() as connection:
        try:
            for name, file in (("points", POINTS), ("trials", TRIALS), ("times", TIMES)):
                if (folder / file).is_file():
                    connection.from_parquet(str(folder / file)).create_view(name)
            found = connection.sql(sql)
            # A statement that finds nothing, such as SET.
            table: pa.Table = found.to_arrow_table() if found is not None else pa.table({})
        except duckdb.Error as e:
            raise WiretimeError(f"query: {str(e).splitlines()[0]}") from None
    return table
