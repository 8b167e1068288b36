"""A cell's text depends on that cell alone."""

import itertools
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet.data.cells import canonical, equal, number, numbers, texts
from discreet.data.edges import Edges, Uniform
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, Grouped, OneVsRest
from discreet.statistic.site_sums import SiteSums
from discreet.statistic.weighted import Weighted
from fuzzing import draws

PLAIN = ClassHistogram(Edges.realise(Uniform(4)))
ONES = [1, 1.0, True, "1", "1.0", " 1 ", "+1", "true", b"1", np.int8(1), np.float32(1)]
ONES += [np.bool_(True), np.str_("1"), Decimal("1.00"), Fraction(1), 1 + 0j, "1e+0"]
MISSING = [None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT"), "", "  ", "NA", "null"]
MISSING += ["NaN", b"\xff", "\ud800", [1], (1,), {}, Decimal("NaN"), Decimal("sNaN")]
TEXTS = {
    "0": [0, -0.0, "-0", False, "FALSE"],
    "0.1": [0.1, "0.10", "1.0e-1", Decimal("0.1")],
    "100000000000000000000": [10**20, 1e20, "1e+20", "1.0E20"],
    str(2**63 + 1): [2**63 + 1, np.uint64(2**63 + 1), str(2**63 + 1)],
    "007": ["007"],
    "1E5": ["1E5"],
    "1e400": ["1e400"],
    "inf": [math.inf, "inf", np.float16("inf")],
    "2025-01-31": [
        date(2025, 1, 31),
        datetime(2025, 1, 31),  # noqa: DTZ001 - a column without a zone
        datetime(2025, 1, 31, 1, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2025-01-31"),
        np.datetime64("2025-01-31", "ns"),
        "2025-01-31 00:00:00",
        "2025-01-31T00:00:00.000",
    ],
    "2025-01-31 12:30:00.5": [
        datetime(2025, 1, 31, 12, 30, 0, 500_000, tzinfo=UTC),
        np.datetime64("2025-01-31T12:30:00.500", "ns"),
        "2025-01-31T12:30:00.500",
    ],
    "é": ["é", " é", "é".encode()],
}


def test_whole_numbers_floats_truths_and_texts_are_one():
    assert {canonical(value) for value in ONES} == {"1"}


@pytest.mark.parametrize("text", TEXTS)
def test_values_of_different_types_have_one_text(text):
    assert [canonical(value) for value in TEXTS[text]] == [text] * len(TEXTS[text])


def test_what_is_missing_has_no_text():
    assert [canonical(value) for value in MISSING] == [None] * len(MISSING)


class Broken:
    """A cell whose text cannot be made."""

    def __str__(self):
        raise RuntimeError


ODD = [*ONES, *MISSING, *itertools.chain(*TEXTS.values()), 10**5000, -(10**5000)]
ODD += [Broken()]
ODD += [Decimal("1e5000"), np.timedelta64(3, "s"), timedelta(1), "1" * 5000, 0.5, "a"]


def test_a_text_is_its_own_text():
    for value in ODD:
        text = canonical(value)
        assert canonical(text) == text


@draws(200)
@given(st.floats() | st.integers() | st.text() | st.decimals() | st.booleans())
def test_no_value_fails_and_a_numbers_text_is_its_programs_text(value):
    text = canonical(value)
    assert canonical(text) == text
    if isinstance(value, int | float) and math.isfinite(value):
        assert canonical(str(value)) == text
    number(value)


@draws(100)
@given(st.lists(st.sampled_from(ODD), max_size=8), st.sampled_from(ODD))
def test_no_cell_of_a_column_decides_about_another(cells, odd):
    def column(values):
        made = np.empty(len(values), dtype=object)
        made[:] = values
        return made

    one, more = column(cells), column([*cells, odd])
    assert texts(more).tolist() == [*texts(one).tolist(), canonical(odd)]
    np.testing.assert_array_equal(numbers(more)[:-1], numbers(one))


@pytest.mark.parametrize(
    "column",
    [
        np.array([0, 1, 2], np.uint8),
        np.array([-1, 2**62], np.int64),
        np.array([2**64 - 1], np.uint64),
        np.array([0.0, -0.0, 1, 0.1, np.nan, np.inf, 2.0**53]),
        np.array([0.1, 1], np.float32),
        np.array([True, False]),
        np.array(["1.0", "a", "NA"]),
        np.array(["2025-01-31", "NaT"], "M8[ns]"),
    ],
)
def test_columns_of_numbers_are_compared_without_making_texts(column):
    wanted = ["0", "1", "-1", "0.1", "inf", "nan", str(2**62), str(2**64 - 1), "a"]
    for text in [*wanted, str(2**53), str(2**53 + 1), "2025-01-31", "1" * 999, "1.0"]:
        assert equal(column, text).tolist() == (texts(column) == text).tolist()


WARDS = Grouped(PLAIN, ("1", "2", "other"))
ROWS = 2000


def plain_rows(rng):
    return {
        "y_score": np.round(rng.random(ROWS), 3).tolist(),
        "y_true": rng.integers(0, 2, ROWS).tolist(),
        "ward": rng.integers(1, 3, ROWS).tolist(),
        "who": rng.integers(0, 700, ROWS).tolist(),
        "w": rng.integers(0, 4, ROWS).tolist(),
    }


def as_lists(columns):
    return discreet.Examples(
        columns["y_score"], columns["y_true"], groups=columns["ward"],
        subjects=columns["who"], weights=columns["w"], check=False,
    )  # fmt: skip


def as_arrays(columns):
    return as_lists({name: np.asarray(cells) for name, cells in columns.items()})


def as_series(columns):
    return as_lists({n: pl.Series(c, strict=False) for n, c in columns.items()})


def as_frame(columns):
    frame = pd.DataFrame(columns)
    return discreet.read(frame, group="ward", subject="who", weight="w")


@pytest.mark.parametrize("made", [as_lists, as_arrays, as_series, as_frame])
@pytest.mark.parametrize(
    ("column", "odd"),
    [
        ("ward", None),
        ("ward", 1.5),
        ("ward", "elsewhere"),
        ("y_true", "unknown"),
        ("y_true", None),
        ("y_score", "high"),
        ("who", None),
        ("who", "p"),
        ("w", "many"),
    ],
)
def test_one_odd_row_moves_a_site_by_no_more_than_itself(made, column, odd, rng):
    """A frame's whole numbers become floats or text where one row has none."""
    columns = plain_rows(rng)
    added = {n: [*c, odd if n == column else c[0]] for n, c in columns.items()}
    person = Unit("subject", "add_remove", 2)
    for statistic, most in ((WARDS, 1), (Weighted(PLAIN, 3), 3)):
        one, more = (statistic.count(made(rows).fitted()) for rows in (columns, added))
        assert np.abs(more - one).sum() <= most
    if column == "who":
        one, more = (
            WARDS.count(bounded(made(rows).fitted(), person))
            for rows in (columns, added)
        )
        assert np.abs(more - one).sum() <= 2


def test_people_are_the_same_by_number_float_and_text_in_clusters_too(rng):
    statistic = SiteSums(PLAIN, clusters="subject")
    scores, labels = rng.random(60), rng.integers(0, 2, 60)
    who = rng.integers(0, 9, 60)
    found = [
        statistic.count(discreet.Examples(scores, labels, subjects=ids)).tolist()
        for ids in (who, who.astype(float), who.astype(str), list(who), who.tolist())
    ]
    mixed = [float(w) if k % 2 else str(w) for k, w in enumerate(who)]
    found.append(
        statistic.count(discreet.Examples(scores, labels, subjects=mixed)).tolist()
    )
    assert all(one == found[0] for one in found)


def test_ids_beyond_the_exact_floats_stay_apart_beside_one_that_is_missing():
    ids = [2**53 + 1, 2**53, None]
    for cells in (ids, pl.Series(ids), pa.array(ids)):
        held = discreet.Examples([0.1, 0.2, 0.3], [0, 1, 1], subjects=cells)
        (batch,) = held.batches()
        assert batch.subjects.tolist() == [str(2**53 + 1), str(2**53), None]


def test_a_frame_that_mixes_text_and_numbers_is_read_cell_by_cell():
    frame = pd.DataFrame(
        {
            "y_score": [0.1, "0.9", "high", 10**400],
            "y_true": [0, "1", True, "1.0"],
            "note": ["a", 1, None, b"b"],
        }
    )
    fitted = discreet.read(frame).fitted()
    assert PLAIN.count(fitted).tolist() == [1, 0, 0, 0, 0, 0, 0, 2]
    assert fitted.set_aside == 1
    with pytest.raises(InputError, match="1 of 4 scores are text and no numbers"):
        discreet.read(frame).validate()


@pytest.mark.parametrize("groups", [("1", "1.0"), ("a", "NA"), ("true", "1")])
def test_a_plan_names_no_group_or_class_twice_or_by_a_missing_value(groups):
    with pytest.raises(PlanError, match=r"distinct|missing"):
        Grouped(PLAIN, groups)
    with pytest.raises(PlanError, match=r"distinct|missing"):
        OneVsRest(PLAIN.edges, groups)
    with pytest.raises(InputError, match="distinct"):
        discreet.Examples([[0.1, 0.2]], ["a"], classes=groups)


def test_a_plan_may_write_a_group_another_way_than_a_column_does():
    held = discreet.Examples([0.1, 0.2, 0.3], [0, 1, 1], groups=[1, True, 0.5])
    assert Grouped(PLAIN, ("1.0", "0.50")).count(held).sum() == 3


def test_a_positive_label_is_no_missing_value():
    with pytest.raises(InputError, match="positive= names a missing value"):
        discreet.Examples([0.1], ["a"], positive="NA")


def test_classes_are_the_plans_by_their_texts():
    statistic = OneVsRest(PLAIN.edges, ("0", "1", "2"))
    scores = np.full((3, 3), 0.2)
    counts = [
        statistic.count(discreet.Examples(scores, labels, classes=classes)).tolist()
        for classes in ([0, 1, 2], [0.0, 1.0, 2.0], ["0", "1.0", "2"])
        for labels in ([0, 2, 1], ["0", "2", "1.0"], [0.0, 2.0, 1.0], ["0", 2, True])
    ]
    assert all(one == counts[0] for one in counts)


def test_no_text_depends_on_which_value_was_met_first():
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2025, 10, 26, 2, 30, tzinfo=berlin)
    for pair in ([10**400, Decimal("1e400")], [first, first.replace(fold=1)]):
        cells = np.empty(2, dtype=object)
        cells[:] = pair
        one, two = texts(cells), texts(cells[::-1])
        assert one.tolist() == two[::-1].tolist() == [canonical(v) for v in pair]
