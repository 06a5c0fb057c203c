"""What a run looks like on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wiretime import load, platforms
from wiretime.apps.model import ANSWERS, CONSUMES, FORWARDS, SENDS
from wiretime.counters import done, numbers, of
from wiretime.models import Report, Statistics
from wiretime.statistics import PROCESSOR_TIME, packets, work

ROLE_NAMES = {FORWARDS: "forwarded", ANSWERS: "answered"}
# Share of what became of the packets in the end that left within the measurement itself: with less, a backlog built up.
KEPT_UP = 0.99


def _latency(ns: float) -> str:
    return f"{ns / 1000:.2f} us" if ns >= 10_000 else f"{ns:.0f} ns"


def _measured(result: Report) -> str:
    """Return how long the measurement was: of a trace, as long as it took."""
    run = result["configuration"]["run"]
    if run["until_end"] and result["statistics"]:
        return f"{result['statistics']['time_ps'] / 1e9:.3f} ms"
    return load.time_text(run["duration"])


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f} %" if whole else "-"


def _mean_length(result: Report) -> float:
    """Return bytes of an offered frame."""
    return float(result["offered_gbps"] * 1000 / 8 / result["offered_mpps"]) if result["offered_mpps"] else 0.0


def _rate(frames: int, size: float, time_ps: int) -> tuple[str, str]:
    seconds = time_ps / 1e12
    return load.rate_text(size * 8 / seconds), load.packets_text(frames / seconds)


def _store(row: Callable[[str, str, str], None], result: Report) -> None:
    """Add what became of requests to a key-value store."""
    stores = [port["store"] for port in result["ports"] if port["store"]]
    if not stores:
        return
    n = {key: sum(numbers(s)[key] for s in stores) for key in stores[0]}
    sound = f"{n['hits']} values as they were set, {n['misses']} missing, {n['wrong']} wrong"
    row("gets", str(n["gets"]), sound)
    row("sets", str(n["sets"]), f"{n['stored']} stored; {n['refused']} requests refused")


def _outside(row: Callable[[str, str, str], None], statistics: Statistics) -> None:
    """Add what passed between the guest and what is outside."""
    far, ns = numbers(statistics["far"]), statistics["time_ps"] / 1000
    for name, way in (("from outside", "in"), ("to outside", "out")):
        gbps = far[f"payload_{way}"] * 8 / ns
        row(name, f"{far[f'frames_{way}'] / ns * 1000:.3f} Mpps", f"{gbps:.2f} Gb/s of TCP and UDP payload")


def _iperf(row: Callable[[str, str, str], None], result: Report) -> None:
    """Add what the iperf3 client counted."""
    i = result["iperf"]
    row("payload", f"{i['gbps']:.2f} Gb/s", "over the measurement, slow start included where it lasts so long")
    if i["steady_gbps"] is not None:
        after = (i["steady_after_ns"] or 0) / 1e6
        row("  steady", f"{i['steady_gbps']:.2f} Gb/s", f"within 2 % from {after:.1f} ms on")
    else:
        row("  steady", "-", "the rate has not stayed within 2 % over 10 round trips")
    ours, theirs = i["client_bytes"], i["server_bytes"]
    row("bytes", f"{ours}", f"counted by the client; by the server {theirs if theirs is not None else '-'}")
    asked = result["configuration"]["run"]["load"]["iperf"]
    if asked and asked["protocol"] == "udp" and theirs is not None and not asked["reverse"]:
        row("  lost", f"{100 * (1 - theirs / max(ours, 1)):.2f} %", "of the bytes sent the server did not get")
    client, server = i["retransmissions"]
    row("sent again", f"{client + server}", f"segments: {client} by the client, {server} by the guest")
    if i["received_gbps"] is not None and i["received_gbps"] < i["gbps"]:
        row("arrived", f"{i['received_gbps']:.2f} Gb/s", "by the server's count of the whole run")
    if i["round_trip_ns"]:
        row("round trip", _latency(i["round_trip_ns"]), "from a segment to its acknowledgement, on average")
    if i["state"] != "done":
        row("state", "", i["state"])


def _processor_time(row: Callable[[str, str, str], None], result: Report) -> None:
    """Add what each core's time went to, as mpstat shows it."""
    gbps = result["iperf"]["gbps"] if "iperf" in result else result["forwarded_gbps"]
    for n, core in enumerate(of(result)["cores"]):
        times = numbers(core["processor_time"])
        whole = max(sum(times.values()), 1)
        shares = ", ".join(f"{kind} {100 * times[f'{kind}_ps'] / whole:.1f}" for kind in PROCESSOR_TIME)
        busy = 100 * (1 - times["idle_ps"] / whole)
        each = f"; {busy / gbps:.1f} % for each Gb/s" if gbps else ""
        row(f"core {n}", f"{busy:.1f} %", f"busy: {shares} %{each}")


def _program(result: Report) -> str:
    """Return what ran: a program, or a model of one."""
    name, command = result["app"]["name"], result["app"]["command"]
    return f"{name} ({command}: software is not run)" if _modelled(result) else name


def _modelled(result: Report) -> bool:
    return not result["versions"]["qemu"]


def _cores(row: Callable[[str, str, str], None], result: Report) -> None:
    """Add what the cores that worked did, all together."""
    w = work(result)
    several = f"mean of {w.cores} cores; " if w.cores > 1 else ""
    if _modelled(result):
        cycles = sum(core["core"]["cycles"] for core in of(result)["cores"])
        each = cycles / max(packets(result), 1)
        row("cycles per packet", f"{each:.0f}", "of all cores, empty polls included")
    else:
        row("IPC", "-" if w.ipc is None else f"{w.ipc:.2f}", f"{several}{w.instructions:.0f} instructions per packet")
    beyond = f"L2 {w.l2_misses:.2f} (with prefetches); LLC {w.llc_misses:.2f} (all cores)"
    row("misses per packet", f"{w.l1d_misses:.2f}", f"L1D (loads); {beyond}")


def _backlog(row: Callable[..., None], result: Report) -> None:
    """Tell where rings and FIFOs took in what the program did not do in time: it has left since, and counts."""
    run = result["configuration"]["run"]
    if result["app"]["role"] != FORWARDS or run["until_end"] or not result["statistics"]:
        return
    served = done(result) / (of(result)["time_ps"] / 1e12)
    if served < KEPT_UP * 1e6 * result["forwarded_mpps"]:
        why = "left within the measurement; the others waited at its end: `wiretime msb` finds what is sustained"
        row("  in time", load.packets_text(served), why)


Row = tuple[str, str, str]


def title(result: Report) -> str:
    """Return what ran, on which machine, with which cards, under which load."""
    machine = result["configuration"]["platform"]
    what = load.what(result["configuration"]["run"], platforms.generates(machine))
    cards = ", ".join(platforms.interfaces(machine))
    return f"{_program(result)} on {machine['name']}, {cards}: {what}"


def table(result: Report, host: Mapping[str, Any]) -> RenderableType:
    """Return the run's table."""
    t = Table(box=box.SIMPLE_HEAD, show_header=False)
    t.add_column(style="dim")
    t.add_column(justify="right")
    t.add_column()
    for name, value, note in rows(result, host):
        t.add_row(name, value, Text(note, style="dim"))
    warnings = [Text(f"warning: {w}", style="yellow") for w in result["warnings"]]
    # Not the table's title, which would be no wider than that.
    return Group(Text(title(result), style="bold"), t, *warnings)


def rows(result: Report, host: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a run's table: name, value, note."""
    c, run = result["cohort"], result["configuration"]["run"]
    found: list[Row] = []

    def row(name: str, value: str, note: str = "") -> None:
        found.append((name, value, note))

    role = result["app"]["role"]
    iperf = "iperf" in result
    answers_told = role != ANSWERS or run["far"] == "none"
    if iperf:
        _iperf(row, result)
    elif role != SENDS:
        row(
            "offered",
            load.rate_text(1e9 * result["offered_gbps"]),
            f"{load.packets_text(1e6 * result['offered_mpps'])} (frames, no preamble or gap)",
        )
    if role == CONSUMES:
        s = of(result)
        row("taken", *_rate(s["receive"]["delivered"], s["receive"]["delivered"] * _mean_length(result), s["time_ps"]))
    elif role != SENDS and not iperf and answers_told:
        rates = load.rate_text(1e9 * result["forwarded_gbps"]), load.packets_text(1e6 * result["forwarded_mpps"])
        row(ROLE_NAMES[role], *rates)
        _backlog(row, result)
    if role == SENDS:
        sent = of(result)["transmit"]
        row("sent", *_rate(sent["frames"], sent["bytes"], of(result)["time_ps"]))
    elif not iperf:
        lost = round(result["loss_percent"] * c["offered"] / 100)
        row("loss", f"{result['loss_percent']:.3f} %", f"{lost} of {c['offered']} packets")
    if run["far"] != "none":
        _outside(row, of(result))
    for name, key, note in (
        ("  DmaDrop", "dma_drop", "the NIC's DMA is the bottleneck"),
        ("  CoreDrop", "core_drop", "the core is the bottleneck"),
        ("  TxDrop", "tx_drop", "the transmit ring stalls the core"),
        ("  HostDrop", "host_drop", "the program threw them away"),
        ("  filtered", "filtered", "the NIC did not take them: by a rule, their address or length, or damaged"),
    ):
        if numbers(c)[key]:
            row(name, _percent(numbers(c)[key], c["offered"]), note)
    _store(row, result)
    given_up = sum(port["given_up"] for port in result["ports"])
    if given_up:
        row("given up", str(given_up), "requests whose answer did not come in time")
    latency = result["latency_ns"]
    if latency:
        row(
            "latency",
            f"{_latency(latency['mean'])}",
            f"mean; median {_latency(latency['median'])}, p99 {_latency(latency['p99'])}",
        )
        row("  worst", _latency(latency["max"]))
    if result["statistics"]:
        _cores(row, result)
        if run["processor_time"]:
            _processor_time(row, result)
        queues = [q["cohort"]["offered"] for port in result["ports"] for q in port["queues"]]
        if len(queues) > 1 and sum(queues) > 0:
            shares = ", ".join(f"{100 * n / sum(queues):.1f}" for n in queues)
            row("queues", str(len(queues)), f"% of the packets each: {shares}")
    row(
        "simulated",
        f"{result['execution']['simulated_ns'] / 1e9:.2f} s",
        f"from power-on; {_measured(result)} measured after {load.time_text(run['warm_up'])}",
    )
    kept = "kept " if host["boot"] == "kept" else ""
    # Of what was timed, turns of loops that were not executed one by one.
    repeated = host["repeated_instructions"] / max(host["traffic_instructions"], 1)
    at_once = f", {100 * repeated:.0f} % of it turns taken at once" if repeated >= 0.01 else ""
    spent = f"{kept}boot {host['boot_seconds']:.1f} s; {host['mips']:.0f} MIPS under full timing{at_once}"
    if _modelled(result):
        speed = result["total"]["offered"] / max(host["traffic_seconds"] or 0.0, 1e-9) / 1e6
        spent = f"no guest; {speed:.2f} million packets a second"
    row("host", f"{host['wall_seconds']:.1f} s", spent)
    return found
