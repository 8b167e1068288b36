"""Two models on the same examples: the difference of their AUCs and what it says."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.estimate.fit import Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.rounds import Round
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Unbounded
from discreet.report.build import result_of
from discreet.report.comparison import JointCounts, ModelComparison
from discreet.report.evaluation import Evaluation, Source
from discreet.statistic import Paired
from discreet.statistic.observed import SummedNoise
from discreet.transport.in_process import simulate
from oracles import auc_by_pairs

pytestmark = pytest.mark.long

CLAIM = Claim(None, Unbounded(), Trust.SUM_ONLY, True, "simulated", ("x",), ("y",))
EDGES = (
    Edges.realise(Uniform(16), ScoreRange()),
    Edges.realise(Uniform(12), ScoreRange()),
)


def models(rng, n, *, better=0.0, shared=0.9):
    """Two models that see the same signal through partly shared errors."""
    y = rng.random(n) < 0.4
    common = rng.normal(size=n)
    scores = []
    for strength in (1.0 + better, 1.0):
        own = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.normal(size=n)
        scores.append(1 / (1 + np.exp(-(own + strength * (2 * y - 1)))))
    return np.column_stack(scores), y


def released(form, scores, y):
    paired = Paired(*EDGES, form)
    counted = paired.count(Examples(scores, y))
    return paired, counted.astype(float)


def compared(paired, counts, noise, estimator):
    a, b = (
        Evaluation(estimator.fit(part), CLAIM, Source(1, 1))
        for part in paired.parts(counts, noise).values()
    )
    joint = JointCounts(counts, noise) if paired.joint else None
    return ModelComparison(a, b, CLAIM, joint)


def delong_of_difference(scores, y):
    parts = []
    for column in scores.T:
        p, n = column[y], column[~y]
        wins = (p[:, None] > n) + 0.5 * (p[:, None] == n)
        parts.append((wins.mean(axis=1), wins.mean(axis=0)))
    (a10, a01), (b10, b01) = parts
    return np.var(a10 - b10, ddof=1) / y.sum() + np.var(a01 - b01, ddof=1) / (~y).sum()


def test_joint_counts_give_delongs_variance_of_the_difference(rng):
    scores, y = models(rng, 800)
    found = compared(*released("joint", scores, y), NoNoise(), Flat("linear"))
    binned = np.column_stack(
        [e.bins_of(s) for e, s in zip(EDGES, scores.T, strict=True)]
    )
    expected = delong_of_difference(binned, y)
    assert found.difference().sampling ** 2 == pytest.approx(expected, rel=1e-10)
    assert found.difference().noise == 0.0
    assert found.difference().value == pytest.approx(
        auc_by_pairs(binned[:, 0], y) - auc_by_pairs(binned[:, 1], y)
    )


def test_marginals_are_wider_than_joint_counts_for_models_that_agree(rng):
    scores, y = models(rng, 3000)
    joint, marginals = (
        compared(*released(form, scores, y), NoNoise(), Flat("linear"))
        for form in ("joint", "marginals")
    )
    assert joint.difference().value == pytest.approx(marginals.difference().value)
    assert joint.a.auc.value == pytest.approx(marginals.a.auc.value)
    assert marginals.difference().sampling > 1.5 * joint.difference().sampling


def test_a_clear_winner_is_named_whichever_side_it_is_on(rng):
    scores, y = models(rng, 20_000, better=0.5)
    for columns, words in (([0, 1], "a is better"), ([1, 0], "b is better")):
        paired, counts = released("marginals", scores[:, columns], y)
        found = compared(paired, counts, NoNoise(), Flat())
        assert found.verdict().startswith(words)


def test_equal_models_cannot_be_told_apart_and_the_reason_is_named(rng):
    scores, y = models(rng, 20_000, shared=1.0)
    paired, counts = released("marginals", scores, y)
    exact = compared(paired, counts, NoNoise(), Flat())
    assert exact.verdict().startswith("cannot tell them apart with this much data")
    noise = LaplaceNoise(2 / 0.01)
    noisy = counts + simulate_discrete_laplace(noise.scale, counts.shape, rng)
    private = compared(paired, noisy, noise, Flat())
    assert private.verdict().startswith("cannot tell them apart at this epsilon")
    assert private.difference().noise > private.difference().sampling


@pytest.mark.slow
@pytest.mark.parametrize("form", ["joint", "marginals"])
def test_intervals_of_the_difference_cover_the_truth(rng, form):
    """200 test sets of equal models: 95% is known to 1.5%, marginals cover more."""
    held = 0
    noise = LaplaceNoise((1 if form == "joint" else 2) / 1.0)
    for _ in range(200):
        paired, counts = released(form, *models(rng, 3000, shared=0.5))
        noisy = counts + simulate_discrete_laplace(noise.scale, counts.shape, rng)
        low, high = (
            compared(paired, noisy, noise, Flat("linear")).difference().interval()
        )
        held += low <= 0 <= high
    assert held / 200 > 0.90


def test_noise_of_pairs_that_hold_nothing_does_not_reach_a_difference(rng):
    """Against the exact difference of the same test set, and the plain counts' own."""
    noise, drawn, plain, stated = LaplaceNoise(1.0), [], [], []
    for _ in range(30):
        paired, counts = released("joint", *models(rng, 5000, shared=0.995))
        noisy = counts + simulate_discrete_laplace(noise.scale, counts.shape, rng)
        exact = compared(paired, counts, NoNoise(), Flat("linear")).difference().value
        found = compared(paired, noisy, noise, Smooth())
        drawn.append(found.difference().value - exact)
        plain.append(found.a.auc.value - found.b.auc.value - exact)
        stated.append(found.difference().noise)
    assert np.std(drawn) < 0.6 * np.std(plain)
    assert np.std(drawn) < 2.0 * np.mean(stated)
    assert "taken off" in found.dependence
    assert found.dependence in found.to_text()


def test_two_separate_histograms_say_how_wide_the_difference_may_be(rng):
    found = compared(*released("marginals", *models(rng, 3000)), NoNoise(), Flat())
    low, high = found.difference().interval()
    widest = re.search(r"by ([+-][.\d]+) to ([+-][.\d]+)$", found.dependence)
    assert float(widest[1]) < low < high < float(widest[2])


@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
def test_whatever_pairs_are_released_every_difference_is_one_or_says_why(rng):
    paired = Paired(*EDGES, "joint")
    for _ in range(12):
        noise = LaplaceNoise(float(rng.choice([0.1, 3.0, 300.0])))
        size = 10 ** rng.uniform(0, 9)
        counts = size * rng.dirichlet(np.full(paired.size, rng.choice([0.02, 1.0])))
        counts = np.rint(counts + rng.laplace(0, noise.scale, paired.size))
        found = compared(paired, counts, noise, Smooth())
        for gap in (*found.differences().values(), found.difference("recall", at=0.5)):
            if math.isnan(gap.value):
                assert gap.unusable
                continue
            low, high = gap.interval()
            assert gap.support.low <= low <= high <= gap.support.high
        assert found.dependence


def test_summed_noise_has_the_variance_of_its_draws(rng):
    table = np.zeros((2, 3, 5))
    for axis, bins in ((1, 5), (2, 3)):
        noise = SummedNoise(LaplaceNoise(2.0), table, axis)
        at = np.zeros(2 * bins)
        drawn = noise.sample(at, 20_000, rng)
        assert drawn.shape == (20_000, 2 * bins)
        expected = noise.covariance(at)
        np.testing.assert_allclose(
            drawn.var(axis=0),
            np.append(expected.negatives, expected.positives),
            rtol=0.1,  # a variance of 20,000 Laplace sums is known to 1.5%
        )


@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
def test_a_missing_class_is_undefined_in_words(rng):
    scores, _ = models(rng, 100)
    paired, counts = released("marginals", scores, np.zeros(100, dtype=bool))
    found = compared(paired, counts, NoNoise(), Flat())
    assert math.isnan(found.difference().value)
    assert found.verdict().startswith("undefined")


@pytest.mark.parametrize("form", ["marginals", "joint"])
def test_a_paired_plan_gives_its_comparison_from_the_releases_alone(rng, form):
    scores, y = models(rng, 6000, better=0.5)
    sites = [Examples(scores[k::2], y[k::2]) for k in range(2)]
    model = SecureAggregation()
    base = recommend(PublicFacts(), model, cohort=model.cohort(2), thresholds=())
    plan = replace(base, rounds=(Round(Paired(*EDGES, form)),))
    claim = plan.claim("simulated", sites=2)
    found = result_of(plan, simulate(plan, sites), claim)
    assert isinstance(found, ModelComparison)
    assert set(found.differences()) == set(found.a.metrics)
    for name, gap in found.differences().items():
        expected = found.a.metrics[name].value - found.b.metrics[name].value
        assert gap.value == pytest.approx(expected)
        low, high = gap.interval()
        assert low < gap.value < high
    lower = found.verdict("brier").startswith("a is better")
    assert lower == (found.difference("brier").interval().high < 0)
    assert "AUC a-b" in found.to_text()
    assert json.loads(found.to_json())["verdict"] == found.verdict()
