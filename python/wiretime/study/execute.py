"""Runs the points of a study that are not finished: in processes of this machine, or as jobs of a cluster.

A cluster's jobs go through submitit: it speaks to Slurm, which is what most of them run, as job arrays, needs nothing
but a shared folder, and has a local mode in which it can be tested. Ray and Parsl bring a service of their own that has
to run beside the cluster's; the points of a study have nothing to say to each other that would need it.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import submitit

import wiretime._native as _native
from wiretime import apps, software, vm
from wiretime.errors import WiretimeError
from wiretime.offered import CONNECTION_TIME, DURATION, WARM_UP
from wiretime.request import Request
from wiretime.study import point as one
from wiretime.study.folder import Study, Task, unique

LOOK_SECONDS = 0.2
# What a point takes where none of its application has been timed: boot and a measurement of the usual length, or a
# search. Measured on two Zen 4 cores, two at once; scaled by what others have taken since.
BOOT_SECONDS = 6.0
GUESS_SECONDS = {"run": 15.0, "msb": 50.0}
# The same where software is a model, which boots nothing.
MODEL_SECONDS, MODEL_LEAST = {"run": 1.0, "msb": 5.0}, 0.6
SLOW_SECONDS = {("iperf3", "run"): 25.0, ("memcached", "msb"): 110.0, ("udpecho", "msb"): 90.0, ("ping", "msb"): 60.0}
CLUSTERS = ("slurm", "local")
# What a job of a cluster asks for unless told otherwise.
JOB = {"timeout_min": 60, "cpus_per_task": 1, "mem_gb": 2}


class Job(Protocol):
    """A point under way."""

    def done(self) -> bool:
        """Return whether it is over."""
        ...

    def result(self) -> str | None:
        """Return why it failed, where it did."""
        ...


Report = Callable[[Task, str | None], None]
Submission = AbstractContextManager[Callable[[Sequence[Task]], list[Job]]]


def worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, and go when it goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    vm.die_with_parent(parent, signal.SIGTERM)


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[[Sequence[Task]], list[Job]]]:
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=worker, initargs=(os.getpid(),))
    try:
        yield lambda tasks: [pool.submit(one.execute, t.point, t.platform, t.folder) for t in tasks]
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def check(cluster: str | None, options: Sequence[str] | Mapping[str, Any], jobs: int | None) -> None:
    """Raise where points cannot be run so."""
    if cluster is None:
        if options:
            raise WiretimeError("--cluster-set: only with --cluster")
        return
    if cluster not in CLUSTERS:
        raise WiretimeError(f"--cluster {cluster}: allowed are {', '.join(CLUSTERS)}")
    if cluster != "slurm" and jobs is not None:
        raise WiretimeError(f"--jobs: not with --cluster {cluster}, which starts all points at once")


@contextmanager
def _cluster(
    name: str, folder: Path, jobs: int | None, options: Mapping[str, Any]
) -> Iterator[Callable[[Sequence[Task]], list[Job]]]:
    check(name, options, jobs)
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=name)
        executor.update_parameters(**{**JOB, **options})
        if jobs is not None:
            executor.update_parameters(slurm_array_parallelism=jobs)
    except (NameError, TypeError, RuntimeError) as e:
        raise WiretimeError(f"--cluster {name}: {str(e).splitlines()[0]}") from None
    started: list[Any] = []

    def submit(tasks: Sequence[Task]) -> list[Job]:
        columns = ([t.point for t in tasks], [t.platform for t in tasks], [t.folder for t in tasks])
        started.extend(executor.map_array(one.execute, *columns))
        return list(started)

    try:
        yield submit
    except BaseException:
        for job in started:
            job.cancel()
        raise


def cores() -> int:
    """Return how many points this machine runs at once."""
    return os.cpu_count() or 1


def _kind(task: Task) -> tuple[str, str, str]:
    settings = task.point.settings
    return str(settings.get("app", Request.app)), task.point.about.measure, str(settings.get("engine", Request.engine))


def _length(task: Task) -> float:
    """Return how many times as long as usual its run, or the trials of its search, are."""
    settings, about = task.point.settings, task.point.about
    if about.measure == "msb":
        return about.trial_length
    app = apps.APPS.get(_kind(task)[0])
    usual = (CONNECTION_TIME, CONNECTION_TIME) if app is not None and app.kernel else (WARM_UP, DURATION)
    asked = (str(settings.get("warm_up", usual[0])), str(settings.get("duration", usual[1])))
    return sum(map(_native.parse_duration, asked)) / sum(map(_native.parse_duration, usual))


def _guess(task: Task) -> float:
    app, measure, engine = _kind(task)
    if engine == software.PACKET:
        return max(MODEL_LEAST, MODEL_SECONDS[measure] * _length(task))
    return BOOT_SECONDS + (SLOW_SECONDS.get((app, measure), GUESS_SECONDS[measure]) - BOOT_SECONDS) * _length(task)


def expected_seconds(tasks: Sequence[Task], jobs: int) -> float:
    """Return how long what is left will take, by what finished points took: those of the same application first."""
    paces: dict[tuple[str, str, str], list[float]] = {}
    for task in tasks:
        if task.finished and task.seconds is not None:
            paces.setdefault(_kind(task), []).append(task.seconds / _guess(task))
    of_any = statistics.fmean(itertools.chain(*paces.values())) if paces else 1.0
    pace = {kind: statistics.fmean(mine) for kind, mine in paces.items()}
    left = [task for task in tasks if not task.finished]
    seconds = sum(_guess(t) * pace.get(_kind(t), of_any) for t in left)
    return seconds / max(1, min(jobs, len(left)))


def jobs_of(jobs: int | None) -> int:
    """Return how many points run at once, checked."""
    if jobs is not None and jobs < 1:
        raise WiretimeError(f"--jobs {jobs}: at least 1")
    return jobs or cores()


def sweep(
    tasks: Sequence[Task],
    report: Report,
    jobs: int | None = None,
    cluster: str | None = None,
    folder: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Run the points that are not finished; one that fails stops nothing. ``report`` hears of each as it ends."""
    left = [t for t in tasks if not t.finished]
    while left:
        if cluster is None:
            using = _pool(jobs_of(jobs))
        else:
            using = _cluster(cluster, folder or Path("cluster"), jobs, options or {})
        lost = _round(using, left, report)
        if len(lost) == len(left):
            # One of them takes the others with it: whose process is killed alone is the one.
            if len(lost) == 1 or cluster is not None:
                for task in lost:
                    report(task, "its process was killed")
                return
            for task in lost:
                sweep([task], report, 1)
            return
        left = lost


def sweep_studies(
    studies: Sequence[Study],
    report: Report,
    jobs: int | None = None,
    cluster: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Run the points of studies, each once: first those that have to be alone on this machine, one at a time."""
    alone = unique([study for study in studies if study.alone and cluster is None])
    apart = {task.folder for task in alone}
    others = [task for task in unique(studies) if task.folder not in apart]
    for tasks, at_once in ((alone, 1), (others, jobs)):
        sweep(tasks, report, at_once, cluster, studies[0].path / "cluster", options)


def _round(using: Submission, tasks: Sequence[Task], report: Report) -> list[Task]:
    """Run points; returns those lost with their pool, which ends with a worker that the host kills."""
    lost = []
    with using as submit:
        waiting = dict(zip(submit(tasks), tasks, strict=True))
        while waiting:
            for job in [job for job in waiting if job.done()]:
                task = waiting.pop(job)
                try:
                    report(task, job.result())
                except BrokenProcessPool:
                    lost.append(task)
                except Exception as e:
                    # A job that ran out of time: the others go on.
                    report(task, f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else 'no reason given'}")
            time.sleep(LOOK_SECONDS)
    return lost
