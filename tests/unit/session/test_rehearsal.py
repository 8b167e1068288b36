"""A rehearsal is another plan: no answer crosses over, and every output says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

import discreet
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.entropy import SYSTEM
from discreet.errors import DiscreetError, PlanError
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.plan.cohort import PublicFacts
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan, recommend
from discreet.privacy.ledger import Ledger
from discreet.report.evaluation import Evaluation
from discreet.session.coordinator import AbortedError, evaluation_of
from discreet.session.rehearsal import check_agreed, made_up
from discreet.session.respond import exact_counts
from discreet.session.site import Site
from discreet.transport.keys import SiteKeys, make_consortium
from unit.session.federations import POLICY, Federation, examples, plan_for
from unit.test_matrix import STATISTICS, planned

PLAN = plan_for(DistributedDP("1"), survivors=3)


@dataclass
class Rehearsing(Federation):
    """Sites of which some rehearse."""

    rehearsing: Callable[[int], bool] = lambda _: True

    def site(self, place: int) -> Site:
        return replace(super().site(place), rehearsal=self.rehearsing(place))


def spent(federation: Federation) -> Fraction:
    return sum(
        (federation.ledger(k).spent("icu").epsilon for k in range(1, 4)), Fraction(0)
    )


def test_a_rehearsed_plan_is_another_plan_and_an_earnest_one_keeps_its_digest() -> None:
    rehearsed = PLAN.rehearsed()
    assert rehearsed.digest() != PLAN.digest()
    assert loads(dumps(rehearsed)) == rehearsed
    assert "rehearsal" not in dumps(PLAN)
    assert loads(dumps(PLAN)).digest() == PLAN.digest()
    with pytest.raises(PlanError, match="true or false"):
        replace(PLAN, rehearsal=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("privacy", [DistributedDP("1"), LocalDP("1", "laplace")])
@pytest.mark.parametrize("plan_is_rehearsed", [True, False])
def test_a_site_answers_only_what_it_agreed_to(
    tmp_path: Path, plan_is_rehearsed: bool, privacy: DistributedDP | LocalDP
) -> None:
    plan = plan_for(privacy, survivors=3)
    federation = Rehearsing(tmp_path, rehearsing=lambda _: not plan_is_rehearsed)
    asked = plan.rehearsed() if plan_is_rehearsed else plan
    with pytest.raises(AbortedError):
        federation.session(asked).run()
    assert len(federation.reasons) == 3
    assert all("--rehearse" in why for _, why in federation.reasons)
    assert spent(federation) == 0


def test_one_site_that_rehearses_alone_is_not_in_an_earnest_sum(tmp_path: Path) -> None:
    plan = plan_for(LocalDP("1", "laplace"), survivors=2)
    federation = Rehearsing(tmp_path, rehearsing=lambda k: k == 3)
    (release,) = federation.session(plan).run()
    assert release.contributors == 2


def rehearse(tmp_path: Path, plan: Plan) -> Evaluation:
    federation = Rehearsing(tmp_path, data=lambda _: made_up(plan))
    releases = federation.session(plan.rehearsed()).run()
    result = evaluation_of(plan.rehearsed(), releases)
    assert isinstance(result, Evaluation)
    return result


def test_every_output_of_a_rehearsal_says_so(tmp_path: Path) -> None:
    result = rehearse(tmp_path, PLAN)
    assert result.claim.setting == "REHEARSAL"
    for suffix in ("txt", "json", "html"):
        path = tmp_path / f"result.{suffix}"
        result.save(path)
        assert "REHEARSAL" in path.read_text(), suffix
    assert "REHEARSAL" in repr(result)
    result.plot("roc", tmp_path / "roc.svg")
    assert "REHEARSAL" in (tmp_path / "roc.svg").read_text()
    earnest = evaluation_of(
        PLAN, [replace(result.source.releases[0], plan_digest=PLAN.digest())]
    )
    assert "REHEARSAL" not in earnest.to_json()


def test_a_release_of_a_rehearsal_is_no_release_of_the_plan(tmp_path: Path) -> None:
    releases = rehearse(tmp_path, PLAN).source.releases
    with pytest.raises(DiscreetError):
        evaluation_of(PLAN, releases)


@pytest.mark.parametrize("name", STATISTICS)
def test_made_up_data_has_the_shape_of_every_plan(name: str) -> None:
    model = discreet.LabelDP(30) if name == "rank-sums" else discreet.DistributedDP(30)
    if "exact" in name:
        model = discreet.SecureAggregation()
    plan = planned(model, STATISTICS[name])
    data = made_up(plan)
    assert 200 <= len(data) <= 2000
    if name != "rank-sums":
        assert exact_counts(data, plan, plan.resolve(0, [])).sum() > 0


def test_made_up_data_follows_the_kind_and_the_range_of_the_scores() -> None:
    facts = PublicFacts(900, 0.2, ScoreRange.declare("other", -3.0, 7.0))
    plan = recommend(facts, DistributedDP("1"))
    exact_counts(made_up(plan), plan, plan.resolve(0, []))


def test_a_site_that_rehearses_holds_neither_its_data_nor_its_ledger(
    tmp_path: Path,
) -> None:
    from discreet.transport import joining

    make_consortium(tmp_path, ["north"], hosts=["localhost"])
    ledger, data = tmp_path / "ledger.sqlite", examples(1)
    Ledger.new(ledger).close()
    keys = SiteKeys(tmp_path / "north")
    site = joining.JoiningSite(PLAN, data, POLICY, ledger, keys, SYSTEM, rehearse=True)
    assert site.examples is not data
    assert site.ledger != ledger
    assert site.plan == PLAN.rehearsed()
    site.check()
    with pytest.raises(PlanError, match="both ends say"):
        joining.JoiningSite(PLAN.rehearsed(), data, POLICY, ledger, keys, SYSTEM)


def test_both_ways_of_a_misunderstanding_have_their_sentence() -> None:
    with pytest.raises(PlanError, match="this end rehearses"):
        check_agreed(PLAN, rehearsing=True)
    with pytest.raises(PlanError, match="the plan is a rehearsal's"):
        check_agreed(PLAN.rehearsed(), rehearsing=False)
    assert isinstance(made_up(PLAN), Examples)
