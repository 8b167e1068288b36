"""What an analyst does with a result: groups, fairness, comparison, decision curves, MLflow."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import discreet
from discreet.errors import InputError, NotReleasedError
from discreet.report.fairness import CRITERIA, MEASURES
from discreet.report.tracking import ARTIFACT, metrics_of
from discreet.report.verification import verify

COLUMNS = {"label": "died", "score": "risk"}
GROUPS = ["f", "m"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    n = 5000
    y = rng.random(n) < 0.3
    sex = rng.choice(GROUPS, n)
    old = 1 / (1 + np.exp(-rng.normal((1.0 + 0.6 * (sex == "m")) * y - 1, 1)))
    risk = 1 / (1 + np.exp(-rng.normal(1.6 * y - 1, 1)))
    names = {"died": y.astype(int), "sex": sex, "risk": risk, "old": old}
    return pd.DataFrame(names)


@pytest.fixture(scope="module")
def groups(frame):
    return discreet.evaluate(frame, **COLUMNS, group="sex")


@pytest.fixture(scope="module")
def labels(frame):
    second = frame.assign(late=frame.died.where(frame.index % 7 > 0))
    return discreet.evaluate(
        second, labels=["died", "late"], scores=["risk", "old"], name="two heads"
    )


def test_groups_are_the_names_and_group_is_the_column(frame):
    for verb, score in (("evaluate", "risk"), ("compare", ["risk", "old"])):
        for groups in ("sex", GROUPS):
            with pytest.raises(InputError, match="group= names the column"):
                getattr(discreet, verb)(frame, label="died", score=score, groups=groups)


def test_a_comparison_of_ones_own_frame_finds_its_groups(frame, tmp_path):
    two = {"label": "died", "score": ["risk", "old"], "group": "sex"}
    result = discreet.compare(frame, **two)
    assert sorted(result) == GROUPS
    plain = discreet.compare([frame], **two, groups=GROUPS)
    assert result.difference() == plain.difference()
    result.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    row = page.partition("pooled, risk less old")[2][:200]
    lead = result.pooled.a.thresholds.lead().value
    gap = result.pooled.difference("recall", lead).value
    assert f"<b>{gap:.3f}</b>" in row
    assert "Largest gap" not in page
    assert next(iter(result.exports.parts)) == "pooled, risk"  # what the script says


def test_a_name_that_needs_a_threshold_or_groups_says_so(frame):
    result = discreet.evaluate(frame, **COLUMNS)
    with pytest.raises(AttributeError, match=r"result\.at\(0\.5\)\.recall"):
        result.recall  # noqa: B018
    with pytest.raises(AttributeError, match="evaluate with group="):
        result.fairness()


# -- groups and fairness -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
def test_a_group_has_the_pooled_row_beside_it_without_a_further_release(frame):
    sites = [frame[:2500], frame[2500:]]
    plain = discreet.evaluate(sites, **COLUMNS, group="sex", groups=GROUPS)
    for private in (None, discreet.DistributedDP(3)):
        result = discreet.evaluate(
            sites, **COLUMNS, group="sex", groups=GROUPS, privacy=private, examples=5000
        )
        releases = {part.source.releases for part in (*result.values(), result.pooled)}
        assert len(releases) == 1
        assert result.pooled.auc.value == pytest.approx(
            plain.pooled.auc.value, abs=0.03
        )
        assert "AUC pooled" in str(result)
        document = json.loads(result.to_json())
        assert document["pooled"]["metrics"]["auc"]["value"] == result.pooled.auc.value


def test_fairness_is_a_table_in_text_a_notebook_and_a_frame(groups):
    fairness = groups.fairness()
    assert fairness.threshold == 0.5
    lines = str(fairness).splitlines()
    assert len(lines) == 2 + sum(map(len, CRITERIA.values()))
    recall = groups["f"].at(0.5).recall
    assert f"{recall.value:.3f} [" in lines[3]
    assert fairness._repr_html_().count("<tr>") == len(lines) - 1
    table = fairness.to_frame()
    assert set(table.columns) >= {"criterion", "measure", *GROUPS, "gap", "gap_high"}
    assert table["f"][1] == recall.value
    assert len(fairness.to_frame(pairs=True)) == len(table)
    assert len(MEASURES) <= len(table)
    with pytest.raises(InputError, match="give one"):
        discreet.evaluate([frame_of(groups)], groups=GROUPS, thresholds=[]).fairness()


def frame_of(groups):
    rng = np.random.default_rng(0)
    n = 2000 * len(groups)
    y = rng.random(n) < 0.4
    return discreet.Examples(rng.random(n), y, groups=rng.choice(GROUPS, n))


def test_gaps_are_of_disjoint_groups_at_a_threshold_in_range(labels, groups):
    with pytest.raises(NotReleasedError, match="share theirs"):
        labels.fairness()
    with pytest.raises(NotReleasedError, match="drift is between groups"):
        labels.drift()
    for wrong in (5, -1):
        with pytest.raises(InputError, match="outside the scores' range"):
            groups.fairness(wrong)
        with pytest.raises(InputError, match="outside the scores' range"):
            groups.forest("recall", at=wrong)


def test_a_forest_takes_the_words_that_metrics_have(groups, frame):
    assert groups.forest("Sensitivity", at=0.3) == groups.forest("recall", at=0.3)
    assert groups.forest("AUROC") == groups.forest("auc")
    pair = {"label": "died", "score": ["risk", "old"], "group": "sex"}
    compared = discreet.compare(frame, **pair)
    assert compared.forest("ppv", at=0.3) == compared.forest("precision", at=0.3)
    for result in (groups, compared):
        with pytest.raises(InputError, match="did you mean recall"):
            result.forest("recal", at=0.3)
        with pytest.raises(InputError, match="give at="):
            result.forest("recall")


@pytest.mark.parametrize("names", [("x",), "ab", ("a", "b", "c"), ("a", "a")])
def test_two_models_have_two_names(frame, names):
    with pytest.raises(InputError, match="two different names"):
        discreet.compare(frame, label="died", score=["risk", "old"], names=names)


def test_several_labels_are_a_list(frame):
    with pytest.raises(InputError, match="lists of columns"):
        discreet.evaluate(frame, labels="died", scores="risk")


def test_names_of_groups_are_no_markup(frame):
    odd = frame.assign(sex=frame.sex.map({"f": "<b>f</b>", "m": "$m_1$"}))
    result = discreet.evaluate(odd, **COLUMNS, group="sex")
    assert "<b>f</b>" not in result.forest()._repr_html_()
    assert "<b>f</b>" not in result.fairness()._repr_html_()
    ticks = result.plot("forest").ax_.get_yticklabels()
    assert ticks[0].get_text() == "$m_1$"
    assert not any(tick.get_parse_math() for tick in ticks)


@pytest.mark.parametrize("kind", ["roc", "calibration", "decision"])
def test_a_name_that_begins_with_a_line_is_in_the_legend(frame, kind):
    odd = frame.assign(sex="_" + frame.sex)
    drawn = discreet.evaluate(odd, **COLUMNS, group="sex").plot(kind)
    listed = " ".join(drawn.ax_.get_legend_handles_labels()[1])
    assert "_f" in listed
    assert "_m" in listed


def test_names_of_models_in_a_forest_are_no_formulas(frame, tmp_path):
    pair = {"label": "died", "score": ["risk", "old"], "names": ("$\\frac{$", "b")}
    compared = discreet.compare(frame, **pair, group="sex")
    compared.plot("forest", tmp_path / "forest.png")
    assert (tmp_path / "forest.png").stat().st_size > 5_000


# -- comparison in groups ----------------------------------------------------------


def test_two_models_are_compared_in_each_group_as_if_it_were_alone(frame):
    pair = {"label": "died", "score": ["risk", "old"]}
    result = discreet.compare(frame, **pair, group="sex", groups=GROUPS)
    assert list(result) == GROUPS
    for group, part in frame.groupby("sex"):
        alone = discreet.compare(part, **pair)
        assert result[group].difference() == alone.difference()
        exact = roc_auc_score(part.died, part.risk) - roc_auc_score(part.died, part.old)
        assert result.difference()[group].value == pytest.approx(exact, abs=2e-3)
    whole = discreet.compare(frame, **pair)
    assert result.pooled.difference() == whole.difference()
    forest = result.forest()
    assert forest.title == "AUC, risk less old"
    assert [row.name for row in forest.lines] == [*GROUPS, "pooled"]
    assert set(result.verdicts()) == {*GROUPS, "pooled"}
    assert "risk is better than old" in str(result)
    assert "pooled" in result.plot("forest").ax_.get_yticklabels()[-1].get_text()


@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
def test_a_group_of_one_class_leaves_the_others_comparable(frame, tmp_path):
    pair = {"label": "died", "score": ["risk", "old"]}
    kept = frame[(frame.sex == "f") | (frame.died == 0)]
    result = discreet.compare(kept, **pair, group="sex")
    assert np.isnan(result["m"].difference("average_precision").value)
    assert result["m"].difference("brier").value != 0
    assert "AUC risk-old f" in str(result)
    for part in (result, discreet.compare(frame[frame.died == 0], **pair)):
        for ending in ("json", "html"):
            part.save(tmp_path / f"report.{ending}")
            assert verify((tmp_path / f"report.{ending}").read_text()).holds


@pytest.mark.parametrize("form", ["joint", "marginals"])
def test_comparisons_in_groups_survive_noise_and_verification(frame, form, tmp_path):
    sites = [frame[:2500], frame[2500:]]
    pair = {"label": "died", "score": ["risk", "old"], "group": "sex", "groups": GROUPS}
    exact = discreet.compare(frame, **pair, form=form)
    private = discreet.DistributedDP(8)
    noisy = discreet.compare(sites, **pair, form=form, privacy=private, examples=5000)
    for group in GROUPS:
        gap = noisy[group].difference()
        assert gap.noise > 0
        assert gap.value == pytest.approx(exact[group].difference().value, abs=0.04)
    assert "have the loss above" in str(noisy.claim)
    for ending in ("json", "html") if form == "joint" else ("json",):
        noisy.save(tmp_path / f"report.{ending}")
        assert verify((tmp_path / f"report.{ending}").read_text()).holds


# -- several labels ----------------------------------------------------------------


def test_several_labels_give_one_result_each_and_their_averages(frame, labels):
    assert list(labels) == ["died", "late"]
    area = roc_auc_score(frame.died, frame.risk)
    assert labels["died"].auc.value == pytest.approx(area, abs=1e-3)
    kept = frame[frame.index % 7 > 0]
    area = roc_auc_score(kept.died, kept.old)
    assert labels["late"].auc.value == pytest.approx(area, abs=1e-3)
    macro = labels.average("auc")
    assert macro.value == np.mean([part.auc.value for part in labels.values()])
    assert macro.interval().low < macro.value < macro.interval().high
    assert "AUC macro" in str(labels)
    assert labels.pooled is None


def test_the_page_says_how_many_examples_have_each_label(frame, labels):
    kept = int((frame.index % 7 > 0).sum())
    assert f"<dd>5,000 died, {kept:,} late</dd>" in labels.exports.html()
    twice = frame.assign(second=1 - frame.died)
    full = discreet.evaluate(twice, labels=["died", "second"], scores=["risk", "old"])
    assert "<dd>5,000</dd>" in full.exports.html()


def test_noise_alone_is_not_shown_as_labels_of_different_numbers(frame):
    both = {"labels": ["died", "late"], "scores": ["risk", "old"]}
    lacking = frame.died.where(frame.index % 7 > 0)
    for late, several in ((1 - frame.died, False), (lacking, True)):
        given = frame.assign(late=late)
        noisy = discreet.evaluate(given, **both, privacy=discreet.DistributedDP(1))
        counts = [p.observed.totals.sum() for p in noisy.parts.values()]
        assert counts[0] != counts[1]
        page = noisy.exports.html()
        assert (f"<dd>about {counts[0]:,.0f} died, about " in page) == several


@pytest.mark.parametrize("ending", ["json", "html"])
def test_a_report_of_several_labels_can_be_verified(labels, ending, tmp_path):
    labels.save(tmp_path / f"report.{ending}")
    assert verify((tmp_path / f"report.{ending}").read_text()).holds
    names = {path.name for path in labels.exports.write(tmp_path / "out")}
    assert {"measures.csv", "curves.csv"} <= names


# -- pictures ----------------------------------------------------------------------


def test_a_decision_plot_has_the_curves_limits_and_both_references(groups, tmp_path):
    shown = groups.pooled.plot("decision", tmp_path / "decision.png")
    curve = groups.pooled.curves.decision()
    lines = {line.get_label(): line.get_ydata() for line in shown.ax_.get_lines()}
    assert lines["pooled"].tolist() == curve.y.tolist()
    assert set(lines) == {"pooled", "treat all", "treat none"}
    assert (
        shown.ax_.get_ylim()[1] < 0.5
    )  # limits that reach far do not squeeze the curve
    several = groups.plot("decision").ax_.get_legend_handles_labels()[1]
    assert several == ["f", "treat all, each in its colour", "treat none", "m"]
    with pytest.raises(InputError, match="a forest plot is of sites or groups"):
        groups.pooled.plot("forest")
    with pytest.raises(InputError, match="decision, forest"):
        groups.pooled.plot("lift")


# -- MLflow ------------------------------------------------------------------------


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow

        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
        yield mlflow
        mlflow.set_tracking_uri(before)


def test_a_run_gets_metrics_with_their_ends_the_claim_and_the_page(
    mlflow, groups, labels, tmp_path
):
    run = mlflow.get_run(groups.log_mlflow())
    low, high = groups.pooled.auc.interval()
    logged = run.data.metrics
    assert logged["auc"] == groups.pooled.auc.value
    assert (logged["auc_low"], logged["auc_high"]) == (low, high)
    assert logged["f/recall_at_0.5"] == groups["f"].at(0.5).recall.value
    tags = run.data.tags
    assert tags["discreet.plan"] == f"sha256:{groups.pooled.plan.digest().hex()}"
    assert tags["discreet.claim"] == str(groups.claim)
    (page,) = Path(tmp_path / "runs").rglob("report.html")
    assert str(page).endswith(ARTIFACT)
    assert verify(page.read_text()).holds
    with mlflow.start_run() as active:
        assert labels.log_mlflow(page=False) == active.info.run_id
    logged = mlflow.get_run(active.info.run_id).data
    assert logged.metrics["died/auc"] == labels["died"].auc.value
    assert logged.metrics["summary/AUC macro"] == labels.average("auc").value
    assert logged.tags["discreet.model"] == "two heads"
    assert len(list(Path(tmp_path / "runs").rglob("report.html"))) == 1


def test_every_kind_of_result_has_names_that_mlflow_takes(frame, groups):
    pair = {"label": "died", "score": ["risk", "old"]}
    odd = frame.assign(sex=frame.sex + "/<1>&")
    results = [
        groups.pooled,
        discreet.compare(frame, **pair),
        discreet.compare(frame, **pair, group="sex", groups=GROUPS),
        discreet.evaluate(odd, **COLUMNS, group="sex"),
        discreet.evaluate(
            frame.assign(risk=frame.risk * 4e7),
            **COLUMNS,
            kind="other",
            low=0,
            high=4e7,
            thresholds=[12_345_678],
        ),
    ]
    assert "recall_at_12345678" in dict(metrics_of(results[-1].exports))
    for result in results:
        metrics = dict(metrics_of(result.exports))
        assert metrics
        assert all(set(name) <= ALLOWED for name in metrics)
        assert np.isfinite(list(metrics.values())).all()


def test_groups_whose_names_differ_in_signs_alone_keep_their_own_metrics(mlflow, frame):
    ages = ["<65", ">65", "65/66", "65_66", "..", "." * 190 + "long"]
    rows = frame.assign(age=np.resize(ages, len(frame)))
    result = discreet.evaluate(rows, **COLUMNS, group="age")
    logged = mlflow.get_run(result.log_mlflow(page=False)).data.metrics
    areas = {name: v for name, v in logged.items() if name.endswith("/auc")}
    assert len(areas) == len(ages)
    assert areas["below 65/auc"] == result["<65"].auc.value
    assert areas["above 65/auc"] == result[">65"].auc.value


ALLOWED = set("_-./ ") | set(
    map(chr, [*range(48, 58), *range(65, 91), *range(97, 123)])
)


def test_without_mlflow_one_sentence_says_what_to_install(groups, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InputError, match="pip install mlflow-skinny"):
        groups.log_mlflow()
