"""Tests of the tests: the quick mutations are caught, and the places of all of them are there."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from wiretime import paths

_spec = importlib.util.spec_from_file_location("mutations", paths.REPOSITORY / "scripts/mutations.py")
assert _spec is not None and _spec.loader is not None
mutations = importlib.util.module_from_spec(_spec)
sys.modules["mutations"] = mutations
_spec.loader.exec_module(mutations)


def test_every_place_is_there() -> None:
    everything = mutations.mutations()
    assert len(everything) >= 40
    assert not [m.what for m in everything if m.places(paths.REPOSITORY) != 1]
    kinds = {m.tests.split()[0] for m in everything}
    assert kinds == {*mutations.CARGO, "python", "guest", "run"}


def test_quick_mutations_are_caught(tmp_path: Path) -> None:
    mutations.copy(tmp_path)
    quick = [m for m in mutations.mutations() if m.quick]
    found = {m.what: mutations.caught(m, tmp_path) for m in quick}
    assert len(quick) > 3 and set(found.values()) == {"caught"}, found
