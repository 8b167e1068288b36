"""Unary encoding at a site that speaks for many one-example clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.entropy import Entropy
from discreet.errors import InputError, ReleaseError
from discreet.noise.unary import UnaryEncoding, UnaryLaw
from discreet.privacy.loss import Loss, PureDP

_CHUNK: Final = 2**14
"""Clients encoded at once: some megabytes of bits."""


@dataclass(frozen=True, slots=True)
class UnaryReports:
    """The sum of the clients' noisy bits, and how many clients there were.

    Each example is a client's only one and is encoded on its own. The number of
    clients is public under this model and travels as the vector's last entry:
    the bits alone do not tell it, and decoding needs it.
    """

    budget: PureDP
    edges: Edges

    @property
    def size(self) -> int:
        """Two classes, every bin, and the number of clients."""
        return 2 * len(self.edges) + 1

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Encode every example behind a class histogram, and add the bits up."""
        if exact.shape != (self.size - 1,) or (exact < 0).any():
            raise InputError(f"expected {self.size - 1} exact counts, none negative")
        encoding = UnaryEncoding(self.budget)
        cells = np.repeat(np.arange(exact.size, dtype=np.int64), exact)
        total = np.zeros(self.size, dtype=np.int64)
        for start in range(0, cells.size, _CHUNK):
            own = cells[start : start + _CHUNK]
            bits = encoding.encode(own, cells=exact.size, entropy=entropy)
            total[:-1] += bits.sum(axis=0)
        total[-1] = cells.size
        return total

    def loss(self) -> Loss:
        """The whole budget, once a client."""
        return self.budget

    def opened(self, total: IntVector) -> tuple[FloatVector, UnaryLaw]:
        """Return unbiased counts and the law of their noise."""
        clients = int(total[-1])
        if clients < 1:
            raise ReleaseError("no client sent its bits; there is nothing to decode")
        encoding = UnaryEncoding(self.budget)
        return encoding.decode(total[:-1], clients), encoding.law(clients)
