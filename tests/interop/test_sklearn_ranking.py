"""scikit-learn's own tests of binary rankings, run on this package's exact sums.

The tests come with the installed scikit-learn; its functions are replaced, in that
module alone, by those of ``tests/sklearn_adapter.py``. Tests that need weights or several
classes, and those of functions that this package does not have, are not asked;
``docs/limitations.md`` lists them.
"""

import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics.tests import test_ranking as scikit

import discreet
from sklearn_adapter import OURS, called, cases

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


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(("function", "given"), list(cases(scikit, TESTS)))
def test_a_test_of_scikit_learn_holds(function, given, monkeypatch):
    for name, replacement in OURS.items():
        monkeypatch.setattr(scikit, name, replacement, raising=False)
    called(function, given)


def test_the_adapter_is_what_the_tests_call(monkeypatch):
    monkeypatch.setattr(scikit, "roc_curve", lambda *_, **__: ([0], [0], [0]))
    with pytest.raises((AssertionError, ValueError, IndexError)):
        scikit.test_roc_curve(True)
    assert UndefinedMetricWarning is not discreet.UndefinedMetricWarning
