import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from discreet.data.edges import Edges, Listed, Support, Uniform, Warped
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.estimate.fit import Flat
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.brier import brier_parts
from discreet.metrics.calibration import (
    calibration_curve,
    expected_calibration_error,
    maximum_calibration_error,
    sampling_floor,
)
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.noise.arc_decoder import DecodedNoise, Tally
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.mechanism import NoNoise
from discreet.report.plot import draw_reliability
from discreet.statistic.observed import BinCovariance
from histograms import counted, following, histogram, no_examples, noisy
from recalibrate_oracles import calibration_error

pytestmark = pytest.mark.long

VALUES = tuple(k / 20 for k in range(1, 20))
KNOWN = Edges.realise(Support(VALUES))


def draw(size, seed, *, slope=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1.0, 2.0, size)
    labels = (rng.random(size) < 1 / (1 + np.exp(-(shift + slope * z)))).astype(int)
    return 1 / (1 + np.exp(-z)), labels


def rounded(size, seed):
    """Scores on known values, so that bins lose nothing."""
    scores, labels = draw(size, seed, slope=1.5)
    grid = np.asarray(VALUES)
    return grid[np.abs(scores[:, None] - grid).argmin(axis=1)], labels


@pytest.mark.parametrize("kind", ["width", "mass"])
@pytest.mark.parametrize("bins", [1, 3, 4, 10, 15, 40])
def test_ece_on_known_values_is_the_definition_and_keeps_equal_scores_together(
    bins, kind
):
    scores, labels = rounded(500, 1)
    ranks = [(sum(scores < s) + sum(scores <= s)) / 1000 for s in scores]
    places = scores if kind == "width" else ranks
    groups = [min(int(place * bins), bins - 1) for place in places]
    found = expected_calibration_error(counted(scores, labels, KNOWN), bins, kind)
    assert found.value == pytest.approx(calibration_error(scores, labels, groups))
    assert found.binning.low == pytest.approx(found.value)
    assert found.binning.high == pytest.approx(found.value)


@pytest.mark.parametrize("kind", ["width", "mass"])
@pytest.mark.parametrize("bins", [5, 15, 60])
def test_ece_of_a_fine_histogram_is_that_of_the_examples(bins, kind):
    scores, labels = draw(30_000, 3, slope=1.5)
    if kind == "width":
        groups = np.minimum((scores * bins).astype(int), bins - 1)
    else:
        groups = np.minimum(np.argsort(np.argsort(scores)) * bins // 30_000, bins - 1)
    wanted = np.abs(np.bincount(groups, labels - scores)).sum() / 30_000
    counts = counted(scores, labels, Edges.realise(Warped(1024)))
    found = expected_calibration_error(counts, bins, kind)
    assert found.value == pytest.approx(wanted, abs=1e-3)
    assert found.binning.low <= wanted <= found.binning.high


def test_a_cut_near_the_end_of_a_bin_is_in_the_limits():
    """One third cuts a sliver off the first bin, beyond its outermost cell."""
    edges = Edges.realise(Listed((0.0, 0.3334, 1.0)))
    scores, labels = np.array([0.33335, 0.3333, 0.3333, 0.3333]), np.array([1, 0, 0, 0])
    assert cell_scores(edges)[0].max() < 1 / 3
    found = expected_calibration_error(counted(scores, labels, edges), 3)
    wanted = calibration_error(scores, labels, [1, 0, 0, 0])
    assert found.binning.low <= wanted <= found.binning.high


def test_the_number_of_bins_is_chosen_after_the_fact_from_one_release():
    counts = counted(*draw(30_000, 4, slope=1.5), Edges.realise(Warped(32)))
    found = [expected_calibration_error(counts, bins).value for bins in (1, 5, 15, 100)]
    assert found == sorted(found)  # more groups can only show more


def test_the_worst_group_is_the_definition_and_noise_makes_no_group():
    scores, labels = rounded(5_000, 5)
    groups = np.minimum((scores * 10).astype(int), 9)
    gaps = [
        abs(labels[groups == g].mean() - scores[groups == g].mean()) for g in range(10)
    ]
    counts = counted(scores, labels, KNOWN)
    found = maximum_calibration_error(counts, 10)
    assert found.value == pytest.approx(max(gaps))
    drowned = replace(counts, noise=LaplaceNoise(1e6))
    assert math.isnan(maximum_calibration_error(drowned, 10).value)


@pytest.mark.parametrize(("bins", "kind"), [(8, "width"), (8, "mass"), (20, "width")])
def test_the_parts_of_the_brier_score_are_murphys_and_add_up_to_it(bins, kind):
    scores, labels = rounded(2_000, 6)
    found, mean = brier_parts(counted(scores, labels, KNOWN), bins, kind), labels.mean()
    assert found.total == pytest.approx(np.mean((scores - labels) ** 2))
    assert found.uncertainty.value == pytest.approx(mean * (1 - mean))
    if bins == 20:  # every value is a group
        own = [labels[scores == value] for value in np.unique(scores)]
        shares = np.array([each.size for each in own]) / 2_000
        rates = np.array([each.mean() for each in own])
        reliability = shares @ (np.unique(scores) - rates) ** 2
        assert found.reliability.value == pytest.approx(reliability)
        assert found.resolution.value == pytest.approx(shares @ (mean - rates) ** 2)
        assert found.within == pytest.approx(0, abs=1e-12)


LINE = ("calibration_intercept", "calibration_slope", "calibration_in_the_large")


def line_of(counts):
    """Return the intercept, the slope and calibration in the large."""
    fit = Flat().fit(counts)
    return [measure(METRICS[name], fit) for name in LINE]


def of_metrics(counts):
    return [*of_groups(counts), *line_of(counts)]


def of_groups(counts):
    parts = brier_parts(counts)
    return [
        expected_calibration_error(counts),
        expected_calibration_error(counts, 10, "mass"),
        parts.reliability,
        parts.resolution,
        parts.uncertainty,
    ]


def test_noise_moves_every_metric_as_far_as_its_error_says():
    """400 releases: each spread within 20 percent (4 errors are 14 percent).

    No cell is near 0, where clipping makes the noise smaller than its law.
    """
    rng = np.random.default_rng(8)
    exact = counted(*draw(40_000, 8, slope=0.6, shift=0.8), Edges.realise(Uniform(12)))
    said, seen = [], []
    for _ in range(400):
        found = of_metrics(noisy(exact, 2.0, rng))
        seen.append([f.value for f in found])
        said.append([f.noise for f in found if (f.noise > 0)])
    assert np.std(seen, axis=0) == pytest.approx(np.mean(said, axis=0), rel=0.2)


def test_sampling_moves_every_metric_as_far_as_its_error_says():
    """400 samples: each spread within 20 percent (4 errors are 14 percent)."""
    edges = Edges.realise(Warped(64))
    said, seen = [], []
    for seed in range(400):
        found = of_metrics(counted(*draw(6_000, seed, slope=1.8, shift=0.8), edges))
        seen.append([f.value for f in found])
        said.append([f.sampling for f in found])
    assert np.std(seen, axis=0) == pytest.approx(np.mean(said, axis=0), rel=0.2)


@dataclass(frozen=True)
class OneBin:
    """A noise distribution in one bin only: it shows a metric's slope there."""

    place: int
    both: bool
    scale: float = 1.0

    def covariance(self, at):
        one = np.zeros(at.size // 2)
        one[self.place] = 1.0
        return BinCovariance(one, one * self.both, one * self.both)

    def sample(self, at, size, rng):
        raise NotImplementedError


@pytest.mark.parametrize("place", [2, 5, 9])
@pytest.mark.parametrize("both", [False, True])
def test_the_slope_of_every_metric_in_a_count_is_its_difference(place, both):
    """Noise in the negatives of one bin, or the same in both classes."""
    edges = Edges.realise(Uniform(12))
    exact = counted(*draw(40_000, 18, slope=0.6, shift=0.8), edges)
    step = 0.01 * (np.arange(12) == place)

    def moved(sign):
        moved_p = exact.positives + sign * both * step
        return histogram(
            edges, exact.negatives + sign * step, moved_p, OneBin(place, both)
        )

    up, down = (np.array([f.value for f in of_groups(moved(sign))]) for sign in (1, -1))
    said = [f.noise for f in of_groups(moved(0))]
    differences = np.abs(up - down) / 0.02
    # Groups of equal mass are taken as cut: their edges move with the counts.
    kept = [0, 2, 3, 4]
    assert np.array(said)[kept] == pytest.approx(differences[kept], rel=2e-3, abs=1e-9)


def test_exact_counts_have_no_noise():
    counts = counted(*draw(2_000, 9), Edges.realise(Warped(64)))
    assert all(estimate.noise == 0.0 for estimate in of_metrics(counts))


def test_the_line_finds_slope_and_shift_and_a_calibrated_model_has_none():
    edges = Edges.realise(Warped(256))
    shifted = counted(*draw(200_000, 10, slope=1.5, shift=-0.4), edges)
    for estimate, truth in zip(line_of(shifted), (-0.4, 1.5), strict=False):
        assert estimate.value == pytest.approx(truth, abs=4 * estimate.sampling)
    _, slope, level = line_of(counted(*draw(200_000, 11), edges))
    assert slope.interval()[0] < 1 < slope.interval()[1]
    assert abs(level.value) < 4 * level.sampling
    *_, low = line_of(counted(*draw(200_000, 12, shift=1.0), edges))
    assert low.value == pytest.approx(1.0, abs=0.03)


def test_logits_have_the_metrics_of_their_probabilities():
    scores, labels = draw(20_000, 13, slope=1.5)
    plain = counted(scores, labels, Edges.realise(Warped(128)))
    edges = Edges.realise(Warped(128), ScoreRange.declare("logit"))
    same = counted(np.log(scores / (1 - scores)), labels, edges)
    for one, other in zip(of_metrics(plain), of_metrics(same), strict=True):
        assert one.value == pytest.approx(other.value, rel=2e-3)


def test_the_curve_has_wilsons_bands_and_no_point_where_nothing_is():
    scores, labels = rounded(400, 14)
    keep = (scores < 0.4) | (scores > 0.6)
    curve = calibration_curve(counted(scores[keep], labels[keep], KNOWN), 10)
    assert curve.rate.size == 8
    assert curve.share.sum() == pytest.approx(1)
    assert ((curve.low <= curve.rate) & (curve.rate <= curve.high)).all()
    z, own = 1.959963984540054, labels[(scores < 0.1)]
    size, rate = own.size, own.mean()
    middle = (rate + z * z / (2 * size)) / (1 + z * z / size)
    reach = z / (1 + z * z / size)
    reach *= math.sqrt(rate * (1 - rate) / size + z * z / (4 * size * size))
    assert curve.low[0] == pytest.approx(middle - reach)
    assert curve.high[0] == pytest.approx(middle + reach)


def test_noise_widens_the_bands():
    scores, labels = draw(5_000, 15)
    counts = counted(scores, labels, Edges.realise(Warped(24)))
    unsure = replace(counts, noise=LaplaceNoise(10.0))
    plain, wide = calibration_curve(counts, 8), calibration_curve(unsure, 8)
    assert (wide.high - wide.low > plain.high - plain.low).all()


def test_a_perfect_model_shows_the_floor_of_its_sample():
    """40 samples of a calibrated model: the mean ECE is the floor, within a tenth."""
    edges = Edges.realise(Warped(1024))
    found = [counted(*draw(5_000, 100 + seed), edges) for seed in range(40)]
    seen = np.mean([expected_calibration_error(c).value for c in found])
    assert seen == pytest.approx(np.mean([sampling_floor(c) for c in found]), rel=0.1)


def test_no_examples_and_one_class_are_undefined_with_the_cause():
    edges = Edges.realise(Warped(8))
    nothing, lone = no_examples(edges), histogram(edges, np.ones(8), np.zeros(8))
    assert math.isnan(expected_calibration_error(nothing).value)
    assert math.isnan(maximum_calibration_error(nothing).value)
    assert math.isnan(brier_parts(nothing).total)
    for estimate in line_of(lone):
        assert math.isnan(estimate.value)
        assert "no positives" in estimate.unusable
    assert expected_calibration_error(lone).value > 0


def test_bins_and_kinds_that_make_no_sense_are_refused():
    counts = counted(*rounded(50, 16), KNOWN)
    with pytest.raises(InputError, match="at least 1 bin"):
        expected_calibration_error(counts, 0)
    with pytest.raises(InputError, match="'width' or of equal 'mass'"):
        expected_calibration_error(counts, 5, "depth")


def test_the_reliability_diagram_is_drawn_and_saved(tmp_path):
    counts = counted(*draw(5_000, 17), Edges.realise(Warped(64)))
    curve = calibration_curve(counts)
    path = tmp_path / "curve.png"
    both = {"scores": curve, "recalibrated": curve}
    top = draw_reliability(both, title="t", footnote="f", path=path).ax_
    assert path.stat().st_size > 5_000
    assert [text.get_text() for text in top.get_legend().get_texts()] == [
        "as predicted",
        "share of all",
        "scores",
        "recalibrated",
    ]
    drawn = top.lines[1].get_ydata()
    assert drawn == pytest.approx(curve.rate)


def test_a_diagram_without_points_is_refused():
    edges = Edges.realise(Warped(8))
    drowned = histogram(edges, np.ones(8), np.ones(8), LaplaceNoise(1e6))
    with pytest.raises(InputError, match="no curve to draw"):
        draw_reliability({"": calibration_curve(drowned)})


def law_of(noise, response=None):
    """Return the folded law of 4,000 examples in 20 bins."""
    scores, labels = draw(4_000, 3)
    counts = counted(scores, labels, Edges.realise(Uniform(20)))
    return expected_calibration_error(
        replace(counts, noise=noise), response=response
    ).shape


def test_what_a_model_did_not_pass_on_of_the_scatter_is_a_bias_in_part():
    shares = (0.0, 0.5, 1.0)
    raw, none, half, all_of_it = (
        law_of(LaplaceNoise(5.0), given)
        for given in (
            None,
            *(following(np.full(40, share)) for share in shares),
        )
    )
    assert none.covariance == pytest.approx(0 * raw.covariance)
    assert none.below == pytest.approx(raw.covariance / 6)
    assert none.above == pytest.approx(raw.covariance / 12)
    assert half.covariance == pytest.approx(all_of_it.covariance / 4)
    own = np.diag(all_of_it.covariance)
    assert (own <= np.diag(raw.covariance) * (1 + 1e-9)).all()
    assert raw.below is None
    assert raw.reaches
    assert not none.reaches
    assert not law_of(NoNoise()).reaches


def test_decoded_counts_have_lost_the_scatter_that_their_error_already_holds():
    tally = Tally(np.ones(40), np.eye(40))
    drawn = np.diag(law_of(NoNoise()).covariance)
    for variance in (1e-6, 1e6):
        decoded = law_of(DecodedNoise(variance * np.eye(40), tally))
        added = (
            np.diag(law_of(LaplaceNoise(math.sqrt(variance / 2))).covariance) - drawn
        )
        larger = np.maximum(drawn, added)
        assert np.diag(decoded.above) == pytest.approx(larger, rel=0.02)
        assert decoded.below == pytest.approx(decoded.above / 2)
        assert not decoded.covariance.any()  # none of it is sure to be left
