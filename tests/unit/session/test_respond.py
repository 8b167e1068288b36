"""A site's answer: charged first, stored, and the same bytes on a retry."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet.entropy import SYSTEM
from discreet.errors import BudgetError
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.privacy.account import Cap, MemoryAccount
from discreet.session.respond import respond
from policies import open_policy

PLAN = recommend(PublicFacts(), discreet.DistributedDP("0.5"))
SITE = discreet.Examples([0.1, 0.8, 0.4], [0, 1, 1])


def answer(account, *, examples=SITE, session=b"s", entropy=SYSTEM):
    this = PLAN.resolve(0, [])
    names = {"session": session, "population": "icu"}
    return respond(examples, account, PLAN, this, entropy=entropy, **names)


def test_a_retry_gets_the_same_noise_and_is_charged_once():
    account = MemoryAccount()
    first, again = answer(account), answer(account)
    np.testing.assert_array_equal(first, again)
    assert account.spent("icu").epsilon == Fraction(1, 2)


def test_a_new_session_draws_new_noise_and_is_charged_again():
    account = MemoryAccount()
    assert not np.array_equal(answer(account), answer(account, session=b"t"))
    assert account.spent("icu").epsilon == 1


def test_a_retry_with_changed_data_and_no_budget_left_gets_the_same_noise():
    account = MemoryAccount(Cap(epsilon=Fraction(1, 2)))
    first = answer(account)
    changed = discreet.Examples([0.1, 0.8, 0.9], [0, 1, 1])
    np.testing.assert_array_equal(answer(account, examples=changed), first)
    unreadable = discreet.Examples([0.1, 7.0], [0, 1], kind="other", low=0, high=9)
    np.testing.assert_array_equal(answer(account, examples=unreadable), first)


def test_nothing_is_drawn_when_the_account_cannot_pay():
    def no_entropy(size):
        raise AssertionError(f"{size} bytes were drawn before the charge")

    account = MemoryAccount(Cap(epsilon=Fraction(1, 4)))
    with pytest.raises(BudgetError, match="exceed the cap"):
        answer(account, entropy=no_entropy)
    assert account.spent("icu").epsilon == 0


def test_the_answer_is_stored_before_it_is_returned():
    account = MemoryAccount()
    sent = answer(account)
    assert account.replay(b"s", 0) == sent.astype("<i8").tobytes()


@pytest.mark.parametrize(("most", "told"), [(2, 1), (3, 0)])
def test_more_examples_than_the_plan_allows_are_told_at_the_site_alone(most, told):
    """Staying out for the number of rows would tell that number."""
    plan = replace(PLAN, cohort=Cohort(3, max_examples_per_site=most))
    said = []
    sent = respond(
        SITE,
        MemoryAccount(),
        plan,
        plan.resolve(0, []),
        session=b"s",
        population="icu",
        entropy=SYSTEM,
        policy=open_policy(
            population="icu",
            privacy=("distributed",),
            epsilon_per_plan=Fraction(1),
            epsilon_total=Fraction(1),
        ),
        log=said.append,
    )
    assert sent.size == plan.statistic.size
    assert len(said) == told
    assert all("more than the 2 examples" in line for line in said)
