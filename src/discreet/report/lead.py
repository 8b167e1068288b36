"""The first screen of a page: what whoever decides reads.

One model has two or three numbers on cards. Groups, classes and sites have forest plots with
the pooled row. Two models have the forest plot of their differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from discreet.estimate.estimate import UNIT
from discreet.metrics.table import METRICS
from discreet.metrics.thresholds import at_threshold
from discreet.report.explorer import SHORT
from discreet.report.forest import Forest, ForestRow
from discreet.report.svg import interval_rows
from discreet.report.text import (
    Headline,
    calibration_words,
    distinct,
    headlines,
    number_cell,
    plain_claim,
    title_of,
)
from discreet.report.views import calibratable, counted

if TYPE_CHECKING:
    from discreet.privacy.claim import Claim
    from discreet.report.evaluation import Evaluation
    from discreet.report.page import Sheet


def lead_values(sheet: Sheet) -> dict[str, Any]:
    """Return the numbers that matter first: cards of one model, else forest plots."""
    result = sheet.result
    alone = len(result.parts) == 1
    if alone:
        forests = []
    elif result.differences is not None:
        forests = [_difference_forest(sheet)]
    else:
        forests = _part_forests(sheet)
    return {
        "verdict": result.verdict().splitlines(),
        "cards": [card_values(h) for h in headlines(result.first, curves=sheet.curves)]
        if alone
        else [],
        "forests": forests,
        "sites": [
            forest
            for part in list(result.parts.values())[:1]
            for forest in _site_forests(result.pooled or part)
        ],
        "calibration": [
            (name, calibration_words(part))
            for name, part in result.parts.items()
            if (alone or result.models) and calibratable(part.fit)
        ],
        **promise_values(result.claim),
    }


def promise_values(claim: Claim) -> dict[str, Any]:
    """Return the box that says in plain words what was promised."""
    own = claim.setting == "own data"
    heading = "No privacy was promised" if own else "What was promised"
    return {"heading": heading, "promises": plain_claim(claim)}


def card_values(shown: Headline) -> dict[str, Any]:
    """Return one number with its interval as a card shows it."""
    value, (low, high) = shown.estimate.value, shown.estimate.interval()
    known = not math.isnan(value)
    bar = [low, max(high - low, 0.004), value]
    chance = shown.chance
    return {
        "title": shown.title,
        "value": f"{value:.3f}" if known else "undefined",
        "interval": f"{low:.3f} to {high:.3f}" if known else "",
        "sentence": shown.sentence,
        "bar": [f"{100 * v:.2f}%" for v in bar]
        if known and shown.estimate.support == UNIT
        else None,
        "chance": None if chance is None else f"{100 * chance:.2f}%",
        "side": _side(chance),
    }


def _side(chance: float | None) -> str:
    """Return on which side of its mark a word stands, so as to stay on the card."""
    if chance is None or 0.15 <= chance <= 0.85:
        return "middle"
    return "start" if chance < 0.5 else "end"


def _part_forests(sheet: Sheet) -> list[dict[str, Any]]:
    """Return a forest plot of ranking, and of the two rates at the first threshold."""
    result, t = sheet.result, sheet.threshold
    shared = [n for n in METRICS if all(n in p.metrics for p in result.parts.values())]
    asked: list[tuple[str, float | None]] = [(name, None) for name in shared[:1]]
    if t is not None and len(result.drawn) == len(result.parts):
        asked += [("recall", t), ("precision", t)]
    forest = result.forest or partial(_forest_of, result.parts)
    plots = [forest(name, at=at) for name, at in asked]
    less = " less ".join(result.named)  # differences of two models in each group
    said = result.verdict()
    return [
        _forest(plot, wide=k == 0, less=less, said=said) for k, plot in enumerate(plots)
    ]


def _forest_of(
    parts: Mapping[str, Evaluation], metric: str, *, at: float | None
) -> Forest:
    """Return a metric of every class; these share examples, so nothing is pooled."""
    rows = []
    for name, part in parts.items():
        estimate = (
            part.metrics[metric]
            if at is None
            else at_threshold(counted(part.fit), at)[metric]
        )
        rows.append(ForestRow(name, estimate.value, *estimate.interval()))
    return Forest(metric, tuple(rows), at=at)


def _forest(forest: Forest, *, wide: bool, less: str, said: str = "") -> dict[str, Any]:
    rows, whole = list(forest.rows), []
    reference = 0.0 if less else None
    if forest.pooled is not None:
        whole = [len(rows)]
        rows.append(forest.pooled)
        reference = reference if less else forest.pooled.estimate
    if forest.prediction is not None:
        rows.append(ForestRow("A new site", math.nan, *forest.prediction))
    title = forest.title
    if forest.at is not None and forest.metric in SHORT:
        title = f"{SHORT[forest.metric]} at {forest.at:g}"
        title = f"{title}, {less}" if less else title
    return forest_values(
        title,
        rows,
        reference,
        whole=whole,
        note="" if forest.note in said or not wide else forest.note,
        wide=wide,
        signed=bool(less),
    )


def _site_forests(part: Evaluation) -> list[dict[str, Any]]:
    """Return how sites differ, as far as the plan asked for it."""
    forests = []
    for name, spread in part.heterogeneity.spreads.items():
        drawn = part.heterogeneity.rows(name, part)
        rows = [ForestRow(title, value, *ends) for title, value, ends in drawn]
        if rows:
            low, high = spread.prediction()
            expected = f"A new site can expect {low:.2f} to {high:.2f}."
            title = f"{spread.terms.title} across sites"
            whole = [len(rows) - 1] if name == "auc" else []
            usual = 1.0 if spread.terms.row.link == "log" else None  # a ratio
            pooled = rows[-1].estimate if whole else usual
            wide = len(part.heterogeneity.spreads) == 1
            forests.append(
                forest_values(
                    title, rows, pooled, whole=whole, note=expected, wide=wide
                )
            )
    return forests


def _difference_forest(sheet: Sheet) -> dict[str, Any]:
    """Return the first model less the second, in each metric and rate."""
    result = sheet.result
    differences = result.differences
    if differences is None:
        raise TypeError("only two models have differences")
    parts = list(result.parts.values())
    gaps = differences(None)
    shown = [
        (_lower(name), gaps[name], [part.metrics[name] for part in parts])
        for name in distinct(result.first)
    ]
    if sheet.threshold is not None and result.drawn:
        gaps = differences(sheet.threshold)
        rates = [at_threshold(counted(part.fit), sheet.threshold) for part in parts]
        shown += [
            (
                f"{SHORT[name]} at {sheet.threshold:g}",
                gaps[name],
                [r[name] for r in rates],
            )
            for name in ("recall", "specificity", "net_benefit")
            if not math.isnan(gaps[name].value)
        ]
    values = forest_values(
        " less ".join(result.models),
        [ForestRow(name, gap.value, *gap.interval()) for name, gap, _ in shown],
        0.0,
        signed=True,
        wide=True,
    )
    values["columns"] = list(result.models)
    for row, (_, _, both) in zip(values["rows"], shown, strict=True):
        row["others"] = [number_cell(estimate)[0] for estimate in both]
    return values


def _lower(name: str) -> str:
    title = title_of(name)
    title = title[:1].upper() + title[1:]
    return f"{title} (less is better)" if METRICS[name].better == "lower" else title


def forest_values(
    title: str,
    rows: Sequence[ForestRow],
    reference: float | None,
    *,
    whole: Sequence[int] = (),
    note: str = "",
    wide: bool = False,
    signed: bool = False,
) -> dict[str, Any]:
    """Return the rows of a forest plot, drawn and written."""
    pieces = 4 if wide else 3
    drawn = interval_rows(rows, reference=reference, whole=whole, pieces=pieces)
    written = []
    for place, (row, svg) in enumerate(zip(rows, drawn.rows, strict=True)):
        sign = "+" if signed else ""
        value = "" if math.isnan(row.estimate) else f"{row.estimate:{sign}.3f}"
        interval = f"{row.low:{sign}.3f} to {row.high:{sign}.3f}"
        known = not math.isnan(row.low + row.high)
        name = row.name[:1].upper() + row.name[1:] if place in whole else row.name
        written.append(
            {
                "name": name,
                "svg": svg,
                "value": value if known else "undefined",
                "interval": interval if known else "",
                "whole": place in whole,
                "others": [],
            }
        )
    return {
        "title": title,
        "rows": written,
        "axis": drawn.axis,
        "note": note,
        "wide": wide,
        "columns": [],
    }
