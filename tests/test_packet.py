"""The packet-level engine from the command line: runs and searches without a guest, what it refuses, what it says."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import WIRETIME, balanced, wiretime
from test_load import pcap, udp
from wiretime import modelling, paths, runs, software
from wiretime.errors import WiretimeError
from wiretime.request import Request

PACKET = ("--engine", "packet")
QDMA = (*PACKET, "--platform", "xeon-8168")
WIRE = (*QDMA, "--set", "nic.qdma.user_logic=wire", "--set", "link.rate=100Gbps")


def test_a_result_says_that_software_is_a_model(tmp_path: Path) -> None:
    done = wiretime("run", "testpmd", *QDMA, "--queues", "4", "--cores", "4", "--duration", "200us")
    assert done.returncode == 0, done.stderr
    assert "(model testpmd-qdma: software is not run) on xeon-8168" in done.stdout.splitlines()[0]
    assert "warning: software: not run but modelled, as testpmd-qdma" in done.stdout
    result = balanced(tmp_path / "a", "testpmd", *QDMA, "--queues", "4", "--duration", "200us")
    assert result["versions"]["qemu"] == "" and result["loss_percent"] == 0
    assert [q["cohort"]["offered"] > 0 for q in result["ports"][0]["queues"]] == [True] * 4


@pytest.mark.parametrize("nic", ["connectx-6dx", "connectx-7"])
def test_a_connectx_has_models(nic: str, tmp_path: Path) -> None:
    args = (
        "--nic",
        nic,
        "--queues",
        "2",
        "--cores",
        "2",
        "--packet-size",
        "64",
        "--rate",
        "16Gbps",
        "--duration",
        "200us",
    )
    result = balanced(tmp_path / "a", "testpmd", *PACKET, *args)
    assert result["loss_percent"] == 0
    driver = [q["driver"] for q in result["statistics"]["ports"][0]["queues"]]
    assert all(0 < d["tx_doorbells"] < d["posted"] and d["burst_packets"] > 0 for d in driver)


# Loads at which cores find nothing most of the time, or now and then; queues that share a core.
IDLE = {
    "light": ("testpmd", "--nic", "82599", "--packet-size", "512", "--rate", "1Gbps"),
    "poisson": ("l3fwd", "--nic", "8254x", "--rate", "3Gbps", "--arrivals", "poisson", "--interval", "50us"),
    "bursts": ("l3fwd", "--nic", "connectx-6dx", "--packet-size", "256", "--rate", "3Gbps", "--arrivals", "on-off:9us"),
    "queues": ("testpmd", "--nic", "82599", "--cores", "1", "--queues", "4", "--packet-size", "64", "--rate", "2Gbps"),
    "cores": ("testpmd", "--nic", "connectx-6dx", "--cores", "4", "--queues", "4", "--rate", "1Gbps"),
    "ports": ("touchfwd", "--nic", "82599", "--ports", "2", "--rate", "2Gbps"),
    "sends": ("testpmd", "--nic", "82599", "--app-args=--forward-mode=txonly"),
    # What devices read there is shared by its owner, which counts.
    "shared": ("testpmd", "--platform", "gem5-n1-paper", "--packet-size", "512", "--rate", "1Gbps"),
    "receives": ("testpmd", "--nic", "82599", "--rate", "1Gbps", "--app-args=--forward-mode=rxonly"),
}  # fmt: skip


@pytest.mark.parametrize("name", IDLE)
def test_rounds_that_find_nothing_are_taken_at_once_and_leave_the_same_bytes(name: str, tmp_path: Path) -> None:
    args = (*IDLE[name], *PACKET, "--duration", "200us")
    assert balanced(tmp_path / "a", *args) == balanced(tmp_path / "b", *args, "--every-turn")


def test_a_trace_ends_when_it_does_however_much_of_it_is_idle(tmp_path: Path) -> None:
    packets = [(us * 1000, udp(n, 100)) for n, us in enumerate((0, 1, 40, 41, 900, 2500))]
    trace = pcap(tmp_path / "some.pcap", packets)
    args = ("testpmd", "--nic", "82599", *PACKET, "--replay", str(trace))
    assert balanced(tmp_path / "a", *args) == balanced(tmp_path / "b", *args, "--every-turn")


def test_the_same_bytes_each_time_and_figures_of_all_queues(tmp_path: Path) -> None:
    args = ("testpmd", *WIRE, "--queues", "8", "--packet-size", "256", "--rate", "20Gbps", "--duration", "300us")
    first, second = balanced(tmp_path / "a", *args), balanced(tmp_path / "b", *args)
    assert first == second
    shown = wiretime("stats", str(tmp_path / "a"))
    assert shown.returncode == 0 and "0.7" in shown.stdout and "latency by hop" in shown.stdout
    assert wiretime("diff", str(tmp_path / "a"), str(tmp_path / "b")).returncode == 0


def test_runs_of_unlike_kinds_are_compared_by_what_both_are_about(tmp_path: Path) -> None:
    args = ("testpmd", *PACKET, "--nic", "82599", "--rate", "1Gbps", "--duration", "200us")
    forwards, takes = tmp_path / "a", tmp_path / "b"
    balanced(forwards, *args)
    balanced(takes, *args, "--ports", "2", "--app-args=--forward-mode=rxonly")
    for a, b in ((forwards, takes), (takes, forwards)):
        shown = wiretime("diff", str(a), str(b))
        assert shown.returncode == 0, shown.stderr
        first = {line.split()[0] for line in shown.stdout.splitlines() if line.strip()}
        assert {"loss", "app.role"} <= first and not {"forwarded", "taken"} & first


def test_polls_that_are_skipped_are_counted(tmp_path: Path) -> None:
    """A core that waits looks at memory as often as its books say, whether rounds are taken one by one or at once."""
    args = ("testpmd", *PACKET, "--nic", "82599", "--rate", "10Mbps", "--duration")
    short, long = (balanced(tmp_path / t, *args, t)["statistics"] for t in ("1ms", "3ms"))
    loads, polls = (
        [part(s) for s in (short, long)]
        for part in (
            lambda s: s["cores"][1]["caches"]["l1_dcache_loads"],
            lambda s: s["ports"][0]["queues"][0]["driver"]["polls"],
        )
    )
    assert polls[0] > 10_000 and all(n >= p for n, p in zip(loads, polls, strict=True))
    assert loads[1] / loads[0] == pytest.approx(polls[1] / polls[0], rel=0.01) == pytest.approx(3, rel=0.02)


def test_a_short_ring_has_thresholds_that_fit_it(tmp_path: Path) -> None:
    args = ("--packet-size", "64", "--rate", "1Gbps", "--duration", "100us", "--app-args=--rxd=32 --txd=32")
    for nic in ("8254x", "82599", "connectx-6dx"):
        r = balanced(tmp_path / nic, "testpmd", *PACKET, "--nic", nic, *args)
        assert r["loss_percent"] == 0, nic


def test_searches_and_sweeps_take_it(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    args = ("--packet-sizes", "1518", "--trial-length", "0.3", "--json", str(file))
    done = wiretime("msb", "testpmd", *WIRE, *args)
    assert done.returncode == 0, done.stderr
    assert "1518 B" in done.stdout
    (found,) = json.loads(file.read_text())
    assert (found["seed"], found["size"]) == (1, 1518) and found["best"]["offered"] > 1e9 and len(found["trials"]) > 1
    done = wiretime("latency", "testpmd", *WIRE, "--trial-length", "0.3", "--json", str(tmp_path))
    assert done.returncode == 2 and f"--json {tmp_path}: is a folder" in done.stderr
    plan = tmp_path / "small.toml"
    plan.write_text("""metrics = ["forwarded_mpps"]
[study]
name = "small"
[fixed]
engine = "packet"
nic = "82599"
duration = "100us"
[axes]
packet_size = [64, 256]
change = [{ label = "usual" }, { label = "four at a time", "--burst" = 4 }]
[[plots]]
title = "What it brings"
kind = "sensitivity"
x = "change"
y = "forwarded_mpps"
facet = "packet_size"
""")
    done = wiretime("sweep", str(plan), "--out", str(tmp_path / "small"))
    assert done.returncode == 0, done.stderr
    done = wiretime("report", str(tmp_path / "small"))
    assert done.returncode == 0, done.stderr
    assert "software is a model: packet-level engine" in (tmp_path / "small/report.html").read_text()
    done = wiretime("msb", "testpmd", *QDMA)
    assert done.returncode == 2 and "nic.qdma.user_logic=wire" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("testpmd", "--engine", "pakket"), "unknown engine 'pakket'; did you mean packet?"),
        (("testpmd", "--model", "testpmd-qdma"), "--model: only with --engine packet"),
        (("testpmd", "--platform", "xeon-8168"), "--nic qdma: testpmd has no driver for it"),
        (("testpmd", *PACKET, "--nic", "82599", "--app-args=--completion=8"), "of a qdma's driver"),
        (("testpmd", *PACKET, "--set", "nic.interface=qdma"), "needs the table nic.0.qdma"),
        (("testpmd", *QDMA, "--rate", "1Gbps"), "sends whenever descriptors are posted"),
        (("testpmd", *QDMA, "--queues", "300"), "--set nic.qdma.queues=N makes up to 2048"),
        (("testpmd", *QDMA, "--app-args=--forward-mode=icmpecho"), "not 'icmpecho'"),
        (("testpmd", *QDMA, "--app-args=--rxq=2"), "unknown argument '--rxq'"),
        (("testpmd", *QDMA, "--app-args=--rxd=7"), "--app-args: policy.receive_ring is 7: must be from 32"),
        (("testpmd", *QDMA, "--set", "nic.qdma.request_unit=24"), "must be a power of two"),
        (("memcached", *QDMA), "unknown model 'memcached-qdma'"),
    ],
)
def test_what_makes_no_sense_is_refused(args: tuple[str, ...], said: str) -> None:
    done = wiretime("run", *args)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("send = 16.0", "send = -1.0", "cycles.send is -1.0: must be from 0 to 1e+06 cycles"),
        ("send = 16.0", "sent = 16.0", "unknown key 'cycles.sent'; did you mean"),
        ("send = 16.0", "", "cycles.send is missing"),
        ('payload = "none"', 'payload = "some"', "unknown touches.payload 'some'"),
        ("writes_header = false", "writes_header = 0", "touches.writes_header is 0: must be true or false"),
        ("burst = 256", "burst = 2.5", "policy.burst is 2.5: must be from 1 to 4096 packets"),
        ('platform = ""', "platform = 1", "platform is 1: must be text"),
        ("[policy]", "[polity]", "unknown key 'polity'"),
        ("refill = 1 ", "refill = 2000 ", "policy.refill is 2000: must be from 1 to 1024"),
        ("[policy]", "[policy", "testpmd-qdma.toml: "),
    ],
)
def test_a_model_that_is_wrong_is_refused_by_name(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (paths.MODELS / "testpmd-qdma.toml").read_text()
    assert old in text
    path = tmp_path / "testpmd-qdma.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(WiretimeError, match=re.escape(said)) as e:
        software.load(str(path))
    assert str(path) in str(e.value)


def test_models_that_come_with_wiretime_are_good() -> None:
    for name in software.names():
        assert software.load(name)["name"] == name


def test_another_core_than_the_measured_one_is_said() -> None:
    checked = runs.check(runs.Request(engine="packet", platform="xeon-8168"))
    assert checked.model is not None
    said = software.warnings({**checked.model, "platform": "ampere-altra"}, checked.platform)
    assert any("was measured on ampere-altra" in line for line in said)
    changes = ("core.frequency=2GHz", "core.rob_entries=64", "l2.size=2MiB")
    checked = runs.check(runs.Request(engine="packet", nic="82599", changes=changes))
    assert checked.model is not None
    said = software.warnings(checked.model, checked.platform)
    assert said[1].endswith("was measured on another core: core.frequency, core.rob_entries") and len(said) == 2


@pytest.mark.parametrize(("mode", "role", "side"), [("rxonly", "consumes", "receive"), ("txonly", "sends", "transmit")])
def test_one_direction_alone_is_faster_than_both(tmp_path: Path, mode: str, role: str, side: str) -> None:
    args = ("testpmd", *QDMA, "--queues", "4", "--cores", "4", "--packet-size", "1024", "--duration", "200us")
    both = balanced(tmp_path / "both", *args, "--app-args=--forward-mode=io")["statistics"]
    alone = balanced(tmp_path / mode, *args, f"--app-args=--forward-mode={mode}")
    figure = {"receive": "delivered", "transmit": "frames"}[side]
    assert alone["app"]["role"] == role and alone["statistics"][side][figure] > 1.05 * both[side][figure]
    assert any("are of forwarding" in line for line in alone["warnings"])


def test_a_run_can_be_broken_off(tmp_path: Path) -> None:
    """The engine is in the command's own process: it ends when nobody listens to it."""
    words = [*WIRETIME, "run", "testpmd", *QDMA, "--queues", "8", "--cores", "8", "--duration", "1s"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(4)
        assert running.poll() is None, "a simulated second takes minutes"
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) != 0


def test_arguments_of_a_program_change_its_model() -> None:
    words = "--rxd=512 --txd 256 --burst=8 --forward-mode=io"
    checked = runs.check(runs.Request(engine="packet", nic="82599", app_args=words))
    assert checked.model is not None
    policy, touches = checked.model["policy"], checked.model["touches"]
    assert (policy["receive_ring"], policy["transmit_ring"], policy["burst"]) == (512, 256, 8)
    assert (touches["payload"], touches["writes_header"], touches["prefetch_ahead"]) == ("none", False, 0)

    def model(**asked: Any) -> Any:
        return runs.check(runs.Request(engine="packet", **asked)).model

    # A driver that prefetches what it receives does so whatever the program does.
    assert model(nic="8254x", app_args="--forward-mode=io")["touches"]["prefetch_ahead"] == 4096
    assert model(nic="82599", app_args="--forward-mode=mac")["touches"]["prefetch_ahead"] == 1
    # ixgbe's vector path receives four at a time.
    assert model(nic="82599", app_args="--burst=30")["policy"]["burst"] == 28
    assert model(nic="8254x", app_args="--burst=30")["policy"]["burst"] == 30
    with pytest.raises(WiretimeError, match="a burst of 3: this card's driver receives 4 or none"):
        model(nic="82599", app_args="--burst=3")
    assert model(app="l3fwd", nic="82599")["policy"]["straight"] == 32
    assert model(app="l3fwd", nic="82599", app_args="--tx-burst=16")["policy"]["straight"] == 16


def test_long_frames_pass_in_runs_and_in_searches(tmp_path: Path) -> None:
    """A packet of several buffers frees its entries as it goes; a card is set up for the longest frame of a search."""
    long = ("--nic", "82599", "--packet-size", "9000", "--rate", "40Gbps", "--duration", "300us")
    assert balanced(tmp_path / "a", "l3fwd", *PACKET, *long)["loss_percent"] == 0
    found = tmp_path / "msb.json"
    sizes = ("--packet-sizes", "2000", "--json", str(found))
    done = wiretime("msb", "testpmd", "--engine", "packet", "--nic", "connectx-6dx", *sizes)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(found.read_text())
    assert row["trials"][-1]["forwarded"] > 0.95 * row["trials"][-1]["offered"]
    done = wiretime("run", "testpmd", *PACKET, "--nic", "connectx-6dx", "--app-args=--burst=3")
    assert done.returncode == 2 and "a burst of 3: this card's driver receives 4 or none" in done.stderr


@pytest.mark.parametrize(
    ("nic", "app", "buffer"),
    [("82599", "testpmd", 9216), ("8254x", "testpmd", 8192), ("82599", "touchfwd", 9216), ("82599", "l3fwd", 2048)],
)
def test_jumbo_frames_have_the_programs_buffers(nic: str, app: str, buffer: int) -> None:
    for size, expected in ((1518, 2048), (9000, buffer)):
        model = runs.check(runs.Request(engine="packet", nic=nic, app=app, packet_size=size)).model
        assert model is not None and model["policy"]["buffer"] == expected
    asked = runs.Request(engine="packet", nic=nic, app=app, packet_size=9000, app_args="--buffer=4096")
    model = runs.check(asked).model
    assert model is not None and model["policy"]["buffer"] == 4096


def test_a_cost_is_moved_to_where_the_least_is_missing() -> None:
    """Also where what is missing jumps."""
    moved = modelling._nearest(30.0, lambda cost: 36.0 - cost, 1)
    assert moved == 36.0
    steep = modelling._nearest(30.0, lambda cost: 3.0 if cost < 31 else -8.0, 1)
    assert steep == 30.0, "no nearer anywhere it looked"


def test_a_models_parts_are_what_was_measured() -> None:
    """Receiving, work and sending add up to a packet; lines and turns are apart."""
    request = Request(app="touchfwd", nic="82599")
    costs = {"empty_poll": 60.0, "turn": 200.0, "packet": 90.0, "line": 150.0}
    made = modelling._model(request, costs, modelling.Shares(0.1, 0.75, 0.15), 43, "a test")
    cycles, touches = made["cycles"], made["touches"]
    assert (cycles["receive"], cycles["send"], cycles["line"]) == (24.0, 36.0, 150.0)
    assert cycles["receive"] + cycles["work"] + cycles["send"] == 90.0
    assert (touches["window"], touches["prefetch_ahead"], touches["payload"]) == (43, 0, "all")
    software.checked(made, "a test")
    halves = modelling._model(
        Request(app="qdmafwd", nic="qdma"), {**costs, "line": 0.0}, modelling.HALVES, 43, "a test"
    )
    assert halves["cycles"]["receive"] == halves["cycles"]["send"] == 45.0 and halves["cycles"]["work"] == 0.0


def test_frames_of_a_trace_come_through_or_are_refused(tmp_path: Path) -> None:
    """How long they may be the trace decides, and not what a generator would send."""
    trace = pcap(tmp_path / "long.pcap", [(n * 1000, udp(n, 1996)) for n in range(200)])
    args = (*PACKET, "--nic", "connectx-6dx", "--replay", str(trace))
    result = balanced(tmp_path / "a", "testpmd", *args)
    assert (result["cohort"]["offered"], result["cohort"]["forwarded"]) == (200, 200)
    done = wiretime("run", "testpmd", *args, "--app-args=--buffer=1024")
    assert done.returncode == 2 and "a packet of 1996 B has to fit into one buffer here" in done.stderr
