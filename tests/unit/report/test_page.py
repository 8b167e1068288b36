"""The HTML report: one file, escaped, the same bytes every time."""

import base64
import hashlib
import html
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import ModelRef
from discreet.report import page
from discreet.report.explorer import Explorer
from discreet.report.fairness import MEASURES
from discreet.report.figures import Figures
from discreet.report.forest import ForestRow
from discreet.report.page import SECTIONS
from discreet.report.svg import interval_rows
from discreet.report.views import prevalence_of
from discreet.transport.simulation import run
from mpc_reference import Reference

pytestmark = pytest.mark.long

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Outline(HTMLParser):
    """Checks that tags nest and gathers what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [
            str(v)
            for k, v in attrs
            if k in {"src", "href", "xlink:href"} and not str(v).startswith("#")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def _site(seed, n, **more):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return discreet.Examples(scores, rng.random(n) < scores, **more)


@pytest.fixture(scope="module")
def result() -> discreet.Evaluation:
    plan = discreet.recommend(
        PublicFacts(4000, 0.5), discreet.DistributedDP(epsilon=1.0)
    )
    named = replace(plan, facts=PublicFacts(), model=ModelRef("<b>sepsis</b> & co"))
    return run(named, [_site(3, 4000)], entropy=Seeded(b"report"))


@pytest.fixture(scope="module")
def text(result):
    return result.exports.html()


def test_the_report_is_one_small_file_that_loads_nothing(result, text):
    outline = Outline(text)
    assert outline.open == []
    assert outline.loads == []
    assert outline.tags.count("script") == 3  # the release, the numbers, the script
    assert outline.tags.count("figure") == 4
    words = re.sub(r"\s+", " ", " ".join(outline.words))
    assert f"{result.auc.value:.4f}" in words
    assert "1-DP for one example added or removed" in words
    assert result.plan.digest().hex() in words
    assert len(text.encode()) < 400_000


def test_a_model_name_cannot_break_out_of_the_page(text):
    assert "<b>sepsis" not in text
    assert "&lt;b&gt;sepsis&lt;/b&gt; &amp; co" in text


def test_a_result_is_saved_by_its_suffix_with_the_same_bytes_each_time(
    result, tmp_path
):
    for name in ("a.html", "b.html", "r.json", "r.txt"):
        result.save(tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    saved = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert saved["metrics"]["auc"]["value"] == result.auc.value
    assert (tmp_path / "r.txt").read_text(encoding="utf-8") == (
        result.to_text(wide=True) + "\n"
    )
    with pytest.raises(InputError, match=r"\.html, \.json or \.txt"):
        result.save(tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
def test_an_undefined_metric_says_so():
    text = discreet.evaluate([discreet.Examples([0.2, 0.7], [1, 1])]).exports.html()
    assert "<b>undefined</b>" in text
    assert "the pooled data hold no negatives" in text
    assert Outline(text).tags.count("figure") == 0


def test_groups_share_one_report():
    groups = np.where(np.random.default_rng(6).random(3000) < 0.4, "old", "young")
    found = discreet.evaluate(
        [_site(5, 3000, groups=groups)],
        privacy=discreet.DistributedDP(epsilon=5.0),
        groups=["old", "young"],
    )
    text = found.exports.html()
    assert Outline(text).tags.count("figure") == 8  # small ones, four of each group
    assert '<th scope="col">largest gap</th>' in text
    lead = found.pooled.thresholds.lead().value
    for metric, at in (("auc", None), ("recall", lead), ("precision", lead)):
        forest = found.forest(metric, at=at)
        for row in (*forest.rows, forest.pooled):
            shown = f"<b>{row.estimate:.3f}</b> <span>{row.low:.3f} to {row.high:.3f}"
            assert shown in text, row
    assert text.count('class="diamond"') == 3
    fair = found.fairness(lead)
    for name, row in zip(MEASURES, fair.rows(), strict=False):
        low, high = fair.largest(name).interval()
        assert f"[{low:.3f}, {high:.3f}]" in text, name
        assert row["title"] in text
    data = Explorer(dict(found), lambda name, t: found.fairness(t).largest(name)).data()
    k = 3
    largest = found.fairness(data["thresholds"][k]).largest("recall")
    expected = (largest.value, *largest.interval())
    assert data["gaps"]["recall"][k] == pytest.approx(expected, abs=1e-11)


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
def test_a_group_that_tells_nothing_is_named_beside_the_gaps():
    rng = np.random.default_rng(5)
    scores = rng.random(3000)
    group = np.where(rng.random(3000) < 0.4, "old", "young")
    group[:30] = "few"
    labels = rng.random(3000) < scores
    labels[:30] = False
    with pytest.warns(discreet.UndefinedMetricWarning):
        found = discreet.evaluate(
            [discreet.Examples(scores, labels, groups=group)],
            edges=Uniform(20),
            groups=["old", "young", "few"],
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.UndefinedMetricWarning)
        text = found.exports.html()
    assert "<b>few</b> is unsure: the pooled data hold no positives" in text


def test_classes_share_examples_so_their_gap_has_no_interval():
    rng = np.random.default_rng(7)
    scores = rng.dirichlet([1, 1, 1], 3000)
    labels = np.array(["a", "b", "c"])[
        (rng.random((3000, 1)) > scores.cumsum(1)).sum(1).clip(0, 2)
    ]
    found = discreet.evaluate(
        [discreet.Examples(scores, labels, classes=["a", "b", "c"])],
        edges=Uniform(20),
        classes=["a", "b", "c"],
    )
    text = found.exports.html()
    gaps = re.findall(r"data-gap=\"\w+\"><b>[\d.]+</b> <span>(.*?)</span>", text)
    assert gaps
    assert set(gaps) == {""}
    assert "Gaps between groups" not in text


def test_limits_without_a_sampling_error_are_not_called_an_interval():
    plain = discreet.ExactMPC(interval=False)
    found = discreet.mpc.evaluate([_site(6, 400)] * 3, plain, engine=Reference())
    text = found.exports.html()
    assert '<th scope="col">binning limits</th>' in text
    assert '<th scope="col">95% interval</th>' not in text


def test_the_policy_allows_this_script_and_style_and_nothing_else(text):
    policy = re.search(r'Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = html.unescape(policy.group(1))
    assert "default-src 'none'" in allowed
    assert "unsafe" not in allowed
    for tag in ("style", "script"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert content is not None
        digest = hashlib.sha256(content.group(1).encode()).digest()
        assert f"sha256-{base64.b64encode(digest).decode()}'" in allowed
    assert " style=" not in text


def test_the_slider_holds_what_the_library_says(result):
    data = Explorer({"": result}).data()
    k = data["start"]
    at = result.at(data["thresholds"][k])
    for measure in data["measures"]:
        value, low, high = data["parts"][0][measure][k]
        assert value == pytest.approx(at[measure].value, abs=1e-11)
        assert (low, high) == pytest.approx(tuple(at[measure].interval()), abs=1e-11)


# -- the first screen --------------------------------------------------------------


def _rare(share, n=20_000, **asked):
    rng = np.random.default_rng(8)
    y = rng.random(n) < share
    centre = np.log(share / (1 - share))
    scores = 1 / (1 + np.exp(-rng.normal(centre + 1.5 * y, 1)))
    return discreet.evaluate([discreet.Examples(scores, y)], **asked)


@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
def test_a_rare_events_cards_are_at_the_prevalence_where_it_finds_somebody():
    found = _rare(0.01)
    assert found.at(0.5).recall < 0.02
    lead = found.thresholds.lead()
    observed = found.observed
    total = observed.total_positives + observed.total_negatives
    assert lead.value == float(f"{observed.total_positives / total:.2g}")
    text = found.exports.html()
    recall = found.at(lead.value).recall
    assert f"<h2>Sensitivity at {lead.value:g}, the prevalence</h2>" in text
    assert f'<div class="big">{recall:.3f}</div>' in text
    assert recall > 0.5


def test_a_threshold_that_the_plan_names_leads():
    found = _rare(0.01, thresholds=[0.2, 0.03])
    assert found.thresholds.lead() == (0.2, True)
    assert "<h2>Sensitivity at 0.2</h2>" in found.exports.html()


def test_logits_and_other_scores_lead_at_the_prevalence_too():
    rng = np.random.default_rng(9)
    y = rng.random(5000) < 0.1
    z = rng.normal(2.0 * y - 2, 1)
    logits = discreet.evaluate([discreet.Examples(z, y, kind="logit")])
    share = float(f"{y.mean():.2g}")
    expected = round(float(np.log(share / (1 - share))), 2)
    assert logits.thresholds.lead() == (expected, False)
    other = discreet.evaluate(
        [discreet.Examples(z, y, kind="other", low=-8, high=8)], thresholds=[]
    )
    cut = other.thresholds.lead().value
    assert np.mean(z >= cut) == pytest.approx(y.mean(), abs=0.01)
    for found in (logits, other):
        assert "the prevalence</h2>" in found.exports.html()


def test_without_its_record_an_exact_report_has_no_rate_that_the_plan_does_not_name():
    found = _rare(0.1, thresholds=[])
    whole, bare = found.exports.html(), found.exports.html(record=False)
    assert "the prevalence</h2>" in whole
    assert "the prevalence</h2>" not in bare
    assert "<h2>Average precision</h2>" in bare


def test_chance_is_marked_on_the_bars_of_auc_and_precision(result, text):
    places = re.findall(r'<line class="chance" x1="([\d.]+)%"', text)
    observed = result.observed
    share = observed.total_positives / (
        observed.total_positives + observed.total_negatives
    )
    assert [float(p) for p in places] == pytest.approx([50, 100 * share], abs=0.01)


def test_a_page_without_a_name_says_how_to_give_one(text):
    unnamed = _rare(0.3).exports.html()
    assert "<h1>Unnamed model</h1>" in unnamed
    assert "--name" in unnamed[: unnamed.index("</header>")]
    assert "--name" not in text[: text.index("</header>")]


def test_two_models_have_their_differences_around_zero():
    rng = np.random.default_rng(10)
    y = rng.random(4000) < 0.3
    first = 1 / (1 + np.exp(-rng.normal(2.0 * y - 1, 1)))
    other = np.clip(first + rng.normal(0, 0.2, 4000), 0, 1)
    found = discreet.compare(
        [discreet.Examples(np.column_stack([first, other]), y)],
        names=("new", "old"),
    )
    text = found.exports.html()
    gap = found.difference("auc")
    low, high = gap.interval()
    assert f"<b>{gap.value:+.3f}</b> <span>{low:+.3f} to {high:+.3f}</span>" in text
    assert text.count('data-plot="difference ') == 6
    assert text.count("dashed: no difference") == 6
    words = text[: text.index("What was promised")]
    assert words.count("Of two people") == 0  # no card twice with one sentence


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
def test_the_pooled_row_is_what_all_groups_together_give():
    groups = np.where(np.random.default_rng(6).random(3000) < 0.4, "old", "young")
    sites = [_site(5, 3000, groups=groups)]
    grouped = discreet.evaluate(sites, edges=Uniform(20), groups=["old", "young"])
    together = discreet.evaluate(sites, edges=Uniform(20), groups=[])
    for name in ("auc", "average_precision", "brier"):
        own, other = grouped.pooled.metrics[name], together.metrics[name]
        expected = (other.value, *other.interval())
        assert (own.value, *own.interval()) == pytest.approx(expected, abs=1e-12)


# -- pictures ----------------------------------------------------------------------


def test_the_decision_curves_axis_ends_at_the_prevalence_however_wide_the_band_is():
    sites = [_site(3, 300)]
    found = discreet.evaluate(sites, privacy=discreet.DistributedDP(0.3), examples=300)
    explorer = Explorer({"": found})
    frame = next(
        f.panels[0].frame
        for f in Figures(explorer).every()
        if f.title == "Decision curve"
    )
    widest = max(
        at["net_benefit"].interval().high
        for at in explorer.measured[0]
        if not np.isnan(at["net_benefit"].value)
    )
    share = prevalence_of(found.observed)
    assert widest > 1.3 * share  # the band would have squeezed the curve
    assert frame.y_range == pytest.approx((-0.22 * share, 1.08 * share))
    assert {label.text for label in frame.labels} == {"treat all", "treat none"}


def test_each_group_has_its_own_treat_all():
    rng = np.random.default_rng(6)
    group = np.where(rng.random(6000) < 0.5, "old", "young")
    share = np.where(group == "old", 0.4, 0.1)
    y = rng.random(6000) < share
    scores = np.clip(rng.normal(0.3 + 0.3 * y, 0.15), 0, 1)
    found = discreet.evaluate(
        [discreet.Examples(scores, y, groups=group)],
        edges=Uniform(20),
        groups=["old", "young"],
    )
    figures = Figures(Explorer(dict(found), pooled=found.pooled)).every()
    (decision,) = [f for f in figures if f.title == "Decision curve"]
    starts = [float(panel.frame.strokes[0].y[0]) for panel in decision.panels]
    shares = [prevalence_of(part.observed) for part in found.values()]
    assert starts == pytest.approx(shares)
    assert len({panel.frame.y_range for panel in decision.panels}) == 1
    assert len({panel.frame.x_range for panel in decision.panels}) == 1


def test_an_interval_far_wider_than_the_others_is_cut_and_has_arrows():
    rows = [
        ForestRow("a", 0.80, 0.78, 0.82),
        ForestRow("b", 0.82, 0.80, 0.84),
        ForestRow("few", 0.7, 0.1, 1.0),
        ForestRow("none", float("nan"), float("nan"), float("nan")),
        ForestRow("pooled", 0.81, 0.80, 0.82),
    ]
    drawn = interval_rows(rows, reference=0.81, whole=[4]).rows
    assert ["arrow" in row for row in drawn] == [False, False, True, False, False]
    assert ["diamond" in row for row in drawn] == [False, False, False, False, True]
    assert "circle" not in drawn[3]
    inside = float(re.search(r'class="reach" x1="([\d.]+)%', drawn[0]).group(1))
    assert 0 < inside < 100
    # Places follow the values: b begins where pooled does.
    begins = re.search(r'class="reach" x1="([\d.]+)%', drawn[1]).group(1)
    assert f'<svg x="{begins}%"' in drawn[4]


def test_the_sliders_ticks_do_not_touch_and_name_the_plans_threshold():
    ticks = Explorer({"": _rare(0.01, thresholds=[0.2])}).ticks
    places = [tick.place for tick in ticks]
    assert min(np.diff(places)) > 0.08
    assert [tick.label for tick in ticks if tick.planned] == ["0.2"]
    assert len(ticks) >= 5


def test_every_section_has_its_template_and_its_script():
    for section in SECTIONS:
        files = [f"{section.name}.html.j2", *filter(None, [section.script])]
        for file in files:
            assert (Path(page.__file__).parent / "templates" / file).exists()


# -- what a page says about its data -----------------------------------------------


def _words(text):
    body = re.sub(r"<(script|style|pre)[^>]*>.*?</\1>", " ", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def _own_columns(n=3000):
    rng = np.random.default_rng(12)
    scores = rng.random(n)
    return {
        "y_score": scores,
        "y_true": (rng.random(n) < scores).astype(int),
        "hospital": np.array(["north", "south", "east"])[np.arange(n) % 3],
    }


def _own(by_site):
    columns = pd.DataFrame(_own_columns())
    if by_site:
        return discreet.evaluate(columns, site="hospital")
    return discreet.evaluate(columns.drop(columns="hospital"))


def _followed(own):
    rng = np.random.default_rng(13)
    risk, left = rng.random(2000), rng.uniform(0, 8, 2000)
    died = rng.exponential(5 / (0.2 + risk))
    rows = discreet.Examples(risk, time=np.minimum(died, left), event=died <= left)
    return discreet.evaluate(rows if own else [rows, rows], horizons=[2, 5])


OWN = {
    "one frame": lambda: _own(by_site=False),
    "one frame by site": lambda: _own(by_site=True),
    "follow-up": lambda: _followed(own=True),
}


@pytest.fixture(scope="module")
def own_pages():
    with warnings.catch_warnings():
        warnings.simplefilter("error", discreet.DisclosureWarning)
        found = {name: make() for name, make in OWN.items()}
    return {
        name: [_words(each.exports.html(record=r)) for r in (True, False)]
        for name, each in found.items()
    }


@pytest.mark.parametrize("name", OWN)
def test_the_question_about_own_data_does_not_speak_of_sites_that_cannot_pool(
    own_pages, name
):
    words, _ = own_pages[name]
    assert "measured on own data, all in one place." in words
    assert "without pooling data" not in words
    assert "Sites 1 of 1" not in words


@pytest.mark.parametrize("name", OWN)
def test_the_box_about_own_data_promises_nothing_and_simulates_nothing(own_pages, name):
    words, _ = own_pages[name]
    assert "No privacy was promised" in words
    assert "nothing had to be hidden, and nothing is" in words
    for untrue in ("What was promised", "simulat", "costs no privacy", "was charged"):
        assert untrue not in words
    assert "every site agreed to" not in words


@pytest.mark.parametrize("name", OWN)
def test_the_notice_on_own_data_says_that_the_counts_are_in_the_file_and_no_more(
    own_pages, name
):
    whole, bare = own_pages[name]
    assert "This file holds exact counts of the rows by score and label" in whole
    assert "The exact counts of the rows are left out of this file" in bare
    for words in (whole, bare):
        assert "the sites revealed" not in words
        assert "only to those who may see them" not in words


@pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")
def test_data_of_several_sites_keep_their_question_promise_and_notice():
    for found in (discreet.evaluate([_site(1, 900)] * 2), _followed(own=False)):
        words = _words(found.exports.html())
        assert "over 2 sites, without pooling data" in words
        assert "What was promised" in words
        assert "as a simulation" in words
        assert "every number that the sites revealed" in words


def test_labels_have_their_own_positives_on_the_page():
    rng = np.random.default_rng(14)
    first, second = (rng.random(2000) < share for share in (0.1, 0.4))
    columns = {
        "effusion": first.astype(int),
        "fracture": second.astype(int),
        "p": np.clip(rng.normal(0.3 + 0.3 * first, 0.2), 0, 1),
        "q": np.clip(rng.normal(0.3 + 0.3 * second, 0.2), 0, 1),
    }
    rows = pd.DataFrame(columns)
    found = discreet.evaluate(rows, labels=["effusion", "fracture"], scores=["p", "q"])
    words = _words(found.exports.html())
    assert f"Positives {first.sum()} effusion, {second.sum()} fracture" in words
    assert "positives from negatives for each label" in words


def test_a_grouped_comparison_leads_with_the_verdict_and_the_counts_of_all_groups():
    rng = np.random.default_rng(15)
    y = rng.random(3000) < 0.3
    first = 1 / (1 + np.exp(-rng.normal(2.0 * y - 1, 1)))
    other = np.clip(first + rng.normal(0, 0.2, 3000), 0, 1)
    group = np.where(rng.random(3000) < 0.4, "old", "young")
    found = discreet.compare(
        [discreet.Examples(np.column_stack([first, other]), y, groups=group)],
        names=("new", "prior"),
        groups=["old", "young"],
    )
    text = found.exports.html()
    assert '<p class="verdict">pooled: ' in text
    words = _words(text)
    assert f"Examples 3,000 Positives {y.sum()}" in words
    assert "positives from negatives in each group, measured" in words
    assert re.search(r"Sensitivity at [\d.]+, new less prior", words)
