"""The protocol adds, or it stops: never a wrong sum."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from discreet.entropy import Seeded
from discreet.secagg.errors import TooFewSitesError
from discreet.secagg.in_process import Step, secure_sum
from discreet.secagg.masks import room
from discreet.session.protocols.relay import added
from fuzzing import draws

KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(1, 13)]


@st.composite
def cohorts(draw, *, signed):
    """Random sites, vectors, terms, and moments at which sites go silent."""
    n = draw(st.integers(4 if signed else 2, 9))
    colluders = draw(st.integers(0, 1 if n > 5 else 0))
    fewest = (n + colluders + 1) // 2 + 1 if signed else 2 + colluders
    min_survivors = draw(st.integers(fewest, n))
    length = draw(st.integers(1, 5))
    entry = st.integers(-room(n), room(n))
    row = st.lists(entry, min_size=length, max_size=length)
    rows = draw(st.lists(row, min_size=n, max_size=n))
    leaving = draw(st.dictionaries(st.integers(0, n - 1), st.sampled_from(Step)))
    silent = {step: [p for p, when in leaving.items() if when is step] for step in Step}
    vectors = [np.array(row, dtype=np.int64) for row in rows]
    return vectors, min_survivors, colluders, silent


def check(cohort, seed, identities):
    vectors, min_survivors, colluders, silent = cohort
    ignored = () if identities else silent[Step.CONFIRM]
    gone = {p for places in silent.values() for p in places} - set(ignored)
    try:
        opened = secure_sum(
            vectors,
            plan_digest=bytes(32),
            min_survivors=min_survivors,
            colluders=colluders,
            entropy=Seeded(seed),
            identities=identities,
            silent=silent,
        )
    except TooFewSitesError as error:
        # It stops exactly when fewer than the terms demand see it through.
        assert len(vectors) - len(gone) < min_survivors
        assert error.present < error.needed  # noqa: PT017 - the opposite case returns
        return
    assert len(vectors) - len(gone) >= min_survivors
    early = {p for s in (Step.ADVERTISE, Step.SHARE, Step.MASK) for p in silent[s]}
    assert set(opened.contributors) == set(range(len(vectors))) - early
    inside = [vectors[p] for p in opened.contributors]
    np.testing.assert_array_equal(opened.total, added(inside))


@draws(60)
@given(cohorts(signed=False), st.binary(min_size=1, max_size=8))
def test_the_result_is_the_plain_sum_or_none_for_a_curious_coordinator(cohort, seed):
    check(cohort, seed, None)


@draws(40)
@given(cohorts(signed=True), st.binary(min_size=1, max_size=8))
def test_the_result_is_the_plain_sum_or_none_for_a_malicious_coordinator(cohort, seed):
    check(cohort, seed, KEYS[: len(cohort[0])])


@pytest.mark.slow
@draws(6)
@given(
    st.integers(101, 140),
    st.lists(
        st.tuples(st.integers(0, 100), st.sampled_from(Step)), min_size=5, max_size=30
    ),
    st.binary(min_size=1, max_size=8),
)
def test_the_result_is_the_plain_sum_on_a_sparse_graph(n, leaving, seed):
    when = dict(leaving)
    silent = {step: [p for p, s in when.items() if s is step] for step in Step}
    vectors = [np.array([p, -p, 2**50 + p]) for p in range(n)]
    check((vectors, n - 30, n // 20, silent), seed, None)
