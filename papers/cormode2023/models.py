"""Releases under the paper's three privacy models, the paper's way and ours."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges, Uniform
from discreet.errors import PlanError
from discreet.estimate.fit import Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measures
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.noise.unary import UnaryEncoding, simulate_unary
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy.loss import PureDP
from discreet.statistic import ClassHistogram
from discreet.statistic.hierarchy import NoisyTree, merged_levels
from discreet.statistic.observed import NoisyHistogram
from papers.data import Scored

Trust: TypeAlias = Literal["Federated", "DistDP", "LocalDP"]
TRUSTS: Final[tuple[Trust, ...]] = get_args(Trust)
DIST_EPSILON: Final = 1.0
LOCAL_EPSILON: Final = Fraction(5)
_OURS: Final[dict[Trust, PrivacyModel]] = {
    "Federated": SecureAggregation(),
    "DistDP": DistributedDP(epsilon=1),
    "LocalDP": LocalDP(epsilon=5),
}


@cache
def leaf_edges(height: int) -> Edges:
    """Return the equal-width leaves of a binary tree over 0 .. 1."""
    return Edges.realise(Uniform(2**height))


def simulate_local_cells(
    counts: IntVector, rng: np.random.Generator, epsilon: Fraction = LOCAL_EPSILON
) -> tuple[FloatVector, float]:
    """Return decoded unary counts of one-example clients, and an empty cell's variance."""
    encoding = UnaryEncoding(PureDP(epsilon))
    clients = int(counts.sum())
    q = encoding.other_probability
    totals = simulate_unary(counts, clients, q, 1, rng)[0]
    found = encoding.decode(totals.astype(np.int64), clients)
    return found, clients * q * (1 - q) / (0.5 - q) ** 2


def simulate_tree(
    data: Scored, trust: Trust, height: int, rng: np.random.Generator
) -> NoisyTree:
    """Release a binary tree (section 2.3): exact, eps/h a level, or clients split."""
    edges = leaf_edges(height)
    leaves = data.cells(edges)
    if trust == "LocalDP":
        return _split(leaves, edges, height, rng)
    scale = height / DIST_EPSILON
    classes: list[list[FloatVector]] = []
    for half in np.split(leaves.astype(np.float64), 2):
        levels = merged_levels(half, 2, height)
        if trust == "DistDP":
            levels = [
                level + simulate_discrete_laplace(scale, level.shape, rng)
                for level in levels
            ]
        classes.append(levels)
    variance = LaplaceNoise(scale).variance if trust == "DistDP" else 0.0
    return NoisyTree(edges, tuple(classes[0]), tuple(classes[1]), (variance,) * height)


def _split(
    leaves: IntVector, edges: Edges, height: int, rng: np.random.Generator
) -> NoisyTree:
    """Let each client speak once, at one level, with the whole epsilon."""
    rest, everyone = leaves, int(leaves.sum())
    negatives, positives, variances = [], [], []
    for level in range(1, height + 1):
        share = everyone // height if level < height else int(rest.sum())
        group = rng.multivariate_hypergeometric(rest, share, method="marginals")
        rest = rest - group
        nodes = group.reshape(2 * 2**level, -1).sum(axis=1)
        found, variance = simulate_local_cells(nodes, rng)
        factor = everyone / share
        half = found.size // 2
        negatives.append(found[:half] * factor)
        positives.append(found[half:] * factor)
        variances.append(variance * factor**2)
    return NoisyTree(edges, tuple(negatives), tuple(positives), tuple(variances))


def leaves_of(tree: NoisyTree) -> NoisyHistogram:
    """Return the consistent leaves as a histogram without counts below zero."""
    found = tree.consistent
    noise = LaplaceNoise(1.0) if tree.variances[0] else NoNoise()
    return NoisyHistogram(
        found.edges, found.negatives[-1], found.positives[-1], noise
    ).projected()


@cache
def _our_edges(
    trust: Trust, rows: int, rate: float, thresholds: tuple[float, ...]
) -> Edges:
    facts = PublicFacts(examples=rows, prevalence=rate)
    plan = recommend(facts, _OURS[trust], thresholds=thresholds or (0.5,))
    if not isinstance(plan.statistic, ClassHistogram):
        raise PlanError("these plans count a class histogram")
    return plan.statistic.edges


def simulate_ours(
    data: Scored,
    trust: Trust,
    rng: np.random.Generator,
    thresholds: tuple[float, ...] = (),
) -> tuple[NoisyHistogram, NoisyHistogram]:
    """Release what our plan does from rough public facts; and how it is read.

    One flat histogram: exact, with the whole eps on each class, or through
    the arc randomiser with one symbol a client.
    """
    rate = round(float(data.labels.mean()), 2)
    edges = _our_edges(trust, data.labels.size, rate, thresholds)
    cells = data.cells(edges)
    match trust:
        case "Federated":
            negatives, positives = np.split(cells.astype(np.float64), 2)
            exact = NoisyHistogram(edges, negatives, positives, NoNoise())
            return exact, exact
        case "DistDP":
            scale = 1 / DIST_EPSILON
            noisy = cells + simulate_discrete_laplace(scale, cells.shape, rng)
            negatives, positives = np.split(noisy, 2)
            found = NoisyHistogram(edges, negatives, positives, LaplaceNoise(scale))
            return found, Smooth().fit(found).counts
        case "LocalDP":
            arc = CircularArc(LOCAL_EPSILON, edges)
            decoded = decode(simulate_arc_counts(arc, cells, rng), arc)
            found = ClassHistogram(edges).parts(decoded.counts, decoded.noise)[""]
            return found, Flat().fit(found).counts


def our_auc(trust: Trust, observed: NoisyHistogram) -> float:
    """Return the AUC that our evaluation would report."""
    estimator = Smooth() if trust == "DistDP" else Flat("pchip")
    return measures(estimator.fit(observed), ("auc",))["auc"].value


def rates(tp: FloatVector, fp: FloatVector, p: float, n: float) -> FloatArray:
    """Return precision, recall and accuracy from counts above thresholds, cut to 0..1."""
    predicted = tp + fp
    precision = np.divide(tp, predicted, out=np.ones_like(tp), where=predicted > 0)
    found = np.array([precision, tp / p, (tp + n - fp) / (p + n)])
    rates: FloatArray = np.clip(found, 0.0, 1.0)
    return rates
