"""The pages of the documentation site that are made from the repository itself when it is built (mkdocs hooks).

README, the command line's help, the result's schema, the parameters of a platform, what each model says of itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from wiretime import platforms

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
MODELS = REPOSITORY / "crates/hw/src"
# Folders of models, in the order in which a packet meets them.
FOLDERS = {
    "wire": "Wire, generator, clients",
    "nic": "NIC",
    "io": "PCIe, I/O bus, IOMMU",
    "memory": "Caches and DRAM",
    "core": "Cores",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def readme() -> str:
    """Return the front page: the README, whose links lead into the site."""
    text = (REPOSITORY / "README.md").read_text()
    text = re.sub(r"<!--.*?-->\n?", "", text)
    return text.replace("](docs/", "](")


def command_line() -> str:
    """Return every command's help."""
    words = [sys.executable, "-m", "typer", "wiretime.cli", "utils", "docs", "--name", "wiretime"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return text.replace("# `wiretime`", "# Command line", 1)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _fields(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield what a schema has below a path: path, type, meaning."""
    for name, child in node.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield from _field(child, where)


def _kinds(node: Mapping[str, Any]) -> str:
    """Return what a field can be; a table by its name, which is a heading of the page."""
    if "anyOf" in node:
        return " or ".join(_kinds(choice) for choice in node["anyOf"])
    if "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    kind = node.get("type", "")
    kinds = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if isinstance(node.get("items"), Mapping):
        kinds += f" of {_kinds(node['items'])}"
    return kinds


def _field(node: Mapping[str, Any], where: str) -> Iterator[tuple[str, str, str]]:
    unit = f" ({node['unit']})" if "unit" in node else ""
    yield where, _kinds(node) + unit, _cell(str(node.get("description", "")))
    yield from _fields(node, where)
    items = node.get("items")
    if isinstance(items, Mapping):
        yield from _fields(items, f"{where}[]")


def result_schema() -> str:
    """Return the fields of ``result.json``, as its schema describes them."""
    schema = json.loads((DOCS / "result.schema.json").read_text())
    lines = [
        "# Result",
        "",
        schema["description"],
        "",
        "The schema itself: [result.schema.json](../result.schema.json).",
        "",
    ]
    parts = {"Fields": schema, **schema.get("$defs", {})}
    for title, node in parts.items():
        rows = list(_fields(node, ""))
        if not rows:
            rows = list(_field(node, title))
        lines += [f"## {title}", ""]
        if title != "Fields" and node.get("description"):
            lines += [str(node["description"]), ""]
        lines += ["| field | type | meaning |", "|---|---|---|"]
        lines += [f"| `{where}` | {_cell(kinds)} | {meaning} |" for where, kinds, meaning in rows]
        lines.append("")
    return "\n".join(lines)


def _range(node: Mapping[str, Any]) -> str:
    words = platforms.choices(node)
    if words:
        return ", ".join(f"`{word}`" for word in words)
    if "minimum" in node and "maximum" in node:
        return f"{node['minimum']} to {node['maximum']}"
    return str(node.get("quantity") or node.get("type", ""))


def parameters() -> str:
    """Return every parameter of a platform: meaning, unit, range."""
    lines = [
        "# Parameters of a platform",
        "",
        "Every parameter has a place in every platform's file. `wiretime platforms show NAME` prints one with",
        "the source of every value, `wiretime platforms diff A B` what two differ in; `--set NAME=VALUE` changes one.",
        "",
    ]
    section = None
    for name, node in platforms.parameters():
        group = name.partition(".")[0] if "." in name else "platform"
        if group != section:
            section = group
            lines += ["", f"## {group}", "", "| parameter | unit | range | meaning |", "|---|---|---|---|"]
        meaning = _cell(str(node.get("description", "")))
        lines.append(f"| `{name}` | {node.get('unit', '')} | {_range(node)} | {meaning} |")
    return "\n".join(lines)


def machines() -> str:
    """Return the files of the platforms, whose comments say where each value comes from."""
    lines = ["# Machines", "", "The platforms that come with Wiretime, with the source of every value.", ""]
    for name in platforms.names():
        lines += [f"## {name}", "", platforms.load(name)["description"] + ".", ""]
        lines += ["```toml", platforms.commented(name).rstrip(), "```", ""]
    lines += ["# Cards", "", "NICs that `--nic` plugs into any of them.", ""]
    for name in platforms.card_names():
        lines += [f"## {name}", "", "```toml", platforms.commented(name).rstrip(), "```", ""]
    return "\n".join(lines)


def _head(path: Path) -> str:
    """Return what a module says of itself."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line[3:].removeprefix(" "))
    return re.sub(r"\[(`[^`]+`)\]", r"\1", "\n".join(lines))


def models() -> str:
    """Return what each model is, what it leaves out, and what that costs: the heads of the modules themselves."""
    lines = [
        "# Model reference",
        "",
        "What the modules of the models (`crates/hw`) say of themselves: what each models, after which source,",
        "what it leaves out and what that costs in accuracy.",
        "[How it works](../how-it-works.md) explains how they fit together.",
        "",
    ]
    for folder, title in FOLDERS.items():
        lines += [f"## {title}", ""]
        paths = sorted((MODELS / folder).rglob("*.rs"), key=lambda p: (p.parent, p.name != "mod.rs", p.name))
        for path in paths:
            head = _head(path)
            if head and path.stem != "tests":
                lines += [f"### `{path.relative_to(MODELS)}`", "", head, ""]
    return "\n".join(lines)


PAGES = {
    "index.md": readme,
    "reference/command-line.md": command_line,
    "reference/result.md": result_schema,
    "reference/parameters.md": parameters,
    "reference/machines.md": machines,
    "reference/models.md": models,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name files of the repository that are not part of the site, instead of linking to them."""
    folder = Path(page.file.src_uri).parent

    def linked(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if not target or ":" in target or match.string[max(0, match.start() - 1)] == "!":
            return match[0]
        inside = (DOCS / folder / target).resolve()
        if inside.is_relative_to(DOCS) and (inside.exists() or str(inside.relative_to(DOCS)) in PAGES):
            return match[0]
        name = inside.relative_to(REPOSITORY) if inside.is_relative_to(REPOSITORY) else target
        return f"{text} (`{name}`)" if text.strip("`") not in (str(name), Path(target).name) else f"`{name}`"

    return LINK.sub(linked, markdown)
