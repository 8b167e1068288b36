r"""The two endpoint sums under secure aggregation, with noise added once.

All sites weigh between the same two ends, the ranks 0 and M - 1, so that their sums
add up: only :math:`W_1 = \sum R y` and :math:`W_0 = \sum (2(M-1) - R) y` of all sites
together are opened, on doubled ranks. A flipped label moves them by exactly
:math:`2(M-1)` jointly in L1. Each site adds a Polya share; the shares of the honest
sites alone are discrete Laplace noise of scale :math:`2(M-1)/\varepsilon`. The error
does not grow with the number of sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import PlanError, ReleaseError
from discreet.noise.polya import PolyaLaw, PolyaShares
from discreet.privacy.loss import Loss, PureDP
from discreet.privacy.unit import LABEL, Sensitivity
from discreet.ranks.ranks import SiteRanks, check_labels
from discreet.ranks.sums import RankSums, SumsCovariance


@dataclass(frozen=True, slots=True)
class CommonEndpoint:
    """What each site adds to the sum, and how the opened sum is read.

    Args:
        examples: M, the number of ranked examples, public.
        budget: the loss of the opened sum for one flipped label.
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
        check_labels(labels, ranks)
        upper = int(ranks.doubled @ labels.astype(np.int64))
        lower = self.reach * int(labels.sum()) - upper
        return np.array([upper, lower], dtype=np.int64)

    def protect(
        self, labels: IntVector, ranks: SiteRanks, *, entropy: Entropy
    ) -> IntVector:
        """Return a site's sums with its share of the noise: only to be summed."""
        return self._shares.protect(self.exact(labels, ranks), entropy=entropy)

    def decode(self, total: IntVector) -> RankSums:
        """Read the opened sum."""
        if total.shape != (2,):
            raise ReleaseError(f"2 opened sums were expected, got {total.size}")
        upper, lower = (int(v) for v in total)
        count = Fraction(upper + lower, self.reach)
        return RankSums(upper / 2, float(count))

    def law(self, contributors: int) -> PolyaLaw:
        """Return the law of the noise in each opened sum."""
        return self._shares.law(contributors)

    def covariance(self, contributors: int) -> SumsCovariance:
        """Return the covariance of the noise in (S, P)."""
        each = self.law(contributors).variance
        return SumsCovariance(
            each / 4, each / (2 * self.reach), 2 * each / self.reach**2
        )

    def loss(self) -> Loss:
        """The whole budget, for this evaluation."""
        return self.budget
