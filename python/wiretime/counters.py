"""Counters of a result, taken out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from wiretime.apps.model import CONSUMES
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


def done(result: Report) -> int:
    """Return how many packets the program did in the measurement: sent, or took, where it sends none back.

    Of iperf3 whichever way the payload goes: what goes back is fewer.
    """
    statistics = of(result)
    sent, taken = statistics["transmit"]["frames"], statistics["receive"]["delivered"]
    if "iperf" in result:
        return max(sent, taken)
    return taken if result["app"]["role"] == CONSUMES else sent
