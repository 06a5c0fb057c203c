"""Estimates of a machine, and how far each may be from its value.

An estimate is a parameter whose comment in a platform's, card's or DRAM grade's file says so: nobody publishes it. Its
range is in ``platforms/estimates/ranges.toml``. Values that are published, or calibrated on a measurement, have none
here: what they leave uncertain is not what this is about.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, model_validator
from tomlkit.items import AoT, InlineTable, Table

from wiretime import platforms
from wiretime.errors import WiretimeError
from wiretime.paths import PLATFORMS
from wiretime.request import Request

Value = str | int | bool
RANGES = PLATFORMS / "estimates" / "ranges.toml"
SAYS = re.compile(r"\bestimate\b")
QUANTITY = re.compile(r"([0-9.]+) ?([A-Za-z/]+)")
# Of a quantity with a unit: times are whole picoseconds.
DIGITS = 3

# Places in ranges, by parameter: of those alone that are to be elsewhere than their platform has them.
Places = Mapping[str, float]
NOWHERE: Places = {}


class Rule(BaseModel):
    """How far estimates of these names may be from their values; ``why`` says what the range is taken from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parameters: tuple[str, ...] = Field(min_length=1)
    platforms: tuple[str, ...] = ()
    why: str = Field(min_length=1)
    factor: float | None = Field(default=None, gt=1)
    powers: int | None = Field(default=None, ge=1)
    choices: tuple[Value, ...] = ()
    low: float | str | None = None
    high: float | str | None = None
    fixed: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> Rule:
        ways = (self.factor, self.powers, self.choices or None, self.low, self.fixed or None)
        if sum(way is not None for way in ways) != 1 or (self.low is None) != (self.high is None):
            raise ValueError("one of factor, powers, choices, low and high, fixed")
        return self

    def names(self, parameter: str, platform: str) -> bool:
        """Return whether this is the range of a platform's parameter."""
        return (not self.platforms or platform in self.platforms) and any(
            fnmatchcase(parameter, pattern) for pattern in self.parameters
        )


@dataclass(frozen=True)
class Estimate:
    """An estimate of one machine: its value, and the rule that says how far from it the truth may be."""

    parameter: str
    value: Value
    rule: Rule

    def at(self, place: float) -> Value:
        """Return what it is at a place of its range, from 0, its low end, to 1."""
        rule = self.rule
        if rule.choices:
            return rule.choices[min(int(place * len(rule.choices)), len(rule.choices) - 1)]
        if rule.low is not None and rule.high is not None:
            (low, unit), (high, _) = _parts(rule.low), _parts(rule.high)
            return self._told(low + (high - low) * place, unit)
        number, unit = _parts(self.value)
        if rule.powers is not None:
            step = min(int(place * (2 * rule.powers + 1)), 2 * rule.powers) - rule.powers
            return self._told(number * 2.0**step, unit)
        assert rule.factor is not None
        return self._told(number * rule.factor ** (2 * place - 1), unit)

    def _told(self, number: float, unit: str) -> Value:
        if unit:
            shown = number if unit.endswith("B") else float(f"{number:.{DIGITS}g}")
            return f"{shown:g}{unit}"
        bounds = platforms.by_name()[self.parameter]
        return int(min(max(round(number), bounds.get("minimum", 0)), bounds.get("maximum", 1 << 62)))

    @property
    def ends(self) -> tuple[Value, Value]:
        """Its two ends: of choices the first and the last that are not its value, where there are two."""
        if self.rule.choices:
            others = [choice for choice in self.rule.choices if choice != self.value]
            return (others[0], others[-1]) if others else (self.value, self.value)
        return self.at(0.0), self.at(1.0)


def _parts(value: float | str) -> tuple[float, str]:
    """Return a number and its unit."""
    if not isinstance(value, str):
        return float(value), ""
    found = QUANTITY.fullmatch(value)
    if found is None:
        raise WiretimeError(f"{RANGES.name}: {value!r} is no quantity: its range must be choices")
    return float(found[1]), found[2]


@cache
def rules() -> Sequence[Rule]:
    """Return the ranges, those that come first before others."""
    return [Rule.model_validate(table) for table in tomllib.loads(RANGES.read_text())["range"]]


def _items(node: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of a parsed file with their comments, by dotted key; a list of tables as its first."""
    if isinstance(node, AoT):
        yield from _items(node[0], prefix)
        return
    container = node.value if isinstance(node, Table) else node
    for name in container:
        item = container.item(name)
        if isinstance(item, AoT | Table) and not isinstance(item, InlineTable):
            yield from _items(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


@cache
def marked(path: Path, prefix: str = "") -> Mapping[str, Value]:
    """Return the estimates of a file: parameters whose comment says so, and their values."""
    found: dict[str, Value] = {}
    for key, item in _items(tomlkit.parse(path.read_text()), prefix):
        if not SAYS.search(item.trivia.comment):
            continue
        value = item.unwrap()
        found |= {f"{key}.{part}": v for part, v in value.items()} if isinstance(value, dict) else {key: value}
    return found


def rule_of(parameter: str, platform: str) -> Rule:
    """Return an estimate's range."""
    for rule in rules():
        if rule.names(parameter, platform):
            return rule
    raise WiretimeError(f"{RANGES}: no range for {parameter}, an estimate of {platform}")


def _given(changes: Sequence[str]) -> Mapping[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in changes)}


def of(request: Request) -> list[Estimate]:
    """Return the estimates of the machine that a request runs on, but those that it sets itself."""
    path = platforms.path_of(request.platform)
    given = _given(request.changes)
    values = dict(marked(path))
    card = next((name for name in (request.nic, given.get("nic")) if name in platforms.card_names()), None)
    if card is not None and platforms.keeps_own(platforms.load(request.platform), card):
        card = None
    grade = given.get("dram")
    for part, folder, name, prefix in (("nic", "cards", card, ""), ("dram", "dram", grade, "dram.")):
        if name is not None:
            values = {key: value for key, value in values.items() if not key.startswith(f"{part}.")}
            values |= marked(PLATFORMS / folder / f"{name}.toml", prefix)
    chosen = {platforms.NUMBER.sub("", key) for key in given}
    found = (Estimate(key, value, rule_of(key, path.stem)) for key, value in values.items() if key not in chosen)
    return [estimate for estimate in found if not estimate.rule.fixed]
