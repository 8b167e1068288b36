r"""The two sums that an AUC is made of, their covariance, and who releases them.

With ranks r from 0 and labels y, :math:`S = \sum r_i y_i` and :math:`P = \sum y_i`
give :math:`AUC = (S - P(P-1)/2)/(PN)` (equation 1 of Sun et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.privacy.loss import Loss
from discreet.ranks.ranks import SiteRanks


@dataclass(frozen=True, slots=True)
class RankSums:
    """The positives' rank sum S and their number P: exact, or an estimate."""

    rank_sum: float
    positives: float

    def auc(self, examples: int) -> float:
        """Return the AUC; NaN where one class is empty."""
        p, n = self.positives, examples - self.positives
        if p <= 0 or n <= 0:
            return math.nan
        return (self.rank_sum - p * (p - 1) / 2) / (p * n)


@dataclass(frozen=True, slots=True)
class SumsCovariance:
    """The covariance of the noise in an estimate of (S, P)."""

    rank_sum: float = 0.0
    cross: float = 0.0
    positives: float = 0.0

    def variance_at(self, c: float) -> float:
        """Return the variance of S - c P."""
        value = self.rank_sum - 2 * c * self.cross + c * c * self.positives
        return max(0.0, value)


def add_sums(parts: Iterable[RankSums]) -> RankSums:
    """Add the sites' sums, exactly rounded."""
    listed = list(parts)
    return RankSums(
        math.fsum(part.rank_sum for part in listed),
        math.fsum(part.positives for part in listed),
    )


def add_covariances(parts: Iterable[SumsCovariance]) -> SumsCovariance:
    """Add the covariances of independent noises."""
    listed = list(parts)
    return SumsCovariance(
        math.fsum(part.rank_sum for part in listed),
        math.fsum(part.cross for part in listed),
        math.fsum(part.positives for part in listed),
    )


class LabelMechanism(Protocol):
    """What one site releases about its labels, given its public ranks.

    Everything but the labels is public: whoever knows the ranks and the options
    of a mechanism can read its release.
    """

    @property
    def ranks(self) -> SiteRanks:
        """The site's public ranks."""
        ...

    @property
    def length(self) -> int:
        """How many integers are released."""
        ...

    @property
    def covariance(self) -> SumsCovariance:
        """The covariance of the noise in the decoded sums."""
        ...

    def exact(self, labels: IntVector) -> IntVector:
        """Return the integers that the noise protects: never released."""
        ...

    def protect(self, labels: IntVector, *, entropy: Entropy) -> IntVector:
        """Return the integers to release."""
        ...

    def decode(self, released: IntVector) -> RankSums:
        """Return unbiased estimates of the site's sums."""
        ...

    def loss(self) -> Loss:
        """Return what one release costs, for one flipped label."""
        ...
