"""Exact Poisson and geometric counts from secret bytes, many at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError
from discreet.noise.coins import bernoulli, uniform_below

_CHUNK: Final = 1 << 16
"""Draws held at once: memory stays bounded for any mean."""
_LEADING_ONES: Final = np.array(
    [8 - (255 - byte).bit_length() for byte in range(256)], dtype=np.uint8
)
_BLOCK: Final = 8
"""The integer weights of a Poisson(8) count fit 62 bits."""


def geometric_half(size: int, entropy: Entropy) -> IntVector:
    r"""Count the heads of fair coins before the first tail.

    .. math:: \Pr[K = k] = 2^{-k-1}, \qquad k = 0, 1, 2, \dots
    """
    heads = _LEADING_ONES[np.frombuffer(entropy(size), dtype=np.uint8)]
    result = heads.astype(np.int64)
    running = np.flatnonzero(heads == 8)
    if running.size:
        result[running] += geometric_half(running.size, entropy)
    return result


def poisson(mean: Fraction, size: int, entropy: Entropy) -> IntVector:
    """Draw exact Poisson counts of a rational mean.

    A count is the sum of Poisson(8) counts and of one for the remainder: of the
    next integer mean above it, each of its points kept with the rational
    probability that makes up the difference. The work grows with the mean, at
    one word of secret bytes for every 8.
    """
    if mean < 0:
        raise PlanError("the mean of a Poisson count cannot be negative")
    blocks, rest = divmod(mean, _BLOCK)
    result = np.zeros(size, dtype=np.int64)
    if rest:
        above = math.ceil(rest)
        result += _thin(_poisson_block(above, size, entropy), rest / above, entropy)
    for start in range(0, size * blocks, _CHUNK):
        cells = np.arange(start, min(start + _CHUNK, size * blocks)) // blocks
        np.add.at(result, cells, _poisson_block(_BLOCK, cells.size, entropy))
    return result


def _poisson_block(mean: int, size: int, entropy: Entropy) -> IntVector:
    r"""Draw Poisson counts of a small integer mean b, by integer weights.

    With :math:`w_k = b^k (2b-1)!/k!`, an integer for k < 2b, a uniform integer
    below :math:`w_0 + \dots + w_{2b-1} + w_{2b-1}` finds its k by inversion, or
    falls into the last term, the tail. There :math:`w_{2b} = w_{2b-1}/2`, and
    :math:`w_{2b+g} = w_{2b}\, 2^{-g} \prod_{i \le g} \frac{2b}{2b+i}`: a geometric
    g is accepted with the probability of that product, else all is drawn again.
    """
    top = 2 * mean - 1
    weights = [
        mean**k * math.factorial(top) // math.factorial(k) for k in range(2 * mean)
    ]
    running = np.cumsum(np.array(weights, dtype=np.uint64))
    result = np.zeros(size, dtype=np.int64)
    todo = np.arange(size)
    while todo.size:
        total = np.full(todo.size, sum(weights) + weights[-1], dtype=np.uint64)
        k = np.searchsorted(running, uniform_below(total, entropy), side="right")
        result[todo] = k
        tail = todo[k > top]
        beyond = geometric_half(tail.size, entropy)
        result[tail] += beyond
        todo = tail[~_falling_coin(2 * mean, beyond, entropy)]
    return result


def _falling_coin(start: int, steps: IntVector, entropy: Entropy) -> NDArray[np.bool_]:
    """Flip coins of probability start/(start+1) * ... * start/(start+steps)."""
    result = np.ones(steps.size, dtype=np.bool_)
    left = np.flatnonzero(steps > 0)
    i = 1
    while left.size:
        lucky = bernoulli(Fraction(start, start + i), left.size, entropy)
        result[left[~lucky]] = False
        left = left[lucky & (steps[left] > i)]
        i += 1
    return result


def _thin(counts: IntVector, keep: Fraction, entropy: Entropy) -> IntVector:
    """Keep each counted point with a rational probability."""
    if keep == 1:
        return counts
    owners = np.repeat(np.arange(counts.size), counts)
    kept = bernoulli(keep, owners.size, entropy)
    return np.bincount(owners[kept], minlength=counts.size).astype(np.int64)
