"""What a user asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretime import apps, platforms
from wiretime.setup.dpdk import DEBIAN

GUEST_LIMIT = "60s"
# Where the command line calls a field otherwise.
COMMAND_LINE = {"warm_up": "warmup", "internet": "ip"}
# What a search has no use for: its loads, and what only one load has.
OF_ONE_LOAD = (
    "rate", "duration", "warm_up", "follow", "clients", "think", "timeout", "peer",
    "replay", "speed", "loops", "lenient", "key", "profile",
)  # fmt: skip


def option_of(field: str) -> str:
    """Return the command line's option for a field of a request."""
    return f"--{COMMAND_LINE.get(field, field.replace('_', '-'))}"


@dataclass(frozen=True)
class Request:
    """What a user asks for."""

    app: str = "testpmd"
    platform: str = platforms.DEFAULT
    # What runs it: a guest in full system, or a model of it, packet by packet; and which model.
    engine: str = "full-system"
    model: str | None = None
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
    kernel_args: str = ""
    # What the kernel's driver is told.
    ethtool: str = ""
    # The build of DPDK that programs use.
    dpdk: str = DEBIAN
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
    # None: of several queues whatever any of them may hash; ports otherwise.
    flow_vary: str | None = None
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
    # What is at the other end of the wire: the generator, or a second simulated host.
    peer: str = "generator"
    # A TAP of this machine, instead of either.
    tap: str | None = None
    trace: str | None = None
    # Boots also where a state of it is kept; nothing in a result depends on it.
    boot: bool = False
    # Executes every turn of a loop that repeats; nothing in a result depends on it.
    every_turn: bool = False
    # Of a user's own program.
    own: apps.Own = field(default_factory=apps.Own)
    # For the project's own tests; see the engine's settings.
    internals: Mapping[str, Any] | None = None
