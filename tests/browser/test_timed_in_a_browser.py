"""The report of follow-up in a real browser: its slider shows one time, and nothing is sent."""

from dataclasses import replace

import numpy as np
import pytest

from browser.devtools import AXE, Browser, chromium
from discreet.data.edges import Edges, Warped
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import Unbounded
from discreet.report.evaluation import Source
from discreet.report.timed_evaluation import TimedEvaluation
from timed_oracle import tabulate

CLAIM = Claim(None, Unbounded(), Trust.SUM_ONLY, True, "simulated", ("x",), ("y",))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    rate = 0.3 * np.exp(0.9 * rng.normal(size=1500))
    time, when = 365 * rng.exponential(size=1500) / rate, rng.uniform(100, 1500, 1500)
    event = (time <= when).astype(float)
    edges, cuts = Edges.realise(Warped(32, 1.25)), np.array([0.0, 90, 180, 365, 730])
    counts = tabulate(
        1 - np.exp(-rate), np.minimum(time, when), event, edges=edges, cuts=cuts
    )
    result = TimedEvaluation.of(
        replace(counts, predicts=365.0), CLAIM, Source(3, 3), [365, 730]
    )
    path = tmp_path_factory.mktemp("timed") / "timed.html"
    result.save(path)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if chromium() is None or not AXE.exists():
        pytest.fail("no chromium or axe-core: run tests/browser/install.sh")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def _views(tab):
    return tab.js(
        "[...document.querySelectorAll('[data-view]')].filter(v => !v.hidden)"
        ".map(v => v.dataset.view)"
    )


def test_the_slider_shows_one_time_after_the_other(browser, page):
    tab = browser.open(page)
    assert _views(tab) == ["365"]
    marks = "[...document.querySelectorAll('.ticks text{}')].map(t => t.textContent)"
    assert tab.js(marks.format("")) == ["90", "180", "365", "730"]
    assert tab.js(marks.format(".planned")) == ["365", "730"]
    for place, time in enumerate(("90", "180", "365", "730")):
        tab.js(
            "(() => { const s = document.querySelector('[data-times] input');"
            f"s.value = {place}; s.dispatchEvent(new Event('input')); }})()"
        )
        assert _views(tab) == [time]
        assert tab.js("document.querySelector('[data-said]').textContent") == time


def test_the_page_asks_nobody_and_breaks_no_rule_of_its_policy(browser, page):
    tab = browser.open(page)
    assert tab.complaints() == []
    assert all(url.startswith("file:") for url in tab.requests())


@pytest.mark.parametrize("media", [{}, {"dark": True}, {"phone": True}])
def test_no_serious_barrier_for_readers_with_disabilities(browser, page, media):
    tab = browser.open(page, **media)
    tab.js(AXE.read_text(encoding="utf-8") + "; true")
    found = tab.js(
        "axe.run().then(r => r.violations.map(v => [v.impact, v.id, "
        "v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3)]))"
    )
    assert [v for v in found if v[0] in ("serious", "critical")] == []
