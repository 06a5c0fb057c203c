"""Endurance: what must hold a thousand times. `.venv/bin/python scripts/endurance.py identical|kills|soak|faults`.

identical   so many runs of each of several set-ups, each run under another kind of trouble: one result.json
kills       SIGKILL for a random process of a run, sweep or set-up at a random moment: nothing stays, the next is right
soak        one boot and trial after trial in it for as long as asked: memory does not grow
faults      full disk, read-only cache, no network, clock that jumps, 64 points at once: the same result, or one line

Everything that is drawn here comes from ``--seed``; what the host does with it does not. Each prints a table, and ends
with status 1 where anything was not as it must be; another seed draws other cases.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.progress import Progress
from wiretime import paths
from wiretime.request import Request
from wiretime.search import boot, trials
from wiretime.search.trials import Steps
from wiretime.setup import store
from wiretime.setup.parts import PARTS
from wiretime.tables import plain

app = typer.Typer(no_args_is_help=True, add_completion=False)
console = Console()

WIRETIME = (sys.executable, "-m", "wiretime")
SHORT = ("--duration", "200us", "--warmup", "100us")
# What runs, by name. Cores as the issue has them; the packet engine; an in-order core; the kernel's stack.
SETUPS: dict[str, tuple[str, ...]] = {
    **{
        f"{n} cores": ("testpmd", "--nic", "82599", "--cores", str(n), "--queues", str(n), "--flow-vary", "addresses",
                       "--packet-size", "64", "--rate", "40Gbps", *SHORT)
        for n in (2, 4, 8, 16)
    },
    "1 core": ("testpmd", "--packet-size", "64", "--rate", "40Gbps", *SHORT),
    "1 core, mostly idle": ("testpmd", "--rate", "200Mbps", "--duration", "1ms"),
    "kernel": ("udpecho", "--duration", "500us", "--warmup", "500us"),
    "connectx": ("testpmd", "--nic", "connectx-6dx", "--packet-size", "64", "--rate", "30Gbps", *SHORT),
    "packet engine": ("testpmd", "--engine", "packet", "--rate", "60Gbps", *SHORT),
    "packet engine, 16 cores": ("testpmd", "--engine", "packet", "--nic", "82599", "--cores", "16", "--queues", "16",
                                "--flow-vary", "addresses", "--packet-size", "64", "--rate", "80Gbps", *SHORT),
}  # fmt: skip
# How many of a thousand each has: fewer of what takes long.
WEIGHTS = {"8 cores": 0.5, "16 cores": 0.3, "kernel": 0.5}
LONGEST_SECONDS = 600
POINTS = 64
# Of this mark in their environment are all processes of one command, whatever became of their parents.
MARK = "WIRETIME_ENDURANCE"
GONE_SECONDS = 5.0


def sha(data: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass
class Trouble:
    """What a run is exposed to: how its command is changed, and what is done to it meanwhile."""

    before: Sequence[str] = ()
    program: Sequence[str] = WIRETIME
    options: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    folder: str | None = None
    meanwhile: Callable[[psutil.Popen, random.Random], None] | None = None
    beside: Sequence[str] = ()


def _stop_and_go(process: psutil.Popen, chance: random.Random) -> None:
    """Stop and continue all of a command's processes at random moments."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(chance.uniform(0.05, 1.0))
            family = [process, *process.children(recursive=True)]
            stopped = chance.choice(family)
            stopped.suspend()
            time.sleep(chance.uniform(0.01, 0.3))
            stopped.resume()


# A run with a thread in QEMU that interrupts its cores at random.
KICKED = """
import dataclasses, sys
from wiretime import cli, runs
execute = runs.execute
def kicked(request, *a, **k):
    done = execute(dataclasses.replace(request, internals={"chaos": True}), *a, **k)
    done.result["configuration"]["run"]["chaos"] = False
    return done
runs.execute = kicked
cli.app(sys.argv[1:])
"""
BURN = "while True: pass"
# Touches half of what is free, again and again.
PRESS = """
import mmap, psutil
pages = mmap.mmap(-1, psutil.virtual_memory().available // 2)
while True:
    for at in range(0, len(pages), 4096): pages[at] = 1
"""


def _unprivileged() -> Sequence[str]:
    """Return what gives a command another identity; nothing where this host does not allow it."""
    able = subprocess.run(["unshare", "--user", "true"], capture_output=True)
    return ("unshare", "--user") if able.returncode == 0 else ()


def troubles() -> dict[str, Trouble]:
    """Return all kinds of trouble, by name."""
    places = {"TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE.UTF-8", "COLUMNS": "40", "HOME": "/"}
    return {
        "plain": Trouble(),
        "kicked": Trouble(program=(sys.executable, "-c", KICKED)),
        "booted": Trouble(options=("--boot",)),
        "every turn": Trouble(options=("--every-turn",)),
        "stopped": Trouble(meanwhile=_stop_and_go),
        "loaded": Trouble(beside=(BURN, BURN, BURN)),
        "memory": Trouble(beside=(PRESS,)),
        "elsewhere": Trouble(env={"FILLER": "x" * 9999}, folder="/"),
        "locale": Trouble(env=places),
        "user": Trouble(before=_unprivileged()),
        "nice": Trouble(before=("nice", "-n", "19")),
        "one core": Trouble(before=("taskset", "-c", "0")),
    }


def of_guest(arguments: Sequence[str]) -> bool:
    """Return whether a guest runs it."""
    return "packet" not in arguments


def marked(mark: str) -> list[psutil.Process]:
    """Return all living processes of a command."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def environment(mark: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a command; the cache is named, since its home may be another."""
    return {**os.environ, "WIRETIME_CACHE": str(paths.cache()), MARK: mark, **(extra or {})}


@contextlib.contextmanager
def companions(texts: Sequence[str]) -> Iterator[None]:
    """Have small programs run beside."""
    started = [subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL) for text in texts]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


# What stands for the digest of a run that has failed.
FAILED = "status"


def once(arguments: Sequence[str], trouble: Trouble, chance: random.Random) -> str:
    """Run in trouble; return the digest of the result, or why there is none."""
    command = [*trouble.before, *trouble.program, "run", *arguments, *trouble.options, "--json", "-"]
    with companions(trouble.beside), tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = psutil.Popen(
            command,
            stdout=output,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            cwd=trouble.folder,
            env=environment(str(chance.random()), trouble.env),
        )
        if trouble.meanwhile is not None:
            threading.Thread(target=trouble.meanwhile, args=(process, chance), daemon=True).start()
        status = process.wait(LONGEST_SECONDS)
        output.seek(0)
        errors.seek(0)
        if status != 0:
            return f"{FAILED} {status}: {errors.read().decode(errors='replace').strip().splitlines()[-1:]}"
        return sha(output.read())


def schedule(count: int, chance: random.Random) -> list[tuple[str, str]]:
    """Return which set-up meets which trouble, in random order: half are each pair, half go by weight."""
    pairs = [
        (setup, kind)
        for setup, arguments in SETUPS.items()
        for kind in troubles()
        if of_guest(arguments) or kind not in ("kicked", "booted", "every turn")
    ]
    weights = [WEIGHTS.get(setup, 1.0) for setup, _ in pairs]
    chosen = pairs * (count // len(pairs) // 2) if count >= 2 * len(pairs) else []
    chosen += chance.choices(pairs, weights, k=count - len(chosen))
    chance.shuffle(chosen)
    return chosen


Seed = Annotated[int, typer.Option(help="Of what is drawn.")]
Jobs = Annotated[int, typer.Option(help="At once.")]


@app.command()
def identical(
    count: Annotated[int, typer.Option("--runs", help="How many in all.")] = 1000,
    seed: Seed = 1,
    jobs: Jobs = os.cpu_count() or 1,
    log: Annotated[Path | None, typer.Option(help="A line of JSON for each run.")] = None,
) -> None:
    """Run set-ups under every kind of trouble; all results of one set-up must be the same bytes."""
    chance = random.Random(seed)
    work = [(setup, kind, random.Random(chance.random())) for setup, kind in schedule(count, chance)]
    every = troubles()

    def one(item: tuple[str, str, random.Random]) -> tuple[str, str, str]:
        setup, kind, own = item
        return setup, kind, once(SETUPS[setup], every[kind], own)

    seen: dict[str, Counter[str]] = {}
    kinds: Counter[str] = Counter()
    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool, Progress(console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("runs", total=count)
        try:
            for setup, kind, digest in pool.map(one, work):
                seen.setdefault(setup, Counter())[digest] += 1
                kinds[kind] += 1
                if log is not None:
                    with log.open("a") as f:
                        f.write(json.dumps({"setup": setup, "trouble": kind, "digest": digest}) + "\n")
                bar.advance(shown)
        except KeyboardInterrupt:
            # What is under way ends; what there is by now is told.
            pool.shutdown(cancel_futures=True)
    done = kinds.total()
    table = plain(f"{done} runs of {count}, {time.monotonic() - began:.0f} s")
    for column in ("set-up", "runs", "results", "digest"):
        table.add_column(column, justify="right" if column in ("runs", "results") else "left")
    for setup in sorted(seen):
        table.add_row(setup, str(seen[setup].total()), str(len(seen[setup])), " ".join(seen[setup]))
    console.print(table)
    console.print("in trouble: " + ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items())), highlight=False)
    # What has failed is not identical to anything, not even to another failure.
    results = [[n for digest, n in found.items() if not digest.startswith(FAILED)] for found in seen.values()]
    good = sum(max(counts, default=0) for counts in results)
    console.print(f"{good} of {done} identical", highlight=False)
    raise typer.Exit(good != count)


# --- kills ---

PLAN = """
metrics = ["forwarded_gbps"]
[study]
name = "killed"
[fixed]
app = "testpmd"
engine = "packet"
duration = "50us"
warm_up = "20us"
rate = "20Gbps"
[axes]
packet_size = [64, 128, 256, 512]
"""


@dataclass
class Victim:
    """A command that is killed: how it is called, what of it is looked at, and what it may not leave."""

    arguments: Callable[[Path], list[str]]
    # What a folder of it holds when all went well: name to digest; raises where a half result is taken for whole.
    found: Callable[[Path], dict[str, str]]
    env: Mapping[str, str]


def _run_files(out: Path) -> dict[str, str]:
    path = out / "result.json"
    if not path.is_file():
        return {}
    json.loads(path.read_text())
    return {"result.json": sha(path.read_bytes())}


def _sweep_files(out: Path) -> dict[str, str]:
    rows = {path.parent.name: path for path in out.glob("points/*/row.json")}
    for path in rows.values():
        json.loads(path.read_text())
    return {name: sha(path.read_bytes()) for name, path in sorted(rows.items())}


def victims(work: Path) -> dict[str, Victim]:
    """Return what is killed, by name; ``work`` holds what they share."""
    plan = work / "plan.toml"
    plan.write_text(PLAN)
    states = {"WIRETIME_STATES": str(work / "states")}
    own = {"WIRETIME_CACHE": str(work / "cache"), **states}

    def of_run(*arguments: str) -> Callable[[Path], list[str]]:
        return lambda out: ["run", *arguments, "--out", str(out)]

    return {
        "run from its kept boot": Victim(of_run(*SETUPS["1 core"]), _run_files, {}),
        "run that keeps its boot": Victim(of_run(*SETUPS["1 core"]), _run_files, states),
        "run, packet engine": Victim(of_run(*SETUPS["packet engine"]), _run_files, {}),
        "sweep": Victim(lambda out: ["sweep", str(plan), "--out", str(out), "--resume"], _sweep_files, {}),
        "set-up": Victim(lambda out: ["setup"], lambda out: {}, own),
    }


def _damage(name: str, work: Path) -> None:
    """Have something to be made: a boot, or a part of the set-up."""
    if name == "run that keeps its boot":
        shutil.rmtree(work / "states", ignore_errors=True)
    if name == "set-up":
        for part in (work / "cache").glob("qemu-*"):
            shutil.rmtree(part)


def _leavings(temporary: Path) -> set[str]:
    return {p.name for p in temporary.iterdir()}


def kill_once(name: str, victim: Victim, work: Path, chance: random.Random, seconds: float) -> tuple[bool, list[str]]:
    """Start a command, kill one of its processes, and look at what is left.

    Returns whether one was there to be killed, and what is wrong.
    """
    out = work / "out"
    shutil.rmtree(out, ignore_errors=True)
    _damage(name, work)
    mark = f"{chance.random()}"
    command = [*WIRETIME, *victim.arguments(out)]
    process = psutil.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env=environment(mark, victim.env),
    )
    time.sleep(chance.uniform(0, seconds))
    targets, hit = marked(mark), False
    if targets:
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice(targets).kill()
            hit = True
    wrong = []
    try:
        # A command whose helper died ends by itself, one way or the other.
        process.wait(LONGEST_SECONDS)
    except psutil.TimeoutExpired:
        wrong.append("hangs after one of its processes was killed")
        for left in marked(mark):
            left.kill()
    limit = time.monotonic() + GONE_SECONDS
    while marked(mark) and time.monotonic() < limit:
        time.sleep(0.05)
    for orphan in marked(mark):
        with contextlib.suppress(psutil.Error):
            wrong.append(f"orphan: {' '.join(orphan.cmdline())[:80]}")
            orphan.kill()
    try:
        victim.found(out)
    except (OSError, ValueError) as e:
        wrong.append(f"half a result: {e}")
    return hit, wrong


def next_time(victim: Victim, work: Path, before: dict[str, str]) -> list[str]:
    """Run a command again after a kill; returns what is wrong."""
    out = work / "out"
    done = subprocess.run(
        [*WIRETIME, *victim.arguments(out)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment("next", victim.env),
    )
    if done.returncode != 0:
        return [f"the next one ends with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"]
    found = victim.found(out)
    return [] if found == before else [f"the next one yields {found}, not {before}"]


@app.command()
def kills(
    count: Annotated[int, typer.Option("--times", help="How many kills in all.")] = 500,
    seed: Seed = 1,
    only: Annotated[str, typer.Option(help="Kill this alone.")] = "",
    with_setup: Annotated[bool, typer.Option("--with-setup", help="Set-up too, which fetches QEMU each time.")] = False,
) -> None:
    """Kill processes at random moments; nothing may stay behind, nothing half be taken for whole."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        work = Path(folder)
        # Theirs alone: what else runs on this host has files in the usual one.
        temporary = work / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        every = victims(work)
        chosen = [n for n in every if (not only or n == only) and (with_setup or n != "set-up")]
        if "set-up" in chosen:
            for part in PARTS:
                store.copy(part.folder(), work / "cache" / part.folder().name)
        usual: dict[str, tuple[dict[str, str], float]] = {}
        for name in chosen:
            _damage(name, work)
            began = time.monotonic()
            problems = next_time(every[name], work, {})
            found = every[name].found(work / "out")
            if problems and not found:
                console.print(f"{name}: {problems[0]}", markup=False)
                raise typer.Exit(1)
            usual[name] = (found, time.monotonic() - began)
            shutil.rmtree(work / "out", ignore_errors=True)
        there = _leavings(temporary)
        counts: Counter[str] = Counter()
        hits: Counter[str] = Counter()
        wrong: Counter[str] = Counter()
        with Progress(console=Console(stderr=True), transient=True) as bar:
            shown = bar.add_task("kills", total=count)
            for _ in range(count):
                name = chance.choice(chosen)
                found, seconds = usual[name]
                hit, problems = kill_once(name, every[name], work, chance, seconds)
                hits[name] += hit
                problems += next_time(every[name], work, found)
                if new := _leavings(temporary) - there:
                    problems.append(f"left in {temporary.name}: {sorted(new)}")
                    there |= new
                counts[name] += 1
                wrong.update(f"{name}: {p}" for p in problems)
                bar.advance(shown)
        table = plain(f"{count} kills")
        for column in ("killed", "times", "still ran", "takes, s"):
            table.add_column(column, justify="left" if column == "killed" else "right")
        for name in chosen:
            table.add_row(name, str(counts[name]), str(hits[name]), f"{usual[name][1]:.1f}")
        console.print(table)
        for text, times in wrong.items():
            console.print(f"{times} times: {text}", markup=False, highlight=False)
        console.print(f"{wrong.total()} things wrong", highlight=False)
    raise typer.Exit(bool(wrong))


# --- soak ---


@app.command()
def soak(
    minutes: Annotated[float, typer.Option(help="How long.")] = 120.0,
    engine: Annotated[str, typer.Option(help="full-system or packet.")] = "full-system",
) -> None:
    """Run trial after trial in one boot; neither this process nor QEMU may grow after the first tenth."""
    own = psutil.Process()
    began = time.monotonic()
    sizes: list[tuple[float, float]] = []
    # Below, about and above what is sustained, as a search has them.
    loads = (5e9, 15e9, 40e9)

    def steps() -> Steps:
        while time.monotonic() - began < 60 * minutes:
            yield from trials.ask(trials.silent, 64, loads[len(sizes) % len(loads)], 300.0)
            family = [own, *own.children(recursive=True)]
            sizes.append((time.monotonic() - began, sum(p.memory_info().rss for p in family) / 2**20))

    boot.in_one_boot(Request(engine=engine), [64], steps())
    rest = [size for at, size in sizes if at > 6 * minutes]
    half = len(rest) // 2
    first, last = max(rest[:half], default=0.0), max(rest[half:], default=0.0)
    console.print(
        f"{len(sizes)} trials in {sizes[-1][0]:.0f} s; after a tenth of it at most {first:.1f} MiB in the first half, "
        f"{last:.1f} MiB in the second",
        highlight=False,
        soft_wrap=True,
    )
    raise typer.Exit(last > first * 1.02 + 1)


# --- faults ---


def _shell(script: str, *options: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script as root of namespaces of its own."""
    command = ["unshare", "--map-root-user", *options, "sh", "-euc", script]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment("f", env))


def _short(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines()
    return f"status {done.returncode}, {len(lines)} lines: {lines[-1] if lines else ''}"


def _is(done: subprocess.CompletedProcess[str], expected: str) -> str:
    """Return what is wrong with a run whose result is known."""
    if done.returncode != 0:
        return _short(done)
    return "" if sha(done.stdout.encode()) == expected else "another result"


def _refuses(done: subprocess.CompletedProcess[str], *words: str) -> str:
    """Return what is wrong with a run that must end in one line with these words."""
    lines = done.stderr.strip().splitlines()
    good = done.returncode in (1, 2) and len(lines) == 1 and any(word in lines[0] for word in words)
    return "" if good else _short(done)


def full_disk(run: str, expected: str, folder: Path) -> str:
    """No room for what a run leaves: one line, and no half a file."""
    tiny = f"mount -t tmpfs -o size=64k none {folder}"
    done = _shell(f"{tiny}; {run} --out {folder}/out >/dev/null || {{ s=$?; ls -A {folder}/out; exit $s; }}", "--mount")
    return _refuses(done, "No space left") or ("a result stands there" if "result.json" in done.stdout.split() else "")


def full_cache(run: str, expected: str, folder: Path) -> str:
    """No room for the boot: it is not kept, and the run goes on."""
    return _is(
        _shell(
            f"mount -t tmpfs -o size=8m none {folder}; {run} --json -", "--mount", env={"WIRETIME_STATES": str(folder)}
        ),
        expected,
    )


def read_only_cache(run: str, expected: str, folder: Path) -> str:
    """Use a cache that others made, as it is."""
    cache = paths.cache()
    mount = f"mount --bind {cache} {cache}; mount -o remount,bind,ro {cache}"
    return _is(_shell(f"{mount}; {run} --json -", "--mount"), expected)


def no_network(run: str, expected: str, folder: Path) -> str:
    """Find all there in set-up, and run."""
    setup = " ".join([*WIRETIME, "setup"])
    return _is(_shell(f"{setup} > {folder}/said 2>&1; {run} --json -", "--net"), expected)


# The date of the host, years off, and off by another amount every fifth of a second; the monotonic clock is as it is.
# (libfaketime will not do: under it this QEMU loses its devices' messages.)
JUMPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static int (*real)(clockid_t, struct timespec *);
int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, t);
    if (!failed && clock == CLOCK_REALTIME) t->tv_sec += (t->tv_nsec / 200000000 - 2) * 40000000;
    return failed;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec, t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return t ? (*t = now.tv_sec) : now.tv_sec;
}
"""


def clock(run: str, expected: str, folder: Path) -> str:
    """Have the host's date jump by years, back and forth."""
    (folder / "jumps.c").write_text(JUMPS)
    library = folder / "jumps.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, folder / "jumps.c", "-ldl"], check=True)
    env = environment("clock", {"LD_PRELOAD": str(library)})
    return _is(
        subprocess.run(["sh", "-euc", f"{run} --boot --json -"], capture_output=True, text=True, env=env), expected
    )


def many_points(run: str, expected: str, folder: Path, count: int = POINTS) -> str:
    """So many points at once are the same as two at a time."""
    plan = folder / "plan.toml"
    sizes = ", ".join(str(64 + 16 * n) for n in range(count))
    plan.write_text(PLAN.replace("64, 128, 256, 512", sizes))
    found = []
    for jobs in (str(count), "2"):
        out = folder / jobs
        command = [*WIRETIME, "sweep", str(plan), "--out", str(out), "--jobs", jobs]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return _short(done)
        found.append(_sweep_files(out))
    return (
        "" if found[0] == found[1] and len(found[0]) == count else f"{len(found[0])} and {len(found[1])} points differ"
    )


FAULTS = {f.__name__: f for f in (full_disk, full_cache, read_only_cache, no_network, clock, many_points)}


@app.command()
def faults(
    only: Annotated[str, typer.Option(help="This alone.")] = "",
    points: Annotated[int, typer.Option(help="Of a sweep at once.")] = POINTS,
) -> None:
    """Take disk, network and a steady clock away."""
    run = " ".join([*WIRETIME, "run", *SETUPS["1 core"]])
    expected = once(SETUPS["1 core"], Trouble(), random.Random(1))
    wrong = 0
    for name, fault in {**FAULTS, many_points.__name__: partial(many_points, count=points)}.items():
        if only and name != only:
            continue
        with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
            problem = fault(run, expected, Path(folder))
        wrong += bool(problem)
        console.print(f"{name.replace('_', ' '):16} {problem or 'as it must be'}", markup=False, highlight=False)
    raise typer.Exit(bool(wrong))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    app()
