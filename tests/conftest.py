"""What the tests share: the program's command line, and runs of small guest programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from wiretime import boots, paths, platforms, runs, vm
from wiretime.setup.guest import compile_c

# A shell that starts the tests in the background lets all below ignore what some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

WIRETIME = [sys.executable, "-m", "wiretime"]
# Tests run many guests: fewer of their boots are kept than a user's.
os.environ.setdefault(boots.LIMIT_VARIABLE, "3GiB")


def wiretime(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WIRETIME, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def balanced(out: Path, *args: str) -> dict[str, Any]:
    """Return the result of a run whose books balance."""
    done = wiretime("run", *args, "--out", str(out))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    assert result["ledger_violations"] == []
    return result


def settings(**changes: Any) -> dict[str, Any]:
    s = runs.check(runs.Request(internals={"warm_up": "0ns", **changes})).settings
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


def children(parent: int) -> list[str]:
    """QEMU processes started by ``parent``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            started_by = (process / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if started_by == str(parent) and "qemu-system" in (process / "cmdline").read_text():
                found.append(process.name)
        except OSError:
            continue
    return found


def alive(pid: str) -> bool:
    """Whether a process runs; one that only waits to be reaped by a lazy init does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def leftovers(process: int) -> list[str]:
    """Files, sockets and shared memory that carry the process's number."""
    places = [Path(tempfile.gettempdir()), Path("/dev/shm"), Path("/run")]
    return [str(p) for place in places if place.is_dir() for p in place.glob(f"wiretime*{process}*")]


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("no chromium and its driver, which ./test installs on Debian (Ubuntu's is a snap)")
    options.binary_location = program
    with webdriver.Chrome(options, webdriver.ChromeService(driver)) as running:
        yield running
