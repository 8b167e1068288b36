"""Samples of a scored set with chosen class counts, as the paper draws them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.curator.ranking import rank_arrays
from discreet.curator.release import AUC, Target, ap_target
from discreet.curator.smooth_noise import SmoothNoise, simulate_smooth, tuned
from discreet.curator.weighted_count import simulate_weighted_count
from discreet.published.boyd2015 import heavy_tailed, smooth_laplace
from papers.data import Scored

Metric: TypeAlias = Literal["AUC", "AP"]
METRICS: Final[tuple[Metric, ...]] = ("AUC", "AP")
SETS: Final = ("adult-lr", "diabetes")
"""The paper's two sets; diabetes is not public any more, and a stand-in is drawn."""
_OURS: Final = {"AUC": AUC, "AP": ap_target("exact")}
_PAPERS: Final = {"AUC": AUC, "AP": ap_target("equation-10")}


@dataclass(frozen=True, eq=False)
class Sample:
    """n positives and m negatives with both metrics."""

    positives: FloatVector
    negatives: FloatVector

    @classmethod
    def draw(cls, pool: Scored, n: int, m: int, rng: np.random.Generator) -> Sample:
        """Draw without replacement within each class, as far as it goes."""
        return cls(
            rng.choice(pool.positives, n, replace=n > pool.positives.size),
            rng.choice(pool.negatives, m, replace=m > pool.negatives.size),
        )

    def value(self, metric: Metric) -> float:
        """Return AUC or average precision."""
        scores = np.append(self.positives, self.negatives)
        positive = np.arange(scores.size) < self.positives.size
        found = rank_arrays(scores, positive, ties="scikit-learn")
        return float(found.auc) if metric == "AUC" else found.average_precision


def balanced_value(pool: Scored, metric: Metric) -> float:
    """Return the metric of the whole pool with both classes weighted equally."""
    if metric == "AUC":
        return pool.auc
    recall, fpr = pool.roc.y, pool.roc.x
    precision = recall[1:] / (recall[1:] + fpr[1:])
    return float(np.diff(recall) @ precision)


def paper_mechanism(epsilon: str, delta: str) -> SmoothNoise:
    """Return Cauchy noise at delta 0, Laplace noise otherwise (Theorem 2)."""
    if delta == "0":
        return heavy_tailed(Fraction(epsilon))
    return smooth_laplace(Fraction(epsilon), Fraction(delta))


@cache
def _smooth(
    metric: Metric,
    mechanism: SmoothNoise,
    n: int,
    m: int,
    ours: bool,
) -> float:
    target: Target = (_OURS if ours else _PAPERS)[metric]
    return target.smooth(n, m, mechanism.beta)


@cache
def _power(metric: Metric, epsilon: str, n: int, m: int) -> SmoothNoise:
    """Return power-law noise for a declared prevalence that is right."""
    target = _OURS[metric]
    return tuned(Fraction(epsilon), lambda beta: target.smooth(n, m, beta))


def simulate_paper(
    value: float,
    metric: Metric,
    counts: tuple[int, int],
    *,
    epsilon: str,
    delta: str,
    draws: int,
    rng: np.random.Generator,
) -> FloatVector:
    """Draw the paper's releases, with its own bound for average precision."""
    mechanism = paper_mechanism(epsilon, delta)
    smooth = _smooth(metric, mechanism, *counts, ours=False)
    return simulate_smooth(value, mechanism.noise(smooth), draws, rng)


def simulate_ours(
    value: float,
    metric: Metric,
    counts: tuple[int, int],
    *,
    epsilon: str,
    draws: int,
    rng: np.random.Generator,
    public_prevalence: bool = False,
) -> FloatVector:
    """Draw releases of pure epsilon: a weighted count, or tuned power-law noise.

    The power law is tuned to a prevalence that must be public; the count is not.
    """
    n, m = counts
    if public_prevalence:
        mechanism = _power(metric, epsilon, n, m)
        smooth = _smooth(metric, mechanism, n, m, ours=True)
        return simulate_smooth(value, mechanism.noise(smooth), draws, rng)
    table = _OURS[metric].weights(n + m)
    return simulate_weighted_count(value, n, table, float(epsilon), draws, rng)
