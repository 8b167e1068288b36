r"""Which label mechanism gives curves, and in how many bins: the least error.

With n examples of the rarer class, B bins and V the sum of the bins' noise
variances, the area between the estimated and the true ROC curve is about

.. math::
    \sqrt{\left(.43\,\frac{\sqrt V}{n}\right)^2 + \left(\frac{.31}{\sqrt{nB}}\right)^2
    + \left(\frac{.08}{B^2}\right)^2}

The first term is the noise of the cumulative counts. The others are what bins hide:
the random walk of a sample inside them, and the bend of the curve. With
:math:`c = e^\varepsilon/(e^\varepsilon-1)^2`, randomized response has
:math:`V = c M` whatever the bins, and binned positives have 2c for each pair of a
site and a bin with two examples or more and c for each with one. The constants were
measured on binormal scores (``bench/label_curves.py``); the choice depends on their
ratios alone. Every input is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from discreet.data.edges import EdgeRule, Edges
from discreet.label.public_scores import PublicScores
from discreet.label.released_sums import response_variance

CountMechanism: TypeAlias = Literal["response", "binned"]
BINS: Final = (16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024)
"""Numbers of bins that errors are predicted for."""
FEWEST_OF_FLIPS: Final = 64
"""Flipped labels have the same noise in any bins: these cost nothing."""
_CLOSE: Final = 1.01
"""More bins of flipped labels must gain more than this."""
_WORTH: Final = 1.05
"""What is charged for each model must gain more than this."""
PREVALENCE: Final = 0.25
"""The share of the rarer class when nothing public says it."""
_NOISE, _WALK, _BEND = 0.43, 0.31, 0.08


@dataclass(frozen=True, slots=True)
class Predicted:
    """A way to release the labels, and the error of the ROC curve it would have."""

    mechanism: CountMechanism
    rule: EdgeRule
    error: float


def area_error_of(variance: float, edges: Edges, minority: float) -> float:
    """Return the predicted area between the estimated and the true ROC curve."""
    noise = _NOISE * math.sqrt(variance) / minority
    if edges.atoms:
        return noise
    walk = _WALK / math.sqrt(minority * len(edges))
    return math.hypot(noise, walk, _BEND / len(edges) ** 2)


def predict_response(
    public: PublicScores, epsilon: float, *, prevalence: float | None = None
) -> Predicted:
    """Predict randomized response, in as few bins as lose hardly anything.

    Finer bins would not be noisier together, but each would hold nothing but noise:
    slopes, bands and calibration are read better from fewer.
    """
    minority = _minority(public, prevalence)
    variance = response_variance(epsilon) * public.examples
    found = []
    for bins in BINS:
        if bins < FEWEST_OF_FLIPS:
            continue
        rule = public.rule(bins)
        edges = Edges.realise(rule, public.range)
        error = area_error_of(variance, edges, minority)
        found.append(Predicted("response", rule, error))
        if edges.atoms:
            break
    least = min(p.error for p in found)
    return next(p for p in found if p.error <= _CLOSE * least)


def predict_binned(
    public: PublicScores, epsilon: float, *, prevalence: float | None = None
) -> Predicted:
    """Predict binned positives with the best number of bins."""
    minority = _minority(public, prevalence)
    found = []
    for bins in BINS:
        rule = public.rule(bins)
        edges = Edges.realise(rule, public.range)
        lone, crowded = public.occupied(edges)
        variance = response_variance(epsilon) * (lone + 2 * crowded)
        found.append(
            Predicted("binned", rule, area_error_of(variance, edges, minority))
        )
        if edges.atoms:  # more bins are the same bins
            break
    return min(found, key=lambda p: p.error)


def predict_best(
    public: PublicScores, epsilon: float, *, prevalence: float | None = None
) -> Predicted:
    """Return the better of both; flips, which can be reused, where it hardly matters."""
    response = predict_response(public, epsilon, prevalence=prevalence)
    binned = predict_binned(public, epsilon, prevalence=prevalence)
    return binned if _WORTH * binned.error < response.error else response


def _minority(public: PublicScores, prevalence: float | None) -> float:
    share = PREVALENCE if prevalence is None else min(prevalence, 1 - prevalence)
    return max(share * public.examples, 1.0)
