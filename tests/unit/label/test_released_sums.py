"""Randomized response: its variance, and the paper's way to undo the flips."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.label.ranks import RankTotals, SiteRanks, midranks, rank_auc
from discreet.label.released_sums import ResponseSums
from discreet.privacy.loss import PureDP

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(3))


@pytest.fixture
def data(rng):
    scores = np.round(rng.normal(size=3000), 2)
    labels = (scores + rng.normal(size=3000) > 0.8).astype(np.int64)
    return SiteRanks(midranks(scores), 3000), labels


def sums_of(released):
    doubled, count = released.tolist()
    return RankTotals(doubled / 2, count)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_plug_in_is_the_papers_debiasing(data, epsilon, entropy):
    """Algorithm 3 of Sun et al. (2022), with its alpha and beta."""
    ranks, labels = data
    mechanism = ResponseSums(ranks, PureDP(epsilon))
    released = mechanism.protect(labels, ranks, entropy=entropy)
    seen = sums_of(released)
    noisy = seen.auc(3000)

    rho = 1 / (1 + math.exp(float(epsilon)))
    p_bar, n_bar = seen.positives, 3000 - seen.positives
    clean = (p_bar * (1 - rho) - n_bar * rho) / (1 - 2 * rho)
    pi = clean / 3000
    alpha = (1 - pi) * rho / (pi * (1 - rho) + (1 - pi) * rho)
    beta = pi * rho / (pi * rho + (1 - pi) * (1 - rho))
    papers = (noisy - (alpha + beta) / 2) / (1 - alpha - beta)

    ours = mechanism.decode(released).auc(3000)
    assert ours == pytest.approx(papers, abs=1e-9)


def test_the_auc_of_flipped_labels_is_pulled_towards_one_half(data, entropy):
    ranks, labels = data
    mechanism = ResponseSums(ranks, PureDP(Fraction(1)))
    truth = sums_of(mechanism.exact(labels, ranks)).auc(3000)
    seen = sums_of(mechanism.protect(labels, ranks, entropy=entropy))
    assert 0.5 < seen.auc(3000) < truth - 0.1


def test_the_variance_is_not_the_papers_equation_seven(data):
    """The corrected formula, written out."""
    ranks, labels = data
    mechanism = ResponseSums(ranks, PureDP(Fraction(1)))
    exact = sums_of(mechanism.exact(labels, ranks))
    p, n = exact.positives, 3000 - exact.positives
    c = p - 0.5 + exact.auc(3000) * (n - p)
    e = math.e
    variance = e / (e - 1) ** 2 * ((ranks.doubled / 2 - c) ** 2).sum() / (p * n) ** 2
    found = rank_auc(exact, 3000, covariance=mechanism.covariance).noise
    assert found == pytest.approx(math.sqrt(variance), rel=1e-9)
