"""Two models: differences of every measure, reclassification, and what is said."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import discreet
from discreet.metrics.table import METRICS, RATES

pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")


def draw(rng, n=20_000):
    z = 1.5 * rng.normal(size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    good = 1 / (1 + np.exp(-(z + 0.5 * rng.normal(size=n))))
    poor = 1 / (1 + np.exp(-0.7 * (z + 1.5 * rng.normal(size=n))))
    return y, good, poor


@pytest.fixture(scope="module")
def data():
    return draw(np.random.default_rng(6))


def compared(data, form, **more):
    y, good, poor = data
    site = discreet.Examples(np.column_stack([good, poor]), y)
    return discreet.compare([site], form=form, examples=20_000, prevalence=0.5, **more)


@pytest.fixture(scope="module", params=["marginals", "joint"])
def comparison(request, data):
    return compared(data, request.param)


@pytest.mark.parametrize("form", ["marginals", "joint"])
@pytest.mark.parametrize("privacy", [None, discreet.DistributedDP(1)])
def test_a_clear_difference_is_found_and_has_the_right_size(data, form, privacy):
    y, good, poor = data
    found = compared(data, form, privacy=privacy)
    assert found.verdict().startswith("a is better than b")
    low, high = found.difference().interval(0.999)
    assert low < roc_auc_score(y, good) - roc_auc_score(y, poor) < high
    assert "Claim:" in str(found)


def test_pairs_of_bins_are_counted_unless_told_otherwise(rng):
    y, good, poor = draw(rng, 4_000)
    site = discreet.Examples(np.column_stack([good, poor]), y)
    for privacy, bins in ((None, 64), (discreet.DistributedDP(1), 9)):
        found = discreet.compare(
            [site], privacy=privacy, examples=4_000, prevalence=0.3
        )
        assert found.joint is not None
        assert len(found.a.observed.edges) == bins


def test_one_column_cannot_be_compared(rng):
    with pytest.raises(discreet.InputError, match="two score columns"):
        discreet.compare([discreet.Examples(rng.random(9), np.zeros(9))])


def test_every_measure_has_a_difference_with_its_errors(comparison):
    for name in METRICS:
        gap = comparison.difference(name)
        own = comparison.a.metrics[name].value - comparison.b.metrics[name].value
        assert gap.value == pytest.approx(own)
        # Both models are judged on the same labels: their uncertainty is one.
        assert gap.sampling > 0 or name == "uncertainty", name
    found = comparison.differences(0.4)
    for name in RATES:
        own = comparison.a.at(0.4)[name].value - comparison.b.at(0.4)[name].value
        assert found[name].value == pytest.approx(own)


def test_joint_counts_know_that_errors_go_together(data):
    # Both models rank the same people: a difference is known better than two values.
    apart, joint = (compared(data, form) for form in ("marginals", "joint"))
    for name in ("auc", "brier", "discrimination_slope", "log_loss"):
        assert joint.difference(name).sampling < apart.difference(name).sampling
    for name in ("net_benefit", "recall"):
        assert (
            joint.difference(name, at=0.4).sampling
            < apart.difference(name, at=0.4).sampling
        )
    assert "uncorrelated" in apart.dependence
    assert "joint counts" in joint.dependence


@pytest.mark.parametrize("name", ["net_benefit", "recall", "mcc"])
def test_the_sampling_error_of_a_difference_is_that_of_repeated_draws(data, name):
    # 60 draws know a standard deviation to 9%: 4 of those are 37%.
    found = compared(data, "joint").difference(name, at=0.4)
    row = RATES[name]
    values = []
    for seed in range(60):
        y, good, poor = draw(np.random.default_rng(100 + seed))
        both = []
        for score in (good, poor):
            called = score >= 0.4
            counts = [np.sum(called & y), np.sum(~called & y), np.sum(called & ~y), np.sum(~called & ~y)]  # fmt: skip
            both.append(row.measure(np.array(counts, dtype=float), 0.4))
        values.append(both[0] - both[1])
    assert found.sampling == pytest.approx(np.std(values), rel=0.37)


def test_the_difference_of_discrimination_slopes_is_the_idi(data, comparison):
    y, good, poor = data
    idi = (good[y].mean() - good[~y].mean()) - (poor[y].mean() - poor[~y].mean())
    assert comparison.difference("discrimination_slope").value == pytest.approx(
        idi, abs=2e-3
    )


def test_the_decision_curve_of_two_models_is_their_difference(data, comparison):
    y, good, poor = data
    curve = comparison.decision_curve([0.2, 0.5])
    for t, gap, low, high in zip(curve.x, curve.y, curve.low, curve.high, strict=True):
        net = [
            np.mean((s >= t) & y) - np.mean((s >= t) & ~y) * t / (1 - t)
            for s in (good, poor)
        ]
        assert gap == pytest.approx(net[0] - net[1], abs=4e-3)
        assert low < gap < high


def test_reclassification_is_read_from_joint_counts(data):
    y, good, poor = data
    found = compared(data, "joint")
    rises = found.nri()
    up, down = good > poor, good < poor
    assert rises.of_positives.value == pytest.approx(
        up[y].mean() - down[y].mean(), abs=0.03
    )
    assert rises.of_negatives.value == pytest.approx(
        down[~y].mean() - up[~y].mean(), abs=0.03
    )
    assert rises.total.value == pytest.approx(
        rises.of_positives.value + rises.of_negatives.value
    )
    cut = float(found.a.observed.edges.array[30])
    once = found.nri([cut])
    moved = (good >= cut).astype(int) - (poor >= cut).astype(int)
    assert once.of_positives.value == pytest.approx(moved[y].mean(), abs=1e-9)
    assert once.of_negatives.value == pytest.approx(-moved[~y].mean(), abs=1e-9)
    assert once.of_positives.sampling == pytest.approx(
        np.std(moved[y]) / np.sqrt(y.sum()), rel=1e-6
    )


def test_reclassification_under_noise_has_its_noise(data):
    found = compared(data, "joint", privacy=discreet.DistributedDP(1)).nri()
    assert found.total.noise > 0
    low, high = found.total.interval(0.9999)
    assert low < compared(data, "joint").nri().total.value < high


def test_separate_histograms_do_not_tell_who_moved(data):
    with pytest.raises(discreet.NotReleasedError, match="joint"):
        compared(data, "marginals").nri()


def test_measures_that_are_to_be_near_a_value_are_only_said_to_differ(comparison):
    assert comparison.verdict("calibration_slope").startswith("they differ")
    assert comparison.verdict("auc").startswith("a is better")
