"""Tests of the tests: breaks a model or a tool in one place at a time, and wants a test to fail.

`.venv/bin/python scripts/mutations.py [--quick] [TEXT ...]`: those whose description holds one of the texts. Works in a
copy of the tracked files, built anew for each: all take an hour or more; ``./test`` runs the quick ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts/mutations.toml"
CARGO = {
    "models": ["test", "-q", "-p", "wiretime-hw", "--lib"],
    "base": ["test", "-q", "-p", "wiretime-base"],
    "forms": ["test", "-q", "-p", "wiretime-hw", "--test", "models", "closed_forms::"],
    "qdma": ["test", "-q", "-p", "wiretime-hw", "--test", "models", "qdma::"],
    "ordering": ["test", "-q", "-p", "wiretime-hw", "--test", "models", "ordering::"],
    "interrupts": ["test", "-q", "-p", "wiretime-hw", "--test", "models", "interrupts::"],
    "pairs": ["test", "-q", "-p", "wiretime-hw", "--test", "models", "pairs::"],
    "resets": ["test", "-q", "-p", "wiretime-hw", "--test", "models", "fuzz_mlx5::frames_that_a_reset"],
    "turns": ["test", "-q", "--release", "-p", "wiretime-hw", "--test", "models", "repeat::"],
    "engine": ["test", "-q", "-p", "wiretime-qemu", "-p", "wiretime-isa", "-p", "wiretime-experiment"],
}
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
ENGINE = ["cargo", "build", "--release", "-q", "-p", "wiretime-qemu"]
# How pytest and cargo end where a test fails; with any other status no test has said anything.
FAILED = {"pytest": 1, "cargo": 101}


@dataclass(frozen=True)
class Mutation:
    """What is broken: a text in a file, what stands there instead, and the tests that must notice."""

    what: str
    file: str
    old: str
    new: str
    tests: str
    quick: bool = False

    def places(self, root: Path) -> int:
        """Return how often the text to break is in the file."""
        path = root / self.file
        return path.read_text().count(self.old) if path.exists() else 0


def mutations() -> list[Mutation]:
    """Return all of the list."""
    return [Mutation(**entry) for entry in tomllib.loads(LIST.read_text())["mutation"]]


def copy(folder: Path) -> None:
    """Copy the tracked files as they are, and the built Python extension."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    native = [os.fsencode(p.relative_to(ROOT)) for p in (ROOT / "python/wiretime").glob("_native*.so")]
    for name in (*filter(None, names), *native):
        source, target = ROOT / os.fsdecode(name), folder / os.fsdecode(name)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def _status(folder: Path, command: list[str]) -> int:
    environment = {**os.environ, "PYTHONPATH": str(folder / "python")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode


def tests_of(m: Mutation) -> tuple[str, list[list[str]], list[str]]:
    """Return what runs the tests that must notice, what is built before, and the tests themselves."""
    kind, _, rest = m.tests.partition(" ")
    if kind in CARGO:
        return "cargo", [["cargo", *CARGO[kind], "--no-run"]], ["cargo", *CARGO[kind]]
    file, _, expression = ("tests/test_machine.py", "", rest) if kind == "guest" else rest.partition(" ")
    return "pytest", [] if kind == "python" else [ENGINE], [*PYTEST, file, "-k", expression]


def caught(m: Mutation, folder: Path) -> str:
    """Break, build, test, restore; say what happened."""
    if m.places(folder) != 1:
        return "the place to break is not there"
    path = folder / m.file
    text = path.read_text()
    tool, builds, tests = tests_of(m)
    path.write_text(text.replace(m.old, m.new))
    try:
        if any(_status(folder, build) for build in builds):
            return "does not build"
        status = _status(folder, tests)
        if status not in (0, FAILED[tool]):
            return f"no test has said anything ({tool} ended with {status})"
        return "caught" if status else "NOT CAUGHT"
    finally:
        path.write_text(text)


def whole(chosen: list[Mutation], folder: Path) -> list[str]:
    """Return which tests fail, or are not there, where nothing is broken: those would catch anything."""
    kinds = {m.tests: tests_of(m) for m in chosen}
    return [name for name, (_, builds, tests) in kinds.items() if any(_status(folder, c) for c in (*builds, tests))]


def main() -> int:
    """Try mutations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", help="parts of descriptions; all by default")
    parser.add_argument("--quick", action="store_true", help="only the quick ones")
    asked = parser.parse_args()
    chosen = [
        m
        for m in mutations()
        if (m.quick or not asked.quick) and (not asked.texts or any(t in m.what or t == m.tests for t in asked.texts))
    ]
    results = []
    with tempfile.TemporaryDirectory() as name:
        copy(Path(name))
        # ./test, which tries the quick ones, runs the tests themselves, too.
        for tests in [] if asked.quick else whole(chosen, Path(name)):
            results.append("fails anyway")
            print(f"fails with nothing broken: {tests}", flush=True)
        for m in chosen:
            results.append(caught(m, Path(name)))
            print(f"{results[-1]}: {m.what} ({m.file})", flush=True)
    return int(any(result != "caught" for result in results))


if __name__ == "__main__":
    sys.exit(main())
