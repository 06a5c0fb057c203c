"""What a point of a study yields: one flat row of parameters and figures, with names, units and meanings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from wiretime import platforms, schemas
from wiretime.errors import WiretimeError, unknown
from wiretime.models import Report
from wiretime.profile import KERNEL_FILE, Entry
from wiretime.search import Found
from wiretime.search.trials import CLASSES, Trial
from wiretime.statistics import catalogue, work

Row = dict[str, Any]

# Figures with names of their own: unit and meaning.
NAMED: dict[str, tuple[str, str]] = {
    "offered_gbps": ("Gb/s", "offered load"),
    "offered_mpps": ("Mpps", "offered packets"),
    "forwarded_gbps": ("Gb/s", "bandwidth forwarded or answered"),
    "forwarded_mpps": ("Mpps", "packets forwarded or answered"),
    "taken_mpps": ("Mpps", "packets forwarded, answered, or taken by a program that sends none"),
    "loss_percent": ("%", "loss"),
    "latency_mean_ns": ("ns", "mean latency"),
    "latency_median_ns": ("ns", "median latency"),
    "latency_p99_ns": ("ns", "99th percentile of latency"),
    "latency_p999_ns": ("ns", "99.9th percentile of latency"),
    "latency_max_ns": ("ns", "longest latency"),
    "dma_drop_share_percent": ("%", "share of drops that the NIC's DMA caused"),
    "core_drop_share_percent": ("%", "share of drops that the core caused"),
    "tx_drop_share_percent": ("%", "share of drops that the transmit ring caused"),
    "host_drop_share_percent": ("%", "share of drops by the program"),
    "ipc": ("instructions/cycle", "instructions a cycle of the busy cores"),
    "instructions_a_packet": ("instructions", "instructions per packet of the busy cores"),
    "l1d_misses_a_packet": ("misses", "L1D misses of the busy cores' loads per packet"),
    "l2_misses_a_packet": ("misses", "L2 misses of the busy cores per packet"),
    "llc_misses_a_packet": ("misses", "LLC misses per packet"),
    "least_available_descriptors": (
        "descriptors",
        "receive descriptors that a queue had left when it was replenished, the fewest",
    ),
    "iperf_gbps": ("Gb/s", "iperf3's payload, as it is sent"),
    "iperf_received_gbps": ("Gb/s", "iperf3's payload that arrives"),
    "msb_gbps": ("Gb/s", "maximum sustainable bandwidth of each port"),
    "msb_mpps": ("Mpps", "packets of each port at the maximum sustainable bandwidth"),
    "msb_loss_percent": ("%", "loss at the maximum sustainable bandwidth"),
    "lossy_from_gbps": ("Gb/s", "lowest load of each port whose loss is above the threshold"),
    "drops_at_gbps": ("Gb/s", "load of each port at which the drops of a search are counted"),
}
SHARES = tuple(f"{c}_share_percent" for c in CLASSES)
ONLY_OF_SEARCH = (
    "msb_gbps",
    "msb_mpps",
    "msb_loss_percent",
    "lossy_from_gbps",
    "drops_at_gbps",
    "at_the_line",
    "trials",
)
PERCENTILES = ("mean", "median", "p99", "p999", "max")
# Parts of a result that a row takes as they are; the rest are histograms, time series and texts.
TAKEN = ("cohort", "load", "total", "statistics", "poll_lateness_ns", "doorbell_lateness_ns")
OF_SEARCH = (*ONLY_OF_SEARCH, *SHARES, *(f"latency_{p}_ns" for p in PERCENTILES))
# Prefix of what a run takes of the host, which is no result.
HOST = "host"
# Prefix of a profile's symbols, file and name: their share of the cycles of programs and libraries, if not less.
OF_SYMBOLS = "cycles_percent"
# The same of the barriers of a symbol, each kind by its text, however little.
OF_BARRIERS = "barriers_percent"
OF_PROFILES = (f"{OF_SYMBOLS}.", f"{OF_BARRIERS}.")
LEAST_PERCENT = 0.1
OF_HOST = tuple(f"{HOST}.{name}_seconds" for name in ("wall", "boot", "traffic"))
SUFFIXES = {"_seconds": "s", "_gbps": "Gb/s", "_mpps": "Mpps", "_ns": "ns", "_percent": "%", "_ps": "ps"}


def unit(name: str) -> str:
    """Return a metric's unit, as far as it is known."""
    if name in NAMED:
        return NAMED[name][0]
    if name.startswith(OF_PROFILES):
        return "%"
    last = name.rsplit(".", 1)[-1]
    for stat in (stat for group in catalogue().values() for stat in group):
        if stat.name == last:
            return stat.unit
    return next((u for suffix, u in SUFFIXES.items() if last.endswith(suffix)), "")


def meaning(name: str) -> str:
    """Return what a metric is, as a plot's axis says it."""
    return NAMED[name][1] if name in NAMED else name.rsplit(".", 1)[-1].replace("_", " ")


@cache
def _paths() -> frozenset[str]:
    """Return the paths of all counters, without numbers of cores, ports and queues."""
    root = schemas.schema("result")
    parts = {part: root["properties"][part] for part in ("statistics", "cohort", "load", "total")}
    found = (name for part, node in parts.items() for name in schemas.leaves(node, root, part))
    return frozenset(name.replace(".*", "") for name in found)


def is_metric(name: str, measure: str = "run") -> bool:
    """Return whether a point has a metric of that name."""
    if measure == "msb":
        return name in OF_SEARCH
    return (name in NAMED and name not in ONLY_OF_SEARCH) or name in _paths()


def check_name(where: str, name: str, measure: str = "run", drawn: bool = False) -> None:
    """Raise where what is measured, a run or the search ``msb``, yields no metric of that name.

    What runs take of the host can be drawn, but is in no table of results.
    """
    if measure == "msb":
        if name not in OF_SEARCH:
            raise WiretimeError(f"{where}: no search yields it: {unknown('metric', name, OF_SEARCH)}")
        return
    if name.startswith(OF_PROFILES):
        return
    plain = re.sub(r"\.\d+(?=\.)", "", name)
    names = [*(n for n in NAMED if n not in ONLY_OF_SEARCH), *sorted(_paths()), *(OF_HOST if drawn else ())]
    if plain not in names:
        raise WiretimeError(f"{where}: no run yields it: {unknown('metric', name, names)}")


def _flat(prefix: str, node: Any) -> Iterator[tuple[str, float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _flat(f"{prefix}.{key}", value)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _flat(f"{prefix}.{i}", value)
    elif isinstance(node, bool | int | float):
        yield prefix, node


def _share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def symbols(entries: Sequence[Entry]) -> Iterator[tuple[str, float]]:
    """Yield the metrics of a profile: what symbols and their barriers took of the cycles of programs and libraries."""
    ours = [e for e in entries if e.file != KERNEL_FILE]
    whole = sum(e.cycles for e in ours)
    for e in ours:
        share = _share(e.cycles, whole)
        if share is not None and share >= LEAST_PERCENT:
            yield f"{OF_SYMBOLS}.{e.file}.{e.symbol}", share
    barriers: dict[str, int] = defaultdict(int)
    for e in ours:
        for c in e.code:
            if c.barrier:
                barriers[f"{OF_BARRIERS}.{e.file}.{e.symbol}.{c.text}"] += c.cycles
    yield from ((name, 100 * cycles / whole) for name, cycles in barriers.items() if whole)


def of_run(result: Report, entries: Sequence[Entry] = ()) -> Row:
    """Return the figures of a run, and of its profile where there is one."""
    whole: Mapping[str, Any] = {**result}
    row: Row = {key: whole[key] for key in NAMED if key in whole}
    latency = whole["latency_ns"]
    row |= {f"latency_{p}_ns": latency[p] if latency else None for p in PERCENTILES}
    row["taken_mpps"] = whole["offered_mpps"] * (1 - whole["loss_percent"] / 100)
    drops = {c: whole["cohort"][c] for c in CLASSES}
    row |= {f"{c}_share_percent": _share(n, sum(drops.values())) for c, n in drops.items()}
    sent = whole.get("iperf", {})
    row |= {"iperf_gbps": sent.get("gbps"), "iperf_received_gbps": sent.get("received_gbps")}
    w = work(result)
    row |= {"ipc": w.ipc, "instructions_a_packet": w.instructions}
    row |= {f"{level}_misses_a_packet": getattr(w, f"{level}_misses") for level in ("l1d", "l2", "llc")}
    for part in TAKEN:
        row |= dict(_flat(part, whole[part]))
    available = [queue["available_at_replenish"] for port in result["ports"] for queue in port["queues"]]
    row["least_available_descriptors"] = min((counts[0][0] for counts in available if counts), default=None)
    row["latency_hdr_ps"] = result["latency_hdr_ps"]
    return row | dict(symbols(entries))


def _dropping(found: Found) -> Trial | None:
    """Return the trial whose drops say what packets are lost to: the lowest load of the curve that drops any.

    At the knee itself a trial may end before rings and FIFO are full: what grows is a backlog, and nothing is dropped.
    """
    lossy = [t for t in found.around if found.best is not None and t.offered > found.best.offered]
    dropping = [t for t in lossy if sum(t.drops.values())]
    return min(dropping, key=lambda t: t.offered) if dropping else found.bound


def of_search(found: Found) -> Row:
    """Return the figures of a search; drops are those of the lowest load above the maximum that shows any."""
    best, bound, dropping = found.best, found.bound, _dropping(found)
    row: Row = {
        "msb_gbps": best.offered / 1e9 if best else None,
        "msb_mpps": best.offered / 8 / found.size / 1e6 if best else None,
        "msb_loss_percent": 100 * best.loss if best else None,
        "lossy_from_gbps": bound.offered / 1e9 if bound else None,
        "drops_at_gbps": dropping.offered / 1e9 if dropping else None,
        "at_the_line": found.line,
        "trials": len(found.trials),
    }
    drops = dict(dropping.drops) if dropping else {}
    row |= {f"{c}_share_percent": _share(drops.get(c, 0), sum(drops.values())) for c in CLASSES}
    latency = best.latency if best else None
    return row | {f"latency_{p}_ns": latency[p] if latency else None for p in PERCENTILES}


def of_platform(platform: Mapping[str, Any]) -> Row:
    """Return every parameter of a machine."""
    return {f"platform.{key}": value for key, value in platforms.flatten(platform) if key != "description"}
