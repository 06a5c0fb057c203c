"""Other builds of the programs that Debian packages: a user's, and those of other releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import balanced, wiretime
from wiretime import apps
from wiretime.errors import WiretimeError
from wiretime.setup import guest, older

SHORT = ("--iperf", "protocol=udp", "--iperf", "rate=1Gbps")


def received(out: Path, *words: str) -> dict[str, Any]:
    """Run iperf3's server; returns the result of a run in which everything arrived."""
    r = balanced(out, *words, *SHORT)
    assert r["ports"][0]["iperf"]["server_bytes"] > 0
    return r


def test_a_users_build_runs_instead_of_debians(tmp_path: Path) -> None:
    mine = tmp_path / "iperf3"
    mine.write_text('#!/bin/sh\necho it is mine\nexec /usr/bin/iperf3 "$@"\n')
    mine.chmod(0o755)
    received(tmp_path / "out", "iperf3", "--files", str(mine))
    assert "it is mine" in (tmp_path / "out/console.log").read_text()


def test_a_program_of_another_release_brings_its_own_libraries(tmp_path: Path) -> None:
    """Of the guest's release, which is there as long as the guest can be made: it loads what it brought."""
    name = f"iperf3@{guest.recipe()['suite']}"
    done = wiretime("setup", "--program", name)
    assert done.returncode == 0, done.stderr
    inside = {Path(target).name for target in older.files(name)}
    assert {"iperf3", "libc.so.6", "libiperf.so.0", guest.LOADER} <= inside
    r = received(tmp_path / "out", name)
    assert r["app"]["name"] == name


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("iperf3", ["other"], "--files: iperf3 is not a program of yours; one called iperf3 would run instead"),
        ("testpmd", ["testpmd"], "testpmd takes no other build of its program"),
        ("udpecho@bullseye", [], "udpecho takes no other build of its program"),
        ("iperf3@nowhere", [], "iperf3@nowhere is not set up: `wiretime setup --program iperf3@nowhere`"),
        ("iperf3@", [], "iperf3@ is not set up"),
        ("memcached", ["memcached"], r"memcached: no such file"),
    ],
)
def test_what_cannot_be_replaced_is_refused(tmp_path: Path, name: str, files: list[str], message: str) -> None:
    with pytest.raises(WiretimeError, match=message):
        apps.find(name, apps.Own(tuple(tmp_path / f for f in files)))


@pytest.mark.parametrize("name", ["iperf3", "@bullseye", "iperf3@", "iperf3@../x", "a b@bullseye"])
def test_a_program_of_a_release_has_a_name(name: str) -> None:
    with pytest.raises(WiretimeError, match="must be PROGRAM@RELEASE"):
        older.add(name)


def test_packages_without_such_a_program_say_so(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(WiretimeError, match="package iperf3 has no /usr/bin/iperf3"):
        older._take(tmp_path, "iperf3")
