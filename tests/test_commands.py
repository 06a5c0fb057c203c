"""Commands that no other test runs for real: each once, on a small question, by what it prints."""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import time
from pathlib import Path

from conftest import WIRETIME, wiretime
from test_system import result

# The link to the host is the limit: the line would be no answer to a search.
SLOW = ("--packet-sizes", "1518", "--set", "slot.generation=1", "--set", "slot.lanes=4")


def ran(*arguments: str) -> str:
    done = wiretime(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def gbps(text: str) -> list[float]:
    return [float(rate) for rate in re.findall(r"([0-9.]+) Gb/s", text)]


def row(text: str, of: str) -> str:
    return next(line for line in text.splitlines() if of in line)


def test_ndr_and_pdr() -> None:
    out = ran("msb", "testpmd", *SLOW, "--ndr-pdr", "--trial-length", "0.1")
    (ndr, none, lost), (pdr, low, high) = (gbps(row(out, goal)) for goal in ("NDR", "PDR"))
    # 8 Gb/s of which headers take some, both ways at once.
    assert 5 < ndr <= none < lost < 8.5 and pdr > 5 and low < high < 8.5
    assert none <= low * 1.001


def test_several_seeds() -> None:
    """Where the line is the limit, and so the same for each."""
    out = ran("msb", "testpmd", "--packet-sizes", "1518", "--seeds", "2", "--trial-length", "0.1")
    each, over = out.split("over 2 seeds")
    assert [gbps(line)[0] for line in each.splitlines() if "the line" in line] == [98.7]
    mean, lowest, highest = gbps(row(over, "1518 B"))
    assert mean == lowest == highest == 98.7 and row(over, "1518 B").split()[-1] == "2"


def test_rfc2544() -> None:
    out = ran("rfc2544", "testpmd", *SLOW, "--trial-length", "0.1")
    table = row(out[out.index("RFC 2544") :], "1518 B")
    throughput = gbps(table)[0]
    assert 5 < throughput < 8.5
    # From the whole line downwards until two rates lose nothing.
    shares = [(int(share), float(loss)) for share, loss in re.findall(r"(\d+): ([0-9.]+)", table)]
    assert [share for share, _ in shares] == sorted((share for share, _ in shares), reverse=True)
    assert shares[0][0] == 100 and shares[0][1] > 80


def test_advice_holds_in_simulation() -> None:
    out = ran("advise", "--rate", "40Gbps", "--packet-size", "1518")
    sustain = {int(n): float(loss) for n, loss in re.findall(r"^ +(\d+) +([0-9.]+) %", out, re.MULTILINE)}
    answer = re.search(r"(\d+) descriptors sustain the rate in simulation", out)
    assert answer and sustain[int(answer[1])] == 0
    assert all(loss > 0 for n, loss in sustain.items() if n < int(answer[1]))


def test_the_doctor_finds_what_runs_need() -> None:
    out = ran("doctor")
    assert len(out.splitlines()) >= 10 and all(line.startswith("ok ") for line in out.splitlines()), out


def test_a_person_at_the_console() -> None:
    """The shell's prompt, a command of its own, and the way out; on a terminal."""
    terminal, end = pty.openpty()
    with subprocess.Popen([*WIRETIME, "guest", "shell"], stdin=end, stdout=end, stderr=end) as process:
        os.close(end)
        seen, asked, deadline = b"", False, time.monotonic() + 300
        try:
            while time.monotonic() < deadline:
                # A person asks again after a while: the kernel may have said something behind the prompt.
                if select.select([terminal], [], [], 20)[0]:
                    try:
                        seen += os.read(terminal, 4096)
                    except OSError:  # nobody is at the other end any more
                        break
                elif re.search(rb"[#$] ", seen):
                    asked = False
                    os.write(terminal, b"\n")
                # BusyBox may ask the terminal where its cursor is.
                if not asked and re.search(rb"[#$] (\x1b\[6n)?$", seen):
                    os.write(terminal, b"echo $((6*7))-$(uname -m); poweroff -f\n")
                    asked = True
            assert process.wait(30) == 0, seen[-2000:]
        finally:
            process.kill()
            os.close(terminal)
    assert b"42-aarch64" in seen, seen[-2000:]


def ones_complement(data: bytes) -> int:
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_checksums_that_the_nic_fills_in_are_right_on_the_wire(tmp_path: Path) -> None:
    """testpmd leaves IP's and UDP's to the NIC and changes addresses before: what comes back is computed here."""
    offload = "set fwd csum; csum set ip hw 0; csum set udp hw 0; csum mac-swap off 0; start"
    out = tmp_path / "out"
    more = ("--packet-size", "301", "--rate", "1Gbps", "--capture", "all", "--out", str(out))
    r = result("--nic", "82599", *more, "--duration", "100us", "--warmup", "100us", "--app-commands", offload)
    assert r["cohort"]["forwarded"] == r["cohort"]["offered"] > 10
    frames = outbound((out / "wire.pcapng").read_bytes())
    assert len(frames) > 10
    for frame in frames:
        ip = frame[14:34]
        udp = frame[34 : 14 + struct.unpack(">H", ip[2:4])[0]]
        assert ones_complement(ip) == 0xFFFF
        pseudo = ip[12:20] + struct.pack(">BBH", 0, 17, len(udp))
        assert udp[6:8] != b"\0\0" and ones_complement(pseudo + udp) == 0xFFFF


def outbound(data: bytes) -> list[bytes]:
    """Frames that left the guest: those of a pcapng's enhanced packet blocks whose direction says so."""
    frames, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            option = at + 28 + (captured + 3) // 4 * 4
            while option < at + length - 4:
                code, size = struct.unpack_from("<HH", data, option)
                if code == 2 and struct.unpack_from("<I", data, option + 4)[0] & 3 == 2:
                    frames.append(data[at + 28 : at + 28 + captured])
                if code == 0:
                    break
                option += 4 + (size + 3) // 4 * 4
        at += length
    return frames
