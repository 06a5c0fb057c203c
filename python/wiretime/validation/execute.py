"""The studies that claims need: their points run together, shared where studies have the same one, never twice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wiretime import paths
from wiretime.errors import WiretimeError, unknown
from wiretime.setup import dpdk as builds
from wiretime.setup import older
from wiretime.study import plan as plans
from wiretime.study.folder import Study
from wiretime.validation.claims import Claim

EXPERIMENTS = paths.REPOSITORY / "experiments"
QUICK = Path(__file__).parent / "quick.toml"
# Where all studies keep their points, as seen from one.
POOL = "../points"


def narrowed(table: Mapping[str, Any], keep: Mapping[str, Sequence[Any]], source: str) -> dict[str, Any]:
    """Return a plan's table with fewer values on its axes: those named, by themselves or by their label."""
    axes = dict(table["axes"])
    for name, values in keep.items():
        there = {v["label"] if isinstance(v, dict) else v: v for v in axes.get(name, [])}
        for value in values:
            if value not in there:
                raise WiretimeError(f"{source}: {name}: {unknown('value', str(value), map(str, there))}")
        axes[name] = [there[v] for v in values]
    return {**table, "axes": axes}


def _missing(axis: str, value: Any) -> str:
    """Return what has to be set up for a value of an axis: a build of DPDK, a program of an older release."""
    app = value.get("app", "") if isinstance(value, dict) else ""
    if axis == "dpdk":
        return f"--dpdk {value}" if builds.missing(value) else ""
    return f"--program {app}" if older.missing(app) else ""


def _set_up(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a plan's table without builds of DPDK, and programs of older releases, that are not there."""
    axes = {axis: [v for v in values if not _missing(axis, v)] for axis, values in table["axes"].items()}
    return {**table, "axes": axes}


def left_out(names: Iterable[str]) -> list[str]:
    """Return what studies, by name, need beyond what is set up, as options of ``wiretime setup``."""
    tables = [tomllib.loads((EXPERIMENTS / f"{name}.toml").read_text()) for name in names]
    values = [(axis, v) for table in tables for axis, values in table["axes"].items() for v in values]
    return sorted({option for axis, v in values if (option := _missing(axis, v))})


def quick() -> dict[str, dict[str, Any]]:
    """Return what a quick validation keeps of which study."""
    return tomllib.loads(QUICK.read_text())


def narrowed_by_quick() -> set[str]:
    """Return the studies of which a quick validation runs a part."""
    return {name for name, keep in quick().items() if keep}


def studies(
    claims: Sequence[Claim], further: Sequence[str], base: Path, pool: str = POOL, only_quick: bool = False
) -> dict[str, Study]:
    """Return the studies that claims need and further ones, by name: those with a plan in ``experiments``."""
    keep = quick()
    found: dict[str, Study] = {}
    for name in dict.fromkeys([*(name for claim in claims for name in claim.studies), *further]):
        if only_quick and name not in keep:
            continue
        path = EXPERIMENTS / f"{name}.toml"
        table = _set_up(tomllib.loads(path.read_text()))
        if only_quick:
            table = narrowed(table, keep[name], QUICK.name)
        source = str(path.relative_to(paths.REPOSITORY))
        found[name] = Study(plans.parse(table, source), source, base / name, pool)
    return found


def chosen(claims: Sequence[Claim], only: Sequence[str], others: Sequence[str]) -> tuple[list[Claim], list[str]]:
    """Return the claims whose figure or study one of the words names, and which of the others; all without words."""

    def names(claim: Claim) -> set[str]:
        return {claim.figure, *claim.studies}

    wanted = {word for words in only for word in words.split(",")}
    known = [*dict.fromkeys(name for claim in claims for name in sorted(names(claim))), *others]
    for word in sorted(wanted):
        if word not in known:
            raise WiretimeError(f"--only: {unknown('figure or study', word, known)}")
    return [c for c in claims if not only or wanted & names(c)], [o for o in others if not only or o in wanted]
