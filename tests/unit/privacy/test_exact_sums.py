"""Exact sums together: what combines to few sites, against every group of sites."""

from itertools import combinations

import numpy as np
import pytest

from discreet.privacy import account
from discreet.privacy.account import combine_to_few, shows_few_sites


def isolated(sums, fewest):
    """The oracle: a group whose removal lowers the rank carries a combination."""
    everybody = sorted(set().union(*sums))
    matrix = np.array([[s in x for s in everybody] for x in sums], dtype=float)
    matrix = np.pad(matrix, ((0, 0), (0, 1)))  # never without a column
    rank = np.linalg.matrix_rank(matrix)
    return any(
        np.linalg.matrix_rank(np.delete(matrix, group, axis=1)) < rank
        for size in range(1, min(fewest, len(everybody) + 1))
        for group in combinations(range(len(everybody)), size)
    )


@pytest.mark.parametrize("fewest", [2, 3, 4])
def test_what_is_found_is_what_every_group_of_sites_shows(fewest):
    rng = np.random.default_rng(fewest)
    answers = []
    for _ in range(150):
        sites, count = int(rng.integers(3, 10)), int(rng.integers(1, 6))
        share = rng.uniform(0.2, 0.9)
        sums = [{i for i in range(sites) if rng.random() < share} for _ in range(count)]
        sums = [{str(i) for i in s} or {"0"} for s in sums]
        answers.append(combine_to_few(sums, fewest))
        assert answers[-1] == isolated(sums, fewest)
    assert 20 < sum(answers) < 145


def test_sums_over_the_same_sites_show_nothing_more():
    everybody = [str(i) for i in range(40)]
    assert shows_few_sites(everybody, [everybody] * 30, 5) is None


def test_a_combination_of_many_sums_is_found_where_no_pair_shows_it():
    """Blocks of five around a ring of odd length, and one site more in the last sum."""
    blocks = [[f"{k}-{i}" for i in range(5)] for k in range(7)]
    ring = [blocks[k] + blocks[(k + 1) % 7] for k in range(6)]
    last = [*blocks[6], *blocks[0]]
    for k, s in enumerate(ring):
        assert shows_few_sites(s, ring[:k], 5) is None
    assert shows_few_sites(last, ring, 5) is None  # the ring gives blocks, of five
    assert combine_to_few([last, *ring], 6)
    even = [*blocks[5], *blocks[0], "victim"]
    assert "fewer than 5 sites" in str(shows_few_sites(even, ring[:5], 5))


def test_too_many_ways_to_combine_are_refused(monkeypatch):
    monkeypatch.setattr(account, "_MOST_COMBINATIONS", 10)
    rng = np.random.default_rng(1)
    sums = [[str(i) for i in range(40) if rng.random() < 0.5] for _ in range(6)]
    assert "too many ways" in str(shows_few_sites(sums[0], sums[1:], 5))
