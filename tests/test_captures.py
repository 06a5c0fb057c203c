"""What README and tutorial show of real runs is what their commands print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import wiretime
from wiretime import paths

FENCED = re.compile(r"^```(?:console)?\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
# Another host, or another hour, shows something else there; rules are as long as the screen is wide.
VARIES = re.compile(r"\s*(host\b.*|─+\s*)")


def captures(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield commands that stand together, and the lines that are shown below them."""
    for block in FENCED.findall(text):
        for part in re.findall(r"((?:^\$ .*\n)+)((?:^(?!\$ ).*\n)*)", block, re.MULTILINE):
            commands, shown = ([line for line in lines.splitlines() if line.strip()] for lines in part)
            yield [line.removeprefix("$ ") for line in commands], shown


def words(command: str) -> list[str]:
    """Return the arguments of ``wiretime`` for a command of the text."""
    program, *arguments = shlex.split(command)
    if program == "./run":
        (default,) = re.findall(r"set -- (.*)", (paths.REPOSITORY / "run").read_text())
        return ["run", *shlex.split(default)]
    assert Path(program).name == "wiretime"
    return arguments


def within(line: str, output: str) -> bool:
    """Tell whether a line of the output has these words in this order: the text may leave columns out."""
    rest = iter(output.split())
    return all(word in rest for word in line.split())


def missing(shown: list[str], output: str) -> list[str]:
    """Return the lines that the output does not have, in order."""
    rest = iter(output.splitlines())
    return [line for line in shown if not VARIES.fullmatch(line) and not any(within(line, o) for o in rest)]


def test_lines_that_differ_are_found() -> None:
    text = "a\n\n```\n$ wiretime x\n$ wiretime y\n  rate  1.0  Gb/s\n  host  7 s\n\n$ z\nend\n```\n\n```\nplain\n```\n"
    first, second = captures(text)
    assert first == (["wiretime x", "wiretime y"], ["  rate  1.0  Gb/s", "  host  7 s"])
    assert second == (["z"], ["end"])
    assert missing(first[1], "rate  1.0  5  Gb/s\nhost 3 s") == []
    assert missing(first[1], "rate  1.1  Gb/s") == ["  rate  1.0  Gb/s"]
    assert missing(["a", "b"], "b\na") == ["b"], "in another order"


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_what_is_shown_is_what_is_printed(name: str, tmp_path: Path) -> None:
    shown_before = []
    for commands, shown in captures((paths.REPOSITORY / name).read_text()):
        output = ""
        for command in commands:
            arguments = words(command)
            if arguments[0] == "msb":
                # The first size comes first in the boot, whatever follows; all six take a minute.
                (first, *_) = [i for i, line in enumerate(shown) if line.split()[1:2] == ["B"]]
                arguments += ["--packet-sizes", shown[first].split()[0]]
                shown = shown[: first + 1]
            done = wiretime(*arguments, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            output += done.stdout
        assert missing(shown, output) == [], output
        shown_before += shown
    assert len(shown_before) > 10
