"""The paper's method and ours on one scored set, and the area errors of both."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import Edges
from discreet.data.examples import Examples
from discreet.errors import ReleaseError
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Curve
from discreet.estimate.fit import Estimator, Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.curve_points import drawn_points
from discreet.models.distributed import DistributedDP
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.statistic.hierarchy import NoisyTree
from discreet.statistic.observed import NoisyHistogram
from papers.data import Scored

QUANTILES: Final = (16, 32, 64, 128, 256, 512, 1024)
CURVES: Final = ("ROC", "PR")
_PIECES: Final = 12
"""Straight pieces a segment: the area errors move by less than 1e-6."""
SENT: Final = 8
"""Bytes of a count as a site sends it: 64-bit integers."""
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


def rough_facts(data: Scored) -> PublicFacts:
    """Return what a plan is told of a set: rows and prevalence to one digit."""
    rows, rate = data.labels.size, float(data.labels.mean())
    return PublicFacts(int(float(f"{rows:.1g}")), float(f"{rate:.1g}"))


def our_edges(data: Scored, epsilon: float) -> Edges:
    """Return the bins of the plan for distributed noise."""
    return planned_edges(rough_facts(data), DistributedDP(f"{epsilon:g}"))


@cache
def planned_edges(facts: PublicFacts, privacy: PrivacyModel) -> Edges:
    """Return the bins of the plan that is recommended for public facts."""
    (edges,) = recommend(facts, privacy).statistic.binnings
    return edges


@cache
def _spread(bins: int, facts: PublicFacts) -> Edges:
    return Edges.realise(spread_over(bins, facts))


@cache
def _cells(data: Scored, edges: Edges) -> FloatVector:
    return data.cells(edges).astype(np.float64)


@cache
def our_exact_errors(data: Scored, bins: int) -> FloatVector:
    """Return the area errors of exact sums over as many bins, spread as a plan does."""
    edges = _spread(bins, rough_facts(data))
    negatives, positives = np.split(_cells(data, edges), 2)
    observed = NoisyHistogram(edges, negatives, positives, NoNoise())
    return errors(data, *drawn_points(Flat("pchip").fit(observed)))


def our_errors(
    data: Scored,
    epsilon: float,
    rng: np.random.Generator,
    estimator: Estimator | None = None,
) -> FloatVector:
    """Release one flat histogram with the whole eps and return its area errors."""
    edges = our_edges(data, epsilon)
    cells = _cells(data, edges)
    noise = simulate_discrete_laplace(1 / epsilon, cells.shape, rng)
    negatives, positives = np.split(cells + noise, 2)
    distribution = LaplaceNoise(1 / epsilon)
    observed = NoisyHistogram(edges, negatives, positives, distribution)
    if observed.missing_class is not None:
        return WORTHLESS
    fit = (estimator or Smooth()).fit(observed)
    if fit.refusal is not None:
        return WORTHLESS
    return errors(data, *drawn_points(fit))
