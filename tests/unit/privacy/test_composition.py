"""Composition: every conversion against all small data sets; a total never too small."""

import math
from collections import deque
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from discreet.privacy.composition import (
    Spent,
    charged_total,
    compose,
    in_steps,
    losses_about,
    steps_between,
    tighter_epsilon,
)
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded, fraction_of
from discreet.privacy.unit import EXAMPLE, LABEL, Unit

ROW = Unit("row", "replace")
UNITS = {
    "example": EXAMPLE,
    "row": ROW,
    "label": LABEL,
    "score": Unit("score", "replace"),
    "subject": Unit("subject", "add_remove", 3),
    "subject replaced": Unit("subject", "replace", 3),
    "client": Unit("client", "add_remove", 3),
    "client replaced": Unit("client", "replace", 3),
}
ABSENT = None
"""The site that is not there at all."""


def data_sets(most):
    """All data sets of at most so many rows (subject, score, label), and no site."""
    rows = list(product("ab", (0, 1), (0, 1)))
    return [
        ABSENT,
        *(
            tuple(sorted(chosen))
            for n in range(most + 1)
            for chosen in combinations_with_replacement(rows, n)
        ),
    ]


def without(rows, row):
    place = rows.index(row)
    return rows[:place] + rows[place + 1 :]


def of_subject(rows, name):
    return tuple(r for r in rows if r[0] == name), tuple(
        r for r in rows if r[0] != name
    )


def neighbours(kind, one, other):
    """The definition: whether two data sets differ in one unit."""
    absent = [one is ABSENT, other is ABSENT]
    if kind.startswith("client"):
        return any(absent) != all(absent) if kind == "client" else not any(absent)
    if any(absent):
        return False
    if kind.startswith("subject"):
        return differ_in_a_subject(one, other, replaced=kind == "subject replaced")
    if kind == "example":
        few, many = sorted((one, other), key=len)
        return any(without(many, r) == few for r in many)
    same = {"row": (), "label": (0, 1), "score": (0, 2)}[kind]
    return any(
        without(one, r) == without(other, s) and all(r[i] == s[i] for i in same)
        for r in one
        for s in other
    )


def differ_in_a_subject(one, other, *, replaced):
    """One subject is there or not, or its rows become others, perhaps another's."""
    for s, t in product("ab", "ab"):
        (his, rest), (hers, others) = of_subject(one, s), of_subject(other, t)
        if rest == others and (his and hers if replaced else not (his and hers)):
            return True
    return False


def graph(kind, nodes):
    edges = {node: [] for node in nodes}
    for i, one in enumerate(nodes):
        for other in nodes[:i]:
            if neighbours(kind, one, other):
                edges[one].append(other)
                edges[other].append(one)
    return edges


def distances(edges, start):
    found, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for other in edges[node]:
            if other not in found:
                found[other] = found[node] + 1
                waiting.append(other)
    return found


@pytest.fixture(scope="module")
def steps_found():
    """For each number of rows, the most source steps that a target step takes."""
    table = {}
    for most in (1, 2, 3):
        nodes = data_sets(most)
        graphs = {kind: graph(kind, nodes) for kind in UNITS}
        for source in UNITS:
            worst = dict.fromkeys(UNITS, 0)
            for start in nodes:
                reached = distances(graphs[source], start)
                for target in UNITS:
                    for other in graphs[target][start]:
                        far = reached.get(other, math.inf)
                        worst[target] = max(worst[target], far)
            for target, far in worst.items():
                table.setdefault((source, target), []).append(far)
    return table


@pytest.mark.parametrize("target", UNITS)
@pytest.mark.parametrize("source", UNITS)
def test_steps_between_units_are_those_of_all_small_data_sets(
    steps_found, source, target
):
    """Where no number is given, the steps are infinite or grow with the rows."""
    claimed = steps_between(UNITS[source], UNITS[target])
    found = steps_found[source, target]
    if claimed is None:
        assert found[-1] == math.inf or found[-1] > found[0]
    else:
        assert found[-1] == claimed


def test_an_example_replaced_is_a_row_and_bounds_belong_to_the_mechanism():
    replaced = Unit("example", "replace")
    assert steps_between(replaced, ROW) == steps_between(ROW, replaced) == 1
    ten, two = (Unit("subject", "add_remove", k) for k in (10, 2))
    assert steps_between(ten, two) == steps_between(two, ten) == 1


def hockey_stick(p, q, epsilon):
    return sum(max(a - math.exp(epsilon) * b, 0) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("steps", [2, 3, 4])
def test_group_privacy_holds_for_a_mechanism_with_a_delta(epsilon, steps):
    """A count with geometric noise that is cut off: the delta is the lost tail."""
    width = 6
    weights = [math.exp(-epsilon * abs(x)) for x in range(-width, width + 1)]
    noise = [w / sum(weights) for w in weights]
    around = [[0.0] * k + noise + [0.0] * (steps - k) for k in range(steps + 1)]
    delta = max(
        hockey_stick(around[0], around[1], epsilon),
        hockey_stick(around[1], around[0], epsilon),
    )
    given = ApproxDP(
        Fraction(str(epsilon)),
        Fraction(delta).limit_denominator(10**12) + Fraction(1, 10**11),
    )
    converted = in_steps(given, steps)
    if isinstance(converted, Unbounded):
        return
    for p, q in ((around[0], around[-1]), (around[-1], around[0])):
        assert hockey_stick(p, q, float(converted.epsilon)) <= converted.delta


def test_delta_grows_by_the_sum_of_powers_of_e_and_not_only_by_steps():
    """A mechanism that tells all, once in a while, and otherwise leans: tight."""
    loss = in_steps(ApproxDP(Fraction(1), Fraction(1, 10**6)), 3)
    assert loss.epsilon == 3
    exact = 1e-6 * (1 + math.e + math.e**2)
    assert exact <= float(loss.delta) <= exact * (1 + 1e-7)
    assert in_steps(ApproxDP(Fraction(900), Fraction(1, 10**9)), 2) == Unbounded()
    assert in_steps(ApproxDP(Fraction(10), Fraction(1, 10)), 2) == Unbounded()


def test_deltas_of_several_releases_add_up():
    """Each release tells all with chance delta: so do both together, twice as often.

    Of releases that each disclose everything with chance d and nothing otherwise, n
    disclose with chance 1 - (1 - d)^n, which is the delta at any epsilon. A total
    that is smaller, such as the largest of them, is not one.
    """
    d, count = Fraction(1, 1000), 7
    loss = ApproxDP(Fraction(1, 10), d)
    truth = 1 - (1 - d) ** count
    for total in (
        compose([loss] * count).delta,
        charged_total([(EXAMPLE, loss)] * count).delta,
        charged_total([(EXAMPLE, loss), *[(LABEL, loss)] * (count - 1)]).delta,
    ):
        assert total >= truth


def test_the_capped_total_is_the_worst_over_the_units_that_occur():
    one = PureDP(Fraction(1))
    assert charged_total([(EXAMPLE, one), (EXAMPLE, one)]) == Spent(Fraction(2))
    assert charged_total([(EXAMPLE, one), (LABEL, one)]) == Spent(Fraction(3))
    subject = UNITS["subject"]
    assert charged_total([(subject, one), (EXAMPLE, one)]).epsilon == 3
    assert charged_total([(subject, one), (ROW, one)]).epsilon == 5
    # Nothing converts a label's loss into a score's: they count as they are.
    assert charged_total([(LABEL, one), (UNITS["score"], one)]).epsilon == 2
    assert charged_total([(None, one), (EXAMPLE, one)]).epsilon == 2
    assert charged_total([(None, Unbounded()), (EXAMPLE, one)]) == Spent(
        Fraction(1), exact_sums=1
    )
    assert charged_total([]) == Spent()


def test_losses_about_a_unit_leave_out_what_says_nothing_about_it():
    one = PureDP(Fraction(1))
    charges = [(EXAMPLE, one), (LABEL, one), (None, Unbounded()), (None, one)]
    assert losses_about(LABEL, charges) == ([PureDP(Fraction(2)), one], 2)
    assert losses_about(EXAMPLE, charges) == ([one], 3)
    assert losses_about(None, charges) == ([one], 3)


def pure(epsilon):
    return PureDP(Fraction(str(epsilon)))


def delta_of(epsilon, count, total):
    """The oracle: the hockey-stick divergence of ``count`` randomized responses.

    Kairouz, Oh and Viswanath (2015): the worst case of adaptive composition of
    mechanisms that are epsilon-DP.
    """
    p = 1 / (1 + math.exp(-epsilon))
    return sum(
        math.comb(count, j)
        * max(
            p ** (count - j) * (1 - p) ** j
            - math.exp(total) * p**j * (1 - p) ** (count - j),
            0.0,
        )
        for j in range(count + 1)
    )


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"), [(0.1, 50, 1e-6), (0.5, 12, 1e-3), (1.0, 30, 1e-9)]
)
def test_the_tighter_total_is_that_of_the_worst_mechanisms(epsilon, count, delta):
    total = tighter_epsilon([pure(epsilon)] * count, delta=delta)
    assert delta_of(epsilon, count, total) <= delta
    # Rounding up by 1e-4 a release is all that it may be above the best.
    assert delta_of(epsilon, count, total - count * 1e-4 - 1e-3) > delta
    assert total <= epsilon * count


def test_the_tighter_total_is_never_above_basic_composition():
    losses = [pure("0.3"), pure(1), ApproxDP(Fraction(1, 2), Fraction(1, 10**8))]
    total = tighter_epsilon(losses, delta=1e-6)
    assert total <= float(compose(losses).epsilon)
    assert tighter_epsilon([pure(1)], delta=1e-12) <= 1.0


def test_a_delta_below_the_sum_of_the_recorded_ones_is_not_promised():
    losses = [ApproxDP(Fraction(1), Fraction(1, 1000))] * 3
    assert tighter_epsilon(losses, delta=1e-3) == math.inf
    assert tighter_epsilon(losses, delta=4e-3) <= 3.0


def test_an_exact_sum_has_no_bound_and_nothing_costs_nothing():
    assert tighter_epsilon([pure(1), Unbounded()], delta=1e-6) == math.inf
    assert tighter_epsilon([], delta=1e-6) == 0.0


HALF = PureDP(Fraction(1, 2))


def test_shares_of_a_budget_add_up_to_it():
    for loss in (HALF, ApproxDP(Fraction(1), Fraction(1, 10**6))):
        parts = [fraction_of(loss, Fraction(k, 5)) for k in (1, 4)]
        assert compose(parts) == compose([loss])


def test_losses_compose_kind_by_kind():
    losses = [
        HALF,
        ApproxDP(Fraction(1), Fraction(1, 100)),
        Unbounded(),
    ]
    assert compose(losses) == Spent(Fraction(3, 2), Fraction(1, 100), 1)
