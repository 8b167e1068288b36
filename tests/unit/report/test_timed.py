"""The result of a plan of follow-up: what it answers, shows, writes and refuses."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import math
import re
import sys
from dataclasses import replace
from html import escape
from types import SimpleNamespace

import numpy as np
import pytest

import discreet
from discreet.data.edges import Edges, Uniform, Warped
from discreet.errors import IgnoredWarning, InputError
from discreet.estimate.estimate import Estimate
from discreet.metrics.timed_table import TIMED
from discreet.noise.laplace import LaplaceNoise
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Unbounded
from discreet.report.evaluation import Source
from discreet.report.record import Made
from discreet.report.timed import TimedEvaluations, timed_result
from discreet.report.timed_evaluation import TimedEvaluation
from discreet.report.timed_page import _decision_frame, survival_svg
from discreet.report.tracking import timed_of
from timed_oracle import aalen_johansen, auc_of_cause, tabulate

CLAIM = Claim(None, Unbounded(), Trust.SUM_ONLY, True, "simulated", ("x",), ("y",))
CUTS = np.array([0.0, 90.0, 180.0, 365.0, 540.0, 730.0])
EDGES = Edges.realise(Warped(32, 1.25), thresholds=[0.2])


def counted(seed: int = 0, n: int = 1500, *, predicts: float | None = 365.0, **options):
    rng = np.random.default_rng(seed)
    rate = 0.3 * np.exp(0.9 * rng.normal(size=n))
    time = 365 * rng.exponential(size=n) / rate
    when = rng.uniform(100, 1500, size=n)
    event = (time <= when).astype(float)
    seen, score = np.minimum(time, when), 1 - np.exp(-rate)
    counts = tabulate(score, seen, event, edges=EDGES, cuts=CUTS, **options)
    return replace(counts, predicts=predicts)


@pytest.fixture(scope="module")
def result() -> TimedEvaluation:
    return TimedEvaluation.of(counted(), CLAIM, Source(3, 3), [365, 730])


def test_measures_are_asked_for_by_horizon(result):
    assert 0.6 < result.auc(365).value < 0.9
    assert result.auc(730).value != result.auc(365).value
    assert result.brier(365).value == result.at(365)["brier"].value
    assert 0.6 < result.concordance.value < 0.9
    assert 0.6 < result.uno.value < 0.9
    assert result.at_risk[0.0] == 1500
    assert list(result.auc_over_time) == CUTS[1:].tolist()
    assert result.net_benefit(365, 0.2).value > 0
    with pytest.raises(InputError, match="horizons are cuts"):
        result.auc(400)


def test_the_horizon_may_be_left_out_where_the_scores_name_one(result):
    assert result.brier().value == result.brier(365).value
    no_risk = TimedEvaluation.of(
        counted(predicts=None), CLAIM, Source(1, 1), [365, 730]
    )
    with pytest.raises(InputError, match="which horizon: 365, 730"):
        no_risk.auc()


def test_risks_by_one_horizon_are_not_judged_at_another(result):
    assert "risks by 365, not by 730" in (result.brier(730).unusable or "")
    with pytest.raises(InputError, match="risks by 365"):
        result.calibration(730)
    with pytest.raises(InputError, match="risks by 365"):
        result.net_benefit(730)
    unsaid = TimedEvaluation.of(counted(predicts=None), CLAIM, Source(1, 1), [365])
    assert "does not say" in (unsaid.brier(365).unusable or "")


def test_every_metric_of_two_classes_can_be_asked_for(result):
    found = result.measure("average_precision", 365)
    assert 0 < found.interval().low < found.value < found.interval().high < 1
    assert result.at(365)["ici"].value < 0.1


def test_the_text_has_every_table_the_assumption_and_the_claim(result):
    text = str(result)
    for word in (
        "by 365",
        "by 730",
        "events up to 730",
        "Harrell",
        "Number at risk: 1,500 at time 0",
    ):
        assert word in text
    assert text.count("independent censoring") == 1
    assert text.endswith(str(CLAIM))
    assert "AUC by 90" in result.to_text(wide=True)
    assert repr(result).startswith("TimedEvaluation(AUC by 730")


def test_json_holds_plain_finite_values(result):
    values = json.loads(result.to_json())
    assert values["kind"] == "time to event"
    assert [h["horizon"] for h in values["horizons"]] == [365.0, 730.0]
    assert set(values["horizons"][0]["measures"]) < set(TIMED)
    assert len(values["auc_over_time"]) == 5
    assert {row["group"] for row in values["survival"]} >= {"everybody"}
    assert "unverifiable" in values


def test_rows_have_one_measure_and_horizon_each(result):
    frame = result.to_frame()
    assert not frame.duplicated(["horizon", "measure"]).any()
    row = frame[(frame.horizon == 365) & (frame.measure == "auc")].iloc[0]
    assert row.value == result.auc(365).value


def test_tables_are_those_of_patient_level_predictions_survival_type(result, tmp_path):
    written = result.exports.write(tmp_path)
    assert {p.name for p in written} >= {"measures.csv", "survival.csv", "decision.csv"}
    with (tmp_path / "plp/evaluationStatistics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["evaluation", "timepoint", "metric", "value"]
    values = {r["metric"]: float(r["value"]) for r in rows if r["timepoint"] == "365.0"}
    assert values["C-statistic"] == pytest.approx(result.concordance.value)
    assert values["Survival"] == pytest.approx(result.observed_risk(365).value)
    with (tmp_path / "plp/calibrationSummary.csv").open() as file:
        summary = list(csv.DictReader(file))
    assert sum(int(r["PersonCountAtRisk"]) for r in summary) == 1500


def test_small_groups_are_hidden_from_the_survival_tables(result, tmp_path):
    result.exports.write(tmp_path, min_cell_count=10_000)
    with (tmp_path / "plp/calibrationSummary.csv").open() as file:
        summary = list(csv.DictReader(file))
    assert {r["PersonCountAtRisk"] for r in summary} == {"-1"}
    assert {r["observedIncidence"] for r in summary} == {""}


@pytest.mark.parametrize("kind", ["km", "auc", "calibration", "decision"])
def test_every_plot_is_drawn_and_saved(result, kind, tmp_path):
    display = result.plot(kind, tmp_path / "plot.png")
    assert display.ax_.get_title(loc="left")
    assert (tmp_path / "plot.png").stat().st_size > 5_000


def test_a_decision_curve_names_its_references_and_leaves_out_what_is_undefined(
    result, monkeypatch
):
    curve = result.net_benefit(365)
    gone = len(curve.thresholds) // 2
    cut = list(curve.model)
    cut[gone] = Estimate.undefined("nobody")
    nothing = curve._replace(model=tuple(Estimate.undefined("x") for _ in cut))
    for shown, points in (
        (curve._replace(model=tuple(cut)), len(cut) - 1),
        (nothing, 0),
    ):
        monkeypatch.setattr(TimedEvaluation, "net_benefit", lambda *_, c=shown: c)
        frame = _decision_frame(result, 365, "d")
        assert [label.text for label in frame.labels] == ["treat all", "treat none"]
        assert len(frame.strokes[-1].x) == points
        assert 'd="ML' not in frame.svg()
        assert 'd="M"' not in frame.svg()
        (line,) = [
            line
            for line in result.plot("decision").ax_.get_lines()
            if line.get_label() == "the model"
        ]
        assert np.isfinite(line.get_ydata()).sum() == points


def test_an_unknown_plot_is_an_error_that_lists_the_others(result):
    with pytest.raises(InputError, match="auc, km, calibration, decision"):
        result.plot("roc")


def test_a_notebook_shows_the_table_the_curves_and_the_claim(result):
    html = result._repr_html_()
    assert html.count("<img") == 2
    assert "<details>" in html


def test_the_page_is_the_same_bytes_and_has_every_time_of_the_slider(result, tmp_path):
    exports = result.exports
    page = exports.html(Made("2026-01-01"))
    assert page == exports.html(Made("2026-01-01"))
    assert page.count("data-view=") == 5
    assert page.count('data-view="365">') == 1  # shown without scripts
    assert page.count(" hidden>") >= 4
    assert "at risk" in page
    assert "Calibration by 365" in page
    result.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 20_000


def test_a_median_follow_up_past_the_last_cut_is_not_said_of_most_examples(result):
    """Events end follow-up too: the median is of the reverse Kaplan-Meier curve."""
    page = result.exports.html(Made("2026-01-01"))
    assert "median beyond 730, counted up to 730" in page
    assert result.at_risk[730.0] < 1500 / 2


def test_numbers_at_risk_do_not_lie_on_each_other(result):
    """At cuts that are close together only one of them has numbers."""
    crowded = replace(counted(), cuts=np.array([0.0, 10.0, 20.0, 30.0, 540.0, 730.0]))
    for part, shown in (
        (result, [0, 180, 365, 540, 730]),
        (TimedEvaluation.of(crowded, CLAIM, Source(3, 3), [730]), [0, 540, 730]),
    ):
        svg = survival_svg(part.kaplan_meier(), "km")
        marks = re.findall(r'y="379" text-anchor="\w+">([\d,]+)<', svg)
        lowest = part.kaplan_meier()[0]
        known = dict(zip(lowest.times, lowest.at_risk, strict=True))
        assert marks == [f"{known[t]:,.0f}" for t in shown]


def test_the_page_allows_its_own_style_and_script_alone(result):
    page = result.exports.html(Made("2026-01-01"))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert escape(digest) in page
    assert "style=" not in page.split("</style>")[1]


def test_survival_of_risk_groups_can_be_cut_by_number_or_by_score(result):
    thirds = result.kaplan_meier(3)
    assert [c.at_risk[0] for c in thirds] == pytest.approx([500, 500, 500], rel=0.15)
    assert [c.survival[-1] for c in thirds] == sorted(
        (c.survival[-1] for c in thirds), reverse=True
    )
    low, high = result.kaplan_meier([0.2])
    assert low.name == "below 0.2"
    assert high.name == "0.2 or more"
    assert low.at_risk[0] + high.at_risk[0] == pytest.approx(1500)
    assert len(result.kaplan_meier(np.int64(3))) == 3
    for groups in ("a", ["a"], [math.nan], 0.2):
        with pytest.raises(InputError, match="or the scores that part them"):
            result.kaplan_meier(groups)


def test_a_noisy_release_shows_its_noise(tmp_path):
    rng = np.random.default_rng(3)
    counts = counted(n=5000, noise=LaplaceNoise(1.0), rng=rng)
    result = TimedEvaluation.of(counts, CLAIM, Source(3, 3), [365])
    assert result.auc(365).noise > 0
    assert "about" in str(result)
    result.save(tmp_path / "report.html")
    json.loads(result.to_json())


def test_a_refused_release_gives_a_result_that_says_why(tmp_path):
    counts = replace(counted(), refusal="a site sent what is no count")
    result = TimedEvaluation.of(counts, CLAIM, Source(3, 3), [365])
    assert math.isnan(result.auc(365).value)
    assert math.isnan(result.concordance.value)
    assert "Undefined: a site sent what is no count." in str(result)
    assert "median follow-up" not in str(result)
    result.save(tmp_path / "report.html")
    assert "no count" in (tmp_path / "report.html").read_text()
    json.loads(result.to_json())
    assert "<details>" in result._repr_html_()
    assert {path.stem for path in result.exports.write(tmp_path)} == {"measures"}


@pytest.mark.parametrize("examples", [-40.0, 0.0, 60.0])
def test_a_release_that_is_mostly_noise_says_so(examples, tmp_path):
    """Every cell's noise has a variance of nearly 2."""
    counts = counted()
    empty = replace(
        counts,
        events=0 * counts.events,
        censored=0 * counts.censored,
        beyond=np.full(len(EDGES), examples / len(EDGES)),
        noise=LaplaceNoise(1.0),
    )
    result = TimedEvaluation.of(empty, CLAIM, Source(3, 3), [365])
    assert "too few examples for this epsilon: the release counts" in str(result)
    assert math.isnan(result.observed_risk(365).value)
    result.save(tmp_path / "report.html")
    json.loads(result.to_json())


def test_a_mean_prediction_below_its_noise_has_no_ratio(tmp_path):
    counts = counted()
    lost = counts.beyond.copy()
    lost[:] = 0
    lost[0], lost[-1] = 4000, -1700
    low = replace(
        counts,
        events=0 * counts.events,
        censored=0 * counts.censored,
        beyond=lost,
        noise=LaplaceNoise(1.0),
    )
    result = TimedEvaluation.of(low, CLAIM, Source(3, 3), [365])
    ratio = result.measure("observed_expected", 365)
    assert "larger than the mean prediction" in (ratio.unusable or "")
    assert not math.isnan(result.observed_risk(365).value)
    result.save(tmp_path / "report.html")


def test_follow_up_that_ends_before_the_first_cut_gives_a_page_without_curves(tmp_path):
    """Times in years and horizons in days, say."""
    counts = counted()
    events, censored = 0 * counts.events, 0 * counts.censored
    events[..., 0], censored[:, 0] = 3, 40
    early = replace(counts, events=events, censored=censored, beyond=0 * counts.beyond)
    result = TimedEvaluation.of(early, CLAIM, Source(3, 3), [365])
    assert "nobody was followed past 365" in str(result)
    result.save(tmp_path / "report.html")
    for kind in ("km", "auc", "calibration", "decision"):
        result.plot(kind)


# -- several --------------------------------------------------------------------------


def test_groups_are_shown_side_by_side_and_together():
    tables = {"north": counted(1), "south": counted(2)}
    result = timed_result(tables, CLAIM, Source(3, 3), [365])
    assert isinstance(result, TimedEvaluations)
    assert set(result) == {"north", "south"}
    together = result.together()
    assert together.table.total == 3000
    assert len(together.table.events) == 2
    pooled = result.together(within_groups=False)
    assert len(pooled.table.events) == 1
    assert together.auc(365).value == pytest.approx(pooled.auc(365).value, abs=2e-3)
    assert "within each of the declared groups" in str(result)
    written = json.loads(result.to_json())
    assert written["kind"] == "time to event, groups"
    (by_365,) = written["pooled"]["horizons"]
    assert by_365["measures"]["auc"]["value"] == together.auc(365).value
    assert len(result.to_frame()) == 2 * (8 - 2 + 2)
    page = result.exports.html(Made("2026-01-01"))
    assert ">3,000<" in page  # of both groups


@pytest.mark.parametrize("noise", [None, LaplaceNoise(1.0)])
def test_a_group_of_nobody_is_left_out_of_all_groups_together(noise, tmp_path):
    rng = np.random.default_rng(4)
    tables = {
        "x": counted(2, n=0, noise=noise, rng=rng),
        "f": counted(1, noise=noise, rng=rng),
    }
    result = timed_result(tables, CLAIM, Source(3, 3), [365])
    together = result.together()
    assert together.auc(365).value == result["f"].auc(365).value
    assert any(note.startswith("x is left out: ") for note in together.notes)
    assert "x: undefined: " in str(result)
    assert result.plot("km").ax_.get_title(loc="left") == "Survival by risk group"
    assert "All groups together, without x;" in str(result)
    pooled = result.together(within_groups=False)
    assert pooled.table.total == pytest.approx(
        sum(p.table.total for p in result.values())
    )
    result.save(tmp_path / "report.html")
    told = "x: nothing can be told, and the pooled values leave it out: "
    assert told in (tmp_path / "report.html").read_text()
    json.loads(result.to_json())
    result.exports.write(tmp_path)


def test_groups_of_nobody_alone_are_undefined_together():
    tables = {name: counted(1, n=0) for name in "fm"}
    result = timed_result(tables, CLAIM, Source(3, 3), [365])
    assert "Undefined: the pooled data hold no examples." in str(result)
    assert math.isnan(result.together().auc(365).value)


def test_any_group_that_is_refused_refuses_all_groups_together():
    refused = replace(counted(2), refusal="a site sent what is no count")
    for tables in (
        {"a": counted(1), "b": refused},
        {"b": refused, "a": counted(1)},
    ):
        result = timed_result(tables, CLAIM, Source(3, 3), [365])
        assert result.together().table.refusal == "a site sent what is no count"
        assert "b: undefined: a site sent what is no count." in str(result)
        assert "b: AUC by 365" in result._repr_html_()


def test_horizons_with_their_own_scores_have_an_integrated_brier_score():
    tables = {f"{t:g}": counted(predicts=t) for t in (180.0, 365.0, 730.0)}
    result = timed_result(tables, CLAIM, Source(3, 3), [180, 365, 730], kind="horizons")
    scores = [result[n].brier(float(n)).value for n in result]
    expected = np.trapezoid(scores, [180, 365, 730]) / (730 - 180)
    assert result.integrated_brier.value == pytest.approx(expected)
    assert "integrated Brier score" in str(result)


def test_two_models_have_a_difference_whose_error_is_the_most_it_can_be():
    tables = {"a": counted(1), "b": counted(1)}
    result = timed_result(tables, CLAIM, Source(3, 3), [365], kind="models")
    found = result.difference("auc", 365)
    assert found.value == 0
    assert found.sampling == pytest.approx(2 * (result["a"].auc(365).sampling or 0))
    assert "the most" in (found.caution or "")
    with pytest.raises(InputError, match="only groups"):
        result.together()


@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_net_benefit_at_the_plans_thresholds_is_a_row(kind):
    rng = np.random.default_rng(1)
    risk, place = 0.05 + 0.9 * rng.random(1500), 0.25
    if kind == "logit":
        risk, place = np.log(risk / (1 - risk)), math.log(place / (1 - place))
    site = discreet.Examples(
        risk, time=rng.random(1500) * 4, event=rng.integers(0, 2, 1500), kind=kind
    )
    result = discreet.evaluate([site] * 2, horizons=[1, 3], thresholds=[place])
    found = result.rows(3.0)["net benefit at 0.25"]
    assert found.value == pytest.approx(result.net_benefit(3, 0.25).value)
    assert 0 < found.interval().high - found.interval().low < 0.2
    assert not any("net benefit" in title for title in result.rows(1.0))
    assert np.isclose(result.net_benefit(3).thresholds, 0.25).any()
    assert str(result).count("net benefit at 0.25") == 1
    assert "net benefit at 0.25" in result.exports.html(Made("2026-01-01"))


def test_every_form_is_logged_by_horizon_with_the_ends_of_its_intervals(monkeypatch):
    logged = []
    active = SimpleNamespace(info=SimpleNamespace(run_id="1"))
    fake = SimpleNamespace(
        active_run=lambda: active, log_metrics=logged.append, set_tags=lambda _: None
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    tables = {"a": counted(1), "b": counted(2)}
    one = TimedEvaluation.of(tables["a"], CLAIM, Source(3, 3), [365, 730])
    groups = timed_result(tables, CLAIM, Source(3, 3), [365])
    models = timed_result(tables, CLAIM, Source(3, 3), [365], kind="models")
    for result in (one, groups, models):
        assert result.log_mlflow(page=False) == "1"
    seconds = replace(tables["a"], cuts=86_400 * CUTS, predicts=None)
    year = TimedEvaluation.of(seconds, CLAIM, Source(3, 3), [31_536_000])
    assert "auc_by_31536000" in dict(timed_of(year.exports))
    low, high = one.auc(730).interval()
    assert logged[0]["auc_by_730"] == one.auc(730).value
    assert (logged[0]["auc_by_730_low"], logged[0]["auc_by_730_high"]) == (low, high)
    assert logged[1]["b/uno"] == groups["b"].uno.value
    assert logged[1]["concordance"] == groups.together().concordance.value
    difference = models.difference("auc", 365).value
    assert logged[2]["summary/AUC_ first less second"] == difference


# -- causes, groups and assumptions of real runs ------------------------------------------


def competing(n: int = 2400):
    """Return rows whose score predicts cause 1 well and cause 2 a little."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=n)
    first = rng.exponential(size=n) / (0.3 * np.exp(0.9 * z))
    second = rng.exponential(size=n) / (0.25 * np.exp(0.3 * z))
    when = rng.exponential(2.5, size=n)
    time = np.minimum(np.minimum(first, second), when)
    event = np.select([time == first, time == second], [1, 2], 0)
    return 1 / (1 + np.exp(-z)), time, event


@pytest.fixture(scope="module")
def two_causes():
    score, time, event = competing()
    sites = [
        discreet.Examples(score[i::3], time=time[i::3], event=event[i::3], causes=2)
        for i in range(3)
    ]
    with pytest.warns(discreet.DisclosureWarning):  # a fine table, near to the rows
        return discreet.evaluate(
            sites, horizons=[0.5, 1.5], edges=Uniform(200), intervals=40
        )


@pytest.mark.parametrize("cause", [1, 2])
@pytest.mark.parametrize("horizon", [0.5, 1.5])
def test_every_cause_has_its_risk_and_area(two_causes, cause, horizon):
    score, time, event = competing()
    of_it = two_causes.by_cause(horizon)[cause]
    risk = aalen_johansen(time, event, horizon, cause)
    assert of_it["observed_risk"].value == pytest.approx(risk, abs=5e-4)
    area = auc_of_cause(score, time, event, horizon, cause)
    assert of_it["auc"].value == pytest.approx(area, abs=3e-3)
    whole = two_causes.for_cause(cause)
    assert whole.auc(horizon).value == of_it["auc"].value
    assert whole.observed_risk(horizon).value == of_it["observed_risk"].value


def test_every_cause_is_in_the_text_and_in_json(two_causes):
    text, values = str(two_causes), json.loads(two_causes.to_json())
    for cause in (1, 2):
        shown = two_causes.by_cause(1.5)[cause]
        for title, name in (("observed risk", "observed_risk"), ("AUC", "auc")):
            line = rf"cause {cause}: {title} by 1.5 +{shown[name].value:.4f} "
            assert re.search(line, text)
            plain = values["horizons"][1]["causes"][cause - 1]
            assert plain["cause"] == cause
            assert plain["measures"][name]["value"] == shown[name].value
    assert "all measures of another cause: result.for_cause(2)" in text
    assert values["cause"] == 1
    assert "cause 2: AUC by 0.5" in two_causes.exports.html(Made("2026-01-01"))


def test_scores_are_no_risks_of_another_cause_and_only_the_first_is_verified(
    two_causes, tmp_path
):
    second = two_causes.for_cause(2)
    assert "risks of cause 1" in (second.brier(1.5).unusable or "")
    assert "Brier score  " not in str(second)
    assert "result.for_cause(1)" in str(second)
    values = json.loads(second.to_json())
    assert (values["cause"], values["release"]) == (2, None)
    assert values["calibration"] == values["decision"] == []
    assert "cause 2" in second.exports.html(Made("2026-01-01"))
    assert second._repr_html_()
    second.exports.write(tmp_path)
    assert "unverifiable" in values
    with pytest.raises(InputError, match="from 1 to 2"):
        two_causes.for_cause(3)


def test_groups_have_every_cause_too():
    tables = {name: counted(seed, causes=2) for seed, name in enumerate("ab")}
    result = timed_result(tables, CLAIM, Source(3, 3), [365])
    assert "cause 2: observed risk by 365" in str(result)
    second = result.for_cause(2)
    assert "Brier score by" not in str(second)
    assert second["a"].table.cause == second.together().table.cause == 1


def one_site(shape=1500):
    rng = np.random.default_rng(5)
    return discreet.Examples(
        rng.random(shape),
        time=rng.random(1500) * 4,
        event=rng.integers(0, 2, 1500),
        groups=rng.choice(["f", "m"], 1500),
    )


@pytest.mark.parametrize(
    ("shape", "remedy"),
    [(1500, r"name them with groups=\[\.\.\.\]"), ((1500, 2), "need one score column")],
)
def test_groups_that_nobody_asks_for_are_told_to_be_unused(shape, remedy):
    with pytest.warns(IgnoredWarning, match=f"groups are not used: .*{remedy}"):
        discreet.evaluate([one_site(shape=shape)] * 2, horizons=[1, 3])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("groups", [[], ["f", "m"]])
def test_independent_censoring_is_told_once(own, groups):
    """By the claim, or by a note where the claim of one's own data assumes nothing."""
    site = one_site()
    result = discreet.evaluate(
        site if own else [site] * 2, horizons=[1, 3], groups=groups
    )
    assert str(result).count("independent censoring") == 1
    page = re.sub(r"<script.*?</script>", "", result.exports.html(), flags=re.DOTALL)
    assert page.count("independent censoring") == 1


def test_the_claim_of_two_models_on_ones_own_data_promises_nothing():
    site = one_site(shape=(1500, 2))
    own, simulated = (
        discreet.compare(given, horizons=[1, 3], groups=[])
        for given in (site, [site] * 2)
    )
    assert own.claim.setting == "own data"
    assert simulated.claim.setting == "simulated"


@pytest.mark.parametrize("events", [(0, 0), (0, 1), (0, 2)])
def test_causes_without_events_are_undefined_with_the_reason(events, tmp_path):
    rng = np.random.default_rng(6)
    n = 1500
    time, event = rng.random(n) * 4, rng.choice(events, n)
    site = discreet.Examples(rng.random(n), time=time, event=event, causes=2)
    result = discreet.evaluate([site] * 2, horizons=[3])
    for cause in (1, 2):
        part = result.for_cause(cause)
        absent = cause not in events
        assert (part.observed_risk(3).value == 0) is absent
        for measure in (part.auc(3), part.concordance):
            assert math.isnan(measure.value) is absent
        part.save(tmp_path / "report.html")
        part.save(tmp_path / "report.json")
    assert "Note: a measure is undefined: the pooled data hold no positives." in str(
        result
    )
