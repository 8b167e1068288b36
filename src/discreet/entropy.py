"""Randomness. Noise, masks and keys draw bytes from an ``Entropy`` passed in.

``np.random.Generator`` is for simulation and resampling only: it is seedable,
fast and not secret. The two types never mix, so a test seed cannot reach a mask
or a noise share by accident.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Entropy: TypeAlias = Callable[[int], bytes]
"""Return that many fresh random bytes."""

SYSTEM: Final[Entropy] = secrets.token_bytes
"""The operating system's randomness: the only entropy that protects anybody."""


class Seeded:
    """A deterministic ``Entropy`` for tests and vectors, never for a deployment.

    It is a type of its own so that a claim can say ``seeded``: no flag and no
    environment variable switches it on.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._drawn = 0
        self._children: dict[str, Seeded] = {}

    def child(self, label: str) -> Seeded:
        """Return the stream of a label, which no other draw moves.

        The same label gives the same stream, and it goes on where it was.
        """
        if label not in self._children:
            seed = hashlib.sha256(self._seed + b"\0child\0" + label.encode()).digest()
            self._children[label] = Seeded(seed)
        return self._children[label]

    def __call__(self, size: int) -> bytes:
        """Return the next ``size`` bytes of the stream."""
        self._drawn += 1
        block = self._seed + self._drawn.to_bytes(8, "big")
        return hashlib.shake_256(block).digest(size)

    def __repr__(self) -> str:
        return "Seeded(...)"


def child(entropy: Entropy, label: str) -> Entropy:
    """Return the stream of a label where entropy is seeded; secret bytes need none."""
    return entropy.child(label) if isinstance(entropy, Seeded) else entropy


def words(entropy: Entropy, count: int) -> NDArray[np.uint64]:
    """Draw ``count`` uniform 64-bit words."""
    return np.frombuffer(entropy(8 * count), dtype="<u8").astype(np.uint64)
