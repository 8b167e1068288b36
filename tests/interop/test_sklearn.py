"""scikit-learn's own tests of binary metrics, run on this package's exact sums.

The tests come with the installed scikit-learn; in their modules its functions are
replaced by those below. Asked are the cases of binary labels without weights whose
metric this package has, and that look at numbers; ``docs/limitations.md`` lists the rest.

Every distinct score is counted (``Support``) in a sum of one site. What scikit-learn
checks before it counts (types and shapes of labels, which one is positive) it checks
here too, by its own code, and its warnings about a missing class are given in its words:
both are the adapter's, every number is this package's.
"""

import inspect
import warnings
from functools import partial
from itertools import product

import numpy as np
import pytest
import sklearn.calibration
import sklearn.metrics
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics._base import _average_binary_score
from sklearn.metrics.tests import test_classification, test_common, test_ranking
from sklearn.tests import test_calibration
from sklearn.utils.multiclass import type_of_target

import discreet
from discreet.metrics.calibration import calibration_curve as discreet_curve

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
    sklearn.metrics.confusion_matrix_at_thresholds(y_true, y_score, pos_label=pos_label)
    scores = np.asarray(y_score, dtype=np.float64).ravel()
    labels = np.asarray(y_true).ravel() == (1 if pos_label is None else pos_label)
    low, high = float(scores.min()), float(scores.max())
    if low == high:
        high = low + 1.0
    return counted(labels, scores, (low, high), kind="other", low=low, high=high)


def counted(labels, scores, ends, **kind):
    """Count every distinct score in a sum of one site; the ends have a bin as well."""
    site = discreet.Examples(scores, labels, **kind)
    values = np.unique(np.append(scores, ends))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.evaluate([site], edges=discreet.Support(tuple(values)))


def held(found):
    """Return how many positives and negatives were counted."""
    counts = found.fit.counts
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
    sklearn.metrics.det_curve(
        y_true, y_score, pos_label=pos_label
    )  # refuses a single class
    found = evaluated(y_true, y_score, pos_label)
    return tuple(found.curves.det(drop_intermediate=drop_intermediate))


def confusion_matrix_at_thresholds(y_true, y_score, *, pos_label=None):
    curves = evaluated(y_true, y_score, pos_label).fit.curves
    tp, fp = curves.true_positives[1:], curves.false_positives[1:]
    return fp[-1] - fp, fp, tp[-1] - tp, tp, curves.thresholds[1:]


def roc_auc_score(y_true, y_score, *, average="macro", max_fpr=None):
    # Refuses what is no rate, and labels and scores that do not go together.
    sklearn.metrics.roc_auc_score(y_true, y_score, max_fpr=max_fpr, average=average)

    def binary(labels, scores, sample_weight=None):
        assert sample_weight is None
        found = evaluated(labels, scores, np.unique(labels)[-1])
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


def brier_score_loss(
    y_true, y_proba, *, pos_label=None, labels=None, scale_by_half="auto"
):
    given = {"pos_label": pos_label, "labels": labels, "scale_by_half": scale_by_half}
    sklearn.metrics.brier_score_loss(y_true, y_proba, **given)
    labels, scores = (last_column(y) for y in (y_true, y_proba))
    if pos_label is None:
        pos_label = labels.max() if np.unique(labels).size > 1 else 1
    scores = scores.astype(np.float64)
    found = counted(labels == pos_label, scores, (0.0, 1.0), kind="probability")
    return found.brier.value * (2 if scale_by_half is False else 1)


def last_column(values):
    """Return a vector; of a table of two classes the positive's column."""
    table = np.asarray(values)
    return table[:, 1] if table.ndim == 2 and table.shape[1] == 2 else table.ravel()


def at_predictions(name, scikit, y_true, y_pred, **given):
    """Return a rate of predicted labels, once scikit-learn accepts them.

    Where there is nothing to divide by, scikit-learn says what stands for it.
    """
    theirs = scikit(y_true, y_pred, **given)
    labels, predicted = (np.asarray(y).ravel() for y in (y_true, y_pred))
    known = inspect.signature(scikit).parameters
    if "pos_label" in known:
        positive = given.get("pos_label", known["pos_label"].default)
    else:  # an even-handed measure: either label will do
        positive = np.unique(np.concatenate([labels, predicted]))[-1]
    calls = (predicted == positive).astype(np.float64)
    found = counted(labels == positive, calls, (0.0, 1.0), kind="probability")
    value = found.at(1.0)[name].value
    return float(theirs) if np.isnan(value) else value


def rate(function, name, **fixed):
    """Return this package's rate in place of a function of scikit-learn."""
    scikit = getattr(sklearn.metrics, function)
    ours = partial(at_predictions, name, scikit, **fixed)
    ours.__name__ = function
    ours.__signature__ = inspect.signature(scikit)
    return ours


def calibration_curve(y_true, y_prob, *, pos_label=None, n_bins=5, strategy="uniform"):
    given = {"pos_label": pos_label, "n_bins": n_bins, "strategy": strategy}
    sklearn.calibration.calibration_curve(y_true, y_prob, **given)
    labels = np.asarray(y_true) == (1 if pos_label is None else pos_label)
    scores = np.asarray(y_prob, dtype=np.float64)
    found = counted(labels, scores, (0.0, 1.0), kind="probability")
    kind = "width" if strategy == "uniform" else "mass"
    curve = discreet_curve(found.fit.counts, n_bins, kind)
    return curve.rate, curve.predicted


F_BETA = {2: "f2", 0.5: "f_half", 1: "f1"}


def fbeta_score(y_true, y_pred, *, beta, pos_label=1, **given):
    given |= {"beta": beta, "pos_label": pos_label}
    scikit = sklearn.metrics.fbeta_score
    return at_predictions(F_BETA[beta], scikit, y_true, y_pred, **given)


OURS = {
    function.__name__: function
    for function in (
        *(roc_curve, precision_recall_curve, det_curve),
        *(roc_auc_score, average_precision_score, confusion_matrix_at_thresholds),
        *(brier_score_loss, fbeta_score, calibration_curve),
        rate("accuracy_score", "accuracy"),
        rate("balanced_accuracy_score", "balanced_accuracy"),
        rate("precision_score", "precision"),
        rate("recall_score", "recall"),
        rate("f1_score", "f1"),
        rate("matthews_corrcoef", "mcc"),
        rate("cohen_kappa_score", "kappa"),
    )
}


def cases(module, names):
    """Return each test of a module with each of its parameters that is asked."""
    for name in names:
        function = getattr(module, name)
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
            if asked(**given):
                yield pytest.param(function, given, id=f"{name}-{number}")


def ours(value):
    """Return this package's function where a test is given one of scikit-learn's."""
    if isinstance(value, partial):
        return partial(ours(value.func), *value.args, **value.keywords)
    if callable(value) and getattr(value, "__module__", "").startswith("sklearn"):
        return OURS[value.__name__]
    return value


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
TESTS = {
    test_ranking: [
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
    ],
    test_common: [
        "test_symmetric_metric",
        "test_not_symmetric_metric",
        "test_sample_order_invariance",
        "test_format_invariance_with_1d_vectors",
        "test_classification_invariance_string_vs_numbers_labels",
        "test_continuous_classification_invariance_string_vs_numbers_labels",
        "test_single_sample",
        "test_metrics_dataframe_series",
        "test_returned_value_consistency",
    ],
    test_classification: [
        "test_average_precision_score_duplicate_values",
        "test_average_precision_score_tied_values",
        "test_matthews_corrcoef_against_numpy_corrcoef",
        "test_brier_score_loss_binary",
        "test_balanced_accuracy_score_unseen",
        "test_classification_metric_pos_label_types",
        "test_f1_for_small_binary_inputs_with_zero_division",
    ],
    test_calibration: [
        "test_calibration_curve",
        "test_calibration_curve_pos_label",
    ],
}


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
    [case for module, names in TESTS.items() for case in cases(module, names)],
)
def test_a_test_of_scikit_learn_holds(function, given, monkeypatch):
    for module, (name, replacement) in product(TESTS, OURS.items()):
        monkeypatch.setattr(module, name, replacement, raising=False)
    for table in TABLES:
        for name, metric in getattr(test_common, table).items():
            if name in RANKINGS | RATES and name != "precision_recall_curve":
                monkeypatch.setitem(getattr(test_common, table), name, ours(metric))
    given = {name: ours(value) for name, value in given.items()}
    if "global_random_seed" in inspect.signature(function).parameters:
        given["global_random_seed"] = 7
    function(**given)


def test_the_adapter_is_what_the_tests_call(monkeypatch):
    monkeypatch.setattr(test_ranking, "roc_curve", lambda *_, **__: ([0], [0], [0]))
    with pytest.raises((AssertionError, ValueError, IndexError)):
        test_ranking.test_roc_curve(True)
    assert UndefinedMetricWarning is not discreet.UndefinedMetricWarning
