"""The methods that are compared: what each releases, to whom, in how many bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from scipy.stats import rankdata

from discreet.arrays import FloatVector
from discreet.data.edges import Edges, Uniform
from discreet.estimate.areas import trapezoid_area
from discreet.estimate.curves import Curve, Polyline
from discreet.estimate.fit import Estimator, Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.curve_points import drawn_points
from discreet.metrics.errors import measures
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.published.boyd2015 import binormal_tpr
from discreet.published.cormode2023 import EquiDepth
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from papers.boyd2015.pool import simulate_ours, simulate_paper
from papers.cormode2023.models import simulate_tree as simulate_binary_tree
from papers.data import Scored
from papers.index.federation import Federation
from papers.xu2025.curves import SENT, our_edges, planned_edges, rough_facts
from papers.xu2025.curves import simulate_tree as simulate_fedcurve_tree

EPSILON: Final = 1
COUNT: Final = 4
"""Bytes of a count in the papers and today; a site of ours sends 8."""
NUMBER: Final = 8
"""Bytes of a real number."""
_HEIGHT: Final = 10
_METHOD: Final = FedCurve(quantiles=128)
_GRID: Final = np.linspace(0.0, 1.0, 201)
_THRESHOLDS: Final = 200


class Found(NamedTuple):
    """An AUC, and a ROC curve where the method has one."""

    auc: float
    roc: Curve | None


@dataclass(frozen=True, eq=False)
class Contender:
    """One way to get the pooled AUC."""

    name: str
    source: str
    """The paper, ``today`` or ``discreet``."""
    loss: str
    trust: str
    size: Callable[[Federation], int]
    """Bytes from each site."""
    simulate: Callable[[Federation, np.random.Generator], Found]


def averaged_auc(of: Federation, rng: np.random.Generator) -> Found:
    """Average the local AUCs."""
    del rng
    return Found(float(np.mean([s.auc for s in of.with_both_classes])), None)


def averaged_curves(of: Federation, rng: np.random.Generator) -> Found:
    """Average the local curves."""
    del rng
    line = of.averaged_curve
    return Found(trapezoid_area(line.x, line.y), line)


def binned(of: Federation, rng: np.random.Generator) -> Found:
    """Add up confusion counts at 200 even thresholds, as metric libraries do."""
    del rng
    return _flat(of, Edges.realise(Uniform(_THRESHOLDS)), Flat("linear"))


def averaged_private_auc(of: Federation, rng: np.random.Generator) -> Found:
    """Average local AUCs that each site releases as Boyd (2015) does."""
    found = [_private_auc(site, rng, papers=True) for site in of.with_both_classes]
    return Found(float(np.mean(found)), None)


def curator(of: Federation, rng: np.random.Generator, *, papers: bool) -> Found:
    """Pool everything at a curator, who releases one AUC and its binormal curve."""
    value = _private_auc(of.pooled, rng, papers=papers)
    return Found(value, Polyline(_GRID, binormal_tpr(value, _GRID)))


def _private_auc(data: Scored, rng: np.random.Generator, *, papers: bool) -> float:
    counts = (data.positives.size, data.negatives.size)
    if papers:
        drawn = simulate_paper(
            data.auc, "AUC", counts, epsilon="1", delta="0.01", draws=1, rng=rng
        )
    else:
        drawn = simulate_ours(data.auc, "AUC", counts, epsilon="1", draws=1, rng=rng)
    return float(drawn[0])


def label_response(of: Federation, rng: np.random.Generator) -> Found:
    r"""Flip labels with probability 1/(1 + e^eps), scores public (Sun 2022).

    Debiased labels :math:`(y' - \rho)/(1 - 2\rho)` in the rank sum.
    """
    data, rho = of.pooled, 1 / (1 + math.exp(EPSILON))
    flipped = rng.random(data.labels.size) < rho
    said = np.where(flipped, 1 - data.labels, data.labels)
    y = (said - rho) / (1 - 2 * rho)
    p = float(y.sum())
    ranks = rankdata(data.scores) - 1.0  # midranks from 0
    pairs = p * (data.labels.size - p)
    return Found(float((ranks @ y - p * (p - 1) / 2) / pairs), None)


def equi_depth(of: Federation, rng: np.random.Generator) -> Found:
    """Cut a noisy tree into 20 buckets (Cormode 2023)."""
    tree = simulate_binary_tree(of.pooled, "DistDP", _HEIGHT, rng)
    found = EquiDepth.from_tree(tree, 20)
    fpr, tpr = (
        np.append(0.0, np.cumsum(c[::-1])) / c.sum()
        for c in (found.negatives, found.positives)
    )
    rising = Polyline(np.maximum.accumulate(fpr), np.maximum.accumulate(tpr))
    return Found(found.auc, rising)


def quantiles(of: Federation, rng: np.random.Generator) -> Found:
    """Read quantiles off a noisy tree (Xu 2025)."""
    tree = simulate_fedcurve_tree(of.pooled, _METHOD, float(EPSILON), rng)
    curves = _METHOD.curves(tree)
    return Found(curves.auc, curves.roc)


def exact_sums(of: Federation, rng: np.random.Generator) -> Found:
    """Add up exact counts of the recommended bins."""
    del rng
    return _flat(of, exact_edges(of), Flat())


def exact_edges(of: Federation) -> Edges:
    """Return the bins of the plan for exact sums."""
    return planned_edges(rough_facts(of.pooled), SecureAggregation())


def _flat(of: Federation, edges: Edges, estimator: Estimator) -> Found:
    cells = of.pooled.cells(edges).astype(np.float64)
    return _read(edges, cells, NoNoise(), estimator)


def distributed(of: Federation, rng: np.random.Generator) -> Found:
    """Add up counts of the recommended bins with distributed noise, the whole eps."""
    edges = our_edges(of.pooled, float(EPSILON))
    cells = of.pooled.cells(edges)
    noisy = cells + simulate_discrete_laplace(1 / EPSILON, cells.shape, rng)
    return _read(edges, noisy, LaplaceNoise(1 / EPSILON), Smooth())


def local(of: Federation, rng: np.random.Generator) -> Found:
    """Let every example's symbol be randomised on its own."""
    edges = planned_edges(rough_facts(of.pooled), LocalDP(EPSILON))
    arc = CircularArc(Fraction(EPSILON), edges)
    decoded = decode(simulate_arc_counts(arc, of.pooled.cells(edges), rng), arc)
    return _read(edges, decoded.counts, decoded.noise, Flat())


def _read(
    edges: Edges, cells: FloatVector, noise: NoiseDistribution, estimator: Estimator
) -> Found:
    negatives, positives = np.split(cells, 2)
    observed = NoisyHistogram(edges, negatives, positives, noise)
    fit = estimator.fit(observed)
    return Found(measures(fit, ("auc",))["auc"].value, drawn_points(fit)[0])


def _pooled_bytes(of: Federation) -> int:
    return of.rows_per_site * (NUMBER + 1)


_NOBODY: Final = "anybody may look"
_SUMS: Final = "only sums are revealed"
CONTENDERS: Final = (
    Contender(
        "averaged local AUCs", "today", "none", _NOBODY, lambda _: NUMBER, averaged_auc
    ),
    Contender(
        "averaged local curves",
        "today",
        "none",
        _NOBODY,
        lambda _: NUMBER * _GRID.size,
        averaged_curves,
    ),
    Contender(
        "200 even bins, added up",
        "today",
        "none",
        _NOBODY,
        lambda _: 2 * COUNT * _THRESHOLDS,
        binned,
    ),
    Contender(
        "averaged private local AUCs",
        "today",
        "(1, .01)-DP, row",
        "each site for itself",
        lambda _: NUMBER,
        averaged_private_auc,
    ),
    Contender(
        "trusted curator, Laplace on smooth sensitivity",
        "boyd2015",
        "(1, .01)-DP, row",
        "the curator sees all",
        _pooled_bytes,
        partial(curator, papers=True),
    ),
    Contender(
        "trusted curator, weighted count",
        "discreet",
        "1-DP, row",
        "the curator sees all",
        _pooled_bytes,
        partial(curator, papers=False),
    ),
    Contender(
        "randomized labels",
        "sun2022",
        "1-DP, label",
        "scores are public",
        lambda of: of.rows_per_site * NUMBER + of.rows_per_site // 8,
        label_response,
    ),
    Contender(
        "tree, 20 equi-depth buckets",
        "cormode2023",
        "1-DP, example",
        _SUMS,
        lambda _: 2 * COUNT * (2 ** (_HEIGHT + 1) - 2),
        equi_depth,
    ),
    Contender(
        "tree, 128 quantiles",
        "xu2025",
        "1-DP, example",
        _SUMS,
        lambda _: COUNT * _METHOD.hierarchy().size,
        quantiles,
    ),
    Contender(
        "flat histogram, distributed noise",
        "discreet",
        "1-DP, example",
        _SUMS,
        lambda of: 2 * SENT * len(our_edges(of.pooled, float(EPSILON))),
        distributed,
    ),
    Contender(
        "one symbol an example",
        "discreet",
        "1-DP, example replaced",
        "nobody is trusted",
        lambda of: of.rows_per_site,
        local,
    ),
    Contender(
        "flat histogram, exact sums",
        "discreet",
        "none on the sum",
        _SUMS,
        lambda of: 2 * SENT * len(exact_edges(of)),
        exact_sums,
    ),
)
