"""One point of a study: what decides its result, and running it."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grimp

import wiretime._native as _native
from wiretime import __version__, apps, files, paths, runs, search, software, vm
from wiretime.errors import GuestError, WiretimeError
from wiretime.request import Request
from wiretime.setup import dpdk as builds
from wiretime.setup import store
from wiretime.setup.parts import PARTS
from wiretime.study import metrics
from wiretime.study.plan import Point

# Rows of another layout are of another study.
FORMAT = 2
ROW, FAILED, TRIALS, LOCK = "row.json", "failed.json", "trials.json", "lock"
CHANGED = "the engine, or a file that is run, has changed since the study began: start it again"


def deciding() -> list[str]:
    """Return the modules of this package that decide a row: all that is imported, however far, to run a point."""
    graph = grimp.build_graph("wiretime", cache_dir=None)
    # The package itself imports all that a notebook wants, and none of it runs a point.
    for imported in graph.find_modules_directly_imported_by("wiretime"):
        graph.remove_import(importer="wiretime", imported=imported)
    return sorted({__name__, *graph.find_upstream_modules(__name__)})


@cache
def _package() -> str:
    sources = ((module, find_spec(module)) for module in deciding())
    files = ((module, Path(spec.origin)) for module, spec in sources if spec is not None and spec.origin is not None)
    return store.digest("".join(f"{module} {store.file_digest(path)}\n" for module, path in files))


@cache
def _parts() -> Mapping[str, str]:
    return {part.name: part.identity() for part in PARTS}


@cache
def _extension() -> str:
    return store.code_digest(Path(_native.__file__))


def simulator(engine: str = software.FULL) -> Mapping[str, str]:
    """Return what every result of an engine depends on beside its settings: this version and its parts.

    Each run loads the engine that is there by then: of it, and of nothing else, it may be another one the next time.
    """
    ours = {"wiretime": __version__, "package": _package()}
    if engine == software.PACKET:
        return {**ours, "native": _extension()}
    return {**ours, "engine": store.known_hash_of(paths.built_engine()), **_parts()}


def key(point: Point, platform: Mapping[str, Any]) -> str:
    """Return a name for all that decides a point's result, however a plan writes it."""
    request = point.request()
    asked = dataclasses.asdict(request)
    # The machine is what these come to.
    settings = {k: v for k, v in asked.items() if k not in ("platform", "changes")}
    given = [request.replay] if request.replay is not None else []
    # A program of the user's is also what it holds.
    given += apps.find(request.app, request.own, request.dpdk).files.values()
    inputs = {
        "format": FORMAT,
        "settings": settings,
        "measure": point.about.model_dump(exclude={"name", "description"}),
        "platform": platform,
        "simulator": simulator(request.engine),
        **_modelled(request, platform),
        **_built(request),
        "files": {str(path): store.file_digest(path) for path in given},
    }
    return store.digest(json.dumps(inputs, sort_keys=True, default=str))[:24]


def _modelled(request: Request, platform: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model of the software, where it is one: whatever its file is called."""
    if request.engine != software.PACKET:
        return {}
    return {"model": software.of(request.app, platform, request.model)}


def _built(request: Request) -> dict[str, Any]:
    """Return the build of DPDK, where it is not the guest's own."""
    return {"dpdk": builds.variant(request.dpdk).folder.name} if request.dpdk != builds.DEBIAN else {}


def size_of_search(request: Request, checked: runs.Checked) -> int:
    """Return the packet size that a search is of, and what its request came to."""
    sizes = checked.settings["load"]["sizes"]
    if sizes["kind"] != "fixed":
        raise WiretimeError(f"packet_size {request.packet_size}: a search takes one size")
    return int(sizes["size"])


def _search(point: Point, folder: Path, tell: search.Tell) -> metrics.Row:
    about = point.about
    request = point.request()
    size = size_of_search(request, search.waking(request))
    found = search.msb(request, [size], search.share(about.loss), tell, about.trial_length)[0]
    trials = [dataclasses.asdict(t) for t in (*found.trials, *found.around)]
    (folder / TRIALS).write_text(json.dumps(trials, indent=1) + "\n")
    return metrics.of_search(found)


def _run(point: Point, folder: Path, progress: vm.Progress | None) -> metrics.Row:
    done = runs.execute(point.request(), progress)
    runs.write(folder, done)
    return metrics.of_run(done.result, done.profile or ())


def execute(
    point: Point,
    platform: Mapping[str, Any],
    folder: Path,
    progress: vm.Progress | None = None,
    tell: search.Tell = search.silent,
) -> str | None:
    """Run a point and put what it yields into ``folder``: all of it, or why there is nothing; returns the reason.

    ``progress`` hears how far a run is, ``tell`` of each trial of a search.
    """
    with _alone(folder.with_name(f".{folder.name}")) as part:
        if isinstance(files.read(folder / ROW), dict):
            # Another command has run it meanwhile.
            # A third one that waits for its name may have begun to fill it anew.
            shutil.rmtree(part, ignore_errors=True)
            return None
        reason = _fill(point, platform, part, progress, tell, folder.name)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        (folder / LOCK).unlink()
        return reason


@contextmanager
def _alone(part: Path) -> Iterator[Path]:
    """Give a folder that nobody else fills: it holds a lock, until it has another name or is gone, and nothing else.

    A file is locked, which file systems of several machines know, too.
    """
    while True:
        part.mkdir(parents=True, exist_ok=True)
        try:
            lock = (part / LOCK).open("w")
        except FileNotFoundError:
            continue  # it has just got its name
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not files.is_still(part / LOCK, lock.fileno()):
                continue
            for left in part.iterdir():
                if left.is_dir():
                    shutil.rmtree(left)
                elif left.name != LOCK:
                    left.unlink()
            yield part
            return


def _same(point: Point, platform: Mapping[str, Any], name: str) -> None:
    """Raise where what decides the result is no longer what the point is named after."""
    if key(point, platform) != name:
        raise WiretimeError(CHANGED)


def _fill(
    point: Point, platform: Mapping[str, Any], part: Path, progress: vm.Progress | None, tell: search.Tell, name: str
) -> str | None:
    began = time.monotonic()
    about = {
        "place": dict(point.place),
        "settings": dict(point.settings),
        "simulator": dict(simulator(point.request().engine)),
    }
    (part / "point.json").write_text(json.dumps(about, indent=1) + "\n")
    reason = None
    try:
        _same(point, platform, name)
        figures = _search(point, part, tell) if point.about.measure == "msb" else _run(point, part, progress)
        _same(point, platform, name)
        # Without its place: studies that share a point call it differently.
        row = {**metrics.of_platform(platform), **figures}
        (part / ROW).write_text(json.dumps(row, indent=1) + "\n")
    except WiretimeError as e:
        reason = str(e)
        console = e.console if isinstance(e, GuestError) else ""
        (part / FAILED).write_text(json.dumps({"reason": reason, "console": console}, indent=1) + "\n")
    (part / "time.json").write_text(json.dumps({"seconds": time.monotonic() - began}) + "\n")
    return reason
