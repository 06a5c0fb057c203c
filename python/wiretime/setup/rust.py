"""The Rust that builds the engine: this system's own, or one beside it, as Ubuntu keeps newer releases."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from wiretime import paths
from wiretime.errors import WiretimeError

BESIDE = Path("/usr/lib")


def oldest() -> int:
    """Return the minor number of the oldest release 1.N that builds this."""
    return int(tomllib.loads((paths.REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"][2:])


def _minor(path: str) -> int:
    """Return which release 1.N is found along a path; -1 where none is."""
    if not (shutil.which("cargo", path=path) and (compiler := shutil.which("rustc", path=path))):
        return -1
    stated = subprocess.run([compiler, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    found = re.match(r"rustc 1\.(\d+)", stated)
    return int(found[1]) if found else -1


def environment() -> dict[str, str]:
    """Return what cargo is started with; raises where there is none that will do."""
    return {**os.environ, "PATH": search_path()}


def search_path() -> str:
    """Return ``PATH`` with a Rust that will do in it, before others if need be; raises where there is none."""
    path, wanted = os.environ.get("PATH", os.defpath), oldest()
    own = _minor(path)
    if own >= wanted:
        return path
    beside = {int(found[1]): p for p in BESIDE.glob("rust-1.*/bin") if (found := re.search(r"-1\.(\d+)/bin$", str(p)))}
    enough = [minor for minor in beside if minor >= wanted]
    if not enough:
        there = f"1.{own} is too old" if own >= 0 else "it is missing"
        raise WiretimeError(
            f"Rust 1.{wanted} or newer is needed, {there}: apt-get install cargo-web rustc-web (Debian 12), "
            f"cargo rustc (newer ones) or cargo-1.{wanted} rustc-1.{wanted} (Ubuntu 24.04)"
        )
    return f"{beside[min(enough)]}{os.pathsep}{path}"
