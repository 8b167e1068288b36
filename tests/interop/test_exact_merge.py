"""Comparing, choosing and merging words bit by bit, in the clear: brute force."""

from itertools import product

import numpy as np
import pytest

from discreet.mpc import circuit
from discreet.mpc.shares import PAD

pytestmark = [pytest.mark.interop, pytest.mark.mpc]
EDGES = (
    *(0, 1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**62),
    *(PAD - 1, PAD, 2**63 - 1, -1, -(2**63)),
)


def in_the_clear(function, *values):
    """Run what would be compiled, with 64-bit integers."""
    from jax.experimental import enable_x64

    with enable_x64():
        return np.asarray(function(*values))


def scattered(words):
    return circuit.scattered(np.asarray(words, dtype=np.int64), np.int64(0))


def restored(words):
    """Scattering is its own inverse: digits of places are reversed twice."""
    return circuit.scattered(words, np.int64(0))


def test_bit_i_moves_to_the_reverse_of_i_and_bit_0_stays():
    words = np.array([1 << i for i in range(63)] + [-(2**63)], dtype=np.int64)
    found = in_the_clear(scattered, words).view(np.uint64)
    places = [int(f"{i:06b}"[::-1], 2) for i in range(64)]
    assert found.tolist() == [1 << place for place in places]


def compared(left, right, *, strict):
    found = in_the_clear(
        lambda x, y: circuit.below(scattered(x), scattered(y), strict=strict),
        left,
        right,
    )
    return (found == (left.view(np.uint64) < right.view(np.uint64))).all()


@pytest.mark.parametrize("strict", [True, False])
def test_words_are_compared_as_unsigned_numbers(strict):
    pairs = np.array(list(product(EDGES, EDGES)), dtype=np.int64)
    if not strict:  # of equal words either answer is good
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    assert compared(*pairs.T.copy(), strict=strict)


def test_the_first_bit_that_differs_decides():
    rng = np.random.default_rng(3)
    left = rng.integers(-(2**63), 2**63, 5000)
    right = left ^ rng.integers(-(2**63), 2**63, 5000) >> rng.integers(0, 64, 5000)
    assert compared(left, right, strict=True)


@pytest.mark.parametrize("width", [16, 64])
def test_one_bit_that_is_set_is_found(width):
    words = np.array([0, *(1 << i for i in range(min(width, 63)))], dtype=np.int64)
    found = in_the_clear(lambda x: circuit.nonzero(x, width), words)
    assert found.tolist() == [0] + [1] * (words.size - 1)


def test_a_bit_fills_a_word():
    found = in_the_clear(circuit.everywhere, np.array([0, 1], dtype=np.int64))
    assert found.tolist() == [0, -1]


def runs_of(sizes, seed=0, levels=50):
    rng = np.random.default_rng(seed)
    return [np.sort(rng.integers(0, levels, n)) for n in sizes]


def merged(runs):
    def of_bits(*shared):
        pad = scattered(np.array([PAD]))
        return restored(circuit.merged([scattered(x) for x in shared], pad))

    return in_the_clear(of_bits, *runs)


RAGGED = (7, 1, 1, 64, 5)


@pytest.mark.parametrize(
    ("few", "sizes"),
    [
        (circuit.FEW, RAGGED),
        *((4, sizes) for sizes in ((1,), (1, 1), RAGGED, (16,) * 5, (1,) * 9)),
    ],
    ids=str,
)
def test_merging_is_sorting(few, sizes, monkeypatch):
    """Two layers at once, and one by one with padding left out on the way."""
    monkeypatch.setattr(circuit, "FEW", few)
    runs = runs_of(sizes)
    assert np.array_equal(merged(runs), np.sort(np.concatenate(runs)))


def test_padding_of_a_long_merge_is_left_out(monkeypatch):
    """5,000 + 5,000 words stand in 16,384 places for four layers, then in 10,240."""
    seen = []
    layers = circuit._layers

    def watched(words, number):
        seen.append((words.shape[0], number))
        return layers(words, number)

    monkeypatch.setattr(circuit, "_layers", watched)
    runs = runs_of((5000, 5000), levels=10**6)
    assert np.array_equal(merged(runs), np.sort(np.concatenate(runs)))
    assert seen == [(16_384, 4), (10_240, 10)]


@pytest.mark.parametrize("width", [1, 2, 3, 100, 1025])
def test_every_column_of_a_table_is_found(width):
    table = np.arange(3 * width, dtype=np.int64).reshape(3, width)
    for place in {0, 1, width // 2, width - 1} & set(range(width)):
        found = in_the_clear(circuit.looked_up, table, np.int64(place), np.int64(0))
        assert found.tolist() == table[:, place].tolist()
