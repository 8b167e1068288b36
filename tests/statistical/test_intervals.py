"""Intervals hold as often as they say, and much narrower ones do not.

Hits are counted and compared with a binomial at ALPHA.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from bench.simulated_sums import simulate_errors
from discreet import curator
from discreet.curator.ranking import rank
from discreet.data.edges import Edges, Warped
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.label.mechanisms import build, option_for
from discreet.label.ranks import RankTotals, add_covariances, noise_sd, rank_sites
from discreet.models.label import LabelDP
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.privacy.loss import ApproxDP, PureDP
from label_runs import evaluate_labels
from statistical_checks import ALPHA

pytestmark = pytest.mark.statistical

LOW, HIGH = 0.93, 0.985
"""Nominal 95%; a little more is fair under heavy-tailed noise."""


def curator_intervals(rows, prevalence, separation, runs, epsilon, /, **options):
    rng, entropy = np.random.default_rng(6), Seeded(b"coverage")
    for _ in range(runs):
        labels = (rng.random(rows) < prevalence).astype(int)
        scores = rng.normal(separation * labels, 1.0)
        yield curator.auc(
            labels, scores, epsilon=epsilon, entropy=entropy, **options
        ).interval()


def hits_of(intervals, truth, *, width=1.0):
    """Count the intervals, shrunk to this share of their width, that hold the truth."""
    low, high = np.array(list(intervals)).T
    return int((np.abs(truth - (low + high) / 2) <= width * (high - low) / 2).sum())


def assert_covers(hits, runs):
    """Fail only if coverage is outside the range at a level of ALPHA."""
    assert stats.binom.cdf(hits, runs, LOW) > ALPHA
    assert stats.binom.sf(hits - 1, runs, HIGH) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(
    ("rows", "prevalence", "separation", "epsilon"),
    [
        (300, 0.5, 1.5, "1"),
        (1000, 0.1, 1.0, "1"),
        (1000, 0.3, 2.2, "0.3"),
        (2000, 0.02, 1.5, "1"),
    ],
)
def test_the_interval_of_an_auc_covers_the_populations(
    rows, prevalence, separation, epsilon, declared
):
    options = {"prevalence": prevalence} if declared else {}
    truth, runs = stats.norm.cdf(separation / np.sqrt(2)), 1200
    found = curator_intervals(rows, prevalence, separation, runs, epsilon, **options)
    assert_covers(hits_of(found, truth), runs)


def test_the_interval_of_a_weighted_count_covers_and_half_of_it_does_not():
    runs, truth = 250, stats.norm.cdf(1.5 / np.sqrt(2))
    found = list(curator_intervals(300, 0.4, 1.5, runs, 1))
    assert_covers(hits_of(found, truth), runs)
    assert stats.binom.cdf(hits_of(found, truth, width=0.5), runs, LOW) < ALPHA


def test_the_interval_of_an_average_precision_covers_the_value_without_noise():
    """Sampling left out: the exact value of the data lies in the noise's interval."""
    rng = np.random.default_rng(9)
    labels = (rng.random(800) < 0.3).astype(int)
    scores = rng.normal(1.5 * labels, 1.0)
    truth = rank(labels, scores, ties="scikit-learn").average_precision
    runs, intervals, entropy = 400, [], Seeded(b"ap")
    for _ in range(runs):
        found = curator.average_precision(
            labels, scores, epsilon=Fraction(1), entropy=entropy
        ).shape
        intervals.append(found.value - np.quantile(found.errors, [0.975, 0.025]))
    assert_covers(hits_of(intervals, float(truth)), runs)


def binned_auc(cells):
    """Return the AUC with ties one half, and its gradient in the counts."""
    n, p = np.split(cells, 2)
    below = np.cumsum(n) - n / 2
    above = p.sum() - np.cumsum(p) + p / 2
    pairs = p.sum() * n.sum()
    auc = p @ below / pairs
    slopes = (above / pairs - auc / n.sum(), below / pairs - auc / p.sum())
    return auc, np.concatenate(slopes)


@pytest.mark.parametrize(
    ("positives", "negatives", "epsilon"),
    [
        (8_000, 24_000, "1"),
        pytest.param(8_000, 24_000, "5", marks=pytest.mark.slow),
        pytest.param(5_000, 40_000, "2", marks=pytest.mark.slow),
    ],
)
def test_the_covariance_of_decoded_arcs_covers_and_one_of_less_than_half_does_not(
    positives, negatives, epsilon
):
    """Errors of AUC and of the positives' total, over their own sd."""
    rng, runs, edges = np.random.default_rng(7), 150, Edges.realise(Warped(32))
    labels = np.repeat([0, 1], [negatives, positives])
    z = np.where(labels, 1.0, -2.0) + 1.5 * rng.standard_normal(labels.size)
    cells = edges.bins_of(1 / (1 + np.exp(-z))).astype(np.int64) + 32 * labels
    exact = np.bincount(cells, minlength=64)
    arc = CircularArc(Fraction(epsilon), edges)
    errors = []
    for _ in range(runs):
        run = decode(simulate_arc_counts(arc, exact, rng), arc)
        auc, slopes = binned_auc(run.counts)
        sd = np.sqrt(slopes @ run.noise.matrix @ slopes)
        total = np.split(run.counts, 2)[1].sum() - positives
        errors.append(((auc - binned_auc(exact)[0]) / sd, total / run.noise.class_sd))
    for factor, covers in ((1.0, True), (2.5, False)):
        inside = (factor * np.abs(errors) < 1.96).sum(axis=0)
        assert ((stats.binom.cdf(inside, runs, 0.95) > ALPHA) == covers).all()


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["response", "binned"])
def test_intervals_under_label_privacy_hold_the_population(mechanism):
    # 120 intervals of 95%: fewer than 98 hits have a chance below 1e-7 (binomial).
    rng = np.random.default_rng(7)
    runs, size, rate, d = 120, 3000, 0.3, 1.2
    intervals = {"auc": [], "recall": []}
    for run in range(runs):
        y = (rng.random(size) < rate).astype(int)
        x = rng.normal(d * y, 1)
        s = 1 / (1 + (1 - rate) / rate * np.exp(-(d * x - d * d / 2)))
        result = evaluate_labels(
            [Examples(s[i::3], y[i::3]) for i in range(3)],
            privacy=LabelDP(2, mechanism=mechanism),
            entropy=Seeded(bytes([run])),
        )
        intervals["auc"].append(result.auc.interval())
        intervals["recall"].append(result.at(0.5).recall.interval())
    auc = stats.norm.cdf(d / math.sqrt(2))
    recall = stats.norm.sf(0.5 * d - math.log(rate / (1 - rate)) / d - d)
    assert hits_of(intervals["auc"], auc) >= 98
    assert hits_of(intervals["recall"], recall) >= 98


EXAMPLES, RUNS = 20_000, 5000
ROOM = 0.07
"""Five thousand runs give a standard deviation to 1%, or 1.1% for a sum of few Laplace
variables: 7% are more than 6.2 standard deviations, which chance exceeds in 1e-9."""
TINY = ApproxDP(Fraction(1), Fraction(1, 10**6))


def rank_mechanisms(name, sites, budget, rng, *, iid):
    """Return every site's mechanism, ranks and labels."""
    truth = (rng.random(EXAMPLES) < 0.25).astype(np.int64)
    scores = rng.normal(size=EXAMPLES) + 1.05 * truth
    order = rng.permutation(EXAMPLES) if iid else np.argsort(scores)
    pieces = np.array_split(order, sites)
    ranks = rank_sites([scores[p] for p in pieces])
    options = [option_for(name, site, budget) for site in ranks]
    used = [build(o, r, budget) for o, r in zip(options, ranks, strict=True)]
    return used, ranks, [truth[p] for p in pieces]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sites", "iid", "budget"),
    [
        ("choice", 50, True, PureDP(Fraction(1))),
        ("choice", 50, False, PureDP(Fraction(4))),
        ("choice", 4000, True, PureDP(Fraction(2))),
        ("adaptive", 50, True, PureDP(Fraction(1))),
        ("endpoint", 10, False, PureDP(Fraction(1))),
        ("response", 10, True, PureDP(Fraction(3))),
        ("adaptive", 50, True, TINY),
        ("global-laplace", 10, True, TINY),
    ],
)
def test_the_predicted_deviation_is_that_of_many_runs(name, sites, iid, budget, rng):
    used, ranks, labels = rank_mechanisms(name, sites, budget, rng, iid=iid)
    exact = RankTotals(
        sum(int(r.doubled @ y) for r, y in zip(ranks, labels, strict=True)) / 2,
        float(sum(int(y.sum()) for y in labels)),
    )
    s, p = simulate_errors(used, ranks, labels, RUNS, rng)
    count = exact.positives + p
    pairs = count * (EXAMPLES - count)
    drawn = (exact.rank_sum + s - count * (count - 1) / 2) / pairs
    sd = noise_sd(exact, EXAMPLES, add_covariances(m.covariance for m in used))
    assert drawn.std() == pytest.approx(sd, rel=ROOM)
    assert abs(drawn.std() / (0.85 * sd) - 1) > ROOM  # the power twin
    # Unbiased, but for the second order of a noisy denominator.
    bias = abs(drawn.mean() - exact.auc(EXAMPLES))
    assert bias < 6.2 * sd / math.sqrt(RUNS) + 0.02 * sd


def test_the_simulation_agrees_with_the_exact_mechanisms(entropy, rng):
    """The fast twin's errors and those of real releases have one spread."""
    used, ranks, labels = rank_mechanisms(
        "choice", 4, PureDP(Fraction(1)), rng, iid=True
    )
    runs = 60
    real = np.zeros(runs)
    for run in range(runs):
        for mechanism, r, y in zip(used, ranks, labels, strict=True):
            found = mechanism.decode(mechanism.protect(y, r, entropy=entropy))
            real[run] += found.positives - y.sum()
    _, twin = simulate_errors(used, ranks, labels, 20_000, rng)
    room = 6.2 * math.sqrt(2.5 / runs)  # the excess kurtosis is at most 6/4
    assert real.var() == pytest.approx(twin.var(), rel=room)
