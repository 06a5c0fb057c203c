"""Platforms: whole machines as data, with changes by ``--set``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table as RichTable

import wiretime._native as _native
from wiretime import schemas
from wiretime.errors import WiretimeError, unknown
from wiretime.paths import PLATFORMS

DEFAULT = "ampere-altra"
# Cards that to each other are but other registers.
SAME_BUT_REGISTERS = ("8254x", "82599")

Table = dict[str, Any]


def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a platform, as the models declare it."""
    return schemas.schema("platform")


def _properties(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return schemas.properties(node, schema())


def parameters(node: Mapping[str, Any] | None = None, prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every parameter's dotted name and schema; of a list of tables (``[[nic]]``) those of any of them."""
    for name, child in _properties(node if node is not None else schema()).items():
        key = f"{prefix}{name}"
        child = child.get("items", child)
        if _properties(child):
            yield from parameters(child, f"{key}.")
        else:
            yield key, child


@cache
def by_name() -> Mapping[str, Mapping[str, Any]]:
    """Return the schema of every parameter by its dotted name."""
    return dict(parameters())


def names() -> list[str]:
    """Return the names of the platforms that come with Wiretime."""
    return sorted(path.stem for path in PLATFORMS.glob("*.toml"))


def path_of(name: str) -> Path:
    """Return a platform's file: one of ours by name, or any ``.toml`` by path."""
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise WiretimeError(f"--platform {name}: no such file")
        return Path(name)
    if name not in names():
        raise unknown("platform", name, names())
    return PLATFORMS / f"{name}.toml"


def choices(node: Mapping[str, Any]) -> list[str]:
    """Return the words that a parameter may have, where it has words."""
    node = schemas.resolved(node, schema())
    listed: list[str] = list(node.get("enum", [])) + [choice["const"] for choice in node.get("oneOf", [])]
    return listed


def _value(key: str, text: str, node: Mapping[str, Any]) -> Any:
    if node.get("type") == "boolean":
        if text not in ("true", "false"):
            raise WiretimeError(f"--set {key}={text}: must be true or false")
        return text == "true"
    if node.get("type") == "integer":
        try:
            return int(text)
        except ValueError:
            raise WiretimeError(f"--set {key}={text}: must be a whole number{_range(node)}") from None
    return text


def _range(node: Mapping[str, Any]) -> str:
    if "minimum" in node and "maximum" in node:
        unit = f" {node['unit']}" if "unit" in node else ""
        return f" from {node['minimum']} to {node['maximum']}{unit}"
    return ""


NUMBER = re.compile(r"\.\d+(?=\.)")


def _leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted key; tables of a list are numbered."""
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            for i, entry in enumerate(value):
                yield from _leaves(entry, f"{prefix}{name}.{i}.")
        else:
            yield f"{prefix}{name}", value


def flatten(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted key; tables of a list are numbered where they differ."""
    together: dict[str, list[tuple[str, Any]]] = {}
    for key, value in _leaves(table):
        together.setdefault(NUMBER.sub("", key), []).append((key, value))
    for name, found in together.items():
        if all(value == found[0][1] for _, value in found):
            yield name, found[0][1]
        else:
            yield from found


def _complete(node: Mapping[str, Any], table: Any, key: str, source: str) -> None:
    """Raise where a parameter is missing, or a table is no table and a list none."""
    if "items" in node:
        if not isinstance(table, list) or not table:
            raise WiretimeError(f"{source}: {key} must be a list of tables: [[{key}]]")
        for i, entry in enumerate(table):
            _complete(node["items"], entry, f"{key}.{i}", source)
    elif properties := _properties(node):
        if not isinstance(table, Mapping):
            raise WiretimeError(f"{source}: {key} must be a table: [{key}]")
        needed = schemas.resolved(node, schema()).get("required", [])
        for name, child in properties.items():
            inner = f"{key}.{name}" if key else name
            if name not in table and name not in needed:
                continue
            if name not in table:
                raise WiretimeError(f"{source}: parameter {inner} is missing")
            _complete(child, table[name], inner, source)


def _check(table: Table, source: str) -> Table:
    known = by_name()
    for key, value in _leaves(table):
        name = NUMBER.sub("", key)
        if name not in known:
            error = unknown("parameter", name, known)
            raise WiretimeError(f"{source}: {error}")
        # Numbered only where the list has several.
        key = key if name != key and len(table[key.split(".")[0]]) > 1 else name
        node = known[name]
        wanted = {"integer": int, "string": str, "boolean": bool}[str(node.get("type", "string"))]
        if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
            kind = {int: "a whole number", str: "text with a unit", bool: "true or false"}[wanted]
            raise WiretimeError(f"{source}: {key} is {value!r}: must be {kind}{_range(node)}")
        words = choices(node)
        if words and value not in words:
            raise WiretimeError(f"{source}: {unknown(key, str(value), words)}")
        if isinstance(value, int) and "minimum" in node and not node["minimum"] <= value <= node["maximum"]:
            raise WiretimeError(f"{source}: {key} is {value}: must be{_range(node)}")
    _complete(schema(), table, "", source)
    try:
        resolved: Table = json.loads(_native.resolve_platform(json.dumps(table)))
    except ValueError as e:
        raise WiretimeError(f"{source}: {_where(table, str(e).split(' at line ')[0])}") from None
    return resolved


def _where(table: Table, problem: str) -> str:
    """Return a problem with the keys of the value that it quotes: the library names its kind alone."""
    value = problem.partition('"')[2].partition('"')[0]
    named = [key for key, its in _leaves(table) if its == value] if value else []
    return f"{', '.join(named)}: {problem}" if named else problem


def ports(platform: Mapping[str, Any]) -> int:
    """Return the ports that a machine's cards have together."""
    return sum(int(nic["ports"]) for nic in platform["nic"])


def ports_max() -> int:
    """Return the most ports that a machine can have."""
    return int(by_name()["nic.ports"]["maximum"])


def interfaces(platform: Mapping[str, Any]) -> list[str]:
    """Return the register interfaces of a machine's cards, each once."""
    return list(dict.fromkeys(str(nic["interface"]) for nic in platform["nic"]))


def functions(platform: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return what a kernel finds of a machine's cards on its bus: register interface, generation and lanes, by port."""
    found = []
    for nic in platform["nic"]:
        slot = platform["slot"][nic["slot"]]
        found += [(str(nic["interface"]), int(slot["generation"]), int(slot["lanes"]))] * int(nic["ports"])
    return found


def generates(platform: Mapping[str, Any]) -> bool:
    """Return whether a card makes its packets itself, whatever load is asked for."""
    return any((nic.get("qdma") or {}).get("user_logic") == "generator" for nic in platform["nic"])


def _plug(table: Table, cards: int | None) -> None:
    """Have so many cards, more of them like the last one in slots like the last one; and a link for each port."""
    nics, slots, links = table["nic"], table["slot"], table["link"]
    if cards is not None:
        del nics[cards:]
        while len(nics) < cards:
            free = next(i for i in range(len(slots) + 1) if all(nic["slot"] != i for nic in nics))
            if free == len(slots):
                slots.append(dict(slots[-1]))
            nics.append({**nics[-1], "slot": free})
        del links[ports(table) :]
    links += [dict(links[-1]) for _ in range(ports(table) - len(links))]


def _change(table: Table, key: str, value: Any) -> None:
    """Set a parameter: of a list of tables in all of them, unless it is numbered."""
    *parents, last = key.split(".")
    nodes: list[Any] = [table]
    for parent in parents:
        if parent.isdigit():
            # Behind a list, which was taken as what is in it.
            if int(parent) >= len(nodes):
                raise WiretimeError(f"--set {key}: there are {len(nodes)}, counted from 0")
            nodes = [nodes[int(parent)]]
        else:
            # Of cards of several kinds, those that have it.
            below = [node[parent] for node in nodes if parent in node]
            if not below:
                raise WiretimeError(f"--set {key}: this machine has no {parent}: it is of another card")
            nodes = [entry for node in below for entry in (node if isinstance(node, list) else [node])]
    for node in nodes:
        node[last] = value


def grades() -> list[str]:
    """Return the DRAM grades that ``--set dram=GRADE`` takes."""
    return _parts("dram")


def card_names() -> list[str]:
    """Return the cards that ``--nic`` takes."""
    return _parts("cards")


def keeps_own(platform: Mapping[str, Any], name: str) -> bool:
    """Return whether a card is but other registers to a machine's own, whose buffers and speed stay."""
    return {name, *interfaces(platform)} <= set(SAME_BUT_REGISTERS)


def _parts(folder: str) -> list[str]:
    return sorted(path.stem for path in (PLATFORMS / folder).glob("*.toml"))


def _part(what: str, folder: str, name: str) -> Table:
    """Return a part of a machine that several may have: a DRAM grade, a card."""
    if name not in _parts(folder):
        raise unknown(what, name, _parts(folder))
    return tomllib.loads((PLATFORMS / folder / f"{name}.toml").read_text())


def _replace(table: Table, part: str, name: str) -> None:
    """Put a part in place of a machine's own."""
    if part == "dram":
        table["dram"].update(_part("DRAM grade", "dram", name))
        return
    card = _part("card", "cards", name)["nic"]
    kept = table["nic"] if keeps_own(table, name) else [card] * len(table["nic"])
    places = [{key: nic[key] for key in ("slot", "ports")} for nic in table["nic"]]
    table["nic"] = [{**nic, "interface": name, **place} for nic, place in zip(kept, places, strict=True)]


@cache
def _file(text: str, source: str) -> tuple[str, str]:
    """Return what a file says, and what it comes to, as JSON: studies ask for the same machine thousands of times."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise WiretimeError(f"{source}: {e}") from None
    resolved = _check(table, source)
    return json.dumps(table), json.dumps(resolved)


def load(name: str, changes: Sequence[str] = (), cards: int | None = None) -> Table:
    """Return a platform with so many cards (as many as it lists), changed by ``key=value`` texts and checked."""
    path = path_of(name)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise WiretimeError(f"{path}: {e}") from None
    written, resolved = _file(text, str(path))
    if not changes and cards is None:
        whole: Table = json.loads(resolved)
        return whole
    table: Table = json.loads(written)
    known = by_name()
    _plug(table, cards)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise WiretimeError(f"--set {change}: must be key=value")
        if key in ("dram", "nic"):
            _replace(table, key, text)
            continue
        plain = NUMBER.sub("", key)
        if plain not in known:
            raise WiretimeError(f"--set: {unknown('parameter', plain, known)}")
        _change(table, key, _value(key, text, known[plain]))
    # More ports of a card: links like the last one.
    if all(nic["ports"] <= ports_max() for nic in table["nic"]):
        _plug(table, None)
    return _check(table, "--set " + " ".join(changes) if changes else f"--ports {cards}")


def difference(first: str, second: str) -> RichTable:
    """Return the parameters in which two platforms differ, as a table."""
    table = RichTable(box=box.SIMPLE_HEAD)
    for name in ("parameter", first, second, "unit"):
        table.add_column(name, no_wrap=True)
    table.add_column("meaning")
    a, b = dict(flatten(load(first))), dict(flatten(load(second)))
    known = by_name()
    for key in dict.fromkeys([*a, *b]):
        if a.get(key) != b.get(key) and key not in ("name", "description"):
            node = known[NUMBER.sub("", key)]
            meaning = str(node.get("description", "")).split(". ")[0].split("\n")[0]
            table.add_row(key, str(a.get(key, "")), str(b.get(key, "")), str(node.get("unit", "")), meaning)
    return table


def commented(name: str) -> str:
    """Return the file of a platform, or of a card, whose comments say where each value comes from."""
    return (PLATFORMS / "cards" / f"{name}.toml" if name in card_names() else path_of(name)).read_text()
