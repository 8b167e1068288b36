"""Exact random integers and coins from secret bytes, many at a time.

Everything is integer arithmetic on whole arrays: no float decides an outcome,
so the distributions hold exactly and not up to rounding.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.entropy import Entropy, words

MAX_BOUND: Final = 2**62
"""Bounds of uniform draws stay below this, so that 64-bit words never wrap."""


def uniform_below(bound: NDArray[np.uint64], entropy: Entropy) -> NDArray[np.uint64]:
    """Draw one integer uniformly from ``range(b)`` for each b, by rejection.

    A 64-bit word w is accepted when the multiple of b at or below it has another
    one above it, and then w mod b is uniform: at most one word in four is refused.
    """
    w = words(entropy, bound.size)
    result = w % bound
    todo = np.flatnonzero(w - result > np.uint64(0) - bound)  # past the last multiple
    while todo.size:
        b = bound[todo]
        w = words(entropy, todo.size)
        rest = w % b
        result[todo] = rest
        todo = todo[w - rest > np.uint64(0) - b]
    return result


def bernoulli_exp(
    numerator: NDArray[np.uint64], denominator: int, entropy: Entropy
) -> NDArray[np.bool_]:
    r"""Flip coins that are true with probability :math:`e^{-n/d}`, n <= d.

    Von Neumann's series, Algorithm 1 of Canonne, Kamath and Steinke (2020):
    draw K, the first k at which a coin of probability :math:`n/(dk)` fails;
    K is odd with probability :math:`e^{-n/d}`.
    """
    odd = np.zeros(numerator.shape, dtype=np.bool_)
    todo = np.arange(numerator.size)
    k = 1
    while todo.size:
        bound = np.full(todo.size, denominator * k, dtype=np.uint64)
        again = uniform_below(bound, entropy) < numerator[todo]
        odd[todo[~again]] = k % 2 == 1
        todo = todo[again]
        k += 1
    return odd


def fair(count: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Flip ``count`` fair coins."""
    bits = np.frombuffer(entropy(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(bits)[:count].astype(np.bool_)
