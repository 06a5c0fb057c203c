"""Results that a change of structure must not change: `.venv/bin/python scripts/recorded.py [--quick | NAME ...]`.

Runs configurations that between them use every application, device and mode, and compares a hash of each result, less
what only names versions, with the one in ``tests/data/recorded.json``. ``--update`` records what it finds: for a change
that means to move figures, whose message says which and by how much (the script prints both).

The hash of the configuration is kept apart, so that a new parameter is told from another figure. Figures depend on the
guest's memory layout, so on its image: hashes are compared only where the image is the recorded one.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wiretime import paths, runs, search
from wiretime.setup import store
from wiretime.setup.parts import GUEST, QEMU

RECORD = paths.REPOSITORY / "tests/data/recorded.json"
INTEL = ("--nic", "8254x")
SHORT = ("--duration", "300us", "--warmup", "100us")
KERNEL = ("--duration", "2ms", "--warmup", "1ms")
TRACE = paths.REPOSITORY / "tests/data/memcached-udp.pcap"

# What `wiretime run` is told, by name.
RUNS: dict[str, tuple[str, ...]] = {
    "testpmd": ("testpmd", *SHORT),
    "testpmd-overload-64": ("testpmd", "--packet-size", "64", "--rate", "70Gbps", *SHORT),
    "testpmd-1518-poisson": (
        "testpmd", *INTEL, "--packet-size", "1518", "--rate", "80Gbps", "--arrivals", "poisson", *SHORT,
    ),
    "testpmd-82599": ("testpmd", "--nic", "82599", *SHORT),
    "testpmd-82599-four-cores": (
        "testpmd", "--nic", "82599", "--cores", "4", "--queues", "4", "--packet-size", "64", "--rate", "60Gbps", *SHORT,
    ),
    "testpmd-two-ports": ("testpmd", *INTEL, "--ports", "2", "--rate", "10Gbps", *SHORT),
    "testpmd-jumbo-csum": (
        "testpmd", "--nic", "82599", "--packet-size", "9000", "--rate", "50Gbps", "--app-args", "--forward-mode=csum",
        *SHORT,
    ),
    "testpmd-dca": ("testpmd", *INTEL, "--packet-size", "1518", "--rate", "60Gbps", "--set", "llc.dca_ways=4", *SHORT),
    "testpmd-iommu-n1": (
        "testpmd", "--platform", "neoverse-n1", "--packet-size", "128", "--rate", "60Gbps",
        "--set", "iommu.enabled=true", *SHORT,
    ),
    "testpmd-neoverse-n1": ("testpmd", "--platform", "neoverse-n1", "--packet-size", "128", "--rate", "60Gbps", *SHORT),
    "testpmd-gem5-paper": (
        "testpmd", "--platform", "gem5-n1-paper", "--packet-size", "512", "--rate", "30Gbps", *SHORT,
    ),
    "testpmd-gem5-artifact": (
        "testpmd", "--platform", "gem5-n1-artifact", "--packet-size", "512", "--rate", "30Gbps", *SHORT,
    ),
    "testpmd-in-order": ("testpmd", "--platform", "in-order", "--rate", "5Gbps", *SHORT),
    "testpmd-slow-pcie": (
        "testpmd", *INTEL, "--packet-size", "1518", "--rate", "60Gbps", "--set", "slot.generation=2",
        "--set", "slot.lanes=8", *SHORT,
    ),
    "testpmd-closed-mix": ("testpmd", *INTEL, "--clients", "32", "--packet-size", "imix", *SHORT),
    "testpmd-timeline": ("testpmd", *INTEL, "--trace", "20us+5us", "--capture", "20us+5us", "--profile", *SHORT),
    "testpmd-txonly": ("testpmd", *INTEL, "--app-args", "--forward-mode=txonly", *SHORT),
    "testpmd-replay": ("testpmd", *INTEL, "--replay", str(TRACE), "--rate", "10Gbps"),
    "l3fwd-82599": (
        "l3fwd", "--nic", "82599", "--cores", "2", "--queues", "2", "--flow-vary", "addresses", "--rate", "10Gbps",
        *SHORT,
    ),
    "l3fwd-8254x": ("l3fwd", *INTEL, "--rate", "10Gbps", *SHORT),
    "l3fwd-power-connectx": (
        "l3fwd-power", "--nic", "connectx-6dx", "--rate", "1Mbps", "--warmup", "1ms", "--duration", "5ms",
    ),
    "touchfwd": ("touchfwd", *INTEL, "--packet-size", "1518", "--rate", "30Gbps", *SHORT),
    "touchdrop": ("touchdrop", *INTEL, "--packet-size", "512", "--rate", "30Gbps", *SHORT),
    "rxptx": ("rxptx", *INTEL, "--packet-size", "256", "--rate", "10Gbps", *SHORT),
    "memcached-dpdk": ("memcached_dpdk", *INTEL, *SHORT),
    "memcached": ("memcached", *INTEL, *KERNEL),
    "udpecho": ("udpecho", *INTEL, *KERNEL),
    "xdp-redirect": (
        "xdp", "--nic", "82599", "--ports", "2", "--packet-size", "64", "--rate", "1Gbps", "--app-args", "redirect",
        *SHORT,
    ),
    "xdp-route-connectx": (
        "xdp", "--nic", "connectx-6dx", "--cores", "2", "--queues", "2", "--rate", "4Gbps", "--app-args", "route",
        *SHORT,
    ),
    "route": ("route", *INTEL, "--packet-size", "64", "--rate", "300kpps", *SHORT),
    "ping": ("ping", *INTEL, "--packet-size", "98", "--rate", "100Mbps", *KERNEL),
    "iperf3-82599-two-cores": ("iperf3", "--nic", "82599", "--cores", "2", *KERNEL),
    "iperf3-8254x-reverse": ("iperf3", *INTEL, "--iperf", "reverse=yes", *KERNEL),
    "testpmd-connectx": (
        "testpmd", "--nic", "connectx-6dx", "--cores", "2", "--queues", "2", "--packet-size", "64", "--rate", "30Gbps",
        *SHORT,
    ),
    "iperf3-connectx": ("iperf3", "--nic", "connectx-6dx", *KERNEL),
    "qdmafwd": ("qdmafwd", "--nic", "qdma", *SHORT),
    "iperf3-second-host": ("iperf3", "--nic", "82599", "--peer", "host", *KERNEL),
}  # fmt: skip
# What a search is asked: packet sizes.
SEARCHES: dict[str, tuple[int, ...]] = {"msb-64-1518": (64, 1518)}
QUICK = ("testpmd-overload-64", "testpmd-82599-four-cores", "touchfwd")

# Figures that are shown where a result has changed.
FIGURES = ("offered_gbps", "forwarded_gbps", "loss_percent")
NAMES_ONLY = ("schema_version", "versions")


def _hash(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


def image() -> str:
    """Return the identity of what runs in the guest, and of QEMU."""
    files = sorted(p for p in GUEST.folder().iterdir() if p.name != store.MANIFEST)
    return _hash(json.dumps([store.manifest(QEMU.folder()), *(store.file_digest(p) for p in files)]))


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    core = result.get("latency_ns") or {}
    return {**{name: result.get(name) for name in FIGURES}, "latency_ns": core.get("mean")}


def _ran(arguments: tuple[str, ...], how: Sequence[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        options = [f"--{name.replace('_', '-')}" for name in how]
        command = [sys.executable, "-m", "wiretime", "run", *arguments, *options, "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            return {"failed": done.stderr.strip().splitlines()[-1:]}
        found: dict[str, Any] = {}
        for path in sorted(Path(folder).rglob("*")):
            name = str(path.relative_to(folder))
            if path.name in ("host.json", "console.log", "request.json") or not path.is_file():
                continue
            if path.name != "result.json":
                found[name] = _hash(path.read_bytes())
                continue
            result = {k: v for k, v in json.loads(path.read_text()).items() if k not in NAMES_ONLY}
            if result["configuration"]["run"]["trace_file"]:
                result["configuration"]["run"]["trace_file"] = TRACE.name
                result["trace"].pop("path", None)
            found[name.replace("result.json", "configuration")] = _hash(json.dumps(result.pop("configuration")))
            found[name] = _hash(json.dumps(result))
            if name == "result.json":
                found["figures"] = _figures(result)
        return found


def _searched(sizes: tuple[int, ...], how: Sequence[str]) -> dict[str, Any]:
    request = dataclasses.replace(runs.Request(), **dict.fromkeys(how, True))
    found = search.msb(request, list(sizes), 0.01, lambda _: None, 0.5)
    return {"result": _hash(json.dumps([dataclasses.asdict(m) for m in found], default=str))}


def measure(names: list[str], jobs: int = 2, how: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Run configurations by name, with or without what saves time; return their hashes and main figures."""

    def one(name: str) -> dict[str, Any]:
        return _ran(RUNS[name], how) if name in RUNS else _searched(SEARCHES[name], how)

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def recorded() -> dict[str, Any]:
    """Return what is recorded: the image's identity, and hashes by configuration."""
    value: dict[str, Any] = json.loads(RECORD.read_text())
    return value


def main() -> int:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="configurations; all by default")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--update", action="store_true", help="record what is found")
    parser.add_argument("--boot", action="store_true", help="boot each guest, whatever is kept")
    parser.add_argument("--every-turn", action="store_true", help="execute every turn of a loop")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    names = list(QUICK) if asked.quick else asked.names or [*RUNS, *SEARCHES]
    unknown = [n for n in names if n not in RUNS and n not in SEARCHES]
    if unknown:
        parser.error(f"no such configuration: {', '.join(unknown)}")
    before = recorded() if RECORD.exists() else {"image": image(), "results": {}}
    if before["image"] != image():
        print(f"recorded with another guest image or QEMU ({before['image']}, here {image()})")
        if not asked.update:
            return 2
    found = measure(names, asked.jobs, [name for name in ("boot", "every_turn") if getattr(asked, name)])
    changed = 0
    for name, now in found.items():
        was = before["results"].get(name, {})
        parts = [k for k in sorted({*was, *now}) if k != "figures" and was.get(k) != now.get(k)]
        changed += bool(parts) or "failed" in now
        print(f"{name}: {'same' if not parts else 'CHANGED ' + ', '.join(parts)}", now.get("failed", ""))
        if was.get("figures") != now.get("figures"):
            print(f"    {was.get('figures')}\n    {now.get('figures')}")
    if asked.update:
        # Of another image what has not been run is not known.
        kept = before["results"] if before.get("image") == image() else {}
        results = {**kept, **found}
        RECORD.write_text(json.dumps({"image": image(), "results": dict(sorted(results.items()))}, indent=1) + "\n")
    print(f"{changed} of {len(found)} changed")
    return 0 if asked.update or not changed else 1


if __name__ == "__main__":
    sys.exit(main())
