import json
import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import discreet
from discreet import (
    DisclosureWarning,
    InputError,
    NotReleasedError,
    PlanError,
    ReleaseError,
    SecureAggregation,
    UndefinedMetricWarning,
)
from discreet.data.edges import Support, Uniform
from discreet.entropy import Seeded
from discreet.estimate.estimate import Binning, Estimate
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.report.build import evaluation, result_of
from discreet.transport.in_process import simulate
from discreet.transport.simulation import run

pytestmark = pytest.mark.long

SA = SecureAggregation()


def site(rng, n, prevalence=0.3, kind="probability"):
    y = rng.random(n) < prevalence
    logit = rng.normal(size=n) * 1.3 + 2 * y - 1.5
    s = logit if kind == "logit" else 1 / (1 + np.exp(-logit))
    return discreet.Examples(s, y, kind=kind)


@pytest.fixture
def sites(rng):
    return [site(rng, n) for n in (7000, 5000, 400)]


def test_a_partial_area_ends_where_it_is_asked_to(sites):
    result = discreet.evaluate(sites)
    s, y = (
        np.concatenate(c) for c in zip(*(x.to_arrays() for x in sites), strict=True)
    )
    for end in (0.05, 0.1, 0.2, 0.5):
        found = result.curves.partial_auc(max_fpr=end)
        expected = roc_auc_score(y, s, max_fpr=end)
        assert found.value == pytest.approx(expected, abs=1e-3), end
        low, high = found.interval()
        assert low < found.value < high
        # Turned around, the smallest recall is the largest false positive rate.
        turned = roc_auc_score(1 - y, -s, max_fpr=end)
        other = result.curves.partial_auc(min_recall=1 - end)
        assert other.value == pytest.approx(turned, abs=1e-3), end
    plain = result.curves.partial_auc(max_fpr=0.1, corrected=False)
    assert plain.value == result.metrics["partial_auc"].value
    assert plain.interval() == result.metrics["partial_auc"].interval()
    for wrong in ({}, {"max_fpr": 0.1, "min_recall": 0.9}, {"max_fpr": 1.5}):
        with pytest.raises(InputError, match="partial area"):
            result.curves.partial_auc(**wrong)


def outputs(result):
    curves = [*result.roc_curve(), *result.precision_recall_curve()]
    return (
        str(result),
        result.to_json(),
        repr(result.at(0.37)),
        [c.tobytes() for c in curves],
    )


def test_equal_releases_of_two_data_sets_give_identical_output(rng):
    plan = recommend(PublicFacts(), SA, edges=Uniform(8))
    low = rng.random(500) * 0.9
    y = rng.random(500) < 0.4
    inside = (np.floor(low * 8) + rng.random(500)) / 8
    first = simulate(plan, [discreet.Examples(low, y)], entropy=Seeded(b"1"))
    second = simulate(plan, [discreet.Examples(inside, y)], entropy=Seeded(b"1"))
    assert not np.array_equal(low, inside)
    claim = plan.claim("simulated", sites=1)
    assert outputs(evaluation(plan, first, claim)) == outputs(
        evaluation(plan, second, claim)
    )


def test_text_json_and_plots_hold_what_the_object_holds(sites, tmp_path):
    result = discreet.evaluate(sites, thresholds=(0.2, 0.5))
    for word in (
        *("AUC", "average precision", "AUPR", "Brier", "precision", "recall"),
        *("specificity", "accuracy", "F1", "3 of 3 sites, 12,400 examples", "Claim:"),
    ):
        assert word in str(result)
    for kind in ("roc", "pr", "det", "det-log"):
        result.plot(kind, tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="roc, pr, det"):
        result.plot("pie")
    document = json.loads(result.to_json())
    assert document["metrics"]["auc"]["value"] == result.auc.value
    assert document["sites"] == {"contributed": 3, "expected": 3}
    assert [t["threshold"] for t in document["thresholds"]] == [0.2, 0.5]
    assert document["roc"]["thresholds"][0] is None  # infinity
    assert document["claim"]["setting"] == "simulated"
    assert document["metrics"]["auc"]["interval_covers"] == [
        "sampling",
        "binning",
        "noise",
    ]


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
@pytest.mark.filterwarnings("ignore:No positive class found")
@pytest.mark.parametrize(
    ("labels", "cause"), [([0, 0], "positives"), ([1, 1], "negatives")]
)
def test_a_pooled_single_class_is_nan_with_a_warning_that_names_it(labels, cause):
    with pytest.warns(UndefinedMetricWarning, match=f"hold no {cause}"):
        result = discreet.evaluate(
            [discreet.Examples([0.2, 0.7], labels), discreet.Examples([], [])]
        )
    assert math.isnan(result.auc.value)
    assert math.isnan(result.curves.mann_whitney_u.value)
    assert math.isnan(result.auc.interval().low)
    assert not math.isnan(result.brier.value)
    ap = result.average_precision
    assert ap.value == average_precision_score(labels, [0.2, 0.7])
    assert cause in ap.unusable
    assert ap.interval() == (0.0, 1.0)
    assert "undefined" in str(result)
    assert json.loads(result.to_json())["metrics"]["auc"]["value"] is None
    with pytest.raises(NotReleasedError, match="no curve to draw"):
        result.plot()


def test_no_examples_at_all_is_nan_with_a_warning():
    with pytest.warns(UndefinedMetricWarning, match="no positives or negatives"):
        result = discreet.evaluate([discreet.Examples([], [])])
    assert math.isnan(result.brier.value)
    assert "undefined" in str(result)


@pytest.mark.usefixtures("small_is_fine")
def test_a_threshold_above_every_score_warns_that_precision_is_undefined():
    result = discreet.evaluate([discreet.Examples([0.2, 0.7], [0, 1])])
    with pytest.warns(UndefinedMetricWarning, match="precision"):
        at = result.at(0.9)
    assert math.isnan(at.precision.value)
    assert at.recall.value == 0
    assert at.specificity.value == 1
    with pytest.raises(InputError, match="NaN"):
        result.at(math.nan)


def test_a_fine_exact_histogram_of_few_examples_warns(rng):
    with pytest.warns(DisclosureWarning, match="nearly the data"):
        discreet.evaluate([site(rng, 1000)])


@pytest.mark.usefixtures("small_is_fine")
@pytest.mark.parametrize("t", [0.05, 0.33, 0.5, 0.61])
def test_limits_between_edges_hold_the_exact_thresholded_metrics(rng, t):
    y = rng.random(900) < 0.4
    s = np.clip(rng.normal(0.4 + 0.2 * y, 0.2), 0, 1)
    result = discreet.evaluate([discreet.Examples(s, y)], edges=Uniform(10))
    at = result.at(t)
    chosen = s >= t
    exact = {
        "precision": y[chosen].mean(),
        "recall": chosen[y].mean(),
        "specificity": 1 - chosen[~y].mean(),
        "accuracy": (chosen == y).mean(),
        "f1": 2 * (chosen & y).sum() / (chosen.sum() + y.sum()),
        "true_positives": (chosen & y).sum(),
        "false_positives": (chosen & ~y).sum(),
        "false_negatives": (~chosen & y).sum(),
        "true_negatives": (~chosen & ~y).sum(),
    }
    for name, value in exact.items():
        found = getattr(at, name)
        low, high = found.interval(worst_case_binning=True)
        assert low - 1e-12 <= value <= high + 1e-12, name
        if value <= 1:  # a rate
            assert found.value == pytest.approx(value, abs=0.03), name
    assert at.precision.binning.low < at.precision.binning.high or t == 0.5


def test_narrow_labels_do_not_wrap_in_many_bins(rng):
    s, y = rng.random(20_000), rng.random(20_000) < 0.5
    for dtype in (np.bool_, np.uint8, np.int8, np.int64, np.float32):
        result = discreet.evaluate([discreet.Examples(s, y.astype(dtype))])
        assert result.observed.total_positives == y.sum()
        assert result.observed.total_negatives == (~y).sum()


@pytest.mark.usefixtures("small_is_fine")
def test_a_known_support_loses_nothing(rng):
    votes = rng.integers(0, 6, 2000) / 5
    y = rng.random(2000) < votes
    support = Support((0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
    result = discreet.evaluate([discreet.Examples(votes, y)], edges=support)
    for found in (result.auc, result.average_precision, result.brier):
        assert found.binning == Binning(found.value, found.value, 0.0)
    assert result.at(0.5).recall.value == (votes[y] >= 0.5).mean()
    assert result.brier.value == pytest.approx(((votes - y) ** 2).mean())


def test_scores_on_few_values_are_joined_linearly_and_smooth_ones_by_pchip(rng):
    votes = rng.integers(0, 6, 12_000) / 5
    y = rng.random(12_000) < votes
    tied = discreet.evaluate([discreet.Examples(votes, y)])
    assert tied.fit.curves.interpolation == "linear"
    smooth = discreet.evaluate([site(rng, 12_000)])
    assert smooth.fit.curves.interpolation == "pchip"


def test_logits_give_the_same_curve_as_their_sigmoid(rng):
    n = 20_000
    y = rng.random(n) < 0.3
    logit = rng.normal(size=n) * 1.3 + 2 * y - 1.5
    as_logit = discreet.evaluate([discreet.Examples(logit, y, kind="logit")])
    as_score = discreet.evaluate([discreet.Examples(1 / (1 + np.exp(-logit)), y)])
    assert as_logit.auc.value == pytest.approx(as_score.auc.value, abs=1e-6)
    assert as_logit.brier.value == pytest.approx(as_score.brier.value, abs=1e-5)
    assert as_logit.at(0.0).recall.value == as_score.at(0.5).recall.value


def test_other_scores_have_no_brier_score(rng):
    y = rng.random(20_000) < 0.3
    points = rng.integers(0, 30, 20_000) + y
    result = discreet.evaluate(
        [discreet.Examples(points, y, kind="other", low=0, high=30)], thresholds=(15,)
    )
    assert "brier" not in result.metrics
    assert "not probabilities" in result.brier.unusable
    assert "at 15:" in str(result)


def test_interpolations_agree_within_their_limits(sites):
    linear = discreet.evaluate(sites, interpolation="linear")
    smooth = discreet.evaluate(sites, interpolation="pchip")
    for a, b in ((linear.auc, smooth.auc), (linear.brier, smooth.brier)):
        assert a.binning.low <= b.value <= a.binning.high
    assert linear.curves.mann_whitney_u.value == pytest.approx(
        linear.auc.value
        * linear.observed.total_positives
        * linear.observed.total_negatives
    )


@pytest.mark.usefixtures("small_is_fine")
def test_releases_of_another_plan_session_or_size_are_refused(sites):
    plan = recommend(PublicFacts(), SA, edges=Uniform(8))
    (release,) = simulate(plan, sites)
    claim = plan.claim("simulated", sites=3)
    other = recommend(PublicFacts(), SA, edges=Uniform(4))
    with pytest.raises(ReleaseError, match="another plan"):
        evaluation(other, [release], claim)
    with pytest.raises(ReleaseError, match="1 rounds"):
        evaluation(plan, [release, release], claim)
    with pytest.raises(PlanError, match="16 counts"):
        evaluation(plan, [replace(release, total=release.total[:-1])], claim)
    with pytest.raises(ReleaseError, match="contributors"):
        replace(release, contributors=4)
    with pytest.raises(ReleaseError, match="64-bit"):
        replace(release, total=release.total.astype(float))
    with pytest.raises(ValueError, match="read-only"):
        release.total[0] = 1


@pytest.mark.usefixtures("small_is_fine")
def test_the_parts_of_a_plan_decide_what_its_result_is(sites):
    plan = recommend(PublicFacts(), SA, edges=Uniform(8))
    claim = plan.claim("simulated", sites=3)
    assert isinstance(
        result_of(plan, simulate(plan, sites), claim), discreet.Evaluation
    )
    groups = recommend(PublicFacts(), SA, groups=["f"])
    both = discreet.Examples([0.5, 0.6], [1, 0], groups=["f", "f"])
    releases = simulate(groups, [both])
    with pytest.raises(PlanError, match="several evaluations"):
        evaluation(groups, releases, claim)
    assert list(result_of(groups, releases, claim)) == ["f"]


def test_groups_are_evaluated_apart_from_one_release(rng):
    y = rng.random(30_000) < 0.3
    s = rng.random(30_000)
    g = np.where(rng.random(30_000) < 0.5, "f", "m")
    sites = [discreet.Examples(s, y, groups=g)]
    result = discreet.evaluate(sites, groups=["f", "m"])
    for name in ("f", "m"):
        alone = discreet.evaluate([discreet.Examples(s[g == name], y[g == name])])
        assert result[name].auc == alone.auc
    assert list(result) == ["f", "m"]
    slope = result.average("calibration_slope")
    assert slope.support == result["f"].metrics["calibration_slope"].support
    assert "AUC f" in str(result)
    with pytest.raises(NotReleasedError, match="multiclass='ovo'"):
        result.average_pairs()
    assert json.loads(result.to_json())["parts"]["f"]["metrics"]["auc"]


def test_a_class_nobody_has_is_nan_and_so_are_the_averages(rng):
    s = rng.dirichlet([1, 1, 1], 30_000)
    y = rng.choice(["a", "b"], 30_000)
    names = ["a", "b", "c"]
    with pytest.warns(
        UndefinedMetricWarning, match="metrics of c .* hold no positives"
    ):
        result = discreet.evaluate(
            [discreet.Examples(s, y, classes=names)], classes=names
        )
    assert math.isnan(result["c"].auc.value)
    assert math.isnan(result.average().value)
    assert not math.isnan(result["a"].auc.value)


def test_fewer_sites_or_examples_than_the_plan_asks_for_are_refused(sites):
    plan = recommend(PublicFacts(), SA, cohort=Cohort(min_survivors=3))
    with pytest.raises(InputError, match="at least 3 sites, got 2"):
        simulate(plan, sites[:2])
    floor = replace(plan, cohort=replace(plan.cohort, min_examples_per_site=1000))
    with pytest.raises(InputError, match="fewer than the 1000"):
        simulate(floor, sites)
    (release,) = simulate(plan, sites)
    with pytest.raises(ReleaseError, match="must not be opened"):
        evaluation(
            plan, [replace(release, contributors=2)], plan.claim("deployed", sites=3)
        )


def test_seeded_entropy_is_said_in_the_claim_and_two_runs_are_two_sessions(sites):
    plan = recommend(PublicFacts(), SA)
    assert run(plan, sites, entropy=Seeded(b"x")).claim.setting == "seeded"
    one, other = run(plan, sites), run(plan, sites)
    assert one.claim.setting == "simulated"
    assert one.source.releases[0].session != other.source.releases[0].session


def test_progress_is_reported_site_by_site(sites):
    seen = []
    discreet.evaluate(sites, progress=seen.append)
    assert seen == [1, 2, 3]


def test_an_interval_never_leaves_the_support():
    wide = Estimate(0.99, 0.1, 0.1, Binning(0.9, 1.0, 0.01))
    low, high = wide.interval()
    assert high == 1.0
    assert low == pytest.approx(0.98 - 1.96 * math.hypot(0.1, 0.1), abs=1e-3)
    with pytest.raises(InputError):
        wide.interval(1.5)


def test_a_source_that_is_not_estimated_is_not_claimed_to_be_covered():
    found = Estimate(0.5, None, 0.0, Binning(0.4, 0.7, 0.01))
    assert found.covers == ("binning", "noise")
    assert found.interval(worst_case_binning=True) == (0.4, 0.7)
    assert replace(found, sampling=0.1).covers[0] == "sampling"
