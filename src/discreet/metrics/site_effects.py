r"""One site's own effects: a value and its variance, from that site's exact counts.

On scales on which sites are near normal around their mean (Debray et al. 2017, Snell
et al. 2018): logits of areas and rates, the logarithm of observed over expected. Each
is computed inside a site's answer and shown to nobody; sites add up what
:mod:`discreet.statistic.effect_terms` makes of it.

Rates get half an example more of each kind, areas half a pair, so that a site whose
ranking is perfect has a logit too. What a site cannot estimate (one class only, too few
examples) is ``None``.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.logistic import fit_logistic, logit
from discreet.statistic.effect_terms import Defaults, Effect, SiteEffect
from discreet.statistic.protocol import BinCounts
from discreet.statistic.site_sums import auc_and_variance

_LEAST_SHARE: Final = 0.25
"""DeLong's variance of few examples can be none by chance: never less than this share
of the variance that the area and the sizes alone suggest."""


def _auc(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    r"""Return the logit of the area.

    The least variance is a share of Newcombe's (2006, method 4), as in ``metamisc``.
    Both the area and what it lacks to 1 get half a pair: a difference from 1 would round
    to 0 where a large site's ranking is perfect.
    """
    del edges, at
    n, p = float(counts.negatives.sum()), float(counts.positives.sum())
    area, variance = auc_and_variance(counts)
    area = min(max(area, 0.0), 1.0)
    a = (area * n * p + 0.5) / (n * p + 1.0)
    b = ((1.0 - area) * n * p + 0.5) / (n * p + 1.0)
    half = (n + p) / 2 - 1
    usual = a * b * (1 + half * (b / (1 + b) + a / (1 + a))) / (n * p)
    spread = max(variance, _LEAST_SHARE * usual)
    return Effect(math.log(a / b), spread / (a * b) ** 2)


def _log_oe(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    """Return the log of observed over expected positives; Debray et al. (2017)."""
    del at
    predicted = cell_scores(edges).mean(axis=1)
    total = counts.negatives + counts.positives
    observed, expected = float(counts.positives.sum()), float(total @ predicted)
    ratio = observed / max(expected, 1e-9)
    return Effect(math.log(ratio), (1 - observed / float(total.sum())) / observed)


def _slope(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    """Return the slope of Cox's line of calibration."""
    del at
    z = logit(cell_scores(edges).mean(axis=1))
    features = np.stack([np.ones_like(z), z])
    try:
        fit = fit_logistic(
            features, counts.negatives, counts.positives, start=np.array([0.0, 1.0])
        )
    except np.linalg.LinAlgError:  # all scores alike: no line, and no refusal either
        return Effect(math.nan, math.nan)
    return Effect(float(fit.coefficients[1]), float(fit.spread[1, 1]))


def _in_the_large(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    """Return the intercept with the slope held at 1."""
    del at
    z = logit(cell_scores(edges).mean(axis=1))
    fit = fit_logistic(
        np.ones((1, z.size)),
        counts.negatives,
        counts.positives,
        start=np.zeros(1),
        offset=z,
    )
    return Effect(float(fit.coefficients[0]), float(fit.spread[0, 0]))


def _above(edges: Edges, counts: FloatVector, at: float | None) -> float:
    """Count the examples at or above a threshold, which is an edge."""
    place = int(np.searchsorted(edges.array, 0.0 if at is None else at))
    return float(counts[place:].sum())


def _rate(hits: float, misses: float) -> Effect:
    hits, misses = hits + 0.5, misses + 0.5
    return Effect(math.log(hits / misses), 1 / hits + 1 / misses)


def _recall(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    hits = _above(edges, counts.positives, at)
    return _rate(hits, float(counts.positives.sum()) - hits)


def _specificity(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    false = _above(edges, counts.negatives, at)
    return _rate(float(counts.negatives.sum()) - false, false)


def _net_benefit(edges: Edges, counts: BinCounts, at: float | None) -> Effect:
    """Return true positives less false ones at the threshold's odds, an example."""
    threshold = 0.5 if at is None else at
    low = edges.scores.low
    unit = (threshold - low) / (edges.scores.high - low)
    odds = (
        math.exp(threshold)
        if edges.scores.kind == "logit"
        else unit / max(1 - unit, 1e-9)
    )
    total = float(counts.negatives.sum() + counts.positives.sum())
    true = _above(edges, counts.positives, at) / total
    false = _above(edges, counts.negatives, at) / total
    value = true - odds * false
    spread = true + odds**2 * false - value**2
    return Effect(value, max(spread, 1 / total) / total)


# Ranges of exact sums leave an error of rounding below a hundredth of what is usual between
# twelve sites (a fiftieth for net benefit). Anchors are about what is usual: for logit areas .1, as an AUC of .8 that differs by .05
# between sites (.055 over 1,603 validations, arXiv 2406.08628).
# fmt: off
AUC: Final = SiteEffect("auc", "AUC", "logit", _auc,
    Defaults(-1, 5, 1e-4, 0.1, (0, 2.8), 0.1))
LOG_OE: Final = SiteEffect("log_oe", "O:E", "log", _log_oe,
    Defaults(-3, 3, 1e-4, 0.1, (-1.5, 1.5), 0.2), needs_probabilities=True)
SLOPE: Final = SiteEffect("calibration_slope", "calibration slope", "identity", _slope,
    Defaults(-1, 3, 1e-4, 0.02, (0, 2), 0.04), needs_probabilities=True)
IN_THE_LARGE: Final = SiteEffect(
    "calibration_intercept", "calibration intercept", "identity", _in_the_large,
    Defaults(-4, 4, 1e-4, 0.1, (-2, 2), 0.2), needs_probabilities=True)
RECALL: Final = SiteEffect("recall", "recall", "logit", _recall,
    Defaults(-5, 6, 1e-4, 0.1, (-2, 3), 0.3), at=True)
SPECIFICITY: Final = SiteEffect("specificity", "specificity", "logit", _specificity,
    Defaults(-5, 6, 1e-4, 0.1, (-2, 4), 0.3), at=True)
NET_BENEFIT: Final = SiteEffect("net_benefit", "net benefit", "identity", _net_benefit,
    Defaults(-0.3, 0.7, 1e-8, 5e-4, (-0.1, 0.5), 1e-3),
    needs_probabilities=True, at=True)
# fmt: on
