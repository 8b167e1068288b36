"""scikit-learn's own tests of binary rankings, run on this package's exact sums.

The tests come with the installed scikit-learn. Its functions are replaced, in that
module alone, by ones that count every distinct score (``Support``) in a sum of one
site. What scikit-learn checks before it counts (types and shapes of labels, which one
is positive) it checks here too, by its own code, and its warnings about a missing class
are given in its words: both are the adapter's, every number is this package's. Tests
that need weights or several classes, and those of functions that this package does
not have, are not asked; ``docs/limitations.md`` lists them.
"""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import confusion_matrix_at_thresholds as scikit_confusion
from sklearn.metrics import det_curve as scikit_det
from sklearn.metrics import roc_auc_score as scikit_auc
from sklearn.metrics._base import _average_binary_score
from sklearn.metrics.tests import test_ranking as scikit
from sklearn.utils.multiclass import type_of_target

import discreet

TESTS = [
    "test_roc_curve",
    "test_roc_curve_end_points",
    "test_roc_returns_consistency",
    "test_roc_curve_multi",
    "test_roc_curve_confidence",
    "test_roc_curve_hard",
    "test_roc_curve_one_label",
    "test_roc_curve_toydata",
    "test_roc_curve_drop_intermediate",
    "test_roc_curve_with_probability_estimates",
    "test_auc_score_non_binary_class",
    "test_partial_roc_auc_score",
    "test_confusion_matrix_at_thresholds",
    "test_confusion_matrix_at_thresholds_multiclass_error",
    "test_confusion_matrix_at_thresholds_implicit_pos_label",
    "test_confusion_matrix_at_thresholds_implicit_bytes_pos_label",
    "test_precision_recall_curve",
    "test_precision_recall_curve_toydata",
    "test_precision_recall_curve_drop_intermediate",
    "test_average_precision_constant_values",
    "test_average_precision_score_binary_pos_label_errors",
    "test_score_scale_invariance",
    "test_det_curve_toydata",
    "test_det_curve_drop_intermediate",
    "test_det_curve_tie_handling",
    "test_det_curve_sanity_check",
    "test_det_curve_constant_scores",
    "test_det_curve_perfect_scores",
    "test_det_curve_bad_input",
    "test_det_curve_pos_label",
    "test_ranking_metric_pos_label_types",
]
WITHOUT = {
    "roc": "No {} samples in y_true, {} positive value should be meaningless",
    "auc": (
        "Only one class is present in y_true. "
        "ROC AUC score is not defined in that case."
    ),
    "pr": "No positive class found in y_true, recall is set to one for all thresholds.",
}


def evaluated(y_true, y_score, pos_label=None):
    """Count every distinct score of binary labels, once scikit-learn accepts them."""
    scikit_confusion(y_true, y_score, pos_label=pos_label)
    scores = np.asarray(y_score, dtype=np.float64).ravel()
    labels = np.asarray(y_true).ravel() == (1 if pos_label is None else pos_label)
    values = np.unique(scores)
    low, high = float(values[0]), float(values[-1])
    if low == high:
        high = low + 1.0
        values = np.append(values, high)
    site = discreet.Examples(scores, labels, kind="other", low=low, high=high)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.evaluate([site], edges=discreet.Support(tuple(values)))


def held(found):
    """Return how many positives and negatives were counted."""
    counts = found.reading.counts
    return counts.total_positives, counts.total_negatives


def roc_curve(y_true, y_score, *, pos_label=None, drop_intermediate=True):
    found = evaluated(y_true, y_score, pos_label)
    positives, negatives = held(found)
    if negatives == 0:
        message = WITHOUT["roc"].format("negative", "false")
        warnings.warn(message, UndefinedMetricWarning, stacklevel=2)
    if positives == 0:
        message = WITHOUT["roc"].format("positive", "true")
        warnings.warn(message, UndefinedMetricWarning, stacklevel=2)
    return tuple(found.roc_curve(drop_intermediate=drop_intermediate))


def precision_recall_curve(y_true, y_score, *, pos_label=None, drop_intermediate=False):
    found = evaluated(y_true, y_score, pos_label)
    if held(found)[0] == 0:
        warnings.warn(WITHOUT["pr"], UserWarning, stacklevel=2)
    return tuple(found.precision_recall_curve(drop_intermediate=drop_intermediate))


def det_curve(y_true, y_score, *, pos_label=None, drop_intermediate=False):
    scikit_det(y_true, y_score, pos_label=pos_label)  # refuses a single class
    found = evaluated(y_true, y_score, pos_label)
    return tuple(found.det_curve(drop_intermediate=drop_intermediate))


def confusion_matrix_at_thresholds(y_true, y_score, *, pos_label=None):
    curves = evaluated(y_true, y_score, pos_label).reading.curves
    tp, fp = curves.true_positives[1:], curves.false_positives[1:]
    return fp[-1] - fp, fp, tp[-1] - tp, tp, curves.thresholds[1:]


def roc_auc_score(y_true, y_score, *, average="macro", max_fpr=None):
    if max_fpr is not None:
        scikit_auc(y_true, y_score, max_fpr=max_fpr)  # refuses what is no rate

    def binary(labels, scores, sample_weight=None):
        assert sample_weight is None
        found = evaluated(labels, scores)
        if min(held(found)) == 0:
            warnings.warn(WITHOUT["auc"], UndefinedMetricWarning, stacklevel=2)
        if max_fpr in (None, 1):
            return found.auc.value
        return corrected(found.curves.roc, max_fpr)

    return over_columns(binary, y_true, y_score, average)


def corrected(roc, most):
    """Return the partial area of the curve up to a rate, by McClish's formula (5)."""
    line = roc.polyline(1)
    inside = line.x <= most
    x, y = line.x[inside], line.y[inside]
    ahead = int(np.count_nonzero(inside))
    if ahead < line.x.size:
        pair = slice(ahead - 1, ahead + 1)
        x, y = (
            np.append(x, most),
            np.append(y, np.interp(most, line.x[pair], line.y[pair])),
        )
    area = float(np.diff(x) @ (y[1:] + y[:-1])) / 2
    least = most * most / 2
    return (1 + (area - least) / (most - least)) / 2


def average_precision_score(y_true, y_score, *, average="macro", pos_label=1):
    if type_of_target(y_true) == "binary" and pos_label not in np.unique(y_true):
        labels = np.unique(y_true)
        if labels.size == 2:
            raise ValueError(
                f"pos_label={pos_label} is not a valid label. It should be one of {labels}"
            )

    def binary(labels, scores, sample_weight=None):
        assert sample_weight is None
        found = evaluated(labels, scores, pos_label)
        if held(found)[0] == 0:
            warnings.warn(WITHOUT["pr"], UserWarning, stacklevel=2)
        return found.average_precision.value

    return over_columns(binary, y_true, y_score, average)


def over_columns(binary, y_true, y_score, average):
    """Average a score over the columns of a table of labels as scikit-learn does."""
    if type_of_target(y_true) == "multilabel-indicator":
        return _average_binary_score(binary, y_true, y_score, average)
    return binary(y_true, y_score)


OURS = {
    function.__name__: function
    for function in (
        *(roc_curve, precision_recall_curve, det_curve),
        *(roc_auc_score, average_precision_score, confusion_matrix_at_thresholds),
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
            given = {k: ours(v) for part in row for k, v in part.items()}
            yield pytest.param(function, given, id=f"{name}-{number}")


def ours(value):
    """Return this package's function where a test is given one of scikit-learn's."""
    if callable(value) and getattr(value, "__module__", "").startswith("sklearn"):
        return OURS[value.__name__]
    return value


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
