"""The encoder draws from its channel, and the simulation from the same distribution."""

from fractions import Fraction

import numpy as np
import pytest

from audits import audit_scores
from discreet.data.edges import Edges, Uniform
from discreet.entropy import Seeded
from discreet.noise.arc import CircularArc, simulate_arc_counts
from statistical_checks import ALPHA, chi_squared_p_value

pytestmark = pytest.mark.statistical

SIZE = 200_000
PAIRS = 20_000


def arc_of(epsilon, bins=32):
    return CircularArc(Fraction(epsilon), Edges.realise(Uniform(bins)))


def sent(arc, cell, size, seed):
    return arc.randomise(np.full(size, cell), Seeded(seed))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "5"])
@pytest.mark.parametrize("cell", [0, 40])
def test_symbols_follow_the_channel_and_none_15_percent_off(epsilon, cell):
    arc = arc_of(epsilon)
    observed = np.bincount(sent(arc, cell, SIZE, b"channel"), minlength=arc.cells)
    assert chi_squared_p_value(observed, SIZE * arc.channel()[cell]) > ALPHA
    for factor in ("0.85", "1.15"):
        wrong = arc_of(Fraction(epsilon) * Fraction(factor))
        wrong.__dict__["length"] = arc.length  # the odds alone are wrong
        wrong.__dict__.pop("total_weight")
        assert chi_squared_p_value(observed, SIZE * wrong.channel()[cell]) < ALPHA


def pair_probabilities(one, other):
    """Probability of each unordered pair of symbols of two clients."""
    both = np.outer(one, other)
    return (both + both.T)[np.triu_indices(8)] / np.where(np.eye(8), 2, 1)[
        np.triu_indices(8)
    ]


def pair_counts(tallies):
    """Count the unordered pairs behind tallies of two symbols each."""
    place = {pair: k for k, pair in enumerate(zip(*np.triu_indices(8), strict=True))}
    counts = np.zeros(len(place))
    for tally in tallies:
        counts[place[tuple(np.repeat(np.arange(8), tally))]] += 1
    return counts


EXACT = np.array([1, 0, 0, 0, 0, 1, 0, 0])


def test_the_totals_of_real_and_simulated_clients_have_the_same_exact_distribution():
    arc = arc_of(1, bins=4)
    expected = PAIRS * pair_probabilities(arc.channel()[0], arc.channel()[5])
    one, other = (sent(arc, cell, PAIRS, b"pair%d" % cell) for cell in (0, 5))
    real = [np.bincount(pair, minlength=8) for pair in zip(one, other, strict=True)]
    assert chi_squared_p_value(pair_counts(real), expected) > ALPHA
    rng = np.random.default_rng(3)
    simulated = [simulate_arc_counts(arc, EXACT, rng) for _ in range(PAIRS)]
    assert chi_squared_p_value(pair_counts(simulated), expected) > ALPHA


def test_clients_drawn_from_the_pooled_distribution_would_be_noticed():
    """A multinomial of the mean channel has the right means and the wrong distribution."""
    arc = arc_of(2, bins=4)
    expected = PAIRS * pair_probabilities(arc.channel()[0], arc.channel()[5])
    pooled = EXACT @ arc.channel() / 2
    wrong = np.random.default_rng(3).multinomial(2, pooled, PAIRS)
    assert chi_squared_p_value(pair_counts(wrong), expected) < ALPHA


def held(arc, cell, seed):
    """The best guess of an attacker: is cell 0 in the arc, and cell 40 not?"""
    symbols = sent(arc, cell, SIZE, seed)
    near = (0 - symbols) % arc.cells < arc.length
    far = (40 - symbols) % arc.cells < arc.length
    return near.astype(float) - far.astype(float)


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_an_audit_of_replaced_examples_stays_below_epsilon_and_comes_close(epsilon):
    arc = arc_of(epsilon)
    found = audit_scores(held(arc, 0, b"one"), held(arc, 40, b"other"), alpha=ALPHA)
    assert not found.refutes(Fraction(epsilon))
    assert found.epsilon_at_least > 0.8 * float(Fraction(epsilon))


def test_an_audit_catches_a_client_that_randomises_half_as_much():
    broken = arc_of(2)
    found = audit_scores(held(broken, 0, b"one"), held(broken, 40, b"two"), alpha=ALPHA)
    assert found.refutes(Fraction(1))
