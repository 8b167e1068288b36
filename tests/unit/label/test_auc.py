import json
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import BudgetError, InputError, NotReleasedError, PlanError
from discreet.label.ranks import midranks
from discreet.label.response_keys import ResponseKeys
from discreet.noise.response import ResponseKey
from discreet.privacy.account import Cap, MemoryAccount
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.statistic.rank_sums import RANK_MECHANISMS, RESPONSES
from label_runs import label_auc


def federation(rng, sizes=(900, 1100, 1000)):
    sites = []
    for size in sizes:
        truth = rng.random(size) < 0.3
        logits = rng.normal(size=size) + 1.2 * truth
        sites.append(Examples(1 / (1 + np.exp(-logits)), truth))
    return sites


def exact_auc(sites):
    scores, labels = (
        np.concatenate(c) for c in zip(*(s.to_arrays() for s in sites), strict=True)
    )
    up, down = scores[labels == 1], scores[labels == 0]
    return (up[:, None] > down[None, :]).mean()


GAUSSIAN = ("endpoint", "adaptive", "orthogonal", "local-laplace", "global-laplace")


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "loss"),
    [
        *((name, 12, PureDP(Fraction(12))) for name in (*RANK_MECHANISMS, *RESPONSES)),
        *((name, 4, ApproxDP(Fraction(4), Fraction(1, 10**6))) for name in GAUSSIAN),
    ],
)
def test_every_mechanism_is_near_the_truth_and_claims_its_loss(
    mechanism, epsilon, loss, rng
):
    sites = federation(rng)
    delta = getattr(loss, "delta", 0)
    result = label_auc(
        sites, epsilon=epsilon, delta=delta, mechanism=mechanism, entropy=Seeded(b"m")
    )
    assert result.claim.loss == loss
    away = abs(result.auc.value - exact_auc(sites))
    assert away < 6 * result.auc.noise + 1e-9
    if not delta:
        assert result.auc.noise < 0.01
        assert result.auc.unusable is None


def test_the_claim_names_the_unit_and_what_is_seen(rng):
    result = label_auc(federation(rng), epsilon=2)
    claim = result.claim
    assert (str(claim.unit), claim.loss) == ("one label flipped", PureDP(Fraction(2)))
    assert claim.setting == "simulated"
    assert not claim.computational
    assert "every score" in claim.discloses[0]
    assert "each site's size" in claim.discloses[0]
    assert "charged again" in str(claim)
    assert "2-DP for one label flipped" in str(result)
    json.loads(result.to_json())
    with pytest.raises(NotReleasedError, match="mechanism='curves'"):
        result.roc_curve()


def test_secure_aggregation_opens_one_sum_with_less_noise(rng):
    sites = federation(rng, sizes=(40,) * 12)
    plain = label_auc(sites, epsilon=2, entropy=Seeded(b"p"))
    summed = label_auc(sites, epsilon=2, aggregation="secagg", entropy=Seeded(b"s"))
    assert summed.auc.noise < plain.auc.noise / 2
    assert abs(summed.auc.value - exact_auc(sites)) < 6 * summed.auc.noise
    assert summed.claim.computational
    assert "only the sum" in str(summed.claim)
    assert summed.source.contributors == 12


def test_colluders_are_answered_with_more_noise(rng):
    sites = federation(rng, sizes=(100,) * 4)
    quiet = label_auc(sites, epsilon=2, aggregation="secagg", entropy=Seeded(b"a"))
    wary = label_auc(
        sites, epsilon=2, aggregation="secagg", colluders=2, entropy=Seeded(b"a")
    )
    assert wary.auc.noise > 1.2 * quiet.auc.noise
    assert "at most 2 sites" in str(wary.claim)


def custodies(count, cap):
    most = Cap(epsilon=Fraction(cap))
    return [
        ResponseKeys(ResponseKey(bytes([k]) * 32), MemoryAccount(most))
        for k in range(count)
    ]


def with_ids(sites, change=lambda scores: scores):
    columns = [site.to_arrays() for site in sites]
    return [Examples(change(s), y, subjects=range(len(s))) for s, y in columns]


def test_a_second_model_on_the_same_examples_is_free_under_kept_flips(rng):
    sites = with_ids(federation(rng))
    better = with_ids(sites, np.sqrt)
    kept = custodies(3, cap=1)
    first = label_auc(sites, epsilon=1, mechanism="response", response_keys=kept)
    second = label_auc(
        better, epsilon=1, mechanism="response-labels", response_keys=kept
    )
    # The square root keeps every order: the same flips give the same AUC.
    assert second.auc.value == pytest.approx(first.auc.value, abs=1e-12)
    spent = [k.account.spent(f"site {i + 1}").epsilon for i, k in enumerate(kept)]
    assert spent == [1, 1, 1]


def test_a_changed_label_is_answered_and_charged_as_if_it_had_not_changed(rng):
    """No charge and no refusal announces it; the sums move by its own rank alone."""
    site = with_ids(federation(rng, sizes=(900,)))[0]
    scores, labels = site.to_arrays()
    labels = labels.astype(int)
    changed = np.append(1 - labels[:1], labels[1:])
    kept = custodies(1, cap=1)
    opened = [
        label_auc(
            [Examples(scores, y, subjects=range(900))],
            epsilon=1,
            mechanism="response",
            response_keys=kept,
        )
        .source.releases[0]
        .total
        for y in (labels, changed)
    ]
    assert kept[0].account.spent("site 1").epsilon == 1
    moved = np.abs(opened[1] - opened[0])
    assert moved[:-2].sum() == 0
    assert moved[-2:].tolist() == [midranks(scores)[0], 1]


@pytest.mark.parametrize("mechanism", ["response", "response-labels"])
def test_the_claim_of_kept_flips_rests_on_a_keyed_function(mechanism, rng):
    claim = label_auc(federation(rng), epsilon=1, mechanism=mechanism).claim
    assert claim.computational
    assert "that a label was changed since an earlier evaluation" in str(claim)


@pytest.mark.parametrize("mechanism", ["choice", "adaptive", "response"])
def test_a_second_model_is_charged_again_under_noise_and_without_ids(mechanism, rng):
    sites = federation(rng)
    kept = custodies(3, cap="1.5")
    label_auc(sites, epsilon=1, mechanism=mechanism, response_keys=kept)
    with pytest.raises(BudgetError, match="nothing was charged or sent"):
        label_auc(sites, epsilon=1, mechanism=mechanism, response_keys=kept)


def test_as_many_sites_as_examples(rng):
    scores = np.round(rng.random(300), 2)
    sites = [Examples([s], [s > 0.6]) for s in scores]
    result = label_auc(sites, epsilon=8, entropy=Seeded(b"1"))
    assert "300 by randomized response" in str(result)
    assert result.auc.value > 0.9
    paper = label_auc(sites, epsilon=8, mechanism="adaptive", entropy=Seeded(b"2"))
    assert paper.auc.value > 0.9


def test_empty_and_one_class_sites_take_part(rng):
    sites = [
        *federation(rng),
        Examples([], []),
        Examples(rng.random(50), np.zeros(50)),
        Examples(rng.random(50), np.ones(50)),
    ]
    result = label_auc(sites, epsilon=10, entropy=Seeded(b"e"))
    assert result.source.contributors == 6
    assert result.fit.facts == {"examples": 3100}
    assert abs(result.auc.value - exact_auc(sites)) < 6 * result.auc.noise


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_in_all_is_refused_or_marked(label, rng):
    site = Examples(rng.random(400), np.full(400, label))
    for seed in range(10):
        auc = label_auc([site], epsilon=1, entropy=Seeded(bytes([seed]))).auc
        assert auc.unusable is not None
        assert math.isnan(auc.value) or 0 <= auc.value <= 1


def test_no_examples_at_all_is_refused():
    auc = label_auc([Examples([], [])], epsilon=1).auc
    assert math.isnan(auc.value)
    assert "no positives" in auc.unusable


ONE, TWO = Examples([0.5], [1]), Examples([0.5, 0.1], [1, 0])


@pytest.mark.parametrize(
    ("sites", "keywords", "error"),
    [
        ([], {}, InputError),
        ([ONE], {"epsilon": 0}, PlanError),
        ([ONE], {"response_keys": custodies(2, 1)}, InputError),
        ([ONE], {"aggregation": "secagg"}, InputError),
        ([TWO], {"aggregation": "secagg"}, InputError),
        ([Examples([[0.5, 0.5]], ["a"], classes=["a", "b"])], {}, InputError),
        ([ONE, Examples([2.0], [1], kind="logit")], {}, InputError),
    ],
)
def test_what_cannot_be_measured_is_refused(sites, keywords, error):
    with pytest.raises(error):
        label_auc(sites, **{"epsilon": 1} | keywords)
