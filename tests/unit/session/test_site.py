"""A site in a session: what it refuses, what it answers twice, what it pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet.data.edges import EdgeRule, Listed, Warped
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy.account import Permit
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import LedgerError
from discreet.session.coordinator import (
    AbortedError,
)
from discreet.session.messages import (
    Kind,
    Message,
)
from discreet.transport.in_process import InProcess
from unit.session.federations import (
    POLICY,
    Federation,
    Losing,
    examples,
    identity,
    invitation_to,
    plan_for,
)


def test_an_invitation_that_the_coordinator_did_not_sign_is_declined(
    tmp_path: Path,
) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    federation = Federation(tmp_path)
    session = federation.session(plan)
    session.identity = identity(1)
    with pytest.raises(AbortedError, match="3 declined"):
        session.run()
    assert "not signed by the coordinator" in federation.reasons[0][1]


def test_a_site_answers_only_the_plan_that_it_agreed_to(tmp_path: Path) -> None:
    agreed = plan_for(DistributedDP("1"), survivors=3)
    federation = Federation(tmp_path, plans={1: agreed})
    session = federation.session(plan_for(DistributedDP("1"), survivors=2))
    assert session.run()[0].contributors == 2
    assert federation.reasons == [
        (1, "the coordinator invites to another plan than this site agreed to")
    ]


@pytest.mark.parametrize("words", ["", "call the data office"])
def test_a_refusal_is_one_constant_whatever_the_reason(
    tmp_path: Path, words: str
) -> None:
    own = replace(POLICY, when_declining=words)
    plan = plan_for(LocalDP("1", "laplace"), survivors=1)
    reasons: dict[str, Federation] = {
        "policy": Federation(
            tmp_path / "a", policy=replace(own, privacy=("distributed",))
        ),
        "budget": Federation(
            tmp_path / "b", policy=replace(own, epsilon_total=Fraction(1, 2))
        ),
        "data": Federation(
            tmp_path / "c", policy=own, data=lambda _: Examples([2.0], [1])
        ),
    }
    answers = set()
    for federation in reasons.values():
        exchange = federation.exchange()
        message = invitation_to(plan)
        answer = exchange.answer(1, message)
        answers.add((answer.kind, answer.site, answer.body, answer.numbers.size))
        assert len(federation.reasons) == 1
    assert answers == {(Kind.DECLINED, 0, words.encode(), 0)}


def test_a_repeated_local_invitation_gets_the_same_bytes_and_costs_once(
    tmp_path: Path,
) -> None:
    plan = plan_for(LocalDP("1", "laplace"), survivors=1)
    drawn = iter(range(100))
    federation = Federation(tmp_path, entropy=lambda _: Seeded(bytes([next(drawn)])))
    exchange = federation.exchange()
    first, second = (exchange.answer(1, invitation_to(plan)) for _ in range(2))
    assert np.array_equal(first.numbers, second.numbers)
    assert federation.ledger(1).spent("people").epsilon == 1


def test_joining_again_is_charged_again(tmp_path: Path) -> None:
    """The same noisy vector in two sums would tell sites apart."""
    plan = plan_for(DistributedDP("1"), survivors=3)
    drawn = iter(range(100))
    federation = Federation(tmp_path, entropy=lambda _: Seeded(bytes([next(drawn)])))
    totals = [federation.session(plan).run()[0].total for _ in range(2)]
    assert not np.array_equal(*totals)
    assert federation.ledger(1).spent("people").epsilon == 2
    with pytest.raises(AbortedError, match="3 declined"):
        federation.session(plan).run()  # the policy allows two sessions a plan


def test_an_old_state_is_refused(tmp_path: Path) -> None:
    """A runtime that lost the newer state must not make the site mask twice."""
    plan = plan_for(DistributedDP("1"), survivors=3)
    federation = Federation(tmp_path)
    exchange = federation.exchange()

    class Repeating(InProcess):
        def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
            old = self.states.get(1, b"")
            answers = super().__call__(messages)
            if messages[1].kind is Kind.STEP:
                self.states[1] = old
                again = self.answer(1, messages[1])
                assert again.kind is Kind.DECLINED
                return {**answers, 1: again}
            return answers

    with pytest.raises(AbortedError):
        federation.session(plan, Repeating(exchange.sites, exchange.report)).run()
    assert "already answered" in federation.reasons[0][1]


def test_a_full_disk_at_the_ledger_declines_after_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Ledger.record

    def full(ledger: Ledger, permit: Permit, message: bytes) -> None:
        if ledger.path.name == "1.sqlite":
            raise LedgerError("the disk is full")
        record(ledger, permit, message)

    monkeypatch.setattr(Ledger, "record", full)
    federation = Federation(tmp_path)
    (release,) = federation.session(plan_for(DistributedDP("1"))).run()
    assert release.contributors == 2
    assert federation.reasons == [(1, "the disk is full")]
    assert federation.ledger(1).spent("people").epsilon == 1


ONE = replace(POLICY, epsilon_total=Fraction(1), sessions_per_plan=1)


@pytest.mark.parametrize(
    "privacy",
    [
        LocalDP("1", "laplace"),
        LabelDP("1", mechanism="binned"),
        LabelDP("1", mechanism="response"),
    ],
    ids=["local", "binned", "response"],
)
def test_a_repeated_invitation_does_not_tell_whether_a_label_changed(
    tmp_path: Path, privacy: PrivacyModel
) -> None:
    """Its answer was stored: the data are not read, and the budget is used up."""
    scores, labels = examples(1).to_arrays()
    changed = labels.copy()
    changed[0] ^= True
    now = [Examples(scores, labels)]
    federation = Federation(tmp_path, policy=ONE, data=lambda _: now[0])
    exchange = federation.exchange()
    message = invitation_to(plan_for(privacy, survivors=1))
    first = exchange.answer(1, message)
    now[0] = Examples(scores, changed)
    exchange.states.clear()  # a restarted site: only its ledger knows
    again = exchange.answer(1, message)
    federation.data = _unreadable
    exchange.states.clear()
    third = exchange.answer(1, message)
    assert first.kind is Kind.STEP
    assert first.encode() == again.encode() == third.encode()
    assert federation.reasons == []
    assert federation.ledger(1).spent("people").epsilon == 1


def _unreadable(place: int) -> Examples:
    raise AssertionError(f"the data of site {place} were read")


SEVEN = replace(POLICY, sites=3)


def test_two_exact_sums_whose_survivors_differ_by_one_site_are_not_both_opened(
    tmp_path: Path,
) -> None:
    """Their difference is that site's counts. The coordinator chose who was silent."""
    drawn = iter(range(200))
    federation = Federation(
        tmp_path,
        sites=7,
        policy=SEVEN,
        entropy=lambda _: Seeded(bytes([next(drawn)])),
    )
    plan = plan_for(SecureAggregation(), survivors=5, signed_by=7)
    (first,) = federation.session(plan).run()
    assert first.contributors == 7
    silenced = Losing(**vars(federation.exchange()), silent={7: 3})
    with pytest.raises(AbortedError, match="nothing was revealed"):
        federation.session(plan, silenced).run()
    told = [reason for _, reason in federation.reasons]
    refused = [r for r in told if "differs from an earlier one by 1 site," in r]
    assert len(refused) == 6
    assert all("this site does not sign" in reason for reason in refused)
    assert sum("its charge was released" in reason for reason in told) == 6


def test_a_renamed_plan_asks_the_same_exact_sum_again(tmp_path: Path) -> None:
    """On changed data the difference would show what changed."""
    plan = plan_for(SecureAggregation(), survivors=3, signed_by=3)
    renamed = replace(
        plan,
        model=ModelRef("another name", "sha256:11"),
        facts=PublicFacts(999, 0.31),
        metrics=frozenset({"auc"}),
    )
    assert renamed.digest() != plan.digest()
    assert renamed.asked() == plan.asked()
    later = {k: examples(k) for k in (1, 2, 3)}
    federation = Federation(tmp_path, data=lambda k: later[k])
    federation.session(plan).run()
    scores, labels = later[2].to_arrays()
    labels = labels.copy()
    labels[0] ^= True
    later[2] = Examples(scores, labels)
    with pytest.raises(AbortedError):
        federation.session(renamed).run()
    ((place, reason),) = federation.reasons
    assert place == 2
    assert "the data changed since an earlier exact sum" in reason


def test_what_is_asked_depends_on_the_realised_edges_alone() -> None:
    plan = plan_for(SecureAggregation())
    values = plan.rounds[0].statistic.edges.values  # type: ignore[union-attr]

    def asking(rule: EdgeRule) -> bytes:
        made = recommend(
            PublicFacts(), DistributedDP("2"), edges=rule, cohort=Cohort(4)
        )
        return made.asked()

    assert asking(Warped(16)) == asking(Listed(values)) == plan.asked()
    assert asking(Warped(17)) != plan.asked()


def test_refusals_are_counted_and_end_the_listening_for_the_day(tmp_path: Path) -> None:
    policy = replace(POLICY, refusals_per_day=5, epsilon_per_plan=Fraction(1))
    federation = Federation(tmp_path, policy=policy)
    exchange = federation.exchange()
    allowed = invitation_to(plan_for(LocalDP("1", "laplace"), survivors=1))
    first = exchange.answer(1, allowed)
    before = len(federation.ledger(1).entries())
    costly = invitation_to(plan_for(LocalDP("2", "laplace"), survivors=1))
    for _ in range(12):
        assert exchange.answer(1, costly).kind is Kind.DECLINED
    assert len(federation.ledger(1).entries()) == before + 5
    another = invitation_to(plan_for(LocalDP("0.5", "laplace"), survivors=1))
    assert exchange.answer(1, another).kind is Kind.DECLINED
    assert "declined 5 times today" in federation.reasons[-1][1]
    assert exchange.answer(1, allowed).encode() == first.encode()
