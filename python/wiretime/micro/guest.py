"""Runs of ``guest/tests/bench.c``: one boot measures any number of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wiretime._native as _native
from wiretime import booting, paths, platforms, runs, scratch, vm
from wiretime.errors import GuestError
from wiretime.setup.guest import compile_c

# Name and argument of a benchmark.
Job = tuple[str, int]

# What the benchmarks need of the machine: a counter in nanoseconds, a second core for sharing, memory for buffers.
NEEDED = ("system.counter_frequency=1GHz", "system.cores=2", "system.memory=1GiB")
HUGE_MIB = 2
SPARE_MIB = 16


def _huge_mib(jobs: Sequence[Job]) -> int:
    sizes = {"chase": 1, "random": 1, "read": 2, "copy": 2}
    announced = 32 * sum(name == "prefetched" for name, _ in jobs)
    return announced + sum(
        sizes[name] * max(kib, HUGE_MIB << 10) // 1024 + HUGE_MIB for name, kib in jobs if name in sizes
    )


def machine(platform: str, changes: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return a platform as the benchmarks run on it."""
    return platforms.load(platform, [*changes, *NEEDED])


def measure(
    platform: str, jobs: Sequence[Job], changes: Sequence[str] = (), progress: vm.Progress | None = None, **engine: Any
) -> dict[Job, float]:
    """Return nanoseconds an operation of every job."""
    table = machine(platform, changes)
    settings = runs.check(
        runs.Request(
            rate="1Mbps",
            duration="1000s",
            guest_limit="1000s",
            internals={"warm_up": "0ns", "start_at": "mark", **engine},
        )
    ).settings
    words = " ".join(f"{name} {argument}" for name, argument in jobs)
    settings_text = {"MODULES": "", "BIND": "", "COMMAND": f"bench {words}", "WAITS": ""}
    pages = (_huge_mib(jobs) + SPARE_MIB) // HUGE_MIB
    with scratch.folder() as folder:
        program = Path(folder) / "bench"
        compile_c(paths.GUEST / "tests/bench.c", program, "-march=armv8-a+crc+lse", "-pthread")
        guest = vm.Guest(
            settings_text, files={"opt/bench": program}, kernel_arguments=["hugepagesz=2M", f"hugepages={pages}"]
        )
        boot = booting.booted(table, settings, guest, progress)
        try:
            outcome = vm.Machine(table, settings, guest, boot=boot).run(progress)
        finally:
            if boot is not None:
                boot.release()
    result = outcome.message.get("result")
    if result is None or result["guest"]["status"] != 0:
        raise GuestError("the micro-benchmarks failed", vm.tail(outcome.console))
    figures = result["guest"]["figures"]
    return {job: picoseconds / 1000 for job, picoseconds in zip(jobs, figures, strict=True)}


def ns(text: str) -> float:
    """Return the nanoseconds of a duration such as ``33ns``."""
    return _native.parse_duration(text) / 1000


def size(text: str) -> int:
    """Return the bytes of a size such as ``64KiB``."""
    return _native.parse_size(text)


def cycle(platform: Mapping[str, Any]) -> float:
    """Return the nanoseconds of a core's cycle."""
    return 1e9 / _native.parse_frequency(platform["core"]["frequency"])
