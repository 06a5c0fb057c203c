"""The command line."""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from wiretime import (
    advise,
    apps,
    compare,
    doctor,
    far,
    load,
    offered,
    packets,
    platforms,
    profile,
    report,
    runs,
    search,
    shell,
    statistics,
)
from wiretime.apps.user import HUGEPAGES_MIB
from wiretime.errors import WiretimeError
from wiretime.micro import closed_form
from wiretime.micro import guest as micro_guest
from wiretime.micro import hardware as hardware_rows
from wiretime.search import show
from wiretime.setup import steps
from wiretime.study import folder
from wiretime.study import plan as study_plan
from wiretime.study import report as study_report
from wiretime.study import show as study_show
from wiretime.tables import plain

app = typer.Typer(
    help="Wiretime: a full-system simulator for host networking.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
platforms_app = typer.Typer(help="The machines that can be simulated.", rich_markup_mode=None)
guest_app = typer.Typer(help="The guest.", rich_markup_mode=None)
app.add_typer(platforms_app, name="platforms")
app.add_typer(guest_app, name="guest")

# A pipe or a file has no width of its own: wide enough for every table.
screen = Console(width=None if sys.stdout.isatty() else 150)
notes = Console(stderr=True)


# What several commands take.
STANDARD_SIZES = "64,128,256,512,1024,1518"
Application = Annotated[str, typer.Argument(help="What runs in the guest: see `wiretime apps`; or a program of yours.")]
PlatformName = Annotated[str, typer.Option(help="Platform by name, or a .toml file.")]
Loss = Annotated[float, typer.Option(help="Highest loss that counts as sustained, in percent.")]
NicName = Annotated[str | None, typer.Option(help="Register interface: 8254x (one queue) or 82599.")]
Cores = Annotated[int | None, typer.Option(help="Cores of the application, beside one for the system.")]
Queues = Annotated[int, typer.Option(help="Receive and transmit queues of each port.")]
Seed = Annotated[int, typer.Option(help="Seed.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="Change a platform parameter: key=value.")]
AppArgs = Annotated[str, typer.Option(help="Further arguments of the application.")]
Sizes = Annotated[str, typer.Option(help="Frame sizes, FCS included.")]
Ports = Annotated[int | None, typer.Option(help="NICs, each with a link and a generator of its own.")]
TrialLength = Annotated[float, typer.Option(help="Factor of the length of trials: 1 is 20 turnovers of the ring.")]
PlotFile = Annotated[Path | None, typer.Option(help="Draw bandwidth against loss into this file (.png, .svg, .pdf).")]
OneSize = Annotated[int, typer.Option(help="Frame bytes, FCS included.")]


@app.command("setup")
def setup_command(
    update_lock: Annotated[bool, typer.Option(help="Accept what the package archive has now, and record it.")] = False,
) -> None:
    """Fetch and build what runs need. Does nothing where all is there."""
    steps.run(notes, update_lock=update_lock)


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


@platforms_app.command("show")
def platforms_show(name: Annotated[str, typer.Argument()] = platforms.DEFAULT) -> None:
    """Print a whole machine, with the source of every value."""
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


@app.command("compare")
def compare_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--out).")],
    measurements: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="perf stat -j; ethtool -S; what testpmd prints: of the real machine."),
    ],
    packets: Annotated[
        int | None, typer.Option(help="Packets of the measurement, where no file says how many there were.")
    ] = None,
) -> None:
    """Set a run beside a measurement of the same program on a real machine: counters a packet."""
    screen.print(compare.table(statistics.load(folder), compare.read(measurements), packets))


@app.command("micro")
def micro_command(
    platform: PlatformName = platforms.DEFAULT,
    changes: Changes = None,
    hardware: Annotated[
        bool, typer.Option(help="Compare our machines with published measurements, as Markdown, instead.")
    ] = False,
) -> None:
    """Measure a machine by micro-benchmarks in the guest, beside what its parameters say by formula."""
    if hardware:
        rows = [*hardware_rows.cores(), *hardware_rows.pcie()]
        print(hardware_rows.markdown(rows), hardware_rows.summary(rows), sep="\n")
        return
    all_changes = [*closed_form.PREFETCHERS_OFF, *(changes or [])]
    wanted = closed_form.expected(micro_guest.machine(platform, all_changes))
    measured = micro_guest.measure(platform, [e.job for e in wanted], all_changes)
    screen.print(closed_form.table(wanted, measured))


@app.command("stats")
def stats_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--out).")],
    everything: Annotated[bool, typer.Option("--all", help="Counters that are zero and idle cores as well.")] = False,
    series: Annotated[bool, typer.Option("--series", help="The time series (--interval) as CSV.")] = False,
    occupancy: Annotated[bool, typer.Option("--occupancy", help="Fill of FIFO and rings over time as CSV.")] = False,
) -> None:
    """Print a run's counters: latency by hop, queues, where cycles went, misses, memory, PCIe; total and a packet."""
    result = statistics.load(folder)
    if series:
        csv.writer(sys.stdout, lineterminator="\n").writerows(statistics.series(result))
    elif occupancy:
        csv.writer(sys.stdout, lineterminator="\n").writerows(packets.occupancy(result))
    else:
        screen.print(statistics.show(result, everything))


@app.command("profile")
def profile_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run (--profile --out).")],
    rows: Annotated[int, typer.Option(help="Symbols to show.")] = 25,
) -> None:
    """Print the symbols that a run's cycles went to."""
    screen.print(profile.show(folder, rows))


@app.command("diff")
def diff_command(
    first: Annotated[Path, typer.Argument(metavar="DIR_A")],
    second: Annotated[Path, typer.Argument(metavar="DIR_B")],
    rows: Annotated[int, typer.Option(help="Counters to show.")] = 25,
) -> None:
    """Rank what moved between two runs, a packet."""
    screen.print(statistics.difference(statistics.load(first), statistics.load(second), rows))


@guest_app.command("shell")
def guest_shell(
    platform: PlatformName = platforms.DEFAULT,
    changes: Changes = None,
) -> None:
    """Boot the guest to an interactive console (time runs at host speed while it idles)."""
    raise typer.Exit(shell.interactive(platform, changes or []))


class _Display:
    """One line: phase, simulated time, speed."""

    def __init__(self) -> None:
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:8}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=notes,
            transient=True,
        )
        self.task = self.bar.add_task("start", total=None, state="")
        self.last = (0.0, 0)

    def __call__(self, p: Any) -> None:
        now = time.monotonic()
        before, instructions = self.last
        speed = (p["instructions"] - instructions) / (now - before) / 1e6 if before else 0.0
        self.last = (now, p["instructions"])
        total = p["total_ns"] if p["phase"] != "boot" else None
        state = f"{p['simulated_ns'] / 1e6:10.3f} ms simulated  {speed:4.0f} MIPS"
        self.bar.update(self.task, description=p["phase"], completed=p["done_ns"], total=total, state=state)


@app.command("run")
def run_command(
    application: Application,
    platform: PlatformName = platforms.DEFAULT,
    packet_size: Annotated[
        str, typer.Option(help="Frame bytes, FCS included: 256; 64,128; 64:7,570:4,1518:1; 64-1518; imix.")
    ] = "256",
    rate: Annotated[str | None, typer.Option(help=f"Offered load: {load.RATES}.", show_default=offered.RATE)] = None,
    duration: Annotated[
        str | None, typer.Option(help="Length of the measurement, simulated.", show_default="2ms; a whole trace")
    ] = None,
    warmup: Annotated[
        str | None,
        typer.Option(help="Traffic before the measurement, simulated.", show_default="500us; none of a trace"),
    ] = None,
    follow: Annotated[str, typer.Option(help="Longest time to follow the measured packets to their end.")] = "5ms",
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
    app_commands: Annotated[
        str | None, typer.Option(help="Commands for the application's prompt, such as 'set fwd macswap retry; start'.")
    ] = None,
    kernel_args: Annotated[
        str, typer.Option(help="Further arguments of the guest's kernel, such as mitigations=off.")
    ] = "",
    timestamp_offset: Annotated[
        int | None, typer.Option(help="Where the probe is in the packet.", show_default="42; 62 with --ip 6")
    ] = None,
    guest_limit: Annotated[
        str, typer.Option(help="Longest simulated time for the guest to get ready.")
    ] = runs.GUEST_LIMIT,
    interval: Annotated[str, typer.Option(help="Step of a time series of all counters; 0ns: none.")] = "0ns",
    with_profile: Annotated[bool, typer.Option("--profile", help="Charge cycles to symbols; needs --out.")] = False,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    ports: Ports = None,
    arrivals: Annotated[
        str, typer.Option(help="constant, poisson, burst:N, on-off:TIME, ramp:PERCENT:TIME.")
    ] = "constant",
    flows: Annotated[
        int | None, typer.Option(help="UDP flows of each generator (default 1; 1024 with --queues).")
    ] = None,
    flow_spread: Annotated[str, typer.Option(help=f"Flows' shares of the packets: {load.SPREADS}.")] = "round-robin",
    flow_vary: Annotated[
        str, typer.Option(help="What tells flows apart: ports (and addresses beyond 57344), or addresses.")
    ] = "ports",
    ip: Annotated[int, typer.Option(help="Version of the internet protocol: 4 or 6.")] = 4,
    iperf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What the iperf3 client does: protocol, reverse, streams, length, ..."),
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option(help="Files that a program of yours needs; they are beside it, in /opt.")
    ] = None,
    role: Annotated[
        str, typer.Option(help="What a program of yours does with packets: forwards, answers, consumes, sends.")
    ] = "forwards",
    kernel: Annotated[
        bool, typer.Option("--kernel", help="A program of yours uses the kernel's stack; `wtctl mark 1` starts.")
    ] = False,
    hugepages: Annotated[int, typer.Option(help="MiB of huge pages for a program of yours.")] = HUGEPAGES_MIB,
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What a key-value store's clients do: keys, requests, key, value, ..."),
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="Closed loop: so many clients of each port, who wait for answers.")
    ] = None,
    think: Annotated[
        str, typer.Option(help="From an answer to the next request: a time, or exponential:TIME.")
    ] = "0ns",
    timeout: Annotated[str, typer.Option(help="When a client gives a request up.")] = "10ms",
    replay: Annotated[
        Path | None, typer.Option(help="Send a trace (pcap, pcapng): by its own clock, or at --rate by --arrivals.")
    ] = None,
    speed: Annotated[float, typer.Option(help="Factor of the trace's clock.")] = 1.0,
    loops: Annotated[int, typer.Option(help="How often the trace is sent; 0: until --duration is over.")] = 1,
    lenient: Annotated[bool, typer.Option("--lenient", help="Send what can be sent of a damaged trace.")] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="OFFSET:LENGTH", help="Bytes of the frame that tell a trace's transactions apart."),
    ] = None,
    capture: Annotated[
        str | None,
        typer.Option(metavar="all|BEGIN+LENGTH", help="Write the wire, as wire.pcapng, in this time; needs --out."),
    ] = None,
    peer: Annotated[
        str, typer.Option(help="What is at the other end of the wire: generator, or host (a second simulated one).")
    ] = "generator",
    drop_classes: Annotated[str, typer.Option(help="wiretime, or gem5: the published state machine.")] = "wiretime",
    trace: Annotated[
        str | None, typer.Option(metavar="BEGIN+LENGTH", help="Timeline of this time of the measurement; needs --out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for result.json, host.json and console.log.")] = None,
    json_output: Annotated[
        str | None, typer.Option("--json", help="'-': print result.json instead of the table.")
    ] = None,
) -> None:
    """Run an application on a simulated server under the load generator."""
    request = runs.Request(
        app=application,
        platform=platform,
        packet_size=packet_size,
        rate=rate,
        duration=duration,
        warm_up=warmup,
        follow=follow,
        seed=seed,
        changes=tuple(changes or ()),
        app_args=app_args,
        app_commands=app_commands,
        kernel_args=kernel_args,
        timestamp_offset=timestamp_offset,
        guest_limit=guest_limit,
        interval=interval,
        profile=with_profile,
        nic=nic,
        cores=cores,
        queues=queues,
        ports=ports,
        arrivals=arrivals,
        flows=flows,
        flow_spread=flow_spread,
        flow_vary=flow_vary,
        internet=ip,
        own=apps.Own(tuple(files or ()), role, kernel, hugepages),
        store=tuple(store or ()),
        iperf=tuple(iperf or ()),
        clients=clients,
        think=think,
        timeout=timeout,
        replay=replay,
        speed=speed,
        loops=loops,
        lenient=lenient,
        key=key,
        capture=capture,
        drop_classes=drop_classes,
        peer=peer,
        trace=trace,
    )
    for option, wanted in (("--trace", trace), ("--profile", with_profile or None), ("--capture", capture)):
        if wanted is not None and out is None:
            raise WiretimeError(f"{option}: needs --out DIR for its files")
    checked = runs.check(request)
    for warning in checked.trace.warnings if checked.trace else ():
        notes.print(f"warning: {warning}", markup=False, highlight=False)
    if out is not None:
        runs.prepare_folder(out)
    file = out / runs.CAPTURING if out is not None and capture is not None else None
    if notes.is_terminal:
        display = _Display()
        with display.bar:
            done = runs.execute(request, display, capture=file)
    else:
        done = runs.execute(request, capture=file)
    result, host = done.result, done.host
    if out is not None:
        runs.write(out, done)
    if json_output == "-":
        sys.stdout.write(runs.dump(result))
    elif json_output is not None:
        Path(json_output).write_text(runs.dump(result))
    else:
        screen.print(report.table(result, host))


class _Joined:
    """Says when the guest can be reached, and counts its frames."""

    def __init__(self, tap: str) -> None:
        self.tap = tap
        self.frames: tuple[int, int] | None = None

    def __call__(self, p: Any) -> None:
        if p["phase"] == "boot":
            return
        if self.frames is None:
            here = far.ADDRESS.split("/")[0]
            notes.print(f"{self.tap} is {here}; the guest is 10.0.0.2 and 2001:2:0:1::2; Ctrl-C ends", highlight=False)
        self.frames = (p["frames"][0], p["frames"][1])


@app.command("wire")
def wire_command(
    application: Application,
    tap: Annotated[str, typer.Option(help="TAP of this machine; made, with an address, where there is none.")] = "wt0",
    duration: Annotated[str | None, typer.Option(help="End after so much of the guest's time.")] = None,
    platform: PlatformName = platforms.DEFAULT,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Join the wire to a TAP of this machine, to talk to the guest with ordinary programs.

    Time passes as fast as here, instructions take a fixed time, and nothing about it is deterministic.
    """
    request = runs.Request(
        application,
        platform,
        tap=tap,
        duration=duration or runs.EVER,
        warm_up="0ns",
        nic=nic,
        cores=cores,
        queues=queues,
        changes=tuple(changes or ()),
        app_args=app_args,
        engine={"timing": "blocks", "host_speed": True},
    )
    joined = _Joined(tap)
    try:
        done = runs.execute(request, joined)
    except KeyboardInterrupt:
        there, back = joined.frames or (0, 0)
        notes.print(f"{there} frames to the guest, {back} from it", highlight=False)
        return
    screen.print(report.table(done.result, done.host))


def _request(
    application: str,
    platform: str,
    changes: list[str] | None,
    app_args: str,
    seed: int,
    nic: str | None,
    cores: int | None,
    queues: int,
    ports: int | None,
) -> runs.Request:
    """Return the run that a search varies."""
    return runs.Request(
        application,
        platform,
        seed=seed,
        changes=tuple(changes or ()),
        app_args=app_args,
        nic=nic,
        cores=cores,
        queues=queues,
        ports=ports,
    )


def _sizes(application: str, packet_sizes: str) -> list[int]:
    """Return the sizes of a search; requests to a store have lengths of their own, and count as the shortest."""
    if application in apps.APPS and apps.get(application).traffic == "memcached":
        if packet_sizes not in (STANDARD_SIZES, str(load.LENGTH_MIN)):
            raise WiretimeError(f"--packet-sizes: not with {application}, whose requests have lengths of their own")
        return [load.LENGTH_MIN]
    return list(show.sizes_of(packet_sizes))


def _tell(trial: search.Trial) -> None:
    notes.print(show.line_of(trial), highlight=False, soft_wrap=True)


def _draw(trials: list[search.Trial], plot: Path | None, title: str) -> None:
    """Draw bandwidth against loss, and say where it is not monotone."""
    curves = show.curves(trials)
    print(show.terminal(curves, min(screen.width, 110)))
    for remark in show.monotone(curves):
        screen.print(f"not monotone: {remark}", style="yellow", highlight=False, soft_wrap=True)
    if plot is not None:
        show.plot(curves, plot, title)


@app.command("msb")
def msb_command(
    application: Application,
    platform: PlatformName = platforms.DEFAULT,
    packet_sizes: Sizes = STANDARD_SIZES,
    loss: Loss = 1.0,
    ndr_pdr: Annotated[
        bool, typer.Option("--ndr-pdr", help="NDR and PDR instead, by multiple loss ratio search (MLRsearch).")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Seeds, one boot each: the spread of the result.")] = 1,
    trial_length: TrialLength = 1.0,
    plot: PlotFile = None,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    ports: Ports = None,
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Find the highest load with at most so much loss, for each packet size, in one boot."""
    request = _request(application, platform, changes, app_args, seed, nic, cores, queues, ports)
    sizes, threshold = _sizes(application, packet_sizes), search.share(loss)
    if plot is not None:
        show.check_plot(plot)
    title = f"{application} on {platform}"
    if ndr_pdr:
        if seeds != 1:
            raise WiretimeError("--seeds: not with --ndr-pdr, which repeats its trials")
        ratios = search.ndr_pdr(request, sizes, _tell, trial_length)
        _draw([trial for r in ratios for trial in r.trials], plot, title)
        screen.print(show.ratios(ratios))
        return

    def tell_of(seed: int) -> search.Tell:
        return _tell if seeds == 1 else lambda t: notes.print(f"seed {seed} {show.line_of(t)}", highlight=False)

    runs, spreads = search.over_seeds(request, sizes, threshold, seeds, tell_of, trial_length)
    _draw([trial for found in runs[0] for trial in (*found.trials, *found.around)], plot, title)
    screen.print(show.table(runs[0], threshold))
    if seeds > 1:
        screen.print(show.spreads(spreads, seeds))


@app.command("advise")
def advise_command(
    application: Application = "testpmd",
    rate: Annotated[str, typer.Option(help=f"Offered load: {load.RATES}.")] = offered.RATE,
    packet_size: OneSize = 256,
    loss: Annotated[float, typer.Option(help="Highest loss that counts as sustained, in percent.")] = 0.0,
    jobs: Annotated[int | None, typer.Option(help="Runs at once.", show_default="cores of this machine")] = None,
    platform: PlatformName = platforms.DEFAULT,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Say how many receive descriptors a rate needs: by arithmetic, and the smallest ring that does in simulation."""
    request = replace(
        _request(application, platform, changes, app_args, seed, nic, cores, queues, None), packet_size=packet_size
    )

    def tell(what: str) -> None:
        notes.print(what, highlight=False)

    screen.print(advise.show(advise.advise(request, rate, loss, jobs, tell)))


@app.command("sweep")
def sweep_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="What is varied and measured: see experiments/.")],
    jobs: Annotated[int | None, typer.Option(help="Points at once.", show_default="cores of this machine")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a folder that holds points already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, count and estimate; run nothing.")] = False,
    axis: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE,...", help="Other values of an axis, or another axis.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The study's folder.", show_default="studies/NAME")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Run points as jobs of a cluster: slurm; or local, to try that here.")
    ] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What its jobs ask for: slurm_partition=..., ...")
    ] = None,
) -> None:
    """Run every point of a study, and keep what each yields as a row of a table."""
    loaded = study_plan.load(plan, axis or [])
    study = folder.Study(loaded, str(plan), out or Path("studies") / loaded.study.name)
    study_show.about(notes, study, jobs)
    if dry_run:
        return
    study.prepare(resume)
    failed = study_show.sweep(notes, study, jobs, cluster, cluster_set or [])
    screen.print(study_show.table(study))
    if failed:
        raise typer.Exit(1)


@app.command("report")
def report_command(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
) -> None:
    """Write a study's report: one page, and its plots as PNG and SVG."""
    screen.print(str(study_report.write(folder.open_study(study))), highlight=False, soft_wrap=True)


@app.command("query")
def query_command(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A study's folder.")],
    sql: Annotated[str, typer.Argument(help="A query of the tables points and trials.")],
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write what it finds into this file.")] = None,
    arrow_file: Annotated[Path | None, typer.Option("--arrow", help="Write it as an Arrow file.")] = None,
) -> None:
    """Ask a study's tables, in DuckDB's SQL."""
    found = folder.query(study, sql)
    study_show.write(found, csv_file, arrow_file)
    if csv_file is None and arrow_file is None:
        screen.print(study_show.rows(found))


@app.command("rfc2544")
def rfc2544_command(
    application: Application,
    platform: PlatformName = platforms.DEFAULT,
    packet_sizes: Sizes = STANDARD_SIZES,
    trial_length: TrialLength = 1.0,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    ports: Ports = None,
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Run RFC 2544: throughput, latency there, loss by load, back-to-back frames, recovery, in one boot."""
    request = _request(application, platform, changes, app_args, seed, nic, cores, queues, ports)
    found = search.benchmarks(request, _sizes(application, packet_sizes), _tell, trial_length)
    screen.print(show.benchmarks(found))


@app.command("latency")
def latency_command(
    application: Application,
    platform: PlatformName = platforms.DEFAULT,
    packet_size: OneSize = 256,
    loss: Loss = 1.0,
    trial_length: TrialLength = 1.0,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    ports: Ports = None,
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Find the highest load, then measure latency at 0.1 to 0.95 of it, in one boot."""
    request = _request(application, platform, changes, app_args, seed, nic, cores, queues, ports)
    threshold = search.share(loss)
    found, trials = search.latency(request, packet_size, threshold, _tell, trial_length)
    screen.print(show.table([found], threshold))
    if found.best is not None:
        screen.print(show.latencies(trials, found.best))


@app.command("ramp")
def ramp_command(
    application: Application,
    platform: PlatformName = platforms.DEFAULT,
    packet_size: OneSize = 256,
    first: Annotated[str, typer.Option("--from", help=f"First rate: {load.RATES}.")] = "10%",
    last: Annotated[str, typer.Option("--to", help="Last rate.")] = "100%",
    steps: Annotated[int, typer.Option(help="Rates, at equal distances.")] = 10,
    trial_length: TrialLength = 1.0,
    plot: PlotFile = None,
    nic: NicName = None,
    cores: Cores = None,
    queues: Queues = 1,
    ports: Ports = None,
    seed: Seed = 1,
    changes: Changes = None,
    app_args: AppArgs = "",
) -> None:
    """Offer one rate after the other, in one boot: bandwidth against loss."""
    request = _request(application, platform, changes, app_args, seed, nic, cores, queues, ports)
    if plot is not None:
        show.check_plot(plot)
    rates = search.rates(request, packet_size, first, last, steps)
    trials = search.ramp(request, packet_size, rates, _tell, trial_length)
    _draw(trials, plot, f"{application} on {platform}")
    screen.print(show.curve(trials))
