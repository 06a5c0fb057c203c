"""The micro-benchmarks against published measurements.

Each row of `cores.csv`, `memory.csv` and `pcie.csv` has its source: public measurements, transcribed.
One parameter set a core; a machine changes what its data sheet says is different. A row that a parameter was calibrated
on, or that is a parameter itself, says so; all others are predictions. Misfits stay, with their cause where known.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import wiretime._native as _native
from wiretime import platforms
from wiretime.micro import guest

FOLDER = Path(__file__).parent

MAX_LATENCY = ("llc.latency=25.5ns", "llc.device_latency=25.5ns", "llc.device_past_latency=25.5ns")
# The link of all hosts of pcie.csv, and what they have for caches and memory.
LINK = "pcie-bench"
# Platform and changes of each machine in cores.csv.
MACHINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "altra-q80-26": ("ampere-altra", ("core.frequency=2.6GHz",)),
    "altra-q80-30": ("ampere-altra", ()),
    "altra-cax11": ("ampere-altra", ()),
    # Altra Max: half the cache, and a mesh of its own.
    "altra-max-m96-28": ("ampere-altra", ("core.frequency=2.8GHz", "llc.size=16MiB", *MAX_LATENCY)),
    "altra-max-m128": ("ampere-altra", ("llc.size=16MiB", *MAX_LATENCY)),
    "graviton2": ("neoverse-n1", ()),
    "graviton4": ("neoverse-v2", ()),
    # A socket of MareNostrum 5, its cores streaming: only memory under load, without a guest.
    "grace-mn5": ("grace", ()),
    LINK: ("neoverse-n1", ()),
}
# As many cores that stream as the directory of private copies tells apart, beside one that follows pointers; cycles
# between two accesses of each. Caches, which streams do not use, are small, so that they are full soon.
STREAMS, PAUSES = 62, (100_000, 160, 120, 90, 70, 55, 45, 38, 33, 29, 1)
SMALL, SMALL_LLC = ("l2.size=256KiB",), {"neoverse-n1": "8MiB", "neoverse-v2": "12MiB", "grace": "12MiB"}
# Where only the most is asked for.
FULL = PAUSES[-3:]
# One way through the PCIe of hosts of pcie.csv, from the measured round trip of a read of 8 B.
HOSTS = {"e5-2630": 184, "e5-2620v2": 191, "e5-2637v3": 231, "e5-2620v3": 211, "e5-2630v4": 211}
# The NFP-6000 of pcie-bench: generation 3 x8, and what its DMA engine adds to a read, calibrated on the 64 B rows.
DEVICE = (
    *("slot.generation=3", "slot.lanes=8", "pcie.tags=32", "pcie.max_payload=256", "pcie.max_read_request=512"),
    # Symbol times; hardware.csv: ACK latency limit x8 MPS 256.
    "pcie.dllp_interval=203",
)
ENGINE_NS = 120.0

IN_ORDER = "requests are scheduled once, in the order in which they come: controllers put row hits and writes together"
CHANNELS = "16 channels of 32 bits are modelled, a power of two; there are 24"
SCATTER = "as large as the L2: which pages collide is drawn at random, in runs of 16"
# Why a row misses, where known: machine, benchmark, smallest and largest argument.
CAUSES = (
    (("altra-cax11", "chase4k", 2048, 32768), "a share of a cloud host: other guests use its system-level cache"),
    (("altra", "chase4k", 1024, 1024), SCATTER),
    (("altra", "chase4k", 16384, 32768), "as large as the system-level cache: exact LRU here, hashed slices there"),
    (("altra", "random", 16384, 32768), "as large as the system-level cache: exact LRU here, hashed slices there"),
    (
        ("altra-max", "random", 65536, 65536),
        "tinymembench reads bytes of random lines; its DRAM latency is below the chase's",
    ),
    (("altra-max", "random4k", 1024, 1024), SCATTER),
    (("altra-cax11", "read", 0, 1 << 20), "a share of a cloud host"),
    (("altra-max", "read", 0, 1 << 20), "other prefetcher settings or memory; its latencies agree"),
    (("graviton2", "read", 0, 65536), "the measurement mixes loads and stores"),
    (("graviton4", "read", 0, 131072), "the measurement mixes loads and stores"),
)


@dataclass(frozen=True)
class Row:
    """A measured value and the simulated one."""

    machine: str
    what: str
    measured: float
    # None: cannot be, and `skip` says why.
    simulated: float | None
    unit: str
    rests_on: str
    cause: str = ""
    skip: str = ""

    @property
    def error(self) -> float | None:
        """Return the relative error, where the row is simulated."""
        return None if self.simulated is None else self.simulated / self.measured - 1


def _cause(machine: str, job: str, argument: int) -> str:
    for (name, kind, low, high), cause in CAUSES:
        if machine.startswith(name) and job == kind and low <= argument <= high:
            return cause
    return ""


def _convert(ns: float, unit: str, cycle: float, l1: float) -> float:
    if unit == "GB/s":
        return 64 / ns
    if unit == "B/cycle":
        return 64 / ns * cycle
    if unit == "cycles":
        return ns / cycle
    return ns - l1 if unit == "ns beyond L1" else ns  # `l1`: the same reads inside the L1


def rows(machine: str, changes: Sequence[str]) -> list[Row]:
    """Return the rows of one machine, simulated as its platform with changes."""
    platform, _ = MACHINES[machine]
    if machine == LINK:
        return [*_pcie(platform, changes)]
    return [*_cores(machine, platform, changes), *_loaded(machine, platform, changes)]


def _of(table: str, machine: str) -> list[dict[str, str]]:
    with (FOLDER / table).open(newline="") as f:
        return [r for r in csv.DictReader(f) if r["machine"] == machine]


def _loaded(machine: str, platform: str, changes: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of ``memory.csv`` of one machine: latency and bandwidth with a share of reads."""
    mine = _of("memory.csv", machine)
    small = [*changes, *SMALL, f"llc.size={SMALL_LLC[platform]}"] if mine else []
    text = json.dumps(platforms.load(platform, small)) if mine else ""
    for reads in dict.fromkeys(int(r["reads"]) for r in mine):
        # A store reads its line and writes it: DRAM sees a read an access, and a write a store.
        stores = round(100 * (100 / reads - 1))
        curved = any(int(r["reads"]) == reads and r["gbytes_per_s"] for r in mine)
        # So that the loads are the same.
        pauses = [pause * (100 + stores) // 100 for pause in (PAUSES if curved else FULL)]
        points = [_native.probe_memory(text, STREAMS, stores, pause) for pause in pauses]
        # Up to the most that is carried: beyond, only waits grow.
        most = max(range(len(points)), key=lambda i: points[i][0])
        curve = [(gbytes, ns) for gbytes, _, ns in points[: most + 1]]
        for r in mine:
            if int(r["reads"]) == reads:
                yield _on_curve(r, curve)


def _on_curve(r: Mapping[str, str], curve: Sequence[tuple[float, float]]) -> Row:
    simulated: float | None = curve[-1][0]
    skip = ""
    if r["gbytes_per_s"]:
        at = float(r["gbytes_per_s"])
        after = next((i for i, (gbytes, _) in enumerate(curve) if gbytes >= at), None)
        if after is None:
            simulated, skip = None, f"memory carries {curve[-1][0]:.0f} GB/s of this mix here"
        else:
            (below, low), (above, high) = curve[max(after - 1, 0)], curve[after]
            simulated = high if above == below else low + (high - low) * (at - below) / (above - below)
    cause = "" if r["rests_on"] else CHANNELS if r["machine"] == "graviton4" else IN_ORDER
    return Row(r["machine"], r["what"], float(r["measured"]), simulated, r["unit"], r["rests_on"], cause, skip)


def _cores(machine: str, platform: str, changes: Sequence[str]) -> list[Row]:
    mine = _of("cores.csv", machine)
    if not mine:
        return []
    jobs = [(r["job"], int(r["argument"])) for r in mine]
    inside = ("random", 16)
    got = guest.measure(platform, [*jobs, inside], changes)
    cycle = guest.cycle(guest.machine(platform, changes))
    return [
        Row(
            machine,
            r["what"],
            float(r["measured"]),
            _convert(got[job], r["unit"], cycle, got[inside]),
            r["unit"],
            r["rests_on"],
            _cause(machine, *job),
        )
        for r, job in zip(mine, jobs, strict=True)
    ]


def _pcie(platform: str, changes: Sequence[str]) -> Iterator[Row]:
    """Yield every row of ``pcie.csv``, simulated where it can be."""
    with (FOLDER / "pcie.csv").open(newline="") as f:
        for r in csv.DictReader(f):
            what, measured, unit = r["what"], float(r["measured"]), r["unit"]
            if r["skip"]:
                yield Row(r["host"], what, measured, None, unit, r["rests_on"], skip=r["skip"])
                continue
            of_row = [
                *changes,
                *DEVICE,
                f"pcie.latency={HOSTS[r['host']]}ns",
                f"iommu.enabled={str(r['iommu'] == 'on').lower()}",
            ]
            table = json.dumps(platforms.load(platform, of_row))
            warm = r["host_memory"] == "cached"
            ns, gbps = _native.probe_dma(table, r["access"], int(r["bytes"]), int(r["window"]), warm)
            engine = ENGINE_NS if r["probe"] == "latency" else 0.0
            simulated = gbps if r["probe"] == "throughput" else ns + engine
            yield Row(r["host"], what, measured, simulated, unit, r["rests_on"], _cause_of_dma(r))


def _cause_of_dma(r: Mapping[str, str]) -> str:
    probe, access, size = r["probe"], r["access"], int(r["bytes"])
    if probe == "throughput" and size <= 128:
        return "the device issues 41 to 62 million transactions a second, whatever the link carries"
    if probe == "throughput" and access == "both" and size > 256:
        return "the device's internal memory is shared by both directions"
    if probe == "latency" and size == 2048:
        return "the device's own transfers, some 300 ns for 2 KiB, are not part of the host"
    if probe != "throughput" and access == "both":
        return "what the device takes between its write and its read is not part of the host"
    if r["iommu"] == "on" and int(r["window"]) == 512 * 1024:
        return (
            "64 entries, as was inferred, hold half of it; means published for this and larger windows fit 128 entries"
        )
    return ""
