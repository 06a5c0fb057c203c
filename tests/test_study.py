"""Studies: plans are checked, points run once, whatever happens to the sweep; what they yield can be asked for."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
import typer.main
import wiretime as wt
from conftest import WIRETIME, wiretime
from rich.console import Console
from rich.table import Table
from wiretime import advise, api, paths, platforms, runs, search, statistics
from wiretime.cli import app
from wiretime.errors import WiretimeError
from wiretime.profile import Entry, Line
from wiretime.request import OF_ONE_LOAD, Request, option_of
from wiretime.setup import dpdk, older
from wiretime.setup.parts import GUEST
from wiretime.study import draw, execute, folder, metrics, show
from wiretime.study import plan as plans
from wiretime.study import point as one

PLOTS = ("lines", "bars", "curves", "drops", "latency", "hops", "cpi", "occupancy", "sensitivity")
SHORT = {"duration": "100us", "warm_up": "50us", "rate": "10Gbps"}


def table(**changes: Any) -> dict[str, Any]:
    return {"study": {"name": "t"}, "axes": {"packet_size": [64, 128]}, "metrics": ["forwarded_gbps"], **changes}


def points(**changes: Any) -> list[plans.Point]:
    return plans.points(plans.parse(table(**changes), "P"), "P")


def test_points_are_all_combinations() -> None:
    dca = [{"label": "off", "llc.dca_ways": 0}, {"label": "on", "llc.dca_ways": 4, "nic.rx_fifo": "64KiB"}]
    found = points(axes={"dca": dca, "--burst": [16, 32], "iperf.streams": [1, 2]}, fixed={"rate": "1Gbps"})
    assert len(found) == 8 and found[0].text() == "dca off, --burst 16, iperf.streams 1"
    r = found[-1].request()
    assert r.changes == ("llc.dca_ways=4", "nic.rx_fifo=64KiB") and r.app_args == "--burst=32"
    assert r.iperf == ("streams=2",) and r.rate == "1Gbps"


def test_a_point_says_the_command_that_does_the_same() -> None:
    (point,) = points(axes={"seed": [1]}, fixed={"profile": True, "lenient": False, "link.0.rate": "50Gbps"})
    assert point.command() == "wiretime run testpmd --out DIR --profile --set link.0.rate=50Gbps --seed 1"
    (search,) = plans.points(
        plans.parse(
            {**table(axes={"seed": [1]}), "study": {"name": "t", "measure": "msb"}, "metrics": ["msb_gbps"]}, "P"
        ),
        "P",
    )
    assert search.command().startswith("wiretime msb testpmd --packet-sizes 256 --seed 1")
    of_store = {**table(axes={"seed": [1]}, fixed={"app": "memcached"}), "metrics": ["msb_gbps"]}
    (store,) = plans.points(plans.parse({**of_store, "study": {"name": "t", "measure": "msb"}}, "P"), "P")
    assert "packet-sizes" not in store.command()
    (own,) = points(axes={"seed": [1]}, fixed={"app": "/tmp/my prog"})
    assert shlex.split(own.command())[:3] == ["wiretime", "run", "/tmp/my prog"]


def test_a_users_program_is_what_it_holds(tmp_path: Path) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\nexec dpdk-testpmd\n")
    program.chmod(0o755)
    (point,) = points(axes={"seed": [1]}, fixed={"app": str(program)})
    platform = platforms.load("ampere-altra")
    before = one.key(point, platform)
    assert one.key(point, platform) == before
    program.write_text("#!/bin/sh\nexec dpdk-testpmd --no-pci\n")
    assert one.key(point, platform) != before


def test_a_point_is_of_the_engine_that_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is built anew while a study lasts makes other points: none is taken for one of the other's."""
    engine = tmp_path / "engine.so"
    engine.write_text("one")
    monkeypatch.setattr(paths, "engine", lambda: engine)
    (point,) = points(axes={"seed": [1]})
    platform = platforms.load("ampere-altra")
    before = one.key(point, platform)
    assert one.key(point, platform) == before

    def run(*_: Any) -> dict[str, Any]:
        engine.write_text("another")
        os.utime(engine, (1, 1))
        return {}

    monkeypatch.setattr(one, "_run", run)
    assert one.execute(point, platform, tmp_path / before) == one.CHANGED
    assert one.key(point, platform) != before and not (tmp_path / before / one.ROW).exists()


def test_two_commands_run_a_point_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second waits, and finds it done."""
    (point,) = points(axes={"seed": [1]})
    ran = []

    def fill(*_: Any) -> None:
        ran.append(1)
        time.sleep(0.2)
        (tmp_path / ".K" / one.ROW).write_text("{}")

    monkeypatch.setattr(one, "_fill", fill)
    left = tmp_path / ".K"
    left.mkdir()
    (left / "of an earlier one").write_text("")
    both = [threading.Thread(target=one.execute, args=(point, {}, tmp_path / "K")) for _ in range(2)]
    [t.start() for t in both]
    [t.join() for t in both]
    assert ran == [1] and [p.name for p in tmp_path.iterdir()] == ["K"]
    assert [p.name for p in (tmp_path / "K").iterdir()] == [one.ROW]


def test_values_of_the_command_line_have_their_type() -> None:
    with_more = plans.with_axes(table(), ["speed=1,2.5", "lenient=true", "rate=2.5Gbps", "--version=1.0.2"])
    assert with_more["axes"] == {
        "packet_size": [64, 128], "speed": [1, 2.5], "lenient": [True], "rate": ["2.5Gbps"], "--version": ["1.0.2"],
    }  # fmt: skip


def test_places_of_an_axis_are_meant_by_their_labels() -> None:
    axes = {"dca": [{"label": "off", "llc.dca_ways": 0}, {"label": "on", "llc.dca_ways": 4}], "packet_size": [64]}
    only = plans.with_axes({**table(), "axes": axes}, ["dca=on", "packet_size=128"])
    assert only["axes"] == {"dca": [axes["dca"][1]], "packet_size": [128]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"axes": {"llc.dca_way": [0]}}, "P: axes: unknown axis or setting 'llc.dca_way'; did you mean llc.dca_ways?"),
        ({"axes": {"packet_sizes": [64]}}, "did you mean packet_size?"),
        ({"axes": {"rate": []}}, "P: axis rate is empty"),
        ({"axes": {}}, "P: there is no axis"),
        ({"axes": {"seed": [1, 2, 1]}}, "P: two points are the same: seed 1; seed 1"),
        ({"axes": {"seed": [1, {"label": "a"}]}}, "P: axis seed: either values or tables"),
        ({"axes": {"x": [{"seed": 1}]}}, "P: axis x: a table needs a label"),
        (
            {"axes": {"x": [{"label": "a", "seed": 1}, {"label": "a", "seed": 2}]}},
            "P: axis x: two places are called a",
        ),
        ({"axes": {"ipc": [{"label": "a", "seed": 1}]}}, "P: axis ipc: is a metric's name"),
        (
            {"axes": {"x": [{"label": "a", "seed": 1}], "X": [{"label": "b", "rate": "1Gbps"}]}},
            "P: axis x: another is called so, but for capitals",
        ),
        ({"study": {"name": "t", "loss": 2.0}}, 'P: study.loss: of a search (measure = "msb")'),
        (
            {"metrics": ["forwarded_gpbs"]},
            "no run yields it: unknown metric 'forwarded_gpbs'; did you mean forwarded_gbps",
        ),
        ({"metrics": ["statistics.cores.0.core.cycle"]}, "no run yields it"),
        ({"metrics": []}, "P: metrics: list should have at least 1 item"),
        ({"fixed": {"packet_size": 64}}, "P: packet_size is fixed and an axis"),
        ({"study": {"name": "t", "measure": "rum"}}, "P: study.measure: input should be 'run' or 'msb'"),
        ({"sutdy": {}}, "P: sutdy: extra inputs are not permitted"),
        ({"plots": [{"title": "a", "x": "rate", "y": "ipc"}]}, "P: plot 'a': unknown axis 'rate'"),
        (
            {"plots": [{"title": "a", "y": "ipd"}]},
            "P: plot 'a': no run yields it: unknown metric 'ipd'; did you mean ipc",
        ),
        ({"metrics": ["cohort.fowarded"]}, "did you mean cohort.forwarded"),
        (
            {"study": {"name": "t", "measure": "msb"}, "metrics": ["ipc"]},
            "P: metrics: no search yields it: unknown metric 'ipc'",
        ),
        (
            {
                "study": {"name": "t", "measure": "msb"},
                "metrics": ["msb_gbps"],
                "plots": [{"title": "a", "kind": "cpi"}],
            },
            "P: plot 'a': cpi needs runs",
        ),
        (
            {"study": {"name": "t", "measure": "msb"}, "metrics": ["msb_gbps"], "fixed": {"rate": "1Gbps"}},
            'P: fixed: rate is of runs (measure = "run"); a search finds the load itself',
        ),
        (
            {"study": {"name": "t", "measure": "msb"}, "metrics": ["msb_gbps"], "fixed": {"profile": True}},
            "P: fixed: profile is of runs",
        ),
        (
            {
                "study": {"name": "t", "measure": "msb"},
                "metrics": ["msb_gbps"],
                "axes": {"x": [{"label": "a", "iperf.streams": 2}]},
            },
            "P: axis x: iperf.streams is of runs",
        ),
        ({"axes": {"seed": [1], "queues": ["two"]}}, "P: at seed 1, queues two: queues is 'two': must be int"),
        ({"axes": {"llc.dca_ways": [99]}}, "P: at llc.dca_ways 99: "),
        (
            {
                "study": {"name": "t", "measure": "msb"},
                "metrics": ["msb_gbps"],
                "axes": {"packet_size": ["imix"]},
            },
            "P: at packet_size imix: packet_size imix: a search takes one size",
        ),
        (
            {"axes": {"POINT": [{"label": "a", "seed": 1}]}},
            "P: axis POINT: no column of a table can have that name",
        ),
        ({"axes": {"Loss_Percent": [{"label": "a", "seed": 1}]}}, "P: axis Loss_Percent: is a metric's name"),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WiretimeError) as e:
        folder.Study(plans.parse(table(**changes), "P"), "P", Path("nowhere"))
    assert said in str(e.value)


@pytest.mark.parametrize("measure", ["run", "msb"])
def test_what_a_plan_may_set_is_an_option_of_its_command(measure: str) -> None:
    group: Any = typer.main.get_command(app)
    known = {option for parameter in group.commands[measure].params for option in parameter.opts}
    elsewhere = {"app", "packet_size", *(OF_ONE_LOAD if measure == "msb" else ())}
    assert {option_of(name) for name in plans.OPTIONS if name not in elsewhere} <= known
    assert measure == "run" or not known & {option_of(name) for name in OF_ONE_LOAD}


def test_a_request_as_settings_of_a_plan_is_the_same_request() -> None:
    request = Request(
        app="memcached_dpdk", platform="gem5-n1-paper", nic="82599", cores=2, app_args="--rxd=256",
        changes=("llc.size=2MiB", "dram=ddr5-4800"), store=("keys=100",), iperf=("streams=2",),
    )  # fmt: skip
    assert plans.Point({}, plans.settings_of(request), plans.About(name="t")).request() == request
    assert plans.settings_of(Request()) == {}


@pytest.mark.parametrize("path", sorted((paths.REPOSITORY / "experiments").glob("*.toml")), ids=lambda p: p.stem)
def test_plans_of_the_published_studies_can_be_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a plan asks for and a fresh set-up lacks (DPDK's sources are in no registry): the guest's own, so named.
    monkeypatch.setattr(dpdk, "variant", lambda name: dpdk.Variant(name, GUEST.folder(), "0", "0"))
    monkeypatch.setattr(older, "files", lambda name: {})
    study = folder.Study(plans.load(path), str(path), Path("nowhere"))
    group: Any = typer.main.get_command(app)
    assert study.plan.study.name == path.stem and len(study.tasks) >= 2 and study.plan.plots
    for task in study.tasks:
        check = search.waking if study.plan.study.measure == "msb" else runs.check
        assert check(task.point.request()).command.text
        name, *words = shlex.split(task.point.command().removeprefix("wiretime "))
        known = {option for parameter in group.commands[name].params for option in parameter.opts}
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known, "the command line has what a plan sets"


def test_what_no_point_has_is_empty_in_the_table(tmp_path: Path) -> None:
    plan = table(
        fixed={**SHORT, "engine": "packet", "nic": "82599"}, metrics=["loss_percent", "statistics.cores.3.core.cycles"]
    )
    for jobs in (0, -1):
        with pytest.raises(WiretimeError, match=f"--jobs {jobs}: at least 1"):
            api.sweep(plan, out=tmp_path, jobs=jobs)
    api.sweep(plan, out=tmp_path)
    shown = show.table(folder.open_study(tmp_path))
    assert isinstance(shown, Table) and [str(cell) for cell in shown.columns[2].cells] == ["", ""]


def written(path: Path, **axes: list[Any]) -> Path:
    lines = ['metrics = ["forwarded_gbps", "loss_percent"]', "[study]", 'name = "t"', "[fixed]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in SHORT.items()]
    lines += ["[axes]", *(f'"{k}" = {json.dumps(v)}'.replace('": ', '" = ') for k, v in axes.items())]
    for kind in PLOTS:
        lines += ["[[plots]]", f'title = "Drawn as {kind}"', f'kind = "{kind}"', 'y = "forwarded_gbps"']
        lines += ['x = "seed"'] if kind == "lines" else []
    path.write_text("\n".join(lines) + "\n")
    return path


class Page(HTMLParser):
    """What a browser would load from elsewhere, and the text of headings and cells."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = {"src", "href", "xlink:href"}
        self.outside += [v for k, v in attrs if k in names and v and not v.startswith(("#", "data:"))]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_a_study_from_plan_to_query(tmp_path: Path) -> None:
    """One point fails and stops nothing; a second sweep runs that one alone; tables hold parameters and figures."""
    limits = [{"label": "short", "guest_limit": "1ms"}, {"label": "usual", "guest_limit": "60s"}]
    plan = written(tmp_path / "plan.toml", limit=limits, seed=[1])
    out = tmp_path / "study"
    dry = wiretime("sweep", str(plan), "--out", str(out), "--dry-run")
    assert dry.returncode == 0 and "t: 2 points; about " in dry.stderr and not out.exists()
    first = wiretime("sweep", str(plan), "--out", str(out), "--jobs", "2")
    assert first.returncode == 1
    assert "failed: limit short, seed 1: no port was enabled within 1ms" in first.stderr
    assert "9.99424" in first.stdout and "forwarded_gbps (Gb/s)" in first.stdout
    again = wiretime("sweep", str(plan), "--out", str(out))
    assert again.returncode == 2 and "holds a study (2 points, 1 of them this plan's): --resume" in again.stderr
    done = [p for p in (out / "points").iterdir() if (p / "row.json").is_file()]
    stamp = done[0].stat().st_mtime_ns
    resumed = wiretime("sweep", str(plan), "--out", str(out), "--resume")
    assert resumed.returncode == 1 and "t: 2 points, 1 of them done" in resumed.stderr
    assert done[0].stat().st_mtime_ns == stamp, "finished points are not run again"
    arrow, csv = tmp_path / "a.arrow", tmp_path / "a.csv"
    sql = 'SELECT "limit", "platform.llc.dca_ways" AS ways, forwarded_gbps, latency_hdr_ps FROM points'
    asked = wiretime("query", str(out), sql, "--arrow", str(arrow), "--csv", str(csv))
    assert asked.returncode == 0, asked.stderr
    rows = pyarrow.feather.read_table(arrow).to_pylist()
    result = json.loads((done[0] / "result.json").read_text())
    assert [r["limit"] for r in rows] == ["usual"] and rows[0]["forwarded_gbps"] == result["forwarded_gbps"]
    assert rows[0]["latency_hdr_ps"] == result["latency_hdr_ps"] and rows[0]["ways"] == 0
    assert csv.read_text().startswith('"limit","ways","forwarded_gbps"')
    reported = wiretime("report", str(out))
    assert reported.returncode == 0 and reported.stdout.strip() == str(out / "report.html"), reported.stderr
    text = (out / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.outside == [] and page.tags.count("svg") == len(PLOTS)
    assert {f"Drawn as {kind}" for kind in PLOTS} <= set(page.texts)
    assert "limit short, seed 1: no port was enabled within 1ms of simulated time" in page.texts, "what failed is told"
    assert f"{result['forwarded_gbps']:.5g}" in page.texts
    command = "wiretime run testpmd --duration 100us --warmup 50us --rate 10Gbps --guest-limit 60s --seed 1"
    assert command in text
    for ending in ("png", "svg"):
        assert len(list((out / "plots").glob(f"*.{ending}"))) == len(PLOTS)
    assert wiretime("report", str(out)).returncode == 0 and (out / "report.html").read_text() == text, (
        "the same each time"
    )
    wrong = wiretime("query", str(out), "SELECT nothing FROM points")
    assert wrong.returncode == 2 and 'Referenced column "nothing" not found' in wrong.stderr
    about = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**about, "format": 0}))
    old = wiretime("query", str(out), sql)
    assert old.returncode == 2 and "in format 0; this is" in old.stderr and "sweep anew" in old.stderr
    nothing = wiretime("query", str(tmp_path), sql)
    assert nothing.returncode == 2 and "is no study's folder" in nothing.stderr


def test_changes_from_and_to_nothing_are_no_percentages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places together: a mean of ratios, or, where some are zero, the ratio of sums; alone from zero: none."""
    axes = {"ring": [1, 2], "rate": [10, 20]}
    plan: Any = SimpleNamespace(plan=SimpleNamespace(axes=axes))
    places = [{"ring": a, "rate": b} for a in axes["ring"] for b in axes["rate"]]

    def changes(values: Sequence[float], x: str) -> dict[str, float]:
        tasks: Any = [
            SimpleNamespace(point=SimpleNamespace(place=place), figure=lambda _, v=value: v)
            for place, value in zip(places, values, strict=True)
        ]
        plot: Any = SimpleNamespace(x=x, y="loss_percent", facet="")
        monkeypatch.setattr(draw, "_text", lambda t, *_: str(t.point.place))
        return {row["change"]: round(row["percent"]) for row in draw._changes(plot, plan, tasks)}

    def of_ring(*values: float) -> int | None:
        return changes(values, "").get("ring: 1 to 2")

    assert of_ring(1, 4, 2, 2) == 0, "twice and half"
    assert of_ring(10, 10, 0, 5) == -75, "one is gone"
    assert of_ring(0, 10, 30, 20) == 400, "one has come"
    assert of_ring(0, 0, 30, 20) is None
    assert list(changes([0, 10, 30, 20], "ring").values()) == [100], "each by itself, but from nothing"


def test_lines_go_along_their_axis(tmp_path: Path) -> None:
    """Sizes in any order, a label that would be a formula, and an axis that is called as a trial's column."""
    plan = table(
        study={"name": "t", "measure": "msb"},
        metrics=["msb_gbps"],
        axes={"packet_size": [1518, 64], "offered": [{"label": "$_{$", "seed": 1}]},
        fixed={"engine": "packet", "nic": "82599"},
        plots=[{"title": "t", "kind": "lines", "x": "packet_size", "y": "msb_gbps", "colour": "offered"}],
    )
    study = wt.sweep(plan, out=tmp_path / "s", jobs=1)
    assert study.report().is_file() and set(study.trials()["at offered"]) == {"$_{$"}
    assert study.trials()["offered"].max() > 1e9
    rows = (tmp_path / "s" / "plots" / "1-t.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["64", "1518"]


def test_no_engine_is_said_of_a_study_as_of_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paths, "engine", lambda: tmp_path / "engine.so")
    with pytest.raises(WiretimeError, match="is not built: run `wiretime setup`"):
        folder.Study(plans.parse(table(), "P"), "P", tmp_path / "s")


def test_a_notebook_gets_data_frames(tmp_path: Path) -> None:
    """The names of ``import wiretime as wt``, as the documentation uses them."""
    machine = wt.machine("ampere-altra", {"llc.dca_ways": 4}, cores=1)
    assert machine.parameters()["llc.dca_ways"] == 4
    with pytest.raises(WiretimeError, match="did you mean llc"):
        wt.machine(changes={"llc.dca_way": 4})
    run = wt.run("testpmd", machine, packet_size=128, **SHORT)
    frame = run.frame()
    assert frame["platform.llc.dca_ways"][0] == 4 and frame["forwarded_gbps"][0] == run["forwarded_gbps"]
    assert run.latencies()["packets"].sum() == run["cohort.forwarded"]
    with pytest.raises(WiretimeError, match="unexpected keyword argument 'packet_sise'"):
        wt.run("testpmd", packet_sise=64)
    study = wt.sweep(table(axes={"packet_size": [128]}, fixed={**SHORT, "llc.dca_ways": 4}), out=tmp_path / "s", jobs=1)
    assert study.frame()["forwarded_gbps"][0] == run["forwarded_gbps"] and study.failed() == {}
    assert study.results("packet_size")[128]["forwarded_gbps"] == run["forwarded_gbps"]
    several = wt.sweep(
        table(axes={"packet_size": [64, 128], "seed": [1, 2]}, fixed={**SHORT, "engine": "packet"}),
        out=tmp_path / "several",
        jobs=1,
    )
    with pytest.raises(WiretimeError, match="of several places of seed"):
        several.results("packet_size")
    assert wt.open_study(tmp_path / "s").query("SELECT count(*) AS n FROM points")["n"][0] == 1


def test_a_sweep_that_is_killed_goes_on(tmp_path: Path) -> None:
    """It loses the points that were running and no more, and leaves no process behind."""
    plan = written(tmp_path / "plan.toml", seed=[1, 2])
    out = tmp_path / "study"
    environment = {**os.environ, "WIRETIME_SWEEP": str(out)}
    command = [*WIRETIME, "sweep", str(plan), "--out", str(out), "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        deadline = time.monotonic() + 120
        while not list(out.glob("points/*/row.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(2)
        process.send_signal(signal.SIGKILL)

    def ours() -> list[str]:
        found = []
        for p in Path("/proc").glob("[0-9]*"):
            try:
                if f"WIRETIME_SWEEP={out}".encode() in (p / "environ").read_bytes():
                    found.append((p / "cmdline").read_text())
            except OSError:
                continue
        return [command for command in found if command]

    deadline = time.monotonic() + 20
    while ours() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ours() == []
    first = {p.parent: p.stat().st_mtime_ns for p in out.glob("points/*/row.json")}
    assert len(first) == 1
    # The rest as jobs of a cluster, in its local mode.
    resumed = wiretime("sweep", str(plan), "--out", str(out), "--resume", "--cluster", "local")
    assert resumed.returncode == 0, resumed.stderr
    assert all((p / "row.json").stat().st_mtime_ns == stamp for p, stamp in first.items())
    assert len(list(out.glob("points/*/row.json"))) == 2
    study = folder.open_study(out)
    assert execute.expected_seconds(study.tasks, 1) == 0 and study.store() == 2


def test_time_left_follows_what_points_took_and_how_long_they_are(tmp_path: Path) -> None:
    axes = {"duration": ["20us", "2ms", "20ms"]}
    study = folder.Study(plans.parse(table(axes=axes, fixed={"warm_up": "500us"}), "P"), "P", tmp_path)
    before = [execute.expected_seconds([task], 1) for task in study.tasks]
    assert before[0] < before[1] < before[2] and before[1] == execute.GUESS_SECONDS["run"]
    assert execute.expected_seconds(study.tasks, 2) == pytest.approx(sum(before) / 2)
    done = study.tasks[1].folder
    done.mkdir(parents=True)
    (done / "row.json").write_text("{}")
    (done / "time.json").write_text(json.dumps({"seconds": 3 * before[1]}))
    assert execute.expected_seconds(study.tasks, 1) == pytest.approx(3 * (before[0] + before[2]))


def test_points_whose_host_time_is_drawn_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = table(plots=[{"title": "a", "kind": "bars", "y": "host.traffic_seconds"}])
    together = folder.Study(plans.parse(table(axes={"packet_size": [64, 300]}), "P"), "P", tmp_path / "a", "../points")
    alone = folder.Study(plans.parse(timed, "Q"), "Q", tmp_path / "b", "../points")
    asked: list[tuple[list[Any], int | None]] = []
    monkeypatch.setattr(execute, "sweep", lambda tasks, _report, jobs, *_: asked.append(([*tasks], jobs)))
    for study in (together, alone):
        study.prepare(False)
    show.sweep(Console(quiet=True), "t", [together, alone], 2)
    assert [([t.point.settings["packet_size"] for t in tasks], jobs) for tasks, jobs in asked] == [
        ([64, 128], 1), ([300], 2),
    ]  # fmt: skip


class Workers:
    """A pool whose workers the host kills at chosen points."""

    def __init__(self, killers: set[str]):
        self.killers, self.pools = killers, 0

    @contextlib.contextmanager
    def __call__(self, jobs: int) -> Iterator[Callable[[Sequence[folder.Task]], list[execute.Job]]]:
        self.pools += 1

        def submit(tasks: Sequence[folder.Task]) -> list[execute.Job]:
            found: list[Any] = []
            broken = False
            for task in tasks:
                broken |= task.point.text() in self.killers
                done: Future[str | None] = Future()
                if broken:
                    done.set_exception(BrokenProcessPool("killed"))
                else:
                    done.set_result(None)
                found.append(done)
            return found

        yield submit


def test_a_worker_that_is_killed_takes_no_other_point_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    study = folder.Study(plans.parse(table(axes={"seed": [1, 2, 3, 4]}), "P"), "P", tmp_path)
    workers = Workers({"seed 3"})
    monkeypatch.setattr(execute, "_pool", workers)
    heard: list[tuple[str, str | None]] = []
    execute.sweep(study.tasks, lambda task, reason: heard.append((task.point.text(), reason)), 1)
    assert heard[:2] == [("seed 1", None), ("seed 2", None)] and workers.pools == 4
    assert heard[2:] == [("seed 3", "its process was killed"), ("seed 4", None)]


def test_a_damaged_point_is_run_again_and_a_damaged_study_is_told_of(tmp_path: Path) -> None:
    """As an interrupted power supply leaves them: files that are there and hold nothing, or half."""
    plan = written(tmp_path / "plan.toml", seed=[1, 2])
    out = tmp_path / "out"
    assert wiretime("sweep", str(plan), "--out", str(out)).returncode == 0
    first = sorted((out / "points").glob("*/row.json"))[0]
    whole = first.read_text()
    first.write_text(whole[: len(whole) // 2])
    (first.parent / "time.json").write_text("")
    again = wiretime("sweep", str(plan), "--out", str(out), "--resume")
    assert again.returncode == 0 and first.read_text() == whole, again.stderr
    about = out / "study.json"
    kept = about.read_text()
    for text, said in (("[]", "is no study's folder"), (json.dumps({"format": one.FORMAT}), "is damaged")):
        about.write_text(text)
        done = wiretime("report", str(out))
        assert done.returncode == 2 and said in done.stderr, done.stderr
    about.write_text(kept)
    (out / "points.parquet").write_bytes(b"PAR1")
    done = wiretime("query", str(out), "SELECT 1")
    assert done.returncode == 2 and done.stderr.startswith("wiretime: query: "), done.stderr


def test_a_script_that_starts_itself_again_is_told_of(tmp_path: Path) -> None:
    """Processes begin by importing the script: where that begins a sweep, none comes up."""
    fixed = {"app": "testpmd", "engine": "packet", "nic": "82599", "duration": "50us"}
    plan = {"study": {"name": "one"}, "fixed": fixed, "axes": {"seed": [1]}, "metrics": ["loss_percent"]}
    script = tmp_path / "script.py"
    script.write_text(f"import wiretime as wt\nwt.sweep({plan!r}, out={str(tmp_path / 'out')!r}, jobs=1)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and 'if __name__ == "__main__":' in done.stderr


def test_a_query_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    there = tmp_path / "n.csv"
    there.write_text("mine")
    with pytest.raises(WiretimeError):
        show.write(pa.table({"a": [[1, 2]]}), there, None)
    assert there.read_text() == "mine" and list(tmp_path.iterdir()) == [there]


def test_a_query_may_call_two_columns_alike(tmp_path: Path) -> None:
    rows = show.rows(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array(["[b]"])], names=["a", "a", "[c]"]))
    text = io.StringIO()
    Console(width=60, file=text).print(rows)
    assert [word for word in text.getvalue().split() if "─" not in word] == ["a", "a", "[c]", "1", "2", "[b]"]


def test_clusters_that_are_not_there_are_told_of(tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.toml", seed=[1])
    for name, said in (("slurm", "--cluster slurm: "), ("pbs", "--cluster pbs: allowed are slurm, local")):
        done = wiretime("sweep", str(plan), "--out", str(tmp_path / name), "--cluster", name)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_the_documented_path_leads_to_a_plot(tmp_path: Path) -> None:
    """Four commands at most, from the text itself; the first is how this test's own environment was made."""
    text = (paths.REPOSITORY / "README.md").read_text()
    commands = [
        line.strip() for line in text.split("<!-- path -->")[1].split("<!-- /path -->")[0].splitlines() if line.strip()
    ]
    assert len(commands) <= 4 and commands[0] == "./run"
    (tmp_path / "platforms").symlink_to(paths.REPOSITORY / "platforms")
    # The plan as it is, with shorter trials.
    (tmp_path / "experiments").mkdir()
    plan = (paths.REPOSITORY / "experiments/dca.toml").read_text()
    assert plan.count('measure = "msb"\n') == 1
    shorter = plan.replace('measure = "msb"\n', 'measure = "msb"\ntrial_length = 0.25\n')
    (tmp_path / "experiments/dca.toml").write_text(shorter)
    for command in commands[1:]:
        words = command.replace(".venv/bin/wiretime", "").split()
        done = wiretime(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / done.stdout.strip()).is_file()
    plots = list((tmp_path / "studies/dca/plots").glob("1-*.png"))
    assert len(plots) == 1 and plots[0].stat().st_size > 10_000
    rows = folder.query(
        tmp_path / "studies/dca", "SELECT dca, packet_size, msb_gbps FROM points ORDER BY 2, 1"
    ).to_pylist()
    assert [(r["packet_size"], r["dca"]) for r in rows] == [(n, dca) for n in (128, 300, 1518) for dca in ("off", "on")]
    assert rows[3]["msb_gbps"] > 1.2 * rows[2]["msb_gbps"], "direct cache access brings something"


def test_advice_is_the_arithmetic_beside_the_simulation() -> None:
    a = advise.Advice([(32, 900.0)], [(32, 9.0), (64, 0.0), (128, 0.5), (256, 0.0), (512, 0.0)], 0.0273, 1, 0.0, [])
    assert a.ideal(900.0) == pytest.approx(24.57) and a.smallest == 256, "one that fails between is not passed over"
    assert advise.Advice([], [(32, None)], 1.0, 1, 0.0, []).smallest is None
    # The longest ones are too large for the cache, and lose again; or the card has none so long.
    large = advise.Advice([], [(64, 3.0), (128, 0.0), (256, 0.0), (512, 2.0), (1024, None)], 1.0, 1, 0.0, [])
    assert large.sustaining == (128, 256) and large.smallest == 128
    wide = Console(width=120, record=True, file=io.StringIO())
    wide.print(advise.show(large))
    assert "128 to 256 descriptors sustain the rate in simulation" in wide.export_text()
    screen = Console(width=120, record=True, file=io.StringIO())
    screen.print(advise.show(a))
    text = screen.export_text()
    assert "27.30 Mpps, 1 core: 256 descriptors sustain the rate" in text and "57   usual" in text
    platform = platforms.load("ampere-altra", ["llc.dca_ways=4"])
    (warning,) = advise._cache_warning(platform, [1024, 4096], 1)
    assert warning.startswith("rings of 4096 descriptors and more: their buffers (8704 KiB) are above the 8192 KiB")
    assert advise._cache_warning(platforms.load("ampere-altra"), [64], 1)[0].startswith("llc.dca_ways is 0")
    (warning,) = advise._cache_warning(platforms.load("grace", ["llc.dca_lines=1024"]), [16, 64], 1)
    assert "rings of 64 " in warning and "64 KiB of the LLC that DMA may use (1024 lines)" in warning
    done = wiretime("advise", "l3fwd")
    assert (
        done.returncode == 2 and "(--burst), which l3fwd does not have; those that do: testpmd, touchfwd" in done.stderr
    )


def test_no_ring_sustains_what_the_cores_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a ring of 4096 takes in while the run lasts is no rate that it sustains."""
    monkeypatch.setattr(advise, "RINGS", (1024, 4096))
    monkeypatch.setattr(advise, "BURSTS", (32,))
    request = Request(engine="packet", nic="82599", packet_size=1518, app_args="", changes=("core.frequency=300MHz",))
    most = wt.run("testpmd", wt.machine("ampere-altra", {"core.frequency": "300MHz"}, nic="82599"), engine="packet",
                  packet_size=1518, rate="100Gbps")["statistics.transmit.frames"] / 2000  # fmt: skip
    found = advise.advise(request, f"{1.2 * most:.3f}Mpps", 0.1)
    assert found.sustaining is None and found.warnings[0].startswith("llc.dca_ways"), found
    assert found.bursts[0][1] == pytest.approx(32 / most * 1000, rel=0.1)
    found = advise.advise(request, f"{0.8 * most:.3f}Mpps", 0.1)
    assert found.smallest == 1024


def test_a_profile_is_shares_of_symbols_in_a_row() -> None:
    entries = [
        Entry("kernel", "schedule", 500, 10),
        Entry(
            "librte_net_mlx5.so",
            "mlx5_rx_burst_vec",
            300,
            10,
            (Line(0, 298, 8, "ldr x0, [x1]"), Line(4, 1, 1, "dmb oshst", True), Line(8, 1, 1, "dmb oshst", True)),
        ),
        Entry("dpdk-l3fwd", "main", 699, 10),
        Entry("libc.so.6", "memset", 1, 10),
    ]
    row = dict(metrics.symbols(entries))
    assert row == {
        "cycles_percent.librte_net_mlx5.so.mlx5_rx_burst_vec": 30.0,
        "cycles_percent.dpdk-l3fwd.main": 69.9,
        "cycles_percent.libc.so.6.memset": 0.1,
        "barriers_percent.librte_net_mlx5.so.mlx5_rx_burst_vec.dmb oshst": 0.2,
    }
    for name in row:
        metrics.check_name("here", name)
        assert metrics.unit(name) == "%"
    assert dict(metrics.symbols([])) == {}


def test_a_search_by_the_api_takes_one_size_or_several() -> None:
    for options in ({"packet_size": "imix"}, {"packet_size": 300, "packet_sizes": [64]}):
        with pytest.raises(WiretimeError, match="packet_size"):
            wt.msb("testpmd", **options)


def test_packets_of_iperf3_are_its_payload_whichever_way() -> None:
    """What goes back is acknowledgements: fewer by far, and none over UDP."""
    counted = {"transmit": {"frames": 900}, "receive": {"delivered": 12}, "time_ps": 10**6}
    result: Any = {"statistics": counted, "app": {"role": "answers"}, "iperf": {"gbps": 9.5, "received_gbps": None}}
    assert statistics.packets(result) == 900
    assert statistics._head(result) == {("payload sent", "Gb/s"): 9.5}
    del result["iperf"]
    assert statistics.packets(result) == 12
    result |= {"loss_percent": 1.5}
    result["app"]["role"] = "consumes"
    assert statistics._head(result) == {("taken", "Mpps"): 12.0, ("loss", "%"): 1.5}
