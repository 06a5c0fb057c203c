"""Software as a model: what a program costs on a core, for the packet-level engine, which runs in this process."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import wiretime._native as _native
from wiretime import paths, platforms, schemas, vm
from wiretime.apps.model import BUFFER_JUMBO, CONSUMES, FORWARDS, MLX5, SENDS, STANDARD_FRAME
from wiretime.errors import WiretimeError, unknown

FULL, PACKET = "full-system", "packet"
ENGINES = (FULL, PACKET)

Model = dict[str, Any]


def names() -> list[str]:
    """Return the names of the models that come with Wiretime."""
    return sorted(path.stem for path in paths.MODELS.glob("*.toml"))


def _check(node: Mapping[str, Any], table: Any, key: str, source: str) -> None:
    """Raise where a table is none, or has a key too many, one too few, or one out of its range."""
    known = schemas.properties(node, schemas.schema("model"))
    if not isinstance(table, Mapping):
        raise WiretimeError(f"{source}: {key} must be a table: [{key}]")
    needed = schemas.resolved(node, schemas.schema("model")).get("required", [])
    dotted = {f"{key}.{name}" if key else name: name for name in known}
    for name in table:
        if name not in known:
            raise WiretimeError(f"{source}: {unknown('key', f'{key}.{name}' if key else name, dotted)}")
    for name, child in known.items():
        inner = f"{key}.{name}" if key else name
        if name not in table:
            if name not in needed:
                continue
            raise WiretimeError(f"{source}: {inner} is missing")
        value, child = table[name], schemas.resolved(child, schemas.schema("model"))
        if child.get("properties"):
            _check(child, value, inner, source)
        elif words := platforms.choices(child):
            if value not in words:
                raise WiretimeError(f"{source}: {unknown(inner, str(value), words)}")
        elif "minimum" in child:
            whole = child["type"] == "integer"
            good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if not good or not child["minimum"] <= value <= child["maximum"]:
                allowed = f"from {child['minimum']:g} to {child['maximum']:g} {child['unit']}"
                raise WiretimeError(f"{source}: {inner} is {value!r}: must be {allowed}")
        elif child["type"] == "boolean":
            if not isinstance(value, bool):
                raise WiretimeError(f"{source}: {inner} is {value!r}: must be true or false")
        elif not isinstance(value, str):
            raise WiretimeError(f"{source}: {inner} is {value!r}: must be text")


def checked(table: Mapping[str, Any], source: str) -> Model:
    """Return a model that is good, or say what is not."""
    _check(schemas.schema("model"), table, "", source)
    try:
        resolved: Model = json.loads(_native.resolve_model(json.dumps(table)))
    except ValueError as e:
        raise WiretimeError(f"{source}: {e}") from None
    return resolved


def load(name: str) -> Model:
    """Return a model by name, or from a ``.toml`` file, checked."""
    path = Path(name) if name.endswith(".toml") else paths.MODELS / f"{name}.toml"
    if not path.is_file():
        raise WiretimeError(f"{name}: no such file") if name.endswith(".toml") else unknown("model", name, names())
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as e:
        raise WiretimeError(f"{path}: {e}") from None
    return checked(table, str(path))


# NICs whose driver is another's, too.
FAMILIES = {"connectx-7": "connectx-6dx"}


def driver(platform: Mapping[str, Any]) -> str:
    """Return which driver a machine's NIC has, by the interface of its family that models name."""
    interface = platforms.interfaces(platform)[0]
    return FAMILIES.get(interface, interface)


def of(app: str, platform: Mapping[str, Any], name: str | None) -> Model:
    """Return the model of an application on a machine's NIC: the one that is named, or ours."""
    interface = driver(platform)
    model = load(name if name is not None else f"{app}-{interface}")
    if model["interface"] != interface:
        its = model["interface"]
        raise WiretimeError(f"--model {model['name']}: its driver is the {its}'s; the NIC is {interface}")
    return model


# What programs take as arguments and a model has.
ARGUMENTS = {
    "--burst": "policy.burst",
    "--rx-burst": "policy.burst",
    "--tx-burst": "policy.straight",
    "--rxd": "policy.receive_ring",
    "--txd": "policy.transmit_ring",
    "--rx-queue-size": "policy.receive_ring",
    "--tx-queue-size": "policy.transmit_ring",
    "--buffer": "policy.buffer",
    "--completion": "qdma.completion",
    "--prefetch": "qdma.prefetch",
    "--fetch": "qdma.fetch",
    "--coalesce": "qdma.coalesce",
    "--coalesce-cycles": "qdma.coalesce_cycles",
    "--count": "qdma.count",
    "--timer": "qdma.timer",
}
# What a driver gathers before it tells the card of a ring.
THRESHOLDS = {"receive_ring": "refill", "transmit_ring": "report"}
# testpmd's modes: what the program is for, and what it touches other than as the model says.
MODE = "--forward-mode"
AHEAD = "prefetch_ahead"
NO_PAYLOAD = {"payload": "none", "writes_header": False, AHEAD: 0}
HEADER = {"payload": "header", "writes_header": True}
MODES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "io": ("forward", NO_PAYLOAD),
    # `macfwd.h` prefetches the next packet, `macswap_neon.h` the next four.
    "mac": ("forward", {**HEADER, AHEAD: 1}),
    "macswap": ("forward", {**HEADER, AHEAD: 4}),
    "rxonly": ("receive", NO_PAYLOAD),
    "txonly": ("send", HEADER),
}
# Packets that are prefetched as they are received, by a driver and whatever the program does (`em_rxtx.c`).
AT_RECEPTION = 4096
# Descriptors that the vector paths of ixgbe and net_mlx5 look at together (`ixgbe_rxtx_vec_neon.c`, `mlx5_rxtx_vec.c`):
# of a smaller burst they receive none.
GROUPS = {"82599": 4, **dict.fromkeys(MLX5, 4)}
# Room of a buffer before its data; what testpmd's buffers leave for frames above the standard size.
HEADROOM = 128
# Two VLAN tags, which our own programs leave room for.
TAGS = 8
JUMBO_ROOM = BUFFER_JUMBO - HEADROOM
ROOMS: Mapping[str, Callable[[int], int]] = {
    "testpmd": lambda _: JUMBO_ROOM,
    **dict.fromkeys(("touchfwd", "rxptx"), lambda longest: -(-(longest + TAGS) // 1024) * 1024),
}
# What cards make of that: whole KiB, or powers of two (SRRCTL; RCTL with its extension).
WHOLE: Mapping[str, Callable[[int], int]] = {
    "82599": lambda room: room // 1024 * 1024,
    "8254x": lambda room: min(1 << room.bit_length() - 1, 16384),
}
# What of a core acts where software is a model.
ACTING = ("core.frequency", "core.store_queue_entries")
# The part that a program has in a run.
ROLES = {"forward": FORWARDS, "receive": CONSUMES, "send": SENDS}


def told(model: Model, words: Sequence[str]) -> Model:
    """Return a model as a program's arguments change it."""
    changed = {key: dict(part) if isinstance(part, Mapping) else part for key, part in model.items()}
    # An argument and its value are one word or two.
    rest = [part for word in words for part in word.split("=", 1)]
    for name, value in zip(rest[::2], [*rest[1::2], ""], strict=False):
        if name == MODE:
            if value not in MODES:
                raise WiretimeError(f"--app-args {name}: a model knows {', '.join(MODES)}; not {value!r}")
            changed["policy"]["program"], more = MODES[value]
            by_driver = changed["touches"][AHEAD] == AT_RECEPTION
            changed["touches"].update({**more, AHEAD: AT_RECEPTION} if by_driver else more)
        elif name not in ARGUMENTS:
            known = [*ARGUMENTS, MODE]
            raise WiretimeError(f"--app-args: a model of a program: {unknown('argument', name, known)}")
        elif not value.isdecimal():
            raise WiretimeError(f"--app-args {name} {value!r}: must be a number")
        else:
            table, key = ARGUMENTS[name].split(".")
            if table not in changed:
                raise WiretimeError(f"--app-args {name}: of a {table}'s driver; {model['name']} has another")
            changed[table][key] = int(value)
            if key in THRESHOLDS:
                # As drivers do: no more at a time than half of a ring that is made smaller.
                policy, threshold = changed["policy"], THRESHOLDS[key]
                policy[threshold] = max(1, min(policy[threshold], int(value) // 2))
    group, policy = GROUPS.get(str(changed["interface"]), 1), changed["policy"]
    if policy["burst"] < group:
        raise WiretimeError(f"--app-args: a burst of {policy['burst']}: this card's driver receives {group} or none")
    policy["burst"] -= policy["burst"] % group
    return checked(changed, "--app-args")


def with_buffers(model: Model, app: str, longest: int) -> Model:
    """Return a model with buffers such as the program makes them for frames above the standard size.

    testpmd and our own programs make them larger (`testpmd --mbuf-size`, guest/apps/port.c), others take several.
    """
    whole = WHOLE.get(str(model["interface"]))
    if whole is None or longest <= STANDARD_FRAME or app not in ROOMS:
        return model
    return {**model, "policy": {**model["policy"], "buffer": whole(ROOMS[app](longest))}}


def warnings(model: Mapping[str, Any], platform: Mapping[str, Any]) -> list[str]:
    """Return what has to be said of every result that rests on this model."""
    said = [f"software: not run but modelled, as {model['name']} ({model['source']})"]
    if model["policy"]["program"] != "forward":
        said.append(f"software: the costs of {model['name']} are of forwarding, its parts those of it")
    measured, here = model["platform"], platform["name"]
    if not measured:
        # Costs written by hand are of no core; of the one that is simulated few values act.
        if unused := [key for key in changed(platform) if key not in ACTING]:
            said.append(f"software: {', '.join(unused[:3])} has no part in a core that is modelled by costs alone")
        return said
    if measured != here:
        said.append(f"software: {model['name']} was measured on {measured}; the core here is {here}'s")
    elif differs := changed(platform):
        keys = ", ".join(differs[:3]) + (" and others" if len(differs) > 3 else "")
        said.append(f"software: {model['name']} was measured on another core: {keys}")
    return said


def beyond(model: Mapping[str, Any], measured: Mapping[str, Any], longest: int) -> list[str]:
    """Return a warning where arguments or packets go beyond what a model was measured with."""
    if not measured["platform"]:
        return []
    keys = ("burst", "receive_ring", "transmit_ring")
    other = [f"{key} {model['policy'][key]}" for key in keys if model["policy"][key] > measured["policy"][key]]
    touched = any(model["touches"][key] != measured["touches"][key] for key in ("payload", "writes_header"))
    if touched and model["policy"]["program"] == "forward":
        other.append("work on packets that is not its own (its cost is)")
    if longest > STANDARD_FRAME:
        other.append(f"frames of {longest} B")
    if not other:
        return []
    return [f"software: beyond what {model['name']} was measured with: {', '.join(other)}"]


def changed(platform: Mapping[str, Any]) -> list[str]:
    """Return which parameters of the core of one of our platforms are other than in its file."""
    if platform["name"] not in platforms.names():
        return []
    there = dict(platforms.flatten(platforms.load(platform["name"])["core"]))
    here = dict(platforms.flatten(platform["core"]))
    return [f"core.{key}" for key, value in here.items() if value != there.get(key)]


class Machine:
    """A run of the packet-level engine; as :class:`wiretime.vm.Machine`, without a guest."""

    def __init__(
        self,
        platform: Mapping[str, Any],
        run: Mapping[str, Any],
        model: Mapping[str, Any],
        *,
        trials: bool = False,
        capture: Path | None = None,
        every_turn: bool = False,
        longest: int = 0,
    ):
        """Nothing starts yet. ``longest`` is that of all trials' frames."""
        config: dict[str, Any] = {"platform": platform, "run": dict(run), "model": dict(model)}
        config |= {"every_turn": every_turn, "longest": longest}
        self.config = json.dumps(config)
        self.trials = trials
        self.capture = capture

    def run(self, progress: vm.Progress | None = None, on_trial: vm.NextTrial | None = None, **_: Any) -> vm.Outcome:
        """Run to the end and return the engine's last message; between trials, ask ``on_trial`` for the next one."""
        output, theirs = os.pipe()
        asked, trials = os.pipe() if self.trials else (-1, -1)
        problem: list[BaseException] = []
        if self.capture is not None:
            self.capture.touch()

        def work() -> None:
            try:
                _native.run_packets(
                    self.config,
                    f"/proc/self/fd/{theirs}",
                    f"/proc/self/fd/{asked}" if self.trials else None,
                    str(self.capture) if self.capture is not None else None,
                )
            except BaseException as e:  # told by whoever waits
                problem.append(e)
            finally:
                os.close(theirs)

        engine = threading.Thread(target=work, name="packets")
        last: dict[str, Any] = {}
        try:
            engine.start()
            with os.fdopen(output) as lines:
                last = vm.listen(lines, progress, on_trial, trials)
        finally:
            # Where nobody asks for another trial, there is none.
            for fd in (trials, asked):
                if fd >= 0:
                    os.close(fd)
            engine.join()
        if problem:
            raise WiretimeError(str(problem[0]))
        if "failed" in last:
            raise WiretimeError(str(last["failed"]["reason"]))
        return vm.Outcome(last, "")
