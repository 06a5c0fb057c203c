"""The parts that set-up makes, by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiretime.errors import WiretimeError
from wiretime.setup import debian, guest, qemu, store
from wiretime.setup.architecture import DEBIAN


@dataclass(frozen=True)
class Part:
    """One part: what it is, its key, and how it is made."""

    name: str
    what: str
    key: Callable[[], str]
    make: Callable[..., dict[str, Any]]

    def folder(self, *, make_missing: bool = False, update_lock: bool = False) -> Path:
        """Return the part's folder in the cache, making it where asked to."""

        def fill(folder: Path) -> dict[str, Any]:
            with debian.lock_stays_unless_made():
                return self.make(folder, update_lock=update_lock)

        return store.entry(
            self.name,
            self.key(),
            fill,
            make_missing=make_missing,
            anew=update_lock,
            # What it is made of is in the lock file, which is then written anew.
            key_after=self.key if update_lock else None,
        )

    def identity(self) -> str:
        """Return a hash of what is there: packages may differ from those of the lock file, and so may compilers."""
        try:
            folder = self.folder()
        except WiretimeError:
            return self.key()
        what = store.manifest(folder), store.contents(folder)
        return store.digest(self.key(), json.dumps(what, sort_keys=True))


QEMU = Part("qemu", "QEMU 11.1 (Debian backports)", qemu.key, qemu.make)
GUEST = Part("guest", f"guest kernel and initramfs (Debian {DEBIAN})", guest.key, guest.make)
PARTS = (QEMU, GUEST)
SIZES = {"qemu": "45 MB to fetch", "guest": "180 MB to fetch"}
