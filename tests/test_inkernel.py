"""Forwarding inside the guest's kernel: XDP programs in its drivers, and its own routing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import balanced, wiretime

SHORT = ("--warmup", "200us", "--duration", "300us")


def instructions(result: dict[str, Any]) -> float:
    """Return what the core that takes the interrupts executes for a packet."""
    return float(result["statistics"]["cores"][0]["core"]["instructions"] / result["cohort"]["forwarded"])


def test_xdp_sends_packets_back_and_drops_them(tmp_path: Path) -> None:
    nic = ("--nic", "connectx-6dx", "--packet-size", "64", *SHORT)
    back = balanced(tmp_path / "a", "xdp", "--rate", "1Gbps", *nic)
    assert back["loss_percent"] == 0 and back["forwarded_gbps"] == pytest.approx(1, rel=0.02)
    # In the driver: the kernel's own path would take four times as many.
    assert instructions(back) < 1500
    # Completions lie in single pages, and what reads them is seen all the same. Of long bursts the driver copies
    # packets into its requests, where their way is not followed.
    assert back["latency_hops_packets"][0] > 0.6 * back["cohort"]["forwarded"]
    assert back["statistics"]["ports"][0]["queues"][0]["driver"]["burst_packets"] > 500
    # Each of two queues interrupts a core of its own.
    args = ("--app-args", "drop --touch", "--rate", "40Gbps", "--cores", "2", "--queues", "2", "--flows", "64")
    dropped = balanced(tmp_path / "b", "xdp", *args, *nic)
    queues = [q["receive"]["delivered"] for q in dropped["statistics"]["ports"][0]["queues"][:2]]
    assert dropped["cohort"]["consumed"] > 0 and dropped["cohort"]["core_drop"] > 0 and min(queues) > 0.8 * max(queues)
    # The kernel's own work may come between, on any core.
    softirq = [
        c["processor_time"]["softirq_ps"] / dropped["statistics"]["time_ps"] for c in dropped["statistics"]["cores"]
    ]
    assert min(softirq[:2]) > 0.75 and softirq[2] < 0.01, softirq


def test_xdp_redirects_between_ports_of_an_82599(tmp_path: Path) -> None:
    result = balanced(
        tmp_path / "a", "xdp", "--app-args", "redirect", "--nic", "82599", "--ports", "2", "--rate", "1Gbps", *SHORT
    )
    assert result["loss_percent"] == 0 and all(p["cohort"]["forwarded"] > 0 for p in result["ports"])


def test_a_program_that_could_not_be_attached_is_no_run() -> None:
    """Without it the kernel would take the packets, or drop them, at a cost of its own."""
    lro = ("--ethtool", "K lro on")
    done = wiretime("run", "xdp", "--app-args", "drop", "--nic", "82599", *lro, "--rate", "1Gbps", *SHORT)
    assert done.returncode != 0 and "xdp: " in done.stderr, done.stderr


def test_a_long_quantum_loses_no_interrupt(tmp_path: Path) -> None:
    """Devices are simulated ahead of the cores: an interrupt before its packet would find nothing, for good."""
    args = ("xdp", "--nic", "82599", "--cores", "2", "--queues", "2", "--packet-size", "64", "--rate", "20kpps")
    result = balanced(tmp_path / "a", *args, "--set", "system.quantum=20us", "--duration", "5ms")
    # One quantum for the interrupt and one for the doorbell; packets are 50 us apart.
    assert result["cohort"]["forwarded"] == 100 and result["latency_ns"]["max"] < 50_000


def test_both_ways_of_routing(tmp_path: Path) -> None:
    """By a program that asks the kernel's routes, between ports; and by the kernel, which copies packets."""
    two = ("--nic", "connectx-6dx", "--ports", "2", "--rate", "0.5Gbps", *SHORT)
    asked = balanced(tmp_path / "a", "xdp", "--app-args", "route", *two)
    own = balanced(tmp_path / "b", "route", "--packet-size", "64", "--rate", "200kpps", *SHORT)
    for result in (asked, own):
        assert result["loss_percent"] == 0 and result["cohort"]["forwarded"] > 0
    assert instructions(asked) < 0.7 * instructions(own)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("xdp", "--app-args", "pass"), "--app-args pass: xdp does one of drop, tx, redirect, route"),
        (("xdp", "--app-args", "tx --fast"), "xdp has no option --fast; it has --touch"),
        (("route", "--app-args", "x"), "--app-args x: route has none"),
        (("route", "--ip", "6", "--packet-size", "128"), "--ip 6: routes here are of IPv4"),
        (("xdp", "--nic", "qdma"), "--nic qdma: xdp has no driver for it"),
        (("xdp", "--packet-size", "9000"), "xdp takes 64 to 1518 B"),
    ],
)
def test_what_cannot_be_is_refused(args: tuple[str, ...], said: str) -> None:
    done = wiretime("run", *args)
    assert done.returncode == 2 and said in done.stderr, done.stderr
