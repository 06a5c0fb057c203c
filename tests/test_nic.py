"""Full-system runs of the NIC: queues, steering, ports, drop classes by construction, what driver and NIC say alike."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import wiretime
from test_system import balanced, result

Q4 = ("--nic", "82599", "--cores", "4", "--queues", "4")
SHORT = ("--duration", "300us", "--warmup", "200us")

# DPDK's net_ixgbe: default key, indirection table filled with queues in turn.
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
TABLE = 128


def toeplitz(data: bytes) -> int:
    """The hash from its definition, bit by bit."""
    key = int.from_bytes(KEY)
    total = 8 * len(KEY)
    value = 0
    for i in range(8 * len(data)):
        if data[i // 8] >> (7 - i % 8) & 1:
            value ^= key >> (total - 32 - i) & 0xFFFFFFFF
    return value


def queue_of(flow: int, queues: int) -> int:
    source = ipaddress.IPv4Address("10.0.0.1").packed + ipaddress.IPv4Address("10.0.0.2").packed
    ports = (0x1000 + flow).to_bytes(2) + (0x2000).to_bytes(2)
    return toeplitz(source + ports) % TABLE % queues


def lost(counts: dict[str, int]) -> dict[str, int]:
    return {k: counts[k] for k in ("dma_drop", "core_drop", "tx_drop", "host_drop") if counts[k]}


def test_four_queues_are_balanced_as_the_hash_says() -> None:
    flows = 64
    r = result(*Q4, *SHORT, "--rate", "20Gbps", "--flows", str(flows), "--flow-vary", "ports")
    balanced(r)
    assert r["loss_percent"] == 0
    expected = Counter(queue_of(flow, 4) for flow in range(flows))
    each = r["cohort"]["offered"] / flows
    for i, queue in enumerate(r["ports"][0]["queues"]):
        # Flows take turns: each has as many packets as any other, but for one.
        assert abs(queue["cohort"]["forwarded"] - expected[i] * each) <= expected[i], (i, expected)
    work = [c["core"]["instructions"] for c in r["statistics"]["cores"]]
    assert min(work[1:]) > 0.5 * max(work[1:]), "core 0 keeps house"


def test_four_cores_forward_more_than_one() -> None:
    # Far above what one core does.
    common = ("--nic", "82599", "--packet-size", "64", "--rate", "40Gbps", "--duration", "200us", "--warmup", "300us")
    heavy = ("--set", "core.frequency=1GHz", "--set", "core.dispatch_width=1", "--app-args", "--enable-drop-en")
    one = result(*common, *heavy)
    four = result(*common, *heavy, "--cores", "4", "--queues", "4")
    balanced(four)
    assert one["cohort"]["core_drop"] > 0
    assert 3.4 < four["forwarded_mpps"] / one["forwarded_mpps"] < 4.6


def test_one_flow_lands_on_one_queue() -> None:
    r = result(*Q4, *SHORT, "--rate", "10Gbps", "--flows", "1")
    balanced(r)
    got = [q["cohort"]["forwarded"] for q in r["ports"][0]["queues"]]
    assert [n > 0 for n in got] == [i == queue_of(0, 4) for i in range(4)]


@pytest.mark.parametrize("queues", [2, 8])
def test_several_queues_on_one_core(queues: int) -> None:
    r = result("--nic", "82599", "--queues", str(queues), *SHORT, "--rate", "10Gbps")
    balanced(r)
    assert r["loss_percent"] == 0
    assert all(q["cohort"]["forwarded"] > 0 for q in r["ports"][0]["queues"])


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("", id="neon"),
        # Neither direction may use vectors then: a ring that is no power of two, checksum offloads.
        pytest.param("--rxd=1056 --tx-offloads=0xe --enable-rx-cksum", id="scalar"),
        pytest.param("--forward-mode=csum", id="checksums"),
    ],
)
def test_both_paths_of_net_ixgbe(arguments: str) -> None:
    r = result("--nic", "82599", *SHORT, "--rate", "5Gbps", "--app-args", arguments)
    balanced(r)
    assert r["loss_percent"] == 0


def test_two_ports_forward_to_each_other() -> None:
    r = result("--nic", "82599", "--ports", "2", "--cores", "2", *SHORT, "--rate", "10Gbps")
    balanced(r)
    assert r["loss_percent"] == 0
    assert abs(r["offered_gbps"] - 20) < 0.1
    assert r["latency_hops_packets"] == [r["cohort"]["forwarded"], 0], "packets of both ports, each by its own number"
    assert sum(h["mean"] for h in r["latency_hops_ns"]) == pytest.approx(r["latency_ns"]["mean"], rel=1e-9)
    for port in r["statistics"]["ports"]:
        assert port["receive"]["delivered"] > 0
        assert abs(port["transmit"]["frames"] - port["receive"]["delivered"]) < 40


def test_two_8254x_forward_to_each_other() -> None:
    r = result("--nic", "8254x", "--ports", "2", *SHORT, "--rate", "5Gbps")
    balanced(r)
    assert r["loss_percent"] == 0
    assert [nic["interface"] for nic in r["configuration"]["platform"]["nic"]] == ["8254x"] * 2 and len(r["ports"]) == 2


def test_ports_of_a_card_share_its_slot_and_two_cards_do_not() -> None:
    """45 Gb/s to each port, in slots that carry 55 Gb/s of TLPs each way, payload and requests."""
    slow = (
        "--nic",
        "82599",
        "--set",
        "slot.generation=3",
        "--set",
        "slot.lanes=8",
        "--packet-size",
        "1518",
        "--rate",
        "45Gbps",
    )
    cards = result("--ports", "2", *slow, *SHORT)
    card = result("--set", "nic.ports=2", *slow, *SHORT)
    for r, listed in ((cards, [(0, 1), (1, 1)]), (card, [(0, 2)])):
        balanced(r)
        assert [(nic["slot"], nic["ports"]) for nic in r["configuration"]["platform"]["nic"]] == listed
        assert len(r["configuration"]["platform"]["link"]) == 2
    assert cards["loss_percent"] == 0
    # As one port alone gets in such a slot.
    assert 48 < card["forwarded_gbps"] < 55 and card["cohort"]["dma_drop"] > 0.2 * card["cohort"]["offered"]
    assert card["cohort"]["core_drop"] == 0
    # Both directions of one link are taken; of two, each for its own port. Ports count what is theirs.
    busy = [card["statistics"]["ports"][i]["io"]["upstream_busy_ps"] / card["statistics"]["time_ps"] for i in range(2)]
    assert sum(busy) == pytest.approx(1, abs=0.01) and busy[0] == pytest.approx(busy[1], rel=0.1)
    for name, value in card["statistics"]["io"].items():
        assert value == sum(port["io"][name] for port in card["statistics"]["ports"]), name


def test_cards_of_two_kinds_forward_to_each_other() -> None:
    r = result("--ports", "2", "--set", "nic.1.interface=82599", *SHORT, "--rate", "10Gbps")
    balanced(r)
    assert r["loss_percent"] == 0
    assert [port["cohort"]["forwarded"] > 0 for port in r["ports"]] == [True, True]


def test_a_stalled_core_shows_as_tx_drops() -> None:
    """A transmit path that is too slow, and a program that waits for it: nothing else is full for long."""
    r = result(
        *("--nic", "8254x", "--packet-size", "1518", "--rate", "90Gbps", "--warmup", "1ms", "--duration", "300us"),
        *("--set", "nic.tx_packets_in_flight=1", "--app-commands", "set fwd macswap retry; start"),
    )
    balanced(r)
    c = r["cohort"]
    assert set(lost(c)) == {"tx_drop"}
    assert r["program"]["tx_dropped"] == 0
    states = {row["at"]: row["drops"] for row in r["ports"][0]["drop_transitions"]}
    assert states["fifo+rx+tx"] > 0.9 * sum(states.values())


@pytest.mark.parametrize("drops", [False, True])
def test_a_queue_without_descriptors_drops_only_when_told(drops: bool) -> None:
    slow = ("--set", "core.frequency=1GHz", "--packet-size", "64", "--rate", "60Gbps")
    r = result("--nic", "82599", *SHORT, *slow, *(["--app-args", "--enable-drop-en"] if drops else []))
    balanced(r)
    assert set(lost(r["cohort"])) == {"core_drop"}
    port = r["statistics"]["ports"][0]
    assert (port["queues"][0]["receive"]["no_descriptor"] > 0) == drops
    assert (port["receive"]["refused"] == 0) == drops
    assert (port["receive"]["fifo_peak"] < 100_000) == drops, "who drops does not hold up the FIFO"


def test_a_slow_queue_does_not_hold_up_others_that_drop() -> None:
    """All packets of one flow on one of two queues, whose core is too slow: without drops both suffer."""

    def idle_queue_latency(*more: str) -> float:
        slow = ("--set", "core.frequency=1GHz", "--packet-size", "64", "--rate", "40Gbps", "--flows", "3")
        r = result("--nic", "82599", "--cores", "2", "--queues", "2", *SHORT, *slow, *more)
        balanced(r)
        return float(r["statistics"]["ports"][0]["receive"]["fifo_peak"])

    assert idle_queue_latency() > 5 * idle_queue_latency("--app-args", "--enable-drop-en")


def test_hops_add_up_and_driver_counters_agree() -> None:
    r = result("--rate", "60Gbps", *SHORT)
    told, untold = r["latency_hops_packets"]
    assert told == r["cohort"]["forwarded"]
    assert untold == 0
    assert sum(h["mean"] for h in r["latency_hops_ns"]) == pytest.approx(r["latency_ns"]["mean"], rel=1e-9)
    driver = r["statistics"]["ports"][0]["queues"][0]["driver"]
    assert driver["polls"] == driver["empty_polls"] + driver["bursts"]
    bursts = r["ports"][0]["queues"][0]["burst_sizes"]
    assert sum(n for _, n in bursts) == driver["bursts"]
    assert sum(size * n for size, n in bursts) == driver["burst_packets"]
    assert abs(driver["burst_packets"] - r["statistics"]["receive"]["delivered"]) < 1100, "but for what is in the ring"


def test_testpmd_counts_what_the_nic_counts(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = wiretime(
        *("run", "testpmd", "--nic", "8254x", "--packet-size", "64", "--rate", "50Gbps"),
        *("--duration", "1ms", "--warmup", "200us"),
        *("--app-args", "--record-burst-stats", "--app-commands", "start", "--out", str(out)),
    )
    assert done.returncode == 0, done.stderr
    r: dict[str, Any] = json.loads((out / "result.json").read_text())
    balanced(r)
    console = (out / "console.log").read_text()
    missed = int(re.findall(r"rx_missed_errors: (\d+)", console)[-1])
    t = r["total"]
    assert missed == t["dma_drop"] + t["core_drop"] + t["tx_drop"] > 0
    received = int(re.findall(r"rx_good_packets: (\d+)", console)[-1])
    assert received == t["offered"] - t["filtered"] - missed
    # Bursts: full ones make nearly all, there and here.
    theirs = re.search(r"RX-bursts : (\d+) \[.*?(\d+)% of 32 pkts", console)
    assert theirs, console[-3000:]
    sizes = dict(map(tuple, r["ports"][0]["queues"][0]["burst_sizes"]))
    ours = sizes[32] / sum(sizes.values())
    nonzero = re.search(r"RX-bursts : \d+ \[(\d+)% of 0 pkts", console)
    share = int(theirs[2]) / (100 - int(nonzero[1]) if nonzero else 100)
    assert abs(share - ours) < 0.15, (theirs[0], sizes)  # their whole percents of a tenth of the polls


def test_the_timeline_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = wiretime("run", "testpmd", *SHORT, "--rate", "40Gbps", "--trace", "50us+5us", "--out", str(out))
    assert done.returncode == 0, done.stderr
    document = json.loads((out / "trace.json").read_text())
    events = document["traceEvents"]
    opened = Counter(e["id"] for e in events if e["ph"] == "b")
    closed = Counter(e["id"] for e in events if e["ph"] == "e")
    assert opened == closed and set(opened.values()) == {1}
    begun = [e["ts"] for e in events if e["ph"] in "biC"]
    assert min(begun) >= 0 and max(begun) < 5, "inside the window"
    tracks = {e["cat"] for e in events if e["ph"] == "b"}
    assert {"wire in", "wire out", "DMA write payload", "DMA read payload", "DMA write descriptors"} <= tracks
    names = {e["name"] for e in events}
    assert {"RX FIFO (B)", "RX ring 0", "TX ring 0", "TX doorbell 0"} <= names
    arrived = sum(e["ph"] == "b" and e["cat"] == "wire in" for e in events)
    assert abs(arrived - 5e-6 * 40e9 / 8 / 256) <= 2
    log = (out / "core-1.kanata").read_text().splitlines()
    assert log[0] == "Kanata\t0004"
    started = {line.split("\t")[1] for line in log if line.startswith("I\t")}
    retired = {line.split("\t")[1] for line in log if line.startswith("R\t")}
    assert started == retired and len(started) > 1000
    cycles = sum(int(line.split("\t")[1]) for line in log if line.startswith("C\t"))
    assert abs(cycles - 5e-6 * 3e9) < 3000


@pytest.mark.parametrize(("app", "more"), [("testpmd", (*Q4, "--ports", "2")), ("ping", ("--nic", "82599"))])
def test_queues_ports_and_messages_are_deterministic(app: str, more: tuple[str, ...]) -> None:
    common = ("run", app, *more, *SHORT, "--json", "-", "--arrivals", "poisson")
    rate = ("--rate", "20Gbps") if app == "testpmd" else ("--rate", "200Mbps", "--duration", "5ms")
    runs = [wiretime(*common, *rate) for _ in range(2)]
    assert runs[0].returncode == 0, runs[0].stderr
    assert runs[0].stdout == runs[1].stdout
    other = wiretime(*common, *rate, "--seed", "2")
    assert json.loads(other.stdout)["execution"]["hash"] != json.loads(runs[0].stdout)["execution"]["hash"]


@pytest.mark.parametrize(
    ("more", "mean"),
    [
        (("--packet-size", "imix", "--arrivals", "burst:32"), (7 * 64 + 4 * 570 + 1518) / 12),
        (("--packet-size", "64-1518", "--arrivals", "poisson"), 791),
        (("--packet-size", "128,9000", "--arrivals", "on-off:20us"), 4564),
    ],
)
def test_sizes_and_processes_reach_the_guest(more: tuple[str, ...], mean: float) -> None:
    r = result("--rate", "10Gbps", "--duration", "1ms", "--warmup", "200us", *more)
    balanced(r)
    assert r["loss_percent"] == 0
    assert r["offered_gbps"] == pytest.approx(10, rel=0.1)
    assert r["offered_gbps"] * 1000 / 8 / r["offered_mpps"] == pytest.approx(mean, rel=0.05)


def test_the_kernels_driver_takes_messages() -> None:
    done = wiretime("run", "ping", "--nic", "82599", "--rate", "100Mbps", "--duration", "10ms", "--json", "-")
    assert done.returncode == 0, done.stderr
    r = json.loads(done.stdout)
    balanced(r)
    assert r["loss_percent"] == 0
    # One packet every 20 us, throttled to some ten thousand interrupts a second and vector.
    assert 50 < r["execution"]["interrupts"] < 2000


def test_every_queue_of_the_kernels_driver_is_told_of() -> None:
    """ixgbe takes one a core, each with a message of its own; flows of several addresses reach all of them."""
    r = result(
        "--nic", "82599", "--cores", "2", "--flows", "64", "--flow-vary", "addresses", "--rate", "100kpps",
        "--packet-size", "128", "--duration", "5ms", app="udpecho",
    )  # fmt: skip
    balanced(r)
    assert r["loss_percent"] == 0
    taken = [q["receive"]["delivered"] for q in r["statistics"]["ports"][0]["queues"]]
    assert len(taken) == 3 and min(taken) > 50 and sum(taken) == pytest.approx(500, rel=0.1)
    told = [q["cohort"] for q in r["ports"][0]["queues"]]
    assert sum(c["forwarded"] for c in told) == r["cohort"]["forwarded"]
    # The messages of each queue interrupt a core of its own.
    busy = [core["processor_time"]["softirq_ps"] for core in r["statistics"]["cores"]]
    assert min(busy) > 0.05 * max(busy)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--nic", "8254x", "--queues", "2"), "--queues 2: the 8254x has 1 receive queue; --nic 82599 has 16"),
        (("--nic", "82599", "--queues", "17"), "the 82599 has 16 receive queues"),
        (("--nic", "82598"), "unknown NIC '82598'"),
        (("--cores", "0"), "--cores 0: at least 1"),
        (("--arrivals", "pareto"), "allowed are constant, poisson, burst:N, on-off:TIME, ramp:PERCENT:TIME"),
        (("--arrivals", "burst:0"), "packets '0' must be a whole number from 1 to 65536"),
        (("--arrivals", "on-off:1"), "has no unit"),
        (("--arrivals", "ramp:120%:1ms"), "percent '120' must be a whole number from 0 to 100"),
        (("--packet-size", "64:x"), "weight 'x' must be a whole number from 1 to 10000"),
        (("--packet-size", "64-"), "must be a size, sizes (64,128), a mix"),
        (("--packet-size", "600-500"), "from 600 to 500 B is no range"),
        (("--packet-size", "64,9001"), "allowed are 64 to 9000 B"),
        (("--flows", "0"), "--flows 0: allowed are 1 to"),
        (("--drop-classes", "gem6"), "unknown drop classes 'gem6'"),
        (("--trace", "1s+1us", "--out", "x"), "inside the measurement"),
        (("--trace", "1us+1us"), "--trace: needs --out"),
        (("--ports", "5"), "--ports 5: must be from 1 to 4"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = wiretime("run", "testpmd", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_flows_spread_under_what_the_program_hashes_and_a_run_says_where_they_do_not() -> None:
    """l3fwd asks RSS for addresses alone."""
    several = ("--nic", "82599", "--cores", "2", "--queues", "2", "--packet-size", "64", "--rate", "20%", *SHORT)

    def shares(r: dict[str, Any]) -> list[float]:
        queues = r["statistics"]["ports"][0]["queues"][:2]
        frames = [q["receive"]["delivered"] + q["receive"]["core_drops"] for q in queues]
        return [n / sum(frames) for n in frames]

    r = result(*several, app="l3fwd")
    assert min(shares(r)) > 0.4
    assert not [w for w in r["warnings"] if w.startswith("queues:")]
    r = result(*several, "--flow-vary", "ports", app="l3fwd")
    assert min(shares(r)) == 0
    (warning,) = (w for w in r["warnings"] if w.startswith("queues:"))
    assert "1 of 2 that are polled at port 0" in warning
    assert "--flow-vary both" in warning
