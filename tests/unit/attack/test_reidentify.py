"""The attack on a released AUC."""

from itertools import pairwise

import numpy as np
import pytest

from discreet.attack.reidentify import Candidates, reidentify_auc
from discreet.errors import InputError
from oracles import auc_by_pairs


def by_hand(scores, labels):
    """Every AUC with the missing example between two scores or tied with a repeated one."""
    places = sorted(set(scores))
    between = [
        places[0] - 1,
        *((a + b) / 2 for a, b in pairwise(places)),
        places[-1] + 1,
    ]
    tied = [s for s in places if list(scores).count(s) > 1]
    return [
        {round(auc_by_pairs([*scores, s], [*labels, y]), 12) for s in between + tied}
        for y in (1, 0)
    ]


@pytest.mark.parametrize("draw", range(8))
def test_candidates_are_the_aucs_of_all_places(draw):
    rng = np.random.default_rng(draw)
    scores = rng.integers(0, 9 if draw % 2 else 1000, 14).astype(float)
    labels = np.append([0, 1], rng.integers(0, 2, 12)).astype(bool)
    found = Candidates.of(scores, labels)
    positive, negative = by_hand(scores.tolist(), labels.tolist())
    assert {round(v, 12) for v in found.if_positive} == positive
    assert {round(v, 12) for v in found.if_negative} == negative


def test_the_closest_class_is_guessed_and_ties_go_to_the_frequent_one():
    candidates = Candidates(np.array([0.612]), np.array([0.618]), frequent=False)
    assert candidates.guess(0.6121, digits=4)
    assert not candidates.guess(0.6179, digits=4)
    assert not candidates.guess(0.612, digits=1)


@pytest.fixture(scope="module")
def pool():
    rng = np.random.default_rng(12)
    labels = np.arange(6000) % 2
    return labels, rng.normal(1.2 * labels, 1.0)


def test_many_digits_give_the_class_away_and_noise_does_not(pool):
    rng = np.random.default_rng(1)
    few, many = reidentify_auc(*pool, rng=rng, sizes=[80], digits=[2, 6], trials=300)
    assert many.success > 0.9
    # 300 fair coins lie within .5 +- .18 except with probability 1e-9.
    for found in (few.success, few.null, many.null, many.private):
        assert 0.32 < found < 0.68


def test_the_balanced_design_is_confounded(pool):
    """With balanced classes an unrelated AUC gives the class away as well."""
    rng = np.random.default_rng(1)
    (found,) = reidentify_auc(
        *pool, rng=rng, sizes=[80], digits=[6], trials=200, design="balanced"
    )
    assert found.null > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": [5]}, "sizes"),
        ({"sizes": [4000]}, "3000"),
        ({"digits": [0]}, "digits"),
        ({"trials": 0}, "trial"),
        ({"design": "sorted"}, "independent"),
    ],
)
def test_impossible_experiments_are_refused(pool, options, message):
    options = {"sizes": [50], "digits": [3], "trials": 1} | options
    with pytest.raises(InputError, match=message):
        reidentify_auc(*pool, rng=np.random.default_rng(0), **options)


def test_an_adversary_without_both_classes_is_refused():
    with pytest.raises(InputError, match="both classes"):
        Candidates.of(np.array([0.1, 0.2]), np.array([True, True]))
