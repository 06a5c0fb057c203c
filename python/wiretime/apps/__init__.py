"""Applications: what runs in the guest, and how it is started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from wiretime import platforms
from wiretime.apps.dpdk import DPDK
from wiretime.apps.inkernel import IN_KERNEL
from wiretime.apps.kernel import KERNEL
from wiretime.apps.model import KERNEL_RING, MLX5, App, Command, Setup, words
from wiretime.apps.user import Own, beside, instead, user
from wiretime.errors import WiretimeError, unknown
from wiretime.setup import dpdk as builds
from wiretime.setup import older

__all__ = ["APPS", "QUEUES", "App", "Command", "Own", "Setup", "command", "find", "get", "queues", "words"]

# Where the guest finds the first NIC.
FIRST_NIC = "0000:00:01.0"
# Queues of a direction that a program can use.
QUEUES = {"8254x": 1, "82599": 16, **dict.fromkeys(MLX5, 32), "qdma": 2048}

APPS = {app.name: app for app in (*DPDK, *KERNEL, *IN_KERNEL)}


def get(name: str) -> App:
    """Return an application by name."""
    if name not in APPS:
        raise WiretimeError(f"{unknown('application', name, APPS)}; and there is no file of that name")
    return APPS[name]


def find(name: str, own: Own, dpdk: str = builds.DEBIAN) -> App:
    """Return an application by name, or a user's program by its path, with a build of DPDK."""
    base, of_release, _ = name.partition(older.SEPARATOR)
    known = base in APPS or not ("/" in name or Path(name).is_file())
    app = get(base) if known else user(Path(name), own, partial(_libraries, dpdk))
    if known and of_release:
        app = replace(instead(app, partial(older.files, name)), name=name)
    if known and (said := own.said()):
        raise WiretimeError(f"{said}: for a program of yours only, {app.name} is none")
    if known and own.files:
        app = instead(app, partial(beside, app, own, partial(_libraries, dpdk)))
    if dpdk == builds.DEBIAN:
        return app
    if not app.on_dpdk:
        raise WiretimeError(f"--dpdk {dpdk}: {app.name} uses the kernel's stack, and no DPDK")
    # Raises where there is no such build.
    build = builds.variant(dpdk)
    more = tuple(nic for nic, driver in app.more_interfaces.items() if driver in build.drivers)
    able = tuple(dict.fromkeys((*app.interfaces, *more)))
    return replace(app, dpdk=build.name, interfaces=able, takes=more)


@cache
def _libraries(dpdk: str) -> set[str]:
    """Return the names of what the guest's image holds."""
    return {Path(name).name for name in builds.links(dpdk)}


def queues(app: App, platform: Mapping[str, Any], wanted: int, *, modelled: bool = False) -> int:
    """Return the queues that a run uses, where the NIC has them, and the application unless it is a model."""
    interface = min(platforms.interfaces(platform), key=lambda name: QUEUES[name])
    have = QUEUES[interface]
    if interface == "qdma":
        have = min(int(nic["qdma"]["queues"]) for nic in platform["nic"])
    if not 1 <= wanted <= have:
        other = "" if have > 1 else f"; --nic 82599 has {QUEUES['82599']}"
        if interface == "qdma":
            other = f"; --set nic.qdma.queues=N makes up to {QUEUES['qdma']}"
        raise WiretimeError(f"--queues {wanted}: the {interface} has {have} receive queue{'s'[: have > 1]}{other}")
    if wanted > 1 and not app.queues:
        raise WiretimeError(f"--queues {wanted}: {app.name} takes no number of queues")
    if wanted > app.queues_most and not modelled:
        raise WiretimeError(f"--queues {wanted}: {app.name} takes {app.queues_most} at most")
    return wanted


def command(app: App, s: Setup, commands: str | None = None) -> Command:
    """Return the command line that runs ``app`` in the guest, with the user's arguments behind ours.

    ``commands`` are typed at its prompt, one a semicolon.
    """
    low, high = app.sizes
    if not low <= s.longest <= high:
        raise WiretimeError(f"--packet-size {s.longest}: {app.name} takes {low} to {high} B, FCS included")
    if s.cores < app.min_cores:
        raise WiretimeError(f"system.cores is {s.cores}: {app.name} needs at least {app.min_cores}")
    if commands is not None and not app.interactive:
        raise WiretimeError(f"--app-commands: {app.name} takes no commands")
    text = app.line(s)
    if commands is not None:
        text += f" {app.interactive}"
    if s.ethtool and not app.kernel:
        raise WiretimeError(f"--ethtool: {app.name} drives the NIC itself; the kernel's driver is set so")
    if s.devices and app.kernel:
        raise WiretimeError(f"--app-args -a: {app.name} uses the kernel's driver")
    own = s.own_words if not app.kernel else s.extra
    if own and app.takes_arguments:
        text += f" {shlex.join(own)}".replace("'{eal}'", s.eal)
    text = text.replace("{pci}", FIRST_NIC)
    ring = KERNEL_RING[s.interface] if app.kernel else s.ring(app.ring)
    made = Command(text, app.memory(s), app.role(s.extra), ring, texts=app.texts(s))
    if commands is None:
        return made
    typed = "\n".join(c.strip() for c in commands.split(";"))
    return replace(made, start_input=typed, stop_input=app.stop_input)
