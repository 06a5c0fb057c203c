"""Experiments under way: each point in a process of its own, which tells how far it is."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from wiretime import explain, files
from wiretime.errors import WiretimeError
from wiretime.lab import form
from wiretime.search import Trial
from wiretime.study import point as one
from wiretime.study.execute import worker
from wiretime.study.folder import POOL, STUDY, Study, Task, open_study

State = Literal["waits", "runs", "done", "failed", "stopped"]
OVER: tuple[State, ...] = ("done", "failed", "stopped")
# How often a point tells where it is.
TELL_SECONDS = 0.2
EXPLAINED = "explained.json"
NUMBERED = re.compile(r"lab-([0-9]+)")


@dataclass
class Under:
    """A point of an experiment, and how far it is."""

    task: Task
    state: State = "waits"
    # What the engine last told, and instructions a second (millions) since what it told before.
    progress: Mapping[str, Any] = field(default_factory=dict)
    mips: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    reason: str | None = None
    process: BaseProcess | None = None

    @property
    def share(self) -> float | None:
        """How much of its run is done, where that is known."""
        total = self.progress.get("total_ns")
        if not total or self.progress["phase"] == "boot":
            return None
        return min(1.0, float(self.progress["done_ns"]) / float(total))


@dataclass
class Experiment:
    """A study of the lab."""

    study: Study
    points: list[Under]

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.study.path.name

    @property
    def state(self) -> State:
        """What its points come to."""
        states = [p.state for p in self.points]
        if any(s == "runs" for s in states) or (any(s == "waits" for s in states) and any(s in OVER for s in states)):
            return "runs"
        if "waits" in states:
            return "waits"
        return next((s for s in ("stopped", "failed") if s in states), "done")

    @property
    def over(self) -> int:
        """How many points are over."""
        return sum(p.state in OVER for p in self.points)


def _work(pipe: Connection, parent: int, task: Task) -> None:
    """Run a point, and tell the parent how far it is; goes when that goes."""
    worker(parent)
    told = 0.0

    def progress(state: Mapping[str, Any]) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= TELL_SECONDS:
            told = now
            pipe.send(("progress", dict(state)))

    reason = one.execute(task.point, task.platform, task.folder, progress, lambda t: pipe.send(("trial", t)))
    pipe.send(("over", reason))


def _explain(pipe: Connection, parent: int, task: Task, jobs: int) -> None:
    """Run what the counters of a run suggest to change, and tell the parent what came of it."""
    # Through the clean-up: there is a folder for the time being, and a pool.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    worker(parent)
    result, settings = task.result, dict(task.point.settings)
    try:
        assert result is not None
        told = explain.told(*explain.measure(settings, explain.changes(result, settings), jobs))
        files.replace(task.folder / EXPLAINED, json.dumps(told) + "\n")
    except (WiretimeError, OSError) as e:
        pipe.send(("failed", [f"This cannot be found out: {e}"]))
    else:
        pipe.send(("over", told))


@dataclass
class Explanation:
    """What would move a run: how far that is, what was found, or why nothing was, which may be asked again."""

    running: bool = True
    failed: bool = False
    sentences: list[str] = field(default_factory=list)
    process: BaseProcess | None = None


class Lab:
    """Experiments of a folder: those that are there, and those that are begun here."""

    def __init__(self, folder: Path, jobs: int):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise WiretimeError(f"--folder {folder}: {e.strerror}") from None
        self.jobs = jobs
        self._workers = ThreadPoolExecutor(jobs, "point")
        # Each of them runs as many points at once as there are jobs: one after the other.
        self._explaining = ThreadPoolExecutor(1, "explanation")
        self._lock = threading.Lock()
        # Of the folders of points: one is run once at a time, whichever experiments share it.
        self._folders: dict[Path, threading.Lock] = {}
        self._closed = False
        # Goes up whenever something has changed.
        self.version = 0
        # Newest first.
        self.experiments: list[Experiment] = []
        self.explanations: dict[Path, Explanation] = {}
        # What is there and cannot be opened, and why.
        self.unreadable: dict[str, str] = {}
        for path in sorted(folder.glob("lab-*"), key=_number, reverse=True):
            if (path / STUDY).is_file():
                self._open(path)

    def _open(self, path: Path) -> None:
        try:
            study = open_study(path)
        except (WiretimeError, KeyError, TypeError, ValueError, AttributeError) as e:
            # What somebody has edited is nothing that should keep the page from opening.
            self.unreadable[path.name] = str(e)
            return
        points = [Under(task, _found(task)) for task in study.tasks]
        self.experiments.append(Experiment(study, points))

    def begin(self, wanted: form.Form) -> Experiment:
        """Make an experiment of what is picked, and run it; a point that another has run is not run again.

        Raises where what is picked cannot be.
        """
        form.check(wanted)
        path = self._new_folder()
        study = Study(form.plan(wanted, path.name), path.name, path, f"../{POOL}")
        study.prepare(resume=False)
        study.store()
        made = Experiment(study, [Under(t, "done" if t.finished else "waits") for t in study.tasks])
        with self._lock:
            self.experiments.insert(0, made)
            self._go(made)
        return made

    def _new_folder(self) -> Path:
        number = max([0, *(_number(path) for path in self.folder.glob("lab-*"))])
        while True:
            number += 1
            path = self.folder / f"lab-{number}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            except OSError as e:
                raise WiretimeError(f"{path}: {e.strerror}") from None
            return path

    def go_on(self, experiment: Experiment) -> None:
        """Run the points that were stopped or have failed, once their processes are gone."""
        with self._lock:
            if experiment not in self.experiments:
                return
            for under in experiment.points:
                if under.state in ("stopped", "failed") and under.process is None:
                    under.state, under.reason, under.progress = "waits", None, {}
                    under.trials = []
            self._go(experiment)

    def _go(self, experiment: Experiment) -> None:
        """Have what waits of an experiment run; the lock is held."""
        self.version += 1
        for under in experiment.points:
            if under.state == "waits":
                self._workers.submit(self._run, experiment, under)

    def _run(self, experiment: Experiment, under: Under) -> None:
        with self._lock:
            folder = self._folders.setdefault(under.task.folder, threading.Lock())
        with folder:
            try:
                self._run_alone(under)
                if not self._closed:
                    with self._lock:
                        experiment.study.store()
            except Exception as e:  # a full disk, no more processes: said where the user looks
                under.reason = f"{type(e).__name__}: {e}"
                under.state = "failed"
            finally:
                under.process = None
                self.version += 1

    def _run_alone(self, under: Under) -> None:
        with self._lock:
            if under.state != "waits" or self._closed:
                return
            if under.task.finished:  # by another experiment
                under.state = "done"
                return
            here, process = _started(_work, under.task)
            under.process, under.state = process, "runs"
            self.version += 1
        over = self._hear(here, under)
        process.join()
        with self._lock:
            if under.state == "runs":
                under.reason = over
                under.state = "done" if under.task.finished else "failed"
                if under.state == "failed" and under.reason is None:
                    under.reason = f"its process ended with status {process.exitcode}"

    def _hear(self, pipe: Connection, under: Under) -> str | None:
        """Take in what a point tells until it is over; returns why it failed, where it did."""
        last, instructions = time.monotonic(), 0
        with pipe:
            while True:
                try:
                    kind, what = pipe.recv()
                except (EOFError, OSError):
                    return None
                if kind == "over":
                    return what if what is None else str(what)
                if kind == "trial":
                    under.trials.append(what)
                else:
                    now = time.monotonic()
                    under.mips = max(0, what["instructions"] - instructions) / max(now - last, 1e-3) / 1e6
                    last, instructions = now, what["instructions"]
                    under.progress = what
                self.version += 1

    def stop(self, experiment: Experiment) -> None:
        """End what runs of an experiment, and begin nothing more of it."""
        with self._lock:
            for under in experiment.points:
                if under.state in ("waits", "runs"):
                    under.state = "stopped"
                if under.process is not None:
                    under.process.terminate()
            self.version += 1

    def remove(self, experiment: Experiment) -> None:
        """Forget an experiment; its points stay, for others that share them."""
        self.stop(experiment)
        with self._lock:
            if experiment in self.experiments:
                self.experiments.remove(experiment)
                shutil.rmtree(experiment.study.path, ignore_errors=True)
                self.version += 1

    def explanation(self, task: Task) -> Explanation | None:
        """Return what is known of what would move a run."""
        path = task.folder / EXPLAINED
        if task.folder not in self.explanations and isinstance(said := files.read(path), list):
            self.explanations[task.folder] = Explanation(running=False, sentences=said)
        return self.explanations.get(task.folder)

    def explain(self, task: Task) -> None:
        """Run what the counters of a run suggest to change, and say what came of it; once, whoever asks meanwhile."""
        with self._lock:
            there = self.explanations.get(task.folder)
            if self._closed or (there is not None and not there.failed):
                return
            found = self.explanations[task.folder] = Explanation()
            self.version += 1
        self._explaining.submit(self._explained, task, found)

    def _explained(self, task: Task, found: Explanation) -> None:
        how, told = "failed", ["This could not be found out: its process ended."]
        try:
            with self._lock:
                if self._closed:
                    return
                here, found.process = _started(_explain, task, self.jobs)
            with here, suppress(EOFError, OSError):
                how, told = here.recv()
            found.process.join()
        except Exception as e:
            told = [f"This could not be found out: {type(e).__name__}: {e}"]
        finally:
            found.sentences, found.failed = told, how == "failed"
            found.running, found.process = False, None
            self.version += 1

    def close(self) -> None:
        """End all that runs."""
        with self._lock:
            self._closed = True
            explaining = [e.process for e in self.explanations.values() if e.process is not None]
        for process in explaining:
            process.terminate()
        for experiment in self.experiments:
            self.stop(experiment)
        self._explaining.shutdown(wait=False, cancel_futures=True)
        self._workers.shutdown(wait=False, cancel_futures=True)


def _started(do: Callable[..., None], task: Task, *more: Any) -> tuple[Connection, BaseProcess]:
    """Start a process that does something with a point; returns where it tells, and it."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=do, args=(there, os.getpid(), task, *more))
    process.start()
    there.close()
    return here, process


def _number(path: Path) -> int:
    match = NUMBERED.fullmatch(path.name)
    return int(match[1]) if match else 0


def _found(task: Task) -> State:
    return "done" if task.finished else "failed" if task.failed is not None else "stopped"
