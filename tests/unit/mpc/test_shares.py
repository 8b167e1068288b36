import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.entropy import SYSTEM, Seeded
from discreet.mpc.packages import InconsistentSharesError, combine, split

INT64 = st.integers(-(2**63), 2**63 - 1)


class Scripted:
    """Entropy that returns the given words, to build any sharing there is."""

    def __init__(self, *words):
        self._words = iter(words)

    def __call__(self, size):
        assert size == 8
        return int(next(self._words)).to_bytes(8, "little")


@given(values=st.lists(INT64, max_size=20), seed=st.binary(max_size=8))
def test_shares_add_up_to_the_values(values, seed):
    vector = np.array(values, dtype=np.int64)
    assert combine(split(vector, entropy=Seeded(seed))).tolist() == values


@given(secret=INT64, other=INT64, seed=st.binary(max_size=8))
def test_what_one_party_holds_fits_every_secret_equally(secret, other, seed):
    """For each view there is exactly one pair of random words for any other secret."""
    views = split(np.array([secret]), entropy=Seeded(seed))
    mask = 2**64
    for party in range(3):
        mine, following = (int(w) for w in views[party][0])
        words = {party: mine, (party + 1) % 3: following}
        words[(party + 2) % 3] = (other - mine - following) % mask
        twin = split(np.array([other]), entropy=Scripted(words[0], words[1]))
        assert np.array_equal(twin[party], views[party])


def test_two_parties_hold_everything():
    zero, one, _ = split(np.array([41]), entropy=SYSTEM)
    words = (int(zero[0, 0]), int(zero[0, 1]), int(one[0, 1]))
    assert sum(words) % 2**64 == 41


@pytest.mark.parametrize("party", range(3))
@pytest.mark.parametrize("place", range(2))
def test_a_changed_word_is_found(party, place):
    pairs = list(split(np.array([1, 2]), entropy=SYSTEM))
    pairs[party][1, place] += np.uint64(1)
    with pytest.raises(InconsistentSharesError, match="do not fit together"):
        combine(pairs)


def test_shares_of_three_parties_are_needed():
    pairs = split(np.array([1, 2]), entropy=SYSTEM)
    with pytest.raises(InconsistentSharesError, match="of 3 parties"):
        combine(pairs[:2])
    with pytest.raises(InconsistentSharesError, match="equally long"):
        combine([pairs[0][:1], *pairs[1:]])


@pytest.mark.interop
@pytest.mark.mpc
def test_the_engine_reads_and_writes_the_same_layout():
    from spu import api
    from spu import libspu as native

    from discreet.mpc.computing import native_share, pairs_of
    from discreet.mpc.spu_engine import runtime_config

    io = api.Io(3, runtime_config())
    values = np.array([5, -7, 2**62, 0])
    ours = split(values, entropy=SYSTEM)
    shares = [native_share(pairs, (4,)) for pairs in ours]
    assert io.reconstruct(shares).tolist() == values.tolist()
    theirs = io.make_shares(values, native.Visibility.VIS_SECRET)
    assert combine([pairs_of(share) for share in theirs]).tolist() == values.tolist()
