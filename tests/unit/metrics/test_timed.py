"""Measures of follow-up against their definitions and scikit-survival, slopes and weights."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sksurv.metrics import (
    brier_score,
    concordance_index_censored,
    concordance_index_ipcw,
    cumulative_dynamic_auc,
)
from sksurv.nonparametric import CensoringDistributionEstimator, kaplan_meier_estimator
from sksurv.util import Surv

from discreet.data.edges import Edges, Support, Uniform, Warped
from discreet.errors import InputError
from discreet.metrics.concordance import Pairs
from discreet.metrics.timed import FollowUp, Margins, Survival, on_simplex
from discreet.metrics.timed_table import (
    EVENT_FREE,
    TIMED,
    GroupSurvival,
    calibration_groups,
    groups_of,
    mean_predicted,
    median_follow_up,
    net_benefit,
    observed_expected,
    survival_curve,
)
from discreet.noise.laplace import LaplaceNoise
from timed_oracle import aalen_johansen, even_edges, tabulate

HORIZON = 1.0


def rows(n: int = 2000, seed: int = 0, censoring: float = 1.5):
    """Proportional hazards with calibrated risks by 1."""
    rng = np.random.default_rng(seed)
    rate = 0.3 * np.exp(0.9 * rng.normal(size=n))
    time = rng.exponential(size=n) / rate
    when = rng.exponential(censoring, size=n)
    event = (time <= when).astype(float)
    return 1 - np.exp(-rate), np.minimum(time, when), event


def follow_up(
    n: int = 2000, bins: int = 64, intervals: int = 16, **options
) -> FollowUp:
    score, time, event = rows(n, **options)
    cuts = np.linspace(0, 2, intervals + 1)
    edges = Edges.realise(Warped(bins, 1.25), thresholds=[0.2, 0.4])
    return FollowUp.of(tabulate(score, time, event, edges=edges, cuts=cuts))


@pytest.fixture(scope="module")
def table() -> FollowUp:
    return follow_up(bins=128, intervals=128)


@pytest.fixture(scope="module")
def outcome():
    score, time, event = rows()
    return score, time, Surv.from_arrays(event.astype(bool), time)


# -- beside scikit-survival ------------------------------------------------------------


def test_auc_and_brier_are_those_of_scikit_survival(table, outcome):
    score, _, y = outcome
    auc = cumulative_dynamic_auc(y, y, score, [HORIZON])[0][0]
    brier = brier_score(y, y, (1 - score)[:, None], [HORIZON])[1][0]
    assert TIMED["auc"].measure(table, HORIZON).value == pytest.approx(auc, abs=1e-3)
    found = TIMED["brier"].measure(table, HORIZON).value
    assert found == pytest.approx(brier, abs=2e-4)


def test_concordances_are_those_of_scikit_survival(table, outcome):
    score, time, y = outcome
    within = np.where(time > HORIZON, HORIZON + 1e-6, time)
    event = (time <= HORIZON) & y["event"]
    harrell = concordance_index_censored(event, within, score)[0]
    uno = concordance_index_ipcw(y, y, score, tau=HORIZON)[0]
    found = TIMED["concordance"].measure(table, HORIZON)
    assert found.value == pytest.approx(harrell, abs=2e-3)
    assert found.binning.low <= harrell <= found.binning.high
    assert TIMED["uno"].measure(table, HORIZON).value == pytest.approx(uno, abs=2e-3)


def test_risk_and_censoring_are_kaplan_meiers(table, outcome):
    _, time, y = outcome
    times, alive = kaplan_meier_estimator(y["event"], y["time"])
    expected = 1 - alive[np.searchsorted(times, HORIZON, side="right") - 1]
    found = TIMED["observed_risk"].measure(table, HORIZON)
    assert found.value == pytest.approx(expected, abs=3e-4)
    free = CensoringDistributionEstimator().fit(y).predict_proba(np.array([HORIZON]))[0]
    k = table.horizon(HORIZON)
    assert table.survival.uncensored[0, k] == pytest.approx(free, abs=1e-3)
    del time


def test_sampling_error_of_the_risk_is_greenwoods(table, outcome):
    _, _, y = outcome
    times, alive, interval = kaplan_meier_estimator(
        y["event"], y["time"], conf_type="log-log", conf_level=0.95
    )
    at = np.searchsorted(times, HORIZON, side="right") - 1
    width = (interval[1][at] - interval[0][at]) / 2 / 1.96
    found = TIMED["observed_risk"].measure(table, HORIZON)
    assert found.sampling == pytest.approx(width, rel=0.02)
    assert found.interval() == pytest.approx(
        (1 - interval[1][at], 1 - interval[0][at]), abs=2e-3
    )
    del alive


def test_net_benefit_is_kaplan_meier_above_the_threshold(table, outcome):
    score, _, y = outcome
    above = score >= 0.4
    times, alive = kaplan_meier_estimator(y["event"][above], y["time"][above])
    risk = 1 - alive[np.searchsorted(times, HORIZON, side="right") - 1]
    expected = above.mean() * (risk - (1 - risk) * 0.4 / 0.6)
    found = net_benefit(table, HORIZON, 0.4)
    assert found.value == pytest.approx(expected, abs=3e-4)


def test_calibration_slope_is_a_weighted_logistic_regression(outcome):
    from sklearn.linear_model import LogisticRegression

    score, time, y = outcome
    fine = follow_up(bins=512, intervals=64)
    free = CensoringDistributionEstimator().fit(y)
    at = np.minimum(time, HORIZON)
    weights = 1 / free.predict_proba(at)
    known = y["event"] | (time > HORIZON)
    x = np.log(score / (1 - score))[known, None]
    case = (time <= HORIZON)[known]
    model = LogisticRegression(C=np.inf).fit(x, case, sample_weight=weights[known])
    found = TIMED["calibration_slope"].measure(fine, HORIZON).value
    assert found == pytest.approx(float(model.coef_[0, 0]), abs=0.01)


def test_scaled_brier_is_against_the_kaplan_meier_null_model(table):
    brier = TIMED["brier"].measure(table, HORIZON).value
    risk = TIMED["observed_risk"].measure(table, HORIZON).value
    found = TIMED["scaled_brier"].measure(table, HORIZON).value
    assert found == pytest.approx(1 - brier / (risk * (1 - risk)), abs=1e-9)


# -- identities -------------------------------------------------------------------------


def test_weights_of_cases_and_controls_add_up_to_all_examples(table):
    at = table.at(HORIZON)
    assert at.cases.sum() + at.controls.sum() == pytest.approx(table.total, rel=1e-12)
    risk = TIMED["observed_risk"].measure(table, HORIZON).value
    assert at.cases.sum() / table.total == pytest.approx(risk, rel=1e-12)


def test_survival_times_censoring_is_the_share_still_followed(table):
    s = table.survival
    product = s.survival * s.uncensored * table.total
    assert product == pytest.approx(s.at_risk, rel=1e-12)


def test_one_interval_is_the_mean_over_all_orders_of_departures():
    """The logarithm of Kaplan-Meier, averaged over every order of 3 events, 2 censorings."""
    at_risk, events, censorings = 9, 3, 2
    logs = []
    for places in itertools.combinations(range(events + censorings), events):
        value = sum(math.log(1 - 1 / (at_risk - place)) for place in places)
        logs.append(value)
    margins = Margins(np.array([[[3.0]]]), np.array([[2.0]]), np.array([4.0]))
    found = Survival.of(margins)
    assert math.log(found.survival[0, 1]) == pytest.approx(np.mean(logs), rel=1e-12)


def test_densities_that_rise_differently_move_the_survival():
    """Against counting in 400 intervals, where the order is known."""
    rng = np.random.default_rng(1)
    n = 400_000
    time = rng.weibull(2.0, n)
    when = rng.exponential(0.7, n)
    event = (time <= when).astype(float)
    seen, score = np.minimum(time, when), np.full(n, 0.5)
    edges = Edges.realise(Uniform(2))
    found = {}
    for intervals in (4, 400):
        cuts = np.linspace(0, 0.9, intervals + 1)
        table = FollowUp.of(tabulate(score, seen, event, edges=edges, cuts=cuts))
        found[intervals] = TIMED["observed_risk"].measure(table, 0.9)
        in_random_order = Survival.of(table.margins()).risks(0)[-1]
        if intervals == 4:
            without = in_random_order
    truth = found[400].value
    assert found[4].value == pytest.approx(truth, abs=1.5e-3)
    assert abs(without - truth) > 3 * abs(found[4].value - truth)
    assert found[4].binning.low < truth < found[4].binning.high
    assert found[4].binning.typical == pytest.approx(abs(found[4].value - truth), rel=2)


def test_times_in_whole_units_give_the_risk_of_the_times_before_rounding():
    """Libraries put an event before a censoring of the same time: a lower risk."""
    score, time, event = rows(20_000)
    rounded = np.ceil(time * 12) / 12
    exact = kaplan_meier_estimator(event.astype(bool), time)
    tied = kaplan_meier_estimator(event.astype(bool), rounded)
    before, after = (
        1 - alive[np.flatnonzero(at <= HORIZON + 1e-9)[-1]]
        for at, alive in (exact, tied)
    )
    edges = Edges.realise(Uniform(4))
    cuts = np.arange(25) / 12
    counts = tabulate(score, rounded, event, edges=edges, cuts=cuts)
    risk = TIMED["observed_risk"].measure(FollowUp.of(counts), HORIZON).value
    assert abs(risk - before) < 2e-4
    assert after < before - 4e-3


def test_without_censoring_measures_are_those_of_two_classes():
    from sklearn.metrics import brier_score_loss, roc_auc_score

    score, time, event = rows(censoring=1e12)
    values = np.unique(np.round(score, 2))
    rounded = values[np.abs(score[:, None] - values).argmin(1)]
    edges = Edges.realise(Support(tuple(values.tolist())))
    cuts = np.array([0.0, HORIZON, 2.0])
    table = FollowUp.of(tabulate(rounded, time, event, edges=edges, cuts=cuts))
    case = time <= HORIZON
    auc = TIMED["auc"].measure(table, HORIZON).value
    assert auc == pytest.approx(roc_auc_score(case, rounded), abs=1e-12)
    brier = TIMED["brier"].measure(table, HORIZON).value
    assert brier == pytest.approx(brier_score_loss(case, rounded), abs=1e-12)
    ratio = observed_expected(table, HORIZON).value
    assert ratio == pytest.approx(case.mean() / rounded.mean(), abs=1e-12)


def test_pairs_are_those_of_a_count_over_all_pairs():
    rng = np.random.default_rng(3)
    n, intervals = 60, 4
    score, k = rng.integers(0, 5, n), rng.integers(0, intervals + 1, n)
    event = np.where(k < intervals, rng.integers(0, 2, n), 0)
    won = pairs = 0.0
    for i, j in itertools.permutations(range(n), 2):
        if not event[i]:
            continue
        better = (score[i] > score[j]) + 0.5 * (score[i] == score[j])
        if k[j] > k[i]:
            won, pairs = won + better, pairs + 1
        elif k[j] == k[i] and not event[j]:
            won, pairs = won + better / 2, pairs + 0.5
        elif k[j] == k[i] and i < j:
            won, pairs = won + 0.5, pairs + 1
    edges = Edges.realise(Support(tuple(float(v) for v in range(5))), _other(0, 5))
    cuts = np.arange(intervals + 1.0)
    table = FollowUp.of(
        tabulate(score.astype(float), k + 0.5, event, edges=edges, cuts=cuts)
    )
    found = Pairs.of(table, intervals, weighted=False)
    assert found.value == pytest.approx(won / pairs, rel=1e-12)


def _other(low: float, high: float):
    from discreet.data.scores import ScoreRange

    return ScoreRange("other", low, high)


# -- slopes -----------------------------------------------------------------------------


def _moved(
    table: FollowUp, block: str, place: tuple[int, ...], step: float
) -> FollowUp:
    counts = getattr(table, block).copy()
    counts[place] += step
    return replace(table, **{block: counts})


PLACES = [
    ("events", (0, 0, 9, 1)),
    ("events", (0, 0, 3, 0)),
    ("events", (0, 0, 9, 6)),
    ("censored", (0, 9, 2)),
    ("censored", (0, 4, 7)),
    ("beyond", (0, 11)),
]


def _risk(table):
    group = GroupSurvival.of(table)
    value, slopes = group.risk(table.horizon(HORIZON))
    return value, slopes


def _weighted_brier(table):
    at = table.at(HORIZON)
    middle = (table.edges.array[1:] + table.edges.array[:-1]) / 2
    total = at.cases.sum() + at.controls.sum()
    value = (at.cases @ (1 - middle) ** 2 + at.controls @ middle**2) / total
    from discreet.estimate.slopes import Slopes

    slopes = Slopes((middle**2 - value) / total, ((1 - middle) ** 2 - value) / total)
    return value, at.chain(slopes)


def _harrell(table):
    pairs = Pairs.of(table, 6, weighted=False)
    return pairs.value, pairs.slopes


def _uno(table):
    pairs = Pairs.of(table, 6, weighted=True)
    return pairs.value, pairs.slopes


def _survival(table):
    group = GroupSurvival.of(table)
    h = table.horizon(HORIZON)
    slopes = group.cells(group.survival.survival_slopes(h))
    return float(group.survival.survival[0, h]), slopes


@pytest.mark.parametrize(
    ("function", "close"),
    [
        (_risk, 1e-5),
        (_survival, 1e-5),
        (_weighted_brier, 1e-5),
        (_harrell, 0.03),
        (_uno, 0.03),
    ],
)
@pytest.mark.parametrize(("block", "place"), PLACES)
def test_slopes_are_central_differences(function, close, block, place):
    """Ties of two events count E^2 in the slopes and E(E - 1) in the value."""
    table = follow_up(bins=16, intervals=8)
    slopes = function(table)[1]
    own = dict(zip(("events", "censored", "beyond"), slopes.parts, strict=True))
    step = 0.01
    up, down = (function(_moved(table, block, place, s))[0] for s in (step, -step))
    expected = (up - down) / (2 * step)
    assert own[block][place] == pytest.approx(expected, rel=close, abs=close * 1e-4)


def test_slopes_of_a_measure_that_ignores_doubling_add_up_to_nothing(table):
    for function in (_risk, _weighted_brier):
        slopes = function(table)[1]
        both = zip(table.counts, slopes.parts, strict=True)
        assert sum(float((c * g).sum()) for c, g in both) == pytest.approx(0, abs=1e-9)


def test_sampling_errors_are_those_of_a_bootstrap():
    rng = np.random.default_rng(8)
    score, time, event = rows(1500)
    edges = Edges.realise(Warped(32, 1.25), thresholds=[0.4])
    cuts = np.linspace(0, 1, 9)

    def measured(places):
        table = FollowUp.of(
            tabulate(score[places], time[places], event[places], edges=edges, cuts=cuts)
        )
        return [
            *(TIMED[n].measure(table, HORIZON) for n in ("auc", "brier", "uno")),
            net_benefit(table, HORIZON, 0.4),
        ]

    known = [e.sampling for e in measured(np.arange(1500))]
    draws = [
        [e.value for e in measured(rng.integers(0, 1500, 1500))] for _ in range(150)
    ]
    assert np.std(draws, axis=0) == pytest.approx(known, rel=0.2)


# -- competing risks and strata ---------------------------------------------------------


def competing(n: int = 3000, seed: int = 2):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    first = rng.exponential(size=n) / (0.3 * np.exp(0.8 * z))
    second = rng.exponential(size=n) / 0.25
    when = rng.exponential(2.0, size=n)
    time = np.minimum(np.minimum(first, second), when)
    event = np.select([time == first, time == second], [1.0, 2.0], 0.0)
    return 1 / (1 + np.exp(-z)), time, event


def test_the_risk_of_one_of_several_causes_is_aalen_johansens():
    score, time, event = competing()
    edges, cuts = Edges.realise(Uniform(20)), np.linspace(0, 1, 13)
    counts = tabulate(score, time, event, edges=edges, cuts=cuts, causes=2)
    table = FollowUp.of(counts)
    found = TIMED["observed_risk"].measure(table, 1.0)
    assert found.value == pytest.approx(aalen_johansen(time, event, 1.0), abs=5e-4)
    other = TIMED["observed_risk"].measure(FollowUp.of(counts, cause=1), 1.0).value
    both = 1 - float(table.survival.survival[0, -1])
    assert found.value + other == pytest.approx(both, rel=1e-12)


def test_the_auc_of_a_cause_has_two_kinds_of_controls():
    """Blanche et al. 2013: all others, or those free of every event; no censoring."""
    from sklearn.metrics import roc_auc_score

    score, time, event = competing()
    edges, cuts = Edges.realise(Uniform(256)), np.array([0.0, 0.5, 1.0])
    time = np.where(event == 0, 5.0, time)
    table = FollowUp.of(tabulate(score, time, event, edges=edges, cuts=cuts, causes=2))
    case = (time <= 1) & (event == 1)
    every = TIMED["auc"].measure(table, 1.0).value
    assert every == pytest.approx(roc_auc_score(case, score), abs=1e-3)
    free = case | (time > 1)
    found = EVENT_FREE(table, 1.0).value
    assert found == pytest.approx(roc_auc_score(case[free], score[free]), abs=1e-3)


def test_censoring_within_strata_mends_what_pooled_censoring_breaks():
    """Those of high risk are censored early: the pooled weights are wrong."""
    rng = np.random.default_rng(4)
    n = 60_000
    sick = rng.random(n) < 0.5
    rate = np.where(sick, 1.2, 0.15) * np.exp(0.4 * rng.normal(size=n))
    time = rng.exponential(size=n) / rate
    when = np.where(sick, rng.exponential(0.6, n), rng.exponential(20.0, n))
    event, seen = (time <= when).astype(float), np.minimum(time, when)
    score = 1 - np.exp(-rate)
    edges, cuts = Edges.realise(Warped(64, 1.25)), np.linspace(0, 1, 17)

    def counted(rows):
        return tabulate(score[rows], seen[rows], event[rows], edges=edges, cuts=cuts)

    truth = float((time <= 1).mean())
    pooled = TIMED["observed_risk"].measure(FollowUp.of(counted(sick | True)), 1.0)
    strata = FollowUp.of({"sick": counted(sick), "others": counted(~sick)})
    found = TIMED["observed_risk"].measure(strata, 1.0)
    assert abs(pooled.value - truth) > 0.03
    assert found.interval().low <= truth <= found.interval().high
    brier = TIMED["brier"].measure(strata, 1.0).value
    assert brier == pytest.approx(float((((time <= 1) - score) ** 2).mean()), abs=4e-3)


# -- noise ------------------------------------------------------------------------------


def noisy(seed: int, n: int = 5000) -> FollowUp:
    score, time, event = rows(n)
    rng = np.random.default_rng(seed)
    edges = Edges.realise(Warped(20, 1.25), thresholds=[0.4])
    noise = LaplaceNoise(1.0)
    cuts = np.linspace(0, 1, 5)
    return FollowUp.of(
        tabulate(score, time, event, edges=edges, cuts=cuts, noise=noise, rng=rng)
    )


def test_the_error_from_noise_is_that_of_drawing_it_again():
    names = ("auc", "brier", "observed_risk", "concordance")
    runs = [[TIMED[n].measure(noisy(seed), 1.0) for n in names] for seed in range(40)]
    values = np.array([[e.value for e in run] for run in runs])
    expected = np.array([[e.noise for e in run] for run in runs]).mean(axis=0)
    ratio = values.std(axis=0, ddof=1) / expected
    # 40 draws: a standard deviation is known to about 11%.
    assert ratio == pytest.approx(np.ones(4), abs=0.35)


def test_margins_under_noise_are_no_negative_counts_and_keep_their_total():
    table = noisy(1, n=200)
    margins = table.margins()
    parts = (margins.events, margins.censored, margins.beyond)
    assert all((part >= 0).all() for part in parts)
    assert margins.totals.sum() == pytest.approx(table.total)
    assert on_simplex(np.array([-3.0, 1.0])).tolist() == [0.0, 0.0]


def test_too_little_data_for_the_noise_is_undefined_with_the_reason():
    score, time, event = rows(300)
    edges, cuts = Edges.realise(Warped(20, 1.25)), np.linspace(0, 1, 5)
    table = FollowUp.of(
        tabulate(
            *(score, time, event),
            edges=edges,
            cuts=cuts,
            noise=LaplaceNoise(5.0),
            rng=np.random.default_rng(0),
        )
    )
    found = TIMED["auc"].measure(table, 1.0)
    assert math.isnan(found.value)
    assert "too little data" in (found.unusable or "")


# -- what is asked for ------------------------------------------------------------------


def test_a_horizon_is_a_cut_or_an_error_that_names_the_cuts(table):
    with pytest.raises(InputError, match="horizons are cuts"):
        table.horizon(0.9999)
    with pytest.raises(InputError, match="horizons are cuts"):
        table.horizon(0.0)


def test_scores_that_are_no_probabilities_have_the_ranking_measures_only():
    score, time, event = rows(500)
    shown = 10 * score
    edges = even_edges(shown, 16, kind="other")
    table = FollowUp.of(
        tabulate(shown, time, event, edges=edges, cuts=np.linspace(0, 1, 5))
    )
    assert TIMED["auc"].measure(table, 1.0).value > 0.6
    assert TIMED["concordance"].measure(table, 1.0).value > 0.6
    for name in ("brier", "scaled_brier", "observed_expected", "calibration_slope"):
        assert "not probabilities" in (TIMED[name].measure(table, 1.0).unusable or "")


def test_nobody_followed_past_the_horizon_is_undefined():
    score, time, event = rows(300)
    edges, cuts = Edges.realise(Uniform(8)), np.array([0.0, 1.0, time.max() + 1])
    table = FollowUp.of(tabulate(score, time, event, edges=edges, cuts=cuts))
    for name in ("auc", "uno", "brier", "observed_risk", "observed_expected"):
        found = TIMED[name].measure(table, float(cuts[-1]))
        assert math.isnan(found.value)
        assert "nobody was followed past" in (found.unusable or "")


def test_without_an_event_the_ratio_may_be_what_the_risk_may_be():
    score, time, event = rows(300)
    edges, cuts = Edges.realise(Uniform(8)), np.linspace(0, HORIZON, 4)
    table = FollowUp.of(tabulate(score, time, 0 * event, edges=edges, cuts=cuts))
    risk = TIMED["observed_risk"].measure(table, HORIZON)
    ratio = TIMED["observed_expected"].measure(table, HORIZON)
    assert ratio.value == 0
    low, high = ratio.interval()
    assert low == 0
    mean = mean_predicted(table).value
    assert high == pytest.approx(risk.interval().high / mean)


@pytest.mark.parametrize("noise", [None, LaplaceNoise(1.0)])
def test_median_follow_up_of_a_study_that_closes_at_a_cut_may_be_the_cut(noise):
    score, time, event = rows(1000)
    closed = np.minimum(time, 1.0)
    left = np.where(time > 1.0, 0.0, event)
    edges, cuts = Edges.realise(Uniform(8)), np.array([0.0, 0.5, 1.0])
    counts = tabulate(
        *(score, closed, left),
        edges=edges,
        cuts=cuts,
        noise=noise,
        rng=np.random.default_rng(3),
    )
    if noise is not None:  # some seem to be followed past it
        counts = replace(counts, beyond=counts.beyond + 1.0)
        assert counts.beyond.sum() > 1
    low, high = median_follow_up(FollowUp.of(counts)).interval()
    assert low <= 0.51
    assert high >= 1.0


def test_groups_hold_every_example_once(table):
    groups = groups_of(table, 5)
    assert sum(groups) == pytest.approx(np.ones(len(table.edges)))
    sizes = [float(table.by_bin @ shares) for shares in groups]
    assert max(sizes) < 1.3 * min(sizes)
    curve = calibration_groups(table, HORIZON)
    assert (np.diff(curve.predicted) > 0).all()
    assert curve.examples.sum() == pytest.approx(table.total)


def test_a_survival_curve_falls_from_one_inside_its_band(table):
    curve = survival_curve(table)
    assert curve.survival[0] == 1
    assert (np.diff(curve.survival) <= 0).all()
    assert (curve.low <= curve.survival).all()
    assert (curve.survival <= curve.high).all()
    assert curve.at_risk[0] == pytest.approx(table.total)


def test_median_follow_up_is_the_reverse_kaplan_meiers(outcome):
    _, time, y = outcome
    fine = follow_up(intervals=40)
    times, free = kaplan_meier_estimator(~y["event"], y["time"])
    expected = times[np.flatnonzero(free <= 0.5)[0]]
    found = median_follow_up(fine)
    assert found.value == pytest.approx(expected, abs=0.03)
    assert 0.01 < (found.sampling or 0) < 0.1
    del time


# -- beside lifelines' recorded figures -------------------------------------------------

VECTORS = Path(__file__).resolve().parents[3] / "vectors" / "time_to_event.json"


@pytest.mark.parametrize("name", ["rossi", "gbsg2", "lung"])
def test_figures_are_those_of_lifelines_on_its_own_data(name):
    data = json.loads(VECTORS.read_text())[name]
    score, time, event = (np.array(data[key]) for key in ("score", "time", "event"))
    horizon, threshold, theirs = data["horizon"], data["threshold"], data["lifelines"]
    edges = Edges.realise(Warped(256, 1.25), thresholds=[threshold])
    cuts = np.linspace(0, horizon, 101)
    table = FollowUp.of(tabulate(score, time, event, edges=edges, cuts=cuts))
    found = TIMED["concordance"].measure(table, horizon).value
    assert found == pytest.approx(theirs["concordance"], abs=3e-3)
    risk = TIMED["observed_risk"].measure(table, horizon)
    assert risk.value == pytest.approx(theirs["observed_risk"], abs=1e-3)
    # Score-type ends and log-log ends differ where few are left.
    assert risk.interval() == pytest.approx(tuple(theirs["risk_interval"]), abs=0.012)
    share, inside = float((score >= threshold).mean()), theirs["risk_above"]
    expected = share * (inside - (1 - inside) * threshold / (1 - threshold))
    benefit = net_benefit(table, horizon, threshold).value
    assert benefit == pytest.approx(expected, abs=2e-3)
