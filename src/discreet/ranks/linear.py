r"""Sums of integer weights with integer noise: the frame of most mechanisms.

A site releases one or two sums :math:`z_j = \sum_i w_j(r_i)\,y_i + \text{noise}_j`.
Each weight is a *linear* function of the doubled rank R with integer coefficients,
:math:`w_j = a_j R + b_j`. So nothing is rounded, and two sums are read back exactly
by inverting the 2 x 2 matrix of the coefficients.

Privacy: a flipped label of rank R moves sum j by :math:`|w_j(R)|`, jointly over j.
The loss of Laplace noise is :math:`\sum_j |w_j(R)|/s_j` and that of Gaussian noise
grows with :math:`\sum_j w_j(R)^2/\sigma_j^2`; both are convex in R, so that no rank
of the site costs more than its lowest or its highest one. The constructor checks
these two against the budget: a mechanism that breaks its promise cannot be made.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np

from discreet.arrays import FloatArray, IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError, ReleaseError
from discreet.noise.coins import stretched
from discreet.privacy.loss import ApproxDP, Loss, PureDP
from discreet.ranks.gaussian_row import GaussianNoise, discrete_delta
from discreet.ranks.laplace_row import LaplaceNoise
from discreet.ranks.ranks import SiteRanks, check_labels
from discreet.ranks.staircase_row import StaircaseNoise
from discreet.ranks.sums import RankSums, SumsCovariance

Budget: TypeAlias = PureDP | ApproxDP
RowNoise: TypeAlias = LaplaceNoise | StaircaseNoise | GaussianNoise


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
    """A mechanism that releases one or two noisy sums of linear weights.

    Two rows determine S and P. One row is enough where all examples of a site
    have the same rank, and none where the site has no examples.
    """

    ranks: SiteRanks
    rows: tuple[Row, ...]
    budget: Budget

    def __post_init__(self) -> None:
        if not len(self.ranks):
            if self.rows:
                raise PlanError("a site without examples releases nothing")
            return
        one_rank = self.ranks.low == self.ranks.high
        if len(self.rows) not in ((1, 2) if one_rank else (2,)):
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
                gaussian = [n for n in noises if isinstance(n, GaussianNoise)]
                if len(gaussian) != len(noises):
                    raise PlanError("with a delta, all noises are Gaussian")
                return discrete_delta(float(epsilon), self._moves, gaussian) <= delta

    @cached_property
    def _moves(self) -> list[tuple[int, ...]]:
        """How far the sums move for the lowest and the highest rank."""
        ends = (self.ranks.low, self.ranks.high)
        return [tuple(row.weight(end) for row in self.rows) for end in ends]

    @property
    def epsilon_spent(self) -> Fraction:
        """The loss of the worst flipped label, exactly; pure mechanisms only."""
        steady = Fraction(0)  # a staircase charges by whole steps: not convex
        costs = [Fraction(0), Fraction(0)]
        for j, row in enumerate(self.rows):
            match row.noise:
                case LaplaceNoise():
                    for k, moves in enumerate(self._moves):
                        costs[k] += row.noise.loss(moves[j])
                case StaircaseNoise():
                    steady += max(row.noise.loss(moves[j]) for moves in self._moves)
                case GaussianNoise():
                    raise PlanError("Gaussian noise has no pure loss: give a delta")
        return steady + max(costs)

    @property
    def l1_sensitivity(self) -> int:
        """How far a flipped label moves the released integers, jointly in L1."""
        return max((sum(abs(m) for m in moves) for moves in self._moves), default=0)

    @property
    def length(self) -> int:
        """How many integers are released."""
        return len(self.rows)

    def exact(self, labels: IntVector) -> IntVector:
        """Return the sums without noise."""
        check_labels(labels, self.ranks)
        doubled = int(self.ranks.doubled @ labels.astype(np.int64))
        count = int(labels.sum())
        sums = [row.slope * doubled + row.offset * count for row in self.rows]
        return np.array(sums, dtype=np.int64)

    def protect(self, labels: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the sums with noise."""
        secret = stretched(entropy)
        noise = [row.noise.draw(secret) for row in self.rows]
        return self.exact(labels) + np.array(noise, dtype=np.int64)

    def loss(self) -> Loss:
        """The whole budget, for this evaluation."""
        return self.budget

    @cached_property
    def _determinant(self) -> int:
        if len(self.rows) < 2:
            return self.rows[0].weight(self.ranks.low) if self.rows else 1
        first, second = self.rows
        return first.slope * second.offset - second.slope * first.offset

    @cached_property
    def reading(self) -> FloatArray:
        """The matrix that turns the released integers into (S, P)."""
        if not self.rows:
            return np.zeros((2, 0))
        d = self._determinant
        if len(self.rows) == 1:
            exact = [[Fraction(self.ranks.low, 2 * d)], [Fraction(1, d)]]
        else:
            first, second = self.rows
            exact = [
                [Fraction(second.offset, 2 * d), Fraction(-first.offset, 2 * d)],
                [Fraction(-second.slope, d), Fraction(first.slope, d)],
            ]
        return np.array([[float(cell) for cell in line] for line in exact])

    def decode(self, released: IntVector) -> RankSums:
        """Return unbiased estimates of the site's S and P, by exact arithmetic."""
        if released.shape != (self.length,):
            raise ReleaseError(
                f"{self.length} released sums were expected, got {released.size}"
            )
        z = [int(v) for v in released]
        d = self._determinant
        if not self.rows:
            return RankSums(0.0, 0.0)
        if len(self.rows) == 1:
            count = Fraction(z[0], d)
            return RankSums(float(count * self.ranks.low / 2), float(count))
        first, second = self.rows
        doubled = Fraction(z[0] * second.offset - z[1] * first.offset, d)
        count = Fraction(z[1] * first.slope - z[0] * second.slope, d)
        return RankSums(float(doubled / 2), float(count))

    @cached_property
    def covariance(self) -> SumsCovariance:
        """The covariance of the noise in (S, P)."""
        variances = np.array([row.noise.variance for row in self.rows])
        both = (self.reading * variances) @ self.reading.T
        return SumsCovariance(float(both[0, 0]), float(both[0, 1]), float(both[1, 1]))
