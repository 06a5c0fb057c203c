"""Programs that use DPDK, built for the guest against its own packages by their own Makefiles."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from wiretime.errors import BuildError, WiretimeError
from wiretime.setup import architecture

EXAMPLES = Path("usr/share/dpdk/examples")
PKG_CONFIG = architecture.LIBRARY / "pkgconfig"


# Flags, and where this machine's headers, libraries and packages are.
HOSTS = re.compile(
    r"(C|CXX|CPP|LD|MAKE|GNUMAKE)FLAGS|LDLIBS|CPATH|C(PLUS)?_INCLUDE_PATH|(LIBRARY|LD_RUN|COMPILER)_PATH|GCC_.*|PKG_CONFIG.*"
)


def tool(name: str, package: str) -> None:
    """Raise where a tool is missing."""
    if shutil.which(name) is None:
        raise WiretimeError(f"{name} is missing: apt-get install {package}")


def environment_without_flags() -> dict[str, str]:
    """Return the environment without what compilers, linkers and make take from it, which is for this machine."""
    return {name: value for name, value in os.environ.items() if not HOSTS.fullmatch(name)}


def make(root: Path, folder: Path, *arguments: str) -> None:
    """Run a Makefile that takes its flags from pkg-config, with ``root`` as the target's system."""
    for path in (root, folder):
        if len(str(path).split()) > 1:
            raise WiretimeError(f"{path}: a path with a blank in it, which make and pkg-config cannot take")
    for name, package in (
        ("make", "make"),
        ("pkg-config", "pkgconf"),
        (architecture.COMPILER, architecture.COMPILER_PACKAGE),
    ):
        tool(name, package)
    if not (root / "lib").exists():
        # Packages that are unpacked only: the system's own link is missing.
        (root / "lib").symlink_to("usr/lib")
    environment = {
        **environment_without_flags(),
        "PKG_CONFIG_LIBDIR": str(root / PKG_CONFIG),
        "PKG_CONFIG_SYSROOT_DIR": str(root),
    }
    # No path of this machine in what is built: the same image wherever it is made.
    same = f"-ffile-prefix-map={root}= -ffile-prefix-map={folder}=."
    command = ["make", "--silent", "-C", str(folder), f"CC={architecture.COMPILER} --sysroot={root} {same}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
        raise BuildError(f"{folder.name} cannot be built: {errors[0] if errors else 'make failed'}", done.stderr)


def example(root: Path, name: str, target: Path) -> Path:
    """Build one of DPDK's examples, unchanged; returns the program, named as DPDK would install it."""
    folder = root / EXAMPLES / name
    if not (folder / "Makefile").exists():
        raise WiretimeError(f"guest/recipe.toml: DPDK has no example {name}")
    make(root, folder, "shared")
    return Path(shutil.copy2(folder / "build" / f"{name}-shared", target / f"dpdk-{name}"))


def own(root: Path, folder: Path, target: Path) -> list[Path]:
    """Build programs of ours; returns them."""
    make(root, folder, f"BUILD={target}")
    return sorted(p for p in target.iterdir() if p.is_file())
