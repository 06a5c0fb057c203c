"""What was published, row by row, with how it is simulated and how far the two are alike.

A row is *like for like* where the same driver drives the same device in a machine of the same parameters: it counts for
the error. It is a *proxy* where core and memory are the same and driver or NIC are not, and a *trend* where only a
direction or rank can be compared. A row that a parameter was *calibrated* on shows no more than that. A published value
counts once: on a further platform it is compared *again*. Every row of a table has a rule; one that is not simulated
says why, and one whose rule has changed shows what the rules before it say.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import duckdb
from pydantic import BaseModel, ConfigDict, Field

from wiretime.errors import WiretimeError
from wiretime.setup import debian, older
from wiretime.setup import dpdk as builds

FOLDER = Path(__file__).parent / "reference"
TABLES = ("gem5_dpdk", "redhat_n1", "forwarding", "grace_l3fwd")

Kind = Literal["like for like", "proxy", "trend", "calibrated", "again"]
# How an error is expressed: of values their ratio, of gains the ratio of the factors, of shares points.
Scale = Literal["ratio", "gain", "points"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Table):
    """Where rows come from."""

    title: str
    # Its studies beside those that rows need: figures without published values.
    studies: tuple[str, ...] = ()
    # What its rows' figure is called, where no column says it.
    figure: str = ""


class Setup(_Table):
    """On what was measured, and on what is simulated."""

    kind: Kind
    there: str
    here: str
    # Tells rows apart that are simulated more than once.
    label: str = ""
    # The build of DPDK that it needs.
    dpdk: str = builds.DEBIAN
    # The application, where it may not be set up: of an older release.
    app: str = ""


class Earlier(_Table):
    """How a row was judged before: what is not given was as now."""

    rule: str
    # As a rule's: an expression of the row's columns, and its unit. Of a claim: the value.
    derived: str = ""
    unit: str = ""
    simulated: str = ""
    agrees: tuple[float, float] | None = None


class Rule(_Table):
    """How rows are simulated, on each set-up (this|and that): those whose columns are as said (this|or that)."""

    match: dict[str, str]
    setup: str
    what: str
    # Where it is other than the set-up's.
    kind: Kind | None = None
    # Where the row's value does not say it: another text; an expression of the row's columns (SQL), and its unit.
    published: str = ""
    derived: str = ""
    unit: str = ""
    studies: tuple[str, ...] = ()
    # SQL over the studies.
    simulated: str = ""
    # Of a trend: the least and the most that agree, and SQL that has to hold besides. A text must be the published one.
    agrees: tuple[float | str, float | str] | None = None
    holds: str = ""
    # The step of the loads that were tried there: the published one is the last without loss.
    grid: float = 0.0
    earlier: tuple[Earlier, ...] = ()
    # Why it misses, where it does and that is known.
    cause: str = ""
    # Why it is not simulated.
    skip: str = ""


class Rules(_Table):
    """A table's rules."""

    source: Source
    setups: dict[str, Setup]
    words: dict[str, str] = {}
    rules: tuple[Rule, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Claim:
    """A published row, and what is simulated against it."""

    source: str
    figure: str
    what: str
    published: str
    value: float | None
    unit: str
    kind: Kind
    there: str
    here: str
    cause: str = ""
    scale: Scale = "ratio"
    studies: Sequence[str] = ()
    simulated: str = ""
    agrees: tuple[float, float] | None = None
    holds: str = ""
    grid: float = 0.0
    earlier: Sequence[Earlier] = ()
    skip: str = ""
    # Of the machine, where a row is simulated on several.
    label: str = ""


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@cache
def _calculator() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _evaluated(expression: str) -> float:
    value = _calculator().execute(f"SELECT {expression}").fetchall()[0][0]
    if value is None:
        raise WiretimeError(f"no value: {expression}")
    return float(value)


def _derived(expression: str, row: Mapping[str, str]) -> str:
    return f"{_evaluated(expression.format(**row)):.4g}" if expression else ""


def _scale(row: Mapping[str, str]) -> Scale:
    if row["unit"] != "%":
        return "ratio"
    return "gain" if "gain" in row["metric"] or "speedup" in row["metric"] else "points"


def _claim(source: str, row: Mapping[str, str], rule: Rule, setup: Setup, rules: Rules) -> Claim:
    plain = {k: v.strip() for k, v in row.items()}
    named = {"dpdk": setup.dpdk, "app": setup.app, **{k: rules.words.get(v, v) for k, v in plain.items()}}
    published = _derived(rule.derived, plain) or rule.published or plain["value"]
    limits = None
    if rule.agrees is not None:
        low, high = (float(str(limit).format(**plain)) for limit in rule.agrees)
        limits = (low, high)
    return Claim(
        source=source,
        figure=rules.source.figure or plain.get("figure") or plain.get("part") or plain.get("test", ""),
        what=rule.what.format(**plain) + (f" ({setup.label})" if setup.label else ""),
        published=published,
        value=_number(published),
        unit=(rule.unit or plain["unit"]).replace("Gbps", "Gb/s").replace("Mbps", "Mb/s"),
        kind=rule.kind or setup.kind,
        scale=_scale(plain),
        there=setup.there.format(**plain),
        here=setup.here.format(**debian.releases()),
        studies=rule.studies,
        simulated=rule.simulated.format(**named),
        agrees=limits,
        holds=rule.holds.format(**named),
        grid=rule.grid,
        earlier=[
            e.model_copy(update={"derived": _derived(e.derived, plain), "simulated": e.simulated.format(**named)})
            for e in rule.earlier
        ],
        cause=rule.cause,
        skip=rule.skip or builds.missing(setup.dpdk) or older.missing(setup.app),
        label=setup.label,
    )


def _matches(rule: Rule, row: Mapping[str, str]) -> bool:
    return all(row[column] in texts.split("|") for column, texts in rule.match.items())


@cache
def _rules(name: str) -> Rules:
    return Rules.model_validate(tomllib.loads((FOLDER / f"{name}.toml").read_text()))


def _of_table(name: str) -> Iterator[Claim]:
    rules = _rules(name)
    with (FOLDER / f"{name}.csv").open(newline="") as f:
        rows: list[dict[str, Any]] = list(csv.DictReader(f))
    for number, row in enumerate(rows, 2):
        matching = [rule for rule in rules.rules if _matches(rule, row)]
        if not matching:
            raise WiretimeError(f"{name}.csv, line {number}: no rule of {name}.toml matches")
        # A rule without a study is for what no other takes.
        taken = [rule for rule in matching if rule.studies] or matching[:1]
        for rule in taken:
            for setup in rule.setup.split("|"):
                yield _claim(rules.source.title, row, rule, rules.setups[setup], rules)


def load() -> list[Claim]:
    """Return every claim of every table."""
    return [claim for name in TABLES for claim in _of_table(name)]


def further() -> list[str]:
    """Return the studies whose figures have no published values."""
    return [study for name in TABLES for study in _rules(name).source.studies]
