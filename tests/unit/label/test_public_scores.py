"""Curves and calibration under label privacy: plans, answers, evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import discreet
from discreet.data.edges import Edges, Listed, Support, Uniform
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import (
    BudgetError,
    InputError,
    NotReleasedError,
    PlanError,
    UndefinedMetricWarning,
)
from discreet.label.public_scores import PublicScores
from discreet.label.response_keys import ResponseKeys
from discreet.models.label import CURVE_MECHANISMS, LabelDP, plan_curves
from discreet.noise.response import ResponseKey
from discreet.plan import file as planfile
from discreet.plan.cohort import PublicFacts
from discreet.privacy.account import Cap, MemoryAccount
from discreet.privacy.claim import Trust
from discreet.privacy.unit import LABEL
from discreet.report.evaluation import Evaluation
from discreet.session.policy import PolicyError
from discreet.transport.in_process import simulate
from label_runs import evaluate_labels
from policies import respond

pytestmark = pytest.mark.long

CURVES = list(CURVE_MECHANISMS)


def pooled(size: int, seed: int = 1, rate: float = 0.3):
    rng = np.random.default_rng(seed)
    y = (rng.random(size) < rate).astype(int)
    x = rng.normal(1.4 * y, 1)
    prior = (1 - rate) / rate
    return 1 / (1 + prior * np.exp(-(1.4 * x - 0.98))), y


def cut(scores, labels, sites: int, *, ids: bool = False) -> list[Examples]:
    names = np.arange(len(labels))
    return [
        Examples(
            scores[i::sites],
            labels[i::sites],
            subjects=names[i::sites] if ids else None,
        )
        for i in range(sites)
    ]


def kept(sites: int, cap: str | None = None) -> list[ResponseKeys]:
    limit = None if cap is None else discreet.DistributedDP(cap).epsilon
    return [
        ResponseKeys(ResponseKey(bytes([k]) * 32), MemoryAccount(Cap(epsilon=limit)))
        for k in range(sites)
    ]


# -- values ------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", CURVES)
def test_the_result_is_an_evaluation_near_the_truth(mechanism) -> None:
    s, y = pooled(20_000)
    result = evaluate_labels(
        cut(s, y, 4), privacy=LabelDP(2, mechanism=mechanism), entropy=Seeded(b"1")
    )
    truth = discreet.evaluate([Examples(s, y)])
    assert isinstance(result, Evaluation)
    for name in ("auc", "average_precision", "brier"):
        found, exact = result.metrics[name], truth.metrics[name]
        # Five deviations: the seed is fixed, and a wrong decoding is far off.
        assert abs(found.value - exact.value) < 5 * found.noise + 1e-3
    fpr, tpr, _ = result.roc_curve()
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    assert result.at(0.5).recall.value == pytest.approx(
        truth.at(0.5).recall.value, abs=0.05
    )
    assert np.isfinite(result.calibrate([0.1, 0.9])).all()


def binned_result(size: int, epsilon: int, mechanism: str):
    s, y = pooled(size)
    privacy = LabelDP(epsilon, mechanism=mechanism)
    result = evaluate_labels(cut(s, y, 3), privacy=privacy)
    assert isinstance(result, Evaluation)
    return result, result.observed.edges.bins_of(s), y


@pytest.mark.parametrize("mechanism", ["response", "binned"])
def test_the_examples_of_every_bin_are_exact(mechanism) -> None:
    result, bins, _ = binned_result(3000, 1, mechanism)
    exact = np.bincount(bins, minlength=len(result.observed.edges))
    totals = result.observed.negatives + result.observed.positives
    np.testing.assert_allclose(totals, exact, atol=1e-9)
    counts = result.fit.counts
    np.testing.assert_allclose(counts.negatives + counts.positives, exact, atol=1e-9)
    assert counts.negatives.min() >= 0
    assert counts.positives.min() >= 0


@pytest.mark.parametrize("mechanism", ["response", "binned"])
def test_a_huge_epsilon_gives_the_exact_counts(mechanism) -> None:
    result, bins, y = binned_result(2000, 40, mechanism)
    exact = np.bincount(bins, y, minlength=len(result.observed.edges))
    np.testing.assert_allclose(result.observed.positives, exact, atol=1e-9)


def test_ties_have_a_bin_each_and_the_auc_of_midranks() -> None:
    s, y = pooled(3000)
    s = np.round(s, 1)
    result = evaluate_labels(cut(s, y, 3), privacy=LabelDP(40, mechanism="curves"))
    assert isinstance(result, Evaluation)
    assert result.observed.edges.atoms
    assert result.auc.value == pytest.approx(roc_auc_score(y, s), abs=1e-9)
    found = result.average_precision.value
    assert found == pytest.approx(average_precision_score(y, s), abs=1e-9)


@pytest.mark.parametrize("mechanism", ["response", "binned"])
def test_the_real_protocol_opens_the_same_release(mechanism) -> None:
    s, y = pooled(600)
    sites = cut(s, y, 3, ids=True)
    plan = plan_curves(PublicScores.of(sites), LabelDP(1, mechanism=mechanism))
    open_sums = [
        simulate(
            plan, sites, aggregation=how, response_keys=kept(3), entropy=Seeded(b"7")
        )[0].total
        for how in ("plain", "secagg")
    ]
    np.testing.assert_array_equal(*open_sums)


# -- the plan ----------------------------------------------------------------


def test_few_large_sites_bin_and_lone_examples_flip() -> None:
    s, y = pooled(4000)
    privacy = LabelDP(1, mechanism="curves")
    few = plan_curves(PublicScores.of(cut(s, y, 4)), privacy)
    many = plan_curves(PublicScores.of(cut(s, y, 4000)), privacy)
    assert isinstance(few.privacy, LabelDP)
    assert isinstance(many.privacy, LabelDP)
    assert few.privacy.mechanism == "binned"
    assert many.privacy.mechanism == "response"


def test_the_plan_does_not_change_with_the_labels() -> None:
    s, y = pooled(1000)
    privacy = LabelDP(1, mechanism="curves")
    one = plan_curves(PublicScores.of(cut(s, y, 4)), privacy)
    other = plan_curves(PublicScores.of(cut(s, 1 - y, 4)), privacy)
    assert one.digest() == other.digest()


def test_more_noise_asks_for_fewer_bins() -> None:
    s, y = pooled(50_000)
    public = PublicScores.of(cut(s, y, 5))
    bins = [
        len(plan_curves(public, LabelDP(e, mechanism="binned")).statistic.edges)
        for e in ("0.3", "1", "3", "9")
    ]
    assert bins == sorted(bins)
    assert bins[0] < bins[-1]


def test_no_bin_holds_much_more_than_its_share_of_examples_or_of_the_range() -> None:
    s, _ = pooled(10_000)
    public = PublicScores((np.sort(s),), Examples([0.5], [1]).scores)
    rule = public.rule(50)
    assert isinstance(rule, Listed)
    edges = Edges.realise(rule)
    counts = np.bincount(edges.bins_of(s), minlength=len(edges))
    assert counts.max() <= 2 / 50 * s.size + 1
    inner = np.diff(edges.array[1:-1])  # the outermost bins are empty
    assert inner.max() <= 2 / 50 * np.ptp(s) + 1e-3
    assert counts[0] == counts[-1] == 0


def test_a_heavy_score_gets_a_bin_of_its_own() -> None:
    s = np.concatenate([np.full(500, 0.25), np.linspace(0, 1, 500)])
    public = PublicScores((np.sort(s),), Examples([0.5], [1]).scores)
    edges = Edges.realise(public.rule(20))
    inside = np.unique(s[edges.bins_of(s) == edges.bins_of(np.array([0.25]))[0]])
    assert inside.tolist() == [0.25]


def test_few_distinct_scores_are_their_own_bins_and_logits_work() -> None:
    public = PublicScores.of([Examples([0.1, 0.5, 0.5], [0, 1, 0])])
    assert public.rule(8) == Support((0.1, 0.5))
    s, y = pooled(3000)
    logits = Examples(np.log(s / (1 - s)), y, kind="logit")
    result = evaluate_labels([logits], privacy=LabelDP(4, mechanism="binned"))
    assert result.auc.value == pytest.approx(roc_auc_score(y, s), abs=0.02)


def test_thresholds_become_edges_and_given_edges_are_kept() -> None:
    s, y = pooled(1000)
    public = PublicScores.of(cut(s, y, 2))
    privacy = LabelDP(1, mechanism="response")
    plan = plan_curves(public, privacy, thresholds=(0.37,), edges=Uniform(8))
    assert len(plan.statistic.edges) == 9
    assert 0.37 in plan.statistic.edges.values


# -- charges -----------------------------------------------------------------


def test_a_second_model_on_flipped_labels_costs_nothing_more() -> None:
    s, y = pooled(500)
    response_keys = kept(2, cap="1")
    privacy = LabelDP(1, mechanism="response")
    for scores in (s, s**2, 1 - s):
        sites = cut(scores, y, 2, ids=True)
        evaluate_labels(sites, privacy=privacy, response_keys=response_keys)
    for k, own in enumerate(response_keys):
        assert isinstance(own.account, MemoryAccount)
        assert own.account.spent(f"site {k + 1}").epsilon == 1


def test_without_ids_a_second_model_on_flipped_labels_is_charged_again() -> None:
    s, y = pooled(500)
    response_keys = kept(2)
    for scores in (s, s**2):
        evaluate_labels(
            cut(scores, y, 2),
            privacy=LabelDP(1, mechanism="response"),
            response_keys=response_keys,
        )
    assert isinstance(response_keys[0].account, MemoryAccount)
    assert response_keys[0].account.spent("site 1").epsilon == 2


def test_a_second_model_on_binned_positives_is_charged_again() -> None:
    s, y = pooled(500)
    privacy = LabelDP(1, mechanism="binned")
    free = kept(2)
    for scores in (s, s**2):
        evaluate_labels(cut(scores, y, 2), privacy=privacy, response_keys=free)
    assert isinstance(free[0].account, MemoryAccount)
    assert free[0].account.spent("site 1").epsilon == 2
    capped = kept(2, cap="1")
    evaluate_labels(cut(s, y, 2), privacy=privacy, response_keys=capped)
    with pytest.raises(BudgetError, match="cap"):
        evaluate_labels(cut(s**2, y, 2), privacy=privacy, response_keys=capped)


def test_another_epsilon_is_charged_again_and_a_changed_label_is_not() -> None:
    s, y = pooled(500)
    response_keys = kept(1)
    account = response_keys[0].account
    assert isinstance(account, MemoryAccount)
    for epsilon, labels in ((1, y), (2, y), (1, np.append(1 - y[:1], y[1:]))):
        evaluate_labels(
            cut(s, labels, 1, ids=True),
            privacy=LabelDP(epsilon, mechanism="response"),
            response_keys=response_keys,
        )
    assert account.spent("site 1").epsilon == 3


def test_a_changed_label_moves_one_example_of_its_own_bin() -> None:
    s, y = pooled(500)
    changed = np.append(1 - y[:1], y[1:])
    plan = plan_curves(PublicScores.of(cut(s, y, 1)), LabelDP(1, mechanism="response"))
    response_keys = kept(1, cap="1")
    totals = [
        simulate(plan, cut(s, labels, 1, ids=True), response_keys=response_keys)[
            0
        ].total
        for labels in (y, changed)
    ]
    bins = len(plan.statistic.edges)
    own = int(plan.statistic.edges.bins_of(s[:1])[0])
    moved = totals[1] - totals[0]
    assert np.flatnonzero(moved).tolist() == [own, bins + own]
    assert np.abs(moved).sum() == 2


def test_custody_must_be_one_a_site() -> None:
    s, y = pooled(100)
    with pytest.raises(InputError, match="2 sites need as many response keys, got 1"):
        evaluate_labels(
            cut(s, y, 2),
            privacy=LabelDP(1, mechanism="response"),
            response_keys=kept(1),
        )


# -- claims and refusals -----------------------------------------------------


def test_the_claim_names_the_unit_the_trust_and_what_is_seen() -> None:
    s, y = pooled(4000)
    words = {}
    for mechanism in ("response", "binned"):
        privacy = LabelDP("0.5", mechanism=mechanism)
        result = evaluate_labels(
            cut(s, y, 2), privacy=privacy, entropy=Seeded(b"claim")
        )
        assert result.claim.unit == LABEL
        assert result.claim.trust is Trust.LABELS_ONLY
        words[mechanism] = str(result.claim)
        assert "0.5-DP for one label flipped" in words[mechanism]
        assert "sees every score and each site's size" in words[mechanism]
        assert ("Computational" in words[mechanism]) == (mechanism == "response")
    assert "that a label was changed since an earlier" in words["response"]
    assert "is charged again" in words["binned"]


@pytest.mark.filterwarnings("ignore::discreet.errors.UndefinedMetricWarning")
@pytest.mark.parametrize("mechanism", CURVES)
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_alone_is_refused_with_the_reason(mechanism, label) -> None:
    s, _ = pooled(2000)
    sites = cut(s, np.full(s.size, label), 2)
    result = evaluate_labels(
        sites, privacy=LabelDP(1, mechanism=mechanism), entropy=Seeded(b"one class")
    )
    assert isinstance(result, Evaluation)
    assert np.isnan(result.auc.value)
    assert result.fit.refusal is not None
    assert "too few labels for this epsilon" in result.fit.refusal
    with pytest.raises(NotReleasedError):
        result.curves.band()
    assert "Undefined" in str(result)
    assert result.to_json()


def test_positives_drowned_in_noise_are_refused_not_guessed() -> None:
    s, y = pooled(1000, rate=0.05)
    with pytest.warns(UndefinedMetricWarning, match="too few labels"):
        evaluate_labels(
            cut(s, y, 5),
            privacy=LabelDP("0.2", mechanism="response"),
            entropy=Seeded(b"drowned"),
        )


@pytest.mark.parametrize("mechanism", CURVES)
def test_empty_sites_and_sites_of_one_example_take_part(mechanism) -> None:
    s, y = pooled(400)
    sites = [*cut(s[:200], y[:200], 200), Examples([], []), Examples(s[200:], y[200:])]
    result = evaluate_labels(sites, privacy=LabelDP(8, mechanism=mechanism))
    assert isinstance(result, Evaluation)
    assert result.source.releases[0].contributors == 202
    assert result.observed.negatives.sum() + result.observed.positives.sum() == (
        pytest.approx(400)
    )


def test_sites_without_examples_are_refused() -> None:
    with pytest.raises(InputError, match="nothing to measure"):
        evaluate_labels([Examples([], [])], privacy=LabelDP(1, mechanism="curves"))


def test_rank_mechanisms_give_the_auc_alone_and_say_how_to_get_curves() -> None:
    s, y = pooled(1000)
    result = discreet.evaluate(cut(s, y, 2), privacy=LabelDP(4))
    assert not result.fit.has_curves
    assert 0.5 < result.auc.value < 1
    with pytest.raises(NotReleasedError, match="LabelDP"):
        result.roc_curve()
    with pytest.raises(PlanError, match="mechanism='curves'"):
        discreet.evaluate(cut(s, y, 2), privacy=LabelDP(4), thresholds=[0.5])


def test_label_models_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PlanError, match="one of choice"):
        LabelDP(1, mechanism="magic")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="omit delta"):
        LabelDP(1, "1e-6", mechanism="binned")
    s, y = pooled(100)
    with pytest.raises(PlanError, match="two classes"):
        discreet.evaluate(
            cut(s, y, 2), privacy=LabelDP(1, mechanism="curves"), groups=["a"]
        )
    with pytest.raises(PlanError, match="public scores"):
        discreet.recommend(PublicFacts(), LabelDP(1, mechanism="binned"))
    with pytest.raises(PlanError, match="AUC alone"):
        plan_curves(PublicScores.of(cut(s, y, 2)), LabelDP(1, mechanism="endpoint"))


def test_flips_cannot_be_drawn_afresh_by_a_site_that_has_no_key() -> None:
    s, y = pooled(100)
    public = PublicScores.of(cut(s, y, 2))
    plan = plan_curves(public, LabelDP(1, mechanism="response"))
    with pytest.raises(PolicyError, match="needs a key"):
        respond(
            cut(s, y, 2)[0],
            MemoryAccount(),
            plan,
            plan.resolve(0, []),
            session=b"s",
            population="p",
            entropy=SYSTEM,
        )


@pytest.mark.parametrize("mechanism", ["response", "binned"])
def test_a_plan_of_curves_survives_its_file(mechanism) -> None:
    s, y = pooled(300)
    public = PublicScores.of(cut(s, y, 2))
    plan = plan_curves(public, LabelDP("0.5", mechanism=mechanism))
    assert planfile.loads(planfile.dumps(plan)).digest() == plan.digest()
