"""Counters of a run: names, units and meanings as the models declare them, tables, and what moved between two runs."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

import wiretime._native as _native
from wiretime import packets as nic
from wiretime import platforms, schemas
from wiretime.apps.model import CONSUMES, SENDS
from wiretime.counters import done, numbers, of
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.tables import of_numbers


@dataclass(frozen=True)
class Counter:
    """One statistic of one run."""

    path: str
    group: str
    name: str
    value: int
    unit: str
    meaning: str
    gauge: bool


@dataclass(frozen=True)
class Declared:
    """One statistic as the models declare it: ``gauge`` tells a level from a count."""

    name: str
    unit: str
    meaning: str
    gauge: bool


@cache
def catalogue() -> dict[str, list[Declared]]:
    """Return all statistics by where their group is in ``statistics`` of a result, as the result declares them."""
    root = schemas.schema("result")
    return {
        path: [
            Declared(name, about["unit"], about["description"], about.get("kind") == "gauge")
            for name, about in node["properties"].items()
        ]
        for path, node in schemas.groups(root["properties"]["statistics"], root)
    }


def stalls() -> list[Declared]:
    """Return the causes that cycles of a core go to."""
    return catalogue()["cores.*.stalls"]


def load(folder: Path) -> Report:
    """Return the result of a run's folder."""
    path = folder / "result.json" if folder.is_dir() else folder
    try:
        result: Report = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else "is not JSON"
        raise WiretimeError(f"{path}: {reason}") from None
    if not isinstance(result, dict) or result.get("statistics") is None:
        raise WiretimeError(f"{path}: holds no statistics")
    mine = schemas.schema("result")["properties"]["schema_version"]["const"]
    if (its := result.get("schema_version")) != mine:
        raise WiretimeError(f"{path}: is no result of this version (schema_version {its}, not {mine}): run it anew")
    return result


# What a core's time went to, as mpstat names it.
PROCESSOR_TIME = ("user", "system", "softirq", "irq", "idle")
SINGULAR = {"cores": "core", "ports": "port", "queues": "queue"}


def _places(node: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield what is at ``path``, with a label: every core, port and queue for a ``*``."""
    head, *rest = path
    if not rest:
        yield head, node[head]
    elif rest[0] == "*":
        for i, item in enumerate(node[head]):
            for label, found in _places(item, rest[1:]):
                yield f"{SINGULAR[head]} {i} {label}", found
    else:
        yield from _places(node[head], rest)


def counters(result: Report) -> Iterator[Counter]:
    """Yield every counter of a run, core by core, port by port, queue by queue."""
    statistics = of(result)
    one_port = len(statistics["ports"]) == 1
    for place, group in catalogue().items():
        if one_port and place.startswith("ports.*.") and "queues" not in place:
            continue  # the sum over ports is the same
        for label, values in _places(statistics, place.split(".")):
            # What a counter that came later would have been, an earlier version does not say.
            for s in (s for s in group if s.name in values):
                yield Counter(f"{label}.{s.name}", label, s.name, values[s.name], s.unit, s.meaning, s.gauge)


def packets(result: Report) -> int:
    """Return the packets that the program worked on in the measurement: the host was given them, or it sent them."""
    s = of(result)
    if "iperf" in result:
        return done(result)
    sends = result["app"]["role"] == SENDS
    found: int = s["transmit"]["frames"] if sends else s["receive"]["delivered"]
    return found


def busy_cores(result: Report) -> list[int]:
    """Return the cores that worked, busiest first; where software is a model, it has cycles and no instructions."""
    cores = [core["core"] for core in of(result)["cores"]]
    counts = "instructions" if any(core["instructions"] for core in cores) else "cycles"
    work = [numbers(core)[counts] for core in cores]
    return [i for i in sorted(range(len(work)), key=lambda i: -work[i]) if work[i] * 10 >= max(work)]


def total(group: Mapping[str, int], prefix: str) -> int:
    """Return a counter that is kept by requester, all together."""
    return sum(value for name, value in group.items() if name.startswith(prefix))


@dataclass(frozen=True)
class Work:
    """What the cores that worked did, all together: cores, instructions a cycle, and by packet."""

    cores: int
    ipc: float | None
    instructions: float
    l1d_misses: float
    l2_misses: float
    llc_misses: float


def work(result: Report) -> Work:
    """Return what the cores that worked did; misses of L1D are its loads'."""
    s = of(result)
    n = max(packets(result), 1)
    cores = [s["cores"][i] for i in busy_cores(result)]
    instructions = sum(c["core"]["instructions"] for c in cores)
    cycles = sum(c["core"]["cycles"] for c in cores)
    return Work(
        len(cores),
        instructions / cycles if cycles else None,
        instructions / n,
        sum(c["caches"]["l1_dcache_load_misses"] for c in cores) / n,
        sum(total(numbers(c["caches"]), "l2_misses_") for c in cores) / n,
        total(numbers(s["memory"]), "llc_misses_") / n,
    )


def show(result: Report, everything: bool = False) -> RenderableType:
    """Return the counters as tables, one a group; those that are zero only if asked for."""
    n = packets(result)
    of_packets = [nic.hops(result), nic.queues(result), *nic.drops(result)]
    # Where software is a model, its cycles have no causes.
    causes = [stack(result)] if instructed(result) else []
    tables: list[RenderableType] = [*of_packets, *causes, ratios(result)]
    current: Table | None = None
    label = ""
    quiet = {f"core {i}" for i in range(len(of(result)["cores"]))}
    quiet -= {f"core {i}" for i in busy_cores(result)}
    for c in counters(result):
        if c.group.endswith(" stalls") or (not everything and (c.value == 0 or c.group.rsplit(" ", 1)[0] in quiet)):
            continue  # the causes are shown above
        if c.group != label or current is None:
            label, current = c.group, of_numbers(c.group, "counter", "value", "per packet", "unit", "meaning")
            tables.append(current)
        each = f"{c.value / n:.3f}" if n and not c.gauge else ""
        current.add_row(c.name, str(c.value), each, c.unit, c.meaning)
    return Group(*tables)


def instructed(result: Report) -> bool:
    """Return whether instructions were timed: where software is a model, its cycles are all that is known."""
    return any(of(result)["cores"][i]["core"]["instructions"] for i in busy_cores(result))


def stack(result: Report) -> RenderableType:
    """Return the CPI stacks of the cores that worked: where their cycles went."""
    cores = busy_cores(result)
    n = packets(result)
    table = of_numbers(
        "cycles by cause", "cause", *[f"core {i}" for i in cores], *(["per packet"] if n else []), "meaning"
    )
    stacks = [numbers(of(result)["cores"][i]["stalls"]) for i in cores]
    for stat in stalls():
        values = [s[stat.name] for s in stacks]
        if any(values):
            shares = [f"{100 * v / max(sum(s.values()), 1):.1f} %" for v, s in zip(values, stacks, strict=True)]
            each = [f"{sum(values) / n:.1f}"] if n else []
            table.add_row(stat.name, *shares, *each, stat.meaning)
    return table


def ratios(result: Report) -> RenderableType:
    """Return what is read off several counters together."""
    s = of(result)
    time = max(s["time_ps"], 1)
    table = of_numbers("ratios", "ratio", "value", "unit", "meaning")

    def row(name: str, part: float, whole: float, unit: str, meaning: str, scale: float = 1.0) -> None:
        if whole:
            table.add_row(name, f"{scale * part / whole:.3f}", unit, meaning)

    for i in busy_cores(result):
        core, caches = s["cores"][i]["core"], s["cores"][i]["caches"]
        thousand = core["instructions"] / 1000
        if core["instructions"]:
            row(f"core {i} IPC", core["instructions"], core["cycles"], "instructions/cycle", "while not idle")
        row(f"core {i} branch misses", core["branch_misses"], thousand, "a 1000 instructions", "mispredicts (MPKI)")
        misses = caches["l1_dcache_load_misses"] + caches["l1_dcache_store_misses"]
        row(f"core {i} L1D misses", misses, thousand, "a 1000 instructions", "loads and stores (MPKI)")
        row(
            f"core {i} L2 misses",
            total(numbers(caches), "l2_misses_"),
            thousand,
            "a 1000 instructions",
            "all requesters (MPKI)",
        )
    memory, dram, io = s["memory"], s["dram"], s["io"]
    row("DMA reads from caches", memory["dma_read_hits"], memory["dma_reads"], "%", "of the lines read", 100)
    written = memory["dma_write_allocations"] + memory["dma_write_updates"]
    row("DMA writes into the LLC", written, memory["dma_writes"], "%", "of the lines written", 100)
    row("DCA leaks", memory["dca_leaks"], memory["dma_writes"], "%", "evicted before use, of the lines written", 100)
    row("DRAM row hits", dram["row_hits"], dram["row_hits"] + dram["row_misses"], "%", "of all accesses", 100)
    moved = 64 * (total(numbers(dram), "reads_") + total(numbers(dram), "writes_"))
    row("DRAM bandwidth", moved, time, "GB/s", "reads and writes", 1000)
    links = time * len(result["configuration"]["platform"]["nic"])
    row("link, upstream", io["upstream_busy_ps"], links, "%", "of the time that direction was taken", 100)
    row("link, downstream", io["downstream_busy_ps"], links, "%", "of the time that direction was taken", 100)
    return table


def series(result: Report) -> Iterator[list[str]]:
    """Yield the rows of the time series, the header first."""
    found = result.get("series")
    if found is None:
        raise WiretimeError("this run has no time series: run with --interval")
    step = _native.parse_duration(found["interval"])
    yield ["begin_ns", *found["columns"]]
    for i, row in enumerate(found["rows"]):
        yield [str(i * step // 1000), *map(str, row)]


def _per_packet(result: Report) -> dict[str, tuple[float, Counter]]:
    """Return every counter a packet; cores are added up, so that placement does not matter."""
    n = max(packets(result), 1)
    sums: dict[str, tuple[float, Counter]] = {}
    for c in counters(result):
        path = NUMBERED.sub("", c.path)
        before = sums.get(path, (0.0, c))[0]
        sums[path] = (before + c.value / (1 if c.gauge else n), c)
    return sums


NUMBERED = re.compile(r"^(core \d+ |port \d+ (?=queue)|queue \d+ )+")
# Below so much a packet a counter's change is noise.
LEAST = 0.02


@dataclass(frozen=True)
class Moved:
    """A figure of two runs."""

    name: str
    before: float
    after: float
    unit: str = ""
    meaning: str = ""

    @property
    def ratio(self) -> float | None:
        """The second over the first."""
        return self.after / self.before if self.before else None


@dataclass(frozen=True)
class Difference:
    """What moved between two runs, most first.

    Parameters of the configuration, figures of the result, cycles per packet by cause, counters per packet.
    """

    configuration: Sequence[tuple[str, str, str]]
    result: Sequence[Moved]
    cycles: Sequence[Moved]
    counters: Sequence[Moved]


def _head(result: Report) -> Mapping[tuple[str, str], float]:
    """Return what a run is about, by name and unit: what it forwards, takes, sends, or carries of iperf3's payload."""
    whole: Mapping[str, Any] = {**result}
    if sent := whole.get("iperf"):
        found = {("payload sent", "Gb/s"): sent["gbps"], ("payload received", "Gb/s"): sent["received_gbps"]}
        return {key: value for key, value in found.items() if value is not None}
    us = of(result)["time_ps"] / 1e6
    role = whole["app"]["role"]
    if role in (CONSUMES, SENDS):
        name = "sent" if role == SENDS else "taken"
        return {(name, "Mpps"): packets(result) / us, ("loss", "%"): whole["loss_percent"]}
    return {
        ("forwarded", "Gb/s"): whole["forwarded_gbps"],
        ("forwarded", "Mpps"): whole["forwarded_mpps"],
        ("loss", "%"): whole["loss_percent"],
    }


def compared(a: Report, b: Report, most: int = 25) -> Difference:
    """Return what moved between two runs; of the counters the ``most`` that moved most."""
    x, y = _per_packet(a), _per_packet(b)
    causes = [
        Moved(k.split(".", 1)[1], before, y[k][0], counter.unit, counter.meaning)
        for k, (before, counter) in x.items()
        if k.startswith("stalls.") and (before or y[k][0])
    ]
    moved = []
    for k, (before, counter) in x.items():
        if k not in y:
            continue  # a port that the other run does not have
        after = y[k][0]
        if counter.gauge or k.startswith("stalls.") or max(before, after) < LEAST or before == after:
            continue
        by = math.log((after + LEAST / 10) / (before + LEAST / 10))
        moved.append((abs(by), Moved(k, before, after, counter.unit, counter.meaning)))
    was_about, is_about = _head(a), _head(b)
    head = [
        Moved(name, before, is_about[name, unit], unit)
        for (name, unit), before in was_about.items()
        if (name, unit) in is_about
    ]
    times = a["latency_ns"], b["latency_ns"]
    if all(times):
        was, now = (numbers(t) for t in times if t)
        head += [Moved(f"latency, {key}", was[key], now[key], "ns") for key in ("mean", "p99")]
    return Difference(
        list(_parameters(_set(a), _set(b))),
        head,
        sorted(causes, key=lambda m: -abs(m.after - m.before)),
        [m for _, m in sorted(moved, key=lambda m: (-m[0], m[1].name))[:most]],
    )


def difference(a: Report, b: Report, rows: int = 25) -> RenderableType:
    """Return what moved between two runs as tables, per packet: cycles by cause, then counters, most first."""
    d = compared(a, b, rows)
    changed = of_numbers("configuration", "parameter", "A", "B", "")
    for name, before, after in d.configuration:
        changed.add_row(name, before, after, "")
    head = of_numbers("result", "", "A", "B", "B / A", "")
    for m in d.result:
        head.add_row(
            m.name, f"{m.before:.2f}", f"{m.after:.2f}", f"{m.ratio:.3f}" if m.ratio is not None else "", m.unit
        )
    cycles = of_numbers("cycles per packet by cause", "cause", "A", "B", "change", "meaning")
    for m in d.cycles:
        cycles.add_row(m.name, f"{m.before:.1f}", f"{m.after:.1f}", f"{m.after - m.before:+.1f}", m.meaning)
    table = of_numbers("counters per packet", "counter", "A", "B", "B / A", "unit", "meaning")
    for m in d.counters:
        ratio = f"{m.ratio:.2f}" if m.ratio is not None else "new"
        table.add_row(m.name, f"{m.before:.3f}", f"{m.after:.3f}", ratio, m.unit, m.meaning)
    return Group(changed, head, cycles, table)


def _set(result: Report) -> dict[str, Any]:
    """Return all that was set: the machine, the run, what ran on it, and its versions."""
    app: dict[str, Any] = {**result["app"]}
    # Older results have neither.
    app["kernel_arguments"] = " ".join(app.get("kernel_arguments", ()))
    # Of a model its own lines say more than its name.
    for line in app.pop("policy", ()):
        key, _, value = line.partition("=")
        app[f"policy.{key}"] = value
    return {**result["configuration"], "app": app, "versions": {**result["versions"]}}


def _parameters(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    x, y = dict(platforms.flatten(a)), dict(platforms.flatten(b))
    for key in sorted(set(x) | set(y)):
        if x.get(key) != y.get(key):
            was, now = str(x.get(key, "")), str(y.get(key, ""))
            if key == "app.command":
                was, now = _apart(was.split(), now.split())
            yield key.removeprefix("platform."), was, now


def _apart(was: Sequence[str], now: Sequence[str]) -> tuple[str, str]:
    """Return the words in which two commands differ, each with the one before it."""
    sides: tuple[list[str], list[str]] = ([], [])
    for kind, a, b, c, d in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if kind != "equal":
            sides[0].extend(was[max(a - 1, 0) : b])
            sides[1].extend(now[max(c - 1, 0) : d])
    return " ".join(sides[0]), " ".join(sides[1])
