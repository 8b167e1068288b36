"""An account in memory, and the guard of exact sums against every group of sites."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from discreet import BudgetError
from discreet.privacy import account
from discreet.privacy.account import (
    Cap,
    MemoryAccount,
    Permit,
    Use,
    combine_to_few,
    shows_few_sites,
)
from discreet.privacy.loss import PureDP, Unbounded

HALF = PureDP(Fraction(1, 2))


def use(session=b"s", number=0, loss=HALF, intent=b"i", population="icu"):
    return Use(population, session, number, loss, intent)


def test_a_use_beyond_the_cap_is_refused_and_charges_nothing():
    account = MemoryAccount(Cap(epsilon=Fraction(1)))
    account.reserve(use(b"1"))
    account.reserve(use(b"2"))
    with pytest.raises(BudgetError, match="nothing was charged"):
        account.reserve(use(b"3"))
    assert account.spent("icu").epsilon == 1
    account.reserve(use(b"4", population="another"))


def test_exact_sums_are_counted_and_capped():
    account = MemoryAccount(Cap(exact_sums=1))
    account.reserve(use(b"1", loss=Unbounded()))
    with pytest.raises(BudgetError):
        account.reserve(use(b"2", loss=Unbounded()))


def test_a_retry_is_charged_once_and_gets_the_same_bytes():
    account = MemoryAccount()
    account.record(account.reserve(use()), b"answer")
    account.record(account.reserve(use()), b"answer")
    assert account.spent("icu").epsilon == Fraction(1, 2)
    assert account.replay(b"s", 0) == b"answer"
    assert account.replay(b"s", 1) is None


def test_a_retry_under_another_plan_or_with_another_answer_is_refused():
    account = MemoryAccount()
    permit = account.reserve(use())
    account.record(permit, b"answer")
    with pytest.raises(BudgetError, match="another plan"):
        account.reserve(use(loss=PureDP(Fraction(1, 4))))
    with pytest.raises(BudgetError, match="another message"):
        account.record(permit, b"fresh noise")


def test_a_permit_must_come_from_the_account():
    with pytest.raises(BudgetError, match="not issued"):
        MemoryAccount().record(Permit(use()), b"answer")


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
