"""A study as data: what is varied, what is measured at each point, what is drawn. Read from TOML and checked."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wiretime import apps, platforms
from wiretime.errors import WiretimeError, unknown
from wiretime.request import OF_ONE_LOAD, Request, option_of
from wiretime.study.metrics import check_name, is_metric

POINTS_MAX = 100_000
# Plots of a metric; plots of what runs leave and searches do not.
WITH_METRIC, OF_RUNS = ("lines", "bars", "sensitivity"), ("latency", "hops", "cpi", "occupancy")
# What a study may set of a run, beside parameters of the platform and arguments of the application.
OPTIONS = tuple(
    f.name
    for f in dataclasses.fields(Request)
    if f.name not in ("changes", "store", "iperf", "own", "internals", "tap", "capture", "trace", "interval")
)
NAMED = ("store", "iperf")
KINDS = {f.name: f.type for f in dataclasses.fields(Request)}

DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?")

Value = str | int | float | bool
Setting = tuple[str, Value]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Plot(_Table):
    """A plot of the report: metrics over an axis, or one of the kinds that runs have by themselves."""

    kind: Literal["lines", "bars", "curves", "drops", "latency", "hops", "cpi", "occupancy", "sensitivity"] = "lines"
    title: str
    x: str = ""
    y: str = ""
    colour: str = ""
    facet: str = ""


class About(_Table):
    """What the study is."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    description: str = ""
    # What is done at a point: a run at a load, or the search for the maximum sustainable bandwidth.
    measure: Literal["run", "msb"] = "run"
    # Of a search: the highest loss that counts as sustained, in percent; the factor of its trials' length.
    loss: float = Field(default=1.0, ge=0, lt=100)
    trial_length: float = Field(default=1.0, ge=0.1, le=100)


class Plan(_Table):
    """A plan as it is written."""

    study: About
    fixed: dict[str, Value] = {}
    axes: dict[str, list[Value | dict[str, Value]]]
    metrics: list[str] = Field(min_length=1)
    plots: list[Plot] = []


@dataclass(frozen=True)
class Point:
    """One point of a study: its place on every axis, and all that is set there."""

    place: Mapping[str, Value]
    settings: Mapping[str, Value]
    about: About

    def request(self) -> Request:
        """Return the run that the settings ask for."""
        options: dict[str, Any] = {}
        changes: list[str] = []
        arguments: list[str] = []
        named: dict[str, list[str]] = {name: [] for name in NAMED}
        for key, value in self.settings.items():
            kind, rest = _kind(key)
            if kind == "option":
                options[key] = _option(key, value)
            elif kind == "argument":
                arguments.append(f"{key}={value}")
            elif kind == "parameter":
                changes.append(f"{key}={text_of(value)}")
            else:
                named[kind].append(f"{rest}={text_of(value)}")
        options["app_args"] = " ".join([str(options.get("app_args", "")), *arguments]).strip()
        options |= {name: tuple(texts) for name, texts in named.items()}
        return Request(changes=tuple(changes), **options)

    def command(self) -> str:
        """Return the command line that runs this point by itself."""
        app = str(self.settings.get("app", Request.app))
        words = ["wiretime", self.about.measure, shlex.quote(app)]
        # Requests to a store have lengths of their own.
        sized = app not in apps.APPS or apps.get(app).traffic != "memcached"
        if self.about.measure == "msb" and "packet_size" not in self.settings and sized:
            words.append(f"--packet-sizes {Request.packet_size}")
        if self.settings.get("profile"):
            words.append("--out DIR")
        arguments = []
        for key, value in self.settings.items():
            kind, rest = _kind(key)
            if key == "app":
                continue
            if kind == "argument":
                arguments.append(f"{key}={value}")
            elif key == "app_args":
                arguments.insert(0, str(value))
            elif key == "packet_size" and self.about.measure == "msb":
                words.append(f"--packet-sizes {shlex.quote(str(value))}")
            elif kind == "option" and isinstance(value, bool):
                words += [option_of(key)] * value
            elif kind == "option":
                words.append(f"{option_of(key)} {shlex.quote(text_of(value))}")
            elif kind == "parameter":
                words.append(f"--set {shlex.quote(f'{key}={text_of(value)}')}")
            else:
                words.append(f"--{kind} {shlex.quote(f'{rest}={text_of(value)}')}")
        if arguments:
            words.append(f"--app-args={shlex.quote(' '.join(arguments))}")
        if self.about.measure == "msb":
            words.append(f"--loss {self.about.loss:g} --trial-length {self.about.trial_length:g}")
        return " ".join(words)

    def text(self) -> str:
        """Return the place as a person reads it."""
        return ", ".join(f"{axis} {text_of(value)}" for axis, value in self.place.items())


def settings_of(request: Request) -> dict[str, Value]:
    """Return what a plan would write for a request: what is other than by default, of what plans may set."""
    usual = Request()
    found = {name: value for name in OPTIONS if (value := getattr(request, name)) != getattr(usual, name)}
    texts = [*request.changes, *(f"{group}.{text}" for group in NAMED for text in getattr(request, group))]
    return {**found, **{key: value for key, _, value in (text.partition("=") for text in texts)}}


def _kind(key: str) -> tuple[str, str]:
    """Return what a setting is: option, argument, parameter, or one of the named groups and the name in it."""
    group, dot, rest = key.partition(".")
    if key in OPTIONS:
        return "option", ""
    if key.startswith("--"):
        return "argument", ""
    return (group, rest) if group in NAMED and dot else ("parameter", "")


def _option(key: str, value: Value) -> Any:
    """Return a value as a run takes it: times and rates are texts, counts are numbers."""
    kinds = [kind.strip() for kind in str(KINDS[key]).split("|")]
    if "Path" in kinds:
        return Path(str(value))
    if type(value).__name__ in kinds or (isinstance(value, int) and "float" in kinds):
        return value
    if "str" in kinds:
        return text_of(value)
    raise WiretimeError(f"{key} is {value!r}: must be {' or '.join(k for k in kinds if k != 'None')}")


def text_of(value: Value) -> str:
    """Return a value as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _known() -> list[str]:
    return [*OPTIONS, *platforms.by_name(), "dram"]


def _check_setting(where: str, key: str, measure: str) -> None:
    """Raise where nothing is called so, or what is measured has no use for it."""
    if measure == "msb" and (key in OF_ONE_LOAD or key.startswith("iperf.")):
        raise WiretimeError(f'{where}: {key} is of runs (measure = "run"); a search finds the load itself')
    if _kind(key)[0] == "parameter" and platforms.NUMBER.sub("", key) not in (known := _known()):
        raise WiretimeError(f"{where}: {unknown('axis or setting', key, known)}")


def _places(
    source: str, name: str, values: Sequence[Value | dict[str, Value]], measure: str
) -> list[tuple[Value, list[Setting]]]:
    """Return the places of an axis: label, and what is set there."""
    if not values:
        raise WiretimeError(f"{source}: axis {name} is empty")
    bundles = [v for v in values if isinstance(v, dict)]
    if bundles and len(bundles) < len(values):
        raise WiretimeError(f"{source}: axis {name}: either values or tables")
    found: list[tuple[Value, list[Setting]]] = []
    for value in values:
        if not isinstance(value, dict):
            found.append((value, [(name, value)]))
            continue
        if "label" not in value:
            raise WiretimeError(f"{source}: axis {name}: a table needs a label")
        settings = [(k, v) for k, v in value.items() if k != "label"]
        for key, _ in settings:
            _check_setting(f"{source}: axis {name}", key, measure)
        found.append((value["label"], settings))
    if not bundles:
        _check_setting(f"{source}: axes", name, measure)
        return found
    # A query ignores capitals, and has the points' names in a column of their own.
    if is_metric(name.lower(), measure):
        raise WiretimeError(f"{source}: axis {name}: is a metric's name, whose values would be taken for its places")
    if name.lower() == "point" or '"' in name:
        raise WiretimeError(f"{source}: axis {name}: no column of a table can have that name beside the points'")
    labels = [text_of(label) for label, _ in found]
    for label in labels:
        if labels.count(label) > 1:
            raise WiretimeError(f"{source}: axis {name}: two places are called {label}")
    return found


def typed(text: str) -> Value:
    """Return a value of the command line, or of a page, as a plan would write it."""
    if DECIMAL.fullmatch(text):
        return float(text) if "." in text else int(text)
    return {"true": True, "false": False}.get(text, text)


def _listed(values: Any) -> Sequence[Any]:
    return values if isinstance(values, list) else ()


def with_axes(table: Mapping[str, Any], axes: Sequence[str]) -> dict[str, Any]:
    """Return a plan's table with other values on its axes (NAME=VALUE,VALUE), or with further axes."""
    changed = dict(table)
    if isinstance(given := table.get("axes", {}), dict):
        changed["axes"] = dict(given)
    for text in axes if isinstance(given, dict) else ():
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise WiretimeError(f"--axis {text}: must be NAME=VALUE,VALUE,...")
        # Places that the plan names are meant by their names.
        there = {str(v["label"]): v for v in _listed(given.get(name)) if isinstance(v, dict) and "label" in v}
        changed["axes"][name] = [there.get(v, typed(v)) for v in values.split(",")]
        if isinstance(changed.get("fixed"), dict):
            changed["fixed"] = {k: v for k, v in changed["fixed"].items() if k != name}
    return changed


def load(path: Path, axes: Sequence[str] = ()) -> Plan:
    """Read and check a plan, with other values on its axes where asked to."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise WiretimeError(f"{path}: {reason}") from None
    return parse(with_axes(table, axes), str(path))


def parse(table: Mapping[str, Any], source: str) -> Plan:
    """Return a plan that a table describes, checked."""
    try:
        plan = Plan.model_validate(dict(table))
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WiretimeError(f"{source}: {where}: {first['msg'].lower()}") from None
    for key in plan.fixed:
        _check_setting(f"{source}: fixed", key, plan.study.measure)
        if key in plan.axes:
            raise WiretimeError(f"{source}: {key} is fixed and an axis")
    if not plan.axes:
        raise WiretimeError(f"{source}: there is no axis")
    folded = [name.casefold() for name in plan.axes]
    for name in plan.axes:
        if folded.count(name.casefold()) > 1:
            raise WiretimeError(f"{source}: axis {name}: another is called so, but for capitals")
    if plan.study.measure != "msb":
        # A study's folder has all of them, as they are if nothing is said.
        usual = About(name="usual")
        for key in (k for k in ("loss", "trial_length") if getattr(plan.study, k) != getattr(usual, k)):
            raise WiretimeError(f'{source}: study.{key}: of a search (measure = "msb"), which this is not')
    for metric in plan.metrics:
        check_name(f"{source}: metrics", metric, plan.study.measure)
    for plot in plan.plots:
        if plot.kind in WITH_METRIC:
            check_name(f"{source}: plot {plot.title!r}", plot.y, plan.study.measure, drawn=True)
        elif plot.kind in OF_RUNS and plan.study.measure != "run":
            raise WiretimeError(f'{source}: plot {plot.title!r}: {plot.kind} needs runs (measure = "run")')
        for axis in (plot.colour, plot.facet, *([plot.x] if plot.kind in ("lines", "sensitivity") else [])):
            if axis and axis not in plan.axes:
                raise WiretimeError(f"{source}: plot {plot.title!r}: {unknown('axis', axis, plan.axes)}")
    return plan


def points(plan: Plan, source: str) -> list[Point]:
    """Return all points of a plan, the last axis running fastest."""
    axes = {name: _places(source, name, values, plan.study.measure) for name, values in plan.axes.items()}
    count = 1
    for places in axes.values():
        count *= len(places)
    if count > POINTS_MAX:
        raise WiretimeError(f"{source}: {count} points; at most {POINTS_MAX}")
    found = list(_points(plan, axes))
    seen: dict[tuple[Any, ...], Point] = {}
    for point in found:
        key = tuple(sorted((k, text_of(v)) for k, v in point.settings.items()))
        if key in seen:
            raise WiretimeError(f"{source}: two points are the same: {seen[key].text()}; {point.text()}")
        seen[key] = point
    return found


def _points(plan: Plan, axes: Mapping[str, Sequence[tuple[Value, list[Setting]]]]) -> Iterator[Point]:
    for combination in itertools.product(*axes.values()):
        place = {name: label for name, (label, _) in zip(axes, combination, strict=True)}
        settings: dict[str, Value] = dict(plan.fixed)
        for _, changes in combination:
            settings.update(changes)
        yield Point(place, settings, plan.study)
