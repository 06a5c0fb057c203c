"""The simulated machine against closed forms: micro-benchmarks in the guest, on every platform."""

from __future__ import annotations

import pytest
from wiretime import platforms
from wiretime.micro import guest
from wiretime.micro.closed_form import PLAIN, expected

# Every platform as it is, and parameters changed one kind at a time.
MACHINES = [
    *[(name, ()) for name in platforms.names()],
    (
        "ampere-altra",
        ("core.frequency=2GHz", "l1d.latency=5", "l2.latency=20", "llc.latency=50ns", "dram.controller_latency=60ns"),
    ),
    ("ampere-altra", ("core.timing.alu.latency=2", "core.timing.mul_wide.latency=7", "core.units.vector=1")),
    ("ampere-altra", ("dram.t_rcd=30ns", "dram.page_policy=closed", "l2.interval=12", "llc.port_time=5ns")),
    ("ampere-altra", ("core.predictor.nano_btb_latency=2", "core.predictor.btb_latency=6", "core.tlb.walk_latency=60")),
    ("ampere-altra", ("io.mmio_write_latency=100ns", "pcie.latency=400ns", "core.dispatch_width=2", "l1d.mshrs=4")),
]


@pytest.mark.parametrize(("platform", "changes"), MACHINES, ids=lambda v: v if isinstance(v, str) else "+".join(v))
def test_micro_benchmarks_meet_their_closed_forms(platform: str, changes: tuple[str, ...]) -> None:
    changes = (*PLAIN, *changes)
    wanted = expected(guest.machine(platform, changes))
    assert len(wanted) > 20
    measured = guest.measure(platform, [e.job for e in wanted], changes)
    wrong = [
        f"{e.job[0]} {e.job[1]}: {measured[e.job]:.3f} ns, by formula {e.ns:.3f} ({e.formula})"
        for e in wanted
        if abs(measured[e.job] / e.ns - 1) > e.tolerance
    ]
    assert not wrong, "\n".join(wrong)


def test_false_sharing_costs_and_padding_does_not() -> None:
    measured = guest.measure("ampere-altra", [("share", 64), ("share", 8), ("atomic", 0)])
    p = guest.machine("ampere-altra")
    assert measured["share", 64] < 1.1 * measured["atomic", 0], "own lines: as if alone"
    # Each addition of one core takes the line from the other: over the LLC's directory and a snoop.
    crossing = guest.ns(p["llc"]["latency"]) + guest.ns(p["llc"]["snoop_latency"])
    # One of the two may be alone for a while at its start and end.
    assert 0.7 * crossing < measured["share", 8] < 2.5 * crossing, measured


def test_branches_cost_what_their_pattern_costs() -> None:
    measured = guest.measure("ampere-altra", [("branches", 0), ("branches", 1), ("branches", 2)])
    p = guest.machine("ampere-altra")
    penalty = p["core"]["mispredict_penalty"] * guest.cycle(p)
    never, pattern, random = (measured["branches", n] for n in range(3))
    assert pattern - never < 0.15 * penalty, "a period of four is learned"
    # Half of the random ones are wrong; the load before each is hidden otherwise.
    assert 0.4 * penalty < random - never < 1.2 * penalty, measured


def test_software_prefetches_bring_lines() -> None:
    """Ignoring PRFM would show: a prefetched line is a hit."""
    jobs = [("prefetched", 1), ("prefetched", 0)]
    with_, without = (guest.measure("ampere-altra", jobs, PLAIN)[job] for job in jobs)
    assert with_ < 0.5 * without
    unseen = guest.measure("ampere-altra", jobs, PLAIN, ignore_hidden_accesses=True)
    assert unseen["prefetched", 1] > 0.9 * without, "the control"
