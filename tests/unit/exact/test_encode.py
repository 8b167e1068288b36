"""Keys: one to one, order-reversing, and validated before anything is shared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.exact.encode import PAD, Encoded, encode, keys_of, padded_size

ANY_SCORE = st.floats(allow_nan=False)


@given(st.lists(ANY_SCORE, min_size=2, max_size=2))
def test_keys_descend_exactly_where_scores_ascend(pair):
    a, b = pair
    key_a, key_b = keys_of(np.array([a, b])).tolist()
    assert (key_a < key_b) == (a > b)
    assert (key_a == key_b) == (a == b)


def test_scores_one_ulp_apart_have_keys_one_apart():
    for score in (0.0, 1e-300, 0.1, 0.5, 1.0, -3.5):
        above = np.nextafter(score, np.inf)
        keys = keys_of(np.array([score, above]))
        assert keys[0] - keys[1] == 1


def test_both_zeros_have_one_key():
    assert keys_of(np.array([0.0]))[0] == keys_of(np.array([-0.0]))[0]


def test_padding_sorts_after_minus_infinity():
    assert keys_of(np.array([-np.inf]))[0] < PAD


def test_single_precision_scores_keep_their_order():
    scores = np.array([0.1, 0.2, 0.2], dtype=np.float32)
    keys = encode(Examples(scores, [0, 1, 0])).keys
    assert keys[0] > keys[1] == keys[2]


def test_logits_and_other_ranges_are_encoded_without_loss():
    logits = Examples([-3.0, np.nextafter(-3.0, 0), 40.0], [0, 1, 1], kind="logit")
    keys = encode(logits).keys
    assert keys[0] == keys[1] + 1
    assert keys[2] < keys[1]
    encode(Examples([5.0, 7.0], [0, 1], kind="other", low=0, high=10))


def test_padding_hides_the_count_and_keeps_the_rows():
    plain = encode(Examples([0.2, 0.9], [0, 1]))
    padded = encode(Examples([0.2, 0.9], [0, 1]), padded_to=5)
    assert (plain.rows, plain.count, padded.rows, padded.count) == (2, 2, 5, 2)
    assert padded.keys.tolist() == [*plain.keys.tolist(), PAD, PAD, PAD]
    assert padded.labels.tolist() == [0, 1, 0, 0, 0]


def test_labels_given_by_their_positive_name_become_0_and_1():
    site = Examples([0.2, 0.9], ["ill", "well"], positive="ill")
    assert encode(site).labels.tolist() == [1, 0]


def test_more_examples_than_the_padded_size_are_refused_without_their_number():
    with pytest.raises(InputError, match="agreed 2 padded rows") as error:
        encode(Examples([0.1, 0.2, 0.3], [0, 1, 1]), padded_to=2)
    assert "3" not in str(error.value)


@pytest.mark.parametrize(
    ("keys", "labels", "message"),
    [
        ([1, 2], [0, 2], "1 of 2 labels are not 0 or 1"),
        ([1, 2], [0, -1], "labels are not 0 or 1"),
        ([1, PAD], [0, 1], "a padding row has no label"),
        ([1], [0, 1], "one key and one label"),
    ],
)
def test_rows_that_would_make_a_wrong_result_are_refused(keys, labels, message):
    with pytest.raises(InputError, match=message):
        Encoded(np.array(keys), np.array(labels))


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
