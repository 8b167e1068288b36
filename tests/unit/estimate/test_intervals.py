"""Intervals: the score type against its definition, the support, the sources."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, norm

import discreet
from discreet.data.edges import Edges, Uniform
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import Flat
from discreet.estimate.intervals import (
    AreaShape,
    FoldedShape,
    LargestShape,
    Linear,
    ProportionShape,
    RatioShape,
    Symmetric,
)
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measures
from discreet.metrics.table import DEFAULT_METRICS
from discreet.metrics.thresholds import at_threshold
from histograms import histogram, noisy

pytestmark = pytest.mark.long

Z = float(norm.ppf(0.975))


def wilson(successes, trials):
    """Wilson's interval, as his paper writes it."""
    p, shrink = successes / trials, 1 + Z * Z / trials
    middle = (p + Z * Z / (2 * trials)) / shrink
    reach = Z / shrink * math.sqrt(p * (1 - p) / trials + Z * Z / (4 * trials**2))
    return middle - reach, middle + reach


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 7), (50, 60), (9, 9)])
def test_a_rate_without_noise_has_wilsons_interval(successes, trials):
    shape = RatioShape(successes, trials - successes, trials)
    found = shape.ends(successes / trials, 0, 0, Z)
    assert found == pytest.approx(wilson(successes, trials), abs=1e-12)


def test_noise_widens_a_rates_interval_up_to_everything():
    widths = []
    for variance in (0.0, 4.0, 100.0, 1e6):
        low, high = RatioShape(30, 20, 50, variance, variance).ends(0.6, 0, 0, Z)
        widths.append(high - low)
    assert widths == sorted(widths)
    assert widths[0] < widths[1]
    assert widths[-1] == 1


@pytest.mark.parametrize("released", [(-30.0, 200.0), (3.0, -4.0), (-5.0, -6.0)])
def test_released_counts_that_no_share_explains_still_give_an_interval(released):
    low, high = RatioShape(*released, 2.0, 3.0, 3.0).ends(0.2, 0, 0, Z)
    assert 0 <= low <= 0.2 <= high <= 1


def test_a_noisy_rates_ends_are_where_its_test_just_accepts():
    a, b, m, va, vb, c = 40.0, 25.0, 65.0, 20.0, 30.0, -4.0
    for theta in RatioShape(a, b, m, va, vb, c).ends(a / (a + b), 0, 0, Z):
        spread = m * theta * (1 - theta) + (1 - theta) ** 2 * va + theta**2 * vb
        spread -= 2 * theta * (1 - theta) * c
        assert (a - theta * (a + b)) ** 2 == pytest.approx(Z * Z * spread)


def test_f1_ends_are_those_of_jaccards_index():
    plain = RatioShape(30, 20, 50).ends(0.6, 0, 0, Z)
    found = RatioShape(30, 20, 50, twice=True).ends(0.75, 0, 0, Z)
    assert found == pytest.approx([2 * j / (1 + j) for j in plain])


@pytest.mark.parametrize("value", [0.55, 0.8, 0.97])
def test_an_areas_ends_are_where_the_score_test_just_accepts(value):
    shape = AreaShape(40, 300)
    sd = 1.3 * math.sqrt(shape.variance(value))
    factor = (40 * 1.69 + 5) / 45
    for theta in shape.ends(value, sd, 0.01, Z):
        bound = Z * Z * (factor * shape.variance(theta) + 0.01**2)
        assert (value - theta) ** 2 == pytest.approx(bound, rel=1e-6)


def test_perfect_separation_still_has_a_lower_end_below_one():
    low, high = AreaShape(12, 80).ends(1.0, 0.0, 0.0, Z)
    assert high == 1
    assert 0.7 < low < 0.95
    assert AreaShape(120, 80).ends(1.0, 0.0, 0.0, Z)[0] > low


def test_newcombes_variance_is_hanley_and_mcneils_for_equal_classes():
    theta, m = 0.83, 35
    q1, q2 = theta / (2 - theta), 2 * theta**2 / (1 + theta)
    expected = theta * (1 - theta) + (m - 1) * (q1 - theta**2 + q2 - theta**2)
    assert AreaShape(m, m).variance(theta) == pytest.approx(expected / m**2)


def test_a_proportions_score_interval_is_wilsons_when_its_variance_is_binomial():
    sd = math.sqrt(0.3 * 0.7 / 90)
    assert ProportionShape(1.0).ends(0.3, sd, 0.0, Z) == pytest.approx(
        wilson(27, 90), abs=1e-9
    )


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
def test_a_perfect_sample_of_few_is_not_sure():
    """All of m went one way: Wilson's m / (m + z^2)."""
    low, high = ProportionShape(1.5, trials=15).ends(1.0, 0.0, 0.0, Z)
    assert (low, high) == pytest.approx((15 / (15 + Z**2), 1.0), abs=1e-6)
    scores = np.linspace(0.05, 0.95, 40)
    few = discreet.evaluate(
        [discreet.Examples(scores, scores > 0.6)], edges=Uniform(40)
    )
    for found in (few.auc, few.average_precision):
        assert found.value == 1.0
        assert 0.5 < found.interval().low < 0.95
        assert found.interval().high == 1.0


@pytest.mark.parametrize(
    "shape", [Symmetric(), AreaShape(5, 9), ProportionShape(1.5), RatioShape(1, 9, 10)]
)
@pytest.mark.parametrize("value", [0.0, 0.02, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("sd", [0.0, 0.01, 0.4, 30.0])
def test_no_interval_leaves_the_unit_interval_or_misses_its_value(shape, value, sd):
    binning = Binning(max(value - 0.01, 0), min(value + 0.01, 1), 0.005)
    found = Estimate(value, sd, sd, binning, shape=shape)
    for level in (0.5, 0.95, 0.999999):
        low, high = found.interval(level)
        assert 0 <= low <= value <= high <= 1


def test_intervals_grow_with_the_level():
    for shape in (Symmetric(), AreaShape(30, 70), ProportionShape(1.5)):
        found = Estimate(0.8, 0.05, 0.02, Binning(0.8, 0.8, 0), shape=shape)
        widths = [high - low for low, high in map(found.interval, (0.5, 0.9, 0.99))]
        assert widths == sorted(widths)
        assert widths[0] < widths[-1]


def test_a_scaled_estimate_has_a_scaled_interval():
    shape = AreaShape(50, 90)
    auc = Estimate(0.9, 0.02, 0.01, Binning(0.89, 0.92, 0.001), shape=shape)
    for worst in (False, True):
        found = auc.scaled(4500).interval(worst_case_binning=worst)
        expected = auc.interval(worst_case_binning=worst)
        assert found == pytest.approx([4500 * end for end in expected])
    with pytest.raises(InputError, match="positive factor"):
        Linear(Symmetric(), -1.0)


def test_shapes_refuse_what_they_cannot_hold():
    with pytest.raises(InputError, match="both classes"):
        AreaShape(0, 5)
    with pytest.raises(InputError, match="negative"):
        RatioShape(1, 2, 3, -1.0)


# -- attaching them to what estimators find -----------------------------------------


def release(rng, *, examples=3000, prevalence=0.4, bins=20, epsilon=None):
    u = np.arange(bins + 1) / bins
    shares = np.append(
        (1 - prevalence) * np.diff(beta.cdf(u, 2, 3.5)),
        prevalence * np.diff(beta.cdf(u, 3.5, 2)),
    )
    counts = rng.multinomial(examples, shares / shares.sum())
    exact = histogram(Edges.realise(Uniform(bins)), *np.split(counts, 2))
    return exact if epsilon is None else noisy(exact, 1 / epsilon, rng)


def read(observed, estimator):
    fit = estimator.fit(observed)
    return measures(fit, DEFAULT_METRICS), at_threshold(fit, 0.5)


def test_every_estimate_covers_all_three_sources(rng):
    for epsilon, estimator in ((None, Flat()), (1.0, Smooth()), (1.0, Flat())):
        metrics, at = read(release(rng, epsilon=epsilon), estimator)
        rates = (at.precision, at.recall, at.specificity, at.accuracy, at.f1)
        for found in (*metrics.values(), *rates, at.true_positives):
            assert found.covers == ("sampling", "binning", "noise")
            low, high = found.interval()
            assert low < found.value < high or found.sampling == 0.0
            assert (found.noise == 0) == (epsilon is None)
            assert found.caution is None


def test_counts_of_these_data_are_not_sampled(rng):
    _, at = read(release(rng), Flat())
    assert at.true_positives.sampling == 0.0
    low, high = at.true_positives.interval()
    assert low == high == at.true_positives.value


def test_reported_sampling_errors_shrink_with_the_root_of_the_data(rng):
    small = release(rng)
    large = replace(
        small, negatives=100 * small.negatives, positives=100 * small.positives
    )
    (one, at_one), (other, at_other) = (read(c, Flat()) for c in (small, large))
    pairs = [(one[name], other[name]) for name in DEFAULT_METRICS]
    pairs += [(at_one.precision, at_other.precision), (at_one.f1, at_other.f1)]
    for a, b in pairs:
        assert a.sampling == pytest.approx(10 * b.sampling, rel=0.01)


def test_a_smooth_model_passes_on_less_noise_than_the_counts_have(rng):
    observed = release(rng, epsilon=0.3)
    smooth, flat = read(observed, Smooth())[0], read(observed, Flat())[0]
    for metric in DEFAULT_METRICS:
        assert 0 < smooth[metric].noise < flat[metric].noise


def test_few_examples_and_much_noise_are_said_in_words(rng):
    few, at = read(release(rng, examples=60, prevalence=0.2), Flat())
    assert "few positives" in few["auc"].caution
    assert "few examples" in at.recall.caution
    found, _ = read(release(rng, examples=1500, prevalence=0.2, epsilon=0.12), Smooth())
    assert "because of the noise" in found["brier"].caution


def test_undefined_estimates_stay_undefined():
    lonely = histogram(Edges.realise(Uniform(4)), np.ones(4), np.zeros(4))
    metrics, at = read(lonely, Flat())
    assert math.isnan(metrics["auc"].value)
    assert math.isnan(at.recall.interval().low)
    assert metrics["brier"].sampling > 0


def folded_coverage(deviations: list[float], spread: float, shrink: float) -> float:
    """Return how often the interval of a sum of absolute values holds the truth."""
    rng = np.random.default_rng(11)
    truth, held = sum(map(abs, deviations)), 0
    for _ in range(400):
        seen = rng.normal(deviations, spread)
        shape = FoldedShape(seen, (shrink * spread) ** 2 * np.eye(seen.size))
        low, high = shape.ends(float(np.abs(seen).sum()), 0.0, 0.0, 1.96)
        held += low <= truth <= high
    return held / 400


@pytest.mark.parametrize(
    "deviations",
    [[0.0] * 15, [0.5] * 15, [8.0, *[0.0] * 14], [2.0, -2.0, *[0.1] * 13]],
)
def test_a_sum_of_absolute_values_is_covered_however_small(deviations):
    assert 0.91 <= folded_coverage(deviations, 0.5, 1.0) <= 0.995


def test_a_spread_that_is_too_small_covers_too_rarely() -> None:
    assert folded_coverage([0.0] * 15, 0.5, 0.5) < 0.5


def test_absolute_values_without_any_error_have_an_exact_sum() -> None:
    shape = FoldedShape(np.array([0.25, -0.5]), np.zeros((2, 2)))
    low, high = shape.ends(0.75, 0.0, 0.0, 1.96)
    assert low == pytest.approx(0.75)
    assert high == pytest.approx(0.75)


def test_no_deviation_at_all_still_has_an_upper_end() -> None:
    shape = FoldedShape(np.array([0.1, 0.0]), np.diag([9.0, 16.0]))
    low, high = shape.ends(0.1, 0.0, 0.0, 6.0)
    assert low == 0.0
    assert high > 3.0


def test_errors_that_go_together_make_a_sum_stray_further() -> None:
    seen = np.full(10, 2.0)
    apart, alike = (
        np.subtract(*FoldedShape(seen, each).ends(20.0, 0.0, 0.0, 1.96)[::-1])
        for each in (0.01 * np.eye(10), np.full((10, 10), 0.01))
    )
    assert apart == pytest.approx(2 * 1.96 * 0.1 * np.sqrt(10), rel=0.1)
    assert alike == pytest.approx(2 * 1.96 * 0.1 * 10, rel=0.1)


def test_the_largest_of_many_perfect_groups_may_be_zero() -> None:
    rng = np.random.default_rng(12)
    held = 0
    for _ in range(1000):
        seen = np.abs(rng.normal(0.0, 0.1, 15))
        shape = LargestShape(tuple(seen), tuple(np.full(15, 0.1)))
        low, high = shape.ends(float(seen.max()), 0.0, 0.0, 1.96)
        held += low <= 0.0 <= high
    assert held / 1000 > 0.92


def test_smoothed_deviations_below_their_scatter_do_not_prove_a_perfect_model():
    seen, covariance = np.full(16, 0.0002), 0.003**2 * np.eye(16)
    value = float(seen.sum())
    _, rough = FoldedShape(seen, covariance).ends(value, 0.0, 0.0, 2.0)
    assert rough == 0.0  # so little cannot be: scatter alone makes more
    _, high = FoldedShape(seen, covariance, reaches=True).ends(value, 0.0, 0.0, 2.0)
    assert high == value


def test_scatter_that_may_have_been_taken_off_is_folded_at_the_lower_end_alone():
    seen, square = np.full(16, 0.02), 0.003**2 * np.eye(16)
    none = np.zeros((16, 16))
    value = float(seen.sum())
    plain = FoldedShape(seen, none).ends(value, 0.0, 0.0, 1.96)
    assert plain == pytest.approx((value, value))
    low, high = FoldedShape(seen, none, square, square).ends(value, 0.0, 0.0, 1.96)
    assert low == FoldedShape(seen, square).ends(value, 0.0, 0.0, 1.96)[0]
    # Sixteen errors of .003, signs kept: nothing of them was turned upwards.
    assert high == pytest.approx(value + 1.96 * 0.012, rel=0.01)


def test_small_deviations_everywhere_stay_below_the_upper_end():
    """Fifteen deviations of one spread each: the uneven pattern seen holds 91%."""
    rng = np.random.default_rng(13)
    held = 0
    for _ in range(300):
        seen = rng.normal(1.0, 1.0, 15)
        shape = FoldedShape(seen, np.eye(15))
        held += shape.ends(float(np.abs(seen).sum()), 0.0, 0.0, 1.96)[1] >= 15.0
    assert held / 300 > 0.93
