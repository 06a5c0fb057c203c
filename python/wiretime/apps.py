"""Applications: what runs in the guest, and how it is started."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from wiretime.errors import WiretimeError, unknown


@dataclass(frozen=True)
class App:
    """An application of the guest.

    ``forwards`` tells a forwarder, whose unsent packets are dropped, from a program that consumes them.
    """

    name: str
    summary: str
    command: str
    forwards: bool = True
    traffic: str = "udp"
    start_at: str = "receiver-ready"
    modules: tuple[str, ...] = ("uio", "uio_pci_generic")
    bind: str = "uio_pci_generic"
    hugepages_mib: int = 256
    min_cores: int = 2
    kernel_arguments: tuple[str, ...] = ()
    sizes: tuple[int, int] = (64, 9000)


TESTPMD = App(
    name="testpmd",
    summary="DPDK's dpdk-testpmd (Debian's binary), forwarding with MAC addresses swapped",
    command=(
        "dpdk-testpmd -l 0-{last_core} -n {channels} --no-telemetry --log-level=*:warning -- "
        "--forward-mode={mode} --nb-cores=1 --rxd={rxd} --txd={txd} --total-num-mbufs={mbufs} {sized}"
    ),
)

PEER = "02:00:00:00:00:01"  # the generator's address
PING = App(
    name="ping",
    summary="the kernel's e1000 driver and network stack, answering a ping flood",
    command=(
        "/usr/bin/ip addr add 10.0.0.2/24 dev eth0 && /usr/bin/ip link set eth0 up && sleep 3 && "
        f"/usr/bin/ip neigh add 10.0.0.1 lladdr {PEER} dev eth0 && wtctl mark 1 && wtctl wait-stop"
    ),
    forwards=False,
    traffic="ping",
    start_at="mark",
    modules=("e1000",),
    bind="",
    hugepages_mib=0,
    min_cores=1,
    sizes=(64, 1518),
)

APPS = {app.name: app for app in (TESTPMD, PING)}


def get(name: str) -> App:
    """Return an application by name."""
    if name not in APPS:
        raise unknown("application", name, APPS)
    return APPS[name]


def command(app: App, platform: dict[str, Any], packet_size: int, arguments: str) -> str:
    """Return the command line that runs ``app`` in the guest, with the user's arguments behind ours."""
    low, high = app.sizes
    if not low <= packet_size <= high:
        raise WiretimeError(f"--packet-size {packet_size}: {app.name} takes {low} to {high} B, FCS included")
    cores = platform["system"]["cores"]
    if cores < app.min_cores:
        raise WiretimeError(f"system.cores is {cores}: {app.name} needs at least {app.min_cores}")
    try:
        extra = " ".join(shlex.quote(word) for word in shlex.split(arguments))
    except ValueError as e:
        raise WiretimeError(f"--app-args {arguments!r}: {e}") from None
    # Frames above the standard size need the driver's permission, and buffers that hold them whole.
    sized = f"--max-pkt-len={packet_size} --mbuf-size=10240" if packet_size > 1518 else ""
    return app.command.format(
        last_core=cores - 1,
        channels=platform["dram"]["channels"],
        mode="macswap",
        rxd=1024,
        txd=1024,
        mbufs=8192,
        sized=sized,
    ).strip() + (f" {extra}" if extra else "")
