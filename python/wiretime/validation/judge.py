"""Published against simulated: each claim's value from the studies' tables, its error, whether it agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import duckdb

from wiretime.study import folder
from wiretime.validation.claims import Claim

# Errors that count as near, and as rough size.
NEAR, ROUGH = 0.10, 0.25
# What the rules' SQL may use beside what DuckDB has.
MACROS = """
CREATE MACRO gain(a, b) AS 100 * (b / a - 1);
CREATE MACRO dominant(dma, core, tx, host) AS CASE
    WHEN coalesce(dma, core, tx, host) IS NULL THEN 'none'
    WHEN dma >= greatest(core, tx, host) THEN 'dma'
    WHEN core >= greatest(tx, host) THEN 'core'
    WHEN tx >= host THEN 'tx'
    ELSE 'host' END;
"""


@dataclass(frozen=True)
class Verdict:
    """A claim with what was simulated: ``None`` where the points that it needs are not there."""

    claim: Claim
    simulated: float | str | None
    # Relative; of shares in points.
    error: float | None
    agrees: bool | None

    @property
    def near(self) -> bool:
        """Whether it fits: a trend that agrees, a value within 10 % or 10 points."""
        if self.error is None:
            return self.agrees is not False
        return abs(self.error) <= (100 * NEAR if self.claim.scale == "points" else NEAR)


def error(claim: Claim, simulated: float) -> float | None:
    """Return how far apart published and simulated are."""
    if claim.value is None or claim.kind == "trend":
        return None
    if claim.scale == "points":
        return simulated - claim.value
    if claim.scale == "gain":
        return (100 + simulated) / (100 + claim.value) - 1
    return simulated / claim.value - 1


class Tables:
    """The tables of finished studies, asked together."""

    def __init__(self, studies: Mapping[str, Path]):
        self.connection = duckdb.connect()
        self.connection.execute(MACROS)
        for name, path in studies.items():
            for suffix, file in (("", folder.POINTS), ("_times", folder.TIMES)):
                if (path / file).is_file():
                    view = f"{name.replace('-', '_')}{suffix}"
                    self.connection.from_parquet(str(path / file)).create_view(view)

    def value(self, sql: str) -> float | str | bool | None:
        """Return the one value that a query finds; ``None`` where its study or point is not there."""
        try:
            found = self.connection.execute(sql).fetchone()
        except duckdb.CatalogException:
            return None
        value = found[0] if found else None
        return value if value is None or isinstance(value, str | bool) else float(value)


def verdict(claim: Claim, tables: Tables) -> Verdict:
    """Return what a claim's studies say of it."""
    simulated = None if claim.skip else tables.value(claim.simulated)
    if simulated is None:
        return Verdict(claim, None, None, None)
    if isinstance(simulated, str):
        holds = tables.value(claim.holds) if claim.holds else simulated == claim.published
        return Verdict(claim, simulated, None, bool(holds))
    agrees = None if claim.agrees is None else claim.agrees[0] <= simulated <= claim.agrees[1]
    return Verdict(claim, simulated, error(claim, simulated), agrees)


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Return how many rows fit, by source and kind."""
    said = []
    for source in dict.fromkeys(v.claim.source for v in verdicts):
        name = source.partition(":")[0]
        mine = [v for v in verdicts if v.claim.source == source]
        for kind in ("like for like", "proxy", "calibrated"):
            found = [v for v in mine if v.claim.kind == kind and v.error is not None]
            values = [abs(v.error) for v in found if v.error is not None and v.claim.scale != "points"]
            shares = [abs(v.error) for v in found if v.error is not None and v.claim.scale == "points"]
            if values:
                near, rough = (sum(e <= limit for e in values) for limit in (NEAR, ROUGH))
                said.append(
                    f"{name}, {kind}: {len(values)} values, {near} within {100 * NEAR:.0f} %, {rough} within "
                    f"{100 * ROUGH:.0f} %; median error {100 * median(values):.0f} %"
                )
            if shares:
                near, rough = (sum(e <= 100 * limit for e in shares) for limit in (NEAR, ROUGH))
                said.append(
                    f"{name}, {kind}: {len(shares)} shares, {near} within {100 * NEAR:.0f} points, {rough} within "
                    f"{100 * ROUGH:.0f}; median {median(shares):.0f}"
                )
        trends = [v.agrees for v in mine if v.agrees is not None]
        if trends:
            said.append(f"{name}, trend: {sum(trends)} of {len(trends)} agree")
    missing = sum(v.simulated is None and not v.claim.skip for v in verdicts)
    skipped = sum(bool(v.claim.skip) for v in verdicts)
    return [*said, *([f"not run: {missing}"] if missing else []), *([f"not possible: {skipped}"] if skipped else [])]
