"""The QDMA in full system: our driver for it in the guest, its generator, a wire, and what has no driver for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import balanced, wiretime
from wiretime import platforms
from wiretime.errors import WiretimeError
from wiretime.setup import dpdk

SHORT = ("--warmup", "100us", "--duration", "150us")
REPORT = ("--platform", "xeon-8168", "--app-args=--rxd=2048 --txd=2048 --burst=256", *SHORT)
WIRE = ("--nic", "qdma", *SHORT)


def run(out: Path, *args: str) -> dict[str, Any]:
    return balanced(out, "qdmafwd", *args)


def test_a_guest_forwards_what_the_generator_sends(tmp_path: Path) -> None:
    # Answer 34944, table 8: 512 B, one queue: n + 6 cycles of 250 MHz.
    result = run(tmp_path / "a", *REPORT, "--packet-size", "512")
    assert result["offered_mpps"] == pytest.approx(17.856, rel=0.01) and result["loss_percent"] == 0
    driver = result["statistics"]["ports"][0]["queues"][0]["driver"]
    assert driver["empty_polls"] > driver["bursts"] > 0
    # The packet-level engine, which does as the same driver.
    packet = ("--engine", "packet", "--model", "testpmd-qdma")
    other = run(tmp_path / "b", *REPORT, *packet, "--packet-size", "512")
    assert other["offered_mpps"] == pytest.approx(result["offered_mpps"], rel=0.01)


def test_packets_of_two_buffers_and_several_queues(tmp_path: Path) -> None:
    # The same table: 2112 B take two buffers each way; 4 queues: 5.765 Mpps.
    args = (*REPORT, "--packet-size", "2112", "--queues", "4", "--cores", "4")
    result = run(tmp_path / "a", *args)
    assert result["offered_mpps"] == pytest.approx(5.765, rel=0.05) and result["loss_percent"] == 0
    queues = result["statistics"]["ports"][0]["queues"]
    assert [q["transmit"]["packets"] > 0 for q in queues] == [True] * 4
    # What goes on from a kept boot is what boots.
    assert run(tmp_path / "b", *args, "--boot") == result


def test_a_wire_loads_it_as_any_other_nic(tmp_path: Path) -> None:
    result = run(tmp_path / "a", *WIRE, "--packet-size", "256", "--rate", "20Gbps", "--app-args=--forward-mode=macswap")
    assert result["loss_percent"] == 0 and result["forwarded_gbps"] == pytest.approx(20, rel=0.01)
    lost = run(tmp_path / "b", *WIRE, "--packet-size", "64", "--rate", "60Gbps", "--warmup", "300us")
    assert lost["cohort"]["core_drop"] > 0.9 * (lost["cohort"]["offered"] - lost["cohort"]["forwarded"]) > 0
    two = run(tmp_path / "c", *WIRE, "--ports", "2", "--cores", "2", "--packet-size", "256", "--rate", "10Gbps")
    assert two["loss_percent"] == 0 and [p["cohort"]["forwarded"] > 0 for p in two["ports"]] == [True, True]


def test_xilinxs_own_driver_forwards(tmp_path: Path) -> None:
    """Unmodified: it finds the function, programs its contexts, and testpmd forwards on it."""
    if dpdk.missing("xilinx"):
        pytest.skip(
            "no registry has DPDK's sources and Xilinx's driver: `wiretime setup --dpdk xilinx=SOURCE --driver "
            "dma_ip_drivers/QDMA/DPDK/drivers/net/qdma`"
        )
    args = ("testpmd", *WIRE, "--dpdk", "xilinx")
    result = balanced(tmp_path / "a", *args, "--packet-size", "256", "--rate", "10Gbps")
    assert result["loss_percent"] == 0 and result["forwarded_gbps"] == pytest.approx(10, rel=0.01)
    assert [p["name"] for p in result["versions"]["packages"]["dpdk"]] == ["dpdk", "net_qdma"]
    more = ("--queues", "4", "--cores", "4", "--flows", "64", "--packet-size", "1518", "--rate", "40Gbps")
    several = balanced(tmp_path / "b", *args, *more)
    assert several["loss_percent"] == 0
    assert all(q["transmit"]["packets"] > 0 for q in several["statistics"]["ports"][0]["queues"])
    # What goes on from a kept boot is what boots.
    assert balanced(tmp_path / "c", *args, *more, "--boot") == several
    # Packets of two buffers.
    long = balanced(tmp_path / "d", *args, "--packet-size", "4000", "--rate", "40Gbps")
    assert long["loss_percent"] == 0 and long["forwarded_gbps"] == pytest.approx(40, rel=0.02)


@pytest.mark.parametrize(
    ("app", "args", "said"),
    [
        (
            "testpmd",
            ("--nic", "qdma"),
            "--nic qdma: testpmd has no driver for it; there is one in qdmafwd, and of testpmd in a build of",
        ),
        ("qdmafwd", (), "--nic connectx-6dx: qdmafwd has no driver for it; there is one in testpmd"),
        ("iperf3", ("--nic", "qdma"), "iperf3 has no driver for it"),
        ("qdmafwd", (*REPORT, "--rate", "1Gbps"), "sends whenever descriptors are posted"),
        ("qdmafwd", ("--nic", "qdma", "--packet-size", "4097"), "qdmafwd takes 64 to 4096 B"),
        ("qdmafwd", ("--nic", "qdmaa"), "unknown NIC 'qdmaa'; did you mean qdma?"),
        ("qdmafwd", ("--set", "nic=qdmaa"), "unknown card 'qdmaa'; did you mean qdma?"),
    ],
)
def test_what_cannot_be_is_refused(app: str, args: tuple[str, ...], said: str) -> None:
    done = wiretime("run", app, *args)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_the_guest_says_what_it_does_not_know() -> None:
    done = wiretime("run", "qdmafwd", "--nic", "qdma", "--app-args=--forward-mode=csum")
    assert done.returncode == 1 and "--forward-mode csum: io, macswap, rxonly" in done.stderr, done.stderr


def test_a_card_replaces_a_platforms_own() -> None:
    ours = platforms.load("ampere-altra", ["nic=qdma"])
    assert ours["nic"][0]["interface"] == "qdma" and ours["nic"][0]["slot"] == 0
    assert ours["link"] == platforms.load("ampere-altra")["link"]
    with pytest.raises(WiretimeError, match="unknown card"):
        platforms.load("ampere-altra", ["nic=none"])
