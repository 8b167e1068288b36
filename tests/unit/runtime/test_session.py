"""Sites and coordinator in one process, through the letters that would travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.metrics import roc_auc_score

from discreet.data.edges import EdgeRule, Listed, Warped
from discreet.data.examples import Examples
from discreet.entropy import Entropy, Seeded
from discreet.errors import DiscreetError, PlanError
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.response import ResponseKey
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.recommend import recommend
from discreet.plan.roster import Member, Roster
from discreet.plan.rounds import Round
from discreet.privacy.account import MemoryAccount, Permit
from discreet.result.evaluation import Evaluation
from discreet.runtime.in_process import InProcess, simulate
from discreet.runtime.session import (
    AbortedError,
    Session,
    Step,
    opened_evaluation,
)
from discreet.site.fingerprint import LedgerError
from discreet.site.ledger import Ledger
from discreet.site.letters import (
    Invitation,
    Kind,
    Letter,
    LetterError,
    joined_totals,
    pack,
    session_of,
    unpack,
)
from discreet.site.policy import Policy
from discreet.site.progress import InMemoryOnce
from discreet.site.respond import respond
from discreet.site.session import Site
from discreet.statistic import EquiDepthFrom, Hierarchy

POLICY = Policy(
    population="people",
    privacy=("secure-aggregation", "distributed", "local", "label"),
    units=("example", "label"),
    epsilon_per_plan=Fraction(4),
    epsilon_total=Fraction(8),
    delta_total=Fraction(1, 1000),
    exact_sums=2,
    sessions_per_plan=2,
    sites=1,
)
COORDINATOR = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"c")


def identity(place: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([place]))


def roster(sites: int) -> Roster:
    members = tuple(
        Member(f"site {k}", identity(k).public_key().public_bytes_raw())
        for k in range(1, sites + 1)
    )
    return Roster(members, COORDINATOR.public_key().public_bytes_raw())


def examples(place: int) -> Examples:
    rng = np.random.default_rng(place)
    labels = rng.random(300) < 0.3
    scores = np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1)
    return Examples(scores, labels, subjects=range(len(labels)))


def plan_for(
    privacy: PrivacyModel,
    *,
    survivors: int = 2,
    signed_by: int = 0,
    floor: int = 0,
) -> Plan:
    cohort = Cohort(survivors, min_examples_per_site=floor)
    plan = recommend(PublicFacts(1000, 0.3), privacy, edges=Warped(16), cohort=cohort)
    plan = replace(plan, model=ModelRef("model", "sha256:00"))
    return replace(plan, roster=roster(signed_by)) if signed_by else plan


@dataclass
class Federation:
    """Sites with their ledgers on disk; each letter finds a new ``Site``."""

    folder: Path
    sites: int = 3
    plans: Mapping[int, Plan] = field(default_factory=dict)
    data: Callable[[int], Examples] = examples
    policy: Policy = POLICY
    entropy: Callable[[int], Entropy] = lambda place: Seeded(bytes([place]))
    onces: dict[int, InMemoryOnce] = field(default_factory=dict)
    reasons: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)

    def ledger(self, place: int) -> Ledger:
        path = self.folder / f"{place}.sqlite"
        opened = Ledger if path.exists() else Ledger.new
        return opened(path, limits=self.policy.limits())

    def site(self, place: int) -> Site:
        return Site(
            lambda _: self.data(place),
            self.policy,
            self.ledger(place),
            self.entropy(place),
            self.onces.setdefault(place, InMemoryOnce()),
            self.plans.get(place),
            identity(place),
            ResponseKey(bytes([place]) * 32),
        )

    def exchange(self) -> InProcess:
        return InProcess(
            {k: lambda k=k: self.site(k) for k in range(1, self.sites + 1)},  # type: ignore[misc]
            lambda place, reason: self.reasons.append((place, reason)),
        )

    def session(self, plan: Plan, exchange: InProcess | None = None) -> Session:
        signer = COORDINATOR if plan.roster is not None else None
        return Session(
            plan,
            range(1, self.sites + 1),
            exchange or self.exchange(),
            Seeded(b"coordinator"),
            signer,
        )


@dataclass
class Losing(InProcess):
    """An exchange in which some sites fall silent from a given exchange on."""

    silent: Mapping[int, int] = field(default_factory=dict)
    turn: int = 0

    def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
        self.turn += 1
        gone = {node for node, turn in self.silent.items() if self.turn >= turn}
        return super().__call__({n: x for n, x in letters.items() if n not in gone})


PRIVACY = {
    "exact": SecureAggregation(),
    "distributed": DistributedDP("1"),
    "gaussian": DistributedDP("1", "1e-5"),
    "laplace": LocalDP("1", "laplace"),
    "unary": LocalDP("1", "unary"),
    "arc": LocalDP("1", "arc"),
    "binned labels": LabelDP("1", mechanism="binned"),
}


@pytest.mark.parametrize("signed_by", [0, 3])
@pytest.mark.parametrize("privacy", PRIVACY.values(), ids=PRIVACY)
def test_the_sum_is_that_of_the_sites_own_answers(
    tmp_path: Path, privacy: PrivacyModel, signed_by: int
) -> None:
    plan = plan_for(privacy, survivors=3, signed_by=signed_by)
    releases = Federation(tmp_path).session(plan).run()
    expected = sum(
        respond(
            examples(k),
            MemoryAccount(),
            plan,
            plan.resolve(0, []),
            session=b"",
            population="",
            entropy=Seeded(bytes([k])),
        )
        for k in (1, 2, 3)
    )
    assert np.array_equal(releases[0].total, expected)
    assert releases[0].contributors == 3


def test_exact_sums_are_those_of_the_simulation(tmp_path: Path) -> None:
    plan = plan_for(SecureAggregation(), survivors=3)
    (carried,) = Federation(tmp_path).session(plan).run()
    (simulated,) = simulate(plan, [examples(k) for k in (1, 2, 3)])
    assert np.array_equal(carried.total, simulated.total)


def test_flipped_labels_are_the_same_for_every_model_and_paid_once(
    tmp_path: Path,
) -> None:
    plan = plan_for(LabelDP("1", mechanism="response"), survivors=3)
    other = replace(plan, model=ModelRef("another", "sha256:01"))
    federation = Federation(tmp_path)
    first, second = (federation.session(p).run()[0].total for p in (plan, other))
    assert np.array_equal(first, second)
    assert first.sum() == 900
    assert federation.ledger(1).spent("people").epsilon == 1


def rank_plan(*, survivors: int = 3, signed_by: int = 0, epsilon: str = "2") -> Plan:
    plan = recommend(
        PublicFacts(900), LabelDP(epsilon), cohort=Cohort(min_survivors=survivors)
    )
    return replace(plan, roster=roster(signed_by) if signed_by else None)


@pytest.mark.parametrize("signed_by", [0, 3])
def test_the_default_label_mechanism_is_carried_charged_and_read_again(
    tmp_path: Path, signed_by: int
) -> None:
    plan = planfile.loads(planfile.dumps(rank_plan(signed_by=signed_by)))
    federation = Federation(tmp_path)
    releases = federation.session(plan).run()
    assert federation.reasons == []
    result = opened_evaluation(plan, releases)
    assert isinstance(result, Evaluation)
    every = [examples(k).to_arrays() for k in (1, 2, 3)]
    scores, labels = (np.concatenate(c) for c in zip(*every, strict=True))
    assert result.facts == {"examples": 900}
    away = abs(result.auc.value - roc_auc_score(labels, scores))
    assert away < 6 * result.auc.noise.sd
    assert str(result.claim).startswith("Claim: 2-DP for one label flipped.")
    assert "every score, in no telling order" in str(result.claim)
    assert "two noisy sums of each site" in str(result.claim)
    assert [federation.ledger(k).spent("people").epsilon for k in (1, 2, 3)] == [2] * 3


def test_nobody_is_charged_for_ranks_when_too_few_sites_join(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    losing = Losing(federation.exchange().sites, lambda *_: None, silent={2: 1, 3: 1})
    with pytest.raises(AbortedError, match=r"1 sites are left .* 3 are needed"):
        federation.session(rank_plan(), losing).run()
    assert federation.ledger(1).spent("people").epsilon == 0


def test_a_ranked_site_that_does_not_answer_ends_the_session(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    losing = Losing(federation.exchange().sites, lambda *_: None, silent={2: 2})
    with pytest.raises(AbortedError, match=r"2 sites are left .* 3 are needed"):
        federation.session(rank_plan(), losing).run()


def test_ranks_sent_twice_get_the_stored_answer_and_one_charge(tmp_path: Path) -> None:
    """Fresh noise on the same labels would average out."""
    plan, federation = rank_plan(), Federation(tmp_path)
    passed: list[tuple[bytes, Letter, bytes]] = []

    def exchange(letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
        answers = {}
        for node, letter in letters.items():
            state = states.get(node, b"")
            states[node], answers[node] = federation.site(node).receive(state, letter)
            if node == 1 and letter.kind is Kind.STEP:
                passed.append((state, letter, answers[node].body))
        return answers

    states: dict[int, bytes] = {}
    Session(plan, (1, 2, 3), exchange, Seeded(b"coordinator")).run()
    ((state, letter, body),) = passed
    _, again = federation.site(1).receive(states[1], letter)
    assert again.kind is Kind.DECLINED or again.body == body
    federation.onces.clear()  # a restarted process that offers the old state
    changed = replace(federation, data=lambda _: Examples(*flipped_examples(1)))
    _, retried = changed.site(1).receive(state, letter)
    assert retried.body == body
    assert federation.ledger(1).spent("people").epsilon == 2


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


def test_a_signed_session_takes_five_steps_and_an_unsigned_one_four(
    tmp_path: Path,
) -> None:
    names: dict[int, list[str]] = {}
    for signed_by in (0, 3):
        seen: list[Step] = []
        plan = plan_for(DistributedDP("1"), survivors=3, signed_by=signed_by)
        session = Federation(tmp_path / str(signed_by)).session(plan)
        session.watch = seen.append
        session.run()
        assert all(step.answered == 3 for step in seen)
        names[signed_by] = [step.name for step in seen]
    assert names[0] == ["advertise", "share", "mask", "reveal"]
    assert names[3] == ["advertise", "share", "mask", "confirm", "reveal"]


def test_local_messages_take_one_step(tmp_path: Path) -> None:
    seen: list[Step] = []
    session = Federation(tmp_path).session(plan_for(LocalDP("1", "laplace")))
    session.watch = seen.append
    session.run()
    assert [step.name for step in seen] == ["answer"]


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_a_site_that_dies_at_any_step_leaves_the_survivors_result(
    tmp_path: Path, turn: int
) -> None:
    federation = Federation(tmp_path, sites=4)
    plan = plan_for(SecureAggregation(), survivors=3, signed_by=4)
    exchange = Losing(**vars(federation.exchange()), silent={2: turn})
    (release,) = federation.session(plan, exchange).run()
    # Whoever dies after its vector was sent is in the sum.
    present = [1, 3, 4] if turn <= 3 else [1, 2, 3, 4]
    (expected,) = simulate(
        replace(plan, cohort=Cohort(3)), [examples(k) for k in present]
    )
    assert np.array_equal(release.total, expected.total)
    assert (release.contributors, release.expected) == (len(present), 4)


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_too_few_survivors_abort_and_open_nothing(tmp_path: Path, turn: int) -> None:
    federation = Federation(tmp_path, sites=4)
    plan = plan_for(SecureAggregation(), survivors=3, signed_by=4)
    exchange = Losing(**vars(federation.exchange()), silent={2: turn, 3: turn})
    with pytest.raises(AbortedError, match="nothing was opened"):
        federation.session(plan, exchange).run()


def test_the_ledger_is_charged_by_whoever_sent_and_by_nobody_else(
    tmp_path: Path,
) -> None:
    federation = Federation(tmp_path, sites=4)
    plan = plan_for(DistributedDP("1"), survivors=2)
    exchange = Losing(**vars(federation.exchange()), silent={1: 2, 2: 4})
    federation.session(plan, exchange).run()
    spent = {k: federation.ledger(k).spent("people").epsilon for k in (1, 2, 3, 4)}
    assert spent == {1: 0, 2: 1, 3: 1, 4: 1}


def two_rounds() -> Plan:
    plan = plan_for(DistributedDP("2"), survivors=3)
    histogram = plan_for(DistributedDP("2"), survivors=3).rounds[0].statistic
    tree = Hierarchy(histogram.edges, 2)  # type: ignore[union-attr]
    half = Fraction(1, 2)
    adaptive = EquiDepthFrom(tree, 8, plan.thresholds)
    return replace(plan, rounds=(Round(tree, half), Round(adaptive, half)))


@dataclass
class Altering(InProcess):
    """A coordinator that shows another first sum from the third round on."""

    def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
        changed = {}
        for node, letter in letters.items():
            numbers = letter.numbers.copy()
            if letter.round == 2 and letter.kind is Kind.INVITE:
                numbers[0] += 1
            changed[node] = replace(letter, numbers=numbers)
        return super().__call__(changed)


def test_an_earlier_sum_that_is_altered_later_ends_the_session(tmp_path: Path) -> None:
    plan = two_rounds()
    third = Fraction(1, 3)
    first, second = (r.statistic for r in plan.rounds)
    last = plan_for(DistributedDP("2"), survivors=3).rounds[0].statistic
    rounds = tuple(Round(s, third) for s in (first, second, last))
    federation = Federation(tmp_path)
    exchange = Altering(**vars(federation.exchange()))
    with pytest.raises(AbortedError):
        federation.session(replace(plan, rounds=rounds), exchange).run()
    assert any("other numbers" in reason for _, reason in federation.reasons)


def test_two_rounds_use_the_edges_of_the_broadcast_release(tmp_path: Path) -> None:
    plan = two_rounds()
    federation = Federation(tmp_path)
    releases = federation.session(plan).run()
    second = plan.resolve(1, releases[:1])
    expected = sum(
        respond(
            examples(k),
            MemoryAccount(),
            plan,
            second,
            session=b"",
            population="",
            entropy=Seeded(bytes([k])),
        )
        for k in (1, 2, 3)
    )
    assert np.array_equal(releases[1].total, expected)
    assert federation.ledger(1).spent("people").epsilon == 2
    assert opened_evaluation(plan, releases).auc.value > 0.5  # type: ignore[union-attr]


def test_an_altered_broadcast_is_not_answered(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    inner = federation.exchange()

    class Lying(InProcess):
        def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
            changed = dict(letters)
            if letters[1].round == 1 and letters[1].kind is Kind.INVITE:
                changed[1] = replace(letters[1], numbers=letters[1].numbers + 1)
            return super().__call__(changed)

    with pytest.raises(AbortedError):
        federation.session(two_rounds(), Lying(inner.sites, inner.report)).run()
    assert "other terms" in federation.reasons[0][1]


def test_a_later_round_is_joined_once(tmp_path: Path) -> None:
    """A second joining would put one noisy vector into two sums."""
    federation = Federation(tmp_path)
    inner = federation.exchange()
    seen: list[Kind] = []

    class Asking(InProcess):
        def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
            before = self.states.get(1, b"")
            answers = super().__call__(letters)
            if letters[1].round == 1 and letters[1].kind is Kind.INVITE:
                after, self.states[1] = self.states[1], before
                seen.append(self.answer(1, letters[1]).kind)
                self.states[1] = after
            return answers

    federation.session(two_rounds(), Asking(inner.sites, inner.report)).run()
    assert seen == [Kind.DECLINED]
    assert "already answered" in federation.reasons[0][1]


def test_a_later_round_of_another_session_is_declined(tmp_path: Path) -> None:
    plan = two_rounds()
    federation = Federation(tmp_path)
    exchange = federation.exchange()
    releases = federation.session(plan, exchange).run()
    body = Invitation(plan, bytes(32), b"")
    session = session_of(plan, body.nonce)
    letter = Letter(
        Kind.INVITE, plan.digest(), session, 1, 1, body.encode(), releases[0].total
    )
    assert exchange.answer(1, letter).kind is Kind.DECLINED
    exchange.states.clear()
    assert exchange.answer(1, letter).kind is Kind.DECLINED


def test_two_plans_shown_to_two_sites_open_nothing(tmp_path: Path) -> None:
    """The coordinator weakens the plan for one site; the others' keys do not fit."""
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    other = replace(plan, cohort=Cohort(3, min_examples_per_site=1))
    federation = Federation(tmp_path)
    inner = federation.exchange()

    class TwoFaced(InProcess):
        def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
            changed = dict(letters)
            if letters[1].kind is Kind.INVITE:
                body = Invitation.decode(letters[1].body)
                shown = replace(body, plan=other)
                nonce_session = session_of(other, body.nonce)
                letter = replace(
                    letters[1], plan_digest=other.digest(), session=nonce_session
                )
                signature = COORDINATOR.sign(shown.statement(letter))
                changed[1] = replace(
                    letter, body=replace(shown, signature=signature).encode()
                )
            return super().__call__(changed)

    with pytest.raises(AbortedError):
        federation.session(plan, TwoFaced(inner.sites, inner.report)).run()
    assert all(not federation.ledger(k).spent("people").epsilon for k in (1, 2, 3))


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
    agreed = plan_for(SecureAggregation(), survivors=3)
    federation = Federation(tmp_path, plans={1: agreed})
    session = federation.session(plan_for(SecureAggregation(), survivors=2))
    assert session.run()[0].contributors == 2
    assert federation.reasons == [
        (1, "the coordinator invites to another plan than this site agreed to")
    ]


def test_a_refusal_is_one_constant_whatever_the_reason(tmp_path: Path) -> None:
    plan = plan_for(LocalDP("1", "laplace"), survivors=1)
    reasons: dict[str, Federation] = {
        "policy": Federation(
            tmp_path / "a", policy=replace(POLICY, privacy=("distributed",))
        ),
        "budget": Federation(
            tmp_path / "b", policy=replace(POLICY, epsilon_total=Fraction(1, 2))
        ),
        "data": Federation(tmp_path / "c", data=lambda _: Examples([2.0], [1])),
    }
    answers = set()
    for federation in reasons.values():
        exchange = federation.exchange()
        letter = _invitation(plan)
        answer = exchange.answer(1, letter)
        answers.add((answer.kind, answer.site, answer.body, answer.numbers.size))
        assert len(federation.reasons) == 1
    assert answers == {(Kind.DECLINED, 0, b"", 0)}


def _invitation(plan: Plan) -> Letter:
    body = Invitation(plan, bytes(32), b"")
    session = session_of(plan, body.nonce)
    return Letter(Kind.INVITE, plan.digest(), session, 0, 1, body.encode())


def test_a_repeated_local_invitation_gets_the_same_bytes_and_costs_once(
    tmp_path: Path,
) -> None:
    plan = plan_for(LocalDP("1", "laplace"), survivors=1)
    drawn = iter(range(100))
    federation = Federation(tmp_path, entropy=lambda _: Seeded(bytes([next(drawn)])))
    exchange = federation.exchange()
    first, second = (exchange.answer(1, _invitation(plan)) for _ in range(2))
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
        def __call__(self, letters: Mapping[int, Letter], /) -> Mapping[int, Letter]:
            old = self.states.get(1, b"")
            answers = super().__call__(letters)
            if letters[1].kind is Kind.STEP:
                self.states[1] = old
                again = self.answer(1, letters[1])
                assert again.kind is Kind.DECLINED
                return {**answers, 1: again}
            return answers

    with pytest.raises(AbortedError):
        federation.session(plan, Repeating(exchange.sites, exchange.report)).run()
    assert "already answered" in federation.reasons[0][1]


def test_a_vector_of_the_wrong_length_counts_as_silence(tmp_path: Path) -> None:
    class Short(InProcess):
        def answer(self, node: int, letter: Letter) -> Letter:
            answer = super().answer(node, letter)
            if node == 2 and answer.numbers.size:
                return replace(answer, numbers=answer.numbers[:-1])
            return answer

    for name, privacy in (("a", SecureAggregation()), ("b", LocalDP("1", "laplace"))):
        federation = Federation(tmp_path / name)
        inner = federation.exchange()
        plan = plan_for(privacy, survivors=2)
        exchange = Short(inner.sites, inner.report)
        (release,) = federation.session(plan, exchange).run()
        assert (release.contributors, release.expected) == (2, 3)


def test_an_answer_of_another_session_or_site_counts_as_silence(
    tmp_path: Path,
) -> None:
    class Foreign(InProcess):
        def answer(self, node: int, letter: Letter) -> Letter:
            answer = super().answer(node, letter)
            if node == 1:
                return replace(answer, session=bytes(32))
            return replace(answer, site=3) if node == 2 else answer

    federation = Federation(tmp_path)
    inner = federation.exchange()
    plan = plan_for(LocalDP("1", "laplace"), survivors=1)
    (release,) = federation.session(plan, Foreign(inner.sites, inner.report)).run()
    assert release.contributors == 1


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


def test_a_plan_that_gives_no_cover_is_not_carried(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="at least 2"):
        Federation(tmp_path).session(plan_for(SecureAggregation(), survivors=1))


def test_a_roster_with_too_few_survivors_is_not_carried(tmp_path: Path) -> None:
    plan = plan_for(SecureAggregation(), survivors=2, signed_by=3)
    with pytest.raises(DiscreetError, match="min_survivors"):
        Federation(tmp_path).session(plan)


def test_letters_survive_their_bytes() -> None:
    numbers = np.array([-1, 2**62], dtype=np.int64)
    letter = Letter(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body", numbers)
    read = Letter.decode(letter.encode())
    assert read == letter
    assert np.array_equal(read.numbers, numbers)


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 40, 80, 86, -1])
def test_a_letter_that_is_cut_short_is_refused(cut: int) -> None:
    raw = Letter(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body").encode()
    with pytest.raises(LetterError):
        Letter.decode(raw[:cut])


def test_packed_fields_leave_nothing_over() -> None:
    assert unpack(pack(b"a", b"", b"ccc"), 3) == (b"a", b"", b"ccc")
    with pytest.raises(LetterError, match="left over"):
        unpack(pack(b"a", b"b"), 1)


def test_totals_of_no_earlier_round_are_an_empty_vector() -> None:
    assert joined_totals([]).dtype == np.int64
    assert joined_totals([]).size == 0


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
    letter = _invitation(plan_for(privacy, survivors=1))
    first = exchange.answer(1, letter)
    now[0] = Examples(scores, changed)
    exchange.states.clear()  # a restarted site: only its ledger knows
    again = exchange.answer(1, letter)
    federation.data = _unreadable
    exchange.states.clear()
    third = exchange.answer(1, letter)
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
    with pytest.raises(AbortedError, match="nothing was opened"):
        federation.session(plan, silenced).run()
    told = {reason for _, reason in federation.reasons}
    assert len(federation.reasons) == 6
    assert all("differs from an earlier one by 1 site," in reason for reason in told)


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
    allowed = _invitation(plan_for(LocalDP("1", "laplace"), survivors=1))
    first = exchange.answer(1, allowed)
    before = len(federation.ledger(1).entries())
    costly = _invitation(plan_for(LocalDP("2", "laplace"), survivors=1))
    for _ in range(12):
        assert exchange.answer(1, costly).kind is Kind.DECLINED
    assert len(federation.ledger(1).entries()) == before + 5
    another = _invitation(plan_for(LocalDP("0.5", "laplace"), survivors=1))
    assert exchange.answer(1, another).kind is Kind.DECLINED
    assert "declined 5 times today" in federation.reasons[-1][1]
    assert exchange.answer(1, allowed).encode() == first.encode()
