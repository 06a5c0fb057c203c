"""What the tests share: the program's command line, and runs of small guest programs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wiretime import paths, platforms, run, vm
from wiretime.setup.guest import compile_c

WIRETIME = [sys.executable, "-m", "wiretime"]


def wiretime(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WIRETIME, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def settings(**changes: Any) -> dict[str, Any]:
    _, s, _, _ = run.check(run.Request(engine={"warm_up": "0ns", **changes}))
    return s


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Run ``micro WHAT N`` in the guest under full timing; returns the engine's result."""
    program = tmp_path_factory.mktemp("micro") / "micro"
    compile_c(paths.GUEST / "tests/micro.c", program)

    def measure(what: str, n: int, *changes: str, **engine: Any) -> dict[str, Any]:
        platform = platforms.load("ampere-altra", ["system.counter_frequency=1GHz", "system.cores=1", *changes])
        guest = vm.Guest(
            {"MODULES": "", "BIND": "", "COMMAND": f"micro {what} {n}", "WAITS": ""}, files={"opt/micro": program}
        )
        outcome = vm.Machine(platform, settings(start_at="mark", **engine), guest).run()
        result: dict[str, Any] = outcome.message["result"]
        assert result["guest"]["status"] == 0, outcome.console[-2000:]
        return result

    return measure


def left_behind() -> set[str]:
    """Processes, sockets and shared memory of runs."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if "qemu-system-aarch64" in (process / "cmdline").read_text():
                found.add(process.name)
        except OSError:
            continue
    found |= {str(p) for p in Path(os.environ.get("TMPDIR", "/tmp")).glob("wiretime-*")}
    return found | {str(p) for p in Path("/dev/shm").glob("*wiretime*")}
