"""The micro-benchmarks as claims: cores, caches, DRAM and PCIe against measurements of hardware.

Each machine is one boot, kept by the content of all that decides it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from wiretime import files, paths, platforms, vm
from wiretime.errors import WiretimeError
from wiretime.micro import hardware
from wiretime.setup import store
from wiretime.study.point import simulator
from wiretime.validation.claims import Claim
from wiretime.validation.judge import Verdict

NAME = "hardware"
SOURCE = "hardware: public measurements, each row's source in micro/cores.csv, memory.csv and pcie.csv"
HERE, LINK = "micro-benchmarks on {platform}", "DMA of a device on neoverse-n1's link, generation 3 x8, no guest"
# What one machine takes, measured on two Zen 4 cores.
GUESS_SECONDS = 60.0


def _file(base: Path, machine: str) -> Path:
    platform, changes = hardware.MACHINES[machine]
    table = [(hardware.FOLDER / name).read_text() for name in ("cores.csv", "memory.csv")]
    programs = [store.file_digest(paths.GUEST / "tests/bench.c"), store.file_digest(Path(hardware.__file__))]
    inputs = [dict(simulator()), platforms.load(platform, changes), table, programs]
    return base / NAME / f"{machine}-{store.digest(json.dumps(inputs, sort_keys=True))[:16]}.json"


def left(base: Path) -> list[str]:
    """Return the machines that are not measured yet."""
    return [machine for machine in hardware.MACHINES if not _file(base, machine).is_file()]


def run(base: Path, machines: Sequence[str], jobs: int) -> Iterator[tuple[str, str | None]]:
    """Measure machines; yields each, in their order, with the reason where it failed."""

    def one(machine: str) -> tuple[str, str | None]:
        try:
            rows = [dataclasses.asdict(row) for row in hardware.rows(machine)]
        except WiretimeError as e:
            return machine, str(e)
        files.replace(_file(base, machine), json.dumps(rows, indent=1) + "\n")
        return machine, None

    (base / NAME).mkdir(parents=True, exist_ok=True)
    yield from vm.at_once(one, machines, jobs)


def verdicts(base: Path) -> list[Verdict]:
    """Return every row of machines that are measured, and all of PCIe, which needs no guest."""
    rows: list[hardware.Row] = []
    for machine in hardware.MACHINES:
        path = _file(base, machine)
        if path.is_file():
            rows += [hardware.Row(**row) for row in json.loads(path.read_text())]
    return [_verdict(row) for row in (*rows, *hardware.pcie())]


def _verdict(row: hardware.Row) -> Verdict:
    machine = hardware.MACHINES.get(row.machine)
    claim = Claim(
        source=SOURCE,
        figure=row.machine,
        what=row.what + (f" [{row.rests_on}]" if row.rests_on else ""),
        published=f"{row.measured:g}",
        value=row.measured,
        unit=row.unit,
        # Of pcie-bench's hosts only the link is here; caches and memory are N1's.
        kind="calibrated" if row.rests_on else "like for like" if machine else "proxy",
        there=row.machine,
        here=HERE.format(platform=machine[0]) if machine else LINK,
        cause=row.cause,
        skip=row.skip,
    )
    return Verdict(claim, row.simulated, row.error, None)
