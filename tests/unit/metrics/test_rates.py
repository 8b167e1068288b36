"""Every measure at a threshold is its textbook definition on the rows."""

import math

import numpy as np
import pytest
from sklearn import metrics as sk

import discreet
from discreet.metrics.table import RATES
from measure_oracles import at_threshold

CUT = 0.3
pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    y = rng.random(4_000) < 0.3
    return y, rng.beta(2 + 2 * y, 4 - 2 * y)


@pytest.fixture(scope="module")
def found(data):
    y, score = data
    site = discreet.Examples(score, y)
    return discreet.evaluate([site], thresholds=[CUT], examples=20_000).at(CUT)


def test_every_rate_is_its_definition_on_the_rows(data, found):
    expected = at_threshold(*data, CUT)
    assert set(expected) == set(RATES)
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("name", list(RATES))
def test_sampling_errors_are_those_of_the_bootstrap(data, found, name):
    # 400 resamples know a standard deviation to 3.5%: 4 of those are 14%.
    y, _ = data
    rng = np.random.default_rng(1)
    counts = np.array([found[n].value for n in ("true_positives", "false_negatives",
                                                "false_positives", "true_negatives")])  # fmt: skip
    drawn = rng.multinomial(y.size, counts / y.size, 400).astype(float)
    values = [RATES[name].measure(c, CUT) for c in drawn]
    assert found[name].sampling == pytest.approx(np.std(values), rel=0.14)


def test_measures_agree_with_each_other(found):
    v = {n: found[n].value for n in RATES}
    assert v["youden"] == pytest.approx(2 * v["balanced_accuracy"] - 1)
    ratio = v["likelihood_ratio_positive"] / v["likelihood_ratio_negative"]
    assert v["diagnostic_odds_ratio"] == pytest.approx(ratio)
    assert v["number_needed_to_evaluate"] == pytest.approx(1 / v["precision"])
    prevalence = (found.true_positives.value + found.false_negatives.value) / 4_000
    odds = CUT / (1 - CUT)
    # Vickers: what is gained over treating all is what sparing negatives is worth.
    cost = prevalence * (1 - CUT) - (1 - CUT) * v["net_benefit"]
    assert v["expected_cost"] == pytest.approx(cost)
    assert v["standardised_net_benefit"] == pytest.approx(v["net_benefit"] / prevalence)
    assert v["net_benefit_all"] == pytest.approx(prevalence - (1 - prevalence) * odds)


def test_what_divides_by_nothing_is_undefined_and_has_a_reason(data):
    y, score = data
    result = discreet.evaluate([discreet.Examples(score, y)], examples=20_000)
    with pytest.warns(discreet.UndefinedMetricWarning, match="precision"):
        top = result.at(1.0)
    assert math.isnan(top.likelihood_ratio_positive.value)
    assert "nothing to divide by" in top.likelihood_ratio_positive.unusable


def test_scores_that_are_no_probabilities_have_no_net_benefit(data):
    y, score = data
    site = discreet.Examples(score * 10, y, kind="other", low=0, high=10)
    at = discreet.evaluate([site], thresholds=[3.0], examples=20_000).at(3.0)
    assert "not probabilities" in at.net_benefit.unusable
    assert at.mcc.value == pytest.approx(sk.matthews_corrcoef(y, score * 10 >= 3))


def test_a_logit_threshold_is_read_as_its_probability(data):
    y, score = data
    logits = np.log(score / (1 - score))
    cut = math.log(CUT / (1 - CUT))
    site = discreet.Examples(logits, y, kind="logit")
    at = discreet.evaluate([site], thresholds=[cut], examples=20_000).at(cut)
    assert at.net_benefit.value == pytest.approx(
        at_threshold(y, score, CUT)["net_benefit"]
    )


def test_every_row_says_what_it_is_and_what_it_hides():
    for name in RATES:
        row = RATES[name]
        assert row.formula
        assert row.hides
        assert row.source
