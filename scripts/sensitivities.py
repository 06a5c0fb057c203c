"""What a change of the machine does to a forwarder, beside what the gem5 study (ISPASS 2024) published.

Capacity is the forwarded rate under a load of 95 Gb/s, with a small receive FIFO, so that a short run is enough; the
study's is the load at which 1 % is lost. Writes a Markdown table to standard output.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from wiretime import runs
from wiretime.statistics import busy_cores

PAPER = "gem5-n1-paper"
COMMON = ("nic.rx_fifo=64KiB", "link.latency=1us")
TOUCH = "--forward-mode=csum"
# The study's in-order machine: its caches change too.
IN_ORDER = (
    "core.kind=in-order",
    "core.dispatch_width=2",
    "core.commit_width=2",
    "l1d.ways=2",
    "l1i.ways=2",
    "l1d.mshrs=4",
    "l2.latency=22",
    "llc.latency=20ns",
)


@dataclass(frozen=True)
class Study:
    """One comparison: what is varied, from what to what, and the published change of capacity."""

    what: str
    platform: str
    size: int
    touch: bool
    before: tuple[str, ...]
    after: tuple[str, ...]
    published: str


def studies() -> list[Study]:
    """Return every comparison of the table."""
    found = []
    for size, published in ((128, "x 1.545"), (256, "x 1.889"), (512, "x 1.963"), (1024, "x 1.571"), (1518, "x 1.143")):
        found.append(Study("DCA off, on", PAPER, size, False, ("llc.dca_ways=0",), (), published))
    found.append(Study("DCA off, on", PAPER, 1518, True, ("llc.dca_ways=0",), (), "-"))
    for touch, size, published in ((False, 1518, "weak"), (True, 1518, "sensitive")):
        slow, fast = ("core.frequency=1GHz",), ("core.frequency=4GHz",)
        found.append(Study("frequency 1, 4 GHz", PAPER, size, touch, slow, fast, published))
    for touch, size, published in ((False, 1518, "about 0"), (True, 1518, "up to x 8"), (True, 256, "up to x 8")):
        found.append(Study("in-order, out-of-order", PAPER, size, touch, IN_ORDER, (), published))
    for touch, size in ((False, 64), (True, 1518)):
        found.append(Study("ROB 32, 128", PAPER, size, touch, ("core.rob_entries=32",), (), "-"))
    for touch, size, published in ((False, 256, "improves"), (True, 1518, "-")):
        found.append(Study("L2 256 KiB, 1 MiB", PAPER, size, touch, ("l2.size=256KiB",), (), published))
    off = "llc.dca_ways=0"
    one, eight = ("dram.channels=1", off), ("dram.channels=8", off)
    for touch, published in ((False, "increases"), (True, "-")):
        found.append(Study("DRAM channels 1, 8 (DCA off)", PAPER, 1518, touch, one, eight, published))
    for size in (256, 1518):
        third = ("pcie.generation=3", "pcie.lanes=8")
        found.append(Study("PCIe 3.0 x8, 4.0 x16", "ampere-altra", size, False, third, (), "-"))
    return found


def capacity(study: Study, changes: tuple[str, ...]) -> tuple[float, str]:
    """Return the capacity in Gb/s, and where the core's cycles went first."""
    request = runs.Request(
        platform=study.platform,
        packet_size=study.size,
        rate="95Gbps",
        duration="300us",
        warm_up="1ms",
        app_args=TOUCH if study.touch else "",
        changes=(*COMMON, *changes),
    )
    result = runs.execute(request)[0]
    core = result["statistics"]["cores"][busy_cores(result)[0]]
    stack = sorted(core["stalls"].items(), key=lambda item: -item[1])
    cycles = max(core["core"]["cycles"], 1)
    shares = ", ".join(f"{name} {100 * n / cycles:.0f} %" for name, n in stack[:3])
    drops = {k: result["cohort"][k] for k in ("dma_drop", "core_drop", "tx_drop", "host_drop")}
    worst = max(drops, key=lambda k: drops[k])
    bound = worst.replace("_", " ") if drops[worst] else "no drops"
    return result["forwarded_gbps"], f"{bound}; {shares}"


def main() -> None:
    """Run all comparisons, two runs at a time."""
    listed = studies()
    points = sorted({(s, c) for s in listed for c in (s.before, s.after)}, key=repr)
    unique = {(s.platform, s.size, s.touch, c): (s, c) for s, c in points}

    def measure(key: tuple[str, int, bool, tuple[str, ...]]) -> tuple[float, str]:
        print(*key, file=sys.stderr)
        return capacity(*unique[key])

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(unique, pool.map(measure, unique), strict=True))
    print("| program | size | change | before | after | ratio | published | before: drops; cycles | after |")
    print("|---|---:|---|---:|---:|---:|---|---|---|")
    for s in listed:
        (a, why_a), (b, why_b) = (found[s.platform, s.size, s.touch, c] for c in (s.before, s.after))
        program = "testpmd csum (touches payload)" if s.touch else "testpmd macswap"
        print(
            f"| {program} | {s.size} | {s.what} | {a:.1f} Gb/s | {b:.1f} Gb/s | {b / a:.2f} | {s.published} "
            f"| {why_a} | {why_b} |"
        )


if __name__ == "__main__":
    main()
