"""Published against simulated: each claim's value from the studies' tables, its error, whether it agrees."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, get_args

import duckdb

from wiretime.errors import WiretimeError
from wiretime.study.folder import POINTS, TIMES, Study
from wiretime.validation.claims import Claim, Earlier, Kind

# Errors that count as near, and as rough size.
NEAR, ROUGH = 0.10, 0.25
# Shares of processor time below this, published and here, fit by themselves: they do not count.
SHARE_MIN = 1.0
# Nothing that the query looks for has happened.
NONE = "none"
# What the rules' SQL may use beside what DuckDB has.
MACROS = """
CREATE MACRO gain(a, b) AS 100 * (b / a - 1);
CREATE MACRO among(share, host) AS 100 * share / nullif(100 - host, 0);
CREATE MACRO dominant(dma, core, tx, host) AS CASE
    WHEN coalesce(dma, core, tx, host) IS NULL THEN 'none'
    WHEN dma >= greatest(core, tx, host) THEN 'dma'
    WHEN core >= greatest(tx, host) THEN 'core'
    WHEN tx >= host THEN 'tx'
    ELSE 'host' END;
"""


@dataclass(frozen=True)
class Verdict:
    """A claim with what was simulated: ``None`` where its studies are not finished."""

    claim: Claim
    simulated: float | str | None
    # Relative; of shares in points.
    error: float | None
    agrees: bool | None
    # What rules say by which it was judged before.
    earlier: Sequence[tuple[str, Verdict]] = ()
    # Where the platform's estimates may take what is simulated, where that was asked for.
    span: tuple[float, float] | None = None

    @property
    def allowed(self) -> bool:
        """Whether estimates elsewhere in their ranges give what was published, within its grid."""
        if self.span is None or self.claim.value is None:
            return False
        return self.span[0] <= self.claim.value + self.claim.grid and self.claim.value <= self.span[1]

    @property
    def misses_all(self) -> bool:
        """Whether a number was published, and here there is none: nothing that the query looks for has happened."""
        of_values = self.claim.kind != "trend"
        return of_values and self.claim.value is not None and self.error is None and self.simulated == NONE

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
    # Within a step of a published grid nothing is known: the nearest of its ends counts.
    nearest = min(max(simulated, claim.value), claim.value + claim.grid)
    return simulated / nearest - 1


class Tables:
    """The tables of studies, asked together; of those alone whose points are all finished."""

    def __init__(self, studies: Mapping[str, Study], narrowed: Collection[str] = ()):
        # What these lack has not been run: what a query does not find is no result.
        self.narrowed = frozenset(narrowed)
        self.connection = duckdb.connect()
        self.connection.execute(MACROS)
        self.studies = {name for name, study in studies.items() if all(t.finished for t in study.tasks)}
        for name in self.studies:
            for suffix, file in (("", POINTS), ("_times", TIMES)):
                view = f"{name.replace('-', '_')}{suffix}"
                self.connection.from_parquet(str(studies[name].path / file)).create_view(view)

    def value(self, claim: Claim, sql: str) -> float | str | bool | None:
        """Return the one value that a query finds."""
        try:
            found = self.connection.execute(sql).fetchone()
        except duckdb.Error as e:
            raise WiretimeError(f"{claim.figure}, {claim.what}: {str(e).splitlines()[0]}") from None
        value = found[0] if found else None
        return value if value is None or isinstance(value, str | bool) else float(value)


def verdict(claim: Claim, tables: Tables) -> Verdict:
    """Return what a claim's studies say of it, by its rule and by those before."""
    earlier = [
        (before.rule, _verdict(replace(claim, grid=0.0, holds="", **_given(before)), tables))
        for before in claim.earlier
    ]
    return replace(_verdict(claim, tables), earlier=earlier)


def _given(before: Earlier) -> dict[str, Any]:
    value = {"published": before.derived, "value": float(before.derived)} if before.derived else {}
    return value | {name: given for name in ("simulated", "agrees", "unit") if (given := getattr(before, name))}


def _verdict(claim: Claim, tables: Tables) -> Verdict:
    if claim.skip or not tables.studies.issuperset(claim.studies):
        return Verdict(claim, None, None, None)
    simulated = tables.value(claim, claim.simulated)
    if simulated is None:
        left_out = not tables.narrowed.isdisjoint(claim.studies)
        return Verdict(claim, None, None, None) if left_out else Verdict(claim, NONE, None, False)
    if isinstance(simulated, str):
        holds = tables.value(claim, claim.holds) if claim.holds else simulated == claim.published
        return Verdict(claim, simulated, None, bool(holds))
    agrees = None if claim.agrees is None else claim.agrees[0] <= simulated <= claim.agrees[1]
    if agrees and claim.holds:
        agrees = bool(tables.value(claim, claim.holds))
    return Verdict(claim, simulated, error(claim, simulated), agrees)


def _counts(v: Verdict) -> bool:
    """Return whether a share is worth comparing, on one of the sides."""
    here = v.simulated if isinstance(v.simulated, float) else 0.0
    return max(v.claim.value or 0.0, here) >= SHARE_MIN


def _many(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'s'[: len(found) != 1]}"


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Return how many rows fit: by source, by machine where there are several, by kind."""
    said = []
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for v in verdicts:
        label = f" on {v.claim.label}" if v.claim.label else ""
        groups.setdefault((f"{v.claim.source.partition(':')[0]}{label}", v.claim.kind), []).append(v)
    sources = list(dict.fromkeys(name for name, _ in groups))
    for (name, kind), mine in sorted(
        groups.items(), key=lambda g: (sources.index(g[0][0]), get_args(Kind).index(g[0][1]))
    ):
        found = [(v, abs(v.error)) for v in mine if v.error is not None]
        # A number that does not come about here at all is beyond every limit.
        found += [(v, math.inf) for v in mine if v.misses_all]
        values = [e for v, e in found if v.claim.scale != "points"]
        if values:
            near, rough = (sum(e <= limit for e in values) for limit in (NEAR, ROUGH))
            said.append(
                f"{name}, {kind}: {_many(values, 'value')}, {near} within {100 * NEAR:.0f} %, {rough} within "
                f"{100 * ROUGH:.0f} %; median error {100 * median(values):.0f} %"
            )
        shares = [e for v, e in found if v.claim.scale == "points" and _counts(v)]
        if shares:
            near, rough = (sum(e <= 100 * limit for e in shares) for limit in (NEAR, ROUGH))
            said.append(
                f"{name}, {kind}: {_many(shares, 'share')} of {SHARE_MIN:.0f} % and more, {near} within "
                f"{100 * NEAR:.0f} points, {rough} within {100 * ROUGH:.0f}; median error {median(shares):.0f} points"
            )
        agree = [v.agrees for v in mine if v.agrees is not None and not v.misses_all]
        if agree:
            what = "" if kind == "trend" else " that are no numbers"
            said.append(f"{name}, {kind}: {sum(agree)} of {len(agree)}{what} agree")
    # What is calibrated shows nothing new, and what is compared again has been counted.
    shown = [v for v in verdicts if v.span and v.error is not None and v.claim.kind in ("like for like", "proxy")]
    ranged = [v for v in shown if v.claim.scale != "points" or _counts(v)]
    if ranged:
        allowed = sum(v.allowed for v in ranged)
        said.append(f"published within what the estimates allow: {allowed} of {_many(ranged, 'value')}")
    missing = sum(v.simulated is None and not v.claim.skip for v in verdicts)
    skipped = sum(bool(v.claim.skip) for v in verdicts)
    return [
        *said,
        *([f"not run: {missing}"] if missing else []),
        *([f"not possible: {skipped}, each says why"] if skipped else []),
    ]
