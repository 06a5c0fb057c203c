"""What a user of the page picks, and the plan of a study that it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wiretime import apps, load, platforms, runs, software
from wiretime.apps.model import CONSUMES
from wiretime.errors import WiretimeError
from wiretime.request import Request
from wiretime.search.boot import searched
from wiretime.study import plan as plans
from wiretime.study.plan import Plan, Point, Value
from wiretime.study.point import size_of_search

# What a plan names after the choice of the same meaning.
SIZES = "packet_size"
RUN, SEARCH = "run", "msb"
SEARCHED = ("msb_gbps", "msb_mpps", "msb_loss_percent", "lossy_from_gbps")
FORWARDED = ("forwarded_gbps", "forwarded_mpps", "loss_percent", "latency_mean_ns", "latency_p99_ns")
TAKEN = ("taken_mpps", "loss_percent", "ipc")
CARRIED = ("iperf_received_gbps", "iperf_gbps", "ipc")
# Of applications whose traffic is no generator's, whose requests have lengths of their own: one size, that of nothing.
ONE_SIZE = {RUN: 256, SEARCH: load.LENGTH_MIN}
POINTS_MAX = 200
# What of a run can be varied beside the machine, however it is loaded; what its clients do is named with their group.
OF_RUNS = (
    "arrivals", "flows", "flow_spread", "flow_vary", "duration", "warm_up", "clients", "think", "peer", "speed",
    "loops", "kernel_args", "ethtool", "dpdk",
)  # fmt: skip
CLIENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "iperf": ("iperf", load.IPERF),
    "memcached": ("store", load.STORE),
}


@dataclass(frozen=True)
class Change:
    """A parameter of the machine or an option of the run, and its values: one, or several separated by commas."""

    parameter: str
    values: str


@dataclass(frozen=True)
class Form:
    """What is picked; ``None`` and empty texts leave it to the platform and the application."""

    app: str = "testpmd"
    engine: str = software.FULL
    platform: str = platforms.DEFAULT
    nic: str | None = None
    measure: Literal["run", "msb"] = "run"
    sizes: tuple[str, ...] = ("256",)
    # A capture that is sent instead of packets of a size.
    trace: str = ""
    rate: str = ""
    loss: float = 1.0
    cores: int = 1
    queues: int = 1
    seed: int = 1
    app_args: str = ""
    changes: tuple[Change, ...] = ()


def takes_sizes(form: Form) -> bool:
    """Return whether an application is offered packets of a size."""
    return apps.get(form.app).traffic == "udp" and not _trace(form)


def takes_trace(form: Form) -> bool:
    """Return whether a capture can be sent: a search makes its own loads, and so do clients."""
    return form.measure == RUN and apps.get(form.app).traffic == "udp"


def _trace(form: Form) -> str:
    return form.trace.strip() if takes_trace(form) else ""


def options(app: str) -> dict[str, str]:
    """Return what of a run can be varied beside the machine, and what it is unless it is varied."""
    usual = Request()
    found = {name: "" if (value := getattr(usual, name)) is None else plans.text_of(value) for name in OF_RUNS}
    if clients := CLIENTS.get(apps.get(app).traffic):
        group, names = clients
        found |= {f"{group}.{name}": value for name, value in names.items()}
    return found


def figures(app: str, measure: str) -> Sequence[str]:
    """Return the metrics of an application's experiments, the first of them drawn: what it is there for."""
    if measure == SEARCH:
        return SEARCHED
    found = apps.get(app)
    if found.traffic == "iperf":
        return CARRIED
    return TAKEN if found.role([]) == CONSUMES else FORWARDED


def takes_rate(form: Form) -> bool:
    """Return whether a load is picked: a search finds it, and so does iperf3."""
    return form.measure == RUN and apps.get(form.app).traffic != "iperf"


def _axes(form: Form) -> dict[str, list[Value]]:
    sizes: list[Value] = (
        [plans.typed(size.strip()) for size in form.sizes] if takes_sizes(form) else [ONE_SIZE[form.measure]]
    )
    if not sizes:
        raise WiretimeError("pick a packet size")
    axes = {SIZES: _ordered(sizes)}
    for change in form.changes:
        values = [value.strip() for value in change.values.split(",") if value.strip()]
        if not values:
            raise WiretimeError(f"{change.parameter}: give a value, or several separated by commas")
        if change.parameter in axes:
            raise WiretimeError(f"{change.parameter}: is there twice")
        axes[change.parameter] = _ordered([plans.typed(value) for value in values])
    return axes


def _ordered(values: Sequence[Value]) -> list[Value]:
    """Return values, each once; numbers in their order, as an axis has them."""
    once = list(dict.fromkeys(values))
    return sorted(once, key=lambda v: v if isinstance(v, int) else 0) if all(type(v) is int for v in once) else once


def plan(form: Form, name: str) -> Plan:
    """Return the plan of what is picked; raise where it cannot be."""
    usual = Form()
    axes = _axes(form)
    fixed: dict[str, Value] = {"app": form.app}
    fixed |= {key: value for key in ("engine", "platform") if (value := getattr(form, key)) != getattr(usual, key)}
    fixed |= {"nic": form.nic} if form.nic else {}
    fixed |= {"replay": trace} if (trace := _trace(form)) else {}
    fixed |= {"rate": form.rate.strip()} if form.rate.strip() and takes_rate(form) else {}
    # A machine has its own number of cores where nothing is said.
    if form.cores != platforms.load(form.platform)["system"]["cores"] - 1:
        fixed["cores"] = form.cores
    fixed |= {key: value for key in ("queues", "seed") if (value := getattr(form, key)) != getattr(usual, key)}
    fixed |= {"app_args": form.app_args.strip()} if form.app_args.strip() else {}
    # What has one value is no axis.
    for key in [key for key, values in axes.items() if len(values) == 1 and key != SIZES]:
        fixed[key] = axes.pop(key)[0]
    study: dict[str, Any] = {"name": name, "measure": form.measure}
    study |= {"loss": form.loss} if form.measure == SEARCH else {}
    colour = next((key for key in axes if key != SIZES), "")
    names = figures(form.app, form.measure)
    plots = [{"title": metric.replace("_", " "), "x": SIZES, "y": metric, "colour": colour} for metric in names[:3]]
    table = {"study": study, "fixed": fixed, "axes": axes, "metrics": list(names), "plots": plots}
    return plans.parse(table, "lab")


def check(form: Form) -> list[Point]:
    """Return the points of what is picked, each checked as a run checks what it is asked for."""
    found = plans.points(plan(form, "lab"), "lab")
    if len(found) > POINTS_MAX:
        raise WiretimeError(f"{len(found)} points; the page runs at most {POINTS_MAX}: wiretime sweep does more")
    for point in found:
        if form.measure == SEARCH:
            size_of_search(request := point.request(), searched(request))
        else:
            runs.check(point.request())
    return found
