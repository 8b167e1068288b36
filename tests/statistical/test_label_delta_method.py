"""Predicted standard deviations against runs of whole evaluations."""

import math
from fractions import Fraction

import numpy as np
import pytest

from bench.simulated_sums import simulate_errors
from discreet.label.mechanisms import build, option_for
from discreet.label.ranks import RankTotals, add_covariances, noise_sd, rank_sites
from discreet.privacy.loss import ApproxDP, PureDP

pytestmark = pytest.mark.statistical

EXAMPLES, RUNS = 20_000, 5000
ROOM = 0.07
"""Five thousand runs give a standard deviation to 1%, or 1.1% for a sum of few Laplace
variables: 7% are more than 6.2 standard deviations, which chance exceeds in 1e-9."""


def federation(sites, rng, *, iid):
    truth = (rng.random(EXAMPLES) < 0.25).astype(np.int64)
    scores = rng.normal(size=EXAMPLES) + 1.05 * truth
    order = rng.permutation(EXAMPLES) if iid else np.argsort(scores)
    pieces = np.array_split(order, sites)
    return rank_sites([scores[p] for p in pieces]), [truth[p] for p in pieces]


def aucs(ranks, labels, budget, name, rng, runs=RUNS):
    options = [option_for(name, site, budget) for site in ranks]
    used = [build(o, r, budget) for o, r in zip(options, ranks, strict=True)]
    exact = RankTotals(
        sum(int(r.doubled @ y) for r, y in zip(ranks, labels, strict=True)) / 2,
        float(sum(int(y.sum()) for y in labels)),
    )
    s, p = simulate_errors(used, ranks, labels, runs, rng)
    count = exact.positives + p
    drawn = (exact.rank_sum + s - count * (count - 1) / 2) / (
        count * (EXAMPLES - count)
    )
    cov = add_covariances(m.covariance for m in used)
    return drawn, noise_sd(exact, EXAMPLES, cov), exact.auc(EXAMPLES)


CELLS = [
    ("choice", 50, True, PureDP(Fraction(1))),
    ("choice", 50, False, PureDP(Fraction(4))),
    ("choice", 4000, True, PureDP(Fraction(2))),
    ("adaptive", 50, True, PureDP(Fraction(1))),
    ("endpoint", 10, False, PureDP(Fraction(1))),
    ("response", 10, True, PureDP(Fraction(3))),
    ("adaptive", 50, True, ApproxDP(Fraction(1), Fraction(1, 10**6))),
    ("global-laplace", 10, True, ApproxDP(Fraction(1), Fraction(1, 10**6))),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sites", "iid", "budget"), CELLS)
def test_the_predicted_deviation_is_that_of_many_runs(name, sites, iid, budget, rng):
    ranks, labels = federation(sites, rng, iid=iid)
    drawn, sd, truth = aucs(ranks, labels, budget, name, rng)
    assert drawn.std() == pytest.approx(sd, rel=ROOM)
    assert abs(drawn.std() / (0.85 * sd) - 1) > ROOM  # the power twin
    # Unbiased, but for the second order of a noisy denominator.
    assert abs(drawn.mean() - truth) < 6.2 * sd / math.sqrt(RUNS) + 0.02 * sd


def test_the_simulation_agrees_with_the_exact_mechanisms(entropy, rng):
    """The fast twin's errors and those of real releases have one spread."""
    ranks, labels = federation(4, rng, iid=True)
    budget = PureDP(Fraction(1))
    options = [option_for("choice", site, budget) for site in ranks]
    used = [build(o, r, budget) for o, r in zip(options, ranks, strict=True)]
    runs = 60
    real = np.zeros(runs)
    for run in range(runs):
        for mechanism, r, y in zip(used, ranks, labels, strict=True):
            found = mechanism.decode(mechanism.protect(y, r, entropy=entropy))
            real[run] += found.positives - y.sum()
    _, twin = simulate_errors(used, ranks, labels, 20_000, rng)
    room = 6.2 * math.sqrt(2.5 / runs)  # the excess kurtosis is at most 6/4
    assert real.var() == pytest.approx(twin.var(), rel=room)
