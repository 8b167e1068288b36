"""Exact random integers and coins from secret bytes, many at a time.

Everything is integer arithmetic on whole arrays: no float decides an outcome,
so the distributions hold exactly and not up to rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.entropy import Entropy, words
from discreet.errors import PlanError


def stretched(entropy: Entropy) -> Entropy:
    """Draw a 256-bit seed and return its AES-256-CTR keystream.

    Exact sampling is hungry for bytes, and asking the operating system for each
    of them takes most of the time. Its generator is itself a stretched seed (of
    ChaCha20), so nothing is assumed that was not assumed before but that AES is
    a pseudorandom function. The key is fresh and lives as long as one call of a
    mechanism: it is never stored, and a retry resends the stored answer.
    """
    keystream = Cipher(algorithms.AES256(entropy(32)), modes.CTR(bytes(16))).encryptor()

    def draw(size: int) -> bytes:
        return keystream.update(bytes(size))

    return draw


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


_MAX_DENOMINATOR: Final = 2**56
"""Coins multiply a denominator by small integers; this leaves them room."""


def bernoulli(probability: Fraction, size: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Flip coins of one rational probability."""
    if not 0 <= probability <= 1:
        raise PlanError("a probability lies between 0 and 1")
    if probability.denominator >= MAX_BOUND:
        raise PlanError("a probability needs fewer digits: round it")
    if probability in (0, 1):
        return np.full(size, probability == 1)
    bound = np.full(size, probability.denominator, dtype=np.uint64)
    return uniform_below(bound, entropy) < np.uint64(probability.numerator)


def bernoulli_exp_ratio(
    numerator: IntVector, denominator: int, entropy: Entropy
) -> NDArray[np.bool_]:
    """Flip coins of probability exp(-numerator/denominator), however large."""
    if denominator >= _MAX_DENOMINATOR:
        raise PlanError("the exponent of a coin needs fewer digits: round it")
    whole, rest = np.divmod(numerator, denominator)
    return bernoulli_exp_parts(whole, rest, denominator, entropy)


def bernoulli_exp_parts(
    whole: IntVector, rest: IntVector, denominator: int, entropy: Entropy
) -> NDArray[np.bool_]:
    """Flip coins of probability exp(-whole - rest/denominator), rest in range.

    One coin for the remainder, then coins of probability 1/e for the whole part,
    one after another while they succeed.
    """
    result = bernoulli_exp(rest.astype(np.uint64), denominator, entropy)
    left = np.flatnonzero(result & (whole > 0))
    done = 0
    while left.size:
        lucky = bernoulli_exp(np.ones(left.size, dtype=np.uint64), 1, entropy)
        result[left[~lucky]] = False
        done += 1
        left = left[lucky & (whole[left] > done)]
    return result


def bernoulli_two_over_e(power: IntVector, entropy: Entropy) -> NDArray[np.bool_]:
    r"""Flip coins of probability :math:`(2/e)^{power}`, one 2/e coin at a time.

    :math:`2/e = 1 - \frac1{3} + \frac1{3\cdot4} - \dots`: with K the first k >= 3
    at which a coin of probability 1/k fails, K is odd with probability 2/e.
    """
    result = np.ones(power.size, dtype=np.bool_)
    left = np.flatnonzero(power > 0)
    done = 0
    while left.size:
        lucky = np.zeros(left.size, dtype=np.bool_)
        running = np.arange(left.size)
        k = 3
        while running.size:
            bound = np.full(running.size, k, dtype=np.uint64)
            again = uniform_below(bound, entropy) == 0
            lucky[running[~again]] = k % 2 == 1
            running = running[again]
            k += 1
        result[left[~lucky]] = False
        done += 1
        left = left[lucky & (power[left] > done)]
    return result


def bernoulli_logistic(
    exponent: Fraction, size: int, entropy: Entropy
) -> NDArray[np.bool_]:
    r"""Flip coins of probability :math:`1/(1 + e^x)`, x rational and positive.

    A fair coin says no, or asks a coin of probability :math:`e^{-x}` to say yes,
    and if that fails all is flipped again: yes to no is :math:`e^{-x}` to 1.
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
