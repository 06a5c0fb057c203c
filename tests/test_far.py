"""What is at the far end of the wire where it is outside: a second simulated host, a TAP of this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import WIRETIME, alive, children, wiretime
from pymemcache.client.base import Client
from test_system import SCHEMA, balanced
from wiretime import far
from wiretime.errors import WiretimeError


def two_hosts(out: Path, *arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results of a run against a second host, and of that host's."""
    done = wiretime("run", *arguments, "--peer", "host", "--out", str(out))
    assert done.returncode == 0, done.stderr
    here, there = (json.loads((out / part / "result.json").read_text()) for part in ("", "peer"))
    for r in (here, there):
        jsonschema.validate(r, SCHEMA)
        balanced(r)
    return here, there


def passed(r: dict[str, Any]) -> dict[str, int]:
    counts: dict[str, int] = r["statistics"]["far"]
    return counts


def test_a_host_talks_to_another(tmp_path: Path) -> None:
    """Linux's TCP at both ends: what one sends the other gets, and twice the same, however fast either simulator is."""
    arguments = ("iperf3", "--nic", "82599", "--warmup", "5ms", "--duration", "1ms")
    here, there = two_hosts(tmp_path / "a", *arguments)
    sent, got = passed(there), passed(here)
    assert got["payload_in"] * 8 / 1e6 > 5, "Gb/s"
    # What has left and not arrived when measurement begins and ends; and frames that have been cut of a segment of
    # 64 KiB, which are told of before they leave.
    on_the_wire = 16 + 44
    # What has left the devices is what arrives, but for the wire.
    for sender, receiver in ((there, got), (here, sent)):
        assert abs(receiver["frames_in"] - sender["statistics"]["transmit"]["frames"]) <= 16
    for sender, receiver in ((sent, got), (got, sent)):
        assert abs(receiver["frames_in"] - sender["frames_out"]) <= on_the_wire and sender["frames_out"] > 10
        assert abs(receiver["payload_in"] - sender["payload_out"]) <= on_the_wire * 1518
    assert here["cohort"]["filtered"] == there["cohort"]["filtered"] == 0
    assert '"interrupt - the server has terminated"' in (tmp_path / "a/console.log").read_text()
    two_hosts(tmp_path / "b", *arguments)
    for part in ("result.json", "peer/result.json"):
        assert (tmp_path / "a" / part).read_bytes() == (tmp_path / "b" / part).read_bytes()


def test_a_program_is_kept_busy_by_another_host(tmp_path: Path) -> None:
    here, there = two_hosts(tmp_path, "testpmd", "--packet-size", "128", "--duration", "300us", "--warmup", "200us")
    assert here["cohort"]["offered"] == here["cohort"]["forwarded"] > 1000, (
        "testpmd makes fewer packets than it forwards"
    )
    assert here["latency_ns"]["median"] > 1000
    sizes = here["offered_gbps"] * 1000 / 8 / here["offered_mpps"]
    assert round(sizes) == 128 and there["app"]["name"] == "flowgen"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("memcached", "--peer", "host"), "--peer host: not with memcached; there are clients for iperf3"),
        (("testpmd", "--peer", "hose"), "unknown peer 'hose'; did you mean host?"),
        (("testpmd", "--peer", "host", "--rate", "1Gbps"), "--rate: not with --peer host"),
        (("testpmd", "--peer", "host", "--ports", "2"), "--ports 2: one, with what is outside"),
        (("iperf3", "--peer", "host", "--set", "system.quantum=1us"), "system.quantum is 1us: at most the lookahead"),
    ],
)
def test_what_another_host_cannot_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = wiretime("run", *arguments)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_a_host_that_fails_is_told_of(tmp_path: Path) -> None:
    """The reason is the failing host's, and nobody waits for the other."""
    done = wiretime("run", "ping", "--peer", "host", "--guest-limit", "1s")
    assert done.returncode == 1 and "no port was enabled within 1s" in done.stderr, done.stderr


def test_names_of_taps() -> None:
    for name in ("", "a/b", "sixteen-letters-", ".."):
        with pytest.raises(WiretimeError, match="must be 1 to 15 letters"):
            far.open_tap(name)


TAP = f"wtt{os.getpid() % 100000}"


def tap_problem() -> str:
    """Why there can be no TAP here."""
    try:
        os.close(far.open_tap(TAP))
    except WiretimeError as e:
        return str(e)
    return ""


def request(client: socket.socket, number: int, text: bytes) -> bytes:
    client.send(struct.pack(">HHHH", number, 0, 1, 0) + text)
    answer = client.recv(2048)
    assert answer[:8] == struct.pack(">HHHH", number, 0, 1, 0)
    return answer[8:]


def test_ordinary_programs_talk_to_the_guest() -> None:
    """A client library over TCP, values of many segments included, and datagrams, with the kernel's memcached."""
    if problem := tap_problem():
        pytest.skip(problem)
    with subprocess.Popen([*WIRETIME, "wire", "memcached", "--tap", TAP], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "Ctrl-C ends" in process.stderr.readline()
        client = Client(("10.0.0.2", 11211), connect_timeout=20, timeout=20)
        values = {f"key{i}": bytes([i]) * (40 * i + 1) for i in range(50)} | {"long": bytes(range(256)) * 1000}
        assert client.set_many(values) == []
        assert client.get_many(list(values)) == values
        assert client.incr("nobody", 1) is None and client.delete("key0")
        client.close()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.settimeout(20)
        datagrams.connect(("10.0.0.2", 11211))
        assert request(datagrams, 7, b"get key1\r\n") == b"VALUE key1 0 41\r\n" + values["key1"] + b"\r\nEND\r\n"
        guests = children(process.pid)
        process.send_signal(signal.SIGINT)
        assert " frames to the guest, " in process.stderr.read()
        assert process.wait() == 0
        assert guests and not any(alive(pid) for pid in guests)
