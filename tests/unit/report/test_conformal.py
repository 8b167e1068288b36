"""Conformal thresholds from counts: sets hold the true label as often as they say."""

import math

import numpy as np
import pytest

import discreet
from discreet.errors import InputError
from discreet.estimate.fit import Fit
from discreet.report.conformal import conformal_classes

pytestmark = [
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
    pytest.mark.long,
]


def draw(rng, n):
    z = 1.4 * rng.normal(size=n) - 0.6
    return 1 / (1 + np.exp(-z)), rng.random(n) < 1 / (1 + np.exp(-z))


NEW, NEW_LABELS = draw(np.random.default_rng(77), 200_000)


def evaluated(seed, privacy=None, n=10_000):
    score, y = draw(np.random.default_rng(seed), n)
    return discreet.evaluate(
        [discreet.Examples(score, y)], privacy=privacy, examples=n, prevalence=0.4
    )


def held(found):
    sets = found.predict(NEW)
    return np.where(NEW_LABELS, sets[:, 1], sets[:, 0])


@pytest.mark.parametrize("alpha", [0.1, 0.05])
def test_the_threshold_is_the_one_of_the_rows(alpha):
    score, y = draw(np.random.default_rng(5), 10_000)
    found = evaluated(5).thresholds.conformal(alpha)
    own = np.sort(np.where(y, score, 1 - score))
    rank = math.floor(alpha * (own.size + 1))
    assert found.positive == found.negative
    assert f"{1 - alpha:.0%} of all examples" in str(found)
    assert found.to_dict()["alpha"] == alpha
    assert found.positive == pytest.approx(own[rank - 1], abs=2e-3)
    by_class = evaluated(5).thresholds.conformal(alpha, "class")
    positives = np.sort(score[y])
    rank = math.floor(alpha * (positives.size + 1))
    assert by_class.positive == pytest.approx(positives[rank - 1], abs=3e-3)


@pytest.mark.parametrize("privacy", [None, discreet.DistributedDP(1)])
def test_coverage_is_what_is_promised_and_hardly_more(privacy):
    # The mean of 8 releases is known to about .001: 4 of those below 1 - alpha fail.
    shares, positives, negatives = [], [], []
    for seed in range(8):
        result = evaluated(seed, privacy)
        shares.append(held(result.thresholds.conformal(0.1)).mean())
        inside = held(result.thresholds.conformal(0.1, "class"))
        positives.append(inside[NEW_LABELS].mean())
        negatives.append(inside[~NEW_LABELS].mean())
    assert 0.9 - 0.004 < np.mean(shares) < 0.91
    assert 0.9 - 0.006 < np.mean(positives) < 0.915
    assert 0.9 - 0.006 < np.mean(negatives) < 0.912


def test_noise_makes_sets_wider_and_never_narrower_on_average():
    exact = np.mean([evaluated(s).thresholds.conformal(0.1).positive for s in range(6)])
    noisy = [evaluated(s, discreet.DistributedDP(0.3)) for s in range(6)]
    assert np.mean([r.thresholds.conformal(0.1).positive for r in noisy]) < exact


def test_groups_have_thresholds_of_their_own():
    score, y = draw(np.random.default_rng(1), 20_000)
    group = np.where(np.arange(score.size) % 2, "odd", "even")
    # One group's scores are too extreme: its true labels get less probability.
    worse = 1 / (1 + np.exp(-3 * np.log(score / (1 - score))))
    score = np.where(group == "odd", worse, score)
    result = discreet.evaluate(
        [discreet.Examples(score, y, groups=group)],
        groups=["even", "odd"],
        examples=20_000,
        prevalence=0.4,
    )
    found = result.conformal(0.1)
    assert found["odd"].positive < found["even"].positive
    for name in ("even", "odd"):
        mine = group == name
        sets = found[name].predict(score[mine])
        share = np.where(y[mine], sets[:, 1], sets[:, 0]).mean()
        assert share == pytest.approx(0.9, abs=3e-3)


def test_several_classes_share_one_threshold():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(20_000, 3))
    scores = np.exp(1.5 * z) / np.exp(1.5 * z).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=p) for p in scores])
    site = discreet.Examples(
        scores, np.array(["a", "b", "c"])[y], classes=["a", "b", "c"]
    )
    result = discreet.evaluate([site], classes=["a", "b", "c"], examples=20_000)
    fits = {n: p.fit for n, p in result.items() if isinstance(p.fit, Fit)}
    tau = conformal_classes(fits, 0.1)
    assert np.mean(scores[np.arange(y.size), y] >= tau) == pytest.approx(0.9, abs=2e-3)


def test_what_cannot_be_promised_is_refused():
    with pytest.raises(InputError, match="alpha"):
        evaluated(1).thresholds.conformal(0.0)
    with pytest.raises(InputError, match="marginal"):
        evaluated(1).thresholds.conformal(0.1, "group")
    few = evaluated(1, n=50)
    with pytest.raises(discreet.NotReleasedError, match="at least 1000 examples"):
        few.thresholds.conformal(0.001)
    score, y = draw(np.random.default_rng(1), 20_000)
    other = discreet.Examples(score * 5, y, kind="other", low=0, high=5)
    with pytest.raises(discreet.NotReleasedError, match="probabilities"):
        discreet.evaluate([other]).thresholds.conformal(0.1)
