"""A little of `scripts/endurance.py`, whose whole takes hours; docs/measurements.md has what it found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import wiretime
from wiretime import boots, paths

ENDURANCE = (sys.executable, str(paths.REPOSITORY / "scripts/endurance.py"))


def endurance(*arguments: str) -> str:
    done = subprocess.run([*ENDURANCE, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_runs_in_trouble_are_identical() -> None:
    assert "5 of 5 identical" in endurance("identical", "--runs", "5", "--jobs", "1", "--seed", "11")


def test_nothing_stays_of_what_is_killed() -> None:
    assert "0 things wrong" in endurance("kills", "--times", "2", "--seed", "3")


def test_disk_network_and_clock_fail() -> None:
    if subprocess.run(["unshare", "--map-root-user", "--mount", "--net", "true"], capture_output=True).returncode:
        pytest.skip("this host gives no namespaces")
    out = endurance("faults", "--points", "12")
    assert out.count("as it must be") == len(out.splitlines()) == 6, out


def test_qemu_that_is_killed_while_its_boot_is_kept_does_not_hold_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(boots.FOLDER_VARIABLE, str(tmp_path / "states"))

    def found() -> int | None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                told = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            except OSError:
                continue
            if b"qemu-system" in told[0] and str(tmp_path).encode() in told[1]:
                return int(process.name)
        return None

    def kill() -> None:
        while (qemu := found()) is None:
            time.sleep(0.01)
        # As soon as the first state is being made; a busy host leaves little time for it.
        while not list((tmp_path / "states").glob(f"{boots.NEW}*")):
            time.sleep(0.0005)
        os.kill(qemu, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    done = wiretime("run", "testpmd", "--duration", "200us", "--warmup", "100us", "--json", "-")
    killer.join()
    assert done.returncode == 0 and "the boot is not kept" in done.stderr, done.stderr
