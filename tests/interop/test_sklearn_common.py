"""scikit-learn's tests that hold for every metric, and those of rates, on exact sums.

As ``test_sklearn_ranking.py``: the installed scikit-learn's own tests, its functions
replaced by those of ``tests/sklearn_adapter.py``. Asked are the cases of binary labels
without weights whose metric this package has, and that look at numbers: what is no
input scikit-learn's own code refuses before the adapter counts.
"""

from functools import partial

import pytest
from sklearn.metrics.tests import test_classification, test_common
from sklearn.tests import test_calibration

from sklearn_adapter import OURS, called, cases, ours

RANKINGS = {
    *("roc_auc_score", "weighted_roc_auc", "micro_roc_auc", "partial_roc_auc"),
    *("average_precision_score", "weighted_average_precision_score"),
    *("micro_average_precision_score", "brier_score_loss"),
    *("roc_curve", "precision_recall_curve", "det_curve"),
    "confusion_matrix_at_thresholds",
}
RATES = {
    *("accuracy_score", "balanced_accuracy_score", "precision_score", "recall_score"),
    *("f1_score", "f2_score", "f0.5_score", "matthews_corrcoef_score"),
    "cohen_kappa_score",
}
TABLES = (
    *("ALL_METRICS", "CONTINUOUS_CLASSIFICATION_METRICS", "CLASSIFICATION_METRICS"),
    "CURVE_METRICS",
)
COMMON = [
    "test_symmetric_metric",
    "test_not_symmetric_metric",
    "test_sample_order_invariance",
    "test_format_invariance_with_1d_vectors",
    "test_classification_invariance_string_vs_numbers_labels",
    "test_continuous_classification_invariance_string_vs_numbers_labels",
    "test_single_sample",
    "test_metrics_dataframe_series",
    "test_returned_value_consistency",
]
CLASSIFICATION = [
    "test_average_precision_score_duplicate_values",
    "test_average_precision_score_tied_values",
    "test_matthews_corrcoef_against_numpy_corrcoef",
    "test_brier_score_loss_binary",
    "test_balanced_accuracy_score_unseen",
    "test_classification_metric_pos_label_types",
    "test_f1_for_small_binary_inputs_with_zero_division",
]
CALIBRATION = [
    "test_calibration_curve",
    "test_calibration_curve_pos_label",
]


def known(metric):
    """Say whether this package has a function in place of one of scikit-learn's."""
    function = metric.func if isinstance(metric, partial) else metric
    allowed = {"beta", "max_fpr"}
    given = set(metric.keywords) if isinstance(metric, partial) else set()
    return getattr(function, "__name__", "") in OURS and given <= allowed


def asked(metric=None, name=None, metric_name=None, y_score=(), **_):
    """Say whether a case is binary and of a metric that this package has."""
    table = name or metric_name
    if table is not None and table not in RANKINGS | RATES:
        return False
    if getattr(y_score, "ndim", 1) > 1:  # several classes
        return False
    return metric is None or known(metric)


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(
    ("function", "given"),
    [
        *cases(test_common, COMMON, asked),
        *cases(test_classification, CLASSIFICATION, asked),
        *cases(test_calibration, CALIBRATION, asked),
    ],
)
def test_a_test_of_scikit_learn_holds(function, given, monkeypatch):
    for module in (test_common, test_classification, test_calibration):
        for name, replacement in OURS.items():
            monkeypatch.setattr(module, name, replacement, raising=False)
    for table in TABLES:
        for name, metric in getattr(test_common, table).items():
            if name in RANKINGS | RATES and name != "precision_recall_curve":
                monkeypatch.setitem(getattr(test_common, table), name, ours(metric))
    called(function, given)
