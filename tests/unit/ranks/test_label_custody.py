"""Label sets: stable ids, stable flips, and what makes another set."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.noise.response import RandomizedResponse, ResponseKey
from discreet.privacy.loss import PureDP
from discreet.ranks.label_custody import LabelSet

KEY = ResponseKey(b"k" * 32)
ONE = RandomizedResponse(PureDP(Fraction(1)))


def _labels(size: int = 400) -> np.ndarray:
    return (np.random.default_rng(2).random(size) < 0.4).astype(np.int64)


def test_two_models_get_the_same_flips() -> None:
    y = _labels()
    rng = np.random.default_rng(3)
    one, other = (LabelSet.of(Examples(rng.random(y.size), y)) for _ in range(2))
    np.testing.assert_array_equal(one.flipped(ONE, KEY), other.flipped(ONE, KEY))
    assert one.charge(ONE, KEY) == other.charge(ONE, KEY)


def test_with_subjects_the_order_of_the_rows_does_not_matter() -> None:
    y = _labels()
    s = np.linspace(0, 1, y.size)
    names = np.array([f"p{i}" for i in range(y.size)])
    order = np.random.default_rng(4).permutation(y.size)
    one = LabelSet.of(Examples(s, y, subjects=names))
    moved = LabelSet.of(Examples(s[order], y[order], subjects=names[order]))
    np.testing.assert_array_equal(one.flipped(ONE, KEY)[order], moved.flipped(ONE, KEY))
    assert one.charge(ONE, KEY) == moved.charge(ONE, KEY)


def test_without_subjects_another_order_is_another_set_with_fresh_flips() -> None:
    y = _labels()
    s = np.linspace(0, 1, y.size)
    one, moved = LabelSet.of(Examples(s, y)), LabelSet.of(Examples(s, y[::-1]))
    assert one.charge(ONE, KEY) != moved.charge(ONE, KEY)


def test_a_subject_with_two_examples_makes_row_numbers_the_ids() -> None:
    found = LabelSet.of(Examples([0.1, 0.2], [0, 1], subjects=["a", "a"]))
    assert found.ids == (b"row 0", b"row 1")
    found = LabelSet.of(Examples([0.1, 0.2], [0, 1], subjects=["a", "b"]))
    assert found.ids == (b"subject a", b"subject b")


def test_a_corrected_label_gets_fresh_flips_for_everybody() -> None:
    # The same flips on both sets would show which label was corrected: all
    # reported labels but one would agree. Fresh ones disagree on 2 rho (1 - rho) =
    # 39% of them; 400 labels agree on 90% or more with chance below 1e-9.
    y = _labels()
    corrected = y.copy()
    corrected[7] = 1 - corrected[7]
    s = np.linspace(0, 1, y.size)
    one, other = (LabelSet.of(Examples(s, labels)) for labels in (y, corrected))
    agree = np.mean(one.flipped(ONE, KEY) == other.flipped(ONE, KEY))
    assert agree < 0.9


def test_key_and_epsilon_are_part_of_the_charge() -> None:
    labels = LabelSet.of(Examples([0.1, 0.2], [0, 1]))
    two = RandomizedResponse(PureDP(Fraction(2)))
    charges = {
        labels.charge(ONE, KEY),
        labels.charge(two, KEY),
        labels.charge(ONE, ResponseKey(b"x" * 32)),
    }
    assert len(charges) == 3


def test_ids_must_differ_and_be_as_many_as_labels() -> None:
    with pytest.raises(InputError, match="must differ"):
        LabelSet(np.array([0, 1]), (b"a", b"a"))
    with pytest.raises(InputError, match="2 labels need as many ids, got 1"):
        LabelSet(np.array([0, 1]), (b"a",))


def test_long_and_short_ids_cannot_make_the_same_set() -> None:
    one = LabelSet(np.array([1, 0]), (b"a", b"b1 1 c"))
    other = LabelSet(np.array([1, 0]), (b"a0 1 b", b"c"))
    assert one.digest != other.digest
