"""One run: from the command line's words to ``result.json``."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import wiretime._native as _native
from wiretime import (
    __version__,
    apps,
    booting,
    boots,
    far,
    files,
    iperf,
    load,
    offered,
    platforms,
    profile,
    replay,
    schemas,
    software,
    timeline,
    vm,
)
from wiretime.apps.model import FORWARDS, GUEST_HOST, OTHER_HOST, SENDS, mac_of
from wiretime.apps.peers import peer_of
from wiretime.errors import GuestError, WiretimeError, unknown
from wiretime.models import Report, TraceSummary
from wiretime.request import GUEST_LIMIT as GUEST_LIMIT
from wiretime.request import Request as Request
from wiretime.request import option_of
from wiretime.setup import dpdk as builds
from wiretime.setup import store
from wiretime.setup.architecture import KERNEL_ARGS_MAX
from wiretime.setup.parts import GUEST, QEMU

SERIES_MAX = 10_000
EVER = "1000000s"
TERMINATED = 128 + 15
RESULT = "result.json"
# Folder of what a second host leaves.
OTHER = "peer"
# The capture until the run is over.
CAPTURED, CAPTURING = "wire.pcapng", ".wire.pcapng.part"
# What a run says, as files.
SAID = re.compile(
    r"profile\.(folded|svg|json)|trace\.json|core-\d+\.kanata|wire\.pcapng|(result|host|request)\.json|console\.log"
)
DROP_CLASSES = ("wiretime", "gem5")
# What only a guest can be asked for, and what a result says of one that is not there.
OF_A_GUEST = ("app_commands", "kernel_args", "ethtool", "profile", "store", "iperf", "peer", "tap", "own", "dpdk")
NO_GUEST: dict[str, Any] = {"wiretime": "", "qemu": "", "guest_kernel": "", "packages": {}}
# Pages by which a seed may shift the guest's memory: more than the sets of any private cache.
LAYOUT_PAGES = 512


def _quantity(option: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text)
    except ValueError as e:
        raise WiretimeError(f"{option}: {e}") from None


def _kernel_words(text: str) -> list[str]:
    """Return the user's arguments of the kernel; it takes printable characters without quotes."""
    if not re.fullmatch(r"[!#-&(-~ ]*", text) or len(text) > KERNEL_ARGS_MAX:
        raise WiretimeError(
            f"--kernel-args {text!r}: must be at most {KERNEL_ARGS_MAX} printable characters, no quotes"
        )
    return text.split()


def machine(r: Request) -> dict[str, Any]:
    """Return the platform as the request changes it."""
    short = {"nic": r.nic, "system.cores": None if r.cores is None else r.cores + 1}
    changes = [f"{key}={value}" for key, value in short.items() if value is not None]
    if r.cores is not None and r.cores < 1:
        raise WiretimeError(f"--cores {r.cores}: at least 1, beside one for the system")
    if r.cores is not None and any(text.partition("=")[0] == "system.cores" for text in r.changes):
        raise WiretimeError(f"--cores {r.cores}: not with --set system.cores, which are the program's and the system's")
    if r.nic is not None and r.nic not in apps.QUEUES:
        raise unknown("NIC", r.nic, apps.QUEUES)
    if r.ports is not None and not 1 <= r.ports <= platforms.ports_max():
        raise WiretimeError(f"--ports {r.ports}: must be from 1 to {platforms.ports_max()}")
    return platforms.load(r.platform, [*changes, *r.changes], r.ports)


def _window(option: str, text: str | None, duration: int) -> tuple[str, str]:
    """Return begin and length of a part of the measurement."""
    if text is None:
        return "0ns", "0ns"
    begin, _, length = text.partition("+")
    window = (begin, length or "20us")
    start, span = (_quantity(option, part, _native.parse_duration) for part in window)
    if span == 0 or start + span > duration:
        raise WiretimeError(
            f"{option} {text}: must be BEGIN+LENGTH inside the measurement, which lasts {duration / 10**6:g} us"
        )
    return window


class Checked(NamedTuple):
    """A request that can be run: what the engine and the guest are told, and the trace that is played."""

    platform: dict[str, Any]
    settings: dict[str, Any]
    app: apps.App
    command: apps.Command
    trace: replay.Trace | None
    # A second simulated host.
    other: Checked | None = None
    # The model of the software, where no guest runs it, and the longest frame that it is to take.
    model: software.Model | None = None
    longest: int = 0


def _refuse_rate(r: Request, platform: Mapping[str, Any]) -> None:
    """Refuse what says when packets come, where the NIC makes its own."""
    if not platforms.generates(platform):
        return
    usual = Request()
    for name in ("rate", "arrivals", "clients", "speed"):
        if getattr(r, name) != getattr(usual, name):
            what = "--rate, or a search for one" if name == "rate" else option_of(name)
            raise WiretimeError(
                f"{what}: the NIC's own generator sends whenever descriptors are posted; "
                "--set nic.qdma.user_logic=wire gives it an Ethernet port (and --set link.rate=100Gbps a line)"
            )


def _model(r: Request, app: apps.App, platform: Mapping[str, Any], longest: int) -> software.Model | None:
    """Return the model of the software, where the engine needs one."""
    if r.engine not in software.ENGINES:
        raise unknown("engine", r.engine, software.ENGINES)
    if r.engine == software.FULL:
        if r.model is not None:
            raise WiretimeError("--model: only with --engine packet, whose software is a model")
        for interface in platforms.interfaces(platform):
            if interface not in app.interfaces:
                able = [each.name for each in apps.APPS.values() if interface in each.interfaces]
                driver = app.more_interfaces.get(interface)
                built = f", and of {app.name} in a build of DPDK with {driver} (setup --driver)" if driver else ""
                raise WiretimeError(
                    f"--nic {interface}: {app.name} has no driver for it; there is one in {', '.join(able)}{built}"
                )
        _refuse_rate(r, platform)
        return None
    usual = Request()
    for field in (*OF_A_GUEST, "boot"):
        if getattr(r, field) != getattr(usual, field):
            raise WiretimeError(f"{option_of(field)}: of a guest, which --engine packet has none of")
    model = software.with_buffers(software.of(app.name, platform, r.model), app.name, longest)
    model = software.told(model, apps.words("--app-args", r.app_args))
    _refuse_rate(r, platform)
    return model


def check(r: Request) -> Checked:
    """Check everything that can be wrong before the guest boots."""
    app = apps.find(r.app, r.own, r.dpdk)
    platform = machine(r)
    if not 0 <= r.seed < 2**32:
        raise WiretimeError(f"--seed {r.seed}: allowed are 0 to {2**32 - 1}")
    queues = apps.queues(app, platform, r.queues, modelled=r.engine == software.PACKET)
    asked, trace, warm_up, duration, far_end = offered.of(r, app, platform, queues)
    if far_end != "none" and (ports := platforms.ports(platform)) != 1:
        raise WiretimeError(f"--ports {ports}: one, with what is outside at its other end")
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
    model = _model(r, app, platform, longest)
    words = apps.words("--app-args", r.app_args)
    asked_of_other = load.iperf(r.iperf, platform, ours=False) if far_end == "host" and app.traffic == "iperf" else {}
    setup = apps.Setup(platform, queues, longest, asked, words, r.ethtool, client=asked_of_other)
    command = replace(apps.command(app, setup, r.app_commands), kernel_arguments=tuple(_kernel_words(r.kernel_args)))
    if model is not None:
        role = software.ROLES[model["policy"]["program"]]
        command = replace(command, text=f"model {model['name']}", role=role, ring=int(model["policy"]["receive_ring"]))
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
        "far": far_end,
        "mac": mac_of(GUEST_HOST),
        # A kernel's own frames are no sign of a program: it says itself when it is ready.
        "start_at": "sending" if sends and not app.kernel else app.start_at,
        "timing": "full",
        "host_speed": False,
        "mapped_doorbells": True,
        "chaos": False,
        "ignore_hidden_accesses": False,
        **({"start_at": "mark", "processor_time": False} if model is not None else {}),
        **(r.internals or {}),
    }
    other = _other_host(setup, app, command.kernel_arguments, settings) if far_end == "host" else None
    return Checked(platform, settings, app, command, trace, other, model, longest)


def _other_host(
    setup: apps.Setup, app: apps.App, kernel_arguments: tuple[str, ...], settings: Mapping[str, Any]
) -> Checked:
    """Return what runs in the second host of a run: a machine like the first one's, with a client."""
    client = replace(peer_of(app), dpdk=app.dpdk)
    its = replace(setup, host=OTHER_HOST, extra=(), ethtool="")
    command = replace(apps.command(client, its), kernel_arguments=kernel_arguments)
    start_at = "sending" if command.role == SENDS else client.start_at
    role = {"role": command.role, "start_at": start_at, "processor_time": client.kernel}
    none = {"trace_length": "0ns", "capture_length": "0ns", "interval": "0ns", "profile": False}
    own = {**settings, **role, **none, "mac": mac_of(OTHER_HOST)}
    return Checked(dict(setup.platform), own, client, command, None)


def guest(app: apps.App, platform: Mapping[str, Any], command: apps.Command, with_symbols: bool = False) -> vm.Guest:
    """Return what runs in the guest for ``app``."""
    cores = platform["system"]["cores"]
    arguments = [*app.kernel_arguments, *command.kernel_arguments]
    if command.hugepages_mib:
        arguments += ["hugepagesz=2M", f"hugepages={command.hugepages_mib // 2}"]
    if cores > 1 and app.bind:
        # Core 0 keeps house; the others belong to the application, as DPDK's guide has it.
        rest = f"1-{cores - 1}" if cores > 2 else "1"
        arguments += [f"isolcpus={rest}", f"nohz_full={rest}", f"rcu_nocbs={rest}"]
    waits = "1" if app.start_at == "receiver-ready" else ""
    interfaces = platforms.interfaces(platform)
    wanted = [name for interface in interfaces for name in app.modules(interface)]
    modules = " ".join(dict.fromkeys(wanted))
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
    prepares = app.preparation(interfaces)
    return vm.Guest(settings, command.texts, app.files, arguments, app.images(interfaces), app.dpdk, prepares)


def _layout(seed: int) -> str:
    """Return text whose length depends on the seed: it shifts where the guest's kernel puts everything else."""
    return "." * (random.Random(seed).randrange(LAYOUT_PAGES) * 4096)


def versions(dpdk: str) -> dict[str, Any]:
    """Return what a result depends on besides its configuration."""
    about = {part.name: store.manifest(part.folder()) for part in (QEMU, GUEST)}
    own = {"dpdk": builds.variant(dpdk).packages} if dpdk != builds.DEBIAN else {}
    return {
        "wiretime": __version__,
        "qemu": about["qemu"]["version"],
        "guest_kernel": about["guest"]["kernel"],
        "packages": {**{name: a["packages"] for name, a in about.items()}, **own},
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

    result: Report
    host: dict[str, Any]
    console: str
    profile: list[profile.Entry] | None
    trace: dict[str, Any] | None
    # Of a second host.
    other: Execution | None = None


class Took(NamedTuple):
    """Host times of a run in seconds, until its guests stood ready, and where those came from.

    The origin is ``own``: from power-on; ``made``: a kept boot, made for this run; or ``kept``: one that was there.
    """

    began: float
    boot: float
    origin: str


def execute(r: Request, progress: vm.Progress | None = None, **options: Any) -> Execution:
    """Run.

    Raises ``GuestError`` where the guest or the ledger failed, ``WiretimeError`` for anything else.
    """
    checked = check(r)
    # A second host is told apart by where its memory lies, too.
    checks = [c for c in (checked, checked.other) if c is not None]
    if checked.model is not None:
        return _modelled(r, checked, progress, options)
    guests = [guest(c.app, c.platform, c.command, with_symbols=c.settings["profile"]) for c in checks]
    guests = [replace(g, texts={**g.texts, "layout": _layout(r.seed + n)}) for n, g in enumerate(guests)]
    began = time.monotonic()
    booted = [None] * len(checks) if r.boot else _booted(checks, guests, progress)
    try:
        there = [boot for boot in booted if boot is not None]
        origin = "own" if not there else "made" if any(boot.made for boot in there) else "kept"
        took = Took(began, time.monotonic() - began, origin)
        return _execute(r, (checks, guests, booted), took, progress, options)
    finally:
        for boot in booted:
            if boot is not None:
                boot.release()


def _modelled(r: Request, c: Checked, progress: vm.Progress | None, options: dict[str, Any]) -> Execution:
    """Run software that is a model."""
    assert c.model is not None
    began = time.monotonic()
    trials = options.get("on_trial") is not None
    capture = options.pop("capture", None)
    machine = software.Machine(
        c.platform, c.settings, c.model, trials=trials, capture=capture, every_turn=r.every_turn, longest=c.longest
    )
    outcome = machine.run(progress, **options)
    done = _result(c, None, outcome, Took(began, 0.0, "none"))
    beyond = software.beyond(c.model, software.of(c.app.name, c.platform, r.model), c.longest)
    done.result["warnings"] = [*software.warnings(c.model, c.platform), *beyond, *done.result["warnings"]]
    return done


def _booted(
    checks: Sequence[Checked], guests: Sequence[vm.Guest], progress: vm.Progress | None
) -> list[boots.Boot | None]:
    """Return what guests go on from; those of two hosts boot side by side, as ever."""

    def booted(n: int) -> boots.Boot | None:
        return booting.booted(checks[n].platform, checks[n].settings, guests[n], progress if n == 0 else None)

    return [booted(0)] if len(checks) == 1 else list(vm.at_once(booted, range(len(checks)), len(checks)))


def _execute(
    r: Request,
    what: tuple[Sequence[Checked], Sequence[vm.Guest], Sequence[boots.Boot | None]],
    took: Took,
    progress: vm.Progress | None,
    options: dict[str, Any],
) -> Execution:
    """Run guests, from their kept boots or from power-on."""
    checks, guests, booted = what
    trials = options.get("on_trial") is not None
    wire: tuple[int | None, ...] = (None,)
    if len(checks) > 1:
        wire = far.pair()
    elif r.tap is not None:
        wire = (far.open_tap(r.tap),)
    capture = options.pop("capture", None)
    machines: list[vm.Machine] = []
    with contextlib.ExitStack() as undo:
        for n, (c, g) in enumerate(zip(checks, guests, strict=True)):
            machine = vm.Machine(
                c.platform,
                c.settings,
                g,
                trials=trials,
                capture=capture if n == 0 else None,
                far=wire[n],
                boot=booted[n],
                every_turn=r.every_turn,
            )
            undo.callback(machine.close)
            machines.append(machine)
        undo.pop_all()
    if len(machines) == 1:
        outcomes = [machines[0].run(progress, **options)]
    else:
        outcomes = list(far.both(machines[0], machines[1], progress, options))
    done = [_result(c, g, o, took) for c, g, o in zip(checks, guests, outcomes, strict=True)]
    return done[0]._replace(other=done[1]) if len(done) > 1 else done[0]


def _result(c: Checked, g: vm.Guest | None, outcome: vm.Outcome, took: Took) -> Execution:
    """Return what one guest's run leaves, checked."""
    settings, app, command, trace = c.settings, c.app, c.command, c.trace
    if "result" not in outcome.message:
        raise GuestError("the guest powered off before it reported its end", vm.tail(outcome.console))
    engine = outcome.message["result"]
    host = outcome.message["host"]
    # The engine's part is checked where the types are: its tests compare results with the schema.
    whole = {
        "schema_version": schemas.schema("result")["properties"]["schema_version"]["const"],
        "app": {
            "name": app.name,
            "command": command.text,
            "role": command.role,
            "kernel_arguments": [*app.kernel_arguments, *command.kernel_arguments] if g is not None else [],
            "policy": [f"{key}={value}" for key, value in c.model["policy"].items()] if c.model is not None else [],
        },
        "configuration": {"platform": c.platform, "run": settings},
        "versions": versions(app.dpdk) if g is not None else {**NO_GUEST, "wiretime": __version__},
        **engine,
        "program": program_counters(app, outcome.console),
    }
    result = cast(Report, whole)
    if settings["load"]["iperf"] is not None:
        result["iperf"] = iperf.summary(result)
    if settings["far"] == "tap":
        result["warnings"] = ["wire: joined to a TAP; another run gives another result", *result["warnings"]]
    if trace is not None:
        result["trace"] = cast(TraceSummary, trace.summary)
        result["warnings"] = [*trace.warnings, *result["warnings"]]
    status = engine["guest"]["status"]
    # A program without a handler ends by the signal that asked it to.
    told = app.stop == "signal" and status == TERMINATED
    if status != 0 and not told:
        raise GuestError(f"{app.name} ended with status {status}", vm.tail(outcome.console))
    check_ledger(result, outcome.console)
    traffic = host["traffic_seconds"] or 0.0
    figures = {
        "wall_seconds": time.monotonic() - took.began,
        "boot": took.origin,
        "mips": host["traffic_instructions"] / traffic / 1e6 if traffic else 0.0,
        **host,
        "boot_seconds": host["boot_seconds"] + took.boot,
        "cpu_count": os.cpu_count(),
    }
    entries = (
        profile.resolve(outcome.message["profile"], outcome.console, g.images, list(g.files.values()))
        if settings["profile"] and g is not None
        else None
    )
    return Execution(result, figures, profile.without_symbols(outcome.console), entries, outcome.message["trace"])


def check_ledger(result: Report, console: str) -> None:
    """Raise where the ledger does not balance, or the program's own drop count is another than ours."""
    problems = list(result["ledger_violations"])
    program = result["program"]
    if program is not None and result["app"]["role"] == FORWARDS:
        # Packets that found out whether the program polls are not the load; testpmd throws some of them away unseen.
        dropped = result["load"]["host_drop"] + result["load"]["held_by_host"]
        if dropped != program["tx_dropped"]:
            problems.append(f"HostDrop is {dropped}, {result['app']['name']} says {program['tx_dropped']}")
    vm.check_ledger(problems, vm.tail(console))


def clear(folder: Path) -> None:
    """Remove what an earlier run left there, and nothing else."""
    for place in (folder / OTHER, folder):
        for old in place.iterdir() if place.is_dir() else ():
            if SAID.fullmatch(old.name) and old.is_file():
                old.unlink()


def write(folder: Path, done: Execution) -> None:
    """Write the files of a run, each whole or not at all; none of an earlier one stays."""
    clear(folder)
    if done.profile is not None:
        profile.write(folder, done.profile)
    if done.trace is not None:
        timeline.write(folder, done.trace)
    captured = folder / CAPTURING
    if captured.exists():
        captured.rename(folder / CAPTURED)
    for name, text in (
        ("console.log", done.console),
        ("host.json", json.dumps(done.host, indent=1) + "\n"),
        (RESULT, dump(done.result)),
    ):
        files.replace(folder / name, text)
    if done.other is not None:
        (folder / OTHER).mkdir(exist_ok=True)
        write(folder / OTHER, done.other)


def dump(result: Report) -> str:
    """Return a result as it is stored: the same bytes for the same run."""
    return json.dumps(result, indent=1) + "\n"


def prepare_folder(path: Path, trace: Path | None = None) -> None:
    """Make the output folder, before anything runs: what an earlier run said there would be taken for this one's.

    Raises where that would remove what no run has left, or the trace that is to be played.
    """
    if trace is not None and SAID.fullmatch(trace.name) and trace.resolve().parent == path.resolve():
        raise WiretimeError(f"--out {path}: holds {trace.name}, which is to be played, and would remove it")
    there = sorted(old.name for old in path.iterdir() if SAID.fullmatch(old.name)) if path.is_dir() else []
    if there and RESULT not in there:
        raise WiretimeError(
            f"--out {path}: holds {there[0]} and no {RESULT}, so that no run has left it: take it away, or name "
            "another folder"
        )
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".wiretime"
        probe.touch()
        probe.unlink()
        clear(path)
        # Of a run that did not come to its end.
        (path / CAPTURING).unlink(missing_ok=True)
    except OSError as e:
        raise WiretimeError(f"--out {path}: {e.strerror}") from None
