"""Programs of older Debian releases than the guest's, each with its own C library and loader, on the guest's kernel.

What was measured with one version of a program is to be simulated with that one: iperf3 asks by select() before each
read up to version 3.15, and no longer since.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from wiretime.errors import WiretimeError
from wiretime.setup import debian, guest, store
from wiretime.setup.architecture import LOADER, TRIPLE

SEPARATOR = "@"
# Where they are in the guest.
TARGET = "opt"
INSIDE = "release"
# What libc opens by name alone, where a thread is cancelled.
BY_NAME = "libgcc_s.so.1"


def _kind(name: str) -> str:
    return f"program-{name}"


def _key(name: str) -> str:
    return store.digest("older", name, Path(__file__).read_bytes())


def add(name: str, *, update_lock: bool = False) -> tuple[Path, dict[str, Any]]:
    """Fetch PROGRAM@RELEASE, unless it is there; returns its folder, and what is recorded of it."""
    program, separator, release = name.partition(SEPARATOR)
    if not separator or not program.isalnum() or not release.isalpha():
        raise WiretimeError(f"--program {name}: must be PROGRAM{SEPARATOR}RELEASE, such as iperf3{SEPARATOR}bullseye")

    def fill(folder: Path) -> dict[str, Any]:
        packages = debian.unpack(folder, (release,), (program,), guest.recipe()["architecture"])
        pinned = update_lock or name in debian.lock()
        with debian.lock_stays_unless_made():
            warnings = debian.check(name, packages, update=update_lock) if pinned else []
            _take(folder, program)
        version = next(p.version for p in packages if p.name == program)
        return {"version": version, "warnings": warnings}

    folder = store.entry(_kind(name), _key(name), fill, anew=update_lock, kept=1)
    return folder, store.manifest(folder)


def _take(folder: Path, program: str) -> None:
    """Leave the program, what it needs, and what starts it by its own loader."""
    root, kept = folder / "root", folder / INSIDE
    kept.mkdir()
    places = [root / base / TRIPLE for base in ("lib", "usr/lib")]
    binary = root / "usr/bin" / program
    if not binary.is_file():
        raise WiretimeError(f"package {program} has no /usr/bin/{program}")
    shutil.copy2(binary, kept / program)
    todo = [LOADER, BY_NAME, *guest.needed(binary)]
    while todo:
        name = todo.pop()
        if (kept / name).exists():
            continue
        found = next((place / name for place in places if (place / name).exists()), None)
        if found is None:
            raise WiretimeError(f"{program}: library {name} is in none of its packages")
        shutil.copy2(found, kept / name)
        todo.extend(guest.needed(found))
    inside = f"/{TARGET}/{INSIDE}"
    start = folder / program
    start.write_text(f'#!/bin/sh\nexec {inside}/{LOADER} --library-path {inside} {inside}/{program} "$@"\n')
    start.chmod(0o755)
    shutil.rmtree(root)


def files(name: str) -> dict[str, Path]:
    """Return where the files of PROGRAM@RELEASE come to be in the guest; raises where it is not set up."""
    program = name.partition(SEPARATOR)[0]
    try:
        folder = store.entry(_kind(name), _key(name), lambda _: {}, make_missing=False)
    except WiretimeError:
        raise WiretimeError(f"{name} is not set up: `wiretime setup --program {name}`") from None
    paths = [folder / program, *sorted((folder / INSIDE).iterdir())]
    return {f"{TARGET}/{path.relative_to(folder)}": path for path in paths}


def missing(name: str) -> str:
    """Return why a run cannot have an application, where that is of an older release and not set up."""
    try:
        if SEPARATOR in name:
            files(name)
    except WiretimeError as e:
        return str(e)
    return ""
