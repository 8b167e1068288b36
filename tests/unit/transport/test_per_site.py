"""One frame with a column of sites: rows per site, the pooled row, a new site's range."""

import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

import discreet
from discreet.errors import IgnoredWarning, InputError, PlanError
from discreet.metrics.heterogeneity import AnchoredSums, RandomEffects
from discreet.plan.cohort import Cohort, Member, Roster
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Unit
from discreet.report.verification import verify
from discreet.statistic import Grouped
from discreet.transport.per_site import sites_and_rows

COLUMNS = {"label": "died", "score": "risk"}
WHERE = {"site": "hospital", **COLUMNS}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    n = 4000
    ward = rng.choice(
        ["north", "south", "west", "10", "9"], n, p=(0.4, 0.3, 0.1, 0.1, 0.1)
    )
    y = rng.random(n) < 0.3
    z = rng.normal(1.5 * y - 1 + 0.4 * (ward == "south") * y, 1)
    sex = rng.choice(["f", "m"], n)
    risk = (1 / (1 + np.exp(-z))).round(6)
    return pd.DataFrame(
        {"hospital": ward, "died": y.astype(int), "risk": risk, "sex": sex}
    )


@pytest.fixture(scope="module")
def result(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of one's own data nothing has to be hidden
        return discreet.evaluate(frame, **WHERE)


def test_each_site_and_the_pooled_row_are_scikit_learns_areas(frame, result):
    assert list(result) == ["9", "10", "north", "south", "west"]
    for name, part in frame.groupby("hospital"):
        expected = roc_auc_score(part.died, part.risk)
        assert result[name].auc.value == pytest.approx(expected, abs=1e-3)
    pooled = roc_auc_score(frame.died, frame.risk)
    assert result.pooled.auc.value == pytest.approx(pooled, abs=1e-4)
    counts = [part.observed.vector for part in result.values()]
    assert np.sum(counts, axis=0).tolist() == result.pooled.observed.vector.tolist()
    assert result.pooled.observed.vector.sum() == len(frame)


@pytest.mark.parametrize("kind", ["polars", "lazy", "arrow", "parquet", "csv"])
def test_one_frame_is_the_same_in_every_form(frame, result, kind, tmp_path):
    match kind:
        case "polars":
            source = pl.from_pandas(frame)
        case "lazy":
            source = pl.from_pandas(frame).lazy()
        case "arrow":
            source = pa.Table.from_pandas(frame)
        case _:
            source = tmp_path / f"all.{kind}"
            getattr(frame, f"to_{kind}")(source, index=False)
    again = discreet.evaluate(source, **WHERE)
    assert again.forest() == result.forest()


def test_the_claim_of_ones_own_data_promises_nothing_and_warns_of_nothing(
    frame, result
):
    few = frame[:60]
    with warnings.catch_warnings():
        warnings.simplefilter("error", discreet.DisclosureWarning)
        alone = discreet.evaluate(few, **COLUMNS, examples=60, prevalence=0.3)
    for claim in (alone.claim, result.claim):
        assert claim.setting == "own data"
        assert "nothing is" in str(claim)
        assert "Not protected" not in str(claim)
    with pytest.warns(discreet.DisclosureWarning):  # a list stands for several holders
        discreet.evaluate([few], **COLUMNS, edges=discreet.data.edges.Uniform(64))


def test_groups_of_ones_own_frame_need_no_declaration(frame):
    result = discreet.evaluate(frame, **COLUMNS, group="sex")
    assert list(result) == ["f", "m"]
    assert not result.by_site
    assert result.forest().prediction is None


def test_the_new_sites_range_is_that_of_the_sums_over_sites(frame):
    """``heterogeneity=`` adds up the same effects, rounded to integers."""
    rng = np.random.default_rng(1)
    split = frame.assign(hospital=[f"h{k}" for k in rng.integers(12, size=len(frame))])
    result = discreet.evaluate(split, **WHERE)
    question = HeterogeneityQuestion(("auc", "recall@0.5", "log_oe"))
    summed = discreet.evaluate(
        split, **WHERE, per_site=False, heterogeneity=question
    ).heterogeneity
    for metric, at, key in (
        ("auc", None, "auc"),
        ("recall", 0.5, "recall@0.5"),
        ("observed_expected", None, "log_oe"),
    ):
        forest = result.forest(metric, at=at)
        assert forest.prediction == pytest.approx(summed[key].prediction(), abs=0.012)


def test_any_metric_has_a_range_of_its_own(result):
    forest = result.forest("brier")
    values = np.array([row.estimate for row in forest.rows])
    sds = np.array([part.brier.sampling for part in result.values()])
    share = values * (1 - values)
    sums = AnchoredSums.of_sites(np.log(values / (1 - values)), (sds / share) ** 2, 0.1)
    low, high = RandomEffects(sums).prediction()
    assert forest.prediction == pytest.approx(
        (1 / (1 + np.exp(-low)), 1 / (1 + np.exp(-high)))
    )


def test_a_forest_shows_itself_as_text_html_frame_json_and_picture(result, tmp_path):
    forest = result.forest()
    text = str(forest)
    assert text.splitlines()[-2].startswith("a new site")
    assert "between sites logit sd" in text
    assert str(result).count(forest.note) == 1
    assert forest.to_frame()["row"].tolist() == ["part"] * 5 + ["pooled", "prediction"]
    assert "<td>" in forest._repr_html_()
    picture = result.plot("forest", tmp_path / "forest.png")
    marks = [label.get_text() for label in picture.ax_.get_yticklabels()]
    assert marks == [*result, "pooled", "a new site"]
    files = {path.name: path for path in result.exports.write(tmp_path / "out")}
    assert len(files["forest.csv"].read_text().splitlines()) == 8
    parts = {row["part"] for row in result.exports.rows()}
    assert parts == {*result, "pooled"}
    assert result.exports.to_dict()["forest"]["prediction"] == list(forest.prediction)


def test_two_sites_have_no_range(frame):
    two = frame[frame.hospital.isin(["north", "south"])]
    forest = discreet.evaluate(two, **WHERE).forest()
    assert forest.prediction is None
    assert "fewer than three sites" in forest.note


@pytest.mark.parametrize("ending", ["json", "html"])
def test_a_report_of_sites_can_be_verified(result, ending, tmp_path):
    path = tmp_path / f"report.{ending}"
    result.save(path)
    assert verify(Path(path).read_text()).holds
    if ending == "json":
        with pytest.raises(discreet.ReleaseError):
            verify(path.read_text().replace('"own data"', '"deployed"', 1))


def test_rows_without_a_site_are_refused_with_their_number(frame):
    lost = frame.assign(hospital=frame.hospital.where(frame.index > 2))
    with pytest.raises(InputError, match="3 rows name no site or group"):
        discreet.evaluate(lost, **WHERE)


# -- under a privacy model ---------------------------------------------------------


def test_under_a_privacy_model_rows_are_left_out_and_said_to_be(frame):
    private = {"privacy": "distributed", "epsilon": 4}
    with pytest.warns(IgnoredWarning, match="only the pooled result is released"):
        result = discreet.evaluate(frame, **WHERE, **private)
    assert isinstance(result, discreet.Evaluation)
    assert result.source.contributors == 5
    quiet = discreet.evaluate(frame, **WHERE, **private, per_site=False)
    assert quiet.plan.digest() == result.plan.digest()


@pytest.mark.parametrize("sources", ["frame", "list"])
def test_rows_that_are_asked_for_cost_the_loss_of_one_release(frame, sources):
    """One row a site, and the pooled row is their sum: noise of five cells each."""
    given = {"sites": frame, **WHERE}
    if sources == "list":
        parts = dict(iter(frame.groupby("hospital")))
        given = {"sites": parts, **COLUMNS}
    result = discreet.evaluate(
        **given, privacy=discreet.DistributedDP(2), per_site=True, examples=4000
    )
    (release,) = result["north"].source.releases
    assert release.loss == PureDP(Fraction(2))
    assert isinstance(result["north"].plan.statistic, Grouped)
    assert result.by_site
    rows = [part.observed for part in result.values()]
    total = np.sum([row.vector for row in rows], axis=0)
    assert result.pooled.observed.vector.tolist() == total.tolist()
    one, pooled = rows[0].covariance, result.pooled.observed.covariance
    assert pooled.negatives == pytest.approx(5 * one.negatives)
    assert result.pooled.auc.noise > 0
    assert "have the loss above" in str(result.claim)
    assert "2-DP for one example added or removed" in str(result.claim)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_one_example_moves_one_row_per_site_by_one_cell(relation):
    """Brute force: rows of three sites, one example changed; the pooled row follows.

    A pooled row that was released apart would move as well: twice the loss.
    """
    kinds = list(product((0.1, 0.9), (0, 1), "abc"))
    unit = Unit("example", relation)

    def released(rows):
        sites = [
            discreet.Examples(
                np.array([s for s, _, h in rows if h == name], dtype=float),
                np.array([y for _, y, h in rows if h == name], dtype=int),
                name=name,
            )
            for name in "abc"
        ]
        private = discreet.DistributedDP(1)
        named, groups = sites_and_rows(
            sites, private, named=True, site=None, per_site=True,
            groups=None, classes=None, columns={}, weight=None,
        )  # fmt: skip
        edges = discreet.data.edges.Edges.realise(discreet.data.edges.Uniform(2))
        statistic = Grouped(discreet.statistic.ClassHistogram(edges), tuple(groups))
        return statistic, sum(statistic.count(site) for site in named)

    base = [kinds[0], kinds[-1]]
    worst = worst_of_both = 0
    for row in kinds:
        if relation == "add_remove":
            others = [base]
        else:
            others = [[*base, other] for other in kinds]
        statistic, vector = released([*base, row])
        for other in others:
            apart = np.abs(vector - released(other)[1])
            both = np.abs((vector - released(other)[1]).reshape(3, -1).sum(axis=0))
            worst = max(worst, int(apart.sum()))
            worst_of_both = max(worst_of_both, int(apart.sum() + both.sum()))
    assert worst == statistic.sensitivity(unit).l1
    assert worst_of_both == 2 * worst


@pytest.mark.parametrize("model", ["local", "central"])
def test_other_models_release_rows_per_site_too(frame, model):
    privacy = {
        "local": discreet.LocalDP(20, "laplace"),
        "central": discreet.CentralDP(20),
    }[model]
    result = discreet.evaluate(
        frame, **WHERE, privacy=privacy, per_site=True, examples=4000
    )
    assert list(result) == ["9", "10", "north", "south", "west"]
    area = roc_auc_score(frame.died, frame.risk)
    assert result.pooled.auc.value == pytest.approx(area, abs=0.03)


@pytest.mark.parametrize(
    ("privacy", "error"),
    [
        (discreet.SecureAggregation(), InputError),
        (discreet.ExactMPC(), discreet.DiscreetError),
        (discreet.LabelDP(1), PlanError),
        (discreet.LocalDP(1), PlanError),
    ],
    ids=["exact sums", "three parties", "labels", "one message an example"],
)
def test_models_that_cannot_release_rows_refuse_before_anything_is_counted(
    frame, privacy, error
):
    with pytest.raises(error):
        discreet.evaluate(frame, **WHERE, privacy=privacy, per_site=True)


def test_a_plan_of_exact_sums_does_not_name_its_sites_as_groups():
    sites = tuple(Member(name, name[:1].encode() * 32) for name in ("north", "south"))
    facts, groups = discreet.PublicFacts(), ["south", "north", "other"]
    exact = discreet.recommend(
        facts, discreet.SecureAggregation(), groups=groups, cohort=Cohort(2)
    )
    with pytest.raises(PlanError, match="every site's own exact counts"):
        replace(exact, roster=Roster(sites))
    noisy = discreet.recommend(
        facts, discreet.DistributedDP(1), groups=groups, cohort=Cohort(2)
    )
    assert replace(noisy, roster=Roster(sites)).statistic.told_apart == tuple(groups)


def test_a_column_of_patients_is_no_column_of_sites(frame):
    rows = frame.assign(hospital=range(len(frame)))
    with pytest.raises(
        InputError, match="name the column of hospitals, not of patients"
    ):
        discreet.evaluate(rows, **WHERE)
