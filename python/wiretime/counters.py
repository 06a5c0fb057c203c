"""Counters of a result, taken out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from wiretime.errors import WiretimeError
from wiretime.models import Report, Statistics


def of(result: Report) -> Statistics:
    """Return the counters of a run that had a measurement."""
    found = result["statistics"]
    if found is None:
        raise WiretimeError("the run holds no statistics")
    return found


def numbers(table: Mapping[str, object]) -> Mapping[str, int]:
    """Return a table of counters, or of what became of packets, by any of its names."""
    return cast(Mapping[str, int], table)
