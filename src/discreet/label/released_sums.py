r"""What a site releases about its labels, and how a release is decoded.

Three forms, each of one or two integers:

- ``LinearSums``: sums :math:`z_j = \sum_i w_j(r_i)\,y_i + \text{noise}_j`. Each weight
  is a *linear* function of the doubled rank R with integer coefficients,
  :math:`w_j = a_j R + b_j`. So nothing is rounded, and two sums are decoded exactly by
  inverting the 2 x 2 matrix of the coefficients.
- ``ResponseSums``: the exact sums of labels that were flipped.
- ``SummedEndpoint``: two sums that all sites add up before anything is revealed.

Everything but the labels is public: whoever knows a site's ``RankFacts`` and its
option can decode its release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np

from discreet.arrays import FloatArray, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError, ReleaseError
from discreet.label.ranks import RankFacts, RankTotals, SiteRanks, TotalsCovariance
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    RowNoise,
    StaircaseSumNoise,
    discrete_delta,
)
from discreet.noise.coins import bernoulli_logistic, stretched
from discreet.noise.polya import PolyaNoise, PolyaShares
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import LABEL, Sensitivity

LabelLoss: TypeAlias = PureDP | ApproxDP


@dataclass(frozen=True, slots=True)
class Row:
    """One released sum: the weight ``slope * R + offset``, and its noise."""

    slope: int
    offset: int
    noise: RowNoise

    def weight(self, doubled: int) -> int:
        """Return the weight of an example of this doubled rank."""
        return self.slope * doubled + self.offset


@dataclass(frozen=True)
class LinearSums:
    r"""One or two noisy sums of linear weights.

    Two rows determine S and P. One row is enough where all examples of a site
    have the same rank, and none where the site has no examples.

    Privacy: a flipped label of rank R moves sum j by :math:`|w_j(R)|`, jointly over j.
    The loss of Laplace noise is :math:`\sum_j |w_j(R)|/s_j` and that of Gaussian noise
    grows with :math:`\sum_j w_j(R)^2/\sigma_j^2`; both are convex in R, so that no rank
    of the site costs more than its lowest or its highest one. The constructor checks
    these two against the budget: a mechanism that breaks its promise cannot be made.
    """

    facts: RankFacts
    rows: tuple[Row, ...]
    budget: LabelLoss

    def __post_init__(self) -> None:
        if not len(self.facts):
            if self.rows:
                raise PlanError("a site without examples releases nothing")
            return
        if len(self.rows) not in ((1, 2) if self.facts.one_rank else (2,)):
            raise PlanError("two sums are needed unless all ranks of a site agree")
        if self._determinant == 0:
            raise PlanError("the two released sums must not be multiples")
        if not self._within_budget():
            raise PlanError("these weights and noises would exceed their budget")

    def _within_budget(self) -> bool:
        match self.budget:
            case PureDP(epsilon):
                return self.epsilon_spent <= epsilon
            case ApproxDP(epsilon, delta):
                noises = [row.noise for row in self.rows]
                gaussian = [n for n in noises if isinstance(n, GaussianSumNoise)]
                if len(gaussian) != len(noises):
                    raise PlanError("with a delta, all noises are Gaussian")
                return discrete_delta(float(epsilon), self._moves, gaussian) <= delta

    @cached_property
    def _moves(self) -> list[tuple[int, ...]]:
        """How far the sums move for the lowest and the highest rank."""
        ends = (self.facts.low, self.facts.high)
        return [tuple(row.weight(end) for row in self.rows) for end in ends]

    @property
    def epsilon_spent(self) -> Fraction:
        """The loss of the worst flipped label, exactly; pure mechanisms only."""
        steady = Fraction(0)  # a staircase charges by whole steps: not convex
        costs = [Fraction(0), Fraction(0)]
        for j, row in enumerate(self.rows):
            match row.noise:
                case LaplaceSumNoise():
                    for k, moves in enumerate(self._moves):
                        costs[k] += row.noise.loss(moves[j])
                case StaircaseSumNoise():
                    steady += max(row.noise.loss(moves[j]) for moves in self._moves)
                case GaussianSumNoise():
                    raise PlanError("Gaussian noise has no pure loss: give a delta")
        return steady + max(costs)

    @property
    def length(self) -> int:
        """How many integers are released."""
        return len(self.rows)

    def exact(self, labels: IntVector, ranks: SiteRanks) -> IntVector:
        """Return the sums without noise: never released."""
        doubled, count = ranks.sums(labels)
        sums = [row.slope * doubled + row.offset * count for row in self.rows]
        return np.array(sums, dtype=np.int64)

    def protect(
        self, labels: IntVector, ranks: SiteRanks, *, entropy: Entropy
    ) -> IntVector:
        """Return the sums with noise."""
        secret = stretched(entropy)
        noise = [int(row.noise.draws(1, secret)[0]) for row in self.rows]
        return self.exact(labels, ranks) + np.array(noise, dtype=np.int64)

    @cached_property
    def _determinant(self) -> int:
        if len(self.rows) < 2:
            return self.rows[0].weight(self.facts.low) if self.rows else 1
        first, second = self.rows
        return first.slope * second.offset - second.slope * first.offset

    @cached_property
    def _inverse(self) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """What the released integers are multiplied by to give S, and P."""
        d = self._determinant
        if not self.rows:
            return (), ()
        if len(self.rows) == 1:
            return (Fraction(self.facts.low, 2 * d),), (Fraction(1, d),)
        first, second = self.rows
        return (
            (Fraction(second.offset, 2 * d), Fraction(-first.offset, 2 * d)),
            (Fraction(-second.slope, d), Fraction(first.slope, d)),
        )

    @cached_property
    def fit(self) -> FloatArray:
        """The matrix that turns the released integers into (S, P)."""
        return np.array([[float(cell) for cell in line] for line in self._inverse])

    def decode(self, released: IntVector) -> RankTotals:
        """Return unbiased estimates of the site's S and P, by exact arithmetic."""
        _check_length(released, self.length)
        sums = [int(v) for v in released]
        rank_sum, positives = (
            float(sum(c * z for c, z in zip(line, sums, strict=True)))
            for line in self._inverse
        )
        return RankTotals(rank_sum, positives)

    @cached_property
    def covariance(self) -> TotalsCovariance:
        """The covariance of the noise in (S, P)."""
        variances = np.array([row.noise.variance for row in self.rows])
        both = (self.fit * variances) @ self.fit.T
        return TotalsCovariance(float(both[0, 0]), float(both[0, 1]), float(both[1, 1]))


@dataclass(frozen=True)
class ResponseSums:
    r"""Randomized response: the two sums of flipped labels.

    Every label is flipped with probability :math:`\rho = 1/(1 + e^\varepsilon)`, and
    :math:`\hat y = (y' - \rho)/(1 - 2\rho)` is unbiased (section 4 of Sun et al. 2022).
    Their debiasing of the AUC by alpha and beta is algebraically the same plug-in.

    With :math:`v = \rho(1-\rho)/(1-2\rho)^2 = e^\varepsilon/(e^\varepsilon-1)^2` the
    covariance of the decoded (S, P) is :math:`v \sum_i (r_i, 1)(r_i, 1)^T`; the paper's
    equation 7 lacks the debiasing factor and the covariance.
    """

    facts: RankFacts
    budget: PureDP

    @property
    def length(self) -> int:
        """Two sums."""
        return 2

    @property
    def flip_probability(self) -> float:
        """The probability rho that a label is flipped."""
        return 1.0 / (1.0 + math.exp(float(self.budget.epsilon)))

    def exact(self, labels: IntVector, ranks: SiteRanks) -> IntVector:
        """Return what is sent of labels as they are: those that a site flipped."""
        return np.array(ranks.sums(labels), dtype=np.int64)

    def protect(
        self, labels: IntVector, ranks: SiteRanks, *, entropy: Entropy
    ) -> IntVector:
        """Flip afresh and return what is sent: charged at every evaluation."""
        ranks.sums(labels)  # refuses labels that are not 0 or 1, or not as many
        response_key = bernoulli_logistic(
            self.budget.epsilon, labels.size, stretched(entropy)
        )
        flipped = np.where(response_key, 1 - labels, labels).astype(np.int64)
        return self.exact(flipped, ranks)

    def decode(self, released: IntVector) -> RankTotals:
        """Undo the flips on average."""
        _check_length(released, self.length)
        doubled, count = (int(v) for v in released)
        rho = self.flip_probability
        return RankTotals(
            (doubled - rho * self.facts.total) / 2 / (1 - 2 * rho),
            (count - rho * len(self.facts)) / (1 - 2 * rho),
        )

    @property
    def covariance(self) -> TotalsCovariance:
        """The covariance of the noise in (S, P), whatever the labels are."""
        v = response_variance(float(self.budget.epsilon))
        facts = self.facts
        return TotalsCovariance(
            v * facts.squares / 4, v * facts.total / 2, v * len(facts)
        )


SiteMechanism: TypeAlias = LinearSums | ResponseSums
"""What one site releases on its own."""


def response_variance(epsilon: float) -> float:
    r"""Return :math:`e^\varepsilon/(e^\varepsilon-1)^2`: one flipped label's noise."""
    return math.exp(-epsilon) / math.expm1(-epsilon) ** 2


@dataclass(frozen=True, slots=True)
class SummedEndpoint:
    r"""The two endpoint sums of all sites, revealed by a secure sum, with noise once.

    All sites weigh between the same two ends, the ranks 0 and M - 1, so that their
    sums add up: only :math:`W_1 = \sum R y` and :math:`W_0 = \sum (2(M-1) - R) y` of
    all sites together are revealed, on doubled ranks. A flipped label moves them by
    exactly :math:`2(M-1)` jointly in L1. Each site adds a Polya share; the shares of
    the honest sites alone are discrete Laplace noise of scale
    :math:`2(M-1)/\varepsilon`. The error does not grow with the number of sites.

    Args:
        examples: M, the number of ranked examples, public.
        budget: the loss of the revealed sum for one flipped label.
        honest: sites whose shares are in the sum and unknown to the adversary:
            all sites minus the colluders.
    """

    examples: int
    budget: PureDP
    honest: int

    def __post_init__(self) -> None:
        if self.examples < 2:
            raise PlanError(
                f"ranks among {self.examples} examples have no two ends: an AUC "
                "needs 2 examples or more"
            )
        _ = self._shares

    @property
    def reach(self) -> int:
        """The joint L1 sensitivity, 2(M - 1)."""
        return 2 * (self.examples - 1)

    @property
    def _shares(self) -> PolyaShares:
        moved = Sensitivity(self.reach, self.reach**2, self.reach, LABEL)
        return PolyaShares(self.budget, moved, self.honest)

    def exact(self, labels: IntVector, ranks: SiteRanks) -> IntVector:
        """Return a site's two sums without noise."""
        if ranks.examples != self.examples:
            raise PlanError("the ranks are among another number of examples")
        upper, count = ranks.sums(labels)
        return np.array([upper, self.reach * count - upper], dtype=np.int64)

    def protect(
        self, labels: IntVector, ranks: SiteRanks, *, entropy: Entropy
    ) -> IntVector:
        """Return a site's sums with its share of the noise: only to be summed."""
        return self._shares.protect(self.exact(labels, ranks), entropy=entropy)

    def decode(self, total: IntVector) -> RankTotals:
        """Decode the revealed sum."""
        _check_length(total, 2)
        upper, lower = (int(v) for v in total)
        return RankTotals(upper / 2, float(Fraction(upper + lower, self.reach)))

    def noise(self, contributors: int) -> PolyaNoise:
        """Return the distribution of the noise in each revealed sum."""
        return self._shares.noise(contributors)

    def covariance(self, contributors: int) -> TotalsCovariance:
        """Return the covariance of the noise in (S, P)."""
        each = self.noise(contributors).variance
        return TotalsCovariance(
            each / 4, each / (2 * self.reach), 2 * each / self.reach**2
        )


def _check_length(released: IntVector, wanted: int) -> None:
    if released.shape != (wanted,):
        raise ReleaseError(f"{wanted} released sums were expected, got {released.size}")
