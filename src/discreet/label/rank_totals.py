r"""The two sums that an AUC is made of, and the AUC that they give with its errors.

With ranks r from 0 and labels y, :math:`S = \sum r_i y_i` and :math:`P = \sum y_i`
give :math:`AUC = (S - P(P-1)/2)/(PN)` (equation 1 of Sun et al. 2022).

To first order :math:`dAUC = (dS - c\,dP)/(PN)` with
:math:`c = P - \frac12 + AUC\,(N - P)`: the derivative of
:math:`(S - P(P-1)/2)/(P(M-P))` with respect to P, M fixed. Every standard deviation
here follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from discreet.estimate.estimate import Binning, Estimate

_TOO_FEW: Final = 3.0
"""Positives or negatives within so many standard deviations of none are noise."""
_TOO_WIDE: Final = 0.25
"""Noise of this standard deviation leaves no AUC out."""


@dataclass(frozen=True, slots=True)
class RankTotals:
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
class TotalsCovariance:
    """The covariance of the noise in an estimate of (S, P)."""

    rank_sum: float = 0.0
    cross: float = 0.0
    positives: float = 0.0

    def variance_at(self, c: float) -> float:
        """Return the variance of S - c P."""
        value = self.rank_sum - 2 * c * self.cross + c * c * self.positives
        return max(0.0, value)


_EXACT: Final = TotalsCovariance()


def add_totals(parts: Iterable[RankTotals]) -> RankTotals:
    """Add the sites' sums, exactly rounded."""
    listed = list(parts)
    return RankTotals(
        math.fsum(part.rank_sum for part in listed),
        math.fsum(part.positives for part in listed),
    )


def add_covariances(parts: Iterable[TotalsCovariance]) -> TotalsCovariance:
    """Add the covariances of independent noises."""
    listed = list(parts)
    return TotalsCovariance(
        math.fsum(part.rank_sum for part in listed),
        math.fsum(part.cross for part in listed),
        math.fsum(part.positives for part in listed),
    )


def centre_of(positives: float, negatives: float, auc: float) -> float:
    """Return c, the rank whose flip leaves the AUC where it is.

    >>> centre_of(2.0, 2.0, 0.75)
    1.5
    """
    return positives - 0.5 + auc * (negatives - positives)


def noise_sd(totals: RankTotals, examples: int, covariance: TotalsCovariance) -> float:
    """Return the standard deviation of the noise in the AUC; NaN if undefined.

    The AUC in c is cut to [0, 1].
    """
    auc = totals.auc(examples)
    if math.isnan(auc):
        return math.nan
    p, n = totals.positives, examples - totals.positives
    c = centre_of(p, n, min(max(auc, 0.0), 1.0))
    return math.sqrt(covariance.variance_at(c)) / (p * n)


def sampling_sd(auc: float, positives: float, negatives: float) -> float:
    r"""Bound the sampling standard deviation by what the release says.

    DeLong's variance needs the two classes' score distributions, which are not
    released. Whatever they are, :math:`Var \le AUC(1 - AUC)/\min(P, N)` (van Dantzig
    1951; Birnbaum and Klose 1957). It is typically 1.2 to 2 times too wide.
    """
    a = min(max(auc, 0.0), 1.0)
    return math.sqrt(a * (1 - a) / max(1.0, min(positives, negatives)))


def rank_auc(
    totals: RankTotals, examples: int, *, covariance: TotalsCovariance = _EXACT
) -> Estimate:
    """Return the AUC of estimated sums, or an honest refusal.

    The noise is that of the delta method, to first order. The sampling error is a
    bound that holds for any scores (``sampling_sd``): the release has too little for
    DeLong's. A value outside [0, 1] is cut and marked, and where the estimated number
    of positives leaves 0 .. M there is no value at all.

    >>> rank_auc(RankTotals(9.0, 4.0), 6).value
    0.375
    """
    p, n = totals.positives, examples - totals.positives
    exact = covariance == _EXACT
    if p <= 0 or n <= 0:
        which = "positives" if p <= 0 else "negatives"
        why = (
            f"there are no {which}, and an AUC needs both classes"
            if exact
            else f"the estimated number of {which} is not above 0: too little data for "
            "this epsilon, or no such examples"
        )
        return Estimate.undefined(why)
    raw = totals.auc(examples)
    value = min(max(raw, 0.0), 1.0)
    sd = noise_sd(totals, examples, covariance)
    caution = None
    if value != raw:
        caution = (
            f"the estimate fell outside [0, 1] and was cut to {value:g}: the noise is "
            "as large as the distance to the end"
        )
    return Estimate(
        value,
        sampling_sd(value, p, n),
        0.0 if exact else sd,
        Binning(value, value, 0.0),
        unusable=_unusable(p, n, sd, covariance),
        caution=caution,
    )


def _unusable(
    positives: float, negatives: float, sd: float, covariance: TotalsCovariance
) -> str | None:
    rarer = min(positives, negatives)
    if rarer < _TOO_FEW * math.sqrt(covariance.positives):
        return (
            f"the rarer class is estimated at {rarer:.0f} examples, within "
            f"{_TOO_FEW:g} standard deviations of the noise in that number from none; "
            "use a larger epsilon or more data"
        )
    if sd > _TOO_WIDE:
        return (
            f"the noise has a standard deviation of {sd:.2f}; use a larger epsilon or "
            "more data"
        )
    return None
