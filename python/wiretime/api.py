"""Wiretime from a notebook: machines, runs, searches and studies, with results as data frames.

import wiretime as wt

machine = wt.machine("ampere-altra", {"llc.dca_ways": 4}, nic="82599")
run = wt.run("testpmd", machine, packet_size=64, rate="20Gbps")
run["forwarded_gbps"], run.frame()
wt.msb("testpmd", machine, packet_sizes=[64, 1518])
wt.sweep("experiments/dca.toml").frame()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from wiretime import platforms, runs
from wiretime import search as searches
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.request import Request
from wiretime.study import execute, folder, metrics, report
from wiretime.study import plan as plans

Value = str | int | bool


@dataclass(frozen=True)
class Machine:
    """A platform and what is changed of it."""

    platform: str = platforms.DEFAULT
    changes: Mapping[str, Value] = field(default_factory=dict)
    nic: str | None = None
    cores: int | None = None
    ports: int | None = None

    def options(self) -> dict[str, Any]:
        """Return what a run is told of it."""
        texts = tuple(f"{k}={plans.text_of(v)}" for k, v in self.changes.items())
        return {
            "platform": self.platform,
            "changes": texts,
            "nic": self.nic,
            "cores": self.cores,
            "ports": self.ports,
        }

    def parameters(self) -> dict[str, Any]:
        """Return every parameter, by its dotted name."""
        return dict(platforms.flatten(runs.machine(Request(**self.options()))))


def machine(
    platform: str = platforms.DEFAULT,
    changes: Mapping[str, Value] | None = None,
    *,
    nic: str | None = None,
    cores: int | None = None,
    ports: int | None = None,
) -> Machine:
    """Return a machine, checked.

    ``changes`` are parameters by dotted name (``wiretime platforms show NAME`` lists them), ``nic`` a card
    (connectx-6dx, 82599, ...), ``cores`` those of the application beside one for the system. Raises
    ``WiretimeError``.
    """
    made = Machine(platform, dict(changes or {}), nic, cores, ports)
    made.parameters()
    return made


@dataclass(frozen=True)
class Run:
    """What a run has left."""

    result: Report
    console: str

    def __getitem__(self, name: str) -> Any:
        """Return a metric by its name, as in plans: ``forwarded_gbps``, ``statistics.cores.1.core.cycles``."""
        row = metrics.of_run(self.result)
        if name not in row:
            raise WiretimeError(f"this run has no metric {name}")
        return row[name]

    def frame(self) -> pd.DataFrame:
        """Return one row with every parameter and metric."""
        platform = metrics.of_platform(self.result["configuration"]["platform"])
        return pd.DataFrame([{**platform, **metrics.of_run(self.result)}])

    def latencies(self) -> pd.DataFrame:
        """Return the histogram of latencies: nanoseconds and packets."""
        return pd.DataFrame(self.result["latency_histogram_ns"], columns=["ns", "packets"])


def _request(app: str, on: Machine | None, options: Mapping[str, Any]) -> Request:
    try:
        return Request(app=app, **(on or Machine()).options(), **options)
    except TypeError as e:
        raise WiretimeError(str(e).replace("Request.__init__() got an ", "")) from None


def run(app: str = "testpmd", on: Machine | None = None, **options: Any) -> Run:
    """Run an application once, as ``wiretime run`` does.

    ``options`` are those of the command line, with underscores: ``packet_size``, ``rate``, ``duration``, ``seed`` and
    so on. Raises ``WiretimeError``, and ``GuestError`` where the guest failed.
    """
    done = runs.execute(_request(app, on, options))
    return Run(done.result, done.console)


def msb(
    app: str = "testpmd",
    on: Machine | None = None,
    packet_sizes: Sequence[int] | None = None,
    loss: float = 1.0,
    **options: Any,
) -> pd.DataFrame:
    """Return the maximum sustainable bandwidth of each packet size: the highest load with at most ``loss`` percent.

    Usual sizes are 64, 128, 256, 512, 1024 and 1518; requests to a store have lengths of their own, and count as 64.
    """
    if "packet_size" in options:
        if packet_sizes is not None:
            raise WiretimeError("packet_size and packet_sizes: one of them")
        size = options.pop("packet_size")
        if not isinstance(size, int):
            raise WiretimeError(f"packet_size {size!r}: a search takes a number, or packet_sizes several")
        packet_sizes = [size]
    request = _request(app, on, options)
    sizes = searches.sizes_of(request, packet_sizes)
    found = searches.msb(request, sizes, searches.share(loss), searches.silent)
    return pd.DataFrame([{"packet_size": f.size, **metrics.of_search(f)} for f in found])


@dataclass(frozen=True)
class Study:
    """A study's folder."""

    path: Path

    def frame(self) -> pd.DataFrame:
        """Return all finished points: place, parameters, metrics."""
        return self.query("SELECT * FROM points")

    def trials(self) -> pd.DataFrame:
        """Return the trials of all searches."""
        return self.query("SELECT * FROM trials")

    def query(self, sql: str) -> pd.DataFrame:
        """Return what a query finds in the tables ``points`` and ``trials`` (DuckDB's SQL)."""
        found: pd.DataFrame = folder.query(self.path, sql).to_pandas()
        return found

    def failed(self) -> dict[str, str]:
        """Return the points that failed, and why."""
        tasks = folder.open_study(self.path).tasks
        return {t.point.text(): reason for t in tasks if (reason := t.failed) is not None}

    def results(self, axis: str) -> dict[Any, Report]:
        """Return the results of finished runs by their place on one axis.

        Raises where another axis has several places, since results would hide each other.
        """
        study = folder.open_study(self.path)
        tasks = study.tasks
        if others := [name for name, places in study.plan.axes.items() if name != axis and len(places) > 1]:
            raise WiretimeError(f"results({axis!r}): of several places of {', '.join(others)}; use frame(), or query()")
        return {t.point.place[axis]: result for t in tasks if t.finished and (result := t.result) is not None}

    def report(self) -> Path:
        """Write the report; returns its path."""
        return report.write(folder.open_study(self.path))


def sweep(
    plan: str | Path | Mapping[str, Any], out: str | Path | None = None, jobs: int | None = None, resume: bool = True
) -> Study:
    """Run the points of a study that are not finished, and return it; ``plan`` is a TOML file or a table like one."""
    source = str(plan) if isinstance(plan, str | Path) else "plan"
    loaded = plans.load(Path(plan)) if isinstance(plan, str | Path) else plans.parse(plan, source)
    study = folder.Study(loaded, source, Path(out) if out else Path("studies") / loaded.study.name)
    study.prepare(resume)
    reasons: list[str] = []
    execute.sweep_studies([study], lambda _task, reason: reasons.append(reason) if reason else None, jobs)
    study.store()
    if study.tasks and not any(t.finished for t in study.tasks) and not any(t.failed for t in study.tasks):
        raise WiretimeError(
            f"{source}: no point has run: {reasons[0] if reasons else 'no process came up'}; a script that starts "
            'processes does so under `if __name__ == "__main__":`'
        )
    return Study(study.path)


def open_study(path: str | Path) -> Study:
    """Return a study that is there."""
    folder.check_format(Path(path))
    return Study(Path(path))
