"""Hard rows for every engine, and what NumPy counts on them."""

import itertools

import numpy as np
import pyarrow as pa

import discreet
from discreet.data.edges import Edges, Listed, Support, Uniform, Warped
from discreet.data.scores import ScoreRange
from discreet.privacy.unit import Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, Grouped, Hierarchy
from discreet.statistic.timed import TimedGroups, TimedHistogram

LOGIT = ScoreRange.declare("logit")
ODD = ScoreRange.declare("other", -3.7, 17.3)
STATISTICS = {
    "warped": ClassHistogram(Edges.realise(Warped(256), thresholds=(0.1, 0.3))),
    "uniform": ClassHistogram(Edges.realise(Uniform(64))),
    "hundred": ClassHistogram(Edges.realise(Uniform(100))),
    "listed": ClassHistogram(
        Edges.realise(Listed((0.0, 0.1, 0.1 + 1e-9, 1 / 3, 1e-5 + 1 / 3, 1.0)))
    ),
    "tiny": ClassHistogram(Edges.realise(Listed((0.0, 1e-300, 1e-12, 1.0)))),
    "tree": Hierarchy.over_unit_interval(2, 5),
    "logits": ClassHistogram(Edges.realise(Warped(64), LOGIT)),
    "odd range": ClassHistogram(Edges.realise(Uniform(7), ODD)),
    "support": ClassHistogram(Edges.realise(Support((0.0, 0.1, 0.5, 1.0)))),
    "groups": Grouped(
        ClassHistogram(Edges.realise(Warped(16))), ("a", "b'\"; --", "other")
    ),
}


TIMED = TimedHistogram(
    Edges.realise(Warped(16), thresholds=(0.3,)), (0.0, 0.1, 1 / 3, 365.0, 1e6 + 0.7)
)
FOLLOWED = {
    "follow-up": TIMED,
    "follow-up, tiny and wide cuts": TimedHistogram(
        TIMED.edges, (0.0, 5e-324, 1e-300, 1e99)
    ),
    "follow-up, two causes": TimedHistogram(TIMED.edges, TIMED.cuts, causes=2),
    "follow-up of groups": TimedGroups(TIMED, ("a", "other")),
}


def followed_rows(statistic, rng, n):
    """Every cut and both its neighbours, and every number that is no time."""
    cuts = statistic.time_cuts.array
    hard = [np.nextafter(cuts, -np.inf), cuts, np.nextafter(cuts, np.inf)]
    odd = [np.nan, np.inf, -np.inf, 1e308, -1.0, -0.0, 5e-324, -5e-324]
    odd.append(np.finfo(float).max)
    drawn = rng.choice([0.05, 0.2, 3.0, 365.0, 400.5, 2e6], n)
    times = np.concatenate([np.repeat(np.concatenate([*hard, odd]), 3), drawn])
    rows = np.arange(times.size)
    return pa.table(
        {
            "risk": pa.array(rng.random(rows.size), mask=rows % 17 == 3),
            "days": pa.array(times, mask=rows % 19 == 4),
            "died": pa.array(rng.integers(0, 4, rows.size), mask=rows % 23 == 5),
            "ward": pa.array(rng.choice(["a", "b", ""], rows.size)),
            "person": pa.array(rng.integers(-9, 40, rows.size), mask=rows % 31 == 3),
        }
    )


def followed_options(statistic):
    causes = getattr(statistic, "causes", 1)
    group = "ward" if statistic.told_apart else None
    names = {"time": "days", "event": "died", "score": "risk"}
    return {**names, "causes": causes, "group": group}


def hard_rows(statistic, rng, n):
    """Every edge and both its neighbours, NaN, NULL, infinities and far scores."""
    (edges,) = statistic.binnings
    low, high = (-9.0, 9.0) if edges.scores == LOGIT else edges.array[[0, -1]]
    near = np.concatenate([edges.array, [0.0, -0.0, low, high, 5e-324, 0.1, 1 / 3]])
    hard = [np.nextafter(near, -np.inf), near, np.nextafter(near, np.inf)]
    odd = [np.nan, np.inf, -np.inf, 1e308, -1e308, 7.25, -7.25]
    drawn = rng.uniform(low, high, n)
    scores = np.concatenate([*hard, np.repeat(odd, 3), drawn, np.round(drawn[:99], 2)])
    rows = scores.size
    labels = rng.integers(0, 2, rows)
    groups = rng.choice(["a", "b'\"; --", "c", ""], rows)
    nulls = np.arange(rows) % 17 == 3
    return pa.table(
        {
            "y_score": pa.array(scores, mask=nulls),
            "y_true": pa.array(labels, mask=np.arange(rows) % 23 == 5),
            "ward": pa.array(groups, mask=np.arange(rows) % 29 == 7),
        }
    )


def options(statistic):
    scores = statistic.binnings[0].scores
    limits = {"low": scores.low, "high": scores.high} if scores == ODD else {}
    return {"kind": scores.kind, "group": "ward", **limits}


def outcomes(site, statistic):
    """Counts under the rule for rows that do not fit, and what was set aside."""
    fitted = site.fitted()
    found = statistic.count(fitted).tolist(), fitted.set_aside, len(fitted)
    every = site.fitted(every_row=True)
    return *found, statistic.count(every).tolist()


def refusal(site, statistic):
    try:
        return statistic.count(site).tolist()
    except discreet.InputError as error:
        return str(error).removeprefix("rows: ")


LABELS = {
    "booleans": (pa.array([True, False, None, True] * 5), {}),
    "whole": (pa.array([1, 0, None, 2] * 5), {}),
    "floats": (pa.array([1.0, 0.0, float("nan"), 0.5] * 5), {}),
    "text": (pa.array(["sick", "Sick", None, "well"] * 5), {"positive": "sick"}),
    "text for numbers": (pa.array([3, 0, None, 7] * 5), {"positive": "3"}),
    "text for booleans": (
        pa.array([True, False, None, True] * 5),
        {"positive": "false"},
    ),
    "accents": (pa.array(["é", "e\u0301", "E", ""] * 5), {"positive": "é"}),
}
"""Labels of every kind; equal letters that are other bytes are other labels."""


def labelled(kind):
    column, given = LABELS[kind]
    scores = list(itertools.islice(itertools.cycle([0.1, 0.4, 0.9]), len(column)))
    return pa.table({"y_score": scores, "y_true": column}), given


def rows_of_people(rng, n=600):
    """Several rows a person, with ties, rows that do not fit, and rows of nobody."""
    scores = rng.choice([0.0, 0.25, 0.3, 1.0, -2.0, 7.0, np.nan, 0.77], n)
    rows = np.arange(n)
    return pa.table(
        {
            "y_score": pa.array(scores, mask=rows % 13 == 1),
            "y_true": pa.array(rng.integers(0, 3, n), mask=rows % 19 == 2),
            "person": pa.array(rng.integers(-9, 40, n), mask=rows % 31 == 3),
        }
    )


def bounded_outcomes(table, statistic, **options):
    """What counts under the units subject and client, and what was set aside."""
    found = []
    for unit in (
        Unit("subject", "add_remove", max_examples=3),
        Unit("client", "add_remove", max_examples=50),
    ):
        fitted = discreet.read(table, subject="person", **options).fitted()
        kept = bounded(fitted, unit)
        counts = statistic.count(kept).tolist()
        found.append((counts, fitted.set_aside + kept.set_aside))
    return found
