"""scikit-learn's own tests of binary rankings, run on this package's exact sums.

The tests come with the installed scikit-learn. Its functions are replaced, in that
module alone, by ones that count every distinct score (``Support``) in a sum of one
site; what it validates before it counts, what needs weights, several classes or many
columns is not asked.
"""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics.tests import test_ranking as scikit

import discreet

TESTS = [
    "test_roc_curve",
    "test_roc_curve_end_points",
    "test_roc_returns_consistency",
    "test_roc_curve_confidence",
    "test_roc_curve_hard",
    "test_roc_curve_drop_intermediate",
    "test_precision_recall_curve",
    "test_precision_recall_curve_drop_intermediate",
    "test_average_precision_constant_values",
    "test_score_scale_invariance",
    "test_det_curve_toydata",
    "test_det_curve_drop_intermediate",
    "test_det_curve_tie_handling",
    "test_det_curve_sanity_check",
    "test_det_curve_constant_scores",
    "test_det_curve_perfect_scores",
    "test_det_curve_pos_label",
    "test_roc_curve_with_probability_estimates",
]


def evaluated(y_true, y_score, pos_label=None):
    """Count every distinct score of binary labels."""
    scores = np.asarray(y_score, dtype=np.float64).ravel()
    y = np.asarray(y_true).ravel()
    labels = y == (1 if pos_label is None else pos_label)
    values = np.unique(scores)
    low, high = float(values[0]), float(values[-1])
    if low == high:
        high = low + 1.0
        values = np.append(values, high)
    site = discreet.Examples(scores, labels, kind="other", low=low, high=high)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.evaluate([site], edges=discreet.Support(tuple(values)))


def roc_curve(y_true, y_score, *, pos_label=None, drop_intermediate=True):
    found = evaluated(y_true, y_score, pos_label)
    return tuple(found.roc_curve(drop_intermediate=drop_intermediate))


def precision_recall_curve(y_true, y_score, *, pos_label=None, drop_intermediate=False):
    found = evaluated(y_true, y_score, pos_label)
    return tuple(found.precision_recall_curve(drop_intermediate=drop_intermediate))


def det_curve(y_true, y_score, *, pos_label=None, drop_intermediate=False):
    found = evaluated(y_true, y_score, pos_label)
    return tuple(found.det_curve(drop_intermediate=drop_intermediate))


def roc_auc_score(y_true, y_score):
    return evaluated(y_true, y_score).auc.value


def average_precision_score(y_true, y_score, *, pos_label=1):
    return evaluated(y_true, y_score, pos_label).average_precision.value


OURS = {
    function.__name__: function
    for function in (
        *(roc_curve, precision_recall_curve, det_curve),
        *(roc_auc_score, average_precision_score),
    )
}


def cases():
    """Return each test with each of its parameters."""
    for name in TESTS:
        function = getattr(scikit, name)
        marks = [
            m for m in getattr(function, "pytestmark", ()) if m.name == "parametrize"
        ]
        tables = []
        for mark in marks:
            names = mark.args[0]
            if isinstance(names, str):
                names = [n.strip() for n in names.split(",")]
            rows = [r if len(names) > 1 else (r,) for r in mark.args[1]]
            tables.append([dict(zip(names, row, strict=True)) for row in rows])
        for number, row in enumerate(product(*tables)):
            given = {k: v for part in row for k, v in part.items()}
            yield pytest.param(function, given, id=f"{name}-{number}")


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(("function", "given"), list(cases()))
def test_a_test_of_scikit_learn_holds(function, given, monkeypatch):
    for name, ours in OURS.items():
        monkeypatch.setattr(scikit, name, ours)
    if (
        "global_random_seed"
        in function.__code__.co_varnames[: function.__code__.co_argcount]
    ):
        given = {**given, "global_random_seed": 7}
    function(**given)


def test_the_adapter_is_what_the_tests_call(monkeypatch):
    monkeypatch.setattr(scikit, "roc_curve", lambda *_, **__: ([0], [0], [0]))
    with pytest.raises((AssertionError, ValueError, IndexError)):
        scikit.test_roc_curve(True)
    assert UndefinedMetricWarning is not discreet.UndefinedMetricWarning
