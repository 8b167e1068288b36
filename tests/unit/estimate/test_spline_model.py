"""The smooth model's parts: its likelihood, splines, fit and evidence."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.errors import InputError
from discreet.estimate import spline_model
from discreet.estimate.spline_model import (
    ModelAverage,
    Response,
    Smoothness,
    SplineFit,
    SplineModel,
    _natural_basis,
    _roughness,
    average,
    information,
    log_density_and_pull,
    symmetric_average,
)
from discreet.noise.laplace import simulate_discrete_laplace
from histograms import following

pytestmark = pytest.mark.long

PLAIN = Smoothness(3.0, 25.0, 1.0)
MIXED = Smoothness(3.0, 25.0, 1.0, floor=0.1, ceiling=0.3)


def density(x, variance, scale):
    return log_density_and_pull(
        np.asarray(x), np.full(np.shape(x), variance), np.full(np.shape(x), scale)
    )


@pytest.mark.parametrize(
    ("variance", "scale"), [(0.05, 1.0), (4.0, 1.0), (900.0, 10.0)]
)
def test_the_likelihood_is_the_convolution_of_a_normal_and_a_laplace(variance, scale):
    sd = np.sqrt(variance)
    # Simpson's rule on either side of the Laplace density's kink.
    noise = np.linspace(0, 40 * scale, 40_001)
    weights = np.r_[1, np.tile([4, 2], 20_000)[:-1], 1] * (noise[1] / 3)
    laplace = np.exp(-noise / scale) / (2 * scale)
    for x in (-3.0 * scale, 0.0, 0.7 * sd, 5 * sd):
        both = sum(
            np.exp(-((x - side * noise) ** 2) / (2 * variance)) for side in (-1, 1)
        ) / np.sqrt(2 * np.pi * variance)
        expected = float(weights @ (laplace * both))
        found, _ = density([x], variance, scale)
        assert np.exp(found[0]) == pytest.approx(expected, rel=1e-6)


def test_the_pull_is_minus_the_slope_of_the_log_density_and_bounded():
    x = np.linspace(-60, 60, 241)
    _, pull = density(x, 3.0, 2.0)
    ahead, _ = density(x + 1e-5, 3.0, 2.0)
    behind, _ = density(x - 1e-5, 3.0, 2.0)
    np.testing.assert_allclose(pull, (behind - ahead) / 2e-5, atol=1e-6)
    assert np.abs(pull).max() <= 1 / 2.0


def test_the_likelihood_stays_finite_far_out():
    x = np.array([-1e7, 1e7])
    for variance, scale in ((0.05, 0.01), (1e6, 1.0), (0.05, 1e3)):
        found, pull = density(x, variance, scale)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(np.abs(pull), 1 / scale)


@pytest.mark.parametrize("variance", [1e-3, 0.1, 1.0, 10.0, 1e3])
def test_the_information_is_within_one_percent(variance):
    x = np.linspace(-1, 1, 200_001) * 40 * (np.sqrt(variance) + 1)
    log_density, pull = density(x, variance, 1.0)
    expected = float(np.sum(np.exp(log_density) * pull**2)) * (x[1] - x[0])
    found = information(np.array([variance]), np.array([1.0]))[0]
    assert found == pytest.approx(expected, rel=0.01)


def test_the_basis_interpolates_and_extends_straight_lines():
    knots = np.array([-3.0, -1.0, 0.0, 0.5, 2.0])
    at_knots = _natural_basis(knots, knots)
    np.testing.assert_allclose(at_knots, np.eye(5), atol=1e-12)
    z = np.linspace(-9, 9, 50)
    line = _natural_basis(knots, z) @ (2 - 3 * knots)
    np.testing.assert_allclose(line, 2 - 3 * z, atol=1e-9)


def test_the_roughness_is_the_integral_of_the_squared_second_derivative(rng):
    from scipy.interpolate import CubicSpline

    knots = np.sort(rng.normal(size=7))
    values = rng.normal(size=7)
    second = CubicSpline(knots, values, bc_type="natural").derivative(2)
    # s'' is linear between knots: Simpson's rule is exact for its square.
    ends, middle = second(knots) ** 2, second((knots[1:] + knots[:-1]) / 2) ** 2
    expected = float(np.diff(knots) @ (ends[:-1] + 4 * middle + ends[1:])) / 6
    assert values @ _roughness(knots) @ values == pytest.approx(expected)
    line = 1 + 2 * knots
    assert line @ _roughness(knots) @ line == pytest.approx(0, abs=1e-9)


def platt_means(bins, size=20_000):
    """Expected counts with log-odds linear in the logit of the place."""
    u = (np.arange(bins) + 0.5) / bins
    z = np.log(u / (1 - u))
    total = np.exp(-0.05 * (z + 1) ** 2)
    rate = 1 / (1 + np.exp(1 - 1.5 * z))
    return size * np.stack([total * (1 - rate), total * rate]) / total.sum()


def release(rng, bins=20, scale=10.0):
    exact = rng.poisson(platt_means(bins)).astype(np.float64)
    return exact, exact + simulate_discrete_laplace(scale, exact.shape, rng)


def model_of(counts, scale=10.0):
    bins = counts.shape[1]
    return SplineModel(
        counts,
        noise_scale=np.full(counts.shape, scale),
        places=np.linspace(0, 1, bins + 1),
    )


@pytest.fixture
def model(rng):
    return model_of(release(rng)[1])


@pytest.mark.parametrize("smooth", [PLAIN, MIXED])
def test_the_jacobian_is_the_derivative_of_the_expected_counts(model, smooth):
    theta, penalty = model.start(), model._penalty(smooth)
    jacobian, *_ = model._curvature(model._predict(theta, smooth, penalty), penalty)
    for k in range(0, theta.size, 7):
        nudge = np.zeros_like(theta)
        nudge[k] = 1e-6
        up = model._predict(theta + nudge, smooth, penalty).means
        down = model._predict(theta - nudge, smooth, penalty).means
        slope = ((up - down) / 2e-6).ravel()
        np.testing.assert_allclose(jacobian[:, k], slope, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smooth", [PLAIN, MIXED])
def test_the_fit_is_a_maximum_of_the_penalised_likelihood(rng, model, smooth):
    fit = model.fit(smooth, model.start())
    penalty = model._penalty(smooth)
    best = model._predict(fit.theta, smooth, penalty).objective
    for _ in range(50):
        step = rng.normal(size=fit.theta.size)
        other = model._predict(fit.theta + 0.05 * step, smooth, penalty).objective
        assert other < best + 1e-3


def test_another_start_reaches_the_same_fit(model):
    first = model.fit(PLAIN, model.start())
    second = model.fit(PLAIN, np.zeros_like(model.start()))
    assert second.log_evidence == pytest.approx(first.log_evidence, abs=0.01)
    np.testing.assert_allclose(
        second.cells.sum(axis=2), first.cells.sum(axis=2), atol=0.3
    )


def test_smooth_counts_are_nearer_to_the_truth_than_the_released_ones(rng):
    before, after = [], []
    for _ in range(20):
        exact, noisy = release(rng, scale=40.0)
        cells = average(model_of(noisy, scale=40.0)).cells
        before.append(np.abs(noisy - exact).mean())
        after.append(np.abs(cells.sum(axis=2) - exact).mean())
    # The noise is 2.5 times the sampling error: about half of it can go.
    assert np.mean(after) < 0.6 * np.mean(before)


def test_little_noise_leaves_the_real_counts_alone(rng):
    exact = rng.poisson(platt_means(20)).astype(np.float64)
    exact[:, 7] *= 1.5  # a real bump that no smooth curve has
    cells = average(model_of(exact, scale=0.5)).cells
    np.testing.assert_allclose(cells.sum(axis=2), exact, atol=2.0)


def test_the_evidence_prefers_a_straight_line_for_scores_off_by_platt_scaling(model):
    straight = model.fit(Smoothness(3.0, 1e4, 1.0), model.start())
    bent = model.fit(Smoothness(3.0, 1e-3, 1.0), model.start())
    assert straight.log_evidence > bent.log_evidence + 2


def test_the_evidence_sees_that_counts_are_rougher_than_a_sample(rng):
    smooth, rough = (
        rng.gamma(1 / spread, spread, size=(2, 40)) * platt_means(40)
        for spread in (1e-6, 0.1)
    )
    for counts, wanted in ((rng.poisson(smooth), 1.0), (rng.poisson(rough), 64.0)):
        model = model_of(counts.astype(np.float64), scale=1.0)
        found = {
            phi: model.fit(Smoothness(3.0, 25.0, phi), model.start()).log_evidence
            for phi in (1.0, 64.0)
        }
        assert max(found, key=found.get) == wanted


def test_the_response_says_how_counts_move_with_the_released_ones(rng):
    exact, noisy = release(rng, scale=5.0)
    smoothness = Smoothness(3.2, 25.6, 1.0)
    model = model_of(noisy, scale=5.0)
    fit = model.fit(smoothness, model.start())
    bins = exact.shape[1]
    # Averaged over noise: the pull of one count follows the law, not a straight line.
    slopes = []
    for _ in range(40):
        drawn = rng.normal(0, 3.0, (2, bins))
        shift = np.zeros((2, bins))
        shift[:, bins // 2] = 10.0
        ends = [
            model_of(noisy + drawn + side * shift, scale=5.0)
            .fit(smoothness, fit.theta)
            .cells.sum(axis=2)
            for side in (-1, 1)
        ]
        slopes.append((ends[1] - ends[0]).ravel() / 20)
    every = model.response(fit)(np.eye(2 * bins))
    wanted = every[:, bins // 2] + every[:, bins + bins // 2]
    np.testing.assert_allclose(np.mean(slopes, axis=0), wanted, atol=0.08)
    assert wanted[bins // 2] > 0.5


def test_the_model_refuses_what_it_is_not_for():
    places = np.linspace(0, 1, 6)
    with pytest.raises(InputError, match="4 bins"):
        model_of(np.ones((2, 3)))
    with pytest.raises(InputError, match="two rows"):
        SplineModel(np.ones((2, 4)), noise_scale=np.ones((2, 5)), places=places)
    with pytest.raises(InputError, match="exact ones need none"):
        SplineModel(np.ones((2, 5)), noise_scale=np.zeros((2, 5)), places=places)


class Landscape:
    """Stands for a model: evidence peaks at one smoothness, counts name theirs."""

    def __init__(self, peak, evidence=None):
        self.peak, self.evidence = peak, evidence

    def start(self):
        return np.zeros(1)

    def fit(self, smoothness, start):
        here = (smoothness.intensity, smoothness.log_odds, smoothness.dispersion)
        away = np.abs(np.log(np.divide(here, self.peak))).sum()
        evidence = -2 * away if self.evidence is None else self.evidence
        return SplineFit(
            start, smoothness, float(evidence), np.full((2, 4, 8), np.log(here).sum())
        )

    def response(self, fit):
        return following(np.full(8, fit.log_evidence))


@pytest.mark.parametrize("peak", [(0.05, 0.05, 1.0), (25.6, 1638.4, 16.0)])
def test_the_walk_finds_the_peak_of_the_evidence_and_weighs_by_it(peak):
    cells = average(Landscape(peak)).cells
    # Neighbours at factors of 8 and 4 have e^-4 and less of the weight.
    np.testing.assert_allclose(cells, np.log(peak).sum(), atol=0.2)


def test_fits_that_fail_give_no_counts():
    assert average(Landscape((1.0, 1.0, 1.0), evidence=np.nan)) is None

    class Unfactored(Landscape):
        def fit(self, *_):
            raise np.linalg.LinAlgError

    assert average(Unfactored((1.0, 1.0, 1.0))) is None


def test_a_walk_that_left_counts_behind_starts_anew(monkeypatch):
    """A heap of both classes below odds that fall: a bounded pull may miss it."""
    # fmt: off
    negatives = [85, 5305, 6328, 1089, 4962, 4846, 4074, 3610, 3146, 2725, 2333, 1913,
                 1472, 954, 517, 272, 104, 44, 7, 2, -3, -9, 2, -1]
    positives = [-12, 65, 47, -5, 13, 15, 29, 56, 62, 95, 119, 140,
                 167, 178, 154, 133, 105, 80, 47, 23, -1, -4, 0, 2]
    places = [0, .0168, .0672, .1009, .1353, .2105, .2629, .3062, .3452, .3826, .4201,
              .4589, .5, .5436, .5889, .6342, .678, .7203, .7625, .808, .8655, .9219,
              .9637, .9973, 1]
    # fmt: on
    counts = np.array([negatives, positives], dtype=np.float64)
    model = SplineModel(
        counts, noise_scale=np.full(counts.shape, 1 / 0.3), places=np.array(places)
    )
    found = average(model).cells.sum(axis=2)[1, 1:3]
    assert found == pytest.approx([65, 47], abs=10)
    # Without the second start and a floor this release's 112 positives would be two.
    monkeypatch.setattr(spline_model, "_BETTER", np.inf)
    assert average(model).cells.sum(axis=2)[1, 1:3] == pytest.approx([65, 47], abs=15)
    monkeypatch.setattr(
        spline_model, "_GRID", (*spline_model._GRID[:3], (0.0,), (0.0,))
    )
    assert average(model).cells.sum(axis=2)[1, 1:3].sum() < 20


def test_labels_with_errors_are_read_where_a_stiff_spline_would_lose_them(
    rng, monkeypatch
):
    """One label in sixteen says nothing; 20 releases of 2,000 examples at eps 0.3."""
    clear = platt_means(20)
    # Steeper than the population of the other tests: its odds squared.
    total, odds = clear.sum(axis=0), (clear[1] / clear[0]) ** 3
    rate = 0.03 + 0.94 * odds / (1 + odds)
    means = 2_000 * np.stack([total * (1 - rate), total * rate]) / total.sum()
    low = slice(0, 6)
    releases = [
        model_of(
            rng.poisson(means) + simulate_discrete_laplace(1 / 0.3, means.shape, rng),
            scale=1 / 0.3,
        )
        for _ in range(20)
    ]

    def lost():
        found = [average(one).cells.sum(axis=2)[1, low].sum() for one in releases]
        return 1 - np.mean(found) / means[1, low].sum()

    assert abs(lost()) < 0.25
    monkeypatch.setattr(
        spline_model, "_GRID", (*spline_model._GRID[:3], (0.0,), (0.0,))
    )
    assert lost() > 0.4


def test_fits_that_differ_say_so():
    """Counts of every fit are alike in all bins: their spread is that of one number."""
    found = average(Landscape((3.2, 25.6, 4.0)))
    assert np.ptp(found.between, axis=1) == pytest.approx(0, abs=1e-12)
    spread = float(np.linalg.norm(found.between[:, 0])) / 8  # sub-cells of a bin
    # Of the six neighbours, four are log 8 and two log 4 away, at e^-2 a unit; floors
    # and ceilings change no count here.
    away = np.log([8, 8, 8, 8, 4, 4])
    weights = np.exp(-2 * away)
    expected = np.sqrt((weights @ away**2) / (1 + weights.sum()))
    assert spread == pytest.approx(expected, rel=0.4)


def test_a_fit_is_the_same_wherever_its_numbers_lie_in_memory(rng):
    """Logarithms of a strided diagonal differed by a last bit, once in thousands."""
    _, noisy = release(rng)
    model, kept = model_of(noisy), []
    found = set()
    for _ in range(400):
        kept.append(np.empty(int(rng.integers(1, 3_000))))
        found.add(model.fit(PLAIN, model.start()).log_evidence)
    assert len(found) == 1


UNEVEN = np.round(1024 * np.linspace(0, 1, 21) ** 1.5) / 1024
"""Edges of 20 bins that do not lie symmetrically; 1 - u is exact."""


def symmetric(counts, places=UNEVEN):
    return symmetric_average(
        counts, noise_scale=np.full(counts.shape, 10.0), places=places
    )


def test_the_average_of_a_mirrored_release_is_the_mirrored_average_to_the_last_bit(rng):
    _, counts = release(rng)
    first = symmetric(counts)
    for classes, step in ((-1, 1), (1, -1), (-1, -1)):
        places = UNEVEN if step == 1 else 1 - UNEVEN[::-1]
        other = symmetric(counts[::classes, ::step], places)
        order = np.arange(40).reshape(2, 20)[::classes, ::step].ravel()
        cells = first.cells[::classes, ::step, ::step]
        np.testing.assert_array_equal(other.cells, cells)
        for part in ("own", "left", "right"):
            mirrored = getattr(first.response, part)[order]
            np.testing.assert_array_equal(getattr(other.response, part), mirrored)
        np.testing.assert_array_equal(other.between, first.between[:, order])
        assert other.dispersion == first.dispersion


def test_a_usual_release_is_fitted_as_it_is(rng):
    """Positives that are rarer and have the higher scores."""
    _, counts = release(rng)
    assert counts[1].sum() < counts[0].sum()
    found = symmetric(counts, np.linspace(0, 1, 21)).cells
    np.testing.assert_array_equal(found, average(model_of(counts)).cells)


def test_a_release_that_is_its_own_mirror_image_has_a_symmetric_average(rng):
    _, counts = release(rng)
    counts = np.stack([counts[0], counts[0]])
    found = symmetric(counts)
    np.testing.assert_allclose(found.cells[0], found.cells[1], rtol=1e-14)
    negatives, positives = np.split(found.response(np.eye(40)), 2)
    np.testing.assert_allclose(
        negatives, np.roll(positives, counts.shape[1], axis=1), rtol=1e-12
    )


def test_the_mean_of_two_averages_counts_the_distance_between_them():
    """Fits at 1, 2 and 6, 9 with equal weights have one variance."""
    halves = [
        ModelAverage(
            np.full((2, 4, 1), np.mean(fits)),
            following(np.ones(8)),
            np.tile(np.subtract(fits, np.mean(fits))[:, None], 8) / np.sqrt(2),
        )
        for fits in ((1.0, 2.0), (6.0, 9.0))
    ]
    found = spline_model._mean(halves)
    assert found.cells == pytest.approx(4.5)
    spread = np.linalg.norm(found.between, axis=0) ** 2
    assert spread == pytest.approx(np.var([1, 2, 6, 9]))


def test_a_response_does_what_its_matrix_would(rng):
    """The definition, written out: diag(o) + L M'."""
    size, narrow = 12, 3

    def drawn():
        left, right = rng.normal(size=(2, size, narrow))
        return Response(rng.random(size), left, right)

    def matrix(each):
        return np.diag(each.own) + each.left @ each.right.T

    def same(found, wanted):
        np.testing.assert_allclose(matrix(found), wanted, atol=1e-12)

    first, second = drawn(), drawn()
    rows, whole = rng.normal(size=(5, size)), matrix(first)
    np.testing.assert_allclose(first(rows), rows @ whole, atol=1e-12)
    mixed = Response.mean([first, second], np.array([0.3, 0.7]))
    same(mixed, 0.3 * whole + 0.7 * matrix(second))
    places = rng.permutation(size)
    same(first.ordered(places), whole[places][:, places])
    which = rng.random(size) < 0.4
    for own in (0.0, 1.0):
        same(
            first.held(which, own), np.where(which[:, None], own * np.eye(size), whole)
        )
    assert first.finite
    for part in ("own", "left", "right"):
        spoilt = getattr(first, part).copy()
        spoilt[-1] = np.inf
        assert not replace(first, **{part: spoilt}).finite
