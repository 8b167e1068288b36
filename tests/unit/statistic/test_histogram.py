"""Every statistic's sensitivity, by brute force over neighbouring data sets."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import Examples, InputError, PlanError
from discreet.data.edges import Edges, Uniform
from discreet.privacy.unit import Sensitivity, Unit
from discreet.session.protocols.relay import added
from discreet.statistic import (
    ClassHistogram,
    Grouped,
    Hierarchy,
    OneVsOne,
    OneVsRest,
    Paired,
    PairedInGroups,
)
from fuzzing import draws

FOUR = Edges.realise(Uniform(4))
THREE = Edges.realise(Uniform(3))
PLACES = (0.1, 0.4, 0.6, 0.9)
ABC = ("a", "b", "c")


def of_rows(columns, *, grouped=False, **options):
    """Return how rows become examples: scores, the label, and maybe a group."""

    def examples(rows):
        table = np.array(rows, dtype=object).reshape(len(rows), columns + 1 + grouped)
        scores = table[:, :columns].astype(float)
        return Examples(
            scores[:, 0] if columns == 1 else scores,
            table[:, columns],
            groups=table[:, -1] if grouped else None,
            **options,
        )

    return examples


few = (0.1, 0.9)
binary, two_models, three_classes = of_rows(1), of_rows(2), of_rows(3, classes=ABC)
ONE, TWO = list(product(PLACES, (0, 1))), list(product(few, few, (0, 1)))
OF_CLASSES = list(product(few, few, few, ABC))
IN_GROUPS = list(product(PLACES, (0, 1), ("f", "m")))
CASES = {
    "class histogram": (ClassHistogram(FOUR), ONE, binary, (1, 2, 2)),
    "hierarchy": (Hierarchy(FOUR, 2), ONE, binary, (2, 4, 4)),
    "one-vs-rest": (OneVsRest(THREE, ABC), OF_CLASSES, three_classes, (3, 6, 4)),
    "one-vs-one": (OneVsOne(THREE, ABC), OF_CLASSES, three_classes, (3, 6, 6)),
    "two marginals": (Paired(FOUR, THREE, "marginals"), TWO, two_models, (2, 4, 4)),
    "joint": (Paired(FOUR, THREE, "joint"), TWO, two_models, (1, 2, 2)),
    "two models in groups": (
        PairedInGroups(THREE, THREE, "joint", ("f", "m")),
        list(product(few, few, (0, 1), ("f", "m"))),
        of_rows(2, grouped=True),
        (1, 2, 2),
    ),
    "two marginals in groups": (
        PairedInGroups(THREE, THREE, "marginals", ("f", "m")),
        list(product(few, few, (0, 1), ("f", "m"))),
        of_rows(2, grouped=True),
        (2, 4, 4),
    ),
    "groups": (
        Grouped(ClassHistogram(FOUR), ("f", "m")),
        IN_GROUPS,
        of_rows(1, grouped=True),
        (1, 2, 2),
    ),
}
"""A statistic, all kinds of rows, and its L1 under each of the relations."""
RELATIONS = ("add_remove", "replace", "flip")


def largest(changes, unit):
    return Sensitivity(
        max(int(d.sum()) for d in changes),
        max(int((d**2).sum()) for d in changes),
        max(int(d.max()) for d in changes),
        unit,
    )


def neighbours(rows, kinds, relation):
    """All data sets that differ from ``rows`` by one example."""
    if relation == "add_remove":
        yield from ([*rows, extra] for extra in kinds)
        return
    label = next(i for i, v in enumerate(kinds[0]) if v in (0, 1) or v in ABC)
    for extra in kinds:
        same = all(extra[i] == rows[0][i] for i in range(len(extra)) if i != label)
        if relation == "replace" or same:
            yield [extra, *rows[1:]]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("case", CASES)
def test_sensitivity_is_the_largest_change_over_all_neighbours(case, relation):
    statistic, kinds, examples, l1 = CASES[case]
    unit = Unit("label" if relation == "flip" else "example", relation)
    changes = []
    for first in kinds:
        rows = [first, kinds[0]]
        base = statistic.count(examples(rows))
        others = neighbours(rows, kinds, relation)
        changes += [np.abs(statistic.count(examples(o)) - base) for o in others]
    assert statistic.sensitivity(unit) == largest(changes, unit)
    assert statistic.sensitivity(unit).l1 == l1[RELATIONS.index(relation)]


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("c", [1, 2, 3])
def test_bounded_contributions_scale_the_norms_as_brute_force_says(c, relation):
    histogram = ClassHistogram(Edges.realise(Uniform(2)))
    kinds = list(product((0.1, 0.9), (0, 1)))
    unit = Unit("client", relation, max_examples=c)
    holdings = [
        histogram.count(binary(rows))
        for size in range(c + 1)
        for rows in product(kinds, repeat=size)
    ]
    nothing = [np.zeros(histogram.size, dtype=np.int64)]
    changes = [
        np.abs(a - b)
        for a in holdings
        for b in (nothing if relation == "add_remove" else holdings)
    ]
    assert histogram.sensitivity(unit) == largest(changes, unit)


@pytest.mark.parametrize("case", CASES)
@draws(25)
@given(data=st.data())
def test_merging_sites_equals_counting_the_pooled_data(case, data):
    statistic, kinds, examples, _ = CASES[case]
    sites = data.draw(
        st.lists(st.lists(st.sampled_from(kinds), max_size=6), max_size=4)
    )
    merged = added(
        [np.zeros(statistic.size, np.int64)]
        + [statistic.count(examples(rows)) for rows in sites]
    )
    pooled = statistic.count(examples([row for rows in sites for row in rows]))
    np.testing.assert_array_equal(merged, pooled)
    assert merged.dtype == np.int64
    assert merged.size == statistic.size


def test_an_overflowing_sum_and_vectors_of_another_length_are_refused():
    huge = np.full(3, 2**62, dtype=np.int64)
    assert added([huge, huge - 1]).tolist() == [2**63 - 1] * 3
    with pytest.raises(InputError, match="64 bits"):
        added([huge, huge])
    with pytest.raises(InputError, match="3 64-bit integers"):
        added([huge, huge[:2]])


def test_levels_of_a_tree_add_up_to_their_parents():
    tree = Hierarchy(Edges.realise(Uniform(27)), 3)
    rng = np.random.default_rng(0)
    vector = tree.count(Examples(rng.random(500), rng.random(500) < 0.3))
    levels = tree.levels(vector.astype(float))
    assert [len(level.positives) for level in levels] == [3, 9, 27]
    for parent, child in pairwise(levels):
        for a, b in zip(parent, child, strict=True):
            np.testing.assert_array_equal(a, b.reshape(-1, 3).sum(axis=1))


def test_joint_and_marginal_counts_agree():
    rng = np.random.default_rng(1)
    site = Examples(rng.random((300, 2)), rng.random(300) < 0.5)
    joint, margins = Paired(FOUR, THREE, "joint"), Paired(FOUR, THREE, "marginals")
    for a, b in zip(
        joint.split(joint.count(site).astype(float)),
        margins.split(margins.count(site).astype(float)),
        strict=True,
    ):
        np.testing.assert_array_equal(a.positives, b.positives)
        np.testing.assert_array_equal(a.negatives, b.negatives)


@pytest.mark.parametrize(
    ("statistic", "site", "message"),
    [
        (Paired(FOUR, FOUR), Examples([0.1], [0]), "2 score columns"),
        (ClassHistogram(FOUR), Examples([1.5], [0], kind="logit"), "kind probability"),
        (OneVsRest(FOUR, ABC), Examples([0.1], [0]), "3 classes"),
        (Grouped(ClassHistogram(FOUR), ("f",)), Examples([0.1], [0]), "no group"),
        (
            Grouped(ClassHistogram(FOUR), ("f",)),
            Examples([0.1], [0], groups=["secret"]),
            "1 of 1 examples belong to no declared group",
        ),
        (
            ClassHistogram(FOUR),
            Examples(np.full((1, 3), 0.1), ["a"], classes=ABC),
            "1 score columns|two classes",
        ),
    ],
)
def test_examples_that_do_not_fit_the_plan_are_refused(statistic, site, message):
    with pytest.raises(InputError, match=message) as caught:
        statistic.count(site)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hierarchy(Edges.realise(Uniform(6)), 2),
        lambda: Hierarchy(FOUR, 1),
        lambda: OneVsRest(FOUR, ("a",)),
        lambda: OneVsOne(FOUR, ("a", "a")),
        lambda: Grouped(ClassHistogram(FOUR), ()),
        lambda: Paired(FOUR, FOUR, "both"),
    ],
)
def test_statistics_that_make_no_sense_are_refused(make):
    with pytest.raises(PlanError):
        make()
