import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import curator_oracles as oracle
from discreet.curator.ranking import rank
from discreet.errors import InputError


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_rankings_agree_with_the_definitions(rows):
    for groups in oracle.tied_rankings(rows):
        scores, labels = oracle.to_arrays(groups)
        half = rank(labels, scores, ties="scikit-learn")
        strict = rank(labels, scores, ties="paper")
        assert (half.positives, half.negatives) == oracle.class_counts(groups)
        assert half.auc == oracle.auc(groups)
        assert strict.auc == oracle.auc(groups, half_credit=False)
        for found, grouped in ((half, True), (strict, False)):
            expected = float(oracle.average_precision(groups, grouped))
            assert found.average_precision == pytest.approx(expected, rel=1e-15)


def test_ties_are_counted_as_scikit_learn_does(rng):
    labels = rng.integers(0, 2, 500)
    scores = rng.integers(0, 30, 500) + 8 * labels
    found = rank(labels, scores, ties="scikit-learn")
    assert float(found.auc) == pytest.approx(roc_auc_score(labels, scores))
    expected = average_precision_score(labels, scores)
    assert found.average_precision == pytest.approx(expected)


def test_infinite_scores_have_an_order_and_nan_has_none():
    assert rank([0, 1], [-np.inf, np.inf], ties="paper").auc == 1
    with pytest.raises(InputError, match="NaN"):
        rank([0, 1], [0.1, np.nan], ties="paper")


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_examples_are_refused(rows):
    with pytest.raises(InputError, match="at least 2"):
        rank([1] * rows, [0.5] * rows, ties="scikit-learn")


def test_an_unknown_way_to_count_ties_is_refused():
    with pytest.raises(InputError, match="paper"):
        rank([0, 1], [0.1, 0.2], ties="random")
