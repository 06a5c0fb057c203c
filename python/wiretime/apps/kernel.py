"""Applications on the kernel's network stack: its driver, interrupts, NAPI, sockets."""

from __future__ import annotations

import shlex
from typing import Any

from wiretime.apps.model import ANSWERS, App, Setup, words
from wiretime.errors import WiretimeError
from wiretime.load import IPERF3_PORT, STORE_PORT

# What `ethtool` may set, by its option.
SETTABLE = {
    "A": "pause frames",
    "C": "moderation of interrupts",
    "G": "rings",
    "K": "offloads",
    "L": "queues",
    "N": "rules of receiving",
    "X": "the table of RSS",
    "s": "the link",
    "-set-priv-flags": "flags of the driver",
}


def ethtool(asked: str, interface: str = "eth0") -> tuple[str, ...]:
    """Return the commands that a user's settings are, such as ``C rx-usecs 8 adaptive-rx off; K gro off``."""
    commands = []
    for text in filter(str.strip, asked.split(";")):
        option, *rest = words("--ethtool", text)
        name = option.removeprefix("-")
        if name not in SETTABLE or not rest:
            able = ", ".join(f"{name} ({what})" for name, what in SETTABLE.items())
            raise WiretimeError(f"--ethtool {text.strip()!r}: begins with one of {able}, and then says what")
        commands.append(f"/usr/sbin/ethtool -{name} {interface} {shlex.join(rest)}")
    return tuple(commands)


def network(s: Setup) -> str:
    """Return what gives a host its addresses, and its NIC what the user sets."""
    commands = (
        f"/usr/bin/ip addr add 10.0.0.{s.host}/8 dev eth0",
        f"/usr/bin/ip -6 addr add 2001:2:0:1::{s.host}/32 dev eth0 nodad",
        "/usr/bin/ip link set eth0 up",
        *ethtool(s.ethtool),
    )
    return " && ".join(commands)


# The link's watchdog and the neighbour's first look are over by then.
SETTLE = "sleep 3"

INTERRUPTS = "for i in /proc/irq/*/smp_affinity_list; do echo 0 >$i; done 2>/dev/null; true"
# The same with interrupts on core 0, apart from the program.
SETTLED = f"{SETTLE} && {{ {INTERRUPTS}; }}"
# What was started last goes on until the end is asked for; where it has ended by itself, the run has failed.
UNTIL_STOPPED = "wtctl wait-stop && kill $! && { wait; true; }"


def _line(s: Setup, program: str) -> str:
    """Return a line that starts a server, says that it is ready, and ends it when asked to."""
    return f"{network(s)} && {{ {program} & }} && {SETTLE} && wtctl mark 1 && wtctl wait-stop && kill $! && wait"


def pinned(s: Setup, program: str) -> str:
    """Return a program on a core apart from the interrupts', where there is one: as in published measurements."""
    return f"taskset {1 << min(1, s.cores - 1):x} {program}"


def kernel_app(**about: Any) -> App:
    """Return an application of this kind: it says when it is ready; a server unless said otherwise."""
    usual: dict[str, Any] = {"role": lambda _: ANSWERS, "takes_arguments": False, "min_cores": 1, "sizes": (64, 1518)}
    return App(**{**usual, **about}, start_at="mark", kernel=True)


def _ping(s: Setup) -> str:
    return f"{network(s)} && {SETTLE} && wtctl mark 1 && wtctl wait-stop"


def _udpecho(s: Setup) -> str:
    return _line(s, f"udpecho 8192 {shlex.join(s.extra)}".strip())


PING = kernel_app(
    name="ping",
    summary="the kernel's driver (e1000, ixgbe or mlx5) and network stack, answering a ping flood",
    stresses="interrupts, NAPI, the kernel's receive and transmit paths",
    rate="500kpps",
    line=_ping,
    traffic="ping",
)

UDPECHO = kernel_app(
    name="udpecho",
    summary="datagrams sent back through the kernel's sockets",
    stresses="interrupts, NAPI, sockets, system calls, copies",
    rate="200kpps",
    line=_udpecho,
    archives=("echo",),
    options=(("BATCH", "datagrams taken and sent by one system call (1)"),),
)


def _memcached(s: Setup) -> str:
    # Ordinary clients, who come from outside, speak TCP.
    tcp = STORE_PORT if s.load["far"] else 0
    command = f"memcached -u root -l 10.0.0.2 -p {tcp} -U {s.store_port} -t {max(1, s.cores - 1)} {shlex.join(s.extra)}"
    return _line(s, command.strip())


MEMCACHED = kernel_app(
    name="memcached",
    summary="memcached (Debian's binary), asked over UDP through the kernel",
    stresses="interrupts, NAPI, sockets, system calls, scheduling, hashing",
    line=_memcached,
    archives=("memcached",),
    packaged=True,
    traffic="memcached",
    rate="80kpps",
    options=(("-t N", "threads (one a core, but for one)"), ("-m MIB", "memory for items (64)")),
)


def _stat(when: str) -> str:
    """Return what prints the guest's own account of its processors."""
    return f"grep '^cpu[0-9]' /proc/stat >/stat && while read l; do echo \"guest-{when} $l\"; done </stat"


def _iperf3(s: Setup) -> str:
    port = (s.load.get("iperf") or s.client or {"port": IPERF3_PORT})["port"]
    at = f"-p {port} " if port != IPERF3_PORT else ""
    server = pinned(s, f"iperf3 -s -1 -J {at}{shlex.join(s.extra)}".strip())
    ready = f"{SETTLED} && {_stat('a')} && wtctl mark 1"
    # A client outside is not told when the measurement is over.
    end = UNTIL_STOPPED if s.load["far"] else "wait $!"
    return f"{network(s)} && {{ {server} & }} && {ready} && {end} && {_stat('b')}"


IPERF3 = kernel_app(
    name="iperf3",
    summary="iperf3's server (Debian's binary); the client is at the other end of the wire, over a TCP of its own",
    stresses="TCP or UDP of the kernel: segmentation, copies, acknowledgements, interrupts",
    line=_iperf3,
    archives=("iperf3",),
    packaged=True,
    traffic="iperf",
    options=(("--iperf NAME=VALUE", "of the client: protocol, reverse, streams, length, rate, window (of `run`)"),),
)

KERNEL = (PING, UDPECHO, MEMCACHED, IPERF3)
