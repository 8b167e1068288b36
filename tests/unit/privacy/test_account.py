"""Accounts in memory and in a file, and the guard of exact sums against every group of sites."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from discreet import BudgetError
from discreet.privacy import account as account_module
from discreet.privacy.account import (
    Cap,
    Limits,
    MemoryAccount,
    Permit,
    Use,
    answer_once,
    combine_to_few,
    shows_few_sites,
)
from discreet.privacy.composition import compose
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import PureDP, Unbounded
from discreet.privacy.unit import LABEL

HALF = PureDP(Fraction(1, 2))


def use(session=b"s", number=0, *, loss=HALF, population="icu", **more):
    return Use(population, session, number, loss, more.pop("intent", b"i"), **more)


@pytest.fixture(params=["memory", "ledger"])
def opened(request, tmp_path):
    """Return a function that makes an account with a cap, in memory or in a file."""

    def make(**cap):
        if request.param == "memory":
            return MemoryAccount(Cap(**cap))
        return Ledger.new(tmp_path / "ledger.db", limits=Limits(Cap(**cap)))

    return make


def test_the_cap_belongs_to_the_population_and_a_refusal_charges_nothing(opened):
    account = opened(epsilon=Fraction(1))
    account.reserve(use(b"a", plan=b"one"))
    account.reserve(use(b"b", plan=b"two", intent=b"other scores"))
    with pytest.raises(BudgetError, match=r"exceed the cap.*nothing was charged"):
        account.reserve(use(b"c"))
    assert account.spent("icu").epsilon == 1
    account.reserve(use(b"d", population="ward"))


def test_exact_sums_are_counted_and_capped(opened):
    account = opened(exact_sums=1)
    account.reserve(use(b"1", loss=Unbounded()))
    with pytest.raises(BudgetError):
        account.reserve(use(b"2", loss=Unbounded()))


def test_a_retry_is_charged_once_and_gets_the_same_bytes(opened):
    account = opened()
    account.record(account.reserve(use()), b"answer")
    permit = account.reserve(use())
    account.record(permit, b"answer")
    assert account.spent("icu").epsilon == Fraction(1, 2)
    assert account.replay(b"s", 0) == b"answer"
    assert account.replay(b"s", 1) is None
    with pytest.raises(BudgetError, match="another message"):
        account.record(permit, b"fresh noise")


@pytest.mark.parametrize(
    "change",
    [
        {"plan": b"other"},
        {"sites": ("a", "b")},
        {"unit": LABEL},
        {"loss": PureDP(Fraction(1, 4))},
    ],
)
def test_a_retry_under_another_plan_roster_or_loss_is_refused(opened, change):
    account = opened()
    account.record(account.reserve(use()), b"answer")
    with pytest.raises(BudgetError, match="another plan or other data"):
        account.reserve(use(**change))


@pytest.mark.parametrize("loss", [HALF, Unbounded()])
def test_a_retry_on_changed_data_gets_the_stored_bytes(opened, loss):
    """Refused, it would tell whether anything changed since."""
    account = opened(epsilon=Fraction(1, 2), exact_sums=1)  # used up by the first
    first = answer_once(account, use(loss=loss), lambda: b"first")
    again = answer_once(account, use(loss=loss, intent=b"changed"), lambda: b"other")
    assert first == again == b"first"
    assert account.spent("icu") == compose([loss])


def test_a_charge_whose_answer_was_lost_pays_for_one_on_changed_data(opened):
    account = opened()
    account.reserve(use())  # and a crash before the message was stored
    for made in (b"of changed data", b"second"):
        assert answer_once(account, use(), lambda m=made: m) == b"of changed data"
    assert account.spent("icu").epsilon == Fraction(1, 2)


def test_an_answer_is_made_once_and_only_after_the_charge(opened):
    account, spent = opened(), []

    def make():
        spent.append(account.spent("icu").epsilon)
        return b"answer"

    for _ in range(2):
        assert answer_once(account, use(), make) == b"answer"
    assert spent == [Fraction(1, 2)]


def test_a_permit_that_was_not_charged_stores_nothing(opened):
    account = opened()
    with pytest.raises(BudgetError, match="not issued"):
        account.record(Permit(use()), b"answer")
    assert account.replay(b"s", 0) is None


def test_the_same_flipped_labels_are_charged_once_a_population(opened):
    account, same = opened(), {"reusable": b"labels and key"}
    for session, population, total, more in (
        (b"a", "icu", Fraction(1, 2), same),
        (b"b", "icu", Fraction(1, 2), {"plan": b"another model", **same}),
        (b"c", "icu", 1, {"reusable": b"changed labels"}),
        (b"d", "icu", 3, {"loss": PureDP(Fraction(2)), **same}),
        (b"e", "ward", Fraction(1, 2), same),
    ):
        account.reserve(use(session, population=population, **more))
        assert account.spent(population).epsilon == total
    # Later ones are compared with what was charged, so it must be what was sent.
    with pytest.raises(BudgetError, match="other data"):
        account.reserve(use(b"a", reusable=b"other labels"))


def test_flipped_labels_stay_usable_when_the_budget_is_spent(opened):
    account = opened(epsilon=Fraction(1, 2))
    account.reserve(use(b"a", reusable=b"labels"))
    account.reserve(use(b"b", reusable=b"labels"))
    with pytest.raises(BudgetError):
        account.reserve(use(b"c", reusable=b"other labels"))


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
    monkeypatch.setattr(account_module, "_MOST_COMBINATIONS", 10)
    rng = np.random.default_rng(1)
    sums = [[str(i) for i in range(40) if rng.random() < 0.5] for _ in range(6)]
    assert "too many ways" in str(shows_few_sites(sums[0], sums[1:], 5))
