from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.edges import Edges, Uniform, Warped
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import InputError, PlanError
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


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("bins", [4, 32, 33])
def test_no_symbol_tells_two_inputs_apart_by_more_than_e_to_the_epsilon(epsilon, bins):
    """And by no less than that, but for two steps of the odds."""
    arc = arc_of(epsilon, bins)
    weights = arc.weights().astype(object)
    assert set(weights.sum(axis=1)) == {arc.total_weight}
    worst = max(Fraction(int(column.max()), int(column.min())) for column in weights.T)
    assert worst == arc.odds
    assert worst <= exp_of(epsilon) < worst + Fraction(2, DENOMINATOR)


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("cell", [0, 5, 31, 32, 63])
def test_every_integer_below_the_total_weight_goes_to_the_symbol_it_is_counted_for(
    epsilon, cell
):
    arc = arc_of(epsilon)
    inside = arc.length * arc._likely
    starts = [k * arc._likely for k in range(arc.length)]
    starts += [inside + k * DENOMINATOR for k in range(arc.cells - arc.length)]
    sizes = np.diff([*starts, arc.total_weight])
    first = arc._symbols(np.full(arc.cells, cell), np.array(starts))
    last = arc._symbols(np.full(arc.cells, cell), np.array(starts) + sizes - 1)
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


@pytest.mark.parametrize(
    ("epsilon", "bins", "message"),
    [(e, 32, "at most 16") for e in ("0", "-1", "16.1")]
    + [("16", 100_000, "use fewer")],
)
def test_what_integers_cannot_randomise_is_refused(epsilon, bins, message):
    with pytest.raises(PlanError, match=message):
        arc_of(epsilon, bins)


def test_symbols_depend_on_the_secret_bytes_only():
    arc, exact = arc_of(1), np.ones(64, dtype=np.int64)
    seeds = (Seeded(b"a"), Seeded(b"a"), Seeded(b"b"), SYSTEM, SYSTEM)
    sent = [arc.protect(exact, entropy=entropy).tobytes() for entropy in seeds]
    assert sent[0] == sent[1]
    assert len(set(sent)) == 4


def test_a_site_sends_one_symbol_near_the_cell_of_each_example():
    """At epsilon 16 a symbol is all but sure to be in the arc of 2 cells."""
    arc, exact = arc_of(16), np.zeros(64, dtype=np.int64)
    exact[[3, 35, 63, 0]] = 2, 1, 1, 1
    symbols = np.repeat(np.arange(64), arc.protect(exact, entropy=Seeded(b"place")))
    assert symbols.size == 5
    cells = np.array([3, 35, 63, 0])
    assert ((cells[:, None] - symbols) % 64 < arc.length).any(axis=0).all()


@pytest.mark.parametrize("exact", [[1] * 7, [-1] + [1] * 7])
def test_what_is_no_histogram_is_not_protected(exact):
    with pytest.raises(InputError, match="8 exact counts"):
        arc_of(1, bins=4).protect(np.array(exact), entropy=Seeded(b"a"))


def test_ten_million_clients_are_simulated_at_once():
    exact = np.full(64, 10_000_000 // 64)
    total = simulate_arc_counts(arc_of(1), exact, np.random.default_rng(1))
    assert total.sum() == exact.sum()
