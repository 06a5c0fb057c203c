"""A run beside a measurement of the same program on a real machine: counters per packet."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from wiretime.counters import numbers, of
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.statistics import busy_cores, packets, total
from wiretime.tables import of_numbers


def _cores(*path: str) -> Callable[[Report], float]:
    """Return the sum of a counter over the cores that worked."""

    def found(result: Report) -> float:
        cores: list[Any] = [of(result)["cores"][n] for n in busy_cores(result)]
        return float(sum(core[path[0]][path[1]] for core in cores))

    return found


def _by_requester(prefix: str, *group: str) -> Callable[[Report], float]:
    def found(result: Report) -> float:
        s = of(result)
        if group == ("memory",):
            return float(total(numbers(s["memory"]), prefix))
        return float(sum(total(numbers(s["cores"][n]["caches"]), prefix) for n in busy_cores(result)))

    return found


def _l1d(*counts: str) -> Callable[[Report], float]:
    """Return the sum of several counters of the L1Ds."""
    parts = [_cores("caches", f"l1_dcache_{name}") for name in counts]
    return lambda result: sum(part(result) for part in parts)


# What perf calls an event, and where a run has it. Arm's own names are those of the PMU (Arm ARM, D13). Linux's generic
# names mean on Arm: cache-references and L1-dcache-loads all accesses of the L1D, cache-misses its refills.
EVENTS: dict[str, tuple[str, Callable[[Report], float]]] = {
    "cycles": ("cycles|cpu-cycles|cpu_cycles", _cores("core", "cycles")),
    "instructions": ("instructions|inst_retired", _cores("core", "instructions")),
    "branches": ("branches|branch-instructions|br_retired", _cores("core", "branches")),
    "branch misses": ("branch-misses|br_mis_pred_retired|br_mis_pred", _cores("core", "branch_misses")),
    "L1D accesses": ("l1-dcache-loads|cache-references|l1d_cache", _l1d("loads", "stores")),
    "L1D misses": ("l1-dcache-load-misses|cache-misses|l1d_cache_refill", _l1d("load_misses", "store_misses")),
    "L1D loads": ("l1d_cache_rd", _l1d("loads")),
    "L1D load misses": ("l1d_cache_refill_rd", _l1d("load_misses")),
    "L1I misses": ("l1-icache-load-misses|l1i_cache_refill", _cores("caches", "l1_icache_load_misses")),
    "L2 accesses": ("l2d_cache|l2-loads", _by_requester("l2_accesses_")),
    "L2 misses": ("l2d_cache_refill|l2-load-misses", _by_requester("l2_misses_")),
    "LLC accesses": ("llc-loads|ll_cache_rd", _by_requester("llc_accesses_", "memory")),
    "LLC misses": ("llc-load-misses|ll_cache_miss_rd", _by_requester("llc_misses_", "memory")),
    "DTLB misses": ("dtlb-load-misses|l1d_tlb_refill", _cores("tlb", "dtlb_misses")),
    "ITLB misses": ("itlb-load-misses|l1i_tlb_refill", _cores("tlb", "itlb_misses")),
}
# How many packets the host was given.
GIVEN = ("rx_good_packets", "rx_packets")


@dataclass
class Measured:
    """Events of the real machine, and the packets that its NIC or its program counted."""

    events: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def _perf(path: Path, text: str, into: Measured) -> bool:
    found = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip().startswith("{"):
            continue
        try:
            entry = json.loads(line.strip().rstrip(","))
        except ValueError:
            raise WiretimeError(f"{path}: line {number} is not JSON, as `perf stat -j` writes it") from None
        if "event" not in entry or "counter-value" not in entry:
            continue
        found = True
        # Locales write a comma; what was not counted is said in words.
        value = re.fullmatch(r"([0-9]+)(?:[.,]([0-9]*))?", str(entry["counter-value"]).strip())
        if value and isinstance(entry["event"], str):
            name = _event(entry["event"])
            into.events[name] = into.events.get(name, 0.0) + float(f"{value[1]}.{value[2] or 0}")
    return found


def _event(text: str) -> str:
    """Return an event's name without its unit's and modifiers: of ``armv8_pmuv3_0/inst_retired/u``, ``cycles:u``."""
    unit, slash, rest = text.partition("/")
    return (rest.partition("/")[0].partition(",")[0] if slash else unit).partition(":")[0].lower()


# What testpmd says of all ports when forwarding ends, and of one at a time when asked.
ALL_PORTS = r"Accumulated forward statistics for all ports(.*?)\+{30}"
ONE_PORT = r"^.*NIC (?:extended )?statistics for port ([0-9]+).*$"


def _driver(text: str) -> Iterator[tuple[str, int]]:
    """Yield a driver's counters, a line each; RX-missed is what testpmd calls one of them."""
    for name, value in re.findall(r"^\s*([A-Za-z0-9_.\[\]-]+):\s+([0-9]+)\s*$", text, re.MULTILINE):
        yield name.lower().replace("-", "_"), int(value)
    for value in re.findall(r"\bRX-missed: ([0-9]+)", text):
        yield "rx_missed_errors", int(value)


def _own(text: str) -> Iterator[tuple[str, int]]:
    for name, value in re.findall(r"\b(RX-packets|TX-packets|TX-dropped|RX-dropped): ([0-9]+)", text):
        yield name.lower().replace("-", "_"), int(value)


def _by_port(text: str, counters: Callable[[str], Iterable[tuple[str, int]]]) -> Mapping[str, int]:
    """Return counters, of all ports together where each is told of by itself; of one what is said last."""
    before, *told = re.split(ONE_PORT, text, flags=re.MULTILINE)
    ports: dict[str, dict[str, int]] = defaultdict(dict)
    for port, body in zip(told[::2], told[1::2], strict=True):
        # Behind its counters a rule ends them; what comes then is not the port's.
        ports[port].update(counters(re.split(r"^\s*[#+-]{20,}", body.lstrip("\n"), maxsplit=1, flags=re.MULTILINE)[0]))
    of_ports: Counter[str] = Counter()
    for found in ports.values():
        of_ports.update(found)
    return {**dict(counters(before)), **of_ports}


def read(paths: Sequence[Path]) -> Measured:
    """Read files of a real machine: ``perf stat -j``, ``ethtool -S``, testpmd's statistics."""
    measured = Measured()
    # Of several ports there are several files; a program's own counters are of the same packets.
    driver: Counter[str] = Counter()
    program: Counter[str] = Counter()
    for path in paths:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as e:
            reason = e.strerror if isinstance(e, OSError) else "is no text"
            raise WiretimeError(f"{path}: {reason}") from None
        if _perf(path, text, measured):
            continue
        counts, own = _by_port(text, _driver), _by_port(text, _own)
        if forwarded := re.findall(ALL_PORTS, text, re.DOTALL):
            own = dict(_own(forwarded[-1]))
        if not counts and not own:
            raise WiretimeError(f"{path}: holds no counters of `perf stat -j`, `ethtool -S` or testpmd")
        driver.update(counts)
        program.update(own)
    measured.counts |= driver
    if any(_not_received(name, measured) for name in driver):
        # What the NIC says it dropped the program says as well.
        program.pop("rx_dropped", None)
    measured.counts |= {name: n for name, n in program.items() if name not in driver}
    return measured


NOT_RECEIVED = r"miss|drop|no_dma|no_buffer|out_of_buffer|discards_phy"


def _not_received(name: str, measured: Measured) -> bool:
    """Return whether a counter is of packets that a NIC did not bring to software."""
    # DPDK's names for a ConnectX have the same packets twice.
    twice = name == "rx_missed_errors" and "rx_out_of_buffer" in measured.counts
    # A flow that no filter names is no packet that is missing; what a program in the driver drops it has received.
    others = r"tx|steer|fdir|xdp"
    return re.search(NOT_RECEIVED, name) is not None and not re.search(others, name) and not twice


def _number_of(measured: Measured, asked: int | None) -> int:
    found = asked or next((measured.counts[name] for name in GIVEN if measured.counts.get(name)), 0)
    if found <= 0:
        raise WiretimeError("no file says how many packets were received: --packets N, or the output of ethtool -S")
    return found


def table(result: Report, measured: Measured, asked: int | None) -> Table:
    """Return counters per packet of both, and how many times the simulator's is the machine's."""
    real, ours = _number_of(measured, asked), packets(result)
    if ours == 0:
        raise WiretimeError("the run's measurement has no packets to compare by")
    shown = of_numbers("counters per packet", "counter", "simulated", "measured", "ratio", "event")
    for name, (pattern, value) in EVENTS.items():
        event = next((e for e in measured.events if re.fullmatch(pattern, e)), None)
        if event is not None:
            a, b = value(result) / ours, measured.events[event] / real
            shown.add_row(name, f"{a:.3f}", f"{b:.3f}", f"{a / b:.2f}" if b else "-", event)
    queues = [queue["receive"] for port in of(result)["ports"] for queue in port["queues"]]
    # What never came to software.
    lost = sum(queue["dma_drops"] + queue["core_drops"] + queue["tx_drops"] for queue in queues)
    dropped = sum(value for name, value in measured.counts.items() if _not_received(name, measured))
    shown.add_row("not received", f"{lost / ours:.3f}", f"{dropped / real:.3f}", "", "dropped, missed, no buffer")
    unknown = [e for e in measured.events if not any(re.fullmatch(p, e) for p, _ in EVENTS.values())]
    if unknown:
        shown.caption = f"not simulated, or under another name: {', '.join(unknown)}"
    return shown
