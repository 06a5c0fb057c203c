"""Results that a change of structure must not change."""

from __future__ import annotations

import importlib.util

import pytest
from wiretime import paths

_spec = importlib.util.spec_from_file_location("recorded", paths.REPOSITORY / "scripts/recorded.py")
assert _spec is not None and _spec.loader is not None
recorded = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorded)


def test_every_configuration_is_recorded() -> None:
    """The record and the script's lists name the same configurations, and none of them failed when recorded."""
    results = recorded.recorded()["results"]
    assert set(results) == {*recorded.RUNS, *recorded.SEARCHES}
    assert len(results) >= 24
    assert not [name for name, found in results.items() if "failed" in found]


@pytest.mark.parametrize("name", recorded.QUICK)
def test_results_are_the_recorded_ones(name: str) -> None:
    before = recorded.recorded()
    if before["image"] != recorded.image():
        pytest.skip("recorded with another guest image or QEMU; `scripts/recorded.py --update` records this one's")
    found = recorded.measure([name])[name]
    assert found == before["results"][name], "scripts/recorded.py says what has moved"
