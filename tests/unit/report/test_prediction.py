"""Predicted errors: from public facts alone, and of the right size."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.data.scores import ScoreRange
from discreet.errors import InputError, PlanError
from discreet.models.label import LabelDP
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.plan import recommend
from discreet.report import prediction
from discreet.report.prediction import (
    SPREADS,
    PredictedError,
    Prediction,
    check_protocol,
    predict,
    simulate_population,
)

pytestmark = pytest.mark.long

PROBABILITY = ScoreRange.declare("probability", None, None)
COHORT = Cohort(5, 1)


def plan(privacy, examples=20_000, prevalence=0.2, **more):
    return recommend(
        PublicFacts(examples, prevalence, more.pop("scores", PROBABILITY)),
        privacy,
        cohort=COHORT,
        **more,
    )


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    "scores",
    [
        PROBABILITY,
        ScoreRange.declare("logit", None, None),
        ScoreRange.declare("other", -5.0, 5.0),
    ],
)
def test_a_simulated_population_has_the_auc_and_prevalence_that_are_assumed(
    rng, scores, spread
):
    drawn = simulate_population(scores, 40_000, 0.3, 0.75, rng, spread=spread)
    s, y = drawn.to_arrays()
    assert y.mean() == pytest.approx(0.3)
    ranks = np.argsort(np.argsort(s))
    positives = y.sum()
    wins = ranks[y == 1].sum() - positives * (positives - 1) / 2
    auc = wins / (positives * (len(y) - positives))
    assert auc == pytest.approx(0.75, abs=6 * 0.003)  # 6 standard errors
    if spread == 1 and scores is PROBABILITY:
        for low in (0.1, 0.3, 0.5):  # and is calibrated
            inside = (s >= low) & (s < low + 0.2)
            error = 6 * 0.5 / math.sqrt(inside.sum())
            assert y[inside].mean() == pytest.approx(s[inside].mean(), abs=error)


def test_shapes_of_one_auc_differ_in_the_head_of_the_ranking(rng):
    """Average precision: 40,000 examples know it to 0.006 or so."""
    found = []
    for spread in sorted(SPREADS):
        drawn = simulate_population(PROBABILITY, 40_000, 0.1, 0.9, rng, spread=spread)
        s, y = drawn.to_arrays()
        ranked = y[np.argsort(-s)]
        hits = np.flatnonzero(ranked) + 1
        found.append(float(np.mean(np.arange(1, hits.size + 1) / hits)))
    assert found[0] + 0.05 < found[1] < found[2] - 0.05


def test_every_shape_is_simulated_in_turn(monkeypatch):
    seen = []

    def drawn(*args, spread):
        seen.append(spread)
        return simulate_population(*args, spread=spread)

    monkeypatch.setattr(prediction, "simulate_population", drawn)
    predict(plan(discreet.SecureAggregation(), 2_000), repetitions=5)
    assert seen == [*SPREADS, *SPREADS[:2]]


def test_exact_sums_have_sampling_error_only():
    found = predict(plan(discreet.SecureAggregation()), repetitions=6)
    assert found.auc.noise < 1e-4 < found.auc.sampling
    assert found.auc.value == pytest.approx(0.8, abs=1e-4)
    assert found.refusal is None
    assert found.caution is None
    large = predict(plan(discreet.SecureAggregation(), 50_000_000), repetitions=3)
    assert large.auc.sampling < 5e-4  # scaled from a smaller population


def test_the_predicted_noise_is_of_the_size_that_a_run_reports(rng):
    """Within a factor of 3: 12 repetitions know their size to about 20%."""
    wanted = plan(discreet.DistributedDP("0.1"))
    found = predict(wanted, sites=5, repetitions=12)
    sites = [simulate_population(PROBABILITY, 4_000, 0.2, 0.8, rng) for _ in range(5)]
    ran = discreet.evaluate(
        sites,
        privacy=discreet.DistributedDP("0.1", min_survivors=5, colluders=1),
        examples=20_000,
        prevalence=0.2,
    )
    for metric in ("auc", "average_precision"):
        predicted, reported = getattr(found, metric), getattr(ran, metric)
        assert 1 / 3 < predicted.noise / reported.noise < 3
        assert 1 / 3 < predicted.sampling / reported.sampling < 3
        error = abs(predicted.value - reported.value)
        assert error < 6 * math.hypot(reported.noise, reported.sampling)


def test_less_budget_or_fewer_examples_mean_more_noise():
    def noise(epsilon, examples):
        wanted = plan(discreet.DistributedDP(epsilon), examples)
        return predict(wanted, repetitions=6).auc.noise

    usual = noise(1, 20_000)
    assert noise("0.1", 20_000) > 2 * usual
    assert noise(1, 2_000) > 2 * usual


def test_every_site_adds_noise_of_its_own_under_local_laplace():
    local = plan(discreet.LocalDP("0.3", "laplace"))
    few = predict(replace(local, cohort=Cohort(2)), sites=2, repetitions=6)
    many = predict(local, sites=200, repetitions=6)
    assert many.auc.noise > 3 * few.auc.noise


def test_a_plan_that_noise_would_drown_is_not_to_be_run():
    found = predict(plan(discreet.DistributedDP("0.05"), 500, 0.1), repetitions=5)
    assert found.refusal is not None
    assert "unusable" in found.refusal
    few = predict(plan(discreet.SecureAggregation(), 12, 0.2), repetitions=5)
    assert "the sample's size" in (few.refusal or "")


def test_every_metric_of_the_plan_is_predicted_and_both_areas_always():
    wanted = replace(
        plan(discreet.DistributedDP(1), 20_000, 0.2), metrics=frozenset({"ici", "ks"})
    )
    found = predict(wanted, repetitions=3)
    assert list(found.errors) == ["auc", "average_precision", "ks", "ici"]
    assert all(e.noise > 0 and e.sampling > 0 for e in found.errors.values())


def test_the_verdict_names_the_source_of_the_error():
    fine = PredictedError(0.8, 0.001, 0.002)
    noisy = PredictedError(0.8, 0.2, 0.002)

    def verdict(auc, ap):
        errors = {"auc": auc, "average_precision": ap}
        return Prediction(errors, 0.0, 0.0, 0.1, 1000)

    assert verdict(fine, fine).refusal is None
    assert verdict(fine, fine).caution is None
    assert "mostly from noise" in (verdict(noisy, fine).refusal or "")
    lost = PredictedError(0.3, 0.15, 0.01)
    assert verdict(fine, lost).refusal is None
    assert "average precision" in (verdict(fine, lost).caution or "")
    louder = replace(fine, noise=0.01)
    assert "larger than the sampling" in (verdict(louder, fine).caution or "")


def test_a_group_is_predicted_at_its_share_of_the_examples():
    wanted = plan(discreet.DistributedDP("0.3"), groups=list("abcdefgh"))
    found = predict(wanted, repetitions=8)
    assert found.group_examples == 2_500
    whole = predict(plan(discreet.DistributedDP("0.3")), repetitions=8)
    assert found.auc.noise > 2 * whole.auc.noise


def test_two_rounds_and_one_example_clients_are_predicted_too():
    other = ScoreRange.declare("other", 0.0, 10.0)
    two = plan(discreet.DistributedDP(1), scores=other)
    assert len(two.rounds) == 2
    assert 0 < predict(two, repetitions=3).auc.noise < 0.05
    arcs = plan(discreet.LocalDP(3), 5_000)
    assert 0 < predict(arcs, repetitions=3).auc.noise < 0.2


@pytest.mark.parametrize(
    ("wanted", "options", "message"),
    [
        (plan(discreet.SecureAggregation(), None), {}, "number of examples"),
        (plan(discreet.SecureAggregation()), {"auc": 0.5}, "between 0.5 and 1"),
        (plan(discreet.LocalDP(1)), {"sites": 4}, "5 surviving sites"),
        (
            plan(discreet.SecureAggregation(), classes=["a", "b", "c"]),
            {},
            "more than two classes",
        ),
        (
            replace(
                plan(discreet.SecureAggregation()),
                privacy=LabelDP(1, mechanism="binned"),
            ),
            {},
            "label privacy",
        ),
    ],
)
def test_what_cannot_be_predicted_is_said(wanted, options, message):
    with pytest.raises(PlanError, match=message):
        predict(wanted, **options)


def test_a_cohort_that_secure_aggregation_cannot_keep_is_refused():
    good = plan(discreet.DistributedDP(1))
    check_protocol(good, sites=6)
    check_protocol(replace(good, privacy=discreet.LocalDP(1), cohort=Cohort(1)))
    with pytest.raises(InputError, match="at least 2"):
        check_protocol(replace(good, cohort=Cohort(1)))
    roster = Roster(tuple(Member(n, n.encode() * 32) for n in "abcdefghij"))
    with pytest.raises(InputError, match="at least 7 of 10 sites"):
        check_protocol(replace(good, roster=roster))


DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult-lr", "bank-xgb"])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_real_scores_get_the_error_that_was_predicted_within_a_factor_of_3(
    name, epsilon
):
    """Binormal scores stand for real ones that are not binormal."""
    path = DATA / f"{name}.parquet"
    if not path.is_file():
        pytest.skip("the shared data is not here: ../shared/data")
    site = discreet.read(path, score="score", label="label")
    exact = discreet.evaluate([site])
    _, y = site.to_arrays()
    wanted = plan(discreet.DistributedDP(epsilon), len(y), float(y.mean()))
    found = predict(wanted, sites=5, auc=exact.auc.value)
    errors = [
        discreet.evaluate(
            [site, *[discreet.Examples([], [])] * 4],
            privacy=discreet.DistributedDP(epsilon, min_survivors=5, colluders=1),
            examples=len(y),
            prevalence=float(y.mean()),
        ).auc.value
        - exact.auc.value
        for _ in range(20)
    ]
    real = math.sqrt(np.mean(np.square(errors)))
    assert 1 / 3 < found.auc.noise / real < 3
    assert 1 / 3 < found.auc.sampling / exact.auc.sampling < 3
