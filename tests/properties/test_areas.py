"""Areas between curves against quadrature; binning limits of areas by brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

import discreet
import oracles
from discreet.estimate.areas import auc_limits, aupr_limits, average_precision_limits
from discreet.estimate.curves import Polyline, PrPath, RocPath
from fuzzing import draws

rates = st.lists(st.integers(0, 20), min_size=1, max_size=8).map(
    lambda steps: np.append(0, np.cumsum(steps)) / max(sum(steps), 1)
)


def curve(fpr, tpr, interpolation="linear"):
    size = min(len(fpr), len(tpr))
    f, t = fpr[:size].copy(), tpr[:size].copy()
    f[-1] = t[-1] = 1.0
    return RocPath(f, t, interpolation)


def by_quadrature(first, second, points, *, pieces=1):
    """Integrate between knots; pieces keep the kink where curves cross harmless."""

    def gap(x):
        return abs(first(x) - second(x))

    inner = np.unique(points[(points > 0) & (points < 1)])
    knots = np.concatenate([[0.0], inner, [1.0]])
    steps = np.arange(pieces) / pieces
    cuts = np.append((knots[:-1, None] + np.diff(knots)[:, None] * steps).ravel(), 1.0)
    return sum(quad(gap, a, b, limit=200)[0] for a, b in itertools.pairwise(cuts))


def of_polyline(line):
    # Right limits; jumps have measure zero.
    return lambda x: np.interp(x, line.x, line.y)


@draws(80)
@given(a=rates, b=rates, c=rates, d=rates)
def test_piecewise_linear_curves_are_integrated_exactly(a, b, c, d):
    first, second = curve(a, b), curve(c, d)
    one, two = first.polyline(1), second.polyline(1)
    expected = by_quadrature(
        of_polyline(one),
        of_polyline(two),
        np.concatenate([one.x, two.x]),
        pieces=16,
    )
    assert discreet.area_error(first, second) == pytest.approx(expected, abs=1e-7)


def test_steps_that_cross_a_line_leave_two_triangles_each():
    recall, precision = [0.0, 0.5, 1.0], [1.0, 0.75, 0.25]
    steps = Polyline.steps(recall, precision)
    line = Polyline.of([0.0, 1.0], [1.0, 0.0])
    # Steps at 3/4 and 1/4; the line crosses each at the middle of its step.
    assert discreet.area_error(steps, line) == pytest.approx(0.125)


def knots(rng, n):
    f = np.append(0, np.cumsum(rng.random(n)))
    t = np.append(0, np.cumsum(rng.random(n) * np.linspace(2, 0.2, n)))
    return f / f[-1], t / t[-1]


@pytest.mark.parametrize("draw", range(6))
def test_pchip_and_hyperbolic_curves_are_refined_to_the_tolerance(draw):
    rng = np.random.default_rng(draw)
    smooth = RocPath(*knots(rng, 9), "pchip")
    straight = RocPath(*knots(rng, 6), "linear")

    def tpr(path):
        f, t = path.at(path.places(20_000))
        return lambda x: np.interp(x, f, t)

    expected = by_quadrature(
        tpr(smooth), tpr(straight), np.append(smooth.fpr, straight.fpr)
    )
    assert discreet.area_error(smooth, straight) == pytest.approx(expected, abs=3e-7)

    def precision(path, p, n):
        # Invert T on the fine grid, then apply the definition.
        f, t = path.at(path.places(20_000))
        return lambda recall: p * recall / (p * recall + n * np.interp(recall, t, f))

    one, two = PrPath(smooth, 30.0, 70.0), PrPath(straight, 30.0, 70.0)
    expected = by_quadrature(
        precision(smooth, 30, 70),
        precision(straight, 30, 70),
        np.append(smooth.tpr, straight.tpr),
    )
    assert discreet.area_error(one, two) == pytest.approx(expected, abs=1e-6)


def test_merged_duplicate_knots_keep_the_ends_and_pchip_works():
    fpr = np.array([0.0, 0.2, 0.2, 0.2, 0.7, 1.0, 1.0])
    tpr = np.array([0.0, 0.5, 0.5, 0.5, 0.9, 1.0, 1.0])
    path = RocPath(fpr, tpr, "pchip")
    w, f, t = path.knots
    assert (np.diff(w) > 0).all()
    assert (f[0], t[0], f[-1], t[-1]) == (0, 0, 1, 1)
    line = path.polyline(8)
    assert (np.diff(line.x) >= 0).all()
    assert (np.diff(line.y) >= 0).all()


def test_a_segment_that_hardly_rises_overflows_nothing():
    fpr = np.array([0.0, 0.2, 0.6, 1.0])
    tpr = np.array([0.0, 0.5, 0.5 + 1e-320, 1.0])
    path = RocPath(fpr, tpr, "pchip")
    tiny = RocPath(
        np.array([0.0, 0.3, 0.7, 1.0]), np.array([0.0, 1e-320, 0.6, 1.0]), "pchip"
    )
    for one in (path, tiny):
        line = one.polyline(8)
        assert np.isfinite(line.y).all()
        assert (np.diff(line.y) >= 0).all()


METRICS = {
    "auc": (oracles.auc_by_pairs, auc_limits),
    "average precision": (oracles.average_precision, average_precision_limits),
    "trapezoid AUPR": (oracles.trapezoid_aupr, aupr_limits),
}
counts = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3
).filter(
    lambda bins: (
        sum(n for n, _ in bins) > 0
        and sum(p for _, p in bins) > 0
        and sum(n + p for n, p in bins) <= 5
    )
)


@pytest.mark.parametrize("metric", METRICS)
@draws(80)
@given(bins=counts)
def test_limits_are_the_extremes_over_all_arrangements(metric, bins):
    value, limits = METRICS[metric]
    negatives = [n for n, _ in bins]
    positives = [p for _, p in bins]
    found = [value(s, y) for s, y in oracles.arrangements(negatives, positives)]
    low, high = limits(np.array(negatives, float), np.array(positives, float))
    assert low == pytest.approx(min(found), abs=1e-12)
    assert high == pytest.approx(max(found), abs=1e-12)
