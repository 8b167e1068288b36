import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import InputError
from discreet.data.edges import (
    GRID,
    Edges,
    Listed,
    Support,
    Uniform,
    Warped,
    even_places,
    reference_quantiles,
    unit_edges,
)
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange

pytestmark = pytest.mark.long

LOGIT = ScoreRange.declare("logit")
POINTS = ScoreRange.declare("other", 0, 30)
RULES = [
    (Warped(1024), ScoreRange(), (0.5, 0.3)),
    (Warped(13, 1.25), ScoreRange(), ()),
    (Uniform(8192), ScoreRange(), (1 / 3,)),
    (Uniform(10), ScoreRange(), (0.1, 0.7)),
    (Listed((0.0, 1e-12, 0.2, 0.2 + 1e-12, 1.0)), ScoreRange(), ()),
    (Uniform(70_000), ScoreRange(), ()),
    (Warped(64), LOGIT, (0.0,)),
    (Uniform(7), POINTS, (4.5,)),
    (PriorSpread(60, 0.001), ScoreRange(), (0.5,)),
    (PriorSpread(1024, 0.2), ScoreRange(), (0.5, 1e-7)),
    (PriorSpread(24, 0.3), LOGIT, (0.0,)),
]


def by_search(edges, scores):
    """The definition: bins closed below, the last one also above."""
    found = np.searchsorted(edges.array, scores, side="right") - 1
    return np.minimum(found, len(edges) - 1)


@pytest.mark.parametrize(("rule", "scores", "thresholds"), RULES, ids=str)
def test_bins_equal_searchsorted_at_every_edge_and_its_neighbours(
    rule, scores, thresholds
):
    edges = Edges.realise(rule, scores, thresholds=thresholds)
    near = edges.array
    near = np.concatenate(
        [near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)]
    )
    near = near[(near >= scores.low) & (near <= scores.high)]
    np.testing.assert_array_equal(edges.bins_of(near), by_search(edges, near))


@given(st.lists(st.floats(0, 1), min_size=1))
def test_bins_equal_searchsorted_everywhere(scores):
    edges = Edges.realise(Warped(1024), thresholds=(0.3,))
    array = np.array(scores)
    np.testing.assert_array_equal(edges.bins_of(array), by_search(edges, array))


@given(st.sets(st.integers(1, GRID - 1), max_size=40), st.integers(0, 2**32))
def test_edges_on_and_between_grid_points_find_their_bin(cells, seed):
    """Coarse cells, fine cells, and cells that an edge cuts, side by side."""
    shift = np.random.default_rng(seed).choice([0.0, 0.25, 0.999], len(cells))
    values = (0.0, *(np.array(sorted(cells)) - shift) / GRID, 1.0)
    edges = Edges.realise(Listed(tuple(float(v) for v in np.unique(values))))
    places = edges.array * GRID
    around = np.concatenate([np.floor(places) + k for k in (-16, -1, 0, 1, 2, 16)])
    near = np.concatenate([edges.array, np.clip(around, 0, GRID) / GRID])
    near = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, 1)])
    np.testing.assert_array_equal(edges.bins_of(near), by_search(edges, near))


def test_every_grid_point_and_its_neighbours_find_their_bin():
    edges = Edges.realise(Warped(1024), thresholds=(0.5,))
    grid = np.arange(GRID + 1) / GRID
    for near in (grid, np.nextafter(grid[1:], 0), np.nextafter(grid[:-1], 1)):
        np.testing.assert_array_equal(edges.bins_of(near), by_search(edges, near))


def test_score_one_does_not_vanish():
    edges = Edges.realise(Uniform(4))
    assert edges.bins_of(np.array([1.0])).tolist() == [3]


def test_warped_edges_are_symmetric_and_multiples_of_the_grid():
    edges = Edges.realise(Warped(1024)).array
    np.testing.assert_array_equal(edges, (1 - edges)[::-1])
    assert (edges * GRID == np.round(edges * GRID)).all()
    u = np.arange(1025) / 1024
    np.testing.assert_allclose(edges, u**1.5 / (u**1.5 + (1 - u) ** 1.5), atol=1 / GRID)


def test_thresholds_become_edges_once():
    edges = Edges.realise(Uniform(4), thresholds=(0.5, 0.3, 0.3, 0.0, 1.0))
    assert edges.values == (0.0, 0.25, 0.3, 0.5, 0.75, 1.0)


def test_logit_edges_are_the_logits_of_warped_edges():
    edges = Edges.realise(Warped(16), LOGIT)
    assert edges.values[0] == -np.inf
    assert edges.values[-1] == np.inf
    np.testing.assert_allclose(
        unit_edges(edges), Edges.realise(Warped(16)).array, atol=1e-6
    )
    assert edges.bins_of(np.array([-np.inf, np.inf, 0.0])).tolist() == [0, 15, 8]


def test_a_known_support_has_a_bin_a_value_and_refuses_others():
    edges = Edges.realise(Support((0.0, 0.2, 0.4, 0.6, 0.8, 1.0)))
    assert len(edges) == 6
    assert edges.atoms
    assert edges.bins_of(np.array([1.0, 0.0, 0.4])).tolist() == [5, 0, 2]
    with pytest.raises(InputError, match="2 of 3 scores are not in the declared"):
        edges.bins_of(np.array([0.0, 0.41, 0.1]))


def test_reference_quantiles_put_equally_many_reference_scores_in_each_bin(rng):
    reference = rng.beta(0.5, 4, 10_000)
    edges = Edges.realise(reference_quantiles(reference, 16))
    counts = np.bincount(edges.bins_of(reference), minlength=16)
    assert counts.min() >= 620
    assert counts.max() <= 630


@pytest.mark.parametrize(
    "make",
    [
        lambda: Edges.realise(Uniform(0)),
        lambda: Edges.realise(Warped(10, 0.0)),
        lambda: Edges.realise(Listed((0.0, 0.5, 0.9))),
        lambda: Edges.realise(Listed((0.0, 0.6, 0.6, 1.0)), thresholds=()),
        lambda: Edges.realise(Support(())),
        lambda: Edges.realise(Support((0.5, 0.2))),
        lambda: Edges.realise(Support((0.5, 1.2))),
        lambda: Edges.realise(Uniform(4), LOGIT),
        lambda: Edges.realise(PriorSpread(2, 0.1)),
        lambda: Edges.realise(PriorSpread(20, 0.0)),
        lambda: Edges.realise(PriorSpread(20, 0.1), POINTS),
        lambda: reference_quantiles([], 4),
        lambda: reference_quantiles([0.5, 2.0], 4),
    ],
)
def test_edges_that_make_no_sense_are_refused(make):
    with pytest.raises(InputError):
        make()


# -- edges from a prior that knows the prevalence ------------------------------


@given(st.lists(st.floats(0, 1), min_size=1))
def test_prior_bins_equal_searchsorted_everywhere(scores):
    edges = Edges.realise(PriorSpread(60, 0.001), thresholds=(0.5,))
    array = np.array(scores)
    np.testing.assert_array_equal(edges.bins_of(array), by_search(edges, array))


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
    noise = (1.0 - 0.1 * few) * (
        0.50 * logistic(edges[1:-1], centre + (0.5 if few else -0.5), 1.2)
        + 0.35 * logistic(edges[1:-1], 0.0, 1.2)
        + 0.15 * logistic(edges[1:-1], 1.5 * centre, 4.0)
    )
    noise += 0.1 * few * logistic(edges[1:-1], 0.2 * centre, 0.25)
    shares = np.diff(noise) / (noise[-1] - noise[0])
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


def test_warped_places_are_even_on_probabilities_and_logits():
    for scores in (ScoreRange(), LOGIT):
        places = even_places(Edges.realise(Warped(12), scores))
        np.testing.assert_allclose(places, np.arange(13) / 12, atol=1e-4)


def test_places_rise_strictly_whatever_the_edges():
    for values in (
        (0.0, 0.9, 0.9000001, 0.9000002, 0.9000003, 1.0),
        (0.0, 1e-300, 0.4999, 0.5, 0.5001, 1 - 1e-15, 1.0),
    ):
        places = even_places(Edges.realise(Listed(values)))
        assert (np.diff(places) > 0).all()
        assert places[[0, -1]].tolist() == [0.0, 1.0]


def test_scores_that_are_no_probabilities_take_their_rank():
    places = even_places(Edges.realise(Listed((0.0, 1.0, 2.0, 5.0, 30.0)), POINTS))
    np.testing.assert_array_equal(places, [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize("rule", [Warped, Uniform])
def test_edges_that_lie_symmetrically_have_symmetric_places_to_the_last_bit(rule):
    for bins in range(1, 257):
        places = even_places(Edges.realise(rule(bins)))
        np.testing.assert_array_equal(places, 1 - places[::-1])


def test_many_bins_tell_scores_apart_that_lie_beyond_the_prior():
    """Logits around -16, four times too far out: a bin each of .5, not one for all."""
    for kind in ("probability", "logit"):
        edges = Edges.realise(PriorSpread(1024, 0.02), ScoreRange.declare(kind))
        z = np.arange(-29.75, -14, 0.5)
        for sign in (1, -1):
            scores = 1 / (1 + np.exp(-sign * z)) if kind == "probability" else sign * z
            assert np.unique(edges.bins_of(scores)).size == z.size
        assert len(edges) == 1024
