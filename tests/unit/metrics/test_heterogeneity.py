"""Random effects from sums: metafor's documented figures, a textbook, simulations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InputError, ReleaseError
from discreet.metrics.heterogeneity import AnchoredSums, RandomEffects

# The BCG vaccine trials (Colditz et al. 1994), dat.bcg of R's metafor and metadat:
# tuberculosis and none among the vaccinated, then among the others.
# fmt: off
BCG = np.array([
    [4, 119, 11, 128], [6, 300, 29, 274], [3, 228, 11, 209],
    [62, 13536, 248, 12619], [33, 5036, 47, 5761], [180, 1361, 372, 1079],
    [8, 2537, 10, 619], [505, 87886, 499, 87892], [29, 7470, 45, 7232],
    [17, 1699, 65, 1600], [186, 50448, 141, 27197], [5, 2493, 3, 2338],
    [27, 16886, 29, 17825],
], dtype=float)
# fmt: on


def bcg():
    """Log risk ratios and their variances, as escalc(measure="RR") gives them."""
    a, b, c, d = BCG.T
    effects = np.log(a / (a + b)) - np.log(c / (c + d))
    return effects, 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)


def textbook(effects, variances, tau2=None):
    """DerSimonian-Laird and Hartung-Knapp, from every site's own value."""
    k, w = effects.size, 1 / variances
    fixed = (w * effects).sum() / w.sum()
    q = (w * (effects - fixed) ** 2).sum()
    found = max(0.0, (q - (k - 1)) / (w.sum() - (w**2).sum() / w.sum()))
    tau2 = found if tau2 is None else tau2
    ws = 1 / (variances + tau2)
    mean = (ws * effects).sum() / ws.sum()
    hk = (ws * (effects - mean) ** 2).sum() / ((k - 1) * ws.sum())
    reach = stats.t.ppf(0.975, k - 1) * math.sqrt(hk)
    ahead = stats.t.ppf(0.975, k - 2) * math.sqrt(found + hk)
    return {
        "q": q,
        "tau2": found,
        "i2": max(0.0, 1 - (k - 1) / q),
        "mean": mean,
        "se": 1 / math.sqrt(ws.sum()),
        "hk": math.sqrt(hk),
        "interval": (mean - reach, mean + reach),
        "prediction": (mean - ahead, mean + ahead),
    }


def test_the_bcg_trials_give_what_metafor_documents():
    """metafor-project.org, Borenstein et al. (2009): rma(yi, vi, method="DL").

    tau^2 0.3088, I^2 92.12%, Q(df = 12) 152.2330, estimate -0.7141, se 0.1787; with
    test="knha" se 0.1807, interval -1.1078 to -0.3204.
    """
    sums = AnchoredSums.of_sites(*bcg())
    assert sums.tau2 == pytest.approx(0.3088, abs=5e-5)
    assert sums.i2 == pytest.approx(0.9212, abs=5e-5)
    assert sums.q == pytest.approx(152.2330, abs=5e-5)
    at_tau2 = AnchoredSums.of_sites(*bcg(), anchor=sums.tau2)
    assert at_tau2.mean == pytest.approx(-0.7141, abs=5e-5)
    assert math.sqrt(at_tau2.variance(sums.tau2)) == pytest.approx(0.1787, abs=5e-5)
    hk = math.sqrt(at_tau2.hartung_knapp(sums.tau2))
    assert hk == pytest.approx(0.1807, abs=5e-5)
    reach = stats.t.ppf(0.975, 12) * hk
    assert at_tau2.mean - reach == pytest.approx(-1.1078, abs=5e-5)
    assert at_tau2.mean + reach == pytest.approx(-0.3204, abs=5e-5)


@pytest.mark.parametrize("draw", range(20))
def test_sums_say_what_a_textbook_says_of_every_sites_own_value(draw):
    rng = np.random.default_rng(draw)
    k = int(rng.integers(3, 40))
    variances = np.exp(rng.normal(-3, 1.5, k))
    effects = rng.normal(1.3, np.sqrt(variances + rng.uniform(0, 0.3) ** 2))
    known = textbook(effects, variances)
    sums = AnchoredSums.of_sites(effects, variances)
    for name in ("q", "tau2", "i2"):
        assert getattr(sums, name) == pytest.approx(known[name], abs=1e-6)
    there = AnchoredSums.of_sites(effects, variances, anchor=known["tau2"])
    assert there.mean == pytest.approx(known["mean"], abs=1e-6)
    assert there.variance(known["tau2"]) == pytest.approx(known["se"] ** 2, abs=1e-6)
    assert there.hartung_knapp(known["tau2"]) == pytest.approx(
        known["hk"] ** 2, abs=1e-6
    )


def test_with_equal_variances_every_anchor_is_the_textbook():
    rng = np.random.default_rng(5)
    effects, variances = rng.normal(0, 1, 12), np.full(12, 0.2)
    known = textbook(effects, variances)
    for anchor in (0.0, 0.03, 2.0):
        found = RandomEffects(AnchoredSums.of_sites(effects, variances, anchor))
        assert found.tau2 == pytest.approx(known["tau2"], abs=1e-9)
        assert found.interval() == pytest.approx(known["interval"], abs=1e-9)
        assert found.textbook_prediction() == pytest.approx(
            known["prediction"], abs=1e-9
        )


def test_the_mean_of_q_is_what_simulated_sites_have():
    """E Q of the docstring, by drawing; off by 5 standard errors once in 10^6."""
    rng = np.random.default_rng(3)
    variances = np.exp(rng.normal(-3, 1, 9))
    tau2, draws = 0.07, 20_000
    qs = [
        AnchoredSums.of_sites(
            rng.normal(0, np.sqrt(variances + tau2)), variances, 0.03
        ).q
        for _ in range(draws)
    ]
    expected = AnchoredSums.of_sites(np.zeros(9), variances, 0.03).expected_q(tau2)
    assert np.mean(qs) == pytest.approx(expected, abs=5 * np.std(qs) / math.sqrt(draws))
    wrong = AnchoredSums.of_sites(np.zeros(9), variances, 0.0).expected_q(tau2)
    assert abs(np.mean(qs) - wrong) > 5 * np.std(qs) / math.sqrt(draws)


def test_a_new_sites_interval_is_wider_than_the_means_and_not_narrow_by_chance():
    rng = np.random.default_rng(8)
    covered = {"mean": 0, "new": 0, "textbook": 0}
    draws, tau = 500, 0.12
    for _ in range(draws):
        variances = np.exp(rng.uniform(math.log(5e-4), math.log(0.4), 12))
        effects = rng.normal(1.0, np.sqrt(variances + tau**2))
        new = rng.normal(1.0, tau)
        found = RandomEffects(AnchoredSums.of_sites(effects, variances, 0.03))
        low, high = found.prediction()
        inner = found.interval()
        assert low <= inner.low + 1e-12
        assert inner.high <= high + 1e-12
        usual = found.textbook_prediction()
        covered["mean"] += inner.low <= 1.0 <= inner.high
        covered["new"] += low <= new <= high
        covered["textbook"] += usual.low <= new <= usual.high
    assert 0.92 <= covered["new"] / draws <= 0.98
    assert 0.92 <= covered["mean"] / draws <= 0.98
    assert covered["textbook"] < covered["new"]


def test_noise_widens_both_intervals():
    sums = AnchoredSums.of_sites(*bcg(), anchor=0.3)
    exact = RandomEffects(sums)
    noisy = RandomEffects(sums, noise=np.diag([0.0, 0.0, 0.0, 1.0, 4.0]))
    for ask in (RandomEffects.interval, RandomEffects.prediction):
        assert ask(noisy).low < ask(exact).low
        assert ask(noisy).high > ask(exact).high


def test_a_new_sites_interval_holds_although_noise_may_hide_the_variance():
    """Noise as large as the variance between sites: every fourth Q is below its mean."""
    rng = np.random.default_rng(3)
    sites, tau2, noise, held = 400, 0.09, 0.09, []
    for _ in range(300):
        variances = np.full(sites, 0.02)
        effects = rng.normal(1.0, np.sqrt(variances + tau2))
        sums = AnchoredSums.of_sites(effects, variances, 0.1)
        spread = noise * sums.leverage
        noisy = replace(
            sums, effect_squared=sums.effect_squared + rng.normal(0.0, spread)
        )
        found = RandomEffects(noisy, noise=np.diag([0.0, 0.0, 0.0, 0.0, spread**2]))
        ahead = found.prediction()
        held.append(np.diff(stats.norm.cdf(ahead, 1.0, math.sqrt(tau2)))[0])
    assert 0.94 < np.mean(held) < 0.99


def test_two_sites_say_nothing_and_a_level_lies_between_0_and_1():
    sums = AnchoredSums.of_sites(np.array([0.0, 1.0]), np.array([0.1, 0.1]))
    with pytest.raises(ReleaseError, match="fewer than three"):
        RandomEffects(sums).prediction()
    with pytest.raises(InputError, match="level"):
        RandomEffects(AnchoredSums.of_sites(*bcg())).prediction(1.0)
