"""A ConnectX in full system, under drivers as Debian has them: mlx5_core, mlx5_ib and net_mlx5."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import balanced, wiretime

NIC = ("--nic", "connectx-6dx")
SHORT = ("--warmup", "100us", "--duration", "200us")
# What the drivers say of a function that has no vendor-specific capability, no PTM, and no bridge above it.
USUAL = ("Failed to get valid vendor specific ID", "PTM is not supported", "0.000 Gb/s available PCIe bandwidth")


def run(out: Path, *args: str) -> dict[str, Any]:
    return balanced(out, *args, *NIC)


def test_testpmd_forwards_by_net_mlx5_the_same_each_time(tmp_path: Path) -> None:
    args = ("testpmd", "--packet-size", "256", "--rate", "10Gbps", *SHORT)
    result = run(tmp_path / "a", *args)
    assert result["loss_percent"] == 0 and result["forwarded_gbps"] == pytest.approx(10, rel=0.01)
    queue = result["statistics"]["ports"][0]["queues"][0]
    assert queue["driver"]["burst_packets"] > 0
    assert (
        queue["receive"]["delivered"] == pytest.approx(queue["transmit"]["packets"], abs=4)
        and queue["receive"]["delivered"]
    )
    assert run(tmp_path / "b", *args) == result


def test_queues_starve_each_for_itself(tmp_path: Path) -> None:
    result = run(
        tmp_path / "a", "testpmd", "--queues", "2", "--cores", "2", "--flows", "64", "--packet-size", "64",
        "--rate", "70Gbps", "--duration", "200us", "--warmup", "300us",
    )  # fmt: skip
    queues = result["statistics"]["ports"][0]["queues"]
    assert all(q["receive"]["delivered"] > 0 and q["transmit"]["packets"] > 0 for q in queues)
    # out_of_buffer, not the port's discards: requests are what is missing.
    assert result["cohort"]["core_drop"] > 0.9 * (result["cohort"]["offered"] - result["cohort"]["forwarded"]) > 0
    receive = result["statistics"]["ports"][0]["receive"]
    assert receive["fifo_level_ps"] / result["statistics"]["time_ps"] < 512 << 10, "the buffer of 1 MiB does not fill"


def test_a_card_that_only_sends_is_as_fast_as_what_it_was_calibrated_on(tmp_path: Path) -> None:
    # grace_hardware.csv: 68.9 by pointers, and 145.9 at best with packets in the requests. One parameter each.
    args = ("testpmd", "--cores", "4", "--queues", "4", "--packet-size", "64", "--rate", "100%", "--duration", "100us")
    for name, devices, rate in [("pointers", "", 68.9), ("inlined", "-a {pci},txqs_min_inline=1 ", 145.9)]:
        only = f"{devices}--forward-mode=txonly --txpkts=60"
        result = run(tmp_path / name, *args, "--set", "llc.dca_ways=4", "--app-args", only)
        sent = result["statistics"]["ports"][0]["transmit"]["frames"] / result["statistics"]["time_ps"] * 1e6
        assert sent == pytest.approx(rate, rel=0.03), name


def test_rules_count_and_drop(tmp_path: Path) -> None:
    """One flow of several is counted and dropped, and the program reads how often; a rule may leave it nothing."""
    rule = "flow create 0 ingress pattern eth / ipv4 src spec 10.0.0.1 src mask 255.255.255.255 / end actions"
    args = ("testpmd", "--packet-size", "256", "--rate", "10Gbps", "--flows", "64", "--app-commands")
    # One packet a millisecond comes until the program polls: so long it is kept busy.
    busy = "; ".join(["show port xstats all"] * 6)
    commands = f"{rule} count / drop / end; {busy}; start; flow query 0 0 count"
    result = run(tmp_path / "a", *args, commands, "--cores", "2", "--queues", "2", *SHORT)
    told = re.search(r"hits: (\d+)\s+bytes: (\d+)", (tmp_path / "a/console.log").read_text())
    assert told is not None
    hits, octets = map(int, told.groups())
    assert hits > 0 and octets == hits * 252, "without FCS"
    assert result["statistics"]["ports"][0]["receive"]["filtered"] > 0 and result["forwarded_mpps"] > 0
    # Flows of one queue differ in their ports alone.
    done = wiretime("run", *args, f"{rule} drop / end; start", "--guest-limit", "14s", *NIC)
    why = r"a port was enabled, but the program took no packets, \d+ were filtered by the NIC, within 14s of simulated"
    assert done.returncode == 1 and re.search(why, done.stderr.splitlines()[-1])


def test_frames_beyond_the_ports_mtu_are_filtered(tmp_path: Path) -> None:
    """They fit the buffers of one queue in several pieces, and are not the program's all the same."""
    commands = "port stop 0; port config mtu 0 1500; port start 0; start"
    args = ("testpmd", "--packet-size", "256:1,2000:1", "--rate", "10Gbps", "--app-commands", commands)
    result = run(tmp_path / "a", *args, *SHORT)
    receive = result["statistics"]["ports"][0]["receive"]
    assert receive["filtered"] == pytest.approx(receive["frames"] / 2, rel=0.02)
    assert result["cohort"]["filtered"] > 0 and result["cohort"]["forwarded"] > 0


def test_multi_packet_requests_two_ports_and_long_frames(tmp_path: Path) -> None:
    devices = "-a {pci},mprq_en=1,rxqs_min_mprq=1"
    result = run(tmp_path / "a", "testpmd", "--packet-size", "512", "--rate", "20Gbps", "--app-args", devices, *SHORT)
    assert result["loss_percent"] == 0
    # A request has 64 packets.
    receive = result["statistics"]["ports"][0]["receive"]
    assert receive["descriptors_fetched"] < receive["frames"] / 30
    two = run(tmp_path / "b", "testpmd", "--ports", "2", "--cores", "2", "--rate", "5Gbps", *SHORT)
    assert two["loss_percent"] == 0 and all(p["cohort"]["forwarded"] > 0 for p in two["ports"])
    jumbo = run(tmp_path / "c", "testpmd", "--packet-size", "9000", "--rate", "20Gbps", *SHORT)
    assert jumbo["loss_percent"] == 0


def test_short_packets_are_copied_by_the_driver_and_balance(tmp_path: Path) -> None:
    """Out of requests for several packets, and into requests to send: buffers come back before their packets leave."""
    devices = "-a {pci},mprq_en=1,rxqs_min_mprq=1,txqs_min_inline=1"
    result = run(tmp_path / "a", "testpmd", "--packet-size", "64", "--rate", "5Gbps", "--app-args", devices, *SHORT)
    assert result["loss_percent"] == 0
    io = result["statistics"]["io"]
    assert io["memory_reads"] < 1.5 * result["statistics"]["transmit"]["frames"], "no read of a payload"


def test_completions_share_entries_while_the_link_is_behind(tmp_path: Path) -> None:
    """On PCIe 3.0 x16, receiving alone: without, 86 million a second; with, more, and fewer lines than two a packet."""
    args = (
        "testpmd", "--cores", "4", "--queues", "4", "--packet-size", "64", "--rate", "97Gbps",
        "--set", "llc.dca_ways=2", "--set", "slot.generation=3", "--app-args=--forward-mode=rxonly",
        "--duration", "100us", "--warmup", "300us",
    )  # fmt: skip
    apart, shared = (run(tmp_path / n, *args, "--set", f"nic.mlx5.compression_timeout={n}") for n in ("0ns", "2us"))
    lines = [r["statistics"]["memory"]["dma_writes"] / r["statistics"]["receive"]["delivered"] for r in (apart, shared)]
    assert lines[0] == pytest.approx(2, abs=0.05) and lines[1] < 1.6
    assert shared["loss_percent"] < apart["loss_percent"] - 10
    # What a program that only receives takes is seen, though it has read its rings over before.
    for result in (apart, shared):
        queues = result["statistics"]["ports"][0]["queues"]
        taken = sum(q["driver"]["burst_packets"] for q in queues)
        assert taken == pytest.approx(sum(q["receive"]["delivered"] for q in queues), rel=0.3)


def test_l3fwd_between_both_ports_of_one_card_of_grace(tmp_path: Path) -> None:
    """Packets of each port leave by the other, through one slot; the SMMU translates."""
    result = balanced(
        tmp_path / "a", "l3fwd", "--platform", "grace", "--set", "nic.ports=2", "--packet-size", "64",
        "--rate", "2Gbps", "--queues", "2", *SHORT,
    )  # fmt: skip
    assert result["loss_percent"] == 0 and [p["cohort"]["dma_drop"] for p in result["ports"]] == [0, 0]
    sent = [p["transmit"]["frames"] for p in result["statistics"]["ports"]]
    # Each of two queues holds up to a burst of 32 back, at both edges of what is measured.
    assert sent[0] == pytest.approx(sent[1], abs=2 * 2 * 32) and min(sent) > 300
    assert result["statistics"]["io"]["iotlb_hits"] > 0 and len(result["configuration"]["platform"]["slot"]) == 1
    refused = wiretime("run", "l3fwd", "--ports", "2", "--nic", "82599", "--app-args=--lookup=em")
    assert refused.returncode == 2 and "exact matches here lead to port 0" in refused.stderr


def test_requests_are_used_in_order_whichever_read_is_answered_first(tmp_path: Path) -> None:
    """Sixteen queues of short rings under both ports' full load: reads of requests overtake each other. A request used
    before its turn put packets into buffers where the driver looked later, and sent what was there before."""
    result = balanced(
        tmp_path / "a", "l3fwd", "--platform", "grace", "--set", "nic.ports=2", "--packet-size", "64", "--rate", "50%",
        "--flows", "1024", "--cores", "8", "--queues", "8", "--warmup", "400us", "--duration", "100us",
        "--app-args=--rx-queue-size=256 --tx-queue-size=256 --mbcache=256 --rx-burst=64 --tx-burst=32",
    )  # fmt: skip
    # The card reads requests for 117 of 148 million packets a second; its buffers take most of what comes beyond.
    assert result["loss_percent"] < 2 and result["total"]["forwarded"] > 70_000


def test_a_program_that_sleeps_is_woken_by_each_packet(tmp_path: Path) -> None:
    def figures(app: str, duration: str) -> tuple[int, int, float]:
        args = ("--rate", "1Mbps", "--packet-size", "128", "--warmup", "2ms", "--duration", duration)
        result = run(tmp_path / f"{app}-{duration}", app, *args)
        return result["execution"]["interrupts"], result["load"]["forwarded"], result["latency_ns"]["median"]

    asleep, longer, polls, polls_longer = (
        figures(app, duration) for app in ("l3fwd-power", "testpmd") for duration in ("4ms", "12ms")
    )
    packets = longer[1] - asleep[1]
    # Now and then its look once in 10 ms falls between.
    assert packets == 8 and packets <= longer[0] - asleep[0] <= packets + 3
    assert polls_longer[0] == polls[0]
    # To be woken takes some microseconds; once in 10 ms it looks by itself.
    assert 3e3 < asleep[2] < 20e3 and polls[2] < 2e3
    refused = wiretime("run", "l3fwd-power", "--nic", "82599")
    assert refused.returncode == 2 and "l3fwd-power has no driver for it" in refused.stderr


def test_tcp_both_ways_by_the_kernel(tmp_path: Path) -> None:
    for name, way in (("a", ()), ("b", ("--iperf", "reverse=yes"))):
        result = run(tmp_path / name, "iperf3", "--warmup", "2ms", "--duration", "3ms", *way)
        i = result["iperf"]
        assert i["gbps"] > 5 and i["client_bytes"] == i["server_bytes"] > 0


RELOADS = """#!/bin/sh
trap '' TERM
until busybox dmesg | grep -q "health recovery succeeded"; do sleep 1; done
ip link set eth0 up
busybox dmesg | grep -e mlx5 -e WARN -e rror
echo "it is up again"
for i in 1 2 3 4 5 6 7 8 9 10; do
    busybox rmmod mlx5_ib
    busybox rmmod mlx5_core
    insmod /lib/modules/mlx5_core.ko
    insmod /lib/modules/mlx5_ib.ko
    ip link set eth0 up
    echo "counters: $(ethtool -S eth0 | grep -c :)"
    [ $i = 10 ] || ip link set eth0 down
done
sleep 1
busybox dmesg | grep -e mlx5 -e WARN -e rror
wtctl mark 1
wtctl wait-stop
"""


def test_drivers_recover_from_a_failure_and_come_and_go(tmp_path: Path) -> None:
    script = tmp_path / "reloads.sh"
    script.write_text(RELOADS)
    script.chmod(0o755)
    out = tmp_path / "a"
    fails = ("--set", "nic.mlx5.fails_at=9s")
    result = run(out, str(script), "--kernel", "--role", "consumes", "--rate", "100Mbps", "--duration", "1ms", *fails)
    assert result["loss_percent"] == 0 and result["cohort"]["consumed"] > 0, "it receives"
    before, _, after = (out / "console.log").read_text().partition("it is up again")
    for step in ("firmware internal error", "Issuing FW Reset", "health recovery succeeded"):
        assert step in before, step
    assert re.findall(r"counters: (\d+)", after) == ["391"] * 10
    # What it said of its failure is in the log still.
    lines = [line for line in after.splitlines() if "mlx5" in line and re.search(r"rror|WARN|ailed|imeout", line)]
    new = [line for line in lines if line not in before]
    assert [line for line in new if not any(usual in line for usual in USUAL)] == []


# Nothing is sent or received until the load comes, which is when both of its queues fail.
ROUTES = """#!/bin/sh
trap '' TERM
echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 0 >/proc/sys/net/ipv4/conf/eth0/send_redirects
echo 0 >/proc/sys/net/ipv4/conf/all/send_redirects
/usr/bin/ip addr del 10.0.0.2/8 dev eth0
/usr/bin/ip addr add 192.0.0.2/24 dev eth0
/usr/bin/ip neigh add 192.0.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
/usr/bin/ip route add 10.0.0.0/8 via 192.0.0.1 dev eth0
sleep 5
wtctl mark 1
wtctl wait-stop
busybox dmesg | grep -e "eth0:" -e WARN
ethtool -S eth0 | grep -e x_recover -e " tx_cqe_err"
"""


def test_the_kernels_driver_recovers_queues_that_fail_under_load(tmp_path: Path) -> None:
    script = tmp_path / "routes.sh"
    script.write_text(ROUTES)
    script.chmod(0o755)
    out = tmp_path / "a"
    load = ("--rate", "500Mbps", "--warmup", "1ms", "--duration", "60ms")
    result = run(out, str(script), "--kernel", "--role", "forwards", *load, "--set", "nic.mlx5.queues_fail_at=10s")
    said = (out / "console.log").read_text()
    assert "ERR CQE on RQ" in said and "ERR CQE on SQ" in said
    # It waits until all that it had posted is back, and says so if it waits in vain.
    assert "timeout" not in said and "WARN" not in said
    counted = {name: int(n) for name, n in re.findall(r"(\w+): (\d+)", said)}
    assert counted["tx_recover"] == counted["rx_recover"] == 1 and counted["tx_cqe_err"] > 2, counted
    assert result["forwarded_mpps"] > 0.6 * result["offered_mpps"], "and goes on"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("qdmafwd", *NIC), "--nic connectx-6dx: qdmafwd has no driver for it"),
        (
            ("testpmd", "--platform", "neoverse-n1", "--set", "nic.interface=connectx-7"),
            "needs the table nic.0.mlx5",
        ),
        (
            ("testpmd", *NIC, "--engine", "packet", "--model", "testpmd-82599"),
            "its driver is the 82599's; the NIC is connectx-6dx",
        ),
        (("testpmd", *NIC, "--engine", "packet", "--packet-size", "4000"), "has to fit into one buffer"),
        (("testpmd", *NIC, "--engine", "packet", "--app-args", "--rxd=1000"), "powers of two up to 8192"),
        (("iperf3", *NIC, "--app-args", "-a {pci}"), "iperf3 uses the kernel's driver"),
        (("testpmd", *NIC, "--queues", "33", "--cores", "33"), "--queues 33"),
        (("testpmd", *NIC, "--set", "nic.mlx5.send_blocks_ahead=4"), "must be from 16 to 1024 blocks"),
    ],
)
def test_what_cannot_be_is_refused(args: tuple[str, ...], said: str) -> None:
    done = wiretime("run", *args)
    assert done.returncode == 2 and said in done.stderr, done.stderr
