"""Who shares with whom, and the draw of random groups."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, pairwise, product
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
    drawn_groups,
    log2_left_out,
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
        (10_000, (10, 30), "curious", 108, 44),
        (1000, (10, 30), "malicious", 414, 247),
        (10_000, (10, 30), "malicious", 783, 468),
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
@pytest.mark.parametrize("rates", [(10, 30), (5, 15), (0, 20), (3, 0)])
def test_the_chosen_graph_meets_its_bounds_in_exact_arithmetic(
    sites, rates, coordinator
):
    corrupt, dropped = (sites * rate // 100 for rate in rates)
    survivors = sites - dropped
    found = sparse(sites, corrupt=corrupt, survivors=survivors, coordinator=coordinator)
    k, t = found.degree, found.threshold
    most = t if coordinator == "curious" else 2 * t - k
    failure = float(sites * exact_tail(sites - 1, corrupt, k, most))
    enough = exact_tail(sites - 1, survivors - 1, k, t)
    assert sites * (1 - enough) <= Fraction(1, 2**FAILURE_BITS)
    if coordinator == "curious":
        failure += 2 ** log2_split_curious(sites, corrupt, survivors, found)
    else:
        few = next(
            x
            for x in range(k + 1)
            if sites * exact_tail(sites - 1, corrupt, k, x) <= Fraction(1, 2**41)
        )
        least = t - (few - 1) + 1
        failure += 2 ** log2_split_malicious(sites, corrupt, found)
        failure += 2 ** log2_left_out(sites, corrupt, survivors, found, least=least)
    assert failure <= 2**-PRIVACY_BITS


def test_without_corrupt_sites_it_is_the_splits_that_set_the_degree():
    found = sparse(1000, corrupt=0, survivors=1000, coordinator="curious")
    assert log2_split_curious(1000, 0, 1000, found) <= -PRIVACY_BITS
    fewer = Parameters(found.degree - 1, found.degree - 1)
    assert log2_split_curious(1000, 0, 1000, fewer) > -PRIVACY_BITS - 1


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
    at = {"corrupt": 0, "coordinator": "malicious"}
    with pytest.raises(InputError, match="at least 6 of 9 sites"):
        parameters(9, survivors=5, **at)
    assert parameters(9, survivors=6, **at).threshold == 5


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


def chosen_by(graph):
    """Return for each site the bits of those it chose."""
    return [sum(1 << holder for holder in holders) for holders in graph]


def somebody_is_left_out(masks, honest, survivors, least):
    """Look for A and B by trying all: nobody in A chose anybody in B.

    ``masks`` are of all sites, the first ``honest`` of them honest; A is more than
    half of these, B at least ``least``, and the rest may be silent.
    """
    for group in range(1, 1 << honest):
        if 2 * group.bit_count() <= honest:
            continue
        reached = group
        for site in range(honest):
            if group >> site & 1:
                reached |= masks[site]
        free = honest - (reached & ((1 << honest) - 1)).bit_count()
        # B is best taken as large as can be: all whom nobody in A chose.
        silent = honest - group.bit_count() - free
        if free >= least and silent <= len(masks) - survivors:
            return True
    return False


@pytest.mark.parametrize(
    ("sites", "corrupt", "survivors", "degree", "least"),
    [(5, 0, 4, 2, 1), (5, 0, 5, 2, 1), (5, 0, 3, 2, 2), (5, 1, 4, 2, 1)],
)
def test_the_bound_on_sites_left_out_holds_over_all_graphs(
    sites, corrupt, survivors, degree, least
):
    others = [
        list(combinations([s for s in range(sites) if s != site], degree))
        for site in range(sites)
    ]
    graphs = [chosen_by(graph) for graph in product(*others)]
    found = sum(
        somebody_is_left_out(g, sites - corrupt, survivors, least) for g in graphs
    )
    chosen = Parameters(degree, 1)
    bound = 2 ** log2_left_out(sites, corrupt, survivors, chosen, least=least)
    assert 0 < found / len(graphs) <= bound * (1 + 1e-9)


def test_the_bound_on_sites_left_out_is_the_sum_over_all_pairs_of_groups():
    sites, corrupt, survivors, degree, least = 21, 2, 17, 9, 3
    honest, half = sites - corrupt, (sites - corrupt - 1) // 2
    exact = Fraction(0)
    for b in range(least, half + 1):
        avoid = Fraction(comb(sites - 1 - b, degree), comb(sites - 1, degree))
        for s in range(min(sites - survivors, half - b) + 1):
            pairs = comb(honest, b) * comb(honest - b, s)
            exact += pairs * avoid ** (honest - b - s)
    chosen = Parameters(degree, 6)
    bound = log2_left_out(sites, corrupt, survivors, chosen, least=least)
    assert log2(exact) <= bound <= log2(exact) + log2(sites - survivors + 1)


def test_where_too_few_remain_nobody_can_be_left_out():
    assert log2_left_out(9, 0, 7, Parameters(4, 3), least=5) == -np.inf
    assert log2_left_out(9, 0, 7, Parameters(8, 6), least=1) == -np.inf


@pytest.mark.parametrize(
    ("sites", "rates", "before", "after"),
    [
        (500, (0, 10), 0.936, -977),
        (1000, (10, 30), 4.0e-7, -65_273),
        (10_000, (10, 30), 1.0, -205_449),
        (1000, (5, 15), 1.0, -4316),
        (10_000, (5, 15), 1.0, -1756),
    ],
)
def test_the_published_chances_of_leaving_a_site_out(sites, rates, before, after):
    corrupt, silent = (sites * rate // 100 for rate in rates)
    at = {"corrupt": corrupt, "survivors": sites - silent}
    found = sparse(sites, coordinator="malicious", **at)
    k, t = found.degree, found.threshold
    # Of those who chose a given site all honest ones must be called silent.
    chance = stats.binom.cdf(silent, sites - 1 - corrupt, k / (sites - 1))
    assert chance == pytest.approx(before, rel=0.01)
    tails = stats.hypergeom.sf(np.arange(-1, k), sites - 1, corrupt, k) * sites
    few = int(np.argmax(tails <= 2**-41))
    left_out = log2_left_out(sites, chosen=found, least=t - few + 2, **at)
    assert left_out == pytest.approx(after, abs=0.5)


def test_full_attendance_needs_holders_enough_for_the_floor():
    """Nobody may be silent, yet a group could be left out: this sets the degree."""
    found = sparse(1000, corrupt=0, survivors=1000, coordinator="malicious")
    fewer = Parameters(found.degree - 1, found.degree - 1)
    left_out = log2_left_out(1000, 0, 1000, fewer, least=fewer.threshold + 1)
    assert log2_split_malicious(1000, 0, fewer) < -PRIVACY_BITS
    assert left_out > -PRIVACY_BITS - 1


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


def test_every_set_of_holders_is_equally_likely_and_a_favourite_is_noticed():
    entropy = Seeded(b"uniform")

    def drawn():
        return choose_holders((1, 2, 3, 4, 5, 6), 2, entropy)

    assert holder_p_value(drawn) > ALPHA
    assert holder_p_value(lambda: (1, 2) if entropy(1)[0] < 8 else drawn()) < ALPHA


@pytest.mark.parametrize(("degree", "threshold"), [(3, 4), (3, 0)])
def test_a_threshold_fits_its_degree(degree, threshold):
    with pytest.raises(InputError, match="does not fit"):
        Parameters(degree, threshold)


SAID = 32


def nonces(count, seed=b"n"):
    entropy = Seeded(seed)
    return {number: entropy(SAID) for number in range(1, count + 1)}


@pytest.mark.long
def test_every_site_is_in_one_group_and_sizes_differ_by_one_at_most():
    drawn = drawn_groups(b"s", nonces(23), 4)
    assert sorted(n for group in drawn for n in group) == list(range(1, 24))
    assert sorted(map(len, drawn)) == [5, 6, 6, 6]


@pytest.mark.long
def test_the_draw_is_the_same_for_whoever_makes_it_and_rests_on_every_nonce():
    given = nonces(12)
    drawn = drawn_groups(b"s", given, 3)
    assert drawn_groups(b"s", dict(reversed(given.items())), 3) == drawn
    others = [drawn_groups(b"s", given | {site: bytes(SAID)}, 3) for site in given]
    assert all(other != drawn for other in others)
    assert all(a != b for a, b in pairwise(others))
    assert drawn_groups(b"t", given, 3) != drawn


@pytest.mark.long
def test_two_sites_meet_as_often_as_chance_has_it():
    """Of 4,000 draws, 5 sd about the mean: false alarms below 1e-6."""
    draws, sites, groups = 4_000, 6, 3
    met = Counter()
    for k in range(draws):
        for group in drawn_groups(b"s", nonces(sites, b"%d" % k), groups):
            met[group] += 1
    chance = 1 / 5  # the other place of a pair goes to one of five
    slack = 5 * np.sqrt(draws * chance * (1 - chance))
    assert len(met) == 15
    assert all(abs(n - draws * chance) < slack for n in met.values())


@pytest.mark.long
def test_words_of_another_length_are_refused():
    with pytest.raises(InputError, match="one length"):
        drawn_groups(b"s", nonces(6) | {3: b"short"}, 3)
