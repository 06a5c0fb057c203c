"""The load generator: what it refuses, and full-system runs of its modes, checked with other people's tools."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import wiretime
from hdrh.histogram import HdrHistogram
from test_system import balanced, result
from wiretime import apps, load, runs
from wiretime.apps.model import GUEST_HOST, mac_of
from wiretime.errors import WiretimeError

SHORT = ("--duration", "300us", "--warmup", "100us")
LINK = {"rate": "100Gbps", "gap_bytes": 20}
MICROSECOND = 10**6


def pcap(path: Path, packets: list[tuple[int, bytes]], link: int = 1) -> Path:
    """Write a pcap file of nanosecond time stamps: the test's own writer."""
    with path.open("wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link))
        for ns, data in packets:
            f.write(struct.pack("<IIII", ns // 10**9, ns % 10**9, len(data), len(data)) + data)
    return path


def udp(i: int, size: int) -> bytes:
    """A UDP packet (checksums zero: nobody looks) of ``size`` bytes without FCS."""
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size - 14, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    head = bytes(6) + bytes([2, 0, 0, 0, 0, 1]) + b"\x08\x00" + ip + struct.pack(">HHHH", 4096 + i % 7, 7, size - 34, 0)
    return (head + i.to_bytes(4) + bytes(size))[:size]


# --- What is refused, and what texts mean -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length", "bits"),
    [
        ("40Gbps", 64, 40 * 10**9),
        ("10Mpps", 64, 10**7 * 512),
        ("1pps", 1518, 12144),
        ("50%", 64, int(Fraction(100 * 10**9 * 64, 84) / 2)),
        ("100 %", 1518, int(Fraction(100 * 10**9 * 1518, 1538))),
    ],
)
def test_rates(text: str, length: int, bits: int) -> None:
    assert load.rate("--rate", text, LINK, Fraction(length)) == bits


def test_packets_a_second_are_exact() -> None:
    """Mean of a mix: packets a second times mean length."""
    imix = load.sizes("imix")
    assert load.mean(imix) == Fraction(7 * 64 + 4 * 570 + 1518, 12)
    assert load.rate("--rate", "12Mpps", LINK, load.mean(imix)) == (7 * 64 + 4 * 570 + 1518) * 8 * 10**6


REFUSED = [
    (("--rate", "200Gbps"), "--rate 200Gbps: above the link's 100Gbps (--set link.rate=200Gbps), which carries 92.75"),
    (("--rate", "46Mpps"), "--rate 46Mpps: the line carries 92.75 Gb/s of frames, 45.29 Mpps, at 256 B"),
    (("--rate", "0%"), "--rate 0%: allowed are above 0 to 100 % of the line"),
    (("--rate", "x%"), "--rate: share 'x' must be a decimal number"),
    (("--packet-size", "64:x"), "weight 'x' must be a whole number from 1 to 10000"),
    (("--packet-size", "9001"), "allowed are 64 to 9000 B"),
    (("--ip", "5"), "--ip 5: allowed are 4 and 6"),
    (("--ip", "6", "--packet-size", "64"), "--packet-size 64: a probe in UDP over IPv6 needs 84 B and more"),
    (("--timestamp-offset", "41"), "--timestamp-offset 41: allowed are 42 to 234 at 256 B"),
    (("--flow-spread", "zipf:x"), "exponent 'x' must be a number"),
    (("--flow-spread", "zipf:0"), "allowed are exponents above 0 to 10"),
    (("--flow-spread", "normal"), "allowed are round-robin, uniform, zipf:EXPONENT"),
    (("--flow-spread", "zipf:1", "--flows", "2000000"), "allowed with zipf are 1 to 1048576"),
    (("--flow-vary", "ttl"), "unknown flow field 'ttl'"),
    (("--clients", "0"), "--clients 0: allowed are 1 to 1048576"),
    (("--clients", "4", "--rate", "1Gbps"), "--rate: not with --clients"),
    (("--clients", "4", "--think", "normal:1us"), "--think normal:1us: must be a time, or exponential:TIME"),
    (("--clients", "4", "--think", "x"), "--think: duration"),
    (("--clients", "4", "--timeout", "0ns"), "--timeout: must be above zero"),
    (("--key", "42:4"), "--key: only of a trace's packets"),
    (("--capture", "all"), "--capture: needs --out DIR"),
    (("--capture", "1us+9ms", "--out", "OUT"), "--capture 1us+9ms: must be BEGIN+LENGTH inside the measurement"),
    (("--rate", "1/0%"), "--rate: share '1/0' must be a decimal number"),
    (("--packet-size", "²"), "--packet-size ²: must be a size"),
    (("--speed", "2"), "--speed: only with --replay"),
    (("--think", "1us"), "--think: only with --clients"),
    (("--clients", "4", "--flows", "9"), "--flows: not with --clients"),
    (("--replay", "x.pcap", "--packet-size", "64"), "--packet-size: not with --replay"),
    (("--replay", "x.pcap", "--arrivals", "poisson"), "--arrivals: with --replay only at a --rate"),
    (("--replay", "x.pcap", "--rate", "1Gbps", "--speed", "2"), "--speed: not with --rate"),
    (("--replay", "nowhere.pcap"), "--replay nowhere.pcap: No such file or directory"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = wiretime("run", "testpmd", *[str(tmp_path) if a == "OUT" else a for a in arguments])
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in done.stderr, done.stderr


def test_traces_that_cannot_be_played_are_refused(tmp_path: Path) -> None:
    good = pcap(tmp_path / "good.pcap", [(i * 1000, udp(i, 100)) for i in range(3)])
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(good.read_bytes()[:-10])
    empty = pcap(tmp_path / "empty.pcap", [])
    wireless = pcap(tmp_path / "wireless.pcap", [(0, bytes(100))], link=105)
    long = pcap(tmp_path / "long.pcap", [(0, udp(0, 5000))])
    text = tmp_path / "text.pcap"
    text.write_text("no capture at all, whatever its name says")
    for path, options, said in (
        (cut, {}, "packet 3 at byte 256: the file ends inside it; --lenient plays what can be sent"),
        (empty, {}, "holds no packet that can be sent"),
        (wireless, {}, "link type 105 (IEEE 802.11) cannot be sent on Ethernet"),
        (text, {}, "this is neither pcap nor pcapng"),
        (good, {"speed": 0.0}, "--speed 0: allowed are 1e-06 to 1e+09"),
        (good, {"loops": 0}, "--loops 0: a trace without end needs --duration"),
        (good, {"loops": -1}, "--loops -1: allowed are 0"),
        (good, {"key": "4"}, "--key 4: must be OFFSET:LENGTH"),
        (good, {"key": "4:17"}, "of 1 to 16"),
        (good, {"clients": 3}, "--clients: not with --replay"),
        (good, {"timestamp_offset": 50}, "--timestamp-offset: not with --replay"),
        (long, {"app": "ping"}, "its longest frame is 5004 B; ping takes 1518 B"),
    ):
        with pytest.raises(WiretimeError) as e:
            runs.check(runs.Request(replay=path, **options))  # type: ignore[arg-type]
        assert said in str(e.value), str(e.value)
    runs.check(runs.Request(replay=cut, lenient=True))


# --- The wire, as Wireshark sees it -----------------------------------------------------------------------------------


def tshark(path: Path, *fields: str, options: tuple[str, ...] = ()) -> list[list[str]]:
    """Return fields of every packet, by the distribution's Wireshark."""
    command = [
        "tshark",
        "-r",
        str(path),
        "-T",
        "fields",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
    ]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


needs_wireshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed (./test installs it)"
)
INBOUND, OUTBOUND = "0x00000001", "0x00000002"


@needs_wireshark
def test_the_wire_reads_back_in_wireshark(tmp_path: Path) -> None:
    """Overload: both directions, drops marked, in order, every checksum sound, and as many as the ledger says."""
    out = tmp_path / "out"
    arguments = ("--packet-size", "64,300", "--rate", "80Gbps", "--flows", "50", "--capture", "all", "--out", str(out))
    r = result(*arguments, "--duration", "400us", "--warmup", "100us", "--set", "nic.rx_fifo=64KiB")
    balanced(r)
    about = subprocess.run(["capinfos", "-Mco", out / "wire.pcapng"], capture_output=True, text=True, check=True).stdout
    assert "Strict time order:   True" in about
    fields = ("frame.packet_flags_direction", "frame.interface_name", "frame.comment", "ip.checksum.status")
    rows = tshark(out / "wire.pcapng", *fields, "udp.checksum.status", "frame.len", "udp.srcport")
    assert f"Number of packets:   {len(rows)}" in about
    # But for what the guest's kernel says by itself (MLD), which has none.
    assert {(row[3], row[4]) for row in rows if row[6]} == {("1", "1")}, "every checksum is good"
    assert sum(not row[6] for row in rows) < 5
    rows = [row for row in rows if row[6]]
    went_in = [row for row in rows if row[0] == INBOUND and row[1] == "port0"]
    dropped = Counter(row[2].split(",")[0] for row in rows if row[1] == "port0-dropped")
    c = r["cohort"]
    assert len(went_in) >= c["offered"] > 0, "the load goes on until the last measured packet's fate is known"
    for name, key in (("CoreDrop", "core_drop"), ("DmaDrop", "dma_drop"), ("TxDrop", "tx_drop")):
        assert dropped[name] >= c[key], name
    assert sum(dropped.values()) > 0
    assert any(row[0] == OUTBOUND for row in rows)
    assert {row[5] for row in went_in} == {"60", "296"}
    assert {row[6] for row in went_in} == {str(4096 + i) for i in range(50)}


@needs_wireshark
def test_wireshark_reads_the_times_that_are_written(tmp_path: Path) -> None:
    """For longer than 18.4 ms, where picoseconds overflow in it."""
    out = tmp_path / "out"
    result("--packet-size", "1518", "--rate", "10Mbps", "--duration", "40ms", "--warmup", "100us", "--capture", "all",
           "--out", str(out))  # fmt: skip
    shown = [round(float(row[0]) * 1e9) for row in tshark(out / "wire.pcapng", "frame.time_relative")]
    first, *_, last = written = [at for _, at, _ in frames(out / "wire.pcapng")]
    assert last - first > 35e6
    assert shown == [at - first for at in written]


@needs_wireshark
def test_ipv6(tmp_path: Path) -> None:
    out = tmp_path / "out"
    r = result("--ip", "6", "--packet-size", "84,1000", "--flow-vary", "addresses", "--flows", "20", *SHORT,
               "--rate", "20Gbps", "--capture", "0us+50us", "--out", str(out))  # fmt: skip
    balanced(r)
    assert r["loss_percent"] == 0
    assert r["latency_ns"]["median"] > 0
    rows = tshark(out / "wire.pcapng", "ipv6.src", "udp.checksum.status", "ipv6.dst")
    assert {row[1] for row in rows} == {"1"}
    assert len({row[0] for row in rows if row[2] == "2001:2:0:1::2"}) == 20


def frames(path: Path) -> list[tuple[int, int, bytes]]:
    """Return interface, nanoseconds and bytes of every frame of a pcapng file: the test's own reader."""
    data = path.read_bytes()
    found = []
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            interface, high, low, captured, _ = struct.unpack_from("<IIIII", data, at + 8)
            found.append((interface, high << 32 | low, data[at + 28 : at + 28 + captured]))
        at += length
    return found


# --- Traces -----------------------------------------------------------------------------------------------------------


def test_a_trace_is_played_by_its_clock(tmp_path: Path) -> None:
    """Bytes as captured but for the destination; distances as captured, scaled; all of it comes back."""
    distances = [200, 350, 1000, 200]
    packets, ns = [], 5 * 10**9
    for i in range(400):
        packets.append((ns, udp(i, 60 + i * 3)))
        ns += distances[i % 4]
    trace = pcap(tmp_path / "t.pcap", packets)
    out = tmp_path / "out"
    r = result("--replay", str(trace), "--speed", "0.5", "--capture", "all", "--out", str(out))
    balanced(r)
    assert r["cohort"]["offered"] == r["cohort"]["forwarded"] == 400
    assert r["trace"]["packets"] == 400 and r["trace"]["problem"] is None
    assert HdrHistogram.decode(r["latency_hdr_ps"]).get_total_count() == 400
    seen = frames(out / "wire.pcapng")
    there = [f for f in seen if f[2][6:12] == bytes([2, 0, 0, 0, 0, 1])]
    back = [f for f in seen if f[2][:6] == bytes([2, 0, 0, 0, 0, 1])]
    assert [f[2][6:] for f in there] == [data[6:] for _, data in packets]
    assert {f[2][:6] for f in there} == {bytes(mac_of(GUEST_HOST))}
    # The last packet that found out whether the program runs may still be on its way back.
    back = back[-400:]
    assert [f[2][12:] for f in back] == [data[12:] for _, data in packets], "forwarded in order, MAC addresses swapped"
    apart = [b[1] - a[1] for a, b in pairwise(there)]
    assert apart == [2 * distances[i % 4] for i in range(399)], "at half the speed"
    assert r["statistics"]["time_ps"] >= 1000 * sum(apart)


def test_a_trace_is_played_at_a_rate_and_looped(tmp_path: Path) -> None:
    """Another tool's capture: NTP packets minutes apart, at a rate of ours, five times over."""
    suite = next(Path.home().glob(".cargo/registry/src/*/pcap-parser-0.17.0/assets/ntp.pcap"))
    r = result("--replay", str(suite), "--rate", "1Gbps", "--arrivals", "poisson", "--loops", "5")
    balanced(r)
    assert (r["trace"]["packets"], r["cohort"]["offered"], r["cohort"]["forwarded"]) == (12, 60, 60)
    assert r["latency_ns"]["max"] > 0


def test_a_damaged_trace_is_played_up_to_the_damage(tmp_path: Path) -> None:
    trace = pcap(tmp_path / "t.pcap", [(i * 1000, udp(i, 100)) for i in range(50)])
    trace.write_bytes(trace.read_bytes()[:-10])
    r = result("--replay", str(trace), "--lenient")
    assert r["cohort"]["offered"] == 49
    assert any("packet 50 at byte 5708: the file ends inside it" in w for w in r["warnings"])


def test_transactions_are_told_by_their_key(tmp_path: Path) -> None:
    """The kernel answers ping requests of a trace: no probe, another buffer; identifier and sequence number tell."""

    def request(i: int) -> bytes:
        body = struct.pack(">BBHHH", 8, 0, 0, 77, i) + bytes(48)
        total = sum(struct.unpack(f">{len(body) // 2}H", body))
        total = (total & 0xFFFF) + (total >> 16)
        body = body[:2] + (~(total & 0xFFFF) & 0xFFFF).to_bytes(2) + body[4:]
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 76, 0, 0, 64, 1, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
        total = sum(struct.unpack(">10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        head = head[:10] + (~total & 0xFFFF).to_bytes(2) + head[12:]
        return bytes(6) + bytes([2, 0, 0, 0, 0, 1]) + b"\x08\x00" + head + body

    trace = pcap(tmp_path / "t.pcap", [(i * 50_000, request(i)) for i in range(40)])
    r = result("--replay", str(trace), "--key", "38:4", app="ping")
    assert r["cohort"]["offered"] == 40
    assert r["cohort"]["forwarded"] == HdrHistogram.decode(r["latency_hdr_ps"]).get_total_count() == 40
    assert r["ledger_violations"] == []


# --- Closed loop, flows, figures --------------------------------------------------------------------------------------


def test_clients_follow_littles_law() -> None:
    """Clients = throughput x (latency + think time)."""
    r = result("--clients", "16", "--think", "exponential:4us", *SHORT)
    balanced(r)
    assert r["loss_percent"] == 0 and r["ports"][0]["given_up"] == 0
    inside = r["forwarded_mpps"] * 1e-3 * (r["latency_ns"]["mean"] + 4000)
    assert inside == pytest.approx(16, rel=0.05)
    assert len(r["ports"][0]["flows"]) == 16


def test_flows_and_queues_have_figures_of_their_own() -> None:
    arguments = ("--nic", "82599", "--cores", "2", "--queues", "2", *SHORT, "--rate", "20Gbps", "--arrivals", "poisson")
    arguments += ("--flows", "200", "--flow-spread", "zipf:1.1")
    first, again = result(*arguments), result(*arguments)
    assert first == again, "the same bytes for the same seed"
    other = result(*arguments, "--seed", "2")
    assert other["cohort"] != first["cohort"] or other["latency_histogram_ns"] != first["latency_histogram_ns"]
    port = first["ports"][0]
    flows = port["flows"]
    assert sum(f[1] for f in flows) == first["cohort"]["offered"]
    assert sum(f[2] for f in flows) == first["cohort"]["forwarded"]
    weights = [k**-1.1 for k in range(1, 201)]
    expected = first["cohort"]["offered"] * weights[0] / sum(weights)
    assert flows[0][1] == pytest.approx(expected, abs=4 * expected**0.5)
    mean = sum(f[2] * f[3] for f in flows) / first["cohort"]["forwarded"]
    assert mean == pytest.approx(first["latency_ns"]["mean"], rel=1e-6)
    assert max(f[4] for f in flows) == first["latency_ns"]["max"]
    for queue in port["queues"]:
        assert 0 < queue["latency_ns"]["mean"] <= first["latency_ns"]["max"]
    histogram = HdrHistogram.decode(first["latency_hdr_ps"])
    assert histogram.get_total_count() == first["cohort"]["forwarded"]
    for q, key in ((50, "median"), (99, "p99"), (99.9, "p999")):
        # A rank more or less is a step of the distribution.
        low, high = (histogram.get_value_at_percentile(q + d) / 1000 for d in (-0.03, 0.03))
        assert 0.98 * low <= first["latency_ns"][key] <= 1.02 * high


# --- What the generator answers ---------------------------------------------------------------------------------------


def test_the_kernel_finds_the_generator() -> None:
    """No neighbour is set by hand: neighbour discovery is answered, so that the kernel can; ARP in every other run."""
    ping = apps.get("ping")
    checked = runs.check(runs.Request("ping"))
    assert checked.app == ping and "neigh" not in checked.command.text
    r = result(
        *("--nic", "82599", "--ip", "6", "--packet-size", "128", "--rate", "200Mbps", "--duration", "1ms"), app="ping"
    )
    assert r["cohort"]["forwarded"] == r["cohort"]["offered"] > 0
    assert r["ledger_violations"] == []


def test_the_generator_replies_to_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    app = apps.get("ping")

    def pinging(s: apps.Setup) -> str:
        return app.line(s).replace("wtctl mark 1", "ping -c 3 10.0.0.1 && ping -c 2 2001:2::1 && wtctl mark 1")

    monkeypatch.setitem(apps.APPS, "ping", replace(app, line=pinging))
    done = runs.execute(runs.Request(app="ping", rate="100Mbps", duration="100us"))
    assert "3 packets transmitted, 3 packets received" in done.console
    assert "2 packets transmitted, 2 packets received" in done.console
    assert done.result["ledger_violations"] == []
