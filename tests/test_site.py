"""The documentation: the site builds without a broken link, and the examples of its Python page are true."""

from __future__ import annotations

import doctest
import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from wiretime import paths, platforms
from wiretime.cli import app
from wiretime.setup import debian
from wiretime.validation import claims

PASSED_ON = ("--app-args", "--app-commands", "--kernel-args")
DOCS = paths.REPOSITORY / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=paths.REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_versions_in_documents_are_the_locked_ones() -> None:
    """Whatever a document says runs here is of the release in the lock file; what was published has its own."""
    locked = debian.releases()
    assert re.fullmatch(r"\d+\.\d+", locked["dpdk"])
    published = {"20.11.3", "21.11"}
    release = r"(?:DPDK|dpdk-testpmd`|testpmd) (\d\d\.\d\d(?:\.\d+)?)"
    # Forwarding rates were measured with many.
    tables = [claims.FOLDER / f"forwarding.{kind}" for kind in ("csv", "toml")]
    kernel = r"(?<!RHEL's )(?:kernel|Linux|Debian's) (\d\.\d+)"
    rates, measured = ({v for t in tables for v in re.findall(what, t.read_text())} for what in (release, kernel))
    said = []
    for page in [paths.REPOSITORY / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text()
        found = re.findall(release, text)
        # The QDMA's report has a release of its own, and so has Grace's; all rows are on one page.
        own = {"qdma.md": {"22.11"}, "forwarding.md": rates, "grace.md": {"24.11.0"}, "rows.md": {*rates, "24.11.0"}}
        theirs = published | own.get(page.name, set())
        assert set(found) - theirs <= {locked["dpdk"]}, (page, found)
        kernels = set(re.findall(kernel, text)) - (measured if page.name in {"forwarding.md", "rows.md"} else set())
        assert kernels <= {locked["linux"]}, (page, kernels)
        assert set(re.findall(r"QEMU (\d+)", text)) <= {locked["qemu"].split(".")[0]}, page
        said += found
    assert locked["dpdk"] in said


def test_every_page_is_there(site: Path) -> None:
    """Made pages hold every command, every parameter and every field of a result."""
    command_line = (site / "reference/command-line.html").read_text()
    for command in app.registered_commands:
        assert f"wiretime {command.name}" in command_line
    parameters = (site / "reference/parameters.html").read_text()
    assert all(name in parameters for name, _ in platforms.parameters())
    result = (site / "reference/result.html").read_text()
    for field in ("forwarded_gbps", "latency_hops_ns", "branch_mispredict", 'id="hop"', "#statistics", "dma_drop"):
        assert field in result
    models = (site / "reference/models.html").read_text()
    assert "core/pipeline.rs" in models and "Left out: wrong-path work" in models


def test_the_site_works_offline(site: Path) -> None:
    """Nothing of a page comes from elsewhere."""
    for page in site.rglob("*.html"):
        for tag, address in re.findall(r'<(link|script|img)[^>]*(?:href|src)="(https?://[^"]*)"', page.read_text()):
            assert 'rel="canonical"' in tag or not address, f"{page.name}: {address}"


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed as a reader would, in order."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "python.md").read_text()
    failed, tried = doctest.testfile(str(DOCS / "python.md"), module_relative=False)
    assert failed == 0 and tried == text.count("\n>>> ")


def commands_in(text: str) -> Iterator[list[str]]:
    """Command lines of ours in code spans and blocks, as words."""
    for code in (*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^(?:    |\$ )(.+)$", text, re.MULTILINE)):
        if re.match(r"(\.venv/bin/)?wiretime [a-z]", code):
            words = shlex.split(code, comments=True)[1:]
            yield list(itertools.takewhile(lambda word: word not in ("|", "&&") and not word.endswith(";"), words))


def test_commands_in_the_documentation_exist() -> None:
    """Every command and option that the pages name is one."""
    group: Any = typer.main.get_command(app)
    for path in (paths.REPOSITORY / "README.md", *DOCS.glob("*.md")):
        for line in commands_in(path.read_text()):
            name, *words = line
            command = group.commands.get(name)
            assert command is not None, f"{path.name}: wiretime {name}"
            if words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words[0]]
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            for before, word in itertools.pairwise(["", *words]):
                option = word.partition("=")[0]
                # What follows these is the program's.
                assert before in PASSED_ON or not option.startswith("--") or option in known, (
                    f"{path.name}: wiretime {name}: {option}"
                )
