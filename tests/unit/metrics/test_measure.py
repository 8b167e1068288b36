"""Every measure is its textbook definition on the rows, and its slopes are its own."""

import numpy as np
import pytest

import discreet
import measures_page
from discreet.data.edges import Edges, Uniform
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.fit import Flat
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from histograms import counted, histogram
from measure_oracles import at_threshold, made_up, over_thresholds, shared_scores

pytestmark = [
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
    pytest.mark.long,
]
SMOOTH = [name for name in METRICS if METRICS[name].measure.smooth]
RANKINGS = [name for name in METRICS if not METRICS[name].needs_probabilities]


@pytest.mark.parametrize("data", ["ovarian-adnex", "made up"])
def test_every_measure_is_its_definition_on_the_rows(data):
    y, score = made_up(20_000) if data == "made up" else shared_scores(data)
    result = measures_page.release(y, score)
    expected = over_thresholds(y, score)
    assert set(expected) == set(METRICS)
    for name, value in expected.items():
        found = result.metrics[name]
        low, high = found.binning.low, found.binning.high
        rounding = 1e-12 * abs(value)  # two orders of adding up differ in the last bit
        assert low - rounding <= value <= high + rounding, name
        close = measures_page.LOOSE.get(name, 1e-3) * abs(value)
        # A value near 0 has no relative error: a fiftieth of its sampling error.
        # Pooling follows the order inside a bin, of which a release knows nothing.
        loose = name in (*measures_page.LOOSE, "discrimination")
        sure = 0.3 if loose else 0.02
        assert abs(found.value - value) <= max(close, sure * found.sampling), name
    at = result.at(measures_page.CUT)
    for name, value in at_threshold(y, score, measures_page.CUT).items():
        assert at[name].value == pytest.approx(value, rel=1e-9), name
    cost = result.thresholds.find(cost_ratio=9).at.expected_cost.value
    best = min(
        (0.9 * np.sum(y & (score < t)) + 0.1 * np.sum(~y & (score >= t))) / y.size
        for t in np.append(score, 2.0)
    )
    assert cost == pytest.approx(best, rel=0.01)


def test_the_page_is_what_the_code_gives():
    assert measures_page.PAGE.read_text() == measures_page.page()


def test_the_interval_of_a_low_average_precision_allows_for_a_positive_on_top(rng):
    """170 positives among 20,000: the delta method alone holds the truth 89 times of 100."""
    edges = Edges.realise(PriorSpread(1024, 0.01))
    found = []
    for _ in range(100):
        z = rng.normal(-5, 0.7, 20_000)
        score = 1 / (1 + np.exp(-z))
        y = rng.random(z.size) < score
        observed = counted(score, y, edges)
        found.append(measure(METRICS["average_precision"], Flat().fit(observed)))
    spread = np.std([ap.value for ap in found])
    claimed = np.mean([ap.sampling for ap in found])
    assert 1.0 < claimed / spread < 1.5
    truth = 0.0228  # the mean over 1,500 such test sets
    held = [ap.interval().low <= truth <= ap.interval().high for ap in found]
    assert np.mean(held) >= 0.93


# -- slopes --------------------------------------------------------------------


def too_extreme(rng, bins=60):
    """Scores that are too extreme, so that nothing is folded at zero."""
    y, score = made_up(30_000, seed=int(rng.integers(1 << 30)))
    counts = counted(score, y, Edges.realise(Uniform(bins)))
    return histogram(counts.edges, counts.negatives + 1, counts.positives + 1)


@pytest.mark.parametrize(
    "name",
    [n for n in SMOOTH if not n.endswith(("_specificity", "95_sensitivity"))],
)
def test_slopes_are_the_derivative_of_the_value(rng, name):
    counts = too_extreme(rng)
    row, at = METRICS[name], Flat("linear").fit(counts).bins
    direction = rng.normal(size=counts.vector.size) * np.sqrt(counts.vector)

    def value(step):
        moved = np.split(counts.vector + step * direction, 2)
        return row.measure.value(Flat("linear").fit(histogram(counts.edges, *moved)))

    expected = np.concatenate(row.measure.slopes(at)) @ direction
    sampling = measure(row, Flat("linear").fit(counts)).sampling
    found = (value(1e-4) - value(-1e-4)) / 2e-4
    # Places of quantiles, knots and shifts inside bins count as fixed in the slopes.
    assert abs(found - expected) <= 0.15 * sampling


@pytest.mark.parametrize("name", ["sensitivity_at_95_specificity",
                                  "specificity_at_95_sensitivity", "ici", "e90", "ks"])  # fmt: skip
def test_sampling_errors_are_those_of_the_bootstrap(name):
    # 150 resamples know a standard deviation to 6%: 5 of those are 30%.
    rng = np.random.default_rng(8)
    counts = too_extreme(rng)
    row = METRICS[name]
    found = measure(row, Flat("linear").fit(counts)).sampling
    cells, values = counts.vector, []
    for _ in range(150):
        again = rng.multinomial(int(cells.sum()), cells / cells.sum())
        other = histogram(counts.edges, *np.split(again, 2))
        values.append(row.measure.value(Flat("linear").fit(other)))
    assert found == pytest.approx(np.std(values), rel=0.3)


# -- what must hold between measures ----------------------------------------------


@pytest.fixture(scope="module", params=[None, discreet.DistributedDP(1)])
def result(request):
    y, score = made_up(20_000, seed=9)
    return discreet.evaluate(
        [discreet.Examples(score, y)],
        privacy=request.param,
        examples=20_000,
        prevalence=0.45,
        thresholds=[0.3],
    )


def test_measures_agree_with_each_other(result):
    v = {name: result.metrics[name].value for name in METRICS}
    assert v["eci"] <= v["emax"] * v["ici"] + 1e-12
    assert v["e50"] <= v["e90"] <= v["emax"]
    assert v["ici"] ** 2 <= v["eci"] + 1e-12
    assert v["cox_snell_r2"] <= v["nagelkerke_r2"]
    for area in ("partial_auc", "partial_auc_sensitivity"):
        mapped = (1 + (v[area] - 0.005) / 0.095) / 2
        assert v[f"{area}_corrected"] == pytest.approx(mapped)
    assert v["ks"] >= result.thresholds.find(youden=True).at.youden.value - 1e-9


def test_every_estimate_keeps_its_sources_of_error_apart(result):
    for name in METRICS:
        found = result.metrics[name]
        assert found.sampling > 0, name
        assert result.observed.exact or found.noise > 0, name
        low, high = found.interval()
        folded = ("ici", "e50", "e90", "emax", "eci", "ece")
        assert low <= found.value <= high or name in folded


@pytest.mark.parametrize("name", RANKINGS)
def test_measures_of_a_ranking_do_not_change_under_monotone_maps(name):
    y, score = made_up(5_000, seed=3)
    values = tuple(np.round(np.unique(np.round(score, 2)), 2))
    at = np.round(score, 2)
    mapped = {v: round(i / (2 * len(values)), 6) for i, v in enumerate(values)}
    other = np.array([mapped[v] for v in at])
    a, b = (
        discreet.evaluate(
            [discreet.Examples(s, y)],
            edges=discreet.Support(tuple(sorted(set(s.tolist())))),
            thresholds=[],
        ).metrics[name]
        for s in (at, other)
    )
    assert a.value == pytest.approx(b.value, rel=1e-12)
    assert a.sampling == pytest.approx(b.sampling, rel=1e-9)


def test_a_perfect_ranking_and_a_useless_one_are_told():
    y = np.repeat([False, True], 5_000)
    rng = np.random.default_rng(0)
    perfect = np.where(y, 0.9, 0.1) + rng.uniform(-0.05, 0.05, y.size)
    result = discreet.evaluate([discreet.Examples(perfect, y)], examples=20_000)
    for name in ("gini", "ks", "pr_gain_area", "partial_auc_corrected",
                 "sensitivity_at_95_specificity"):  # fmt: skip
        assert result.metrics[name].value == pytest.approx(1.0, abs=1e-9), name
    assert "cannot be computed" in result.metrics["calibration_slope"].unusable
    useless = discreet.evaluate([discreet.Examples(rng.random(y.size), y)])
    assert abs(useless.metrics["gini"].value) < 0.05
    low, high = useless.metrics["calibration_slope"].interval(0.9999)
    assert low < 0 < high


def test_scores_that_are_no_probabilities_have_rankings_alone():
    y, score = made_up(20_000)
    site = discreet.Examples(10 * score, y, kind="other", low=0, high=10)
    result = discreet.evaluate([site])
    for name in METRICS:
        defined = not np.isnan(result.metrics[name].value)
        assert defined != METRICS[name].needs_probabilities
    with pytest.raises(discreet.NotReleasedError, match="not probabilities"):
        result.curves.decision()
    assert result.curves.over_thresholds("lift").y[0] > 1
