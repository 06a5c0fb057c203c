"""Boots once: what is kept, found again, and thrown away; a run that goes on from there is the run that boots."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import wiretime
from wiretime import booting, boots, memory, runs, scratch, vm
from wiretime.errors import WiretimeError
from wiretime.setup import guest, store
from wiretime.setup.architecture import COMPILER

SHORT = ("--duration", "200us", "--warmup", "50us")
# A NIC that has written nothing to memory when its program is ready.
QUIET = ("--nic", "8254x")
ABOUT = {"command": "program", "seed": 1}


class Qemu(boots.Monitor):
    """Saves a file of a mebibyte, or fails."""

    def __init__(self, problem: OSError | None = None) -> None:
        super().__init__(-1)
        self.problem = problem

    def save(self, folder: Path) -> None:
        (folder / "qemu").write_bytes(b"\1" * (1 << 20))
        if self.problem:
            raise self.problem


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(boots.FOLDER_VARIABLE, str(tmp_path / "states"))
    monkeypatch.delenv(boots.LIMIT_VARIABLE, raising=False)
    return tmp_path / "states"


def keep(seed: int) -> boots.Boot:
    boot = boots.Boot({**ABOUT, "seed": seed})
    assert not boot.there
    boot.keep({"inputs": []}, b"console", Qemu())
    assert boot.there and boot.made
    boot.release()
    return boot


def is_there(seed: int) -> bool:
    boot = boots.Boot({**ABOUT, "seed": seed})
    boot.release()
    return boot.there


def test_memory_comes_back_and_what_was_never_written_takes_no_room(tmp_path: Path) -> None:
    size = 1 << 30
    first, second, small = memory.make(size), memory.make(size), memory.make(memory.PAGE)
    written = {0: b"first", 3 * memory.PAGE - 2: b"over an edge", size - 4: b"last", 1 << 29: bytes(9 * memory.PAGE)}
    for at, data in written.items():
        os.pwrite(first, data, at)
    memory.save(first, tmp_path)
    assert (tmp_path / memory.NAME).stat().st_size == 4 * memory.PAGE
    memory.load(tmp_path, second)
    assert all(os.pread(second, len(data), at) == data for at, data in written.items())
    assert os.fstat(second).st_blocks * 512 == 4 * memory.PAGE
    with pytest.raises(ValueError, match=f"not of memory of {memory.PAGE} bytes"):
        memory.load(tmp_path, small)
    os.truncate(tmp_path / memory.NAME, memory.PAGE)
    with pytest.raises(ValueError, match="not of memory"):
        memory.load(tmp_path, second)
    for fd in (first, second, small):
        os.close(fd)


def test_a_state_is_found_again_by_what_it_depends_on() -> None:
    keep(1)
    again, other = boots.Boot({**ABOUT, "seed": 1}), boots.Boot({**ABOUT, "seed": 2})
    assert (again.there, again.console(), other.there) == (True, b"console", False)
    assert json.loads((again.path / "engine.json").read_text()) == {"inputs": []}
    assert [(e.command, e.size >= 1 << 20) for e in boots.entries()] == [("program", True)]


def test_whoever_comes_second_waits_for_the_first() -> None:
    first = boots.Boot(ABOUT)
    found: list[boots.Boot] = []
    second = threading.Thread(target=lambda: found.append(boots.Boot(ABOUT)))
    second.start()
    second.join(0.2)
    assert second.is_alive() and not found
    first.keep({}, b"", Qemu())
    second.join(10)
    third = boots.Boot(ABOUT)
    assert found[0].there and third.there, "both go on from it at once"


def test_a_run_that_is_killed_leaves_the_next_one_to_boot(cache: Path) -> None:
    first = boots.Boot(ABOUT)
    first.release()  # as the kernel does for a process that has ended
    (cache / ".new-left").mkdir()
    second = boots.Boot(ABOUT)
    assert not second.there and boots.entries() == []
    os.utime(cache / ".new-left", (0, 0))
    second.keep({}, b"", Qemu())
    assert not (cache / ".new-left").exists()


def test_a_guest_without_such_a_state_is_remembered_too() -> None:
    boots.Boot(ABOUT).keep(None, b"", Qemu())
    again = boots.Boot(ABOUT)
    assert (again.none, again.there, again.made) == (True, False, False)


def test_a_full_disk_ends_no_run(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    boot = boots.Boot(ABOUT)
    boot.keep({}, b"", Qemu(OSError(28, "No space left on device")))
    assert not boot.there
    boot.release()
    assert not boots.Boot(ABOUT).there
    assert "the boot is not kept: No space left on device" in capfd.readouterr().err
    assert [p for p in cache.iterdir() if p.is_dir()] == []


def test_the_oldest_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(boots.LIMIT_VARIABLE, "2500KiB")
    for seed in (1, 2):
        os.utime(keep(seed).path, (seed, seed))
    used = boots.Boot({**ABOUT, "seed": 1})  # makes it the youngest
    assert used.there
    keep(3)
    assert (is_there(1), is_there(3)) == (True, True)
    assert len(boots.entries()) == 2
    # What is in use stays, whatever the limit.
    assert boots.prune(0) == 1
    assert [e.path for e in boots.entries()] == [used.path]
    used.release()
    assert boots.prune(0) == 1


def test_a_folder_that_cannot_be_written_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(boots.FOLDER_VARIABLE, str(tmp_path / "file"))
    done = wiretime("run", "testpmd", *SHORT, "--out", str(tmp_path / "out"))
    assert done.returncode == 0 and "boots are not kept: " in done.stderr, done.stderr


def test_what_cannot_be_in_general_is_looked_for_alone_in_a_folder_that_cannot_be_written(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {"platform": "one"}
    boot = boots.Boot(ABOUT, alone)
    boot.keep({"quiet": False}, b"", Qemu())
    assert boot.there
    boot.release()

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(boots.Boot, "_hold", refused)
    for about, there in ((ABOUT, True), ({**ABOUT, "seed": 2}, False)):
        if there:
            again = boots.Boot(about, alone)
            assert again.there and not again.none
        else:
            with pytest.raises(PermissionError):
                boots.Boot(about, alone)


def test_an_archive_is_the_same_under_any_umask(tmp_path: Path) -> None:
    def packed(umask: int) -> bytes:
        before = os.umask(umask)
        try:
            stage = tmp_path / oct(umask)
            (stage / "bin").mkdir(parents=True)
            (stage / "bin" / "text").write_text("text")
            (stage / "bin" / "program").write_text("#!/bin/sh")
            (stage / "bin" / "program").chmod(0o777 & ~umask)
            return guest.archive(stage)
        finally:
            os.umask(before)

    assert packed(0o022) == packed(0o077) == packed(0o002)


def test_who_looks_at_a_guest_hears_no_more_than_the_console(tmp_path: Path) -> None:
    """A pipe that nobody reads would be full after a while, and stop the guest."""
    checked = runs.check(runs.Request(internals={"start_at": "never", "timing": "blocks", "host_speed": True}))
    settings = vm.Guest({"COMMAND": "true"})
    machine = vm.Machine(checked.platform, checked.settings, settings, interactive=True)
    try:
        plugin = machine.command[machine.command.index("-plugin") + 1]
        (output,) = (part.removeprefix("output=") for part in plugin.split(",") if part.startswith("output="))
        assert str(Path(f"/proc/self/fd/{output}").readlink()) == os.devnull
    finally:
        machine.close()


def test_a_folder_whose_name_is_too_long_for_sockets_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    checked = runs.check(runs.Request())
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(WiretimeError, match=r"AF_UNIX path too long.*TMPDIR"):
        vm.Machine(checked.platform, checked.settings, vm.Guest({"COMMAND": "true"}))
    assert len(list(Path("/proc/self/fd").iterdir())) == before and not list(deep.iterdir())


def test_folders_of_killed_processes_go_when_the_next_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch.folder() as ours:
        prefix, _, _ = Path(ours).name.rpartition(f"{os.getpid()}-")
        ended = subprocess.Popen("true")
        ended.wait()
        others = ["wiretime-run-01234567-1-elsewhere", "another"]
        for name in (f"{prefix}{ended.pid}-left", *others):
            (tmp_path / name).mkdir()
        with scratch.folder() as second:
            assert {p.name for p in tmp_path.iterdir()} == {Path(ours).name, Path(second).name, *others}


def test_an_unreadable_limit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(boots.LIMIT_VARIABLE, "much")
    with pytest.raises(WiretimeError, match=f"{boots.LIMIT_VARIABLE}: .*much"):
        boots.limit()


def run(folder: Path, *args: str) -> tuple[dict[str, bytes], str]:
    """Results of a run, and where its boot came from."""
    done = wiretime("run", *args, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    names = ("result.json", "console.log", "peer/result.json")
    results = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
    host: dict[str, Any] = json.loads((folder / "host.json").read_text())
    return results, host["boot"]


@pytest.mark.parametrize(
    "args",
    [
        ("testpmd", *SHORT),
        ("l3fwd", "--nic", "82599", "--cores", "2", "--queues", "2", *SHORT),
        ("testpmd", "--app-args", "--forward-mode=txonly", *SHORT),
        ("udpecho", "--nic", "82599", *SHORT),
        ("testpmd", "--nic", "connectx-6dx", "--cores", "2", "--queues", "2", *SHORT),
    ],
    ids=lambda args: " ".join(args[:3]),
)
def test_a_run_that_goes_on_is_the_run_that_boots(tmp_path: Path, args: tuple[str, ...]) -> None:
    booted, origin = run(tmp_path / "booted", *args, "--boot")
    assert origin == "own" and boots.entries() == []
    first, origin = run(tmp_path / "first", *args)
    assert origin == "made"
    second, origin = run(tmp_path / "second", *args)
    assert origin == "kept"
    assert booted == first == second


def test_a_state_serves_other_platforms_loads_and_trials(tmp_path: Path) -> None:
    run(tmp_path / "made", "testpmd", *QUIET, *SHORT)
    for name, args in {
        "load, caches": (
            *("--packet-size", "1518", "--rate", "90Gbps", "--arrivals", "poisson"),
            *("--set", "llc.size=1MiB", "--set", "llc.dca_ways=2", "--set", "core.rob_entries=64"),
        ),
        "way": ("--set", "pcie.latency=900ns", "--set", "iommu.enabled=true", "--set", "dram.page_policy=closed"),
    }.items():
        second, origin = run(tmp_path / name, "testpmd", *QUIET, *SHORT, *args)
        assert origin == "kept", name
        booted, _ = run(tmp_path / f"{name}-booted", "testpmd", *QUIET, *SHORT, *args, "--boot")
        assert second == booted, name
    search = ("msb", "testpmd", *QUIET, "--packet-sizes", "64", "--trial-length", "0.25")
    found = [wiretime(*search, *more) for more in ((), ("--boot",))]
    assert found[0].returncode == 0 and found[0].stdout == found[1].stdout, found[0].stderr


def test_where_devices_have_written_a_state_serves_all_cores_and_loads_of_its_machine(tmp_path: Path) -> None:
    run(tmp_path / "made", "udpecho", *SHORT)
    for name, expected, args in (
        ("load", "kept", ("--packet-size", "1518", "--rate", "3Gbps", "--arrivals", "poisson")),
        ("core", "kept", ("--set", "core.rob_entries=64", "--set", "l2.size=512KiB")),
        ("way", "made", ("--set", "pcie.latency=900ns")),
    ):
        second, origin = run(tmp_path / name, "udpecho", *SHORT, *args)
        assert origin == expected, name
        booted, _ = run(tmp_path / f"{name}-booted", "udpecho", *SHORT, *args, "--boot")
        assert second == booted, name


def test_what_a_state_is_of(cache: Path) -> None:
    """Which machines a boot is one of shows when it has been made; it is found under both, and made once."""
    alone = {"platform": "this one"}
    for quiet, about in ((True, ABOUT), (False, {**ABOUT, **alone})):
        shutil.rmtree(cache, ignore_errors=True)
        boot = boots.Boot(ABOUT, alone)
        boot.keep({"quiet": quiet}, b"", Qemu())
        assert boot.there and boot.made
        boot.release()
        again, other = boots.Boot(ABOUT, alone), boots.Boot(ABOUT, {"platform": "another"})
        assert again.there and {k: v for k, v in again.about.items() if k != "files"} == about
        assert other.there == quiet
        assert [e.machines for e in boots.entries() if e.machines != "none"] == ["any" if quiet else "one"]
        # Where nothing else can be meant there is none.
        assert boots.Boot(ABOUT).there == quiet


def test_a_damaged_state_is_made_anew(tmp_path: Path) -> None:
    booted, _ = run(tmp_path / "made", "testpmd", *QUIET, *SHORT)
    states = boots.entries()
    assert sorted(entry.command.split()[0] for entry in states) == ["a", "dpdk-testpmd"]
    for name in ("qemu", "memory", "engine.json"):
        for file in [entry.path / name for entry in states]:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        again, origin = run(tmp_path / name, "testpmd", *QUIET, *SHORT)
        assert again == booted and origin == "made"


def test_programs_and_nics_of_any_speed_go_on_from_one_kernel(tmp_path: Path) -> None:
    def kernels() -> list[Path]:
        return [entry.path for entry in boots.entries() if entry.command == booting.KERNEL]

    run(tmp_path / "made", "testpmd", *SHORT)
    made = kernels()
    assert len(made) == 1
    for name, args in {
        "command": ("--app-args", "--rxfreet=8"),
        "machine": ("--set", "link.rate=10Gbps", "--set", "nic.rx_fifo=64KiB", "--rate", "1Gbps"),
    }.items():
        second, origin = run(tmp_path / name, "testpmd", *SHORT, *args)
        assert origin == "made" and kernels() == made, name
        booted, _ = run(tmp_path / f"{name}-booted", "testpmd", *SHORT, *args, "--boot")
        assert second == booted, name
    run(tmp_path / "memory", "testpmd", *SHORT, "--set", "system.memory=2GiB")
    assert len(kernels()) == 2


def test_a_lock_that_another_has_removed_is_not_the_states(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes second at removing finds the lock gone and a new one in its place: the state is somebody's by then."""
    path = keep(1).path
    lock = cache / f"{path.name}.lock"
    real = fcntl.flock

    def flock(fd: int, how: int) -> None:
        real(fd, how)
        lock.unlink()
        lock.touch()

    monkeypatch.setattr(fcntl, "flock", flock)
    assert boots.prune(0) == 0 and path.is_dir()


def test_what_another_process_takes_away_stops_nobody(cache: Path) -> None:
    keep(1)
    (cache / f"{boots.NEW}gone").symlink_to(cache / "nowhere")
    assert boots.prune() == 0 and is_there(1)


def test_two_processes_boot_once(tmp_path: Path) -> None:
    found: list[tuple[dict[str, bytes], str]] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(run(tmp_path / str(n), "testpmd", *SHORT))) for n in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(origin for _, origin in found) == ["kept", "made"]
    assert found[0][0] == found[1][0]


def test_the_cache_is_listed_and_cleared(cache: Path) -> None:
    keep(1)
    shown = wiretime("cache")
    assert "program" in shown.stdout and "1 boots" in shown.stdout, shown.stderr
    assert wiretime("cache", "--clear").stdout == "1 removed\n"
    assert "0 boots" in wiretime("cache").stdout
    shutil.rmtree(cache)
    assert "0 boots" in wiretime("cache").stdout


def test_what_is_built_in_another_folder_is_the_same_code(tmp_path: Path) -> None:
    built = []
    for folder, value in (("here", 1), ("there", 1), ("changed", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.c").write_text(f"const int a = {value}; int b(void) {{ return a; }}\n")
        command = [COMPILER, "-g", "-shared", "-fPIC", "-nostdlib", "-o", "a.so", "a.c"]
        subprocess.run(command, cwd=tmp_path / folder, check=True)
        built.append(tmp_path / folder / "a.so")
    assert len({store.file_digest(path) for path in built}) == 3
    here, there, changed = (store.code_digest(path) for path in built)
    assert here == there != changed
    (tmp_path / "text").write_text("no library")
    assert store.code_digest(tmp_path / "text") == store.file_digest(tmp_path / "text")
