"""Speed of the simulator, as ratios measured in one run: `make bench`.

Debian's testpmd forwards between null devices in bare QEMU, with blocks counted, and under full timing; then the real
forwarding run, and both engines beside each other. Where `perf` is there, each part's share of host time is sampled
during the forwarding run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wiretime import load, platforms, runs, scratch, software, vm
from wiretime.counters import of
from wiretime.errors import WiretimeError
from wiretime.setup import qemu
from wiretime.setup.architecture import BOARD
from wiretime.setup.parts import GUEST, QEMU

TESTPMD = (
    "dpdk-testpmd -l 0-1 -n 8 --no-telemetry --no-pci --vdev=net_null0 --log-level=*:warning -- "
    "--forward-mode=macswap --nb-cores=1 --total-num-mbufs=8192"
)
# Forwards until the sleeps are over; the mark tells the engine that forwarding has begun by then.
SCRIPT = f"(sleep 4; wtctl mark 1; sleep {{seconds}}; echo) | {TESTPMD}"
ARGUMENTS = ("hugepagesz=2M", "hugepages=128", "isolcpus=1", "nohz_full=1", "rcu_nocbs=1")
BARE_SECONDS = 10.0
# Simulated seconds: some 10^8 instructions each.
BLOCKS_SECONDS, FULL_SECONDS = 3.0, 0.03

PARTS = {
    "branch prediction": ("wiretime_hw::core::branch",),
    "TLBs and walks": ("wiretime_hw::core::tlb", "wiretime_isa"),
    "core: pipeline, ports, loads and stores": ("wiretime_engine::run::Run::time", "wiretime_hw::core"),
    "DRAM": ("wiretime_hw::memory::dram",),
    "LLC, directory, DMA to caches": (
        "wiretime_hw::memory::shared",
        "wiretime_hw::memory::device",
        "wiretime_hw::memory::object",
        "wiretime_hw::memory::contention",
    ),
    "private caches and prefetchers": ("wiretime_hw::memory", "wiretime_hw::params"),
    "NIC, I/O path, wire, generator": (
        "wiretime_hw::nic",
        "wiretime_hw::io",
        "wiretime_hw::wire",
        "advance_devices",
        "dma",
    ),
    "calendars, events, statistics": ("wiretime_base", "hdrhistogram"),
    "callbacks, turns, clock": ("wiretime_engine",),
}


def packets(console: str) -> int:
    """Return the packets that testpmd says it received."""
    found = re.findall(r"RX-packets: (\d+)", console)
    if not found:
        raise WiretimeError(f"testpmd printed no statistics: {console[-500:]}")
    return int(found[-1])


def bare() -> float:
    """Return packets a host second in bare QEMU: the median of what testpmd reports each second."""
    # Its statistics are printed instead of waiting for the end of the input.
    script = f"timeout {BARE_SECONDS + 6:.0f} {TESTPMD} --stats-period 1"
    g = vm.Guest({"MODULES": "", "BIND": "", "COMMAND": script, "WAITS": ""}, archives=("dpdk",))
    system = platforms.load(platforms.DEFAULT)["system"]
    with scratch.folder() as folder:
        initrd = Path(folder) / "initrd"
        initrd.write_bytes(g.initramfs + g.own)
        command = [
            *qemu.command(QEMU.folder() / "root"),
            *["-M", BOARD, "-cpu", system["cpu"], "-smp", "2", "-m", "1024"],
            *["-accel", "tcg,thread=single,tb-size=256", "-display", "none", "-nic", "none", "-no-reboot"],
            *["-monitor", "none", "-serial", "stdio"],
            *["-kernel", str(GUEST.folder() / "kernel"), "-initrd", str(initrd)],
            *["-append", " ".join([*vm.KERNEL_ARGUMENTS, *ARGUMENTS])],
        ]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    rates = sorted(int(r) for r in re.findall(r"Rx-pps:\s+(\d+)", done.stdout) if int(r))
    if not rates:
        raise WiretimeError(f"testpmd reported no rate: {done.stdout[-500:]}")
    return float(rates[len(rates) // 2])


def engine(timing: str, seconds: float) -> tuple[float, float, float]:
    """Return MIPS, packets a host second and instructions per packet."""
    settings = runs.check(
        runs.Request(rate="1Mbps", internals={"start_at": "mark", "timing": timing, "warm_up": "0ns"})
    ).settings
    command = SCRIPT.format(seconds=seconds)
    settings_text = {"MODULES": "", "BIND": "", "COMMAND": command, "WAITS": ""}
    g = vm.Guest(settings_text, kernel_arguments=ARGUMENTS, archives=("dpdk",))
    # The measurement would end by itself: the program ends it here.
    machine = vm.Machine(platforms.load(platforms.DEFAULT), {**settings, "duration": "100s"}, g)
    outcome = machine.run()
    result, host = outcome.message["result"], outcome.message["host"]
    first, last = result["execution"]["at"]
    done = sum(last["instructions"]) - sum(first["instructions"])
    forwarding = result["execution"]["instructions"][1]
    a_packet = forwarding / packets(outcome.console)
    speed = done / host["traffic_seconds"]
    return speed / 1e6, speed / a_packet, a_packet


# Every core turns in the shell; the mark starts the timing.
BUSY = (
    "i=0; while [ $i -lt {cores} ]; do (while :; do :; done) & i=$((i+1)); done; sleep 1; wtctl mark 1; wtctl wait-stop"
)
BUSY_SECONDS = "2ms"


def busy_cores(cores: int, *changes: str) -> tuple[float, float, float]:
    """Return host seconds, instructions in millions and resident memory in MiB of ``cores`` busy cores."""
    platform = platforms.load(platforms.DEFAULT, [f"system.cores={cores}", *changes])
    settings = runs.check(runs.Request(rate="1Mbps", duration=BUSY_SECONDS, internals={"start_at": "mark"})).settings
    g = vm.Guest({"MODULES": "", "BIND": "", "COMMAND": BUSY.format(cores=cores), "WAITS": ""})
    peak = {"kib": 0, "pid": 0}

    def progress(_: Mapping[str, Any]) -> None:
        text = Path(f"/proc/{peak['pid']}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", text)
        peak["kib"] = max(peak["kib"], int(found[1]) if found else 0)

    outcome = vm.Machine(platform, settings, g).run(progress, on_start=lambda pid: peak.update(pid=pid))
    host = outcome.message["host"]
    return host["traffic_seconds"], host["traffic_instructions"] / 1e6, peak["kib"] / 1024


def many_cores(screen: Console) -> None:
    """Measure what more busy cores cost, and what a longer quantum saves."""
    table = Table(box=box.SIMPLE_HEAD, title=f"busy cores, {BUSY_SECONDS} under full timing", title_justify="left")
    for name in ("cores", "quantum", "host s", "MIPS", "of one core", "a core and instruction", "memory, MiB"):
        table.add_column(name, justify="right")
    one = busy_cores(1)
    for cores, quantum in ((1, "0ns"), (2, "0ns"), (8, "0ns"), (8, "5us"), (16, "0ns")):
        seconds, millions, memory = busy_cores(cores, f"system.quantum={quantum}") if cores > 1 else one
        each = seconds / millions / (one[0] / one[1])
        table.add_row(
            str(cores),
            "lookahead" if quantum == "0ns" else quantum,
            f"{seconds:.1f}",
            f"{millions / seconds:.0f}",
            f"{seconds / one[0]:.2f}",
            f"{each:.2f}",
            f"{memory:.0f}",
        )
    screen.print(table)


# Loads of testpmd on an 82599 on both engines, and what is simulated of each.
BOTH = (("64 B, 20 Gb/s", 64, "20Gbps"), ("1518 B, 90 Gb/s", 1518, "90Gbps"))
BOTH_DURATION = "10ms"


def both_engines(screen: Console) -> None:
    """Measure packets a host second with software executed, and with software as a model."""
    table = Table(
        box=box.SIMPLE_HEAD, title="testpmd on an 82599, packets in and out a host second", title_justify="left"
    )
    for name in ("load", "full system", "model", "ratio"):
        table.add_column(name, justify="left" if name == "load" else "right")
    for label, size, rate in BOTH:
        paces = []
        for engine_name in software.ENGINES:
            asked = runs.Request(
                engine=engine_name, nic="82599", packet_size=size, rate=rate, duration=BOTH_DURATION, every_turn=True
            )
            done = runs.execute(asked)
            paces.append(of(done.result)["receive"]["delivered"] / done.host["traffic_seconds"])
        full, modelled = paces
        table.add_row(label, f"{full:,.0f}", f"{modelled:,.0f}", f"{modelled / full:.1f}")
    screen.print(table)


def shares(pid: int, seconds: float) -> Mapping[str, float] | None:
    """Return each part's share of the host time of process ``pid``; ``None`` without ``perf``."""
    if shutil.which("perf") is None:
        return None
    with scratch.folder() as folder:
        data = str(Path(folder) / "perf.data")
        record = ["perf", "record", "-q", "-o", data, "-p", str(pid), "--", "sleep", str(seconds)]
        if subprocess.run(record, capture_output=True).returncode != 0:
            return None
        report = ["perf", "report", "-i", data, "--stdio", "-g", "none", "--sort", "dso,symbol"]
        text = subprocess.run(report, capture_output=True, text=True).stdout
    found: dict[str, float] = {}
    for line in text.splitlines():
        match = re.match(r"\s*([\d.]+)%\s+(\S+)\s+\[.\]\s+(.*)", line)
        if match is None:
            continue
        share, dso, symbol = float(match[1]), match[2], match[3]
        part = "QEMU and its translated code"
        if "wiretime" in dso:
            part = next((name for name, keys in PARTS.items() if any(k in symbol for k in keys)), "engine, other")
        elif "kernel" in dso:
            part = "host kernel"
        found[part] = found.get(part, 0.0) + share
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def main() -> None:
    """Measure and print."""
    screen = Console()
    table = Table(box=box.SIMPLE_HEAD, title="dpdk-testpmd between null devices", title_justify="left")
    for name in ("mode", "MIPS", "packets/host s", "of bare QEMU"):
        table.add_column(name, justify="left" if name == "mode" else "right")
    rate_bare = bare()
    rows = {"blocks counted": engine("blocks", BLOCKS_SECONDS), "full timing": engine("full", FULL_SECONDS)}
    a_packet = rows["blocks counted"][2]
    table.add_row("bare QEMU", f"{rate_bare * a_packet / 1e6:.0f}", f"{rate_bare:,.0f}", "1")
    for name, (mips, rate, _) in rows.items():
        table.add_row(name, f"{mips:.0f}", f"{rate:,.0f}", f"1/{rate_bare * a_packet / 1e6 / mips:.1f}")
    screen.print(table)

    sampled: dict[str, Mapping[str, float] | None] = {"shares": None}
    state = {"pid": 0}

    def on_start(pid: int) -> None:
        state["pid"] = pid

    def progress(p: Mapping[str, Any]) -> None:
        if p["phase"] == "measure" and sampled["shares"] is None:
            sampled["shares"] = shares(state["pid"], 4) or {}

    began = time.monotonic()
    done = runs.execute(runs.Request(duration="50ms"), progress, on_start=on_start)
    result, host = done.result, done.host
    forwarded = of(result)["receive"]["delivered"]
    seconds = host["traffic_seconds"]
    asked = result["configuration"]["run"]
    screen.print(
        f"forwarding run, {load.what(asked)}: {host['mips']:.0f} MIPS, "
        f"{forwarded / seconds:,.0f} packets/host s, whole run {time.monotonic() - began:.0f} s",
        highlight=False,
    )
    both_engines(screen)
    many_cores(screen)
    if sampled["shares"]:
        for part, share in sampled["shares"].items():
            screen.print(f"  {share:5.1f} %  {part}", highlight=False)
    else:
        screen.print("  shares of host time: not sampled, perf is missing or not allowed (apt-get install linux-perf)")


if __name__ == "__main__":
    main()
