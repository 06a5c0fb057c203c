"""Boots once: states of guests that have booted, kept by all that they depend on, and continued by later runs.

A state is a folder of the cache: QEMU's own (``qemu``: cores, devices of the board), the guest's memory (``memory``),
the engine's (``engine.json``) and what the guest had printed (``console``). It appears whole or not at all. Beside it
is a lock: whoever makes the state has it alone, whoever continues from it shares it, so that two processes make it once
and none goes that is in use.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import functools
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wiretime._native as _native
from wiretime import memory, paths
from wiretime.errors import WiretimeError
from wiretime.files import is_still
from wiretime.setup.store import digest, is_as_made, made

# The oldest go when there are more.
LIMIT = 8 << 30
LIMIT_VARIABLE = "WIRETIME_STATES_LIMIT"
FOLDER_VARIABLE = "WIRETIME_STATES"
POLL_SECONDS = 0.005
# What a state depends on, and its files as they were made; none where there can be no state, since such a guest has
# sent packets before all of its devices were ready.
ABOUT = "about.json"
# What is being made; what a killed process has left of it goes after an hour.
NEW = ".new-"
LEFT_SECONDS = 3600


def folder() -> Path:
    """Return where states are."""
    return Path(os.environ.get(FOLDER_VARIABLE) or paths.cache() / "states")


class Boot:
    """The state of one kind of boot, for one run: there, or to be made for it."""

    def __init__(self, about: Mapping[str, Any], alone: Mapping[str, Any] | None = None):
        """Take the lock of the state of all that it depends on: waits while another run boots the same.

        ``alone`` is what it depends on besides where devices have written to memory before: then it is a state only of
        machines that are the same in this.
        """
        # Whether it has been made for this run.
        self.made = False
        self._alone = alone
        self._open(about)
        if self.none and alone is not None:
            self.release()
            self._open_alone()

    def _open_alone(self) -> None:
        assert self._alone is not None
        about, self._alone = {**self.about, **self._alone}, None
        self._open(about)

    def _open(self, about: Mapping[str, Any]) -> None:
        name = digest(json.dumps(about, sort_keys=True))[:32]
        self.about = about
        self.path = folder() / name
        self._lock = -1
        lock = folder() / f"{name}.lock"
        try:
            folder().mkdir(parents=True, exist_ok=True)
            self._hold(lock, fcntl.LOCK_SH)
        except OSError:
            # Nothing can be kept here; what is kept is used as long as it is whole.
            self.release()
            found = self._found()
            if found is None:
                raise
            self.there, self.none = bool(found), not found
            return
        found = self._found()
        if found is None:
            # Two who hold it together, and both want it alone, could wait for each other (NFS lets go of nothing).
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._hold(lock, fcntl.LOCK_EX)
            found = self._found()  # somebody may have made it meanwhile
            if found is None:
                shutil.rmtree(self.path, ignore_errors=True)
            else:
                fcntl.flock(self._lock, fcntl.LOCK_SH)
        self.none = found == []
        self.there = bool(found)

    def _hold(self, lock: Path, how: int) -> None:
        """Lock the file that has this name: who removes a state removes its lock, too."""
        while True:
            if self._lock < 0:
                self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock, how)
            if is_still(lock, self._lock):
                return
            self.release()

    def _found(self) -> list[str] | None:
        """Return the files of the state: none where there can be none; ``None`` where there is nothing whole."""
        try:
            files: dict[str, Any] = json.loads((self.path / ABOUT).read_text())["files"]
            if not all(is_as_made(self.path / name, *recorded) for name, recorded in files.items()):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        # Used now; who may not say so may use it all the same.
        with contextlib.suppress(OSError):
            os.utime(self.path)
        return list(files)

    def console(self) -> bytes:
        """Return what the guest had printed."""
        return (self.path / "console").read_bytes()

    def fill(self, fd: int) -> None:
        """Bring the guest's memory back, into memory that nobody has touched."""
        memory.load(self.path, fd)

    def keep(self, state: Any, console: bytes, qemu: Monitor) -> None:
        """Keep the state: the engine's, or none where there can be none; from then on others may go on from it, too."""
        if self._alone is not None and state is not None and not state["quiet"]:
            # Who waits for the one is not to find the other free, and boot the same again.
            general = copy.copy(self)
            try:
                self._open_alone()
                general._keep(None, b"", qemu)
            finally:
                general.release()
            if self.there:
                return
        self._keep(state, console, qemu)

    def _keep(self, state: Any, console: bytes, qemu: Monitor) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix=NEW, dir=folder(), ignore_cleanup_errors=True) as name:
                temporary = Path(name)
                if state is not None:
                    (temporary / "engine.json").write_text(json.dumps(state))
                    (temporary / "console").write_bytes(console)
                    qemu.save(temporary)
                files = {f.name: made(f) for f in temporary.iterdir()}
                (temporary / ABOUT).write_text(json.dumps({**self.about, "files": files}, indent=1) + "\n")
                temporary.rename(self.path)
        except OSError as e:
            # A full disk ends no run.
            print(f"wiretime: the boot is not kept: {e.strerror}", file=sys.stderr)
            return
        self.there, self.none, self.made = state is not None, state is None, True
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        prune()

    def release(self) -> None:
        """Give the lock back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@dataclass(frozen=True)
class Entry:
    """A state of the cache."""

    path: Path
    size: int
    used: float

    @functools.cached_property
    def _about(self) -> dict[str, Any]:
        try:
            about: dict[str, Any] = json.loads((self.path / ABOUT).read_text())
        except (OSError, ValueError):
            return {}
        return about

    @property
    def command(self) -> str:
        """What runs in the guest."""
        return str(self._about.get("command", "?"))

    @property
    def machines(self) -> str:
        """Which machines go on from it: any, one (with any cores and load), or none."""
        if not self._about.get("files"):
            return "none"
        return "one" if "platform" in self._about else "any"


def entries() -> list[Entry]:
    """Return all states, the one used last first, notes that there can be none among them."""
    found = []
    for path in folder().glob("*") if folder().is_dir() else ():
        if path.is_dir() and not path.name.startswith("."):
            try:
                size = sum(f.stat().st_blocks * 512 for f in path.iterdir())
                found.append(Entry(path, size, path.stat().st_mtime))
            except FileNotFoundError:
                continue
    return sorted(found, key=lambda e: -e.used)


def limit() -> int:
    """Return how many bytes of states are kept."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return LIMIT
    try:
        return _native.parse_size(text)
    except ValueError as e:
        raise WiretimeError(f"{LIMIT_VARIABLE}: {e}") from None


def _remove(path: Path) -> bool:
    """Remove a state, and its lock, unless somebody uses it."""
    name = folder() / f"{path.name}.lock"
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except PermissionError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_still(name, lock):
            return False  # somebody else has removed it, and it may be made anew by now
        shutil.rmtree(path, ignore_errors=True)
        name.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def prune(most: int | None = None) -> int:
    """Remove what was used longest ago until no more than ``most`` bytes are left; returns how many states went."""
    left = limit() if most is None else most
    gone = 0
    for entry in entries():
        left -= entry.size
        if left < 0:
            gone += _remove(entry.path)
    # What a killed process left half made.
    for path in folder().glob(f"{NEW}*"):
        # Of a process that lives it may be a state by now.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    return gone


class Monitor:
    """QEMU's monitor (QMP), by which its state is kept, and the guest's memory, which it leaves alone."""

    def __init__(self, ram: int) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ram = ram
        self._lines: Iterator[str] | None = None

    def _do(self, command: str, **arguments: Any) -> Any:
        if self._lines is None:
            self._lines = iter(self._ours.makefile("r"))
            next(self._lines, "")  # its greeting
            self._do("qmp_capabilities")
        request = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._ours.sendall((json.dumps(request) + "\n").encode())
        for line in self._lines:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise OSError(0, f"{command}: {answer['error']['desc']}")
        raise OSError(0, "QEMU has ended")

    def save(self, folder: Path) -> None:
        """Stop QEMU and save its state and memory."""
        self._do("stop")
        self._do("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self._do("migrate", uri=f"file:{folder / 'qemu'}")
        while True:
            now = self._do("query-migrate")
            if now.get("status") == "completed":
                break
            if now.get("status") in ("failed", "cancelled"):
                raise OSError(0, now.get("error-desc", "QEMU could not save its state"))
            time.sleep(POLL_SECONDS)
        memory.save(self._ram, folder)

    def close(self) -> None:
        """Close both ends."""
        self._ours.close()
        self.theirs.close()
