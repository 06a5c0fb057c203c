"""An interactive console in the guest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wiretime import runs, vm
from wiretime.setup import guest


def interactive(platform_name: str, changes: Sequence[str]) -> int:
    """Boot to a shell on this terminal; returns QEMU's exit status."""
    request = runs.Request(
        platform=platform_name,
        changes=tuple(changes),
        internals={"start_at": "never", "timing": "blocks", "host_speed": True},
    )
    platform, settings, app, command, *_ = runs.check(request)
    g = runs.guest(app, platform, replace(command, text="true"))
    machine = vm.Machine(
        platform,
        settings,
        replace(g, settings={**g.settings, "SHELL_WANTED": "1"}, archives=tuple(guest.recipe()["archives"])[1:]),
        interactive=True,
    )
    try:
        with machine.started(terminal=True) as process:
            return process.wait()
    finally:
        machine.close()
