"""Secure sums: exact ones that one refusal stops, and random groups of sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import PlanError, UndefinedMetricWarning
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Release
from discreet.privacy.ledger_entries import Released, Settled
from discreet.report.evaluation import Evaluation
from discreet.secagg import site as steps
from discreet.secagg.coordinator import invite
from discreet.secagg.errors import FaultyCoordinatorError, TooFewSitesError
from discreet.secagg.messages import (
    Advert,
    BoxDelivery,
    Confirmation,
    KeyRoster,
    RevealRequest,
    Survivors,
    Withdrawal,
)
from discreet.secagg.site_state import restore_site
from discreet.secagg.terms import Terms, withdrawal_statement
from discreet.session.coordinator import (
    AbortedError,
    Coordinator,
    ReliableTransport,
    StepReport,
    UnfinishedError,
    evaluation_of,
)
from discreet.session.journal import Journal
from discreet.session.messages import (
    Ending,
    EndNotice,
    Kind,
    Message,
    round_digest,
)
from discreet.session.policy import Policy
from discreet.session.protocols.secure_sum import answer_of
from discreet.session.state import Progress
from discreet.transport.in_process import InProcess, Simulated
from unit.session.federations import (
    COORDINATOR,
    POLICY,
    Dying,
    Federation,
    KilledError,
    Losing,
    examples,
    fresh,
    identity,
    invitation_to,
    own_answer,
    plan_for,
    roster,
)

TWO = replace(POLICY, sites=2, exact_sums=2, sessions_per_plan=9)


def plan_over(
    places: Iterable[int],
    *,
    survivors: int,
    groups: int = 1,
    privacy: PrivacyModel | None = None,
) -> Plan:
    plan = plan_for(privacy or SecureAggregation(), survivors=survivors)
    plan = replace(plan, roster=roster(places))
    return replace(plan, cohort=replace(plan.cohort, random_groups=groups))


@dataclass
class Consortium:
    """Sites with ledgers; any of them can be asked in a session of their own."""

    federation: Federation
    transport: InProcess = field(init=False)
    steps: list[StepReport] = field(default_factory=list)
    sessions: int = 0

    def __post_init__(self) -> None:
        self.transport = self.federation.transport()

    @classmethod
    def of(cls, folder: Path, sites: int, policy: Policy = TWO) -> Consortium:
        return cls(Federation(folder, sites=sites, policy=policy, entropy=fresh()))

    def losing(self, silent: Mapping[int, int]) -> Losing:
        states = self.transport.states
        return Losing(
            self.transport.sites, self.transport.report, states=states, silent=silent
        )

    def session(
        self,
        plan: Plan,
        places: Iterable[int],
        transport: ReliableTransport | None = None,
    ) -> Coordinator:
        self.sessions += 1
        self.steps.clear()
        return Coordinator(
            plan,
            tuple(places),
            transport or self.transport,
            Seeded(b"session %d" % self.sessions),
            COORDINATOR,
            self.steps.append,
        )

    def exact_sums(self, places: Iterable[int]) -> list[int]:
        return [self.federation.ledger(k).spent("people").exact_sums for k in places]

    def reasons(self, place: int) -> list[str]:
        return [reason for k, reason in self.federation.reasons if k == place]

    def released(self, place: int) -> list[Released]:
        entries = self.federation.ledger(place).entries()
        return [entry for entry in entries if isinstance(entry, Released)]


def counts(plan: Plan, places: Iterable[int]) -> IntVector:
    statistic = plan.resolve(0, []).statistic
    total: IntVector = sum(statistic.count(examples(k)) for k in places)  # type: ignore[assignment]
    return total


@dataclass(frozen=True)
class ThreeSums:
    """{1..a} + {a+1..n} - {1..n-1} are the counts of site n."""

    first: int
    sites: int
    survivors: int
    """As many as know nothing against the third sum, and fewer: enough under noise."""

    @property
    def everybody(self) -> range:
        return range(1, self.sites + 1)

    @property
    def refusing(self) -> range:
        """Who is in the second and in the third sum."""
        return range(self.first + 1, self.sites)

    def after_two(self, folder: Path) -> Consortium:
        policy = replace(TWO, sites=len(self.refusing))
        consortium = Consortium.of(folder, self.sites, policy)
        first = range(1, self.first + 1)
        for places in (first, range(self.first + 1, self.sites + 1)):
            plan = plan_over(places, survivors=len(places) - len(places) // 4)
            (release,) = consortium.session(plan, places).run()
            assert np.array_equal(release.total, counts(plan, places))
        return consortium


SMALL = ThreeSums(first=6, sites=9, survivors=6)
LARGE = pytest.param(ThreeSums(12, 18, 10), marks=pytest.mark.slow)


@pytest.mark.parametrize("sums", [SMALL, LARGE])
def test_three_sums_that_show_one_site_are_not_all_revealed(
    tmp_path: Path, sums: ThreeSums
) -> None:
    """Most sites know nothing against the third, and they would be enough under noise.

    Those that refuse are in the list, so nothing is revealed.
    """
    consortium, everybody = sums.after_two(tmp_path), sums.everybody
    plan = plan_over(everybody, survivors=sums.survivors)
    session = consortium.session(plan, everybody, consortium.losing({sums.sites: 3}))
    refusing, listed = len(sums.refusing), sums.sites - 1
    with pytest.raises(AbortedError, match=f"{refusing} of the {listed} listed sites"):
        session.run()
    assert [step.name for step in consortium.steps][-1] == "confirm"
    for place in sums.refusing:
        refused, released = consortium.reasons(place)
        assert "differs from an earlier one by 1 site" in refused
        assert "this site does not sign" in refused
        assert "in no sum that can be revealed, and its charge was released" in released
    # Nobody keeps a charge for a sum that cannot be revealed.
    assert consortium.exact_sums(everybody) == [1] * sums.sites
    assert len(consortium.released(1)[0].withdrawn) == refusing


def test_sites_that_refuse_whom_shared_stay_out_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    """They are asked before their masked counts leave: nothing is charged or sent."""
    consortium = SMALL.after_two(tmp_path)
    plan = plan_over(SMALL.everybody, survivors=SMALL.survivors)
    transport = consortium.losing({SMALL.sites: 2})
    (release,) = consortium.session(plan, SMALL.everybody, transport).run()
    assert np.array_equal(release.total, counts(plan, range(1, 7)))
    for place in SMALL.refusing:
        (refused,) = consortium.reasons(place)
        assert refused.endswith("nothing was charged or sent")
    assert consortium.exact_sums(SMALL.everybody) == [2] * 6 + [1] * 3


def test_a_grouped_session_and_one_without_a_site_are_not_both_revealed(
    tmp_path: Path,
) -> None:
    """The groups add up to all sites, and the second sum lacks site 7."""
    three = replace(TWO, sites=3)
    consortium = Consortium.of(tmp_path, 9, three)
    grouped = plan_over(range(1, 10), survivors=3, groups=3)
    releases = consortium.session(grouped, range(1, 10)).run()
    assert sum(len(r.members) for r in releases) == 9
    others = [k for k in range(1, 10) if k != 7]
    for place in range(1, 10):
        entries = consortium.federation.ledger(place).entries()
        (settled,) = (entry for entry in entries if isinstance(entry, Settled))
        assert [len(sites) for sites in settled.sums] == [3, 3, 3]
    with pytest.raises(AbortedError, match="8 declined"):
        consortium.session(plan_over(others, survivors=6), others).run()
    for place in others:
        (refused,) = consortium.reasons(place)
        assert "differs from an earlier one" in refused or "combine to" in refused
    assert consortium.exact_sums(range(1, 10)) == [1] * 9


def test_a_silent_site_is_waited_for_and_nobody_is_charged_twice(
    tmp_path: Path,
) -> None:
    consortium = Consortium.of(tmp_path, 5)
    plan = plan_over(range(1, 6), survivors=4)
    journal = Journal(tuple(range(1, 6)), Seeded(b"journal"))

    def carried(journal: Journal, transport: ReliableTransport) -> Coordinator:
        through = journal.through(transport)
        return replace(
            consortium.session(plan, journal.nodes, through),
            entropy=journal.draw,
            resumable=True,
        )

    with pytest.raises(UnfinishedError, match=r"1 of the 5 .* run the same command"):
        carried(journal, consortium.losing({2: 4})).run()
    journal.ask_again()
    again = Journal.of(journal.to_bytes())
    (release,) = carried(again, consortium.transport).run()
    assert np.array_equal(release.total, counts(plan, range(1, 6)))
    assert consortium.exact_sums(range(1, 6)) == [1] * 5
    assert consortium.federation.reasons == []


def test_an_aborted_exact_sum_is_released_by_whoever_did_not_sign(
    tmp_path: Path,
) -> None:
    consortium = Consortium.of(tmp_path, 5)
    plan = plan_over(range(1, 6), survivors=4)
    transport = consortium.losing({1: 3, 2: 3})
    with pytest.raises(AbortedError, match="left after the mask step"):
        consortium.session(plan, range(1, 6), transport).run()
    assert [len(consortium.released(k)) for k in range(1, 6)] == [0, 0, 1, 1, 1]
    assert consortium.exact_sums(range(1, 6)) == [0] * 5
    (release,) = consortium.session(plan, range(1, 6)).run()
    assert release.contributors == 5
    assert consortium.exact_sums(range(1, 6)) == [1] * 5


def test_a_charge_under_noise_is_never_released(tmp_path: Path) -> None:
    consortium = Consortium.of(tmp_path, 5)
    plan = plan_over(range(1, 6), survivors=4, privacy=DistributedDP("1"))
    with pytest.raises(AbortedError):
        consortium.session(plan, range(1, 6), consortium.losing({1: 3, 2: 3})).run()
    spent = [consortium.federation.ledger(k).spent("people") for k in (3, 4, 5)]
    assert [each.epsilon for each in spent] == [1, 1, 1]


def test_a_session_that_was_dropped_is_released_by_the_next_exact_charge(
    tmp_path: Path,
) -> None:
    """The coordinator never came back: no last message told the sites so."""
    consortium = Consortium.of(tmp_path, 5, replace(TWO, exact_sums=1))
    plan = plan_over(range(1, 6), survivors=4)

    def dying(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        answers = consortium.transport(messages)
        if any(answer.numbers.size for answer in answers.values()):
            raise KeyboardInterrupt  # the masked counts have come
        return answers

    with pytest.raises(KeyboardInterrupt):
        consortium.session(plan, range(1, 6), dying).run()
    assert consortium.exact_sums(range(1, 6)) == [1] * 5
    (release,) = consortium.session(plan, range(1, 6)).run()
    assert release.contributors == 5
    assert consortium.exact_sums(range(1, 6)) == [1] * 5
    assert [len(consortium.released(k)) for k in range(1, 6)] == [1] * 5


@dataclass
class Recording(InProcess):
    """Keeps each site's messages, and its states before them, by step."""

    seen: dict[tuple[int, str], tuple[bytes, Message]] = field(default_factory=dict)
    names: tuple[str, ...] = ("advertise", "share", "mask", "confirm", "reveal", "end")
    turn: int = 0
    change: Callable[[int, Message, Message], Message] = lambda _node, _sent, answer: (
        answer
    )

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        step = self.names[self.turn]
        if next(iter(messages.values())).kind is Kind.END:
            step = "end"
        self.turn += 1
        for node, message in messages.items():
            self.seen[node, step] = self.states.get(node, b""), message
        answers = super().__call__(messages)
        return {n: self.change(n, messages[n], answer) for n, answer in answers.items()}


def recorded(consortium: Consortium) -> Recording:
    inner = consortium.transport
    return Recording(inner.sites, inner.report, states=inner.states)


def refusing(tmp_path: Path) -> tuple[Consortium, Recording, Plan]:
    """Sites 1 to 5 of which the fourth and fifth, for an earlier sum, refuse to sign."""
    consortium = Consortium.of(tmp_path, 6)
    earlier = plan_over((4, 5, 6), survivors=3)
    consortium.session(earlier, (4, 5, 6)).run()
    plan = plan_over(range(1, 7), survivors=4)
    transport = recorded(consortium)

    def silenced(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        answers = transport(messages)
        masks = any(answer.numbers.size for answer in answers.values())
        return {n: a for n, a in answers.items() if not (masks and n == 6)}

    with pytest.raises(AbortedError, match="2 of the 5"):
        consortium.session(plan, range(1, 7), silenced).run()
    return consortium, transport, plan


def test_the_others_go_on_without_those_who_withdrew(tmp_path: Path) -> None:
    consortium, transport, _ = refusing(tmp_path)
    _, last = transport.seen[1, "end"]
    assert set(EndNotice.decode(last.body).withdrawals) == {4, 5}
    assert consortium.exact_sums(range(1, 7)) == [0, 0, 0, 1, 1, 1]
    proofs = [len(consortium.released(k)[0].withdrawn) for k in (1, 2, 3, 4, 5)]
    assert proofs == [2, 2, 2, 0, 0]
    plan = plan_over((1, 2, 3), survivors=3)
    (release,) = consortium.session(plan, (1, 2, 3)).run()
    assert np.array_equal(release.total, counts(plan, (1, 2, 3)))
    assert consortium.exact_sums(range(1, 7)) == [1] * 6


def test_a_released_sum_is_never_signed_and_never_helped_to_reveal(
    tmp_path: Path,
) -> None:
    """Old states come back, and the marks of used states are lost."""
    consortium, transport, _ = refusing(tmp_path)

    def answered(place: int, state: bytes, message: Message) -> tuple[Message, str]:
        consortium.federation.onces[place].used.clear()
        reasons: list[str] = []
        site = consortium.federation.site(place)
        _, reply = site.answer(state, message, report=reasons.append)
        return reply, reasons[0]

    # Who withdrew signs no list, also none that it would sign otherwise.
    state, message = transport.seen[4, "confirm"]
    told = Survivors.decode(message.body)
    whole = replace(message, body=replace(told, survivors=tuple(range(1, 7))).encode())
    for asked in (message, whole):
        reply, reason = answered(4, state, asked)
        assert Withdrawal.decode(reply.body)
        assert "has released its charge" in reason or "never shared" in reason
    # Who released on a withdrawal gives no share, though the others sign after all.
    state, request = _signed_state(transport, 1)
    reply, reason = answered(1, state, request)
    assert reply.kind is Kind.DECLINED
    assert "has released its charge" in reason
    # The request is in order: without the ledger's word it is answered.
    progress = Progress.decode(state)
    assert _answered(progress, 1, request.body)


def _signed_state(transport: Recording, place: int) -> tuple[bytes, Message]:
    """Return a site's state after it signed, and the request that lists everyone."""
    state, message = transport.seen[place, "end"]
    progress = Progress.decode(state)
    told = Survivors.decode(transport.seen[place, "confirm"][1].body)
    signatures = {}
    for k in told.survivors:
        _, asked = transport.seen[k, "confirm"]
        if k in (4, 5):
            # These two sign outside of their ledgers.
            signatures[k] = _forced_signature(transport, k, asked)
        else:
            own = Progress.decode(transport.seen[k, "end"][0])
            stored = own.replies[asked.digest()]
            signatures[k] = Confirmation.decode(stored.body).signature
    request = RevealRequest(told.session, told.survivors, signatures)
    step = Message(
        Kind.STEP, message.plan_digest, message.session, 0, place, request.encode()
    )
    return progress.encode(), step


def _forced_signature(transport: Recording, place: int, asked: Message) -> bytes:
    progress = Progress.decode(transport.seen[place, "confirm"][0])
    answer = _answered(progress, place, asked.body)
    return Confirmation.decode(answer).signature


def _answered(progress: Progress, place: int, body: bytes) -> bytes:
    """Return what the protocol answers where no ledger is asked."""
    plan = plan_over(range(1, 7), survivors=4)
    terms = Terms(
        round_digest(plan, progress.session, 0, progress.totals),
        length=plan.statistic.size,
        min_survivors=4,
        identities=plan.roster.identities(),
        everyone_signs=True,
    )
    _, answer = answer_of(
        restore_site(progress.conversation, terms),
        body,
        site=place,
        vector=_no_vector,
        entropy=Seeded(b""),
        identity=identity(place),
    )
    return answer


def _no_vector() -> IntVector:
    raise AssertionError("no vector is asked for")


def ended(
    consortium: Consortium, transport: Recording, signed: dict[int, bytes]
) -> int:
    """Give site 1, as it was before the last message, withdrawals; return its charges."""
    state, message = transport.seen[1, "end"]
    last = replace(message, body=EndNotice(Ending.FAILED, signed).encode())
    consortium.federation.site(1).answer(state, last, report=lambda _: None)
    return consortium.exact_sums([1])[0]


def signed_by_all_but_one(tmp_path: Path) -> tuple[Consortium, Recording]:
    """Sites 1 to 5, of which the fifth falls silent before it signs; no last message."""
    consortium = Consortium.of(tmp_path, 5)
    transport = recorded(consortium)

    def losing(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        if transport.turn == 3:
            messages = {n: x for n, x in messages.items() if n != 5}
        if next(iter(messages.values())).kind is Kind.END:
            for n, x in messages.items():
                transport.seen[n, "end"] = transport.states[n], x
            return {}
        return transport(messages)

    plan = plan_over(range(1, 6), survivors=4)
    with pytest.raises(AbortedError, match="1 of the 5"):
        consortium.session(plan, range(1, 6), losing).run()
    return consortium, transport


def test_false_withdrawals_release_nothing(tmp_path: Path) -> None:
    consortium, transport = signed_by_all_but_one(tmp_path)
    progress = Progress.decode(transport.seen[5, "end"][0])
    session = Survivors.decode(transport.seen[1, "confirm"][1].body).session
    assert ended(consortium, transport, {}) == 1
    for place, key, signed in (
        (5, identity(77), session),
        (1, identity(1), session),
        (4, identity(5), session),
        (6, identity(6), session),
        (5, identity(5), bytes(32)),
        (5, identity(5), progress.session),
    ):
        forged = key.sign(withdrawal_statement(signed, place))
        assert ended(consortium, transport, {place: forged}) == 1
    true = identity(5).sign(withdrawal_statement(session, 5))
    assert ended(consortium, transport, {5: true}) == 0


def test_who_has_revealed_its_shares_releases_nothing(tmp_path: Path) -> None:
    """A site withdraws after all have revealed: the sum is known by then."""
    consortium = Consortium.of(tmp_path, 5)
    plan = plan_over(range(1, 6), survivors=4)
    transport = recorded(consortium)
    consortium.session(plan, range(1, 6), transport).run()
    session = Survivors.decode(transport.seen[1, "confirm"][1].body).session
    true = identity(5).sign(withdrawal_statement(session, 5))
    assert ended(consortium, transport, {5: true}) == 1


def test_a_crash_right_after_the_settling_releases_nothing(tmp_path: Path) -> None:
    """The state before it comes back; the signature may have left."""
    consortium = Consortium.of(tmp_path, 3)
    transport = recorded(consortium)
    consortium.session(plan_over((1, 2, 3), survivors=3), (1, 2, 3), transport).run()
    state, message = transport.seen[1, "confirm"]
    reasons: list[str] = []
    site = consortium.federation.site(1)
    _, reply = site.answer(state, message, report=reasons.append)
    assert reply.kind is Kind.DECLINED
    assert ["already answered" in reason for reason in reasons] == [True]
    assert consortium.exact_sums([1]) == [1]


def test_exact_sums_without_a_roster_are_refused_by_both_ends(
    federation: Federation,
) -> None:
    plan = plan_for(SecureAggregation(), survivors=3)
    with pytest.raises(PlanError, match="an exact sum needs a roster"):
        federation.session(plan)
    answer = federation.transport().answer(1, invitation_to(plan))
    assert answer.kind is Kind.DECLINED
    ((_, reason),) = federation.reasons
    assert "an exact sum needs a roster" in reason
    assert federation.ledger(1).uses("people") == []


def test_a_simulation_of_exact_sums_needs_no_roster(federation: Federation) -> None:
    """One machine plays all sites, and the claim says so."""
    plan = plan_for(SecureAggregation(), survivors=3)
    sites = {
        k: replace(federation.site(k), plan=plan, simulated=True) for k in (1, 2, 3)
    }
    session = Coordinator(plan, sites, Simulated(sites), Seeded(b"s"), simulated=True)
    (release,) = session.run()
    assert np.array_equal(release.total, counts(plan, (1, 2, 3)))


SITES = 9
GROUPS = 3


def grouped_plan(
    privacy: PrivacyModel | None = None, *, survivors: int = 3, signed: bool = True
) -> Plan:
    plan = plan_for(
        privacy or SecureAggregation(),
        survivors=survivors,
        signed_by=SITES if signed else 0,
    )
    split = replace(plan, cohort=replace(plan.cohort, random_groups=GROUPS))
    return planfile.loads(planfile.dumps(split))


@pytest.mark.long
@pytest.mark.parametrize("signed", [True, False])
def test_each_groups_sum_is_that_of_its_members(tmp_path: Path, signed: bool) -> None:
    plan = grouped_plan(DistributedDP("1"), signed=signed)
    federation = Federation(tmp_path, sites=SITES)
    releases = federation.session(plan).run()
    assert federation.reasons == []
    assert sorted(s for r in releases for s in r.members) == list(range(1, SITES + 1))
    for release in releases:
        expected = sum(own_answer(plan, k) for k in release.members)
        assert np.array_equal(release.total, expected)
        assert release.contributors == len(release.members) == SITES // GROUPS
    spent = {federation.spent(k) for k in range(1, SITES + 1)}
    assert spent == {1}


@pytest.mark.long
def test_the_result_shows_the_groups_and_the_claim_says_that_they_were_opened(
    tmp_path: Path,
) -> None:
    plan = grouped_plan()
    releases = Federation(tmp_path, sites=SITES).session(plan).run()
    found = evaluation_of(plan, releases)
    assert isinstance(found, Evaluation)
    assert found.heterogeneity.random_groups is not None
    assert found.heterogeneity.random_groups.members == tuple(
        r.members for r in releases
    )
    assert found.source.contributors == SITES
    total = sum(own_answer(plan, k) for k in range(1, SITES + 1))
    assert np.array_equal(found.source.releases[0].total, total)
    assert "the sum of each of 3 random groups of sites" in str(found.claim)


@pytest.mark.long
def test_two_sessions_draw_other_groups(tmp_path: Path) -> None:
    plan = grouped_plan()
    federation = Federation(tmp_path, sites=SITES)
    drawn = []
    for seed in (b"one", b"two"):
        federation.entropy = lambda place, s=seed: Seeded(s + bytes([place]))  # type: ignore[misc]
        federation.onces.clear()
        session = replace(federation.session(plan), entropy=Seeded(seed))
        drawn.append([r.members for r in session.run()])
    assert drawn[0] != drawn[1]


@pytest.mark.long
@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_a_silent_site_is_missing_in_its_group_alone(tmp_path: Path, turn: int) -> None:
    plan = grouped_plan(DistributedDP("1"), survivors=2, signed=False)
    federation = Federation(tmp_path, sites=SITES)
    losing = federation.transport(Losing, silent={4: turn})
    releases = federation.session(plan, losing).run()
    present = sorted(r.contributors for r in releases)
    masked = turn > 3  # its vector was in the sum before it fell silent
    assert present == ([3, 3, 3] if masked else [2, 3, 3])


@pytest.mark.long
def test_nothing_is_opened_when_one_group_falls_below_its_floor(tmp_path: Path) -> None:
    federation = Federation(tmp_path, sites=SITES)
    losing = federation.transport(Losing, silent={4: 3})
    with pytest.raises(AbortedError, match=r"2 sites are left after the mask step"):
        federation.session(grouped_plan(), losing).run()


@pytest.mark.long
def test_an_impossible_exact_sum_gives_a_result_that_says_why(tmp_path: Path) -> None:
    """It was opened and paid for: an error would lose the groups that are well."""
    plan = grouped_plan()
    releases = Federation(tmp_path, sites=SITES).session(plan).run()
    lied = [replace(releases[0], total=releases[0].total - 10_000), *releases[1:]]
    with pytest.warns(UndefinedMetricWarning, match="negative counts"):
        found = evaluation_of(plan, lied)
    assert isinstance(found, Evaluation)
    assert found.heterogeneity.random_groups is not None
    assert np.isnan(found.auc.value)
    assert "negative counts" in found.to_text()
    undefined = np.isnan(found.heterogeneity.random_groups.values("auc"))
    assert undefined.tolist() == [True, False, False]


@pytest.mark.long
@pytest.mark.parametrize("groups", [2, 4])
def test_two_groups_and_groups_below_the_floor_are_no_plan(groups: int) -> None:
    plan = plan_for(SecureAggregation(), survivors=3, signed_by=SITES)
    with pytest.raises(PlanError, match=r"random groups|at least 12 survivors"):
        replace(plan, cohort=replace(plan.cohort, random_groups=groups))


@pytest.mark.long
def test_answers_that_are_not_summed_have_no_groups() -> None:
    plan = plan_for(LocalDP("1", "laplace"))
    with pytest.raises(PlanError, match="answers are summed"):
        replace(plan, cohort=replace(plan.cohort, random_groups=GROUPS))


class Wire:
    """Signed sites in three groups, up to the roster that the coordinator shows."""

    def __init__(self) -> None:

        self.keys = {s: identity(s) for s in range(1, SITES + 1)}
        public = {s: k.public_key().public_bytes_raw() for s, k in self.keys.items()}
        self.terms = Terms(bytes(32), 1, 3, 0, public, GROUPS)
        self.entropy = Seeded(b"wire")
        self.state, opening = invite(public, terms=self.terms, entropy=self.entropy)
        self.sites = {}
        for site, message in opening.items():
            self.sites[site], advert = steps.advertise(
                message,
                site=site,
                terms=self.terms,
                entropy=self.entropy,
                identity=self.keys[site],
            )
            self.state.receive(site, advert)


@pytest.mark.long
def test_a_coordinator_cannot_move_the_draw_by_inventing_a_key() -> None:
    wire = Wire()
    (_, messages), *_ = wire.state.split()
    site, raw = next(iter(messages.items()))
    roster = KeyRoster(raw)
    stranger = next(s for s in roster.sites if s not in messages)
    adverts = {s: roster.advert(s) for s in roster.sites}
    adverts[stranger] = Advert(bytes([7]) * 32, bytes([9]) * 32, bytes(64))
    forged = KeyRoster.of(adverts, signed=True).raw
    with pytest.raises(FaultyCoordinatorError, match="did not sign"):
        steps.share(wire.sites[site], forged, entropy=wire.entropy)


@pytest.mark.long
def test_a_coordinator_cannot_move_a_site_into_another_group() -> None:
    wire = Wire()
    groups = wire.state.split()
    states = {}
    for state, messages in groups:
        for site, raw in messages.items():
            states[site], answer = steps.share(
                wire.sites[site], raw, entropy=wire.entropy
            )
            state.receive(site, answer)
    first, second = (set(messages) for _, messages in groups[:2])
    site, moved = min(first), min(second)
    _, deliveries = groups[0][0].advance()
    delivery = BoxDelivery.decode(deliveries[site])
    forged = replace(delivery, sharers=tuple(sorted({*delivery.sharers, moved})))
    with pytest.raises(FaultyCoordinatorError, match="outside the roster"):
        steps.mask(states[site], forged.encode(), lambda: np.ones(1, np.int64))


@pytest.mark.long
def test_a_site_refuses_a_roster_too_small_for_its_groups() -> None:
    wire = Wire()
    (_, messages), *_ = wire.state.split()
    site, raw = next(iter(messages.items()))
    roster = KeyRoster(raw)
    small = roster.only([s for s in roster.sites if s == site or s not in messages])
    with pytest.raises(FaultyCoordinatorError, match="at least 9"):
        steps.share(wire.sites[site], small.raw, entropy=wire.entropy)


@pytest.mark.long
def test_too_few_keys_for_all_groups_end_it_before_a_share_is_dealt() -> None:
    public = {s: bytes([s]) * 32 for s in range(1, SITES + 1)}
    terms = Terms(bytes(32), 1, 3, 0, None, GROUPS)
    state, _ = invite(public, terms=terms, entropy=Seeded(b"few"))
    with pytest.raises(TooFewSitesError):
        state.split()


@pytest.mark.long
def test_a_site_counts_whatever_group_it_is_in(tmp_path: Path) -> None:
    """Nobody learns its group from what it is charged or from its examples."""

    def empty(place: int) -> Examples:
        return Examples(np.zeros(0), np.zeros(0)) if place == 2 else examples(place)

    federation = Federation(tmp_path, sites=SITES, data=empty)
    releases = federation.session(grouped_plan()).run()
    assert [r.contributors for r in releases] == [3, 3, 3]


@pytest.mark.long
def test_every_group_has_a_session_of_its_own() -> None:
    """Keys, masks and signatures are bound to it: none serves in another group."""
    sessions = {state.roll.session for state, _ in Wire().state.split()}
    assert len(sessions) == GROUPS


@pytest.mark.long
@pytest.mark.parametrize("sites_answer", [False, True])
@pytest.mark.parametrize("kill_in", [2, 4])
def test_a_killed_coordinator_goes_on_with_the_groups_that_were_drawn(
    tmp_path: Path, kill_in: int, sites_answer: bool
) -> None:
    plan = grouped_plan(DistributedDP("1"))
    federation = Federation(tmp_path, sites=SITES)
    transport = federation.transport(Dying, kill_in=kill_in, sites_answer=sites_answer)
    journal = Journal(tuple(range(1, SITES + 1)))
    with pytest.raises(KilledError):
        carried_on(plan, journal, transport)
    again = Journal.of(journal.to_bytes())
    releases = carried_on(plan, again, transport)
    for release in releases:
        expected = sum(own_answer(plan, k) for k in release.members)
        assert np.array_equal(release.total, expected)
    assert federation.reasons == []
    spent = {federation.spent(k) for k in range(1, SITES + 1)}
    assert spent == {1}


def carried_on(
    plan: Plan, journal: Journal, transport: ReliableTransport
) -> list[Release]:
    through = journal.through(transport)
    return Coordinator(plan, journal.nodes, through, journal.draw, COORDINATOR).run()
