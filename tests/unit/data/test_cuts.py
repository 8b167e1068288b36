"""Rounded scores fall into the bins of the scores themselves, at every float."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.edges import Cuts, Edges, Listed, Support, Uniform, Warped
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange

UNIT = ScoreRange()
LOGIT = ScoreRange.declare("logit")
ODD = ScoreRange.declare("other", -3.7, 17.3)
WIDE = ScoreRange.declare("other", -1e6, 3e9)
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
