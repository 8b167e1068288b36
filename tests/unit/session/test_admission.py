"""Admission: every reason to refuse shows before a session is joined."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet.data.scores import ScoreRange
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import BudgetError, DiscreetError, InputError
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.plan import recommend
from discreet.privacy.account import MemoryAccount, Use, answer_once
from discreet.privacy.ledger import Ledger
from discreet.session.policy import PolicyError
from discreet.session.respond import admit, check_data, respond
from policies import open_policy

ROSTER = Roster(tuple(Member(n, n.encode() * 32) for n in "abcdefgh"))
COHORT = Cohort(8, 1)
POLICY = open_policy(
    population="icu",
    privacy=("distributed", "secure-aggregation", "local"),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(2),
    exact_sums=3,
    sessions_per_plan=5,
    examples=3,
)
SITE = discreet.Examples([0.1, 0.8, 0.4], [0, 1, 1])


def planned(privacy=None, **more):
    made = recommend(
        more.pop("facts", PublicFacts()),
        privacy or discreet.DistributedDP(1),
        cohort=COHORT,
        **more,
    )
    return replace(made, roster=ROSTER)


PLAN = planned()
EXACT = planned(discreet.SecureAggregation())


@pytest.fixture
def ledger(tmp_path):
    with Ledger.new(tmp_path / "ledger.db", limits=POLICY.limits()) as opened:
        yield opened


def no_entropy(size):
    raise AssertionError(f"{size} bytes were drawn")


def answer(plan, ledger, *, session, entropy=SYSTEM):
    return respond(
        SITE,
        ledger,
        plan,
        plan.resolve(0, []),
        session=session,
        population=POLICY.population,
        entropy=entropy,
        policy=POLICY,
    )


def test_admission_charges_nothing_and_an_admitted_site_answers(ledger):
    admit(PLAN, POLICY, ledger)
    assert ledger.entries() == ()
    sent = answer(PLAN, ledger, session=b"s")
    assert sent.size == PLAN.statistic.size
    assert ledger.spent("icu").epsilon == 1
    assert ledger.entries()[0].use.sites == ROSTER.keys()
    again = answer(PLAN, ledger, session=b"s", entropy=no_entropy)
    np.testing.assert_array_equal(again, sent)


def test_a_ledger_and_an_account_in_memory_lead_to_the_same_numbers(ledger):
    this = PLAN.resolve(0, [])
    names = {"session": b"s", "population": "icu"}
    kept = [
        respond(SITE, account, PLAN, this, entropy=Seeded(b"x"), **names)
        for account in (ledger, MemoryAccount())
    ]
    np.testing.assert_array_equal(*kept)


def test_a_restarted_process_is_admitted_to_the_session_it_has_paid_for(ledger):
    for session in (b"s", b"t"):  # the whole budget
        answer(PLAN, ledger, session=session)
    admit(PLAN, POLICY, ledger, session=b"s")
    with pytest.raises(BudgetError, match="exceed the cap"):
        admit(PLAN, POLICY, ledger)
    with pytest.raises(BudgetError, match="exceed the cap"):
        admit(PLAN, POLICY, ledger, session=b"u")


def test_a_plan_of_two_rounds_is_admitted_only_if_both_can_be_paid(ledger):
    facts = PublicFacts(scores=ScoreRange.declare("other", 0.0, 10.0))
    plan = planned(facts=facts)
    assert len(plan.rounds) == 2
    admit(plan, POLICY, ledger)
    ledger.reserve(Use("icu", b"x", 0, planned().privacy.loss, b"i"))
    admit(plan, POLICY, ledger)
    ledger.reserve(Use("icu", b"y", 0, discreet.DistributedDP("0.3").loss, b"i"))
    with pytest.raises(BudgetError, match="exceed the cap"):
        admit(plan, POLICY, ledger)


@pytest.mark.parametrize(
    ("plan", "examples", "error", "message"),
    [
        (planned(discreet.DistributedDP(2)), SITE, PolicyError, "epsilon 1 a plan"),
        (
            PLAN,
            discreet.Examples([0.1, 0.8], [0, 1]),
            PolicyError,
            "fewer than the 3 examples that its policy",
        ),
        (
            replace(PLAN, cohort=Cohort(8, 1, min_examples_per_site=5)),
            SITE,
            InputError,
            "fewer than the 5 examples that the plan",
        ),
        (
            planned(discreet.DistributedDP(1, unit="subject", max_examples=2)),
            SITE,
            InputError,
            "no subject column",
        ),
    ],
)
def test_a_refusal_names_its_reason_and_charges_nothing(
    ledger, plan, examples, error, message
):
    def pilot():
        admit(plan, POLICY, ledger)
        check_data(plan, POLICY, examples)

    with pytest.raises(error, match=message) as caught:
        pilot()
    assert isinstance(caught.value, DiscreetError)
    assert ledger.entries() == ()


def test_data_that_cannot_be_counted_is_refused_on_admission(ledger):
    grouped = replace(planned(groups=["f", "m"]), metrics=frozenset({"auc"}))
    policy = replace(POLICY, groups=("*",))
    admit(grouped, policy, ledger)
    with pytest.raises(InputError):
        check_data(grouped, policy, SITE)


def test_an_exact_sum_over_fewer_sites_is_refused_on_admission(ledger):
    answer(EXACT, ledger, session=b"s")
    admit(EXACT, POLICY, ledger)
    smaller = replace(
        EXACT, cohort=Cohort(7), roster=replace(ROSTER, sites=ROSTER.sites[:-1])
    )
    with pytest.raises(BudgetError, match="differs from an earlier one by 1 site,"):
        admit(smaller, POLICY, ledger)


def test_an_exact_sum_of_unknown_sites_is_given_once(ledger):
    unknown = replace(EXACT, roster=None)
    answer(unknown, ledger, session=b"s")
    for plan in (unknown, EXACT):
        with pytest.raises(BudgetError, match="unknown sites"):
            admit(plan, POLICY, ledger)
    listed = [f"node-{i}" for i in range(8)]
    with pytest.raises(BudgetError, match="unknown sites"):
        admit(unknown, POLICY, ledger, sites=listed)


def test_answering_checks_the_policy_again(ledger):
    this = PLAN.resolve(0, [])
    strict = replace(POLICY, epsilon_per_plan=Fraction(1, 2))
    names = {"session": b"s", "entropy": no_entropy}
    with pytest.raises(PolicyError, match=r"epsilon 0\.5 a plan"):
        respond(SITE, ledger, PLAN, this, population="icu", policy=strict, **names)
    with pytest.raises(PolicyError, match="for population 'icu', not for 'ward'"):
        respond(SITE, ledger, PLAN, this, population="ward", policy=POLICY, **names)
    assert ledger.entries() == ()


@pytest.mark.parametrize(
    "privacy",
    [
        discreet.SecureAggregation(),
        discreet.DistributedDP("0.3"),
        discreet.DistributedDP("0.3", "1e-6"),
        discreet.LocalDP("0.3"),
        discreet.LocalDP("0.3", "unary"),
        discreet.LocalDP("0.3", "levels"),
        discreet.LocalDP("0.3", "laplace"),
    ],
)
def test_what_is_charged_is_what_the_mechanism_loses(privacy):
    plan = planned(privacy)
    this = plan.resolve(0, [])
    assert (
        plan.privacy.mechanism_for(this, plan.cohort).loss()
        == this.loss
        == privacy.loss
    )


def test_nothing_is_made_when_the_charge_is_refused(ledger):
    use = Use("icu", b"s", 0, discreet.DistributedDP(9).loss, b"i")
    with pytest.raises(BudgetError):
        answer_once(ledger, use, lambda: no_entropy(1))
