"""What is at the far end of the wire, where it is outside: a second simulated host, or a TAP of this machine."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import struct
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wiretime import vm
from wiretime.errors import GuestError, WiretimeError

# linux/if_tun.h
TUN_DEVICE = "/dev/net/tun"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
NAME_MAX = 15
# This machine in the guest's network. A prefix as short as the guest's would take more of this machine's routes.
ADDRESS = "10.0.0.1/24"


def pair() -> tuple[int, int]:
    """Return the two ends of a wire between simulators."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return one.detach(), other.detach()


def both(
    first: vm.Machine, second: vm.Machine, progress: vm.Progress | None, options: Mapping[str, Any]
) -> tuple[vm.Outcome, vm.Outcome]:
    """Run two hosts on one wire to the end.

    Where one fails, the other is ended; what is raised is the failure of the one that went first.
    """

    def run(machine: vm.Machine, *arguments: Any, **named: Any) -> vm.Outcome:
        try:
            return machine.run(*arguments, **named)
        except GuestError as e:
            raise GuestError(f"the other host: {e}" if machine is second else str(e), e.console) from None

    with ThreadPoolExecutor(2) as pool:
        there = pool.submit(run, second)
        here = pool.submit(run, first, progress, **options)
        try:
            problems = [e for e in (there.exception(), here.exception()) if e is not None]
        except BaseException:
            first.kill()
            second.kill()
            raise
    # "The other host ended" says the one that did not.
    problems.sort(key=lambda e: isinstance(e, GuestError) and ENDED in str(e))
    if problems:
        raise problems[0]
    return here.result(), there.result()


ENDED = "ended before the measurement was over"


def _ip(*words: str) -> None:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise WiretimeError("--tap: the program `ip` is missing (Debian's package iproute2)") from None
    if done.returncode != 0:
        raise WiretimeError(f"--tap: ip {' '.join(words)}: {done.stderr.strip()}")


def open_tap(name: str) -> int:
    """Return a descriptor of the TAP of that name, made and given an address where there is none yet."""
    if not re.fullmatch(rf"[A-Za-z0-9_.-]{{1,{NAME_MAX}}}", name) or name in (".", ".."):
        raise WiretimeError(f"--tap {name}: must be 1 to {NAME_MAX} letters, digits, and . - _")
    known = Path(f"/sys/class/net/{name}").exists()
    try:
        fd = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK)
    except OSError as e:
        raise WiretimeError(f"--tap: {TUN_DEVICE}: {e.strerror}") from None
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        if not known:
            _ip("addr", "add", ADDRESS, "dev", name)
            _ip("link", "set", name, "up")
    except OSError as e:
        os.close(fd)
        how = f"; as root once: ip tuntap add {name} mode tap user $USER, ip addr add {ADDRESS} dev {name}"
        raise WiretimeError(f"--tap {name}: {e.strerror}{how}, ip link set {name} up") from None
    except WiretimeError:
        os.close(fd)
        raise
    return fd
