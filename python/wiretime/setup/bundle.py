"""Archives that need no building: a release, and a whole set-up for machines without a network.

Both hold this checkout's tracked files and, in ``bundle``, the engine and the Python extension as they are built here,
the list of licences, and a manifest that says for which processor and sources. An export also holds the Python
packages (of this minor version of Python) and what set-up has fetched and made: QEMU and the guest. ``./run`` in the
unpacked folder takes from ``bundle`` what is there instead of building or fetching it.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import wiretime._native as _native
from wiretime import __version__, files, paths
from wiretime.errors import WiretimeError
from wiretime.setup import rust, store
from wiretime.setup.parts import PARTS

BUNDLE, MANIFEST, LICENCES = "bundle", "manifest.json", "licences.txt"


def folder() -> Path:
    """Return where a bundle's parts are, in an unpacked archive."""
    return paths.REPOSITORY / BUNDLE


def has_engine() -> bool:
    """Return whether the engine came built, in a wheel or an unpacked archive, so that nothing is compiled."""
    return paths.TREE.is_dir() or (folder() / paths.engine().name).is_file()


def _command(*words: str, environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, cwd=paths.REPOSITORY, env=environment)
    except OSError as e:
        raise WiretimeError(f"{words[0]}: {e.strerror}") from None
    if done.returncode != 0:
        raise WiretimeError(f"{' '.join(words[:3])}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
    return done.stdout


def _crates() -> list[str]:
    """Return what is linked: name, version and licence of every crate."""
    words = ("cargo", "metadata", "--format-version", "1", "--locked")
    found = json.loads(_command(*words, environment=rust.environment()))["packages"]
    return sorted(f"crate {p['name']} {p['version']}: {p['license'] or 'see its file'}" for p in found if p["source"])


def _packages() -> list[str]:
    """Return the Python packages of this environment: name, version and licence as they say it."""

    def licence(about: Any) -> str:
        classifiers = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or () if c.startswith("License")]
        return str(about["License-Expression"] or "; ".join(classifiers) or (about["License"] or "?").splitlines()[0])

    every = {d.metadata["Name"]: d for d in importlib.metadata.distributions()}
    return sorted(
        f"python {name} {d.version}: {licence(d.metadata)}" for name, d in every.items() if name != "wiretime"
    )


def tracked() -> list[str]:
    """Return this checkout's files, as git knows them."""
    names = _command("git", "ls-files", "-z").split("\0")
    return [name for name in names if name and (paths.REPOSITORY / name).is_file()]


def extension_is_current() -> bool:
    """Return whether the Python extension was built from this checkout's sources as they are (scripts/prepare.sh)."""
    key = _command("sh", "-c", ". ./scripts/prepare.sh; extension_key").strip()
    return (paths.REPOSITORY / ".venv" / f".native-{key}").exists()


STALE = "the Python extension was built from other sources than these: ./run builds it anew"


def built() -> tuple[Path, Path]:
    """Return the engine and the Python extension."""
    if not extension_is_current():
        raise WiretimeError(STALE)
    both = paths.engine(), Path(_native.__file__)
    for path in both:
        if not path.is_file():
            raise WiretimeError(f"{path} is not built: run `wiretime setup`")
    return both


def licences() -> str:
    """Return the licences of all that the engine and the package are built of, a line each."""
    return "\n".join([*_crates(), *_packages()]) + "\n"


def sign(path: Path) -> str:
    """Write the checksum of a file beside it, as ``sha256sum --check`` reads it; returns it."""
    digest = store.file_digest(path)
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
    return digest


def _fill(tree: Path, whole: bool) -> None:
    """Put all that an archive holds under a folder."""
    for name in tracked():
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(paths.REPOSITORY / name, target)
    bundle = tree / BUNDLE
    bundle.mkdir()
    for path in built():
        shutil.copy2(path, bundle / path.name)
    (bundle / LICENCES).write_text(licences())
    about = {
        "wiretime": __version__,
        "machine": platform.machine(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}" if whole else None,
        "commit": _command("git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*").strip(),
        # Whoever changes these needs another engine than the one that comes along.
        "sources": _command("sh", "-c", '. ./scripts/prepare.sh; cd "$1"; sources_key', "sh", str(tree)).strip(),
    }
    (bundle / MANIFEST).write_text(json.dumps(about, indent=1) + "\n")
    if whole:
        download = ("download", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:")
        _command(sys.executable, "-m", "pip", *download, "-r", "requirements.lock", "-d", str(bundle / "wheels"))
        for part in PARTS:
            store.copy(part.folder(), bundle / "cache" / part.folder().name)


def write(archive: Path, *, whole: bool) -> str:
    """Write an archive, whole or not at all, and its checksum beside it; returns the checksum.

    ``whole`` is for machines without a network; else it is a release. Its name says how it is compressed.
    """
    name = archive.name.partition(".tar")[0]
    mode = {".xz": "w:xz", ".gz": "w:gz", ".tar": "w"}.get(archive.suffix)
    if mode is None or not name:
        raise WiretimeError(f"{archive}: must end in .tar, .tar.gz or .tar.xz")
    part = archive.with_name(f".{archive.name}.part")
    try:
        # Beside it: where temporary files go there may be less room.
        with tempfile.TemporaryDirectory(prefix=".wiretime-", dir=archive.parent) as temporary:
            tree = Path(temporary) / name
            tree.mkdir()
            _fill(tree, whole)
            with tarfile.open(part, mode) as tar:  # type: ignore[call-overload]
                tar.add(tree, name, filter=_plain)
        part.rename(archive)
        return sign(archive)
    except OSError as e:
        raise WiretimeError(f"{e.filename or archive}: {e.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who made it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def unpack() -> bool:
    """Take from a bundle what set-up would build, fetch or make; returns whether the engine came from there."""
    bundle = folder()
    engine = bundle / paths.engine().name
    if not engine.is_file():
        return False
    made_for = json.loads((bundle / MANIFEST).read_text())["machine"]
    if made_for != platform.machine():
        raise WiretimeError(f"{bundle}: is for {made_for}, this is {platform.machine()}: take the sources from git")
    if not paths.engine().is_file() or store.file_digest(paths.engine()) != store.file_digest(engine):
        paths.engine().parent.mkdir(parents=True, exist_ok=True)
        # Replaced, not overwritten: guests that run have it mapped.
        with files.whole(paths.engine()) as new:
            shutil.copy2(engine, new)
    for part in PARTS:
        source = bundle / "cache" / f"{part.name}-{part.key()[:16]}"
        if source.is_dir():
            store.entry(part.name, part.key(), partial(_copied, source))
    return True


def _copied(source: Path, work: Path) -> dict[str, Any]:
    """Fill a new entry of the cache from a bundle's."""
    if not store.intact(source):
        raise WiretimeError(f"{source}: is damaged: unpack the archive anew")
    store.copy(source, work)
    # Whoever fills an entry leaves that to the cache.
    (work / store.MANIFEST).unlink()
    return store.manifest(source)
