"""VLAN tags: drivers have cards take them off and put them in."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from conftest import balanced
from test_commands import outbound
from test_load import pcap, udp

TAG, PUT_IN = 0x6005, 100


def tagged(i: int, size: int) -> bytes:
    plain = udp(i, size - 4)
    return plain[:12] + struct.pack(">HH", 0x8100, TAG) + plain[12:]


@pytest.mark.parametrize("nic", ["8254x", "82599", "connectx-6dx"])
def test_tags_are_taken_off_and_put_in(nic: str, tmp_path: Path) -> None:
    """Frames with a tag, of a full size, and without one come back with another tag and are otherwise the same."""
    sent = [tagged(i, (128, 1518)[i % 2]) if i % 4 else udp(i, 200) for i in range(400)]
    trace = pcap(tmp_path / "t.pcap", [(2000 * i, data) for i, data in enumerate(sent)])
    commands = f"port stop 0; vlan set strip on 0; tx_vlan set 0 {PUT_IN}; port start 0; start"
    out = tmp_path / "out"
    balanced(
        out, "testpmd", "--nic", nic, "--replay", str(trace), "--app-commands", commands, "--capture", "all",
        "--duration", "900us", "--warmup", "1us",
    )  # fmt: skip
    # The kernel still has a ConnectX, too, and tells IPv6's neighbours of itself.
    came_back = [frame for frame in outbound((out / "wire.pcapng").read_bytes()) if frame[:2] != b"\x33\x33"]
    assert len(came_back) == len(sent)
    for before, after in zip(sent, came_back, strict=True):
        rest = before[16:] if before[12:14] == b"\x81\0" else before[12:]
        assert (after[:6], after[12:16], after[16:]) == (before[6:12], struct.pack(">HH", 0x8100, PUT_IN), rest)
