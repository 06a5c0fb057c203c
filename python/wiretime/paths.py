"""Where things are: the repository, and the cache of what set-up makes."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PLATFORMS = REPOSITORY / "platforms"
MODELS = REPOSITORY / "models"
GUEST = REPOSITORY / "guest"
LOCK_FILE = REPOSITORY / "wiretime.lock"


def cache() -> Path:
    """Return the cache folder: ``WIRETIME_CACHE``, or ``wiretime`` in the user's cache."""
    if path := os.environ.get("WIRETIME_CACHE"):
        return Path(path)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wiretime"


def engine() -> Path:
    """Return the plugin library."""
    if path := os.environ.get("WIRETIME_ENGINE"):
        return Path(path)
    return REPOSITORY / "target" / "release" / "libwiretime_engine.so"
