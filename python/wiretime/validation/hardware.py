"""The micro-benchmarks as claims: cores, caches, DRAM and PCIe against measurements of hardware.

Each machine is one boot, and the link of PCIe is none, kept by the content of all that decides it. Where places are
given, the estimates of its platform are at those places of their ranges.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import wiretime._native as _native
from wiretime import estimates, files, paths, platforms, vm
from wiretime.errors import WiretimeError
from wiretime.estimates import NOWHERE, Places
from wiretime.micro import guest, hardware
from wiretime.request import Request
from wiretime.setup import store
from wiretime.study.point import CHANGED, simulator
from wiretime.study.uncertainty import moved
from wiretime.validation.claims import Claim
from wiretime.validation.judge import Verdict

NAME = "hardware"
SOURCE = "hardware: public measurements, each row's source in micro/cores.csv, memory.csv and pcie.csv"
HERE, LINK = "micro-benchmarks on {platform}", "DMA of a device on neoverse-n1's link, generation 3 x8, no guest"
# What one machine takes, measured on two Zen 4 cores.
GUESS_SECONDS = 60.0


def _requests() -> dict[str, Request]:
    """Return what each machine is, as a request."""
    return {
        name: Request(platform=platform, changes=changes) for name, (platform, changes) in hardware.MACHINES.items()
    }


def parameters() -> set[str]:
    """Return the estimates of all machines, by parameter."""
    return {estimate.parameter for request in _requests().values() for estimate in estimates.of(request)}


def _file(base: Path, machine: str, places: Places) -> Path:
    request = moved(_requests()[machine], places)
    table = [(hardware.FOLDER / name).read_text() for name in ("cores.csv", "memory.csv", "pcie.csv")]
    programs = [store.file_digest(paths.GUEST / "tests/bench.c"), store.file_digest(Path(hardware.__file__))]
    # What is measured without a guest is in the extension.
    programs += [store.code_digest(Path(_native.__file__)), store.file_digest(Path(guest.__file__))]
    inputs = [dict(simulator()), platforms.load(request.platform, request.changes), table, programs]
    return base / NAME / f"{machine}-{store.digest(json.dumps(inputs, sort_keys=True))[:16]}.json"


def left(base: Path, places: Places = NOWHERE) -> list[str]:
    """Return the machines that are not measured yet."""
    return [machine for machine in hardware.MACHINES if not _file(base, machine, places).is_file()]


def run(base: Path, machines: Sequence[str], jobs: int, places: Places = NOWHERE) -> Iterator[tuple[str, str | None]]:
    """Measure machines; yields each, in their order, with the reason where it failed."""

    def one(machine: str) -> tuple[str, str | None]:
        named = _file(base, machine, places)
        try:
            changes = moved(_requests()[machine], places).changes
            rows = [dataclasses.asdict(row) for row in hardware.rows(machine, changes)]
        except WiretimeError as e:
            return machine, str(e)
        if _file(base, machine, places) != named:
            return machine, CHANGED
        files.replace(named, json.dumps(rows, indent=1) + "\n")
        return machine, None

    (base / NAME).mkdir(parents=True, exist_ok=True)
    yield from vm.at_once(one, machines, jobs)


def verdicts(base: Path, places: Places = NOWHERE) -> list[Verdict]:
    """Return every row of machines that are measured."""
    rows: list[hardware.Row] = []
    for machine in hardware.MACHINES:
        path = _file(base, machine, places)
        if path.is_file():
            rows += [hardware.Row(**row) for row in json.loads(path.read_text())]
    return [_verdict(row) for row in rows]


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
