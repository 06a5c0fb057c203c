"""What an iperf3 client counted, as rates: over the measurement, and in the steady state."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import wiretime._native as _native
from wiretime.models import IperfSummary, Report

# Steady: the rate stays within this over so many round trips, and so long at least, from then on: acknowledgements and
# reads come in blocks.
TOLERANCE, ROUND_TRIPS, LEAST_NS = 0.02, 10, 2e6


class Point(NamedTuple):
    """What a client had counted by a step's end."""

    sent: int
    received: int
    retransmissions: int

    def payload(self, reverse: bool) -> int:
        """Return the bytes of the direction that was asked for."""
        return self.received if reverse else self.sent


def _gbps(bytes_: float, ns: float) -> float:
    return bytes_ * 8 / ns if ns > 0 else 0.0


def steady(bytes_: Sequence[int], step_ns: float, round_trip_ns: float) -> tuple[float, float] | None:
    """Return from when on a rate is steady, in ns, and that rate in Gb/s; ``None`` where it never is.

    ``bytes_`` are cumulative, at the end of each step.
    """
    steps = max(1, round(max(ROUND_TRIPS * round_trip_ns, LEAST_NS) / step_ns))
    ends = list(range(len(bytes_) - 1, -1, -steps))[::-1]
    rates = [(bytes_[b] - bytes_[a]) / steps for a, b in pairwise(ends)]
    for first in range(len(rates) - 1):
        rest = rates[first:]
        mean = sum(rest) / len(rest)
        if mean > 0 and all(abs(r - mean) <= TOLERANCE * mean for r in rest):
            return (ends[first] + 1) * step_ns, _gbps(mean, step_ns)
    return None


def summary(result: Report) -> IperfSummary:
    """Return rates and counts of both sides, of all ports."""
    run = result["configuration"]["run"]
    reports = [port["iperf"] for port in result["ports"] if port["iperf"] is not None]
    asked = run["load"]["iperf"]
    reverse = asked is not None and asked["reverse"]
    warm_up, duration = (_native.parse_duration(text) / 1000 for text in (run["warm_up"], run["duration"]))
    measured, found, slow_start = 0.0, [], 0
    for r in reports:
        step, points = r["series_step_ns"], [Point(*row) for row in r["series"]]

        def at(ns: float, points: Sequence[Point] = points, step: float = step) -> Point:
            i = round(ns / step) - 1
            return points[min(i, len(points) - 1)] if points and i >= 0 else Point(0, 0, 0)

        # In whole steps: what is shorter is measured over one.
        first = round(warm_up / step)
        last = max(round((warm_up + duration) / step), first + 1)
        begin, end = at(first * step), at(last * step)
        measured += _gbps(end.payload(reverse) - begin.payload(reverse), (last - first) * step)
        window = [point.payload(reverse) for point in points[: round((warm_up + duration) / step)]]
        of = steady(window, step, r["round_trip_ns"] or step)
        found.append(of)
        slow_start += at(of[0]).retransmissions if of else 0
    ours = sum(r["received"] if reverse else r["sent"] for r in reports)
    theirs = [r["server_bytes"] for r in reports]
    client, server = ours, None if None in theirs else sum(n for n in theirs if n is not None)
    # What arrived: over the run, as the guest's server counts at its end alone.
    arrived = 1.0 if reverse or not client else None if server is None else min(1.0, server / client)
    return {
        "state": "; ".join(sorted({r["state"] for r in reports})),
        "gbps": measured,
        "received_gbps": None if arrived is None else measured * arrived,
        "steady_gbps": sum(f[1] for f in found if f) if all(found) else None,
        "steady_after_ns": max(f[0] for f in found if f) if all(found) else None,
        "retransmissions": [sum(r["retransmissions"][i] for r in reports) for i in range(2)],
        "retransmissions_before_steady": slow_start if all(found) else None,
        "client_bytes": client,
        "server_bytes": server,
        "datagrams": [sum(r["datagrams"][i] for r in reports) for i in range(2)],
        "round_trip_ns": reports[0]["round_trip_ns"],
    }
