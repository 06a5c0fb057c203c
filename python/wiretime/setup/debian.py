"""Debian packages into a private folder: fetched, checked against the lock file, unpacked; nothing is installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wiretime import files
from wiretime.errors import WiretimeError
from wiretime.paths import LOCK_FILE
from wiretime.setup.architecture import EMULATOR_PACKAGE, KERNEL_PACKAGE
from wiretime.setup.store import file_digest

VARIABLE = "WIRETIME_DEBIAN"
ARCHIVE = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Package:
    """A package file as fetched."""

    name: str
    version: str
    sha256: str


@cache
def _of_apt() -> str | None:
    """Return the address of the Debian archive that this host's apt uses; none where it is no Debian's."""
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    # Others have archives that end in /debian, too; Debian's own has backports and security beside it.
    lines = (line.split() for line in done.stdout.splitlines())
    addresses = (words[1].rstrip("/") for words in lines if len(words) == 2 and words[0] == "Debian")
    return next((address for address in addresses if address.endswith("/debian")), None)


@cache
def _proxies() -> dict[str, str]:
    """Return the proxies that this host's apt uses, by protocol; those of the environment mmdebstrap knows itself."""
    names = ("http", "https")
    asked = [word for name in names for word in (name, f"Acquire::{name}::Proxy")]
    done = subprocess.run(["apt-config", "shell", *asked], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    given = dict(word.split("=", 1) for word in shlex.split(done.stdout) if "=" in word)
    return {name: given[name] for name in names if name in given}


def archive() -> str:
    """Return the address of the Debian archive.

    What was asked for; this host's own, so that a local mirror is used too; elsewhere the one that everybody has.
    """
    return (os.environ.get(VARIABLE) or _of_apt() or ARCHIVE).rstrip("/")


def unpack(
    folder: Path, suites: Sequence[str], packages: Sequence[str], architecture: str | None = None
) -> list[Package]:
    """Unpack ``packages`` and what they need from ``suites`` (the last one preferred) into ``folder``."""
    tool = shutil.which("mmdebstrap")
    if tool is None:
        raise WiretimeError("mmdebstrap is missing: apt-get install mmdebstrap")
    address = archive()
    command = [
        tool,
        # Packages are unpacked, not installed: that needs no rights.
        "--mode=chrootless",
        "--variant=extract",
        "--skip=cleanup/apt/cache",  # the package files: their hashes are what the lock file holds
        f"--include={','.join(packages)}",
        f'--aptopt=APT::Default-Release "{suites[-1]}"',
        # A snapshot of an older day says that it is no longer valid.
        *(['--aptopt=Acquire::Check-Valid-Until "false"'] if os.environ.get(VARIABLE) else []),
        # It reads none of this host's settings.
        *(f'--aptopt=Acquire::{name}::Proxy "{proxy}"' for name, proxy in _proxies().items()),
        # Other systems trust Debian's keys only where they are told to.
        *([] if _of_apt() else [f"--keyring={KEYRING}"]),
        *([f"--architectures={architecture}"] if architecture else []),
        suites[0],
        str(folder / "root"),
        *[f"deb {address} {suite} main" for suite in suites],
    ]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err:"))] or ["it failed"]
        raise WiretimeError(f"mmdebstrap ({suites[-1]} from {address}; {VARIABLE} names another): {lines[0]}")
    archives = folder / "root" / "var" / "cache" / "apt" / "archives"
    found = []
    for deb in sorted(archives.glob("*.deb")):
        name, version, _ = deb.stem.split("_", 2)
        found.append(Package(name, version.replace("%3a", ":"), file_digest(deb)))
    if not found:
        raise WiretimeError(f"mmdebstrap left no package files in {archives}")
    return found


def source(package: str, suite: str, folder: Path, version: str | None = None) -> Path:
    """Fetch a source package of ``suite`` into ``folder``, checked and patched as Debian's tools do it."""
    for name, of in (("apt-get", "apt"), ("dpkg-source", "dpkg-dev")):
        if shutil.which(name) is None:
            raise WiretimeError(f"{name} is missing: apt-get install {of}")
    state = folder / "apt"
    for place in ("lists/partial", "cache/archives/partial"):
        (state / place).mkdir(parents=True)
    signed = "" if _of_apt() else f"[signed-by={KEYRING}] "
    (state / "sources.list").write_text(f"deb-src {signed}{archive()} {suite} main\n")
    # Nothing of this host's own lists is read or written.
    places = {
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "",
    }
    options = [f"--option={key}={value}" for key, value in places.items()]
    wanted = package if version is None else f"{package}={version}"
    for words in (["update"], ["source", "--only-source", wanted]):
        done = subprocess.run(
            ["apt-get", "--quiet", *options, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err:"))] or ["it failed"]
            raise WiretimeError(f"apt-get {words[0]} ({wanted}, sources of {suite}): {lines[0]}")
    return next(p for p in folder.iterdir() if p.is_dir() and p != state)


def checksums(folder: Path) -> dict[str, str]:
    """Return the MD5 of every file, as the packages unpacked in ``folder`` state them themselves."""
    found = {}
    for deb in sorted((folder / "root/var/cache/apt/archives").glob("*.deb")):
        done = subprocess.run(["dpkg-deb", "--info", str(deb), "md5sums"], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            md5, name = line.split(maxsplit=1)
            found[name] = md5
    return found


def lock() -> dict[str, dict[str, list[str]]]:
    """Return the lock file: by part, by package, version and SHA-256."""
    if not LOCK_FILE.exists():
        return {}
    result: dict[str, dict[str, list[str]]] = json.loads(LOCK_FILE.read_text())
    return result


# Names that documents use, and the packages whose versions they mean.
NAMED = {"dpdk": "dpdk-dev", "linux": KERNEL_PACKAGE, "memcached": "memcached", "qemu": EMULATOR_PACKAGE}


def releases() -> dict[str, str]:
    """Return the locked release, MAJOR.MINOR, of what documents name."""
    versions = {name: version for part in lock().values() for name, (version, _) in part.items()}
    found = {}
    for name, package in NAMED.items():
        upstream = versions[package].rpartition(":")[2]
        found[name] = ".".join(re.split(r"[.+-]", upstream)[:2])
    return found


@contextmanager
def lock_stays_unless_made() -> Iterator[None]:
    """Keep the lock file where what is within fails: what had been made by it stays in use."""
    before = LOCK_FILE.read_text() if LOCK_FILE.exists() else None
    try:
        yield
    except BaseException:
        if before is not None and LOCK_FILE.read_text() != before:
            files.replace(LOCK_FILE, before)
        raise


def check(part: str, packages: Sequence[Package], *, update: bool) -> list[str]:
    """Compare what was fetched with the lock file; returns a warning a difference. ``update`` writes it instead.

    Raises where a package of the same version is another: an archive does not change those.
    """
    locked = lock()
    now = {p.name: [p.version, p.sha256] for p in packages}
    if update or part not in locked:
        locked[part] = now
        files.replace(LOCK_FILE, json.dumps(locked, indent=1, sort_keys=True) + "\n")
        return []
    was = locked[part]
    for name, (version, sha256) in sorted(now.items()):
        if name in was and was[name][0] == version and was[name][1] != sha256:
            raise WiretimeError(
                f"{part}: {name} {version} is not the package that the lock file means: another checksum "
                "(--update-lock takes it all the same)"
            )
    return [
        f"{part}: {name} is {now.get(name, ['absent'])[0]}, the lock file has {was.get(name, ['none'])[0]}"
        for name in sorted(set(was) | set(now))
        if was.get(name) != now.get(name)
    ]
