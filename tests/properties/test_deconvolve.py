from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.edges import Edges, Warped
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from fuzzing import draws

EPSILONS = st.sampled_from([Fraction(1, 5), Fraction(1), Fraction(2), Fraction(5)])
BINS = st.sampled_from([4, 9, 16])


@st.composite
def tallies(draw):
    arc = CircularArc(draw(EPSILONS), Edges.realise(Warped(draw(BINS))))
    size = st.integers(0, 10 ** draw(st.integers(0, 6)))
    total = draw(st.lists(size, min_size=arc.cells, max_size=arc.cells))
    total[draw(st.integers(0, arc.cells - 1))] += 1
    return arc, np.array(total)


@draws(80)
@given(tallies())
def test_any_tally_decodes_to_counts_of_all_clients_with_a_covariance(case):
    arc, total = case
    decoded = decode(total, arc)
    counts, matrix = decoded.counts, decoded.noise.matrix
    assert (counts >= 0).all()
    assert np.isclose(counts.sum(), total.sum())
    scale = np.trace(matrix)
    assert np.isfinite(matrix).all()
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > -1e-8 * scale
    assert abs(matrix.sum()) < 1e-6 * scale * arc.cells  # the clients are counted


@st.composite
def clients(draw):
    """Draw symbols of bell-shaped classes: a fit to these does not run away."""
    arc = CircularArc(draw(EPSILONS), Edges.realise(Warped(draw(BINS))))
    bins = arc.cells // 2
    u = (np.arange(bins) + 0.5) / bins
    centres = draw(st.tuples(st.floats(0.1, 0.5), st.floats(0.5, 0.9)))
    sizes = draw(st.tuples(st.integers(1, 10**5), st.integers(1, 10**5)))
    shapes = [np.exp(-8 * (u - c) ** 2) for c in centres]
    exact = np.concatenate(
        [m * s / s.sum() for m, s in zip(sizes, shapes, strict=True)]
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return arc, simulate_arc_counts(arc, np.ceil(exact).astype(np.int64), rng)


@draws(40)
@given(clients())
def test_mirrored_scores_with_exchanged_labels_give_the_mirrored_counts(case):
    """Score s and label y against 1 - s and 1 - y: cell x becomes 2B - 1 - x.

    An arc that starts at o then starts at 2B - L - o.
    """
    arc, total = case
    mirrored = total[(arc.cells - arc.length - np.arange(arc.cells)) % arc.cells]
    one = decode(total, arc).counts
    other = decode(mirrored, arc).counts[::-1]
    # The fit stops where its evidence is flat to 1e-6, which moves counts a little.
    assert np.allclose(one, other, rtol=1e-3, atol=1e-2 * total.sum())
