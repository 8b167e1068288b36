"""Randomized response: two protocols, and the paper's way to undo the flips."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.privacy.loss import PureDP
from discreet.ranks.rank_auc import noisy_auc, rank_auc
from discreet.ranks.ranks import SiteRanks, midranks
from discreet.ranks.response_sums import ResponseSums
from discreet.ranks.sums import RankSums

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(3))


@pytest.fixture
def data(rng):
    scores = np.round(rng.normal(size=3000), 2)
    labels = (scores + rng.normal(size=3000) > 0.8).astype(np.int64)
    return SiteRanks(midranks(scores), 3000), labels


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sums_and_flipped_labels_give_the_same_auc(data, epsilon, entropy):
    ranks, labels = data
    budget = PureDP(epsilon)
    as_labels = ResponseSums(ranks, budget, "labels")
    as_sums = ResponseSums(ranks, budget)
    flipped = as_labels.protect(labels, entropy=entropy)
    sums = as_sums.exact(flipped)
    assert as_sums.decode(sums) == as_labels.decode(flipped)
    assert as_sums.flipped_sums(sums) == as_labels.flipped_sums(flipped)
    assert as_sums.covariance == as_labels.covariance


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_plug_in_is_the_papers_debiasing(data, epsilon, entropy):
    """Algorithm 3 of Sun et al. (2022), with its alpha and beta."""
    ranks, labels = data
    mechanism = ResponseSums(ranks, PureDP(epsilon))
    released = mechanism.protect(labels, entropy=entropy)
    seen = mechanism.flipped_sums(released)
    noisy = noisy_auc(seen, 3000).value

    rho = 1 / (1 + math.exp(float(epsilon)))
    p_bar, n_bar = seen.positives, 3000 - seen.positives
    clean = (p_bar * (1 - rho) - n_bar * rho) / (1 - 2 * rho)
    pi = clean / 3000
    alpha = (1 - pi) * rho / (pi * (1 - rho) + (1 - pi) * rho)
    beta = pi * rho / (pi * rho + (1 - pi) * (1 - rho))
    papers = (noisy - (alpha + beta) / 2) / (1 - alpha - beta)

    ours = mechanism.decode(released).auc(3000)
    assert ours == pytest.approx(papers, abs=1e-9)


def test_the_noisy_auc_is_pulled_towards_one_half_and_marked(data, entropy):
    ranks, labels = data
    mechanism = ResponseSums(ranks, PureDP(Fraction(1)))
    truth = mechanism.flipped_sums(mechanism.exact(labels)).auc(3000)
    seen = mechanism.flipped_sums(mechanism.protect(labels, entropy=entropy))
    noisy = noisy_auc(seen, 3000)
    assert 0.5 < noisy.value < truth - 0.1
    assert "biased" in noisy.status.reason
    assert math.isnan(noisy_auc(RankSums(0.0, 0.0), 3000).value)


def test_the_variance_is_not_the_papers_equation_seven(data):
    """The corrected formula, written out."""
    ranks, labels = data
    mechanism = ResponseSums(ranks, PureDP(Fraction(1)))
    exact = mechanism.flipped_sums(mechanism.exact(labels))
    p, n = exact.positives, 3000 - exact.positives
    c = p - 0.5 + exact.auc(3000) * (n - p)
    e = math.e
    variance = e / (e - 1) ** 2 * ((ranks.doubled / 2 - c) ** 2).sum() / (p * n) ** 2
    found = rank_auc(exact, 3000, covariance=mechanism.covariance).noise.sd
    assert found == pytest.approx(math.sqrt(variance), rel=1e-9)
