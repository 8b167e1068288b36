"""Two models compared over sites, under every kind of noise that fits."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import discreet
from discreet import DistributedDP, InputError


def scored(rng, n, gap):
    y = rng.random(n) < 0.3
    shared = rng.normal(size=n)
    a, b = (
        1 / (1 + np.exp(-(1.5 * y + d * y - 1 + shared + 0.5 * rng.normal(size=n))))
        for d in (gap, 0.0)
    )
    return np.column_stack([a, b]), y


@pytest.mark.parametrize("form", ["marginals", "joint"])
@pytest.mark.parametrize("privacy", [None, DistributedDP(1)])
def test_a_clear_difference_is_found_and_has_the_right_size(rng, form, privacy):
    s, y = scored(rng, 30_000, 1.0)
    sites = [
        discreet.Examples(s[:9000], y[:9000]),
        discreet.Examples(s[9000:], y[9000:]),
    ]
    result = discreet.compare(
        sites, privacy=privacy, form=form, examples=30_000, prevalence=0.3
    )
    exact = roc_auc_score(y, s[:, 0]) - roc_auc_score(y, s[:, 1])
    assert result.verdict().startswith("a is better than b")
    low, high = result.difference().interval(0.999)
    assert low < exact < high
    assert "Claim:" in str(result)


def test_equal_models_cannot_be_told_apart(rng):
    s, y = scored(rng, 20_000, 0.0)
    result = discreet.compare([discreet.Examples(s, y)], form="joint")
    assert result.verdict().startswith("cannot tell them apart")
    noisy = discreet.compare(
        [discreet.Examples(s, y)],
        privacy=DistributedDP("0.05"),
        examples=20_000,
        prevalence=0.3,
    )
    # The noise is drawn from secret bytes: at 95% one run in twenty would fail.
    low, high = noisy.difference().interval(0.9999)
    assert low < 0 < high


def test_the_joint_histogram_knows_that_models_err_alike(rng):
    s, y = scored(rng, 20_000, 0.2)
    site = discreet.Examples(s, y)
    joint = discreet.compare([site], form="joint").difference()
    marginal = discreet.compare([site], form="marginals").difference()
    assert joint.sampling < 0.8 * marginal.sampling


def test_pairs_of_bins_are_counted_unless_told_otherwise(rng):
    s, y = scored(rng, 4_000, 0.2)
    site = discreet.Examples(s, y)
    for privacy, fewest in ((None, 64), (discreet.DistributedDP(1), 9)):
        found = discreet.compare(
            [site], privacy=privacy, examples=4_000, prevalence=0.3
        )
        assert found.joint is not None
        assert len(found.a.observed.edges) == fewest


def test_one_column_cannot_be_compared(rng):
    with pytest.raises(InputError, match="two score columns"):
        discreet.compare([discreet.Examples(rng.random(9), np.zeros(9))])


def test_bands_hold_the_curve_and_simultaneous_ones_are_wider(rng):
    s, y = scored(rng, 20_000, 0.5)
    site = [discreet.Examples(s[:, 0], y)]
    for privacy in (discreet.SecureAggregation(), DistributedDP(1)):
        result = discreet.evaluate(
            site, privacy=privacy, examples=20_000, prevalence=0.3
        )
        for kind in ("roc", "pr"):
            each = result.curves.band(kind)
            whole = result.curves.band(kind, simultaneous=True)
            assert (each.low <= each.value).all()
            assert (each.value <= each.high).all()
            assert (whole.high - whole.low).sum() > (each.high - each.low).sum()
