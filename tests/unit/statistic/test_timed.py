"""Tables of follow-up: one rule a row, and their sensitivity by brute force."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet import Examples, InputError, PlanError
from discreet.data.edges import Edges, Uniform
from discreet.data.times import TimeCuts
from discreet.noise.mechanism import NoNoise
from discreet.privacy.unit import LABEL, Sensitivity, Unit
from discreet.session.respond import bounded
from discreet.statistic.timed import (
    TimedGroups,
    TimedHistogram,
    TimedHorizons,
    TimedPair,
)

TWO = Edges.realise(Uniform(2))
CUTS = (0.0, 1.0, 2.5)
ONE = TimedHistogram(TWO, CUTS)
SCORES, TIMES = (0.1, 0.9), (0.0, 1.0, 1.5, 3.0)
UNITS = [
    Unit("example", "add_remove"),
    Unit("example", "replace"),
    Unit("row", "replace"),
    *(Unit(k, r, 2) for k in ("subject", "client") for r in ("add_remove", "replace")),
]


def one_column(rows, causes=1):
    scores, times, events = zip(*rows, strict=True) if rows else ((), (), ())
    return Examples(scores, time=times, event=events, causes=causes)


def in_groups(rows):
    scores, times, events, groups = zip(*rows, strict=True) if rows else ((),) * 4
    return Examples(scores, time=times, event=events, groups=np.array(groups, object))


def two_columns(rows):
    scores, times, events = zip(*rows, strict=True) if rows else ((), (), ())
    matrix = np.array(scores, dtype=float).reshape(-1, 2)
    return Examples(matrix, time=times, event=events)


PAIRS = list(product(SCORES, SCORES))
CASES = {
    "one table": (ONE, list(product(SCORES, TIMES, (0, 1))), one_column, 1),
    "two causes": (
        TimedHistogram(TWO, CUTS, causes=2),
        list(product(SCORES, TIMES, (0, 1, 2))),
        lambda rows: one_column(rows, causes=2),
        1,
    ),
    "groups": (
        TimedGroups(ONE, ("f", "m")),
        list(product(SCORES, TIMES, (0, 1), ("f", "m"))),
        in_groups,
        1,
    ),
    "two models": (TimedPair(ONE), list(product(PAIRS, TIMES, (0, 1))), two_columns, 2),
    "two horizons": (
        TimedHorizons(ONE, (1.0, 2.5)),
        list(product(PAIRS, TIMES, (0, 1))),
        two_columns,
        2,
    ),
}


def largest(changes, unit):
    return Sensitivity(
        max(int(d.sum()) for d in changes),
        max(int((d**2).sum()) for d in changes),
        max(int(d.max()) for d in changes),
        unit,
    )


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_sensitivity_is_the_largest_change_over_all_neighbours(case, unit):
    """What one unit holds: any rows of the kinds there are, up to its bound."""
    statistic, kinds, examples, l1 = CASES[case]
    few = kinds if unit.examples == 1 else kinds[::5]
    sizes = range(1, unit.examples + 1)
    held = [
        statistic.count(examples(list(rows)))
        for size in sizes
        for rows in product(few, repeat=size)
    ]
    nothing = np.zeros(statistic.size, dtype=np.int64)
    others = held if unit.relation == "replace" else [nothing]
    changes = [np.abs(a - b) for a in held for b in others]
    assert statistic.sensitivity(unit) == largest(changes, unit)
    both = 2 if unit.relation == "replace" else 1
    assert statistic.sensitivity(unit).l1 == l1 * both * unit.examples


@pytest.mark.parametrize("case", CASES)
def test_a_label_alone_cannot_be_protected(case):
    with pytest.raises(PlanError, match="a time says as much as an event"):
        CASES[case][0].sensitivity(LABEL)


def brute_force(rows, edges, cuts, causes):
    """Count rows one by one, as the definitions say; rows that do not fit are left out."""
    bins, intervals = len(edges) - 1, len(cuts) - 1
    events = np.zeros((causes, bins, intervals))
    censored, beyond = np.zeros((bins, intervals)), np.zeros(bins)
    for score, time, event in rows:
        numbers = [v for v in (score, time, event) if v is not None]
        if len(numbers) < 3 or any(math.isnan(v) for v in numbers):
            continue
        if time < 0 or math.isinf(time) or event not in range(causes + 1):
            continue
        near = min(max(score, edges[0]), edges[-1])
        b = max(k for k in range(bins) if k == 0 or near >= edges[k])
        if time > cuts[-1]:
            beyond[b] += 1
            continue
        k = next(k for k in range(intervals) if time <= cuts[k + 1])
        if event:
            events[int(event) - 1, b, k] += 1
        else:
            censored[b, k] += 1
    return events, censored, beyond


odd_numbers = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -0.0, 5e-324])
near_cuts = st.sampled_from([0.0, 1.0, 2.5, math.nextafter(1, 2), math.nextafter(1, 0)])
rows_of_any_kind = st.lists(
    st.tuples(
        st.floats(0, 1) | odd_numbers,
        st.floats(0, 4) | near_cuts | odd_numbers,
        st.sampled_from([0, 1, 2, 3, 0.5, math.nan]),
    ),
    max_size=30,
)


@given(rows_of_any_kind, st.sampled_from([1, 2]))
def test_the_table_is_what_counting_rows_one_by_one_gives(rows, causes):
    statistic = TimedHistogram(Edges.realise(Uniform(4)), CUTS, causes)
    scores, times, events = zip(*rows, strict=True) if rows else ((), (), ())
    site = Examples(scores, time=times, event=events, causes=causes, check=False)
    counts = statistic.count(site.fitted()).astype(float)
    table = statistic.split(counts, NoNoise())
    expected = brute_force(rows, statistic.edges.values, CUTS, causes)
    for part, wanted in zip(
        (table.events, table.censored, table.beyond), expected, strict=True
    ):
        assert np.array_equal(part, wanted)
    assert table.total == sum(wanted.sum() for wanted in expected)


def test_a_tie_at_a_cut_belongs_to_the_interval_that_ends_there():
    cuts = TimeCuts((0.0, 1.0, 2.5))
    after = math.nextafter(1.0, 2.0)
    assert cuts.places(np.array([0.0, 1.0, after, 2.5])).tolist() == [0, 0, 1, 1]
    assert cuts.places(np.array([math.nextafter(2.5, 3)])).tolist() == [2]


def test_a_row_past_the_last_cut_is_counted_whatever_its_event_is():
    past = one_column([(0.9, 9.0, 0), (0.9, 9.0, 1)])
    table = ONE.split(ONE.count(past).astype(float), NoNoise())
    assert table.beyond.tolist() == [0, 2]
    assert not table.events.any()


def test_a_row_that_does_not_fit_counts_in_the_first_cell_where_every_row_has_to():
    odd = [(0.9, -1.0, 1), (0.9, math.nan, 1), (0.9, math.inf, 0), (0.9, 1.0, 7)]
    scores, times, events = zip(*odd, strict=True)
    site = Examples(scores, time=times, event=events, check=False)
    counts = ONE.count(site.fitted(every_row=True))
    assert counts[0] == len(odd) == counts.sum()
    left_out = site.fitted()
    assert not ONE.count(left_out).any()
    assert left_out.set_aside == len(odd)


def test_people_are_bounded_by_their_own_rows_in_any_order():
    rng = np.random.default_rng(1)
    n = 60
    whole = np.column_stack(
        [rng.choice(SCORES, n), rng.choice(TIMES, n), rng.integers(0, 2, n)]
    )
    who = rng.integers(0, 7, n)
    unit = Unit("subject", "add_remove", 3)
    seen = set()
    for order in (np.arange(n), np.arange(n)[::-1], rng.permutation(n)):
        scores, times, events = whole[order].T
        site = Examples(scores, time=times, event=events, subjects=who[order])
        kept = bounded(site.fitted(), unit)
        seen.add(tuple(ONE.count(kept)))
        assert ONE.count(kept).sum() == sum(
            min(3, int((who == p).sum())) for p in range(7)
        )
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"time": [1, 2]}, "give time= and event= both"),
        ({"event": [0, 1]}, "give time= and event= both"),
        ({}, "give labels, or time="),
        ({"labels": [0, 1], "time": [1, 2], "event": [0, 1]}, "instead of them"),
        ({"labels": [0, 1], "causes": 2}, "causes= is for follow-up"),
        ({"time": [1, 2], "event": [0, 1], "classes": [0, 1]}, "has no classes"),
        ({"time": [1, 2], "event": [0, 1], "causes": 0}, "number of causes"),
        ({"time": [1, 2], "event": [0, 1], "causes": 2, "positive": 1}, "leave out"),
        ({"time": [1, -2], "event": [0, 1]}, "1 of 2 times are missing, negative"),
        ({"time": [1, "late"], "event": [0, 1]}, "1 of 2 times are missing, negative"),
        ({"time": ["1", "2"], "event": [0, 1]}, "times are text or other objects"),
        ({"time": [1, 2], "event": [0, 2]}, r"1 of 2 events are missing or no whole"),
        ({"time": [1, 2, 3], "event": [0, 1]}, "equally long"),
    ],
)
def test_wrong_follow_up_is_refused_with_a_remedy(options, problem):
    with pytest.raises(InputError, match=problem):
        Examples([0.1, 0.9], **options)


def test_events_may_be_words_of_which_one_is_named():
    site = Examples([0.1, 0.9], time=[1, 2], event=["alive", "dead"], positive="dead")
    assert ONE.count(site).tolist() == [1, 0, 0, 0, 0, 0, 0, 1, 0, 0]


def test_labels_and_follow_up_are_not_taken_for_each_other():
    labelled = Examples([0.1, 0.9], [0, 1])
    followed = one_column([(0.1, 1.0, 0), (0.9, 2.0, 1)])
    with pytest.raises(InputError, match="the plan counts follow-up"):
        ONE.count(labelled)
    with pytest.raises(InputError, match="the plan counts labels"):
        discreet.statistic.ClassHistogram(TWO).count(followed)
    with pytest.raises(InputError, match="the same causes="):
        TimedHistogram(TWO, CUTS, causes=2).count(followed)


@pytest.mark.parametrize(
    ("cuts", "problem"),
    [
        ((1.0, 2.0), "begin at 0"),
        ((0.0,), "begin at 0"),
        ((0.0, 2.0, 2.0), "increase strictly"),
        ((0.0, 2.0, 1.0), "increase strictly"),
        ((0.0, math.inf), "increase strictly"),
        ((0.0, math.nan), "increase strictly"),
        (tuple(map(float, range(5000))), "at most|4,096"),
    ],
)
def test_cuts_that_make_no_intervals_are_refused(cuts, problem):
    with pytest.raises(PlanError, match=problem):
        TimedHistogram(TWO, cuts)


def test_score_columns_of_horizons_are_of_cuts_in_rising_order():
    for horizons in ((1.0,), (1.0, 2.0), (2.5, 1.0), (1.0, 1.0)):
        with pytest.raises(PlanError):
            TimedHorizons(ONE, horizons)


@pytest.mark.parametrize(
    "privacy", [discreet.LabelDP(1), discreet.SecureAggregation(), discreet.LocalDP(4)]
)
def test_a_plan_of_labels_is_not_carried_out_on_follow_up(privacy):
    plan = discreet.recommend(discreet.PublicFacts(10, 0.5), privacy)
    followed = one_column([(0.1, 1.0, 0), (0.9, 2.0, 1)])
    with pytest.raises(InputError, match="the plan counts labels"):
        discreet.run(plan, [followed, followed])
