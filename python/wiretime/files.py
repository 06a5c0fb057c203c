"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from wiretime.errors import WiretimeError


def beside(path: Path) -> Path:
    """Return where a file is written before it is whole: of each process its own place."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def replace(path: Path, text: str) -> Path:
    """Write a file, whole or not at all; returns its path. Raises where the disk does not take it."""
    part = beside(path)
    try:
        part.write_text(text)
        part.rename(path)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise WiretimeError(f"{path}: {e.strerror}") from None
    return path


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
