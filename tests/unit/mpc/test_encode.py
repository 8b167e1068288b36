"""Words: one to one, in the order of the scores, and validated before sharing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.mpc.encode import PAD, Encoded, encode, keys_of, padded_size

SMALLEST, BEYOND = 2.0**-446, 7.3e19
SCORE = st.floats(allow_nan=False).filter(
    lambda x: x == 0 or math.isinf(x) or SMALLEST <= abs(x) < BEYOND
)


@given(st.lists(SCORE, min_size=2, max_size=2))
def test_keys_descend_exactly_where_scores_ascend(pair):
    a, b = pair
    key_a, key_b = keys_of(np.array([a, b])).tolist()
    assert (key_a < key_b) == (a > b)
    assert (key_a == key_b) == (a == b)


@given(SCORE, st.booleans())
def test_a_word_has_63_bits_and_stands_before_padding(score, label):
    word = 2 * int(keys_of(np.array([score]))[0]) + label
    assert 0 <= word < PAD


def test_scores_one_ulp_apart_have_keys_one_apart():
    for score in (1e-134, 0.1, 0.5, 1.0, -3.5):
        above = np.nextafter(score, np.inf)
        keys = keys_of(np.array([score, above]))
        assert keys[0] - keys[1] == 1


def test_both_zeros_have_one_key():
    assert keys_of(np.array([0.0]))[0] == keys_of(np.array([-0.0]))[0]


@pytest.mark.parametrize(
    "score", [5e-324, 1e-135, -1e-135, 7.4e19, 1e300, float(np.finfo(float).max)]
)
def test_magnitudes_that_62_bits_do_not_hold_are_refused_without_the_value(score):
    with pytest.raises(InputError, match="1 scores are not 0") as error:
        keys_of(np.array([0.5, score]))
    assert str(score) not in str(error.value)


def test_the_ends_of_the_range_and_infinity_are_told_apart():
    below = 7e19
    scores = np.array([-np.inf, -below, -SMALLEST, 0.0, SMALLEST, below, np.inf])
    assert (np.diff(keys_of(scores)) < 0).all()


def test_single_precision_scores_keep_their_order():
    scores = np.array([0.1, 0.2, 0.2], dtype=np.float32)
    words = encode(Examples(scores, [0, 1, 0])).words
    assert words[0] + 1 == words[1] < words[2]


def test_owners_share_their_rows_in_the_order_of_the_scores():
    """So the order in which they come says nothing."""
    rows = Examples([0.2, 0.9, 0.9, 0.1], [0, 1, 0, 1])
    other = Examples([0.9, 0.1, 0.2, 0.9], [0, 1, 0, 1])
    words = encode(rows).words
    assert (np.diff(words) > 0).all()
    assert np.array_equal(words, encode(other).words)
    assert (words & 1).tolist() == [0, 1, 0, 1]


def test_logits_and_other_ranges_are_encoded_without_loss():
    logits = Examples([-3.0, np.nextafter(-3.0, 0), 40.0], [0, 1, 1], kind="logit")
    keys = encode(logits).words >> 1
    assert keys[2] == keys[1] + 1
    assert keys[0] < keys[1]
    encode(Examples([5.0, 7.0], [0, 1], kind="other", low=0, high=10))


def test_padding_hides_the_count_and_keeps_the_rows():
    plain = encode(Examples([0.2, 0.9], [0, 1]))
    padded = encode(Examples([0.2, 0.9], [0, 1]), padded_to=5)
    assert (plain.rows, plain.count, padded.rows, padded.count) == (2, 2, 5, 2)
    assert padded.words.tolist() == [*plain.words.tolist(), PAD, PAD, PAD]
    assert PAD & 1 == 0


def test_labels_given_by_their_positive_name_become_0_and_1():
    site = Examples([0.2, 0.9], ["ill", "well"], positive="ill")
    assert (encode(site).words & 1).tolist() == [0, 1]


def test_more_examples_than_the_padded_size_are_refused_without_their_number():
    with pytest.raises(InputError, match="agreed 2 padded rows") as error:
        encode(Examples([0.1, 0.2, 0.3], [0, 1, 1]), padded_to=2)
    assert "3" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([3, 2], "sort them"),
        ([-1, 2], "between 0 and"),
        ([1, PAD + 1], "between 0 and"),
        ([[1], [2]], "a vector of 64-bit integers"),
        ([0.5, 1.5], "a vector of 64-bit integers"),
    ],
)
def test_rows_that_would_make_a_wrong_result_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        Encoded(np.array(words))


def test_several_classes_or_models_are_refused():
    with pytest.raises(InputError, match="one score a row"):
        encode(Examples([[0.1, 0.9], [0.2, 0.8]], [0, 1]))
    many = Examples([0.1, 0.5], ["a", "b"], classes=["a", "b", "c"])
    with pytest.raises(InputError, match="two classes"):
        encode(many)


def test_a_score_out_of_range_is_refused_at_the_owner():
    with pytest.raises(InputError, match="1 of 2 scores are NaN or outside"):
        Examples([0.1, 1.5], [0, 1])


def test_rows_never_print():
    assert repr(encode(Examples([0.125, 0.5], [0, 1]))) == "Encoded(rows=2)"


def test_padded_sizes_are_powers_of_two():
    assert [padded_size(n) for n in (1, 2, 3, 1024, 1025)] == [1, 2, 4, 1024, 2048]
    with pytest.raises(InputError, match="no owner has an example"):
        padded_size(0)
