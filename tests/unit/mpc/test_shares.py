"""Words keep order, shares hide values, packages are refused unless whole and meant."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.codec.messages import MalformedMessageError
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Seeded
from discreet.errors import InputError
from discreet.mpc.shares import (
    OVERHEAD,
    PAD,
    Encoded,
    InconsistentSharesError,
    Package,
    PackageError,
    PackageKind,
    combine,
    encode,
    keys_of,
    padded_size,
    split,
)

SMALLEST, BEYOND = 2.0**-446, 7.3e19
SCORE = st.floats(allow_nan=False).filter(
    lambda x: x == 0 or math.isinf(x) or SMALLEST <= abs(x) < BEYOND
)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(SCORE, SCORE)
def test_keys_descend_exactly_where_scores_ascend(a, b):
    key_a, key_b = keys_of(np.array([a, b])).tolist()
    assert (key_a < key_b) == (a > b)
    assert (key_a == key_b) == (a == b)


@given(SCORE, st.booleans())
def test_a_word_has_63_bits_and_stands_before_padding(score, label):
    assert 0 <= 2 * int(keys_of(np.array([score]))[0]) + label < PAD


@pytest.mark.parametrize("score", [1e-134, 0.1, 0.5, 1.0, -3.5])
def test_scores_one_ulp_apart_have_keys_one_apart(score):
    keys = keys_of(np.array([score, np.nextafter(score, np.inf)]))
    assert keys[0] - keys[1] == 1


@pytest.mark.parametrize(
    "score", [5e-324, 1e-135, -1e-135, 7.4e19, 1e300, float(np.finfo(float).max)]
)
def test_magnitudes_that_62_bits_do_not_hold_are_refused_without_the_value(score):
    with pytest.raises(InputError, match="1 scores are not 0") as error:
        keys_of(np.array([0.5, score]))
    assert str(score) not in str(error.value)


def test_the_ends_of_the_range_and_infinity_are_told_apart():
    ends = [SMALLEST, 7e19, np.inf]
    scores = np.array([*(-x for x in reversed(ends)), 0.0, *ends])
    assert (np.diff(keys_of(scores)) < 0).all()


def test_owners_share_their_rows_in_the_order_of_the_scores():
    """So the order in which they come says nothing."""
    rows = Examples([0.2, 0.9, 0.9, 0.1], [0, 1, 0, 1])
    other = Examples([0.9, 0.1, 0.2, 0.9], [0, 1, 0, 1])
    words = encode(rows).words
    assert (np.diff(words) > 0).all()
    assert np.array_equal(words, encode(other).words)
    assert (words & 1).tolist() == [0, 1, 0, 1]


def test_every_kind_of_score_is_encoded_without_loss():
    logits = Examples([-3.0, np.nextafter(-3.0, 0), 40.0], [0, 1, 1], kind="logit")
    keys = encode(logits).words >> 1
    assert keys[0] < keys[1] == keys[2] - 1
    encode(Examples([5.0, 7.0], [0, 1], kind="other", low=0, high=10))
    single = encode(Examples(np.array([0.1, 0.2, 0.2], dtype=np.float32), [0, 1, 0]))
    assert single.words[0] + 1 == single.words[1] < single.words[2]


def test_labels_given_by_their_positive_name_become_0_and_1():
    site = Examples([0.2, 0.9], ["ill", "well"], positive="ill")
    assert (encode(site).words & 1).tolist() == [0, 1]


def test_padding_hides_the_count_and_keeps_the_rows_which_never_print():
    plain = encode(Examples([0.2, 0.9], [0, 1]))
    padded = encode(Examples([0.2, 0.9], [0, 1]), padded_to=5)
    assert (plain.rows, plain.count, padded.rows, padded.count) == (2, 2, 5, 2)
    assert padded.words.tolist() == [*plain.words.tolist(), PAD, PAD, PAD]
    assert PAD & 1 == 0
    assert repr(padded) == "Encoded(rows=5)"


def test_padded_sizes_are_powers_of_two():
    assert [padded_size(n) for n in (1, 2, 3, 1024, 1025)] == [1, 2, 4, 1024, 2048]
    with pytest.raises(InputError, match="no owner has an example"):
        padded_size(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Encoded(np.array([3, 2])), "sort them"),
        (lambda: Encoded(np.array([-1, 2])), "between 0 and"),
        (lambda: Encoded(np.array([1, PAD + 1])), "between 0 and"),
        (lambda: Encoded(np.array([[1], [2]])), "a vector of 64-bit integers"),
        (lambda: Encoded(np.array([0.5, 1.5])), "a vector of 64-bit integers"),
        (lambda: encode(Examples([[0.1, 0.9]], [0])), "one score a row"),
        (
            lambda: encode(Examples([0.1], ["a"], classes=["a", "b", "c"])),
            "two classes",
        ),
        (
            lambda: encode(Examples([0.1, 0.2, 0.4], [0, 1, 1]), padded_to=2),
            "^(?!.*3).*agreed 2 padded rows",  # without the number of rows
        ),
    ],
)
def test_rows_that_would_make_a_wrong_result_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


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
    for party in range(3):
        mine, following = (int(w) for w in views[party][0])
        words = {party: mine, (party + 1) % 3: following}
        words[(party + 2) % 3] = (other - mine - following) % 2**64
        twin = split(np.array([other]), entropy=Scripted(words[0], words[1]))
        assert np.array_equal(twin[party], views[party])


def test_two_parties_hold_everything():
    zero, one, _ = split(np.array([41]), entropy=SYSTEM)
    words = (int(zero[0, 0]), int(zero[0, 1]), int(one[0, 1]))
    assert sum(words) % 2**64 == 41


@pytest.mark.parametrize("party", range(3))
@pytest.mark.parametrize("place", range(2))
def test_a_changed_word_is_found(party, place):
    pairs = split(np.array([1, 2]), entropy=SYSTEM)
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
    from discreet.mpc.engine import runtime_config

    io = api.Io(3, runtime_config())
    values = np.array([5, -7, 2**62, 0])
    shares = [native_share(pairs) for pairs in split(values, entropy=SYSTEM)]
    assert io.reconstruct(shares).tolist() == values.tolist()
    theirs = io.make_shares(values, native.Visibility.VIS_SECRET)
    assert combine([pairs_of(share) for share in theirs]).tolist() == values.tolist()


MEANT = {"kind": PackageKind.DATA, "session": bytes(range(32)), "party": 1, "owner": 4}


def package(**changes):
    pairs = split(np.array([1, 0, -5]), entropy=Seeded(b"p"))[1]
    return Package(**(MEANT | {"sharing": b"s" * 16, "pairs": pairs} | changes))


def resealed(raw):
    """Recompute the checksum, as somebody who changes a package on purpose would."""
    return bytes(raw[:-32]) + hashlib.sha256(raw[:-32]).digest()


def test_a_package_reads_back_as_written_and_never_prints_its_shares():
    raw = package().encode()
    found = Package.decode(raw)
    assert len(raw) == OVERHEAD + 3 * 16
    assert np.array_equal(found.pairs, package().pairs)
    assert found.encode() == raw
    found.require(**MEANT, values=3)
    assert "pairs" not in repr(found)


def test_the_format_is_fixed():
    """A change of these bytes is a new version of the format."""
    raw = package().encode()
    assert raw[:2] == b"\1\x40"
    assert raw[2:54] == b"\1" + bytes(range(32)) + b"\1" + b"\0\4" + b"s" * 16
    assert raw[54:70] == package().pairs[0].astype("<u8").tobytes()


def test_every_truncation_and_every_flipped_byte_is_refused():
    raw = package().encode()
    for place in range(len(raw)):
        flipped = bytearray(raw)
        flipped[place] ^= 1
        for wrong in (raw[:place], bytes(flipped)):
            with pytest.raises(MalformedMessageError):
                Package.decode(wrong)


@pytest.mark.parametrize(
    ("start", "content", "sentence"),
    [
        (0, b"\2", "same release"),
        (1, b"\7", "tag 7"),
        (2, b"\7", "unknown PackageKind"),
    ],
)
def test_a_changed_header_is_refused_even_with_a_new_checksum(start, content, sentence):
    raw = bytearray(package().encode())
    raw[start : start + len(content)] = content
    with pytest.raises(MalformedMessageError, match=sentence):
        Package.decode(resealed(raw))


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"session": b"x" * 32}, "for another session"),
        ({"party": 0}, "for party 1, not for party 0"),
        ({"owner": 3}, "of another owner"),
        ({"values": 4}, "hold 3 values, the session says 4"),
        ({"kind": PackageKind.RESULT}, "these are data shares, not result ones"),
    ],
)
def test_a_whole_package_for_something_else_is_refused(wanted, sentence):
    with pytest.raises(PackageError, match=sentence):
        package().require(**(MEANT | {"values": 3} | wanted))


@pytest.mark.parametrize(
    "changes",
    [{"party": 3}, {"session": b""}, {"sharing": b""}, {"pairs": np.zeros(3)}],
)
def test_a_package_cannot_be_made_wrong(changes):
    with pytest.raises(PackageError):
        package(**changes)
