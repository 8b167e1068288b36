r"""Optimized unary encoding: a client with one example sends noisy bits.

Wang, Blocki, Li and Jha (2017): of m cells, the bit of the client's own cell is 1
with probability 1/2 and each other bit with probability q = 1/(e^epsilon + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError, ReleaseError
from discreet.noise.bernoulli import bernoulli_logistic
from discreet.noise.coins import fair
from discreet.noise.stream import stretched
from discreet.privacy.loss import Loss, PureDP
from discreet.statistic.observed import BinCovariance


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

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return one client's noisy bits; ``exact`` has at most a single 1."""
        if not np.isin(exact, (0, 1)).all() or exact.sum() > 1:
            raise InputError("a client of unary encoding holds at most 1 example")
        own = np.flatnonzero(exact)
        cell = int(own[0]) if own.size else -1
        clients = self.encode(np.array([cell]), cells=exact.size, entropy=entropy)
        return clients.reshape(-1)

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

    def loss(self) -> Loss:
        """The whole budget, once a client."""
        return self.budget

    def decode(self, total: IntVector, contributors: int) -> FloatVector:
        r"""Return the unbiased counts :math:`(t - nq)/(1/2 - q)`."""
        if contributors < 1:
            raise ReleaseError("no client contributed")
        q = self.other_probability
        return (total - contributors * q) / (0.5 - q)

    def law(self, contributors: int) -> UnaryLaw:
        """Return the law of the noise in decoded counts of that many clients."""
        if contributors < 1:
            raise ReleaseError("no client contributed")
        return UnaryLaw(self.other_probability, contributors)


@dataclass(frozen=True, slots=True)
class UnaryLaw:
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
