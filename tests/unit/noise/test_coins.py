"""Published draws of every sampler from a seeded entropy.

They say nothing about the distribution (tests/statistical does); they notice a
change in how secret bytes become noise, on any machine and version of NumPy.
"""

from fractions import Fraction

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.noise.coins import geometric_half, poisson, stretched
from discreet.noise.laplace import discrete_laplace
from discreet.noise.polya import polya_difference
from discreet.noise.response import RandomizedResponse, ResponseKey, flip_threshold
from discreet.noise.skellam import skellam
from discreet.noise.unary import UnaryEncoding
from discreet.privacy.loss import PureDP

SIZE = 12
VECTORS = {
    "discrete Laplace, scale 5/2": (
        lambda e: discrete_laplace(Fraction(5, 2), SIZE, e),
        [3, -4, 0, -4, 8, -5, -1, 2, -13, 2, -11, 2],
    ),
    "Polya share, gamma 1/10, 3 honest sites": (
        lambda e: polya_difference(Fraction(1, 10), 3, SIZE, e),
        [1, -4, -3, 0, 0, 0, 7, 0, 0, 4, -4, 0],
    ),
    "Polya share, gamma 1, 2 honest sites": (
        lambda e: polya_difference(Fraction(1), 2, SIZE, e),
        [0, -3, -1, 0, -1, 0, -2, 1, 0, 0, 0, 1],
    ),
    "Polya share of a single honest site": (
        lambda e: polya_difference(Fraction(1, 3), 1, SIZE, e),
        [3, 4, 1, 0, -1, 0, 7, -11, 2, 0, -1, 5],
    ),
    "Skellam, variance 7": (
        lambda e: skellam(Fraction(7), SIZE, e),
        [0, -2, 2, -4, 0, -2, 1, -3, -5, -1, -1, 1],
    ),
    "Poisson, mean 37/3": (
        lambda e: poisson(Fraction(37, 3), SIZE, e),
        [11, 14, 13, 13, 12, 10, 14, 8, 10, 22, 13, 14],
    ),
    "geometric": (
        lambda e: geometric_half(SIZE, e),
        [0, 0, 0, 6, 0, 1, 0, 1, 0, 0, 4, 0],
    ),
    "unary encoding, clients of cells 0, 3 and none": (
        lambda e: UnaryEncoding(PureDP(Fraction(1))).encode(
            np.array([0, 3, -1]), cells=4, entropy=e
        ),
        [[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]],
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_seeded_sampler_reproduces_its_published_draws(name):
    draw, expected = VECTORS[name]
    assert draw(Seeded(b"vector-1")).tolist() == expected


@pytest.mark.parametrize("name", VECTORS)
def test_another_seed_gives_other_draws(name):
    draw, expected = VECTORS[name]
    assert draw(Seeded(b"vector-2")).tolist() != expected


def test_label_flips_of_a_known_key_are_the_published_ones():
    response = RandomizedResponse(PureDP(Fraction(1)))
    ids = [bytes([i]) for i in range(16)]
    flipped = response.flip(
        np.zeros(16, dtype=int), ids, key=ResponseKey(bytes(range(32)))
    )
    assert flipped.tolist() == [0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0]
    assert flip_threshold(Fraction(1)) == 91516023426863400455010511319499466124


def test_a_stretched_seed_is_the_aes_256_counter_keystream():
    """AES-256 of the zero block under the zero key is a published vector."""
    stream = stretched(bytes)
    assert stream(16).hex() == "dc95c078a2408989ad48a21492842087"


def test_a_stretched_seed_goes_on_and_never_repeats():
    whole = stretched(Seeded(b"seed"))(64)
    parts = stretched(Seeded(b"seed"))
    assert parts(40) + parts(24) == whole
    assert whole[:32] != whole[32:]
    entropy = Seeded(b"seed")
    assert stretched(entropy)(32) != stretched(entropy)(32)
