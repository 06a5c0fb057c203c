"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wiretime.errors import WiretimeError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give the place where a file is written, of each process its own: whole it comes to be there, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Give the place where a file is written that may be a pipe or a device: a regular one is whole or as it was."""
    if path.exists() and not path.is_file():
        yield path
        return
    with whole(path) as part:
        yield part


def replace(path: Path, text: str) -> Path:
    """Write a file, whole or not at all; returns its path. Raises where the disk does not take it."""
    try:
        with whole(path) as part:
            part.write_text(text)
    except OSError as e:
        raise WiretimeError(f"{path}: {e.strerror}") from None
    return path


def read(path: Path) -> Any:
    """Return what a file of JSON holds: nothing where it is not there, or not whole, as after a power cut."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def is_still(path: Path, fd: int) -> bool:
    """Return whether a path is still the file that has been opened: another may have removed it, and made it anew."""
    try:
        return path.stat().st_ino == os.fstat(fd).st_ino
    except FileNotFoundError:
        return False


def check(option: str, path: Path) -> None:
    """Raise where a file cannot be made, or written anew: before there is anything to write."""
    place = path if path.exists() else path.parent
    if not place.exists():
        raise WiretimeError(f"{option} {path}: there is no folder {place}")
    if path.is_dir():
        raise WiretimeError(f"{option} {path}: is a folder")
    if not os.access(place, os.W_OK):
        raise WiretimeError(f"{option} {path}: {place} cannot be written to")


def write(path: Path, text: str) -> None:
    """Write a file that may be a pipe or a device. Raises where it takes nothing."""
    try:
        path.write_text(text)
    except OSError as e:
        raise WiretimeError(f"{path}: {e.strerror}") from None
