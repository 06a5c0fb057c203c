"""What runs and searches leave, as options of charts (Apache ECharts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from wiretime.counters import numbers, of
from wiretime.models import Report
from wiretime.search.show import COLOURS
from wiretime.search.trials import CLASSES
from wiretime.statistics import busy_cores, packets, stalls
from wiretime.study import metrics
from wiretime.study.folder import Study
from wiretime.study.plan import text_of

Options = dict[str, Any]
# Causes of cycles below this share of all of them are drawn together.
SMALL = 0.01
# Beyond the colours of plots Tol's muted ones, for what has many parts.
PALETTE = (*COLOURS[:-1], "#332288", "#44AA99", "#999933", "#882255", "#DDCC77", "#AA4499", "#88CCEE", "#888888")
# Points of a curve: more than a chart has pixels.
POINTS_MAX = 600


def _chart(title: str, x: Options, y: Options, series: Sequence[Options]) -> Options:
    """Return a chart with named axes and a legend where it has several series."""
    several = len(series) > 1
    return {
        "title": {"text": title, "left": 0, "textStyle": {"fontSize": 13, "fontWeight": 500}},
        "color": list(PALETTE),
        "animation": False,
        "grid": {"left": 12, "right": 24, "top": 64 if several else 40, "bottom": 34, "containLabel": True},
        "legend": {"show": several, "top": 24, "left": 0, "itemHeight": 9, "itemWidth": 14, "type": "scroll"},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"nameLocation": "middle", "nameGap": 26, **x},
        "yAxis": {"nameLocation": "end", "nameTextStyle": {"align": "left"}, **y},
        "series": list(series),
    }


def _two_scales(chart: Options, left: Options, right: Options) -> Options:
    """Return a chart with a second scale at its right; both are told above it."""
    chart["yAxis"] = [
        {"type": "value", "nameTextStyle": {"align": "left"}, **left},
        {"type": "value", "splitLine": {"show": False}, **right},
    ]
    chart["grid"]["top"] = 84
    return chart


def over_axis(study: Study, axis: str, metric: str) -> Options:
    """Return a metric of all finished points over an axis, a line for each place on the others."""
    done = [t for t in study.tasks if t.finished]
    places = [text_of(v) for v in dict.fromkeys(t.point.place[axis] for t in study.tasks)]
    lines: dict[str, dict[str, float | None]] = {}
    for task in done:
        others = [f"{k.rsplit('.', 1)[-1]} {text_of(v)}" for k, v in task.point.place.items() if k != axis]
        line = lines.setdefault(", ".join(others), {})
        line[text_of(task.point.place[axis])] = task.row.get(metric)
    series = [
        {
            "name": name or metric,
            "type": "line" if len(places) > 1 else "bar",
            "symbolSize": 7,
            "data": [_rounded(values.get(place)) for place in places],
        }
        for name, values in lines.items()
    ]
    unit = metrics.unit(metric)
    what = metrics.meaning(metric)
    return _chart(
        f"{what}{f', {unit}' if unit else ''}",
        {"type": "category", "data": places, "name": f"{axis}, B" if axis == "packet_size" else axis},
        {"type": "value", "min": 0},
        series,
    )


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def trials(found: Sequence[Mapping[str, Any]]) -> Options:
    """Return the trials of a search: loss over what was offered, and the line that was forwarded."""
    ordered = sorted(found, key=lambda t: t["offered"])
    loss = [[_rounded(t["offered"] / 1e9), _rounded(100 * t["loss"])] for t in ordered]
    forwarded = [[_rounded(t["offered"] / 1e9), _rounded(min(t["forwarded"], t["offered"]) / 1e9)] for t in ordered]
    chart = _chart(
        f"{len(found)} trial{'s'[: len(found) != 1]}",
        {"type": "value", "name": "offered, Gb/s", "scale": True},
        {"type": "value"},
        [
            {"name": "forwarded, Gb/s", "type": "line", "symbolSize": 6, "data": forwarded},
            {"name": "loss, %", "type": "line", "symbolSize": 6, "yAxisIndex": 1, "data": loss},
        ],
    )
    return _two_scales(chart, {"name": "forwarded, Gb/s", "scale": True}, {"name": "loss, %", "min": 0})


Runs = Mapping[str, Report]


def fates(runs: Runs) -> Options:
    """Return what became of the packets of runs, in percent of those offered."""
    shares: dict[str, list[float]] = {}
    for result in runs.values():
        cohort = numbers(result["cohort"])
        offered = max(cohort["offered"], 1)
        fate = {"forwarded": cohort["forwarded"], "taken": cohort["consumed"], "filtered": cohort["filtered"]}
        fate |= {name: cohort[key] for key, name in CLASSES.items()}
        fate["under way"] = cohort["offered"] - sum(fate.values())
        for name, n in fate.items():
            shares.setdefault(name, []).append(round(100 * n / offered, 3))
    return _lying("what became of the packets, %", list(runs), shares, 100)


Parts = Mapping[str, Sequence[float]]


def _lying(title: str, names: Sequence[str], parts: Parts, most: float | None = None) -> Options:
    """Return bars that lie, the first on top, each of the parts that any of them has."""
    upper = {"max": most} if most is not None else {}
    places = {"type": "category", "data": list(names), "inverse": True}
    series = [
        {"name": name, "type": "bar", "stack": "all", "data": list(values), "barMaxWidth": 36}
        for name, values in parts.items()
        if any(values)
    ]
    chart = _chart(title, {"type": "value", **upper}, places, series)
    chart["tooltip"] = {"trigger": "item"}
    chart["legend"]["show"] = True
    chart["grid"]["top"] = 64
    return chart


def latencies(runs: Runs) -> Options:
    """Return how many percent of the packets of runs took at most so long."""
    series = []
    for name, result in runs.items():
        histogram = result["latency_histogram_ns"]
        counts = list(accumulate(n for _, n in histogram))
        if not counts:
            continue
        every = max(1, len(histogram) // POINTS_MAX)
        curve = [
            [_rounded(float(ns)), round(100 * n / counts[-1], 4)]
            for i, ((ns, _), n) in enumerate(zip(histogram, counts, strict=True))
            if i % every == 0 or i + 1 == len(counts)
        ]
        series.append({"name": name, "type": "line", "step": "end", "showSymbol": False, "data": curve})
    return _chart(
        "latency: % of the packets that took at most so long",
        {"type": "log" if _wide(series) else "value", "name": "ns", "scale": True},
        {"type": "value", "min": 0, "max": 100},
        series,
    )


def _wide(series: Sequence[Options]) -> bool:
    """Return whether latencies span so much that only a logarithm shows all of them."""
    times = [point[0] for s in series for point in s["data"]]
    return bool(times) and min(times) > 0 and max(times) > 20 * min(times)


def hops(runs: Runs) -> Options:
    """Return where the packets of runs spent their time, on average."""
    names = dict.fromkeys(hop["name"] for r in runs.values() for hop in r["latency_hops_ns"])
    means = {name: {hop["name"]: hop["mean"] for hop in r["latency_hops_ns"]} for name, r in runs.items()}
    parts = {hop: [round(means[run].get(hop, 0.0), 1) for run in runs] for hop in names}
    return _lying("latency by hop, mean, ns", list(runs), parts)


def cycles(runs: Runs) -> Options:
    """Return where the cycles of the cores that worked went, a packet."""
    sums: dict[str, dict[str, float]] = {}
    for name, result in runs.items():
        n = max(packets(result), 1)
        cores = [numbers(of(result)["cores"][i]["stalls"]) for i in busy_cores(result)]
        sums[name] = {s.name: sum(core[s.name] for core in cores) / n for s in stalls()}
    whole = {name: max(sum(causes.values()), 1e-9) for name, causes in sums.items()}
    shown = [s.name for s in stalls() if any(sums[run][s.name] >= SMALL * whole[run] for run in runs)]
    parts = {cause.replace("_", " "): [round(sums[run][cause], 2) for run in runs] for cause in shown}
    parts["other"] = [round(whole[run] - sum(sums[run][c] for c in shown), 2) for run in runs]
    return _lying("cycles per packet, by cause", list(runs), parts)


def occupancy(result: Report) -> Options:
    """Return how full FIFO and rings were over the measurement, of all ports together."""
    found = result["occupancy"]
    series = []
    for i, column in enumerate(found["columns"]):
        values = [sum(row[i] for row in rows) for rows in zip(*found["ports"], strict=True)]
        every = max(1, len(values) // POINTS_MAX)
        curve = [[round(n * found["interval_ns"] / 1e3, 3), v] for n, v in enumerate(values) if n % every == 0]
        in_bytes = column.endswith("_bytes")
        series.append(
            {"name": column.replace("_", " "), "type": "line", "showSymbol": False, "yAxisIndex": int(in_bytes),
             "data": curve}
        )  # fmt: skip
    chart = _chart("how full FIFO and rings were", {"type": "value", "name": "us"}, {"type": "value"}, series)
    return _two_scales(chart, {"name": "descriptors"}, {"name": "bytes"})
