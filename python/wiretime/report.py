"""What a run looks like on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wiretime.statistics import busy_cores, total


def _latency(ns: float) -> str:
    return f"{ns / 1000:.2f} us" if ns >= 10_000 else f"{ns:.0f} ns"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f} %" if whole else "-"


def table(result: Mapping[str, Any], host: Mapping[str, Any]) -> RenderableType:
    """Return the run's table."""
    c, p, s = result["cohort"], result["configuration"], result["statistics"]
    run = p["run"]
    t = Table(
        title=f"{result['app']['name']} on {p['platform']['name']}: {run['packet_size']} B at {run['rate']}",
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
    latency = result["latency_ns"]
    if latency:
        row(
            "latency",
            f"{_latency(latency['mean'])}",
            f"mean; median {_latency(latency['median'])}, p99 {_latency(latency['p99'])}",
        )
        row("  worst", _latency(latency["max"]))
    if s:
        packets = max(s["receive"]["delivered"], 1)
        for i, core in enumerate(s["cores"][n] for n in busy_cores(result)):
            k, m = core["core"], core["caches"]
            ipc = k["instructions"] / k["cycles"] if k["cycles"] else 0.0
            row(
                "IPC" if i == 0 else "",
                f"{ipc:.2f}",
                f"{k['instructions'] / packets:.0f} instructions a packet",
            )
            row(
                "misses a packet",
                f"{m['l1_dcache_load_misses'] / packets:.2f}",
                f"L1D loads; L2 {total(m, 'l2_misses_') / packets:.2f}, "
                f"LLC {total(s['memory'], 'llc_misses_') / packets:.2f}",
            )
    row(
        "simulated",
        f"{result['execution']['simulated_ns'] / 1e9:.2f} s",
        f"from power-on; {run['duration']} measured after {run['warm_up']}",
    )
    row(
        "host",
        f"{host['wall_seconds']:.1f} s",
        f"boot {host['boot_seconds']:.1f} s; {host['mips']:.0f} MIPS under full timing",
    )
    warnings = [Text(f"warning: {w}", style="yellow") for w in result["warnings"]]
    return Group(t, *warnings)
