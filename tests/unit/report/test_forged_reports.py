"""Every leaf, key, word and attribute of a report is forged, one at a time: all are noticed.

A report is computed again once for each kind of result. The forged files go through
``verify`` itself: what is put in its place is the computation alone, whose outcome depends
on nothing but the record, and a record that was changed fails before it.
"""

import copy
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import discreet
from discreet.data.edges import Uniform
from discreet.errors import ReleaseError
from discreet.report.record import Made, digest, plan_of, result_from
from discreet.report.verification import _Report, compare_documents, verify
from forged_reports import Forged, forged_documents, forged_pages

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
]

SAMPLED = 24
"""How many forgeries of each kind the ordinary run tries; the slow one tries all."""


def _sites(count, columns=1, *, grouped=False):
    rng = np.random.default_rng(4)
    scores = rng.random((600, columns))
    labels = rng.random(600) < scores[:, 0]
    groups = np.where(rng.random(600) < 0.5, "f", "m")
    return [
        discreet.Examples(
            scores[i::count].squeeze(),
            labels[i::count],
            groups=groups[i::count] if grouped else None,
        )
        for i in range(count)
    ]


def _classes():
    rng = np.random.default_rng(7)
    scores = rng.dirichlet([1, 1, 1], 600)
    labels = np.array(["a", "b", "c"])[
        (rng.random((600, 1)) > scores.cumsum(1)).sum(1).clip(0, 2)
    ]
    return [discreet.Examples(scores, labels, classes=["a", "b", "c"])] * 2


EDGES = Uniform(6)
RESULTS = {
    "binary": lambda: discreet.evaluate(
        _sites(3), privacy="distributed", epsilon=2, edges=EDGES, thresholds=[0.5]
    ),
    "groups": lambda: discreet.evaluate(
        _sites(3, grouped=True),
        privacy="distributed",
        epsilon=4,
        groups=["f", "m"],
        edges=EDGES,
    ),
    "classes": lambda: discreet.evaluate(
        _classes(), classes=["a", "b", "c"], multiclass="ovo", edges=EDGES
    ),
    "models": lambda: discreet.compare(
        _sites(3, 2), privacy="distributed", epsilon=4, names=("new", "old")
    ),
    "sites": lambda: discreet.evaluate(_sites(12), heterogeneity=True, edges=EDGES),
    "random groups": lambda: discreet.evaluate(
        _sites(6), privacy="distributed", epsilon=4, random_groups=3, edges=EDGES
    ),
}
FORMS = ("json", "html")


@pytest.fixture(scope="module")
def texts() -> dict[tuple[str, str], str]:
    found = {}
    for name, make in RESULTS.items():
        result = make()
        found[name, "json"] = json.dumps(result.exports.to_dict(Made("2026-01-01")))
        found[name, "html"] = result.exports.html(Made("2026-01-01"))
    return found


def every_forgery(text: str, form: str, *, whole: bool) -> Iterator[Forged]:
    if form == "json":
        return forged_documents(text)
    return forged_pages(text, code=whole)


def compute_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``verify`` find a report as it was computed again, which holds."""
    true = text if text.startswith("<") else json.loads(text)
    found = verify(text)
    assert found.holds
    assert found.same_bytes == text.startswith("<")
    monkeypatch.setattr(_Report, "again", lambda *_: copy.copy(true))
    record = _Report.read(text).record
    assert record is not None
    whole, plan = json.dumps(record), plan_of(record)
    monkeypatch.setattr(
        "discreet.report.verification.plan_of",
        lambda found: plan if json.dumps(found) == whole else plan_of(found),
    )


def unnoticed(
    text: str, forgeries: Iterator[Forged], monkeypatch: pytest.MonkeyPatch
) -> tuple[Counter[str], list[str]]:
    """Return how many files were forged, by what was, and which passed."""
    compute_once(text, monkeypatch)
    tried: Counter[str] = Counter()
    passed = []
    for forged in forgeries:
        tried[forged.what] += 1
        try:
            outcome = verify(forged.text()).holds
        except ReleaseError:
            outcome = False
        if outcome:
            passed.append(f"{forged.what} at {forged.where}")
    return tried, passed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RESULTS)
def test_forgeries_all_over_a_report_are_noticed(texts, name, form, monkeypatch):
    text = texts[name, form]
    every = list(every_forgery(text, form, whole=name == "binary"))
    by_kind: dict[str, list[Forged]] = {}
    for forged in every:
        by_kind.setdefault(forged.what, []).append(forged)
    most = SAMPLED // len(by_kind)
    chosen = [
        alike[k * len(alike) // most]
        for alike in by_kind.values()
        for k in range(min(most, len(alike)))
    ]
    tried, passed = unnoticed(text, iter(chosen), monkeypatch)
    assert len(tried) > 5
    assert passed == []


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RESULTS)
def test_every_forgery_is_noticed(texts, name, form, monkeypatch):
    text = texts[name, form]
    every = every_forgery(text, form, whole=name == "binary")
    tried, passed = unnoticed(text, every, monkeypatch)
    sys.stdout.write(f"{name}, {form}: {sum(tried.values())} {dict(tried)}\n")
    assert passed == []


def test_a_true_number_under_a_path_as_key_hides_no_false_one(texts):
    document = json.loads(texts["binary", "json"])
    true = document["metrics"]["auc"]["value"]
    document["metrics"]["auc"]["value"] = 0.99
    document["metrics.auc.value"] = true
    with pytest.raises(ReleaseError, match=r"metrics\.auc\.value does not follow"):
        verify(json.dumps(document))


@pytest.mark.parametrize(
    ("true", "forged"), [(1, True), (0, False), (1, 1.0), (1.0, 1)]
)
def test_values_of_other_types_are_no_equals(true, forged):
    assert compare_documents({"a": [true]}, {"a": [true]}).words == ()
    assert compare_documents({"a": [forged]}, {"a": [true]}).words == ("a[0]",)


@pytest.mark.parametrize("key", ["claim", "notes", "metrics", "thresholds"])
def test_what_was_deleted_is_missed(texts, key):
    document = json.loads(texts["binary", "json"])
    del document[key]
    with pytest.raises(ReleaseError, match=f"{key} does not follow"):
        verify(json.dumps(document))


def test_a_sentence_in_the_place_of_the_day_is_noticed(texts):
    text = texts["binary", "html"]
    forged = text.replace("2026-01-01", "2026-01-01, approved by the regulator")
    assert forged != text
    with pytest.raises(ReleaseError, match="digest does not match"):
        verify(forged)
    page = texts["binary", "html"].replace("2026-01-01", "2026-01-02")
    with pytest.raises(ReleaseError, match="digest does not match"):
        verify(page)


@pytest.mark.parametrize(
    "change",
    [
        {"on": "approved by the regulator"},
        {"on": "20260101"},
        {"on": 3},
        {"NumPy": "2.0, approved"},
        {"Python": 3},
        {"by": "us"},
    ],
)
def test_an_unsigned_record_has_no_place_for_sentences_either(texts, change):
    document = json.loads(texts["binary", "json"])
    record = document["release"]
    record["made"] |= change
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="day and versions were damaged"):
        verify(json.dumps(document))


def _headline(text):
    """Return the first big number of a page."""
    return re.search(r'<div class="big">(0\.[0-9]{3})</div>', text)


def _printed(text: str, **versions: str) -> str:
    """Return a page as other versions print it: these stand in its record and on it."""
    record = _Report.read(text).record
    assert record is not None
    made = Made.from_dict(record["made"] | versions)
    return result_from(record, plan_of(record)).exports.html(made)


def test_a_reader_with_another_numpy_still_compares_every_word(texts, monkeypatch):
    text = _printed(texts["binary", "html"], NumPy="1.99")
    assert "<dt>NumPy</dt><dd>1.99</dd>" in text
    compute_once(text, monkeypatch)
    for word, other in [
        ("How well", "How badly"),
        ('class="big"', 'class="hid"'),
        ("3 of 3", "9 of 9"),
    ]:
        assert word in text
        with pytest.raises(ReleaseError):
            verify(text.replace(word, other, 1))


def test_numbers_that_another_numpy_rounds_otherwise_agree_and_others_are_told(
    texts, monkeypatch
):
    text = _printed(texts["binary", "html"], NumPy="1.99")
    compute_once(text, monkeypatch)
    full = re.search(r"0\.[0-9]{11,}", text[text.index("explorer-data") :])
    assert full is not None
    moved = repr(float(full.group()) * (1 + 1e-8))
    found = verify(text.replace(full.group(), moved))
    assert found.holds
    assert not found.same_bytes
    big = _headline(text)
    last = f"{float(big.group(1)) + 0.001:.3f}"
    told = verify(text.replace(big.group(), f'<div class="big">{last}</div>'))
    assert not told.holds
    assert re.match(
        r"Computed here, 1 of its numbers, first a number in line \d+ of the page came out "
        r"otherwise; all words agree\. It was made with NumPy 1\.99 instead of ",
        told.sentences()[0],
    )
    precise = text.replace(big.group(1), f"{big.group(1)}000", 1)  # nobody computed it
    assert not verify(precise).holds


def test_a_last_digit_that_the_same_versions_print_otherwise_was_changed(texts):
    text = texts["binary", "html"]
    big = _headline(text)
    last = f"{float(big.group(1)) + 0.001:.3f}"
    with pytest.raises(ReleaseError, match=r"a number in line \d+ of the page does"):
        verify(text.replace(big.group(1), last, 1))


def test_what_another_version_of_discreet_wrote_is_compared_as_far_as_it_goes(
    texts, monkeypatch
):
    text = _printed(texts["binary", "html"], discreet="9.9")
    compute_once(text, monkeypatch)
    worded = verify(text.replace("How well", "How badly", 1))
    assert not worded.holds
    assert re.search(
        r"made with discreet 9\.9, and this is .* of its numbers agree to one part in a "
        r"million, and its words differ in 1 place, first line \d+ of the page\. Verify it "
        r"with discreet 9\.9\.",
        worded.sentences()[0],
    )
    shorter = verify(text.replace("</header>", "</header>\n\n", 1))
    assert "neither its words nor its numbers" in shorter.sentences()[0]
    big = _headline(text)
    moved = verify(text.replace(big.group(), '<div class="big">0.999</div>', 1))
    assert not moved.holds
    assert "1 of its numbers are not what this version computes" in moved.sentences()[0]


def test_a_drawn_interval_that_was_moved_is_a_forgery(texts):
    own = texts["sites", "html"]
    drawn = re.search(r'<line class="reach" x1="([0-9.]+)%"', own)
    assert drawn is not None
    moved = drawn.group().replace(drawn.group(1), "12.34")
    with pytest.raises(ReleaseError, match=r"a number in line \d+ of the page does"):
        verify(own.replace(drawn.group(), moved))
