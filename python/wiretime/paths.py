"""Where things are: the repository, and the cache of what set-up makes."""

from __future__ import annotations

import os
from pathlib import Path

from wiretime.errors import WiretimeError

# In an installed wheel, what a checkout has beside the package is inside it.
TREE = Path(__file__).resolve().parent / "_tree"
REPOSITORY = TREE if TREE.is_dir() else Path(__file__).resolve().parents[2]
PLATFORMS = REPOSITORY / "platforms"
MODELS = REPOSITORY / "models"
GUEST = REPOSITORY / "guest"
LOCK_FILE = REPOSITORY / "wiretime.lock"


def cache() -> Path:
    """Return the cache folder: ``WIRETIME_CACHE``, or ``wiretime`` in the user's cache."""
    if path := os.environ.get("WIRETIME_CACHE"):
        # What is built there is named from other folders.
        return Path(path).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wiretime"


def built_engine() -> Path:
    """Return the plugin library, or raise where there is none."""
    if not (found := engine()).is_file():
        raise WiretimeError(f"the engine {found} is not built: run `wiretime setup`")
    return found


def engine() -> Path:
    """Return the plugin library."""
    if path := os.environ.get("WIRETIME_ENGINE"):
        return Path(path)
    folder = REPOSITORY if TREE.is_dir() else REPOSITORY / "target" / "release"
    return folder / "libwiretime_engine.so"
