"""Plans with anything in them: each is a study that could be run, or one line says what is wrong with it.

The same cases each time; others and more of them by taking `derandomize` away, or raising `max_examples`.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wiretime import paths, runs
from wiretime.errors import WiretimeError
from wiretime.request import Request
from wiretime.study import plan

PLANS = {
    path.name: tomllib.loads(path.read_text()) for path in sorted((paths.REPOSITORY / "experiments").glob("*.toml"))
}
WORDS = st.sampled_from(
    [
        *(name for name in plan.OPTIONS),
        "run", "msb", "testpmd", "iperf3", "memcached", "connectx-6dx", "gem5-n1-paper", "packet", "--rxd", "label",
        "core.frequency", "llc.dca_ways", "nic.rx_fifo", "dram", "1ns", "100Gbps", "0", "-1", "64:7,1518:5", "1e300",
        "store.keys", "iperf.streams", "axes", "fixed", "study", "plots", "metrics", "msb_gbps", "",
    ]
)  # fmt: skip
PLAIN = st.one_of(WORDS, st.text(max_size=12), st.integers(), st.floats(), st.booleans())
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=5
)


def places(table: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every table or list with each key or index in it."""
    for key, inner in list(table.items() if isinstance(table, dict) else enumerate(table)):
        yield table, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from(sorted(PLANS)),
    st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(["set", "add", "remove"]), WORDS, VALUES), max_size=4),
)
def test_any_plan_is_a_study_or_refused(name: str, changes: list[tuple[int, str, str, Any]]) -> None:
    table = copy.deepcopy(PLANS[name])
    for where, what, key, value in changes:
        every = list(places(table))
        if not every:
            break
        inside, at = every[where % len(every)]
        if what == "set":
            inside[at] = value
        elif what == "remove":
            del inside[at]
        elif isinstance(inside, dict):
            inside[key] = value
        else:
            inside.append(value)
    try:
        study = plan.parse(plan.with_axes(table, []), name)
        found = plan.points(study, name)
        for point in found[:3]:
            assert point.command() and point.text()
            runs.check(point.request())
    except WiretimeError as e:
        assert str(e) and "\n" not in str(e)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.sampled_from(plan.OPTIONS), PLAIN, max_size=4), st.lists(st.tuples(WORDS, PLAIN), max_size=2))
def test_any_run_is_possible_or_refused(options: dict[str, Any], changes: list[tuple[str, Any]]) -> None:
    """What the command line gives a run, of the types that it gives."""
    texts = {key: value for key, value in options.items() if type(value) is type(getattr(Request(), key))}
    try:
        runs.check(Request(changes=tuple(f"{key}={value}" for key, value in changes), **texts))
    except WiretimeError as e:
        assert str(e)


@pytest.mark.parametrize("axes", [3, "x", [1], None, 1.5])
def test_axes_that_are_no_table_are_refused(axes: Any) -> None:
    with pytest.raises(WiretimeError, match="axes: "):
        plan.parse(plan.with_axes({**PLANS["dca.toml"], "axes": axes}, []), "a plan")
