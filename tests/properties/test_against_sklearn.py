"""The linear estimator equals scikit-learn on the binned scores."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

import discreet
from discreet.data.edges import Edges, Uniform, Warped
from fuzzing import draws

RULES = [Uniform(7), Warped(32), Warped(1024)]
site = st.lists(
    st.tuples(st.integers(0, 40).map(lambda k: k / 40), st.integers(0, 1)),
    max_size=30,
)
federation = st.lists(site, min_size=1, max_size=4)
TOLERANCE = 1e-12


def binned(rows, rule):
    edges = Edges.realise(rule, thresholds=(0.5,))
    scores = np.array([s for s, _ in rows])
    labels = np.array([y for _, y in rows])
    return edges.array[edges.bins_of(scores)], labels


def evaluated(sites, rule):
    examples = [
        discreet.Examples([s for s, _ in rows], [y for _, y in rows]) for rows in sites
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.evaluate(examples, edges=rule, interpolation="linear")


def pooled(sites):
    return [row for rows in sites for row in rows]


def both_classes(sites):
    return {y for _, y in pooled(sites)} == {0, 1}


@pytest.mark.parametrize("rule", RULES, ids=str)
@draws(60)
@given(sites=federation.filter(both_classes))
def test_areas_and_points_equal_scikit_learn_on_binned_scores(rule, sites):
    result = evaluated(sites, rule)
    s, y = binned(pooled(sites), rule)
    precision, recall, _ = metrics.precision_recall_curve(y, s)
    areas = {
        "auc": metrics.roc_auc_score(y, s),
        "average_precision": metrics.average_precision_score(y, s),
        "aupr": metrics.auc(recall, precision),
    }
    for name, area in areas.items():
        found = result.metrics[name].value
        assert found == pytest.approx(area, abs=TOLERANCE, rel=0)
    curves = [
        (result.roc_curve(), metrics.roc_curve(y, s, drop_intermediate=False)),
        (result.precision_recall_curve(), metrics.precision_recall_curve(y, s)),
        (
            result.curves.det(drop_intermediate=True),
            metrics.det_curve(y, s, drop_intermediate=True),
        ),
    ]
    for ours, theirs in curves:
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=TOLERANCE, rtol=0)


@draws(60)
@given(sites=federation.filter(pooled), k=st.integers(0, 15))
def test_thresholded_metrics_equal_scikit_learn_at_every_edge(sites, k):
    rule, t = Uniform(16), k / 16
    result = evaluated(sites, rule)
    s, y = binned(pooled(sites), rule)
    chosen = (s >= t).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at = result.at(t)
        result.at(1.0)  # a score of 1 lies inside the closed last bin
    nan = {"zero_division": np.nan}
    tn, fp, fn, tp = metrics.confusion_matrix(y, chosen, labels=[0, 1]).ravel()
    expected = {
        "precision": metrics.precision_score(y, chosen, **nan),
        "recall": metrics.recall_score(y, chosen, **nan),
        "specificity": metrics.recall_score(1 - y, 1 - chosen, **nan),
        "accuracy": metrics.accuracy_score(y, chosen),
        "f1": metrics.f1_score(y, chosen, **nan),
        "true_negatives": tn,
        "false_positives": fp,
        "false_negatives": fn,
        "true_positives": tp,
    }
    for name, value in expected.items():
        found = getattr(at, name).value
        assert found == pytest.approx(value, abs=TOLERANCE, nan_ok=True), name


@pytest.mark.usefixtures("small_is_fine")
def test_brier_score_of_fine_bins_is_scikit_learns(rng):
    s = rng.random(5000)
    y = rng.random(5000) < s
    result = discreet.evaluate([discreet.Examples(s, y)], edges=Uniform(4096))
    exact = metrics.brier_score_loss(y, s)
    assert result.brier.value == pytest.approx(exact, abs=1e-6)
    assert result.brier.binning.low <= exact <= result.brier.binning.high


@pytest.mark.usefixtures("small_is_fine")
@pytest.mark.parametrize("how", ["macro", "weighted"])
def test_multi_class_averages_equal_scikit_learn(rng, how):
    n, k = 3000, 4
    y = rng.choice(k, n, p=[0.5, 0.25, 0.15, 0.1])
    raw = rng.normal(size=(n, k)) + 1.5 * np.eye(k)[y]
    s = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    names = ["a", "b", "c", "d"]
    text = np.array(names)[y]
    sites = [
        discreet.Examples(s[rows], text[rows], classes=names)
        for rows in (slice(0, 100), slice(100, 100), slice(100, n))
    ]
    result = discreet.evaluate(
        sites,
        classes=names,
        multiclass="ovo",
        edges=Uniform(512),
        interpolation="linear",
    )
    edges = Edges.realise(Uniform(512))
    low = edges.array[edges.bins_of(s.ravel())].reshape(s.shape)

    def pair(a, b):
        rows = (y == a) | (y == b)
        return (
            metrics.roc_auc_score(y[rows] == a, low[rows, a])
            + metrics.roc_auc_score(y[rows] == b, low[rows, b])
        ) / 2

    one_vs_rest = metrics.roc_auc_score(np.eye(k)[y], low, average=how)
    assert result.average("auc", how).value == pytest.approx(one_vs_rest, abs=1e-12)
    pairs = [(a, b) for a in range(k) for b in range(a + 1, k)]
    weights = [np.isin(y, p).mean() if how == "weighted" else 1 for p in pairs]
    expected = np.average([pair(a, b) for a, b in pairs], weights=weights)
    assert result.average_pairs(how).value == pytest.approx(expected, abs=1e-12)
    assert result["c"].auc.value == pytest.approx(
        metrics.roc_auc_score(y == 2, low[:, 2]), abs=1e-12
    )
