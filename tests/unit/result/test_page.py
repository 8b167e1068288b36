"""The HTML report: one file, escaped, the same bytes every time."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, NotYet, Zero
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import ModelRef, Plan
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Unbounded
from discreet.result.page import Page, Section, render
from discreet.runtime.simulation import run

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


@pytest.fixture(scope="module")
def result() -> discreet.Evaluation:
    rng = np.random.default_rng(3)
    scores = rng.random(4000)
    site = discreet.Examples(scores, rng.random(4000) < scores)
    plan = discreet.recommend(
        PublicFacts(4000, 0.5), discreet.DistributedDP(epsilon=1.0)
    )
    named = Plan(
        plan.privacy, plan.rounds, plan.thresholds, model=ModelRef("<b>sepsis</b> & co")
    )
    found = run(named, [site], entropy=Seeded(b"report"))
    assert isinstance(found, discreet.Evaluation)
    return found


def test_the_report_is_one_file_that_loads_nothing(
    result: discreet.Evaluation, tmp_path: Path
) -> None:
    result.save(tmp_path / "report.html")
    page = Outline((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert page.loads == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == 3
    said = re.sub(r"\s+", " ", " ".join(page.words))
    assert f"{result.auc.value:.4f}" in said
    assert "1-DP for one example added or removed" in said
    assert result.plan.digest().hex() in said


def test_a_model_name_cannot_break_out_of_the_page(
    result: discreet.Evaluation, tmp_path: Path
) -> None:
    result.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>sepsis" not in text
    assert "&lt;b&gt;sepsis&lt;/b&gt; &amp; co" in text


def test_the_same_result_gives_the_same_bytes(
    result: discreet.Evaluation, tmp_path: Path
) -> None:
    result.save(tmp_path / "a.html")
    result.save(tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_json_and_text_are_saved_by_their_suffix(
    result: discreet.Evaluation, tmp_path: Path
) -> None:
    result.save(tmp_path / "r.json")
    result.save(tmp_path / "r.txt")
    saved = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert saved["metrics"]["auc"]["value"] == result.auc.value
    assert (tmp_path / "r.txt").read_text(encoding="utf-8") == (
        result.to_text(wide=True) + "\n"
    )


def test_another_suffix_is_refused_and_nothing_written(
    result: discreet.Evaluation, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"\.html, \.json or \.txt"):
        result.save(tmp_path / "r.pdf")
    assert list(tmp_path.iterdir()) == []


def test_an_undefined_metric_says_so() -> None:
    claim = Claim(None, Unbounded(), Trust.SUM_ONLY, True, "simulated", ("x",), ("y",))
    nothing = Section(
        {"Areas": {"AUC": Estimate.undefined("one class")}}, "0 of 1 sites"
    )
    assert ">undefined</td>" in render(Page("Empty", (nothing,), claim))


def test_groups_share_one_report(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(3000)
    site = discreet.Examples(
        scores,
        rng.random(3000) < scores,
        groups=np.where(rng.random(3000) < 0.4, "old", "young"),
    )
    found = discreet.evaluate(
        [site],
        privacy=discreet.DistributedDP(epsilon=5.0),
        groups=["old", "young"],
    )
    found.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert Outline(text).tags.count("svg") == 6
    assert "<h2>old</h2>" in text


def test_limits_without_a_sampling_error_are_not_called_an_interval() -> None:
    claim = Claim(None, Unbounded(), Trust.SUM_ONLY, True, "simulated", ("x",), ("y",))
    exact = Estimate(0.9, NotYet(), Zero(), Binning(0.9, 0.9, 0.0))
    text = render(Page("Exact", (Section({"Areas": {"AUC": exact}}, ""),), claim))
    assert '<th scope="col">binning limits</th>' in text
    assert '<th scope="col">95% interval</th>' not in text
