"""Folders for the time that something takes; those of a process that was killed go when anybody asks for one."""

from __future__ import annotations

import os
import platform as host
import shutil
import tempfile
from functools import cache
from pathlib import Path

from wiretime.setup import store

NAME = "wiretime-run-"


@cache
def _prefix() -> str:
    """Return how folders of this host and namespace of processes begin: others may share the folder for them."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return f"{NAME}{store.digest(host.node(), str(namespace))[:8]}-"


def folder() -> tempfile.TemporaryDirectory[str]:
    """Return a new folder, to be used as ``tempfile.TemporaryDirectory`` is."""
    _sweep()
    return tempfile.TemporaryDirectory(prefix=f"{_prefix()}{os.getpid()}-", ignore_cleanup_errors=True)


def _sweep() -> None:
    """Remove the folders of processes that are no more."""
    for left in Path(tempfile.gettempdir()).glob(f"{_prefix()}*"):
        owner = left.name.removeprefix(_prefix()).split("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)
