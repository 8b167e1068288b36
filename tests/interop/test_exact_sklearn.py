"""Exact areas against scikit-learn, on the engine's real protocol."""

import numpy as np
import pytest
from sklearn.metrics import (
    auc,
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
)

from discreet.data.examples import Examples
from discreet.mpc import ExactMPC, evaluate
from discreet.mpc.engine import SpuSimulator
from measure_oracles import shared_scores
from mpc_reference import Reference

pytestmark = pytest.mark.interop


def random_with_ties(rows, seed=11):
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 3, rows)
    # A third of the scores on a coarse grid, a third one ulp from another.
    scores[::3] = scores[::3].round(3)
    scores[1::3] = np.nextafter(scores[: scores[1::3].size * 3 : 3], 1.0)
    return scores, (rng.random(rows) < scores).astype(np.int64)


def owners(scores, labels, count):
    parts = zip(
        np.array_split(scores, count), np.array_split(labels, count), strict=True
    )
    return [Examples(*part) for part in parts]


def assert_equals_scikit_learn(result, scores, labels):
    precision, recall, _ = precision_recall_curve(labels, scores)
    assert abs(result.auc.value - roc_auc_score(labels, scores)) < 1e-12
    expected = average_precision_score(labels, scores)
    assert abs(result.average_precision.value - expected) < 1e-10
    assert abs(result.metrics["aupr"].value - auc(recall, precision)) < 1e-10


SLOW = (pytest.mark.mpc, pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "count", "engine"),
    [
        ("heart-lr", 4, Reference()),
        *(
            (name, 12, Reference())
            for name in ("adult-xgb", "adult-knn5-oof", "bank-xgb")
        ),
        pytest.param("heart-lr", 4, SpuSimulator(), marks=pytest.mark.mpc),
        *(
            pytest.param(name, 12, SpuSimulator(), marks=SLOW)
            for name in ("adult-xgb", "adult-knn5-oof")
        ),
    ],
)
def test_real_scores_give_what_scikit_learn_finds(name, count, engine):
    labels, scores = shared_scores(name)
    labels = labels.astype(np.int64)
    result = evaluate(owners(scores, labels, count), engine=engine)
    assert_equals_scikit_learn(result, scores, labels)


@pytest.mark.mpc
def test_random_rows_with_ties_and_hidden_sizes_equal_scikit_learn():
    scores, labels = random_with_ties(700)
    result = evaluate(owners(scores, labels, 3), ExactMPC(hide_sizes=True))
    assert result.fit.facts["rows"] == 3 * 256
    assert_equals_scikit_learn(result, scores, labels)


@pytest.mark.mpc
@pytest.mark.slow
def test_100_000_random_rows_with_ties_equal_scikit_learn():
    scores, labels = random_with_ties(100_000)
    result = evaluate(owners(scores, labels, 5))
    assert_equals_scikit_learn(result, scores, labels)
