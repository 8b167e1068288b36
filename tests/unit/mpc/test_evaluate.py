"""The analyst's result: values, errors, claim, and what is not to be had."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import (
    InputError,
    NotReleasedError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)
from discreet.estimate.intervals import AreaShape
from discreet.models.secure_aggregation import SecureAggregation
from discreet.mpc import ExactMPC, evaluate
from discreet.mpc.engine import RevealedAreas
from discreet.mpc.evaluate import DeLongSums, estimates, evaluation_of
from discreet.mpc.model import areas_plan
from discreet.mpc.program import Program
from discreet.mpc.shares import encode
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Release
from discreet.privacy.claim import Trust
from discreet.privacy.loss import PureDP, Unbounded
from mpc_reference import ROWS, Reference, decoded, program


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(3)
    scores = rng.random(400).round(2)
    labels = (rng.random(400) < scores).astype(int)
    return [Examples(scores[k::3], labels[k::3]) for k in range(3)]


def run(sites, model=None, **options):
    return evaluate(sites, model, engine=Reference(), **options)


def test_the_result_has_three_areas_and_no_curve(sites):
    result = run(sites)
    assert set(result.metrics) == {"auc", "average_precision", "aupr"}
    for ask in (
        result.roc_curve,
        result.precision_recall_curve,
        lambda: result.at(0.5),
        lambda: result.ece,
        lambda: result.brier,
        lambda: result.calibrate([0.5]),
        result.plot,
    ):
        with pytest.raises(NotReleasedError, match="SecureAggregation"):
            ask()


def test_the_claim_says_who_is_trusted_and_that_the_value_leaks(sites):
    claim = run(sites).claim
    assert claim.loss == Unbounded()
    assert claim.unit is None
    assert claim.trust is Trust.COMPUTE_PARTIES
    assert claim.computational
    assert claim.setting == "simulated"
    assert "curious" in claim.assumes[0]
    assert "any number of owners" in claim.assumes[0]
    text = " ".join(claim.not_protected)
    for words in ("values themselves", "deviates from the protocol", "false data"):
        assert words in text
    assert any("how many examples each owner" in words for words in claim.discloses)


def test_all_digits_of_an_auc_give_the_class_counts_away_as_the_claim_says(rng):
    # Why the claim names them: few class counts fit a fraction of 52 bits.
    rows = 3000
    scores = rng.random(rows)
    labels = (rng.random(rows) < scores**2).astype(int)
    result = run([Examples(scores, labels)])
    pairs = [p * (rows - p) for p in range(1, rows)]
    value = result.auc.value
    fits = [abs(round(value * 2 * k) / (2 * k) - value) < 2.0**-51 for k in pairs]
    candidates = {p for p, fit in enumerate(fits, start=1) if fit}
    assert candidates == {labels.sum(), rows - labels.sum()}
    silent = run([Examples(scores, labels)], ExactMPC(interval=False))
    assert any("class counts" in words for words in silent.claim.not_protected)


def test_hidden_sizes_disclose_only_their_bracket(sites):
    claim = run(sites, ExactMPC(hide_sizes=True)).claim
    assert "padded numbers of examples, 768 in all" in claim.discloses
    assert not any("how many examples each owner" in words for words in claim.discloses)


@pytest.mark.parametrize("owners", [2, 3])
def test_two_owners_are_warned_about_each_other(sites, owners):
    words = " ".join(run(sites[:owners]).claim.not_protected)
    assert ("two owners" in words) == (owners == 2)


def test_exact_values_have_no_noise_and_no_bins(sites):
    auc = run(sites).auc
    ends = auc.binning.low, auc.binning.high
    assert (auc.noise, *ends) == (0.0, auc.value, auc.value)


def delong(scores, labels):
    """The variance from its definition: each example against all of the other class."""
    scores, labels = np.asarray(scores), np.asarray(labels, dtype=bool)
    positives, negatives = scores[labels][:, None], scores[~labels]
    wins = (positives > negatives) + 0.5 * (positives == negatives)
    return sum(np.var(wins.mean(axis=k), ddof=1) / wins.shape[1 - k] for k in (0, 1))


def test_the_oracle_is_the_published_example():
    """DeLong's two placements by hand: 1, 1/2 of positives; 1/2, 1 of negatives."""
    assert delong([0.9, 0.4, 0.6, 0.1], [1, 1, 0, 0]) == pytest.approx(0.125)


@given(ROWS)
def test_three_more_integers_give_delongs_variance(rows):
    scores, labels = zip(*rows, strict=True)
    owner = encode(Examples(scores, labels))
    asked = program((owner.rows,), interval=True)
    revealed = Reference().run(asked, [owner]).values
    sums = DeLongSums.of(asked, asked.checked(revealed))
    counts = sum(labels), len(labels) - sum(labels)
    assert (sums.positives, sums.negatives) == counts
    area = decoded(asked, revealed)["auc"]
    if min(counts) > 1:
        assert sums.variance(area) == pytest.approx(delong(scores, labels), abs=1e-14)
    else:
        assert sums.variance(area) == AreaShape(*counts).variance(area)


def test_sums_of_squares_of_no_data_are_refused():
    for sums in ((0, 4, 1, 1), (2, 2, -1, 1), (2, 2, 33, 1), (2, 2, 1, 33)):
        with pytest.raises(ReleaseError, match="of no data"):
            DeLongSums(*sums)


def test_an_exact_auc_comes_with_delongs_interval_and_says_what_was_revealed(sites):
    result = run(sites)
    assert all(e.sampling is not None for e in result.metrics.values())
    low, high = result.auc.interval()
    assert low < result.auc.value < high
    pooled = map(np.concatenate, zip(*(s.to_arrays() for s in sites), strict=True))
    assert result.auc.sampling**2 == pytest.approx(delong(*pooled), rel=1e-9)
    assert any("number of positives and two sums" in d for d in result.claim.discloses)
    assert any("DeLong" in note for note in result.fit.notes)


def test_without_class_counts_there_is_no_sampling_error(sites):
    for found in run(sites, ExactMPC(interval=False)).metrics.values():
        assert found.sampling is None
        assert "prevalence" in found.caution
    hidden = run(sites, ExactMPC(hide_sizes=True), prevalence=0.5)
    assert hidden.auc.sampling is None
    assert any("hidden" in note for note in hidden.fit.notes)


def test_a_declared_prevalence_gives_a_sampling_error(sites):
    result = run(sites, ExactMPC(interval=False), prevalence=0.5)
    assert all(e.sampling is not None for e in result.metrics.values())
    low, high = result.auc.interval()
    assert low < result.auc.value < high
    # Hanley and McNeil's order of size for 200 + 200 examples.
    assert 0.01 < result.auc.sampling < 0.04
    assert any("declared prevalence" in note for note in result.fit.notes)


@pytest.mark.parametrize("prevalence", [0.0, 1.0, -0.1, 2.0])
def test_a_prevalence_outside_0_and_1_is_refused(sites, prevalence):
    with pytest.raises(PlanError, match="strictly between 0 and 1"):
        run(sites, prevalence=prevalence)


def test_an_empty_site_changes_nothing(sites):
    nobody = Examples([], [])
    assert run([*sites, nobody]).auc.value == run(sites).auc.value
    hidden = run([*sites, nobody], ExactMPC(hide_sizes=True))
    assert hidden.auc.value == run(sites).auc.value
    assert hidden.source.contributors == 4


def test_one_class_only_is_nan_with_the_cause():
    with pytest.warns(UndefinedMetricWarning, match="no positive"):
        result = run([Examples([0.1, 0.2], [0, 0])])
    assert math.isnan(result.auc.value)
    assert "no positive" in result.auc.unusable
    assert json.loads(result.to_json())["metrics"]["auc"]["value"] is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Examples([0.1], [0]), "list of Examples"),
        ([[0.1], [0]], "list of Examples"),
        ([], "no examples"),
        ([Examples([], [])], "no examples"),
        (
            [Examples([0.1], [0]), Examples([0.1], [0], kind="logit")],
            "different kinds",
        ),
    ],
)
def test_what_cannot_be_pooled_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        run(wrong)


def test_ties_none_says_when_it_is_exact(sites):
    assert any(
        "no two scores are equal" in n for n in run(sites, ExactMPC("none")).fit.notes
    )


MODELS = [
    ExactMPC(),
    ExactMPC(interval=False),
    ExactMPC("none"),
    ExactMPC(hide_sizes=True),
    ExactMPC(epsilon="0.5"),
]


def plan_of(model, rows=16, owners=2, **options):
    return areas_plan(model, PublicFacts(rows), owners=owners, **options)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_plan_has_its_models_program_and_survives_its_file(model):
    plan = plan_of(model, measured="sepsis-xgb")
    assert Program.of(plan, [8, 8]).model == model
    assert planfile.loads(planfile.dumps(plan)) == plan


def test_a_noisy_plan_costs_its_epsilon():
    model = ExactMPC(epsilon="0.5")
    assert model.loss == PureDP(model.epsilon)
    this = plan_of(model).resolve(0, [])
    assert this.loss == model.mechanism_for(this, Cohort()).loss() == model.loss


HISTOGRAM = recommend(PublicFacts(), SecureAggregation()).rounds


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Program.of(plan_of(ExactMPC()), [8, 9]),
            "share 17 rows, the plan is about 16",
        ),
        (lambda: Plan(ExactMPC(), HISTOGRAM), "not sums of counts"),
        (
            lambda: Plan(SecureAggregation(), plan_of(ExactMPC()).rounds),
            "no sums of counts",
        ),
        (lambda: recommend(PublicFacts(), ExactMPC()), "declare the examples"),
        (
            lambda: recommend(PublicFacts(9), ExactMPC(), groups=["a", "b"]),
            "two classes and no groups",
        ),
        (lambda: ExactMPC("half"), "'exact' or 'none'"),
        (lambda: ExactMPC(epsilon=0), "positive"),
        (lambda: ExactMPC(epsilon=-1), "positive"),
        (lambda: ExactMPC(epsilon=1, hide_sizes=True), "public number of examples"),
        (lambda: ExactMPC(hide_sizes=True, interval=True), "hidden sizes hide"),
        (lambda: ExactMPC(epsilon=1, interval=True), "noise of their own"),
    ],
)
def test_what_a_plan_or_a_model_cannot_promise_is_refused(make, message):
    with pytest.raises(PlanError, match=message):
        make()


class Remembering:
    """The reference engine, and what it revealed."""

    def run(self, *given, **options):
        self.revealed = Reference().run(*given, **options)
        return self.revealed


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_result_can_be_computed_again_from_the_revealed_integers(model, sites):
    engine = Remembering()
    result = evaluate(sites, model, engine=engine, entropy=Seeded(b"again"))
    plan = plan_of(model, result.fit.facts["rows"], owners=len(sites))
    checked, *total = engine.revealed.values
    total, owners = np.array(total), len(sites)
    assert checked == 1
    this = plan.resolve(0, [])
    assert total.size == model.mechanism_for(this, plan.cohort).sent(
        plan.statistic.size
    )
    release = Release(plan.digest(), b"s", 0, total, owners, owners, model.loss)
    again = estimates(plan, [release], claim=result.claim)
    assert {m: e.value for m, e in again.items()} == {
        m: e.value for m, e in result.metrics.items()
    }
    with pytest.raises(ReleaseError, match="another plan"):
        estimates(plan, [replace(release, plan_digest=b"other")], claim=result.claim)


def test_facts_tell_the_cost():
    revealed = RevealedAreas(np.array([1, 1, 2, 3, 200, 4, 5]), 12_345, 67, 0.891)
    plan = plan_of(ExactMPC(), 400, owners=3)
    result = evaluation_of(plan, revealed, session=b"s", setting="deployed")
    costs = {"bytes": 12_345, "rounds": 67, "seconds": 0.89}
    assert result.fit.facts == {"rows": 400, **costs}
    assert "Simulated" not in str(result)
    assert "bytes 12345" in str(result)


def test_a_noisy_auc_is_claimed_for_one_row(sites):
    result = run(sites, ExactMPC(epsilon=2), entropy=Seeded(b"noisy"))
    claim = result.claim
    assert str(claim.loss) == "2-DP"
    assert str(claim.unit) == "one row replaced"
    assert claim.setting == "seeded"
    assert not any("exact value" in words for words in claim.not_protected)
    assert set(result.metrics) == {"auc"}
    with pytest.raises(NotReleasedError):
        _ = result.average_precision
    exact = run(sites).auc.value
    low, high = result.auc.interval()
    assert low < exact < high
    assert json.loads(result.to_json())["metrics"]["auc"]["noise_sd"] > 0


def test_a_noisy_auc_of_too_little_data_is_withheld():
    small = [Examples(np.linspace(0, 1, 20), np.arange(20) % 2)]
    with pytest.warns(UndefinedMetricWarning, match="epsilon times the smaller class"):
        result = run(small, ExactMPC(epsilon="0.1"), entropy=Seeded(b"small"))
    assert math.isnan(result.auc.value)
