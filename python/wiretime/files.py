"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path


def replace(path: Path, text: str) -> Path:
    """Write a file, whole or not at all; returns its path."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.rename(path)
    return path
