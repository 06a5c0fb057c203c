"""A user's own program or script, or build of one of ours: checked before the boot, and run as one of ours."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from wiretime.apps.kernel import network
from wiretime.apps.model import ANSWERS, CONSUMES, DRIVER_MODULES, FORWARDS, MLX5, SENDS, App, Setup
from wiretime.errors import WiretimeError, unknown
from wiretime.setup.architecture import ELF_MACHINE

ROLES = (FORWARDS, ANSWERS, CONSUMES, SENDS)
HUGEPAGES_MIB, HUGEPAGES_MAX = 512, 1 << 20
TARGET = "opt"
ARCHIVES = {False: ("dpdk",), True: ()}


@dataclass(frozen=True)
class Own:
    """What a user says of a program: files beside it, its role, whether the kernel keeps the NIC, its huge pages."""

    files: Sequence[Path] = ()
    role: str = FORWARDS
    kernel: bool = False
    hugepages_mib: int = HUGEPAGES_MIB

    def said(self) -> str:
        """Return the option that says something of a program of the user's own, if there is one."""
        usual = Own()
        if self.role != usual.role:
            return f"--role {self.role}"
        if self.kernel:
            return "--kernel"
        return f"--hugepages {self.hugepages_mib}" if self.hugepages_mib != usual.hugepages_mib else ""


def _needed(path: Path) -> list[str]:
    """Return the libraries that a program or library for the guest needs; a script needs none."""
    with path.open("rb") as f:
        if f.read(2) == b"#!":
            return []
        f.seek(0)
        try:
            elf = ELFFile(f)
            machine = elf["e_machine"]
            dynamic = elf.get_section_by_name(".dynamic")
        except ELFError:
            raise WiretimeError(f"{path}: is neither a program for Linux nor a script (#!)") from None
        if machine != ELF_MACHINE:
            its, ours = (name.removeprefix("EM_") for name in (machine, ELF_MACHINE))
            raise WiretimeError(f"{path}: is a program for {its}; the guest is {ours} (`wiretime build` makes one)")
        if not isinstance(dynamic, DynamicSection):
            return []
        return [str(vars(tag)["needed"]) for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def _check(program: Path, files: Sequence[Path], in_image: Callable[[], set[str]]) -> None:
    """Raise where a library is in none of the image, the files, and their folders."""
    given = {f.name for f in files}
    for path in (program, *(f for f in files if ".so" in f.name)):
        missing = [name for name in _needed(path) if name not in given]
        missing = [name for name in missing if name not in in_image()]
        if missing:
            raise WiretimeError(f"{path}: needs {', '.join(missing)}, which the guest has not; add it with --files")


def beside(app: App, own: Own, in_image: Callable[[], set[str]]) -> dict[str, Path]:
    """Return where a user's build of the program of one of our applications comes to be in the guest, and its files."""
    if app.name not in (f.name for f in own.files):
        raise WiretimeError(f"--files: {app.name} is not a program of yours; one called {app.name} would run instead")
    return _there(sorted(own.files, key=lambda f: f.name != app.name), in_image)


def instead(app: App, found: Callable[[], Mapping[str, Path]]) -> App:
    """Return an application that runs another build of its program than the guest's: the one among these files."""
    if not app.packaged:
        raise WiretimeError(f"{app.name} takes no other build of its program (--files, {app.name}@RELEASE)")
    files = found()

    def line(s: Setup) -> str:
        return f"export PATH=/{TARGET}:$PATH LD_LIBRARY_PATH=/{TARGET} && {app.line(s)}"

    return replace(app, line=line, files={**app.files, **files})


def _there(paths: Sequence[Path], in_image: Callable[[], set[str]]) -> dict[str, Path]:
    """Return where a program and what is beside it come to be in the guest; raises where one cannot run there."""
    for path in paths:
        if not path.is_file():
            raise WiretimeError(f"{path}: no such file")
    _check(paths[0], paths[1:], in_image)
    return {f"{TARGET}/{path.name}": path for path in paths}


# What follows takes the shell's place, and is told to end when that is wanted.
TOLD = """sh -c '(wtctl wait-stop && kill -TERM $$) & exec "$@"' sh"""


def user(program: Path, own: Own, in_image: Callable[[], set[str]]) -> App:
    """Return the application that runs a user's program."""
    files = _there((program, *own.files), in_image)
    if own.role not in ROLES:
        raise unknown("role", own.role, ROLES)
    if not 0 <= own.hugepages_mib <= HUGEPAGES_MAX:
        raise WiretimeError(f"--hugepages {own.hugepages_mib}: allowed are 0 to {HUGEPAGES_MAX} MiB")
    if not os.access(program, os.X_OK):
        raise WiretimeError(f"{program}: cannot be executed (chmod +x)")
    start = f"LD_LIBRARY_PATH=/{TARGET} {shlex.quote(f'/{TARGET}/{program.name}')}"

    def line(s: Setup) -> str:
        # Its arguments follow; "{eal}" among them stands for cores and memory channels.
        return f"{network(s)} && {TOLD} env {start}" if own.kernel else f"env {start}"

    return App(
        name=program.name,
        summary="a program of the user's",
        stresses="",
        line=line,
        archives=ARCHIVES[own.kernel],
        memory=lambda _: 0 if own.kernel else own.hugepages_mib,
        role=lambda _: own.role,
        kernel=own.kernel,
        start_at="mark" if own.kernel else "receiver-ready",
        queues=True,
        stop="signal",
        min_cores=1 if own.kernel else 2,
        interfaces=(*DRIVER_MODULES, *MLX5) if own.kernel else (*DRIVER_MODULES, *MLX5, "qdma"),
        more_interfaces={} if own.kernel else {"qdma": "net_qdma"},
        files=files,
        takes_arguments=True,
    )
