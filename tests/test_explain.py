"""`wiretime explain`: sentences that follow from a run's counters, and changes that were run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import wiretime
from wiretime import explain
from wiretime.apps import Own
from wiretime.errors import WiretimeError
from wiretime.request import Request

MODELLED = ("run", "testpmd", "--engine", "packet", "--nic", "82599", "--packet-size", "64")


@pytest.fixture(scope="module")
def overloaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("explain") / "overloaded"
    done = wiretime(*MODELLED, "--rate", "100Gbps", "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_it_says_what_limits_and_by_how_much(overloaded: Path) -> None:
    said = wiretime("explain", str(overloaded), "--counters").stdout
    result = json.loads((overloaded / "result.json").read_text())
    core = result["statistics"]["cores"][1]["core"]["cycles"]
    each = core / result["statistics"]["transmit"]["frames"]
    assert "Of the losses 100 % are CoreDrop" in said
    assert f"A packet takes the core {each:.0f} cycles" in said
    budget = 3000 / result["offered_mpps"]
    assert f"it would have to be {budget:.0f} cycles: {each / budget:.1f} times fewer" in said
    assert "so the link does not limit" in said and "llc.dca_ways is 0" in said


def test_what_would_move_it_is_run(overloaded: Path) -> None:
    """Twice the cores do about twice the work; four times the ring does nothing: the user is told, with figures."""
    done = wiretime("explain", str(overloaded))
    assert done.returncode == 0, done.stderr
    cores = re.search(
        r"One core and queue more \(cores=2 queues=2\): [\d.]+ million a second, \+([\d.]+)%", done.stdout
    )
    assert cores is not None and 60 < float(cores[1]) < 110
    clock = re.search(
        r"Cores a quarter faster \(core.frequency=3.75GHz\): [\d.]+ million a second, \+([\d.]+)%", done.stdout
    )
    assert clock is not None and 5 < float(clock[1]) < 26
    assert "change the rate by less than 1%: four times the receive descriptors (--rxd=4096" in done.stdout


def test_a_run_without_loss_has_time_left(tmp_path: Path) -> None:
    out = tmp_path / "idle"
    assert wiretime(*MODELLED, "--rate", "1Gbps", "--out", str(out)).returncode == 0
    said = wiretime("explain", str(out), "--counters").stdout
    assert "nothing was lost" in said and "of the polls found nothing: there is time left" in said


def test_few_losses_are_not_none(overloaded: Path) -> None:
    result = json.loads((overloaded / "result.json").read_text())
    result["cohort"] |= {"offered": 30_000, "core_drop": 26, "dma_drop": 0, "tx_drop": 0, "host_drop": 0}
    result["loss_percent"] = 100 * 26 / 30_000
    assert explain.sentences(result)[0].endswith("; 26 of 30000 packets were lost.")


def test_what_was_never_answered_is_lost(overloaded: Path) -> None:
    result = json.loads((overloaded / "result.json").read_text())
    result["app"]["role"] = "answers"
    result["cohort"] |= {"offered": 1000, "core_drop": 100, "dma_drop": 0, "tx_drop": 0, "host_drop": 0, "filtered": 50}
    result["loss_percent"] = 20.0
    said = explain.sentences(result)
    assert "answered" in said[0] and said[0].endswith("; 20 % of the packets were lost.")
    assert said[1].startswith("Of the losses 50 % are CoreDrop")
    assert said[2].startswith("25 % of the losses are frames that the NIC did not take: by a rule")
    assert said[3].startswith("25 % of the losses are requests that reached software and were not answered")


@pytest.mark.parametrize("how", [{"app_args": "--rxd=256"}, {"--rxd": 256}])
def test_what_is_there_already_is_not_tried(overloaded: Path, how: dict[str, Any]) -> None:
    result = json.loads((overloaded / "result.json").read_text())
    here = {"engine": "packet", "nic": "82599", "packet_size": "64", "rate": "100Gbps", **how}
    tried = explain.changes(result, here)
    rings = {c.label: c.settings["--rxd"] for c in tried if "--rxd" in c.settings}
    assert rings == {"four times the receive descriptors": 1024, "a quarter of the receive descriptors": 64}
    faster = {"core.frequency": "3.75GHz"}
    assert any(c.settings == faster for c in tried)
    assert all(c.settings != faster for c in explain.changes(result, {**here, **faster}))


def test_a_core_more_is_one_however_they_were_set(overloaded: Path) -> None:
    result = json.loads((overloaded / "result.json").read_text())
    here = {"engine": "packet", "nic": "82599", "packet_size": "64", "rate": "100Gbps"}

    def more(settings: dict[str, Any]) -> Any:
        return next(c.settings for c in explain.changes(result, settings) if c.label == "one core and queue more")

    assert more(here) == {"cores": 2, "queues": 2}
    assert more({**here, "system.cores": 2}) == {"system.cores": 3, "queues": 2}
    # One core that polls four queues.
    changes = {c.label: c.settings for c in explain.changes(result, {**here, "queues": 4})}
    assert changes["one core more"] == {"cores": 2, "queues": 4} and "one core and queue more" not in changes


def test_what_only_rings_take_in_is_no_rate(overloaded: Path) -> None:
    """A ring that is longer than the run forwards no more packets a second."""
    result = json.loads((overloaded / "result.json").read_text())
    sent = explain.Run(result).mpps
    result["loss_percent"] = 0.0
    grows = [[[0, 0, 10.0 * i, 0] for i in range(100)]]
    columns = ["rx_fifo_bytes", "dma", "rx_ring_waiting", "tx"]
    result["occupancy"] = {"interval_ns": 1000.0, "columns": columns, "ports": grows}
    assert explain.Run(result).carried == sent < result["offered_mpps"]
    result["occupancy"]["ports"] = [[[0, 0, 5.0, 0] for _ in range(100)]]
    assert explain.Run(result).carried == result["offered_mpps"]


def test_what_the_program_does_not_take_is_not_tried(overloaded: Path) -> None:
    result = json.loads((overloaded / "result.json").read_text())
    for name in ("iperf3", "udpecho", "ping", "xdp"):
        result["app"]["name"] = name
        tried = explain.changes(result, {"app": name})
        assert tried and all("--rxd" not in c.settings for c in tried)
        assert name == "xdp" or all("queues" not in c.settings for c in tried)


def test_what_only_sends_is_counted_by_what_it_sent(tmp_path: Path) -> None:
    out = tmp_path / "sender"
    slow = ("--rate", "20Gbps", "--set", "link.0.rate=30Gbps")
    done = wiretime(*MODELLED, "--app-args=--forward-mode=txonly", *slow, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "as fast as the program sends" in done.stdout.splitlines()[0]
    cycles = re.search(r"cycles per packet +(\d+)", done.stdout)
    assert cycles is not None and int(cycles[1]) < 1000
    done = wiretime("explain", str(out))
    assert done.returncode == 0, done.stderr
    assert "testpmd on ampere-altra sent" in done.stdout and "could not be run" not in done.stdout
    # The link is its limit.
    unmoved = " ".join(done.stdout.split("change the rate by less than 1%:", 1)[1].split())
    assert "cores a quarter faster (core.frequency=3.75GHz)" in unmoved


def test_a_core_of_a_kernel_program_that_has_no_time_left_is_named(overloaded: Path) -> None:
    """Polls that find nothing are no time left where one core works all the time."""
    result = json.loads((overloaded / "result.json").read_text())
    cores = result["statistics"]["cores"]
    for queue in result["statistics"]["ports"][0]["queues"]:
        queue["driver"] |= {"polls": 100, "empty_polls": 60}
    times = {"user_ps": 0, "system_ps": 0, "softirq_ps": 0, "irq_ps": 0, "idle_ps": 0}
    for worked, verdict in ((990, "it limits."), (500, "there is time left.")):
        said = f"Core 1 worked for {worked / 10:.0f} % of the time (core 0 for 25 %): {verdict}"
        cores[0]["processor_time"] = {**times, "softirq_ps": 250, "idle_ps": 750}
        cores[1]["processor_time"] = {**times, "system_ps": worked, "idle_ps": 1000 - worked}
        told = " ".join(explain.sentences(result))
        assert said in told and "of the polls found nothing: there is time left" not in told
        assert ("packets met no descriptor" in told) == (worked == 500)
        # Bursts are lost beside time that is left, whatever its polls found.
        result["statistics"]["ports"][0]["queues"][0]["driver"]["empty_polls"] = 30
        told = " ".join(explain.sentences(result))
        result["statistics"]["ports"][0]["queues"][0]["driver"]["empty_polls"] = 60
        assert ("Longer rings do not end this loss" in told) == (worked == 990)


def test_iperf3_is_told_by_its_payload() -> None:
    """What a change did to it has its unit; a change to nothing is no failure."""
    one = explain.Change("cores a quarter faster", {"core.frequency": "3.75GHz"})
    before = explain.Effect(explain.Change("as it is", {}), 10.0, 0.0, None, "Gb/s")
    after = explain.Effect(one, 12.0, 0.0, None, "Gb/s")
    assert explain.told(before, [after]) == [
        "Cores a quarter faster (core.frequency=3.75GHz): 12.00 Gb/s, +20.0%, loss 0.0 %."
    ]
    nothing = explain.Effect(before.change, 0.0, 0.0, None, "Gb/s")
    assert "and without it nothing" in explain.told(nothing, [after])[0]
    failed = explain.Effect(before.change, None, None, None, "Gb/s")
    assert "and the run as it is could not be repeated" in explain.told(failed, [after])[0]
    assert "could not be run" in explain.told(before, [explain.Effect(one, None, None, None)])[0]


def test_what_cannot_be_explained(overloaded: Path, tmp_path: Path) -> None:
    done = wiretime("explain", str(tmp_path))
    assert done.returncode == 2 and "result.json: No such file" in done.stderr
    (tmp_path / "result.json").write_bytes((overloaded / "result.json").read_bytes())
    done = wiretime("explain", str(tmp_path))
    assert done.returncode == 2 and "request.json: not there" in done.stderr and "--counters" in done.stderr
    assert wiretime("explain", str(tmp_path), "--counters").returncode == 0


def test_a_program_of_the_users_is_explained_from_another_folder(tmp_path: Path) -> None:
    program = tmp_path / "forward"
    program.write_text('#!/bin/sh\nexec dpdk-testpmd "$@"\n')
    program.chmod(0o755)
    args = ("--app-args", "{eal} -- --auto-start", "--packet-size", "64", "--rate", "1Gbps", "--duration", "50us")
    done = wiretime("run", "./forward", *args, "--out", "made", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "made" / "request.json").read_text())["app"] == str(program)
    program.unlink()
    done = wiretime("explain", str(tmp_path / "made"))
    assert done.returncode == 2 and f"{program}: no such file" in done.stderr, done.stderr


def test_what_comes_with_a_program_is_not_forgotten(tmp_path: Path) -> None:
    (tmp_path / explain.REQUEST).write_text('{"app": "./x", "own": true}')
    with pytest.raises(WiretimeError, match="a program with options such as --files and --role is not run again"):
        explain.asked(tmp_path)
    asked = Request(app="./x", own=Own(role="consumes"))
    explain.keep(tmp_path, asked)
    assert json.loads((tmp_path / explain.REQUEST).read_text())["own"] is True
