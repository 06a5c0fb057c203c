"""Turns of loops taken at once, blocks that QEMU counts: how, not what. Runs with and without leave the same bytes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from conftest import wiretime

FOUR_CORES = ("--nic", "82599", "--cores", "4", "--queues", "4", "--flow-vary", "addresses")
# Arguments, and the least share of timed instructions that is not executed; none where blocks are looked at.
CASES = {
    "idle": (("testpmd", "--packet-size", "64", "--rate", "10Mbps", "--duration", "2ms"), 0.9),
    "polls": (("testpmd", "--packet-size", "1518", "--rate", "1Gbps", "--interval", "50us", "--duration", "1ms"), 0.8),
    "poisson": (("testpmd", "--arrivals", "poisson", "--rate", "500Mbps", "--duration", "1ms"), 0.5),
    "dca": (("testpmd", "--set", "llc.dca_ways=4", "--rate", "500Mbps", "--duration", "500us"), 0.5),
    "in-order": (("testpmd", "--platform", "in-order", "--rate", "500Mbps", "--duration", "500us"), 0.2),
    "cores": (("testpmd", *FOUR_CORES, "--rate", "1Gbps", "--duration", "300us"), 0.5),
    "ports": (("testpmd", "--ports", "2", "--rate", "500Mbps", "--duration", "500us"), 0.3),
    "store": (("memcached_dpdk", "--rate", "100kpps", "--duration", "500us"), 0.3),
    # Its driver's vectors read over the ends of lines, at one place of the ring in four.
    "connectx": (("testpmd", "--nic", "connectx-6dx", "--rate", "10Mbps", "--duration", "4ms"), 0.9),
    "timeline": (("testpmd", "--rate", "500Mbps", "--trace", "20us+20us", "--duration", "300us"), 0.0),
}  # fmt: skip


def run(folder: Path, *args: str) -> tuple[dict[str, bytes], float]:
    """Return a run's files but those of the host, and the share of instructions that was not executed."""
    done = wiretime("run", *args, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    host = json.loads((folder / "host.json").read_text())
    files = {p.name: p.read_bytes() for p in folder.iterdir() if p.name not in ("host.json", "console.log")}
    return files, host["repeated_instructions"] / host["traffic_instructions"]


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_takes_turns_at_once_is_the_run_that_executes_them(tmp_path: Path, name: str) -> None:
    args, least = CASES[name]
    executed, share = run(tmp_path / "executed", *args, "--every-turn")
    assert share == 0
    found, share = run(tmp_path / "found", *args)
    assert sorted(found) == sorted(executed)
    assert [n for n in found if found[n] != executed[n]] == []
    assert least <= share < 1


def test_a_boot_that_qemu_counts_is_the_boot_whose_blocks_call(tmp_path: Path) -> None:
    """A kernel's program on three cores that sleep and wake, with timers and interrupts all the time."""
    args = ("udpecho", "--cores", "2", "--nic", "82599", "--duration", "200us", "--boot")
    called, _ = run(tmp_path / "called", *args, "--every-turn")
    counted, _ = run(tmp_path / "counted", *args)
    assert counted == called


def test_loads_at_random_leave_the_same_bytes(tmp_path: Path) -> None:
    """Loads and ways to the host decide where packets fall among polls."""
    choose = random.Random(7)
    for n in range(5):
        args = (
            *("testpmd", "--duration", "300us", "--arrivals", choose.choice(["poisson", "burst:3", "constant"])),
            *("--packet-size", str(choose.choice([64, 100, 256, 777, 1518]))),
            *("--rate", f"{choose.choice([20, 200, 800, 3000])}Mbps"),
            *("--set", f"pcie.latency={choose.choice([200, 350, 600])}ns", "--set", f"core.rob_entries={32 << n}"),
        )
        executed, _ = run(tmp_path / f"{n}-executed", *args, "--every-turn")
        found, _ = run(tmp_path / f"{n}-found", *args)
        assert found == executed, args
