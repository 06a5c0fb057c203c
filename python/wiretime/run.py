"""One run: from the command line's words to ``result.json``."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import wiretime._native as _native
from wiretime import __version__, apps, load, platforms, profile, timeline, vm
from wiretime.errors import GuestError, WiretimeError, unknown
from wiretime.setup import store
from wiretime.setup.parts import GUEST, QEMU

SCHEMA_VERSION = 1
MAC = (0x52, 0x54, 0x00, 0x12, 0x34, 0x56)
GUEST_LIMIT = "60s"
SERIES_MAX = 10_000
FLOWS, FLOWS_MAX = 1024, 1 << 24
DROP_CLASSES = ("wiretime", "gem5")
# Pages by which a seed may shift the guest's memory: more than the sets of any private cache.
LAYOUT_PAGES = 512


@dataclass(frozen=True)
class Request:
    """What a user asks for."""

    app: str = "testpmd"
    platform: str = platforms.DEFAULT
    packet_size: int | str = 256
    rate: str = "40Gbps"
    duration: str = "2ms"
    warm_up: str = "500us"
    follow: str = "5ms"
    seed: int = 1
    changes: Sequence[str] = ()
    app_args: str = ""
    app_commands: str | None = None
    timestamp_offset: int = 42
    guest_limit: str = GUEST_LIMIT
    interval: str = "0ns"
    profile: bool = False
    nic: str | None = None
    cores: int | None = None
    queues: int = 1
    ports: int | None = None
    arrivals: str = "constant"
    flows: int | None = None
    drop_classes: str = "wiretime"
    trace: str | None = None
    # For the project's own tests; see the engine's settings.
    engine: Mapping[str, Any] | None = None


def _quantity(option: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text)
    except ValueError as e:
        raise WiretimeError(f"{option}: {e}") from None


def _machine(r: Request) -> dict[str, Any]:
    """Return the platform as the request changes it."""
    short = {"nic.interface": r.nic, "nic.ports": r.ports, "system.cores": None if r.cores is None else r.cores + 1}
    changes = [f"{key}={value}" for key, value in short.items() if value is not None]
    if r.cores is not None and r.cores < 1:
        raise WiretimeError(f"--cores {r.cores}: at least 1, beside one for the system")
    if r.nic is not None and r.nic not in apps.QUEUES:
        raise unknown("NIC", r.nic, apps.QUEUES)
    return platforms.load(r.platform, [*changes, *r.changes])


def _trace(text: str | None, duration: int) -> tuple[str, str]:
    """Return begin and length of the timeline's window."""
    if text is None:
        return "0ns", "0ns"
    begin, _, length = text.partition("+")
    window = (begin, length or "20us")
    start, span = (_quantity("--trace", part, _native.parse_duration) for part in window)
    if span == 0 or start + span > duration:
        raise WiretimeError(f"--trace {text}: must be BEGIN+LENGTH inside the measurement")
    return window


def check(r: Request) -> tuple[dict[str, Any], dict[str, Any], apps.App, apps.Command]:
    """Check everything that can be wrong before the guest boots; returns platform, settings, app and its command."""
    app = apps.get(r.app)
    platform = _machine(r)
    sizes = load.sizes(r.packet_size)
    shortest, longest = load.extent(sizes)
    rate = _quantity("--rate", r.rate, _native.parse_rate)
    line = _native.parse_rate(platform["link"]["rate"])
    if rate > line:
        raise WiretimeError(f"--rate {r.rate}: above the link's {platform['link']['rate']} (--set link.rate={r.rate})")
    for option, text in (
        ("--duration", r.duration),
        ("--warmup", r.warm_up),
        ("--follow", r.follow),
        ("--guest-limit", r.guest_limit),
        ("--interval", r.interval),
    ):
        _quantity(option, text, _native.parse_duration)
    if _native.parse_duration(r.duration) == 0:
        raise WiretimeError("--duration 0: must be above zero")
    step = _native.parse_duration(r.interval)
    if step and _native.parse_duration(r.duration) // step > SERIES_MAX:
        raise WiretimeError(f"--interval {r.interval}: more than {SERIES_MAX} steps in {r.duration}")
    if not 0 <= r.seed < 2**32:
        raise WiretimeError(f"--seed {r.seed}: allowed are 0 to {2**32 - 1}")
    last = shortest - 4 - 18
    if not 42 <= r.timestamp_offset <= last:
        raise WiretimeError(f"--timestamp-offset {r.timestamp_offset}: allowed are 42 to {last} at {shortest} B")
    queues = apps.queues(app, platform, r.queues)
    command = apps.command(app, platform, longest, r.app_args, queues, r.app_commands)
    # Enough flows for every entry of an indirection table to be hit.
    flows = r.flows if r.flows is not None else (1 if queues == 1 else FLOWS)
    if not 1 <= flows <= FLOWS_MAX:
        raise WiretimeError(f"--flows {flows}: allowed are 1 to {FLOWS_MAX}")
    if r.drop_classes not in DROP_CLASSES:
        raise unknown("drop classes", r.drop_classes, DROP_CLASSES)
    trace_start, trace_length = _trace(r.trace, _native.parse_duration(r.duration))
    settings = {
        "traffic": app.traffic,
        "sizes": sizes,
        "rate": r.rate,
        "timestamp_offset": r.timestamp_offset,
        "warm_up": r.warm_up,
        "duration": r.duration,
        "follow": r.follow,
        "guest_limit": r.guest_limit,
        "seed": r.seed,
        "interval": r.interval,
        "arrivals": load.arrivals(r.arrivals),
        "flows": flows,
        "queues": queues,
        "drop_classes": r.drop_classes,
        "trace_start": trace_start,
        "trace_length": trace_length,
        "profile": r.profile,
        "forwards": app.forwards,
        "mac": list(MAC),
        "start_at": app.start_at,
        "timing": "full",
        "host_speed": False,
        "mapped_doorbells": True,
        "chaos": False,
        "ignore_hidden_accesses": False,
        **(r.engine or {}),
    }
    return platform, settings, app, command


def guest(app: apps.App, platform: Mapping[str, Any], command: apps.Command, with_symbols: bool = False) -> vm.Guest:
    """Return what runs in the guest for ``app``."""
    cores = platform["system"]["cores"]
    arguments = [*app.kernel_arguments]
    if command.hugepages_mib:
        arguments += ["hugepagesz=2M", f"hugepages={command.hugepages_mib // 2}"]
    if cores > 1 and app.bind:
        # Core 0 keeps house; the others belong to the application, as DPDK's guide has it.
        rest = f"1-{cores - 1}" if cores > 2 else "1"
        arguments += [f"isolcpus={rest}", f"nohz_full={rest}", f"rcu_nocbs={rest}"]
    waits = "1" if app.start_at == "receiver-ready" else ""
    modules = " ".join(app.modules(platform["nic"]["interface"]))
    settings = {
        "MODULES": modules,
        "BIND": app.bind,
        "COMMAND": command.text,
        "WAITS": waits,
        "START_INPUT": command.start_input,
        "STOP_INPUT": command.stop_input,
    }
    if with_symbols:
        settings["SYMBOLS"] = "1"
    return vm.Guest(settings, kernel_arguments=arguments)


def _layout(seed: int) -> str:
    """Return text whose length depends on the seed: it shifts where the guest's kernel puts everything else."""
    return "." * (random.Random(seed).randrange(LAYOUT_PAGES) * 4096)


def versions() -> dict[str, Any]:
    """Return what a result depends on besides its configuration."""
    about = {part.name: store.manifest(part.folder()) for part in (QEMU, GUEST)}
    return {
        "wiretime": __version__,
        "qemu": about["qemu"]["version"],
        "guest_kernel": about["guest"]["kernel"],
        "packages": {name: a["packages"] for name, a in about.items()},
    }


FORWARD = re.compile(r"TX-packets: (\d+)\s+TX-dropped: (\d+)")


def program_counters(app: apps.App, console: str) -> dict[str, int] | None:
    """Return what the program itself says it forwarded and dropped, where it says so."""
    found = FORWARD.findall(console)
    if app.name != "testpmd" or not found:
        return None
    sent, dropped = found[-1]
    return {"tx_packets": int(sent), "tx_dropped": int(dropped)}


class Execution(NamedTuple):
    """What a run leaves: result, host figures, the console's text; cycles by symbol and a timeline where asked for."""

    result: dict[str, Any]
    host: dict[str, Any]
    console: str
    profile: list[profile.Entry] | None
    trace: dict[str, Any] | None


def execute(r: Request, progress: vm.Progress | None = None, **options: Any) -> Execution:
    """Run.

    Raises ``GuestError`` where the guest or the ledger failed, ``WiretimeError`` for anything else.
    """
    platform, settings, app, command = check(r)
    g = guest(app, platform, command, with_symbols=r.profile)
    trials = options.get("on_trial") is not None
    machine = vm.Machine(platform, settings, replace(g, texts={"layout": _layout(r.seed)}), trials=trials)
    began = time.monotonic()
    outcome = machine.run(progress, **options)
    wall = time.monotonic() - began
    if "result" not in outcome.message:
        raise GuestError("the guest powered off before it reported its end", vm.tail(outcome.console))
    engine = outcome.message["result"]
    host = outcome.message["host"]
    result = {
        "schema_version": SCHEMA_VERSION,
        "app": {"name": app.name, "command": command.text},
        "configuration": {"platform": platform, "run": settings},
        "versions": versions(),
        **engine,
        "program": program_counters(app, outcome.console),
    }
    status = engine["guest"]["status"]
    if status != 0:
        raise GuestError(f"{app.name} ended with status {status}", vm.tail(outcome.console))
    check_ledger(result, app, outcome.console)
    traffic = host["traffic_seconds"] or 0.0
    figures = {
        "wall_seconds": wall,
        "mips": host["traffic_instructions"] / traffic / 1e6 if traffic else 0.0,
        **host,
        "cpu_count": os.cpu_count(),
    }
    entries = profile.resolve(outcome.message["profile"], outcome.console) if r.profile else None
    return Execution(result, figures, profile.without_symbols(outcome.console), entries, outcome.message["trace"])


def check_ledger(result: Mapping[str, Any], app: apps.App, console: str) -> None:
    """Raise where the ledger does not balance, or the program's own drop count is another than ours."""
    problems = list(result["ledger_violations"])
    program = result["program"]
    if program is not None and app.forwards:
        # Packets that found out whether the program polls are not the load; testpmd throws some of them away unseen.
        dropped = result["load"]["host_drop"] + result["load"]["held_by_host"]
        if dropped != program["tx_dropped"]:
            problems.append(f"HostDrop is {dropped}, {app.name} says {program['tx_dropped']}")
    if problems:
        raise GuestError("the ledger does not balance: " + "; ".join(problems), vm.tail(console))


def write(folder: Path, done: Execution) -> None:
    """Write the files of a run, each whole or not at all."""
    if done.profile is not None:
        profile.write(folder, done.profile)
    if done.trace is not None:
        timeline.write(folder, done.trace)
    for name, text in (
        ("console.log", done.console),
        ("host.json", json.dumps(done.host, indent=1) + "\n"),
        ("result.json", dump(done.result)),
    ):
        partial = folder / f".{name}.part"
        partial.write_text(text)
        partial.rename(folder / name)


def dump(result: Mapping[str, Any]) -> str:
    """Return a result as it is stored: the same bytes for the same run."""
    return json.dumps(result, indent=1) + "\n"


def prepare_folder(path: Path) -> None:
    """Make the output folder, before anything runs."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".wiretime"
        probe.touch()
        probe.unlink()
    except OSError as e:
        raise WiretimeError(f"--out {path}: {e.strerror}") from None
