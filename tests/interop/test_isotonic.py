"""Recalibration against scikit-learn, which shares no code with ours."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import calibration_curve as sklearn_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet.data.edges import Edges, Support, Warped
from discreet.estimate.fit import Flat
from discreet.metrics.calibration import calibration_curve
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.noise.mechanism import NoNoise
from discreet.recalibrate import as_transformer
from discreet.recalibrate.choose import LogisticMap
from discreet.recalibrate.stepwise import fit_isotonic
from discreet.statistic.observed import NoisyHistogram

pytestmark = pytest.mark.interop

VALUES = tuple(k / 40 for k in range(1, 40))
KNOWN = Edges.realise(Support(VALUES))


def draw(size, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 2.0, size)
    labels = (rng.random(size) < 1 / (1 + np.exp(-(0.5 + 1.4 * z)))).astype(int)
    scores = 1 / (1 + np.exp(-z))
    grid = np.asarray(VALUES)
    return grid[np.abs(scores[:, None] - grid).argmin(axis=1)], labels


def counted(scores, labels, edges):
    place = edges.bins_of(scores).astype(np.int64)
    n, p = (
        np.bincount(place[labels == y], minlength=len(edges)).astype(float)
        for y in (0, 1)
    )
    return NoisyHistogram(edges, n, p, NoNoise()), place


@pytest.mark.parametrize("bins", [8, 24, 40])
def test_isotonic_is_that_of_the_binned_scores(bins):
    """Every bin is a run of its own while there are many examples a bin."""
    scores, labels = draw(8_000, bins)
    edges = Edges.realise(Warped(bins))
    counts, place = counted(scores, labels, edges)
    fitted = fit_isotonic(counts, counts)
    theirs = IsotonicRegression().fit(place, labels)
    assert fitted.apply(scores) == pytest.approx(theirs.predict(place))


def test_platt_and_coxs_line_are_logistic_regression():
    scores, labels = draw(8_000, 1)
    counts, _ = counted(scores, labels, KNOWN)
    z = np.log(scores / (1 - scores))
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    theirs.fit(z[:, None], labels)
    said = theirs.predict_proba(z[:, None])[:, 1]
    curve = LogisticMap.fitted("platt", counts).curve
    assert curve.apply(scores) == pytest.approx(said, abs=1e-5)
    slope, intercept = (
        measure(METRICS[f"calibration_{name}"], Flat().fit(counts)).value
        for name in ("slope", "intercept")
    )
    assert slope == pytest.approx(theirs.coef_[0, 0], abs=1e-6)
    assert intercept == pytest.approx(theirs.intercept_[0], abs=1e-6)


def test_beta_calibration_is_logistic_regression_on_two_logarithms():
    scores, labels = draw(8_000, 2)
    counts, _ = counted(scores, labels, KNOWN)
    features = np.column_stack([np.log(scores), -np.log1p(-scores)])
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    said = theirs.fit(features, labels).predict_proba(features)[:, 1]
    assert (theirs.coef_ > 0).all()  # else ours holds a slope at 0
    curve = LogisticMap.fitted("beta", counts).curve
    assert curve.apply(scores) == pytest.approx(said, abs=1e-5)


def test_the_curve_is_theirs_on_known_values():
    scores, labels = draw(3_000, 3)
    # They close bins above, we close them below: 8 bins of 1/8 share no value.
    inside = ~np.isin(scores * 8, np.arange(9))
    rate, predicted = sklearn_curve(labels[inside], scores[inside], n_bins=8)
    counts, _ = counted(scores[inside], labels[inside], KNOWN)
    found = calibration_curve(counts, 8)
    assert found.rate == pytest.approx(rate)
    assert found.predicted == pytest.approx(predicted)


def test_the_transformer_is_a_step_of_a_pipeline_and_can_be_cloned():
    scores, labels = draw(3_000, 4)
    counts, _ = counted(scores, labels, KNOWN)
    fitted = fit_isotonic(counts, counts)
    twin = clone(as_transformer(fitted))
    steps = make_pipeline(FunctionTransformer(), twin)
    found = steps.fit(scores[:, None]).transform(scores[:, None])
    assert found[:, 0] == pytest.approx(fitted.apply(scores))
    assert as_transformer(fitted).fit_transform(scores[:, None]).shape == (3_000, 1)
    named = twin.set_output(transform="pandas").fit_transform(scores[:, None])
    assert list(named.columns) == ["x0"]
