"""Forwarding inside the guest's kernel: XDP programs in its drivers, and its own routing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from wiretime.apps.dpdk import GENERATOR
from wiretime.apps.kernel import SETTLE, UNTIL_STOPPED, ethtool, kernel_app
from wiretime.apps.model import CONSUMES, FORWARDS, App, Setup
from wiretime.errors import WiretimeError

ACTIONS = ("drop", "tx", "redirect", "route")
# Interrupts of queues, as the drivers name them, port by port.
QUEUE_INTERRUPTS = "mlx5_comp|-TxRx-|eth[0-9]+$"
# A host on each port's own network, which the generator is, and its neighbour: this one.
GATEWAY, OWN = "192.0.{port}.1", "192.0.{port}.2/24"


def _ports(s: Setup) -> list[str]:
    """Return what brings interfaces up: with a queue for each core that is to have one, and what the user sets."""
    commands = []
    for port in range(s.ports):
        # A driver begins with a queue for each core, and an 82540EM has one.
        if s.queues != s.cores and s.interface != "8254x":
            commands.append(f"/usr/sbin/ethtool -L eth{port} combined {s.queues}")
        commands += ethtool(s.ethtool, f"eth{port}")
        commands.append(f"/usr/bin/ip link set eth{port} up")
    return commands


def _interrupts(s: Setup) -> str:
    """Return what gives the interrupts of each port's n-th queue to core n, whose transmit queue is the n-th, too."""
    found = f"busybox awk -F: '/{QUEUE_INTERRUPTS}/ {{ print $1 + 0 }}' /proc/interrupts"
    core = f"$((i % {s.queues} % {s.cores}))"
    return f"i=0; for n in $({found}); do echo {core} >/proc/irq/$n/smp_affinity_list; i=$((i + 1)); done"


def _routes(s: Setup) -> list[str]:
    """Return what makes a router of the host: what comes is for a network behind the generator, or behind the next."""
    if s.load["internet"] != "v4":
        raise WiretimeError("--ip 6: routes here are of IPv4")
    commands = ["echo 1 >/proc/sys/net/ipv4/ip_forward"]
    for port in range(s.ports):
        gateway = GATEWAY.format(port=port)
        # Nobody is told that a packet leaves by where it came from.
        commands += [
            f"echo 0 >/proc/sys/net/ipv4/conf/eth{port}/send_redirects",
            f"/usr/bin/ip addr add {OWN.format(port=port)} dev eth{port}",
            f"/usr/bin/ip neigh add {gateway} lladdr {GENERATOR} dev eth{port} nud permanent",
        ]
    commands.append("echo 0 >/proc/sys/net/ipv4/conf/all/send_redirects")
    for port in range(s.ports):
        network = f"198.18.{(port - 1) % s.ports}.0/24" if s.ports > 1 else "10.0.0.0/8"
        commands.append(f"/usr/bin/ip route add {network} via {GATEWAY.format(port=port)} dev eth{port}")
    return commands


def _line(s: Setup, steps: Sequence[str], stop: str) -> str:
    settled = f"{SETTLE} && {{ {_interrupts(s)}; }}"
    return " && ".join([*_ports(s), *steps, settled, "wtctl mark 1", stop])


def _action(words: Sequence[str]) -> str:
    return words[0] if words and not words[0].startswith("-") else "tx"


def _xdp(s: Setup) -> str:
    action, rest = _action(s.extra), [w for w in s.extra if w not in ACTIONS]
    if action not in ACTIONS:
        raise WiretimeError(f"--app-args {shlex.join(s.extra)}: xdp does one of {', '.join(ACTIONS)}")
    if rest not in ([], ["--touch"]):
        raise WiretimeError(f"--app-args {shlex.join(s.extra)}: xdp has no option {rest[0]}; it has --touch")
    routes = _routes(s) if action == "route" else []
    # Interfaces come up again with the program in their queues.
    start = f"{{ {shlex.join(['xdp', action, *rest])} & }}"
    return _line(s, [*routes, start], UNTIL_STOPPED)


def _route(s: Setup) -> str:
    if s.extra:
        raise WiretimeError(f"--app-args {shlex.join(s.extra)}: route has none")
    return _line(s, _routes(s), "wtctl wait-stop")


def _forwarder(**about: object) -> App:
    return kernel_app(**{"role": lambda _: FORWARDS, "queues": True, "rate": "1Mpps", **about})


XDP = _forwarder(
    name="xdp",
    summary="an XDP program in the kernel's driver: drops packets, or sends them back, by the next port, or as routed",
    stresses="interrupts, NAPI, the driver's receive and transmit paths; no socket buffers",
    line=_xdp,
    archives=("xdp",),
    routes_between_ports=True,
    role=lambda words: CONSUMES if _action(words) == "drop" else FORWARDS,
    # What is redirected leaves by another port, what is routed by the port of its network.
    options=(
        (
            "tx (default) | drop | redirect | route",
            "what becomes of a packet: back, nothing, by the next port, or by the kernel's routes",
        ),
        ("--touch", "its type is read, too"),
    ),
)

ROUTE = _forwarder(
    name="route",
    summary="the kernel's own IPv4 forwarding, by one route",
    stresses="interrupts, NAPI, socket buffers, the look-up of a route, queueing disciplines",
    line=_route,
    routes_between_ports=True,
    copies=True,
)

IN_KERNEL = (XDP, ROUTE)
