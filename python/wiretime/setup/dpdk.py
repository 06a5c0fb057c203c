"""DPDK built for the guest's CPU from its sources, beside Debian's, which is built for all of its architecture.

Debian's build has cache lines of 128 bytes, and with them completions of a ConnectX of 128 bytes: twice what the
machines had that published figures come from; and its driver there takes four completions a call. A build of a release,
or of a user's own tree, has a name; a run says which one it wants. Built are the programs, examples and drivers of
``guest/recipe.toml`` and our own programs, against the packages that the guest is made of; and with them drivers that
are not in DPDK (``added``).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from wiretime import paths, scratch
from wiretime.errors import WiretimeError, unknown
from wiretime.setup import added, build, debian, guest, store
from wiretime.setup.architecture import COMPILER, COMPILER_PACKAGE, FAMILY, LEAST, LIBRARY, TRIPLE
from wiretime.setup.parts import GUEST

# Debian's own build, which every guest has; and, as a source, Debian's source package.
DEBIAN = "debian"
PACKAGE = "dpdk"
NAME = r"[a-z0-9][a-z0-9._]*"
# What an archive of the guest must be made of to be built anew.
BUILT = "dpdk"
# Compiled into what is built: no path of this machine, and room for glibc to be newer than the compiler's own.
CROSS = """[binaries]
c = ['{compiler}', '--sysroot={root}']
ar = '{compiler}-ar'
strip = '{triple}-strip'
pkg-config = 'pkg-config'
[built-in options]
c_args = ['-ffile-prefix-map={source}=.', '-ffile-prefix-map={root}=']
c_link_args = ['-Wl,--allow-shlib-undefined']
[properties]
sys_root = '{root}'
pkg_config_libdir = '{root}/{library}/pkgconfig'
platform = '{platform}'
[host_machine]
system = 'linux'
cpu_family = '{family}'
cpu = '{least}'
endian = 'little'
"""
# Where Debian's own DPDK is, in a system's root.
DEBIANS = ("usr/include/dpdk", f"usr/include/{TRIPLE}/dpdk", "usr/share/dpdk", f"{LIBRARY}/dpdk")
DEBIANS_FILES = ("usr/bin/dpdk-*", f"{LIBRARY}/librte_*", f"{LIBRARY}/pkgconfig/libdpdk*.pc")


class Variant(NamedTuple):
    """A build of DPDK that is there: its name, folder in the cache, version, and the hash of its sources.

    ``drivers`` are those that are not in DPDK, by the hash of theirs.
    """

    name: str
    folder: Path
    version: str
    sources: str
    drivers: Mapping[str, str] = {}

    @property
    def packages(self) -> list[dict[str, str]]:
        """It as a result lists what it was made of."""
        more = [{"name": name, "version": sha[:12], "sha256": sha} for name, sha in sorted(self.drivers.items())]
        return [{"name": PACKAGE, "version": self.version, "sha256": self.sources}, *more]


def _kind(name: str) -> str:
    return f"dpdk@{name}"


def _key(sources: str, drivers: Mapping[str, str]) -> str:
    recipe = repr(sorted(guest.recipe()[PACKAGE].items()))
    files = [Path(added.__file__), *sorted(added.LACKING.iterdir())] if drivers else []
    code = [path.read_bytes() for path in (Path(__file__), *files)]
    return store.digest("dpdk", sources, repr(sorted(drivers.items())), guest.key(), recipe, *code)


def names() -> list[str]:
    """Return the builds that a run may ask for, Debian's first."""
    folders = paths.cache().glob(f"{_kind('*')}-*/{store.MANIFEST}")
    return [DEBIAN, *sorted({path.parent.name.partition("@")[2].rpartition("-")[0] for path in folders})]


def missing(name: str) -> str:
    """Return why a run cannot have a build, where it cannot."""
    try:
        if name != DEBIAN:
            variant(name)
    except WiretimeError as e:
        return str(e)
    return ""


def variant(name: str) -> Variant:
    """Return a build by its name; raises where there is none, or one of another guest."""
    found = list(paths.cache().glob(f"{_kind(name)}-*/{store.MANIFEST}")) if re.fullmatch(NAME, name) else []
    if not found:
        hint = f"; make it with `wiretime setup --dpdk {name}=SOURCE`" if re.fullmatch(NAME, name) else ""
        raise WiretimeError(f"{unknown('build of DPDK', name, names())}{hint}")
    again = "make it anew with `wiretime setup --dpdk`"
    wrong = ""
    # That which was made last, of those for this guest: another checkout may have another.
    for folder in sorted((path.parent for path in found), key=store.used, reverse=True):
        # Its manifest, too, may be what is damaged.
        if not store.intact(folder):
            wrong = wrong or f"{folder} is damaged: {again}"
            continue
        about = store.manifest(folder)
        of = Variant(name, folder, str(about["version"]), str(about["sources"]), about.get("drivers", {}))
        if folder.name == f"{_kind(name)}-{_key(of.sources, of.drivers)[:16]}":
            return of
        wrong = wrong or f"was built for another guest: {again}{' and `--driver`' if of.drivers else ''}"
    raise WiretimeError(f"--dpdk {name}: {wrong}")


def archive(name: str, dpdk: str) -> Path:
    """Return the file of one of the guest's archives, of a build of DPDK where it holds any of it."""
    if dpdk != DEBIAN and (path := variant(dpdk).folder / f"{name}.cpio").is_file():
        return path
    return GUEST.folder() / f"{name}.cpio"


def links(dpdk: str) -> list[str]:
    """Return the names of all files of the guest's image, with a build of DPDK in it."""
    found: list[str] = store.manifest(GUEST.folder() if dpdk == DEBIAN else variant(dpdk).folder)["links"]
    return found


def _listed(tree: Path) -> list[Path]:
    """Return the source files of a tree, relative to it: what git knows or does not ignore; else all of no build."""
    if (tree / ".git").exists():
        command = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise WiretimeError(f"{tree}: {(done.stderr.strip().splitlines() or ['git failed'])[-1]}")
        listed = {Path(name) for name in done.stdout.split("\0") if name}
    else:
        listed = {p.relative_to(tree) for p in tree.rglob("*")}
    builds = {p.parent.relative_to(tree) for p in tree.rglob("build.ninja")}
    sources = (p for p in listed if (tree / p).is_file() and builds.isdisjoint(p.parents))
    return sorted(sources)


def _digest(tree: Path, files: Sequence[Path]) -> str:
    return store.digest("".join(f"{name} {store.file_digest(tree / name)}\n" for name in files))


def _guests() -> str | None:
    """Return the version of Debian's that the guest has."""
    packages = store.manifest(GUEST.folder())["packages"]
    return next((p["version"] for p in packages if p["name"] == "dpdk-dev"), None)


@contextmanager
def _tree(source: str) -> Iterator[Path]:
    """Give the folder of DPDK's sources: as it is, unpacked from an archive, or fetched from Debian."""
    with scratch.folder() as temporary:
        folder = Path(temporary)
        place = Path(source).expanduser()
        if source == DEBIAN:
            tree = debian.source(PACKAGE, guest.recipe()["suite"], folder, _guests())
        elif place.is_file():
            try:
                with tarfile.open(place) as tar:
                    # Debian 12's Python knows no filters yet.
                    tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                    tar.extractall(folder)
            except (tarfile.TarError, OSError, EOFError) as e:
                raise WiretimeError(f"--dpdk {source}: no tar archive that can be read: {e}") from None
            inside = list(folder.iterdir())
            tree = inside[0] if len(inside) == 1 else folder
        else:
            tree = place
        if not (tree / "VERSION").is_file() or not (tree / "drivers/net/meson.build").is_file():
            raise WiretimeError(
                f"--dpdk {source}: no sources of DPDK: a folder or tar archive of them, or {DEBIAN!r} for Debian's"
            )
        yield tree.resolve()


def make(name: str, source: str, folders: Sequence[Path] = ()) -> tuple[Variant, bool]:
    """Build DPDK from ``source`` under a name, with drivers in ``folders`` beside its own, unless that is there.

    Returns it, and whether it was built.
    """
    if not re.fullmatch(NAME, name) or name == DEBIAN:
        raise WiretimeError(f"--dpdk {name}={source}: a name has small letters, digits, '.' and '_', and is not debian")
    added.check(folders)
    drivers = sorted(added.Driver(path.resolve().name, path, _listed(path)) for path in folders)
    theirs = {driver.full_name: _digest(driver.folder, driver.files) for driver in drivers}
    with _tree(source) as tree:
        files = _listed(tree)
        digest = _digest(tree, files)
        built = False

        def fill(folder: Path) -> dict[str, Any]:
            nonlocal built
            built = True
            copied = folder / "source"
            for each in files:
                (copied / each).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / each, copied / each)
            added.add(copied, drivers)
            return {"sources": digest, "drivers": theirs, **_fill(folder, list(theirs))}

        # A name means what was made last; checkouts share the cache, and each may run.
        store.entry(_kind(name), _key(digest, theirs), fill)
    return variant(name), built


def _fill(folder: Path, more: Sequence[str]) -> dict[str, Any]:
    """Build the sources in ``folder/source``, and leave archives that take the place of the guest's own.

    ``more`` are drivers that the sources have beside those of the recipe.
    """
    r = guest.recipe()
    if more:
        content = r["archives"][BUILT]
        r = {**r, "archives": {**r["archives"], BUILT: {**content, "drivers": [*content["drivers"], *more]}}}
    _, warnings = guest.unpacked(folder, r, update_lock=False)
    packaged = debian.checksums(folder)
    version = (folder / "source/VERSION").read_text().strip()
    installed = _install(folder, r)
    _, links = guest.archives(folder, r, {**packaged, **installed})
    for name, content in r["archives"].items():
        if name != BUILT and BUILT not in content.get("on", ()):
            (folder / f"{name}.cpio").unlink()
    (folder / "cross.ini").unlink()
    for done in ("root", "source", "build"):
        shutil.rmtree(folder / done)
    return {"version": version, "links": sorted(links), "warnings": warnings}


def _meson_names(source: Path, drivers: list[str]) -> list[str]:
    """Return drivers as DPDK's own build names them: by class and path."""
    found = []
    for driver in drivers:
        kind, _, name = driver.partition("_")
        here = [p.parent for p in (source / "drivers" / kind).rglob("meson.build") if p.parent.name == name]
        if not here:
            raise WiretimeError(f"these sources of DPDK have no driver {driver}, which guest/recipe.toml wants")
        found.append(str(here[0].relative_to(source / "drivers")))
    return found


def _run(folder: Path, *command: str) -> None:
    environment = build.environment_without_flags()
    here = Path(sys.executable).parent
    environment["PATH"] = f"{here}{os.pathsep}{environment.get('PATH', '')}"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line.lower()] or ["it failed"]
        raise WiretimeError(f"DPDK cannot be built: {Path(command[0]).name} {command[1]}: {lines[0].strip()}")


def _install(folder: Path, r: Mapping[str, Any]) -> dict[str, str]:
    """Put a build in the place of Debian's in ``folder/root``; returns the MD5 of what it installed."""
    for name, package in (("pkg-config", "pkgconf"), (COMPILER, COMPILER_PACKAGE)):
        build.tool(name, package)
    root, source = folder / "root", folder / "source"
    for name in DEBIANS:
        shutil.rmtree(root / name, ignore_errors=True)
    for pattern in DEBIANS_FILES:
        for path in root.glob(pattern):
            path.unlink()
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    wanted = [content for content in r["archives"].values() if "drivers" in content]
    drivers = _meson_names(source, [driver for content in wanted for driver in content["drivers"]])
    filled = {
        "compiler": COMPILER,
        "triple": TRIPLE,
        "family": FAMILY,
        "least": LEAST,
        "root": root,
        "source": source,
        "library": LIBRARY,
    }
    (folder / "cross.ini").write_text(CROSS.format(**filled, platform=r[PACKAGE]["platform"]))
    options = {
        "enable_apps": ",".join(r[PACKAGE]["apps"]),
        "enable_drivers": ",".join(drivers),
        "platform": r[PACKAGE]["platform"],
        "max_numa_nodes": 1,
        "tests": "false",
    }
    _run(
        folder,
        *("meson", "setup", "build", "source", "--cross-file", "cross.ini", "--buildtype", "release"),
        *("--default-library", "shared", "--prefix", "/usr", "--libdir", str(LIBRARY.relative_to("usr"))),
        *("--includedir", "include/dpdk"),
        *(f"-D{key}={value}" for key, value in options.items()),
    )
    _run(folder, "ninja", "-C", "build")
    _run(folder, "meson", "install", "-C", "build", "--no-rebuild", "--destdir", str(folder / "install"))
    installed = {}
    for path in (folder / "install").rglob("*"):
        if path.is_file() and not path.is_symlink():
            name = str(path.relative_to(folder / "install"))
            installed[name] = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    shutil.copytree(folder / "install", root, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder / "install")
    return installed
