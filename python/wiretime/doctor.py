"""Checks the host and says what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from rich.console import Console

from wiretime import paths
from wiretime.errors import WiretimeError
from wiretime.setup import bundle, debian, rust
from wiretime.setup.architecture import COMPILER, COMPILER_PACKAGE, HEADERS, HEADERS_PACKAGE
from wiretime.setup.parts import GUEST, PARTS, QEMU
from wiretime.setup.qemu import version

# By what needs them: every run, the fetching of parts, the building of the guest's programs.
RUNS = {"cpio": "cpio"}
FETCHES = {"mmdebstrap": "mmdebstrap", debian.KEYRING: "debian-archive-keyring"}
BUILDS = {"make": "make", "pkg-config": "pkgconf", COMPILER: COMPILER_PACKAGE, HEADERS: HEADERS_PACKAGE}
MEMORY_GIB = 3
DISK_GIB = 3


def _found(tool: str) -> str | None:
    """Return where a program is, or a file named by its path."""
    path = Path(tool)
    return shutil.which(tool) if not path.is_absolute() else tool if path.exists() else None


def _tools(missing: Collection[str]) -> Iterator[tuple[str, bool, str]]:
    """Check programs; what only set-up needs counts where something is left to be made: these parts, the engine."""
    for group, needed in ((RUNS, True), (FETCHES, bool(missing)), (BUILDS, GUEST.name in missing)):
        for tool, package in group.items():
            found = _found(tool)
            if found or needed:
                yield tool, found is not None, found or f"missing: apt-get install {package}"
    if bundle.has_engine():
        return
    needed = not paths.engine().is_file()
    try:
        found = shutil.which("cargo", path=rust.search_path())
        yield "cargo", True, str(found)
    except WiretimeError as e:
        if needed:
            yield "cargo", False, str(e)
    if (found := shutil.which("cc")) or needed:
        yield "cc", found is not None, found or "missing: apt-get install gcc libc6-dev"


def _checks() -> Iterator[tuple[str, bool, str]]:
    made: list[tuple[str, bool, str]] = []
    missing = set()
    for part in PARTS:
        try:
            made.append((part.what, True, str(part.folder())))
        except WiretimeError as e:
            made.append((part.what, False, str(e)))
            missing.add(part.name)
    yield from _tools(missing)
    yield from made
    engine = paths.engine()
    yield "engine", engine.is_file(), str(engine) if engine.is_file() else f"{engine} is missing: run `wiretime setup`"
    try:
        yield "QEMU starts", True, version(QEMU.folder() / "root")
    except WiretimeError as e:
        yield "QEMU starts", False, str(e)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30
    yield "memory", pages >= MEMORY_GIB, f"{pages} GiB; a run takes up to {MEMORY_GIB}"
    place = paths.cache()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free >> 30
    yield "disk", free >= DISK_GIB, f"{free} GiB free in {place}; set-up takes up to {DISK_GIB}"
    yield "cores", True, f"{os.cpu_count()}; a run uses one, and a little of a second"


def report(console: Console) -> int:
    """Print every check; returns 0 where all is well."""
    good = True
    for name, ok, note in _checks():
        good &= ok
        console.print(f"{'ok     ' if ok else 'MISSING'} {name}: {note}", highlight=False, soft_wrap=True)
    return 0 if good else 1
