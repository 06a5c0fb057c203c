"""Studies: plans are checked, points run once, whatever happens to the sweep; what they yield can be asked for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.feather
import pytest
from conftest import WIRETIME, wiretime
from wiretime.errors import WiretimeError
from wiretime.study import execute, folder
from wiretime.study import plan as plans

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
            {"metrics": ["forwarded_gpbs"]},
            "no run yields it: unknown metric 'forwarded_gpbs'; did you mean forwarded_gbps",
        ),
        ({"metrics": ["statistics.cores.0.core.cycle"]}, "no run yields it"),
        ({"metrics": []}, "P: metrics: list should have at least 1 item"),
        ({"fixed": {"packet_size": 64}}, "P: packet_size is fixed and an axis"),
        ({"study": {"name": "t", "measure": "rum"}}, "P: study.measure: input should be 'run' or 'msb'"),
        ({"sutdy": {}}, "P: sutdy: extra inputs are not permitted"),
        ({"plots": [{"title": "a", "x": "rate"}]}, "P: plot 'a': unknown axis 'rate'"),
        ({"axes": {"seed": [1], "queues": ["two"]}}, "P: at seed 1, queues two: queues is 'two': must be int"),
        ({"axes": {"llc.dca_ways": [99]}}, "P: at llc.dca_ways 99: "),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WiretimeError) as e:
        folder.Study(plans.parse(table(**changes), "P"), "P", Path("nowhere"))
    assert said in str(e.value)


def written(path: Path, **axes: list[Any]) -> Path:
    lines = ['metrics = ["forwarded_gbps", "loss_percent"]', "[study]", 'name = "t"', "[fixed]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in SHORT.items()]
    lines += ["[axes]", *(f'"{k}" = {json.dumps(v)}'.replace('": ', '" = ') for k, v in axes.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


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
    wrong = wiretime("query", str(out), "SELECT nothing FROM points")
    assert wrong.returncode == 2 and 'Referenced column "nothing" not found' in wrong.stderr
    about = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**about, "format": 0}))
    old = wiretime("query", str(out), sql)
    assert old.returncode == 2 and "in format 0; this is" in old.stderr and "sweep anew" in old.stderr
    nothing = wiretime("query", str(tmp_path), sql)
    assert nothing.returncode == 2 and "is no study's folder" in nothing.stderr


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


def test_clusters_that_are_not_there_are_told_of(tmp_path: Path) -> None:
    plan = written(tmp_path / "plan.toml", seed=[1])
    for name, said in (("slurm", "--cluster slurm: "), ("pbs", "--cluster pbs: allowed are slurm, local")):
        done = wiretime("sweep", str(plan), "--out", str(tmp_path / name), "--cluster", name)
        assert done.returncode == 2 and said in done.stderr, done.stderr
