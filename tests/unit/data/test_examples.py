import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Examples, InputError
from discreet.data.batches import BATCH_ROWS, RawBatch
from discreet.data.edges import Edges, Support, Uniform
from discreet.data.labels import LabelCode
from discreet.data.scores import ScoreRange
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, Grouped

SECRET = 0.31415926
EDGES = Edges.realise(Uniform(4))
HISTOGRAM = ClassHistogram(EDGES)


THIRDS = np.full((3, 3), 0.2)
LATE = np.full(3 * BATCH_ROWS, 0.5)
LATE[[5, BATCH_ROWS + 5, -1]] = 2
REMEDY = ("labels", "positive=", "classes=")
PETS = ["cat", "dog", "eel"]
LATE_LABELS = np.array(["a"] * BATCH_ROWS + ["b", "c"])


@pytest.mark.parametrize(
    ("scores", "labels", "options", "told"),
    [
        *(
            (
                [SECRET, bad, 0.5, bad],
                [0, 1, 1, 0],
                {},
                ("2 of 4 scores are outside [0, 1]", "kind='logit'"),
            )
            for bad in (-1e-300, np.nextafter(1, 2), np.inf)
        ),
        (
            [SECRET, np.nan, 0.5],
            [0, 1, 1],
            {},
            ("1 of 3 scores are missing or no number; leave out these rows",),
        ),
        (LATE, np.zeros(LATE.size), {}, ("3 of 196608",)),
        ([0.31415926, "x"], [0, 1], {}, ("text",)),
        (np.ma.masked_array([0.1, 0.2], [False, True]), [0, 1], {}, ("mask",)),
        ([np.nan], [1], {"kind": "logit"}, ("1 of 1",)),
        ([5.0], [1], {"kind": "other"}, ("low and high",)),
        ([0.5], [1], {"low": 0, "high": 10}, ("limits",)),
        *(
            ([SECRET, 0.2, 0.3], labels, {}, REMEDY)
            for labels in (
                *([0, 1, 2], [-1, 1, 1], [0.5, 0, 1]),
                *(["0", "1", "x"], [None, 1, 0]),
            )
        ),
        ([0.1, 0.2, 0.3], list("abc"), {"positive": "a"}, ("more than two values",)),
        (
            np.full(LATE_LABELS.size, 0.5),
            LATE_LABELS,
            {"positive": "c"},
            ("more than two values",),
        ),
        ([0.1, 0.2], ["a", None], {"positive": "a"}, ("1 of 2 labels are missing",)),
        (THIRDS, ["dog", "cat", "emu"], {"classes": PETS}, ("1 of 3 labels",)),
        (THIRDS[:2, :2], [0, 1], {"classes": [0, 1, 2]}, ("3 classes",)),
        ([0.1, 0.2], [0, 1, 1], {}, ("2 scores and labels of shape (3,)",)),
        ([0.1, 0.2], [0, 1], {"groups": ["a"]}, ("groups",)),
    ],
)
def test_what_does_not_fit_is_counted_with_its_remedy_and_not_echoed(
    scores, labels, options, told
):
    with pytest.raises(InputError) as caught:
        Examples(scores, labels, **options)
    message = str(caught.value)
    assert [part for part in told if part not in message] == []
    assert "31415" not in message, "a message must not echo data"
    assert "\n" not in message


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        ([0, 1, 1], None),
        ([0.0, 1.0, 1.0], None),
        ([False, True, True], None),
        (["0", "1.0", "true"], None),
        (["0", 1, True], None),
        (["2", 1.0, True], "1"),
        (["no", "yes", "yes"], "yes"),
        ([2, 1, 1], 1),
        ([2, 1, 1], "1"),
        ([-1, 1, 1], 1),
    ],
)
def test_two_labels_are_coded_0_and_1(labels, positive):
    site = Examples([0.1, 0.2, 0.3], labels, positive=positive)
    assert site.to_arrays()[1].tolist() == [0, 1, 1]


def test_classes_are_coded_in_their_order():
    site = Examples(THIRDS, ["dog", "cat", "eel"], classes=PETS)
    assert site.to_arrays()[1].tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        ([], {}),
        ([0.0, 1.0], {}),
        ([5.0], {"kind": "other", "low": 0, "high": 10}),
        ([-np.inf, np.inf, 0.0], {"kind": "logit"}),
    ],
    ids=["empty", "both ends", "other", "infinite logits"],
)
def test_one_class_and_empty_sites_are_valid_and_the_ends_of_a_range_inside(
    scores, options
):
    site = Examples(scores, [0] * len(scores), **options)
    assert len(site) == sum(len(batch) for batch in site.batches()) == len(scores)


def test_data_changed_behind_our_back_is_validated_again():
    scores = np.array([0.1, 0.2])
    site = Examples(scores, [0, 1])
    scores[0] = 7.0
    with pytest.raises(InputError, match="1 of 2 scores"):
        list(site.batches())


@given(st.integers(0, 3), st.integers(-2, 2))
def test_batches_are_re_iterable_and_hold_every_row_once(batches, more):
    rows = max(batches * BATCH_ROWS + more, 0)
    site = Examples(np.linspace(0, 1, rows) if rows else [], np.zeros(rows))
    for _ in range(2):
        found = [batch.scores[0] for batch in site.batches()]
        joined = np.concatenate(found) if found else np.zeros(0)
        np.testing.assert_array_equal(joined, site.to_arrays()[0])
        assert joined.size == rows


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_narrow_scores_are_widened_exactly(dtype):
    scores = np.array([0, 1, 1], dtype=dtype)
    assert Examples(scores, [0, 1, 1]).to_arrays()[0].tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("high", [1.0, 0.7])
def test_one_look_at_the_bits_finds_the_scores_outside(high, rng):
    scores = ScoreRange() if high == 1 else ScoreRange.declare("other", 0.0, high)
    good = [0.0, -0.0, 5e-324, 0.5, high, np.nextafter(high, 0)]
    bad = [-5e-324, -0.5, -np.inf, np.inf, np.nan, -np.nan, np.nextafter(high, 2)]
    for stranger in [*good, *bad]:
        column = rng.uniform(0, high, 50)
        column[7] = stranger
        expected = int(not 0 <= stranger <= high)
        assert scores.outside(column) == expected
        assert scores.outside(np.repeat(column, 2)[::2]) == expected
        assert scores.outside(column[:0]) == 0


@pytest.mark.parametrize("kind", ["i1", "i8", "u1", "u8"])
def test_one_look_at_the_bits_finds_labels_other_than_0_and_1(kind):
    for stranger in (0, 1, 2, 3, 64, 127, *((-1, -128) if kind[0] == "i" else ())):
        labels = np.array([0, 1, 1, stranger], dtype=kind)
        site = Examples([0.1, 0.2, 0.3, 0.4], labels, check=False)
        if stranger in (0, 1):
            assert site.validate() == 4
        else:
            with pytest.raises(InputError, match="1 of 4 labels"):
                site.validate()


# -- rows that do not fit: judged one by one, never refused -------------------------


def raw(scores, labels, groups=None, subjects=None, code=None):
    """Examples whose rows nobody has checked, as a file gives them."""
    columns = RawBatch(
        (np.asarray(scores, dtype=object),),
        np.asarray(labels, dtype=object),
        None if groups is None else np.asarray(groups, dtype=object),
        None if subjects is None else np.asarray(subjects, dtype=object),
    )
    return Examples.from_source(
        lambda: iter([columns]), labels=code or LabelCode(), scores=ScoreRange()
    )


def test_scores_outside_the_range_go_to_its_nearer_end():
    site = raw([-3.0, 0.1, 7.0, np.inf], [0, 0, 1, 1])
    with pytest.raises(InputError):
        HISTOGRAM.count(site)
    counts = HISTOGRAM.count(site.fitted())
    assert counts.tolist() == [2, 0, 0, 0, 0, 0, 0, 2]


SUPPORT = ClassHistogram(Edges.realise(Support((0.0, 0.5, 1.0))))
NO_NUMBERS = [None, "high", np.nan, 0.9, 0.9]


@pytest.mark.parametrize(
    ("statistic", "columns", "aside"),
    [
        (HISTOGRAM, ([0.1, *NO_NUMBERS], [0, 0, 0, 0, None, 7]), 5),
        (SUPPORT, ([0.0, 0.4, 0.5, 1.0], [0, 0, 1, 1]), 1),
        (Grouped(HISTOGRAM, ("a", "b")), ([0.1, 0.2, 0.3], [0, 1, 1], "abx"), 1),
        (Grouped(HISTOGRAM, ("a", "other")), ([0.1, 0.2, 0.3], [0, 1, 1], "abx"), 0),
    ],
    ids=["no score or label", "outside the support", "unknown group", "other group"],
)
def test_rows_without_a_place_are_left_out_and_counted(statistic, columns, aside):
    site = raw(*map(list, columns)).fitted()
    assert statistic.count(site).sum() == len(columns[0]) - aside
    assert site.set_aside == aside


def test_a_row_without_a_subject_is_left_out_under_that_unit():
    site = raw([0.1, 0.2, 0.3], [0, 1, 1], subjects=["p", None, "p"]).fitted()
    unit = Unit("subject", "add_remove", 5)
    assert HISTOGRAM.count(bounded(site, unit)).sum() == 2


def test_no_row_decides_about_another():
    """Sensitivity under the rule, by brute force: any one row moves one cell."""
    rng = np.random.default_rng(3)
    odd_scores = [0.1, 0.6, -1.0, None, "x", np.nan, 2.0]
    odd_labels = ["yes", "no", "maybe", None, 3]
    code = LabelCode(positive="yes")
    for _ in range(300):
        rows = [
            (odd_scores[rng.integers(7)], odd_labels[rng.integers(5)]) for _ in range(6)
        ]
        whole = HISTOGRAM.count(raw(*zip(*rows, strict=True), code=code).fitted())
        for i in range(len(rows)):
            less = rows[:i] + rows[i + 1 :]
            part = HISTOGRAM.count(raw(*zip(*less, strict=True), code=code).fitted())
            moved = np.abs(whole - part).sum()
            assert moved <= HISTOGRAM.sensitivity(EXAMPLE).l1


@pytest.mark.parametrize(
    "kind", [bool, np.int8, np.uint16, np.int64, np.float32, object]
)
@pytest.mark.parametrize("width", [np.float32, np.float64, object])
def test_rows_that_fit_count_alike_beside_one_that_does_not(kind, width):
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 500).astype(bool).astype(kind)
    scores = rng.random(500).astype(np.float32).astype(width)
    alone = HISTOGRAM.count(Examples(scores, labels, check=False).fitted())
    assert np.array_equal(alone, HISTOGRAM.count(Examples(scores, labels)))
    beside = Examples(
        np.append(scores, width(np.nan) if width is not object else None),
        np.append(labels, kind(1) if kind is not object else True),
        check=False,
    ).fitted()
    assert np.array_equal(HISTOGRAM.count(beside), alone)
    assert beside.set_aside == 1
