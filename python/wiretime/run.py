"""One run: from the command line's words to ``result.json``."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import wiretime._native as _native
from wiretime import __version__, apps, iperf, load, platforms, profile, replay, timeline, vm
from wiretime.apps.model import FORWARDS, SENDS
from wiretime.errors import GuestError, WiretimeError, unknown
from wiretime.setup import store
from wiretime.setup.parts import GUEST, QEMU

SCHEMA_VERSION = 1
MAC = (0x52, 0x54, 0x00, 0x12, 0x34, 0x56)
GUEST_LIMIT = "60s"
SERIES_MAX = 10_000
FLOWS = 1024
RATE, DURATION, WARM_UP = "40Gbps", "2ms", "500us"
# A connection's start, and what is measured.
IPERF_TIME = "20ms"
EVER = "1000000s"
TERMINATED = 128 + 15
# memcached's request number, behind the headers of IPv4 and UDP.
REQUEST_ID = {"by": "key", "offset": 42, "length": 2}
# The capture until the run is over.
CAPTURING = ".wire.pcapng.part"
DROP_CLASSES = ("wiretime", "gem5")
# Pages by which a seed may shift the guest's memory: more than the sets of any private cache.
LAYOUT_PAGES = 512


@dataclass(frozen=True)
class Request:
    """What a user asks for."""

    app: str = "testpmd"
    platform: str = platforms.DEFAULT
    packet_size: int | str = 256
    # None: 40 Gb/s; of a trace: its own clock.
    rate: str | None = None
    # None: 2 ms after 500 us; of a trace: all of it.
    duration: str | None = None
    warm_up: str | None = None
    follow: str = "5ms"
    seed: int = 1
    changes: Sequence[str] = ()
    app_args: str = ""
    app_commands: str | None = None
    timestamp_offset: int | None = None
    guest_limit: str = GUEST_LIMIT
    interval: str = "0ns"
    profile: bool = False
    nic: str | None = None
    cores: int | None = None
    queues: int = 1
    ports: int | None = None
    arrivals: str = "constant"
    flows: int | None = None
    flow_spread: str = "round-robin"
    flow_vary: str = "ports"
    internet: int = 4
    clients: int | None = None
    think: str = "0ns"
    timeout: str = "10ms"
    # Of a key-value store's clients: NAME=VALUE.
    store: Sequence[str] = ()
    # Of an iperf3 client: NAME=VALUE.
    iperf: Sequence[str] = ()
    replay: Path | None = None
    speed: float = 1.0
    loops: int = 1
    lenient: bool = False
    key: str | None = None
    capture: str | None = None
    drop_classes: str = "wiretime"
    trace: str | None = None
    # Of a user's own program.
    own: apps.Own = field(default_factory=apps.Own)
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


def _window(option: str, text: str | None, duration: int) -> tuple[str, str]:
    """Return begin and length of a part of the measurement."""
    if text is None:
        return "0ns", "0ns"
    begin, _, length = text.partition("+")
    window = (begin, length or "20us")
    start, span = (_quantity(option, part, _native.parse_duration) for part in window)
    if span == 0 or start + span > duration:
        raise WiretimeError(f"{option} {text}: must be BEGIN+LENGTH inside the measurement")
    return window


def _recognition(r: Request, app: apps.App) -> dict[str, Any]:
    """Return how answers are told from each other."""
    if r.key is None and app.traffic == "memcached":
        return REQUEST_ID
    if r.key is None:
        return {"by": "buffer" if r.replay else "probe"}
    if r.replay is None:
        raise WiretimeError("--key: only of a trace's packets (--replay); others carry a probe")
    offset, _, length = r.key.partition(":")
    if not (re.fullmatch(r"[0-9]{1,4}:[0-9]{1,2}", r.key) and 1 <= int(length) <= load.KEY_MAX and int(offset) <= 9000):
        raise WiretimeError(f"--key {r.key}: must be OFFSET:LENGTH in bytes of the frame, of 1 to {load.KEY_MAX}")
    return {"by": "key", "offset": int(offset), "length": int(length)}


def _unless_default(r: Request, field: str, why: str) -> None:
    """Raise where a field was set that has no meaning here."""
    if str(getattr(r, field)) != str(getattr(Request, field)):
        option = "ip" if field == "internet" else field.replace("_", "-")
        raise WiretimeError(f"--{option}: {why}")


def _combinations(r: Request) -> None:
    """Raise where an option would be ignored."""
    rules: list[tuple[bool, Sequence[str], str]] = [
        (r.replay is None, ("speed", "loops", "lenient"), "only with --replay"),
        (
            r.replay is not None,
            ("packet_size", "flows", "flow_spread", "flow_vary", "internet"),
            "not with --replay, whose packets are what they are",
        ),
        (r.replay is not None and r.rate is None, ("arrivals",), "with --replay only at a --rate"),
        (r.replay is not None and r.rate is not None, ("speed",), "not with --rate, which replaces the trace's clock"),
        (r.clients is None, ("think", "timeout"), "only with --clients"),
        (
            r.clients is not None,
            ("arrivals", "flows", "flow_spread"),
            "not with --clients: each is a flow, and sends when it is answered",
        ),
    ]
    for applies, fields, why in rules:
        for name in fields if applies else ():
            _unless_default(r, name, why)


def _load(
    r: Request, app: apps.App, platform: Mapping[str, Any], queues: int
) -> tuple[dict[str, Any], replay.Trace | None]:
    """Return what the generators send, and the trace that it comes from."""
    link = platform["link"]
    _combinations(r)
    if r.internet not in load.PAYLOAD:
        raise WiretimeError(f"--ip {r.internet}: allowed are 4 and 6")
    trace = None
    sizes = load.sizes(r.packet_size)
    memcached = app.traffic == "memcached"
    if r.store and not memcached:
        raise WiretimeError(f"--store: {app.name} is no key-value store")
    by_iperf = app.traffic == "iperf"
    if r.iperf and not by_iperf:
        raise WiretimeError(f"--iperf: {app.name} is no iperf3 server")
    if by_iperf and (r.replay or r.rate or r.clients or r.internet != 4):
        raise WiretimeError("--replay, --rate, --clients, --ip: not with iperf3, whose client has its own (--iperf)")
    if memcached:
        if r.replay is not None or r.internet != 4:
            raise WiretimeError(f"--{'replay' if r.replay else 'ip'}: not with {app.name}, whose clients speak IPv4")
        sizes = load.sizes(load.LENGTH_MIN)
    if r.replay is not None:
        if r.clients is not None:
            raise WiretimeError("--clients: not with --replay")
        if r.timestamp_offset is not None:
            raise WiretimeError("--timestamp-offset: not with --replay, whose bytes stay as they are")
        # Before the trace starts, small packets find out whether the program polls.
        sizes = load.sizes(64)
        rate = None
        found, odd = replay.look(r.replay, r.lenient)
        if r.rate is not None:
            rate = load.rate("--rate", r.rate, link, Fraction(found["bytes"], found["packets"]))
        trace = replay.check(r.replay, found, odd, r.speed, rate, r.loops, r.duration is not None)
        bits = rate or _native.parse_rate(link["rate"])
    elif r.clients is not None:
        if r.rate is not None:
            raise WiretimeError("--rate: not with --clients, who send as fast as they are answered")
        bits = _native.parse_rate(link["rate"])
    else:
        if memcached and r.rate is not None and r.rate.endswith("bps"):
            raise WiretimeError(f"--rate {r.rate}: of {app.name} in requests a second (500kpps)")
        bits = load.rate("--rate", r.rate or app.rate, link, load.mean(sizes))
    # Enough flows for every entry of an indirection table to be hit.
    flows = r.flows if r.flows is not None else (1 if queues == 1 else FLOWS)
    asked = {
        "traffic": app.traffic,
        "internet": f"v{r.internet}",
        "sizes": sizes,
        # As the user wrote it where that says all.
        "rate": text if (text := r.rate or (app.rate if trace is None else "")).endswith("bps") else f"{bits}bps",
        "arrivals": load.arrivals(r.arrivals),
        "flows": load.flows(flows, r.flow_spread, r.flow_vary),
        "recognition": _recognition(r, app),
        "timestamp_offset": load.probe(r.timestamp_offset, r.internet, load.extent(sizes)[0]),
        "packets": None,
        "clients": None if r.clients is None else load.clients(r.clients, r.think, r.timeout),
        "play": trace.play if trace else None,
        "store": load.store(r.store)[0] if memcached else None,
        "iperf": load.iperf(r.iperf, platform) if by_iperf else None,
        "seed": r.seed,
    }
    if r.clients is not None:
        asked["rate"] = link["rate"]
        # Each client is a flow.
        asked["flows"] = load.flows(r.clients, "round-robin", r.flow_vary)
    return asked, trace


def _times(r: Request, asked: dict[str, Any], trace: replay.Trace | None) -> tuple[str, str]:
    """Return the lengths of warm-up and measurement; a store's are its keys and its requests."""
    if trace is not None:
        return r.warm_up or "0ns", r.duration or f"{trace.expected_ps}ps"
    if asked["iperf"] is not None:
        return r.warm_up or IPERF_TIME, r.duration or IPERF_TIME
    if asked["store"] is None or asked["clients"] is not None:
        return r.warm_up or WARM_UP, r.duration or DURATION
    keys, requests = asked["store"]["keys"], load.store(r.store)[1]
    each_ps = Fraction(load.LENGTH_MIN * 8 * 10**12, _native.parse_rate(asked["rate"]))
    if r.duration is None and r.warm_up is None:
        asked["packets"] = keys + requests
    return r.warm_up or f"{int(keys * each_ps)}ps", r.duration or f"{int(requests * each_ps)}ps"


class Checked(NamedTuple):
    """A request that can be run: what the engine is told, what the guest does, the trace that is played."""

    platform: dict[str, Any]
    settings: dict[str, Any]
    app: apps.App
    command: apps.Command
    trace: replay.Trace | None


def check(r: Request) -> Checked:
    """Check everything that can be wrong before the guest boots."""
    app = apps.find(r.app, r.own)
    platform = _machine(r)
    if not 0 <= r.seed < 2**32:
        raise WiretimeError(f"--seed {r.seed}: allowed are 0 to {2**32 - 1}")
    queues = apps.queues(app, platform, r.queues)
    asked, trace = _load(r, app, platform, queues)
    if trace and r.loops == 0 and r.duration is None:
        raise WiretimeError("--loops 0: a trace without end needs --duration")
    warm_up, duration = _times(r, asked, trace)
    for option, text in (
        ("--duration", duration),
        ("--warmup", warm_up),
        ("--follow", r.follow),
        ("--guest-limit", r.guest_limit),
        ("--interval", r.interval),
    ):
        _quantity(option, text, _native.parse_duration)
    length = _native.parse_duration(duration)
    if length == 0:
        raise WiretimeError("--duration 0: must be above zero")
    step = _native.parse_duration(r.interval)
    if step and length // step > SERIES_MAX:
        raise WiretimeError(f"--interval {r.interval}: more than {SERIES_MAX} steps in {duration}")
    longest = load.extent(asked["sizes"])[1]
    if trace:
        longest = max(longest, trace.summary["longest"])
        if longest > app.sizes[1]:
            raise WiretimeError(
                f"--replay {trace.path}: its longest frame is {longest} B; {app.name} takes {app.sizes[1]} B"
            )
    setup = apps.Setup(platform, queues, longest, asked, apps.words(r.app_args))
    command = apps.command(app, setup, r.app_commands)
    sends = command.role == SENDS
    if sends:
        asked["packets"] = 0
    if r.drop_classes not in DROP_CLASSES:
        raise unknown("drop classes", r.drop_classes, DROP_CLASSES)
    trace_start, trace_length = _window("--trace", r.trace, length)
    # "all" reaches beyond the measurement: to the end of the packets that are followed.
    everything = ("0ns", EVER)
    capture = everything if r.capture == "all" else _window("--capture", r.capture, length)
    settings = {
        "load": asked,
        "trace_file": str(trace.path) if trace else None,
        "until_end": r.duration is None and (trace is not None or bool(asked["packets"])),
        "warm_up": warm_up,
        "duration": duration,
        "follow": r.follow,
        "guest_limit": r.guest_limit,
        "interval": r.interval,
        "queues": queues,
        "drop_classes": r.drop_classes,
        "trace_start": trace_start,
        "trace_length": trace_length,
        "capture_start": capture[0],
        "capture_length": capture[1],
        "profile": r.profile,
        "processor_time": app.kernel,
        "role": command.role,
        "mac": list(MAC),
        "start_at": "sending" if sends else app.start_at,
        "timing": "full",
        "host_speed": False,
        "mapped_doorbells": True,
        "chaos": False,
        "ignore_hidden_accesses": False,
        **(r.engine or {}),
    }
    return Checked(platform, settings, app, command, trace)


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
        "STOP_SIGNAL": "TERM" if app.stop == "signal" else "",
    }
    if with_symbols:
        settings["SYMBOLS"] = "1"
    return vm.Guest(settings, command.texts, app.files, arguments, app.archives)


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


def program_counters(app: apps.App, console: str) -> dict[str, int] | None:
    """Return what the program itself says it forwarded and dropped, where it says so."""
    found = re.findall(app.says, console) if app.says else []
    if not found:
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
    platform, settings, app, command, trace = check(r)
    g = guest(app, platform, command, with_symbols=r.profile)
    trials = options.get("on_trial") is not None
    capture = options.pop("capture", None)
    machine = vm.Machine(
        platform, settings, replace(g, texts={**g.texts, "layout": _layout(r.seed)}), trials=trials, capture=capture
    )
    began = time.monotonic()
    outcome = machine.run(progress, **options)
    wall = time.monotonic() - began
    if "result" not in outcome.message:
        raise GuestError("the guest powered off before it reported its end", vm.tail(outcome.console))
    engine = outcome.message["result"]
    host = outcome.message["host"]
    result = {
        "schema_version": SCHEMA_VERSION,
        "app": {"name": app.name, "command": command.text, "role": command.role},
        "configuration": {"platform": platform, "run": settings},
        "versions": versions(),
        **engine,
        "program": program_counters(app, outcome.console),
    }
    if settings["load"]["iperf"] is not None:
        result["iperf"] = iperf.summary(result)
    if trace is not None:
        result["trace"] = trace.summary
        result["warnings"] = [*trace.warnings, *result["warnings"]]
    status = engine["guest"]["status"]
    # A program without a handler ends by the signal that asked it to.
    told = app.stop == "signal" and status == TERMINATED
    if status != 0 and not told:
        raise GuestError(f"{app.name} ended with status {status}", vm.tail(outcome.console))
    check_ledger(result, outcome.console)
    traffic = host["traffic_seconds"] or 0.0
    figures = {
        "wall_seconds": wall,
        "mips": host["traffic_instructions"] / traffic / 1e6 if traffic else 0.0,
        **host,
        "cpu_count": os.cpu_count(),
    }
    entries = (
        profile.resolve(outcome.message["profile"], outcome.console, g.archives, list(g.files.values()))
        if r.profile
        else None
    )
    return Execution(result, figures, profile.without_symbols(outcome.console), entries, outcome.message["trace"])


def check_ledger(result: Mapping[str, Any], console: str) -> None:
    """Raise where the ledger does not balance, or the program's own drop count is another than ours."""
    problems = list(result["ledger_violations"])
    program = result["program"]
    if program is not None and result["app"]["role"] == FORWARDS:
        # Packets that found out whether the program polls are not the load; testpmd throws some of them away unseen.
        dropped = result["load"]["host_drop"] + result["load"]["held_by_host"]
        if dropped != program["tx_dropped"]:
            problems.append(f"HostDrop is {dropped}, {result['app']['name']} says {program['tx_dropped']}")
    if problems:
        raise GuestError("the ledger does not balance: " + "; ".join(problems), vm.tail(console))


def write(folder: Path, done: Execution) -> None:
    """Write the files of a run, each whole or not at all."""
    if done.profile is not None:
        profile.write(folder, done.profile)
    if done.trace is not None:
        timeline.write(folder, done.trace)
    captured = folder / CAPTURING
    if captured.exists():
        captured.rename(folder / "wire.pcapng")
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
