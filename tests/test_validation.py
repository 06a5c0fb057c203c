"""Validation: every published row has a rule that can be asked, errors mean what they say, a run ends in a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import wiretime
from wiretime import advise
from wiretime.errors import WiretimeError
from wiretime.statistics import catalogue
from wiretime.study import folder, metrics
from wiretime.validation import claims, execute, judge, show

# The host's figures that rules may ask for.
HOST = {"seconds": 1.0, "traffic_seconds": 1.0}


def kernel_row() -> dict[str, float]:
    return {
        f"statistics.cores.{core}.processor_time.{kind}": 1.0
        for core in (0, 1)
        for kind in ("user", "system", "softirq", "irq", "idle")
    }


def made_up(studies: Mapping[str, folder.Study]) -> judge.Tables:
    """Tables as finished studies would leave them; figures fall from point to point."""
    names = [*metrics.NAMED, "load.forwarded", *kernel_row()]
    for study in studies.values():
        rows = [
            {"point": t.folder.name, **t.point.place, **dict.fromkeys(names, 1000.0 - 100 * n)}
            for n, t in enumerate(study.tasks)
        ]
        study.path.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), study.path / folder.POINTS)
        pq.write_table(pa.Table.from_pylist([{"point": r["point"], **HOST} for r in rows]), study.path / folder.TIMES)
    return judge.Tables({name: study.path for name, study in studies.items()})


@pytest.mark.parametrize("quick", [False, True])
def test_every_published_row_can_be_asked_of_its_study(tmp_path: Path, quick: bool) -> None:
    """The rules' SQL finds a value in tables of the plans' own labels: none names a point that no plan has."""
    all_of_them = claims.load()
    studies = execute.studies(all_of_them, claims.further(), tmp_path, quick)
    tables = made_up(studies)
    asked = [judge.verdict(c, tables) for c in all_of_them]
    missing = [v.claim.what for v in asked if v.simulated is None and not v.claim.skip]
    if not quick:
        assert missing == [] and set(studies) == {p.stem for p in execute.EXPERIMENTS.glob("*.toml")}
        assert all(v.claim.studies or v.claim.skip for v in asked)
        return
    kept = [v for v in asked if v.simulated is not None]
    sources = {v.claim.source for v in kept}
    assert len(sources) == 2 and len(kept) > 100
    # Trends of every figure that takes minutes, and the main values.
    for figure in ("abstract", "fig5", "fig6", "fig9", "fig10", "fig12", "fig14", "fig15", "fig16", "fig17", "tcp"):
        assert any(v.claim.figure == figure for v in kept), figure


def test_statistics_that_rules_ask_for_exist() -> None:
    known = {
        f"statistics.{g['path'].replace('*', str(n))}.{s['name']}"
        for g in catalogue()
        for s in g["stats"]
        for n in (0, 1)
    }
    times = set(kernel_row())
    for claim in claims.load():
        for name in claim.simulated.split('"')[1::2]:
            assert not name.startswith("statistics.") or name in known | times, name


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


def test_what_is_not_there_is_said() -> None:
    tables = judge.Tables({})
    absent = judge.verdict(claim(simulated="SELECT msb_gbps FROM dca", studies=("dca",)), tables)
    skipped = judge.verdict(claim(skip="no platform"), tables)
    misfit = judge.verdict(claim(simulated="SELECT 100", cause="because"), tables)
    unexplained = judge.verdict(claim(simulated="SELECT 100"), tables)
    fits = judge.verdict(claim(simulated="SELECT 51", cause="because"), tables)
    assert [show.misfit(v) for v in (absent, skipped, misfit, unexplained, fits)] == [
        "", "no platform", "because", "not explained", "",
    ]  # fmt: skip
    text = judge.summary([absent, skipped, misfit, unexplained, fits])
    assert text == [
        "S, like for like: 3 values, 1 within 10 %, 1 within 25 %; median error 100 %", "not run: 1", "not possible: 1",
    ]  # fmt: skip
    written = show.markdown([absent, skipped, misfit], text)
    assert "| fig1 | a | 50 Gb/s | 100 Gb/s | +100 % | like for like | because |" in written
    assert "| fig1 | a | 50 Gb/s | not run |" in written and "| not possible |" in written


def test_a_selection_that_names_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WiretimeError, match=r"unknown value .65.; did you mean 64"):
        execute.narrowed({"axes": {"packet_size": [64, 128]}}, {"packet_size": [65]}, "q")
    done = wiretime("validate", "--only", "fig99", "--out", str(tmp_path))
    assert done.returncode == 2 and "--only: unknown figure or study 'fig99'; did you mean fig9?" in done.stderr
    done = wiretime("validate", "--jobs", "0", "--out", str(tmp_path))
    assert done.returncode == 2 and "--jobs 0: at least 1" in done.stderr


def test_studies_share_their_points(tmp_path: Path) -> None:
    """A point that two studies have is one folder, whatever each calls it."""
    all_of_them = claims.load()
    studies = execute.studies(all_of_them, claims.further(), tmp_path, False)
    counted = sum(len(s.tasks) for s in studies.values())
    assert len(folder.unique(studies.values())) < counted - 20
    shared = next(t for t in studies["l1-size"].tasks if t.point.place == {"work": "testpmd", "L1": "64 KiB"})
    same = [t.point.place for t in studies["dca"].tasks if t.folder == shared.folder]
    assert same == [{"packet_size": 256, "dca": "on"}]


def test_a_validation_ends_in_a_page(tmp_path: Path) -> None:
    """Three searches: the time is said before, rows after; a second one has nothing left to run."""
    out = tmp_path / "v"
    dry = wiretime("validate", "--only", "altra", "--out", str(out), "--dry-run")
    assert dry.returncode == 0 and "validation: 3 points of 1 studies; about " in dry.stderr and not out.exists()
    done = wiretime("validate", "--only", "altra", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "gem5 study, proxy: 1 values" in done.stdout and "gem5 study, trend: 2 of 2 agree" in done.stdout
    page = (out / "validation.html").read_text()
    assert 'href="altra/report.html"' in page and (out / "altra/report.html").is_file()
    assert "forwards all that its client offered, 16 Gb/s" in (out / "rows.md").read_text()
    assert {p.name for p in (out / "plots").glob("*.png")} == {"errors.png", "fig6-gb-s.png", "fig9-gb-s.png"}
    stamps = {p: p.stat().st_mtime_ns for p in out.glob("points/*/row.json")}
    again = wiretime("validate", "--only", "altra", "--out", str(out), "--publish", str(tmp_path / "docs"))
    assert again.returncode == 0 and "3 points of 1 studies, 3 of them done" in again.stderr
    assert {p: p.stat().st_mtime_ns for p in out.glob("points/*/row.json")} == stamps
    assert (out / "validation.html").read_text() == page, "the same each time"
    published = {str(p.relative_to(tmp_path / "docs")) for p in (tmp_path / "docs").rglob("*.*")}
    pictures = {"plots/errors.png", "plots/fig6-gb-s.png", "plots/fig9-gb-s.png"}
    assert published == pictures | {"rows.md", "figures.md", "altra/plots/1-maximum-sustainable-bandwidth.png"}
    assert json.loads((out / "altra/study.json").read_text())["pool"] == "../points"


def test_descriptors_by_arithmetic_are_the_published_ones() -> None:
    """N = R T(n) / C of grace_l3fwd.csv, whose delays of bursts are in the same table."""
    for burst_ns, cores, published in (
        (189_424, 1, 28034.752),
        (222_236, 2, 16445.464),
        (222_236, 4, 8222.732),
        (204_224, 8, 3778.144),
    ):
        a = advise.Advice([], [], 0.148, cores, 0.0, [])
        assert a.ideal(burst_ns) == pytest.approx(published)
