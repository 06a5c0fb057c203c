"""Commands around runs: set-up, platforms, applications, micro-benchmarks, a console in the guest."""

from __future__ import annotations

import shlex
import textwrap
import time
from pathlib import Path
from typing import Annotated

import typer

from wiretime import (
    apps,
    boots,
    doctor,
    platforms,
    shell,
)
from wiretime.cli.base import (
    Changes,
    PlatformName,
    app,
    guest_app,
    notes,
    platforms_app,
    screen,
)
from wiretime.errors import WiretimeError
from wiretime.micro import closed_form
from wiretime.micro import guest as micro_guest
from wiretime.setup import added, bundle, program, steps
from wiretime.setup import wheel as wheels
from wiretime.tables import plain

# Characters of a command in a table.
COMMAND_SHOWN = 76


@app.command("setup")
def setup_command(
    update_lock: Annotated[bool, typer.Option(help="Accept what the package archive has now, and record it.")] = False,
    dpdk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SOURCE",
            help="Then build DPDK for the guest's CPU, for runs with --dpdk NAME: from a folder, a tar archive, or "
            "'debian', Debian's source package.",
        ),
    ] = None,
    program_of: Annotated[
        list[str] | None,
        typer.Option(
            "--program",
            metavar="PROGRAM@RELEASE",
            help="Then fetch a program as an older Debian release has it, with its C library: iperf3@bullseye is 3.9, "
            "as RHEL 9 has it.",
        ),
    ] = None,
    driver: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="With --dpdk: a poll-mode driver that is not in DPDK, built with it: its folder, as in drivers/net.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.tar", help="Then write all that a machine without network or compiler needs: unpack, ./run."
        ),
    ] = None,
    release: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.tar.xz", help="Then write sources, engine and extension: no building, but fetching."
        ),
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Then write a wheel with the engine and all else that runs need, for pip."),
    ] = None,
) -> None:
    """Fetch and build what runs need. Does nothing where all is there."""
    drivers = [path.expanduser() for path in driver or ()]
    if drivers and len(dpdk or ()) != 1:
        raise WiretimeError("--driver: with one --dpdk NAME=SOURCE, which it is built with")
    builds = [build.partition("=") for build in dpdk or ()]
    for name, equals, source in builds:
        if not equals or not source:
            raise WiretimeError(f"--dpdk {name}{equals}: must be NAME=SOURCE")
    added.check(drivers)
    steps.run(notes, update_lock=update_lock)
    for name, _, source in builds:
        steps.build_dpdk(notes, name, source, drivers)
    for name in program_of or ():
        steps.add_program(notes, name, update_lock=update_lock)
    for archive, whole in ((export, True), (release, False)):
        if archive is not None:
            screen.print(f"{archive}: sha256 {bundle.write(archive, whole=whole)}", highlight=False, soft_wrap=True)
    if wheel is not None:
        screen.print(str(wheels.write(wheel)), highlight=False, soft_wrap=True)


@app.command("build")
def build_command(
    folder: Annotated[Path, typer.Argument(help="Folder with a Makefile that takes CC, and DPDK from pkg-config.")],
    words: Annotated[list[str] | None, typer.Argument(help="Targets and variables for make.")] = None,
) -> None:
    """Build a program of yours for the guest, against its own DPDK and C library."""
    program.check(folder)
    if not program.is_there():
        notes.print("headers and libraries of the guest: 180 MB to fetch, once", highlight=False)
    for path in program.make(folder, words or ()):
        screen.print(
            f"wiretime run {shlex.quote(str(path))} --app-args '{{eal}} -- ...'", highlight=False, soft_wrap=True
        )


@app.command("cache")
def cache_command(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all of them that are not in use.")] = False,
) -> None:
    """List the guests whose boot is kept: later runs of the same guest go on from there."""
    if clear:
        gone = boots.prune(0)
        screen.print(f"{gone} removed", highlight=False)
        return
    found = [entry for entry in boots.entries() if entry.machines != "none"]
    total = sum(entry.size for entry in found)
    most = boots.limit()
    table = plain(f"{len(found)} boots, {total >> 20} of at most {most >> 20} MiB, in {boots.folder()}")
    for column in ("state", "MiB", "used", "machines", "runs"):
        table.add_column(column, justify="right" if column == "MiB" else "left")
    for entry in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        runs = textwrap.shorten(entry.command, COMMAND_SHOWN, placeholder=" ...")
        table.add_row(entry.path.name[:12], str(entry.size >> 20), used, entry.machines, runs)
    screen.print(table)


@app.command("doctor")
def doctor_command() -> None:
    """Check this host and say what is missing."""
    raise typer.Exit(doctor.report(screen))


@platforms_app.callback(invoke_without_command=True)
def platforms_command(context: typer.Context) -> None:
    """List the platforms."""
    if context.invoked_subcommand is None:
        for name in platforms.names():
            screen.print(f"{name}  {platforms.load(name)['description']}", highlight=False, soft_wrap=True)
        screen.print(f"cards, by --nic: {', '.join(platforms.card_names())}", highlight=False, soft_wrap=True)


@platforms_app.command("show")
def platforms_show(name: Annotated[str, typer.Argument()] = platforms.DEFAULT) -> None:
    """Print a whole machine, or a card that --nic plugs in, with the source of every value."""
    if name not in platforms.card_names():
        platforms.load(name)
    print(platforms.commented(name), end="")


@platforms_app.command("diff")
def platforms_diff(
    first: Annotated[str, typer.Argument(metavar="A")],
    second: Annotated[str, typer.Argument(metavar="B")],
) -> None:
    """Print the parameters in which two machines differ."""
    screen.print(platforms.difference(first, second))


@app.command("apps")
def apps_command() -> None:
    """List the applications: what they do and stress, and their options (--app-args)."""
    table = plain("applications (--app-args OPTIONS)")
    for column in ("name", "what it is", "what it stresses", "options"):
        table.add_column(column)
    for a in apps.APPS.values():
        options = "\n".join(f"{name}: {meaning}" for name, meaning in a.options)
        stack = "the kernel's stack" if a.kernel else "DPDK"
        table.add_row(a.name, f"{a.summary} [{stack}]", a.stresses, options)
        table.add_section()
    screen.print(table, markup=False)


@app.command("micro")
def micro_command(
    platform: PlatformName = platforms.DEFAULT,
    changes: Changes = None,
) -> None:
    """Measure a machine by micro-benchmarks in the guest, beside what its parameters say by formula."""
    all_changes = [*closed_form.PLAIN, *(changes or [])]
    wanted = closed_form.expected(micro_guest.machine(platform, all_changes))
    measured = micro_guest.measure(platform, [e.job for e in wanted], all_changes)
    screen.print(closed_form.table(wanted, measured))


@guest_app.command("shell")
def guest_shell(
    platform: PlatformName = platforms.DEFAULT,
    changes: Changes = None,
) -> None:
    """Boot the guest to an interactive console (time runs at host speed while it idles)."""
    raise typer.Exit(shell.interactive(platform, changes or []))
