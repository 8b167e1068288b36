import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.secagg.in_process import Step, secure_sum
from discreet.secagg.messages import MaskedVector

ALPHA = 1e-9


def add(vectors, **options):
    given = {
        "plan_digest": bytes(32),
        "min_survivors": 2,
        "entropy": Seeded(b"in process"),
        **options,
    }
    return secure_sum([np.array(v) for v in vectors], **given)


def test_a_single_site_has_nobody_to_hide_among():
    with pytest.raises(InputError, match="2 sites or more, got 1"):
        add([[1, 2]])


def test_two_sites_are_summed():
    opened = add([[1, -5], [2, 3]])
    assert opened.total.tolist() == [3, -2]
    assert opened.total.dtype == np.int64
    assert opened.contributors == (0, 1)


def test_more_survivors_than_sites_cannot_be_asked_for():
    with pytest.raises(InputError, match="2 sites are invited"):
        add([[1], [2]], min_survivors=3)


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="2 64-bit integers"):
        add([[1, 2], [1, 2, 3]])


def test_every_site_brings_an_identity_or_none_does():
    keys = [Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2)]
    with pytest.raises(InputError, match="2 identities were given for 3 sites"):
        add([[1], [2], [3]], identities=keys)


def test_without_identities_nobody_is_asked_to_confirm():
    opened = add([[1], [2], [3]], silent={Step.CONFIRM: [0]})
    assert opened.total.tolist() == [6]


def test_the_callers_vectors_stay_as_they_are():
    vectors = [np.array([1, 2]), np.array([3, 4])]
    secure_sum(vectors, plan_digest=bytes(32), min_survivors=2, entropy=Seeded(b"x"))
    assert [v.tolist() for v in vectors] == [[1, 2], [3, 4]]


def byte_p_value(words):
    """Chi-squared p-value of the bytes against the uniform law."""
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
