"""Both engines beside each other: what packet-level runs, whose software is a model, make of what full system runs.

Rules, fixed before anything was run: the maximum sustainable bandwidth within 3 %, mean latency within 5 %, its 99th
percentile within 15 %, misses per packet of a class within 10 % (of those of at least a hundredth a packet), the same
class of drops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from rich.console import RenderableType

from wiretime import software
from wiretime.study.folder import POINTS, Study
from wiretime.tables import plain

NAME = "engines"
MSB, LOAD = "engines-msb", "engines-load"
STUDIES = (MSB, LOAD)
PAGE = "engines.md"
LIMITS = {"msb_gbps": 0.03, "latency_mean_ns": 0.05, "latency_p99_ns": 0.15}
WORDS = {"msb_gbps": "MSB, Gb/s", "latency_mean_ns": "mean latency, ns", "latency_p99_ns": "p99, ns"}
MISSES, MISSES_LIMIT, MISSES_LEAST = "statistics.objects.", 0.10, 0.01
DROPS = "drop_share_percent"
NONE = "none"
# Of these the models know nothing.
HELD_OUT = ("ring of", "DCA", "GHz")


@dataclass(frozen=True)
class Row:
    """One figure of one configuration on both engines, and how far apart it may be; no limit: a class."""

    work: str
    what: str
    full: float | str
    packet: float | str
    limit: float | None

    @property
    def error(self) -> float | None:
        """How far the model is off."""
        if isinstance(self.full, str) or isinstance(self.packet, str):
            return None
        if not self.full:
            return math.inf if self.packet else 0.0
        return self.packet / self.full - 1

    @property
    def fits(self) -> bool:
        """Whether it is within the limit."""
        error = self.error
        return self.full == self.packet if error is None or self.limit is None else abs(error) <= self.limit

    @property
    def held_out(self) -> bool:
        """Whether the machine or program is another than the models were made from."""
        return any(word in self.work for word in HELD_OUT)


def _table(study: Study) -> list[dict[str, Any]]:
    found = duckdb.from_parquet(str(study.path / POINTS))
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def _class(row: Mapping[str, Any]) -> str:
    shares = {name.removesuffix(f"_{DROPS}"): row[name] or 0.0 for name in row if name.endswith(DROPS)}
    most = max(shares, key=lambda name: shares[name])
    return most if shares[most] else NONE


def _compared(full: Mapping[str, Any], packet: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any, float | None]]:
    searched = "msb_gbps" in full
    # Latency beside a search is that of a full ring: its packets over its rate, once more.
    for name in ["msb_gbps"] if searched else [name for name in LIMITS if name != "msb_gbps"]:
        if full.get(name) or packet.get(name):
            yield WORDS[name], full.get(name) or NONE, packet.get(name) or NONE, LIMITS[name]
    if searched:
        if (_class(full), _class(packet)) != (NONE, NONE):
            yield "lost as", _class(full), _class(packet), None
        return
    for name in full:
        if name.startswith(MISSES) and "_misses_" in name:
            forwarded = [side["cohort.forwarded"] for side in (full, packet)]
            each, its = (float(side[name]) / max(n, 1) for side, n in zip((full, packet), forwarded, strict=True))
            if max(each, its) >= MISSES_LEAST:
                yield f"{name.removeprefix(MISSES).replace('_', ' ')} per packet", each, its, MISSES_LIMIT


def rows(studies: Mapping[str, Study]) -> list[Row]:
    """Return every comparison of the studies that are finished."""
    found = []
    for name in STUDIES:
        study = studies.get(name)
        if study is None or not all(t.finished for t in study.tasks):
            continue
        table = {(r["work"], r["engine"]): r for r in _table(study)}
        for work, engine in table:
            if engine == software.FULL and (work, software.PACKET) in table:
                both = table[work, engine], table[work, software.PACKET]
                found += [Row(work, *compared) for compared in _compared(*both)]
    return found


def summary(found: Sequence[Row]) -> list[str]:
    """Return how many fit, by what is compared."""
    said = []
    for what in dict.fromkeys(_kind(r) for r in found):
        mine = [r for r in found if _kind(r) == what]
        held = [r for r in mine if r.held_out]
        limit = f" within {100 * mine[0].limit:.0f} %" if mine[0].limit is not None else " the same"
        of = f"{sum(r.fits for r in mine)} of {len(mine)}"
        said.append(f"engines, {what}: {of}{limit} ({sum(r.fits for r in held)} of {len(held)} held out)")
    return said


def _kind(row: Row) -> str:
    return "misses per packet" if " misses " in row.what else row.what.partition(",")[0]


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _cells(row: Row) -> tuple[str, ...]:
    error = "" if row.error is None or math.isinf(row.error) else f"{100 * row.error:+.1f} %"
    fits = "" if row.fits else "misfit"
    return row.work, row.what, _shown(row.full), _shown(row.packet), error, fits


HEAD = ("configuration", "figure", "full system", "model", "error", "")


def table(found: Sequence[Row]) -> RenderableType:
    """Return the rows for the screen."""
    shown = plain("the packet-level engine against full system")
    for i, name in enumerate(HEAD):
        shown.add_column(name, justify="right" if i in (2, 3, 4) else "left")
    for row in found:
        shown.add_row(*_cells(row))
    return shown


def markdown(found: Sequence[Row], made: str) -> str:
    """Return the rows as a page."""
    parts = ["# Two engines, the same machines", made, "\n".join(f"- {line}" for line in summary(found))]
    lines = ["| " + " | ".join(HEAD) + " |", "|---|---|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in found]
    return "\n\n".join([*parts, (__doc__ or "").partition("\n\n")[2].strip(), "\n".join(lines)]) + "\n"


def page(base: Path) -> Path:
    """Return where the page is."""
    return base / PAGE
