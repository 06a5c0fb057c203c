"""Cost models from full-system runs: what a program's loop costs on a core, apart from waiting for memory.

A program is run in full system at several loads and sizes, so that its bursts differ, on two machines: the one that is
asked for, and the same with memory that costs next to nothing. On that one, cycles are explained by empty polls, turns
that find packets, packets, and lines of payload where it reads all. (Counters alone would not tell work from waiting:
an instruction that waits for another one which waits for memory waits for the core.) Which part of a packet's cost is
receiving, work and sending says a profile there: what testpmd needs of the driver to receive alone is the driver's
receiving. What memory costs, the model's own accesses bring back; work goes on behind a load for as long as the reorder
buffer has room: as long as the pace of work on the ideal machine says, or up to twice as long, so that a run of small
packets just beyond what is sustained forwards as many. Where that is not enough a packet's cost is moved, and a line's
for a run of large packets.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
from rich.table import Table

import wiretime._native as _native
from wiretime import counters, runs, scratch, software
from wiretime.apps import words
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.profile import KERNEL_FILE
from wiretime.request import Request, option_of
from wiretime.setup import store
from wiretime.tables import of_numbers

# What drivers of DPDK 24.11 do with rings and buffers' records (`em_rxtx.c`, which prefetches packets as it takes them;
# `ixgbe_rxtx_vec_neon.c`); their defaults.
DRIVERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "8254x": (
        {"received_lines": 2, "posted_lines": 1, "released_lines": 2, "prefetch_ahead": software.AT_RECEPTION},
        {"receive_most": 4096, "refill": 32, "release": 32, "report": 32},
    ),
    "82599": (
        {"received_lines": 1, "posted_lines": 1, "released_lines": 2},
        {"receive_most": 4096, "refill": 32, "release": 32, "report": 32},
    ),
    # guest/apps/qdma_rings.c, which does as Xilinx's driver.
    "qdma": (
        {"received_lines": 1, "posted_lines": 1, "released_lines": 2},
        {"receive_most": 128, "refill": 1, "release": 4096, "report": 1},
    ),
    # `mlx5_rxtx_vec_neon.h`, `mlx5_tx.h`: sent buffers are looked for before each burst.
    "connectx-6dx": (
        {"received_lines": 1, "posted_lines": 1, "released_lines": 2},
        {"receive_most": 4096, "refill": 64, "release": 0, "report": 32},
    ),
}
# What Xilinx's driver programs into the device, and ours.
QDMA = {
    "completion": 16, "prefetch": 16, "fetch": 32, "coalesce": 31, "coalesce_cycles": 25, "count": 64, "timer": 30,
}  # fmt: skip
# What Debian's build of net_mlx5 makes of a ConnectX: lines of 128 B; four completions a call.
CONNECTX = {"completion": 128, "compresses": True, "looks": 4, "packets": 32}
TABLES = {"qdma": ("qdma", QDMA), "connectx-6dx": ("connectx", CONNECTX)}
# Drivers that look until there is nothing (`mlx5_rx_burst_vec`); hardly any packets.
LOOKS_AGAIN, IDLE = ("connectx-6dx",), "1Mbps"
# The driver's file in the guest, where it is a library.
LIBRARIES = {"8254x": "librte_net_e1000", "82599": "librte_net_ixgbe", "connectx-6dx": "librte_net_mlx5"}
# What programs do with a packet's bytes, and how far ahead they prefetch them themselves (`macswap_neon.h`,
# `l3fwd_lpm_neon.h`: the next four).
PROGRAMS: Mapping[str, Mapping[str, Any]] = {
    "testpmd": {"payload": "header", "writes_header": True, "prefetch_ahead": 4},
    "l3fwd": {"payload": "header", "writes_header": True, "prefetch_ahead": 4},
    "touchfwd": {"payload": "all", "writes_header": True, "prefetch_ahead": 0},
    "rxptx": {"payload": "header", "writes_header": True, "prefetch_ahead": 0},
    "qdmafwd": {"payload": "none", "writes_header": False, "prefetch_ahead": 0},
}
# What programs do before they send: l3fwd (24.11.6, `l3fwd_common.h`) gathers 512 packets, looks each 100 us for those
# that wait, and sends 32 and more that come at once by themselves (`--tx-burst`).
AT_ONCE: Mapping[str, Any] = {"gather": 0, "straight": 0, "drain": "0ns"}
GATHERING: Mapping[str, Mapping[str, Any]] = {"l3fwd": {"gather": 512, "straight": 32, "drain": "100us"}}
# How they hand out queues, unless in turn.
SPREAD = {"testpmd": "streams", "l3fwd": "queues"}
# Waits that the model's own accesses bring back.
MEMORY = ("l2_hit", "llc_hit", "snoop", "dram", "store_queue_full")
# Memory that costs next to nothing: devices write to the cache, whose time is a cycle or two, as is all behind it.
IDEAL = (
    "llc.dca_ways=8", "llc.latency=1ns", "llc.snoop_latency=0ns", "llc.bank_time=0.1ns", "llc.port_time=0.1ns",
    "llc.device_latency=1ns", "llc.device_past_latency=1ns", "dram.controller_latency=0ns",
)  # fmt: skip
SMALL, LARGE, BURST = 64, 1518, 32
# Above what anything here forwards; and shares of what is forwarded then.
OVERLOAD, SHARES = "100Gbps", (0.05, 0.15, 0.4, 0.7, 0.9)
BUFFER = 2048
# A symbol of the driver that takes less of receiving alone than this is not part of it.
PART = 0.02
LINE = 64
# What the window is fitted to, and costs are moved for, over what is forwarded under overload: little more than is
# sustained, and so much that rings and FIFO are full before anything is measured; the warm-up of that; how often.
BEYOND, SETTLED, CORRECTIONS = 1.1, "3ms", 10
# An error of the rate that a window leaves and no cost is moved for.
EXPLAINED = 0.01
# How much longer the window may be than what the reorder buffer's entries come to, as a factor. It is not shorter: what
# else holds the core is a cost, and not a wait that is the longer the slower memory is.
ROOM = 2

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """A full-system run: its load, and what its core did."""

    request: Request
    result: Report
    # Cycles without waiting for memory, and what explains them.
    cycles: float
    causes: Mapping[str, float]
    # Instructions in so many cycles.
    instructions: float


@dataclass(frozen=True)
class Found:
    """A model and how well it does: both engines' results of each run."""

    model: software.Model
    points: Sequence[Point]
    modelled: Sequence[Report]


def _ended(result: Report) -> int:
    """Return how many bursts a look ended that found nothing: those that were not as long as one may be."""
    bursts = [pair for port in result["ports"] for queue in port["queues"] for pair in queue["burst_sizes"]]
    return sum(n for size, n in bursts if 0 < size < BURST)


def _point(request: Request, lines: bool, further_call: float) -> Point:
    result = runs.execute(request).result
    s = counters.of(result)
    drivers = [counters.numbers(q["driver"]) for port in s["ports"] for q in port["queues"]]
    total = {k: float(sum(d[k] for d in drivers)) for k in ("empty_polls", "bursts", "burst_packets")}
    working = [c for c in s["cores"][1:] if c["core"]["cycles"]]
    stalls = [counters.numbers(c["stalls"]) for c in working]
    cycles = sum(c["core"]["cycles"] for c in working) - sum(st[name] for st in stalls for name in MEMORY)
    size = int(request.packet_size) if isinstance(request.packet_size, int) else SMALL
    # A driver that looks until there is nothing has looked in vain behind each burst, too.
    empty = total["empty_polls"] + further_call * _ended(result)
    causes = {"empty_poll": empty, "turn": total["bursts"], "packet": total["burst_packets"]}
    if lines:
        causes["line"] = total["burst_packets"] * -(-size // LINE)
    return Point(request, result, float(cycles), causes, float(sum(c["core"]["instructions"] for c in working)))


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


@dataclass(frozen=True)
class Shares:
    """How a packet's cost is made up: of receiving, the program's own work, sending.

    ``further_call`` is the driver's share of a turn that finds nothing, where it looks once more behind packets.
    """

    receive: float
    work: float
    send: float
    further_call: float = 0.0


# Where the driver is part of the program: receiving and sending cannot be told apart.
HALVES = Shares(0.5, 0.0, 0.5)


def _symbols(request: Request, rate: str = OVERLOAD) -> dict[tuple[str, str], float]:
    """Return the shares of the program's cycles by symbol."""
    found = runs.execute(replace(request, packet_size=SMALL, rate=rate, profile=True)).profile or []
    cycles = {(e.file, e.symbol): float(e.cycles) for e in found if e.file != KERNEL_FILE}
    whole = sum(cycles.values()) or 1.0
    return {symbol: n / whole for symbol, n in cycles.items()}


def _shares(ideal: Request, interface: str) -> Shares:
    """Return what a profile says of a packet's cost."""
    if interface not in LIBRARIES:
        return HALVES
    alone = _symbols(replace(ideal, app="testpmd", app_args="--forward-mode=rxonly"))
    receiving = {symbol for symbol, share in alone.items() if share >= PART}
    whole = _symbols(ideal)
    driver = {symbol: share for symbol, share in whole.items() if symbol[0].startswith(LIBRARIES[interface])}
    receive = sum(share for symbol, share in driver.items() if symbol in receiving)
    idle = _symbols(ideal, IDLE) if interface in LOOKS_AGAIN else {}
    further_call = sum(share for (file, _), share in idle.items() if file.startswith(LIBRARIES[interface]))
    return Shares(receive, 1 - sum(driver.values()), sum(driver.values()) - receive, further_call)


def _model(request: Request, costs: Mapping[str, float], shares: Shares, window: int, source: str) -> software.Model:
    interface = software.driver(runs.machine(request))
    touches, policy = DRIVERS[interface]
    setup = runs.check(request)
    ring = setup.command.ring
    packet, line = costs["packet"], costs.get("line", 0.0)
    # Shares are of a packet and its line. Its part of the turn is in the profile, too, and is left out: receiving and
    # sending come out up to a sixth too small, and work as much too large.
    whole = packet + line
    receive, send = (min(packet, whole * share) for share in (shares.receive, shares.send))
    scale = min(1.0, packet / max(receive + send, 1e-9))
    receive, send = receive * scale, send * scale
    made: software.Model = {
        "name": f"{request.app}-{interface}",
        "source": source,
        "interface": interface,
        "platform": setup.platform["name"],
        "cycles": {
            "empty_poll": max(1.0, round(costs["empty_poll"], 2)),
            "turn": round(costs["turn"], 2),
            "receive": round(receive, 2),
            "work": round(max(0.0, packet - receive - send), 2),
            "line": round(line, 3),
            "send": round(send, 2),
            "release": 0.0,
            "segment": round(receive, 2),
        },
        "touches": {"window": window, **PROGRAMS[request.app], **touches},
        "policy": {
            "program": "forward",
            "spread": SPREAD.get(request.app, "pairs"),
            "burst": BURST,
            "receive_ring": ring,
            "transmit_ring": ring,
            **policy,
            **GATHERING.get(request.app, AT_ONCE),
            "on_full": "drop",
            "buffer": BUFFER,
        },
    }
    if interface in TABLES:
        name, programmed = TABLES[interface]
        made[name] = dict(programmed)
        if interface in LOOKS_AGAIN:
            made[name]["further_call"] = round(shares.further_call * costs["empty_poll"], 2)
    # What its arguments change of what it touches and does is the model's, too.
    return software.told(made, words("--app-args", request.app_args))


def simulated(request: Request, model: software.Model) -> Report:
    """Run a request on the packet-level engine with this model."""
    with scratch.folder() as folder:
        path = Path(folder) / f"{model['name']}.toml"
        path.write_text(text(model))
        return runs.execute(replace(request, engine=software.PACKET, model=str(path))).result


def rate_and_latency(result: Report) -> tuple[float, float]:
    """Return packets forwarded, Mpps, and the mean latency, ns."""
    latency = result["latency_ns"]
    return result["forwarded_mpps"], latency["mean"] if latency else 0.0


def make(request: Request, tell: Tell) -> Found:
    """Measure a program in full system and make its model."""
    if request.app not in PROGRAMS:
        raise WiretimeError(f"model: programs that forward: {', '.join(PROGRAMS)}; not {request.app}")
    if request.engine != software.FULL:
        raise WiretimeError("--engine: a model is made from runs in full system")
    machine = runs.machine(request)
    interface = software.driver(machine)
    if interface not in DRIVERS:
        raise WiretimeError(f"--nic {interface}: models are made for {', '.join(DRIVERS)}")
    if (cores := int(machine["system"]["cores"])) != 2 or request.queues != 1:
        raise WiretimeError(f"--cores {cores - 1}, --queues {request.queues}: a model is of one core and one queue")
    # Before it is measured: what the model could not be used with, or would not say.
    usual = Request()
    for field in runs.OF_A_GUEST:
        if getattr(request, field) != getattr(usual, field):
            raise WiretimeError(f"{option_of(field)}: of a guest, which a model has none of")
    if changed := software.changed(runs.machine(request)):
        keys = ", ".join(changed[:3]) + (" and others" if len(changed) > 3 else "")
        raise WiretimeError(f"model: of a platform's core as its file has it, not another: {keys}")
    nothing = {"packet": 1.0, "turn": 1.0, "empty_poll": 1.0}
    _model(request, nothing, Shares(0.3, 0.4, 0.3), 1, "")
    lines = PROGRAMS[request.app]["payload"] == "all"

    def measured(on: Request, where: str) -> list[Point]:
        points: list[Point] = []

        def run(size: int, rate: str) -> Point:
            points.append(_point(replace(on, packet_size=size, rate=rate), lines, shares.further_call))
            forwarded, latency = rate_and_latency(points[-1].result)
            tell(f"{size} B at {rate}{where}: {forwarded:.2f} Mpps, {latency:.0f} ns")
            return points[-1]

        for size in (SMALL, LARGE):
            most = run(size, OVERLOAD).result["forwarded_gbps"]
            for share in SHARES:
                run(size, f"{share * most:.2f}Gbps")
        return points

    at_no_cost = replace(request, changes=(*request.changes, *IDEAL))
    shares = _shares(at_no_cost, interface)
    tell(f"receiving {shares.receive:.0%}, work {shares.work:.0%}, sending {shares.send:.0%}")
    ideal = measured(at_no_cost, ", memory for nothing")
    points = measured(request, "")
    costs = _fit(ideal)
    explained = [sum(costs[n] * p.causes[n] for n in costs) for p in ideal]
    tell(", ".join(f"{name} {cycles:.1f} cycles" for name, cycles in costs.items()))
    source = _source(request, ideal, explained)
    pace = ideal[0].instructions / ideal[0].cycles
    entries = machine["core"]["rob_entries"]
    small = _edge(request, points, SMALL, lines, shares.further_call)

    def off(window: int) -> float:
        other = simulated(small.request, _model(request, costs, shares, window, source))
        return abs(rate_and_latency(other)[0] / rate_and_latency(small.result)[0] - 1)

    # All are tried: a cycle more may be one more prefetch in time, and a jump of the rate.
    errors = {window: off(window) for window in range(round(entries / pace), round(entries / pace * ROOM) + 1)}
    window = min(errors, key=lambda w: errors[w])
    tell(
        f"{window} cycles behind a load ({errors[window]:.1%} off); {entries} entries at {pace:.2f} instructions a "
        f"cycle are {entries / pace:.0f}"
    )
    edges = [] if errors[window] <= EXPLAINED else [(small, "packet", 1)]
    if lines:
        edges.append((_edge(request, points, LARGE, lines, shares.further_call), "line", -(-LARGE // LINE)))
    for edge, name, share in edges:

        def missing(cost: float, edge: Point = edge, name: str = name) -> float:
            other = simulated(edge.request, _model(request, {**costs, name: cost}, shares, window, source))
            return _missing(edge, other, machine)

        costs[name] = _nearest(costs[name], missing, share)
    tell(f"a packet costs {costs['packet']:.1f} cycles, and a turn {costs['turn']:.1f}")
    model = _model(request, costs, shares, window, source)
    return Found(model, points, [simulated(p.request, model) for p in points])


def _nearest(cost: float, missing: Callable[[float], float], share: int) -> float:
    """Return a cost near this one with which the least is missing; what is may jump as the cost moves."""
    best, least, part = cost, missing(cost), 1.0
    for _ in range(CORRECTIONS):
        tried = max(0.0, best + part * least / share)
        left = missing(tried)
        if abs(left) < abs(least):
            best, least = tried, left
        else:
            part /= 2
    return best


def _edge(request: Request, points: Sequence[Point], size: int, lines: bool, further_call: float) -> Point:
    """Return a run of a size at a load beyond what is forwarded, or at all that the line carries."""
    most = next(p for p in points if p.request.packet_size == size).result
    rate = min(BEYOND * most["forwarded_gbps"], most["offered_gbps"])
    return _point(replace(request, packet_size=size, rate=f"{rate:.2f}Gbps", warm_up=SETTLED), lines, further_call)


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
    "cycles": "without waiting for memory; receive, work, send: shares of a packet's cost, or halves of it",
    "touches": "DPDK 24.11's driver and the program; window: what the reorder buffer holds, nearest to full system",
    "policy": "defaults of DPDK 24.11 and of our command lines",
    "qdma": "what the driver programs",
    "connectx": "what the driver makes of it, as Debian builds it",
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
