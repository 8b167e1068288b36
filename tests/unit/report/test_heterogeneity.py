"""How sites differ, from sites to sentences; nothing but the revealed sums is read."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet
from discreet import Examples, HeterogeneityQuestion
from discreet.cli.main import app
from discreet.data.prior_spread import PriorSpread
from discreet.metrics.heterogeneity import AnchoredSums, RandomEffects
from discreet.metrics.table import METRICS
from discreet.plan import file as planfile
from discreet.report.heterogeneity import own_view
from discreet.statistic.effect_terms import SITE_EFFECTS

NAMES = ("auc", "log_oe", "recall@0.5")


def hospitals(sites=12, *, shift=1.0, seed=3):
    """Sites of unequal size whose scores are shifted: a pooled AUC mixes them."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(sites):
        n = int(np.exp(rng.uniform(math.log(150), math.log(1500))))
        y = rng.random(n) < 0.2 + 0.4 * (k % 2)
        z = rng.normal(1.4 * y - 1 + shift * (k % 2), 1)
        found.append(Examples(1 / (1 + np.exp(-z)), y, subjects=np.arange(n) // 3))
    return found


@pytest.fixture(scope="module")
def sites():
    return hospitals()


@pytest.fixture(scope="module")
def result(sites):
    return _evaluate(sites, heterogeneity=HeterogeneityQuestion(NAMES))


def _evaluate(sites, **choices):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.DisclosureWarning)
        return discreet.evaluate(sites, **choices)


@pytest.mark.parametrize("name", NAMES)
def test_the_opened_sums_say_what_every_sites_own_value_would(sites, result, name):
    statistic = result.plan.statistic
    terms = result.heterogeneity[name].terms
    effects = [
        terms.row.of(
            statistic.edges,
            statistic.inner.split(statistic.inner.count(site).astype(float)),
            terms.at,
        )
        for site in sites
    ]
    values, variances = np.array(effects).T
    found = result.heterogeneity[name].effects
    known = RandomEffects(AnchoredSums.of_sites(values, variances, terms.anchor))
    off = 0.02 * math.sqrt(terms.row.defaults.usual)  # twelve binary digits a site
    assert found.sites == known.sites
    assert found.mean == pytest.approx(known.mean, abs=off)
    assert found.tau2 == pytest.approx(known.tau2, abs=off**2 * 50)
    assert found.sums.i2 == pytest.approx(known.sums.i2, abs=0.02)
    assert found.interval() == pytest.approx(known.interval(), abs=off)
    assert found.prediction() == pytest.approx(known.prediction(), abs=3 * off)


def test_the_real_protocol_opens_the_same_sums_and_the_plan_survives_its_file(
    sites, result
):
    again = planfile.loads(planfile.dumps(result.plan))
    assert again == result.plan
    assert again.digest() == result.plan.digest()
    masked = _evaluate(
        sites, heterogeneity=HeterogeneityQuestion(NAMES), aggregation="secagg"
    )
    totals = [r.source.releases[0].total.tolist() for r in (masked, result)]
    assert totals[0] == totals[1]


def test_a_shift_between_hospitals_shows_in_pairs_across_them_only(result):
    within, sd = result.heterogeneity.within.by_pairs()
    assert within == pytest.approx(0.839, abs=4 * sd)  # Phi(1.4 / sqrt 2)
    assert result.auc.value > within + 4 * sd


def test_text_json_and_page_say_it(result, tmp_path):
    text = str(result)
    assert "a new site's" in text
    assert "Within a site" in text
    assert "5 further numbers of the sites' own AUC" in text
    found = json.loads(result.to_json())["heterogeneity"]
    low, high = found["effects"]["auc"]["prediction95"]
    assert low < found["effects"]["auc"]["mean"] < high
    assert found["within_site"]["by_pairs"]["value"] < result.auc.value
    result.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"A new site can expect {low:.2f} to {high:.2f}." in page
    assert f"<span>{low:.3f} to {high:.3f}</span>" in page


def test_a_site_without_an_effect_of_its_own_stays_out_of_exact_sums(sites):
    """Else one site alone might add to a sum, and everybody would read its value."""
    lonely = Examples([0.3] * 9 + [0.4], [0] * 9 + [1])
    with pytest.raises(discreet.InputError, match="no value of its own"):
        _evaluate([*sites, lonely], heterogeneity=True)


def test_under_noise_sites_without_an_effect_are_counted_as_such():
    lonely = [Examples([0.3, 0.4], [0, 0])] * 20
    private = discreet.DistributedDP(16, unit="client", max_examples=200)
    found = _evaluate(
        [*hospitals(60), *lonely],
        privacy=private,
        examples=12_000,
        heterogeneity=HeterogeneityQuestion(within=False),
    ).heterogeneity["auc"]
    assert found.sites < 75
    assert "more not estimable" in found.sentence()


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"heterogeneity": True}, "at least 10"),
        ({"heterogeneity": True, "groups": ["a"]}, "two classes and no groups"),
        ({"heterogeneity": HeterogeneityQuestion(("recall@half",))}, "name@number"),
    ],
)
def test_what_cannot_be_said_of_sites_is_refused_before_anything_is_counted(
    sites, choices, sentence
):
    with pytest.raises(discreet.PlanError, match=sentence):
        discreet.evaluate(sites[:9], **choices)


def test_every_effect_can_be_asked_for_in_one_plan_or_two(sites):
    names = [f"{n}@0.5" if SITE_EFFECTS[n].at else n for n in SITE_EFFECTS]
    for some in (names[:4], names[4:]):
        found = _evaluate(
            sites, heterogeneity=HeterogeneityQuestion(tuple(some), within=False)
        )
        for name in some:
            spread = found.heterogeneity[name]
            low, high = spread.prediction()
            assert low <= spread.mean <= high


def test_under_noise_for_whole_sites_the_interval_knows_the_noise():
    many = hospitals(60)
    exact = _evaluate(many, heterogeneity=True).heterogeneity["auc"]
    private = discreet.DistributedDP(16, unit="client", max_examples=200)
    noisy = _evaluate(
        many,
        privacy=private,
        examples=12_000,
        heterogeneity=HeterogeneityQuestion(within=False),
    )
    spread = noisy.heterogeneity["auc"]
    assert spread.effects.noise is not None
    assert "further noisy numbers" in str(noisy.claim)
    assert spread.effects.noise_of_tau2() > 0
    assert abs(spread.effects.sites - exact.sites) < 40
    assert "pairs within sites" not in str(noisy)


# -- clusters --------------------------------------------------------------


def repeated(rows, seed, *, people=400):
    """People with some rows each, all of one person's alike."""
    rng = np.random.default_rng(seed)
    y = rng.random(people) < 0.4
    z = rng.normal(1.3 * y - 0.6, 1)
    each = np.full(people, rows)
    s = 1 / (1 + np.exp(-(np.repeat(z, each) + rng.normal(0, 0.3, each.sum()))))
    return Examples(s, np.repeat(y, each), subjects=np.repeat(np.arange(people), each))


@pytest.mark.parametrize("metric", ["auc", "average_precision", "brier"])
def test_rows_of_one_person_widen_the_interval_as_their_number_says(metric):
    """Rows that repeat a person add little: deviations are near those of people."""
    people = HeterogeneityQuestion((), within=False, clusters="subject")
    found = _evaluate([repeated(6, k) for k in range(10)], heterogeneity=people)
    alone = _evaluate([repeated(1, k) for k in range(10)])
    low, high = found.metrics[metric].interval(cluster="subject")
    plain = found.metrics[metric].interval()
    single = alone.metrics[metric].interval()
    assert high - low == pytest.approx(single.high - single.low, rel=0.15)
    assert plain.high - plain.low < 0.55 * (high - low)
    one_row_each = _evaluate([repeated(1, k) for k in range(10)], heterogeneity=people)
    factor = one_row_each.metrics[metric].clustered.factor
    assert factor == pytest.approx(1.0, abs=1e-4)  # single rows change nothing


def test_sites_as_clusters_equal_a_sandwich_by_brute_force(sites):
    """The six functions of a row stand for the slopes well enough."""
    over_sites = HeterogeneityQuestion((), within=False, clusters="site")
    found = _evaluate(sites, heterogeneity=over_sites, edges=PriorSpread(1024, 0.05))
    cells = found.fit.bins
    inner = found.plan.statistic.inner
    split = [inner.split(inner.count(site).astype(float)) for site in sites]
    sizes = np.array([[c.negatives.sum(), c.positives.sum()] for c in split])
    k = (sizes.sum(axis=0) ** 2 / (sizes**2).sum(axis=0)).min()  # equal sites
    assert k < 0.8 * len(sites)
    for metric in ("auc", "average_precision", "brier"):
        slopes = np.concatenate(METRICS[metric].measure.slopes(cells))
        moved = np.array([slopes @ inner.count(site) for site in sites])
        known = math.sqrt(k / (k - 1) * (moved**2).sum())
        estimate = found.metrics[metric]
        spread = estimate.sampling * estimate.clustered.factor
        assert spread == pytest.approx(known, rel=0.15), metric
        assert estimate.clustered.freedom == pytest.approx(k - 1, rel=1e-3)


def test_an_interval_over_clusters_that_were_not_asked_for_is_an_error(result):
    with pytest.raises(discreet.NotReleasedError, match="clusters='site'"):
        result.auc.interval(cluster="site")


def test_the_report_says_the_interval_over_clusters(sites):
    found = _evaluate(sites, heterogeneity=HeterogeneityQuestion(clusters="site"))
    assert "If rows of one site are alike" in str(found)
    plain = json.loads(found.to_json())["metrics"]["auc"]
    low, high = plain["clustered"]["interval95"]
    assert low < plain["interval95"][0]
    assert high > plain["interval95"][1]


# -- a site's own view -----------------------------------------------------


def own_rows(seed, signal, n=900):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.35
    return 1 / (1 + np.exp(-rng.normal(signal * y - 1, 1))), y


def test_a_site_like_the_others_is_inside_and_a_bad_one_outside(result):
    revealed = result.exports.to_dict()
    usual = own_view(result.plan, Examples(*own_rows(2, 1.4)), revealed)
    assert len(usual) == len(NAMES)
    assert usual[0].startswith("Your AUC is 0.8")
    assert f"{result.auc.value:.2f} pooled" in usual[0]
    assert usual[0].endswith(": inside.")
    assert usual[2].startswith("Your recall at 0.5")
    bad = own_view(result.plan, Examples(*own_rows(2, 0.2)), revealed)
    assert bad[0].endswith(": outside.")
    lonely = own_view(result.plan, Examples([0.2, 0.4], [0, 0]), revealed)
    assert all("cannot be estimated" in line for line in lonely)


def test_a_result_of_another_plan_or_no_result_is_refused(result):
    own = Examples([0.2, 0.4], [0, 1])
    plain = discreet.recommend(discreet.PublicFacts(), discreet.SecureAggregation())
    for plan, revealed, sentence in (
        (result.plan, {"plan_digest": "00"}, "another plan"),
        (result.plan, {"plan_digest": result.plan.digest().hex()}, "no result of"),
        (plain, {}, "--heterogeneity auc"),
    ):
        with pytest.raises(discreet.InputError, match=sentence):
            own_view(plan, own, revealed)


def test_the_command_says_it_from_two_files(result, tmp_path):
    rows = "\n".join(f"{s},{int(y)}" for s, y in zip(*own_rows(3, 1.4), strict=True))
    (tmp_path / "mine.csv").write_text(f"y_score,y_true\n{rows}\n")
    (tmp_path / "plan.toml").write_text(planfile.dumps(result.plan))
    (tmp_path / "result.json").write_text(result.to_json())
    files = [str(tmp_path / name) for name in ("plan.toml", "mine.csv", "result.json")]
    done = CliRunner().invoke(app, ["site", "own", *files[:2], "--result", files[2]])
    assert done.exit_code == 0, done.output
    assert "Your AUC is" in done.output
    assert "inside" in done.output
