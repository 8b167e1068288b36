"""One SuperLink, four sites, TLS and node authentication: real processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from discreet.transport.flower.tasks import coordinator_grid
from sklearn.metrics import roc_auc_score

from discreet.errors import PlanError
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Round
from discreet.report.evaluation import Evaluation
from discreet.session import policy as policyfile
from discreet.session.coordinator import StepReport
from discreet.statistic import ClassHistogram, EquiDepthFrom, Hierarchy
from discreet.statistic.effect_terms import EffectTerms
from discreet.statistic.site_sums import SiteSums
from discreet.statistic.weighted import Weighted
from discreet.transport.flower.evaluate import evaluate
from discreet.transport.keys import CoordinatorKeys
from e2e.flower_consortium import (
    POLICY,
    SITES,
    Consortium,
    agree,
    consortium,
    examples,
    own_answer,
    plan_for,
)

pytestmark = pytest.mark.flower

STEP_SECONDS = 45.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consortium]:
    with consortium(tmp_path_factory.mktemp("consortium")) as started:
        yield started


class Watched:
    """Runs a plan over a consortium and notes its steps."""

    def __init__(self, consortium: Consortium) -> None:
        self.consortium = consortium
        self.steps: list[StepReport] = []
        self.kill_after: dict[str, str] = {}
        self.step_seconds = STEP_SECONDS

    def watch(self, step: StepReport) -> None:
        self.steps.append(step)
        if step.name in self.kill_after:
            self.consortium.kill(self.kill_after.pop(step.name))

    def run(self, plan: Plan, *, sites: int = 4) -> Evaluation:
        keys = CoordinatorKeys(self.consortium.folder / "coordinator")
        signer = keys.identity() if plan.roster is not None else None
        authority = self.consortium.authority
        with coordinator_grid(self.consortium.link, authority) as grid:
            result = evaluate(
                grid,
                plan,
                sites=sites,
                wait_seconds=120,
                step_seconds=self.step_seconds,
                identity=signer,
                watch=self.watch,
            )
        assert isinstance(result, Evaluation)
        return result


def expected(plan: Plan, sites: tuple[str, ...] = SITES) -> list[int]:
    this = plan.resolve(0, [])
    return np.sum([own_answer(s, plan, this) for s in sites], axis=0).tolist()


@pytest.mark.parametrize(
    ("privacy", "signed", "steps"),
    [
        (SecureAggregation(), True, 5),
        (DistributedDP("1"), False, 4),
        (LocalDP("1", "laplace"), False, 1),
        (LabelDP("1", mechanism="binned"), False, 1),
    ],
    ids=["secure aggregation", "distributed", "local", "label"],
)
def test_processes_give_the_sum_of_the_sites_own_answers(
    running: Consortium, privacy: PrivacyModel, signed: bool, steps: int
) -> None:
    plan = plan_for(privacy, survivors=3, roster=running.roster if signed else None)
    before = {site: running.spent(site) for site in SITES}
    watched = Watched(running)
    result = watched.run(plan)
    (release,) = result.source.releases
    assert release.total.tolist() == expected(plan)
    assert (release.contributors, release.expected) == (4, 4)
    assert len(watched.steps) == steps
    assert all(step.answered == 4 for step in watched.steps)
    assert result.claim.setting == "deployed"
    cost = 0 if isinstance(privacy, SecureAggregation) else 1
    for site, spent in before.items():
        assert running.spent(site) - spent == cost


def test_how_sites_differ_travels_in_the_same_sum(running: Consortium) -> None:
    """No further step, at most 400 further bytes; so few sites only under noise."""
    plain = plan_for(DistributedDP("1"), survivors=3, roster=running.roster)
    assert isinstance(plain.statistic, ClassHistogram)
    terms = EffectTerms.of("auc", private=True)
    statistic = SiteSums(plain.statistic, (terms,))
    plan = replace(plain, rounds=(Round(statistic),))
    watched = Watched(running)
    result = watched.run(plan)
    assert len(watched.steps) == 5
    assert 8 * (statistic.size - plain.statistic.size) <= 400
    assert result.heterogeneity is not None
    assert result.heterogeneity["auc"].effects.noise is not None
    exact = replace(EffectTerms.of("auc", private=False), anchor=0.03)
    summed = Round(SiteSums(plain.statistic, (exact,)))
    with pytest.raises(PlanError, match="at least 10"):
        replace(plain, privacy=SecureAggregation(), rounds=(summed,))


@pytest.mark.parametrize("privacy", [SecureAggregation(), DistributedDP("1")])
def test_weights_are_added_up_by_the_same_sum(
    running: Consortium, privacy: PrivacyModel
) -> None:
    """A plan without weights reads none of them; this one adds nothing but them."""
    plain = plan_for(privacy, survivors=3, roster=running.roster)
    assert isinstance(plain.statistic, ClassHistogram)
    statistic = Weighted(plain.statistic, 4, squares=privacy.protects is None)
    plan = replace(plain, rounds=(Round(statistic),))
    result = Watched(running).run(plan)
    assert result.source.releases[0].total.tolist() == expected(plan)
    batches = [batch for site in SITES for batch in examples(site).batches()]
    rows = [(batch.labels, batch.scores[0], batch.amounts) for batch in batches]
    labels, scores, weights = map(np.concatenate, zip(*rows, strict=True))
    truth = roc_auc_score(labels, scores, sample_weight=weights)
    low, high = result.auc.interval()
    assert low < truth < high


@pytest.mark.slow
def test_scores_are_ranked_and_rank_sums_answered_between_processes(
    running: Consortium,
) -> None:
    plan = recommend(PublicFacts(), LabelDP(2), cohort=Cohort(len(SITES)))
    before = {site: running.spent(site) for site in SITES}
    watched = Watched(running)
    result = watched.run(plan)
    assert [step.name for step in watched.steps] == ["join", "ranks"]
    assert result.source.releases[0].contributors == len(SITES)
    assert all(running.spent(site) - spent == 2 for site, spent in before.items())
    rows = [examples(site).to_arrays() for site in SITES]
    scores, labels = map(np.concatenate, zip(*rows, strict=True))
    assert result.auc.value == pytest.approx(roc_auc_score(labels, scores), abs=0.1)


def test_a_site_with_few_examples_does_not_decline(running: Consortium) -> None:
    """Its answer would tell: the floor is the operator's look before joining."""
    plan = plan_for(LocalDP("1", "laplace"), survivors=3, floor=400)
    watched = Watched(running)
    result = watched.run(plan)
    assert [step.declined for step in watched.steps] == [0]
    assert result.source.releases[0].contributors == len(SITES)


def test_a_site_that_declines_by_policy_says_nothing_else_and_pays_nothing(
    running: Consortium,
) -> None:
    plan = plan_for(LocalDP("1", "laplace"), survivors=3)
    rules = running.folder / "north" / "policy.toml"
    rules.write_text(policyfile.dumps(replace(POLICY, privacy=("distributed",))))
    spent, watched = running.spent("north"), Watched(running)
    try:
        result = watched.run(plan)
    finally:
        rules.unlink()
    assert [(s.answered, s.declined) for s in watched.steps] == [(3, 1)]
    assert result.source.releases[0].total.tolist() == expected(plan, SITES[1:])
    assert running.spent("north") == spent
    assert "the policy allows" in running.said("north")


def test_a_site_that_is_killed_leaves_the_survivors_result(running: Consortium) -> None:
    plan = plan_for(DistributedDP("0.5"), survivors=3, roster=running.roster)
    watched = Watched(running)
    watched.kill_after = {"share": "west"}
    watched.step_seconds = 20.0  # it is waited for so long, and comes no more
    spent = running.spent("west")
    result = watched.run(plan)
    assert result.source.releases[0].total.tolist() == expected(plan, SITES[:3])
    assert [step.answered for step in watched.steps] == [4, 4, 3, 3, 3]
    assert running.spent("west") == spent, "a site that sent nothing pays nothing"
    running.start("west")


@pytest.mark.slow
def test_two_rounds_recompute_the_edges_at_every_site(running: Consortium) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3, roster=running.roster)
    statistic = plan_for(DistributedDP("1"), survivors=3).rounds[0].statistic
    tree = Hierarchy(statistic.edges, 2)  # type: ignore[union-attr]
    half = Fraction(1, 2)
    adaptive = EquiDepthFrom(tree, 8, plan.thresholds)
    plan = replace(plan, rounds=(Round(tree, half), Round(adaptive, half)))
    result = Watched(running).run(plan)
    second = plan.resolve(1, result.source.releases[:1])
    total = np.sum([own_answer(s, plan, second) for s in SITES], axis=0)
    assert np.array_equal(result.source.releases[1].total, total)


@pytest.mark.slow
def test_a_site_that_agreed_to_another_plan_declines(running: Consortium) -> None:
    plan = plan_for(LocalDP("1", "laplace"), survivors=3)
    agree(running.folder, "north", plan_for(LocalDP("0.5", "laplace"), survivors=3))
    try:
        result = Watched(running).run(plan)
    finally:
        agree(running.folder, "north", None)
    assert result.source.releases[0].total.tolist() == expected(plan, SITES[1:])
    assert "another plan than this site agreed to" in running.said("north")
