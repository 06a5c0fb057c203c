"""Validation: every published row has a rule that can be asked, errors mean what they say, a run ends in a page."""

from __future__ import annotations

import csv
import io
import itertools
import json
import statistics
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import wiretime
from rich.console import Console
from wiretime import _native, advise, paths
from wiretime.errors import WiretimeError
from wiretime.estimates import Places
from wiretime.micro import hardware as micro
from wiretime.statistics import PROCESSOR_TIME
from wiretime.study import folder, metrics
from wiretime.validation import claims, engines, execute, hardware, judge, qdma, show, spans, validate

PUBLISHED = Path(__file__).parent / "data/published.txt"

Value = Callable[[str, Mapping[str, Any]], float]


def falling(study: str, place: Mapping[str, Any]) -> float:
    return 0.0


def made_up(studies: Mapping[str, folder.Study], value: Value = falling, step: float = 20) -> judge.Tables:
    """Tables as finished studies would leave them: figures fall from point to point from what is given."""
    times = [f"statistics.cores.{n}.processor_time.{kind}_ps" for n in (0, 1) for kind in PROCESSOR_TIME]
    polls = [f"statistics.ports.0.queues.0.driver.{name}" for name in ("polls", "empty_polls")]
    symbols = [f"{metrics.OF_SYMBOLS}.librte_net_mlx5.so.mlx5_rx_burst_vec"]
    names = dict.fromkeys([*metrics.NAMED, "load.forwarded", *times, *polls, *symbols, *asked_for()])
    for name, study in studies.items():
        rows = [
            {
                "point": t.folder.name,
                **t.point.place,
                **dict.fromkeys(names, 1000.0 + value(name, t.point.place) - step * n),
            }
            for n, t in enumerate(study.tasks)
        ]
        study.path.mkdir(parents=True)
        for t in study.tasks:
            t.folder.mkdir(parents=True, exist_ok=True)
            (t.folder / "row.json").write_text("{}")
        pq.write_table(pa.Table.from_pylist(rows), study.path / folder.POINTS)
        host = [{"point": r["point"], "seconds": 1.0, "traffic_seconds": 1.0} for r in rows]
        pq.write_table(pa.Table.from_pylist(host), study.path / folder.TIMES)
    return judge.Tables(studies)


@pytest.mark.parametrize("quick", [False, True])
def test_every_published_row_can_be_asked_of_its_study(tmp_path: Path, quick: bool) -> None:
    """The rules' SQL finds a value in tables of the plans' own labels, and every row is then judged somehow."""
    all_of_them = claims.load()
    studies = execute.studies(all_of_them, claims.further(), tmp_path, only_quick=quick)
    asked = [judge.verdict(c, made) for made in [made_up(studies)] for c in all_of_them]
    missing = [v.claim.what for v in asked if v.simulated is None and not v.claim.skip]
    for v in asked:
        assert v.simulated is None or v.error is not None or v.agrees is not None, v.claim.what
    if not quick:
        nothing = [v.claim.what for v in asked if v.simulated == judge.NONE]
        assert missing == nothing == []
        # Beside these: both engines against each other, and what only models can be asked.
        plans = {p.stem: tomllib.loads(p.read_text()) for p in execute.EXPERIMENTS.glob("*.toml")}
        modelled = {name for name, plan in plans.items() if plan["fixed"].get("engine") == "packet"}
        assert {*studies, *engines.STUDIES, *modelled} == set(plans)
        assert all(v.claim.studies or v.claim.skip for v in asked)
        return
    kept = [v for v in asked if v.simulated is not None]
    # Trends of figures that take minutes, and the main values.
    for figure in ("abstract", "fig5", "fig6", "fig9", "fig10", "fig12", "fig14", "fig15", "fig16", "fig17", "tcp"):
        assert any(v.claim.figure == figure for v in kept), figure


def test_what_a_change_does_has_the_published_direction(tmp_path: Path) -> None:
    """A gain is of the second value over the first, in the rows' order of from and to."""
    better = {("dca", "on"), ("core", "out-of-order"), ("l2.size", "1MiB"), ("clock", "4GHz")}

    def value(study: str, place: Mapping[str, Any]) -> float:
        return 500.0 * sum((axis, label) in better for axis, label in place.items())

    all_of_them = [c for c in claims.load() if c.figure in ("fig11", "fig14", "fig15", "fig16")]
    tables = made_up(execute.studies(all_of_them, [], tmp_path), value, 1)
    found = {v.claim.what: v for v in (judge.verdict(c, tables) for c in all_of_them)}
    for what in ("testpmd, 512 B, DCA off to on", "rxptx 10 ns, DCA off to on, the most of 128, 512 and 1518 B"):
        assert found[what].simulated == pytest.approx(50, abs=2)
    assert found["touchfwd, 1518 B, 1GHz to 4GHz"].simulated == pytest.approx(50, abs=2)
    assert found["memcached_dpdk, in-order to out-of-order"].simulated == pytest.approx(50, abs=2)
    ratio = found["touchfwd, in-order to out-of-order, the more of 64 and 1518 B"]
    assert ratio.simulated == pytest.approx(1.5, abs=0.02)
    lost = found["testpmd and rxptx 10 ns, 256 B, L2 of 1MiB to 256KiB: smaller loss"]
    assert lost.simulated == pytest.approx(-33, abs=2) and lost.agrees


def asked_for() -> set[str]:
    """The counters that rules name."""
    return {name for c in claims.load() for name in c.simulated.split('"')[1::2] if name.startswith("statistics.")}


def test_statistics_that_rules_ask_for_exist() -> None:
    asked = asked_for()
    assert len(asked) > 9
    for name in asked:
        metrics.check_name("rules", name)


def claim(**changes: Any) -> claims.Claim:
    usual: dict[str, Any] = {
        "source": "S", "figure": "fig1", "what": "a", "published": "50", "value": 50.0, "unit": "Gb/s",
        "kind": "like for like", "there": "T", "here": "H",
    }  # fmt: skip
    return claims.Claim(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "simulated", "error", "agrees", "said"),
    [
        ({}, 55.0, 0.10, None, "+10 %"),
        ({"grid": 10.0}, 58.0, 0.0, None, "+0 %"),
        ({"grid": 10.0}, 66.0, 0.10, None, "+10 %"),
        ({"grid": 10.0}, 45.0, -0.10, None, "-10 %"),
        ({"unit": "%", "scale": "gain"}, 80.0, 0.20, None, "+20 %"),
        ({"unit": "%", "scale": "points"}, 80.0, 30.0, None, "+30 points"),
        ({"kind": "trend", "agrees": (0.0, 60.0)}, 55.0, None, True, "agrees"),
        ({"kind": "trend", "agrees": (0.0, 50.0)}, 55.0, None, False, "differs"),
        ({"kind": "trend", "published": "dma->core", "value": None}, "'dma->core'", None, True, "agrees"),
        ({"kind": "trend", "published": "dma->core", "value": None}, "'core->core'", None, False, "differs"),
        ({"kind": "trend", "published": "1-9", "value": None, "holds": "SELECT 2 > 1"}, "'3-4'", None, True, "agrees"),
    ],
)
def test_errors_and_trends(
    changes: dict[str, Any], simulated: float | str, error: float | None, agrees: bool | None, said: str
) -> None:
    v = judge.verdict(claim(simulated=f"SELECT {simulated}", **changes), judge.Tables({}))
    assert v.error == (error if error is None else pytest.approx(error)) and v.agrees is agrees
    assert show.outcome(v) == said


def test_a_rule_that_changed_shows_what_it_said_before() -> None:
    before = (
        claims.Earlier(rule="the value itself"),
        claims.Earlier(rule="another figure", simulated="SELECT 40.0"),
        claims.Earlier(rule="any rise", agrees=(51.0, 99.0)),
    )
    v = judge.verdict(claim(simulated="SELECT 60.0", grid=10.0, earlier=before), judge.Tables({}))
    assert show.outcome(v) == "+0 %"
    assert show.misfit(v) == (
        "judged before by the value itself: 60 Gb/s, +20 %; judged before by another figure: 40 Gb/s, -20 %; "
        "judged before by any rise: 60 Gb/s, +20 %"
    )
    changed = [c for c in claims.load() if c.earlier]
    gem5, red_hat = {"fig6", "fig9", "fig13", "fig20"}, {"tcp", "udp1500", "udp60"}
    assert {c.figure for c in changed} == {*gem5, *red_hat, "forwarding"}


def test_rates_are_compared_where_what_cores_share_limits() -> None:
    """From where on one more core brings less than half of what the first one did: of the published data alone."""
    rows = csv.DictReader((claims.FOLDER / "forwarding.csv").read_text().splitlines())
    series: dict[tuple[str, str, bool], dict[int, dict[str, float]]] = {}
    for r in rows:
        if r["source"].startswith("tohojo/xdp-paper") and 105 <= int(r["row"]) <= 187:
            one = series.setdefault((r["program"], r["mode"], 120 <= int(r["row"]) < 130), {})
            one.setdefault(int(r["cores"]), {})[f"L{r['row']}"] = float(r["value"])
    shared = set()
    for one in series.values():
        rates = [statistics.mean(values.values()) for _, values in sorted(one.items())]
        steps = [after - before for before, after in itertools.pairwise(rates)]
        bends = next((n for n, step in enumerate(steps, 2) if step < rates[0] / 2), None)
        shared |= {row for cores, values in one.items() if bends and cores >= bends for row in values}
    of_paper = {c.what.partition(":")[0]: c for c in claims.load() if c.figure == "forwarding" and not c.skip}
    here = {row for row, c in of_paper.items() if "what is shared carries" in c.what}
    assert here == shared - {"L124", "L126", "L128"}  # The generator's limit.
    assert all(of_paper[row].unit == "Mpps" for row in here)


def compared() -> list[str]:
    """All that is compared with something published, a line each."""
    from_tables = [f"{c.source.partition(':')[0]} | {c.figure} | {c.what} | {c.published}" for c in claims.load()]
    measured = [
        f"hardware | {r.get('machine') or r['host']} | {r['what']} | {r['measured']}"
        for table in ("cores.csv", "memory.csv", "pcie.csv")
        for r in csv.DictReader((micro.FOLDER / table).read_text().splitlines())
    ]
    return [*from_tables, *measured]


def test_no_published_row_disappears() -> None:
    """A row that is to go is taken out of the list by hand, and the commit says why."""
    listed = PUBLISHED.read_text().splitlines()
    assert sorted(listed) == sorted(compared())


def test_the_published_pages_have_every_row() -> None:
    """Each once, beside others of its name: what is put together of two runs could lose one."""
    pages: Counter[tuple[str, str, str]] = Counter()
    for line in (paths.REPOSITORY / "docs/validation/rows.md").read_text().splitlines():
        if line.startswith("| "):
            figure, what, _, published, *_ = (cell.strip() for cell in line.strip("|").split(" | "))
            pages[figure, what, published] += 1
    due = Counter((c.figure, c.what.replace("|", "\\|"), show.published(c)) for c in claims.load())
    assert due - pages == Counter()


def test_a_published_value_counts_once() -> None:
    """On a further machine it is compared again, which is said and not counted."""
    values: dict[tuple[str, str, str, str], list[claims.Claim]] = {}
    for c in claims.load():
        if c.value is not None and c.kind in ("like for like", "proxy") and not c.skip:
            what = c.what.removesuffix(f" ({c.label})") if c.label else c.what
            values.setdefault((c.source, c.figure, what, c.there), []).append(c)
    assert values and all(len(found) == 1 for found in values.values())
    again = [c for c in claims.load() if c.kind == "again"]
    assert again and all(c.label for c in again)


def test_what_a_quick_look_leaves_out_is_not_run_and_no_miss() -> None:
    tables = judge.Tables({}, {"dca"})
    tables.studies = {"dca", "iperf"}
    left = judge.verdict(claim(simulated="SELECT NULL", studies=("dca",)), tables)
    never = judge.verdict(claim(simulated="SELECT NULL", studies=("iperf",)), tables)
    assert (left.simulated, left.misses_all) == (None, False) and (never.simulated, never.misses_all) == ("none", True)
    assert judge.summary([left, never])[-1] == "not run: 1"
    assert "in-order" not in execute.narrowed_by_quick() and "dca" in execute.narrowed_by_quick()


def test_a_share_counts_where_it_is_one_on_either_side() -> None:
    """Nothing published and 11 points here is a miss; next to nothing on both sides fits by itself."""
    tables = judge.Tables({})
    many = {"published": "0.0", "value": 0.0, "unit": "%", "scale": "points"}
    shares = [judge.verdict(claim(simulated=f"SELECT {here}", **many), tables) for here in (11.0, 0.4)]
    assert judge.summary(shares) == [
        "S, like for like: 1 share of 1 % and more, 0 within 10 points, 1 within 25; median error 11 points"
    ]


def test_a_sample_whose_limit_is_another_counts() -> None:
    """What binds a cell of the QDMA study is another thing under other estimates, and the cell the same."""

    def row(what: str) -> tuple[str, ...]:
        return spans._row_of(judge.verdict(claim(what=what, simulated="SELECT 1.0"), judge.Tables({})))

    assert row(f"64 B, 1 queue{qdma.BINDS}link]") == row(f"64 B, 1 queue{qdma.BINDS}core]") != row("64 B, 2 queues")


def test_what_is_not_there_is_said() -> None:
    tables = judge.Tables({})
    absent = judge.verdict(claim(simulated="SELECT msb_gbps FROM dca", studies=("dca",)), tables)
    never = judge.verdict(claim(simulated="SELECT NULL", kind="trend"), tables)
    assert never.agrees is False and show.simulated(never) == "none"
    with pytest.raises(WiretimeError, match='fig1, a: Binder Error: Referenced column "x" was not found'):
        judge.verdict(claim(simulated="SELECT x"), tables)
    skipped = judge.verdict(claim(skip="no platform"), tables)
    misfit = judge.verdict(claim(simulated="SELECT 100", cause="because"), tables)
    unexplained = judge.verdict(claim(simulated="SELECT 100"), tables)
    fits = judge.verdict(claim(simulated="SELECT 51", cause="because"), tables)
    assert [show.misfit(v) for v in (absent, skipped, misfit, unexplained, fits)] == [
        "", "no platform", "because", "not explained", "",
    ]  # fmt: skip
    text = judge.summary([absent, skipped, misfit, unexplained, fits])
    assert text == [
        "S, like for like: 3 values, 1 within 10 %, 1 within 25 %; median error 100 %", "not run: 1",
        "not possible: 1, each says why",
    ]  # fmt: skip
    nowhere = judge.verdict(claim(simulated="SELECT NULL"), tables)
    assert judge.summary([fits, fits, nowhere]) == [
        "S, like for like: 3 values, 2 within 10 %, 2 within 25 %; median error 2 %",
    ]  # fmt: skip
    written = show.markdown([absent, skipped, misfit], text)
    assert "| fig1 | a | a | 50 Gb/s | 100 Gb/s | +100 % | like for like | because |" in written
    assert "- **a**: T; here: H" in written
    assert "| fig1 | a | a | 50 Gb/s | not run |" in written and "| not possible |" in written


def test_a_selection_that_names_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WiretimeError, match=r"unknown value .65.; known: 64, 128"):
        execute.narrowed({"axes": {"packet_size": [64, 128]}}, {"packet_size": [65]}, "q")
    done = wiretime("validate", "--only", "fig99", "--out", str(tmp_path))
    assert done.returncode == 2 and "--only: unknown figure or study 'fig99'; did you mean fig9?" in done.stderr
    done = wiretime("validate", "--jobs", "0", "--out", str(tmp_path))
    assert done.returncode == 2 and "--jobs 0: at least 1" in done.stderr


def test_studies_share_their_points(tmp_path: Path) -> None:
    """A point that two studies have is one folder, whatever each calls it."""
    all_of_them = claims.load()
    studies = execute.studies(all_of_them, claims.further(), tmp_path)
    counted = sum(len(s.tasks) for s in studies.values())
    assert len(folder.unique(studies.values())) < counted - 20
    shared = next(t for t in studies["l1-size"].tasks if t.point.place == {"work": "testpmd", "L1": "64 KiB"})
    same = [t.point.place for t in studies["dca"].tasks if t.folder == shared.folder]
    assert same == [{"packet_size": 256, "dca": "on"}]


def test_a_validation_ends_in_a_page(tmp_path: Path) -> None:
    """Three searches: the time is said before, rows after; a second one has nothing left to run."""
    out = tmp_path / "v"
    dry = wiretime("validate", "--quick", "--only", "altra", "--out", str(out), "--dry-run")
    assert dry.returncode == 0 and "validation: 3 points of 1 studies; about " in dry.stderr and not out.exists()
    done = wiretime("validate", "--quick", "--only", "altra", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "gem5 study, like for like: 1 value," in done.stdout and "gem5 study, trend: 2 of 2 agree" in done.stdout
    made = out / "quick"
    page = (made / "validation.html").read_text()
    assert 'href="altra/report.html"' in page and (made / "altra/report.html").is_file()
    assert "forwards all that its client offered, 16 Gb/s" in (made / "rows.md").read_text()
    assert {p.name for p in (made / "plots").glob("*.png")} == {"errors.png", "fig6-gb-s.png", "fig9-gb-s.png"}
    stamps = {p: p.stat().st_mtime_ns for p in out.glob("points/*/row.json")}
    again = wiretime("validate", "--quick", "--only", "altra", "--out", str(out), "--publish", str(tmp_path / "docs"))
    assert again.returncode == 0 and "3 points of 1 studies, 3 of them done" in again.stderr
    assert {p: p.stat().st_mtime_ns for p in out.glob("points/*/row.json")} == stamps
    assert (made / "validation.html").read_text() == page, "the same each time"
    published = {str(p.relative_to(tmp_path / "docs")) for p in (tmp_path / "docs").rglob("*.*")}
    pictures = {"plots/errors.png", "plots/fig6-gb-s.png", "plots/fig9-gb-s.png"}
    pictures.add("altra/plots/1-maximum-sustainable-bandwidth.png")
    data = {picture.replace(".png", ".csv") for picture in pictures}
    assert published == pictures | data | {"rows.md", "figures.md"}
    with (tmp_path / "docs/altra/plots/1-maximum-sustainable-bandwidth.csv").open(newline="") as f:
        assert len(list(csv.DictReader(f))) == 3
    assert json.loads((made / "altra/study.json").read_text())["pool"] == "../../points"


def test_quick_says_when_it_has_nothing(tmp_path: Path) -> None:
    done = wiretime("validate", "--quick", "--only", "fig13", "--out", str(tmp_path))
    assert done.returncode == 2 and "--quick: nothing of --only fig13 is part of it" in done.stderr
    done = wiretime("validate", "--quick", "--only", "engines", "--out", str(tmp_path))
    assert done.returncode == 2 and "--quick: nothing of --only engines is part of it" in done.stderr


def test_what_is_not_set_up_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute.builds, "missing", lambda name: name == "native")
    monkeypatch.setattr(execute.older, "missing", lambda app: app == "iperf3@bullseye")
    assert "--dpdk native" in execute.left_out(["grace-scaling"])
    everything = {path.stem for path in execute.EXPERIMENTS.glob("*.toml")}
    assert execute.left_out(everything) == ["--dpdk native", "--program iperf3@bullseye"]


def test_machines_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails is told and tried again by the next; the others are kept."""
    measured: list[str] = []

    def rows(machine: str, changes: Sequence[str]) -> list[micro.Row]:
        measured.append(machine)
        if machine == "graviton2":
            raise WiretimeError("no guest")
        return [micro.Row(machine, "chase", 10.0, 11.0, "ns", "")]

    monkeypatch.setattr(micro, "rows", rows)
    first = dict(hardware.run(tmp_path, hardware.left(tmp_path), 2))
    assert first.pop("graviton2") == "no guest" and set(first.values()) == {None} and len(first) == 8
    assert dict(hardware.run(tmp_path, hardware.left(tmp_path), 2)) == {"graviton2": "no guest"} and len(measured) == 10
    found = hardware.verdicts(tmp_path)
    assert sum(v.claim.what == "chase" and v.error == pytest.approx(0.1) for v in found) == 8


def test_rows_of_a_link_are_its_hosts(tmp_path: Path) -> None:
    """Caches and memory are not theirs: proxies, but what was calibrated on them."""
    assert dict(hardware.run(tmp_path, [micro.LINK], 1)) == {micro.LINK: None}
    found = hardware.verdicts(tmp_path)
    assert {v.claim.kind for v in found} == {"calibrated", "proxy"} and {v.claim.here for v in found} == {hardware.LINK}
    assert len({v.claim.figure for v in found}) == 6


def test_estimates_take_along_what_no_study_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample measures each machine with estimates elsewhere, once; a row's span is of all of them."""
    measured: dict[str, list[Sequence[str]]] = {name: [] for name in micro.MACHINES}

    def rows(machine: str, changes: Sequence[str]) -> list[micro.Row]:
        measured[machine].append(changes)
        return [micro.Row(machine, "chase", 14.0, 10.0 + len(measured[machine]), "ns", "")]

    def simulate(jobs: int, places: Places) -> Iterator[qdma.Cell]:
        mpps = next(iter(places.values()), 0.5)
        return (
            qdma.Cell(name, s, q, mpps, 1.0, "link") for name in qdma.PLATFORMS for s in qdma.SIZES for q in qdma.QUEUES
        )

    monkeypatch.setattr(micro, "rows", rows)
    monkeypatch.setattr(qdma, "simulate", simulate)
    for _ in range(2):
        screen = io.StringIO()
        asked = validate.Asked(tmp_path, ["hardware", "qdma"], samples=8, jobs=1)
        assert validate.run(Console(file=io.StringIO()), Console(file=screen, width=200), asked)
    for machine, found in measured.items():
        assert len(found) == 9 and found[0] == micro.MACHINES[machine][1]
        assert all(len(changes) > len(found[0]) and changes[: len(found[0])] == found[0] for changes in found[1:])
        assert len(set(found)) == 9
    assert "11 to 19" in screen.getvalue()
    assert "published within what the estimates allow: " in screen.getvalue()
    assert "| by estimates |" in (tmp_path / "rows.md").read_text()


def test_latency_under_load_is_read_off_the_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two points in proportion; beyond what memory carries there is none, and the maximum says so."""
    asked: list[int] = []

    def probe(platform: str, streams: int, stores: int, pause: int) -> tuple[float, float, float]:
        at = asked.count(stores)
        asked.append(stores)
        assert pause == micro.PAUSES[at] * (100 + stores) // 100
        # Beyond the most that is carried only waits grow.
        return (50.0 * at, 1.0, 170.0 + 10 * at) if at < 8 else (300.0, 1.0, 1000.0 + at)

    monkeypatch.setattr(_native, "probe_memory", probe)
    rows = {r.what: r for r in micro.rows("grace-mn5", ())}
    assert set(asked) == {0, 25, 49, 100}
    assert rows["DRAM load-to-use latency, idle"].simulated == 170.0
    assert rows["loaded DRAM latency at 174.7 GB/s, 100 % reads"].simulated == pytest.approx(170 + 10 * 174.7 / 50)
    beyond = rows["loaded DRAM latency at 357.5 GB/s, 100 % reads"]
    assert beyond.simulated is None and beyond.skip == "memory carries 350 GB/s of this mix here"
    assert rows["peak DRAM bandwidth reached, 50 % reads"].simulated == 350.0


def test_descriptors_by_arithmetic_are_the_published_ones() -> None:
    """N = R T(n) / C of grace_l3fwd.csv, from the delays of bursts in the same table."""
    with (claims.FOLDER / "grace_l3fwd.csv").open(newline="") as f:
        rows = list(csv.DictReader(f))
    delays = {r["burst"]: float(r["value"]) for r in rows if r["metric"] == "forwarding_delay"}
    depths = [r for r in rows if r["metric"] == "ideal_depth"]
    assert len(depths) == 4
    for r in depths:
        # The table's one core has the delay of bursts of 128, as its depth says.
        a = advise.Advice([], [], 0.148, int(r["cores"]), 0.0, [])
        assert a.ideal(delays[r["burst"]]) == pytest.approx(float(r["value"]))


def test_every_transcribed_cell_of_the_qdma_study_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells as published have no error, whatever else was simulated; nothing is compared before."""
    there = {(r["platform"], int(r["packet_size_bytes"]), int(r["queues"])): float(r["mpps"]) for r in qdma.published()}
    assert all(v.simulated is None for v in qdma.verdicts(tmp_path)) and qdma.drawn(tmp_path) is None

    def simulate(jobs: int, places: Places) -> Iterator[qdma.Cell]:
        for name in qdma.PLATFORMS:
            for size in qdma.SIZES:
                for queues in qdma.QUEUES:
                    mpps = there.get((name, size, queues), 1.0)
                    yield qdma.Cell(name, size, queues, mpps, mpps * size * 8 / 1000, "link")

    monkeypatch.setattr(qdma, "simulate", simulate)
    assert qdma.left(tmp_path) and len(list(qdma.run(tmp_path, 2))) == 768 and not qdma.left(tmp_path)
    found = qdma.verdicts(tmp_path)
    assert len(found) == 208 and sum(v.claim.kind == "calibrated" for v in found) == 20
    assert all(v.error == pytest.approx(0, abs=1e-4) for v in found) and qdma.missed(found) == []
    assert "[binds: link]" in found[0].claim.what
    drawn = qdma.drawn(tmp_path)
    assert drawn is not None and len(drawn[1]) == 768


def engine_rows(name: str, study: folder.Study, packet: Mapping[str, Any]) -> None:
    """Leave the tables that a finished study of both engines would."""
    full = {"msb_gbps": 10.0} if name == engines.MSB else {"latency_mean_ns": 2000.0, "latency_p99_ns": 3000.0}
    misses = {f"{engines.MISSES}l2_misses_payload": 1000, f"{engines.MISSES}llc_misses_code": 1}
    usual = {**full, **misses, f"core_{engines.DROPS}": 100.0, f"dma_{engines.DROPS}": 0.0, "cohort.forwarded": 1000}
    study.path.mkdir(parents=True)
    for t in study.tasks:
        t.folder.mkdir(parents=True, exist_ok=True)
        (t.folder / "row.json").write_text("{}")
    rows = [{**t.point.place, **usual, **(packet if t.point.place["engine"] == "packet" else {})} for t in study.tasks]
    pq.write_table(pa.Table.from_pylist(rows), study.path / folder.POINTS)


@pytest.mark.parametrize(
    ("packet", "misfits"),
    [
        ({}, set()),
        ({"msb_gbps": 10.29, "latency_mean_ns": 1910.0, "latency_p99_ns": 3440.0}, set()),
        ({"msb_gbps": 9.6}, {"MSB, Gb/s"}),
        ({"latency_mean_ns": 2110.0, "latency_p99_ns": 2500.0}, {"mean latency, ns", "p99, ns"}),
        ({"latency_p99_ns": None}, {"p99, ns"}),
        ({f"{engines.MISSES}l2_misses_payload": 1200}, {"l2 misses payload per packet"}),
        ({f"core_{engines.DROPS}": 40.0, f"dma_{engines.DROPS}": 60.0}, {"lost as"}),
    ],
)
def test_engines_are_compared_by_rules_that_were_fixed_before(
    tmp_path: Path, packet: dict[str, Any], misfits: set[str]
) -> None:
    studies = execute.studies([], engines.STUDIES, tmp_path)
    assert engines.rows(studies) == []
    for name, study in studies.items():
        engine_rows(name, study, packet)
    found = engines.rows(studies)
    # The highest load and the class of drops of 18; two latencies and one class of misses of 27.
    assert len(found) == 18 * 2 + 27 * 3 and sum(r.held_out for r in found) == 9 * 2 + 9 * 3
    assert {r.what for r in found if not r.fits} == misfits
    # Where full system has none there is no ratio.
    none = engines.Row("w", "dma misses per packet", 0.0, 0.5, 0.1)
    assert not none.fits and engines._cells(none)[-2:] == ("", "misfit")
    said = "\n".join(engines.summary(found))
    assert "engines, MSB: " in said and "engines, misses per packet: " in said and "of 9 held out)" in said
    assert "8254x, 64 B, ring of 256" in engines.markdown(found, "made")
