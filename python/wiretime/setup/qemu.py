"""QEMU 11.1 from Debian's backports, in a private folder, run by its own loader."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wiretime.errors import WiretimeError
from wiretime.setup import debian, store
from wiretime.setup.architecture import EMULATOR, EMULATOR_PACKAGE

SUITES = ("trixie", "trixie-backports")
PACKAGES = (EMULATOR_PACKAGE, "qemu-system-data", "ipxe-qemu")
WANTED = "11.1"


def key() -> str:
    """Return what the cache entry depends on."""
    return store.digest("qemu", repr(SUITES), repr(PACKAGES), repr(sorted(debian.lock().get("qemu", {}).items())))


def command(root: Path) -> list[str]:
    """Return the start of a command line that runs the private QEMU."""
    return [
        str(root / "usr/lib64/ld-linux-x86-64.so.2"),
        "--library-path",
        str(root / "usr/lib/x86_64-linux-gnu"),
        str(root / f"usr/bin/{EMULATOR}"),
        "-L",
        str(root / "usr/share/qemu"),
    ]


def version(root: Path) -> str:
    """Return the version that the binary states."""
    done = subprocess.run([*command(root), "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise WiretimeError(f"QEMU does not start: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.split("version ", 1)[1].splitlines()[0]


def make(folder: Path, *, update_lock: bool) -> dict[str, Any]:
    """Fetch and unpack QEMU."""
    packages = debian.unpack(folder, SUITES, PACKAGES)
    warnings = debian.check("qemu", packages, update=update_lock)
    stated = version(folder / "root")
    if not stated.startswith(WANTED):
        raise WiretimeError(
            f"QEMU is {stated}: {WANTED} is needed ({SUITES[-1]} has moved on: take a newer Wiretime, or the archive "
            f"of an older day, such as {debian.VARIABLE}=https://snapshot.debian.org/archive/debian/20261101T000000Z)"
        )
    _strip(folder / "root")
    return {"version": stated, "packages": [asdict(p) for p in packages], "warnings": warnings}


def _strip(root: Path) -> None:
    """Remove what only the fetching needed."""
    import shutil

    for name in ("var", "etc/apt", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(root / name, ignore_errors=True)
