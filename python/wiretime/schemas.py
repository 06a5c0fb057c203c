"""Schemas of what goes into an engine and comes out of it, as its types declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

import wiretime._native as _native

Node = Mapping[str, Any]
Name = Literal["platform", "settings", "trial", "model", "result"]


@cache
def schema(name: Name) -> Node:
    """Return the JSON Schema of a machine, of what a run or a trial is told, or of a result."""
    found: Node = json.loads(_native.schema(name))
    return found


def resolved(node: Node, root: Node) -> Node:
    """Return a node of a schema, or what its reference stands for; of one that may be null, what else it may be."""
    for choice in node.get("anyOf", ()):
        if choice.get("type") != "null":
            return resolved(choice, root)
    if "$ref" in node:
        target: Node = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
        return target
    return node


def properties(node: Node, root: Node) -> Node:
    """Return the properties of a node of a schema, following its reference."""
    found: Node = resolved(node, root).get("properties", {})
    return found


def groups(node: Node, root: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield the tables below a node whose fields all have a unit, by dotted path; ``*`` is each entry of a list."""
    node = resolved(node, root)
    if "items" in node:
        yield from groups(node["items"], root, f"{path}.*")
        return
    fields = {name: resolved(child, root) for name, child in node.get("properties", {}).items()}
    if fields and all("unit" in child for child in fields.values()):
        yield path, node
    for name, child in fields.items():
        yield from groups(child, root, f"{path}.{name}" if path else name)


def leaves(node: Node, root: Node, path: str) -> Iterator[str]:
    """Yield the dotted paths of all numbers below a node."""
    node = resolved(node, root)
    if "items" in node:
        yield from leaves(node["items"], root, f"{path}.*")
    elif node.get("type") in ("integer", "number"):
        yield path
    for name, child in node.get("properties", {}).items():
        yield from leaves(child, root, f"{path}.{name}")
