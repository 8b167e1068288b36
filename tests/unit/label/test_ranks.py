import math

import numpy as np
import pytest

from discreet.errors import InputError
from discreet.label.ranks import (
    RankFacts,
    RankTotals,
    SiteRanks,
    TotalsCovariance,
    centre_of,
    midranks,
    rank_auc,
    rank_sites,
    sampling_sd,
)


def pairs_won(scores, labels):
    """The AUC by its definition: ties count one half."""
    up, down = scores[labels == 1], scores[labels == 0]
    wins = (up[:, None] > down[None, :]).sum()
    return (wins + (up[:, None] == down[None, :]).sum() / 2) / (up.size * down.size)


def sums_of(doubled, labels):
    return RankTotals(int(doubled @ labels) / 2, float(labels.sum()))


@pytest.mark.parametrize("digits", [1, 2, 12])
def test_the_auc_of_midranks_is_the_share_of_pairs_won(rng, digits):
    for _ in range(20):
        scores = np.round(rng.random(40), digits)
        labels = (rng.random(40) < scores).astype(np.int64)
        labels[:2] = 0, 1
        found = rank_auc(sums_of(midranks(scores), labels), 40)
        assert found.value == pytest.approx(pairs_won(scores, labels), abs=1e-12)


def test_the_order_of_the_file_decides_nothing(rng):
    scores = np.round(rng.random(500), 1)
    labels = (rng.random(500) < scores).astype(np.int64)
    first = sums_of(midranks(scores), labels)
    order = np.argsort(labels)  # all positives last: the worst case for plain ranks
    assert sums_of(midranks(scores[order]), labels[order]) == first


def test_sites_are_ranked_among_all_examples(rng):
    scores = np.round(rng.random(60), 1)
    pieces = np.split(scores, [0, 1, 25, 25])
    ranked = rank_sites(pieces)
    together = np.concatenate([site.doubled for site in ranked])
    assert together.tolist() == midranks(scores).tolist()
    assert [len(site) for site in ranked] == [0, 1, 24, 0, 35]
    assert {site.examples for site in ranked} == {60}


def test_ranks_sum_to_the_sum_of_all_places(rng):
    assert midranks(np.round(rng.random(99), 1)).sum() == 99 * 98


@pytest.mark.parametrize(
    ("doubled", "examples", "words"),
    [
        ([0, 1, 2], 2, "3 ranks among 2"),
        ([0, 5], 3, "1 of 2 doubled ranks are outside 0 .. 4"),
        ([-1, 2], 3, "1 of 2 doubled ranks"),
        ([0], 2**31, "at most"),
    ],
)
def test_ranks_that_cannot_be_are_refused(doubled, examples, words):
    with pytest.raises(InputError, match=words):
        SiteRanks(np.array(doubled, dtype=np.int64), examples)


def test_the_public_facts_of_ranks_are_exact_beyond_64_bits(rng):
    top = 2 * (2**27 - 1)
    doubled = rng.integers(0, top + 1, 300)
    doubled[:4] = top
    ranks = SiteRanks(doubled, 2**27)
    facts = (ranks.size, ranks.low, ranks.high, ranks.total)
    assert facts == (300, doubled.min(), top, doubled.sum())
    assert ranks.squares == sum(int(r) ** 2 for r in doubled)
    assert ranks.squares > 2**60
    empty = SiteRanks(np.zeros(0, dtype=np.int64), 7)
    assert (len(empty), empty.low, empty.high, empty.squares) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "numbers",
    [
        (9, 2, 0, 17, 9, 100),  # a rank beyond the last
        (9, 2, 6, 4, 10, 52),  # ends in the wrong order
        (9, 2, 4, 6, 13, 90),  # more than twice the highest
        (9, 2, 4, 6, 10, 49),  # less than any two ranks of this sum
        (9, 2, 4, 6, 10, 61),  # more than any two ranks of this sum
        (9, 10, 0, 16, 80, 900),  # more examples than there are
    ],
)
def test_numbers_that_no_ranks_have_are_refused(numbers):
    assert RankFacts(9, 2, 4, 6, 10, 52)
    with pytest.raises(InputError):
        RankFacts(*numbers)


def test_c_is_the_derivative_of_the_auc(rng):
    m = 1000
    for _ in range(10):
        p = float(rng.integers(50, 950))
        s = float(rng.uniform(0.2, 0.8) * p * (m - p) + p * (p - 1) / 2)
        auc = RankTotals(s, p).auc(m)
        h = 1e-3
        slope = (RankTotals(s, p + h).auc(m) - RankTotals(s, p - h).auc(m)) / (2 * h)
        c = centre_of(p, m - p, auc)
        assert slope == pytest.approx(-c / (p * (m - p)), rel=1e-5)


def test_the_sampling_bound_is_above_delongs_variance(rng):
    for _ in range(30):
        scores = rng.normal(size=200)
        labels = (scores + 2 * rng.normal(size=200) > 1).astype(np.int64)
        up, down = scores[labels == 1], scores[labels == 0]
        won = (up[:, None] > down[None, :]).astype(float)
        delong = won.mean(1).var() / up.size + won.mean(0).var() / down.size
        bound = sampling_sd(won.mean(), up.size, down.size)
        assert np.sqrt(delong) < bound


NOISE = TotalsCovariance(9.0, 0.0, 4.0)


@pytest.mark.parametrize("positives", [0.0, -3.5, 100.0, 104.2])
def test_an_estimated_class_that_is_empty_gives_no_value(positives):
    found = rank_auc(RankTotals(100.0, positives), 100, covariance=NOISE)
    assert math.isnan(found.value)
    assert "not above 0" in found.unusable


@pytest.mark.parametrize(("rank_sum", "value"), [(9000.0, 1.0), (100.0, 0.0)])
def test_a_value_outside_the_unit_interval_is_cut_and_marked(rank_sum, value):
    found = rank_auc(RankTotals(rank_sum, 50.0), 100, covariance=NOISE)
    assert found.value == value
    assert "was cut to" in found.caution


def test_positives_that_could_be_noise_are_marked():
    sums = RankTotals(80 * 5.0, 5.0)
    noisy = TotalsCovariance(100.0, 0.0, 9.0)
    assert rank_auc(sums, 100, covariance=noisy).unusable is not None
    exact = rank_auc(sums, 100)
    assert exact.unusable is None
    assert exact.noise == type(exact.noise)()
