"""The multi-queue DMA study (Xilinx Answer 34944) as claims: every cell of its tables, on the packet-level engine.

The tables test device and link, hardly the host: software is a model written by hand. All 768 cells are simulated;
those that are transcribed here are compared.
"""

from __future__ import annotations

import copy
import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import wiretime._native as _native
from wiretime import estimates, files, runs, software, vm
from wiretime.estimates import NOWHERE, Places
from wiretime.search.show import COLOURS
from wiretime.setup import store
from wiretime.study.draw import Data
from wiretime.study.uncertainty import moved
from wiretime.validation.claims import Claim
from wiretime.validation.judge import Verdict

NAME, PAGE = "qdma", "qdma.md"
TABLE = Path(__file__).parent / "reference" / "qdma.csv"
# Behind what a row is: what binds the cell here.
BINDS = " [binds: "
SOURCE = "qdma: QDMA performance report, Xilinx Answer 34944 v2.0 (May 2023), forwarding by testpmd"
# What the report calls a platform, what it is here, and its table.
PLATFORMS = {
    "gen3x16-amd": ("epyc-7763", "table 7"),
    "gen3x16-intel": ("xeon-8168", "table 8"),
    "gen5x8-amd": ("epyc-9654", "table 9"),
}
SIZES, QUEUES = range(64, 4097, 64), (8, 4, 2, 1)
CELLS = len(PLATFORMS) * len(SIZES) * len(QUEUES)
# Rings start full: what is measured is the steady state soon.
WARM_UP, DURATION = "60us", "140us"
# What all of them take, measured on one Zen 4 core.
GUESS_SECONDS = 90.0
# A buffer that is filled less than this on average is not what the generator waits for.
WAITING, BUSY = 0.5, 0.995
CAUSES = {
    "epyc": "slower than link and device, on AMD hosts alone: a window over their latency, or software; not settled",
    "xeon": "",
}
THERE = "CPM5 QDMA on a VPK120, DPDK 22.11, one core a queue"


@dataclass(frozen=True)
class Cell:
    """A cell of the tables, simulated."""

    platform: str
    packet_size_bytes: int
    queues: int
    mpps: float
    gbps: float
    # What the rate follows from.
    binds: str


def _binds(result: Mapping[str, Any], platform: Mapping[str, Any]) -> str:
    """Return what keeps packets from coming faster."""
    statistics = result["statistics"]
    port, time = statistics["ports"][0], statistics["time_ps"]
    fill = port["receive"]["fifo_level_ps"] / time / _native.parse_size(platform["nic"][0]["rx_fifo"])
    if result["loss_percent"] > 0:
        return "core"
    if fill < WAITING:
        return "generator"
    busy = max(port["io"]["upstream_busy_ps"], port["io"]["downstream_busy_ps"]) / time
    return "link" if busy >= BUSY else "requester interface"


def _cell(name: str, checked: runs.Checked, size: int, queues: int) -> Cell:
    platform, settings = copy.deepcopy((checked.platform, checked.settings))
    platform["system"]["cores"] = queues + 1
    settings["queues"] = queues
    settings["load"]["sizes"] = {"kind": "fixed", "size": size}
    assert checked.model is not None
    outcome = software.Machine(platform, settings, checked.model).run()
    result = outcome.message["result"]
    if result["ledger_violations"]:
        raise AssertionError("; ".join(result["ledger_violations"]))
    mpps = result["offered_mpps"]
    return Cell(name, size, queues, mpps, mpps * size * 8 / 1000, _binds(result, platform))


def _requests() -> dict[str, runs.Request]:
    """Return what every cell of a platform shares."""
    usual = runs.Request(engine=software.PACKET, queues=8, cores=8, warm_up=WARM_UP, duration=DURATION)
    return {name: dataclasses.replace(usual, platform=platform) for name, (platform, _) in PLATFORMS.items()}


def parameters() -> set[str]:
    """Return the estimates of all its platforms, by parameter."""
    return {estimate.parameter for request in _requests().values() for estimate in estimates.of(request)}


def _asked(places: Places) -> dict[str, runs.Checked]:
    return {name: runs.check(moved(request, places)) for name, request in _requests().items()}


def simulate(jobs: int, places: Places = NOWHERE) -> Iterator[Cell]:
    """Yield every cell of the tables, so many at once; with estimates at places of their ranges."""
    asked = _asked(places)
    every = [(name, size, queues) for name in asked for size in SIZES for queues in QUEUES]
    yield from vm.at_once(lambda c: _cell(c[0], asked[c[0]], *c[1:]), every, jobs)


def _file(base: Path, places: Places) -> Path:
    inputs = [
        *((c.settings, c.platform) for c in _asked(places).values()),
        store.file_digest(Path(_native.__file__)),
        store.file_digest(Path(__file__)),
        software.load("testpmd-qdma"),
    ]
    return base / NAME / f"cells-{store.digest(json.dumps(inputs, sort_keys=True))[:16]}.csv"


def left(base: Path, places: Places = NOWHERE) -> bool:
    """Return whether the cells are not simulated yet."""
    return not _file(base, places).is_file()


def run(base: Path, jobs: int, places: Places = NOWHERE) -> Iterator[None]:
    """Simulate every cell, as far as it is left; yields once a cell."""
    cells = []
    for cell in simulate(jobs, places):
        cells.append(cell)
        yield
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([field.name for field in dataclasses.fields(Cell)])
    for c in cells:
        table.writerow([c.platform, c.packet_size_bytes, c.queues, f"{c.mpps:.4f}", f"{c.gbps:.3f}", c.binds])
    file = _file(base, places)
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, text.getvalue())


def simulated(base: Path, places: Places = NOWHERE) -> dict[tuple[str, int, int], Cell]:
    """Return the simulated cells by platform, size and queues."""
    if left(base, places):
        return {}
    with _file(base, places).open() as lines:
        cells = [
            Cell(
                r["platform"],
                int(r["packet_size_bytes"]),
                int(r["queues"]),
                float(r["mpps"]),
                float(r["gbps"]),
                r["binds"],
            )
            for r in csv.DictReader(lines)
        ]
    return {(c.platform, c.packet_size_bytes, c.queues): c for c in cells}


def published() -> list[dict[str, str]]:
    """Return the cells that are transcribed."""
    with TABLE.open() as lines:
        return list(csv.DictReader(lines))


def verdicts(base: Path, places: Places = NOWHERE) -> list[Verdict]:
    """Return every transcribed cell beside its simulated one, where that is there."""
    cells = simulated(base, places)
    return [_verdict(row, cells) for row in published()]


def _verdict(row: Mapping[str, str], cells: Mapping[tuple[str, int, int], Cell]) -> Verdict:
    platform, table = PLATFORMS[row["platform"]]
    size, queues = int(row["packet_size_bytes"]), int(row["queues"])
    cell = cells.get((row["platform"], size, queues))
    value = float(row["mpps"])
    claim = Claim(
        source=SOURCE,
        figure=f"{table}: {row['platform']}",
        what=f"{size} B, {queues} queue{'s' if queues > 1 else ''}" + (f"{BINDS}{cell.binds}]" if cell else ""),
        published=row["mpps"],
        value=value,
        unit="Mpps",
        kind="calibrated" if row["use"] == "calibration" else "proxy",
        there=THERE,
        here=f"{platform}, model testpmd-qdma",
        cause=CAUSES[platform.split("-")[0]],
    )
    return Verdict(claim, cell.mpps if cell else None, cell.mpps / value - 1 if cell else None, None)


def drawn(base: Path) -> tuple[Figure, Data] | None:
    """Draw bandwidth by size and queues as the report does: lines simulated, points published."""
    cells = simulated(base)
    if not cells:
        return None
    figure = Figure(figsize=(7.6, 9.0), layout="constrained")
    rows: list[dict[str, Any]] = []
    for axes, (name, (platform, table)) in zip(figure.subplots(len(PLATFORMS), 1), PLATFORMS.items(), strict=True):
        for queues, colour in zip(QUEUES, COLOURS, strict=False):
            mine = [cells[name, size, queues] for size in SIZES]
            axes.plot(
                SIZES,
                [c.gbps for c in mine],
                color=colour,
                linewidth=1.2,
                label=f"{queues} queue{'s' if queues > 1 else ''}",
            )
            there = [r for r in published() if r["platform"] == name and int(r["queues"]) == queues]
            sizes, gbps = [int(r["packet_size_bytes"]) for r in there], [float(r["gbps"]) for r in there]
            axes.scatter(sizes, gbps, color=colour, s=14, zorder=3, edgecolor="white", linewidth=0.4)
            known = dict(zip(sizes, gbps, strict=True))
            rows += [
                {
                    "platform": platform,
                    "queues": queues,
                    "size": c.packet_size_bytes,
                    "simulated_gbps": c.gbps,
                    "published_gbps": known.get(c.packet_size_bytes),
                }
                for c in mine
            ]
        axes.set_title(f"{platform} ({table}, {name})", loc="left")
        axes.set_ylabel("Gb/s")
        axes.set_ylim(bottom=0)
    axes.set_xlabel("packet size, B (lines: simulated; points: published)")
    figure.axes[0].legend(ncols=4, frameon=False)
    return figure, rows


def missed(rows: Sequence[Verdict], limit: float = 0.05) -> list[Verdict]:
    """Return the rows that are further off."""
    return [v for v in rows if v.error is not None and abs(v.error) > limit]
