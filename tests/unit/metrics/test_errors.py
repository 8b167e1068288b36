"""What errors a fit has: what a model may cost, and an interval or a reason always."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from discreet.data.edges import Edges, Support, Uniform, Warped
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.fit import Flat, Other, PublicTotals
from discreet.estimate.intervals import ProportionShape
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.calibration import expected_calibration_error
from discreet.metrics.errors import measure, measures
from discreet.metrics.table import METRICS
from discreet.metrics.thresholds import at_threshold
from discreet.noise.arc_decoder import DecodedNoise, Tally
from discreet.noise.binned_positives import BinnedPositivesNoise
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.mechanism import NoNoise
from discreet.noise.polya import PolyaNoise
from discreet.noise.response import ResponseNoise
from discreet.noise.skellam import skellam_table
from discreet.noise.unary import UnaryNoise
from discreet.statistic.observed import BinCovariance
from histograms import histogram, noisy

AUC = METRICS["auc"]


@pytest.fixture
def fit(rng):
    """Normal classes, 6,000 of them, noise of scale 3."""
    edges = Edges.realise(PriorSpread(32, prevalence=0.3))
    with np.errstate(divide="ignore"):
        z = np.log(edges.array) - np.log1p(-edges.array)
    means = np.stack([4_200 * np.diff(ndtr(z + 1.5)), 1_800 * np.diff(ndtr(z - 0.3))])
    found = Smooth().fit(noisy(histogram(edges, *rng.poisson(means)), 3.0, rng))
    assert found.way == "model"
    return found


def beside(fit, value):
    """Return the fit with another flat one beside it, whose AUC is this value."""
    flat = fit.other.fit
    worse = replace(flat, own={})
    low, high = 0.0, 0.5
    for _ in range(40):  # move so many positives down to the negatives' places
        share = (low + high) / 2
        mixed = flat.counts.negatives / flat.counts.total_negatives
        positives = (1 - share) * flat.counts.positives + (
            share * flat.counts.total_positives * mixed
        )
        worse = flat.moved(np.concatenate([flat.counts.negatives, positives]))
        low, high = (share, high) if AUC.measure.value(worse) > value else (low, share)
    return replace(fit, other=Other(worse, 0.5))


def test_a_distance_that_noise_cannot_have_made_is_reached_on_its_side(fit):
    value = measure(AUC, fit).value
    apart = 0.05  # dozens of the noise's standard deviations
    found = measure(AUC, beside(fit, value - apart))
    assert found.value == value
    assert found.binning.typical == pytest.approx(apart / 2, rel=0.05)
    assert found.binning.below == pytest.approx(apart, rel=0.05)
    assert found.binning.above == 0.0
    assert found.interval(0.95).low < value - apart


def test_a_distance_within_its_noise_adds_nothing_to_the_half(fit):
    plain = measure(AUC, fit)
    apart = plain.noise / 4
    found = measure(AUC, beside(fit, plain.value - apart))
    assert 0 <= found.binning.below < found.binning.typical
    assert math.isclose(found.binning.typical, apart / 2, rel_tol=0.2)


def test_noise_includes_what_the_choice_among_fits_may_cost(fit):
    known = measure(AUC, replace(fit, between=None)).noise
    unsure = fit.unsure(AUC.measure.slopes(fit.damped))
    assert unsure > 0
    assert measure(AUC, fit).noise == pytest.approx(math.hypot(known, unsure))


# -- whatever a release holds ------------------------------------------------


@dataclass(frozen=True)
class Additive:
    """Independent noise, or noise that one class gains and the other loses."""

    scale: float
    across: float = 0.0

    def covariance(self, at):
        v = np.full(at.size // 2, 2 * self.scale**2)
        return BinCovariance(v, v, self.across * v)

    def sample(self, at, size, rng):
        return rng.laplace(0, self.scale, (size, at.size))


_BINS = [0.1, 0.1, 0.12, 0.12, 0.14, 0.14, 0.14, 0.1, 0.03, 0.01]


def _noise(scale, cells, rng):
    """Return the noise of some mechanism and a draw that it may have made."""
    noise = np.rint(rng.laplace(0, scale, cells)) if scale else 0.0
    if rng.random() < 0.1:
        noise -= 1e3 * scale  # totals below zero
    if scale == 0:
        return NoNoise(), noise
    root = rng.normal(0, scale, (cells, 3))
    if cells <= 80 and rng.random() < 0.25:
        return _decoded(root, rng), root @ rng.normal(size=3)
    noises = (
        lambda: LaplaceNoise(scale),
        lambda: ResponseNoise(1 / (1 + np.exp(scale / 100))),
        lambda: PolyaNoise(1 / scale, float(rng.choice([1.0, 1.3, 50.0]))),
        lambda: skellam_table(Fraction(float(scale)) ** 2),
        lambda: UnaryNoise(1 / (1 + np.exp(3 / scale)), int(10 ** rng.uniform(0, 6))),
        lambda: BinnedPositivesNoise(1 / scale, *rng.integers(0, 4, (2, cells // 2))),
        lambda: Additive(scale, rng.choice([0.0, -1.0])),
    )
    return noises[rng.choice(len(noises))](), noise


def _decoded(root, rng):
    """Return the noise of counts that were decoded from symbols of any channel."""
    channel = rng.dirichlet(np.ones(len(root)), len(root))
    tally = Tally(rng.poisson(9.0, len(root)) + 1.0, channel)
    otherwise = rng.poisson(9.0, len(root)) * rng.choice([0.0, 1.0, 1e9])
    return DecodedNoise(
        root @ root.T, tally, (otherwise,) if rng.random() < 0.5 else ()
    )


def _release(rng, most):
    """A histogram that no population needs to have made, of at most so many bins."""
    bins = min(int(rng.choice([2, 3, 4, 5, 8, 15, 24, 40, 128, 1024], p=_BINS)), most)
    rules = [Warped(bins), Uniform(bins), Support(tuple(np.linspace(0, 1, bins)))]
    if bins > 2:
        rules.append(PriorSpread(bins, float(rng.choice([0.001, 0.1, 0.5]))))
    edges = Edges.realise(rules[rng.choice(len(rules))])
    bins = len(edges)
    size = 10.0 ** rng.uniform(-1, 12)
    cells = size * rng.dirichlet(np.full(2 * bins, rng.choice([0.02, 0.3, 3.0])))
    if rng.random() < 0.3:
        cells[:bins] = 0.0
    if rng.random() < 0.3:
        cells[bins:] *= 1e-220
    scale = rng.choice([0.0, 0.5, 3.0, 300.0])
    distribution, noise = _noise(scale, 2 * bins, rng)
    if scale == 0:  # exact counts are whole
        cells = np.rint(cells)
    negatives, positives = np.split(cells + noise, 2)
    return histogram(edges, negatives, positives, distribution)


def _reader(observed, rng):
    if observed.exact:
        return Flat()
    # Central differences take their time.
    if rng.random() < 0.1 and len(observed.edges) <= 15:
        return Flat()
    shared = getattr(observed.noise, "across", -1.0) and rng.random() < 0.5
    return PublicTotals() if shared else Smooth()


def _check(estimate):
    if estimate.unusable is not None:
        assert estimate.unusable
        return
    ends = estimate.interval()
    assert math.isfinite(estimate.value)
    assert all(math.isfinite(end) for end in ends)
    assert estimate.support.low <= ends.low <= ends.high <= estimate.support.high


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "releases", "most"),
    [(start, 30, 24) for start in range(4)]
    + [
        pytest.param(start, 1000, 1024, marks=pytest.mark.slow)
        for start in range(100, 200)
    ],
)
def test_whatever_a_release_holds_every_metric_has_an_interval_or_a_reason(
    start, releases, most
):
    rng = np.random.default_rng(start)
    for _ in range(releases):
        observed = _release(rng, most)
        fit = _reader(observed, rng).fit(observed)
        assert min(fit.counts.negatives.min(), fit.counts.positives.min()) >= 0
        for estimate in measures(fit, METRICS).values():
            _check(estimate)
        for estimate in at_threshold(fit, rng.random()).estimates.values():
            _check(estimate)
        if fit.refusal is None:
            response = fit.response
            _check(expected_calibration_error(fit.counts, response=response))


def test_a_class_that_nobody_has_is_refused_where_it_has_no_noise_either():
    """Binned positives: a bin without public examples carries no noise."""
    noise = BinnedPositivesNoise(1.0, np.array([0, 0]), np.array([3, 2]))
    edges = Edges.realise(Uniform(2))
    lonely = histogram(edges, np.zeros(2), np.array([1.0, 0.0]), noise)
    assert Smooth().fit(lonely).refusal


def test_bins_of_no_width_on_the_logit_scale_are_read():
    rng = np.random.default_rng(3)
    edges = Edges.realise(PriorSpread(1024, 0.5))
    counts = rng.poisson(5e5, (2, len(edges))).astype(float)
    observed = histogram(edges, *counts, LaplaceNoise(0.5))
    assert math.isfinite(measure(METRICS["auc"], Smooth().fit(observed)).value)


def test_an_area_a_rounding_above_one_has_an_interval():
    low, high = ProportionShape(1.5).ends(1 + 4e-16, 0.0, 0.01, 1.96)
    assert 0.9 < low <= high == 1.0


def test_limits_at_a_threshold_hold_the_value_whatever_rounding_leaves_of_a_class():
    rng = np.random.default_rng(5)
    edges = Edges.realise(Uniform(7))
    for _ in range(40):
        negatives, positives = rng.exponential(1.0, (2, 7))
        negatives[:3] = 0.0
        observed = histogram(edges, negatives, positives)
        found = at_threshold(Flat("linear").fit(observed), 0.5).estimates
        for estimate in found.values():
            if not math.isnan(estimate.value):
                binning = estimate.binning
                assert binning.low <= estimate.value <= binning.high
                assert binning.low >= estimate.support.low


def test_a_bin_with_next_to_no_positives_leaves_the_other_metrics_alone():
    edges = Edges.realise(Uniform(6))
    negatives = np.array([900.0, 700, 500, 300, 100, 0])
    positives = np.array([10.0, 20, 40, 60, 80, 1e-217])
    observed = histogram(edges, negatives, positives)
    whole = histogram(edges, negatives, np.rint(positives))
    for name in METRICS:
        found = measure(METRICS[name], Flat().fit(observed))
        plain = measure(METRICS[name], Flat().fit(whole))
        assert found.sampling == pytest.approx(plain.sampling, rel=1e-6)


def test_an_error_whose_square_is_no_number_is_no_error_to_speak_of():
    edges = Edges.realise(Uniform(2))
    negatives, positives = np.array([4e8, 4e8]), np.array([3e-212, 6e-211])
    observed = histogram(edges, negatives, positives, LaplaceNoise(3.0))
    found = measures(Flat().fit(observed), METRICS)
    for name in METRICS:
        _check(found[name])
    assert found["average_precision"].unusable is not None


def test_another_decoding_that_holds_nothing_leaves_the_value_alone():
    edges = Edges.realise(Uniform(4))
    negatives, positives = np.array([90.0, 70, 50, 30]), np.array([10.0, 20, 40, 60])
    tally = Tally(np.ones(8), np.eye(8))
    noise = DecodedNoise(np.eye(8), tally, (np.zeros(8),))
    fit = Flat().fit(histogram(edges, negatives, positives, noise))
    for estimate in measures(fit, METRICS).values():
        _check(estimate)
