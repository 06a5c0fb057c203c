"""A study's folder: its plan, a folder for each point, and all finished points as one table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import tomlkit

from wiretime import __version__, runs
from wiretime.errors import WiretimeError
from wiretime.study import point as one
from wiretime.study.plan import Plan, Point, parse, points

STUDY, PLAN, POINTS, TRIALS = "study.json", "plan.toml", "points.parquet", "trials.parquet"


@dataclass(frozen=True)
class Task:
    """A point, the machine it runs on, and where what it yields is."""

    point: Point
    platform: Mapping[str, Any]
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether it has been run."""
        return (self.folder / one.ROW).is_file()

    @property
    def failed(self) -> str | None:
        """Why it has failed, where it has."""
        path = self.folder / one.FAILED
        return str(json.loads(path.read_text())["reason"]) if path.is_file() else None

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        path = self.folder / "time.json"
        return float(json.loads(path.read_text())["seconds"]) if path.is_file() else None


class Study:
    """A plan and its folder."""

    def __init__(self, plan: Plan, source: str, folder: Path):
        self.plan, self.source, self.path = plan, source, folder
        machines: dict[tuple[str, tuple[str, ...]], Mapping[str, Any]] = {}
        self.tasks: list[Task] = []
        for point in points(plan, source):
            try:
                request = point.request()
                # Checks what a run checks, and resolves the machine once.
                known = (
                    json.dumps([request.platform, request.nic, request.cores, request.ports]),
                    tuple(request.changes),
                )
                if known not in machines:
                    machines[known] = runs.machine(request)
            except (WiretimeError, TypeError) as e:
                raise WiretimeError(f"{source}: at {point.text()}: {e}") from None
            machine = machines[known]
            self.tasks.append(Task(point, machine, folder / "points" / one.key(point, machine)))

    def prepare(self, resume: bool) -> None:
        """Make the folder, or take up one that is there."""
        about = self.path / STUDY
        if about.is_file():
            check_format(self.path)
            finished = sum(t.finished for t in self.tasks)
            others = sum(1 for _ in (self.path / "points").glob("[0-9a-f]*"))
            if not resume:
                raise WiretimeError(
                    f"{self.path}: holds a study ({others} points, {finished} of them this plan's): "
                    "--resume to go on, or another --out"
                )
        try:
            (self.path / "points").mkdir(parents=True, exist_ok=True)
            about.write_text(
                json.dumps({"format": one.FORMAT, "wiretime": __version__, "plan": self.plan.model_dump()}) + "\n"
            )
        except OSError as e:
            raise WiretimeError(f"{self.path}: {e.strerror}") from None
        (self.path / PLAN).write_text(tomlkit.dumps(self.plan.model_dump(exclude_defaults=True)))

    def store(self) -> int:
        """Write the tables of all finished points; returns how many there are."""
        rows, trials = [], []
        for task in self.tasks:
            if not task.finished:
                continue
            row = json.loads((task.folder / one.ROW).read_text())
            rows.append({"point": task.folder.name, **row})
            found = task.folder / "trials.json"
            if found.is_file():
                places = {f"at {k}" if k in ("size", "loss") else k: v for k, v in task.point.place.items()}
                trials += [
                    {"point": task.folder.name, **places, **_flat_trial(t)} for t in json.loads(found.read_text())
                ]
        for name, table in ((POINTS, rows), (TRIALS, trials)):
            if table:
                part = self.path / f".{name}"
                pq.write_table(_table(table), part, compression="zstd")
                part.rename(self.path / name)
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


def check_format(folder: Path) -> Mapping[str, Any]:
    """Return what a study's folder says of itself; raise where it is none, or of another version."""
    try:
        about: Mapping[str, Any] = json.loads((folder / STUDY).read_text())
    except (OSError, ValueError):
        raise WiretimeError(f"{folder}: is no study's folder (wiretime sweep makes one)") from None
    if about.get("format") != one.FORMAT:
        raise WiretimeError(
            f"{folder}: was written by Wiretime {about.get('wiretime')}, in format {about.get('format')}; this is "
            f"{__version__}, format {one.FORMAT}: sweep anew into another folder"
        )
    return about


def open_study(folder: Path) -> Study:
    """Return the study that a folder holds."""
    about = check_format(folder)
    return Study(parse(about["plan"], str(folder)), str(folder), folder)


def query(folder: Path, sql: str) -> pa.Table:
    """Return what a query finds in a study's tables, ``points`` and ``trials``."""
    check_format(folder)
    if not (folder / POINTS).is_file():
        raise WiretimeError(f"{folder}: no point is finished yet")
    with duckdb.connect() as connection:
        for name, file in (("points", POINTS), ("trials", TRIALS)):
            if (folder / file).is_file():
                connection.from_parquet(str(folder / file)).create_view(name)
        try:
            found = connection.sql(sql)
            # A statement that finds nothing, such as SET.
            table: pa.Table = found.to_arrow_table() if found is not None else pa.table({})
        except duckdb.Error as e:
            raise WiretimeError(f"query: {str(e).splitlines()[0]}") from None
    return table
