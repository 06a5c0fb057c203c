"""What an application is, and what its command line is made from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from wiretime import platforms
from wiretime.errors import WiretimeError
from wiretime.load import STORE_PORT
from wiretime.setup import dpdk as builds

# ConnectX NICs have one family of drivers, whose kernel part user-space programs need, too.
MLX5 = ("connectx-6dx", "connectx-7")
MLX5_MODULES = ("pci-hyperv-intf", "mlxfw", "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
DRIVER_MODULES = {
    "8254x": ("e1000",),
    "82599": ("libphy", "fixed_phy", "fwnode_mdio", "of_mdio", "mdio_devres", "mdio", "xfrm_algo", "ixgbe"),
    **dict.fromkeys(MLX5, MLX5_MODULES),
}
# Of NICs that the guest's init does not know: their PCI vendor.
VENDORS = {"qdma": "0x10ee"}
RING = 1024
# What the kernel's drivers start with (E1000_DEFAULT_RXD, IXGBE_DEFAULT_RXD).
KERNEL_RING = {"8254x": 256, "82599": 512, **dict.fromkeys(MLX5, 1024)}
STANDARD_FRAME = 1518
# Buffers of a queue beside both rings: what cores keep at hand, and bursts under way.
BUFFERS_A_QUEUE = 552
BUFFERS_LEAST = 8192
BUFFER, BUFFER_JUMBO = 2176, 10240
# What a program does with packets: send them on in their own buffers; answer them; take them; send what nobody sent it.
FORWARDS, ANSWERS, CONSUMES, SENDS = "forwards", "answers", "consumes", "sends"


# Numbers of the guest and of another host on the network between them.
GUEST_HOST, OTHER_HOST = 2, 1


def mac_of(host: int) -> list[int]:
    """Return the MAC address of a host's NIC."""
    return [0x52, 0x54, 0x00, 0x12, 0x34, 0x54 + host]


def value_of(words: Sequence[str], option: str) -> str | None:
    """Return what an option was given last among words of a command line."""
    found = None
    for i, word in enumerate(words):
        if word.startswith(f"{option}="):
            found = word.split("=", 1)[1]
        elif word == option and i + 1 < len(words):
            found = words[i + 1]
    return found


def words(option: str, text: str) -> list[str]:
    """Return the words of what the user says after an option."""
    try:
        return shlex.split(text)
    except ValueError as e:
        raise WiretimeError(f"{option} {text!r}: {e}") from None


@dataclass(frozen=True)
class Setup:
    """What a command line depends on: the machine, queues, the longest packet, the load, the user's own arguments."""

    platform: Mapping[str, Any]
    queues: int
    longest: int
    load: Mapping[str, Any]
    extra: Sequence[str] = ()
    # What its kernel's driver is told, as ``ethtool``'s options; one a semicolon.
    ethtool: str = ""
    # Which host it is, and what a client in another host is asked to do.
    host: int = GUEST_HOST
    client: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        """Cores of the guest."""
        return int(self.platform["system"]["cores"])

    @property
    def ports(self) -> int:
        """Ports of all NICs."""
        return platforms.ports(self.platform)

    @property
    def interface(self) -> str:
        """The NIC's register interface."""
        return platforms.interfaces(self.platform)[0]

    @property
    def store_port(self) -> int:
        """Where a key-value store is asked."""
        return int((self.load.get("store") or {"port": STORE_PORT})["port"])

    @property
    def jumbo(self) -> bool:
        """Whether frames above the standard size come."""
        return self.longest > STANDARD_FRAME

    @property
    def eal(self) -> str:
        """The options of a DPDK program whose main lcore, which forwards nothing, shares the system's core."""
        return self.eal_on(0, self.cores - 1)

    def eal_on(self, first: int, last: int) -> str:
        """Return the options of a DPDK program on these cores."""
        channels = self.platform["dram"]["channels"]
        devices = "".join(f" -a {shlex.quote(device)}" for device in self.devices)
        return f"-l {first}-{last} -n {channels} --no-telemetry --log-level=*:warning{devices}"

    @property
    def devices(self) -> list[str]:
        """Devices with their driver's arguments, as the user names them: ``-a {pci},name=value``."""
        return [after for word, after in pairwise(self.extra) if word == "-a"]

    @property
    def own_words(self) -> list[str]:
        """The user's arguments of the program itself: devices are EAL's."""
        words, skip = [], False
        for word in self.extra:
            if not skip and word != "-a":
                words.append(word)
            skip = word == "-a" and not skip
        return words

    @property
    def workers(self) -> int:
        """Cores that forward: one has the system."""
        return min(self.cores - 1, self.queues * self.ports)

    def ring(self, option: str) -> int:
        """Return the descriptors of a ring, as the user asks for them."""
        asked = value_of(self.extra, option) if option else None
        return int(asked) if asked and re.fullmatch(r"[0-9]{1,6}", asked) else RING

    @property
    def mbufs(self) -> int:
        """Buffers: a program that runs out of them stands still, and both rings can be full."""
        rings = self.ring("--rxd") + self.ring("--txd")
        return max(BUFFERS_LEAST, self.queues * self.ports * (rings + BUFFERS_A_QUEUE) + self.cores * 512)


def buffers_mib(s: Setup) -> int:
    """Return the huge pages, in MiB, of a program whose memory is its buffers."""
    each = BUFFER_JUMBO if s.jumbo else BUFFER
    return max(256, 2 * ceil(s.mbufs * (each + 192) / (1 << 20)))


@dataclass(frozen=True)
class App:
    """An application of the guest.

    ``line`` makes the command line, ``memory`` the MiB of huge pages, ``texts`` the files that it reads. ``role`` says
    from the user's arguments what it does with packets. ``kernel`` tells whether the kernel's driver has the NIC;
    ``stop`` how it is told to end: by its input, or by a signal.
    """

    name: str
    summary: str
    stresses: str
    line: Callable[[Setup], str]
    archives: tuple[str, ...] = ()
    memory: Callable[[Setup], int] = lambda _: 0
    texts: Callable[[Setup], Mapping[str, str]] = lambda _: {}
    role: Callable[[Sequence[str]], str] = lambda _: FORWARDS
    traffic: str = "udp"
    start_at: str = "receiver-ready"
    kernel: bool = False
    # What it forwards leaves from other buffers than it came in.
    copies: bool = False
    # Its program is that of a Debian package of its name, unchanged: another build of it may run instead.
    packaged: bool = False
    queues: bool = False
    # How many it takes at most, whatever the NIC has.
    queues_most: int = 2048
    # Whether packets of each port are for a network of their own, so that it can send them on by another.
    routes_between_ports: bool = False
    # What is offered unless somebody says otherwise.
    rate: str = "40Gbps"
    min_cores: int = 2
    kernel_arguments: tuple[str, ...] = ()
    # How it is told to take commands, and what it is asked before the end.
    interactive: str = ""
    stop_input: str = ""
    stop: str = "input"
    sizes: tuple[int, int] = (64, 9000)
    # NICs that it has a driver for.
    interfaces: tuple[str, ...] = ("8254x", "82599", *MLX5)
    # NICs that it takes where its build of DPDK has a driver that is not in DPDK; and those that this one takes so.
    more_interfaces: Mapping[str, str] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    # Options of its own, with their meaning.
    options: tuple[tuple[str, str], ...] = ()
    # How the descriptors of its receive ring are asked for.
    ring: str = "--rxd"
    # Files that the guest gets, by path, and whether the user's arguments follow the command line.
    files: Mapping[str, Path] = field(default_factory=dict)
    takes_arguments: bool = True
    # What the program prints at its end: packets sent, and packets dropped.
    says: str = ""
    # The build of DPDK that it uses, where it uses any.
    dpdk: str = builds.DEBIAN

    @property
    def on_dpdk(self) -> bool:
        """Whether any of DPDK is in its part of the image."""
        return builds.BUILT in self.archives

    def preparation(self, interfaces: Sequence[str]) -> str:
        """Return what the guest's shell does before modules are loaded: NICs that init does not know are given away."""
        override = f"echo {self.bind} >$d/driver_override"
        return "".join(
            f'for d in /sys/bus/pci/devices/*; do [ "$(cat $d/vendor)" != {VENDORS[nic]} ] || {override}; done\n'
            for nic in self.takes
            if nic in interfaces
        )

    @property
    def bind(self) -> str:
        """The kernel driver that the NIC is bound to for user space."""
        return "" if self.kernel else "uio_pci_generic"

    def modules(self, interface: str) -> tuple[str, ...]:
        """Return the kernel modules that the application needs."""
        if interface in MLX5:
            return MLX5_MODULES
        return DRIVER_MODULES[interface] if self.kernel else ("uio", "uio_pci_generic")

    def images(self, interfaces: Sequence[str]) -> tuple[str, ...]:
        """Return the archives of the guest's image that the application needs with these NICs."""
        if not any(interface in MLX5 for interface in interfaces):
            return self.archives
        return (*self.archives, "mlx5") if self.kernel else (*self.archives, "mlx5", "mlx5-dpdk")


@dataclass(frozen=True)
class Command:
    """What is started in the guest, the memory in huge pages that it takes, and files that it reads."""

    text: str
    hugepages_mib: int
    role: str = FORWARDS
    # Descriptors of a receive ring.
    ring: int = RING
    start_input: str = ""
    stop_input: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    # The user's own arguments of the kernel.
    kernel_arguments: tuple[str, ...] = ()
