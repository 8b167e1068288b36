from fractions import Fraction

import pytest

from discreet import BudgetError, PlanError, SecureAggregation
from discreet.codec.parsing import amount_from_text, decimal_text, exact
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.privacy.account import Cap, MemoryAccount, Permit, Use
from discreet.privacy.composition import Spent, compose
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded, fraction_of
from discreet.privacy.unit import Unit

HALF = PureDP(Fraction(1, 2))


def use(session=b"s", number=0, loss=HALF, intent=b"i", population="icu"):
    return Use(population, session, number, loss, intent)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (0.1, Fraction(1, 10)),
        ("1.0", Fraction(1)),
        (3, Fraction(3)),
        ("1e-6", Fraction(1, 10**6)),
    ],
)
def test_amounts_are_the_decimal_that_was_written(written, value):
    assert exact(written) == value
    assert amount_from_text(decimal_text(value)) == value


@pytest.mark.parametrize("bad", ["many", "nan", float("inf"), "0x1"])
def test_amounts_that_are_no_numbers_are_refused(bad):
    with pytest.raises(PlanError, match="epsilon must be"):
        exact(bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PureDP(Fraction(0)),
        lambda: ApproxDP(Fraction(1), Fraction(0)),
        lambda: ApproxDP(Fraction(1), Fraction(1)),
        lambda: ApproxDP(Fraction(0), Fraction(1, 2)),
        lambda: fraction_of(HALF, Fraction(0)),
        lambda: fraction_of(HALF, Fraction(2)),
    ],
)
def test_losses_that_make_no_sense_are_refused(make):
    with pytest.raises(PlanError):
        make()


def test_shares_of_a_budget_add_up_to_it():
    for loss in (HALF, ApproxDP(Fraction(1), Fraction(1, 10**6))):
        parts = [fraction_of(loss, Fraction(k, 5)) for k in (1, 4)]
        assert compose(parts) == compose([loss])


@pytest.mark.parametrize(
    ("kind", "relation", "most"),
    [
        ("row", "add_remove", None),
        ("label", "replace", None),
        ("client", "add_remove", None),
        ("subject", "flip", 3),
        ("example", "add_remove", 2),
        ("subject", "add_remove", 1.01),  # two rows, and noise for 1.01
        ("client", "add_remove", 0),
        ("site", "replace", None),
    ],
)
def test_units_that_make_no_sense_are_refused(kind, relation, most):
    with pytest.raises(PlanError):
        Unit(kind, relation, most)


def test_losses_compose_kind_by_kind():
    losses = [
        HALF,
        ApproxDP(Fraction(1), Fraction(1, 100)),
        Unbounded(),
    ]
    assert compose(losses) == Spent(Fraction(3, 2), Fraction(1, 100), 1)


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


def test_the_claim_of_exact_sums_says_that_they_are_exact():
    plan = recommend(PublicFacts(), SecureAggregation())
    text = str(plan.claim("simulated", sites=12))
    assert "no differential privacy" in text
    assert "Simulated in one process" in text
    assert "258 counts" in text
    assert "lying sites" in text
    assert "read the other's" in str(plan.claim("deployed", sites=2))
    assert "single site" in str(plan.claim("deployed", sites=1))
    assert "protects nobody" in str(plan.claim("seeded", sites=3))
