"""The papers' local way: one-example clients split over the levels of a tree.

Each client is assigned one level at random and sends its example's node there
through optimized unary encoding at the full epsilon (Cormode and Markov 2023): a
client speaks once, so nothing is divided, but each level hears only a share of the
clients. A client without an example would send the noisy all-zero vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError, ReleaseError
from discreet.noise.coins import uniform_below
from discreet.noise.stream import stretched
from discreet.noise.unary import UnaryEncoding
from discreet.privacy.loss import Loss, PureDP
from discreet.statistic.hierarchy import Hierarchy
from discreet.statistic.tree import LevelLaw

_CHUNK: Final = 2**12
"""Clients encoded at once: some megabytes of bits at the leaves."""


@dataclass(frozen=True, slots=True)
class LevelReports:
    """The sums of the clients' noisy bits a level, and the clients a level.

    Pure epsilon-DP for one replaced example, of each message on its own: the level
    does not depend on the example, and the bits are those of unary encoding.
    """

    budget: PureDP
    tree: Hierarchy

    @property
    def size(self) -> int:
        """Every node below the root, both classes, and a number of clients a level."""
        return self.tree.size + self.tree.height

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Encode every example behind an exact tree at a random level."""
        if exact.shape != (self.tree.size,) or (exact < 0).any():
            raise InputError(f"expected {self.tree.size} exact counts, none negative")
        stream = stretched(entropy)
        leaves = exact[-2 * len(self.tree.edges) :]
        cells = np.repeat(np.arange(leaves.size, dtype=np.int64), leaves)
        bound = np.full(cells.size, self.tree.height, dtype=np.uint64)
        levels = uniform_below(bound, stream).astype(np.int64)
        sums = [
            self._level(level, cells[levels == level], stream)
            for level in range(self.tree.height)
        ]
        clients = np.bincount(levels, minlength=self.tree.height)
        return np.concatenate([*sums, clients.astype(np.int64)])

    def _level(self, level: int, cells: IntVector, entropy: Entropy) -> IntVector:
        """Return the summed bits of the clients of one level (0 is the top)."""
        width = self.tree.branching ** (level + 1)
        below = len(self.tree.edges) // width
        label, leaf = np.divmod(cells, len(self.tree.edges))
        nodes = label * width + leaf // below
        encoding = UnaryEncoding(self.budget)
        total = np.zeros(2 * width, dtype=np.int64)
        for start in range(0, nodes.size, _CHUNK):
            own = nodes[start : start + _CHUNK]
            total += encoding.encode(own, cells=2 * width, entropy=entropy).sum(axis=0)
        return total

    def loss(self) -> Loss:
        """The whole budget, once a client."""
        return self.budget

    def opened(self, total: IntVector) -> tuple[FloatVector, LevelLaw]:
        """Return unbiased counts of all clients at every level, and their law."""
        clients = total[-self.tree.height :]
        if (clients < 1).any():
            raise ReleaseError(
                "a level of the tree has no client; there are too few of them"
            )
        everyone, encoding = float(clients.sum()), UnaryEncoding(self.budget)
        parts, variances, start = [], [], 0
        for level, heard in enumerate(clients.tolist()):
            stop = start + 2 * self.tree.branching ** (level + 1)
            factor = everyone / heard
            parts.append(encoding.decode(total[start:stop], heard) * factor)
            empty = encoding.law(heard).covariance(np.zeros(2)).negatives[0]
            variances.append(float(empty) * factor**2)
            start = stop
        return np.concatenate(parts), LevelLaw(tuple(variances), self.tree)
