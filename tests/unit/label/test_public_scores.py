"""Curves and calibration under label privacy: plans, answers, evaluations."""

from contextlib import nullcontext
from fractions import Fraction

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
from discreet.session.policy import PolicyError
from discreet.session.respond import respond
from discreet.transport.in_process import simulate
from label_runs import evaluate_labels

pytestmark = pytest.mark.long

every_mechanism = pytest.mark.parametrize("mechanism", CURVE_MECHANISMS)
both_mechanisms = pytest.mark.parametrize("mechanism", ["response", "binned"])


def pooled(size, seed=1, rate=0.3):
    rng = np.random.default_rng(seed)
    y = (rng.random(size) < rate).astype(int)
    x = rng.normal(1.4 * y, 1)
    prior = (1 - rate) / rate
    return 1 / (1 + prior * np.exp(-(1.4 * x - 0.98))), y


def cut(scores, labels, sites, *, ids=False):
    names = np.arange(len(labels)) if ids else None
    return [
        Examples(
            scores[i::sites],
            labels[i::sites],
            subjects=names[i::sites] if ids else None,
        )
        for i in range(sites)
    ]


def kept(sites, cap=None):
    return [
        ResponseKeys(ResponseKey(bytes([k]) * 32), MemoryAccount(Cap(epsilon=cap)))
        for k in range(sites)
    ]


def spent(keys):
    return [own.account.spent(f"site {k + 1}").epsilon for k, own in enumerate(keys)]


def measured(sites, mechanism="curves", epsilon=1, **options):
    privacy = LabelDP(epsilon, mechanism=mechanism)
    return evaluate_labels(sites, privacy=privacy, **options)


def planned(sites, mechanism="curves", epsilon=1, **options):
    privacy = LabelDP(epsilon, mechanism=mechanism)
    return plan_curves(PublicScores.of(sites), privacy, **options)


@every_mechanism
def test_the_result_is_an_evaluation_near_the_truth(mechanism):
    s, y = pooled(20_000)
    result = measured(cut(s, y, 4), mechanism, 2, entropy=Seeded(b"1"))
    truth = discreet.evaluate([Examples(s, y)])
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


@both_mechanisms
@pytest.mark.parametrize("epsilon", [1, 40])
def test_bins_hold_exact_examples_and_at_a_huge_epsilon_exact_positives(
    mechanism, epsilon
):
    s, y = pooled(3000)
    result = measured(cut(s, y, 3), mechanism, epsilon)
    observed, counts = result.observed, result.fit.counts
    bins = observed.edges.bins_of(s)
    exact = np.bincount(bins, minlength=len(observed.edges))
    for held in (observed, counts):
        np.testing.assert_allclose(held.negatives + held.positives, exact, atol=1e-9)
    assert min(counts.negatives.min(), counts.positives.min()) >= 0
    if epsilon == 40:
        positives = np.bincount(bins, y, minlength=len(observed.edges))
        np.testing.assert_allclose(observed.positives, positives, atol=1e-9)


def test_ties_have_a_bin_each_and_the_auc_of_midranks():
    s, y = pooled(3000)
    s = np.round(s, 1)
    result = measured(cut(s, y, 3), epsilon=40)
    assert result.observed.edges.atoms
    assert result.auc.value == pytest.approx(roc_auc_score(y, s), abs=1e-9)
    found = result.average_precision.value
    assert found == pytest.approx(average_precision_score(y, s), abs=1e-9)


@both_mechanisms
def test_the_real_protocol_opens_the_same_release(mechanism):
    sites = cut(*pooled(600), 3, ids=True)
    plan = planned(sites, mechanism)
    open_sums = [
        simulate(
            plan, sites, aggregation=how, response_keys=kept(3), entropy=Seeded(b"7")
        )[0].total
        for how in ("plain", "secagg")
    ]
    np.testing.assert_array_equal(*open_sums)


def test_few_large_sites_bin_and_lone_examples_flip():
    s, y = pooled(4000)
    plans = [planned(cut(s, y, sites)) for sites in (4, 4000)]
    assert [plan.privacy.mechanism for plan in plans] == ["binned", "response"]


def test_the_plan_does_not_change_with_the_labels():
    s, y = pooled(1000)
    one, other = planned(cut(s, y, 4)), planned(cut(s, 1 - y, 4))
    assert one.digest() == other.digest()


def test_more_noise_asks_for_fewer_bins():
    sites = cut(*pooled(50_000), 5)
    plans = [planned(sites, "binned", e) for e in ("0.3", "1", "3", "9")]
    bins = [len(plan.statistic.edges) for plan in plans]
    assert bins == sorted(bins)
    assert bins[0] < bins[-1]


def test_no_bin_holds_much_more_than_its_share_of_examples_or_of_the_range():
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


def test_a_heavy_score_gets_a_bin_of_its_own():
    s = np.concatenate([np.full(500, 0.25), np.linspace(0, 1, 500)])
    public = PublicScores((np.sort(s),), Examples([0.5], [1]).scores)
    edges = Edges.realise(public.rule(20))
    inside = np.unique(s[edges.bins_of(s) == edges.bins_of(np.array([0.25]))[0]])
    assert inside.tolist() == [0.25]


def test_few_distinct_scores_are_their_own_bins_and_logits_work():
    public = PublicScores.of([Examples([0.1, 0.5, 0.5], [0, 1, 0])])
    assert public.rule(8) == Support((0.1, 0.5))
    s, y = pooled(3000)
    result = measured([Examples(np.log(s / (1 - s)), y, kind="logit")], "binned", 4)
    assert result.auc.value == pytest.approx(roc_auc_score(y, s), abs=0.02)


def test_thresholds_become_edges_and_given_edges_are_kept():
    sites = cut(*pooled(1000), 2)
    plan = planned(sites, "response", thresholds=(0.37,), edges=Uniform(8))
    assert len(plan.statistic.edges) == 9
    assert 0.37 in plan.statistic.edges.values


@pytest.mark.parametrize(
    ("mechanism", "ids", "cost"),
    [("response", True, 1), ("response", False, 3), ("binned", True, 3)],
)
def test_further_models_are_charged_again_unless_flips_are_kept(mechanism, ids, cost):
    s, y = pooled(500)
    keys = kept(2, cap=Fraction(cost))
    for scores in (s, s**2, 1 - s):
        measured(cut(scores, y, 2, ids=ids), mechanism, response_keys=keys)
    assert spent(keys) == [cost, cost]
    free = nullcontext() if cost == 1 else pytest.raises(BudgetError, match="cap")
    with free:
        measured(cut(s**3, y, 2, ids=ids), mechanism, response_keys=keys)


def test_another_epsilon_is_charged_again_and_a_changed_label_is_not():
    s, y = pooled(500)
    keys = kept(1)
    for epsilon, labels in ((1, y), (2, y), (1, np.append(1 - y[:1], y[1:]))):
        sites = cut(s, labels, 1, ids=True)
        measured(sites, "response", epsilon, response_keys=keys)
    assert spent(keys) == [3]


def test_a_changed_label_moves_one_example_of_its_own_bin():
    s, y = pooled(500)
    plan, keys = planned(cut(s, y, 1), "response"), kept(1, cap=Fraction(1))
    before, after = (
        simulate(plan, cut(s, labels, 1, ids=True), response_keys=keys)[0].total
        for labels in (y, np.append(1 - y[:1], y[1:]))
    )
    edges = plan.statistic.edges
    own = int(edges.bins_of(s[:1])[0])
    assert np.flatnonzero(after - before).tolist() == [own, len(edges) + own]
    assert np.abs(after - before).sum() == 2


def test_custody_must_be_one_a_site():
    with pytest.raises(InputError, match="2 sites need as many response keys, got 1"):
        measured(cut(*pooled(100), 2), "response", response_keys=kept(1))


@pytest.mark.parametrize(
    ("mechanism", "sentence"),
    [
        ("response", "that a label was changed since an earlier"),
        ("binned", "is charged again"),
    ],
)
def test_the_claim_names_the_unit_the_trust_and_what_is_seen(mechanism, sentence):
    sites = cut(*pooled(4000), 2)
    claim = measured(sites, mechanism, "0.5", entropy=Seeded(b"claim")).claim
    assert (claim.unit, claim.trust) == (LABEL, Trust.LABELS_ONLY)
    words = str(claim)
    assert "0.5-DP for one label flipped" in words
    assert "sees every score and each site's size" in words
    assert ("Computational" in words) == (mechanism == "response")
    assert sentence in words


@pytest.mark.filterwarnings("ignore::discreet.errors.UndefinedMetricWarning")
@every_mechanism
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_alone_is_refused_with_the_reason(mechanism, label):
    s, _ = pooled(2000)
    sites = cut(s, np.full(s.size, label), 2)
    result = measured(sites, mechanism, entropy=Seeded(b"one class"))
    assert np.isnan(result.auc.value)
    assert "too few labels for this epsilon" in result.fit.refusal
    with pytest.raises(NotReleasedError):
        result.curves.band()
    assert "Undefined" in str(result)
    assert result.to_json()


def test_positives_drowned_in_noise_are_refused_not_guessed():
    sites = cut(*pooled(1000, rate=0.05), 5)
    with pytest.warns(UndefinedMetricWarning, match="too few labels"):
        measured(sites, "response", "0.2", entropy=Seeded(b"drowned"))


@every_mechanism
def test_empty_sites_and_sites_of_one_example_take_part(mechanism):
    s, y = pooled(400)
    sites = [*cut(s[:200], y[:200], 200), Examples([], []), Examples(s[200:], y[200:])]
    result = measured(sites, mechanism, 8)
    assert result.source.releases[0].contributors == 202
    total = result.observed.negatives.sum() + result.observed.positives.sum()
    assert total == pytest.approx(400)


def test_sites_without_examples_are_refused():
    with pytest.raises(InputError, match="nothing to measure"):
        measured([Examples([], [])])


def test_rank_mechanisms_give_the_auc_alone_and_say_how_to_get_curves():
    sites = cut(*pooled(1000), 2)
    result = discreet.evaluate(sites, privacy=LabelDP(4))
    assert not result.fit.has_curves
    assert 0.5 < result.auc.value < 1
    with pytest.raises(NotReleasedError, match="LabelDP"):
        result.roc_curve()
    with pytest.raises(PlanError, match="mechanism='curves'"):
        discreet.evaluate(sites, privacy=LabelDP(4), thresholds=[0.5])


SITES = cut(*pooled(100), 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LabelDP(1, mechanism="magic"), "one of choice"),
        (lambda: LabelDP(1, "1e-6", mechanism="binned"), "omit delta"),
        (
            lambda: discreet.evaluate(
                SITES, privacy=LabelDP(1, mechanism="curves"), groups=["a"]
            ),
            "two classes",
        ),
        (
            lambda: discreet.recommend(PublicFacts(), LabelDP(1, mechanism="binned")),
            "public scores",
        ),
        (lambda: planned(SITES, "endpoint"), "AUC alone"),
    ],
)
def test_label_models_that_make_no_sense_are_refused(make, words):
    with pytest.raises(PlanError, match=words):
        make()


def test_flips_cannot_be_drawn_afresh_by_a_site_that_has_no_key():
    plan = planned(SITES, "response")
    with pytest.raises(PolicyError, match="needs a key"):
        respond(
            SITES[0],
            MemoryAccount(),
            plan,
            plan.resolve(0, []),
            session=b"s",
            population="p",
            entropy=SYSTEM,
        )


@both_mechanisms
def test_a_plan_of_curves_survives_its_file(mechanism):
    plan = planned(cut(*pooled(300), 2), mechanism, "0.5")
    assert planfile.loads(planfile.dumps(plan)).digest() == plan.digest()
