"""What the far end of the wire sends in a run: one function for each kind of load.

Each checks that the options it is given mean something, and returns what the engine is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import wiretime._native as _native
from wiretime import apps, load, platforms, replay
from wiretime.errors import WiretimeError, unknown
from wiretime.request import Request, option_of

FLOWS = 1024
RATE, DURATION, WARM_UP = "40Gbps", "2ms", "500us"
# A connection's start, and what is measured.
CONNECTION_TIME = "20ms"
# memcached's request number, behind the headers of IPv4 and UDP.
REQUEST_ID = {"by": "key", "offset": 42, "length": 2}
PEERS = ("generator", "host")


class Offered(NamedTuple):
    """A load, the trace that it comes from, the lengths of warm-up and measurement, and what is at the far end."""

    load: dict[str, Any]
    trace: replay.Trace | None
    warm_up: str
    duration: str
    far: str = "none"


def _unless_default(r: Request, field: str, why: str) -> None:
    """Raise where a field was set that has no meaning here."""
    if str(getattr(r, field)) != str(getattr(Request, field)):
        raise WiretimeError(f"{option_of(field)}: {why}")


def _combinations(r: Request, app: apps.App) -> None:
    """Raise where an option would be ignored."""
    outside = "what is outside sends what it likes"
    packets = ("packet_size", "flows", "flow_spread", "flow_vary", "internet")
    paced = ("rate", "arrivals", "clients", "replay", "timestamp_offset")
    rules: list[tuple[bool, Sequence[str], str]] = [
        (r.replay is None, ("speed", "loops", "lenient"), "only with --replay"),
        (r.replay is not None, packets, "not with --replay, whose packets are what they are"),
        (r.replay is not None, ("clients",), "not with --replay"),
        (r.replay is not None, ("timestamp_offset",), "not with --replay, whose bytes stay as they are"),
        (r.replay is not None and r.rate is None, ("arrivals",), "with --replay only at a --rate"),
        (r.replay is not None and r.rate is not None, ("speed",), "not with --rate, which replaces the trace's clock"),
        (r.clients is None, ("think", "timeout"), "only with --clients"),
        (r.clients is not None, ("rate",), "not with --clients, who send as fast as they are answered"),
        (
            r.clients is not None,
            ("arrivals", "flows", "flow_spread"),
            "not with --clients: each is a flow, and sends when it is answered",
        ),
        (
            r.peer == "host",
            (*paced, "flows", "flow_spread", "flow_vary", "internet"),
            f"not with --peer host: {outside}",
        ),
        (r.tap is not None, (*paced, *packets), f"not with --tap: {outside}"),
        (
            app.traffic == "iperf" and r.peer != "host",
            (*paced, *packets),
            "not with iperf3, whose client has its own (--iperf)",
        ),
    ]
    for name in ("rate", "duration", "warm_up", "think", "timeout"):
        if getattr(r, name) == "":
            raise WiretimeError(f"{option_of(name)}: is empty")
    for applies, fields, why in rules:
        for name in fields if applies else ():
            _unless_default(r, name, why)
    if r.store and (app.traffic != "memcached" or r.replay is not None):
        raise WiretimeError(
            f"--store: {app.name} is no key-value store" if r.replay is None else "--store: not with --replay"
        )
    if r.iperf and app.traffic != "iperf":
        raise WiretimeError(f"--iperf: {app.name} is no iperf3 server")
    if r.internet not in load.PAYLOAD:
        raise WiretimeError(f"--ip {r.internet}: allowed are 4 and 6")
    if r.peer not in PEERS:
        raise unknown("peer", r.peer, PEERS)


def _recognition(r: Request, app: apps.App, usual: str) -> dict[str, Any]:
    """Return how answers are told from each other."""
    if r.key is None:
        return REQUEST_ID if app.traffic == "memcached" and r.tap is None else {"by": usual}
    if r.replay is None:
        raise WiretimeError("--key: only of a trace's packets (--replay); others carry a probe")
    offset, _, length = r.key.partition(":")
    if not (re.fullmatch(r"[0-9]{1,4}:[0-9]{1,2}", r.key) and 1 <= int(length) <= load.KEY_MAX and int(offset) <= 9000):
        raise WiretimeError(f"--key {r.key}: must be OFFSET:LENGTH in bytes of the frame, of 1 to {load.KEY_MAX}")
    return {"by": "key", "offset": int(offset), "length": int(length)}


class _Asked:
    """What all kinds of load are made from."""

    def __init__(self, r: Request, app: apps.App, platform: Mapping[str, Any], queues: int):
        self.r, self.app, self.platform, self.queues = r, app, platform, queues
        self.link = platform["link"][0]

    def times(self, warm_up: str, duration: str) -> tuple[str, str]:
        """Return the lengths of warm-up and measurement, unless the user says otherwise."""
        return self.r.warm_up or warm_up, self.r.duration or duration

    def make(self, usual: str = "probe", **about: Any) -> dict[str, Any]:
        """Return a load of packets, but for what is ``about`` it."""
        r = self.r
        sizes = about.pop("sizes", None) or load.sizes(r.packet_size)
        # Enough flows for every entry of an indirection table to be hit.
        flows = r.flows if r.flows is not None else (1 if self.queues == 1 else FLOWS)
        return {
            "traffic": "udp",
            "internet": f"v{r.internet}",
            "networks": self.app.routes_between_ports and platforms.ports(self.platform) > 1,
            "sizes": sizes,
            "rate": self.link["rate"],
            "arrivals": load.arrivals(r.arrivals),
            "flows": load.flows(flows, r.flow_spread, self.vary()),
            "recognition": _recognition(r, self.app, usual),
            "timestamp_offset": load.probe(r.timestamp_offset, r.internet, load.extent(sizes)[0]),
            "packets": None,
            "clients": None,
            "play": None,
            "store": None,
            "iperf": None,
            "far": False,
            "seed": r.seed,
            **about,
        }

    def vary(self) -> str:
        """Return what tells flows apart: of several queues, whatever the program asks RSS to hash."""
        return self.r.flow_vary or ("ports" if self.queues == 1 else "both")

    def rate(self, sizes: load.Sizes) -> str:
        """Return the rate of packets of these sizes: as the user wrote it where that says all."""
        text = self.r.rate or self.app.rate
        bits = load.rate("--rate", text, self.link, load.mean(sizes))
        return text if text.endswith("bps") else f"{bits}bps"

    def pace(self, sizes: load.Sizes) -> dict[str, Any]:
        """Return who decides when packets leave: a rate, or clients of a closed loop, each of whom is a flow."""
        r = self.r
        if r.clients is None:
            return {"rate": self.rate(sizes)}
        asked = load.clients(r.clients, r.think, r.timeout)
        return {"clients": asked, "flows": load.flows(r.clients, "round-robin", self.vary())}


def _outside(a: _Asked) -> Offered:
    """Frames come from outside."""
    far = "tap" if a.r.tap is not None else "host"
    times = a.times(CONNECTION_TIME, CONNECTION_TIME) if a.app.kernel else a.times(WARM_UP, DURATION)
    return Offered(a.make("buffer", far=True), None, *times, far)


def _trace(a: _Asked) -> Offered:
    """Packets come from a trace."""
    r = a.r
    assert r.replay is not None
    found, odd = replay.look(r.replay, r.lenient)
    rate = None
    if r.rate is not None:
        rate = load.rate("--rate", r.rate, a.link, Fraction(found["bytes"], found["packets"]))
    trace = replay.check(r.replay, found, odd, r.speed, rate, r.loops, r.duration is not None)
    if r.loops == 0 and r.duration is None:
        raise WiretimeError("--loops 0: a trace without end needs --duration")
    if (
        trace.expected_ps
        and r.duration is None
        and r.warm_up
        and _native.parse_duration(r.warm_up) >= trace.expected_ps
    ):
        raise WiretimeError(f"--warmup {r.warm_up}: the trace is over in {trace.expected_ps / 1e6:g} us")
    text = (
        r.rate if r.rate is not None and r.rate.endswith("bps") else f"{rate or _native.parse_rate(a.link['rate'])}bps"
    )
    # Before the trace starts, small packets find out whether the program polls.
    traffic = a.app.traffic if a.app.traffic == "ping" else "udp"
    asked = a.make("buffer", traffic=traffic, sizes=load.sizes(load.LENGTH_MIN), rate=text, play=trace.play)
    return Offered(asked, trace, *a.times("0ns", f"{trace.expected_ps}ps"))


def _iperf(a: _Asked) -> Offered:
    """Have an iperf3 client over a TCP of its own send."""
    asked = a.make(traffic="iperf", rate=a.app.rate, iperf=load.iperf(a.r.iperf, a.platform))
    return Offered(asked, None, *a.times(CONNECTION_TIME, CONNECTION_TIME))


def _store(a: _Asked) -> Offered:
    """Clients of a key-value store: its keys are the warm-up, its requests the measurement."""
    r = a.r
    if r.internet != 4:
        raise WiretimeError(f"--ip: not with {a.app.name}, whose clients speak IPv4")
    if r.rate is not None and r.rate.endswith("bps"):
        raise WiretimeError(f"--rate {r.rate}: of {a.app.name} in requests a second (500kpps)")
    if str(r.packet_size) != str(load.LENGTH_MIN):
        _unless_default(r, "packet_size", f"not with {a.app.name}, whose requests have lengths of their own")
    sizes = load.sizes(load.LENGTH_MIN)
    store, requests = load.store(r.store)
    asked = a.make(traffic="memcached", sizes=sizes, store=store, **a.pace(sizes))
    if r.clients is not None:
        return Offered(asked, None, *a.times(WARM_UP, DURATION))
    each_ps = Fraction(load.LENGTH_MIN * 8 * 10**12, _native.parse_rate(asked["rate"]))
    if r.duration is None and r.warm_up is None:
        asked["packets"] = store["keys"] + requests
    return Offered(asked, None, *a.times(f"{int(store['keys'] * each_ps)}ps", f"{int(requests * each_ps)}ps"))


def _packets(a: _Asked) -> Offered:
    """Packets made to measure, at a rate or by clients who wait."""
    sizes = load.sizes(a.r.packet_size)
    return Offered(a.make(traffic=a.app.traffic, sizes=sizes, **a.pace(sizes)), None, *a.times(WARM_UP, DURATION))


def of(r: Request, app: apps.App, platform: Mapping[str, Any], queues: int) -> Offered:
    """Return what is sent in a run."""
    _combinations(r, app)
    kinds: list[tuple[bool, Callable[[_Asked], Offered]]] = [
        (r.tap is not None or r.peer == "host", _outside),
        (r.replay is not None, _trace),
        (app.traffic == "iperf", _iperf),
        (app.traffic == "memcached", _store),
        (True, _packets),
    ]
    return next(make for applies, make in kinds if applies)(_Asked(r, app, platform, queues))
