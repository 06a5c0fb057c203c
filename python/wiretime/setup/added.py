"""Poll-mode drivers that are not in DPDK: a vendor's, or a user's own, built as one of a build's network drivers.

A driver is a folder with a ``meson.build``, as in ``drivers/net``. What one lacks for this release and processor is in
``drivers/NAME.toml``: compiler flags, and sources beside its own, which stay as they are.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wiretime.errors import WiretimeError

LACKING = Path(__file__).parent / "drivers"
NET = Path("drivers/net")
LIST = "drivers = ["


class Driver(NamedTuple):
    """A driver: its name, folder, and the files that it is built from, relative to that."""

    name: str
    folder: Path
    files: Sequence[Path]

    @property
    def full_name(self) -> str:
        """As DPDK and archives of the guest call it."""
        return f"net_{self.name}"


def check(folders: Sequence[Path]) -> None:
    """Raise where one is no driver, or two have one name."""
    seen: set[str] = set()
    for path in folders:
        name = path.resolve().name
        if not (path / "meson.build").is_file():
            raise WiretimeError(f"--driver {path}: no folder with a driver's meson.build")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise WiretimeError(f"--driver {path}: {name!r}, which is its name, must be small letters, digits and '_'")
        if name in seen:
            raise WiretimeError(f"--driver {path}: there is another one called {name}")
        seen.add(name)


def add(source: Path, drivers: Sequence[Driver]) -> None:
    """Put drivers into sources of DPDK, and make its build know them."""
    for driver in drivers:
        option = f"--driver {driver.folder}"
        if any(p.parent.name == driver.name for p in (source / NET).rglob("meson.build")):
            raise WiretimeError(f"{option}: these sources of DPDK have a driver {driver.full_name} already")
        listed = source / NET / "meson.build"
        text = listed.read_text()
        if LIST not in text:
            raise WiretimeError(f"{option}: these sources of DPDK list no drivers in {NET}/meson.build")
        target = source / NET / driver.name
        for file in driver.files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(driver.folder / file, target / file)
        lacking = LACKING / f"{driver.name}.toml"
        if lacking.is_file():
            _complete(target, tomllib.loads(lacking.read_text()))
        listed.write_text(text.replace(LIST, f"{LIST}\n        '{driver.name}',", 1))


def _complete(target: Path, lacking: dict[str, Any]) -> None:
    """Add what a driver lacks, if it is the one that is meant."""
    others = [p for p in target.rglob("*.c") if p.name != lacking["known_by"]]
    if not (target / lacking["known_by"]).is_file() or any(
        re.search(lacking["unless"], p.read_text(errors="replace")) for p in others
    ):
        return
    for file in lacking["sources"]:
        shutil.copy2(LACKING / file, target / file)
    flags, files = (", ".join(f"'{word}'" for word in lacking[key]) for key in ("flags", "sources"))
    with (target / "meson.build").open("a") as build:
        build.write(f"\ncflags += [{flags}]\nsources += files({files})\n")
