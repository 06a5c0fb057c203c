"""Makes what follows from the engine's types: `.venv/bin/python scripts/models.py [--check]`.

``docs/result.schema.json`` is the JSON Schema of ``result.json``; ``python/wiretime/models.py`` holds the types of all
that goes into an engine and comes out of it, for type checkers and editors. ``--check`` says which of them is not up to
date.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from wiretime import paths, schemas

SCHEMA = paths.REPOSITORY / "docs/result.schema.json"
MODELS = paths.REPOSITORY / "python/wiretime/models.py"
HEAD = '''"""Types of what goes into an engine and comes out of it. Made by scripts/models.py; not written by hand."""
'''
RUFF = Path(sys.executable).with_name("ruff")
OPTIONS = (
    "--input-file-type", "jsonschema", "--output-model-type", "typing.TypedDict", "--target-python-version", "3.11",
    "--no-use-closed-typed-dict", "--use-standard-collections", "--use-union-operator", "--use-schema-description",
    "--use-tuple-for-closed-arrays", "--disable-timestamp", "--formatters", "builtin",
)  # fmt: skip


def everything() -> dict[str, Any]:
    """Return one schema with all types, by their names."""
    types: dict[str, Any] = {}
    for name in ("platform", "settings", "trial", "result"):
        whole = dict(schemas.schema(name))  # type: ignore[arg-type]
        types |= whole.pop("$defs", {})
        types[str(whole["title"])] = {key: value for key, value in whole.items() if key != "$schema"}
    top = {name: {"$ref": f"#/$defs/{name}"} for name in ("Report", "Trial")}
    return {"title": "Everything", "type": "object", "properties": top, "$defs": types}


def models() -> str:
    """Return the module of types."""
    with tempfile.TemporaryDirectory(prefix="wiretime-models-") as folder:
        given, made = Path(folder) / "schema.json", Path(folder) / "models.py"
        given.write_text(json.dumps(everything()))
        command = [sys.executable, "-W", "ignore", "-m", "datamodel_code_generator", "--input", given, "--output", made]
        subprocess.run([*command, *OPTIONS], check=True)
        text = made.read_text()
        # From the first import on: what is above names the temporary file.
        body = HEAD + "\n" + text[text.index("from __future__") :]
        made.write_text(body)
        subprocess.run([RUFF, "check", "--quiet", "--fix", "--select", "I,UP,F401", "--no-cache", made], check=True)
        subprocess.run([RUFF, "format", "--quiet", "--no-cache", "--line-length", "120", made], check=True)
        return made.read_text()


def main() -> int:
    """Write, or check, both files."""
    warnings.simplefilter("ignore")
    wanted = {SCHEMA: json.dumps(schemas.schema("result"), indent=1) + "\n", MODELS: models()}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text() != text]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(paths.REPOSITORY)}: not what scripts/models.py makes")
        return len(stale) > 0
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
