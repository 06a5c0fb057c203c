"""Traces that a load plays: checked before the guest boots."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

import wiretime._native as _native
from wiretime.errors import WiretimeError

ONE = 1_000_000
# Factors of the trace's clock.
SPEED_MIN, SPEED_MAX = 1e-6, 1e9
LOOPS_MAX = 1 << 31
# Simulated time beyond which a run takes hours, and more than there is.
LONG_PS, EVER_PS = 10**11, 10**18


@dataclass(frozen=True)
class Trace:
    """A trace, how it is played, and how long that takes in ps; what is odd about it."""

    path: Path
    summary: dict[str, Any]
    play: dict[str, Any]
    expected_ps: int
    warnings: list[str]


@cache
def _summary(path: Path, size: int, modified: int) -> dict[str, Any]:
    """Return what is in a file, read once while it stays as it is."""
    found: dict[str, Any] = json.loads(_native.capture_summary(str(path)))
    return found


def look(path: Path, lenient: bool) -> tuple[dict[str, Any], list[str]]:
    """Read a trace through; what is in it, and what is odd about it."""
    option = f"--replay {path}"
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode):
            raise WiretimeError(f"{option}: is no regular file, which is read twice")
        found = _summary(path, about.st_size, about.st_mtime_ns)
    except OSError as e:
        raise WiretimeError(f"{option}: {e.strerror or e}") from None
    warnings = []
    if found["problem"]:
        if not lenient:
            hint = "; --lenient plays what can be sent" if found["packets"] else ""
            raise WiretimeError(f"{option}: {found['problem']}{hint}")
        warnings.append(f"replay: {found['problem']}")
    if found["packets"] == 0:
        raise WiretimeError(f"{option}: holds no packet that can be sent")
    if found["skipped"]:
        warnings.append(f"replay: {found['skipped']} packets cannot be sent and are left out")
    if found["cut"]:
        warnings.append(f"replay: of {found['cut']} packets only a part was captured; the rest of them is zeros")
    if found["out_of_order"]:
        warnings.append(
            f"replay: {found['out_of_order']} packets were captured before one in front; they follow it at once"
        )
    return found, warnings


def check(
    path: Path, found: dict[str, Any], warnings: list[str], speed: float, rate: int | None, loops: int, limited: bool
) -> Trace:
    """Say how a trace that was looked at is played: by its own clock, or at ``rate`` bits a second.

    ``limited`` tells that the measurement's length does not follow from the trace's.
    """
    if not SPEED_MIN <= speed <= SPEED_MAX:
        raise WiretimeError(f"--speed {speed:g}: allowed are {SPEED_MIN:g} to {SPEED_MAX:g}")
    if not 0 <= loops <= LOOPS_MAX:
        raise WiretimeError(f"--loops {loops}: allowed are 0 (without end) to {LOOPS_MAX}")
    if rate is None:
        millionths = round(speed * ONE)
        clock: dict[str, Any] = {"kind": "captured", "millionths": millionths}
        expected = found["span_ps"] * ONE // millionths
    else:
        clock = {"kind": "rate"}
        expected = found["bytes"] * 8 * 10**12 // rate
    expected = max(1, expected * max(loops, 1))
    warnings = list(warnings)
    if not limited:
        if expected > EVER_PS:
            raise WiretimeError(
                f"--replay {path}: {loops} times the trace take {expected / 1e12:.0f} s: more than can be simulated"
            )
        if expected > LONG_PS:
            warnings.append(
                f"replay: {expected / 1e12:g} s of simulated time may take hours where packets are many; --duration, "
                "--speed or --rate limit it"
            )
    play = {"clock": clock, "loops": loops, "mean_length": found["bytes"] / found["packets"]}
    return Trace(path, found, play, expected, warnings)
