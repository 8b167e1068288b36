from itertools import product

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.secagg.keys import (
    Purpose,
    derive_key,
    pair_mask_key,
    receipt,
    seed_commitment,
    tagged,
)
from discreet.secagg.masks import add_masks, expand, into_ring, largest_entry
from discreet.secagg.messages import MaskedVector

ALPHA = 1e-9
SECRET, SESSION = b"s" * 32, b"n" * 32


def test_keys_differ_by_purpose_session_site_and_direction():
    keys = {
        derive_key(SECRET, purpose, session, *sites)
        for purpose in Purpose
        for session in (SESSION, b"m" * 32)
        for sites in ((1, 2), (2, 1), (1, 3), (1,))
    }
    assert len(keys) == len(Purpose) * 2 * 4


def test_both_ends_of_a_pair_derive_the_same_mask_key():
    one, other = (pair_mask_key(SECRET, SESSION, *p) for p in ((3, 8), (8, 3)))
    assert one == other


def test_a_receipt_cannot_be_reflected_replayed_or_passed_on():
    """Of two sites that chose each other neither takes its own receipt for one."""
    ours = receipt(SECRET, SESSION, 3, 8)
    assert ours == receipt(SECRET, SESSION, 3, 8)
    assert ours not in {
        receipt(SECRET, SESSION, 8, 3),
        receipt(SECRET, b"m" * 32, 3, 8),
        receipt(SECRET, SESSION, 3, 9),
        receipt(SECRET, SESSION, 4, 8),
        receipt(b"t" * 32, SESSION, 3, 8),
    }


def test_the_framing_of_hashed_parts_is_injective():
    assert tagged(b"t", b"ab", b"c") != tagged(b"t", b"a", b"bc")
    assert tagged(b"t", b"") != tagged(b"t")


@pytest.mark.parametrize("length", [0, 1, 2, 3, 8191, 8192, 8193, 20_001])
@pytest.mark.parametrize(("plus", "minus"), [(0, 1), (3, 2), (150, 131)])
def test_many_masks_at_once_are_their_sum(length, plus, minus):
    """Against the block cipher: more streams and words than are taken at once."""
    keys = [k.to_bytes(32, "big") for k in range(plus + minus)]
    blocks = np.zeros((length + 1) // 2 * 2, dtype=">u8")
    blocks[1::2] = np.arange(blocks.size // 2)  # the counter, 128 bits big-endian
    start = np.arange(length, dtype=np.uint64) * np.uint64(2**50 + 1)
    words, expected = start.copy(), start.copy()
    for k, key in enumerate(keys):
        cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - oracle
        mask = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8")[:length]
        expected = expected + mask if k < plus else expected - mask
        assert k or np.array_equal(expand(key, length), mask)
    add_masks(words, plus=keys[:plus], minus=iter(keys[plus:]))
    np.testing.assert_array_equal(words, expected)


def test_commitments_differ_by_seed_session_and_site():
    seen = product((SECRET, b"t" * 32), (SESSION, b"m" * 32), (1, 2))
    assert len({seed_commitment(*each) for each in seen}) == 8


def test_negative_numbers_come_back_from_the_ring():
    vector = np.array([-1, 0, 5, -(2**40)])
    words = into_ring(vector, length=4, sites=3)
    assert words[0] == 2**64 - 1
    np.testing.assert_array_equal(words.view(np.int64), vector)
    assert not np.shares_memory(words, vector)  # masks leave the caller's vector alone


def test_sums_of_vectors_within_the_room_never_wrap():
    for sites in (2, 3, 7, 1000):
        assert sites * largest_entry(sites) < 2**63
        largest = np.array([largest_entry(sites), -largest_entry(sites)])
        assert into_ring(largest, length=2, sites=sites).size == 2


@pytest.mark.parametrize("entry", [1, -1])
def test_an_entry_beyond_the_room_is_refused_without_naming_it(entry):
    vector = np.array([0, entry * (largest_entry(3) + 1)])
    with pytest.raises(InputError, match="nothing was sent"):
        into_ring(vector, length=2, sites=3)


@pytest.mark.parametrize(
    "vector",
    [np.zeros(3, dtype=np.int64), np.zeros(2), np.zeros((2, 1), dtype=np.int64)],
)
def test_a_vector_of_another_shape_or_type_is_refused(vector):
    with pytest.raises(InputError, match="2 64-bit integers"):
        into_ring(vector, length=2, sites=3)


def log2_overflow_bound(*, epsilon, length, left):
    r"""Bound log2 P(noise leaves a site's room), ``left`` of which the counts leave.

    A site adds the difference of two negative binomials NB(r, a) with r <= 1 and
    :math:`a = e^{-\varepsilon}` (a unit of L1 sensitivity; divide epsilon by it
    otherwise). NB(r, a) is stochastically below the geometric distribution NB(1, a),
    whose tail is :math:`P(X \ge x) = a^x`. The union over both signs and all entries
    is :math:`2 \cdot \mathrm{length} \cdot e^{-\varepsilon x}`.
    """
    return np.log2(2 * length) - epsilon * left / np.log(2)


def test_noise_leaves_the_room_as_rarely_as_the_threat_model_says():
    left = largest_entry(10_000) - 10**9
    assert log2_overflow_bound(epsilon=1e-6, length=16_384, left=left) < -(10**9)
    # The exact tail of discrete Laplace noise, which shares with r = 1 follow, is
    # P(|noise| >= x) = 2 a^x/(1 + a).
    a = np.exp(-0.5)
    bound = log2_overflow_bound(epsilon=0.5, length=1, left=40)
    exact = np.log2(2 * a**40 / (1 + a))
    assert exact <= bound <= exact + 1


def byte_p_value(words):
    """Chi-squared p-value of the bytes against the uniform distribution."""
    counts = np.bincount(np.frombuffer(words.tobytes(), dtype=np.uint8), minlength=256)
    return stats.chisquare(counts).pvalue


def test_a_masked_vector_of_zeros_looks_uniform(federation):
    f = federation(length=8192)
    f.vectors = {s: np.zeros(8192, dtype=np.int64) for s in f.sites}
    f.until("mask").answer("mask")
    masked = [MaskedVector.decode(f.answers[s]).words for s in f.sites]
    for words in masked:
        assert byte_p_value(words) > ALPHA
    # Without the self-masks the pair masks cancel, so the masked sum is uniform
    # only because of them.
    assert byte_p_value(np.sum(masked, axis=0, dtype=np.uint64)) > ALPHA


def test_the_uniformity_test_notices_a_vector_that_is_hardly_masked():
    words = np.frombuffer(Seeded(b"weak")(8 * 8192), dtype="<u8")
    assert byte_p_value(words & np.uint64(2**63 - 1)) < ALPHA
