"""Applications: what each does with packets, and that its figures are those of the simulator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from test_system import balanced, result
from wiretime import apps, load, platforms
from wiretime.errors import WiretimeError

SHORT = ("--duration", "300us", "--warmup", "200us")
STORE = ("--store", "keys=200", "--store", "requests=600")


def setup(extra: str = "", flows: int = 1, *changes: str, queues: int = 1) -> apps.Setup:
    asked = {"flows": load.flows(flows, "round-robin", "ports")}
    return apps.Setup(platforms.load("ampere-altra", changes), queues, 1518, asked, apps.words(extra))


def test_routes_lead_every_flow_back() -> None:
    l3fwd = apps.get("l3fwd")
    assert apps.command(l3fwd, setup()).texts["routes4"] == "R10.0.0.0/8 0\n"
    routes = apps.command(l3fwd, setup("--lookup=em", 60000)).texts["routes4"].splitlines()
    assert routes[0] == "R10.0.0.2 10.0.0.1 8192 4096 0x11 0"
    # Beyond the ports of one address comes the next one, and the target is nobody's source.
    assert routes[57344] == "R10.0.0.2 10.0.0.3 8192 4096 0x11 0" and len(set(routes)) == 60000
    with pytest.raises(WiretimeError, match="--flows 70000: exact match takes 1 to 65536"):
        apps.command(l3fwd, setup("--lookup em", 70000))
    with pytest.raises(WiretimeError, match="--ports 2: l3fwd's routes"):
        apps.command(l3fwd, setup("", 1, "nic.ports=2", "system.cores=3"))


def test_command_lines_follow_machine_and_arguments() -> None:
    four = setup("--rxd=4096", 1, "system.cores=5", "nic.interface=82599", queues=4)
    text = apps.command(apps.get("touchfwd"), four)
    assert "--rxq=4" in text.text and text.ring == 4096 and text.text.endswith("--rxd=4096")
    assert "--config='(0,0,1),(0,1,2),(0,2,3),(0,3,4)'" in apps.command(apps.get("l3fwd"), four).text
    roles = {"macswap": "forwards", "rxonly": "consumes", "txonly": "sends"}
    for mode, role in roles.items():
        assert apps.command(apps.get("testpmd"), setup(f"--forward-mode {mode}")).role == role


def test_stores_are_asked_for_what_can_be() -> None:
    spec, requests = load.store(("keys=10", "key=20", "value=8-16", "gets=50"))
    assert (spec["keys"], spec["key_length"], spec["value_length"], requests) == (10, [20, 20], [8, 16], 10_000)
    for text, said in (
        ("what=1", "--store what=1: must be NAME=VALUE; names are keys, requests"),
        ("keys=0", "--store keys=0: keys '0' must be a whole number from 1"),
        ("value=50-10", "--store value=50-10: from 50 to 10 B is no range"),
        ("skew=x", "--store skew=x: must be a number from 0 to 10"),
    ):
        with pytest.raises(WiretimeError, match=re.escape(said)):
            load.store((text,))


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        ("l3fwd", ("--flows", "100")),
        ("l3fwd", ("--flows", "100", "--app-args", "--lookup=em", "--nic", "82599", "--cores", "2", "--queues", "2")),
        ("touchfwd", ("--nic", "82599", "--cores", "2", "--queues", "2")),
        ("rxptx", ("--app-args", "--interval=500 --per=burst")),
        ("udpecho", ("--rate", "100kpps", "--duration", "2ms")),
    ],
)
def test_answers_come_back_and_nothing_is_lost(app: str, arguments: tuple[str, ...]) -> None:
    rate = () if "--rate" in arguments else ("--rate", "2Gbps")
    r = result(*SHORT, *rate, *arguments, app=app)
    balanced(r)
    assert r["loss_percent"] == 0 and r["cohort"]["forwarded"] == r["cohort"]["offered"] > 0
    assert r["latency_ns"]["mean"] > 500


def test_a_receiver_takes_and_a_sender_sends() -> None:
    r = result(*SHORT, "--rate", "40Gbps", app="touchdrop")
    balanced(r)
    assert r["app"]["role"] == "consumes" and r["cohort"]["forwarded"] == 0
    assert r["cohort"]["core_drop"] > 0 and r["cohort"]["dma_drop"] == 0
    expected = 100 * r["cohort"]["core_drop"] / r["cohort"]["offered"]
    assert r["loss_percent"] == pytest.approx(expected, rel=1e-9)
    r = result(*SHORT, "--app-args", "--forward-mode=txonly")
    assert r["cohort"]["offered"] == 0 and r["app"]["role"] == "sends"
    assert r["statistics"]["transmit"]["frames"] > 1000


def test_touching_payloads_is_the_cores_burden_on_the_published_machine() -> None:
    for size in ("64", "1518"):
        r = result(
            *SHORT, "--platform", "gem5-n1-paper", "--packet-size", size, "--rate", "56Gbps",
            "--set", "nic.rx_fifo=64KiB", app="touchfwd",
        )  # fmt: skip
        lost = {k: r["cohort"][k] for k in ("dma_drop", "core_drop", "tx_drop")}
        assert lost["core_drop"] > 0.9 * sum(lost.values()) > 0, (size, lost)


def test_rxptx_works_as_long_as_it_is_told() -> None:
    def each(interval: int) -> float:
        r = result("--packet-size", "64", "--rate", "40Gbps", "--app-args", f"--interval={interval}", app="rxptx")
        return float(r["statistics"]["time_ps"] / 1000 / r["statistics"]["transmit"]["frames"])

    # What else a packet costs is the same in both.
    short, long = each(200), each(400)
    assert long - short == pytest.approx(200, rel=0.02)
    assert 200 <= short < 260


@pytest.mark.parametrize("app", ["memcached_dpdk", "memcached"])
def test_values_come_back_as_they_were_set(app: str, tmp_path: Path) -> None:
    arguments = (
        (*STORE, "--flows", "8", "--rate", "20kpps")
        if app == "memcached"
        else (*STORE, "--flows", "8", "--nic", "82599")
    )
    r: dict[str, Any] = result(*arguments, app=app)
    balanced(r)
    s = r["ports"][0]["store"]
    assert s["gets"] + s["sets"] == 800 and s["hits"] == s["gets"] > 300
    assert (s["stored"], s["misses"], s["wrong"], s["refused"]) == (s["sets"], 0, 0, 0)
    assert r["cohort"]["forwarded"] == r["cohort"]["offered"] == 600
    if app == "memcached":
        assert r["execution"]["interrupts"] > 100
