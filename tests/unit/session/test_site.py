"""A site in a session: what it refuses, answers twice and is charged; what it tells."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet.data.edges import EdgeRule, Listed, Support, Uniform, Warped
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.errors import DiscreetError
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy import ledger as ledger_module
from discreet.privacy.account import Permit
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import LedgerError
from discreet.session import messages
from discreet.session.coordinator import (
    AbortedError,
    Coordinator,
)
from discreet.session.messages import (
    Invitation,
    Kind,
    Message,
    session_of,
)
from discreet.session.respond import bounded
from discreet.transport.in_process import InProcess
from policies import open_policy
from unit.session.federations import (
    COORDINATOR,
    POLICY,
    Altering,
    AskingAgain,
    Federation,
    Losing,
    examples,
    fresh,
    identity,
    invitation_to,
    plan_for,
)


def test_an_invitation_that_the_coordinator_did_not_sign_is_declined(
    federation: Federation,
) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
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
        transport = federation.transport()
        message = invitation_to(plan)
        answer = transport.answer(1, message)
        answers.add((answer.kind, answer.site, answer.body, answer.numbers.size))
        assert len(federation.reasons) == 1
    assert answers == {(Kind.DECLINED, 0, words.encode(), 0)}


def test_joining_again_is_charged_again(tmp_path: Path) -> None:
    """The same noisy vector in two sums would tell sites apart."""
    plan = plan_for(DistributedDP("1"), survivors=3)
    federation = Federation(tmp_path, entropy=fresh())
    totals = [federation.session(plan).run()[0].total for _ in range(2)]
    assert not np.array_equal(*totals)
    assert federation.spent() == 2
    with pytest.raises(AbortedError, match="3 declined"):
        federation.session(plan).run()  # the policy allows two sessions a plan


@pytest.mark.parametrize("cut", [0, 1])
def test_an_old_state_is_refused_with_its_message_and_with_another(
    federation: Federation, cut: int
) -> None:
    """A runtime that lost the newer state must not make the site mask twice."""

    def again(message: Message) -> Message | None:
        step = message.kind is Kind.STEP
        body = message.body[: len(message.body) - cut]
        return replace(message, body=body) if step else None

    transport = federation.transport(AskingAgain, again=again)
    federation.session(plan_for(DistributedDP("1"), survivors=3), transport).run()
    assert [reply.kind for reply in transport.seen] == [Kind.DECLINED] * 3
    assert all("already answered" in reason for _, reason in federation.reasons)


def test_a_process_that_is_killed_while_it_counts_answers_when_it_is_asked_again(
    federation: Federation,
) -> None:
    """Nothing left it: the state is marked as used before an answer leaves."""
    calls = []

    def killed_once(place: int) -> Examples:
        if place == 1 and not calls:
            calls.append(place)
            raise KeyboardInterrupt
        return examples(place)

    class Supervised(InProcess):
        def answer(self, node: int, message: Message) -> Message:
            with suppress(KeyboardInterrupt):
                return super().answer(node, message)
            return super().answer(node, message)

    federation.data = killed_once
    plan = plan_for(DistributedDP("1"), survivors=3)
    session = federation.session(plan, federation.transport(Supervised))
    (release,) = session.run()
    assert calls
    assert not federation.reasons
    assert (release.contributors, federation.spent()) == (3, 1)


def test_a_full_disk_at_the_ledger_declines_after_the_charge(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Ledger.record

    def full(ledger: Ledger, permit: Permit, message: bytes) -> None:
        if ledger.path.name == "1.sqlite":
            raise LedgerError("the disk is full")
        record(ledger, permit, message)

    monkeypatch.setattr(Ledger, "record", full)
    (release,) = federation.session(plan_for(DistributedDP("1"))).run()
    assert release.contributors == 2
    assert federation.reasons == [(1, "the disk is full")]
    assert federation.spent() == 1


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
    """Its answer was stored: no data are read, no noise is drawn, nothing is charged."""
    scores, labels = examples(1).to_arrays()
    changed = labels.copy()
    changed[0] ^= True
    now = [Examples(scores, labels)]
    federation = Federation(
        tmp_path, policy=ONE, data=lambda _: now[0], entropy=fresh()
    )
    transport = federation.transport()
    message = invitation_to(plan_for(privacy, survivors=1))
    first = transport.answer(1, message)
    now[0] = Examples(scores, changed)
    transport.states.clear()  # a restarted site: only its ledger knows
    again = transport.answer(1, message)
    federation.data = _unreadable
    transport.states.clear()
    third = transport.answer(1, message)
    assert first.kind is Kind.STEP
    assert first.encode() == again.encode() == third.encode()
    assert federation.reasons == []
    assert federation.spent() == 1


def _unreadable(place: int) -> Examples:
    raise AssertionError(f"the data of site {place} were read")


SEVEN = replace(POLICY, sites=3)


def test_two_exact_sums_whose_survivors_differ_by_one_site_are_not_both_opened(
    tmp_path: Path,
) -> None:
    """Their difference is that site's counts. The coordinator chose who was silent."""
    federation = Federation(tmp_path, sites=7, policy=SEVEN, entropy=fresh())
    plan = plan_for(SecureAggregation(), survivors=5, signed_by=7)
    (first,) = federation.session(plan).run()
    assert first.contributors == 7
    silenced = federation.transport(Losing, silent={7: 3})
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


def test_refusals_are_counted_and_end_the_listening_for_the_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = ledger_module._now()  # midnight does not come in between
    monkeypatch.setattr(ledger_module, "_now", lambda: now)
    policy = replace(POLICY, refusals_per_day=5, epsilon_per_plan=Fraction(1))
    federation = Federation(tmp_path, policy=policy)
    transport = federation.transport()
    allowed = invitation_to(plan_for(LocalDP("1", "laplace"), survivors=1))
    first = transport.answer(1, allowed)
    before = len(federation.ledger(1).entries())
    costly = invitation_to(plan_for(LocalDP("2", "laplace"), survivors=1))
    for _ in range(12):
        assert transport.answer(1, costly).kind is Kind.DECLINED
    assert len(federation.ledger(1).entries()) == before + 5
    another = invitation_to(plan_for(LocalDP("0.5", "laplace"), survivors=1))
    assert transport.answer(1, another).kind is Kind.DECLINED
    assert "declined 5 times today" in federation.reasons[-1][1]
    assert transport.answer(1, allowed).encode() == first.encode()


PATIENT = replace(POLICY, sessions_per_plan=9)
STEPS = {"advertise": 1, "share": 2, "mask": 3, "confirm": 4, "reveal": 5}
GARBAGE = {
    "nothing": lambda _: b"",
    "noise": lambda body: Seeded(b"garbage")(max(len(body), 64)),
    "cut short": lambda body: body[:-1],
    "one bit": lambda body: body[:-1] + bytes([body[-1] ^ 1]),
}


def garbled(federation: Federation, plan: Plan, *, at: int, how: str, run: int) -> None:
    """Run a session in which site 1 gets garbage; it has two survivors or none."""
    asked: list[Message] = []

    def spoil(node: int, message: Message) -> Message:
        asked.extend([message] if node == 1 else [])
        if node != 1 or len(asked) != at:
            return message
        return replace(message, body=GARBAGE[how](message.body))

    transport = federation.transport(Altering, message=spoil)
    entropy = Seeded(b"run" + bytes([run]))
    with suppress(AbortedError, DiscreetError):
        Coordinator(plan, range(1, 4), transport, entropy, COORDINATOR).run()
    assert len(asked) >= at, "the session never came to the step that is spoilt"


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "how", "cost"),
    [
        *((step, how, 0) for step in ("advertise", "share", "mask") for how in GARBAGE),
        *((step, "noise", 3) for step in ("confirm", "reveal")),
    ],
)
def test_three_garbage_messages_cost_no_more_than_the_vectors_that_were_sent(
    tmp_path: Path, step: str, how: str, cost: int
) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    federation = Federation(tmp_path, policy=PATIENT)
    for run in range(3):
        garbled(federation, plan, at=STEPS[step], how=how, run=run)
    assert federation.spent() == cost


def _invited(plan: Plan, text: bytes) -> Message:
    """An invitation that names a plan and carries some other text in its place."""
    nonce = bytes(32)
    invitation = Invitation(text.decode(), nonce, b"")
    message = Message(Kind.INVITE, plan.digest(), session_of(plan, nonce), 0, 1)
    return replace(message, body=invitation.encode())


@pytest.mark.long
def test_a_site_that_agreed_to_a_plan_parses_no_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digest and signature come first: a hostile text is never looked at."""
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    parsed: list[str] = []

    def noting(text: str) -> Plan:
        parsed.append(text)
        return planfile.loads(text)

    monkeypatch.setattr(messages, "loads", noting)
    federation = Federation(tmp_path, plans={1: plan})
    hostile = _invited(plan, b"a = " + b"[" * 100_000)
    other = replace(hostile, plan_digest=bytes(32))
    for message, reason in ((hostile, "not signed"), (other, "another plan")):
        with pytest.raises(DiscreetError, match=reason):
            federation.site(1).receive(None, message)
    assert parsed == []
    with pytest.raises(DiscreetError, match="no valid plan"):
        federation.site(2).receive(None, hostile)  # it agreed to none, and must read
    assert len(parsed) == 1


NOISY_POLICY = open_policy(
    population="people",
    privacy=("distributed", "local", "label"),
    units=("example", "subject", "client", "label"),
    groups=("*",),
    epsilon_per_plan=Fraction(9),
    epsilon_total=Fraction(99),
    delta_total=Fraction(1, 10),
    sessions_per_plan=9,
    sites=1,
    examples=5,
)
ROWS = 12
RANGE = ScoreRange.declare("other", 0.0, 9.0)


def rows(scores, labels=None, **more):
    """Rows that nobody has checked, as a model and a table give them."""
    labels = [k % 2 for k in range(len(scores))] if labels is None else labels
    more.setdefault("groups", ["a"] * len(scores))
    more.setdefault("subjects", [str(k) for k in range(len(scores))])
    return {"scores": scores, "labels": labels, **more}


PLAIN = [k / ROWS for k in range(ROWS)]
DATA = {
    "plain": rows(PLAIN),
    "one score out of the range": rows([*PLAIN[1:], 7.0]),
    "one score below the range": rows([*PLAIN[1:], -7.0]),
    "one infinite score": rows([*PLAIN[1:], np.inf]),
    "one score missing": rows([*PLAIN[1:], np.nan]),
    "one score that is text": rows(np.array([*PLAIN[1:], "high"], dtype=object)),
    "one score that nobody declared": rows([*PLAIN[1:], 0.123456]),
    "one label missing": rows(PLAIN, np.array([0, 1] * 5 + [None, 1], dtype=object)),
    "one label of another class": rows(PLAIN, [0, 1] * 5 + [7, 1]),
    "only negatives": rows(PLAIN, [0] * ROWS),
    "one group unknown": rows(PLAIN, groups=["a"] * (ROWS - 1) + ["secret"]),
    "no groups": rows(PLAIN, groups=None),
    "one subject missing": rows(PLAIN, subjects=[*map(str, range(ROWS - 1)), None]),
    "one subject with all rows": rows(PLAIN, subjects=["p"] * ROWS),
    "no subjects": rows(PLAIN, subjects=None),
    "nobody": rows([]),
    "nobody and no columns": rows([], groups=None, subjects=None),
    "one row": rows([0.5]),
    "many rows": rows([0.25, 0.75] * 200),
}
SIZES = ("nobody", "nobody and no columns", "many rows")
SCORES = (
    "one score out of the range",
    "one score missing",
    "one score that is text",
    "one score that nobody declared",
)
GROUPS = ("one group unknown", "no groups")
SUBJECTS = ("one subject missing", "one subject with all rows", "no subjects")
LABELS = ("one label missing", "one label of another class", "only negatives")


def plan_of(privacy, rule=None, *, facts=None, **more) -> Plan:
    cohort = more.pop("cohort", Cohort(3))
    rule = rule or Uniform(4)
    return recommend(facts or PublicFacts(), privacy, edges=rule, cohort=cohort, **more)


SUM = DistributedDP(1)
KNOWN = Support(tuple(PLAIN[:-1]))
ADDED = {
    "edges": (plan_of(SUM, Listed((0.0, 0.1234, 0.12345, 1.0))), SCORES),
    "thresholds": (plan_of(SUM, thresholds=[0.123456]), LABELS),
    "a support without one value": (plan_of(SUM, KNOWN), SCORES),
    "groups": (plan_of(SUM, groups=["b", "c"]), GROUPS),
    "groups and the rest": (plan_of(SUM, groups=["b", "other"]), GROUPS),
    "a floor of unchecked": (plan_of(SUM, cohort=Cohort(3, 0, 1000)), ("one row",)),
    "subjects": (
        plan_of(DistributedDP(1, unit="subject", max_examples=1)),
        SUBJECTS,
    ),
    "clients": (plan_of(DistributedDP(1, unit="client", max_examples=5)), SUBJECTS),
    "delta": (plan_of(DistributedDP(1, "1e-6"), KNOWN), SCORES[:2]),
    "colluders": (plan_of(SUM, cohort=Cohort(3, 1)), SCORES[:1]),
    "a site's own noise": (plan_of(LocalDP(1, "laplace"), KNOWN), SCORES),
}
REPLACED = {
    "arcs": plan_of(LocalDP(1, "arc")),
    "arcs over a support": plan_of(LocalDP(1), KNOWN),
    "bits": plan_of(LocalDP(1, "unary")),
    "levels": recommend(
        PublicFacts(), LocalDP(1, "levels"), cohort=Cohort(min_survivors=3)
    ),
}


def unchecked(columns, scores: ScoreRange, **more) -> Examples:
    other = scores.kind == "other"
    limits = {"low": scores.low, "high": scores.high} if other else {}
    return Examples(**columns, kind=scores.kind, **limits, **more, check=False)


def play(folder: Path, plan: Plan, columns, *, others=None, **more):
    """Run one session with this data at site 1; return its messages and the sums."""
    plain = DATA["plain"] if others is None else others
    federation = Federation(
        folder,
        policy=NOISY_POLICY,
        data=lambda place: unchecked(
            columns if place == 1 else plain, plan.facts.scores, **more
        ),
    )
    heard: list[Message] = []

    def overheard(place: int, reply: Message) -> Message:
        heard.extend([reply] if place == 1 else [])
        return reply

    transport = federation.transport(Altering, reply=overheard)
    releases = federation.session(plan, transport).run()
    assert federation.reasons == []
    return heard, releases, federation.ledger(1).spent("people")


def outside(messages: list[Message], *, sized: bool = True):
    """Return all that an observer sees of messages beside their content."""
    size = [(len(x.body), x.numbers.size) if sized else () for x in messages]
    kinds = [(x.kind, x.round, x.site) for x in messages]
    assert Kind.DECLINED not in [kind for kind, _, _ in kinds]
    return list(zip(kinds, size, strict=True))


def counts(plan: Plan, columns):
    held = unchecked(columns, plan.facts.scores).fitted()
    return plan.statistic.count(bounded(held, plan.privacy.protects))


@pytest.mark.long
@pytest.mark.parametrize("name", ADDED)
def test_nothing_but_the_noisy_counts_depends_on_the_data(tmp_path, name):
    plan, asked_about = ADDED[name]
    heard, (plain,), spent = play(tmp_path / "plain", plan, DATA["plain"])
    for other in (*asked_about, *SIZES):
        columns = DATA[other]
        messages, (release,), charged = play(tmp_path / other, plan, columns)
        assert outside(messages) == outside(heard), other
        assert charged == spent
        moved = counts(plan, columns) - counts(plan, DATA["plain"])
        np.testing.assert_array_equal(release.total - plain.total, moved, other)


@pytest.mark.long
@pytest.mark.parametrize("name", REPLACED)
def test_where_the_number_of_rows_is_public_every_row_is_sent(tmp_path, name):
    """One symbol a row: a row left out would be seen to be missing."""
    plan = REPLACED[name]
    heard, (plain,), _ = play(tmp_path / "plain", plan, DATA["plain"])
    for other in (*SCORES, *LABELS):
        messages, (release,), _ = play(tmp_path / other, plan, DATA[other])
        assert outside(messages) == outside(heard), other
        if name.startswith("arcs"):
            assert release.total.sum() == plain.total.sum() == 3 * ROWS, other


@pytest.mark.long
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_classes_ask_nothing_that_is_not_charged(tmp_path, multiclass):
    plan = plan_of(SUM, classes=["x", "y", "z"], multiclass=multiclass)
    matrix = np.linspace(0, 1, 3 * ROWS).reshape(-1, 3)
    named = np.array(["x", "y", "z"] * (ROWS // 3), dtype=object)
    odd, missing, broken = named.copy(), named.copy(), matrix.copy()
    odd[0], missing[0], broken[0, 1] = "w", None, np.nan
    sites = [(matrix, named), (matrix, odd), (matrix, missing), (broken, named)]
    sites.append((np.zeros((0, 3)), np.zeros(0, dtype=object)))
    common = {"classes": ["x", "y", "z"], "others": rows(matrix, named)}
    seen = [
        outside(play(tmp_path / str(k), plan, rows(*columns), **common)[0])
        for k, columns in enumerate(sites)
    ]
    assert all(one == seen[0] for one in seen)


@pytest.mark.long
def test_two_rounds_ask_nothing_that_is_not_charged(tmp_path):
    facts = PublicFacts(scores=RANGE)
    plan = recommend(facts, DistributedDP(2), cohort=Cohort(3))
    assert len(plan.rounds) == 2
    chosen = ["plain", "one score missing", "one infinite score", "nobody"]
    played = [play(tmp_path / x, plan, DATA[x]) for x in chosen]
    # What was released in the first round is public, and sizes the second.
    seen = [outside(messages, sized=False) for messages, _, _ in played]
    assert all(one == seen[0] for one in seen)
    assert all(spent == played[0][2] for _, _, spent in played)


@pytest.mark.long
def test_a_range_of_scores_finds_no_largest_score(tmp_path):
    """Halving the range was a search: 24 questions gave the largest score."""
    for high in (0.5, 0.91, 0.92):
        scores = ScoreRange.declare("other", 0.0, high)
        plan = plan_of(SUM, facts=PublicFacts(scores=scores))
        names = ("plain", "one score out of the range", "nobody")
        seen = [
            outside(play(tmp_path / f"{high} {name}", plan, DATA[name])[0])
            for name in names
        ]
        assert seen[0] == seen[1] == seen[2]


@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["binned", "response", "endpoint", "choice"])
def test_no_label_decides_about_a_message(tmp_path, mechanism):
    """The scores are public here; what labels say is in the charged numbers only."""
    privacy = LabelDP(1, mechanism=mechanism)
    if not privacy.needs_edges:
        plan = recommend(PublicFacts(), privacy, cohort=Cohort(min_survivors=3))
    else:
        plan = plan_of(privacy)
    labels = [[0] * ROWS, [1] * ROWS, [0, 1] * (ROWS // 2), [1] + [0] * (ROWS - 1)]
    seen = []
    for k, given in enumerate(labels):
        messages, _, _ = play(tmp_path / str(k), plan, rows(PLAIN, given))
        seen.append(outside(messages))
    assert all(one == seen[0] for one in seen)


@pytest.mark.long
def test_an_error_that_nobody_foresaw_is_the_same_refusal(tmp_path):
    """A crash on somebody's row looks as a plan that is not allowed does."""
    plan = plan_of(LocalDP(1, "laplace"))

    def answer(name, policy, held):
        federation = Federation(tmp_path / name, policy=policy, data=held)
        reply = federation.transport().answer(1, invitation_to(plan))
        assert len(federation.reasons) == 1
        return reply

    def crashing(place):
        raise KeyError(place)

    def fine(_):
        return unchecked(DATA["plain"], plan.facts.scores)

    refused = answer("no", replace(NOISY_POLICY, privacy=("distributed",)), fine)
    assert refused.kind is Kind.DECLINED
    assert answer("crash", NOISY_POLICY, crashing).encode() == refused.encode()


@pytest.mark.long
@pytest.mark.flower
def test_an_app_that_scores_strange_rows_makes_no_refusal():
    from discreet.transport.flower.app import Node

    plan = plan_of(SUM)
    for name in ("one score missing", "one score out of the range", *LABELS, "nobody"):
        columns = DATA[name]["scores"], DATA[name]["labels"]
        held = Node(lambda *_, c=columns: c).examples(None, None, plan)
        np.testing.assert_array_equal(
            plan.statistic.count(held.fitted()), counts(plan, DATA[name])
        )
