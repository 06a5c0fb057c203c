"""The timeline of a run's window: a trace for the Perfetto UI, and the cores' pipelines for Konata.

``trace.json`` is in Chrome's trace event format, which https://ui.perfetto.dev opens. Each port is a process with
tracks for the wire, DMA transfers, doorbells, drops and interrupts, and counters for what fills; each core is one with
its polls. ``core-N.kanata`` is in Kanata's format (version 0004), which the Konata viewer opens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Record = Mapping[str, Any]

CORES = 1000  # process numbers of cores, behind those of ports
INSTANT = {"drop": 1, "doorbell": 2, "interrupt": 3}
UNKNOWN = 2**64 - 1
STAGES = ("F", "Ds", "Is", "Ex", "Cm")


def _time(ps: int, start: int) -> float:
    """Return microseconds from the window's start, as the format has them."""
    return (ps - start) / 1e6


def _name(process: int, name: str, thread: int | None = None) -> Event:
    kind = "process_name" if thread is None else "thread_name"
    return {"ph": "M", "pid": process, "tid": thread or 0, "name": kind, "args": {"name": name}}


def _span(process: int, track: str, number: int, times: tuple[float, float], name: str, args: Event) -> Iterator[Event]:
    """Yield both ends of something that may overlap others of its track."""
    common = {"cat": track, "id": f"{process}.{number}", "pid": process, "tid": 0}
    yield {"ph": "b", "name": name, "ts": times[0], **common, "args": args}
    yield {"ph": "e", "name": name, "ts": times[1], **common}


def _event(process: int, number: int, r: Record, start: int) -> Iterator[Event]:
    what, at = r["what"], _time(r["at"], start)
    counter = {"ph": "C", "pid": process, "tid": 0, "ts": at}
    instant = {"ph": "i", "s": "t", "pid": process, "tid": INSTANT.get(what, 0), "ts": at}
    if what == "frame":
        track = "wire out" if r["out"] else "wire in"
        times = (at, _time(r["until"], start))
        # What the guest sends of its own is no packet of a load.
        packet = {} if r["id"] == UNKNOWN else {"packet": str(r["id"])}
        yield from _span(process, track, number, times, f"{r['bytes']} B", packet)
    elif what == "dma":
        kind = "descriptors" if r["descriptors"] else "payload"
        track = f"DMA {'write' if r['write'] else 'read'} {kind}"
        times = (at, _time(r["until"], start))
        yield from _span(process, track, number, times, f"{r['bytes']} B", {"queue": r["queue"]})
    elif what == "fifo":
        yield {**counter, "name": "RX FIFO (B)", "args": {"bytes": r["bytes"]}}
    elif what == "rx-ring":
        yield {**counter, "name": f"RX ring {r['queue']}", "args": {"free": r["free"], "waiting": r["waiting"]}}
    elif what == "tx-ring":
        yield {**counter, "name": f"TX ring {r['queue']}", "args": {"posted": r["posted"]}}
    elif what == "drop":
        yield {**instant, "name": r["class"], "args": {"queue": r["queue"], "packet": str(r["id"])}}
    elif what == "doorbell":
        yield {**instant, "name": f"{'TX' if r['transmit'] else 'RX'} doorbell {r['queue']}", "args": {}}
    elif what == "interrupt":
        yield {**instant, "name": f"interrupt {r['vector']}", "args": {}}
    elif what == "poll":
        core = CORES + r["core"]
        name = f"burst of {r['packets']}" if r["packets"] else "empty poll"
        place = {"pid": core, "tid": 1, "ts": at}
        yield {**instant, **place, "name": name, "args": {"queue": r["queue"], "packets": r["packets"]}}
        yield {**counter, **place, "name": "packets a poll", "args": {"packets": r["packets"]}}


def events(trace: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the timeline as trace events."""
    start = trace["start_ps"]
    cores = set()
    for process, port in enumerate(trace["ports"]):
        yield _name(process, f"port {process}")
        for what, thread in INSTANT.items():
            yield _name(process, f"{what}s", thread)
        for number, r in enumerate(port["records"]):
            if r["what"] == "poll":
                cores.add(r["core"])
            yield from _event(process, number, r, start)
    for core in sorted(cores):
        yield _name(CORES + core, f"core {core}")
        yield _name(CORES + core, "polls", 1)


def konata(core: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a core's pipeline log."""
    rows = core["instructions"]
    actions: list[tuple[int, int, str]] = []
    for n, (pc, *cycles) in enumerate(rows):
        begin = cycles[0]
        text = core["text"][str(pc)]
        actions.append((begin, 0, f"I\t{n}\t{n}\t0"))
        actions.append((begin, 1, f"L\t{n}\t0\t{pc:#x}: {text}"))
        for stage, cycle in zip(STAGES, cycles, strict=True):
            actions.append((cycle, 2, f"S\t{n}\t0\t{stage}"))
        actions.append((cycles[-1] + 1, 3, f"R\t{n}\t{n}\t0"))
    actions.sort(key=lambda a: (a[0], a[1]))
    yield "Kanata\t0004"
    now: int | None = None
    for cycle, _, line in actions:
        if now is None:
            yield f"C=\t{cycle}"
        elif cycle > now:
            yield f"C\t{cycle - now}"
        now = cycle
        yield line


def write(folder: Path, trace: Mapping[str, Any]) -> None:
    """Write the timeline's files."""
    document = {"displayTimeUnit": "ns", "traceEvents": list(events(trace))}
    (folder / "trace.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    for core in trace["cores"]:
        if core["instructions"]:
            (folder / f"core-{core['core']}.kanata").write_text("\n".join(konata(core)) + "\n")
