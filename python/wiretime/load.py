"""What the generators send, as texts say it: sizes of packets and how they follow each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import wiretime._native as _native
from wiretime.errors import WiretimeError

LENGTH_MIN, LENGTH_MAX = 64, 9000
# The simple mix of traffic generators, as Ethernet frames; RFC 6985 lets every user define another.
IMIX = ((64, 7), (570, 4), (1518, 1))
WEIGHT_MAX = 10_000
BURST_MAX = 65_536
SIZES = "a size, sizes (64,128), a mix with weights (64:7,570:4,1518:1), a range (64-1518), or imix"
ARRIVALS = "constant, poisson, burst:N, on-off:TIME, ramp:PERCENT:TIME"

Sizes = dict[str, Any]


def _number(option: str, text: str, what: str, low: int, high: int) -> int:
    if not text.isdigit() or not low <= int(text) <= high:
        raise WiretimeError(f"{option}: {what} {text!r} must be a whole number from {low} to {high}")
    return int(text)


def sizes(text: str | int) -> Sizes:
    """Return the packet sizes that a text names."""
    option = f"--packet-size {text}"

    def length(part: str) -> int:
        if not part.isdigit():
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
