r"""Shamir's secret sharing over the prime field of :math:`2^{256} + 297`.

The prime is the smallest above :math:`2^{256}`, so every 32-byte secret is an
element of the field and is given back bit for bit. A secret s is the value at 0
of a random polynomial of degree t - 1; site x holds its value at x. Any t values
determine s, and t - 1 of them say nothing about it (Shamir, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from discreet.entropy import Entropy

PRIME: Final = 2**256 + 297
SECRET_SIZE: Final = 32
SHARE_SIZE: Final = 33
"""Bytes of a share: field elements have up to 257 bits."""
_WIDE: Final = 49
"""Bytes drawn for a coefficient: reduced modulo the prime, its distance from
uniform is below 2^-128 (the rule of RFC 9380, section 5)."""


def deal(
    secret: bytes, *, to: Sequence[int], threshold: int, entropy: Entropy
) -> dict[int, bytes]:
    """Split a secret among the points ``to``; ``threshold`` of them restore it.

    >>> from discreet.entropy import Seeded
    >>> parts = deal(bytes(32), to=[1, 2, 3], threshold=2, entropy=Seeded(b"doc"))
    >>> restore({1: parts[1], 3: parts[3]}) == bytes(32)
    True
    """
    if len(secret) != SECRET_SIZE:
        raise ValueError(f"a secret has {SECRET_SIZE} bytes, got {len(secret)}")
    if not 1 <= threshold <= len(to):
        raise ValueError(f"a threshold of {threshold} cannot be met by {len(to)} sites")
    if min(to) < 1 or len(set(to)) != len(to):
        raise ValueError("the points are positive and differ: the secret sits at 0")
    wide = entropy(_WIDE * (threshold - 1))
    coefficients = [
        int.from_bytes(wide[i : i + _WIDE], "big") % PRIME
        for i in range(0, len(wide), _WIDE)
    ]
    coefficients.append(int.from_bytes(secret, "big"))
    return {x: _evaluate(coefficients, x).to_bytes(SHARE_SIZE, "big") for x in to}


def restore(shares: Mapping[int, bytes], *, near: tuple[int, ...] = ()) -> bytes | None:
    """Interpolate at 0 through all the given shares.

    Give exactly as many as the threshold. The result is ``None`` when the value
    is not one of a 32-byte secret; a wrong share usually gives a wrong secret, so
    the caller must check the result against a public key or a commitment.

    Args:
        shares: the shares by point.
        near: points that many calls have in common. When they are those of the
            shares and one more, times (that one - x) the polynomial is zero at it,
            and the weights of all these points, computed once, serve.
    """
    values = {x: int.from_bytes(share, "big") for x, share in shares.items()}
    left_out = set(near) - values.keys()
    if len(left_out) == 1 and len(near) == len(values) + 1:
        (missing,) = left_out
        value = _at_zero(near, {x: y * (missing - x) for x, y in values.items()})
        value = value * pow(missing, -1, PRIME) % PRIME
    else:
        value = _at_zero(tuple(sorted(values)), values)
    return None if value >> 256 else value.to_bytes(SECRET_SIZE, "big")


def is_share(raw: bytes) -> bool:
    """Tell whether bytes encode an element of the field."""
    return len(raw) == SHARE_SIZE and int.from_bytes(raw, "big") < PRIME


def _evaluate(coefficients: Sequence[int], x: int) -> int:
    """Horner's rule; reducing once at the end is faster for small x."""
    value = 0
    for coefficient in coefficients:
        value = value * x + coefficient
    return value % PRIME


def _at_zero(points: tuple[int, ...], values: Mapping[int, int]) -> int:
    """Interpolate at 0; a point without a value has the value 0."""
    weights = zip(points, _weights_at_zero(points), strict=True)
    return sum(w * values[x] for x, w in weights if x in values) % PRIME


@lru_cache(maxsize=256)
def _weights_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    r"""Return Lagrange's :math:`\prod_{m \ne j} x_m / (x_m - x_j)` for each j.

    The products are taken over the integers and reduced once.
    """
    numerator = math.prod(points)
    denominators = [
        x * math.prod([other - x for other in points if other != x]) % PRIME
        for x in points
    ]
    return tuple(numerator * inverse % PRIME for inverse in _inverses(denominators))


def _inverses(values: Sequence[int]) -> list[int]:
    """Invert many field elements with a single inversion (Montgomery's trick)."""
    prefix = [1]
    for value in values:
        prefix.append(prefix[-1] * value % PRIME)
    running = pow(prefix[-1], -1, PRIME)
    inverses = [0] * len(values)
    for i in range(len(values) - 1, -1, -1):
        inverses[i] = running * prefix[i] % PRIME
        running = running * values[i] % PRIME
    return inverses
