"""The HTML report: one file, escaped, the same bytes every time."""

import base64
import hashlib
import html
import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import ModelRef
from discreet.report.explorer import Explorer
from discreet.report.fairness import MEASURES
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
    page = Outline(text)
    assert page.open == []
    assert page.loads == []
    assert page.tags.count("script") == 3  # the release, the numbers, the script
    assert page.tags.count("figure") == 4
    words = re.sub(r"\s+", " ", " ".join(page.words))
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
    assert Outline(text).tags.count("figure") == 4  # each holds both groups
    assert '<th scope="col">largest gap</th>' in text
    assert "AUC, old" in text
    fair = found.fairness(0.5)
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
    gaps = re.findall(r"<td data-gap=\"\w+\"><b>[\d.]+</b> <span>(.*?)</span>", text)
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
