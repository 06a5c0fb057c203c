"""A user's program, built here for the guest: by its own Makefile, against the guest's own libraries.

What its compiler sees is what the guest is made of, the headers of DPDK and of the C library among it. That is fetched
and unpacked once, when it is first wanted.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from wiretime.errors import WiretimeError
from wiretime.setup import build, guest, store
from wiretime.setup.architecture import ELF_MACHINE, LIBRARY, LOADER

KIND = "sysroot"
# Of the packages, what programs are built with; and DPDK's examples, to begin with.
KEPT = ("usr/include", str(LIBRARY), f"usr/lib/{LOADER}", str(build.EXAMPLES))
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def _fill(folder: Path) -> dict[str, Any]:
    packages, warnings = guest.unpacked(folder, guest.recipe(), update_lock=False)
    whole, root = folder / "whole", folder / "root"
    root.rename(whole)
    for name in KEPT:
        if (whole / name).exists() or (whole / name).is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (whole / name).rename(root / name)
    shutil.rmtree(whole)
    (root / "lib").symlink_to("usr/lib")
    return {"packages": [asdict(p) for p in packages], "warnings": warnings}


def _key() -> str:
    return store.digest(guest.key(), Path(__file__).read_bytes())


def is_there() -> bool:
    """Return whether what programs are built with has been unpacked."""
    try:
        store.entry(KIND, _key(), _fill, make_missing=False)
    except WiretimeError:
        return False
    return True


def sysroot() -> Path:
    """Return the folder of headers and libraries, making it where it is missing."""
    return store.entry(KIND, _key(), _fill) / "root"


def _is_program(path: Path) -> bool:
    """Return whether a file is a program that the guest can execute."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as f:
        try:
            elf = ELFFile(f)
            # One that is linked statically needs no interpreter, but libraries do not have one either.
            starts = elf["e_type"] == "ET_EXEC" or any(s["p_type"] == "PT_INTERP" for s in elf.iter_segments())
            return elf["e_machine"] == ELF_MACHINE and starts
        except ELFError:
            return False


def check(folder: Path) -> None:
    """Refuse a folder that cannot be built."""
    if not folder.is_dir():
        raise WiretimeError(f"{folder}: no such folder")
    if not any((folder / name).is_file() for name in MAKEFILES):
        raise WiretimeError(f"{folder}: has no Makefile")


def make(folder: Path, words: Sequence[str] = ()) -> list[Path]:
    """Run the Makefile in ``folder`` with these words; returns the programs that are there then, new ones first."""
    check(folder)
    began = time.time()
    build.make(sysroot(), folder.resolve(), *words)
    found = [path for path in folder.rglob("*") if _is_program(path)]
    if not found:
        raise WiretimeError(f"{folder}: its Makefile has made no program (CC is the guest's compiler)")
    return sorted(found, key=lambda path: (path.stat().st_mtime < began, path))
