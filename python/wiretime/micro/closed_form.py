"""What each micro-benchmark must take, from the platform's parameters alone.

These formulas share nothing with the models. Each says what it neglects by the tolerance that it asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from wiretime.micro.guest import Job, cycle, ns, size

Platform = Mapping[str, Any]

LINE = 64
HUGE_PAGE = 2 << 20
# Cycles of the loop around a generated chain of branches: call, return, counting.
LATENCY, BANDWIDTH, CHAIN = 0.05, 0.10, 0.02


@dataclass(frozen=True)
class Expected:
    """A benchmark, nanoseconds an operation by formula, and how near a measurement must come."""

    job: Job
    ns: float
    tolerance: float
    formula: str


def dram_latency(p: Platform) -> float:
    """Return the load-to-use time of a line in DRAM beyond the LLC, for a chase at random.

    A bank's row is closed by each refresh, or a while after its last access; whether another row is open depends on how
    often a bank is visited between.
    """
    d = p["dram"]
    burst = LINE * 8 / d["bus_width"] * 1000 / d["transfer_rate"]
    base = ns(d["controller_latency"]) + ns(d["t_rcd"]) + ns(d["t_cl"]) + burst
    refi, rfc = ns(d["t_refi"]), ns(d["t_rfc"])
    base += rfc * rfc / (2 * refi)  # a request that meets a refresh waits for half of it on average
    if d["page_policy"] == "closed":
        return float(base)
    period = base + llc_latency(p)
    banks = d["channels"] * d["ranks"] * d["banks"]
    if d["page_policy"] == "timed":
        return float(base + (1 - math.exp(-ns(d["page_timeout"]) / period / banks)) * ns(d["t_rp"]))
    visits = refi / period / banks
    closed = (1 - math.exp(-visits)) / visits
    return float(base + (1 - closed) * ns(d["t_rp"]))


def llc_latency(p: Platform) -> float:
    """Return the load-to-use time of a line in the LLC."""
    return float(p["l2"]["latency"] * cycle(p) + ns(p["llc"]["latency"]))


def plateaus(p: Platform) -> Iterator[Expected]:
    """Yield a pointer chase well inside each level, with huge pages."""
    c = cycle(p)
    l1, l2, llc = size(p["l1d"]["size"]), size(p["l2"]["size"]), size(p["llc"]["size"])
    lowest = "random" if "random" in (p["l2"]["replacement"], p["llc"]["replacement"]) else ""
    # What a load takes in its pipe before it comes to the cache.
    pipe = p["core"]["timing"]["load"]["latency"] * c
    yield Expected(("chase", l1 // 2048), pipe + p["l1d"]["latency"] * c, LATENCY, "load + l1d.latency")
    yield Expected(("chase", l2 // 2048), pipe + p["l2"]["latency"] * c, LATENCY, "load + l2.latency")
    if llc >= 8 * l2 and not lowest:
        yield Expected(("chase", 4 * l2 // 1024), pipe + llc_latency(p), LATENCY, "load + l2.latency + llc.latency")
    if 2 * llc <= 128 << 20 and not lowest:
        expected = pipe + llc_latency(p) + dram_latency(p)
        yield Expected(("chase", 2 * llc // 1024), expected, LATENCY, "llc + controller + tRCD + tCL + burst + refresh")


def chains(p: Platform) -> Iterator[Expected]:
    """Yield dependent and independent chains by class."""
    c, t, u = cycle(p), p["core"]["timing"], p["core"]["units"]
    for name, klass in (
        ("add", "alu"),
        ("add-shifted", "alu_shift"),
        ("mul32", "mul"),
        ("mul64", "mul_wide"),
        ("div32", "div"),
        ("div64", "div_wide"),
        ("crc", "crc"),
        ("fadd", "fp_add"),
        ("fmul", "fp_mul"),
        ("fmadd", "fp_fma"),
        ("fdiv", "fp_div"),
        ("simd-add", "simd"),
        ("simd-mul", "simd_mul"),
    ):
        cycles = max(t[klass]["latency"], t[klass]["interval"])
        yield Expected((name, 0), cycles * c, CHAIN, f"core.timing.{klass}.latency")
    pipes = {
        "integer": u["integer"] + (u["multiply"] if u["multiply_takes_integer"] else 0),
        "multiply": u["multiply"],
        "vector": u["vector"],
        "vector-first": 1,
        "vector-last": 1,
    }
    width = min(p["core"]["dispatch_width"], p["core"]["fetch_width"])
    for name, klass in (("adds", "alu"), ("muls", "mul_wide"), ("divs", "div_wide"), ("fadds", "fp_add")):
        unit = t[klass]["unit"]
        limit = p["core"]["dispatch_limits"].get(unit.replace("-", "_")) or width
        cycles = max(t[klass]["interval"] / pipes[unit], 1 / min(width, limit))
        yield Expected((name, 0), cycles * c, 2 * CHAIN, f"core.timing.{klass}.interval / pipes, or a limit")


def bandwidths(p: Platform) -> Iterator[Expected]:
    """Yield sequential reads, a line at a time; the hardware prefetchers must be off."""
    c = cycle(p)
    # Two lines are four LDP of 32 bytes, each two turns of a pipe, and four instructions around them. In pieces, an LDP
    # is an address and two loads.
    split = p["core"]["split_accesses"]
    per_line = 8.0 if split else 3.0
    window = p["core"]["rob_entries"] / per_line
    misses = min(p["l1d"]["mshrs"], window, p["core"]["load_queue_entries"] / 2)
    pipe = 4 * p["core"]["timing"]["load_vector"]["interval"] / p["core"]["units"]["load"]
    front = per_line / min(p["core"]["dispatch_width"], p["core"]["fetch_width"])
    l1, l2 = size(p["l1d"]["size"]), size(p["l2"]["size"])
    yield Expected(("read", l1 // 2048), max(pipe, front) * c, BANDWIDTH, "16 B a load pipe and cycle")
    # A line copied is read by two LDP and written by two STP, which may share the pipes.
    u, t = p["core"]["units"], p["core"]["timing"]
    loads, stores = 4 * t["load_vector"]["interval"], (8 if split else 4) * t["store"]["interval"]
    both = max(loads / u["load"], stores / u["store"]) if u["store"] else (loads + stores) / u["load"]
    if p["core"]["kind"] == "in-order":
        # The last STP waits for what the last LDP loads; behind it are five instructions, itself among them.
        last = loads / u["load"] - t["load_vector"]["interval"] + p["l1d"]["latency"] + t["load_vector"]["latency"]
        both = max(both, last + 5 / p["core"]["dispatch_width"])
        yield Expected(("copy", l1 // 4096), both * c, BANDWIDTH, "LDP's data, for which STP waits")
        return
    yield Expected(("copy", l1 // 4096), both * c, BANDWIDTH, "16 B a load or store pipe and cycle, or 8 B a store")
    cycles = max(p["l2"]["interval"] / p["l2"]["banks"], p["l2"]["latency"] / misses, pipe)
    yield Expected(("read", l2 // 2048), cycles * c, BANDWIDTH, "l2.interval / banks, or latency / l1d.mshrs")
    # Every line that is written is fetched first.
    copied = max(2 * max(p["l2"]["interval"] / p["l2"]["banks"], p["l2"]["latency"] / misses), both)
    yield Expected(("copy", l2 // 4096), copied * c, BANDWIDTH, "two lines from the L2")
    if size(p["llc"]["size"]) >= 8 * l2 and p["llc"]["replacement"] != "random":
        line = max(llc_latency(p) / min(misses, p["l2"]["mshrs"]), ns(p["llc"]["port_time"]), cycles * c)
        yield Expected(("read", 4 * l2 // 1024), line, BANDWIDTH, "llc.port_time, or latency / MSHRs")


def branches(p: Platform) -> Iterator[Expected]:
    """Yield chains of taken branches inside each level of targets, 64 bytes apart."""
    b, c = p["core"]["predictor"], cycle(p)
    levels = [("nano_btb_entries", "nano_btb_latency"), ("micro_btb_entries", "micro_btb_latency")]
    least = 0
    for entries, latency in levels:
        count = b[entries] - 4
        if count > max(least, 8):
            yield Expected(("taken64", count), b[latency] * c, 2 * LATENCY, f"predictor.{latency}")
            least = b[entries]
    sets = b["btb_entries"] // b["btb_ways"]
    step = max(1, LINE >> b["btb_index_bit"])
    reach = max(sets // step, 1) * b["btb_ways"]
    lines = size(p["l1i"]["size"]) // LINE
    # What the L1I does not hold is another benchmark; nor may pages that fall on the same sets fill them.
    count = min(reach, lines) // 4
    if count > max(least, 16):
        yield Expected(("taken64", count), b["btb_latency"] * c, 2 * LATENCY, "predictor.btb_latency")


def devices(p: Platform) -> Iterator[Expected]:
    """Yield register writes and reads, one after the other."""
    write = ns(p["io"]["mmio_write_latency"])
    path = p[p["slot"][p["nic"][0]["slot"]]["path"]]
    read = 2 * (write + ns(path["latency"])) + ns(p["io"]["mmio_read_latency"])
    yield Expected(("doorbell", 0), write, LATENCY, "io.mmio_write_latency")
    yield Expected(("mmio-read", 0), read, LATENCY, "2 (io.mmio_write_latency + latency) + io.mmio_read_latency")


def walks(p: Platform) -> Iterator[Expected]:
    """Yield a load a page over four times the reach of the TLBs: its entries are in the L2 cache."""
    t, c = p["core"]["tlb"], cycle(p)
    if t["walk_cache_entries"] == 0 or size(p["l2"]["size"]) < 1 << 20:
        return
    pages = max(2048, 1 << (4 * max(t["l2_entries"], t["l1d_entries"]) - 1).bit_length())
    lines = pages + pages // 8
    level = "llc" if lines * LINE > size(p["l2"]["size"]) else "l2"
    if level == "llc":
        return
    cycles = p["l2"]["latency"] * 2 + t["l2_latency"] + t["walk_latency"]
    yield Expected(("walk", pages), cycles * c, 2 * LATENCY, "l2.latency twice + tlb.l2_latency + tlb.walk_latency")


def table(wanted: Sequence[Expected], measured: Mapping[Job, float]) -> Table:
    """Return measured and expected times side by side."""
    shown = Table("benchmark", "argument", "measured", "by formula", "error", "formula", box=box.SIMPLE_HEAD)
    for e in wanted:
        error = measured[e.job] / e.ns - 1
        mark = "" if abs(error) <= e.tolerance else "  !"
        name, argument = e.job
        shown.add_row(
            name, str(argument), f"{measured[e.job]:.3f} ns", f"{e.ns:.3f} ns", f"{100 * error:+.1f} %{mark}", e.formula
        )
    return shown


# What the formulas leave out is off: prefetchers, and stores that read nothing.
PLAIN = (
    *(f"{cache}.prefetcher.kind=off" for cache in ("l1i", "l1d", "l2")),
    *(f"write_streaming.{after}=0B" for after in ("after", "zeroes_after", "llc_after", "memory_after")),
)


def expected(p: Platform) -> Sequence[Expected]:
    """Return every benchmark that has a closed form on this platform."""
    return [e for group in (plateaus, chains, bandwidths, branches, devices, walks) for e in group(p)]
