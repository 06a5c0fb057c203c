"""Types of what goes into an engine and comes out: declared once, by the engine."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from wiretime import paths, schemas, statistics
from wiretime.study import metrics, point


def test_schema_and_models_are_what_the_types_make() -> None:
    made = subprocess.run([sys.executable, paths.REPOSITORY / "scripts/models.py", "--check"], capture_output=True)
    assert (made.returncode, made.stdout) == (0, b""), "run scripts/models.py"


def _objects(node: Any) -> list[dict[str, Any]]:
    """Return all tables of a schema."""
    below = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
    found = [table for child in below for table in _objects(child)]
    return [node, *found] if isinstance(node, dict) and "properties" in node else found


@pytest.mark.parametrize("name", ["platform", "settings", "trial", "result"])
def test_every_field_is_explained_and_no_other_is_taken(name: schemas.Name) -> None:
    for table in _objects(schemas.schema(name)):
        title = table.get("title", table.get("description", ""))
        if "kind" not in table["properties"]:
            assert table.get("additionalProperties") is False, f"{title}: takes what it does not know"


def test_a_counter_has_unit_and_meaning() -> None:
    groups = statistics.catalogue()
    assert {"cores.*.core", "dram", "ports.*.queues.*.driver", "far"} <= set(groups)
    assert all(stat.unit and stat.meaning for group in groups.values() for stat in group)
    assert any(stat.gauge for stat in groups["ports.*.receive"])
    metrics.check_name("here", "statistics.cores.1.processor_time.idle_ps")
    metrics.check_name("here", "statistics.ports.0.queues.3.driver.polls")
    metrics.check_name("here", "cohort.dma_drop")


def test_an_unknown_field_is_refused() -> None:
    root = schemas.schema("result")
    counts = schemas.resolved(root["properties"]["cohort"], root)
    sound = dict.fromkeys(counts["required"], 1)
    jsonschema.validate(sound, dict(counts))
    with pytest.raises(jsonschema.ValidationError, match="lost"):
        jsonschema.validate({**sound, "lost": 1}, dict(counts))
    missing = copy.copy(sound)
    del missing["offered"]
    with pytest.raises(jsonschema.ValidationError, match="offered"):
        jsonschema.validate(missing, dict(counts))


def test_what_decides_a_point_is_found() -> None:
    found = point.deciding()
    assert {"wiretime.runs", "wiretime.load", "wiretime.vm", "wiretime.apps.dpdk", "wiretime.search.maximum"} <= set(
        found
    )
    assert {"wiretime.study.point", "wiretime.study.metrics", "wiretime.platforms", "wiretime.iperf"} <= set(found)
    # Drawing and judging read finished points.
    assert not {
        name for name in found if name.startswith(("wiretime.study.draw", "wiretime.validation", "wiretime.cli"))
    }
