"""What the generators send, as texts say it: sizes of packets, rates, how packets follow each other, flows, clients."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import wiretime._native as _native
from wiretime.errors import WiretimeError, unknown

LENGTH_MIN, LENGTH_MAX = 64, 9000
# The simple mix of traffic generators, as Ethernet frames; RFC 6985 lets every user define another.
IMIX = ((64, 7), (570, 4), (1518, 1))
WEIGHT_MAX = 10_000
BURST_MAX = 65_536
SIZES = "a size, sizes (64,128), a mix with weights (64:7,570:4,1518:1), a range (64-1518), or imix"
RATES = "bits a second (40Gbps), packets a second (10Mpps), or a share of the line (50%)"
SPREADS = "round-robin, uniform, zipf:EXPONENT"
VARY = ("ports", "addresses", "both")
FLOWS_MAX, ZIPF_FLOWS_MAX, CLIENTS_MAX, KEY_MAX = 1 << 24, 1 << 20, 1 << 20, 16
PROBE = 18
# Where a payload starts, by version of the internet protocol.
PAYLOAD = {4: 42, 6: 62}
ARRIVALS = "constant, poisson, burst:N, on-off:TIME, ramp:PERCENT:TIME"

Sizes = dict[str, Any]


def _number(option: str, text: str, what: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
        raise WiretimeError(f"{option}: {what} {text!r} must be a whole number from {low} to {high}")
    return int(text)


def sizes(text: str | int) -> Sizes:
    """Return the packet sizes that a text names."""
    option = f"--packet-size {text}"

    def length(part: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", part):
            raise WiretimeError(f"{option}: must be {SIZES}")
        if not LENGTH_MIN <= int(part) <= LENGTH_MAX:
            raise WiretimeError(f"{option}: allowed are {LENGTH_MIN} to {LENGTH_MAX} B, FCS included")
        return int(part)

    text = str(text).strip()
    if text == "imix":
        return {"kind": "mix", "parts": [list(part) for part in IMIX]}
    if "," in text or ":" in text:
        parts = []
        for part in text.split(","):
            size, colon, weight = part.partition(":")
            parts.append([length(size), _number(option, weight, "weight", 1, WEIGHT_MAX) if colon else 1])
        return {"kind": "mix", "parts": parts}
    if "-" in text:
        low, high = (length(part) for part in text.split("-", 1))
        if low > high:
            raise WiretimeError(f"{option}: from {low} to {high} B is no range")
        return {"kind": "uniform", "from": low, "to": high}
    return {"kind": "fixed", "size": length(text)}


def extent(s: Sizes) -> tuple[int, int]:
    """Return the shortest and the longest size."""
    if s["kind"] == "mix":
        return min(p[0] for p in s["parts"]), max(p[0] for p in s["parts"])
    if s["kind"] == "uniform":
        return s["from"], s["to"]
    return s["size"], s["size"]


def describe(s: Mapping[str, Any]) -> str:
    """Return sizes as a person reads them."""
    if s["kind"] == "mix":
        if [tuple(p) for p in s["parts"]] == list(IMIX):
            return "IMIX"
        return " + ".join(f"{weight} x {size}" if weight > 1 else f"{size}" for size, weight in s["parts"]) + " B"
    if s["kind"] == "uniform":
        return f"{s['from']} to {s['to']} B"
    return f"{s['size']} B"


def arrivals(text: str) -> dict[str, Any]:
    """Return the arrival process that a text names."""
    kind, *values = text.split(":")
    option = f"--arrivals {text}"

    def duration(part: str) -> str:
        try:
            ps = _native.parse_duration(part)
        except ValueError as e:
            raise WiretimeError(f"{option}: {e}") from None
        if ps == 0:
            raise WiretimeError(f"{option}: the time must be above zero")
        return part

    forms: dict[tuple[str, int], Callable[[], dict[str, Any]]] = {
        ("constant", 0): lambda: {"kind": "constant"},
        ("poisson", 0): lambda: {"kind": "poisson"},
        ("burst", 1): lambda: {"kind": "burst", "size": _number(option, values[0], "packets", 1, BURST_MAX)},
        ("on-off", 1): lambda: {"kind": "on-off", "on": duration(values[0])},
        ("ramp", 2): lambda: {
            "kind": "ramp",
            "from_percent": _number(option, values[0].removesuffix("%"), "percent", 0, 100),
            "over": duration(values[1]),
        },
    }
    if (kind, len(values)) not in forms:
        raise WiretimeError(f"{option}: allowed are {ARRIVALS}")
    return forms[kind, len(values)]()


def mean(s: Mapping[str, Any]) -> Fraction:
    """Return the mean length in bytes."""
    if s["kind"] == "mix":
        return Fraction(sum(size * weight for size, weight in s["parts"]), sum(weight for _, weight in s["parts"]))
    low, high = extent(dict(s))
    return Fraction(low + high, 2)


def carried(link: Mapping[str, Any], length: Fraction) -> Fraction:
    """Return the bits of frames a second that a link carries at a mean length."""
    return Fraction(_native.parse_rate(link["rate"])) * length / (length + int(link["gap_bytes"]))


def rate(option: str, text: str, link: Mapping[str, Any], length: Fraction) -> int:
    """Return the bits of frames a second that a text names, for frames of a mean length.

    Bits a second may exceed what the line carries: packets then leave back to back. Packets a second may not.
    """
    line = _native.parse_rate(link["rate"])
    most = carried(link, length)
    packets = float(most / 8 / length)
    says = f"{float(most) / 1e9:.2f} Gb/s of frames, {packets / 1e6:.2f} Mpps, at {float(length):g} B"
    number = text.strip()
    try:
        if number.endswith("%"):
            text_share = number.removesuffix("%").strip()
            if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text_share):
                raise ValueError(f"share {text_share!r} must be a decimal number")
            share = Fraction(text_share)
            if not 0 < share <= 100:
                raise WiretimeError(f"{option} {text}: allowed are above 0 to 100 % of the line ({says})")
            return max(1, int(most * share / 100))
        if number.endswith("pps"):
            bits = _native.parse_rate(number.removesuffix("pps") + "bps") * length * 8
            if bits > most:
                raise WiretimeError(f"{option} {text}: the line carries {says}")
            return int(bits)
        bits_a_second = _native.parse_rate(number)
    except ValueError as e:
        raise WiretimeError(f"{option}: {e} (also packets a second, 10Mpps, or a share of the line, 50%)") from None
    if bits_a_second > line:
        raise WiretimeError(
            f"{option} {text}: above the link's {link['rate']} (--set link.rate={text}), which carries {says}"
        )
    return bits_a_second


def flows(count: int, spread: str, vary: str) -> dict[str, Any]:
    """Return flows: how many, their shares of the packets, and what distinguishes them."""
    if not 1 <= count <= FLOWS_MAX:
        raise WiretimeError(f"--flows {count}: allowed are 1 to {FLOWS_MAX}")
    if vary not in VARY:
        raise unknown("flow field", vary, VARY)
    kind, _, value = spread.partition(":")
    found: dict[str, Any] = {"kind": kind}
    if kind == "zipf":
        try:
            found["exponent"] = float(value)
        except ValueError:
            raise WiretimeError(f"--flow-spread {spread}: exponent {value!r} must be a number") from None
        if not 0 < found["exponent"] <= 10:
            raise WiretimeError(f"--flow-spread {spread}: allowed are exponents above 0 to 10")
        if count > ZIPF_FLOWS_MAX:
            raise WiretimeError(f"--flows {count}: allowed with zipf are 1 to {ZIPF_FLOWS_MAX}")
    elif kind not in ("round-robin", "uniform") or value:
        raise WiretimeError(f"--flow-spread {spread}: allowed are {SPREADS}")
    return {"count": count, "spread": found, "vary": vary}


def clients(count: int, think: str, timeout: str) -> dict[str, Any]:
    """Return clients of a closed loop."""
    if not 1 <= count <= CLIENTS_MAX:
        raise WiretimeError(f"--clients {count}: allowed are 1 to {CLIENTS_MAX}")
    head, colon, value = think.partition(":")
    time = value if colon else think
    if colon and head != "exponential":
        raise WiretimeError(f"--think {think}: must be a time, or exponential:TIME")
    for option, text in (("--think", time), ("--timeout", timeout)):
        try:
            ps = _native.parse_duration(text)
        except ValueError as e:
            raise WiretimeError(f"{option}: {e}") from None
        if option == "--timeout" and ps == 0:
            raise WiretimeError("--timeout: must be above zero")
    return {"clients": count, "think": time, "exponential": bool(colon), "timeout": timeout}


def shortest(offset: int | None, internet: int) -> int:
    """Return the length of the shortest frame that has room for the probe."""
    return max(LENGTH_MIN, (PAYLOAD[internet] if offset is None else offset) + PROBE + 4)


def probe(offset: int | None, internet: int, shortest: int) -> int:
    """Return where the probe is in a packet."""
    first = PAYLOAD[internet]
    last = shortest - 4 - PROBE
    if last < first:
        raise WiretimeError(
            f"--packet-size {shortest}: a probe in UDP over IPv{internet} needs {first + PROBE + 4} B and more"
        )
    if offset is None:
        return first
    if not first <= offset <= last:
        raise WiretimeError(f"--timestamp-offset {offset}: allowed are {first} to {last} at {shortest} B")
    return offset


def what(run: Mapping[str, Any], pulled: bool = False) -> str:
    """Return a run's load as a person reads it; ``pulled``: the NIC makes its packets itself."""
    asked = run["load"]
    if run["far"] != "none":
        return {"host": "against another host", "tap": "joined to a TAP"}[run["far"]]
    if asked["play"] is not None:
        return "a trace" + (f" at {asked['rate']}" if asked["play"]["clock"]["kind"] == "rate" else "")
    if asked["clients"] is not None:
        return f"{describe(asked['sizes'])} from {asked['clients']['clients']} clients"
    if asked["packets"] == 0:
        return "as fast as the program sends"
    if pulled:
        return f"{describe(asked['sizes'])} as fast as its own generator sends"
    bits = _native.parse_rate(asked["rate"])
    if asked["iperf"] is not None:
        i = asked["iperf"]
        way = "from the guest" if i["reverse"] else "to the guest"
        return f"iperf3 over {i['protocol'].upper()} {way}, {i['streams']} stream{'s'[: i['streams'] > 1]}"
    if asked["store"] is not None:
        return f"{bits / 8 / LENGTH_MIN / 1e3:g} thousand requests a second"
    unit, name = (1e9, "Gb/s") if bits >= 10**8 else (1e6, "Mb/s")
    return f"{describe(asked['sizes'])} at {bits / unit:g} {name}"


def rate_text(bits: float) -> str:
    """Return bits a second in the largest unit that keeps a figure of some digits."""
    return _scaled(bits, ((1e8, 1e9, "Gb/s"), (1e5, 1e6, "Mb/s"), (0, 1e3, "kb/s")))


def packets_text(packets: float) -> str:
    """Return packets a second in such a unit."""
    return _scaled(packets, ((1e5, 1e6, "Mpps"), (0, 1e3, "kpps")))


def _scaled(value: float, units: Sequence[tuple[float, float, str]]) -> str:
    # Nothing is nothing of the usual unit.
    unit, name = next(((unit, name) for least, unit, name in units if value >= least or not value), units[0][1:])
    return f"{value / unit:.2f} {name}"


def time_text(text: str) -> str:
    """Return a duration in the largest unit that keeps it above 1."""
    ps = _native.parse_duration(text)
    unit, name = next(((u, n) for u, n in ((10**12, "s"), (10**9, "ms"), (10**6, "us")) if ps >= u), (10**3, "ns"))
    return f"{ps / unit:.6g} {name}"


# Source addresses and ports of flows: the generator's arithmetic (crates/hw/src/wire/frames.rs).
FIRST_PORT, PORTS, TARGET = 0x1000, 0xE000, 2


def flow_address(flow: int, vary: str, version: int) -> tuple[str, int]:
    """Return a flow's source address and UDP port."""
    host, port = {"ports": divmod(flow, PORTS), "addresses": (flow, 0), "both": (flow, flow % PORTS)}[vary]
    host += 2 if host + 1 >= TARGET else 1
    address = (
        ipaddress.IPv4Address((10 << 24) + host) if version == 4 else ipaddress.IPv6Address((0x20010002 << 96) + host)
    )
    return str(address), FIRST_PORT + port


# Where stores and iperf3 listen unless they are told otherwise.
STORE_PORT, IPERF3_PORT = 11211, 5201
# What clients of a key-value store do unless told otherwise: the gem5 study's workload.
STORE: dict[str, str] = {
    "keys": "5000",
    "requests": "10000",
    "key": "10-100",
    "value": "10-100",
    "skew": "0.5",
    "popularity": "0",
    "gets": "80",
    "port": str(STORE_PORT),
}


def _named(option: str, texts: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return what NAME=VALUE texts say, over defaults."""
    given = dict(defaults)
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in defaults or not equals:
            raise WiretimeError(f"{option} {text}: must be NAME=VALUE; names are {', '.join(defaults)}")
        given[name] = value
    return given


# What an iperf3 client does unless told otherwise. The rate is UDP's, of payload; the length a datagram's or a write's.
IPERF: dict[str, str] = {
    "protocol": "tcp",
    "reverse": "no",
    "streams": "1",
    "length": "",
    "rate": "1Gbps",
    "window": "",
    "coalesce": "",
    "port": str(IPERF3_PORT),
}
# From the guest: beyond what the line holds.
WINDOW = "4MiB"
# A sender whose acknowledgements are taken late sends in bursts; a receiver takes segments together.
COALESCE = {"no": "0ns", "yes": "10us"}
LENGTHS = {"tcp": "131072", "udp": "1448"}


def _window(platform: Mapping[str, Any]) -> str:
    """Return a window to the guest: half of the NIC's FIFO and what the line holds, but no more than fits the FIFO."""
    link = platform["link"][0]
    bits = _native.parse_rate(link["rate"]) * 2 * _native.parse_duration(link["latency"]) // 10**12
    half = _native.parse_size(platform["nic"][0]["rx_fifo"]) // 2
    return f"{(half + min(bits // 8, half)) >> 10}KiB"


def iperf(texts: Sequence[str], platform: Mapping[str, Any], *, ours: bool = True) -> dict[str, Any]:
    """Return what an iperf3 client does: ours, or iperf3 itself on another host."""
    given = _named("--iperf", texts, IPERF)
    named = {text.partition("=")[0] for text in texts}
    if not ours and (theirs := named & {"window", "coalesce"}):
        raise WiretimeError(f"--iperf {min(theirs)}: not with --peer host, whose own TCP sets it")
    if given["rate"] != IPERF["rate"] and given["protocol"] == "tcp":
        raise WiretimeError(f"--iperf rate={given['rate']}: of UDP; TCP sends what it can")
    for name, allowed in (("protocol", LENGTHS), ("reverse", ("no", "yes"))):
        if given[name] not in allowed:
            raise WiretimeError(f"--iperf {name}={given[name]}: allowed are {', '.join(allowed)}")
    given["coalesce"] = given["coalesce"] or COALESCE[given["reverse"]]
    given["window"] = given["window"] or (WINDOW if given["reverse"] == "yes" else _window(platform))
    given["length"] = given["length"] or LENGTHS[given["protocol"]]

    def whole(name: str, low: int, high: int) -> int:
        return _number(f"--iperf {name}={given[name]}", given[name], name, low, high)

    for name, parse in (
        ("rate", _native.parse_rate),
        ("window", _native.parse_size),
        ("coalesce", _native.parse_duration),
    ):
        try:
            parse(given[name])
        except ValueError as e:
            raise WiretimeError(f"--iperf {name}={given[name]}: {e}") from None
    if given["protocol"] == "udp" and given["streams"] != "1":
        raise WiretimeError(f"--iperf streams={given['streams']}: over UDP one")
    return {
        "protocol": given["protocol"],
        "reverse": given["reverse"] == "yes",
        "streams": whole("streams", 1, 64),
        "length": whole("length", 16, 1472 if given["protocol"] == "udp" else 1 << 20),
        "rate": given["rate"],
        "window": given["window"],
        "coalesce": given["coalesce"],
        "port": whole("port", 1, 65535),
    }


def store(texts: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return what clients of a key-value store ask for, and how many requests follow once all keys are set."""
    given = _named("--store", texts, STORE)

    def option(name: str) -> str:
        return f"--store {name}={given[name]}"

    def whole(name: str, low: int, high: int) -> int:
        return _number(option(name), given[name], name, low, high)

    def extent_of(name: str, most: int) -> list[int]:
        low, dash, high = given[name].partition("-")
        pair = [_number(option(name), part, "length", 8, most) for part in (low, high if dash else low)]
        if pair[0] > pair[1]:
            raise WiretimeError(f"{option(name)}: from {pair[0]} to {pair[1]} B is no range")
        return pair

    def skew(name: str) -> float:
        if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,6})?", given[name]) or float(given[name]) > 10:
            raise WiretimeError(f"{option(name)}: must be a number from 0 to 10")
        return float(given[name])

    asked = {
        "keys": whole("keys", 1, 1 << 20),
        "key_length": extent_of("key", 250),
        "value_length": extent_of("value", 1000),
        "length_skew": skew("skew"),
        "key_skew": skew("popularity"),
        "get_percent": whole("gets", 0, 100),
        "port": whole("port", 1, 65535),
    }
    return asked, whole("requests", 1, 10**9)
