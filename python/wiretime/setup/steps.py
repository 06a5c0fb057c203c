"""Set-up, step by step, with progress."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from wiretime import paths
from wiretime.errors import WiretimeError
from wiretime.setup import bundle, dpdk, older, rust
from wiretime.setup.parts import PARTS, SIZES
from wiretime.setup.store import manifest


def _megabytes(folder: os.PathLike[str]) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        total += sum(os.lstat(os.path.join(base, name)).st_size for name in names)  # noqa: PTH118
    return total >> 20


def build_engine(console: Console) -> None:
    """Build the plugin library, or take it from a bundle; a wheel has it."""
    if paths.TREE.is_dir():
        return
    if bundle.unpack():
        console.print(f"engine: from {bundle.folder()}", highlight=False)
        return
    try:
        environment = rust.environment()
    except WiretimeError as e:
        if not paths.engine().is_file():
            raise
        _warn(console, [f"the engine is not built anew, whatever its sources say now: {e}"])
        return
    began = time.monotonic()
    done = subprocess.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "-p", "wiretime-qemu"],
        cwd=paths.REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("error")] or ["it failed"]
        raise WiretimeError(f"cargo build of the engine: {lines[0]}")
    if not bundle.extension_is_current():
        _warn(console, [bundle.STALE])
    console.print(
        f"engine: {paths.engine().stat().st_size >> 20} MB, {time.monotonic() - began:.0f} s", highlight=False
    )


def build_dpdk(console: Console, name: str, source: str, drivers: Sequence[Path]) -> None:
    """Build DPDK from sources under a name, with drivers beside its own, unless that is there."""
    began = time.monotonic()
    console.print(f"DPDK for --dpdk {name}: some 200 MB to fetch, and a few minutes to build", highlight=False)
    made, built = dpdk.make(name, source, drivers)
    state = f"built in {time.monotonic() - began:.0f} s" if built else "there"
    size = _megabytes(made.folder)
    console.print(f"DPDK {made.version} for --dpdk {name}: {state}, {size} MB in {made.folder}", highlight=False)
    _warn(console, manifest(made.folder)["warnings"])


def add_program(console: Console, name: str, *, update_lock: bool) -> None:
    """Fetch a program of an older release, unless it is there."""
    folder, about = older.add(name, update_lock=update_lock)
    console.print(f"{name}: {about['version']}, {_megabytes(folder)} MB in {folder}", highlight=False)
    _warn(console, about["warnings"])


def _warn(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", highlight=False)


def run(console: Console, *, update_lock: bool) -> None:
    """Make every part that is missing."""
    build_engine(console)
    for part in PARTS:
        try:
            folder = part.folder()
        except WiretimeError:
            console.print(f"{part.what}: {SIZES[part.name]}", highlight=False)
        began = time.monotonic()
        folder = part.folder(make_missing=True, update_lock=update_lock)
        seconds = time.monotonic() - began
        state = f"made in {seconds:.0f} s" if seconds > 1 else "there"
        console.print(f"{part.what}: {state}, {_megabytes(folder)} MB in {folder}", highlight=False)
        _warn(console, manifest(folder)["warnings"])
