"""The plots of a report: direct labels, units, colours that everybody tells apart."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wiretime.counters import numbers, of
from wiretime.search.show import COLOURS
from wiretime.search.trials import CLASSES
from wiretime.statistics import busy_cores, stalls
from wiretime.study import metrics
from wiretime.study.folder import Study, Task
from wiretime.study.plan import Plot

STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "wiretime",
    "font.family": "sans-serif",
    # Labels are a plan's, and no formulas.
    "text.parse_math": False,
}
MARKERS = "osD^vPX"
# Letters of an axis' label; the width of a line's label, as a share of a panel's, by letter.
LABEL_WIDTH, LETTER = 40, 0.018
# How far beyond the best load curves are drawn, as a factor.
CURVE_END = 1.5
HATCHES = ("", "///", "...")
# Title, colour, hatch.
Shade = tuple[str, str, str]
SHADES = {key: (name, COLOURS[i], "") for i, (key, name) in enumerate(CLASSES.items())}
Data = list[dict[str, Any]]


@dataclass(frozen=True)
class Drawn:
    """A figure, the data in it, and the points that it shows."""

    figure: Figure
    data: Data
    tasks: Sequence[Task]


def _name(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _label(name: str) -> str:
    unit = metrics.unit(name)
    text = f"{metrics.meaning(name)} ({unit})" if unit else metrics.meaning(name)
    return textwrap.fill(text, LABEL_WIDTH)


def _place(axis: str, value: Any) -> str:
    """Return a place on an axis as a label: words and quantities say what they are, bare figures need their axis."""
    name = _name(value)
    if axis == "packet_size":
        return f"{name} B"
    words = isinstance(value, str) and len(name) > 3
    return name if words else f"{axis.rsplit('.', 1)[-1]} {name}"


def _text(task: Task, study: Study, without: Sequence[str] = ()) -> str:
    """Return what tells a point from the others."""
    axes = [a for a, values in study.plan.axes.items() if len(values) > 1 and a not in without]
    return ", ".join(_place(a, task.point.place[a]) for a in axes) or study.plan.study.name


End = tuple[str, float, float, str]


def _ends(axes: Axes, lines: Sequence[End]) -> None:
    """Label lines at their right ends, apart from each other."""
    low, high = axes.get_xlim()
    near = (high - low) * LETTER * max((len(text) for text, *_ in lines), default=0)
    cluster: list[End] = []
    for line in sorted(lines, key=lambda line: line[1]):
        if cluster and line[1] - cluster[-1][1] > near:
            _labels(axes, cluster)
            cluster = []
        cluster.append(line)
    _labels(axes, cluster)


def _finish(panels: Sequence[Axes], labels: Sequence[Sequence[End]]) -> None:
    """Let panels, whose scale is shared, begin at zero and label their lines, once all that they show is drawn."""
    panels[0].set_ylim(bottom=0)
    for axes, ends in zip(panels, labels, strict=True):
        _ends(axes, ends)


def _labels(axes: Axes, lines: Sequence[End]) -> None:
    """Label lines that end side by side, one above the other."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.055
    ordered = sorted(lines, key=lambda line: line[2])
    places: list[float] = []
    for _, _, y, _ in ordered:
        places.append(max(y, places[-1] + gap) if places else y)
    over = max(0.0, places[-1] - high) if places else 0.0
    for i in reversed(range(len(places))):
        # The topmost stays inside; those below make way.
        limit = high if i == len(places) - 1 else places[i + 1] - gap
        places[i] = min(places[i], limit) if over else places[i]
    for (text, x, _, colour), at in zip(ordered, places, strict=True):
        axes.annotate(
            text,
            (x, at),
            (6, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            annotation_clip=False,
            fontsize=8,
        )


def _panels(study: Study, tasks: Sequence[Task], facet: str) -> list[tuple[str, list[Task]]]:
    if not facet:
        return [("", list(tasks))]
    values = dict.fromkeys(t.point.place[facet] for t in tasks)
    return [(_place(facet, v), [t for t in tasks if t.point.place[facet] == v]) for v in values]


def _figure(panels: int, height: float = 3.2) -> tuple[Figure, list[Axes]]:
    """Return a figure of so many panels, two in a row."""
    columns = min(panels, 2)
    rows = -(-panels // columns)
    figure = Figure(figsize=(max(6.6, 4.2 * columns), height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for empty in axes[panels:]:
        empty.set_axis_off()
    return figure, axes[:panels]


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


# Characters of names below a panel that are read side by side.
SIDE_BY_SIDE = 44


def _name_ticks(axes: Axes, at: Sequence[float], names: Sequence[str]) -> None:
    """Name ticks, slanted where the names would run into each other."""
    slanted = sum(len(name) + 2 for name in names) > SIDE_BY_SIDE
    if slanted:
        axes.set_xticks(at, names, rotation=40, ha="right")
    else:
        axes.set_xticks(at, names)


def lines(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw a metric over an axis, a line for each value of another; the rest is averaged, with its range."""
    panels = _panels(study, tasks, plot.facet)
    figure, all_axes = _figure(len(panels))
    data: Data = []
    labels: list[list[End]] = []
    for axes, (title, part) in zip(all_axes, panels, strict=True):
        xs = list(dict.fromkeys(t.point.place[plot.x] for t in part))
        numeric = _numeric(xs)
        if numeric:
            xs.sort(key=float)
        at = {x: float(x) if numeric else float(i) for i, x in enumerate(xs)}
        colours = list(dict.fromkeys(t.point.place[plot.colour] for t in part)) if plot.colour else [None]
        ends: list[End] = []
        for i, colour in enumerate(colours):
            shade = COLOURS[i % len(COLOURS)]
            points = []
            for x in xs:
                values = [
                    t.figure(plot.y)
                    for t in part
                    if t.point.place[plot.x] == x and (colour is None or t.point.place[plot.colour] == colour)
                ]
                values = [v for v in values if v is not None]
                if values:
                    mean = sum(values) / len(values)
                    points.append((at[x], mean, min(values), max(values)))
                    place = {
                        plot.x: x,
                        **({plot.colour: colour} if plot.colour else {}),
                        **({plot.facet: title} if title else {}),
                    }
                    data.append(
                        {**place, plot.y: mean, "least": min(values), "most": max(values), "points": len(values)}
                    )
            if not points:
                continue
            across, y, low, high = (list(column) for column in zip(*points, strict=True))
            axes.plot(across, y, marker=MARKERS[i % len(MARKERS)], color=shade, linewidth=1.5, markersize=4.5)
            if low != high:
                axes.fill_between(across, low, high, color=shade, alpha=0.15, linewidth=0)
            if colour is not None:
                ends.append((_place(plot.colour, colour), across[-1], y[-1], shade))
        if not numeric:
            _name_ticks(axes, list(at.values()), [_name(x) for x in xs])
        elif len(xs) > 2 and min(at.values()) > 0 and max(at.values()) / min(at.values()) >= 8:
            axes.set_xscale("log", base=2)
            _name_ticks(axes, list(at.values()), [_name(x) for x in xs])
            axes.minorticks_off()
        axes.set_xlabel(plot.x)
        axes.set_title(title, fontsize=9, loc="left")
        labels.append(ends)
    _finish(all_axes, labels)
    for axes in all_axes[::2]:
        axes.set_ylabel(_label(plot.y))
    return Drawn(figure, data, tasks)


def bars(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw a metric as bars, one for each point."""
    figure, (axes,) = _figure(1, 0.32 * len(tasks) + 1.0)
    names = [_text(t, study) for t in tasks]
    values = [t.figure(plot.y) for t in tasks]
    at = range(len(tasks))
    axes.barh(at, [v or 0 for v in values], color=COLOURS[0], height=0.7)
    for i, v in enumerate(values):
        axes.annotate("none" if v is None else f"{v:.4g}", (v or 0, i), (3, 0), textcoords="offset points", va="center")
    axes.set_yticks(list(at), names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(_label(plot.y))
    return Drawn(figure, [{"point": n, plot.y: v} for n, v in zip(names, values, strict=True)], tasks)


def _shades(keys: Sequence[str]) -> dict[str, Shade]:
    """Return a title, a colour and a hatch for each part of a stack: colours first, then hatched ones."""
    count = len(COLOURS)
    return {
        k: (k.replace("_", " "), COLOURS[i % count], HATCHES[i // count % len(HATCHES)]) for i, k in enumerate(keys)
    }


def _stacked(
    study: Study,
    tasks: Sequence[Task],
    parts: Callable[[Task], Mapping[str, float]],
    unit: str,
    names: Mapping[str, Shade],
) -> Drawn:
    """Draw stacks, one for each point."""
    found = [(t, parts(t)) for t in tasks]
    figure, (axes,) = _figure(1, 0.36 * len(found) + 1.6)
    left = [0.0] * len(found)
    order = [k for k in names if any(values.get(k) for _, values in found)]
    for key in order:
        title, colour, hatch = names[key]
        widths = [values.get(key, 0.0) or 0.0 for _, values in found]
        axes.barh(
            range(len(found)),
            widths,
            left=left,
            color=colour,
            hatch=hatch,
            height=0.7,
            label=title,
            edgecolor="white",
            linewidth=0,
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(found)), [_text(t, study) for t, _ in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(unit)
    if order:
        figure.legend(ncols=4, loc="outside upper left", frameon=False, fontsize=8)
    else:
        axes.set_xticks([])
        axes.annotate("nothing", (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", color="#555555")
    data = [{"point": _text(t, study), **{names[k][0]: values.get(k) for k in order}} for t, values in found]
    return Drawn(figure, data, tasks)


def drops(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw what packets were lost to, as shares of the drops."""

    def parts(task: Task) -> dict[str, float]:
        return {key: task.row[f"{key}_share_percent"] or 0.0 for key in CLASSES}

    return _stacked(study, tasks, parts, "share of the drops (%)", SHADES)


def cpi(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw where the cycles of the cores that worked went, all together."""
    names = _shades([cause.name for cause in stalls()])

    def parts(task: Task) -> dict[str, float]:
        result = task.result
        if result is None:
            return {}
        s = of(result)
        each = [numbers(s["cores"][i]["stalls"]) for i in busy_cores(result)]
        packets = max(s["receive"]["delivered"], s["transmit"]["frames"], 1)
        return {k: sum(cycles[k] for cycles in each) / packets for k in each[0]}

    return _stacked(study, tasks, parts, "cycles of the cores that worked a packet", names)


def hops(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw where packets spent their time, on average."""
    results = [(t, r) for t in tasks if (r := t.result) is not None]
    keys = list(dict.fromkeys(h["name"] for _, r in results for h in r["latency_hops_ns"]))
    names = _shades(keys)
    means = {id(t): {h["name"]: float(h["mean"]) / 1000 for h in r["latency_hops_ns"]} for t, r in results}
    return _stacked(study, [t for t, _ in results], lambda t: means[id(t)], "mean time of a packet (us)", names)


def latency(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw latency over the share of packets that had more, the tail as wide as the body."""
    figure, (axes,) = _figure(1)
    data: Data = []
    ends = []
    for i, task in enumerate(tasks):
        result = task.result
        if result is None or not result["latency_histogram_ns"]:
            continue
        buckets = result["latency_histogram_ns"]
        whole = sum(n for _, n in buckets)
        seen, xs, ys = 0, [], []
        for ns, n in buckets:
            xs.append(1 / max(1 - seen / whole, 1 / whole))
            ys.append(ns / 1000)
            seen += n
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(xs, ys, color=colour, linewidth=1.5, drawstyle="steps-post")
        ends.append((_text(task, study), xs[-1], ys[-1], colour))
        shares = (0.5, 0.9, 0.99, 0.999)
        data.append(
            {
                "point": _text(task, study),
                **{
                    f"p{100 * s:g}": next(y for x, y in zip(xs[::-1], ys[::-1], strict=True) if 1 - 1 / x <= s)
                    for s in shares
                },
            }
        )
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100, 1000, 10000], ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"])
    axes.minorticks_off()
    axes.set_xlabel("percentile of packets")
    axes.set_ylabel("latency (us)")
    axes.set_ylim(bottom=0)
    _ends(axes, ends)
    return Drawn(figure, data, tasks)


def curves(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw loss over the offered load: of a search its trials, of runs one point each."""
    panels = _panels(study, tasks, plot.facet)
    figure, all_axes = _figure(len(panels))
    data: Data = []
    labels: list[list[End]] = []
    for axes, (title, part) in zip(all_axes, panels, strict=True):
        groups: dict[str, list[tuple[float, float]]] = {}
        for task in part:
            trials = task.trials
            group = groups.setdefault(_text(task, study, [plot.facet, *(["rate"] if trials is None else [])]), [])
            if trials is None:
                group.append((task.row["offered_gbps"], task.row["loss_percent"]))
            else:
                # Not the two overloads from which a search starts: they fill the rings, and find the bracket.
                best = task.row["msb_gbps"] or float("inf")
                shown = [(t["offered"] / 1e9, 100 * t["loss"]) for t in trials[2:] or trials[1:]]
                group.extend((x, y) for x, y in shown if x <= CURVE_END * best)
        ends: list[End] = []
        for i, (name, points) in enumerate(groups.items()):
            x, y = (list(column) for column in zip(*sorted(points), strict=True))
            colour = COLOURS[i % len(COLOURS)]
            axes.plot(x, y, marker=MARKERS[i % len(MARKERS)], color=colour, linewidth=1.2, markersize=3.5)
            ends.append((name, x[-1], y[-1], colour))
            data += [{"line": name, "offered_gbps": a, "loss_percent": b} for a, b in zip(x, y, strict=True)]
        axes.set_xlabel("offered (Gb/s)")
        axes.set_title(title, fontsize=9, loc="left")
        labels.append(ends)
    _finish(all_axes, labels)
    for axes in all_axes[::2]:
        axes.set_ylabel("loss (%)")
    return Drawn(figure, data, tasks)


def occupancy(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw how full the receive ring and the FIFO were over time."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    data: Data = []
    ends = []
    for i, task in enumerate(tasks):
        result = task.result
        if result is None:
            continue
        found = result["occupancy"]
        # Of all ports together.
        rows = [[sum(column) for column in zip(*row, strict=True)] for row in zip(*found["ports"], strict=True)]
        if not rows:
            continue
        us = [k * found["interval_ns"] / 1000 for k in range(len(rows))]
        colour = COLOURS[i % len(COLOURS)]
        upper.plot(us, [r[2] for r in rows], color=colour, linewidth=1.0)
        lower.plot(us, [r[0] / 1024 for r in rows], color=colour, linewidth=1.0)
        ends.append((_text(task, study), us[-1], rows[-1][2], colour))
        data.append(
            {
                "point": _text(task, study),
                "ring, mean": sum(r[2] for r in rows) / len(rows),
                "FIFO, mean (B)": sum(r[0] for r in rows) / len(rows),
            }
        )
    upper.set_ylabel("waiting in rings\n(packets)")
    lower.set_ylabel("RX FIFO (KiB)")
    lower.set_xlabel("time of the measurement (us)")
    upper.set_ylim(bottom=0)
    lower.set_ylim(bottom=0)
    _ends(upper, ends)
    return Drawn(figure, data, tasks)


def _changes(plot: Plot, study: Study, tasks: Sequence[Task]) -> Data:
    """Return what each value of an axis changes against the axis's first.

    Several places together are a geometric mean; where some are zero on either side, the change of their sum. What is
    zero at the axis's first value has no change in percent: alone such a place is left out.
    """
    found: Data = []
    for axis, values in study.plan.axes.items():
        if len(values) < 2 or plot.x not in ("", axis) or axis == plot.facet:
            continue
        first = values[0].get("label") if isinstance(values[0], Mapping) else values[0]
        places = list(dict.fromkeys(t.point.place[axis] for t in tasks))
        if first not in places:
            continue
        places.sort(key=lambda place: place != first)

        def others(t: Task, axis: str = axis) -> tuple[Any, ...]:
            return tuple(v for a, v in t.point.place.items() if a != axis)

        base = {others(t): t.figure(plot.y) for t in tasks if t.point.place[axis] == places[0]}
        for value in places[1:]:
            pairs = {
                _text(t, study, [axis]): (float(before), float(after))
                for t in tasks
                if t.point.place[axis] == value
                and (before := base.get(others(t))) is not None
                and (after := t.figure(plot.y)) is not None
            }
            ratios = {at: after / before for at, (before, after) in pairs.items() if before}
            if pairs and (not plot.x or plot.facet):
                sums = [sum(side) for side in zip(*pairs.values(), strict=True)]
                if all(min(pair) > 0 for pair in pairs.values()):
                    # Twice and half are nothing together.
                    ratios = {axis: geometric_mean(ratios.values())}
                else:
                    ratios = {axis: sums[1] / sums[0]} if sums[0] else {}
            change = f"{_name(places[0])} to {_name(value)}"
            found += [
                {"change": _name(value) if plot.facet and plot.x else f"{at}: {change}", "percent": 100 * (r - 1)}
                for at, r in ratios.items()
            ]
    if not plot.x:
        found.sort(key=lambda d: -abs(d["percent"]))
    return found


def sensitivity(plot: Plot, study: Study, tasks: Sequence[Task]) -> Drawn:
    """Draw what each value of an axis changes against the axis's first, all else equal.

    Of all axes, on average over the others; or of the axis ``x``, at each place of the others, or, with ``facet``, on
    average at each of its values.
    """
    panels = [(title, _changes(plot, study, part)) for title, part in _panels(study, tasks, plot.facet)]
    most = max(len(found) for _, found in panels)
    figure, all_axes = _figure(len(panels), 0.32 * max(most, 1) + 1.0)
    data: Data = []
    for axes, (title, found) in zip(all_axes, panels, strict=True):
        data += [{**({plot.facet: title} if title else {}), **d} for d in found]
        axes.barh(
            range(len(found)),
            [d["percent"] for d in found],
            color=[COLOURS[0] if d["percent"] >= 0 else COLOURS[1] for d in found],
            height=0.7,
        )
        for i, d in enumerate(found):
            # What is nothing as it is shown is no loss.
            shown = round(d["percent"], 1) + 0.0
            axes.annotate(
                f"{shown:+.1f} %",
                (d["percent"], i),
                (3 if shown >= 0 else -3, 0),
                textcoords="offset points",
                va="center",
                ha="left" if shown >= 0 else "right",
            )
        axes.set_yticks(range(len(found)), [d["change"] for d in found])
        axes.margins(x=0.2)
        axes.grid(axis="y", visible=False)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_title(title, loc="left")
        what = f"change of {metrics.meaning(plot.y)} (%)"
        axes.set_xlabel(textwrap.fill(f"{plot.x}: {what}" if plot.x else what, LABEL_WIDTH))
    # One axis of names for all in a row.
    all_axes[0].invert_yaxis()
    return Drawn(figure, data, tasks)


KINDS: Mapping[str, Callable[[Plot, Study, Sequence[Task]], Drawn]] = {
    "lines": lines,
    "bars": bars,
    "curves": curves,
    "drops": drops,
    "latency": latency,
    "hops": hops,
    "cpi": cpi,
    "occupancy": occupancy,
    "sensitivity": sensitivity,
}


def draw(plot: Plot, study: Study) -> Drawn:
    """Draw a plot of the points that are finished."""
    tasks = [t for t in study.tasks if t.finished]
    with mpl.rc_context(STYLE):
        return KINDS[plot.kind](plot, study, tasks)
