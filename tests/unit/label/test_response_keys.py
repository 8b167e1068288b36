"""Kept and fresh flips: what stays, what a changed label shows, what is charged."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.label.response_keys import LabelSet
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.privacy.loss import PureDP

KEY = ResponseKey(b"k" * 32)
ONE = RandomizedResponse(PureDP(Fraction(1)))
NAMES = np.array([f"p{i}" for i in range(400)])


LABELS = (np.random.default_rng(2).random(400) < 0.4).astype(np.int64)
CHANGED = np.concatenate([LABELS[:7], 1 - LABELS[7:8], LABELS[8:]])


def _set(labels, scores=None, *, names=NAMES, session=b"a", population="icu"):
    scores = np.linspace(0, 1, len(labels)) if scores is None else scores
    examples = Examples(scores, labels, subjects=names)
    return LabelSet.of(examples, population=population, session=session)


def _agreement(one, other):
    return float(np.mean(one == other))


FRESH = 0.8
"""Independent flips of 400 labels agree on (1-rho)^2 + rho^2 = 61% of them; on 80% or
more with chance below 1e-14."""


def test_two_models_of_the_same_examples_get_the_same_flips_and_one_charge():
    rng = np.random.default_rng(3)
    one, other = (
        _set(LABELS, rng.random(400)),
        _set(LABELS, rng.random(400), session=b"b"),
    )
    np.testing.assert_array_equal(one.flipped(ONE, KEY), other.flipped(ONE, KEY))
    assert one.charge(ONE, KEY) == other.charge(ONE, KEY) is not None


def test_the_order_of_the_rows_does_not_matter():
    order = np.random.default_rng(4).permutation(LABELS.size)
    one, moved = _set(LABELS), _set(LABELS[order], names=NAMES[order])
    np.testing.assert_array_equal(one.flipped(ONE, KEY)[order], moved.flipped(ONE, KEY))
    assert one.charge(ONE, KEY) == moved.charge(ONE, KEY)


def test_a_changed_label_changes_its_own_report_and_no_other():
    before, after = _set(LABELS).flipped(ONE, KEY), _set(CHANGED).flipped(ONE, KEY)
    assert np.flatnonzero(before != after).tolist() == [7]


def test_the_charge_does_not_look_at_a_label():
    assert _set(LABELS).charge(ONE, KEY) == _set(1 - LABELS).charge(ONE, KEY)


def test_a_changed_label_costs_its_change_and_no_second_epsilon():
    """Brute force over the flip of one label and every history of three answers."""
    rho = Fraction(1, 4)  # epsilon is log 3

    def noise(history):
        found = {}
        for flip, chance in ((0, 1 - rho), (1, rho)):
            seen = tuple(y ^ flip for y in history)
            found[seen] = found.get(seen, Fraction(0)) + chance
        return found

    histories = list(itertools.product((0, 1), repeat=3))
    for one, other in itertools.product(histories, repeat=2):
        p, q = noise(one), noise(other)
        same_changes = np.array_equal(np.abs(np.diff(one)), np.abs(np.diff(other)))
        if same_changes:
            assert all(p[seen] <= 3 * q[seen] for seen in p)
        else:  # told apart for certain: what the claim says is not protected
            assert not set(p) & set(q)


def test_another_population_key_or_epsilon_has_flips_of_its_own():
    one = _set(LABELS).flipped(ONE, KEY)
    two = RandomizedResponse(PureDP(Fraction(2)))
    others = [
        _set(LABELS, population="ward").flipped(ONE, KEY),
        _set(LABELS).flipped(ONE, ResponseKey(b"x" * 32)),
        _set(LABELS).flipped(two, KEY),
    ]
    assert max(_agreement(one, other) for other in others) < FRESH
    charges = {
        _set(LABELS).charge(ONE, KEY),
        _set(LABELS, population="ward").charge(ONE, KEY),
        _set(LABELS).charge(ONE, ResponseKey(b"x" * 32)),
        _set(LABELS).charge(two, KEY),
    }
    assert len(charges) == 4


def test_other_ids_are_charged_again():
    """New ids of the same examples draw new flips: an old charge does not cover them."""
    renamed = _set(LABELS, names=np.array([f"q{i}" for i in range(400)]))
    assert renamed.charge(ONE, KEY) != _set(LABELS).charge(ONE, KEY)
    fewer = _set(LABELS[1:], names=NAMES[1:])
    assert fewer.charge(ONE, KEY) != _set(LABELS).charge(ONE, KEY)
    np.testing.assert_array_equal(
        fewer.flipped(ONE, KEY), _set(LABELS).flipped(ONE, KEY)[1:]
    )


def test_without_ids_every_session_has_fresh_flips_and_a_charge():
    # One flip on the labels of two examples would show whether they agree, and rows
    # without ids may be other examples in another session.
    one, other = _set(LABELS, names=None), _set(LABELS, names=None, session=b"b")
    assert one.charge(ONE, KEY) is None
    assert _agreement(one.flipped(ONE, KEY), other.flipped(ONE, KEY)) < FRESH
    again = _set(LABELS, names=None)
    np.testing.assert_array_equal(one.flipped(ONE, KEY), again.flipped(ONE, KEY))


def test_a_subject_with_two_examples_is_no_id():
    assert _set([0, 1], names=["a", "a"]).ids is None
    assert _set([0, 1], names=["a", "b"]).ids == (b"subject a", b"subject b")
    assert _set([], names=None).ids == ()


def test_ids_must_differ_and_be_as_many_as_labels():
    with pytest.raises(InputError, match="must differ"):
        LabelSet(np.array([0, 1]), (b"a", b"a"), "icu", b"")
    with pytest.raises(InputError, match="2 labels need as many ids, got 1"):
        LabelSet(np.array([0, 1]), (b"a",), "icu", b"")


def test_long_and_short_ids_cannot_make_the_same_charge():
    one = LabelSet(np.array([1, 0]), (b"a", b"bc"), "icu", b"")
    other = LabelSet(np.array([1, 0]), (b"ab", b"c"), "icu", b"")
    assert one.charge(ONE, KEY) != other.charge(ONE, KEY)


def test_labels_and_ids_are_not_printed():
    assert repr(_set([0, 1], names=["a", "b"])) == (
        "LabelSet(population='icu', session=b'a')"
    )
