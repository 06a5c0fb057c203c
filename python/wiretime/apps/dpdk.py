"""Applications on DPDK: poll-mode drivers in user space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from wiretime.apps.model import (
    ANSWERS,
    BUFFER_JUMBO,
    CONSUMES,
    FORWARDS,
    MLX5,
    RING,
    SENDS,
    App,
    Setup,
    buffers_mib,
    value_of,
)
from wiretime.errors import WiretimeError
from wiretime.load import STORE_PORT, flow_address

STATISTICS = r"statistics: received \d+ sent (\d+) dropped (\d+)"
GENERATOR = "02:00:00:00:00:01"


def testpmd_line(s: Setup, mode: str) -> str:
    """Return testpmd's command line."""
    words = [f"--rxd={RING}", f"--txd={RING}", f"--total-num-mbufs={s.mbufs}"]
    if s.jumbo:
        # Frames above the standard size need the driver's permission, and buffers that hold them whole.
        words.append(f"--max-pkt-len={s.longest}")
        if s.interface != "qdma":  # whose driver has no buffers of that size, and takes several
            words.append(f"--mbuf-size={BUFFER_JUMBO}")
    if s.queues > 1:
        words += [f"--rxq={s.queues}", f"--txq={s.queues}", "--rss-udp"]
    if s.ports > 1:
        words.append("--port-topology=chained")
    return f"dpdk-testpmd {s.eal} -- --forward-mode={mode} --nb-cores={s.workers} {' '.join(words)}"


def _testpmd_role(words: Sequence[str]) -> str:
    mode = value_of(words, "--forward-mode")
    return {"rxonly": CONSUMES, "txonly": SENDS, "flowgen": SENDS}.get(mode or "", FORWARDS)


TESTPMD = App(
    name="testpmd",
    summary="DPDK's dpdk-testpmd (Debian's binary), forwarding with MAC addresses swapped",
    stresses="I/O: descriptors, DMA, PCIe, the LLC; headers are read",
    line=lambda s: testpmd_line(s, "macswap"),
    archives=("dpdk",),
    memory=buffers_mib,
    role=_testpmd_role,
    queues=True,
    interactive="--interactive",
    stop_input="stop\nshow port stats all\nshow port xstats all\nquit",
    options=(
        ("--forward-mode=MODE", "macswap, io, mac, csum, 5tswap, icmpecho, rxonly, txonly and others"),
        ("--burst=N", "packets taken at once (32)"),
        ("--rxd=N, --txd=N", "descriptors of a ring (1024)"),
    ),
    says=r"TX-packets: (\d+)\s+TX-dropped: (\d+)",
    more_interfaces={"qdma": "net_qdma"},
)

# LPM: 2^24 entries of 4 B for each version of IP, and longer prefixes; exact match: four million entries of each.
ROUTES_MIB, EM_ROUTES_MIB = 512, 704
EM_ROUTES_MAX = 65_536


def _queues(s: Setup) -> str:
    """Return which core polls which queue."""
    return ",".join(f"({port},{q},{1 + q % s.workers})" for q in range(s.queues) for port in range(s.ports))


def _by_packet(s: Setup) -> list[str]:
    """Return what the examples have to be told about packets."""
    told = ["--parse-ptype"] if s.interface == "8254x" else []  # whose driver does not tell packets apart
    return [*told, f"--max-pkt-len={s.longest}"] if s.jumbo else told


def _l3fwd(s: Setup) -> str:
    if s.ports > 1 and value_of(s.extra, "--lookup") == "em":
        raise WiretimeError(
            f"--ports {s.ports}: l3fwd's exact matches here lead to port 0: one port, or longest prefixes"
        )
    words = [f"-p {(1 << s.ports) - 1} -P --config='{_queues(s)}'"]
    words += [f"--eth-dest={port},{GENERATOR}" for port in range(s.ports)]
    words += ["--rule_ipv4=/routes4 --rule_ipv6=/routes6", *_by_packet(s)]
    # It has a transmit queue for every lcore that it knows of: the system's core is not among them.
    return f"dpdk-l3fwd {s.eal_on(1, s.workers)} -- {' '.join(words)} --rx-queue-size={RING} --tx-queue-size={RING}"


def _routes(s: Setup) -> Mapping[str, str]:
    """Return routes back to the generator: by prefix, or one for each flow; of several ports, each to the next."""
    if s.ports > 1:
        networks = "".join(f"R198.18.{port}.0/24 {(port + 1) % s.ports}\n" for port in range(s.ports))
        return {"routes4": networks, "routes6": "R2001:0002:0000::/48 0\n"}
    if value_of(s.extra, "--lookup") != "em":
        return {"routes4": "R10.0.0.0/8 0\n", "routes6": "R2001:0002:0000::/48 0\n"}
    flows = s.load["flows"]
    if flows["count"] > EM_ROUTES_MAX:
        raise WiretimeError(f"--flows {flows['count']}: exact match takes 1 to {EM_ROUTES_MAX}, a route for each")
    routes: dict[int, list[str]] = {4: [], 6: []}
    for flow in range(flows["count"]):
        for version, target in ((4, "10.0.0.2"), (6, "2001:2:0:1::2")):
            source, port = flow_address(flow, flows["vary"], version)
            routes[version].append(f"R{target} {source} 8192 {port} 0x11 0\n")
    return {"routes4": "".join(routes[4]), "routes6": "".join(routes[6])}


L3FWD = App(
    name="l3fwd",
    summary="DPDK's l3fwd example (built unchanged from Debian's DPDK sources), routing to the generator",
    stresses="I/O, and a lookup per packet: LPM or hash table",
    line=_l3fwd,
    archives=("dpdk", "l3fwd"),
    memory=lambda s: EM_ROUTES_MIB if value_of(s.extra, "--lookup") == "em" else ROUTES_MIB,
    texts=_routes,
    queues=True,
    routes_between_ports=True,
    stop="signal",
    ring="--rx-queue-size",
    options=(
        ("--lookup=lpm|em|fib", "longest prefix (default), exact match with a route for each flow, or FIB"),
        ("--rx-burst=N, --tx-burst=N", "packets taken or sent at once (32)"),
    ),
)


def _l3fwd_power(s: Setup) -> str:
    words = [f"-p {(1 << s.ports) - 1} -P --config='{_queues(s)}' --interrupt-only", *_by_packet(s)]
    return f"dpdk-l3fwd-power {s.eal_on(1, s.workers)} -- {' '.join(words)}"


L3FWD_POWER = App(
    name="l3fwd-power",
    summary="DPDK's l3fwd-power example (built unchanged): sleeps until a packet interrupts it",
    stresses="interrupts to user space, idle cores, and a lookup per packet",
    line=_l3fwd_power,
    archives=("dpdk", "l3fwd-power"),
    memory=lambda _: ROUTES_MIB,
    # Of Intel's NICs a program gets interrupts of queues by VFIO only, which this kernel has behind an IOMMU only.
    interfaces=MLX5,
    queues=True,
    # Of a thousand descriptors, and no option of its command line.
    ring="",
    stop="signal",
    rate="1Mbps",
)

Options = tuple[tuple[str, str], ...]
COMMON: Options = (
    ("--rxd=N, --txd=N", "descriptors of a ring (1024)"),
    ("--burst=N", "packets taken at once (32)"),
)


def _own(name: str, summary: str, stresses: str, options: Options = (), **more: Any) -> App:
    """Return one of our own programs (guest/apps), which take the same options."""

    def line(s: Setup) -> str:
        words = [f"--rxq={s.queues}", f"--mbufs={s.mbufs}"]
        if s.jumbo:
            words.append(f"--max-pkt-len={s.longest}")
        if s.store_port != STORE_PORT:
            words.append(f"--port={s.store_port}")
        return f"{name} {s.eal} -- {' '.join(words)}"

    return App(
        name=name,
        summary=summary,
        stresses=stresses,
        line=line,
        archives=("dpdk", "apps"),
        queues=True,
        queues_most=64,
        stop="signal",
        options=(*options, *COMMON),
        **{"memory": buffers_mib, "says": STATISTICS, **more},
    )


TOUCHFWD = _own("touchfwd", "reads every byte of every packet and sends it back", "the core: loads, L1D and L2")

TOUCHDROP = _own(
    "touchdrop",
    "reads every byte of every packet and drops it",
    "the core and the receive path alone",
    role=lambda _: CONSUMES,
)

RXFREE = _own(
    "rxfree",
    "receives packets and gives their buffers back at once, unread",
    "the receive path alone, and the buffer pool",
    (("--free=packet|burst", "one by one by rte_pktmbuf_free (default), or a burst straight into the pool"),),
    role=lambda _: CONSUMES,
)

RXPTX = _own(
    "rxptx",
    "receives a burst, works for a given time, sends the burst",
    "whatever the interval makes of it: from I/O to the core",
    (
        ("--interval=NS", "time of the work (100)"),
        ("--per=packet|burst", "work for each packet (default), or once a burst"),
        (
            "--work=chain|counter|published",
            "dependent instructions, calibrated (default); the counter; or as the gem5 study: NS/10 ticks a burst",
        ),
    ),
)

ITEMS, ITEM_SIZE = 65_536, 2048


def _items_mib(s: Setup) -> int:
    """Return what the store takes: its items, those being replaced, and the table."""

    def number(option: str, default: int) -> int:
        text = value_of(s.extra, option) or ""
        # What is no number the program refuses itself.
        return int(text) if text.isdecimal() else default

    items = number("--items", ITEMS)
    replaced = 4096 * max(4, s.cores)
    return 2 * ceil((items + replaced) * (number("--item-size", ITEM_SIZE) + 192) / (1 << 21)) + 32 * ceil(
        items / ITEMS
    )


MEMCACHED_DPDK = _own(
    "memcached_dpdk",
    "a key-value store that speaks memcached's UDP protocol; values are sent without copying",
    "the core and caches: hashing, comparing, chained buffers",
    (
        ("--items=N", f"items that fit ({ITEMS})"),
        ("--item-size=B", f"longest answer of one key, and 128 beside it ({ITEM_SIZE})"),
    ),
    memory=lambda s: buffers_mib(s) + _items_mib(s),
    role=lambda _: ANSWERS,
    traffic="memcached",
    rate="1Mpps",
    # An answer may be several packets.
    says="",
)

QDMAFWD = _own(
    "qdmafwd",
    "forwards packets of a QDMA (--nic qdma) as testpmd does on Xilinx's poll-mode driver, each queue to itself",
    "I/O: descriptors, completions, the requester interface, PCIe",
    (("--forward-mode=MODE", "io (default), macswap, rxonly"),),
    role=lambda words: CONSUMES if value_of(words, "--forward-mode") == "rxonly" else FORWARDS,
    interfaces=("qdma",),
    sizes=(64, 4096),
)

# What any packets keep busy.
FORWARDERS = (TESTPMD, L3FWD, L3FWD_POWER, TOUCHFWD, TOUCHDROP, RXFREE, RXPTX)
DPDK = (*FORWARDERS, MEMCACHED_DPDK, QDMAFWD)
