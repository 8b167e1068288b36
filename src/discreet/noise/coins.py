"""Exact random integers, coins and counts from secret bytes, many at a time.

Everything is integer arithmetic on whole arrays: no float decides an outcome,
so the distributions hold exactly and not up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from discreet.arrays import BoolVector, IntVector
from discreet.entropy import Entropy, words
from discreet.errors import PlanError

MAX_BOUND: Final = 2**62
"""Bounds of uniform draws stay below this, so that 64-bit words never wrap."""
_MAX_DENOMINATOR: Final = 2**56
"""Coins multiply a denominator by small integers, and stay below ``MAX_BOUND``."""
_CHUNK: Final = 1 << 16
"""Draws held at once: memory stays bounded for any mean."""
_LEADING_ONES: Final = np.array(
    [8 - (255 - byte).bit_length() for byte in range(256)], dtype=np.uint8
)
_BLOCK: Final = 8
"""The integer weights of a Poisson(8) count fit 62 bits."""


def stretched(entropy: Entropy) -> Entropy:
    """Draw a 256-bit seed and return its AES-256-CTR keystream.

    Exact sampling needs more bytes than the operating system gives quickly. Its generator
    is itself a stretched seed (of ChaCha20), so the only further assumption is that AES is
    a pseudorandom function. The key is fresh and never stored: it lives as long as one
    call of a mechanism, and a retry resends the stored answer.
    """
    keystream = Cipher(algorithms.AES256(entropy(32)), modes.CTR(bytes(16))).encryptor()

    def draw(size: int) -> bytes:
        return keystream.update(bytes(size))

    return draw


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


def uniform(bound: int, size: int, entropy: Entropy) -> NDArray[np.uint64]:
    """Draw integers uniformly from ``range(bound)``."""
    return uniform_below(np.full(size, bound, dtype=np.uint64), entropy)


def fair(count: int, entropy: Entropy) -> BoolVector:
    """Flip ``count`` fair coins."""
    bits = np.frombuffer(entropy(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(bits)[:count].astype(np.bool_)


def bernoulli(probability: Fraction, size: int, entropy: Entropy) -> BoolVector:
    """Flip coins of one rational probability."""
    if not 0 <= probability <= 1:
        raise PlanError("a probability lies between 0 and 1")
    if probability.denominator >= MAX_BOUND:
        raise PlanError("a probability needs fewer digits: round it")
    if probability in (0, 1):
        return np.full(size, probability == 1)
    below = uniform(probability.denominator, size, entropy)
    return below < np.uint64(probability.numerator)


def bernoulli_exp(
    numerator: NDArray[np.uint64], denominator: int, entropy: Entropy, *, first: int = 1
) -> BoolVector:
    r"""Flip coins that are true with probability :math:`e^{-n/d}`, n <= d.

    Von Neumann's series, Algorithm 1 of Canonne, Kamath and Steinke (2020):
    draw K, the first k at which a coin of probability :math:`n/(dk)` fails;
    K is odd with probability :math:`e^{-n/d}`.

    With n = d, starting at k = 3, K is odd with probability
    :math:`1 - \frac1{3} + \frac1{3\cdot4} - \dots = 2/e`.
    """
    odd = np.zeros(numerator.shape, dtype=np.bool_)
    todo = np.arange(numerator.size)
    k = first
    while todo.size:
        again = uniform(denominator * k, todo.size, entropy) < numerator[todo]
        odd[todo[~again]] = k % 2 == 1
        todo = todo[again]
        k += 1
    return odd


def bernoulli_exp_ratio(
    numerator: IntVector, denominator: int, entropy: Entropy
) -> BoolVector:
    """Flip coins of probability exp(-numerator/denominator), however large.

    One coin for the remainder, then coins of probability 1/e for the whole part,
    one after another while they succeed.
    """
    if denominator >= _MAX_DENOMINATOR:
        raise PlanError("the exponent of a coin needs fewer digits: round it")
    whole, rest = np.divmod(numerator, denominator)
    result = bernoulli_exp(rest.astype(np.uint64), denominator, entropy)
    return _all_succeed(result, whole, lambda _, size: _one_over_e(size, entropy))


def _one_over_e(size: int, entropy: Entropy, *, first: int = 1) -> BoolVector:
    return bernoulli_exp(np.ones(size, dtype=np.uint64), 1, entropy, first=first)


def geometric_e(size: int, entropy: Entropy) -> IntVector:
    """Count the successes of coins of probability 1/e before the first failure."""
    result = np.zeros(size, dtype=np.int64)
    running = np.arange(size)
    while running.size:
        running = running[_one_over_e(running.size, entropy)]
        result[running] += 1
    return result


def _all_succeed(
    result: BoolVector, times: IntVector, flip: Callable[[int, int], BoolVector]
) -> BoolVector:
    """Keep true what succeeds so many times more; ``flip(k, size)`` are k-th coins."""
    left = np.flatnonzero(result & (times > 0))
    k = 1
    while left.size:
        lucky = flip(k, left.size)
        result[left[~lucky]] = False
        left = left[lucky & (times[left] > k)]
        k += 1
    return result


def bernoulli_two_over_e(power: IntVector, entropy: Entropy) -> BoolVector:
    r"""Flip coins of probability :math:`(2/e)^{power}`, one 2/e coin at a time."""
    every = np.ones(power.size, dtype=np.bool_)
    return _all_succeed(every, power, lambda _, n: _one_over_e(n, entropy, first=3))


def bernoulli_logistic(exponent: Fraction, size: int, entropy: Entropy) -> BoolVector:
    r"""Flip coins of probability :math:`1/(1 + e^x)`, x rational and positive.

    A fair coin ends in False, or flips a coin of probability :math:`e^{-x}` for True,
    and if that fails all is flipped again: True to False is :math:`e^{-x}` to 1.
    """
    if exponent <= 0:
        raise PlanError("the exponent of a logistic coin must be positive")
    result = np.zeros(size, dtype=np.bool_)
    todo = np.arange(size)
    while todo.size:
        asking = todo[fair(todo.size, entropy)]
        numerator = np.full(asking.size, exponent.numerator, dtype=np.int64)
        yes = bernoulli_exp_ratio(numerator, exponent.denominator, entropy)
        result[asking[yes]] = True
        todo = asking[~yes]
    return result


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
        owners = np.repeat(np.arange(size), _poisson_block(above, size, entropy))
        kept = owners[bernoulli(rest / above, owners.size, entropy)]
        result += np.bincount(kept, minlength=size)
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
    total = sum(weights) + weights[-1]
    result = np.zeros(size, dtype=np.int64)
    todo = np.arange(size)

    def falling(i: int, size: int) -> BoolVector:
        return bernoulli(Fraction(2 * mean, 2 * mean + i), size, entropy)

    while todo.size:
        place = uniform(total, todo.size, entropy)
        k = np.searchsorted(running, place, side="right")
        result[todo] = k
        tail = todo[k > top]
        beyond = geometric_half(tail.size, entropy)
        result[tail] += beyond
        accepted = _all_succeed(np.ones(tail.size, dtype=np.bool_), beyond, falling)
        todo = tail[~accepted]
    return result
