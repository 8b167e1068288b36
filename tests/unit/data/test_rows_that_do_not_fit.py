"""Rows that do not fit a plan: handled row by row, never by a refusal."""

import numpy as np
import pytest

from discreet.data.batches import RawBatch
from discreet.data.edges import Edges, Support, Uniform
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.bounding import bounded
from discreet.statistic import ClassHistogram, Grouped

EDGES = Edges.realise(Uniform(4))


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
        ClassHistogram(EDGES).count(site)
    counts = ClassHistogram(EDGES).count(site.fitted())
    assert counts.tolist() == [2, 0, 0, 0, 0, 0, 0, 2]


def test_rows_without_a_score_or_a_label_are_left_out_and_counted():
    site = raw([0.1, None, "high", np.nan, 0.9, 0.9], [0, 0, 0, 0, None, 7]).fitted()
    assert ClassHistogram(EDGES).count(site).tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert site.set_aside == 5


def test_a_score_outside_the_support_is_left_out():
    support = Edges.realise(Support((0.0, 0.5, 1.0)))
    site = raw([0.0, 0.4, 0.5, 1.0], [0, 0, 1, 1]).fitted()
    assert ClassHistogram(support).count(site).tolist() == [1, 0, 0, 0, 1, 1]
    assert site.set_aside == 1


@pytest.mark.parametrize(("names", "kept"), [(("a", "b"), 2), (("a", "other"), 3)])
def test_an_unknown_group_is_left_out_or_counted_as_other(names, kept):
    statistic = Grouped(ClassHistogram(EDGES), names)
    site = raw([0.1, 0.2, 0.3], [0, 1, 1], groups=["a", "b", "x"]).fitted()
    assert statistic.count(site).sum() == kept


def test_a_row_without_a_subject_is_left_out_under_that_unit():
    site = raw([0.1, 0.2, 0.3], [0, 1, 1], subjects=["p", None, "p"]).fitted()
    unit = Unit("subject", "add_remove", 5)
    assert ClassHistogram(EDGES).count(bounded(site, unit)).sum() == 2


def test_no_row_decides_about_another():
    """Sensitivity under the rule, by brute force: any one row moves one cell."""
    rng = np.random.default_rng(3)
    odd_scores = [0.1, 0.6, -1.0, None, "x", np.nan, 2.0]
    odd_labels = ["yes", "no", "maybe", None, 3]
    code = LabelCode(positive="yes")
    statistic = ClassHistogram(EDGES)
    for _ in range(300):
        rows = [
            (odd_scores[rng.integers(7)], odd_labels[rng.integers(5)]) for _ in range(6)
        ]
        whole = statistic.count(raw(*zip(*rows, strict=True), code=code).fitted())
        for i in range(len(rows)):
            less = rows[:i] + rows[i + 1 :]
            part = statistic.count(raw(*zip(*less, strict=True), code=code).fitted())
            moved = np.abs(whole - part).sum()
            assert moved <= statistic.sensitivity(EXAMPLE).l1


@pytest.mark.parametrize(
    "kind", [bool, np.int8, np.uint16, np.int64, np.float32, object]
)
@pytest.mark.parametrize("width", [np.float32, np.float64, object])
def test_rows_that_fit_count_alike_beside_one_that_does_not(kind, width):
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 500).astype(bool).astype(kind)
    scores = rng.random(500).astype(np.float32).astype(width)
    statistic = ClassHistogram(EDGES)
    alone = statistic.count(Examples(scores, labels, check=False).fitted())
    assert np.array_equal(alone, statistic.count(Examples(scores, labels)))
    beside = Examples(
        np.append(scores, width(np.nan) if width is not object else None),
        np.append(labels, kind(1) if kind is not object else True),
        check=False,
    ).fitted()
    assert np.array_equal(statistic.count(beside), alone)
    assert beside.set_aside == 1
