from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.edges import Edges, Uniform, Warped
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.noise.arc import DENOMINATOR, CircularArc, simulate_arc_counts
from discreet.privacy.loss import PureDP

EDGES = Edges.realise(Warped(32))
EPSILONS = [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(16)]


def arc_of(epsilon, bins=32):
    return CircularArc(Fraction(epsilon), Edges.realise(Uniform(bins)))


def exp_of(epsilon):
    """E^epsilon to 60 digits: an oracle that shares no code with the series."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(epsilon.numerator) / epsilon.denominator).exp())


def integers_with_same_symbol(arc, cell):
    """Return (first, last) of each run of integers that map to one symbol."""
    inside = arc.length * arc._likely
    starts = [k * arc._likely for k in range(arc.length)]
    starts += [inside + k * DENOMINATOR for k in range(arc.cells - arc.length)]
    ends = [*(s - 1 for s in starts[1:]), arc.total_weight - 1]
    cells = np.full(len(starts), cell, dtype=np.int64)
    first = arc._symbols(cells, np.array(starts, dtype=np.int64))
    last = arc._symbols(cells, np.array(ends, dtype=np.int64))
    sizes = np.array(ends) - np.array(starts) + 1
    return first, last, sizes


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("bins", [4, 32, 33])
def test_no_symbol_tells_two_inputs_apart_by_more_than_e_to_the_epsilon(epsilon, bins):
    arc = arc_of(epsilon, bins)
    weights = arc.weights().astype(object)
    assert set(weights.sum(axis=1)) == {arc.total_weight}
    worst = max(Fraction(int(column.max()), int(column.min())) for column in weights.T)
    assert worst == arc.odds
    assert worst <= exp_of(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_odds_waste_less_than_two_steps_of_the_budget(epsilon):
    two_steps = Fraction(2, DENOMINATOR)
    assert exp_of(epsilon) < arc_of(epsilon).odds + two_steps


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("cell", [0, 5, 31, 32, 63])
def test_every_integer_below_the_total_weight_goes_to_the_symbol_it_is_counted_for(
    epsilon, cell
):
    arc = arc_of(epsilon)
    first, last, sizes = integers_with_same_symbol(arc, cell)
    assert (first == last).all()
    assert sorted(first.tolist()) == list(range(arc.cells))
    assert sizes[np.argsort(first)].tolist() == arc.weights()[cell].tolist()


def test_the_arc_wraps_around_the_circle_and_into_the_other_class():
    arc = arc_of(1, bins=8)  # 16 cells, arcs of 4
    likely = np.flatnonzero(arc.weights()[1] > DENOMINATOR)
    assert likely.tolist() == [0, 1, 14, 15]


@pytest.mark.parametrize(
    ("epsilon", "length"), [("1", 16), ("2", 10), ("5", 5), ("1/2", 26), ("16", 2)]
)
def test_the_arc_shortens_as_epsilon_grows(epsilon, length):
    assert CircularArc(Fraction(epsilon), EDGES).length == length


@pytest.mark.parametrize("bins", [1, 2, 4, 32])
def test_the_arc_never_reaches_half_of_the_circle(bins):
    assert arc_of("0.001", bins).length == max(1, bins - 1)


def test_the_channel_is_the_weights_over_their_total():
    arc = arc_of(2)
    assert arc.channel().sum(axis=1) == pytest.approx(1)
    assert arc.channel()[3, 3] == pytest.approx(arc.odds / arc.total_weight * 2**32)


def test_one_symbol_costs_epsilon():
    assert arc_of("0.1").loss() == PureDP(Fraction(1, 10))


@pytest.mark.parametrize("epsilon", ["0", "-1", "16.1"])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(PlanError, match="at most 16"):
        arc_of(epsilon)


def test_so_many_bins_that_integers_would_overflow_are_refused():
    with pytest.raises(PlanError, match="use fewer"):
        arc_of("16", bins=100_000)


def test_symbols_depend_on_the_secret_bytes_only():
    arc, bins, labels = arc_of(1), np.arange(32), np.arange(32) % 2
    one = arc.encode(bins, labels, Seeded(b"a"))
    assert (one == arc.encode(bins, labels, Seeded(b"a"))).all()
    assert (one != arc.encode(bins, labels, Seeded(b"b"))).any()


def test_two_sites_never_draw_the_same_noise():
    arc, same = arc_of(1), np.zeros(200, dtype=np.int64)
    one, other = (arc.encode(same, same, SYSTEM) for _ in range(2))
    assert (one != other).any()


def test_examples_take_their_place_in_the_class_histogram():
    """At epsilon 16 a symbol is all but sure to be in the arc of 2 cells."""
    arc = arc_of(16)
    bins, labels = np.array([3, 3, 31, 0]), np.array([0, 1, 1, 0])
    sent = arc.encode(bins, labels, Seeded(b"place"))
    assert ((bins + 32 * labels - sent) % 64 < arc.length).all()


@pytest.mark.parametrize(
    ("bins", "labels", "message"),
    [
        ([0, 1], [0], "1 labels do not go with 2 bins"),
        ([0, 32], [0, 1], "1 of 2 bins"),
        ([0, -1], [0, 1], "1 of 2 bins"),
        ([0, 1], [2, -1], "2 of 2 labels"),
    ],
)
def test_examples_outside_the_circle_are_refused(bins, labels, message):
    with pytest.raises(InputError, match=message):
        arc_of(1).encode(np.array(bins), np.array(labels), Seeded(b"a"))


def test_a_site_that_protects_a_histogram_sends_the_tally_of_its_examples():
    arc, exact = arc_of(1, bins=4), np.array([2, 0, 1, 0, 0, 3, 0, 1])
    bins, labels = np.array([0, 0, 2, 1, 1, 1, 3]), np.array([0, 0, 0, 1, 1, 1, 1])
    symbols = arc.encode(bins, labels, Seeded(b"a"))
    assert (arc.protect(exact, entropy=Seeded(b"a")) == arc.tally(symbols)).all()


@pytest.mark.parametrize("exact", [[1] * 7, [-1] + [1] * 7])
def test_what_is_no_histogram_is_not_protected(exact):
    with pytest.raises(InputError, match="8 exact counts"):
        arc_of(1, bins=4).protect(np.array(exact), entropy=Seeded(b"a"))


def test_merging_tallies_equals_tallying_the_merged_symbols():
    arc = arc_of(1)
    one, other = np.array([0, 63, 5]), np.array([5, 5])
    merged = arc.tally(np.concatenate([one, other]))
    assert (arc.tally(one) + arc.tally(other) == merged).all()
    assert merged.shape == (64,)


@pytest.mark.parametrize("symbol", [-1, 64])
def test_a_symbol_that_the_plan_does_not_have_is_refused(symbol):
    with pytest.raises(ReleaseError, match="1 of 2 symbols"):
        arc_of(1).tally(np.array([0, symbol]))


def test_ten_million_clients_are_simulated_at_once():
    exact = np.full(64, 10_000_000 // 64)
    total = simulate_arc_counts(arc_of(1), exact, np.random.default_rng(1))
    assert total.sum() == exact.sum()
