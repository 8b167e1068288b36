from collections import Counter
from fractions import Fraction
from math import comb, log2

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.secagg.graph import (
    FAILURE_BITS,
    PRIVACY_BITS,
    Parameters,
    choose_holders,
    complete,
    log2_split_curious,
    log2_split_malicious,
    parameters,
    sparse,
)

ALPHA = 1e-9


@pytest.mark.parametrize(
    ("sites", "rates", "coordinator", "degree", "threshold"),
    [
        (1000, (10, 30), "curious", 88, 36),
        (10_000, (10, 30), "curious", 106, 43),
        (1000, (10, 30), "malicious", 411, 245),
        (10_000, (10, 30), "malicious", 775, 463),
        (1000, (5, 15), "malicious", 106, 67),
        (10_000, (5, 15), "malicious", 136, 86),
    ],
)
def test_degree_and_threshold_are_the_published_ones(
    sites, rates, coordinator, degree, threshold
):
    corrupt, dropped = (sites * rate // 100 for rate in rates)
    found = sparse(
        sites, corrupt=corrupt, survivors=sites - dropped, coordinator=coordinator
    )
    assert found == Parameters(degree, threshold)


def exact_tail(population, marked, drawn, at_least):
    """P(X >= at_least), by counting."""
    ways = sum(
        comb(marked, x) * comb(population - marked, drawn - x)
        for x in range(at_least, min(marked, drawn) + 1)
    )
    return Fraction(ways, comb(population, drawn))


@pytest.mark.parametrize("coordinator", ["curious", "malicious"])
@pytest.mark.parametrize("sites", [120, 257, 400])
@pytest.mark.parametrize("rates", [(10, 30), (5, 15), (0, 20)])
def test_the_chosen_graph_meets_its_bounds_in_exact_arithmetic(
    sites, rates, coordinator
):
    corrupt, dropped = (sites * rate // 100 for rate in rates)
    survivors = sites - dropped
    found = sparse(sites, corrupt=corrupt, survivors=survivors, coordinator=coordinator)
    k, t = found.degree, found.threshold
    most = t if coordinator == "curious" else 2 * t - k
    assert sites * exact_tail(sites - 1, corrupt, k, most) <= Fraction(
        1, 2**PRIVACY_BITS
    )
    enough = exact_tail(sites - 1, survivors - 1, k, t)
    assert sites * (1 - enough) <= Fraction(1, 2**FAILURE_BITS)
    if coordinator == "curious":
        split = log2_split_curious(sites, corrupt, survivors, found)
    else:
        split = log2_split_malicious(sites, corrupt, found)
    assert split <= -PRIVACY_BITS


def test_without_corrupt_sites_it_is_the_splits_that_set_the_degree():
    found = sparse(1000, corrupt=0, survivors=1000, coordinator="curious")
    assert log2_split_curious(1000, 0, 1000, found) <= -PRIVACY_BITS
    fewer = Parameters(found.degree - 1, found.degree - 1)
    assert log2_split_curious(1000, 0, 1000, fewer) > -PRIVACY_BITS


def test_one_corrupt_site_more_breaks_the_bound_of_a_tight_choice():
    found = sparse(1000, corrupt=100, survivors=700, coordinator="curious")
    tail = exact_tail(999, 110, found.degree, found.threshold)
    assert 1000 * tail > Fraction(1, 2**PRIVACY_BITS)


def test_a_hundred_sites_hold_for_everybody_and_more_do_not():
    at = {"corrupt": 10, "survivors": 70, "coordinator": "curious"}
    assert parameters(100, **at) == Parameters(99, 69)
    assert parameters(101, **at).degree < 100


def test_without_a_sparse_solution_the_graph_is_complete():
    at = {"corrupt": 30, "survivors": 136, "coordinator": "malicious"}
    assert sparse(240, **at) is None
    with pytest.raises(InputError, match="at least 136"):
        parameters(240, **{**at, "survivors": 135})
    assert parameters(240, **at) == Parameters(239, 135)


def test_against_a_malicious_coordinator_half_of_the_holders_are_too_few():
    with pytest.raises(InputError, match="at least 6 of 9 sites"):
        complete(9, corrupt=0, survivors=5, coordinator="malicious")
    assert complete(9, corrupt=0, survivors=6, coordinator="malicious").threshold == 5


@pytest.mark.parametrize(("corrupt", "survivors"), [(0, 1), (0, 6), (3, 4), (-1, 4)])
def test_impossible_counts_are_refused(corrupt, survivors):
    with pytest.raises(InputError, match=r"survive|min_survivors"):
        parameters(5, corrupt=corrupt, survivors=survivors, coordinator="curious")


def honest_graph(sites, degree, rng):
    """Return the mask graph when each site draws its holders."""
    linked = np.zeros((sites, sites), dtype=bool)
    for site in range(sites):
        others = np.delete(np.arange(sites), site)
        linked[site, rng.choice(others, degree, replace=False)] = True
    return linked | linked.T


def connected(linked):
    reached = np.zeros(len(linked), dtype=bool)
    reached[0] = True
    for _ in range(len(linked)):
        reached |= linked[reached].any(axis=0)
    return bool(reached.all())


def test_the_bound_on_splits_holds_in_simulation():
    sites, corrupt, survivors, degree = 14, 2, 12, 2
    bound = 2 ** log2_split_curious(sites, corrupt, survivors, Parameters(degree, 1))
    assert bound < 0.3
    rng = np.random.default_rng(5)
    honest = survivors - corrupt
    trials = 1500
    split = sum(
        not connected(honest_graph(sites, degree, rng)[:honest, :honest])
        for _ in range(trials)
    )
    assert split / trials > 0.02  # the event happens, so the bound is tested
    assert stats.binom.sf(split - 1, trials, min(1.0, bound)) > ALPHA


def test_a_coordinator_that_picks_the_silent_needs_more_holders_to_split():
    chosen = Parameters(88, 36)
    assert log2_split_curious(1000, 100, 700, chosen) < -PRIVACY_BITS
    assert log2_split_malicious(1000, 100, chosen) > -PRIVACY_BITS


def test_the_bound_on_closed_groups_counts_a_small_case_exactly():
    # Groups of one: a lone site needs t corrupt holders.
    sites, corrupt, chosen = 6, 2, Parameters(3, 2)
    alone = 4 * exact_tail(5, 2, 3, 2)
    pairs = 6 * exact_tail(5, 3, 3, 2) ** 2
    assert log2_split_malicious(sites, corrupt, chosen) >= log2(alone + pairs) - 1e-9


def test_holders_are_distinct_others_in_order():
    others = tuple(range(2, 200))
    chosen = choose_holders(others, 40, Seeded(b"graph"))
    assert len(set(chosen)) == 40
    assert list(chosen) == sorted(chosen)
    assert set(chosen) <= set(others)
    assert choose_holders((4, 5), 2, Seeded(b"graph")) == (4, 5)


def holder_p_value(draw):
    """Chi-squared p-value of the pairs drawn against the uniform law."""
    counts = Counter(draw() for _ in range(15 * 400))
    return stats.chisquare([counts[c] for c in sorted(counts)]).pvalue


def test_every_set_of_holders_is_equally_likely():
    entropy = Seeded(b"uniform")
    others = (1, 2, 3, 4, 5, 6)
    assert holder_p_value(lambda: choose_holders(others, 2, entropy)) > ALPHA


def test_the_uniformity_test_notices_a_favourite():
    entropy = Seeded(b"biased")
    others = (1, 2, 3, 4, 5, 6)

    def biased():
        first, second = choose_holders(others, 2, entropy)
        return (1, 2) if entropy(1)[0] < 8 else (first, second)

    assert holder_p_value(biased) < ALPHA


@pytest.mark.parametrize(("degree", "threshold"), [(3, 4), (3, 0)])
def test_a_threshold_fits_its_degree(degree, threshold):
    with pytest.raises(InputError, match="does not fit"):
        Parameters(degree, threshold)
