"""Scores that are not probabilities: ties and distortions, two rounds of noise.

The default plan is told only that the scores lie in [0, 1] and are no
probabilities. Mean area errors over those of the papers' method (Xu 2025) at its
best Q of 32, 128 and 1024, both run here on the same data and eps.

    python bench/odd_scores.py [--seeds 100]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import numpy as np

from datasets import Scored, load, needs
from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Curve
from discreet.estimate.fit import Estimator
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.curve_points import drawn_points
from discreet.models.distributed import DistributedDP
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Release
from discreet.privacy.unit import EXAMPLE
from discreet.published.xu2025.fedcurve import PAPER_QUANTILES, FedCurve
from discreet.statistic import ClassHistogram, Hierarchy
from discreet.statistic.hierarchy import NoisyTree
from discreet.statistic.observed import NoisyHistogram

SETS = ("adult-knn5-oof", "adult-xgb", "bank-xgb")
UNIT = ScoreRange.declare("other", 0, 1)


def subjects() -> Iterator[Scored]:
    yield load(SETS[0])
    for name in SETS[1:]:
        data = load(name)
        yield Scored(f"{name}, s^4", data.scores**4, data.labels)
        yield Scored(f"{name}, .45 + .1 s", 0.45 + 0.1 * data.scores, data.labels)


def two_rounds(
    plan: Plan, site: Examples, epsilon: float, rng: np.random.Generator
) -> NoisyHistogram:
    """Simulate both releases of the plan with fast noise."""
    releases: list[Release] = []
    while True:
        this = plan.resolve(len(releases), releases)
        share = float(plan.rounds[this.index].budget)
        scale = this.statistic.sensitivity(EXAMPLE).l1 / (epsilon * share)
        counts = this.statistic.count(site)
        noise = simulate_discrete_laplace(scale, counts.shape, rng)
        total = counts + noise.astype(np.int64)
        if isinstance(this.statistic, ClassHistogram):
            split = this.statistic.split(total.astype(np.float64))
            return NoisyHistogram(
                this.statistic.edges,
                split.negatives,
                split.positives,
                LaplaceNoise(scale),
            )
        releases.append(Release(plan.digest(), b"", 0, total, 1, 1, this.loss))


def ours(data: Scored, epsilon: float, seeds: int, estimator: Estimator) -> FloatVector:
    """Return the mean ROC and PR area errors of the default plan."""
    minority = min(data.labels.sum(), (1 - data.labels).sum())
    rounded = 10 ** round(math.log10(minority))
    facts = PublicFacts(2 * rounded, 0.5, UNIT)
    plan = recommend(facts, DistributedDP(str(epsilon)))
    site = Examples(data.scores, data.labels, kind="other", low=0, high=1)
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, round(1000 * epsilon)])
        fit = estimator.fit(two_rounds(plan, site, epsilon, rng))
        found.append(_errors(data, *drawn_points(fit)))
    mean: FloatVector = np.mean(found, axis=0)
    return mean


def papers(data: Scored, epsilon: float, seeds: int) -> FloatVector:
    """Return the mean errors of the papers' method, each at its best Q."""
    site = Examples(data.scores, data.labels)
    means = []
    for quantiles in PAPER_QUANTILES:
        method = FedCurve(quantiles=quantiles)
        tree: Hierarchy = method.hierarchy()
        counts = tree.count(site).astype(np.float64)
        distribution = LaplaceNoise(method.height / epsilon)
        found = []
        for seed in range(seeds):
            rng = np.random.default_rng([seed, quantiles, round(1000 * epsilon)])
            noise = simulate_discrete_laplace(distribution.scale, counts.shape, rng)
            noisy = NoisyTree.from_release(
                tree, counts + noise, variance=distribution.variance
            )
            curves = method.curves(noisy)
            found.append(_errors(data, curves.roc, curves.pr))
        means.append(np.mean(found, axis=0))
    best: FloatVector = np.min(means, axis=0)
    return best


def _errors(data: Scored, roc: Curve, pr: Curve) -> tuple[float, float]:
    return (
        area_error(data.roc, roc, tolerance=1e-5),
        area_error(data.pr, pr, tolerance=1e-5),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    seeds = parser.parse_args().seeds
    needs(*SETS)
    print("area error x 1e-4, two rounds; ratio to the papers' method, best Q")
    print(f"{'':22}{'eps':>5}{'ROC':>9}{'PR':>9}{'papers':>9}{'':>9}{'ratio':>9}")
    for data in subjects():
        for epsilon in (1.0, 0.3, 0.1):
            mine = ours(data, epsilon, seeds, Smooth())
            theirs = papers(data, epsilon, seeds)
            numbers = "".join(f"{1e4 * v:9.1f}" for v in (*mine, *theirs))
            ratio = "".join(f"{v:7.2f}" for v in mine / theirs)
            print(f"{data.name:22}{epsilon:5g}{numbers}{ratio}", flush=True)


if __name__ == "__main__":
    main()
