"""The report in a real browser: its numbers, its keyboard, its silence, its readers."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import discreet
from browser.devtools import AXE, Browser, chromium
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.report.plan_page import plan_page

MEASURES = ("recall", "specificity", "precision", "npv", "alert_rate", "net_benefit")
LOOKS = ("desktop", "tablet", "phone", "print")
A4 = 703
"""Pixels that its margins leave of a sheet."""
FURTHER = (
    *("per-site", "grouped-models", "labels", "timed", "timed-groups"),
    *("long-models", "long-groups"),
)


def _data():
    rng = np.random.default_rng(11)
    y = rng.random(12_000) < 0.2
    s = 1 / (1 + np.exp(-rng.normal(2.2 * y - 2, 1)))
    other = np.clip(s + rng.normal(0, 0.15, 12_000), 0, 1)
    group = np.where(rng.random(12_000) < 0.4, "65 and older", "younger")
    return s, other, y, group


@pytest.fixture(scope="module")
def result():
    s, _, y, _ = _data()
    sites = {
        name: discreet.Examples(s[i::3], y[i::3])
        for i, name in enumerate(("north", "south", "east"))
    }
    return discreet.evaluate(
        sites,
        privacy="distributed",
        epsilon=1,
        examples=12_000,
        prevalence=0.2,
        thresholds=[0.3],
        name="sepsis-demo",
    )


@pytest.fixture(scope="module")
def shown(result):
    s, other, y, group = _data()
    groups = discreet.evaluate(
        [discreet.Examples(s, y, groups=group)],
        privacy="distributed",
        epsilon=1,
        groups=["65 and older", "younger"],
    )
    models = discreet.compare(
        [discreet.Examples(np.column_stack([s, other]), y)],
        privacy="distributed",
        epsilon=1,
        names=("new", "old"),
    )
    sites = discreet.evaluate(
        [discreet.Examples(s[i::12], y[i::12]) for i in range(12)],
        heterogeneity=["auc", "log_oe"],
    )
    rare = discreet.evaluate(
        [discreet.Examples(s / 20, np.random.default_rng(2).random(s.size) < s / 20)],
        privacy="distributed",
        epsilon=1,
        examples=12_000,
        prevalence=0.01,
    )
    return {
        "one": result,
        "groups": groups,
        "models": models,
        "sites": sites,
        "rare": rare,
        **_further_kinds(),
    }


def _further_kinds():
    """Rows per site, models in groups, labels, and follow-up with and without groups."""
    s, other, y, group = _data()
    place = np.array(["north", "University Hospital South", "east", "west", "coast"])
    frame = pd.DataFrame({"y_score": s, "y_true": y.astype(int), "p": other})
    frame["hospital"], frame["second"] = place[np.arange(s.size) % 5], y[::-1] * 1
    noisy = {"privacy": "distributed", "epsilon": 2}
    rng = np.random.default_rng(12)
    died, left = rng.exponential(4 / (0.2 + s)), rng.uniform(0, 8, s.size)
    time, event = np.minimum(died, left), died <= left
    followed = {"horizons": [2, 5], "examples": 12_000, "prevalence": 0.3, **noisy}
    both = np.column_stack([s, other])
    return {
        "per-site": discreet.evaluate(
            frame[["y_score", "y_true", "hospital"]], site="hospital"
        ),
        "grouped-models": discreet.compare(
            [discreet.Examples(both, y, groups=group)],
            names=("new", "old"),
            groups=["65 and older", "younger"],
            **noisy,
        ),
        "long-models": discreet.compare(
            [discreet.Examples(both, y)],
            names=("new_" * 15, "a model of 2019"),
            **noisy,
        ),
        "long-groups": discreet.evaluate(
            [
                discreet.Examples(
                    s, y, groups=np.where(group == "younger", "W" * 90, "m")
                )
            ],
            groups=["W" * 90, "m"],
            **noisy,
        ),
        "labels": discreet.evaluate(
            [frame.drop(columns="hospital")],
            labels=["y_true", "second"],
            scores=["y_score", "p"],
            **noisy,
        ),
        "timed": discreet.evaluate(
            [discreet.Examples(s, time=time, event=event)], **followed
        ),
        "timed-groups": discreet.evaluate(
            [discreet.Examples(s, time=time, event=event, groups=group)],
            groups=["65 and older", "younger"],
            **followed,
        ),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory, shown):
    folder = tmp_path_factory.mktemp("pages")
    for name, found in shown.items():
        found.save(folder / f"{name}.html")
    privacy = discreet.DistributedDP(0.5)
    plan = recommend(PublicFacts(3000, 0.1), privacy, cohort=privacy.cohort(3))
    text = plan_page(plan, sites=3, auc=0.8, repetitions=2)
    (folder / "plan.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if chromium() is None or not AXE.exists():
        pytest.fail("no chromium or axe-core: run tests/browser/install.sh")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def _shown(tab):
    """The numbers that the page shows, as it holds them."""
    return tab.js(
        "Object.fromEntries([...document.querySelectorAll('[data-measure]"
        '[data-part="0"]\')].map(c => [c.dataset.measure, '
        "[c.dataset.value, c.dataset.low, c.dataset.high].map(Number)]))"
    )


def _threshold(tab):
    return tab.js(
        "JSON.parse(document.getElementById('explorer-data').textContent)"
        ".thresholds[Number(document.getElementById('threshold').value)]"
    )


def _slide(tab, place):
    tab.js(
        f"(() => {{ const s = document.getElementById('threshold'); s.value = {place};"
        "s.dispatchEvent(new Event('input')); })()"
    )


def test_the_slider_shows_what_the_library_says(browser, files, result):
    tab = browser.open(files / "one.html")
    last = int(tab.js("document.getElementById('threshold').max"))
    for place in (0, last // 5, last // 2, 4 * last // 5, last):
        _slide(tab, place)
        at = result.at(_threshold(tab))
        for name, shown in _shown(tab).items():
            expected = (at[name].value, *at[name].interval())
            assert shown == pytest.approx(expected, abs=1e-9), (place, name)
        for count in ("true_positives", "false_negatives"):
            value = tab.js(
                f"document.querySelector('[data-count={count}]').dataset.value"
            )
            assert float(value) == pytest.approx(at[count].value, rel=1e-9)
    assert set(_shown(tab)) == set(MEASURES)


def _gap(tab, name):
    return tab.js(
        f"(() => {{ const d = document.querySelector('[data-gap={name}]').dataset;"
        "return [d.value, d.low, d.high].map(Number); })()"
    )


def test_the_slider_moves_the_gaps_and_their_intervals(browser, files, shown):
    tab = browser.open(files / "groups.html")
    _slide(tab, 12)
    at = shown["groups"].fairness(_threshold(tab))
    for name in MEASURES:
        expected = at.largest(name)
        known = (expected.value, *expected.interval())
        assert _gap(tab, name) == pytest.approx(known, abs=1e-9), name
    tab = browser.open(files / "models.html")
    _slide(tab, 12)
    apart = shown["models"].differences(_threshold(tab))
    for name in MEASURES:
        known = (apart[name].value, *apart[name].interval())
        assert _gap(tab, name) == pytest.approx(known, abs=1e-9), name


def test_the_points_on_the_pictures_are_there_too(browser, files, result):
    tab = browser.open(files / "one.html")
    _slide(tab, 40)
    at = result.at(_threshold(tab))
    place = tab.js(
        "['cx', 'cy'].map(a => Number(document.querySelector("
        "'svg[data-plot=roc] .marker').getAttribute(a)))"
    )
    expected = (
        46 + 300 * (1 - at["specificity"].value),
        10 + 300 * (1 - at["recall"].value),
    )
    assert place == pytest.approx(expected, abs=1e-9)


def _marker(tab, plot, part):
    """Where a marker stands, in the picture's own numbers."""
    return tab.js(
        f'(() => {{ const m = document.querySelector(\'svg[data-plot="{plot}"]'
        f" .marker[data-part=\"{part}\"]'), d = m.closest('svg').dataset;"
        "const [left, top, side] = d.box.split(' ').map(Number);"
        "const [x0, x1] = d.x.split(' ').map(Number);"
        "const [y0, y1] = d.y.split(' ').map(Number);"
        "return [x0 + (m.getAttribute('cx') - left) / side * (x1 - x0),"
        "y0 + (1 - (m.getAttribute('cy') - top) / side) * (y1 - y0)]; })()"
    )


def test_the_points_of_groups_and_of_differences_follow_the_slider(
    browser, files, shown
):
    tab = browser.open(files / "groups.html")
    _slide(tab, 14)
    t = _threshold(tab)
    for k, part in enumerate(shown["groups"].values()):
        at = part.at(t)
        assert _marker(tab, "pr", k) == pytest.approx(
            (at["recall"].value, at["precision"].value), abs=1e-9
        )
        assert _marker(tab, "decision", k) == pytest.approx(
            (t, at["net_benefit"].value), abs=1e-9
        )
    tab = browser.open(files / "models.html")
    _slide(tab, 14)
    t = _threshold(tab)
    gap = shown["models"].difference("recall", at=t).value
    found = _marker(tab, "difference recall", 0)
    assert found == pytest.approx((t, gap), abs=1e-9)


def test_the_pooled_row_moves_with_the_slider(browser, files, shown):
    tab = browser.open(files / "groups.html")
    _slide(tab, 9)
    at = shown["groups"].pooled.at(_threshold(tab))
    for name in MEASURES:
        found = tab.js(
            f"(() => {{ const d = document.querySelector('[data-measure={name}]"
            '[data-part="2"]\').dataset;'
            "return [d.value, d.low, d.high].map(Number); })()"
        )
        expected = (at[name].value, *at[name].interval())
        assert found == pytest.approx(expected, abs=1e-9), name


def test_a_forests_numbers_and_places_are_those_of_the_library(browser, files, shown):
    tab = browser.open(files / "groups.html")
    rows = tab.js(
        "[...document.querySelector('.forest').querySelectorAll('tbody tr:not(.axis)')]"
        ".map(r => [r.querySelector('th').textContent, "
        "r.querySelector('.number').textContent])"
    )
    forest = shown["groups"].forest("auc")
    assert [name.lower() for name, _ in rows] == [
        row.name.lower() for row in (*forest.rows, forest.pooled)
    ]
    for (_, text), row in zip(rows, (*forest.rows, forest.pooled), strict=True):
        assert text == f"{row.estimate:.3f} {row.low:.3f} to {row.high:.3f}"
    # The dashed line of the pooled value stands at one place in every row.
    places = tab.js(
        "[...new Set([...document.querySelector('.forest')"
        ".querySelectorAll('.dashed')].map(l => l.getBoundingClientRect().left))].length"
    )
    assert places == 1


def test_another_prevalence_is_bayes_rule_and_marked(browser, files, result):
    tab = browser.open(files / "one.html")
    at = result.at(_threshold(tab))
    se, sp, t, p = at["recall"].value, at["specificity"].value, at.threshold, 0.03
    tab.js(
        "(() => { const p = document.getElementById('prevalence'); p.value = '3';"
        "p.dispatchEvent(new Event('input')); })()"
    )
    shown = {name: values[0] for name, values in _shown(tab).items()}
    alarms = se * p + (1 - sp) * (1 - p)
    assert shown["precision"] == pytest.approx(se * p / alarms, abs=1e-9)
    clear = sp * (1 - p) + (1 - se) * p
    assert shown["npv"] == pytest.approx(sp * (1 - p) / clear, abs=1e-9)
    benefit = se * p - (1 - sp) * (1 - p) * t / (1 - t)
    assert shown["net_benefit"] == pytest.approx(benefit, abs=1e-9)
    assert shown["recall"] == pytest.approx(se, abs=1e-9)
    marked = tab.js(
        "[...document.querySelectorAll('.reweighted')].map(c => c.dataset.measure)"
    )
    assert marked == ["precision", "npv", "alert_rate", "net_benefit"]
    assert not tab.js("document.getElementById('reweighted-note').hidden")
    tab.js("document.getElementById('prevalence-reset').click()")
    assert _shown(tab)["precision"][0] == pytest.approx(at["precision"].value, abs=1e-9)


def test_the_keyboard_alone_is_enough(browser, files):
    tab = browser.open(files / "one.html")
    before = _threshold(tab)
    for _ in range(3):
        tab.press("Tab")
        if tab.js("document.activeElement.id") == "threshold":
            break
    assert tab.js("document.activeElement.id") == "threshold"
    tab.press("ArrowRight")
    assert _threshold(tab) > before
    said = tab.js("document.getElementById('said').textContent")
    assert f"{_threshold(tab):.4g}" in said
    tab.press("Tab")
    assert tab.js("document.activeElement.id") == "threshold-number"
    tab.js("document.activeElement.select()")
    for key in "0.7":
        tab.press(key, text=key)
    tab.press("Enter", text="\r")
    assert _threshold(tab) == pytest.approx(0.7, abs=0.006)


@pytest.mark.parametrize("page", ["one", "groups", "models", "sites", "rare"])
def test_no_error_and_no_request_leaves_the_page(browser, files, page):
    tab = browser.open(files / f"{page}.html")
    _slide(tab, 3)
    assert tab.complaints() == []
    outside = [url for url in tab.requests() if not url.startswith(("file:", "data:"))]
    assert outside == []


@pytest.mark.parametrize(
    ("page", "media"),
    [
        ("one", {}),
        ("one", {"dark": True}),
        ("one", {"phone": True}),
        ("groups", {}),
        ("groups", {"phone": True}),
        ("models", {"dark": True}),
        ("models", {"phone": True}),
        ("sites", {}),
        ("rare", {}),
        ("plan", {}),
        *((page, {"phone": k % 2 == 1}) for k, page in enumerate(FURTHER)),
    ],
)
def test_no_serious_barrier_for_readers_with_disabilities(browser, files, page, media):
    tab = browser.open(files / f"{page}.html", **media)
    tab.js(AXE.read_text(encoding="utf-8") + "; true")
    found = tab.js(
        "axe.run().then(r => r.violations.map(v => [v.impact, v.id, "
        "v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3)]))"
    )
    assert [v for v in found if v[0] in ("serious", "critical")] == []


def test_the_planners_sliders_say_their_predictions(browser, files):
    tab = browser.open(files / "plan.html")
    tab.js(
        "(() => { const s = document.getElementById('epsilon'); s.value = 0;"
        "s.dispatchEvent(new Event('input')); })()"
    )
    said = tab.js("document.getElementById('epsilon-said').textContent")
    assert said.startswith("0.05: ")
    assert "Do not run" in said
    assert tab.complaints() == []


@pytest.mark.parametrize(
    ("page", "look"),
    [
        *product(["one", "groups", "models", "sites", "rare"], LOOKS),
        *product(FURTHER, LOOKS),
    ],
)
def test_no_table_or_picture_is_wider_than_the_screen(browser, files, page, look):
    width = {"desktop": 1280, "tablet": 820, "phone": 390, "print": A4}[look]
    tab = browser.open(
        files / f"{page}.html",
        width=width,
        phone=look == "phone",
        paper=look == "print",
    )
    tab.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.js("document.documentElement.scrollWidth") <= width
    outside = tab.js(
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('pre')"
        " && !(e.closest('svg') && e.tagName !== 'text')"
        f" && e.getBoundingClientRect().right > {width} + 1"
        " && !e.closest('.marker')).map(e => e.tagName + ' ' + e.textContent.slice(0, 40))"
    )
    assert outside == []
    narrow = tab.js(
        "[...document.querySelectorAll('.interval')]"
        ".filter(e => e.getBoundingClientRect().width < 60).length"
    )
    assert narrow == 0


@pytest.mark.parametrize(("high", "threshold"), [(100_000, 12_345), (1, 0.12345)])
def test_a_threshold_is_written_in_full(browser, tmp_path, high, threshold):
    s, _, y, _ = _data()
    frame = pd.DataFrame({"y_score": high * s, "y_true": y})
    found = discreet.evaluate(
        frame, kind="other", low=0, high=high, thresholds=[threshold]
    )
    found.save(tmp_path / "other.html")
    for scripts in (True, False):
        tab = browser.open(tmp_path / "other.html", scripts=scripts)
        text = tab.js("document.querySelector('[data-threshold]').textContent")
        assert text == str(threshold)


@pytest.mark.filterwarnings("ignore::discreet.UndefinedMetricWarning")
@pytest.mark.parametrize("classes", ["one group", "none"])
def test_groups_without_positives_break_no_script_and_no_picture(
    browser, tmp_path, classes
):
    s, _, y, group = _data()
    kept = ~y if classes == "none" else ~y | (group == "younger")
    frame = pd.DataFrame({"y_score": s, "y_true": y, "group": group})[kept]
    discreet.evaluate(frame, group="group").save(tmp_path / "page.html")
    tab = browser.open(tmp_path / "page.html")
    if classes == "one group":
        _slide(tab, 3)
        pooled = "document.querySelectorAll('[data-measure=recall]').length"
        assert tab.js(pooled) == 2
    assert tab.complaints() == []


def test_a_sheet_of_paper_has_the_tables_of_a_desktop(browser, files):
    tab = browser.open(files / "groups.html", width=A4, paper=True)
    heading = "getComputedStyle(document.querySelector('.stack thead')).display"
    assert tab.js(heading) == "table-header-group"
    folded = (
        "document.querySelector('details:not(.plan) table').getBoundingClientRect()"
    )
    assert tab.js(f"{folded}.height") > 100


def test_heterogeneity_is_on_the_first_screen_where_it_was_asked_for(browser, files):
    tab = browser.open(files / "sites.html", width=1280, height=900)
    bottom = tab.js("document.querySelector('.forest').getBoundingClientRect().bottom")
    assert bottom <= 900


def test_without_scripts_the_pictures_and_tables_are_there(browser, files, result):
    tab = browser.open(files / "one.html", scripts=False)
    html = tab.ask("DOM.getDocument", depth=-1)
    found = tab.ask("DOM.getOuterHTML", nodeId=html["root"]["nodeId"])["outerHTML"]
    assert 'id="controls" hidden' in found
    assert f"<b>{result.at(0.3).recall:.3f}</b>" in found
    assert found.count('class="marker c0"') == 3
