"""What happened to packets: latency by hop, what the driver did queue by queue, what was full at drops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from wiretime.counters import numbers, of
from wiretime.models import Report
from wiretime.tables import of_numbers


def _mean(histogram: Sequence[Sequence[int]]) -> float:
    count = sum(n for _, n in histogram)
    return sum(value * n for value, n in histogram) / count if count else 0.0


def hops(result: Report) -> RenderableType:
    """Return latency by hop: the hops of every packet add up to its latency."""
    told, untold = result["latency_hops_packets"]
    title = f"latency by hop, ns, of {told} packets" + (f" ({untold} more not told)" if untold else "")
    table = of_numbers(title, "hop", "mean", "share", "median", "p99", "p99.9", "worst", "meaning")
    total = sum(hop["mean"] for hop in result["latency_hops_ns"])
    for hop in result["latency_hops_ns"]:
        numbers = [f"{hop[key]:.1f}" for key in ("median", "p99", "p999", "max")]
        share = f"{100 * hop['mean'] / total:.1f} %" if total else ""
        table.add_row(hop["name"], f"{hop['mean']:.1f}", share, *numbers, hop["meaning"])
    if total:
        table.add_row("all", f"{total:.1f}", "", "", "", "", "", "the mean latency")
    return table


def queues(result: Report) -> RenderableType:
    """Return what the driver did with each queue, beside what the NIC saw."""
    columns = ("queue", "received", "lost", "polls", "empty", "a burst", "left at refill", "refill every", "send every")
    table = of_numbers("driver by queue", *columns, "")
    for p, port in enumerate(result["ports"]):
        for q, queue in enumerate(port["queues"]):
            driver = numbers(of(result)["ports"][p]["queues"][q]["driver"])
            counts = queue["cohort"]
            lost = counts["dma_drop"] + counts["core_drop"] + counts["tx_drop"]
            empty = f"{100 * driver['empty_polls'] / driver['polls']:.1f} %" if driver["polls"] else ""
            every = [
                f"{driver[f'{side}_doorbell_interval_ps'] / driver[f'{side}_doorbells'] / 1000:.0f} ns"
                if driver[f"{side}_doorbells"]
                else ""
                for side in ("rx", "tx")
            ]
            table.add_row(
                f"{p}.{q}",
                str(counts["offered"] - lost - counts["filtered"]),
                str(lost),
                str(driver["polls"]),
                empty,
                f"{_mean(queue['burst_sizes']):.1f}",
                f"{_mean(queue['available_at_replenish']):.0f}",
                *every,
                "",
            )
    return table


def drops(result: Report) -> Iterator[RenderableType]:
    """Yield what was full at the drops before and at each drop, where there were any."""
    for p, port in enumerate(result["ports"]):
        if port["drop_transitions"]:
            table = of_numbers(f"port {p}: what was full", "at the drop before", "at the drop", "drops", "")
            for row in sorted(port["drop_transitions"], key=lambda r: -r["drops"]):
                table.add_row(row["before"], row["at"], str(row["drops"]), "")
            yield table


def occupancy(result: Report) -> Iterator[list[str]]:
    """Yield the fill of FIFO and rings over the measurement as rows, the header first."""
    found = result["occupancy"]
    yield ["port", "begin_ns", *found["columns"]]
    for port, rows in enumerate(found["ports"]):
        for i, row in enumerate(rows):
            yield [str(port), f"{i * found['interval_ns']:.0f}", *map(str, row)]
