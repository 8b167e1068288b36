"""A site's own effects stay in their range, whatever a site holds: never an error."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

from discreet.data.edges import Edges, Warped
from discreet.statistic.effect_terms import SITE_EFFECTS, EffectTerms
from discreet.statistic.protocol import BinCounts

EDGES = Edges.realise(Warped(16), thresholds=(0.5,))
LAST = len(EDGES) - 1
SIZES = (2.0, 40.0, 2.0**27, 2.0**52)
PLACES = ((0, LAST), (LAST, 0), (0, 0), (LAST, LAST), (3, 4))


def counts(negatives, positives, places):
    """Put all of a class into one bin: rankings are perfect, inverted or all ties."""
    found = np.zeros((2, len(EDGES)))
    found[0, places[0]], found[1, places[1]] = negatives, positives
    return BinCounts(*found)


@pytest.mark.parametrize("name", list(SITE_EFFECTS))
@pytest.mark.parametrize("private", [True, False])
def test_no_site_makes_an_effect_fail_or_leave_its_range(name, private):
    """An error would be seen by others; numbers beyond the range, too."""
    at = 0.5 if SITE_EFFECTS[name].at else None
    terms = EffectTerms.of(name, private=private, at=at)
    for n, m, places in itertools.product(SIZES, SIZES, PLACES):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            numbers = terms.encoded(EDGES, counts(n, m, places))
            terms.row.of(EDGES, counts(n, m, places), at)  # a site's own view, too
        assert (numbers >= 0).all()
        assert (numbers <= terms.unit).all()


@pytest.mark.parametrize("size", [10.0, 1e4, 1e8, 1e12])
def test_a_perfect_ranking_lacks_half_a_pair_and_an_inverted_one_mirrors_it(size):
    of = SITE_EFFECTS["auc"].of
    perfect = of(EDGES, counts(size, size, (0, LAST)), None)
    inverted = of(EDGES, counts(size, size, (LAST, 0)), None)
    assert perfect.value == pytest.approx(math.log(2 * size * size + 1))
    assert perfect.value == pytest.approx(-inverted.value)
    assert perfect.variance == pytest.approx(inverted.variance)
    assert 0 < perfect.variance < math.inf
