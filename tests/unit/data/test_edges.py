import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import InputError
from discreet.data.edges import (
    GRID,
    Cuts,
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
UNIT = ScoreRange()
ODD = ScoreRange.declare("other", -3.7, 17.3)
WIDE = ScoreRange.declare("other", -1e6, 3e9)
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
    assert 620 <= counts.min() <= counts.max() <= 630
    for bad in ([], [0.5, 2.0]):
        with pytest.raises(InputError, match="non-empty sample"):
            reference_quantiles(bad, 4)


@pytest.mark.parametrize(
    ("rule", "scores"),
    [
        *((Uniform(0), UNIT), (Warped(10, 0.0), UNIT), (Uniform(4), LOGIT)),
        *((Listed((0.0, 0.5, 0.9)), UNIT), (Listed((0.0, 0.6, 0.6, 1.0)), UNIT)),
        *((Support(v), UNIT) for v in ((), (0.5, 0.2), (0.5, 1.2))),
        *((PriorSpread(2, 0.1), UNIT), (PriorSpread(20, 0.0), UNIT)),
        (PriorSpread(20, 0.1), POINTS),
    ],
)
def test_edges_that_make_no_sense_are_refused(rule, scores):
    with pytest.raises(InputError):
        Edges.realise(rule, scores)


@pytest.mark.parametrize(
    ("edges", "even", "atol"),
    [
        (Edges.realise(Warped(12)), np.arange(13) / 12, 1e-4),
        (Edges.realise(Warped(12), LOGIT), np.arange(13) / 12, 1e-4),
        (Edges.realise(Listed((0.0, 1, 2, 5, 30.0)), POINTS), np.arange(5) / 4, 0),
    ],
    ids=["probabilities", "logits", "other scores take their rank"],
)
def test_places_are_even(edges, even, atol):
    np.testing.assert_allclose(even_places(edges), even, rtol=0, atol=atol)


def test_places_rise_strictly_whatever_the_edges():
    for values in (
        (0.0, 0.9, 0.9000001, 0.9000002, 0.9000003, 1.0),
        (0.0, 1e-300, 0.4999, 0.5, 0.5001, 1 - 1e-15, 1.0),
    ):
        places = even_places(Edges.realise(Listed(values)))
        assert (np.diff(places) > 0).all()
        assert places[[0, -1]].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("rule", [Warped, Uniform])
def test_edges_that_lie_symmetrically_have_symmetric_places_to_the_last_bit(rule):
    for bins in range(1, 257):
        places = even_places(Edges.realise(rule(bins)))
        np.testing.assert_array_equal(places, 1 - places[::-1])


# -- cuts: rounded scores fall into the bins of the scores themselves ------------

BINNINGS = {
    "warped": Edges.realise(Warped(1024), thresholds=(0.1, 0.3)),
    "uniform": Edges.realise(Uniform(8)),
    "uniform, no power of two": Edges.realise(Uniform(100)),
    "listed": Edges.realise(Listed((0.0, 0.1, 0.1 + 1e-9, 1 / 3, 1.0))),
    "logits": Edges.realise(Warped(64), LOGIT),
    "prior": Edges.realise(PriorSpread(bins=32, prevalence=0.1), LOGIT),
    "odd range": Edges.realise(Uniform(7), ODD),
    "wide range": Edges.realise(Uniform(7), WIDE),
    "support": Edges.realise(Support((0.0, 0.1, 0.5, 1.0))),
}


def hard_scores(edges, rng, n=4000):
    """Every edge with both neighbours, the ends, infinities, NaN, and others."""
    near = edges.array
    low, high = (-12.0, 12.0) if edges.scores is LOGIT else near[[0, -1]]
    inside = rng.uniform(low, high, n)
    cells = np.floor(inside[:500] * 2**20) / 2**20
    found = np.concatenate([near, inside, cells, [0.0, -0.0, low, high, 5e-324]])
    around = [np.nextafter(found, -np.inf), found, np.nextafter(found, np.inf)]
    return np.concatenate([*around, [np.inf, -np.inf, np.nan, 1e300, -1e300]])


def places(edges, scores):
    """Where each score counts: its bin, outside below or above, or nowhere."""
    scores = np.asarray(scores)
    known = ~np.isnan(scores)
    below, above = scores < edges.scores.low, scores > edges.scores.high
    inner = known & ~below & ~above
    found = np.full(scores.shape, -4)
    found[below], found[above] = -2, -3
    if edges.atoms:
        inner &= edges.holds(scores)
    found[inner] = edges.bins_of(scores[inner])
    return found


@pytest.mark.parametrize("name", BINNINGS)
def test_a_rounded_score_counts_where_the_score_does(name, rng):
    edges = BINNINGS[name]
    cuts = Cuts.within(edges.scores, edges)
    assert cuts.exact
    scores = hard_scores(edges, rng)
    assert np.array_equal(places(edges, scores), places(edges, cuts.rounded(scores)))


def test_one_rounding_serves_the_edges_of_several_rounds(rng):
    first, second = BINNINGS["uniform, no power of two"], BINNINGS["listed"]
    cuts = Cuts.within(UNIT, first, second)
    for edges in (first, second):
        scores = hard_scores(edges, rng)
        rounded = cuts.rounded(scores)
        assert np.array_equal(places(edges, scores), places(edges, rounded))


def test_the_grid_is_as_coarse_as_the_edges_allow():
    assert Cuts.within(UNIT, BINNINGS["uniform"]).exponent == 3
    assert Cuts.within(UNIT, BINNINGS["warped"]).exponent == 20
    assert Cuts.within(UNIT).exponent == 0


def test_few_scores_stay_as_they_are(rng):
    cuts = Cuts.within(UNIT, BINNINGS["warped"])
    assert len(cuts.mixed) == 2  # the cells of the thresholds 0.1 and 0.3
    rounded = cuts.rounded(rng.random(10_000))
    assert np.count_nonzero(rounded * 2**20 != np.floor(rounded * 2**20)) < 5


def test_a_range_too_wide_for_exact_products_is_told():
    far = ScoreRange.declare("other", 0.0, 1e100)
    assert not Cuts.within(far, Edges.realise(Uniform(4), far)).exact
    shifted = ScoreRange.declare("other", 1e16, 1e16 + 8)
    assert not Cuts.within(shifted, Edges.realise(Uniform(2), shifted)).exact


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=8, unique=True),
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=50),
)
def test_any_edges_of_logits_are_kept_apart(inner, scores):
    values = (-math.inf, *sorted({v + 0.0 for v in inner}), math.inf)
    edges = Edges.realise(Listed(values), LOGIT)
    column = np.array(scores)
    rounded = Cuts.within(LOGIT, edges).rounded(column)
    assert np.array_equal(edges.bins_of(column), edges.bins_of(rounded))
