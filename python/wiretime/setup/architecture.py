"""The guest's instruction set, as Debian, the compiler and QEMU name it.

Another one is other names here, its own in ``scripts/prepare.sh`` and ``guest/recipe.toml``, and a module of
``crates/isa``.
"""

from __future__ import annotations

from pathlib import Path

DEBIAN = "arm64"
TRIPLE = "aarch64-linux-gnu"
LIBRARY = Path("usr/lib") / TRIPLE
ELF_MACHINE = "EM_AARCH64"
LOADER = "ld-linux-aarch64.so.1"
COMPILER = f"{TRIPLE}-gcc"
# As meson names the processor's family, and the least of its architecture.
FAMILY, LEAST = "aarch64", "armv8-a"
COMPILER_PACKAGE = f"gcc-{TRIPLE}"
# The C library's, for it.
HEADERS, HEADERS_PACKAGE = f"/usr/{TRIPLE}/include/stdio.h", f"libc6-dev-{DEBIAN}-cross"
KERNEL_PACKAGE = f"linux-image-{DEBIAN}"
EMULATOR = "qemu-system-aarch64"
EMULATOR_PACKAGE = "qemu-system-arm"
# QEMU's board, and what of it is not drawn by chance.
BOARD = "virt,gic-version=3"
REPEATABLE = "dtb-randomness=off"
# Of the command line, 2048 in all, what users may add.
KERNEL_ARGS_MAX = 1000
