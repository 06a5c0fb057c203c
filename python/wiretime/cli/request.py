"""What commands ask of a run alike: each option declared once, and a request made of all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from wiretime import apps, load, platforms, runs, software
from wiretime.apps.user import HUGEPAGES_MIB
from wiretime.cli.base import (
    AppArgs,
    Application,
    Changes,
    Cores,
    DropClasses,
    Engine,
    ModelName,
    NicName,
    PlatformName,
    Ports,
    Queues,
    Seed,
)
from wiretime.setup.dpdk import DEBIAN

Command = Callable[..., None]


def request_of(
    application: Application,
    engine: Engine = software.FULL,
    model: ModelName = None,
    platform: PlatformName = platforms.DEFAULT,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    ports: Ports = None,
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
    app_commands: Annotated[
        str | None, typer.Option(help="Commands for the application's prompt, such as 'set fwd macswap retry; start'.")
    ] = None,
    kernel_args: Annotated[
        str, typer.Option(help="Further arguments of the guest's kernel, such as mitigations=off.")
    ] = "",
    ethtool: Annotated[
        str, typer.Option(help="What the kernel's driver is told, such as 'C rx-usecs 8 adaptive-rx off; K gro off'.")
    ] = "",
    dpdk: Annotated[
        str, typer.Option(help="Build of DPDK: Debian's, or one made by `wiretime setup --dpdk NAME=SOURCE`.")
    ] = DEBIAN,
    timestamp_offset: Annotated[
        int | None,
        typer.Option(help="Byte of the frame where its number and time are.", show_default="42; 62 with --ip 6"),
    ] = None,
    guest_limit: Annotated[
        str, typer.Option(help="Longest simulated time for the guest to get ready.")
    ] = runs.GUEST_LIMIT,
    arrivals: Annotated[
        str, typer.Option(help="constant, poisson, burst:N, on-off:TIME, ramp:PERCENT:TIME.")
    ] = "constant",
    flows: Annotated[
        int | None, typer.Option(help="UDP flows of each generator (default 1; 1024 with --queues).")
    ] = None,
    flow_spread: Annotated[str, typer.Option(help=f"Flows' shares of the packets: {load.SPREADS}.")] = "round-robin",
    flow_vary: Annotated[
        str | None,
        typer.Option(
            help="What tells flows apart: ports (and addresses beyond 57344), addresses, or both.",
            show_default="ports; both with --queues",
        ),
    ] = None,
    ip: Annotated[int, typer.Option(help="Version of the internet protocol: 4 or 6.")] = 4,
    files: Annotated[
        list[Path] | None, typer.Option(help="Files that a program of yours needs; they are beside it, in /opt.")
    ] = None,
    role: Annotated[
        str, typer.Option(help="What a program of yours does with packets: forwards, answers, consumes, sends.")
    ] = "forwards",
    kernel: Annotated[
        bool,
        typer.Option("--kernel", help="A program of yours uses the kernel's stack: `wtctl mark 1` when ready."),
    ] = False,
    hugepages: Annotated[int, typer.Option(help="MiB of huge pages for a program of yours.")] = HUGEPAGES_MIB,
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What a key-value store's clients do: keys, requests, key, value, ..."),
    ] = None,
    drop_classes: DropClasses = "wiretime",
    boot: Annotated[
        bool, typer.Option("--boot", help="Boot the guest also where its state is kept (see `wiretime cache`).")
    ] = False,
    every_turn: Annotated[
        bool, typer.Option("--every-turn", help="Execute every turn of a loop, also where its whole state repeats.")
    ] = False,
) -> runs.Request:
    """Return the request that these options make."""
    return runs.Request(
        app=application,
        engine=engine,
        model=model,
        platform=platform,
        nic=nic,
        cores=cores,
        queues=queues,
        ports=ports,
        seed=seed,
        changes=tuple(changes or ()),
        app_args=app_args,
        app_commands=app_commands,
        kernel_args=kernel_args,
        ethtool=ethtool,
        dpdk=dpdk,
        timestamp_offset=timestamp_offset,
        guest_limit=guest_limit,
        arrivals=arrivals,
        flows=flows,
        flow_spread=flow_spread,
        flow_vary=flow_vary,
        internet=ip,
        own=apps.Own(tuple(files or ()), role, kernel, hugepages),
        store=tuple(store or ()),
        drop_classes=drop_classes,
        boot=boot,
        every_turn=every_turn,
    )


def with_request(application: str | None = None, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Give a command the options of ``request_of``; the request that they make becomes its first argument.

    ``application`` is what runs where nothing is named; ``without`` are options that the command cannot have.
    """

    def decorate(command: Command) -> Command:
        every = inspect.signature(request_of, eval_str=True).parameters
        shared = {name: p for name, p in every.items() if name not in without}
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(request_of(**{name: given.pop(name) for name in shared}), **given)

        program, *options = shared.values()
        if application is not None:
            program = program.replace(default=application)
        # The command's own come before what all share.
        keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (program, *own, *options)]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in keywords}
        return run

    return decorate
