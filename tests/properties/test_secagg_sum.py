"""The protocol adds, or it stops: never a wrong sum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.secagg.errors import TooFewSitesError
from discreet.secagg.masks import largest_entry
from discreet.session.protocols.relay import added
from fuzzing import draws
from secagg_federation import STEPS, Federation


@st.composite
def cohorts(draw, *, signed):
    """Random sites, vectors, terms, and moments at which sites go silent."""
    n = draw(st.integers(4 if signed else 2, 9))
    colluders = draw(st.integers(0, 1 if n > 5 else 0))
    fewest = (n + colluders + 1) // 2 + 1 if signed else 2 + colluders
    min_survivors = draw(st.integers(fewest, n))
    length = draw(st.integers(1, 5))
    entry = st.integers(-largest_entry(n), largest_entry(n))
    row = st.lists(entry, min_size=length, max_size=length)
    rows = draw(st.lists(row, min_size=n, max_size=n))
    leaving = draw(st.dictionaries(st.integers(1, n), st.sampled_from(STEPS)))
    vectors = {s: np.array(row, dtype=np.int64) for s, row in enumerate(rows, 1)}
    return vectors, min_survivors, colluders, leaving


def check(cohort, seed, *, signed=False):
    vectors, min_survivors, colluders, leaving = cohort
    run = Federation(
        len(vectors), min_survivors, colluders, len(vectors[1]), signed, seed=seed
    )
    run.vectors = vectors
    gone = {site for site, step in leaving.items() if step in run.steps}
    try:
        revealed = run.through(silent=[(step, site) for site, step in leaving.items()])
    except TooFewSitesError as error:
        # It stops exactly when fewer than the terms demand see it through.
        assert len(vectors) - len(gone) < min_survivors
        assert error.present < error.needed  # noqa: PT017 - the opposite case returns
        return
    assert len(vectors) - len(gone) >= min_survivors
    early = {s for s, step in leaving.items() if step in STEPS[:3]}
    assert set(revealed.contributors) == set(vectors) - early
    inside = [vectors[s] for s in revealed.contributors]
    np.testing.assert_array_equal(revealed.total, added(inside))


@draws(60)
@given(cohorts(signed=False), st.binary(min_size=1, max_size=8))
def test_the_result_is_the_plain_sum_or_none_for_a_curious_coordinator(cohort, seed):
    check(cohort, seed)


@draws(40)
@given(cohorts(signed=True), st.binary(min_size=1, max_size=8))
def test_the_result_is_the_plain_sum_or_none_for_a_malicious_coordinator(cohort, seed):
    check(cohort, seed, signed=True)


@pytest.mark.slow
@draws(6)
@given(
    st.integers(101, 140),
    st.lists(
        st.tuples(st.integers(1, 101), st.sampled_from(STEPS)), min_size=5, max_size=30
    ),
    st.binary(min_size=1, max_size=8),
)
def test_the_result_is_the_plain_sum_on_a_sparse_graph(n, leaving, seed):
    vectors = {s: np.array([s, -s, 2**50 + s]) for s in range(1, n + 1)}
    check((vectors, n - 30, n // 20, dict(leaving)), seed)
