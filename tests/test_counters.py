"""Counters, time series and profile of a run agree with each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import wiretime


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "a"
    done = wiretime(
        *["run", "testpmd", "--nic", "8254x", "--packet-size", "64", "--rate", "40Gbps"],
        *["--duration", "2ms", "--warmup", "200us"],
        *["--interval", "200us", "--profile", "--out", str(out)],
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text())


def test_causes_add_up_to_cycles(result: Any) -> None:
    for core in result["statistics"]["cores"]:
        assert sum(core["stalls"].values()) == core["core"]["cycles"]


def test_a_line_that_misses_goes_on_to_the_next_level(result: Any) -> None:
    s = result["statistics"]
    misses = dict.fromkeys(("code", "load", "store", "walk"), 0)
    for core in s["cores"]:
        caches = core["caches"]
        for who in misses:
            assert caches[f"l2_misses_{who}"] <= caches[f"l2_accesses_{who}"]
            misses[who] += caches[f"l2_misses_{who}"]
    for who, count in misses.items():
        assert s["memory"][f"llc_accesses_{who}"] == count
    # All cores' LLC misses are somebody's object.
    objects = sum(v for k, v in s["objects"].items() if k.startswith("l2_misses"))
    demand = sum(v for c in s["cores"] for k, v in c["caches"].items() if k.startswith("l2_misses_"))
    assert objects == demand
    assert s["dram"]["row_hits"] + s["dram"]["row_misses"] > 0
    assert s["dram"]["reads_dma"] == s["memory"]["dma_reads"] - s["memory"]["dma_read_hits"]


def test_the_time_series_adds_up(folder: Path, result: Any) -> None:
    series = result["series"]
    assert len(series["rows"]) == 10, "the last step ends with the measurement"
    for group, name in (
        ("receive", "delivered"),
        ("dram", "reads_dma"),
        ("memory", "dma_writes"),
        ("io", "completions"),
    ):
        column = series["columns"].index(f"{group}.{name}")
        parts = [row[column] for row in series["rows"]]
        assert sum(parts) == result["statistics"][group][name] > 0, name
    csv = wiretime("stats", str(folder), "--series")
    assert csv.returncode == 0
    assert len(csv.stdout.splitlines()) == 1 + len(series["rows"])


def test_the_profile_is_the_cores_cycles(folder: Path, result: Any) -> None:
    entries = json.loads((folder / "profile.json").read_text())
    cycles = sum(core["core"]["cycles"] for core in result["statistics"]["cores"])
    charged = sum(e["cycles"] for e in entries)
    assert 0.98 < charged / cycles < 1.02
    driver = sum(e["cycles"] for e in entries if "librte_net_e1000" in e["file"])
    assert driver > 0.5 * charged, "the driver's receive and transmit functions"
    assert not any(e["file"] == "unknown" for e in entries[:5]), entries[:5]
    assert any(e["file"] == "kernel" and "sched" in e["symbol"] for e in entries)
    folded = (folder / "profile.folded").read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded) == charged
    assert (folder / "profile.svg").read_text().startswith("<svg")
    shown = wiretime("profile", str(folder))
    assert "librte_net_e1000" in shown.stdout
    assert "wiretime: symbols" not in (folder / "console.log").read_text()


def test_each_instruction_has_its_cycles(folder: Path) -> None:
    entries = json.loads((folder / "profile.json").read_text())
    for e in entries:
        for charged, rows in (("cycles", [c[1] for c in e["code"]]), ("instructions", [c[2] for c in e["code"]])):
            assert e[charged] == sum(rows), e["symbol"]
    driver = next(e for e in entries if "librte_net_e1000" in e["file"])
    # Polls wait for the descriptor that the NIC writes.
    addresses = [c[0] for c in driver["code"]]
    assert addresses == sorted(set(addresses)) and all(a % 4 == 0 for a in addresses)
    dearest = max(driver["code"], key=lambda c: c[1])
    assert dearest[2] > 0 and dearest[1] > 0.05 * driver["cycles"]
    barriers = {c[3] for e in entries for c in e["code"] if c[4]}
    assert barriers and all(text.startswith(("dmb", "dsb")) for text in barriers), barriers
    shown = wiretime("profile", str(folder), "--symbol", driver["symbol"])
    assert shown.returncode == 0
    lines = {line.split()[0]: line for line in shown.stdout.splitlines() if line.split()}
    assert f" {dearest[1]} " in lines[f"{dearest[0]:x}"] and dearest[3] in lines[f"{dearest[0]:x}"]
    wrong = wiretime("profile", str(folder), "--symbol", "nowhere")
    assert wrong.returncode != 0 and "unknown symbol 'nowhere'" in wrong.stderr


def test_tables_show_every_counter_with_unit_and_meaning(folder: Path) -> None:
    shown = wiretime("stats", str(folder), "--all")
    assert shown.returncode == 0
    for word in ("branch_misses", "l1_dcache_load_misses", "dca_leaks", "posted writes by the NIC", "link, upstream"):
        assert word in shown.stdout
    same = wiretime("diff", str(folder), str(folder))
    assert same.returncode == 0
    assert "1.000" in same.stdout


def test_diff_shows_what_has_moved(folder: Path, result: Any, tmp_path: Path) -> None:
    """What has halved is shown as half, and the parameter that differs beside it."""
    changed = json.loads(json.dumps(result))
    changed["forwarded_gbps"] /= 2
    changed["configuration"]["platform"]["core"]["rob_entries"] = 7
    changed["app"]["command"] += " --rxd=256"
    changed["app"]["kernel_arguments"] += ["mitigations=off"]
    changed["versions"]["dpdk"] = "25.11"
    (tmp_path / "result.json").write_text(json.dumps(changed))
    shown = wiretime("diff", str(folder), str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["core.rob_entries", "128", "7"] in rows
    differs = {row[0]: row[-1] for row in rows if row}
    assert differs["app.command"] == "--rxd=256", "and the word before it"
    assert "mitigations=off" in differs["app.kernel_arguments"]
    assert differs["versions.dpdk"] == "25.11"
    (forwarded,) = (row for row in rows if row[:1] == ["forwarded"] and row[-1] == "Gb/s")
    assert float(forwarded[1]) == pytest.approx(2 * float(forwarded[2]), abs=0.02)
    assert forwarded[3] == "0.500"


def test_a_long_quantum_says_its_error() -> None:
    done = wiretime(
        *["run", "testpmd", "--duration", "200us", "--warmup", "100us", "--json", "-"],
        *["--set", "system.quantum=5us", "--set", "system.cores=3"],
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert any("beyond the lookahead" in w for w in result["warnings"])
    assert 0 < result["doorbell_lateness_ns"]["mean"] < 5000
