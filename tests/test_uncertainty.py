"""Estimates: each has a range, every range makes a machine, and what is varied is what is reported."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import wiretime as wt
from conftest import wiretime
from wiretime import estimates, platforms
from wiretime.estimates import Estimate, Rule
from wiretime.paths import PLATFORMS
from wiretime.request import Request
from wiretime.study import folder, uncertainty
from wiretime.study.plan import parse, points

MACHINES = [(name, nic) for name in platforms.names() for nic in (None, *platforms.card_names())]
PLAN = """
metrics = ["forwarded_mpps"]
[study]
name = "few"
[fixed]
app = "testpmd"
engine = "packet"
rate = "70Gbps"
duration = "60us"
warm_up = "40us"
[axes]
packet_size = [64]
"""


def test_every_estimate_has_a_range_around_its_value() -> None:
    """Of each file of a platform, card or DRAM grade that marks one."""
    count = 0
    for path in PLATFORMS.rglob("*.toml"):
        if path == estimates.RANGES:
            continue
        prefix = "dram." if path.parent.name == "dram" else ""
        for name, value in estimates.marked(path, prefix).items():
            count += 1
            rule = estimates.rule_of(name, path.stem)
            if rule.fixed:
                continue
            estimate = Estimate(name, value, rule)
            assert len({estimate.at(u / 20) for u in range(21)}) > 1, f"{path.stem}: {name} has no range"
            if rule.choices:
                assert value in rule.choices, f"{path.stem}: {name} is {value}, which is none of {rule.choices}"
            elif rule.low is not None:
                low, given, high = (estimates._parts(v)[0] for v in (rule.low, value, rule.high))
                assert low <= given <= high, f"{path.stem}: {name}"
    assert count > 300


def test_every_range_is_of_an_estimate() -> None:
    used = {id(estimates.rule_of(e.parameter, name)) for name, nic in MACHINES for e in _of(name, nic)}
    marked = {(path.stem, name) for path in PLATFORMS.glob("*.toml") for name in estimates.marked(path)}
    marked |= {(p.stem, n) for p in (PLATFORMS / "cards").glob("*.toml") for n in estimates.marked(p)}
    marked |= {(p.stem, n) for p in (PLATFORMS / "dram").glob("*.toml") for n in estimates.marked(p, "dram.")}
    used |= {id(estimates.rule_of(name, stem)) for stem, name in marked}
    assert [rule.parameters for rule in estimates.rules() if id(rule) not in used] == []


def _of(name: str, nic: str | None) -> list[Estimate]:
    return estimates.of(Request(platform=name, nic=nic))


@pytest.mark.parametrize(("name", "nic"), MACHINES)
def test_any_place_in_the_ranges_is_a_machine(name: str, nic: str | None) -> None:
    chance = random.Random(name)
    found = _of(name, nic)
    card = [] if nic is None else [f"nic={nic}"]
    for place in (0.0, 1.0, *(None for _ in range(4))):
        values = {e.parameter: e.at(chance.random() if place is None else place) for e in found}
        changes = [f"{key}={str(v).lower() if isinstance(v, bool) else v}" for key, v in values.items()]
        platforms.load(name, [*card, *changes])


def test_places_of_each_kind_of_range() -> None:
    def at(value: estimates.Value, place: float, **how: object) -> estimates.Value:
        rule = Rule.model_validate({"parameters": ["nic.dma_reads"], "why": "test", **how})
        return Estimate("nic.dma_reads", value, rule).at(place)

    assert [at(64, u, powers=1) for u in (0.0, 0.5, 0.99, 1.0)] == [32, 64, 128, 128]
    assert [at("10ns", u, factor=2) for u in (0.0, 0.5, 1.0)] == ["5ns", "10ns", "20ns"]
    assert [at("512KiB", u, powers=1) for u in (0.0, 1.0)] == ["256KiB", "1024KiB"]
    assert [at("a", u, choices=["a", "b"]) for u in (0.0, 0.49, 0.5, 1.0)] == ["a", "a", "b", "b"]
    assert [at("2ns", u, low="1ns", high="3ns") for u in (0.0, 0.5, 1.0)] == ["1ns", "2ns", "3ns"]
    for wrong in ({}, {"factor": 2, "powers": 1}, {"low": 1}, {"factor": 1}):
        with pytest.raises(ValueError, match=r"one of factor|greater than 1"):
            at(1, 0.0, **wrong)


def test_what_is_set_is_not_varied() -> None:
    varied = {e.parameter for e in estimates.of(Request())}
    assert "nic.rx_fifo" in varied
    assert "nic.rx_fifo" not in {e.parameter for e in estimates.of(Request(changes=("nic.rx_fifo=1MiB",)))}
    # Another card has estimates of its own.
    assert "nic.mlx5.send_packet_time" in {e.parameter for e in estimates.of(Request(nic="connectx-6dx"))}
    assert "dram.t_rrd_s" in {e.parameter for e in estimates.of(Request(changes=("dram=ddr5-4800",)))}


def test_samples_fill_every_part_of_every_range_once() -> None:
    drawn = uncertainty.drawn(["a", "b"], 16, 1)
    assert drawn == uncertainty.drawn(["a", "b"], 16, 1)
    for name in ("a", "b"):
        assert sorted(int(places[name] * 16) for places in drawn) == list(range(16))


def test_what_an_answer_follows_is_found_behind_what_it_follows_most() -> None:
    """Of sixty estimates and 32 samples: one that decides nearly all, two that the rest hangs on, and chance."""
    names = [f"e{n:02}" for n in range(60)]
    places = [[sample[name] for name in names] for sample in uncertainty.drawn(names, 32, 1)]
    answers = [10 * p[7] + 2 * p[20] - 1.5 * p[41] for p in places]
    found = [column for column, _ in uncertainty.followed(places, answers)]
    assert found[0] == 7 and {20, 41} <= set(found[:4]) and len(found) == uncertainty.CANDIDATES
    assert uncertainty.followed([[0.5, p[1]] for p in places], [p[1] for p in places])[0][0] == 1, "one that stays"


def test_a_sample_is_the_same_of_every_machine() -> None:
    table = {"study": {"name": "two"}, "metrics": ["ipc"], "axes": {"platform": ["ampere-altra", "neoverse-n1"]}}
    places = {"llc.bank_time": 1.0}
    first, second = (uncertainty.varied(point, places) for point in points(parse(table, "t"), "t"))
    assert (first.settings["llc.bank_time"], second.settings["llc.bank_time"]) == ("2.2ns", "2ns")


def test_the_command_tells_ranges_and_what_they_hang_on(tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN)
    command = ("uncertainty", str(plan), "--samples", "8", "--out", str(out))
    done = wiretime(*command)
    assert done.returncode == 0, done.stderr
    assert "estimates of core.* change nothing there" in done.stderr
    # Beside base and samples: of this cheap point every estimate at both ends.
    known = int(done.stderr.split(" estimates:")[0].split()[-1])
    assert f"then at most {2 * known} more" in done.stderr and len(list(out.glob("end-*"))) == 2 * known
    (answer,) = json.loads((out / "uncertainty.json").read_text())
    assert answer["low"] <= answer["high"] and answer["samples"] == 8 and 1 <= len(answer["swings"]) <= 3
    first = answer["swings"][0]
    assert first["parameter"] in done.stdout and first["why"]
    assert max(abs(a - answer["value"]) for a in first["answers"]) > 0
    assert (out / "uncertainty.png").is_file()
    # A sample's folder holds the sample's figures, not the base's.
    base, sample = (wt.open_study(out / name) for name in ("base", "sample-000"))
    assert not sample.failed() and sample.report().is_file()
    figures = [folder.open_study(s.path).tasks[0].row["forwarded_mpps"] for s in (base, sample)]
    assert figures[0] == answer["value"] and figures[1] == sample.frame()["forwarded_mpps"][0]
    # Again: nothing is run, the same is said.
    again = wiretime(*command)
    assert again.stdout == done.stdout
    # Another plan's are not mixed with it.
    plan.write_text(PLAN.replace('name = "', 'name = "another-'))
    other = wiretime(*command)
    assert other.returncode == 2 and "holds another plan's study" in other.stderr, other.stderr


def test_too_few_samples_are_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = wiretime("uncertainty", str(plan), "--samples", "3", "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and done.stderr == "wiretime: --samples 3: at least 8\n"
