"""The cache: folders named by what went into them, complete or absent, never half-made."""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from wiretime.errors import WiretimeError
from wiretime.paths import cache

MANIFEST = "manifest.json"
KEPT = 3
"""Entries of a kind that stay, those used last: checkouts of several versions share a cache, and each may run."""


def digest(*parts: str | bytes) -> str:
    """Return a hash over texts and bytes."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def file_digest(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def code_digest(path: Path) -> str:
    """Return a hash over what is loaded of a library: not of debug information, which names the folder it was built in.

    So checkouts that build the same share what depends on it. Of what is no library it is the file's.
    """
    with path.open("rb") as f:
        try:
            sections = list(ELFFile(f).iter_sections())
        except ELFError:
            return file_digest(path)
        loaded = [s for s in sections if s["sh_flags"] & SH_FLAGS.SHF_ALLOC and s["sh_type"] != "SHT_NOTE"]
        return digest(*(part for s in loaded for part in (f"{s.name} {s['sh_addr']}", s.data())))


@functools.cache
def _code_digest_at(path: Path, _changed: int) -> str:
    return code_digest(path)


def known_hash_of(path: Path) -> str:
    """Return the hash of a library that is asked for again and again, and hardly ever changes."""
    return _code_digest_at(path, path.stat().st_mtime_ns)


def _special(folder: str, names: list[str]) -> list[str]:
    """Return what is no file, folder or link: QEMU's root has devices, which nobody needs, and some have no end."""
    modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
    return [n for n, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]


def copy(source: Path, target: Path) -> None:
    """Copy an entry, or folders that have some, into a folder that may be there."""
    try:
        shutil.copytree(source, target, symlinks=True, ignore=_special, dirs_exist_ok=True)
    except shutil.Error as e:
        # It has a reason for each file, as text; the first says it all.
        _, place, why = e.args[0][0]
        found = re.match(r"\[Errno (\d+)\]", str(why))
        code = int(found[1]) if found else errno.EIO
        raise OSError(code, os.strerror(code), str(place)) from None


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    with (root / ".lock").open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def made(path: Path) -> tuple[int, int, str]:
    """Return what tells a file that has just been made from a damaged one: size, time of its last change, hash."""
    now = path.stat()
    return now.st_size, now.st_mtime_ns, file_digest(path)


def is_as_made(path: Path, size: int, changed_ns: int, sha256: str) -> bool:
    """Return whether a file is as it was made: untouched since, or else of the same content."""
    now = path.stat()
    if now.st_size != size:
        return False
    return now.st_mtime_ns == changed_ns or file_digest(path) == sha256


def intact(folder: Path) -> bool:
    """Return whether an entry is whole, and as it was made."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        return all(is_as_made(folder / name, *made) for name, made in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def used(folder: Path) -> float:
    """Return when an entry was used last; what is none, never."""
    try:
        return (folder / MANIFEST).stat().st_mtime
    except OSError:
        return 0


def manifest(folder: Path) -> dict[str, Any]:
    """Return what is recorded of a cache entry."""
    result: dict[str, Any] = json.loads((folder / MANIFEST).read_text())["about"]
    return result


def contents(folder: Path) -> dict[str, str]:
    """Return the hashes of a cache entry's files."""
    recorded: dict[str, tuple[int, int, str]] = json.loads((folder / MANIFEST).read_text())["files"]
    return {name: sha256 for name, (_, _, sha256) in recorded.items()}


def entry(
    kind: str,
    key: str,
    make: Callable[[Path], dict[str, Any]],
    *,
    make_missing: bool = True,
    anew: bool = False,
    kept: int = KEPT,
    key_after: Callable[[], str] | None = None,
) -> Path:
    """Return the cache folder for ``kind`` and ``key``; ``make`` fills a new one and says what is in it.

    Where making changes what the key is of, ``key_after`` says that of the new one.

    An entry whose files are missing or other than recorded is made anew, and where ``anew`` asks for it.
    Of the kind's entries ``kept`` stay, those used last.
    """
    root = cache()
    folder = root / f"{kind}-{key[:16]}"
    # Asked first: what is there can be used from a cache that cannot be written to.
    if intact(folder) and not anew:
        with suppress(OSError):
            (folder / MANIFEST).touch()
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.W_OK):
            raise OSError(errno.EACCES, "not writable")
    except OSError as e:
        raise WiretimeError(f"cache folder {root}: {e.strerror} (set WIRETIME_CACHE to another)") from None
    if not make_missing:
        raise WiretimeError(f"{kind} is not set up, or damaged, in {root}: run `wiretime setup`")
    with _locked(root):
        if intact(folder) and not anew:
            return folder
        work = root / f".{kind}-{os.getpid()}"
        for stale in root.glob(f".{kind}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        work.mkdir()
        try:
            about = make(work)
            files = {
                str(p.relative_to(work)): made(p) for p in sorted(work.rglob("*")) if p.is_file() and not p.is_symlink()
            }
            (work / MANIFEST).write_text(json.dumps({"about": about, "files": files}, indent=1))
            folder = folder if key_after is None else root / f"{kind}-{key_after()[:16]}"
            # Not before: what is there is better than nothing, where the new one cannot be made.
            shutil.rmtree(folder, ignore_errors=True)
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        others = sorted((e for e in root.glob(f"{kind}-*") if e != folder), key=used, reverse=True)
        for old in others[kept - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
    return folder
