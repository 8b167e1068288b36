"""Groups side by side: gaps that hold all at once, and groups that are never dropped."""

import numpy as np
import pytest

import discreet
from discreet.errors import InputError
from discreet.report.fairness import CRITERIA, MEASURES

pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
GROUPS = ["north", "south", "west"]


def draw(rng, n=12_000, shift=(0.0, 0.0, 0.0)):
    z = 1.4 * rng.normal(size=n) - 0.5
    group = rng.integers(3, size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    score = 1 / (1 + np.exp(-(z + np.array(shift)[group])))
    return y, score, np.array(GROUPS)[group]


def evaluated(y, score, group, privacy=None):
    site = discreet.Examples(score, y, groups=group)
    return discreet.evaluate(
        [site],
        groups=GROUPS,
        privacy=privacy,
        examples=12_000,
        prevalence=0.4,
        thresholds=[0.4],
    )


@pytest.fixture(scope="module")
def data():
    return draw(np.random.default_rng(1), shift=(0.0, 0.0, 0.8))


@pytest.fixture(scope="module")
def fair(data):
    return evaluated(*data).fairness(0.4)


def test_every_groups_rates_are_those_of_its_rows(data, fair):
    y, score, group = data
    for name, rate in (
        ("recall", lambda k: np.mean(score[k & y] >= 0.4)),
        ("false_positive_rate", lambda k: np.mean(score[k & ~y] >= 0.4)),
        ("precision", lambda k: np.mean(y[k & (score >= 0.4)])),
        ("alert_rate", lambda k: np.mean(score[k] >= 0.4)),
        ("observed_expected", lambda k: y[k].sum() / score[k].sum()),
    ):
        for g in GROUPS:
            found = fair.by_group[name][g].value
            assert found == pytest.approx(rate(group == g), rel=2e-3), (name, g)
    assert {m for row in CRITERIA.values() for m in row} == set(MEASURES)


def test_a_group_that_is_scored_higher_is_seen_and_others_are_not(fair):
    gaps = {(g.first, g.second): g for g in fair.gaps("alert_rate")}
    assert len(gaps) == 3
    low, high = gaps["north", "west"].interval
    assert high < 0
    assert gaps["north", "west"].ratio_interval.high < 1
    low, high = gaps["north", "south"].interval
    assert low < 0 < high
    largest = fair.largest("alert_rate")
    assert largest.value == pytest.approx(max(abs(g.difference) for g in gaps.values()))
    assert largest.interval().low > 0.05
    assert any("demographic parity" in line for line in fair.sentences())


def test_groups_add_up_to_the_whole(data):
    y, score, group = data
    parts = evaluated(y, score, group)
    whole = discreet.evaluate(
        [discreet.Examples(score, y)], examples=12_000, prevalence=0.4, thresholds=[0.4]
    )
    for name in (
        "true_positives",
        "false_positives",
        "false_negatives",
        "true_negatives",
    ):
        total = sum(part.at(0.4)[name].value for part in parts.values())
        assert total == whole.at(0.4)[name].value
    mix = {g: float(np.sum(group == g)) for g in GROUPS}
    fair = parts.fairness(0.4)
    for name in ("alert_rate", "accuracy"):
        assert fair.standardised(name, mix).value == pytest.approx(
            whole.at(0.4)[name].value
        )
    brier = fair.standardised("brier", mix)
    assert brier.value == pytest.approx(whole.brier.value, abs=2e-4)
    assert brier.sampling == pytest.approx(whole.brier.sampling, rel=0.05)


@pytest.mark.parametrize(
    "privacy",
    [None, pytest.param(discreet.DistributedDP(1), marks=pytest.mark.slow)],
)
def test_all_gaps_hold_at_once_as_often_as_they_say(privacy):
    # No true gap: at 95% fewer than 50 of 60 at once has probability 3e-4.
    held = 0
    for seed in range(60):
        y, score, group = draw(np.random.default_rng(seed), n=6_000)
        fair = evaluated(y, score, group, privacy).fairness(0.4)
        held += all(g.interval.low <= 0 <= g.interval.high for g in fair.gaps("recall"))
    assert held >= 50


def test_a_small_group_is_marked_and_stays():
    rng = np.random.default_rng(3)
    y, score, group = draw(rng)
    few = np.flatnonzero(group == "west")[30:]
    kept = np.setdiff1d(np.arange(y.size), few)
    fair = evaluated(y[kept], score[kept], group[kept]).fairness(0.4)
    assert "west" in fair.small()
    assert "few" in fair.small()["west"]
    assert "west" in fair.by_group["recall"]
    assert any("west is unsure" in line for line in fair.sentences())
    assert {"north", "south"}.isdisjoint(fair.small())


def test_a_group_without_positives_has_no_gap_but_is_not_dropped():
    y, score, group = draw(np.random.default_rng(4))
    with pytest.warns(discreet.UndefinedMetricWarning):
        result = evaluated(y & (group != "west"), score, group)
    fair = result.fairness(0.4)
    assert np.isnan(fair.by_group["recall"]["west"].value)
    assert len(fair.gaps("recall")) == 3
    assert fair.largest("recall").value == pytest.approx(
        abs(fair.gaps("recall")[0].difference)
    )
    assert "west" in fair.small()


def test_gaps_need_groups_and_a_mix_names_them_all(fair):
    with pytest.raises(InputError, match="two or more groups"):
        type(fair)({"one": fair.groups["north"]}, 0.4)
    with pytest.raises(InputError, match="every group"):
        fair.standardised("auc", {"north": 1.0})
