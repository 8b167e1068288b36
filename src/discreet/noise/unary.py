r"""Optimized unary encoding: a client with one example sends noisy bits.

Wang, Blocki, Li and Jha (2017): of m cells, the bit of the client's own cell is 1
with probability 1/2 and each other bit with probability q = 1/(e^epsilon + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.entropy import Entropy
from discreet.errors import InputError, ReleaseError
from discreet.noise.coins import bernoulli_logistic, fair, stretched, uniform
from discreet.noise.mechanism import BudgetMechanism, NoisyCounts
from discreet.privacy.loss import PureDP
from discreet.statistic.hierarchy import Hierarchy, LevelNoise
from discreet.statistic.observed import BinCovariance

_CHUNK: Final = 2**14
_LEVEL_CHUNK: Final = 2**12
"""Clients encoded at once, of a histogram and of a tree's level: megabytes of bits."""


@dataclass(frozen=True, slots=True)
class UnaryEncoding:
    r"""Each client sends one noisy bit for each cell; sums are decoded.

    Pure epsilon-DP for one replaced example, of each message on its own: two
    examples differ in two bits, and the likelihoods in the factor
    :math:`\frac{1/2}{q} \cdot \frac{1-q}{1/2} = e^\varepsilon` at most. A client
    without an example sends the noisy all-zero vector, which differs in one bit
    only and costs less. The coins are exact: nothing is rounded.
    """

    budget: PureDP

    @property
    def other_probability(self) -> float:
        """The probability q that a bit of another cell is 1."""
        return 1.0 / (math.exp(self.budget.epsilon) + 1.0)

    def encode(
        self, own_cells: IntVector, *, cells: int, entropy: Entropy
    ) -> IntVector:
        """Return the noisy bits of many clients, one row each; -1 is no example."""
        if own_cells.size and not (-1 <= own_cells.min() <= own_cells.max() < cells):
            raise InputError(f"a client's cell is -1 (none) or below {cells}")
        stream = stretched(entropy)
        shape = (own_cells.size, cells)
        ones = bernoulli_logistic(self.budget.epsilon, own_cells.size * cells, stream)
        bits: IntVector = ones.reshape(shape).astype(np.int64)
        holders = np.flatnonzero(own_cells >= 0)
        bits[holders, own_cells[holders]] = fair(holders.size, stream)
        return bits

    def summed(
        self, own_cells: IntVector, *, cells: int, chunk: int, entropy: Entropy
    ) -> IntVector:
        """Return the sum of all clients' noisy bits, encoded a chunk at a time."""
        total = np.zeros(cells, dtype=np.int64)
        for start in range(0, own_cells.size, chunk):
            some = own_cells[start : start + chunk]
            total += self.encode(some, cells=cells, entropy=entropy).sum(axis=0)
        return total

    def decode(self, total: IntVector, contributors: int) -> FloatVector:
        r"""Return the unbiased counts :math:`(t - nq)/(1/2 - q)`."""
        if contributors < 1:
            raise ReleaseError("no client sent its bits; there is nothing to decode")
        q = self.other_probability
        return (total.astype(np.float64) - contributors * q) / (0.5 - q)

    def noise(self, contributors: int) -> UnaryNoise:
        """Return the distribution of the noise in decoded counts of that many clients."""
        if contributors < 1:
            raise ReleaseError("no client sent its bits; there is nothing to decode")
        return UnaryNoise(self.other_probability, contributors)


@dataclass(frozen=True, slots=True)
class UnaryNoise:
    r"""The noise of decoded counts, given the true counts c of n clients.

    A cell's total is Binomial(c, 1/2) + Binomial(n - c, q), independently of the
    other cells: its variance is :math:`(c/4 + (n-c)\,q(1-q))/(1/2-q)^2`.
    """

    other_probability: float
    clients: int

    @property
    def scale(self) -> float:
        """The standard deviation in a cell that nobody holds."""
        return math.sqrt(float(self._variance(np.zeros(1))[0]))

    def _variance(self, at: FloatVector) -> FloatVector:
        q = self.other_probability
        held = np.clip(at, 0.0, self.clients)
        bits = held / 4.0 + (self.clients - held) * q * (1.0 - q)
        variance: FloatVector = bits / (0.5 - q) ** 2
        return variance

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Variances by the counts, nothing across the classes."""
        each = self._variance(at)
        half = at.size // 2
        return BinCovariance(each[:half], each[half:], np.zeros(half))

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise at the counts nearest to the decoded ones."""
        counts = np.clip(np.rint(at), 0, self.clients).astype(np.int64)
        q = self.other_probability
        totals = simulate_unary(counts, self.clients, q, size, rng)
        noise: FloatArray = (totals - self.clients * q) / (0.5 - q) - counts
        return noise


def simulate_unary(
    counts: IntVector,
    clients: int,
    other_probability: float,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw totals of all clients' bits, *not secretly*: two binomials a cell.

    Exactly the distribution of the sum of encoded clients, at a cost that does
    not grow with their number.
    """
    if counts.size and not (counts.min() >= 0 and counts.max() <= clients):
        raise InputError("a cell cannot hold more examples than there are clients")
    shape = (size, counts.size)
    own = rng.binomial(counts, 0.5, shape)
    others = rng.binomial(clients - counts, other_probability, shape)
    return (own + others).astype(np.float64)


@dataclass(frozen=True, slots=True)
class UnaryReports(BudgetMechanism):
    """The sum of the clients' noisy bits, and how many clients there were.

    Each example is a client's only one and is encoded on its own. The number of
    clients is public under this model and travels as the vector's last entry:
    the bits alone do not tell it, and decoding needs it.
    """

    budget: PureDP
    edges: Edges

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Encode every example behind a class histogram, and add the bits up."""
        size = 2 * len(self.edges)
        own = _clients(exact, size)
        bits = UnaryEncoding(self.budget).summed(
            own, cells=size, chunk=_CHUNK, entropy=entropy
        )
        return np.append(bits, own.size)

    def sent(self, cells: int) -> int:
        """One number a cell, and the number of clients."""
        return cells + 1

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Return unbiased counts and the distribution of their noise."""
        del contributors  # sites: what is decoded are clients, whom the total counts
        clients = int(total[-1])
        encoding = UnaryEncoding(self.budget)
        counts = encoding.decode(total[:-1], clients)
        return NoisyCounts(counts, encoding.noise(clients))


@dataclass(frozen=True, slots=True)
class LevelReports(BudgetMechanism):
    """The sums of the clients' noisy bits a level, and the clients a level.

    Pure epsilon-DP for one replaced example, of each message on its own: the level
    does not depend on the example, and the bits are those of unary encoding.
    """

    budget: PureDP
    tree: Hierarchy

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Encode every example behind an exact tree at a random level."""
        leaf_cells = 2 * len(self.tree.edges)
        cells = _clients(exact, self.tree.size, leaf_cells)
        stream = stretched(entropy)
        levels = uniform(self.tree.height, cells.size, stream).astype(np.int64)
        sums = [
            self._level(level, cells[levels == level], stream)
            for level in range(self.tree.height)
        ]
        clients = np.bincount(levels, minlength=self.tree.height)
        return np.concatenate([*sums, clients.astype(np.int64)])

    def _level(self, level: int, cells: IntVector, entropy: Entropy) -> IntVector:
        """Return the summed bits of the clients of one level (0 is the top)."""
        width = self.tree.widths[level]
        below = len(self.tree.edges) // width
        label, leaf = np.divmod(cells, len(self.tree.edges))
        return UnaryEncoding(self.budget).summed(
            label * width + leaf // below,
            cells=2 * width,
            chunk=_LEVEL_CHUNK,
            entropy=entropy,
        )

    def sent(self, cells: int) -> int:
        """One number a node, and a number of clients a level."""
        return cells + self.tree.height

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Return unbiased counts of all clients at every level, and their noise."""
        del contributors  # sites: what is decoded are clients, whom the total counts
        clients = total[-self.tree.height :]
        if (clients < 1).any():
            raise ReleaseError(
                "a level of the tree has no client; there are too few of them"
            )
        everyone, encoding = float(clients.sum()), UnaryEncoding(self.budget)
        parts, variances, start = [], [], 0
        for width, heard in zip(self.tree.widths, clients.tolist(), strict=True):
            stop = start + 2 * width
            factor = everyone / heard
            parts.append(encoding.decode(total[start:stop], heard) * factor)
            empty = encoding.noise(heard).covariance(np.zeros(2)).negatives[0]
            variances.append(float(empty) * factor**2)
            start = stop
        noise = LevelNoise(tuple(variances), self.tree)
        return NoisyCounts(np.concatenate(parts), noise)


def _clients(exact: IntVector, size: int, leaves: int = 0) -> IntVector:
    """Return the cell of every example behind exact counts; of a tree, its leaf."""
    if exact.shape != (size,) or (exact < 0).any():
        raise InputError(f"expected {size} exact counts, none negative")
    counts = exact[-leaves:]
    return np.repeat(np.arange(counts.size, dtype=np.int64), counts)
