"""A run in plain sentences: what limits it, by how much, and what would move it.

What limits is read from the run's counters. What would move it is not guessed: each change that the counters suggest is
run, all else equal, and the sentences say what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import wiretime._native as _native
from wiretime import apps, files, platforms, runs, scratch, software
from wiretime.apps.model import ANSWERS, CONSUMES, SENDS, Setup, words
from wiretime.counters import done, numbers, of
from wiretime.errors import WiretimeError
from wiretime.models import Report
from wiretime.request import Request
from wiretime.search.trials import CLASSES, backlog
from wiretime.statistics import busy_cores, instructed, load, stalls, total
from wiretime.study.plan import About, Point, settings_of

# What a run was asked for, beside its result.
REQUEST = "request.json"
# The same of a study's point.
POINT = "point.json"
# Something that plans cannot ask for: what comes with a user's program.
OWN = "own"
# Of what may be asked for, how the host gets there: nothing in a result depends on it.
HOW = ("boot", "every_turn")
# A share of cycles or of a direction's time below this is not worth a sentence; of packets, no loss.
SMALL, NO_LOSS = 0.05, 0.001
# How full a direction of a link is that limits: queues grow without bound before it is quite full.
FULL = 0.9
# Packets at a time of which a poll's own cost is still a good part: half of a usual burst.
SHORT = 16
# A share of polls that find nothing, of all queues, beside one queue that is never empty.
UNEVEN = 0.3
# Stall causes that say how long data took to come.
MEMORY = ("l2_hit", "llc_hit", "snoop", "dram")
MISSED = "llc_misses_"
LABEL = "change"
SYSTEM_CORES = "system.cores"


@dataclass(frozen=True)
class Change:
    """A change to try: what it is called, and settings."""

    label: str
    settings: Mapping[str, Any]

    @property
    def says(self) -> str:
        """The settings as the command line has them."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items())


@dataclass(frozen=True)
class Effect:
    """What a change did: its rate in ``unit``, loss in percent, mean latency in ns; ``None`` where it failed."""

    change: Change
    rate: float | None
    loss: float | None
    latency: float | None
    unit: str = "million a second"


def keep(path: Path, request: Request) -> None:
    """Write what a run was asked for into its folder."""
    settings = {key: value for key, value in settings_of(request).items() if key not in HOW}
    if request.own != Request().own:
        settings[OWN] = True
    # It may be explained from another folder.
    names = {"app": apps.APPS, "platform": platforms.names(), "model": software.names(), "replay": ()}
    for key, known in names.items():
        if key in settings and settings[key] not in known and Path(str(settings[key])).is_file():
            settings[key] = str(Path(str(settings[key])).absolute())
    files.replace(path / REQUEST, json.dumps(settings, indent=1, default=str) + "\n")


def asked(path: Path) -> dict[str, Any]:
    """Return what a run was asked for."""
    path = path.parent if path.is_file() else path
    try:
        settings: dict[str, Any] = json.loads((path / REQUEST).read_text())
    except (OSError, ValueError):
        if isinstance(about := files.read(path / POINT), dict) and isinstance(its := about.get("settings"), dict):
            return dict(its)
        raise WiretimeError(
            f"{path / REQUEST}: not there or not JSON: the run is of an older version; --counters explains without it"
        ) from None
    if OWN in settings:
        raise WiretimeError(
            f"{path}: a program with options such as --files and --role is not run again; --counters explains without"
        )
    return settings


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


class Run:
    """A result with the figures that sentences need."""

    def __init__(self, result: Report):
        self.result = result
        self.statistics = of(result)
        self.platform: Mapping[str, Any] = result["configuration"]["platform"]
        self.seconds = max(self.statistics["time_ps"], 1) / 1e12
        self.cores = busy_cores(result)
        self.cohort = numbers(result["cohort"])
        # What the program did with a packet, by which its work is counted.
        verbs = {ANSWERS: "answered", CONSUMES: "took", SENDS: "sent"}
        self.verb = verbs.get(result["app"]["role"], "forwarded")
        self.done = done(result)
        self.packets = max(self.done, 1)

    @property
    def mpps(self) -> float:
        """Millions of packets that the program did a second."""
        return self.done / self.seconds / 1e6

    @property
    def carried(self) -> float:
        """The same, but to the packet where all was done: in short runs bursts at both ends of the measurement count.

        What rings took in and the program had not come to is not part of it.
        """
        offered = self.result["offered_mpps"]
        if not offered or "iperf" in self.result or self.dropped or backlog(self.result):
            return self.mpps
        return offered

    @property
    def dropped(self) -> int:
        """Packets of the cohort that were lost."""
        return round(self.lost * self.cohort["offered"])

    @property
    def lost(self) -> float:
        """The share of the packets offered that was lost; of a program that answers, also what it never answered."""
        return float(self.result["loss_percent"]) / 100

    @cached_property
    def stack(self) -> dict[str, float]:
        """The shares of the busy cores' cycles by cause, all together."""
        sums: dict[str, float] = {}
        for i in self.cores:
            for name, cycles in numbers(self.statistics["cores"][i]["stalls"]).items():
                sums[name] = sums.get(name, 0) + cycles
        whole = sum(sums.values()) or 1
        return {name: cycles / whole for name, cycles in sums.items()}

    @property
    def waits(self) -> float:
        """The share of them that waited for data from beyond the L1."""
        return sum(self.stack[name] for name in MEMORY)

    @property
    def cycles(self) -> float:
        """Cycles of the busy cores a packet."""
        return sum(self.statistics["cores"][i]["core"]["cycles"] for i in self.cores) / self.packets

    @property
    def frequency(self) -> float:
        """Cycles a second."""
        return float(_native.parse_frequency(self.platform["core"]["frequency"]))

    @cached_property
    def empty(self) -> float | None:
        """The share of polls that found nothing, where the program polls."""
        made, empty = (sum(polls) for polls in zip(*self._polls, strict=True)) if self._polls else (0, 0)
        return empty / made if made else None

    @cached_property
    def taken(self) -> list[tuple[float, int]]:
        """The share of the time that each core of a kernel's program worked, and which it is, the busiest first."""
        times = ((i, numbers(core["processor_time"])) for i, core in enumerate(self.statistics["cores"]))
        # Of programs that poll nothing is known: they are always at work.
        shares = [(1 - t["idle_ps"] / whole, i) for i, t in times if (whole := sum(t.values()))]
        return sorted((share for share in shares if share[0] > 0), key=lambda s: (-s[0], s[1]))

    @property
    def spare(self) -> bool:
        """Whether the cores have time left."""
        return self.taken[0][0] < FULL if self.taken else (self.empty or 0) >= SMALL

    @property
    def idle(self) -> str | None:
        """How the cores' time that is left shows, where it is much."""
        if self.taken:
            share, core = self.taken[0]
            return f"core {core} worked for only {_percent(share)} of the time" if share < FULL else None
        found_nothing = f"{_percent(self.empty or 0)} of the polls found nothing"
        return found_nothing if self.spare and (self.empty or 0) >= 0.5 else None

    @property
    def _polls(self) -> list[tuple[int, int]]:
        drivers = [q["driver"] for port in self.statistics["ports"] for q in port["queues"]]
        return [(d["polls"], d["empty_polls"]) for d in drivers]

    @cached_property
    def swamped(self) -> tuple[int, float] | None:
        """The queue that is never empty while others mostly are, and its share of the packets."""
        packets = [q["receive"]["delivered"] for port in self.statistics["ports"] for q in port["queues"]]
        if len(packets) < 2 or not self.empty or not sum(packets):
            return None
        busiest = max(range(len(packets)), key=lambda i: packets[i])
        made, empty = self._polls[busiest]
        if not made or empty / made >= SMALL or self.empty < UNEVEN:
            return None
        return busiest, packets[busiest] / sum(packets)

    @cached_property
    def burst(self) -> float | None:
        """Packets that a poll found, of those that found any."""
        found = [pair for port in self.result["ports"] for q in port["queues"] for pair in q["burst_sizes"]]
        polls = sum(n for size, n in found if size)
        return sum(size * n for size, n in found) / polls if polls else None

    @property
    def links(self) -> tuple[float, float]:
        """The shares of the time that both directions of the NICs' links were taken."""
        io, whole = self.statistics["io"], self.statistics["time_ps"] * len(self.platform["nic"])
        return io["upstream_busy_ps"] / whole, io["downstream_busy_ps"] / whole


# What each class of drops means.
MEANT = {
    "core_drop": "the cores took packets out of the receive ring more slowly than they came",
    "dma_drop": "the NIC could not bring packets to memory as fast as they came, though descriptors were free",
    "tx_drop": "the NIC did not send as fast as the program handed packets over, and the rings filled backwards",
    "host_drop": "the program itself threw packets away: its transmit ring was full",
}


def _outcome(r: Run) -> Iterator[str]:
    result = r.result
    name, platform = result["app"]["name"], r.platform["name"]
    of_offered = f" of {result['offered_mpps']:.2f} offered" if result["offered_mpps"] else ""
    lost = "nothing was lost"
    if r.dropped:
        few = f"{r.dropped} of {r.cohort['offered']} packets were lost"
        lost = f"{_percent(r.lost)} of the packets were lost" if r.lost >= NO_LOSS else few
    if "iperf" in result:
        carried = result["iperf"]["received_gbps"] or result["iperf"]["gbps"] or 0.0
        frames = f"in {r.mpps:.2f} million frames a second"
        yield f"{name} on {platform} carried {carried:.2f} Gb/s of payload, {frames}; {lost}."
    else:
        yield f"{name} on {platform} {r.verb} {r.mpps:.2f} million packets a second{of_offered}; {lost}."
    if r.lost < NO_LOSS:
        return
    worst = max(MEANT, key=lambda c: r.cohort[c])
    if r.cohort[worst]:
        yield f"Of the losses {_percent(r.cohort[worst] / r.dropped)} are {CLASSES[worst]}: {MEANT[worst]}."
    if filtered := r.cohort["filtered"] / r.dropped:
        yield (
            f"{_percent(filtered)} of the losses are frames that the NIC did not take: by a rule, their address or "
            "length, or since they were damaged."
        )
    silent = r.dropped - r.cohort["filtered"] - sum(r.cohort[c] for c in MEANT)
    if r.result["app"]["role"] == ANSWERS and silent > 0:
        yield (
            f"{_percent(silent / r.dropped)} of the losses are requests that reached software and were not answered in "
            "time: where a program is too slow, the kernel throws away what finds its socket's buffer full."
        )


def _cores(r: Run) -> Iterator[str]:
    n, each = len(r.cores), r.cycles
    what, it = ("core", "it") if n == 1 else (f"{n} cores together", "they")
    can = n * r.frequency / max(each, 1) / 1e6
    if r.taken:
        (fullest, core), others = r.taken[0], [f"core {i} for {_percent(share)}" for share, i in r.taken[1:]]
        beside = f" ({', '.join(others)})" if others else ""
        verdict = "there is time left" if r.spare else "it limits"
        yield (
            f"Core {core} worked for {_percent(fullest)} of the time{beside}: {verdict}. A packet takes the {what} "
            f"{each:.0f} cycles."
        )
    elif r.swamped is not None:
        queue, share = r.swamped
        yield (
            f"Queue {queue} has {_percent(share)} of the packets and was never found empty, while "
            f"{_percent(r.empty or 0)} of all polls found nothing: flows, or what RSS hashes of them, spread unevenly, "
            "and the core of that queue limits."
        )
    elif r.empty is not None and r.empty >= SMALL:
        yield (
            f"The {what} spent {each:.0f} cycles for each packet, but {_percent(r.empty)} of the polls found nothing: "
            "there is time left."
        )
    elif r.lost < NO_LOSS and r.burst and r.burst < SHORT:
        yield (
            f"The {what} spent {each:.0f} cycles for each packet and found some at every poll, but only {r.burst:.1f} "
            f"at a time: in longer bursts, which a higher load brings, a packet costs less, so that {it} can do more."
        )
    elif r.dropped and r.cohort["core_drop"] < max(r.cohort[c] for c in MEANT):
        yield f"A packet takes the {what} {each:.0f} cycles ({each / r.frequency * 1e9:.1f} ns), its waits included."
    else:
        yield (
            f"A packet takes the {what} {each:.0f} cycles ({each / r.frequency * 1e9:.1f} ns), so that {can:.2f} "
            f"million a second is what {it} can do."
        )
    wanted = r.result["offered_mpps"]
    if r.lost >= NO_LOSS and wanted and not r.taken:
        budget = n * r.frequency / (wanted * 1e6)
        if each > budget and r.cohort["core_drop"]:
            yield f"For all that was offered it would have to be {budget:.0f} cycles: {each / budget:.1f} times fewer."
    meanings = {s.name: s.meaning for s in stalls()}
    stack = sorted(((share, name) for name, share in r.stack.items() if share >= SMALL), reverse=True)
    parts = [f"{_percent(share)} {name.replace('_', ' ')} ({meanings[name]})" for share, name in stack[:4]]
    if not instructed(r.result):
        yield "Where its cycles go is not known: software is a model here, and no instruction was timed."
    elif parts:
        yield f"Its cycles went to: {'; '.join(parts)}."
    missed = [(n, name) for name, n in numbers(r.statistics["objects"]).items() if name.startswith(MISSED) and n]
    if r.waits >= SMALL and missed:
        most = sorted(missed, reverse=True)[:2]
        told = " and ".join(f"{n / r.packets:.2f} {name.removeprefix(MISSED).replace('_', ' ')}" for n, name in most)
        yield f"What it waits for in memory are lines that miss the LLC: {told} lines per packet."


def _memory(r: Run) -> Iterator[str]:
    memory = r.statistics["memory"]
    written = memory["dma_writes"]
    if not written:
        return
    kept = (memory["dma_write_allocations"] + memory["dma_write_updates"]) / written
    if r.platform["llc"]["dca_ways"] == 0:
        yield "Packets and completions go to DRAM: inbound writes do not allocate in the LLC (llc.dca_ways is 0)."
    else:
        leaks = memory["dca_leaks"] / written
        yield (
            f"Of the lines that the NIC writes, {_percent(kept)} stay in the LLC; {_percent(leaks)} leave it before a "
            "core uses them."
        )
    # Of an older version's result it is not known.
    if beyond := numbers(memory).get("dma_write_overflows", 0) / written:
        yield f"{_percent(beyond)} of them are beyond the share of the LLC that devices may have (llc.dca_lines)."


def _input_output(r: Run) -> Iterator[str]:
    up, down = r.links
    fuller = max(up, down)
    verdict = "which is full: it limits" if fuller >= FULL else "so the link does not limit"
    yield f"The NIC's link is taken for {_percent(up)} of the time towards the host, {_percent(down)} back, {verdict}."
    io = numbers(r.statistics["io"])
    for name, what in (("credit_wait_ps", "flow-control credits"), ("tag_wait_ps", "tags for reads")):
        if io[name] / r.statistics["time_ps"] >= SMALL:
            yield f"Requests waited for {what}: {io[name] / r.statistics['time_ps']:.2f} of them at any time."
    dram = numbers(r.statistics["dram"])
    gbytes = 64 * (total(dram, "reads_") + total(dram, "writes_")) / r.seconds / 1e9
    d = r.platform["dram"]
    peak = d["channels"] * d["bus_width"] / 8 * d["transfer_rate"] / 1000
    yield f"DRAM moves {gbytes:.1f} of at most {peak:.0f} GB/s."


def _descriptors(r: Run) -> Iterator[str]:
    wanted = r.result["offered_mpps"]
    free = [q["receive"]["free"] for port in r.statistics["ports"] for q in port["queues"]]
    if r.swamped is None and r.idle and r.cohort["core_drop"]:
        yield (
            f"Although {r.idle}, packets met no descriptor: bursts are longer than the ring, or the NIC learns of new "
            "descriptors late. More descriptors help, more cores do not."
        )
    elif r.lost >= NO_LOSS and wanted and free and r.cohort["core_drop"]:
        yield (
            "Longer rings do not end this loss: packets come faster than they are taken as long as the load lasts. "
            "What a packet costs hangs on them all the same, by bursts and by what of the caches they take."
        )


def sentences(result: Report) -> list[str]:
    """Return what a run's counters say."""
    r = Run(result)
    return [s for part in (_outcome, _cores, _memory, _input_output, _descriptors) for s in part(r)]


def _factor(text: str, by: float) -> str:
    """Return a quantity with a unit, times a factor."""
    digits = next((i for i, c in enumerate(text) if not (c.isdigit() or c == ".")), len(text))
    return f"{float(text[:digits]) * by:g}{text[digits:]}"


def changes(result: Report, settings: Mapping[str, Any]) -> list[Change]:
    """Return the changes that a run's counters suggest, the likeliest first."""
    r = Run(result)
    p, stack, name = r.platform, r.stack, result["app"]["name"]
    core, llc, nic, slot = p["core"], p["llc"], p["nic"][0], p["slot"][0]
    takes = result["app"]["role"] != SENDS
    found: list[tuple[float, Change]] = []

    def suggest(weight: float, label: str, to: Mapping[str, Any]) -> None:
        found.append((weight, Change(label, to)))

    busy = r.taken[0][0] if r.taken else 1 - (r.empty or 0)
    suggest(busy * 0.9, "cores a quarter faster", {"core.frequency": _factor(str(core["frequency"]), 1.25)})
    if takes and nic["interface"] != "8254x":
        # One core is the system's; of what there are fewer, cores or queues, one more, or of both.
        cores, queues = p["system"]["cores"] - 1, int(settings.get("queues", 1))
        more = {"core": cores <= queues, "queue": queues <= cores}
        label = f"one {' and '.join(what for what, grows in more.items() if grows)} more"
        cores, queues = cores + more["core"], queues + more["queue"]
        # Where they are set as a parameter, an option beside it changes nothing.
        to = {SYSTEM_CORES: cores + 1} if SYSTEM_CORES in settings else {"cores": cores}
        suggest(busy, label, {**to, "queues": queues})
    # Of a model's cycles no cause is known: whatever misses may be what takes them.
    if stack["dram"] >= SMALL or (not instructed(r.result) and total(numbers(r.statistics["objects"]), MISSED)):
        if llc["dca_ways"] == 0:
            suggest(r.waits + 0.3, "direct cache access", {"llc.dca_ways": max(1, llc["ways"] // 4)})
        suggest(r.waits, "DRAM at no distance", {"dram.controller_latency": "1ns"})
    for cause, label, key, value in (
        ("llc_hit", "L2 twice as large", "l2.size", _factor(p["l2"]["size"], 2)),
        ("l1i_miss", "L1I twice as large", "l1i.size", _factor(p["l1i"]["size"], 2)),
        (
            "branch_mispredict",
            "mispredictions at half the cost",
            "core.mispredict_penalty",
            core["mispredict_penalty"] // 2,
        ),
        ("core", "a reorder buffer twice as large", "core.rob_entries", min(1024, 2 * core["rob_entries"])),
    ):
        if stack[cause] >= SMALL:
            suggest(stack[cause], label, {key: value})
    fuller = max(r.links)
    if slot["path"] == "pcie" and (fuller >= 0.5 or r.cohort["dma_drop"]):
        suggest(fuller, "the next generation of PCIe", {"slot.generation": slot["generation"] + 1})
    if r.cohort["dma_drop"] or r.cohort["tx_drop"]:
        more_in_flight = {f"nic.{key}": 2 * nic[key] for key in ("tx_packets_in_flight", "dma_writes")}
        suggest(0.8, "twice as many packets in flight in the NIC", more_in_flight)
    # Of a user's program it is not known whether it has such an option; the kernel's drivers have none.
    app = apps.APPS.get(name)
    if takes and app and app.ring and not app.kernel:
        arguments = words("--app-args", str(settings.get("app_args", "")))
        ring = int(settings.get(app.ring, Setup(p, 1, 0, {}, arguments).ring(app.ring)))
        for size, times in ((4 * ring, "four times"), (ring // 4, "a quarter of")):
            suggest(0.2, f"{times} the receive descriptors", {app.ring: size})
    return _possible(settings, [c for _, c in sorted(found, key=lambda f: -f[0])])


def _possible(settings: Mapping[str, Any], suggested: Sequence[Change]) -> list[Change]:
    """Return the changes that the program and the machine allow, and that are not what is there already."""

    def asked_with(change: Mapping[str, Any]) -> tuple[Request, Mapping[str, Any]]:
        request = Point({}, {**settings, **change}, About(name="explain")).request()
        runs.check(request)
        return replace(request, changes=()), runs.machine(request)

    now, found = asked_with({}), []
    for change in suggested:
        try:
            if asked_with(change.settings) != now:
                found.append(change)
        except WiretimeError:
            continue
    return found


def measure(settings: Mapping[str, Any], tried: Sequence[Change], jobs: int | None) -> tuple[Effect, list[Effect]]:
    """Run what was run again, and each change; returns the first, and the others, the largest gain first."""
    # What studies are made with takes longer to load than all the rest.
    from wiretime import api

    same = Change("as it is", {})
    places = [{"label": c.label, **settings, **c.settings} for c in (same, *tried)]
    plan = {"study": {"name": "explain"}, "axes": {LABEL: places}, "metrics": ["forwarded_mpps", "loss_percent"]}
    with scratch.folder() as path:
        study = api.sweep(plan, out=path, jobs=jobs)
        if len(failed := study.failed()) == len(places):
            raise WiretimeError(f"nothing could be run: {next(iter(failed.values()))}")
        results = study.results(LABEL)

    def effect(change: Change) -> Effect:
        result = results.get(change.label)
        if result is None:
            return Effect(change, None, None, None)
        r = Run(result)
        loss, latency = result["loss_percent"], result["latency_ns"]
        mean = latency["mean"] if latency else None
        if "iperf" in result:
            return Effect(change, result["iperf"]["received_gbps"], loss, mean, "Gb/s")
        return Effect(change, r.carried, loss, mean)

    first = effect(same)
    others = [effect(c) for c in tried]
    return first, sorted(others, key=lambda e: -(e.rate or 0))


# Below this a change has done nothing: the spread of figures over memory layouts is some 0.6 %.
NOTHING = 0.01


def told(first: Effect, others: Sequence[Effect]) -> list[str]:
    """Return what the changes did, in sentences."""
    said, idle = [], []
    for e in others:
        label, to = e.change.label[0].upper() + e.change.label[1:], e.change.says
        if e.rate is None:
            said.append(f"{label} ({to}) could not be run.")
            continue
        if not first.rate:
            without = "without it nothing" if first.rate == 0 else "the run as it is could not be repeated"
            said.append(f"{label} ({to}): {e.rate:.2f} {e.unit}, and {without}.")
            continue
        gain = e.rate / first.rate - 1
        if abs(gain) < NOTHING:
            faster = f", latency {e.latency / first.latency - 1:+.0%}" if e.latency and first.latency else ""
            idle.append(f"{e.change.label} ({to}{faster})")
        else:
            loss = f", loss {e.loss:.1f} %" if e.loss is not None else ""
            said.append(f"{label} ({to}): {e.rate:.2f} {e.unit}, {gain:+.1%}{loss}.")
    if idle:
        said.append(f"These change the rate by less than {NOTHING:.0%}: {'; '.join(idle)}.")
    return said


def explain(path: Path) -> tuple[list[str], Report]:
    """Return what a run's counters say, and the run."""
    result = load(path)
    return sentences(result), result
