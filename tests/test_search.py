"""The search for the maximum sustainable bandwidth: its steps against a server of known capacity, and a real one."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import wiretime
from wiretime import _native, run, search
from wiretime.errors import WiretimeError


def server(asked: dict[str, Any], capacity: float) -> dict[str, Any]:
    """What the engine would say of a forwarder that sends ``capacity`` bits a second at most, from a full ring."""
    rate = _native.parse_rate(asked["rate"])
    size = asked["sizes"]["size"]
    seconds = _native.parse_duration(asked["duration"]) / 1e12
    forwarded = min(rate, capacity)
    sent = int(forwarded * seconds / 8)
    full = rate >= capacity
    return {
        "statistics": {
            "time_ps": int(seconds * 1e12),
            "transmit": {"bytes": sent, "frames": sent // size},
            "receive": {"refused": int(full), "out_of_buffer": 0},
        },
        "occupancy": {"interval_ns": 1000.0, "ports": [[[0, 0, 1000 if full else 3, 0]] * 20]},
        "latency_ns": None,
        "ports": [{"cohort": {"dma_drop": 0, "core_drop": int(full), "tx_drop": 0, "host_drop": 0}}],
    }


def drive(steps: search.Steps, capacity: float) -> None:
    asked: dict[str, Any] | None = next(steps)
    while asked is not None:
        try:
            asked = steps.send(server(asked, capacity))
        except StopIteration:
            return


def found(capacity: float, threshold: float = 0.01, size: int = 64) -> search.Found:
    result: list[search.Found] = []

    def steps() -> search.Steps:
        result.append((yield from search.find(size, 100e9 * size / (size + 20), threshold, lambda t: None)))

    drive(steps(), capacity)
    return result[0]


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
    assert f.best.offered > capacity / (1 - threshold) * (1 - 2 * search.WIDTH)
    assert len(f.trials) <= 8


def test_a_backlog_that_grows_is_loss_and_one_that_settles_is_none() -> None:
    asked = {"rate": "1Gbps", "sizes": {"size": 125}, "duration": "1ms"}
    r = server(asked, 2e9)
    arrivals = 1e9 / 8 / 125

    def loss(waiting: list[float]) -> float:
        r["occupancy"] = {"interval_ns": 5000.0, "ports": [[[0, 0, n, 0] for n in waiting]]}
        return search._trial(125, 1e9, r).loss

    noise = [(-1) ** i * 8 for i in range(200)]
    grows = [100 + 0.02 * arrivals * i * 5e-6 + noise[i] for i in range(200)]
    assert loss(grows) == pytest.approx(0.02, rel=0.2)
    assert loss([min(100.0 + 30 * i, 900.0) + noise[i] for i in range(200)]) == 0, "settles in the first half"
    assert loss([900.0 - i for i in range(200)]) == 0, "falls"
    assert loss([float(n) for n in noise]) == 0


def test_the_line_is_the_limit_where_nothing_is_lost() -> None:
    f = found(300e9)
    assert f.line and f.best is not None and f.bound is None
    assert f.best.offered == pytest.approx(100e9 * 64 / 84, rel=1e-6)


def test_a_search_without_an_answer_ends() -> None:
    f = found(0.0, 0.0)
    assert f.best is None
    assert len(f.trials) < search.TRIALS_MAX
    assert "none" in str(search.table([f], 0.0).columns[1]._cells)  # type: ignore[attr-defined]


def test_msb_is_the_same_from_longer_trials_and_other_boots(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = lambda t: None  # noqa: E731
    both = search.msb(run.Request(), [64, 1518], 0.01, quiet)
    monkeypatch.setattr(search, "MEASURE", 4 * search.MEASURE)
    longer = search.msb(run.Request(), [64], 0.01, quiet)
    assert both[0].best and both[1].best and longer[0].best
    assert longer[0].best.offered == pytest.approx(both[0].best.offered, rel=0.01)
    assert "CoreDrop" in both[0].bound.classes if both[0].bound else False
    assert both[1].line, "the wire carries less than the core does at 1518 B"


def test_latency_and_ramp_go_on_in_the_same_boot() -> None:
    f, trials = search.latency(run.Request(), 256, 0.01, lambda t: None)
    assert f.best is not None and len(trials) == len(search.FRACTIONS)
    for fraction, trial in zip(search.FRACTIONS, trials, strict=True):
        assert trial.offered == pytest.approx(f.best.offered * fraction, rel=1e-6)
        # Near the limit small bursts cost more than those of a full ring: a backlog may build up from below.
        assert trial.loss == 0 or fraction > 0.9
        assert trial.latency is not None
        assert trial.latency["median"] <= trial.latency["p99"] <= trial.latency["max"]
    assert trials[0].latency and trials[0].latency["median"] < 5000, "no backlog is left of the search"
    assert trials[-1].latency and trials[0].latency["mean"] < trials[-1].latency["mean"]
    swept = search.ramp(run.Request(), 64, search.rates("5Gbps", "35Gbps", 4), lambda t: None)
    assert [t.loss > 0.02 for t in swept] == [False, False, True, True]
    assert swept[3].forwarded == pytest.approx(swept[2].forwarded, rel=0.03)


def test_what_cannot_be_searched_is_refused() -> None:
    for arguments, said in (
        (("--loss", "100"), "--loss 100: allowed are 0 to below 100 %"),
        (("--packet-sizes", "imix"), "--packet-sizes imix: must be sizes, such as 64,1518"),
        (("--packet-sizes", "64,63"), "allowed are 64 to 9000 B"),
    ):
        done = wiretime("msb", "testpmd", *arguments)
        assert len(done.stderr.strip().splitlines()) == 1
        assert done.returncode == 2
        assert said in done.stderr, done.stderr
    for arguments, said in (
        (("--from", "x"), "--from: rate"),
        (("--steps", "1"), "--steps 1: allowed are 2 to 1000"),
        (("--to", "99Gbps"), "--to 99.00 Gb/s: the line carries 92.75 Gb/s of frames at 256 B"),
    ):
        done = wiretime("ramp", "testpmd", *arguments)
        assert done.returncode == 2
        assert said in done.stderr, done.stderr
    with pytest.raises(WiretimeError, match="the search takes one port"):
        search.msb(run.Request(ports=2), [64], 0.01, lambda t: None)
