"""The public functions: values, claims, refusals, intervals."""

import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_score,
    roc_auc_score,
)

from discreet import curator
from discreet.curator.private_estimate import (
    ReleasedScalar,
    ap_sampling,
    auc_sampling,
)
from discreet.curator.release import CURATOR_MECHANISMS, TwoIntegers
from discreet.entropy import Seeded
from discreet.errors import (
    BudgetError,
    InputError,
    PlanError,
    UndefinedMetricWarning,
)
from discreet.models.central import CentralDP
from discreet.privacy.claim import Trust
from discreet.privacy.loss import PureDP, loss_of
from discreet.privacy.unit import Unit

ROWS = 4000
MECHANISMS = [
    {},
    {"prevalence": 0.3},
    {"mechanism": "heavy-tailed"},
    {"mechanism": "heavy-tailed", "gamma": "1.5", "prevalence": 0.3},
    {"mechanism": "laplace", "delta": "0.01"},
]
LARGE = MECHANISMS[:-1]
"""Smooth Laplace noise does not keep its delta at a large epsilon, and refuses."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    labels = (rng.random(ROWS) < 0.3).astype(int)
    return labels, rng.normal(1.4 * labels, 1.0)


both_values = pytest.mark.parametrize(
    "release", [curator.auc, curator.average_precision]
)


@pytest.mark.parametrize(
    ("release", "oracle", "options"),
    [
        *((curator.auc, roc_auc_score, options) for options in LARGE),
        (curator.auc, roc_auc_score, {"mechanism": "pair-count"}),
        *((curator.average_precision, average_precision_score, o) for o in LARGE),
    ],
)
def test_a_large_epsilon_gives_scikit_learns_value(data, release, oracle, options):
    found = release(*data, epsilon=5000, entropy=Seeded(b"a"), **options)
    assert found.value == pytest.approx(oracle(*data), abs=1e-4)


@both_values
@pytest.mark.parametrize("options", MECHANISMS)
def test_the_claim_names_unit_loss_and_trust(data, release, options):
    found = release(*data, epsilon="0.7", entropy=Seeded(b"b"), **options)
    claim = found.claim
    assert (claim.unit, claim.trust) == (Unit("row", "replace"), Trust.CURATOR)
    assert (claim.loss, claim.setting) == (
        loss_of("0.7", options.get("delta", 0)),
        "seeded",
    )
    assert "4,000" in str(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["claim"]


def test_system_entropy_makes_a_deployed_claim(data):
    assert curator.auc(*data, epsilon=1).claim.setting == "deployed"


def test_values_stay_between_0_and_1(data):
    labels, _ = data
    noisy = {"epsilon": "0.02", "mechanism": "heavy-tailed"}
    for seed in range(20):
        found = curator.auc(labels, labels, **noisy, entropy=Seeded(bytes([seed])))
        assert 0 <= found.value <= 1


def test_released_values_lie_on_the_public_grid(data):
    found = curator.auc(*data, epsilon=1, prevalence=0.3, entropy=Seeded(b"c"))
    assert (Fraction(found.value).limit_denominator(10**7) * 10**7).denominator == 1
    assert "10,000,000 steps" in str(found.claim)


@both_values
def test_too_little_data_for_an_epsilon_is_refused_with_the_reason(release):
    labels, scores = [0, 1] * 10, list(range(20))
    with pytest.warns(UndefinedMetricWarning, match="withheld"):
        found = release(labels, scores, epsilon="0.1", entropy=Seeded(b"d"))
    assert math.isnan(found.value)
    assert math.isnan(found.interval().low)
    assert found.unusable is not None
    assert "below 10" in found.unusable
    assert "Unusable" in str(found)
    # It reads the released count of positives, not the ten that there are.
    fewer = max(min(found.positives, 20 - found.positives), 0)
    assert fewer != 10
    assert f"is about {0.1 * fewer:.2g}," in found.unusable


no_count_released = pytest.mark.parametrize(
    "options", [{"prevalence": 0.5}, {"mechanism": "heavy-tailed"}]
)


@no_count_released
def test_the_refusal_reads_public_numbers_when_no_count_is_released(options):
    labels, scores = [0, 1] * 10, list(range(20))
    with pytest.warns(UndefinedMetricWarning, match="smaller class"):
        found = curator.auc(
            labels, scores, epsilon="0.4", entropy=Seeded(b"e"), **options
        )
    assert math.isnan(found.value)


@pytest.mark.parametrize("label", [0, 1])
@no_count_released
def test_no_refusal_tells_that_a_class_is_empty(label, options):
    """By what is public there are enough of both: whatever the data, it is answered."""
    found = curator.auc(
        [label] * 300, range(300), epsilon=1, entropy=Seeded(b"f"), **options
    )
    assert found.unusable is None


@pytest.mark.parametrize("label", [0, 1])
@both_values
@pytest.mark.parametrize("options", MECHANISMS)
def test_one_class_alone_is_released_like_any_other_data(label, release, options):
    """An error or another answer would say that the class counts are 0 and all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        release([label] * 300, range(300), epsilon=1, entropy=Seeded(b"f"), **options)


def test_the_scale_of_private_noise_is_not_published(data):
    heavy = {"epsilon": 1, "mechanism": "heavy-tailed", "entropy": Seeded(b"g")}
    found = curator.auc(*data, **heavy)
    assert found.interval() == (0.0, 1.0)
    assert found.sampling is None
    assert found.to_dict()["noise_sd"] is None
    declared = curator.auc(*data, **heavy, prevalence=0.3)
    low, high = declared.interval()
    assert 0 < low < declared.value < high < 1


def test_error_bars_depend_on_the_release_alone():
    """Data with the same release have the same interval, whatever they hold."""
    base = np.arange(1000) % 2
    found = []
    for shift in (100, 400):
        scores = np.arange(1000) + shift * base
        result = curator.auc(
            base, scores, epsilon=1, prevalence=0.5, entropy=Seeded(b"h")
        )
        low, high = result.interval()
        found.append((result.noise, result.shape.errors.tolist(), high - low > 0))
    assert found[0] == found[1]


def test_the_interval_joins_noise_and_sampling(data):
    found = curator.auc(*data, epsilon=1, entropy=Seeded(b"i"))
    assert found.sampling is not None
    assert found.noise > 0
    wide, narrow = found.interval(0.99), found.interval(0.5)
    assert wide.low < narrow.low < found.value < narrow.high < wide.high
    spread = math.hypot(found.sampling, found.noise)
    low, high = found.interval()
    assert (high - low) / (2 * 1.96 * spread) == pytest.approx(1.0, abs=0.1)
    with pytest.raises(InputError, match="level"):
        found.interval(1.0)


def test_sampling_distributions_follow_their_formulas():
    assert ap_sampling(100, 0)(0.5) == pytest.approx(0.05**2)
    # Hanley and McNeil: at 1/2 the variance is (n + m + 1)/(12 nm) up to one part.
    assert auc_sampling(50, 50)(0.5) == pytest.approx(101 / (12 * 2500), rel=0.04)
    assert auc_sampling(50, 50)(1.0) == 0.0
    assert auc_sampling(-3, 0)(0.5) == auc_sampling(1, 1)(0.5)


def test_an_interval_of_noise_alone_has_the_noises_quantiles():
    errors = np.linspace(-0.1, 0.1, 1001)
    found = ReleasedScalar(0.6, errors, None).ends(0.6, 0.0, 0.0, 1.6448536)
    assert found == pytest.approx((0.51, 0.69), abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "positive"),
        ({"epsilon": 1, "delta": "0.1"}, "pure"),
        ({"epsilon": 1, "mechanism": "laplace"}, "needs a delta"),
        ({"epsilon": 1, "mechanism": "power-law"}, "declare"),
        ({"epsilon": 1, "prevalence": 1.0}, "prevalence"),
        ({"epsilon": 1, "mechanism": "heavy-tailed", "gamma": 1}, "gamma"),
        ({"epsilon": "0.0001", "mechanism": "heavy-tailed"}, "drown"),
        ({"epsilon": "0.0000001"}, "too small"),
        (
            {"epsilon": "0.0001", "prevalence": 0.5, "mechanism": "power-law"},
            "too small",
        ),
        ({"epsilon": 1, "mechanism": "magic"}, "mechanism"),
    ],
)
def test_impossible_requests_are_refused_before_anything_is_charged(options, message):
    with curator.Budget(epsilon=100) as budget:
        with pytest.raises((PlanError, InputError), match=message):
            curator.auc([0, 1] * 50, range(100), budget=budget, **options)
        assert budget.remaining == 100


def test_power_law_noise_is_the_default_where_a_declared_prevalence_makes_it_better():
    labels, scores = [0, 1] * 100, range(200)
    found = [
        curator.auc(
            labels, scores, epsilon=e, prevalence=0.5, entropy=Seeded(b"j")
        ).mechanism
        for e in ("0.29", "0.3")
    ]
    assert ["power-law" in name for name in found] == [False, True]


def test_pairs_are_refused_for_average_precision():
    with pytest.raises(PlanError, match="pairs"):
        curator.average_precision([0, 1], [0, 1], epsilon=1, mechanism="pair-count")


def test_pair_counts_say_what_they_lose(data):
    found = curator.auc(*data, epsilon=1, mechanism="pair-count", entropy=Seeded(b"k"))
    assert any("1.44 times" in note for note in found.notes)


@pytest.fixture(scope="module")
def curves():
    rng = np.random.default_rng(8)
    labels = (rng.random(6000) < 0.4).astype(int)
    logit = rng.normal(2.0 * labels - 1.0, 1.0)
    return labels, 1.0 / (1.0 + np.exp(-logit))


def test_the_histograms_roc_curve_follows_the_data(curves):
    found = curator.roc_curve(*curves, epsilon=1, entropy=Seeded(b"a"))
    assert found.thresholds is not None
    assert found.thresholds[0] == np.inf
    assert found.auc.value == pytest.approx(roc_auc_score(*curves), abs=0.03)
    assert (np.diff(found.fpr) >= 0).all()


def test_an_unknown_method_is_refused(curves):
    with pytest.raises(InputError, match="binormal"):
        curator.roc_curve(*curves, epsilon=1, method="spline")


def test_the_evaluation_has_noise_for_two_counts_and_claims_epsilon_for_a_row(curves):
    with curator.Budget(epsilon=1) as budget:
        result = curator.evaluate(
            *curves, epsilon=1, budget=budget, entropy=Seeded(b"b")
        )
        assert budget.remaining == 0
    privacy, claim = result.plan.privacy, result.claim
    assert privacy == CentralDP(epsilon=1)
    assert privacy.loss == claim.loss == PureDP(Fraction(1))
    assert privacy.protects == claim.unit == Unit("row", "replace")
    alone = curator.evaluate(*curves, epsilon=1, entropy=Seeded(b"b")).claim
    assert any("nobody keeps count" in words for words in alone.not_protected)
    noise = result.observed.noise.covariance(np.ones(2 * len(result.observed.edges)))
    # Discrete Laplace noise of scale 2/epsilon has a variance near 2 * 2^2.
    assert noise.negatives[0] == pytest.approx(8.0, rel=0.05)
    assert result.auc.value == pytest.approx(roc_auc_score(*curves), abs=0.03)
    assert result.at(0.5).recall.value > 0.7


def test_an_evaluation_that_the_budget_cannot_pay_publishes_nothing(curves):
    def never(size):
        raise AssertionError(size)

    with curator.Budget(epsilon="0.9") as budget:
        with pytest.raises(BudgetError, match="evaluation: 1-DP would exceed"):
            curator.evaluate(*curves, epsilon=1, budget=budget, entropy=never)
        assert budget.remaining == Fraction(9, 10)


def test_scores_of_any_declared_range_are_evaluated(curves):
    labels, scores = curves
    declared = {"kind": "other", "low": -300, "high": 700}
    result = curator.evaluate(
        labels, 1000 * scores - 300, epsilon=4, **declared, entropy=Seeded(b"c")
    )
    assert result.auc.value == pytest.approx(roc_auc_score(*curves), abs=0.05)


def test_confusion_counts_agree_with_scikit_learn_at_a_large_epsilon(curves):
    labels, scores = curves
    found = curator.confusion(
        labels, scores, epsilon=1000, threshold=0.6, entropy=Seeded(b"d")
    )
    tn, fp, fn, tp = confusion_matrix(labels, scores >= 0.6).ravel()
    assert (found.true_negatives.value, found.false_positives.value) == (tn, fp)
    assert (found.false_negatives.value, found.true_positives.value) == (fn, tp)
    expected = precision_score(labels, scores >= 0.6)
    assert found.precision.value == pytest.approx(expected)
    assert found.threshold == 0.6
    assert found.claim.loss == PureDP(Fraction(1000))


def test_confusion_noise_has_a_scale_of_two_over_epsilon(curves):
    labels, scores = curves
    tp = int(np.sum(labels[scores >= 0.5]))
    drawn = [
        curator.confusion(
            labels, scores, epsilon="0.5", entropy=Seeded(bytes([k]))
        ).true_positives.value
        - tp
        for k in range(200)
    ]
    # Mean absolute noise about 4; its standard error over 200 draws is .29.
    assert 2.5 < np.mean(np.abs(drawn)) < 5.5
    with pytest.raises(InputError, match="NaN"):
        curator.confusion(labels, scores, epsilon=1, threshold=math.nan)


def test_a_mechanism_from_outside_is_found_by_its_name(data, monkeypatch):
    monkeypatch.setattr(
        CURATOR_MECHANISMS, "_entries", {"weighted-count": TwoIntegers()}
    )
    CURATOR_MECHANISMS.add("mine", TwoIntegers())
    found = curator.auc(*data, epsilon=1, mechanism="mine", entropy=Seeded(b"a"))
    usual = curator.auc(*data, epsilon=1, entropy=Seeded(b"a"))
    assert found.value == usual.value
    assert found.mechanism.startswith("mine, ")
