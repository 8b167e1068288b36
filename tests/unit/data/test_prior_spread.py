"""Edges from a prior that knows the prevalence."""

import numpy as np
import pytest

from discreet.data.edges import Edges, Warped
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange

pytestmark = pytest.mark.long

LOGIT = ScoreRange.declare("logit")


def logistic(z, centre, scale):
    return 1 / (1 + np.exp(-(z - centre) / scale))


@pytest.mark.parametrize("bins", [15, 42])
def test_prior_bins_hold_even_shares_of_the_written_mixture(bins):
    edges = Edges.realise(PriorSpread(bins, 0.02), LOGIT).array
    assert edges[[1, -2]].tolist() == [-14.0, 14.0]
    far = 2 if bins >= 16 else 0  # cuts of the outermost bins
    edges = np.delete(edges, [*range(2, 2 + far), *range(bins - 1 - far, bins - 1)])
    centre = np.log(0.02 / 0.98)
    few = bins >= 16  # these lead towards one half, and have some for hesitant scores
    prior = (1.0 - 0.1 * few) * (
        0.50 * logistic(edges[1:-1], centre + (0.5 if few else -0.5), 1.2)
        + 0.35 * logistic(edges[1:-1], 0.0, 1.2)
        + 0.15 * logistic(edges[1:-1], 1.5 * centre, 4.0)
    )
    prior += 0.1 * few * logistic(edges[1:-1], 0.2 * centre, 0.25)
    shares = np.diff(prior) / (prior[-1] - prior[0])
    np.testing.assert_allclose(shares, 1 / (bins - 2 - 2 * far), rtol=2e-3)


def test_far_out_the_outermost_bins_of_the_prior_are_cut_near_their_inner_ends():
    z = Edges.realise(PriorSpread(24, 0.02), LOGIT).array[1:-1]
    for outer in (z[:4], -z[::-1][:4]):  # the limit, two cuts, where even shares begin
        width = outer[3] - outer[0]
        cuts = (outer[3] - outer[[2, 1]]) / width
        assert cuts == pytest.approx([0.15, 0.35], abs=1e-4)


@pytest.mark.parametrize("prevalence", [1e-7, 0.0005, 0.1, 0.5, 0.999])
def test_prior_edges_have_few_digits_and_mirror_their_logits(prevalence):
    unit = Edges.realise(PriorSpread(64, prevalence)).array[1:-1]
    z = Edges.realise(PriorSpread(64, prevalence), LOGIT).array[1:-1]
    np.testing.assert_array_equal(z * 2**16, np.round(z * 2**16))
    near, _ = np.frexp(np.minimum(unit, 1 - unit))
    np.testing.assert_array_equal(near * 2**30, np.round(near * 2**30))
    np.testing.assert_allclose(np.log(unit / (1 - unit)), z, atol=1e-8)


@pytest.mark.parametrize("bins", [15, 42, 1024])
def test_prior_edges_of_a_common_class_are_those_of_a_rare_one_mirrored(bins):
    rare, common = (
        Edges.realise(PriorSpread(bins, p), LOGIT).array[1:-1] for p in (0.02, 0.98)
    )
    np.testing.assert_allclose(common, -rare[::-1], atol=2**-15)


def test_rare_events_get_their_bins_where_they_are():
    rare = Edges.realise(PriorSpread(20, 0.001)).array
    assert np.count_nonzero(rare < 0.01) >= 10
    assert np.count_nonzero(Edges.realise(Warped(20)).array < 0.01) <= 2


def test_many_bins_tell_scores_apart_that_lie_beyond_the_prior():
    """Logits around -16, four times too far out: a bin each of .5, not one for all."""
    for kind in ("probability", "logit"):
        edges = Edges.realise(PriorSpread(1024, 0.02), ScoreRange.declare(kind))
        z = np.arange(-29.75, -14, 0.5)
        for sign in (1, -1):
            scores = 1 / (1 + np.exp(-sign * z)) if kind == "probability" else sign * z
            assert np.unique(edges.bins_of(scores)).size == z.size
        assert len(edges) == 1024
