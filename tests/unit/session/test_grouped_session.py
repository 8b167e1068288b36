"""Random groups between deployed sites: drawn from their keys, checked by each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

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
from discreet.privacy.account import MemoryAccount
from discreet.report.evaluation import Evaluation
from discreet.secagg import site as steps
from discreet.secagg.coordinator import invite
from discreet.secagg.errors import FaultyCoordinatorError, TooFewSitesError
from discreet.secagg.messages import Advert, BoxDelivery, KeyRoster
from discreet.secagg.terms import Terms
from discreet.session.coordinator import (
    AbortedError,
    Coordinator,
    Transport,
    evaluation_of,
)
from discreet.session.journal import Journal
from discreet.session.respond import respond
from unit.session.federations import (
    COORDINATOR,
    Federation,
    Losing,
    examples,
    identity,
    plan_for,
)
from unit.session.test_journal import Dying, KilledError

pytestmark = pytest.mark.long

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


def own_answer(plan: Plan, place: int) -> np.ndarray:
    return respond(
        examples(place),
        MemoryAccount(),
        plan,
        plan.resolve(0, []),
        session=b"",
        population="",
        entropy=Seeded(bytes([place])),
    )


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
    spent = {federation.ledger(k).spent("people").epsilon for k in range(1, SITES + 1)}
    assert spent == {1}


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


@pytest.mark.parametrize("turn", [1, 2, 3, 4, 5])
def test_a_silent_site_is_missing_in_its_group_alone(tmp_path: Path, turn: int) -> None:
    plan = grouped_plan(DistributedDP("1"), survivors=2, signed=False)
    federation = Federation(tmp_path, sites=SITES)
    losing = Losing(federation.exchange().sites, lambda *_: None, silent={4: turn})
    releases = federation.session(plan, losing).run()
    present = sorted(r.contributors for r in releases)
    masked = turn > 3  # its vector was in the sum before it fell silent
    assert present == ([3, 3, 3] if masked else [2, 3, 3])


def test_nothing_is_opened_when_one_group_falls_below_its_floor(tmp_path: Path) -> None:
    federation = Federation(tmp_path, sites=SITES)
    losing = Losing(federation.exchange().sites, lambda *_: None, silent={4: 3})
    with pytest.raises(AbortedError, match=r"2 sites are left after the mask step"):
        federation.session(grouped_plan(), losing).run()


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


@pytest.mark.parametrize("groups", [2, 4])
def test_two_groups_and_groups_below_the_floor_are_no_plan(groups: int) -> None:
    plan = plan_for(SecureAggregation(), survivors=3, signed_by=SITES)
    with pytest.raises(PlanError, match=r"random groups|at least 12 survivors"):
        replace(plan, cohort=replace(plan.cohort, random_groups=groups))


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


def test_a_site_refuses_a_roster_too_small_for_its_groups() -> None:
    wire = Wire()
    (_, messages), *_ = wire.state.split()
    site, raw = next(iter(messages.items()))
    roster = KeyRoster(raw)
    small = roster.only([s for s in roster.sites if s == site or s not in messages])
    with pytest.raises(FaultyCoordinatorError, match="at least 9"):
        steps.share(wire.sites[site], small.raw, entropy=wire.entropy)


def test_too_few_keys_for_all_groups_end_it_before_a_share_is_dealt() -> None:
    public = {s: bytes([s]) * 32 for s in range(1, SITES + 1)}
    terms = Terms(bytes(32), 1, 3, 0, None, GROUPS)
    state, _ = invite(public, terms=terms, entropy=Seeded(b"few"))
    with pytest.raises(TooFewSitesError):
        state.split()


def test_a_site_counts_whatever_group_it_is_in(tmp_path: Path) -> None:
    """Nobody learns its group from what it is charged or from its examples."""

    def empty(place: int) -> Examples:
        return Examples(np.zeros(0), np.zeros(0)) if place == 2 else examples(place)

    federation = Federation(tmp_path, sites=SITES, data=empty)
    releases = federation.session(grouped_plan()).run()
    assert [r.contributors for r in releases] == [3, 3, 3]


def test_every_group_has_a_session_of_its_own() -> None:
    """Keys, masks and signatures are bound to it: none serves in another group."""
    sessions = {state.roll.session for state, _ in Wire().state.split()}
    assert len(sessions) == GROUPS


@pytest.mark.parametrize("sites_answer", [False, True])
@pytest.mark.parametrize("kill_in", [2, 4])
def test_a_killed_coordinator_goes_on_with_the_groups_that_were_drawn(
    tmp_path: Path, kill_in: int, sites_answer: bool
) -> None:
    plan = grouped_plan(DistributedDP("1"))
    federation = Federation(tmp_path, sites=SITES)
    exchange = Dying(
        **vars(federation.exchange()), kill_in=kill_in, sites_answer=sites_answer
    )
    journal = Journal(tuple(range(1, SITES + 1)))
    with pytest.raises(KilledError):
        carried(plan, journal, exchange)
    again = Journal.of(journal.to_bytes())
    releases = carried(plan, again, exchange)
    for release in releases:
        expected = sum(own_answer(plan, k) for k in release.members)
        assert np.array_equal(release.total, expected)
    assert federation.reasons == []
    spent = {federation.ledger(k).spent("people").epsilon for k in range(1, SITES + 1)}
    assert spent == {1}


def carried(plan: Plan, journal: Journal, exchange: Transport) -> list[Release]:
    through = journal.through(exchange)
    return Coordinator(plan, journal.nodes, through, journal.draw, COORDINATOR).run()
