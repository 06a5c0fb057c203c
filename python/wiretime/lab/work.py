"""Experiments under way: each point in a process of its own, which tells how far it is."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from wiretime import explain, files, vm
from wiretime.errors import WiretimeError
from wiretime.lab import form
from wiretime.search import Trial
from wiretime.study import point as one
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    vm.die_with_parent(parent, signal.SIGTERM)
    told = 0.0

    def progress(state: Mapping[str, Any]) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= TELL_SECONDS:
            told = now
            pipe.send(("progress", dict(state)))

    reason = one.execute(task.point, task.platform, task.folder, progress, lambda t: pipe.send(("trial", t)))
    pipe.send(("over", reason))


@dataclass
class Explanation:
    """What would move a run: how far that is, or what was found."""

    running: bool = True
    sentences: list[str] = field(default_factory=list)


class Lab:
    """Experiments of a folder: those that are there, and those that are begun here."""

    def __init__(self, folder: Path, jobs: int):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise WiretimeError(f"--folder {folder}: {e.strerror}") from None
        self._workers = ThreadPoolExecutor(jobs, "point")
        self._lock = threading.Lock()
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
        except WiretimeError as e:
            self.unreadable[path.name] = str(e)
            return
        points = [Under(task, *_found(task)) for task in study.tasks]
        self.experiments.append(Experiment(study, points))

    def begin(self, wanted: form.Form) -> Experiment:
        """Make an experiment of what is picked, and run it; a point that another has run is not run again."""
        with self._lock:
            number = max([0, *(_number(path) for path in self.folder.glob("lab-*"))]) + 1
            path = self.folder / f"lab-{number}"
            study = Study(form.plan(wanted, path.name), path.name, path, f"../{POOL}")
            study.prepare(resume=False)
        made = Experiment(study, [Under(t, "done" if t.finished else "waits") for t in study.tasks])
        self.experiments.insert(0, made)
        self._go(made)
        return made

    def go_on(self, experiment: Experiment) -> None:
        """Run the points that were stopped or have failed."""
        for under in experiment.points:
            if under.state in ("stopped", "failed"):
                under.state, under.reason, under.progress = "waits", None, {}
                under.trials = []
        self._go(experiment)

    def _go(self, experiment: Experiment) -> None:
        self.version += 1
        experiment.study.store()
        for under in experiment.points:
            if under.state == "waits":
                self._workers.submit(self._run, experiment, under)

    def _run(self, experiment: Experiment, under: Under) -> None:
        with self._lock:
            if under.state != "waits" or self._closed:
                return
            if under.task.finished:  # by another experiment
                under.state = "done"
                self.version += 1
                return
            here, there = multiprocessing.Pipe(duplex=False)
            spawn = multiprocessing.get_context("spawn")
            process = spawn.Process(target=_work, args=(there, os.getpid(), under.task), name="point")
            process.start()
            there.close()
            under.process, under.state = process, "runs"
            self.version += 1
        over = self._hear(here, under)
        process.join()
        with self._lock:
            under.process = None
            if under.state == "runs":
                under.reason = over if over is not None else under.reason
                under.state = "done" if under.task.finished else "failed"
                if under.state == "failed" and under.reason is None:
                    under.reason = f"its process ended with status {process.exitcode}"
            experiment.study.store()
            self.version += 1

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
        self.experiments.remove(experiment)
        shutil.rmtree(experiment.study.path, ignore_errors=True)
        self.version += 1

    def explanation(self, task: Task) -> Explanation | None:
        """Return what is known of what would move a run."""
        path = task.folder / EXPLAINED
        if task.folder not in self.explanations and path.is_file():
            self.explanations[task.folder] = Explanation(False, json.loads(path.read_text()))
        return self.explanations.get(task.folder)

    def explain(self, task: Task) -> None:
        """Run what the counters of a run suggest to change, and say what came of it."""
        found = self.explanations[task.folder] = Explanation()
        self._workers.submit(self._explain, task, found)

    def _explain(self, task: Task, found: Explanation) -> None:
        result, settings = task.result, dict(task.point.settings)
        try:
            assert result is not None
            told = explain.told(*explain.measure(settings, explain.changes(result, settings), None))
            files.replace(task.folder / EXPLAINED, json.dumps(told) + "\n")
        except WiretimeError as e:
            told = [f"This cannot be found out: {e}"]
        found.sentences, found.running = told, False
        self.version += 1

    def close(self) -> None:
        """End all that runs."""
        self._closed = True
        for experiment in self.experiments:
            self.stop(experiment)
        self._workers.shutdown(wait=False, cancel_futures=True)


def _number(path: Path) -> int:
    match = NUMBERED.fullmatch(path.name)
    return int(match[1]) if match else 0


def _found(task: Task) -> tuple[State]:
    return ("done" if task.finished else "failed" if task.failed is not None else "stopped",)
