r"""Positives per bin under label privacy: noise where labels are, and only there.

The scores are public, so are the examples of each bin at a site, and a flipped
label moves the positives of one bin by one: an L1 sensitivity of 1, and every bin
is released at the full budget. What a bin costs depends on the public number t of
its examples, with :math:`c = e^\varepsilon/(e^\varepsilon - 1)^2`:

- none: nothing is secret, nothing is added;
- one: its label is flipped with probability :math:`1/(1 + e^\varepsilon)`, which
  after undoing the flips on average has the variance c;
- more: discrete Laplace noise of scale :math:`1/\varepsilon`, variance 2c. Flipping
  the labels instead would have :math:`t\,c`.

So a bin is never noisier than under randomized response, and a crowded one far less
noisy. The draws are fresh in every evaluation, and every evaluation is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.noise.coins import bernoulli_logistic, stretched
from discreet.noise.laplace import discrete_laplace
from discreet.noise.mechanism import BudgetMechanism, NoisyCounts
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import LABEL, Sensitivity
from discreet.statistic.observed import BinCovariance

_BLOCKS = 5
"""Crowded negatives and positives, lone negatives and positives, crowded bins."""

SENSITIVITY = Sensitivity(l1=1, l2_squared=1, linf=1, unit=LABEL)
"""Of the positives per bin, whose totals are public: one label is in one bin."""


@dataclass(frozen=True, slots=True)
class BinnedPositives(BudgetMechanism):
    """A site's class histogram with public bin totals and private labels.

    Five numbers a bin are sent, which add up over sites: negatives and positives of
    bins with two examples or more, whose noise is equal and opposite; negatives and
    positives of bins with one, its label flipped; and whether the bin is crowded, from
    which follows how much noise is in a sum.
    """

    budget: PureDP
    bins: int

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise PlanError(f"need at least 1 bin, got {self.bins}")

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return what a site sends for its class histogram."""
        if exact.shape != (2 * self.bins,) or (exact < 0).any():
            raise InputError(f"expected {2 * self.bins} exact counts, none negative")
        secret = stretched(entropy)
        negatives, positives = np.split(exact, 2)
        totals = negatives + positives
        crowded, alone = totals > 1, totals == 1
        scale = SENSITIVITY.l1 / self.budget.epsilon
        noisy = np.where(crowded, positives, 0)
        noisy[crowded] += discrete_laplace(scale, int(crowded.sum()), secret)
        flipped = np.where(alone, positives, 0)
        flipped[alone] ^= bernoulli_logistic(
            self.budget.epsilon, int(alone.sum()), secret
        )
        rest = np.where(crowded, totals, 0) - noisy
        parts = [rest, noisy, alone - flipped, flipped, crowded.astype(np.int64)]
        return np.concatenate(parts)

    def sent(self, cells: int) -> int:
        """Five numbers a bin, for a histogram of two classes."""
        if cells != 2 * self.bins:
            raise PlanError(f"this mechanism counts {self.bins} bins of two classes")
        return _BLOCKS * self.bins

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Return unbiased counts, negatives then positives, and their noise."""
        del contributors
        size = _BLOCKS * self.bins
        if total.shape != (size,):
            raise ReleaseError(
                f"binned positives have {size} counts, the release {total.size}"
            )
        crowded_n, crowded_p, lone_n, lone_p, cells = np.split(total, _BLOCKS)
        lone = lone_n + lone_p
        if (lone < 0).any() or (cells < 0).any() or (crowded_n + crowded_p < 0).any():
            raise ReleaseError("the public parts of a release of labels are counts")
        rho = 1.0 / (1.0 + math.exp(self.budget.epsilon))
        positives = crowded_p + (lone_p - rho * lone) / (1.0 - 2.0 * rho)
        negatives = crowded_n + crowded_p + lone - positives
        noise = BinnedPositivesNoise(float(self.budget.epsilon), cells, lone)
        return NoisyCounts(np.concatenate([negatives, positives]), noise)


@dataclass(frozen=True, eq=False)
class BinnedPositivesNoise:
    """The noise of positives per bin; that of the negatives is its opposite."""

    epsilon: float
    cells: IntVector
    """In how many sites a bin has discrete Laplace noise."""
    flipped: IntVector
    """How many lone labels of a bin were flipped or not."""

    @property
    def _of_one_label(self) -> float:
        return math.exp(-self.epsilon) / math.expm1(-self.epsilon) ** 2

    @property
    def variances(self) -> FloatVector:
        """The variance in each bin."""
        labels = (2.0 * self.cells + self.flipped).astype(np.float64)
        return labels * self._of_one_label

    @property
    def scale(self) -> float:
        """The root mean square of the bins' noise, at least one label's."""
        return math.sqrt(max(float(self.variances.mean()), self._of_one_label))

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Equal variances, correlation -1."""
        del at
        each = self.variances
        return BinCovariance(each, each, -each)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw simulated noise; a lone label's from the released rate of its bin."""
        success = -math.expm1(-self.epsilon)
        shape = (size, self.cells.size)
        # A sum of differences of geometric variables; no cell, no noise.
        often = np.maximum(self.cells, 1)
        noise = rng.negative_binomial(often, success, shape).astype(np.float64)
        noise -= rng.negative_binomial(often, success, shape)
        noise *= self.cells > 0
        negatives, positives = np.split(np.maximum(at, 0.0), 2)
        both = np.maximum(negatives + positives, 1e-300)
        true = np.rint(self.flipped * positives / both).astype(np.int64)
        rho = 1.0 / (1.0 + math.exp(self.epsilon))
        became = rng.binomial(self.flipped - true, rho, shape)
        seen = became + true - rng.binomial(true, rho, shape)
        noise += (seen - rho * self.flipped) / (1.0 - 2.0 * rho) - true
        return np.concatenate([-noise, noise], axis=1)
