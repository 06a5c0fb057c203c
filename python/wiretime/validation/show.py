"""Verdicts as a table on the screen, as Markdown, as plots, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, groupby, product
from string import ascii_lowercase
from typing import get_args

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.markup import escape

from wiretime.search.show import COLOURS
from wiretime.study.draw import Data
from wiretime.tables import plain
from wiretime.validation.claims import Claim, Kind
from wiretime.validation.judge import NEAR, NONE, ROUGH, Verdict

SHADES = dict(zip(get_args(Kind), COLOURS, strict=False))
ROW = 0.27
# Lines of a picture at most; points of a line that are told apart without being moved aside, and how far they are.
LINES, CROWD, SPREAD = 60, 20, [-0.3, 0.1, -0.1, 0.3, -0.2, 0.2, 0.0]
NUMBERS = ("published", "simulated", "error", "by estimates")


def _value(value: float | str | None, unit: str = "") -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else value
    return f"{text} {unit}".strip() if unit not in ("class", "") else text


def published(claim: Claim) -> str:
    """Return what was published, with its unit where it is a number."""
    return _value(claim.published, claim.unit if claim.value is not None or claim.unit in ("kRPS",) else "")


def simulated(v: Verdict) -> str:
    """Return what was simulated, with its unit."""
    if v.claim.skip:
        return "not possible"
    if v.simulated is None:
        return "not run"
    if v.simulated == NONE:
        return NONE
    unit = v.claim.unit or ("%" if isinstance(v.simulated, float) else "")
    return _value(v.simulated, unit)


def span(v: Verdict) -> str:
    """Return where the platform's estimates may take what is simulated."""
    return "" if v.span is None else f"{v.span[0]:.4g} to {v.span[1]:.4g}"


def outcome(v: Verdict) -> str:
    """Return how far apart they are, or whether the trend is the same."""
    if v.error is not None:
        return f"{v.error:+.0f} points" if v.claim.scale == "points" else f"{100 * v.error:+.0f} %"
    return "" if v.agrees is None else "agrees" if v.agrees else "differs"


def misfit(v: Verdict) -> str:
    """Return why a row misses, or why it was not run; and what other rules said of it."""
    if v.claim.skip:
        return v.claim.skip
    if v.simulated is None:
        return ""
    said = [] if v.near else [v.claim.cause or "not explained"]
    said += [f"judged before by {rule}: {simulated(before)}, {outcome(before)}" for rule, before in v.earlier]
    return "; ".join(said)


def table(verdicts: Sequence[Verdict]) -> RenderableType:
    """Return the rows that were simulated, for the screen."""
    t = plain("published against simulated")
    # A column for ranges only where some were asked for.
    ranged = any(v.span for v in verdicts)
    for name in ("figure", "what", "published", "simulated", "", "by estimates", "kind"):
        if name != "by estimates" or ranged:
            t.add_column(name, justify="left" if name in ("figure", "what", "kind") else "right")
    for source, rows in groupby(verdicts, key=lambda v: v.claim.source):
        shown = [v for v in rows if v.simulated is not None]
        for v in shown:
            spans = (span(v),) if ranged else ()
            told = (v.claim.figure, v.claim.what, published(v.claim), simulated(v), outcome(v), *spans, v.claim.kind)
            t.add_row(*map(escape, told))
        if shown:
            t.add_section()
            t.add_row("", f"[dim]{source}[/dim]")
            t.add_section()
    return t


def columns(v: Verdict) -> dict[str, str]:
    """Return a row of the written table."""
    return {
        "figure": v.claim.figure,
        "what": v.claim.what,
        "published": published(v.claim),
        "simulated": simulated(v),
        "error": outcome(v),
        "by estimates": span(v),
        "kind": v.claim.kind,
        "measured on": v.claim.there,
        "simulated on": v.claim.here,
        "misfit": misfit(v),
    }


def _letters() -> Iterator[str]:
    """Yield a, b, ... z, aa, ab, ..."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def markdown(verdicts: Sequence[Verdict], summary: Sequence[str]) -> str:
    """Return all rows, a table for each source."""
    lines = [*(f"- {line}" for line in summary), ""]
    for source, rows in groupby(verdicts, key=lambda v: v.claim.source):
        of_source = list(rows)
        lines += [f"## {source[0].upper()}{source[1:]}", ""]
        setups = dict.fromkeys((v.claim.there, v.claim.here) for v in of_source)
        keys = dict(zip(setups, _letters(), strict=False))
        lines += [f"- **{key}**: {there}; here: {here}" for (there, here), key in keys.items()]
        names = ["figure", "what", "on", "published", "simulated", "error", "by estimates", "kind", "misfit"]
        if not any(v.span for v in of_source):
            names.remove("by estimates")
        lines += ["", "| " + " | ".join(names) + " |"]
        lines += ["|" + "|".join("---:" if name in NUMBERS else "---" for name in names) + "|"]
        for v in of_source:
            c = columns(v) | {"on": keys[v.claim.there, v.claim.here]}
            shown = (c[k] for k in names)
            lines.append("| " + " | ".join(text.replace("|", "\\|") for text in shown) + " |")
        lines.append("")
    return "\n".join(lines)


def _figure(rows: int) -> Figure:
    return Figure(figsize=(7.6, 1.1 + ROW * rows), layout="constrained")


def _group(v: Verdict) -> str:
    return f"{v.claim.source.split(':')[0]}, {v.claim.kind}"


def errors(verdicts: Sequence[Verdict]) -> tuple[Figure, Data] | None:
    """Draw what was simulated over what was published.

    A row each; of machines with many rows, a line each; of more than a picture has lines for, one a source and kind.
    """
    found = [v for v in verdicts if v.error is not None and v.claim.scale != "points"]
    if not found:
        return None

    def name_of(v: Verdict) -> str:
        name = v.claim.what if v.claim.studies else v.claim.figure
        return name if len(name) < 66 else f"{name[:63]}..."

    names = list(dict.fromkeys(map(name_of, found)))
    if len(names) > LINES:
        name_of = _group
        names = sorted(set(map(name_of, found)))
    figure_rows: list[tuple[float, float, str]] = []
    for at, name in enumerate(names):
        # Beside each other as far as they would hide each other.
        line = sorted((1 + (v.error or 0.0), v.claim.kind) for v in found if name_of(v) == name)
        aside = SPREAD if len(line) > CROWD else [0.0]
        figure_rows += [(at + aside[i % len(aside)], ratio, kind) for i, (ratio, kind) in enumerate(line)]
    figure = _figure(len(names))
    axes = figure.subplots()
    axes.axvspan(1 - ROUGH, 1 + ROUGH, color="#eeeeee", linewidth=0)
    axes.axvspan(1 - NEAR, 1 + NEAR, color="#dddddd", linewidth=0)
    axes.axvline(1, color="#555555", linewidth=0.8)
    for kind, colour in SHADES.items():
        of_kind = [(at, ratio) for at, ratio, k in figure_rows if k == kind]
        if of_kind:
            y, x = zip(*of_kind, strict=True)
            axes.scatter(x, y, s=22, color=colour, label=kind, zorder=3, alpha=0.85, edgecolor="white", linewidth=0.4)
    axes.set_xscale("log", base=2)
    ratios = [ratio for _, ratio, _ in figure_rows]
    ticks = [t for t in (1 / 8, 1 / 4, 1 / 2, 2 / 3, 1, 1.5, 2, 4, 8) if min(ratios) / 1.2 <= t <= max(ratios) * 1.2]
    axes.set_xticks(ticks, [f"{t:.3g}" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("simulated / published (bands: 10 % and 25 %)")
    figure.legend(ncols=5, loc="outside upper right", frameon=False, fontsize=8)
    data = [{"what": v.claim.what, "kind": v.claim.kind, "simulated / published": 1 + (v.error or 0.0)} for v in found]
    return figure, data


def pairs(verdicts: Sequence[Verdict]) -> tuple[Figure, Data] | None:
    """Draw published and simulated values of one unit side by side."""
    found = [
        (v, v.claim.value, v.simulated)
        for v in verdicts
        if v.claim.value is not None and isinstance(v.simulated, float)
    ]
    if not found:
        return None
    figure = _figure(len(found))
    axes = figure.subplots()
    rows, there, here = (list(column) for column in zip(*found, strict=True))
    axes.hlines(range(len(found)), there, here, color="#999999", linewidth=1.2, zorder=1)
    axes.scatter(there, range(len(found)), s=34, facecolor="white", edgecolor="#333333", zorder=2)
    axes.scatter(here, range(len(found)), s=30, color=[SHADES[v.claim.kind] for v in rows], zorder=3)
    axes.scatter([], [], s=34, facecolor="white", edgecolor="#333333", label="published")
    for kind in dict.fromkeys(v.claim.kind for v in rows):
        axes.scatter([], [], s=30, color=SHADES[kind], label=f"simulated, {kind}")
    axes.set_yticks(range(len(found)), [v.claim.what for v in rows], fontsize=7.5)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(left=min(0.0, *here))
    unit = rows[0].claim.unit
    axes.set_xlabel({"x": "times", "%": "percent"}.get(unit, unit))
    figure.legend(ncols=3, loc="outside upper right", frameon=False, fontsize=8)
    return figure, [columns(v) for v in rows]
