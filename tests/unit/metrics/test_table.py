"""A metric is one row: strangers add theirs, and every release gives an estimate."""

import math

import numpy as np
import pytest

import discreet
from discreet.errors import PlanError
from discreet.estimate.estimate import Binning
from discreet.estimate.slopes import Slopes
from discreet.metrics.measure import Analytic, Measure
from discreet.metrics.table import DEFAULT_METRICS, METRICS, RATES, MetricRow

pytestmark = pytest.mark.long


def _prevalence_slopes(cells):
    total = cells.negatives.sum() + cells.positives.sum()
    rate = cells.positives.sum() / total
    one = np.ones_like(cells.positives)
    return Slopes(-rate / total * one, (1 - rate) / total * one)


PREVALENCE = MetricRow(
    name="prevalence",
    title="prevalence",
    measure=Measure(
        value=lambda fit: (
            fit.counts.total_positives
            / (fit.counts.total_positives + fit.counts.total_negatives)
        ),
        slopes=_prevalence_slopes,
        limits=lambda _, value: Binning(value, value, 0.0),
        one_class=True,
    ),
    better="one",
    source="a stranger",
)
INFORMED = MetricRow(
    "informed",
    "Informed",
    Analytic(
        lambda tp, fn, fp, tn, _: tp / (tp + fn) + tn / (fp + tn) - 1, numeric=True
    ),
    "higher",
    source="Youden 1950",
)


@pytest.fixture
def strangers():
    METRICS.add("prevalence", PREVALENCE)
    RATES.add("informed", INFORMED)
    yield
    METRICS._entries.pop("prevalence")
    RATES._entries.pop("informed")


@pytest.mark.usefixtures("strangers")
@pytest.mark.parametrize("privacy", [None, discreet.DistributedDP(1)])
def test_a_strangers_row_is_asked_for_computed_and_shown_like_any_other(rng, privacy):
    y = rng.random(20_000) < 0.3
    site = discreet.Examples(rng.beta(2 + 2 * y, 4 - 2 * y), y)
    model = privacy or discreet.SecureAggregation()
    base = discreet.recommend(discreet.PublicFacts(20_000, 0.3), model)
    plan = discreet.Plan(
        model,
        base.rounds,
        thresholds=(0.5,),
        metrics=frozenset({"auc", "prevalence"}),
        facts=base.facts,
        cohort=base.cohort,
    )
    result = run(plan, [site])
    found = result.metrics["prevalence"]
    low, high = found.interval(0.9999)
    assert low < y.mean() < high
    expected = math.sqrt(0.3 * 0.7 / 20_000)
    assert found.sampling == pytest.approx(expected, rel=0.03)
    assert "prevalence" in result.to_text()
    assert "Informed" in result.to_text(wide=True)
    assert set(result.exports.to_dict()["metrics"]) == {"auc", "prevalence"}
    exact = site.to_arrays()[0] >= 0.5
    youden = exact[y].mean() - exact[~y].mean()
    assert abs(result.at(0.5).informed.value - youden) < 0.02


def run(plan, sites):
    from discreet.transport.simulation import run as carry_out

    return carry_out(plan, sites)


def test_a_name_is_taken_once_and_an_unknown_one_is_refused():
    with pytest.raises(PlanError, match="already a metric"):
        METRICS.add("auc", PREVALENCE)
    with pytest.raises(PlanError, match="known are auc"):
        METRICS["ginni"]
    assert DEFAULT_METRICS == ("auc", "average_precision", "aupr", "brier")
    for name in METRICS:
        assert METRICS[name].name == name


@pytest.mark.parametrize("table", [METRICS, RATES])
def test_every_row_says_what_it_is_and_what_it_hides(table):
    for row in map(table.__getitem__, table):
        assert all((row.formula, row.hides, row.source, row.better)), row.name
    assert not set(RATES) & set(METRICS)
