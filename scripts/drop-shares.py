"""Shares of the drop classes by packet size on the published machine, by our definition and by the published one.

The offered load is above the knee, and the warm-up fills the 4 MiB FIFO first. Prints a Markdown table for
docs/validation.md: ``python scripts/drop-shares.py``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from wiretime import runs
from wiretime.search import CLASSES

PLATFORMS = ("gem5-n1-paper", "gem5-n1-artifact")
# Packet size, offered load, and a warm-up in which the excess fills the FIFO.
POINTS = ((64, "16Gbps", "7ms"), (256, "40Gbps", "4ms"), (512, "70Gbps", "3ms"), (1518, "90Gbps", "3ms"))
PUBLISHED = {64: "CoreDrop 85.7 %", 1518: "DmaDrop 100 %"}


def point(platform: str, judge: str, size: int, rate: str, warm_up: str) -> tuple[float, str]:
    """Return what is forwarded, and the shares of the classes in all that is lost."""
    request = runs.Request(
        platform=platform, packet_size=size, rate=rate, warm_up=warm_up, duration="500us", drop_classes=judge
    )
    result = runs.execute(request).result
    counts = {name: result["cohort"][key] for key, name in CLASSES.items()}
    lost = sum(counts.values())
    shares = [f"{name} {100 * n / lost:.1f} %" for name, n in counts.items() if n]
    return result["forwarded_gbps"], ", ".join(shares) or "none"


def main() -> None:
    """Run all points, two at a time, and print the table."""
    jobs = [(p, judge, *at) for p in PLATFORMS for at in POINTS for judge in ("wiretime", "gem5")]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(jobs, pool.map(lambda job: point(*job), jobs), strict=True))
    print("| platform | size | offered | forwarded | classes | with `--drop-classes gem5` | published |")
    print("|---|---:|---:|---:|---|---|---|")
    for platform in PLATFORMS:
        for at in POINTS:
            forwarded, ours = found[(platform, "wiretime", *at)]
            _, theirs = found[(platform, "gem5", *at)]
            published = PUBLISHED.get(at[0], "")
            print(f"| {platform} | {at[0]} B | {at[1]} | {forwarded:.1f} Gb/s | {ours} | {theirs} | {published} |")


if __name__ == "__main__":
    main()
