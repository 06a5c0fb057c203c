"""The guest image: a stock kernel, and an initramfs made of stock packages and our init."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from wiretime.errors import WiretimeError
from wiretime.paths import GUEST
from wiretime.setup import architecture, build, debian, store
from wiretime.setup.architecture import COMPILER, COMPILER_PACKAGE, LIBRARY, LOADER

FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static")


def recipe() -> Mapping[str, Any]:
    """Return the recipe: packages, modules, programs, drivers."""
    return tomllib.loads((GUEST / "recipe.toml").read_text())


def _own_sources(r: Mapping[str, Any]) -> list[Path]:
    folders = ["init", *(name for a in r["archives"].values() for name in a.get("sources", ()))]
    # Nothing that an editor, or `make` for a real machine, has left there.
    return [
        p
        for folder in folders
        for p in sorted((GUEST / folder).rglob("*"))
        if p.is_file() and not p.name.startswith(".") and "build" not in p.relative_to(GUEST).parts
    ]


def key() -> str:
    """Return what the cache entry depends on: recipe, our init, tools and programs, the lock file, and this code."""
    sources = [p.read_bytes() for p in _own_sources(recipe())]
    locked = repr(sorted(debian.lock().get("guest", {}).items()))
    code = [Path(m).read_bytes() for m in (__file__, build.__file__, architecture.__file__)]
    return store.digest("guest", (GUEST / "recipe.toml").read_bytes(), *sources, locked, *code)


def make(folder: Path, *, update_lock: bool) -> dict[str, Any]:
    """Fetch the packages, and build ``kernel`` and the archives."""
    r = recipe()
    packages, warnings = unpacked(folder, r, update_lock=update_lock)
    kernel, packaged = kernel_of(folder), debian.checksums(folder)
    shutil.copyfile(kernel, folder / "kernel")
    hashes, links = archives(folder, r, packaged)
    hashes["kernel"] = _unchanged(kernel, f"boot/{kernel.name}", packaged)
    shutil.rmtree(folder / "root")
    return {
        "kernel": release_of(kernel),
        "packages": [asdict(p) for p in packages],
        "files": hashes,
        "links": sorted(links),
        "warnings": warnings,
    }


def unpacked(folder: Path, r: Mapping[str, Any], *, update_lock: bool) -> tuple[list[debian.Package], list[str]]:
    """Unpack the guest's packages into ``folder/root``; returns them, and how they differ from the lock file."""
    packages = debian.unpack(folder, (r["suite"],), r["packages"], r["architecture"])
    return packages, debian.check("guest", packages, update=update_lock)


def kernel_of(folder: Path) -> Path:
    """Return the kernel among what is unpacked."""
    kernels = sorted((folder / "root/boot").glob("vmlinuz-*"))
    if not kernels:
        raise WiretimeError("the guest's kernel package has no vmlinuz")
    return kernels[0]


def release_of(kernel: Path) -> str:
    """Return the release of a kernel by its file's name."""
    return kernel.name.removeprefix("vmlinuz-")


def archives(folder: Path, r: Mapping[str, Any], packaged: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Pack every archive of the recipe out of ``folder/root``.

    ``packaged`` are the MD5 that each file of it must have. Returns SHA-256 by file, and all names, links too.
    """
    root, stage = folder / "root", folder / "stage"
    files: dict[str, set[str]] = {}
    hashes: dict[str, str] = {}
    for name, content in r["archives"].items():
        there = set().union(*(files[other] for other in ("base", *content.get("on", ())) if other in files))
        staged = Staging(root, stage / name, packaged, there)
        release = release_of(kernel_of(folder))
        if name == "base":
            _system(staged, r, release)
        if modules := content.get("modules"):
            _modules(staged, modules, release)
        _content(staged, content)
        hashes |= staged.hashes
        files[name] = staged.there
        (folder / f"{name}.cpio").write_bytes(archive(stage / name))
    shutil.rmtree(stage)
    return hashes, set().union(*files.values())


def _unchanged(path: Path, name: str, packaged: Mapping[str, str]) -> str:
    """Check a file against its package's own checksum; returns its SHA-256."""
    found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    if packaged.get(name) != found:
        raise WiretimeError(f"{name} is not what its package holds: {found}, not {packaged.get(name)}")
    return store.file_digest(path)


class Staging:
    """A folder that becomes an archive: what is copied into it is checked against its package, and copied once."""

    def __init__(self, root: Path, stage: Path, packaged: Mapping[str, str], there: set[str]):
        stage.mkdir(parents=True)
        self.root, self.stage, self.hashes = root, stage, dict[str, str]()
        self._packaged, self.there = packaged, there

    def copy(self, name: str) -> None:
        """Copy a file of the packages, unless an archive before this one has it."""
        if name in self.there:
            return
        self.there.add(name)
        source, target = self.root / name, self.stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            # One library under two names must stay one file, or it is loaded twice.
            target.symlink_to(source.readlink())
            self.copy(os.path.normpath(Path(name).parent / source.readlink()))
            return
        shutil.copy2(source, target)
        self.hashes[name] = self.checked(source, name)

    def checked(self, path: Path, name: str) -> str:
        """Check a file against its package's own checksum; returns its SHA-256."""
        return _unchanged(path, name, self._packaged)


def _system(s: Staging, r: Mapping[str, Any], release: str) -> None:
    """Stage folders, busybox, kernel modules and our init."""
    for name in ("bin", "sbin", "proc", "sys", "dev", "tmp", "run", "opt", "root", "var", "mnt/huge"):
        (s.stage / name).mkdir(parents=True, exist_ok=True)
    (s.stage / "lib").symlink_to("usr/lib")
    (s.stage / "var/run").symlink_to("/run")
    s.copy("usr/bin/busybox")
    for name in ("busybox", *r["applets"]):
        (s.stage / "bin" / name).symlink_to("/usr/bin/busybox")
    _modules(s, r["modules"], release)
    shutil.copy2(GUEST / "init/init", s.stage / "init")
    (s.stage / "etc").mkdir()
    (s.stage / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    compile_c(GUEST / "init/wtctl.c", s.stage / "opt/wtctl")


def _modules(s: Staging, names: Iterable[str], release: str) -> None:
    """Stage kernel modules, unpacked."""
    modules = s.stage / "usr/lib/modules"
    modules.mkdir(parents=True, exist_ok=True)
    for name in names:
        packed = sorted((s.root / "usr/lib/modules" / release).rglob(f"{name}.ko.xz"))
        if not packed:
            raise WiretimeError(f"guest/recipe.toml: kernel {release} has no module {name}")
        s.checked(packed[0], str(packed[0].relative_to(s.root)))
        (modules / f"{name}.ko").write_bytes(lzma.decompress(packed[0].read_bytes()))
        s.hashes[f"usr/lib/modules/{name}.ko"] = store.file_digest(modules / f"{name}.ko")


def _content(s: Staging, content: Mapping[str, Any]) -> None:
    """Stage programs, built ones included, drivers, and the libraries that they need."""
    (s.stage / "opt").mkdir(exist_ok=True)
    drivers = [_driver(s.root, name) for name in content.get("drivers", ())]
    packaged = [*(name.lstrip("/") for name in content.get("programs", ())), *drivers]
    for name in packaged:
        s.copy(name)
    built = []
    for example in content.get("examples", ()):
        built.append(build.example(s.root, example, s.stage / "opt"))
    for folder in content.get("sources", ()):
        built += build.own(s.root, GUEST / folder, s.stage / "opt")
    programs = [*(s.root / name for name in packaged), *built]
    for name in sorted(_libraries(s.root, programs, content.get("libraries", ()))):
        s.copy(name)
    for name, text in content.get("written", {}).items():
        (s.stage / name).parent.mkdir(parents=True, exist_ok=True)
        (s.stage / name).write_text(text)


def _driver(root: Path, name: str) -> str:
    """Return the file of one of DPDK's drivers, whatever the version of its interface."""
    found = [p for p in (root / LIBRARY).glob(f"dpdk/pmds-*/librte_{name}.so.*") if not p.is_symlink()]
    if len(found) != 1:
        raise WiretimeError(f"guest/recipe.toml: DPDK has {'no' if not found else 'more than one'} driver {name}")
    return str(found[0].relative_to(root))


def compile_c(source: Path, target: Path, *flags: str) -> None:
    """Compile a guest program of ours that needs no library."""
    build.tool(COMPILER, COMPILER_PACKAGE)
    command = [COMPILER, *FLAGS, *flags, "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env=build.environment_without_flags())
    if done.returncode != 0:
        raise WiretimeError(f"{source}: {done.stderr.strip()}")


def needed(path: Path) -> Iterable[str]:
    """Return the libraries that a program or library needs."""
    with path.open("rb") as f:
        dynamic = ELFFile(f).get_section_by_name(".dynamic")
        if not isinstance(dynamic, DynamicSection):
            return []
        return [str(vars(tag)["needed"]) for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def _libraries(root: Path, programs: Iterable[Path], by_name: Iterable[str]) -> set[str]:
    """Return the libraries that the programs need, and those that these need."""
    drivers = sorted((root / LIBRARY).glob("dpdk/pmds-*"))
    places = (LIBRARY, *(path.relative_to(root) for path in drivers))
    found = {f"{LIBRARY}/{LOADER}", f"usr/lib/{LOADER}"}
    found = {name for name in found if (root / name).exists()}
    todo = [name for p in programs for name in needed(p)] + list(by_name)
    while todo:
        name = todo.pop()
        path = next((str(d / name) for d in places if (root / d / name).exists()), None)
        if path is None:
            raise WiretimeError(f"guest/recipe.toml: library {name} is in none of the packages")
        if path not in found:
            found.add(path)
            todo.extend(needed(root / path))
    return found


def archive(stage: Path) -> bytes:
    """Pack a folder as an initramfs archive that depends on nothing but its content."""
    tool = shutil.which("cpio")
    if tool is None:
        raise WiretimeError("cpio is missing: apt-get install cpio")
    names = sorted(str(p.relative_to(stage)) for p in stage.rglob("*"))
    for name in names:
        path = stage / name
        if not path.is_symlink():
            # Whatever umask they were made under.
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)
        os.utime(path, (0, 0), follow_symlinks=False)
    done = subprocess.run(
        [tool, "--create", "--format=newc", "--reproducible", "--owner=0:0", "--quiet", "--null"],
        input="\0".join(names).encode(),
        cwd=stage,
        capture_output=True,
    )
    if done.returncode != 0:
        raise WiretimeError(f"cpio: {done.stderr.decode().strip()}")
    return done.stdout
