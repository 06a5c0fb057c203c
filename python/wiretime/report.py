"""What a run looks like on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wiretime import load
from wiretime.statistics import busy_cores, total


def _latency(ns: float) -> str:
    return f"{ns / 1000:.2f} us" if ns >= 10_000 else f"{ns:.0f} ns"


def _measured(result: Mapping[str, Any]) -> str:
    """Return how long the measurement was: of a trace, as long as it took."""
    run = result["configuration"]["run"]
    if run["until_end"] and result["statistics"]:
        return f"{result['statistics']['time_ps'] / 1e9:.3f} ms"
    return str(run["duration"])


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f} %" if whole else "-"


def _cores(row: Callable[[str, str, str], None], result: Mapping[str, Any]) -> None:
    """Add what the cores that worked did, all together."""
    s = result["statistics"]
    packets = max(s["receive"]["delivered"], 1)
    cores = [s["cores"][n] for n in busy_cores(result)]
    instructions = sum(c["core"]["instructions"] for c in cores)
    cycles = sum(c["core"]["cycles"] for c in cores)
    several = f"mean of {len(cores)} cores; " if len(cores) > 1 else ""
    ipc = f"{instructions / cycles:.2f}" if cycles else "-"
    row("IPC", ipc, f"{several}{instructions / packets:.0f} instructions a packet")
    l1 = sum(c["caches"]["l1_dcache_load_misses"] for c in cores)
    l2 = sum(total(c["caches"], "l2_misses_") for c in cores)
    note = f"L1D loads; L2 {l2 / packets:.2f}, LLC {total(s['memory'], 'llc_misses_') / packets:.2f}"
    row("misses a packet", f"{l1 / packets:.2f}", note)


def table(result: Mapping[str, Any], host: Mapping[str, Any]) -> RenderableType:
    """Return the run's table."""
    c, p, s = result["cohort"], result["configuration"], result["statistics"]
    run = p["run"]
    t = Table(
        title=f"{result['app']['name']} on {p['platform']['name']}: {load.what(run)}",
        box=box.SIMPLE_HEAD,
        show_header=False,
        title_justify="left",
        title_style="bold",
    )
    t.add_column(style="dim")
    t.add_column(justify="right")
    t.add_column()

    def row(name: str, value: str, note: str = "") -> None:
        t.add_row(name, value, Text(note, style="dim"))

    row(
        "offered",
        f"{result['offered_gbps']:.2f} Gb/s",
        f"{result['offered_mpps']:.2f} Mpps (frames, no preamble or gap)",
    )
    row("forwarded", f"{result['forwarded_gbps']:.2f} Gb/s", f"{result['forwarded_mpps']:.2f} Mpps")
    row("loss", f"{result['loss_percent']:.3f} %", f"{c['offered'] - c['forwarded']} of {c['offered']} packets")
    for name, key, note in (
        ("  DmaDrop", "dma_drop", "the NIC's DMA is the bottleneck"),
        ("  CoreDrop", "core_drop", "the core is the bottleneck"),
        ("  TxDrop", "tx_drop", "the transmit ring stalls the core"),
        ("  HostDrop", "host_drop", "the program threw them away"),
    ):
        if c[key]:
            row(name, _percent(c[key], c["offered"]), note)
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
    if s:
        _cores(row, result)
        queues = [q["cohort"]["offered"] for port in result["ports"] for q in port["queues"]]
        if len(queues) > 1:
            shares = ", ".join(f"{100 * n / max(sum(queues), 1):.1f}" for n in queues)
            row("queues", str(len(queues)), f"% of the packets each: {shares}")
    row(
        "simulated",
        f"{result['execution']['simulated_ns'] / 1e9:.2f} s",
        f"from power-on; {_measured(result)} measured after {run['warm_up']}",
    )
    row(
        "host",
        f"{host['wall_seconds']:.1f} s",
        f"boot {host['boot_seconds']:.1f} s; {host['mips']:.0f} MIPS under full timing",
    )
    warnings = [Text(f"warning: {w}", style="yellow") for w in result["warnings"]]
    return Group(t, *warnings)
