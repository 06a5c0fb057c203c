"""Receive descriptors for a rate: by arithmetic, and by simulation.

While C cores work on a burst of n packets for T(n), R T(n) / C packets arrive for each: so many descriptors a ring
needs beside the burst itself. T(n) is measured: under overload with bursts of n, a burst takes n packets' share of the
time. What the arithmetic leaves out is what simulation shows: bursts are not always full, write-backs and refills come
in groups, the NIC's FIFO holds some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

import wiretime._native as _native
from wiretime import api, apps, load, platforms, runs, scratch, software
from wiretime.apps.model import BUFFER, SENDS
from wiretime.counters import done, of
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.request import Request
from wiretime.search.trials import backlog
from wiretime.study.plan import settings_of
from wiretime.tables import of_numbers

# Bytes of a line of the LLC.
LINE = 64
BURSTS = (1, 2, 4, 8, 16, 32, 64)
RINGS = (32, 64, 128, 256, 512, 1024, 2048, 4096)
USUAL_BURST = 32
OVERLOAD = {"duration": "300us", "warm_up": "200us"}
SUSTAINED = {"duration": "2ms", "warm_up": "500us"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Advice:
    """Bursts with the time that one takes; rings with the loss at the rate; packets a second and cores; warnings."""

    bursts: Sequence[tuple[int, float]]
    rings: Sequence[tuple[int, float | None]]
    packets_ns: float
    cores: int
    threshold: float
    warnings: Sequence[str]

    def ideal(self, burst_ns: float) -> float:
        """Return R T / C."""
        return self.packets_ns * burst_ns / self.cores

    @property
    def sustaining(self) -> tuple[int, int] | None:
        """The smallest and the largest of the longest rings, next to each other, that sustain the load."""
        found: tuple[int, int] | None = None
        for ring, loss in sorted(self.rings, reverse=True):
            if loss is not None and loss <= self.threshold:
                found = (ring, found[1] if found else ring)
            elif found:
                break
        return found

    @property
    def smallest(self) -> int | None:
        """The smallest ring from which on all sustain the load, up to one that is too large or could not be run."""
        return self.sustaining[0] if self.sustaining else None


def _sweep(name: str, fixed: Row, axis: str, values: Sequence[int], jobs: int | None) -> dict[int, Report | None]:
    """Return the results of a study with one axis; ``None`` for points that failed."""
    plan = {"study": {"name": name}, "fixed": dict(fixed), "axes": {axis: list(values)}, "metrics": ["loss_percent"]}
    with scratch.folder() as path:
        study = api.sweep(plan, out=path, jobs=jobs)
        if len(failed := study.failed()) == len(values):
            raise WiretimeError(f"advise: nothing could be run: {next(iter(failed.values()))}")
        results = study.results(axis)
    return {value: results.get(value) for value in values}


def _lost(result: Report) -> float:
    """Return the percentage that a load of any length would lose: what rings only take in is part of it."""
    return max(result["loss_percent"], 100 * backlog(result))


def advise(
    request: Request,
    rate: str,
    threshold: float,
    jobs: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Advice:
    """Measure and compute; ``threshold`` is the loss in percent that counts as sustained."""
    app = apps.find(request.app, request.own, request.dpdk)
    if not any(option.startswith("--burst") for option, _ in app.options):
        with_burst = [a.name for a in apps.APPS.values() if any(o.startswith("--burst") for o, _ in a.options)]
        raise WiretimeError(
            f"advise varies the burst (--burst), which {app.name} does not have; those that do: {', '.join(with_burst)}"
        )
    if app.traffic == "memcached":
        raise WiretimeError(
            f"advise: {app.name} answers requests of a store that has to be filled first: sweep it instead"
        )
    if runs.check(replace(request, rate=rate)).command.role == SENDS:
        raise WiretimeError(f"advise: {app.name} sends by itself here: there is nothing to receive")
    platform = runs.machine(request)
    size = load.sizes(request.packet_size)
    bits = load.rate("--rate", rate, platform["link"][0], load.mean(size))
    # The rate is each port's.
    ports = platforms.ports(platform)
    packets_ns = ports * float(Fraction(bits) / 8 / load.mean(size) / 10**9)
    fixed = settings_of(request)
    cores = apps.Setup(platform, request.queues, 64, {}).workers
    card = platforms.interfaces(platform)[0]
    least = software.GROUPS.get(card, 1) if request.engine == software.PACKET else 1
    tell(f"bursts of {max(BURSTS[0], least)} to {BURSTS[-1]} under overload")
    possible = [n for n in BURSTS if n >= least]
    found = _sweep("bursts", {**fixed, **OVERLOAD, "rate": "100%"}, "--burst", possible, jobs)
    bursts = [
        (n, n * of(result)["time_ps"] / 1000 / did * cores)
        for n, result in found.items()
        if result and (did := done(result))
    ]
    if not bursts:
        raise WiretimeError("advise: nothing was taken under overload")
    tell(f"rings of {RINGS[0]} to {RINGS[-1]} descriptors at {rate}")
    at_rate = _sweep("rings", {**fixed, **SUSTAINED, "rate": rate}, "--rxd", RINGS, jobs)
    rings = [(n, _lost(result) if result else None) for n, result in at_rate.items()]
    warnings = []
    unlimited = [n for n, result in found.items() if result and _lost(result) < 1]
    if unlimited:
        warnings.append(f"bursts of {', '.join(map(str, unlimited))}: the line was the limit, T(n) is less than that")
    warnings += _cache_warning(platform, [n for n, _ in rings], request.queues * ports)
    return Advice(bursts, rings, packets_ns, cores, threshold, warnings)


def _cache_warning(platform: Mapping[str, Any], rings: Sequence[int], queues: int) -> list[str]:
    """Return a warning where rings' buffers are more than DMA may keep in the LLC."""
    llc = platform["llc"]
    share, by = _native.parse_size(llc["size"]) * llc["dca_ways"] // llc["ways"], "{dca_ways} of {ways} ways"
    if 0 < llc["dca_lines"] * LINE < share:
        share, by = llc["dca_lines"] * LINE, "{dca_lines} lines"
    if share == 0:
        return ["llc.dca_ways is 0: packets go to memory, whatever the ring"]
    too_large = [n for n in rings if n * queues * BUFFER > share]
    if not too_large:
        return []
    kib = too_large[0] * queues * BUFFER >> 10
    return [
        f"rings of {too_large[0]} descriptors and more: their buffers ({kib} KiB) are above the {share >> 10} KiB of "
        f"the LLC that DMA may use ({by.format(**llc)}): packets leak to memory"
    ]


def show(advice: Advice) -> RenderableType:
    """Return the advice as tables."""
    bursts = of_numbers("by arithmetic: R T(n) / C", "burst n", "T(n)", "descriptors", "with the burst itself", "")
    for n, ns in advice.bursts:
        ideal = advice.ideal(ns)
        bursts.add_row(str(n), f"{ns:.0f} ns", f"{ideal:.1f}", f"{ideal + n:.0f}", "usual" if n == USUAL_BURST else "")
    rings = of_numbers("by simulation", "descriptors", "loss", "")
    for n, loss in advice.rings:
        verdict = "not possible" if loss is None else "sustains the rate" if loss <= advice.threshold else ""
        rings.add_row(str(n), "" if loss is None else f"{loss:.3f} %", verdict)
    found = "no ring of these"
    if advice.sustaining:
        first, last = advice.sustaining
        # Those that are too large for the cache may lose again.
        more = "" if last == max(n for n, _ in advice.rings) else f" to {last}"
        found = f"{first}{more} descriptors"
    core = f"{advice.packets_ns * 1000:.2f} Mpps, {advice.cores} core{'s'[: advice.cores > 1]}"
    parts: list[RenderableType] = [bursts, rings, Text(f"{core}: {found} sustain the rate in simulation")]
    return Group(*parts, *[Text(f"warning: {w}", style="yellow") for w in advice.warnings])
