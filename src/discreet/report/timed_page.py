"""The report of follow-up as one HTML file, its pictures, and its view in a notebook.

Without scripts the page shows everything at the horizon that the scores predict; the
script shows the same at other times, which are in the page already.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Estimate
from discreet.metrics.timed_table import SurvivalCurve
from discreet.report.explorer import ticks
from discreet.report.forest import ForestRow
from discreet.report.lead import card_values, forest_values, promise_values
from discreet.report.page import (
    page_parts,
    render_template,
    review_values,
    script_json,
)
from discreet.report.plot import PALETTE, Display
from discreet.report.record import Made, Receipt
from discreet.report.shown import claim_html, picture_html, table_html
from discreet.report.svg import Frame, Stroke, treated
from discreet.report.text import (
    Headline,
    holds_counts,
    interval_column,
    measured_where,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.timed_evaluation import (
        DecisionCurve,
        TimedEvaluation,
        TimedPlot,
    )
    from discreet.report.timed_exports import TimedExports

_MOST_TIMES: Final = 12
"""Times that the slider of the page has, beside the horizons."""
_MARKS: Final = 5
"""Intervals of the time axis, at most, that have numbers at risk at their ends."""
_ROW: Final = 15
"""Height of a line of numbers at risk."""
_THIRD_GROUP: Final = ".band.c2, .dot.c2 { fill: var(--c2); }\n"
_TITLES: Final[Mapping[str, str]] = {
    "auc": "AUC over time",
    "km": "Survival by risk group",
    "calibration": "Calibration",
    "decision": "Decision curve",
}


# -- the page ----------------------------------------------------------------------


def render(
    result: TimedExports,
    made: Made,
    record: Mapping[str, Any] | None,
    receipts: Sequence[Receipt] = (),
    *,
    curves: bool = True,
) -> str:
    """Return the HTML of a result; the same result always gives the same bytes.

    Without ``curves`` there are no pictures: counts can be worked out from them.
    """
    first, plan = _lead(result), result.first.plan
    version = f"discreet {made.discreet}"
    facts = {
        "Sites": _sites(first),
        "Examples": first.count_words().rpartition(", ")[2].removesuffix(" examples"),
        "Follow-up": _follow_up(first),
        "Privacy": f"{result.claim.loss}, {result.claim.setting}",
        "Made": f"{made.on}, with {version}" if made.on else version,
    }
    if result.claim.setting == "own data" and first.source.expected == 1:
        del facts["Sites"]
    model = "" if plan is None else plan.model.name
    return render_template(
        "report.html.j2",
        title=model or "Risk model",
        named=bool(model),
        kind="time to event",
        question=_question(first),
        facts=facts,
        holding=holds_counts(plan, result.claim, curves=curves),
        sections=[
            ("lead", _lead_values(result, first)),
            ("timed", _timed_values(result, curves=curves)),
            ("review", review_values(plan, result.claim, made, record, receipts)),
        ],
        data={},
        record=None if record is None else script_json(record),
        **_page_parts(),
    )


def _lead_values(result: TimedExports, first: TimedEvaluation) -> dict[str, Any]:
    """Return the first screen: cards, and what groups differ in."""
    without = {} if result.whole is None else result.whole.left_out
    return {
        "verdict": [
            f"{f'{name}: ' if name else ''}nothing can be told"
            f"{', and the pooled values leave it out' if name in without else ''}: "
            f"{part.table.refusal}."
            for name, part in result.parts.items()
            if part.table.refusal
        ],
        "cards": [card_values(headline) for headline in _headlines(first)],
        "forests": _group_forests(result, first),
        "sites": [],
        "calibration": [],
        **promise_values(result.claim),
    }


def _group_forests(
    result: TimedExports, pooled: TimedEvaluation
) -> list[dict[str, Any]]:
    """Return the AUC and the observed risk of each group beside those of all."""
    if result.whole is None or result.whole.kind != "groups":
        return []
    time = pooled.predicts or max(pooled.horizons)
    parts = {**result.parts, "pooled": pooled}
    forests = []
    for measure, title in (("auc", "AUC"), ("observed_risk", "Observed risk")):
        rows = [
            ForestRow.of(name, part.measure(measure, time))
            for name, part in parts.items()
        ]
        heading, whole = f"{title} by {time:g}", len(rows) - 1
        forests.append(
            forest_values(heading, rows, rows[whole].estimate, whole=[whole])
        )
    return forests


def _timed_values(result: TimedExports, *, curves: bool) -> dict[str, Any]:
    """Return the pictures over time and at each horizon, and all measures."""
    drawn = {n: p for n, p in result.parts.items() if p.table.refusal is None}
    summary = {} if result.whole is None else result.whole.summary()
    return {
        "summary": _estimate_table(summary) if summary else None,
        "parts": [
            _part(part, name, place)
            for place, (name, part) in enumerate(drawn.items())
            if curves
        ],
        "tables": [
            table
            for name, part in result.parts.items()
            for table in _tables(part, name)
        ],
        "notes": [("", note) for note in next(iter(result.parts.values())).notes]
        if result.whole is None
        else result.whole.notes,
    }


def _page_parts() -> dict[str, str]:
    """Return style, script and policy; the style also colours a third group of scores."""
    parts = page_parts("timed.js")
    style = parts["style"] + _THIRD_GROUP
    old, new = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (parts["style"], style)
    )
    return {**parts, "style": style, "policy": parts["policy"].replace(old, new)}


def _lead(result: TimedExports) -> TimedEvaluation:
    """Return the result whose numbers stand first: of all groups, or the first part."""
    if result.whole is not None and result.whole.kind == "groups":
        return result.whole.together()
    return result.first


def _sites(result: TimedEvaluation) -> str:
    source = result.source
    sites = f"{source.contributors} of {source.expected}"
    return f"{sites}: {', '.join(source.site_names)}" if source.site_names else sites


def _follow_up(result: TimedEvaluation) -> str:
    if result.table.refusal is not None:
        return "nothing can be told"
    median = result.median_follow_up
    last = f"counted up to {result.table.cuts[-1]:g}"
    if math.isnan(median.value):
        return f"median beyond {result.table.cuts[-1]:g}, {last}"
    return f"median {median.value:.4g}, {last}"


def _question(result: TimedEvaluation) -> str:
    times = " and ".join(f"{t:g}" for t in result.horizons)
    where = measured_where(result.source, result.claim, result.plan)
    return f"How well it predicts the event by {times}, measured {where}."


def _headlines(result: TimedEvaluation) -> list[Headline]:
    time = result.predicts or max(result.horizons)
    auc, risk = result.auc(time), result.observed_risk(time)
    of_two = (
        "Of two people of whom one has the event by then, the model gives that one the "
        f"higher score {_percent(auc)} of the time; chance is 50%."
    )
    earlier = (
        "Of two people, the one with the earlier event has the higher score "
        f"{_percent(result.concordance)} of the time (Harrell)."
    )
    shown = [
        Headline(f"AUC by {time:g}", auc, of_two, 0.5),
        Headline("Concordance", result.concordance, earlier, 0.5),
    ]
    ratio = result.measure("observed_expected", time)
    if not ratio.value > 0:  # undefined, or nobody had the event
        words = (
            f"The share of people with the event by {time:g}, censoring allowed for."
        )
        return [*shown, Headline(f"Risk by {time:g}", risk, words)]
    predicted = risk.value / ratio.value
    words = (
        f"By {time:g}, {_percent(risk)} have the event; the model predicted "
        f"{predicted:.1%}. Above 1 it predicts too little."
    )
    return [*shown, Headline(f"Observed over predicted, by {time:g}", ratio, words)]


def _percent(estimate: Estimate) -> str:
    known = not math.isnan(estimate.value)
    return f"{estimate.value:.1%}" if known else "an unknown share"


def _part(result: TimedEvaluation, name: str, place: int) -> dict[str, Any]:
    """Return one part's pictures: over time, and at each time of the slider."""
    times = slider_times(result)
    start = result.predicts if result.predicts in times else max(result.horizons)
    return {
        "name": name,
        "place": place,
        "survival": survival_svg(result.kaplan_meier(), f"km{place}"),
        "groups": [curve.name for curve in result.kaplan_meier()],
        "auc": _auc_frame(result, f"auc{place}").svg(),
        "times": [f"{t:g}" for t in times],
        "start": times.index(start),
        "ticks": ticks(times, result.horizons),
        "at": [
            {
                "time": f"{t:g}",
                "shown": t == start,
                "figures": _figures(result, t, f"p{place}t{k}"),
                "table": _estimate_table(_at_time(result, t)),
                "at_risk": f"{result.at_risk[t]:,.0f}",
                "horizon": t in result.horizons,
            }
            for k, t in enumerate(times)
        ],
    }


def slider_times(result: TimedEvaluation) -> list[float]:
    """Return the horizons and further cuts, as many as a slider needs."""
    cuts = [t for t in result.auc_over_time if t not in result.horizons]
    step = max(1, math.ceil(len(cuts) / _MOST_TIMES))
    return sorted({*result.horizons, *cuts[::step]})


def _at_time(result: TimedEvaluation, time: float) -> dict[str, Estimate]:
    if time in result.horizons:
        return result.rows(time)
    both = ("auc", "observed_risk")
    titles = {"auc": "AUC", "observed_risk": "observed risk"}
    return {titles[name]: result.measure(name, time) for name in both}


def _figures(result: TimedEvaluation, time: float, name: str) -> list[dict[str, str]]:
    """Return the calibration and decision pictures at a time, where they exist."""
    if result._no_risk(time) is not None:  # noqa: SLF001 - the same package
        return []
    frames = [
        _calibration_frame(result, time, f"{name}-calibration"),
        _decision_frame(result, time, f"{name}-decision"),
    ]
    return [{"title": frame.title, "svg": frame.svg()} for frame in frames]


def _tables(part: TimedEvaluation, name: str) -> list[dict[str, Any]]:
    before = f"{name}, " if name else ""
    tables = part.tables().items()
    return [_estimate_table(rows, f"{before}{title}") for title, rows in tables]


def _estimate_table(rows: Mapping[str, Estimate], name: str = "") -> dict[str, Any]:
    interval, cells_of = interval_column(rows)
    written = {title: cells_of(estimate) for title, estimate in rows.items()}
    return {"name": name, "interval": interval, "rows": written}


# -- pictures of the page ------------------------------------------------------------


def survival_svg(curves: Sequence[SurvivalCurve], name: str) -> str:
    """Return survival curves with the numbers at risk under the time axis."""
    frame = _survival_frame(curves, name)
    height = _ROW * (len(curves) + 1) + 6
    marks, rows = _marks(curves), []
    bottom = 350
    rows.append(f'<text class="axis" x="4" y="{bottom + 14}">at risk</text>')
    for k, curve in enumerate(curves):
        down = bottom + 14 + _ROW * (k + 1)
        rows.append(f'<circle class="dot c{k}" cx="12" cy="{down - 4}" r="4"/>')
        for t in marks:
            at = np.flatnonzero(np.isclose(curve.times, t))
            count = f"{max(curve.at_risk[at[0]], 0.0):,.0f}" if at.size else "0"
            across, _ = frame.place(t, 0.0)
            anchor = "end" if across > 320 else "middle"
            rows.append(
                f'<text class="tick" x="{across:.1f}" y="{down}" '
                f'text-anchor="{anchor}">{count}</text>'
            )
    drawn = frame.svg().replace(
        'viewBox="0 0 358 350"', f'viewBox="0 0 358 {350 + height}"', 1
    )
    return drawn.removesuffix("</svg>") + "".join(rows) + "</svg>"


def _marks(curves: Sequence[SurvivalCurve]) -> list[float]:
    """Return cuts so far apart that numbers under them fit; the first and the last too."""
    first, *others = max((c.times for c in curves), key=len).tolist()
    marks, last = [first], max(others, default=first)
    for t in others:
        if t == last or min(t - marks[-1], last - t) >= last / _MARKS:
            marks.append(t)
    return marks


def _survival_frame(curves: Sequence[SurvivalCurve], name: str) -> Frame:
    # Where nobody is followed past the first cut there is no time but 0.
    last = max(float(c.times[-1]) for c in curves) or 1.0
    strokes = [Stroke(c.times, c.low, k, upper=c.high) for k, c in enumerate(curves)]
    strokes += [Stroke(c.times, c.survival, k) for k, c in enumerate(curves)]
    lowest = min(float(c.low.min()) for c in curves)
    least = max(0.0, math.floor(lowest * 5 - 0.2) / 5)
    return Frame(
        name,
        "Survival by risk group",
        "Share of people without the event over time, by groups of their score, with 95% "
        "bands at each time.",
        "time",
        "without the event",
        strokes,
        x_range=(0.0, last),
        y_range=(least, 1.0),
        x_ticks=[(t, f"{t:.4g}") for t in _marks(curves)],
    )


def _auc_frame(result: TimedEvaluation, name: str) -> Frame:
    curve = result.auc_over_time
    times = np.array(list(curve))
    ends = np.array([e.interval() for e in curve.values()]).reshape(-1, 2)
    values = np.array([e.value for e in curve.values()])
    least = min(0.5, math.floor(float(ends.min()) * 10) / 10) if times.size else 0.5
    last = float(result.table.cuts[-1])
    chance = Stroke(np.array([0.0, last]), np.array([0.5, 0.5]), dashed=True)
    return Frame(
        name,
        "AUC over time",
        "The cumulative/dynamic AUC at every cut with its 95% interval at each time.",
        "time",
        "AUC",
        [
            chance,
            Stroke(times, ends[:, 0], 0, upper=ends[:, 1]),
            Stroke(times, values, 0),
            Stroke(times, values, 0, points=True),
        ],
        x_range=(0.0, last),
        y_range=(max(least, 0.0), 1.0),
    )


def _calibration_frame(result: TimedEvaluation, time: float, name: str) -> Frame:
    curve = result.calibration(time)
    low, high = curve.band
    most = float(np.nanmax([*high, *curve.predicted, 0.1]))
    top = min(1.0, math.ceil(most * 10) / 10)
    ends = np.array([0.0, top])
    bars = [
        Stroke(np.array([x, x]), np.array([a, b]), 0)
        for x, a, b in zip(curve.predicted, low, high, strict=True)
    ]
    return Frame(
        name,
        f"Calibration by {time:g}",
        "Observed risk of groups of scores against their mean prediction, with 95% "
        "intervals; the dashed line is a calibrated model.",
        f"predicted risk by {time:g}",
        "observed risk",
        [
            Stroke(ends, ends, dashed=True),
            *bars,
            Stroke(curve.predicted, curve.risk, 0, points=True),
        ],
        x_range=(0.0, top),
        y_range=(0.0, top),
    )


def _decision_frame(result: TimedEvaluation, time: float, name: str) -> Frame:
    curve: DecisionCurve = result.net_benefit(time)
    model, low, high = _columns(curve.model)
    everybody = _columns(curve.everybody)[0]
    x = curve.thresholds
    known, there = np.isfinite(model), np.isfinite(everybody)
    # No model's net benefit exceeds the risk, however wide the band is.
    most = 1.08 * float(np.nanmax([*model, *everybody, 0.01]))
    low_end = -most / 5
    last = float(x.max()) if x.size else 1.0
    return Frame(
        name,
        f"Decision curve by {time:g}",
        "Net benefit of treating those above each threshold probability, with 95% "
        "intervals; dashed: treating everybody (treat all), and nobody (treat none).",
        "threshold probability",
        "net benefit",
        [
            Stroke(x, np.zeros_like(x), dashed=True),
            Stroke(x[there], everybody[there], dashed=True),
            Stroke(x[known], low[known], 0, upper=high[known]),
            Stroke(x[known], model[known], 0),
        ],
        x_range=(0.0, last),
        y_range=(low_end, most),
        labels=treated(x[there], everybody[there], low_end, last),
    )


def _columns(
    estimates: Sequence[Estimate],
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return values and interval ends; what is undefined is NaN, and is not drawn."""
    rows = np.array([(e.value, *e.interval()) for e in estimates]).reshape(-1, 3)
    value, low, high = rows.T
    return value, low, high


# -- matplotlib and notebooks --------------------------------------------------------


def picture(
    result: TimedEvaluation,
    kind: TimedPlot,
    *,
    time: float | None = None,
    ax: Axes | None = None,
    path: str | Path | None = None,
) -> Display:
    """Draw one kind of picture, into ``ax`` when it is given."""
    if kind not in _TITLES:
        raise InputError(f"a plot is one of {', '.join(_TITLES)}")
    if result.table.refusal is not None:
        raise NotReleasedError(f"no curve to draw: {result.table.refusal}")
    axes = _own_axes(kind) if ax is None else ax
    at = time if time is not None else result.predicts or max(result.horizons)
    match kind:
        case "km":
            _draw_survival(axes, result.kaplan_meier(), numbers=ax is None)
        case "auc":
            _draw_auc(axes, result)
        case "calibration":
            _draw_calibration(axes, result, at)
        case "decision":
            _draw_decision(axes, result, at)
    by = f" by {at:g}" if kind in ("calibration", "decision") else ""
    axes.set_title(f"{_TITLES[kind]}{by}", fontsize=11, loc="left", parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.93", lw=0.6, zorder=0)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=9, loc="best")
    figure = axes.get_figure(root=True)
    if figure is None:
        raise InputError("these axes belong to no figure: make them with add_subplot")
    shown = Display(figure, axes)
    if path is not None:
        shown.save(path)
    return shown


def _own_axes(kind: str) -> Axes:
    # pyplot keeps global state and a display; a Figure of our own needs neither.
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import

    height = 5.6 if kind == "km" else 4.6
    return Figure(figsize=(6.2, height), layout="constrained").add_subplot()


def _draw_survival(
    axes: Axes, curves: Sequence[SurvivalCurve], *, numbers: bool
) -> None:
    for k, curve in enumerate(curves):
        color = PALETTE[k % len(PALETTE)]
        axes.fill_between(
            curve.times, curve.low, curve.high, color=color, alpha=0.15, lw=0
        )
        axes.plot(curve.times, curve.survival, color=color, lw=1.8, label=curve.name)
    axes.set(xlabel="time", ylabel="without the event", ylim=(None, 1.005))
    if not numbers:
        return
    for k, curve in enumerate(curves):
        for t in _marks(curves):
            at = np.flatnonzero(np.isclose(curve.times, t))
            count = f"{max(curve.at_risk[at[0]], 0.0):,.0f}" if at.size else "0"
            axes.annotate(
                count,
                (t, 0.0),
                (0, -34 - 11 * (k + 1)),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=PALETTE[k % len(PALETTE)],
                annotation_clip=False,
            )
    axes.annotate(
        "at risk",
        (0.0, 0.0),
        (-34, -34),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
        annotation_clip=False,
    )


def _draw_auc(axes: Axes, result: TimedEvaluation) -> None:
    curve = result.auc_over_time
    times = np.array(list(curve))
    value, low, high = _columns(list(curve.values()))
    axes.fill_between(times, low, high, color=PALETTE[0], alpha=0.15, lw=0)
    axes.plot(times, value, color=PALETTE[0], marker="o", ms=3.5, lw=1.8)
    axes.axhline(0.5, color="0.6", lw=0.9, ls=":")
    axes.set(xlabel="time", ylabel="AUC", xlim=(0, None))


def _draw_calibration(axes: Axes, result: TimedEvaluation, time: float) -> None:
    curve = result.calibration(time)
    low, high = curve.band
    reach = np.maximum(np.vstack([curve.risk - low, high - curve.risk]), 0.0)
    top = float(np.nanmax([*high, *curve.predicted, 0.1]))
    axes.plot([0, top], [0, top], color="0.6", lw=0.9, ls=":", label="as predicted")
    axes.errorbar(
        curve.predicted, curve.risk, yerr=reach, color=PALETTE[0], fmt="o", ms=4
    )
    axes.set(xlabel="predicted risk", ylabel="observed risk")


def _draw_decision(axes: Axes, result: TimedEvaluation, time: float) -> None:
    curve: DecisionCurve = result.net_benefit(time)
    value, low, high = _columns(curve.model)
    x = curve.thresholds
    axes.fill_between(x, low, high, color=PALETTE[0], alpha=0.15, lw=0)
    axes.plot(x, value, color=PALETTE[0], lw=1.8, label="the model")
    everybody = _columns(curve.everybody)[0]
    axes.plot(x, everybody, color=PALETTE[1], lw=1.2, label="treat all")
    axes.axhline(0.0, color="0.4", lw=0.9, label="treat none")
    bottom = -0.2 * float(np.nanmax([*high, 0.01]))
    axes.set(xlabel="threshold probability", ylabel="net benefit", ylim=(bottom, None))


def notebook(result: TimedEvaluation) -> str:
    """Return a result as a piece of HTML that needs no style sheet."""
    rows: dict[str, Estimate] = {}
    for time in result.horizons[:2]:
        shown = list(result.rows(time).items())[:3]
        rows |= {f"{title} by {time:g}": estimate for title, estimate in shown}
    rows |= result.overall()
    model = result.plan.model.name if result.plan is not None else ""
    heading = f"{model or 'Time to event'}: {result.count_words()}"
    kinds: tuple[TimedPlot, ...] = ("km", "auc")
    drawn = kinds if result.table.refusal is None else ()
    pictures = "".join(picture_html(result.plot(kind)) for kind in drawn)
    return (
        f"<p><b>{escape(heading)}</b></p>{table_html(rows)}"
        f"{pictures}{claim_html(result.claim)}"
    )
