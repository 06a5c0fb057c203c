"""The search for the maximum sustainable bandwidth: its steps against a server of known capacity, and a real one."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import wiretime
from wiretime import _native, runs, search, vm
from wiretime.errors import GuestError, WiretimeError
from wiretime.search import boot, maximum, mlr, ratios, rfc2544, show, sweeps, trials

# What of a port is told over the measurement.
FILLS = ["rx_fifo_bytes", "rx_ring_free", "rx_ring_waiting", "tx_ring_posted"]


def server(asked: dict[str, Any], capacity: float) -> dict[str, Any]:
    """What the engine would say of a forwarder that sends ``capacity`` bits a second at most, from a full ring."""
    rate = _native.parse_rate(asked["rate"])
    size = asked["size"]
    seconds = _native.parse_duration(asked["duration"]) / 1e12
    forwarded = min(rate, capacity)
    sent, offered = int(forwarded * seconds / 8), int(rate * seconds / 8 / size)
    full = rate >= capacity
    return {
        "statistics": {
            "time_ps": int(seconds * 1e12),
            "transmit": {"bytes": sent, "frames": sent // size},
            "receive": {"refused": int(full), "out_of_buffer": 0},
        },
        "occupancy": {"interval_ns": 1000.0, "columns": FILLS, "ports": [[[0, 0, 1000 if full else 3, 0]] * 20]},
        "latency_ns": None,
        "ports": [
            {
                "cohort": {
                    **{"offered": offered, "filtered": 0, "dma_drop": 0, "core_drop": int(full)},
                    **{"tx_drop": 0, "host_drop": 0},
                }
            }
        ],
    }


def quiet(_: search.Trial) -> None:
    """Say nothing."""


def drive(steps: search.Steps, capacity: float) -> None:
    asked: dict[str, Any] | None = next(steps)
    while asked is not None:
        try:
            asked = steps.send(server(asked, capacity))
        except StopIteration:
            return


def searched(
    answer: Callable[[dict[str, Any]], dict[str, Any]],
    size: int = 64,
    line: float = 76e9,
    threshold: float = 0.01,
    ring: int = 1024,
) -> search.Found:
    """Return what a search finds of a device that answers so."""
    dialogue = search.find(size, line, threshold, quiet, search.Length(ring))
    asked = next(dialogue)
    while True:
        try:
            asked = dialogue.send(answer(asked))
        except StopIteration as end:
            found: search.Found = end.value
            return found


def found(capacity: float, threshold: float = 0.01, size: int = 64) -> search.Found:
    return searched(lambda asked: server(asked, capacity), size, 100e9 * size / (size + 20), threshold)


def test_a_server_that_is_late_at_first_is_searched_all_the_same() -> None:
    """Nothing has come back in the first trial: the next ones climb until something is lost."""
    capacities = itertools.chain([0.0], itertools.repeat(0.2e9))
    best = searched(lambda asked: server(asked, next(capacities)), ring=256).best
    assert best is not None and abs(best.offered / 0.2e9 - 1) < 0.02


@pytest.mark.parametrize("capacity", [30e9, 60e9, 300e9])
def test_an_overload_that_was_none_does_not_end_the_search(capacity: float) -> None:
    """The first trial saw little of the load, the second one loses what that left behind: neither bounds anything."""
    result: list[search.Found] = []

    def steps() -> search.Steps:
        result.append((yield from search.find(512, 96e9, 0.01, quiet, search.Length(1024))))

    dialogue = steps()
    next(dialogue)
    second = dialogue.send(server({"rate": "96Gbps", "size": 512, "duration": "400us"}, 3e9))
    assert _native.parse_rate(second["rate"]) == pytest.approx(24e9, rel=0.005)
    asked = dialogue.send(server(second, 22e9))
    with contextlib.suppress(StopIteration):
        while True:
            asked = dialogue.send(server(asked, capacity))
    (f,) = result
    assert f.best is not None
    if capacity > 96e9:
        assert f.line and f.best.offered == 96e9
    else:
        assert f.bound is not None and f.best.offered < f.bound.offered
        assert f.best.offered == pytest.approx(capacity / 0.99, rel=2 * maximum.WIDTH)


@pytest.mark.parametrize("capacity", [0.5e9, 7e9, 16.1e9, 70e9])
@pytest.mark.parametrize("threshold", [0.0, 0.01, 0.1])
def test_the_bracket_closes_around_the_capacity(capacity: float, threshold: float) -> None:
    f = found(capacity, threshold)
    if f.line:
        assert capacity / (1 - threshold) > 100e9 * 64 / 84
        return
    assert f.best is not None and f.bound is not None
    assert f.best.loss <= threshold < f.bound.loss
    assert f.best.offered <= capacity / (1 - threshold) * 1.0001
    assert f.best.offered > capacity / (1 - threshold) * (1 - 2 * maximum.WIDTH)
    assert len(f.trials) <= 8


@pytest.mark.parametrize("sustained", [0.3, 0.1, 0.01])
def test_what_is_sustained_far_below_what_an_overload_forwards_is_found(sustained: float) -> None:
    """One queue of many takes half of the packets: it is full long before the others are."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        rate = _native.parse_rate(asked["rate"])
        # Beyond, the one queue loses a tenth of what is offered; all of them together take no more than 30.
        return server(asked, 100e9 if rate <= sustained * 30e9 else min(0.9 * rate, 30e9))

    f = searched(answer)
    assert f.best is not None and f.best.offered == pytest.approx(sustained * 30e9, rel=2 * maximum.WIDTH)
    assert not f.wide and len(f.trials) < maximum.TRIALS_MAX


def test_a_search_that_ends_before_its_bracket_is_narrow_says_so() -> None:
    best = search.Trial(64, 1e9, 1e9, 2e6, 0.0, "no backlog", "")
    lossy = search.Trial(64, 2e9, 1e9, 2e6, 0.5, "full", "CoreDrop")
    found = search.Found(64, [best, lossy], best, lossy, False)
    assert "2, not closed" in str(show.table([found], 0.01).columns[6]._cells)  # type: ignore[attr-defined]


def test_packets_of_an_earlier_load_decide_nothing() -> None:
    """A slow program still has the 64 B packets that a load before has left: what it forwards then is no measure."""
    left = 9

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        nonlocal left
        left -= 1
        if left < 0:
            return server(asked, 6.4e9)
        earlier = server(asked, 0.4e9)
        earlier["statistics"]["transmit"]["frames"] *= 16
        return earlier

    f = searched(answer, 1024, 98e9)
    assert left < 0 and f.best is not None and f.best.offered == pytest.approx(6.4e9 / 0.99, rel=2 * maximum.WIDTH)
    assert [t.mixed for t in f.trials] == [True, True] + [False] * (len(f.trials) - 2)


def test_a_program_that_lengthens_packets_is_judged_by_their_number() -> None:
    """It puts tags of 4 B into packets of 64 B: of a load above what it takes it loses as many as one that does not."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        longer = server(asked, 6.4e9)
        longer["statistics"]["transmit"]["bytes"] = 68 * longer["statistics"]["transmit"]["frames"]
        return longer

    best = searched(answer).best
    assert best is not None and best.offered == pytest.approx(6.4e9 / 0.99, rel=2 * maximum.WIDTH)
    assert best.sent_length == pytest.approx(68)


def test_a_backlog_that_grows_is_loss_and_one_that_settles_is_none() -> None:
    asked = {"rate": "1Gbps", "size": 125, "duration": "1ms"}
    r = server(asked, 2e9)
    arrivals = 1e9 / 8 / 125

    def loss(waiting: list[float]) -> float:
        r["occupancy"] = {"interval_ns": 50000.0, "columns": FILLS, "ports": [[[0, 0, n, 0] for n in waiting]]}
        return search.read(125, 1e9, r).loss

    noise = [(-1) ** i * 8 for i in range(200)]
    grows = [100 + 0.02 * arrivals * i * 5e-5 + noise[i] for i in range(200)]
    assert loss(grows) == pytest.approx(0.02, rel=0.2)
    assert loss([min(100.0 + 30 * i, 900.0) + noise[i] for i in range(200)]) == 0, "settles in the first half"
    assert loss([900.0 - i for i in range(200)]) == 0, "falls"
    assert loss([float(n) for n in noise]) == 0
    assert loss([100 + 0.1 * i for i in range(200)]) == 0, "less than a burst"


def test_loss_is_of_what_came_and_not_of_the_rate_where_chance_decides() -> None:
    """A trial that refused packets lost them, also where more or fewer came than its rate says."""
    asked = {"rate": "1Gbps", "size": 125, "duration": "1ms"}

    def read(came: int, sent: int, dropped: int, chance: bool = True) -> search.Trial:
        r = server(asked, 1e9)
        r["ports"][0]["cohort"] |= {"offered": came, "core_drop": dropped}
        r["statistics"]["receive"]["frames"] = came
        r["chance"] = chance
        r["statistics"]["transmit"] = {"bytes": 125 * sent, "frames": sent}
        return search.read(125, 1e9, r)

    assert read(1000, 1000, 1, chance=False).loss == 0, "constant arrivals, and a backlog from before"
    assert read(700, 1000, 50, chance=False).loss == 0, "the others of the window are still on a long wire"
    assert read(1030, 1010, 10).loss == pytest.approx(20 / 1030), "more came: forwarding more than the rate is no proof"
    assert read(1030, 1030, 10).loss == pytest.approx(10 / 1030), "the backlog from before hides none of it"
    assert read(0, 0, 0).loss == 1, "a window between two bursts"
    assert read(950, 940, 10).loss == pytest.approx(10 / 950), "fewer came: what did not come is no loss"


def test_what_filters_do_not_take_is_lost() -> None:
    """A NIC that is set up for shorter frames refuses none: nothing waits, and nothing comes through."""
    r = server({"rate": "1Gbps", "size": 125, "duration": "1ms"}, 2e9)
    assert search.read(125, 1e9, r).loss == 0
    r["ports"][0]["cohort"] |= {"offered": 1000, "filtered": 400}
    trial = search.read(125, 1e9, r)
    assert (trial.loss, trial.concluded) == (0.4, "the NIC's filters drop")


def test_trials_hold_many_periods_of_their_arrivals() -> None:
    link = {"rate": "100Gbps", "gap_bytes": 20}
    burst, on_off = {"kind": "burst", "size": 64}, {"kind": "on-off", "on": "500us"}
    assert boot.period_ps(burst, link, 64, 1e9) == pytest.approx(64 * 64 * 8 * 1000)
    assert boot.period_ps(on_off, link, 64, 1e10) == pytest.approx(500e6 * 100 * 64 / 84 / 10)
    assert boot.period_ps({"kind": "poisson"}, link, 64, 1e9) == 0
    assert boot.in_periods(30e6, 40_000_000, 500_000_000) == (60_000_000, 510_000_000), "17 of them"
    assert boot.in_periods(30e6, 0, 100_000_000) == (0, 300_000_000), "ten at least"
    assert boot.in_periods(90e9, 1, 100_000_000) == (90_000_000_000, 180_000_000_000), "all that fit"
    assert boot.in_periods(201e9, 1, 1) == (0, 200_000_000_000), "the burst at the beginning"
    with pytest.raises(WiretimeError, match="whose loads last"):
        boot.length(runs.Request(arrivals="ramp:10%:1ms"), 1.0)


def test_a_backlog_that_only_rings_take_in_is_loss_of_a_longer_load() -> None:
    result: dict[str, Any] = {"offered_mpps": 1.0, "offered_gbps": 1.0}

    def left(waiting: list[float]) -> float:
        ports = [[[0, 0, n, 0] for n in waiting]]
        return trials.backlog({**result, "occupancy": {"interval_ns": 10000.0, "columns": FILLS, "ports": ports}})

    assert left([2.0 * i for i in range(200)]) == pytest.approx(0.2)
    assert left([5.0] * 200) == 0


def test_the_line_is_the_limit_where_nothing_is_lost() -> None:
    f = found(300e9)
    assert f.line and f.best is not None and f.bound is None
    assert f.best.offered == pytest.approx(100e9 * 64 / 84, rel=1e-6)


def test_a_search_without_an_answer_ends() -> None:
    f = found(0.0, 0.0)
    assert f.best is None
    assert len(f.trials) < maximum.TRIALS_MAX
    assert "none" in str(show.table([f], 0.0).columns[1]._cells)  # type: ignore[attr-defined]


def test_what_ends_one_of_several_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    done, killed = [], threading.Event()

    @contextlib.contextmanager
    def ending() -> Iterator[None]:
        killed.set()
        yield

    monkeypatch.setattr(vm, "ending_all", ending)

    def do(item: int) -> int:
        done.append(item)
        if item == 1:
            raise WiretimeError("one")
        # A guest runs until it is killed: no more than one may have begun behind the one that failed.
        assert item < 5 or killed.wait(60)
        return -item

    assert list(vm.at_once(do, [2, 3, 4])) == [-2, -3, -4] and not killed.is_set()
    done.clear()
    with pytest.raises(WiretimeError, match="one"):
        list(vm.at_once(do, [1, *range(5, 500)], 1))
    assert killed.is_set() and done in ([1], [1, 5])


def test_no_guest_starts_while_all_are_ended() -> None:
    machine = object.__new__(vm.Machine)
    machine._killed = False
    with vm.ending_all(), pytest.raises(WiretimeError, match="ended"), machine.started(terminal=False):
        pass
    machine._killed = True
    with pytest.raises(WiretimeError, match="ended"), machine.started(terminal=False):
        pass


@pytest.mark.parametrize("capacity", [3e9, 16.1e9])
def test_loss_ratios_close_around_the_capacity(capacity: float) -> None:
    result: list[search.Ratios] = []

    def steps() -> search.Steps:
        line = 100e9 * 64 / 84
        result.append((yield from mlr.find(64, line, ratios.NAMED, quiet, search.Length(1024))))

    drive(steps(), capacity)
    for goal, most in zip(result[0].goals, (capacity, capacity / 0.995), strict=True):
        assert goal.lower is not None and goal.upper is not None and goal.throughput is not None
        assert goal.lower <= most * 1.0001 and goal.upper >= most * 0.999
        assert (goal.upper - goal.lower) / goal.upper < 2 * mlr.WIDTH
        assert goal.throughput == pytest.approx(capacity, rel=0.01)


def test_loss_ratios_without_an_answer() -> None:
    result: list[search.Ratios] = []

    def steps() -> search.Steps:
        result.append((yield from mlr.find(64, 76e9, ratios.NAMED, quiet, search.Length(1024))))

    drive(steps(), 0.0)
    assert [goal.lower for goal in result[0].goals] == [None, None]
    assert "none" in str(show.ratios(result).columns[2]._cells)  # type: ignore[attr-defined]


def test_the_longest_burst_is_found() -> None:
    def longest(room: int) -> int | None:
        """Of a device that takes so many frames at once."""
        steps = rfc2544.back_to_back(64, 76e9, 10e9)
        next(steps)  # what is left goes first
        asked = steps.send(server({"rate": "1Mbps", "size": 64, "duration": "5ms"}, 10e9))
        while True:
            n = asked["packets"]
            try:
                asked = steps.send({"ports": [{"cohort": {"offered": n, "forwarded": min(n, room)}}]})
            except StopIteration as end:
                found: int | None = end.value
                return found

    assert [longest(n) for n in (0, 1, 63, 64, 65, 5000, 1 << 22)] == [0, 1, 63, 64, 65, 5000, None]


def test_the_longest_burst_of_what_only_takes_packets_is_found() -> None:
    steps = rfc2544.back_to_back(64, 76e9, 10e9)
    next(steps)
    asked = steps.send(server({"rate": "1Mbps", "size": 64, "duration": "5ms"}, 10e9))
    with pytest.raises(StopIteration) as end:
        while True:
            n = asked["packets"]
            lost = dict.fromkeys((*trials.CLASSES, "filtered", "lost_in_reset"), 0) | {"core_drop": max(0, n - 700)}
            # The last of them are still with the program.
            cohort = {"offered": n, "forwarded": 0, "consumed": n - 30, **lost}
            asked = steps.send({"role": "consumes", "ports": [{"cohort": cohort}]})
    assert end.value.value == 700


def test_recovery_overloads_until_something_is_lost() -> None:
    """A FIFO that holds many rings takes an overload of 10 % for long; one that loses nothing is none."""

    def answer(refused: int, waits: int) -> dict[str, Any]:
        rows = [[[0, 0, waits, 0]] * 10 + [[0, 0, 3, 0]] * 10]
        return {
            "statistics": {"receive": {"refused": refused, "out_of_buffer": 0}},
            "occupancy": {"interval_ns": 1000.0, "columns": FILLS, "ports": rows},
            "ports": [{"last_drop_ns": 700.0}],
        }

    def recovered(room: int) -> tuple[Any, int]:
        steps = rfc2544.recovery(64, 11e9, 5e9, search.Length(1024))
        asked = next(steps)
        rates = []
        while True:
            rates.append(asked["rate"])
            try:
                asked = steps.send(answer(int(len(rates) > room), 1000))
            except StopIteration as end:
                return end.value, len(rates)

    assert recovered(5) == ((700.0, 10000.0), 7)
    assert recovered(10_000) == ((None, None), rfc2544.FILLING_MAX)


def test_latency_at_the_throughput_is_a_fresh_loads() -> None:
    asked: list[dict[str, Any]] = []
    steps = rfc2544._one(64, 76e9, quiet, search.Length(1024))
    question = next(steps)
    while "follow" not in question or question["follow"] == "0ns":
        asked.append(question)
        question = steps.send(server(question, 10e9))
    assert question["idle"] == "2ms" and {a["idle"] for a in asked} == {"0ns"}
    drained = _native.parse_rate(asked[-1]["rate"]) / _native.parse_rate(question["rate"])
    assert drained == pytest.approx(trials.DRAIN_SHARE, rel=1e-3)


def test_drains_until_rings_are_empty() -> None:
    steps, times = trials.drain(64, 1e9), 0
    asked: dict[str, Any] | None = next(steps)
    while asked is not None:
        times += 1
        try:
            asked = steps.send(server(asked, 0.0 if times < 7 else 1e9))
        except StopIteration:
            asked = None
    assert times == 7


def test_rates_of_several_ports_are_said_to_be_of_each() -> None:
    one = search.Trial(64, 1e9, 1e9, 2e6, 0.0, "no backlog", "")
    two = dataclasses.replace(one, ports=2)
    titles = [str(show.table([search.Found(64, [t], t, None, True)], 0.01).title) for t in (one, two)]  # type: ignore[attr-defined]
    assert titles[0].startswith("maximum sustainable bandwidth, loss")
    assert titles[1].startswith("maximum sustainable bandwidth of each of 2 ports, loss")


def test_requests_to_a_store_count_as_the_shortest_frames() -> None:
    store = runs.Request(app="memcached_dpdk")
    assert search.sizes_of(store, None) == search.sizes_of(store, [64]) == [64]
    assert search.sizes_of(runs.Request(), None)[-1] == 1518
    for refused in (lambda: search.msb(store, [256], 0.01, quiet), lambda: search.rates(store, 256, "10%", "90%", 2)):
        with pytest.raises(WiretimeError, match="packet size: not with memcached_dpdk"):
            refused()


def test_a_curve_that_falls_is_told() -> None:
    def trial(offered: float, loss: float) -> search.Trial:
        return search.Trial(64, offered, offered * (1 - loss), 0.0, loss, "full", "")

    rising = [trial(1e9, 0.0), trial(2e9, 0.02), trial(3e9, 0.3)]
    assert show.monotone(show.curves(rising[::-1])) == []
    (remark,) = show.monotone(show.curves([*rising, trial(2.5e9, 0.0)]))
    assert "64 B: loss falls from 2.00 % at 2.00 Gb/s to 0.00 % at 2.50 Gb/s" in remark


def test_plots_are_drawn(tmp_path: Path) -> None:
    trials = [search.Trial(64, x * 1e9, min(x, 5) * 1e9, 0.0, max(0.0, 1 - 5 / x), "full", "") for x in range(1, 10)]
    for name, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        show.plot(show.curves(trials), tmp_path / name, "title")
        assert (tmp_path / name).read_bytes().startswith(magic)
    assert "64 B" in show.terminal(show.curves(trials), 80)


def test_msb_is_the_same_from_longer_trials_and_other_boots() -> None:
    both = search.msb(runs.Request(), [64, 1518], 0.01, quiet)
    longer = search.msb(runs.Request(), [64], 0.01, quiet, 2.0)
    assert both[0].best and both[1].best and longer[0].best
    # Seeds differ by 0.6 %, one standard deviation.
    assert longer[0].best.offered == pytest.approx(both[0].best.offered, rel=0.02)
    assert "CoreDrop" in both[0].bound.classes if both[0].bound else False
    assert both[1].line, "the wire carries less than the core does at 1518 B"


def test_latency_and_ramp_go_on_in_the_same_boot() -> None:
    f, trials = search.latency(runs.Request(), 256, 0.01, quiet)
    assert f.best is not None and len(trials) == len(sweeps.FRACTIONS)
    for fraction, trial in zip(sweeps.FRACTIONS, trials, strict=True):
        assert trial.offered == pytest.approx(f.best.offered * fraction, rel=1e-6)
        # Near the limit small bursts cost more than those of a full ring: a backlog may build up from below.
        assert trial.loss == 0 or fraction > 0.9
        assert trial.latency is not None
        assert trial.latency["median"] <= trial.latency["p99"] <= trial.latency["max"]
    assert trials[0].latency and trials[0].latency["median"] < 5000, "no backlog is left of the search"
    assert trials[-1].latency and trials[0].latency["mean"] < trials[-1].latency["mean"]
    swept = search.ramp(runs.Request(), 64, search.rates(runs.Request(), 64, "2Gbps", "20Gbps", 4), quiet)
    assert [t.loss > 0.02 for t in swept] == [False, False, True, True]
    assert swept[3].forwarded == pytest.approx(swept[2].forwarded, rel=0.03)


def test_what_cannot_be_searched_is_refused() -> None:
    for arguments, said in (
        (("--loss", "100"), "--loss 100: allowed are 0 to below 100 %"),
        (("--packet-sizes", "imix"), "--packet-sizes imix: must be sizes, such as 64,1518"),
        (("--packet-sizes", "64,63"), "allowed are 64 to 9000 B"),
        (("--seeds", "0"), "--seeds 0: allowed are 1 to 1000"),
        (("--seeds", "2", "--ndr-pdr"), "--seeds: not with --ndr-pdr"),
        (("--trial-length", "0"), "--trial-length 0: allowed are 0.1 to 100"),
        (("--plot", "/tmp/x.gif"), "--plot /tmp/x.gif: allowed are .png, .svg, .pdf"),
        (("--plot", "/nowhere/x.png"), "there is no folder /nowhere"),
        (("--ip", "6", "--packet-sizes", "83"), "--packet-size 83: a probe in UDP over IPv6 needs 84 B and more"),
        (("--app-args=--forward-mode=txonly",), "testpmd sends by itself here: a search needs a program"),
    ):
        done = wiretime("msb", "testpmd", *arguments)
        assert len(done.stderr.strip().splitlines()) == 1
        assert done.returncode == 2
        assert said in done.stderr, done.stderr
    for arguments, said in (
        (("--from", "x"), "--from: rate"),
        (("--steps", "1"), "--steps 1: allowed are 2 to 1000"),
        (("--to", "99Gbps"), "--to 99Gbps: the line carries 92.75 Gb/s of frames at 256 B"),
    ):
        done = wiretime("ramp", "testpmd", *arguments)
        assert done.returncode == 2
        assert said in done.stderr, done.stderr
    for options, said in (
        ({"rate": "1Gbps"}, "--rate: not of a search, which finds the load itself"),
        ({"warm_up": "1us"}, "--warmup: not of a search"),
        ({"iperf": ("streams=2",)}, "--iperf: not of a search"),
    ):
        with pytest.raises(WiretimeError, match=said):
            search.msb(runs.Request(**options), [64], 0.01, quiet)


def test_a_search_offers_what_a_run_offers() -> None:
    done = wiretime("msb", "testpmd", "--ip", "6", "--packet-sizes", "128", "--trial-length", "0.2", "--flows", "64")
    assert done.returncode == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("128 B")]
    assert 15 < float(row[2]) < 25 and row[3] == "Gb/s"


def test_a_trial_whose_packets_are_unaccounted_for_ends_a_search() -> None:
    trial = {"trial": {"ledger_violations": []}}
    end = {"result": {}}
    wronged = {"trial": {"ledger_violations": ["port 0, arrived: the ledger has 2 packets, the model 3"]}}
    reading, writing = os.pipe()
    try:
        asked: list[Any] = []
        assert vm.listen(map(json.dumps, (trial, end)), None, asked.append, writing) == end and len(asked) == 1
        with pytest.raises(GuestError, match="the ledger does not balance: port 0, arrived"):
            vm.listen(map(json.dumps, (trial, wronged, end)), None, asked.append, writing)
        assert len(asked) == 2
    finally:
        os.close(reading)
        os.close(writing)


def test_trials_may_be_longer_than_usual_where_that_is_asked_for() -> None:
    """Of a slow program twenty turnovers of a ring take longer than trials usually last."""
    slow, fast = 64 * 8 * 100e3, 64 * 8 * 10e6
    usual, longer = search.Length(1024), search.Length(1024, 4)
    assert (usual.microseconds(64, slow), longer.microseconds(64, slow)) == (20_000, 80_000)
    assert longer.microseconds(64, fast) == pytest.approx(4 * usual.microseconds(64, fast)) == pytest.approx(8192)
    assert search.Length(1024, 0.25).microseconds(64, 64 * 8 * 1e9) == 60
