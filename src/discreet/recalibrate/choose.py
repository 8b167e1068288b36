r"""Which map, by a rule that reads the release and nothing else.

A map q of rates r with covariance C has the expected squared distance from the
true rates (Stein's unbiased estimate; weights w are shares of examples)

.. math::
    R = \sum_b w_b \left[(q_b - r_b)^2 - C_{bb} + 2\,(H C)_{bb}\right],
    \qquad H = \partial q/\partial r,

and scores as they are have H = 0. C holds sampling and noise, so R says whether a
map is worth its own error.

1. No class, or fewer examples than their noise: the identity.
2. *Levels*, if on their own runs the scores' shift,
   :math:`\sum w\,(r - s)^2`, exceeds its own error, :math:`\sum w\,C`, by a quarter
   (as root mean squares): it holds that error itself. Decoded arcs are smooth: the
   scatter of the sample is not in them, so there the error is that of the noise
   alone, and it is enough to reach it. Levels are steps, and too few steps forget
   what the scores knew: they must keep 97% of the scores' variance.
3. Otherwise the least R of Platt's map and beta calibration, if it is below the
   identity's by more than 4 times the map's own squared error
   :math:`\sum w\,(H C H^T)`; else the identity. The best of several looks better than
   it is, and with a factor of 1 the default was harmful for 500 examples.

The constants were set on the adult and bank score sets of ``bench/calibration.py``
(``docs/calibration.md`` says how).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError
from discreet.estimate.slopes import covariance_of
from discreet.noise.arc_decoder import DecodedNoise
from discreet.recalibrate.logistic_map import fit_beta, fit_platt
from discreet.recalibrate.maps import CalibrationMap, Identity
from discreet.recalibrate.rates import Rates
from discreet.recalibrate.stepwise import (
    fit_bbq,
    fit_binning,
    fit_isotonic,
    fit_levels,
    levels,
    steps_of,
)
from discreet.statistic.observed import NoisyHistogram

KEPT_VARIANCE: Final = 0.97
"""Share of the scores' variance that a map in steps must keep."""
WORTH, WORTH_SMOOTH = 1.25, 1.0
"""Errors that a shift must exceed to be worth a map in levels."""
MARGIN: Final = 4.0
"""A curve must gain this many times its own squared error."""
SURE: Final = 4.0
"""A class total below this many standard deviations of its noise is no total."""


def fit(
    observed: NoisyHistogram, counts: NoisyHistogram, *, method: str = "auto"
) -> CalibrationMap:
    """Fit a calibration map to a release.

    ``observed`` is the release, ``counts`` what an estimator reads it as
    (``estimator.counts(observed)``). It looks at no example and costs no privacy.
    """
    if observed.negatives.shape != counts.negatives.shape:
        raise InputError(
            f"the release has {observed.negatives.size} bins, the counts "
            f"{counts.negatives.size}: they belong to different evaluations"
        )
    if method == "auto":
        return choose(observed, counts)
    if method not in _FITTED:
        raise InputError(
            f"a calibration map is one of auto, {', '.join(_FITTED)}, not this name"
        )
    return _FITTED[method](observed, counts)


_FITTED: Final[
    Mapping[str, Callable[[NoisyHistogram, NoisyHistogram], CalibrationMap]]
] = {
    "binning": lambda _, counts: fit_binning(counts),
    "bbq": lambda observed, _: fit_bbq(observed),
    "isotonic": fit_isotonic,
    "levels": fit_levels,
    "platt": lambda _, counts: fit_platt(counts).curve,
    "beta": lambda _, counts: fit_beta(counts).curve,
    "identity": lambda _, counts: Identity(scores=counts.edges.scores),
}
METHODS: Final = ("auto", *_FITTED)


def choose(observed: NoisyHistogram, counts: NoisyHistogram) -> CalibrationMap:
    """Choose the map by the written rule, with the reason."""
    scores = counts.edges.scores
    refusal = _too_little(observed)
    if refusal is not None:
        return Identity(f"no map can be fitted: {refusal}", scores)
    rates = Rates.of(observed, counts)
    pooled = levels(rates)
    smooth = isinstance(observed.noise, DecodedNoise)
    shift, error = _shift(pooled, smooth=smooth)
    worth = WORTH_SMOOTH if smooth else WORTH
    kept = _kept_variance(rates, pooled)
    if kept >= KEPT_VARIANCE and shift >= worth * error:
        reason = (
            f"the scores are off by {shift:.4f} with an error of {error:.4f}, and "
            f"{pooled.starts.size} levels can be told apart"
        )
        return replace(steps_of(rates, counts), reason=reason)
    none = risk(rates, rates.scores, np.zeros_like(rates.covariance))
    found = []
    for curve in (fit_platt(counts), fit_beta(counts)):
        values, slopes = curve.on(rates)
        own = float(rates.shares @ ((slopes @ rates.covariance) * slopes).sum(axis=1))
        found.append((risk(rates, values, slopes), own, curve))
    least_risk, own, chosen = min(found, key=lambda each: each[0])
    if least_risk + MARGIN * own >= none:
        reason = (
            f"every map would be worse than none: the scores are off by {shift:.4f}, "
            f"and sampling and noise move a map by {error:.4f}"
        )
        return Identity(reason, scores)
    why = (
        f"{pooled.starts.size} levels would keep only {kept:.1%} of the variance"
        if kept < KEPT_VARIANCE
        else f"levels would move by {error:.4f} for a shift of {shift:.4f}"
    )
    return replace(chosen.curve, reason=f"{why}, a curve gains")


def risk(rates: Rates, values: FloatVector, slopes: FloatArray) -> float:
    """Return Stein's estimate of a map's squared distance from the true rates."""
    c = rates.covariance
    own = (slopes * c.T).sum(axis=1)
    return float(rates.shares @ ((values - rates.values) ** 2 - np.diag(c) + 2 * own))


def _shift(rates: Rates, *, smooth: bool) -> tuple[float, float]:
    """Return how far the scores are off, and the error of that, root mean square."""
    off = float(rates.shares @ (rates.values - rates.scores) ** 2)
    error = float(
        rates.shares @ np.diag(rates.noise_part if smooth else rates.covariance)
    )
    return math.sqrt(off), math.sqrt(error)


def _kept_variance(rates: Rates, pooled: Rates) -> float:
    mean = float(rates.shares @ rates.scores)
    whole = float(rates.shares @ (rates.scores - mean) ** 2)
    between = float(pooled.shares @ (pooled.scores - mean) ** 2)
    return between / whole if whole > 0 else 1.0


def _too_little(observed: NoisyHistogram) -> str | None:
    if observed.refusal is not None:
        return observed.refusal
    if observed.missing_class is not None:
        return f"the pooled data hold no {observed.missing_class}"
    if observed.exact:
        return None
    bins = len(observed.edges)
    each = covariance_of(observed, np.repeat(np.eye(2), bins, axis=1))
    totals = (observed.total_negatives, observed.total_positives)
    for name, total, variance in zip(
        ("negatives", "positives"), totals, np.diag(each), strict=True
    ):
        sd = math.sqrt(max(float(variance), 0.0))
        if total < SURE * sd:
            return (
                f"the release counts {total:,.0f} {name} with a noise of {sd:,.0f}, and "
                f"a map needs {SURE:g} times the noise; use more data or a larger epsilon"
            )
    return None
