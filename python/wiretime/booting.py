"""The state that a run goes on from: its guest, booted, with its devices ready.

Who needs one that nobody has made, makes it: first the kernel's, which many share, then the program's, from that.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wiretime import boots, memory, paths, platforms, vm
from wiretime.setup import architecture, store
from wiretime.setup.parts import GUEST, QEMU

# What a kernel's own state runs, in the list of states.
KERNEL = "a kernel, for what is to run"
# What the guest can see of a platform, and of a run, while it boots; its memory, command line and files count besides.
SEEN_OF_PLATFORM = ("system", "slot", "nic", "link")
SEEN_OF_RUN = ("mac", "mapped_doorbells", "start_at")
# What it cannot see even where devices have written to its memory: cores do nothing but execute, and no load has begun.
UNSEEN_OF_PLATFORM = ("name", "description", "core", "l1i", "l1d", "l2")
UNSEEN_OF_RUN = (
    *("trace_file", "until_end", "drop_classes", "warm_up", "duration", "follow", "interval", "profile"),
    *("trace_start", "trace_length", "capture_start", "capture_length"),
)
UNSEEN_OF_LOAD = ("rate", "sizes", "arrivals", "packets")


def booted(
    platform: Mapping[str, Any], run: Mapping[str, Any], guest: vm.Guest, progress: vm.Progress | None = None
) -> boots.Boot | None:
    """Return the state of this guest when its devices are ready, for one run; makes it where nobody has.

    It is made from that of its kernel, which all that need the same of the image and of huge pages share on such
    machines. ``None`` where there can be none. Whoever goes on from it releases it. Raises what ``vm.Machine.run``
    does.
    """
    usual = run["timing"] == "full" and not run["chaos"] and not run["host_speed"]
    # What is behind a TAP may have heard what was sent before devices were ready.
    heard = run["far"] == "tap"
    if not usual or heard or run["start_at"] == "never" or not paths.engine().is_file():
        return None
    boots.limit()  # said before anything takes long
    kernel = {
        "engine": store.known_hash_of(paths.engine()),
        "qemu": QEMU.identity(),
        "guest": GUEST.identity(),
        "started_by": _started_by(),
        "initramfs": store.digest(guest.initramfs),
        "arguments": guest.command_line,
        "seed": run["load"]["seed"],
        "system": platform["system"],
    }
    about = {
        **kernel,
        "command": guest.settings["COMMAND"],
        "own": store.digest(guest.own),
        **{name: platform[name] for name in SEEN_OF_PLATFORM},
        **{name: run[name] for name in SEEN_OF_RUN},
    }
    alone = {
        "platform": _without(platform, UNSEEN_OF_PLATFORM),
        "run": {**_without(run, UNSEEN_OF_RUN), "load": _without(run["load"], UNSEEN_OF_LOAD)},
    }
    # The wire to another host is cut before both start.
    boot = _state(about, alone)
    if boot is None:
        return None
    first = None
    try:
        if not boot.there and not boot.none:
            # What is outside comes when the guest is there.
            run = {**run, "far": "none", "trace_file": None}
            first = _state({**kernel, "command": KERNEL, "functions": platforms.functions(platform)})
            if first is not None and not first.there and not first.none:
                vm.Machine(platform, run, guest, keeps=(first, "kernel")).run(progress)
            if first is not None and not first.there:
                # Nobody waits for what is not to be.
                first.release()
                first = None
            vm.Machine(platform, run, guest, boot=first, keeps=(boot, "ready")).run(progress)
    except BaseException:
        boot.release()
        raise
    finally:
        if first is not None:
            first.release()
    if boot.there:
        return boot
    boot.release()
    return None


def _state(about: Mapping[str, Any], alone: Mapping[str, Any] | None = None) -> boots.Boot | None:
    try:
        return boots.Boot(about, alone)
    except OSError as e:
        print(f"wiretime: boots are not kept: {e.filename}: {e.strerror}", file=sys.stderr)
        return None


@functools.cache
def _started_by() -> str:
    """Return the hash of what puts QEMU's command line and the guest's memory together."""
    return store.digest(*(Path(name).read_bytes() for m in (vm, memory, architecture) if (name := m.__file__)))


def _without(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}
