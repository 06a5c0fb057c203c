"""Applications: what runs in the guest, and how it is started."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from wiretime.errors import WiretimeError, unknown

DRIVER_MODULES = {
    "8254x": ("e1000",),
    "82599": ("libphy", "fixed_phy", "fwnode_mdio", "of_mdio", "mdio_devres", "mdio", "xfrm_algo", "ixgbe"),
}
# Queues of a direction that a program can use.
QUEUES = {"8254x": 1, "82599": 16}
RING = 1024
# Buffers of a queue beside both rings: what cores keep at hand, and bursts under way.
BUFFERS_A_QUEUE = 552
BUFFERS_LEAST = 8192


@dataclass(frozen=True)
class App:
    """An application of the guest.

    ``forwards`` tells a forwarder, whose unsent packets are dropped, from a program that consumes them. ``queues``
    tells whether it can be asked for several; ``kernel`` whether the kernel's driver has the NIC.
    """

    name: str
    summary: str
    command: str
    forwards: bool = True
    traffic: str = "udp"
    start_at: str = "receiver-ready"
    kernel: bool = False
    queues: bool = False
    min_cores: int = 2
    kernel_arguments: tuple[str, ...] = ()
    # How it is told to take commands, to end, and what it is asked before.
    interactive: str = ""
    stop_input: str = ""
    sizes: tuple[int, int] = (64, 9000)

    @property
    def bind(self) -> str:
        """The kernel driver that the NIC is bound to for user space."""
        return "" if self.kernel else "uio_pci_generic"

    def modules(self, interface: str) -> tuple[str, ...]:
        """Return the kernel modules that the application needs."""
        return DRIVER_MODULES[interface] if self.kernel else ("uio", "uio_pci_generic")


@dataclass(frozen=True)
class Command:
    """What is started in the guest, and the memory in huge pages that it takes."""

    text: str
    hugepages_mib: int
    start_input: str = ""
    stop_input: str = ""


TESTPMD = App(
    name="testpmd",
    summary="DPDK's dpdk-testpmd (Debian's binary), forwarding with MAC addresses swapped",
    command=(
        "dpdk-testpmd -l 0-{last_core} -n {channels} --no-telemetry --log-level=*:warning -- "
        "--forward-mode=macswap --nb-cores={workers} --rxd={ring} --txd={ring} --total-num-mbufs={mbufs} {options}"
    ),
    queues=True,
    interactive="--interactive",
    stop_input="stop\nshow port stats all\nshow port xstats all\nquit",
)

PING = App(
    name="ping",
    summary="the kernel's driver (e1000 or ixgbe) and network stack, answering a ping flood",
    command=(
        "/usr/bin/ip addr add 10.0.0.2/8 dev eth0 && /usr/bin/ip -6 addr add 2001:2:0:1::2/32 dev eth0 nodad && "
        "/usr/bin/ip link set eth0 up && sleep 3 && wtctl mark 1 && wtctl wait-stop"
    ),
    forwards=False,
    traffic="ping",
    start_at="mark",
    kernel=True,
    min_cores=1,
    sizes=(64, 1518),
)

APPS = {app.name: app for app in (TESTPMD, PING)}


def get(name: str) -> App:
    """Return an application by name."""
    if name not in APPS:
        raise unknown("application", name, APPS)
    return APPS[name]


def ring(command: str, option: str = "--rxd") -> int:
    """Return the entries of a ring, as a command asks for them last."""
    asked = re.findall(option + r"[= ](\d{1,6})\b", command)
    return int(asked[-1]) if asked else RING


def queues(app: App, platform: Mapping[str, Any], wanted: int) -> int:
    """Return the queues that a run uses, where the NIC and the application have them."""
    interface = platform["nic"]["interface"]
    have = QUEUES[interface]
    if not 1 <= wanted <= have:
        other = "" if have > 1 else f"; --nic 82599 has {QUEUES['82599']}"
        raise WiretimeError(f"--queues {wanted}: the {interface} has {have} receive queue{'s'[: have > 1]}{other}")
    if wanted > 1 and not app.queues:
        raise WiretimeError(f"--queues {wanted}: {app.name} takes no number of queues")
    return wanted


def command(
    app: App,
    platform: Mapping[str, Any],
    packet_size: int,
    arguments: str,
    wanted_queues: int,
    commands: str | None = None,
) -> Command:
    """Return the command line that runs ``app`` in the guest, with the user's arguments behind ours.

    ``commands`` are typed at its prompt, one a semicolon.
    """
    low, high = app.sizes
    if not low <= packet_size <= high:
        raise WiretimeError(f"--packet-size {packet_size}: {app.name} takes {low} to {high} B, FCS included")
    cores, ports = platform["system"]["cores"], platform["nic"]["ports"]
    if cores < app.min_cores:
        raise WiretimeError(f"system.cores is {cores}: {app.name} needs at least {app.min_cores}")
    try:
        extra = " ".join(shlex.quote(word) for word in shlex.split(arguments))
    except ValueError as e:
        raise WiretimeError(f"--app-args {arguments!r}: {e}") from None
    options = []
    buffer = 2176
    if packet_size > 1518:
        # Frames above the standard size need the driver's permission, and buffers that hold them whole.
        options += [f"--max-pkt-len={packet_size}", "--mbuf-size=10240"]
        buffer = 10240
    if wanted_queues > 1:
        options += [f"--rxq={wanted_queues}", f"--txq={wanted_queues}", "--rss-udp"]
    if ports > 1:
        options.append("--port-topology=chained")
    if commands is not None:
        if not app.interactive:
            raise WiretimeError(f"--app-commands: {app.name} takes no commands")
        options.append(app.interactive)
    # A program that runs out of buffers stands still: both rings can be full.
    rings = ring(extra, "--rxd") + ring(extra, "--txd")
    mbufs = max(BUFFERS_LEAST, wanted_queues * ports * (rings + BUFFERS_A_QUEUE) + cores * 512)
    text = app.command.format(
        last_core=cores - 1,
        workers=min(cores - 1, wanted_queues * ports),
        channels=platform["dram"]["channels"],
        ring=RING,
        mbufs=mbufs,
        options=" ".join(options),
    ).strip() + (f" {extra}" if extra else "")
    hugepages = 0 if app.kernel else max(256, 2 * ceil(mbufs * (buffer + 192) / (1 << 20)))
    if commands is None:
        return Command(text, hugepages)
    return Command(text, hugepages, "\n".join(c.strip() for c in commands.split(";")), app.stop_input)
