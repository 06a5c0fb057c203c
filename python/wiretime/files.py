"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

from wiretime.errors import WiretimeError


def replace(path: Path, text: str) -> Path:
    """Write a file, whole or not at all; returns its path. Raises where the disk does not take it."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text)
        part.rename(path)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise WiretimeError(f"{path}: {e.strerror}") from None
    return path
