"""Predicted errors of time to event: the population has its facts, errors their size."""

from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet import PlanError, PublicFacts, recommend
from discreet.plan.followup import FollowUpQuestion
from discreet.report.timed_prediction import Hazards, predict_followup

ASKED = FollowUpQuestion((1.0, 3.0))


def planned(examples=20_000, epsilon=1, **more):
    facts = PublicFacts(examples, 0.2, censoring=0.3)
    model = discreet.SecureAggregation()
    if epsilon is not None:
        model = discreet.DistributedDP(epsilon)
    return recommend(facts, model, followup=ASKED, **more)


@pytest.mark.parametrize(
    ("events", "censoring", "auc"),
    [(0.2, 0.3, 0.8), (0.05, 0.0, 0.7), (0.5, 0.3, 0.75)],
)
def test_the_population_has_the_public_shares_and_the_assumed_auc(
    events, censoring, auc
):
    hazards, plan = Hazards.of(events, censoring, auc), planned()
    rng = np.random.default_rng(1)
    drawn = hazards.drawn(plan, 100_000, rng, columns=1)
    (batch,) = [*drawn.batches()][:1]
    seen = (batch.times <= 3.0) & (batch.labels == 1)
    left = (batch.times <= 3.0) & (batch.labels == 0)
    assert seen.mean() == pytest.approx(events, abs=0.01)
    assert left.mean() == pytest.approx(censoring, abs=0.01)
    assert hazards.auc() == pytest.approx(auc, abs=0.002)
    result = discreet.evaluate([drawn], horizons=[1, 3], examples=100_000)
    assert result.auc(3).value == pytest.approx(auc, abs=0.01)


def test_noise_shrinks_with_epsilon_and_sampling_with_examples():
    little, much = predict_followup(planned()), predict_followup(planned(epsilon=4))
    assert little.auc.noise > 2 * much.auc.noise > 0
    exact = predict_followup(planned(epsilon=None))
    assert exact.auc.noise == 0
    fewer = predict_followup(planned(examples=5000, epsilon=None))
    assert fewer.auc.sampling == pytest.approx(2 * exact.auc.sampling, rel=0.2)


def test_predicted_noise_is_the_spread_of_releases():
    """The same population released often: the AUCs spread as predicted."""
    plan = planned(examples=5000)
    predicted = predict_followup(plan).auc
    site = Hazards.of(0.2, 0.3, 0.8).drawn(
        plan, 5000, np.random.default_rng(2), columns=1
    )
    alone = replace(plan, cohort=discreet.Cohort(1, 0))
    values = [discreet.run(alone, [site]).auc(3).value for _ in range(30)]
    assert 0.5 * predicted.noise < np.std(values) < 2 * predicted.noise


def test_a_plan_that_tells_nothing_is_not_to_be_run():
    tiny = predict_followup(planned(examples=60, epsilon="0.05"))
    assert tiny.refusal is not None
    assert predict_followup(planned()).refusal is None


def test_a_group_has_its_share_of_the_examples():
    plan = planned(groups=["f", "m"])
    assert predict_followup(plan).examples == 10_000
    with pytest.raises(PlanError, match="assumed AUC"):
        predict_followup(plan, auc=0.4)
