"""A site's answer: admitted, charged first, bounded, stored, the same bytes on a retry."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet.data.edges import Edges, Uniform
from discreet.data.scores import ScoreRange
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import BudgetError, DiscreetError, InputError
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.plan import recommend
from discreet.privacy.account import Cap, MemoryAccount, Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.policy import PolicyError
from discreet.session.respond import admit, bounded, check_data
from discreet.statistic import ClassHistogram, OneVsRest
from policies import open_policy, respond

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


def answer(plan, ledger, **more):
    this = plan.resolve(0, [])
    return respond(SITE, ledger, plan, this, **{"policy": POLICY, **more})


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


def test_answering_checks_the_policy_again(ledger):
    strict = replace(POLICY, epsilon_per_plan=Fraction(1, 2))
    with pytest.raises(PolicyError, match=r"epsilon 0\.5 a plan"):
        answer(PLAN, ledger, session=b"s", entropy=no_entropy, policy=strict)
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


HALF = recommend(PublicFacts(), discreet.DistributedDP("0.5"))


def answer_half(account, *, examples=SITE, entropy=SYSTEM):
    names = {"session": b"s", "population": "icu", "entropy": entropy}
    return respond(examples, account, HALF, HALF.resolve(0, []), **names)


def test_a_retry_with_changed_data_and_no_budget_left_gets_the_same_noise():
    account = MemoryAccount(Cap(epsilon=Fraction(1, 2)))
    first = answer_half(account)
    changed = discreet.Examples([0.1, 0.8, 0.9], [0, 1, 1])
    np.testing.assert_array_equal(answer_half(account, examples=changed), first)
    unreadable = discreet.Examples([0.1, 7.0], [0, 1], kind="other", low=0, high=9)
    np.testing.assert_array_equal(answer_half(account, examples=unreadable), first)


def test_nothing_is_drawn_when_the_account_cannot_pay():
    account = MemoryAccount(Cap(epsilon=Fraction(1, 4)))
    with pytest.raises(BudgetError, match="exceed the cap"):
        answer_half(account, entropy=no_entropy)
    assert account.spent("icu").epsilon == 0


def test_the_answer_is_stored_before_it_is_returned():
    account = MemoryAccount()
    sent = answer_half(account)
    assert account.replay(b"s", 0) == sent.astype("<i8").tobytes()


@pytest.mark.parametrize(("most", "told"), [(2, 1), (3, 0)])
def test_more_examples_than_the_plan_allows_are_told_at_the_site_alone(
    ledger, most, told
):
    """Staying out for the number of rows would tell that number."""
    plan = replace(PLAN, cohort=Cohort(8, 1, max_examples_per_site=most))
    said = []
    sent = answer(plan, ledger, session=b"s", log=said.append)
    assert sent.size == plan.statistic.size
    assert len(said) == told
    assert all("more than the 2 examples" in line for line in said)


TWO = Unit("subject", "add_remove", max_examples=2)


def rows_of(examples):
    return sorted(
        (float(s), int(y), subject)
        for batch in examples.batches()
        for s, y, subject in zip(
            batch.scores[0], batch.labels, batch.subjects, strict=True
        )
    )


def site(scores, subjects, labels=None):
    labels = np.arange(len(scores)) % 2 if labels is None else labels
    return discreet.Examples(scores, labels, subjects=np.array(subjects, dtype=object))


def test_no_subject_keeps_more_than_its_share_and_small_ones_keep_all():
    full = site(np.linspace(0, 1, 9), list("aaaaabbcd"))
    kept = rows_of(bounded(full, TWO))
    counts = {s: sum(row[2] == s for row in kept) for s in "abcd"}
    assert counts == {"a": 2, "b": 2, "c": 1, "d": 1}


def test_removing_a_subject_changes_nobody_elses_rows(rng):
    scores, subjects = rng.random(400), rng.choice(list("abcdefghij"), 400)
    labels = rng.integers(0, 2, 400)
    whole = rows_of(bounded(site(scores, subjects, labels), TWO))
    for gone in "abcdefghij":
        rest = subjects != gone
        without = rows_of(
            bounded(site(scores[rest], subjects[rest], labels[rest]), TWO)
        )
        assert without == [row for row in whole if row[2] != gone]


def test_the_same_rows_are_kept_on_every_pass(rng):
    examples = bounded(site(rng.random(300), rng.choice(list("abc"), 300)), TWO)
    assert rows_of(examples) == rows_of(examples)


def test_rows_are_kept_with_equal_chances_wherever_they_stand():
    # 3,000 subjects of 5 rows each: every ordinal is kept in 2 of 5 of them.
    subjects = np.repeat(np.arange(3000), 5).astype(object)
    scores = np.tile(np.arange(5) / 5, 3000)
    kept = rows_of(bounded(site(scores, subjects), TWO))
    shares = [sum(row[0] == k / 5 for row in kept) / 3000 for k in range(5)]
    assert shares == pytest.approx([0.4] * 5, abs=0.05)


def test_a_client_is_all_that_a_site_holds():
    examples = discreet.Examples(np.linspace(0, 1, 50), np.zeros(50))
    most = Unit("client", "add_remove", max_examples=7)
    histogram = ClassHistogram(Edges.realise(Uniform(4)))
    assert histogram.count(bounded(examples, most)).sum() == 7


def test_examples_are_not_bounded():
    examples = discreet.Examples([0.1], [1])
    assert bounded(examples, EXAMPLE) is examples
    assert bounded(examples, None) is examples


def test_classes_and_groups_survive_bounding():
    examples = discreet.Examples(
        np.full((4, 3), 0.2),
        ["x", "y", "z", "x"],
        classes=["x", "y", "z"],
        subjects=[1, 1, 2, 2],
        groups=["f", "f", "m", "m"],
    )
    one = bounded(examples, Unit("subject", "add_remove", max_examples=1))
    statistic = OneVsRest(Edges.realise(Uniform(2)), ("x", "y", "z"))
    assert statistic.count(one).sum() == 2 * 3
    (batch,) = one.batches()
    assert sorted(batch.groups) == ["f", "m"]


def test_rows_without_a_subject_are_refused():
    with pytest.raises(InputError, match="no subject column"):
        bounded(discreet.Examples([0.1], [1]), TWO)
    with pytest.raises(InputError, match="1 of 2 rows name no subject"):
        bounded(site([0.1, 0.2], ["a", None]), TWO)


def kept_by_definition(rows, most):
    """The rule, row by row: rows are (score, label, subject)."""
    kept = []
    for subject in {row[2] for row in rows}:
        own = sorted(row for row in rows if row[2] == subject)
        m = len(own)
        h = (subject % (2**31 - 1)) * 48271 % (2**31 - 1) % m
        kept += [
            row
            for r, row in enumerate(own, 1)
            if m <= most or (r * most + h) % m < most
        ]
    return sorted(kept)


def test_the_rows_that_are_kept_are_those_of_the_formula(rng):
    subjects = rng.integers(-5, 40, 600)
    scores, labels = np.round(rng.random(600), 1), rng.integers(0, 2, 600)
    rows = list(zip(scores.tolist(), labels.tolist(), subjects.tolist(), strict=True))
    expected = kept_by_definition(rows, 2)
    for given in (subjects, subjects.astype(float), subjects.astype(str)):
        kept = rows_of(bounded(site(scores, given, labels), TWO))
        assert sorted((s, y, int(who)) for s, y, who in kept) == expected


def test_the_order_of_the_rows_decides_nothing(rng):
    scores, subjects = rng.random(300), rng.choice(list("abc"), 300)
    labels, order = rng.integers(0, 2, 300), rng.permutation(300)
    whole = rows_of(bounded(site(scores, subjects, labels), TWO))
    mixed = site(scores[order], subjects[order], labels[order])
    assert rows_of(bounded(mixed, TWO)) == whole


def test_rows_that_differ_in_their_weight_alone_are_in_no_order_either(rng):
    weights = np.arange(60)
    found = []
    for order in (weights, rng.permutation(60)):
        rows = discreet.Examples(
            np.full(60, 0.5), np.ones(60), subjects=["a"] * 60, weights=weights[order]
        )
        (batch,) = bounded(rows, TWO).batches()
        found.append(sorted(batch.amounts.tolist()))
    assert found[0] == found[1]
