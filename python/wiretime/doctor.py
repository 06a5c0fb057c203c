"""Checks the host and says what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from rich.console import Console

from wiretime import paths
from wiretime.errors import WiretimeError
from wiretime.setup import bundle
from wiretime.setup.architecture import COMPILER, COMPILER_PACKAGE
from wiretime.setup.parts import PARTS, QEMU
from wiretime.setup.qemu import version

TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "cpio": "cpio",
    COMPILER: COMPILER_PACKAGE,
    "cargo": "cargo-web (or cargo)",
    "cc": "gcc",
}
MEMORY_GIB = 3
DISK_GIB = 3


def _checks() -> Iterator[tuple[str, bool, str]]:
    for tool, package in TOOLS.items():
        if tool == "cargo" and bundle.has_engine():
            continue
        found = shutil.which(tool)
        yield tool, found is not None, found or f"missing: apt-get install {package}"
    for part in PARTS:
        try:
            yield part.what, True, str(part.folder())
        except WiretimeError as e:
            yield part.what, False, str(e)
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
