"""The paper's method and ours on one scored set, and the area errors of both."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges, Warped
from discreet.data.examples import Examples
from discreet.errors import ReleaseError
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Curve
from discreet.estimate.fit import Estimator, Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.curve_points import drawn_points
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.plan.bins import bins_under_noise
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.statistic.hierarchy import NoisyTree
from discreet.statistic.observed import NoisyHistogram
from papers.data import Scored

QUANTILES: Final = (16, 32, 64, 128, 256, 512, 1024)
CURVES: Final = ("ROC", "PR")
_PIECES: Final = 12
"""Straight pieces a segment: the area errors move by less than 1e-6."""
WORTHLESS: Final = np.array([0.5, 0.5])
"""What a refused release scores: the error of a coin's curve, about."""


@cache
def tree_counts(data: Scored, method: FedCurve) -> FloatVector:
    """Count the method's tree once for each set and height."""
    return _counts(data, method.branching, method.height)


@cache
def _counts(data: Scored, branching: int, height: int) -> FloatVector:
    tree = FedCurve(quantiles=2 ** (height - 2), branching=branching).hierarchy()
    return tree.count(Examples(data.scores, data.labels)).astype(np.float64)


def simulate_tree(
    data: Scored, method: FedCurve, epsilon: float | None, rng: np.random.Generator
) -> NoisyTree:
    """Release the method's tree: eps/h a level, or exact sums for None."""
    exact = tree_counts(data, method)
    if epsilon is None:
        return NoisyTree.from_release(method.hierarchy(), exact, variance=0.0)
    noise = LaplaceNoise(method.height / epsilon)
    noisy = exact + simulate_discrete_laplace(noise.scale, exact.shape, rng)
    return NoisyTree.from_release(method.hierarchy(), noisy, variance=noise.variance)


def errors(data: Scored, roc: Curve, pr: Curve) -> FloatVector:
    """Return the area errors of both curves (definition 4.1)."""
    return np.array(
        [
            area_error(data.roc, roc.polyline(_PIECES)),
            area_error(data.pr, pr.polyline(_PIECES)),
        ]
    )


def paper_errors(data: Scored, method: FedCurve, tree: NoisyTree) -> FloatVector:
    """Return the area errors of the paper's curves from a released tree."""
    try:
        curves = method.curves(tree)
    except ReleaseError:
        return WORTHLESS
    return errors(data, curves.roc, curves.pr)


@cache
def exact_errors(data: Scored, method: FedCurve) -> FloatVector:
    """Return the area errors with exact quantiles (EQ)."""
    curves = method.exact_curves(data.negatives, data.positives)
    return errors(data, curves.roc, curves.pr)


@cache
def summed_errors(data: Scored, method: FedCurve) -> FloatVector:
    """Return the area errors under secure aggregation (SA): nothing random."""
    tree = simulate_tree(data, method, None, np.random.default_rng(0))
    return paper_errors(data, method, tree)


@cache
def _edges(bins: int) -> Edges:
    return Edges.realise(Warped(bins))


@cache
def _cells(data: Scored, bins: int) -> FloatVector:
    return data.cells(_edges(bins)).astype(np.float64)


@cache
def our_exact_errors(data: Scored, bins: int) -> FloatVector:
    """Return the area errors of exact sums over as many warped bins, with PCHIP."""
    edges = _edges(bins)
    negatives, positives = np.split(_cells(data, bins), 2)
    observed = NoisyHistogram(edges, negatives, positives, NoNoise())
    return errors(data, *drawn_points(Flat("pchip").fit(observed)))


def our_bins(data: Scored, epsilon: float) -> int:
    """Return the bins that a plan takes when the minority count is known roughly."""
    minority = min(data.positives.size, data.negatives.size)
    return bins_under_noise(10.0 ** round(np.log10(minority)), epsilon)


def our_errors(
    data: Scored,
    epsilon: float,
    rng: np.random.Generator,
    estimator: Estimator | None = None,
) -> FloatVector:
    """Release one flat histogram with the whole eps and return its area errors."""
    bins = our_bins(data, epsilon)
    noise = simulate_discrete_laplace(1 / epsilon, (2 * bins,), rng)
    negatives, positives = np.split(_cells(data, bins) + noise, 2)
    distribution = LaplaceNoise(1 / epsilon)
    observed = NoisyHistogram(_edges(bins), negatives, positives, distribution)
    if observed.missing_class is not None:
        return WORTHLESS
    fit = (estimator or Smooth()).fit(observed)
    if fit.refusal is not None:
        return WORTHLESS
    return errors(data, *drawn_points(fit))
