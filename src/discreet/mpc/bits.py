r"""Secret words as shares of bits: comparing them and choosing between them.

The engine compares arithmetic shares, and every comparison begins by turning a
difference into bits: 36 bytes a party. Words that *stay* bits are compared for 19 and
exchanged for 8 more where an arithmetic choice takes 21. Exclusive or, shifts and
products with public masks are local; only "and" sends something, as many bytes as its
operands are wide.

**Order.** Of two words the first bit in which they differ decides. With :math:`e` the
bits that are equal and :math:`v` the second word, two neighbouring bits are one:
:math:`e = e_h e_l`, :math:`v = v_h \oplus e_h (v_h \oplus v_l)`, so that v is the
second word's bit at the highest place that differs. Six such levels leave one bit.
Halves are cheaper to cut out than neighbours, so the bits of a word are *scattered*
first: bit i moves to the place whose six binary digits are those of i in reverse. Then
upper and lower half are neighbours, at every level. Bit 0 stays where it is.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

HALF: Final = 32
LEVELS: Final = 6
Pair: TypeAlias = tuple[Array, Array]


def scattered(words: Array, zero: Array) -> Array:
    """Turn words into bits, in the order in which they are compared.

    ``zero`` is a public input: an exclusive or with it makes shares of bits, once.
    """
    found = words ^ zero
    for low, high in ((0, 5), (1, 4), (2, 3)):  # exchange two digits of every place
        shift = (1 << high) - (1 << low)
        places = [i for i in range(2 * HALF) if i >> low & 1 and not i >> high & 1]
        mask = np.uint64(sum(1 << i for i in places)).astype(np.int64)
        moving = (_down(found, shift) ^ found) & mask
        found = found ^ moving ^ (moving << shift)
    return found


def below(x: Array, y: Array, *, strict: bool = False) -> Array:
    """Return a bit: 1 where x < y as unsigned words; ``strict`` for 0 where equal.

    Without ``strict`` the bit of equal words is one of their own: good enough for
    whoever puts two words in order, and a round less.
    """
    rows = x.shape[0]

    def level(k: Array, state: Pair) -> Pair:
        equal, found = state
        half = HALF >> k
        ones = (1 << half) - 1
        upper, first = _down(equal, half), _down(found, half)
        # One "and" for both: as many rounds as operations that send.
        both = jnp.concatenate([upper, upper]) & jnp.concatenate(
            [equal & ones, first ^ (found & ones)]
        )
        return both[:rows], first ^ both[rows:]

    start = ~(x ^ y), y
    ends: Pair = lax.fori_loop(0, LEVELS, level, start)
    equal, found = ends
    return found & (equal ^ 1) if strict else found


def nonzero(words: Array, width: int = 2 * HALF) -> Array:
    """Return a bit: 1 where some of the lowest ``width`` bits, a power of two, is set."""

    def level(k: Array, zeros: Array) -> Array:
        half = (width // 2) >> k
        return _down(zeros, half) & (zeros & ((1 << half) - 1))

    ones = -1 if width == 2 * HALF else (1 << width) - 1
    found: Array = lax.fori_loop(0, width.bit_length() - 1, level, ~words & ones)
    return found ^ 1


def everywhere(bit: Array) -> Array:
    """Return a word whose 64 bits are all this bit; local."""
    # In two steps: the compiler takes one shift by 63 for a comparison with zero.
    return ((bit << 63) >> 32) >> 31


def _down(words: Array, shift: Array | int) -> Array:
    return lax.shift_right_logical(words, jnp.asarray(shift, words.dtype))
