import numpy as np
import pytest

import discreet
from discreet import InputError
from discreet.data.edges import Edges, Uniform
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, OneVsRest

TWO = Unit("subject", "add_remove", max_examples=2)


def rows_of(examples):
    return sorted(
        (float(s), int(y), subject)
        for batch in examples.batches()
        for s, y, subject in zip(
            batch.scores[0], batch.labels, batch.subjects, strict=True
        )
    )


def site(scores, subjects, labels=None):
    labels = np.arange(len(scores)) % 2 if labels is None else labels
    return discreet.Examples(scores, labels, subjects=np.array(subjects, dtype=object))


def test_no_subject_keeps_more_than_its_share_and_small_ones_keep_all():
    full = site(np.linspace(0, 1, 9), list("aaaaabbcd"))
    kept = rows_of(bounded(full, TWO))
    counts = {s: sum(row[2] == s for row in kept) for s in "abcd"}
    assert counts == {"a": 2, "b": 2, "c": 1, "d": 1}


def test_removing_a_subject_changes_nobody_elses_rows(rng):
    scores, subjects = rng.random(400), rng.choice(list("abcdefghij"), 400)
    labels = rng.integers(0, 2, 400)
    whole = rows_of(bounded(site(scores, subjects, labels), TWO))
    for gone in "abcdefghij":
        rest = subjects != gone
        without = rows_of(
            bounded(site(scores[rest], subjects[rest], labels[rest]), TWO)
        )
        assert without == [row for row in whole if row[2] != gone]


def test_the_same_rows_are_kept_on_every_pass(rng):
    examples = bounded(site(rng.random(300), rng.choice(list("abc"), 300)), TWO)
    assert rows_of(examples) == rows_of(examples)


def test_rows_are_kept_with_equal_chances_wherever_they_stand():
    # 3,000 subjects of 5 rows each: every ordinal is kept in 2 of 5 of them.
    subjects = np.repeat(np.arange(3000), 5).astype(object)
    scores = np.tile(np.arange(5) / 5, 3000)
    kept = rows_of(bounded(site(scores, subjects), TWO))
    shares = [sum(row[0] == k / 5 for row in kept) / 3000 for k in range(5)]
    assert shares == pytest.approx([0.4] * 5, abs=0.05)


def test_a_client_is_all_that_a_site_holds():
    examples = discreet.Examples(np.linspace(0, 1, 50), np.zeros(50))
    most = Unit("client", "add_remove", max_examples=7)
    histogram = ClassHistogram(Edges.realise(Uniform(4)))
    assert histogram.count(bounded(examples, most)).sum() == 7


def test_examples_are_not_bounded():
    examples = discreet.Examples([0.1], [1])
    assert bounded(examples, EXAMPLE) is examples
    assert bounded(examples, None) is examples


def test_classes_and_groups_survive_bounding():
    examples = discreet.Examples(
        np.full((4, 3), 0.2),
        ["x", "y", "z", "x"],
        classes=["x", "y", "z"],
        subjects=[1, 1, 2, 2],
        groups=["f", "f", "m", "m"],
    )
    one = bounded(examples, Unit("subject", "add_remove", max_examples=1))
    statistic = OneVsRest(Edges.realise(Uniform(2)), ("x", "y", "z"))
    assert statistic.count(one).sum() == 2 * 3
    (batch,) = one.batches()
    assert sorted(batch.groups) == ["f", "m"]


def test_rows_without_a_subject_are_refused():
    with pytest.raises(InputError, match="no subject column"):
        bounded(discreet.Examples([0.1], [1]), TWO)
    with pytest.raises(InputError, match="1 of 2 rows name no subject"):
        bounded(site([0.1, 0.2], ["a", None]), TWO)


def kept_by_definition(rows, most):
    """The rule, row by row: rows are (score, label, subject)."""
    kept = []
    for subject in {row[2] for row in rows}:
        own = sorted(row for row in rows if row[2] == subject)
        m = len(own)
        h = (subject % (2**31 - 1)) * 48271 % (2**31 - 1) % m
        kept += [
            row
            for r, row in enumerate(own, 1)
            if m <= most or (r * most + h) % m < most
        ]
    return sorted(kept)


def test_the_rows_that_are_kept_are_those_of_the_formula(rng):
    subjects = rng.integers(-5, 40, 600)
    scores, labels = np.round(rng.random(600), 1), rng.integers(0, 2, 600)
    rows = list(zip(scores.tolist(), labels.tolist(), subjects.tolist(), strict=True))
    expected = kept_by_definition(rows, 2)
    for given in (subjects, subjects.astype(float), subjects.astype(str)):
        kept = rows_of(bounded(site(scores, given, labels), TWO))
        assert sorted((s, y, int(who)) for s, y, who in kept) == expected


def test_the_order_of_the_rows_decides_nothing(rng):
    scores, subjects = rng.random(300), rng.choice(list("abc"), 300)
    labels, order = rng.integers(0, 2, 300), rng.permutation(300)
    whole = rows_of(bounded(site(scores, subjects, labels), TWO))
    mixed = site(scores[order], subjects[order], labels[order])
    assert rows_of(bounded(mixed, TWO)) == whole


def test_rows_that_differ_in_their_weight_alone_are_in_no_order_either(rng):
    weights = np.arange(60)
    found = []
    for order in (weights, rng.permutation(60)):
        rows = discreet.Examples(
            np.full(60, 0.5), np.ones(60), subjects=["a"] * 60, weights=weights[order]
        )
        (batch,) = bounded(rows, TWO).batches()
        found.append(sorted(batch.amounts.tolist()))
    assert found[0] == found[1]
