"""Cost models from full-system runs: what a program's loop costs on a core, apart from waiting for memory.

A program is run in full system at several loads and sizes, so that its bursts differ, on two machines: the one that is
asked for, and the same with memory that costs next to nothing. On that one, cycles are explained by empty polls, turns
that find packets, packets, and lines of payload where it reads all. (Counters alone would not tell work from waiting:
an instruction that waits for another one which waits for memory waits for the core.) What memory costs, the model's own
accesses bring back. How long work goes on behind a load, and how far ahead packets are prefetched where they are, is
what nothing tells: that is taken with which the packet-level engine comes nearest to the runs on the machine that is
asked for. Then a packet's cost is moved so that a run of small packets a little beyond what is sustained forwards as
many, and a line's so that one of large packets does: what the accesses leave out is in it.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
from rich.table import Table

import wiretime._native as _native
from wiretime import counters, platforms, runs, software
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.request import Request
from wiretime.setup import store
from wiretime.tables import of_numbers

# What drivers of DPDK 24.11 do with rings and buffers' records (`em_rxtx.c`, `ixgbe_rxtx_vec_neon.c`); their defaults.
DRIVERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "8254x": (
        {"received_lines": 2, "posted_lines": 1, "released_lines": 2},
        {"receive_most": 4096, "refill": 32, "release": 32, "report": 32},
    ),
    "82599": (
        {"received_lines": 1, "posted_lines": 1, "released_lines": 2},
        {"receive_most": 32, "refill": 32, "release": 32, "report": 32},
    ),
    # guest/apps/qdma_rings.c, which does as Xilinx's driver.
    "qdma": (
        {"received_lines": 1, "posted_lines": 1, "released_lines": 2},
        {"receive_most": 128, "refill": 1, "release": 4096, "report": 1},
    ),
}
# What Xilinx's driver programs into the device (facts-qdma.md 3.6), and ours.
QDMA = {
    "completion": 16, "prefetch": 16, "fetch": 32, "coalesce": 31, "coalesce_cycles": 25, "count": 64, "timer": 30,
}  # fmt: skip
# What programs do with a packet's bytes.
PROGRAMS: Mapping[str, Mapping[str, Any]] = {
    "testpmd": {"payload": "header", "writes_header": True},
    "l3fwd": {"payload": "header", "writes_header": True},
    "touchfwd": {"payload": "all", "writes_header": True},
    "rxptx": {"payload": "header", "writes_header": True},
    "qdmafwd": {"payload": "none", "writes_header": False},
}
# What programs do before they send: l3fwd (24.11, `l3fwd_common.h`) gathers 512 packets, looks each 100 us for those
# that wait, and sends 16 and more that come at once by themselves.
AT_ONCE: Mapping[str, Any] = {"gather": 0, "straight": 0, "drain": "0ns"}
GATHERING: Mapping[str, Mapping[str, Any]] = {"l3fwd": {"gather": 512, "straight": 16, "drain": "100us"}}
# Waits that the model's own accesses bring back.
MEMORY = ("l2_hit", "llc_hit", "snoop", "dram", "store_queue_full")
# Memory that costs next to nothing: devices write to the cache, whose time is a cycle or two, as is all behind it.
IDEAL = (
    "llc.dca_ways=8", "llc.latency=1ns", "llc.snoop_latency=0ns", "llc.bank_time=0.1ns", "llc.port_time=0.1ns",
    "dram.controller_latency=0ns",
)  # fmt: skip
SMALL, LARGE = 64, 1518
# Above what anything here forwards; and shares of what is forwarded then.
OVERLOAD, SHARES = "100Gbps", (0.05, 0.15, 0.4, 0.7, 0.9)
WINDOWS, AHEAD = (4, 8, 16, 32, 64, 128), (4, 4096)
BUFFER = 2048
LINE = 64
# Where costs are moved, over what is forwarded under overload: the first load that loses; how often.
BEYOND, CORRECTIONS = (1.1, 1.2, 1.4, 2.0), 4

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A full-system run: its load, and what its core did."""

    request: Request
    result: Report
    # Cycles without waiting for memory, and what explains them.
    cycles: float
    causes: Mapping[str, float]
    # Whether driver or program prefetch each packet.
    prefetches: bool


@dataclass(frozen=True)
class Found:
    """A model and how well it does: both engines' results of each run."""

    model: software.Model
    points: Sequence[Point]
    modelled: Sequence[Report]


def _point(request: Request, lines: bool) -> Point:
    result = runs.execute(request).result
    s = counters.of(result)
    drivers = [counters.numbers(q["driver"]) for port in s["ports"] for q in port["queues"]]
    total = {k: float(sum(d[k] for d in drivers)) for k in ("empty_polls", "bursts", "burst_packets")}
    working = [c for c in s["cores"][1:] if c["core"]["cycles"]]
    stalls = [counters.numbers(c["stalls"]) for c in working]
    cycles = sum(c["core"]["cycles"] for c in working) - sum(st[name] for st in stalls for name in MEMORY)
    size = int(request.packet_size) if isinstance(request.packet_size, int) else SMALL
    causes = {"empty_poll": total["empty_polls"], "turn": total["bursts"], "packet": total["burst_packets"]}
    if lines:
        causes["line"] = total["burst_packets"] * -(-size // LINE)
    prefetches = sum(c["caches"]["software_prefetches"] for c in working) > total["burst_packets"] / 2
    return Point(request, result, float(cycles), causes, prefetches)


def _fit(points: Sequence[Point]) -> dict[str, float]:
    """Explain cycles by causes, none of which costs less than nothing; every run counts the same."""
    names = list(points[0].causes)
    weights = np.array([[p.causes[n] / p.cycles for n in names] for p in points])
    target = np.ones(len(points))
    best: tuple[float, dict[str, float]] | None = None
    for count in range(len(names), 0, -1):
        for some in itertools.combinations(range(len(names)), count):
            found, *_ = np.linalg.lstsq(weights[:, some], target, rcond=None)
            if (found < 0).any():
                continue
            error = float(((weights[:, some] @ found - target) ** 2).sum())
            if best is None or error < best[0]:
                best = (
                    error,
                    dict.fromkeys(names, 0.0) | {names[i]: float(v) for i, v in zip(some, found, strict=True)},
                )
    if best is None:
        raise WiretimeError("model: no costs explain these runs")
    return best[1]


def _model(request: Request, costs: Mapping[str, float], window: int, ahead: int, source: str) -> software.Model:
    interface = platforms.interfaces(runs.machine(request))[0]
    touches, policy = DRIVERS[interface]
    setup = runs.check(request)
    ring = setup.command.ring
    # Receiving and sending cannot be told apart by runs that forward everything: halves.
    half = round(costs["packet"] / 2, 2)
    made: software.Model = {
        "name": f"{request.app}-{interface}",
        "source": source,
        "interface": interface,
        "platform": setup.platform["name"],
        "cycles": {
            "empty_poll": max(1.0, round(costs["empty_poll"], 2)),
            "turn": round(costs["turn"], 2),
            "receive": half,
            "work": 0.0,
            "line": round(costs.get("line", 0.0), 3),
            "send": half,
            "release": 0.0,
            "segment": half,
        },
        "touches": {"window": window, **touches, "prefetch_ahead": ahead, **PROGRAMS[request.app]},
        "policy": {
            "program": "forward",
            "burst": 32,
            "receive_ring": ring,
            "transmit_ring": ring,
            **policy,
            **GATHERING.get(request.app, AT_ONCE),
            "on_full": "drop",
            "buffer": BUFFER,
        },
    }
    return {**made, "qdma": QDMA} if interface == "qdma" else made


def simulated(request: Request, model: software.Model) -> Report:
    """Run a request on the packet-level engine with this model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{model['name']}.toml"
        path.write_text(text(model))
        return runs.execute(replace(request, engine=software.PACKET, model=str(path))).result


def rate_and_latency(result: Report) -> tuple[float, float]:
    """Return packets forwarded, Mpps, and the mean latency, ns."""
    latency = result["latency_ns"]
    return result["forwarded_mpps"], latency["mean"] if latency else 0.0


def _distance(points: Sequence[Point], others: Sequence[Report]) -> float:
    """Return how far rates under overload, and latencies below it, are apart on the whole."""
    apart = []
    for p, other in zip(points, others, strict=True):
        (rate, latency), (its_rate, its_latency) = rate_and_latency(p.result), rate_and_latency(other)
        if not min(rate, latency, its_rate, its_latency) > 0:
            return float("inf")
        lossy = p.result["loss_percent"] > 1
        if p.request.rate == OVERLOAD and not lossy:
            continue  # the line is full: how much waits hangs on nothing that is measured here
        apart.append(np.log(its_rate / rate if lossy else its_latency / latency))
    return float(np.mean(np.abs(apart)))


def make(request: Request, tell: Tell) -> Found:
    """Measure a program in full system and make its model."""
    if request.app not in PROGRAMS:
        raise WiretimeError(f"model: programs that forward: {', '.join(PROGRAMS)}; not {request.app}")
    if request.engine != software.FULL:
        raise WiretimeError("--engine: a model is made from runs in full system")
    machine = runs.machine(request)
    interface = platforms.interfaces(machine)[0]
    if interface not in DRIVERS:
        raise WiretimeError(f"--nic {interface}: models are made for {', '.join(DRIVERS)}")
    if (cores := int(machine["system"]["cores"])) != 2 or request.queues != 1:
        raise WiretimeError(f"--cores {cores - 1}, --queues {request.queues}: a model is of one core and one queue")
    lines = PROGRAMS[request.app]["payload"] == "all"

    def measured(on: Request, where: str) -> list[Point]:
        points: list[Point] = []

        def run(size: int, rate: str) -> Point:
            points.append(_point(replace(on, packet_size=size, rate=rate), lines))
            forwarded, latency = rate_and_latency(points[-1].result)
            tell(f"{size} B at {rate}{where}: {forwarded:.2f} Mpps, {latency:.0f} ns")
            return points[-1]

        for size in (SMALL, LARGE):
            most = run(size, OVERLOAD).result["forwarded_gbps"]
            for share in SHARES:
                run(size, f"{share * most:.2f}Gbps")
        return points

    ideal = measured(replace(request, changes=(*request.changes, *IDEAL)), ", memory for nothing")
    points = measured(request, "")
    costs = _fit(ideal)
    explained = [sum(costs[n] * p.causes[n] for n in costs) for p in ideal]
    tell(", ".join(f"{name} {cycles:.1f} cycles" for name, cycles in costs.items()))
    source = _source(request, ideal, explained)
    nearest: tuple[float, int, int] | None = None
    for window in WINDOWS:
        for ahead in AHEAD if points[0].prefetches else (0,):
            model = _model(request, costs, window, ahead, source)
            distance = _distance(points, [simulated(p.request, model) for p in points])
            tell(f"{window} cycles behind a load, prefetched {ahead} packets ahead: {100 * distance:.1f} % apart")
            if nearest is None or distance < nearest[0]:
                nearest = (distance, window, ahead)
    assert nearest is not None
    _, window, ahead = nearest
    # A little beyond what is forwarded: far beyond it, what is dropped counts, too.
    edges = [(_edge(request, points, SMALL, lines), "packet", 1)]
    if lines:
        edges.append((_edge(request, points, LARGE, lines), "line", -(-LARGE // LINE)))
    for _ in range(CORRECTIONS):
        for edge, name, share in edges:
            other = simulated(edge.request, _model(request, costs, window, ahead, source))
            costs[name] = max(0.0, costs[name] + _missing(edge, other, machine) / share)
    tell(f"a packet costs {costs['packet']:.1f} cycles, and a turn {costs['turn']:.1f}")
    model = _model(request, costs, window, ahead, source)
    return Found(model, points, [simulated(p.request, model) for p in points])


def _edge(request: Request, points: Sequence[Point], size: int, lines: bool) -> Point:
    """Return a run of a size at the first load, of some beyond what is forwarded, that loses packets; else the last."""
    most = next(p for p in points if p.request.packet_size == size).result["forwarded_gbps"]
    for factor in BEYOND:
        edge = _point(replace(request, packet_size=size, rate=f"{factor * most:.2f}Gbps"), lines)
        if edge.result["loss_percent"] > 1:
            break
    return edge


def _missing(full: Point, other: Report, machine: Mapping[str, Any]) -> float:
    """Return the cycles of a packet that a model lacks, where both engines are at their limit."""
    frequency = _native.parse_frequency(machine["core"]["frequency"])
    its, rate = rate_and_latency(other)[0], rate_and_latency(full.result)[0]
    if not min(its, rate) > 0:
        return 0.0
    return float(frequency / 1e6 * (1 / rate - 1 / its))


def _source(request: Request, points: Sequence[Point], explained: Sequence[float]) -> str:
    core = runs.machine(request)
    errors = [abs(e / p.cycles - 1) for e, p in zip(explained, points, strict=True)]
    kernel = points[0].result["versions"]["guest_kernel"]
    identity = store.digest(json.dumps([p.result for p in points], sort_keys=True))[:12]
    fit = f"cycles of {len(points)} runs within {100 * float(np.median(errors)):.1f} %, worst {100 * max(errors):.1f} %"
    on = f"{core['name']} at {core['core']['frequency']}, Linux {kernel}"
    return f"wiretime model {request.app}: runs {identity} on {on}; {fit}"


NOTES = {
    "cycles": "without waiting for memory; receive and send: halves of what a packet costs",
    "touches": "DPDK 24.11's driver and the program; window, prefetch_ahead: nearest to full system",
    "policy": "defaults of DPDK 24.11 and of our command lines",
    "qdma": "what the driver programs",
}


def text(model: software.Model) -> str:
    """Return a model as the text of its file."""
    made = tomlkit.document()
    made.add(tomlkit.comment("Made by `wiretime model`; see docs/packet-engine.md."))
    for key, value in model.items():
        if isinstance(value, Mapping):
            table = tomlkit.table()
            table.comment(NOTES[key])
            for name, inner in value.items():
                table.add(name, inner)
            made.add(key, table)
        else:
            made.add(key, value)
    return tomlkit.dumps(made)


def table(found: Found) -> Table:
    """Return both engines' results of every run beside each other."""
    shown = of_numbers(
        "full system, and the model of it",
        "offered", "Mpps", "modelled", "error", "latency", "modelled", "error", "",
    )  # fmt: skip
    for p, other in zip(found.points, found.modelled, strict=True):
        (rate, latency), (its_rate, its_latency) = rate_and_latency(p.result), rate_and_latency(other)
        shown.add_row(
            f"{p.request.packet_size} B, {p.request.rate}",
            f"{rate:.2f}", f"{its_rate:.2f}", f"{100 * (its_rate / rate - 1):+.1f} %",
            f"{latency:.0f} ns", f"{its_latency:.0f} ns", f"{100 * (its_latency / latency - 1):+.1f} %", "",
        )  # fmt: skip
    return shown
