"""Applications: what each does with packets, and that its figures are those of the simulator."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from conftest import wiretime
from rich.console import Console
from test_load import frames, pcap
from test_system import balanced, result
from wiretime import apps, compare, iperf, load, platforms, runs
from wiretime.errors import WiretimeError

SHORT = ("--duration", "300us", "--warmup", "200us")
STORE = ("--store", "keys=200", "--store", "requests=600")


def setup(extra: str = "", flows: int = 1, *changes: str, queues: int = 1) -> apps.Setup:
    asked = {"flows": load.flows(flows, "round-robin", "ports")}
    return apps.Setup(platforms.load("ampere-altra", changes), queues, 1518, asked, apps.words("--app-args", extra))


def test_routes_lead_every_flow_back() -> None:
    l3fwd = apps.get("l3fwd")
    assert apps.command(l3fwd, setup()).texts["routes4"] == "R10.0.0.0/8 0\n"
    routes = apps.command(l3fwd, setup("--lookup=em", 60000)).texts["routes4"].splitlines()
    assert routes[0] == "R10.0.0.2 10.0.0.1 8192 4096 0x11 0"
    # Beyond the ports of one address comes the next one, and the target is nobody's source.
    assert routes[57344] == "R10.0.0.2 10.0.0.3 8192 4096 0x11 0" and len(set(routes)) == 60000
    with pytest.raises(WiretimeError, match="--flows 70000: exact match takes 1 to 65536"):
        apps.command(l3fwd, setup("--lookup em", 70000))
    # Of several ports, packets of each are for a network of its own, and leave by the next.
    two = apps.command(l3fwd, setup("", 1, "nic.ports=2", "system.cores=3"))
    assert two.texts["routes4"] == "R198.18.0.0/24 1\nR198.18.1.0/24 0\n"
    assert "-p 3 -P --config='(0,0,1),(1,0,1)'" in two.text and "--eth-dest=1," in two.text
    with pytest.raises(WiretimeError, match="--ports 2: l3fwd's exact matches here lead to port 0"):
        apps.command(l3fwd, setup("--lookup=em", 1, "nic.ports=2", "system.cores=3"))


def test_command_lines_follow_machine_and_arguments() -> None:
    four = setup("--rxd=4096", 1, "system.cores=5", "nic.interface=82599", queues=4)
    text = apps.command(apps.get("touchfwd"), four)
    assert "--rxq=4" in text.text and text.ring == 4096 and text.text.endswith("--rxd=4096")
    assert "--config='(0,0,1),(0,1,2),(0,2,3),(0,3,4)'" in apps.command(apps.get("l3fwd"), four).text
    roles = {"macswap": "forwards", "rxonly": "consumes", "txonly": "sends"}
    for mode, role in roles.items():
        assert apps.command(apps.get("testpmd"), setup(f"--forward-mode {mode}")).role == role


def test_stores_are_asked_for_what_can_be() -> None:
    spec, requests = load.store(("keys=10", "key=20", "value=8-16", "gets=50"))
    assert (spec["keys"], spec["key_length"], spec["value_length"], requests) == (10, [20, 20], [8, 16], 10_000)
    for text, said in (
        ("what=1", "--store what=1: must be NAME=VALUE; names are keys, requests"),
        ("keys=0", "--store keys=0: keys '0' must be a whole number from 1"),
        ("value=50-10", "--store value=50-10: from 50 to 10 B is no range"),
        ("skew=x", "--store skew=x: must be a number from 0 to 10"),
    ):
        with pytest.raises(WiretimeError, match=re.escape(said)):
            load.store((text,))


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        ("l3fwd", ("--flows", "100")),
        ("l3fwd", ("--flows", "100", "--app-args", "--lookup=em", "--nic", "82599", "--cores", "2", "--queues", "2")),
        ("touchfwd", ("--nic", "82599", "--cores", "2", "--queues", "2")),
        ("rxptx", ("--app-args", "--interval=500 --per=burst")),
        ("udpecho", ("--rate", "100kpps", "--duration", "2ms")),
    ],
)
def test_answers_come_back_and_nothing_is_lost(app: str, arguments: tuple[str, ...]) -> None:
    rate = () if "--rate" in arguments else ("--rate", "2Gbps")
    r = result(*SHORT, *rate, *arguments, app=app)
    balanced(r)
    assert r["loss_percent"] == 0 and r["cohort"]["forwarded"] == r["cohort"]["offered"] > 0
    assert r["latency_ns"]["mean"] > 500


def test_a_receiver_takes_and_a_sender_sends() -> None:
    r = result(*SHORT, "--rate", "40Gbps", app="touchdrop")
    balanced(r)
    assert r["app"]["role"] == "consumes" and r["cohort"]["forwarded"] == 0
    assert r["cohort"]["core_drop"] > 0 and r["cohort"]["dma_drop"] == 0
    expected = 100 * r["cohort"]["core_drop"] / r["cohort"]["offered"]
    assert r["loss_percent"] == pytest.approx(expected, rel=1e-9)
    r = result(*SHORT, "--app-args", "--forward-mode=txonly")
    assert r["cohort"]["offered"] == 0 and r["app"]["role"] == "sends"
    assert r["statistics"]["transmit"]["frames"] > 1000


def test_touching_payloads_is_the_cores_burden_on_the_published_machine() -> None:
    for size in ("64", "1518"):
        r = result(
            *SHORT, "--platform", "gem5-n1-paper", "--packet-size", size, "--rate", "56Gbps",
            "--set", "nic.rx_fifo=64KiB", app="touchfwd",
        )  # fmt: skip
        lost = {k: r["cohort"][k] for k in ("dma_drop", "core_drop", "tx_drop")}
        assert lost["core_drop"] > 0.9 * sum(lost.values()) > 0, (size, lost)


def test_rxptx_works_as_long_as_it_is_told() -> None:
    def each(interval: int) -> float:
        r = result("--packet-size", "64", "--rate", "40Gbps", "--app-args", f"--interval={interval}", app="rxptx")
        return float(r["statistics"]["time_ps"] / 1000 / r["statistics"]["transmit"]["frames"])

    # What else a packet costs is the same in both.
    short, long = each(200), each(400)
    assert long - short == pytest.approx(200, rel=0.02)
    assert 200 <= short < 260


@pytest.mark.parametrize("app", ["memcached_dpdk", "memcached"])
def test_values_come_back_as_they_were_set(app: str, tmp_path: Path) -> None:
    arguments = (
        (*STORE, "--flows", "8", "--rate", "20kpps")
        if app == "memcached"
        else (*STORE, "--flows", "8", "--nic", "82599")
    )
    r: dict[str, Any] = result(*arguments, app=app)
    balanced(r)
    s = r["ports"][0]["store"]
    assert s["gets"] + s["sets"] == 800 and s["hits"] == s["gets"] > 300
    assert (s["stored"], s["misses"], s["wrong"], s["refused"]) == (s["sets"], 0, 0, 0)
    assert r["cohort"]["forwarded"] == r["cohort"]["offered"] == 600
    if app == "memcached":
        assert r["execution"]["interrupts"] > 100


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (("--iperf", "streams=2"), ("--nic", "82599")),
        (("--iperf", "reverse=yes"), ()),
        (("--iperf", "protocol=udp", "--iperf", "rate=2Gbps"), ()),
    ],
)
def test_iperf3_and_its_client_count_the_same(options: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    r = result("--warmup", "8ms", "--duration", "4ms", *options, *arguments, app="iperf3")
    assert r["ledger_violations"] == []
    i = r["iperf"]
    assert i["state"] == "done" and i["gbps"] > 1.5 and i["retransmissions"] == [0, 0]
    asked = r["configuration"]["run"]["load"]["iperf"]
    # A server that sends has not counted the block that it was sending when it was told to end.
    uncounted = asked["streams"] * asked["length"] if asked["reverse"] else 0
    assert 0 <= i["client_bytes"] - i["server_bytes"] <= uncounted and i["client_bytes"] > 10**6
    if asked["protocol"] == "udp":
        assert i["gbps"] == pytest.approx(2, rel=0.01) and i["datagrams"][0] * asked["length"] == i["client_bytes"]
    for core in r["statistics"]["cores"]:
        # A core's last block may reach beyond the end.
        assert sum(core["processor_time"].values()) == pytest.approx(r["statistics"]["time_ps"], rel=1e-3)
    interrupts, program = (core["processor_time"] for core in r["statistics"]["cores"])
    assert interrupts["softirq_ps"] > 10 * (interrupts["user_ps"] + interrupts["system_ps"])
    assert program["system_ps"] > program["softirq_ps"] and program["user_ps"] > 0


def test_datagrams_beyond_what_the_line_carries_leave_as_fast_as_it_takes_them() -> None:
    """The client's clock is then behind, and waits for the line instead of for itself."""
    r = result("--duration", "1ms", "--iperf", "protocol=udp", "--iperf", "rate=110Gbps", app="iperf3")
    i = r["iperf"]
    # With headers, FCS and gap 1514 B for each 1448.
    assert i["state"] == "done" and i["gbps"] == pytest.approx(100 * 1448 / 1514, rel=0.01)


def test_the_client_fills_a_long_wire() -> None:
    """As much as the FIFO holds is under way: 512 KiB in 230 us."""
    r = result("--set", "link.latency=100us", "--nic", "82599", "--warmup", "15ms", "--duration", "3ms", app="iperf3")
    i = r["iperf"]
    assert i["gbps"] > 15 and i["round_trip_ns"] > 200_000 and i["client_bytes"] == i["server_bytes"]


@pytest.mark.parametrize("cores", ["1", "2", "4"])
def test_kernel_runs_are_the_same_each_time(cores: str) -> None:
    arguments = ("--set", f"system.cores={cores}", "--rate", "20kpps", "--duration", "3ms", "--warmup", "1ms")
    first, again = (result(*arguments, "--set", "system.memory=512MiB", app="udpecho") for _ in range(2))
    assert first == again and first["execution"]["interrupts"] > 20


def test_the_guests_own_account_of_idle_time_agrees() -> None:
    r = runs.execute(runs.Request("iperf3", warm_up="100ms", duration="100ms", iperf=("protocol=udp", "rate=1Gbps")))
    assert r.result["iperf"]["state"] == "done"
    found = re.findall(r"guest-(\w+) cpu(\d) ([\d ]+)", r.console)
    assert len(found) == 4, r.console[-500:]
    before, after = ({c: [int(x) for x in v.split()] for when, c, v in found if when == w} for w in ("a", "b"))
    for cpu, core in zip("01", r.result["statistics"]["cores"], strict=True):
        ticks = [b - a for a, b in zip(before[cpu], after[cpu], strict=True)]
        times = core["processor_time"]
        assert ticks[3] / sum(ticks) == pytest.approx(times["idle_ps"] / sum(times.values()), abs=0.15)


def test_a_steady_rate_is_told_from_a_slow_start() -> None:
    step, slow = 100_000.0, [i * i * 100 for i in range(100)]
    flat = [slow[-1] + i * 20_000 for i in range(1, 301)]
    found = iperf.steady([*slow, *flat], step, 50_000)
    assert found is not None and found[1] == pytest.approx(20_000 * 8 / step, rel=1e-3)
    assert 9.5e6 < found[0] < 14e6
    assert iperf.steady(slow, step, 50_000) is None and iperf.steady([], step, 1) is None


@pytest.mark.parametrize(("step", "duration"), [(100_000.0, "1ms"), (100_000.0, "150us"), (400_000.0, "4s")])
def test_a_rate_is_of_the_steps_that_it_is_measured_over(step: float, duration: str) -> None:
    """A run of many steps keeps fewer; one of part of a step is measured over more than it."""
    points = round(5e9 / step)
    report = {
        "series_step_ns": step,
        "series": [[1000 * (i + 1) * round(step / 1e5), 0, 0] for i in range(points)],
        "round_trip_ns": 1e4,
        "sent": 0,
        "received": 0,
        "server_bytes": None,
        "state": "done",
        "retransmissions": [0, 0],
        "datagrams": [0, 0],
    }
    load = {"iperf": {"reverse": False}}
    run = {"warm_up": "1ms", "duration": duration, "load": load}
    result: Any = {"configuration": {"run": run}, "ports": [{"iperf": report}]}
    assert iperf.summary(result)["gbps"] == pytest.approx(1000 * 8 / 1e5)


def test_users_programs_are_checked_before_the_boot(tmp_path: Path) -> None:
    def said(name: str, **options: Any) -> str:
        with pytest.raises(WiretimeError) as e:
            runs.check(runs.Request(str(tmp_path / name), own=apps.Own(**options)))
        return str(e.value)

    (tmp_path / "text").write_text("hello")
    assert said("text").endswith("is neither a program for Linux nor a script (#!)")
    assert "no such file" in said("nothing")
    (tmp_path / "host").write_bytes(Path("/bin/true").read_bytes())
    assert said("host").endswith("is a program for X86_64; the guest is AARCH64 (`wiretime build` makes one)")
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert "no such file" in said("script", files=[tmp_path / "absent.so"])
    assert "'other'" in said("script", role="other")
    assert said("script", hugepages_mib=-1).startswith("--hugepages -1: allowed are 0 to")


def test_the_kernels_driver_is_set_by_ethtool() -> None:
    """Without gathering segments a core takes less in one go; what ethtool refuses ends the run with its words."""
    short = ("--nic", "82599", "--warmup", "4ms", "--duration", "1ms")
    usual, alone = (result(*short, *more, app="iperf3") for more in ((), ("--ethtool", "K gro off; C rx-usecs 20")))
    ports = [r["statistics"]["ports"][0] for r in (usual, alone)]
    answers = [p["transmit"]["frames"] / p["receive"]["delivered"] for p in ports]
    assert answers[1] > 2 * answers[0], answers
    done = wiretime("run", "ping", "--ethtool", "C rx-frames-low 3", "--duration", "1ms")
    assert done.returncode != 0 and "ethtool -C eth0 rx-frames-low 3" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("app", "asked", "text"),
    [
        ("ping", "Z rx 1", "--ethtool 'Z rx 1': begins with one of A (pause frames), C (moderation of interrupts), "),
        ("iperf3", "C rx-usecs 1; K", "--ethtool 'K': begins with one of "),
        ("ping", "C 'rx", '--ethtool "C \'rx": No closing quotation'),
        ("testpmd", "C rx-usecs 1", "--ethtool: testpmd drives the NIC itself; the kernel's driver is set so"),
    ],
)
def test_what_ethtool_cannot_be_told_is_refused(app: str, asked: str, text: str) -> None:
    with pytest.raises(WiretimeError) as e:
        runs.check(runs.Request(app, ethtool=asked))
    assert str(e.value).startswith(text)


@pytest.mark.parametrize("nic", ["8254x", "connectx-6dx"])
def test_a_users_script_runs_with_its_files(tmp_path: Path, nic: str) -> None:
    script = tmp_path / "mine"
    script.write_text("#!/bin/sh\nread mode <${0%/*}/mode\nexec dpdk-testpmd $* -- --forward-mode=$mode\n")
    script.chmod(0o755)
    (tmp_path / "mode").write_text("io\n")
    files = ("--files", str(tmp_path / "mode"))
    r = result(*SHORT, "--nic", nic, "--rate", "2Gbps", *files, "--app-args", "{eal}", app=str(script))
    balanced(r)
    assert r["app"]["name"] == "mine" and r["loss_percent"] == 0 and r["cohort"]["forwarded"] > 0


def test_a_program_that_ends_early_is_measured_to_its_end(tmp_path: Path) -> None:
    """Rates are over the time that it was there; one that never said that it was ready has none."""
    script = tmp_path / "short"
    script.write_text("#!/bin/sh\nwtctl mark 1\nsleep 1\n")
    script.chmod(0o755)
    own = ("--kernel", "--role", "consumes", "--rate", "10Mbps", "--duration", "5s", "--warmup", "100us")
    r = result(*own, app=str(script))
    assert 0.9e12 < r["statistics"]["time_ps"] < 1.2e12
    assert abs(r["offered_gbps"] / 0.01 - 1) < 0.02
    script.write_text("#!/bin/sh\nexit 0\n")
    done = wiretime("run", str(script), *own)
    assert done.returncode == 1 and "ended with status 0 before the measurement began" in done.stderr


def test_a_run_that_fails_leaves_what_was_on_the_wire(tmp_path: Path) -> None:
    script = tmp_path / "stubborn"
    script.write_text("#!/bin/sh\ntrap '' TERM\nwtctl mark 1\nwhile :; do sleep 1; done\n")
    script.chmod(0o755)
    out = tmp_path / "out"
    short = ("--rate", "100Mbps", "--duration", "1ms", "--warmup", "100us", "--capture", "all", "--out", str(out))
    done = wiretime("run", str(script), "--kernel", "--role", "consumes", *short)
    assert done.returncode == 1 and "did not stop within 60s" in done.stderr
    assert len(frames(out / "wire.pcapng")) > 100
    assert not (out / "result.json").exists()


def test_a_kernel_program_is_told_to_end(tmp_path: Path) -> None:
    script = tmp_path / "server"
    loop = "while :; do sleep 0.01; done"
    script.write_text(f"#!/bin/sh\n[ -p /proc/self/fd/0 ] && trap 'echo told; exit 0' TERM\nwtctl mark 1\n{loop}\n")
    own = ("--kernel", "--role", "consumes", "--rate", "10Mbps", "--duration", "1ms", "--warmup", "100us")
    out = tmp_path / "out"
    done = wiretime("run", str(script), *own)
    assert done.returncode == 2 and "cannot be executed (chmod +x)" in done.stderr
    script.chmod(0o755)
    assert wiretime("run", str(script), *own, "--out", str(out)).returncode == 0
    assert "\ntold" in (out / "console.log").read_text()


def test_our_programs_forward_jumbo_frames_whole() -> None:
    """An 82599 takes whole KiB of a buffer's room, and its simple path sends a packet's first buffer alone."""
    large = ("--nic", "82599", "--packet-size", "9000", "--rate", "5Gbps")
    r = result(*large, *SHORT, app="touchfwd")
    assert r["loss_percent"] == 0 and r["forwarded_gbps"] == pytest.approx(r["offered_gbps"], rel=0.02)
    burst = ("--app-args", "--free=burst", "--nic", "8254x", "--packet-size", "9000", *SHORT)
    done = wiretime("run", "rxfree", *burst)
    assert done.returncode == 1 and "--free burst: frames of 9000 B take several buffers of port 0" in done.stderr


def test_a_receive_queue_that_is_stopped_starts_again() -> None:
    """DPDK's driver writes head and tail behind the switch: what they were before does not count."""
    again = "port 0 rxq 0 stop; port 0 rxq 0 start; start"
    r = result("--nic", "82599", "--app-commands", again, "--packet-size", "64", "--rate", "5Gbps", *SHORT)
    assert r["loss_percent"] == 0 and r["cohort"]["forwarded"] == r["cohort"]["offered"] > 1000


@pytest.mark.parametrize("ring", [64, 128])
def test_what_a_program_throws_away_before_it_begins_is_no_beginning(ring: int) -> None:
    """testpmd empties its rings before it forwards; with short ones that was taken for forwarding."""
    r = result("--nic", "82599", "--packet-size", "1518", "--rate", "10Gbps", *SHORT, f"--app-args=--rxd={ring}")
    assert r["loss_percent"] == 0 and r["execution"]["instructions"][1] > 100_000


def test_servers_listen_where_clients_ask() -> None:
    r = result("--nic", "82599", "--store", "port=12000", *STORE, *SHORT, app="memcached_dpdk")
    assert r["cohort"]["forwarded"] > 0 and r["loss_percent"] < 50
    asked = runs.Request(app="iperf3", iperf=("port=5300",))
    assert " -p 5300 " in runs.check(asked).command.text
    both = runs.check(runs.Request(app="iperf3", peer="host", iperf=("port=5300",), kernel_args="quiet"))
    assert both.other is not None and both.other.command.kernel_arguments == ("quiet",)
    assert " -p 5300 " in both.command.text and " -p 5300 " in both.other.command.text
    for peer, text in (("host", "window=1MiB"), ("host", "coalesce=5us"), ("generator", "rate=2Gbps")):
        with pytest.raises(WiretimeError, match=text.partition("=")[0]):
            runs.check(runs.Request(app="iperf3", peer=peer, iperf=(text,)))


def test_generic_names_of_events_are_what_linux_makes_of_them_on_arm() -> None:
    named = {
        event: name
        for event in ("cache-misses", "cache-references", "l1-dcache-loads", "l1d_cache_rd", "llc-load-misses")
        for name, (pattern, _) in compare.EVENTS.items()
        if re.fullmatch(pattern, event)
    }
    assert named == {
        "cache-misses": "L1D misses",
        "cache-references": "L1D accesses",
        "l1-dcache-loads": "L1D accesses",
        "l1d_cache_rd": "L1D loads",
        "llc-load-misses": "LLC misses",
    }


def test_a_run_is_compared_with_a_machine(tmp_path: Path) -> None:
    lines = [
        {"counter-value": "2000000.000000", "event": "cycles:u"},
        {"counter-value": "500000", "event": "armv8_pmuv3_0/l2d_cache_refill/"},
        {"counter-value": "<not counted>", "event": "instructions"},
        {"counter-value": "7", "event": "page-faults"},
        {"counter-value": "1.2.3", "event": "context-switches"},
        {"counter-value": "3", "event": 5},
    ]
    perf, nic = tmp_path / "perf.json", tmp_path / "ethtool.txt"
    perf.write_text("\n".join(json.dumps(line) for line in lines))
    nic.write_text("NIC statistics:\n     rx_packets: 10000\n     rx_missed_errors: 100\n")
    measured = compare.read([perf, nic])
    caches = {"l2_misses_load": 30, "l2_misses_code": 10}
    core = {"core": {"instructions": 900, "cycles": 4000}, "caches": caches, "tlb": {}}
    queue = {"receive": {"dma_drops": 0, "core_drops": 1, "tx_drops": 0}}
    counted = {"cores": [core], "memory": {}, "receive": {"delivered": 10}, "ports": [{"queues": [queue]}]}
    ours = {"app": {"role": "forwards"}, "statistics": counted}
    console = Console(width=150)
    with console.capture() as shown:
        console.print(compare.table(ours, measured, None))
    # A unit's event with a modifier, in a locale of commas.
    (tmp_path / "comma.json").write_text(
        json.dumps({"counter-value": "1000000,500000", "event": "armv8_pmuv3_0/inst_retired/u"})
    )
    assert compare.read([tmp_path / "comma.json"]).events == {"inst_retired": 1000000.5}
    assert compare._event("armv8_pmuv3_0/event=0x8,name=x/") == "event=0x8" and compare._event("cycles:u") == "cycles"
    rows = {line[:16].strip(): line[16:].split() for line in shown.get().splitlines()}
    assert rows["cycles"][:3] == ["400.000", "200.000", "2.00"] and rows["L2 misses"][:3] == ["4.000", "50.000", "0.08"]
    assert rows["not received"][:2] == ["0.100", "0.010"] and "instructions" not in rows
    assert "page-faults" in shown.get()
    with pytest.raises(WiretimeError, match="no file says how many packets"):
        compare.table(ours, compare.read([perf]), None)
    # Of two ports each has a file, and a program's own counters are of the same packets.
    other, program = tmp_path / "other.txt", tmp_path / "testpmd.txt"
    other.write_text("NIC statistics:\n     rx_packets: 500\n")
    program.write_text("RX-packets: 7 TX-packets: 9\nRX-packets: 10600 TX-packets: 10400\n")
    counts = compare.read([nic, other, program]).counts
    assert counts == {"rx_packets": 10500, "rx_missed_errors": 100, "tx_packets": 10400}
    # A ConnectX's names; what it did not send, and what DPDK calls the same once more, are something else.
    nic.write_text(
        "rx_packets: 10000\nrx_out_of_buffer: 200\nrx_discards_phy: 50\nrx_missed_errors: 200\ntx_dropped: 9\n"
    )
    with console.capture() as shown:
        console.print(compare.table(ours, compare.read([perf, nic]), None))
    (lost,) = [line for line in shown.get().splitlines() if "not received" in line]
    assert lost.split()[2:4] == ["0.100", "0.025"]
    (tmp_path / "odd").write_text("nothing here")
    with pytest.raises(WiretimeError, match="holds no counters"):
        compare.read([tmp_path / "odd"])


def test_a_log_of_several_ports_is_added_up(tmp_path: Path) -> None:
    """As testpmd prints it: what forwarding did, then each port's statistics twice."""
    ports = ((0, 1000, 5), (1, 3000, 7))
    rule, log = "#" * 76, tmp_path / "testpmd.log"
    said = [f"  --- Forward statistics for port {n}  ---\n  RX-packets: {r}  RX-dropped: {d}  RX-total: {r + d}"
            for n, r, d in ports]  # fmt: skip
    said += ["  +++ Accumulated forward statistics for all ports+++\n  RX-packets: 4000  RX-dropped: 12\n  " + "+" * 76]
    shown = [f"  ## NIC statistics for port {n}  ##\n  RX-packets: {r}  RX-missed: {d}  RX-bytes: 1\n  {rule}\n"
             for n, r, d in ports]  # fmt: skip
    extended = [f"###### NIC extended statistics for port {n}\nrx_good_packets: {r}\nrx_missed_errors: {d}"
                for n, r, d in ports]  # fmt: skip
    log.write_text("\n".join([*said, *shown]))
    assert compare.read([log]).counts == {"rx_packets": 4000, "rx_missed_errors": 12}
    log.write_text("\n".join([*said, *shown, *extended]))
    assert compare.read([log]).counts == {"rx_packets": 4000, "rx_missed_errors": 12, "rx_good_packets": 4000}
    # What the card did not send says nothing of what it did not receive.
    log.write_text("\n".join([*said, "tx_dropped: 0"]))
    assert compare.read([log]).counts == {"rx_packets": 4000, "rx_dropped": 12, "tx_dropped": 0}


def test_applications_are_listed() -> None:
    done = wiretime("apps")
    assert done.returncode == 0 and all(name in done.stdout for name in apps.APPS)


# --- Exchanges of a real memcached ------------------------------------------------------------------------------------

RECORDED = Path(__file__).parent / "data/memcached-udp.pcap"


def datagram(frame: bytes) -> bytes:
    """The payload of a frame of UDP over IPv4; empty of others."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 17:
        return b""
    return frame[42 : 14 + int.from_bytes(frame[16:18], "big")]


def by_request(frames: list[bytes], server_sends: bool) -> dict[int, list[bytes]]:
    """Datagrams of each request, or of the answers to it, in order."""
    found: dict[int, list[bytes]] = {}
    for data in map(datagram, (f for f in frames if (f[34:36] == b"\x2b\xcb") == server_sends)):
        if data:
            found.setdefault(int.from_bytes(data[:2], "big"), []).append(data)
    return found


def recorded(tmp_path: Path) -> tuple[list[bytes], Path]:
    """Frames of the recording, and a trace of what the client sent."""
    data = RECORDED.read_bytes()
    all_frames, requests, at = [], [], 24
    while at < len(data):
        seconds, micros, captured, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + captured]
        all_frames.append(frame)
        if frame[36:38] == b"\x2b\xcb":
            requests.append((seconds * 10**9 + micros * 1000, frame))
        at += 16 + captured
    return all_frames, pcap(tmp_path / "requests.pcap", requests)


@pytest.mark.parametrize("app", ["memcached", "memcached_dpdk"])
def test_answers_are_those_of_a_real_memcached(app: str, tmp_path: Path) -> None:
    """A recorded client, errors and answers of several datagrams included, is answered as it was (tests/data)."""
    then, trace = recorded(tmp_path)
    r = result(
        "--replay", str(trace), "--speed", "500", "--capture", "all", "--out", str(tmp_path), "--follow", "1ms", app=app
    )
    balanced(r)
    expected = by_request(then, server_sends=True)
    answered = by_request([f for _, _, f in frames(tmp_path / "wire.pcapng")], server_sends=True)
    assert answered.keys() == expected.keys() and len(expected) >= 30
    several = 0
    for number, answers in expected.items():
        if app == "memcached":
            assert answered[number] == answers, number
        text = [b"".join(d[8:] for d in of) for of in (answers, answered[number])]
        assert text[0] == text[1], number
        # That server numbers all datagrams of an answer (protocol.txt); memcached 1.6 those of each key.
        numbers = [struct.unpack(">HHH", d[2:8]) for d in answered[number]]
        if app == "memcached_dpdk":
            assert numbers == [(i, len(numbers), 0) for i in range(len(numbers))]
        several += len(numbers) > 1
    assert several >= 3
