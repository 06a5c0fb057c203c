"""Platforms: whole machines as data, with changes by ``--set``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import tomlkit
from rich import box
from rich.table import Table as RichTable
from tomlkit.exceptions import ParseError

import wiretime._native as _native
from wiretime.errors import WiretimeError, unknown
from wiretime.paths import PLATFORMS

DEFAULT = "ampere-altra"

Table = dict[str, Any]


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a platform, as the models declare it."""
    result: Mapping[str, Any] = json.loads(_native.platform_schema())
    return result


def _resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema node, or what its reference stands for."""
    if "$ref" in node:
        target: Mapping[str, Any] = schema()["$defs"][node["$ref"].rsplit("/", 1)[1]]
        return target
    return node


def _properties(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the properties of a schema node, following its reference."""
    result: Mapping[str, Any] = _resolved(node).get("properties", {})
    return result


def parameters(node: Mapping[str, Any] | None = None, prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every parameter's dotted name and schema."""
    for name, child in _properties(node if node is not None else schema()).items():
        key = f"{prefix}{name}"
        if _properties(child):
            yield from parameters(child, f"{key}.")
        else:
            yield key, child


def names() -> list[str]:
    """Return the names of the platforms that come with Wiretime."""
    return sorted(path.stem for path in PLATFORMS.glob("*.toml"))


def path_of(name: str) -> Path:
    """Return a platform's file: one of ours by name, or any ``.toml`` by path."""
    if name.endswith(".toml") and Path(name).is_file():
        return Path(name)
    if name not in names():
        raise unknown("platform", name, names())
    return PLATFORMS / f"{name}.toml"


def choices(node: Mapping[str, Any]) -> list[str]:
    """Return the words that a parameter may have, where it has words."""
    node = _resolved(node)
    listed: list[str] = list(node.get("enum", [])) + [choice["const"] for choice in node.get("oneOf", [])]
    return listed


def _value(key: str, text: str, known: Mapping[str, Mapping[str, Any]]) -> Any:
    if known[key].get("type") == "boolean":
        if text not in ("true", "false"):
            raise WiretimeError(f"--set {key}={text}: must be true or false")
        return text == "true"
    if known[key].get("type") == "integer":
        try:
            return int(text)
        except ValueError:
            raise WiretimeError(f"--set {key}={text}: must be a whole number{_range(known[key])}") from None
    return text


def _range(node: Mapping[str, Any]) -> str:
    if "minimum" in node and "maximum" in node:
        unit = f" {node['unit']}" if "unit" in node else ""
        return f" from {node['minimum']} to {node['maximum']}{unit}"
    return ""


def _check(table: Table, source: str) -> Table:
    known = dict(parameters())
    flat = dict(flatten(table))
    for key in flat:
        if key not in known:
            error = unknown("parameter", key, known)
            raise WiretimeError(f"{source}: {error}")
    for key, node in known.items():
        if key not in flat:
            raise WiretimeError(f"{source}: parameter {key} is missing")
        value = flat[key]
        wanted = {"integer": int, "string": str, "boolean": bool}[str(node.get("type", "string"))]
        if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
            kind = {int: "a whole number", str: "text with a unit", bool: "true or false"}[wanted]
            raise WiretimeError(f"{source}: {key} is {value!r}: must be {kind}{_range(node)}")
        words = choices(node)
        if words and value not in words:
            raise WiretimeError(f"{source}: {unknown(key, str(value), words)}")
        if isinstance(value, int) and "minimum" in node and not node["minimum"] <= value <= node["maximum"]:
            raise WiretimeError(f"{source}: {key} is {value}: must be{_range(node)}")
    try:
        resolved: Table = json.loads(_native.resolve_platform(json.dumps(table)))
    except ValueError as e:
        raise WiretimeError(f"{source}: {str(e).split(' at line ')[0]}") from None
    return resolved


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables, by dotted key."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def grades() -> list[str]:
    """Return the DRAM grades that ``--set dram=GRADE`` takes."""
    return sorted(path.stem for path in (PLATFORMS / "dram").glob("*.toml"))


def _grade(name: str) -> Table:
    """Return the timings of a DRAM grade."""
    if name not in grades():
        raise unknown("DRAM grade", name, grades())
    table: Table = tomlkit.parse((PLATFORMS / "dram" / f"{name}.toml").read_text()).unwrap()
    return table


def load(name: str, changes: Sequence[str] = ()) -> Table:
    """Return a platform, changed by ``key=value`` texts and checked."""
    path = path_of(name)
    try:
        table: Table = tomlkit.parse(path.read_text()).unwrap()
    except (ParseError, OSError, UnicodeDecodeError) as e:
        raise WiretimeError(f"{path}: {e}") from None
    resolved = _check(table, str(path))
    if not changes:
        return resolved
    known = dict(parameters())
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise WiretimeError(f"--set {change}: must be key=value")
        if key == "dram":
            table["dram"].update(_grade(text))
            continue
        if key not in known:
            raise WiretimeError(f"--set: {unknown('parameter', key, known)}")
        node = table
        *parents, last = key.split(".")
        for parent in parents:
            node = node[parent]
        node[last] = _value(key, text, known)
    return _check(table, "--set " + " ".join(changes))


def difference(first: str, second: str) -> RichTable:
    """Return the parameters in which two platforms differ, as a table."""
    table = RichTable(box=box.SIMPLE_HEAD)
    for name in ("parameter", first, second, "unit"):
        table.add_column(name, no_wrap=True)
    table.add_column("meaning")
    a, b = dict(flatten(load(first))), dict(flatten(load(second)))
    for key, node in parameters():
        if a[key] != b[key] and key not in ("name", "description"):
            meaning = str(node.get("description", "")).split(". ")[0].split("\n")[0]
            table.add_row(key, str(a[key]), str(b[key]), str(node.get("unit", "")), meaning)
    return table


def commented(name: str) -> str:
    """Return a platform's file, whose comments say where each value comes from."""
    return path_of(name).read_text()
