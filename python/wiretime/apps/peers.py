"""What runs in a second simulated host at the other end of the wire (``--peer host``)."""

from __future__ import annotations

import shlex

from wiretime.apps.dpdk import FORWARDERS, TESTPMD, testpmd_line
from wiretime.apps.kernel import IPERF3, PING, SETTLED, UNTIL_STOPPED, kernel_app, network, pinned
from wiretime.apps.model import GUEST_HOST, SENDS, App, Setup, buffers_mib, mac_of
from wiretime.errors import WiretimeError

FOREVER = 3600


def _client(s: Setup, program: str) -> str:
    """Return a line that starts a client as soon as the wire is whole, and ends it when asked to."""
    return f"{network(s)} && {SETTLED} && wtctl mark 1 && {{ {program} & }} && {UNTIL_STOPPED}"


def _iperf3(s: Setup) -> str:
    c = s.client
    words = ["iperf3", "-c", "10.0.0.2", "-p", str(c["port"]), "-J", "-t", str(FOREVER), "-l", str(c["length"])]
    words += ["-P", str(c["streams"])]
    if c["protocol"] == "udp":
        words += ["-u", "-b", c["rate"].removesuffix("bps")]
    if c["reverse"]:
        words.append("-R")
    return _client(s, pinned(s, shlex.join(words)))


def _flowgen(s: Setup) -> str:
    mac = ":".join(f"{byte:02x}" for byte in mac_of(GUEST_HOST))
    return f"{testpmd_line(s, 'flowgen')} --txpkts={s.longest} --eth-peer=0,{mac}"


IPERF3_CLIENT = kernel_app(
    name="iperf3-client",
    summary="iperf3's client",
    stresses="",
    line=_iperf3,
    archives=("iperf3",),
)

PINGER = kernel_app(
    name="pinger",
    summary="busybox's ping, as fast as it is answered",
    stresses="",
    line=lambda s: _client(s, "ping -q -A -s 18 10.0.0.2"),
)

FLOWGEN = App(
    name="flowgen",
    summary="testpmd as a generator",
    stresses="",
    line=_flowgen,
    archives=TESTPMD.archives,
    memory=buffers_mib,
    role=lambda _: SENDS,
    queues=True,
    stop_input=TESTPMD.stop_input,
)

PEERS = {IPERF3.name: IPERF3_CLIENT, PING.name: PINGER, **{app.name: FLOWGEN for app in FORWARDERS}}


def peer_of(app: App) -> App:
    """Return what another host runs to keep ``app`` busy."""
    if app.name not in PEERS:
        raise WiretimeError(f"--peer host: not with {app.name}; there are clients for {', '.join(PEERS)}")
    return PEERS[app.name]
