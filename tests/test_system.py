"""Full-system runs: a guest boots and forwards packets."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import WIRETIME, alive, children, leftovers, settings, wiretime
from wiretime import paths, platforms, runs, vm
from wiretime.setup import guest, store
from wiretime.setup.guest import COMPILER
from wiretime.setup.parts import GUEST

Micro = Callable[..., dict[str, Any]]


SCHEMA = json.loads((paths.REPOSITORY / "docs/result.schema.json").read_text())


def result(*args: str, app: str = "testpmd") -> dict[str, Any]:
    done = wiretime("run", app, "--json", "-", *args)
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(value, SCHEMA)
    return value


def balanced(r: dict[str, Any]) -> None:
    """The ledger balances, written again from its definition."""
    for part in ("cohort", "load", "total"):
        c = r[part]
        dropped = c["dma_drop"] + c["core_drop"] + c["tx_drop"]
        delivered = c["host_drop"] + c["consumed"] + c["held_by_host"] + c["forwarded"] + c["in_tx_path"]
        rest = c["filtered"] + c["in_rx_fifo"] + c["on_the_way"] + c["lost_in_reset"]
        assert c["offered"] == dropped + delivered + rest, (part, c)
    assert r["ledger_violations"] == []


@pytest.mark.parametrize(
    ("size", "rate"),
    [(64, "1Gbps"), (128, "5Gbps"), (512, "40Gbps"), (1024, "60Gbps"), (1518, "80Gbps"), (9000, "90Gbps")],
)
def test_below_saturation_nothing_is_lost(size: int, rate: str) -> None:
    r = result("--packet-size", str(size), "--rate", rate, "--duration", "500us", "--warmup", "200us")
    balanced(r)
    assert r["loss_percent"] == 0
    assert r["cohort"]["forwarded"] == r["cohort"]["offered"] > 0
    assert abs(r["forwarded_gbps"] - float(rate.removesuffix("Gbps"))) < 0.01 * r["offered_gbps"] + 0.02
    assert r["latency_ns"]["median"] <= r["latency_ns"]["p99"] <= r["latency_ns"]["max"]


def test_overload_balances_and_names_the_core() -> None:
    r = result("--packet-size", "64", "--rate", "70Gbps", "--duration", "500us", "--warmup", "300us")
    balanced(r)
    c = r["cohort"]
    assert c["core_drop"] > 0
    assert c["dma_drop"] == c["tx_drop"] == 0
    assert r["loss_percent"] > 10


def test_a_slow_transmit_link_shows_as_host_drops_that_testpmd_counts_too() -> None:
    # One payload read in flight makes the transmit path slower than the receive path.
    r = result(
        "--packet-size", "1518", "--rate", "90Gbps", "--duration", "500us", "--set", "nic.tx_packets_in_flight=1"
    )
    balanced(r)
    c = r["load"]
    assert c["host_drop"] > 0
    assert r["program"]["tx_dropped"] == c["host_drop"] + c["held_by_host"]


def test_slow_pcie_shows_as_dma_drops() -> None:
    r = result(
        "--packet-size",
        "1518",
        "--rate",
        "60Gbps",
        "--duration",
        "500us",
        "--set",
        "slot.generation=2",
        "--set",
        "slot.lanes=8",
    )
    balanced(r)
    assert r["cohort"]["dma_drop"] > 0
    assert r["cohort"]["core_drop"] == 0


def test_a_faster_link_can_be_asked_for() -> None:
    r = result("--packet-size", "1518", "--rate", "150Gbps", "--set", "link.rate=200Gbps", "--duration", "300us")
    balanced(r)
    assert abs(r["offered_gbps"] - 150) < 1


def test_same_bytes_whatever_the_host_does(tmp_path: Path) -> None:
    """Plain, in another folder with another environment, kicked at random, stopped in the middle, both cores busy."""
    request = runs.Request(duration="300us", warm_up="100us")
    text = runs.dump(runs.execute(request)[0])

    def digest(**engine: Any) -> str:
        def stop_and_go(pid: int) -> None:
            def work() -> None:
                for _ in range(4):
                    time.sleep(random.uniform(0.5, 3))
                    try:
                        os.kill(pid, signal.SIGSTOP)
                        time.sleep(0.3)
                        os.kill(pid, signal.SIGCONT)
                    except ProcessLookupError:
                        return

            threading.Thread(target=work, daemon=True).start()

        again = runs.Request(duration="300us", warm_up="100us", internals=engine or None)
        r = runs.execute(again, on_start=stop_and_go)[0]
        r["configuration"]["run"]["chaos"] = False
        return runs.dump(r)

    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        assert digest() == text
        assert digest(chaos=True) == text
    finally:
        busy.kill()
        busy.wait()
    elsewhere = wiretime(
        "run",
        "testpmd",
        "--duration",
        "300us",
        "--warmup",
        "100us",
        "--out",
        str(tmp_path),
        cwd="/",
        env={**os.environ, "X": "y" * 999},
    )
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert (tmp_path / "result.json").read_text() == text


def test_mapped_and_trapped_doorbells_are_timed_alike() -> None:
    def figures(mapped: bool) -> Any:
        request = runs.Request(rate="10Gbps", duration="300us", warm_up="100us", internals={"mapped_doorbells": mapped})
        r = runs.execute(request)[0]
        return r["latency_ns"]["median"], r["cohort"]["forwarded"]

    (mapped, n), (trapped, m) = figures(True), figures(False)
    assert n == m
    assert abs(mapped - trapped) < 0.05 * mapped


def test_results_fit_their_schema(tmp_path: Path) -> None:
    done = wiretime("run", "testpmd", "--duration", "200us", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "forwarded" in done.stdout and "latency" in done.stdout
    r = json.loads((tmp_path / "result.json").read_text())
    jsonschema.validate(r, json.loads((paths.REPOSITORY / "docs/result.schema.json").read_text()))
    host = json.loads((tmp_path / "host.json").read_text())
    assert host["mips"] > 0 and host["wall_seconds"] > 0
    assert "Forward statistics" in (tmp_path / "console.log").read_text()


def test_a_failing_application_shows_its_console() -> None:
    done = wiretime("run", "testpmd", "--app-args=--no-such-option")
    assert done.returncode == 1
    assert "no-such-option" in done.stderr
    assert "ended with status 1" in done.stderr.splitlines()[-1]


def test_an_application_that_never_polls_times_out() -> None:
    done = wiretime("run", "testpmd", "--app-args=--disable-device-start", "--guest-limit", "14s")
    assert done.returncode == 1
    assert "no port was enabled within 14s of simulated time" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(how: signal.Signals) -> None:
    process = subprocess.Popen([*WIRETIME, "run", "testpmd"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not children(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    started = children(process.pid)
    assert started
    time.sleep(2)
    process.send_signal(how)
    process.wait()
    time.sleep(1)
    assert [pid for pid in started if alive(pid)] == []
    assert leftovers(process.pid) == []


def test_programs_kernel_and_modules_are_debians(tmp_path: Path) -> None:
    """What is in the image is what the packages hold: set-up has checked each file against its package's own checksum
    and recorded its hash; the image is unpacked here and compared."""
    folder = GUEST.folder()
    recorded = store.manifest(folder)["files"]
    for archive in guest.recipe()["archives"]:
        subprocess.run(
            ["cpio", "--extract", "--make-directories", "--unconditional", "--quiet"],
            input=(folder / f"{archive}.cpio").read_bytes(),
            cwd=tmp_path,
            check=True,
        )
    for name, sha256 in recorded.items():
        path = folder / "kernel" if name == "kernel" else tmp_path / name
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256, name
    assert {"kernel", "usr/bin/dpdk-testpmd", "usr/lib/modules/uio_pci_generic.ko"} <= set(recorded)
    assert any("librte_net_e1000" in name for name in recorded)


# ---- time and counting -------------------------------------------------------------------------------------------


def test_dependent_chains_take_their_closed_form_time(micro: Micro) -> None:
    n = 100_000
    for what, cycles in (("chain", 4), ("adds", 1)):  # core.timing.mul_wide.latency, core.timing.alu.latency
        ticks = micro(what, n)["guest"]["figures"][0]
        assert abs(ticks - n * cycles / 3) < 0.01 * n * cycles / 3, (what, ticks)
    ticks = micro("chain", n, "core.frequency=2GHz", "core.timing.mul_wide.latency=7")["guest"]["figures"][0]
    assert abs(ticks - n * 7 / 2) < 0.01 * n * 7 / 2


def test_accesses_that_qemu_does_not_show_are_counted(micro: Micro) -> None:
    n = 400_000

    def counted(what: str, **engine: Any) -> tuple[int, int, int]:
        s = micro(what, n, duration="20ms", **engine)["statistics"]["cores"][0]
        return s["caches"]["software_prefetches"], s["core"]["loads"], s["core"]["stores"]

    base = counted("adds")
    prefetches, _, _ = counted("prefetch")
    assert 0.999 * n < prefetches - base[0] < 1.02 * n
    assert counted("prefetch", ignore_hidden_accesses=True)[0] == 0, "the control: without decoding they are unseen"
    _, loads, stores = counted("pairs")
    assert 1.98 * n < loads - base[1] < 2.2 * n, "LDP and LD1 of 64 bytes are one access a line each"
    _, loads, stores = counted("atomics")
    assert 1.98 * n < loads - base[1] < 2.2 * n
    assert 1.98 * n < stores - base[2] < 2.2 * n


def test_line_zeroing_takes_the_cache_lines(micro: Micro) -> None:
    n = 20_000

    def hidden(what: str) -> int:
        """Accesses that are seen only because DC ZVA is decoded."""
        with_, without = (
            micro(what, n, ignore_hidden_accesses=ignore)["statistics"]["cores"][0]["caches"]["l1_dcache_stores"]
            for ignore in (False, True)
        )
        return int(with_ - without)

    # The kernel zeroes pages of its own, in both.
    assert 0.98 * n < hidden("zero") - hidden("adds") < 1.02 * n


def test_what_is_counted_is_what_executed(tmp_path: Path) -> None:
    """Device accesses, faults and calls in the middle of blocks: the count is that of one instruction a block."""
    image = tmp_path / "counts"
    elf = tmp_path / "counts.elf"
    subprocess.run(
        [
            COMPILER,
            "-nostdlib",
            "-Wl,-Ttext=0x40080000,--build-id=none",
            "-o",
            str(elf),
            str(paths.GUEST / "tests/counts.S"),
        ],
        check=True,
    )
    subprocess.run(
        [COMPILER.replace("gcc", "objcopy"), "-O", "binary", "-j", ".text", str(elf), str(image)], check=True
    )
    platform = platforms.load("ampere-altra", ["system.cores=1"])

    def count(timing: str, accel: str = "") -> int:
        s = settings(start_at="never", timing=timing)
        outcome = vm.Machine(platform, s, vm.Guest({}), kernel=image, accel=accel).run()
        return int(outcome.message["left"]["instructions"][0])

    one = count("blocks", ",one-insn-per-tb=on")
    assert one > 200 * 15
    assert count("blocks") == one
    assert count("always") == one


def test_sleep_takes_its_time() -> None:
    guest = vm.Guest({"MODULES": "", "BIND": "", "COMMAND": "cat /proc/uptime; sleep 2; cat /proc/uptime", "WAITS": ""})
    machine = vm.Machine(platforms.load("ampere-altra"), settings(start_at="never", timing="blocks"), guest)
    console = machine.run().console
    before, after = [
        float(line.split()[0]) for line in console.splitlines() if line.strip()[:1].isdigit() and "." in line
    ][:2]
    # Programs start slowly: boot is not timed.
    assert abs(after - before - 2.0) <= 0.05, console


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_interrupts_arrive_at_the_same_instruction(cores: int) -> None:
    """The kernel's driver under a ping flood for 50 simulated ms: one sequence of (instruction count, interrupt)."""

    def execution(chaos: bool) -> Any:
        request = runs.Request(
            app="ping",
            nic="8254x",
            packet_size=98,
            rate="100Mbps",
            duration="50ms",
            changes=(f"system.cores={cores}",),
            internals={"chaos": chaos},
        )
        r = runs.execute(request)[0]
        assert r["loss_percent"] == 0
        # The driver throttles to 20000 a second and less.
        assert 500 < r["execution"]["interrupts"] < 3000
        return r["execution"], r["latency_ns"]

    assert execution(False) == execution(True)


@pytest.mark.parametrize("ways", [(), ("--set", "llc.dca_ways=2")], ids=["memory", "dca"])
def test_what_devices_do_later_costs_the_core_nothing(ways: tuple[str, ...]) -> None:
    """With translation of device addresses the DMA engine is far behind; the core that polls is as quick as without."""

    def run(*more: str) -> dict[str, Any]:
        r = result("--platform", "neoverse-n1", "--packet-size", "128", "--rate", "60Gbps", *more)
        balanced(r)
        return r

    def ipc(r: dict[str, Any]) -> float:
        core = r["statistics"]["cores"][1]["core"]
        return float(core["instructions"] / core["cycles"])

    plain, translated = run(*ways), run("--set", "iommu.enabled=true", *ways)
    assert plain["cohort"]["core_drop"] == max(plain["cohort"][k] for k in ("dma_drop", "core_drop", "tx_drop"))
    dropped = {k: translated["cohort"][k] for k in ("dma_drop", "core_drop", "tx_drop", "host_drop")}
    # Where the transmit ring is full, too, that is the DMA engine's doing.
    assert dropped["dma_drop"] > 0.5 * sum(dropped.values()), dropped
    assert dropped["dma_drop"] + dropped["tx_drop"] > 0.9 * sum(dropped.values()), dropped
    assert dropped["core_drop"] == 0
    assert ipc(plain) > 2.5
    # It waits for packets: a look that finds one has lost its line just then, and gets it from memory.
    assert ipc(translated) > 1.9
