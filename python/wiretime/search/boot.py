"""Trials one after the other in one boot."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any, TypeVar

import wiretime._native as _native
from wiretime import apps, load, runs
from wiretime.apps.model import SENDS
from wiretime.errors import WiretimeError
from wiretime.request import OF_ONE_LOAD, option_of
from wiretime.search.trials import Asked, Length, Steps

Found = TypeVar("Found")
Search = Callable[[int, float, Length], Generator[Asked, dict[str, Any], Found]]

# Frames of a search that is not told which.
STANDARD_SIZES = (64, 128, 256, 512, 1024, 1518)
FACTOR_MIN, FACTOR_MAX = 0.1, 100.0
# Periods of bursts that a trial has at least: of long ones as many as fit into its longest.
PERIODS, LONGEST_PERIODIC_PS = 10, 200 * 10**9
# A fresh program takes its buffers in order of address, which caches and prefetchers like; one that has run for a while
# does not, and is some 5 % slower. Small bursts of random lengths get it there soonest.
AGEING, AGEING_RATE = "10ms", 5e9
# What leaves as a copy counts as thrown away until then: for so long it is waited for.
COPIES_PS = 500 * 10**6
# What finds out whether the program runs; any link carries it.
WAKING, WAKING_SHARE = "0.1%", 0.001


def waking(request: runs.Request) -> runs.Checked:
    """Return a search's request, checked, at the load that it begins with: what a run would offer may be too much."""
    return runs.check(replace(request, rate=WAKING))


def searched(request: runs.Request) -> runs.Checked:
    """Return a search's request, checked as :func:`waking` does, and that nothing in it is what the search finds."""
    if apps.find(request.app, request.own, request.dpdk).traffic == "iperf":
        raise WiretimeError(f"{request.app} finds its rate by itself: `wiretime run {request.app}`")
    usual = runs.Request()
    for name in (*OF_ONE_LOAD, "iperf"):
        if getattr(request, name) != getattr(usual, name):
            raise WiretimeError(f"{option_of(name)}: not of a search, which finds the load itself")
    checked = waking(request)
    if checked.command.role == SENDS:
        raise WiretimeError(f"{request.app} sends by itself here: a search needs a program that takes a load")
    return checked


def link(request: runs.Request) -> dict[str, Any]:
    """Return the link's parameters, the request checked."""
    found: dict[str, Any] = searched(request).platform["link"][0]
    return found


def _shortest(request: runs.Request) -> int:
    """Return the length of the shortest packets that a search may offer; stores' requests count as these."""
    return load.shortest(request.timestamp_offset, request.internet)


def sizes_of(request: runs.Request, asked: Sequence[int] | None, usual: Sequence[int] = STANDARD_SIZES) -> list[int]:
    """Return the packet sizes of a search: those asked for, or the usual ones.

    Requests to a store have lengths of their own, and count as the shortest frames, as the engine counts them.
    """
    if apps.find(request.app, request.own, request.dpdk).traffic != "memcached":
        return list(usual if asked is None else asked)
    if asked is not None and set(asked) != {load.LENGTH_MIN}:
        raise WiretimeError(f"packet size: not with {request.app}, whose requests have lengths of their own")
    return [load.LENGTH_MIN]


def line(request: runs.Request, size: int) -> float:
    """Return the bits of frames a second that the line carries at a packet size, the request checked."""
    sizes_of(request, [size])
    return float(load.carried(link(replace(request, packet_size=size)), Fraction(size)))


def length(request: runs.Request, factor: float) -> Length:
    """Return how long trials of a request are."""
    if not FACTOR_MIN <= factor <= FACTOR_MAX:
        raise WiretimeError(f"--trial-length {factor:g}: allowed are {FACTOR_MIN:g} to {FACTOR_MAX:g}")
    checked = waking(request)
    if checked.settings["load"]["arrivals"]["kind"] == "ramp":
        raise WiretimeError(f"--arrivals {request.arrivals}: not of a search, whose loads last")
    return Length(checked.command.ring * request.queues, factor)


def period_ps(arrivals: Mapping[str, Any], link: Mapping[str, Any], size: int, rate: float) -> float:
    """Return how long it takes until arrivals of a rate repeat themselves; 0 of those that have no periods."""
    if arrivals["kind"] == "burst":
        return float(arrivals["size"] * size * 8e12 / rate)
    if arrivals["kind"] == "on-off":
        return _native.parse_duration(arrivals["on"]) * float(load.carried(link, Fraction(size))) / rate
    return 0.0


def in_periods(period: float, warm_up: int, duration: int) -> tuple[int, int]:
    """Return warm-up and duration in whole periods of arrivals, in ps: a window between two bursts shows nothing.

    Of a period that is longer than trials it is the burst with which the load begins.
    """
    count = min(max(ceil(duration / period), PERIODS), int(LONGEST_PERIODIC_PS / period))
    if count == 0:
        return 0, LONGEST_PERIODIC_PS
    return ceil(ceil(warm_up / period) * period), ceil(count * period)


def _ageing(checked: runs.Checked, highest: float) -> tuple[float, str]:
    """Return rate and length of what comes before the first trial; a store is filled, at a rate that it bears."""
    store = checked.settings["load"]["store"]
    if store is None:
        return min(AGEING_RATE, highest), AGEING
    rate = load.rate("--rate", checked.app.rate, checked.platform["link"][0], Fraction(load.LENGTH_MIN))
    # Some keys are set twice.
    seconds = 1.2 * store["keys"] * load.LENGTH_MIN * 8 / rate
    return rate, f"{int(seconds * 1e9)}ns"


def _aged(steps: Steps, size: int, rate: float, duration: str) -> Steps:
    """Have the program's buffers used in every order before the first trial."""
    yield {
        "size": size,
        "rate": f"{int(rate)}bps",
        "arrivals": {"kind": "poisson"},
        "idle": "0ns",
        "warm_up": "0ns",
        "duration": duration,
        "follow": "0ns",
    }
    yield from steps


def in_one_boot(request: runs.Request, sizes: Sequence[int], steps: Steps) -> None:
    """Boot once and run the trials that ``steps`` asks for, of these packet sizes."""
    # What the boot starts with only wakes the program up; the first trial replaces it.
    packet_sizes = ",".join(str(size) for size in sorted(set(sizes)))
    first = replace(request, packet_size=packet_sizes, rate=WAKING, warm_up="10us", duration="10us", follow="0ns")
    checked = runs.check(first)
    base = checked.settings["load"]
    # The same for whatever sizes follow, so that boots do not differ by them.
    size = _shortest(request)
    rate = int(line(request, size) * WAKING_SHARE)
    shortest = {**base, "sizes": {"kind": "fixed", "size": size}, "rate": f"{rate}bps"}
    first = replace(first, internals={**(request.internals or {}), "load": shortest})
    aged = _aged(steps, size, *_ageing(checked, line(request, size)))
    port = checked.platform["link"][0]
    wire = max(_native.parse_duration(each["latency"]) for each in checked.platform["link"])
    woken = False

    def on_trial(result: dict[str, Any]) -> Asked | None:
        nonlocal woken
        result["role"] = checked.command.role
        result["chance"] = base["arrivals"]["kind"] != "constant"
        try:
            asked = dict(aged.send(result) if woken else next(aged))
        except StopIteration:
            return None
        woken = True
        warm_up, duration, follow = (_native.parse_duration(asked[name]) for name in ("warm_up", "duration", "follow"))
        # What an earlier trial has sent arrives for as long as the wire takes; and so late come the last answers.
        settles, follow = wire if warm_up else 0, follow + 2 * wire if follow else 0
        if checked.app.copies:
            follow = max(follow, COPIES_PS)
        if "arrivals" not in asked and not asked.get("packets"):
            period = period_ps(base["arrivals"], port, asked["size"], _native.parse_rate(asked["rate"]))
            warm_up, duration = in_periods(period, warm_up, duration) if period else (warm_up, duration)
        asked |= {"warm_up": f"{warm_up + settles}ps", "duration": f"{duration}ps", "follow": f"{follow}ps"}
        changes = {
            "sizes": {"kind": "fixed", "size": asked.pop("size")},
            "rate": asked.pop("rate"),
            "packets": asked.pop("packets", None),
            "arrivals": asked.pop("arrivals", base["arrivals"]),
        }
        return {"load": {**base, **changes}, **asked}

    runs.execute(first, on_trial=on_trial)


def for_each_size(request: runs.Request, sizes: Sequence[int], factor: float, search: Search[Found]) -> list[Found]:
    """Search for something at one packet size after the other, in one boot.

    ``search`` is given the size, what the line carries at it, and the length of trials.
    """
    lines = [line(request, size) for size in sizes]
    trial_length = length(request, factor)
    found: list[Found] = []

    def steps() -> Steps:
        for size, highest in zip(sizes, lines, strict=True):
            found.append((yield from search(size, highest, trial_length)))

    in_one_boot(request, sizes, steps())
    return found
