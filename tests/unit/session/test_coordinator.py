"""Sites and coordinator in one process, through the messages that would travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import BudgetError, DiscreetError
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Round
from discreet.report.evaluation import Evaluation
from discreet.session.coordinator import (
    AbortedError,
    Coordinator,
    StepReport,
    evaluation_of,
)
from discreet.session.messages import (
    Invitation,
    Kind,
    Message,
    session_of,
)
from discreet.session.state import Progress
from discreet.transport.in_process import simulate
from unit.session.federations import (
    COORDINATOR,
    POLICY,
    Altering,
    AskingAgain,
    Federation,
    Losing,
    examples,
    own_answer,
    plan_for,
    rank_plan,
    roster,
    two_rounds,
)

pytestmark = pytest.mark.long

PRIVACY = {
    "exact": SecureAggregation(),
    "distributed": DistributedDP("1"),
    "gaussian": DistributedDP("1", "1e-5"),
    "laplace": LocalDP("1", "laplace"),
    "unary": LocalDP("1", "unary"),
    "arc": LocalDP("1", "arc"),
    "binned labels": LabelDP("1", mechanism="binned"),
}


@pytest.mark.parametrize(
    ("privacy", "signed_by"),
    [
        pytest.param(privacy, signed_by, id=f"{name}-{signed_by}")
        for name, privacy in PRIVACY.items()
        for signed_by in (0, 3)
        if signed_by or name != "exact"  # nobody signs an exact sum without a roster
    ],
)
def test_the_sum_is_that_of_the_sites_own_answers(
    federation: Federation, privacy: PrivacyModel, signed_by: int
) -> None:
    plan = plan_for(privacy, survivors=3, signed_by=signed_by)
    releases = federation.session(plan).run()
    expected = sum(own_answer(plan, k) for k in (1, 2, 3))
    assert np.array_equal(releases[0].total, expected)
    assert releases[0].contributors == 3


def test_flipped_labels_are_the_same_for_every_model_and_paid_once(
    federation: Federation,
) -> None:
    plan = plan_for(LabelDP("1", mechanism="response"), survivors=3)
    other = replace(plan, model=ModelRef("another", "sha256:01"))
    first, second = (federation.session(p).run()[0].total for p in (plan, other))
    assert np.array_equal(first, second)
    assert first.sum() == 900
    assert federation.spent() == 1


@pytest.mark.parametrize("signed_by", [0, 3])
def test_the_default_label_mechanism_is_carried_charged_and_read_again(
    federation: Federation, signed_by: int
) -> None:
    plan = planfile.loads(planfile.dumps(rank_plan(signed_by=signed_by)))
    releases = federation.session(plan).run()
    assert federation.reasons == []
    result = evaluation_of(plan, releases)
    assert isinstance(result, Evaluation)
    every = [examples(k).to_arrays() for k in (1, 2, 3)]
    scores, labels = (np.concatenate(c) for c in zip(*every, strict=True))
    assert result.fit.facts == {"examples": 900}
    away = abs(result.auc.value - roc_auc_score(labels, scores))
    assert away < 6 * result.auc.noise
    assert str(result.claim).startswith("Claim: 2-DP for one label flipped.")
    assert "every score, in no telling order" in str(result.claim)
    assert "two noisy sums of each site" in str(result.claim)
    assert [federation.spent(k) for k in (1, 2, 3)] == [2] * 3


@pytest.mark.parametrize(
    ("silent", "left", "charged"), [({2: 1, 3: 1}, 1, 0), ({2: 2}, 2, 2)]
)
def test_every_site_must_join_and_answer_a_ranking_and_too_few_are_not_charged(
    federation: Federation, silent: Mapping[int, int], left: int, charged: int
) -> None:
    losing = federation.transport(Losing, silent=silent)
    with pytest.raises(AbortedError, match=rf"{left} sites are left .* 3 are needed"):
        federation.session(rank_plan(), losing).run()
    assert federation.spent() == charged


def test_ranks_sent_twice_get_the_stored_answer_and_one_charge(tmp_path: Path) -> None:
    """Fresh noise on the same labels would average out."""
    plan, federation = rank_plan(), Federation(tmp_path)
    passed: list[tuple[Progress | None, Message, bytes]] = []

    def transport(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        answers = {}
        for node, message in messages.items():
            state = states.get(node)
            states[node], answers[node] = federation.site(node).receive(state, message)
            if node == 1 and message.kind is Kind.STEP:
                passed.append((state, message, answers[node].body))
                federation.onces[1].used.clear()  # a restart that offers the old state
                _, retried = changed.site(1).receive(state, message)
                assert retried.body == answers[node].body
        return answers

    changed = replace(federation, data=lambda _: Examples(*flipped_examples(1)))
    states: dict[int, Progress | None] = {}
    Coordinator(plan, (1, 2, 3), transport, Seeded(b"coordinator")).run()
    ((state, message, body),) = passed
    _, again = federation.site(1).receive(states[1], message)
    assert again.kind is Kind.DECLINED or again.body == body
    federation.onces[1].used.clear()
    with pytest.raises(BudgetError, match="purged"):  # after the end: no new noise
        changed.site(1).receive(state, message)
    assert federation.spent() == 2


def flipped_examples(place: int) -> tuple[np.ndarray, np.ndarray]:
    scores, labels = examples(place).to_arrays()
    return scores, 1 - labels


def test_a_site_that_does_not_allow_label_privacy_sends_no_score(
    tmp_path: Path,
) -> None:
    policy = replace(POLICY, privacy=("distributed",))
    federation = Federation(tmp_path, policy=policy)
    with pytest.raises(AbortedError, match="0 sites are left"):
        federation.session(rank_plan()).run()
    assert len(federation.reasons) == 3


@pytest.mark.parametrize(
    ("privacy", "signed_by", "names"),
    [
        (DistributedDP("1"), 0, "advertise share mask reveal"),
        (DistributedDP("1"), 3, "advertise share mask confirm reveal"),
        (LocalDP("1", "laplace"), 0, "answer"),
    ],
)
def test_steps_are_those_of_the_protocol_and_signing_is_one_more(
    federation: Federation, privacy: PrivacyModel, signed_by: int, names: str
) -> None:
    seen: list[StepReport] = []
    plan = plan_for(privacy, survivors=3, signed_by=signed_by)
    session = federation.session(plan)
    session.watch = seen.append
    session.run()
    assert all(step.answered == 3 for step in seen)
    assert [step.name for step in seen] == names.split()


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("exact", [False, True])
def test_a_site_that_dies_at_any_step_leaves_the_survivors_result(
    tmp_path: Path, turn: int, exact: bool
) -> None:
    federation = Federation(tmp_path, sites=4)
    model = SecureAggregation() if exact else DistributedDP("1")
    plan = plan_for(model, survivors=3)
    cohort = replace(plan.cohort, colluders=0)
    plan = replace(plan, cohort=cohort, roster=roster(range(1, 5)))
    transport = federation.transport(Losing, silent={2: turn})
    session = federation.session(plan, transport)
    if exact and turn == 4:  # it is listed, and an exact sum needs its signature
        with pytest.raises(AbortedError, match="1 of the 4 listed sites did not sign"):
            session.run()
        return
    (release,) = session.run()
    # Whoever dies after its vector was sent is in the sum.
    present = [1, 3, 4] if turn <= 3 else [1, 2, 3, 4]
    assert (release.contributors, release.expected) == (len(present), 4)
    if exact:
        (expected,) = simulate(
            replace(plan, cohort=Cohort(3)), [examples(k) for k in present]
        )
        assert np.array_equal(release.total, expected.total)


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_too_few_survivors_abort_and_open_nothing(tmp_path: Path, turn: int) -> None:
    federation = Federation(tmp_path, sites=4)
    plan = plan_for(SecureAggregation(), survivors=3, signed_by=4)
    transport = federation.transport(Losing, silent={2: turn, 3: turn})
    with pytest.raises(AbortedError, match=r"nothing was (opened|revealed)"):
        federation.session(plan, transport).run()


def test_the_ledger_is_charged_by_whoever_sent_and_by_nobody_else(
    tmp_path: Path,
) -> None:
    federation = Federation(tmp_path, sites=4)
    plan = plan_for(DistributedDP("1"), survivors=2)
    transport = federation.transport(Losing, silent={1: 2, 2: 4})
    federation.session(plan, transport).run()
    spent = {k: federation.spent(k) for k in (1, 2, 3, 4)}
    assert spent == {1: 0, 2: 1, 3: 1, 4: 1}


def test_an_earlier_sum_that_is_altered_later_ends_the_session(
    federation: Federation,
) -> None:
    plan = two_rounds()
    third = Fraction(1, 3)
    first, second = (r.statistic for r in plan.rounds)
    last = plan_for(DistributedDP("2"), survivors=3).rounds[0].statistic
    rounds = tuple(Round(s, third) for s in (first, second, last))

    def altered(_: int, message: Message) -> Message:
        if message.round != 2 or message.kind is not Kind.INVITE:
            return message
        return replace(
            message, numbers=message.numbers + (np.arange(message.numbers.size) == 0)
        )

    transport = federation.transport(Altering, message=altered)
    with pytest.raises(AbortedError):
        federation.session(replace(plan, rounds=rounds), transport).run()
    assert any("other numbers" in reason for _, reason in federation.reasons)


def test_a_session_keeps_its_answers_to_its_end_however_short_the_retention(
    tmp_path: Path,
) -> None:
    policy = replace(POLICY, retention_days=0)
    federation = Federation(tmp_path, policy=policy)
    federation.session(two_rounds()).run()
    assert federation.reasons == []
    assert [federation.ledger(k).held() for k in (1, 2, 3)] == [()] * 3


def test_two_rounds_use_the_edges_of_the_broadcast_release(
    federation: Federation,
) -> None:
    plan = two_rounds()
    releases = federation.session(plan).run()
    second = plan.resolve(1, releases[:1])
    expected = sum(own_answer(plan, k, second) for k in (1, 2, 3))
    assert np.array_equal(releases[1].total, expected)
    assert federation.spent() == 2
    assert evaluation_of(plan, releases).auc.value > 0.5  # type: ignore[union-attr]


def test_an_altered_broadcast_is_not_answered(federation: Federation) -> None:

    def altered(node: int, message: Message) -> Message:
        if node == message.round == 1 and message.kind is Kind.INVITE:
            return replace(message, numbers=message.numbers + 1)
        return message

    transport = federation.transport(Altering, message=altered)
    with pytest.raises(AbortedError):
        federation.session(two_rounds(), transport).run()
    assert "other terms" in federation.reasons[0][1]


def test_a_later_round_is_joined_once(federation: Federation) -> None:
    """A second joining would put one noisy vector into two sums."""
    transport = federation.transport(
        AskingAgain,
        again=lambda x: x if x.round == 1 and x.kind is Kind.INVITE else None,
    )
    federation.session(two_rounds(), transport).run()
    assert [reply.kind for reply in transport.seen] == [Kind.DECLINED]
    assert "already answered" in federation.reasons[0][1]


def test_a_later_round_of_another_session_is_declined(federation: Federation) -> None:
    plan = two_rounds()
    transport = federation.transport()
    releases = federation.session(plan, transport).run()
    body = Invitation(dumps(plan), bytes(32), b"")
    session = session_of(plan, body.nonce)
    message = Message(
        Kind.INVITE, plan.digest(), session, 1, 1, body.encode(), releases[0].total
    )
    assert transport.answer(1, message).kind is Kind.DECLINED
    transport.states.clear()
    assert transport.answer(1, message).kind is Kind.DECLINED


def test_two_plans_shown_to_two_sites_open_nothing(federation: Federation) -> None:
    """The coordinator weakens the plan for one site; the others' keys do not fit."""
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    other = replace(plan, cohort=Cohort(3, min_examples_per_site=1))

    def weakened(node: int, message: Message) -> Message:
        if node != 1 or message.kind is not Kind.INVITE:
            return message
        body = replace(Invitation.decode(message.body), text=dumps(other))
        session = session_of(other, body.nonce)
        shown = replace(message, plan_digest=other.digest(), session=session)
        signature = COORDINATOR.sign(body.statement(shown))
        return replace(shown, body=replace(body, signature=signature).encode())

    transport = federation.transport(Altering, message=weakened)
    with pytest.raises(AbortedError):
        federation.session(plan, transport).run()
    assert all(not federation.spent(k) for k in (1, 2, 3))


def test_a_vector_of_the_wrong_length_counts_as_silence(tmp_path: Path) -> None:
    def short(node: int, reply: Message) -> Message:
        cut = node == 2 and reply.numbers.size
        return replace(reply, numbers=reply.numbers[:-1]) if cut else reply

    for name, privacy in (("a", DistributedDP("1")), ("b", LocalDP("1", "laplace"))):
        federation = Federation(tmp_path / name)
        plan = plan_for(privacy, survivors=2)
        transport = federation.transport(Altering, reply=short)
        (release,) = federation.session(plan, transport).run()
        assert (release.contributors, release.expected) == (2, 3)


def test_an_answer_of_another_session_or_site_counts_as_silence(
    federation: Federation,
) -> None:
    def foreign(node: int, reply: Message) -> Message:
        if node == 1:
            return replace(reply, session=bytes(32))
        return replace(reply, site=3) if node == 2 else reply

    plan = plan_for(LocalDP("1", "laplace"), survivors=1)
    (release,) = federation.session(
        plan, federation.transport(Altering, reply=foreign)
    ).run()
    assert release.contributors == 1


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (plan_for(DistributedDP("1", "1e-5"), survivors=1), "at least 2"),
        (plan_for(SecureAggregation(), survivors=2, signed_by=3), "min_survivors"),
    ],
)
def test_a_plan_that_gives_no_cover_is_not_carried(
    federation: Federation, plan: Plan, reason: str
) -> None:
    with pytest.raises(DiscreetError, match=reason):
        federation.session(plan)
