r"""Public midranks, the two sums that an AUC is made of, and the AUC with its errors.

The scores are public, so their ranks are. Ranks run from 0 to M - 1; examples with
equal scores share the mean of their places, so that the file's order decides
nothing. A midrank is a multiple of one half: ranks travel *doubled*, as integers.

With ranks r and labels y, :math:`S = \sum r_i y_i` and :math:`P = \sum y_i` give
:math:`AUC = (S - P(P-1)/2)/(PN)` (equation 1 of Sun et al. 2022). To first order
:math:`dAUC = (dS - c\,dP)/(PN)` with :math:`c = P - \frac12 + AUC\,(N - P)`: the
derivative with respect to P, M fixed. Every standard deviation here follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate

MAX_EXAMPLES: Final = 2**27
"""Then doubled ranks fit 32 bits, and every sum of weights on a grid fits 64."""
_LOW_BITS: Final = 14
_TOO_FEW: Final = 3.0
"""Positives or negatives within so many standard deviations of none are noise."""
_TOO_WIDE: Final = 0.25
"""Noise of this standard deviation leaves no AUC out."""


@dataclass(frozen=True)
class RankFacts:
    """Six public numbers of one site's ranks, enough to decode the site's release.

    Args:
        examples: M, how many examples all sites have.
        size: how many of them the site has.
        low: the least doubled rank of the site, 0 without examples.
        high: the greatest one.
        total: the sum of the doubled ranks.
        squares: the sum of their squares; it may need more than 64 bits.
    """

    examples: int
    size: int
    low: int
    high: int
    total: int
    squares: int

    def __post_init__(self) -> None:
        if not 0 <= self.examples <= MAX_EXAMPLES:
            raise InputError(
                f"{self.examples} examples were announced, at most {MAX_EXAMPLES} "
                "can be ranked"
            )
        if not 0 <= self.size <= self.examples:
            raise InputError(
                f"a site got {self.size} ranks among {self.examples} examples"
            )
        inside = 0 <= self.low <= self.high <= max(self.top, 0)
        between = self.size * self.low <= self.total <= self.size * self.high
        square = self.size * self.squares
        squares = self.total**2 <= square <= self.size * self.high * self.total
        if not (inside and between and squares):
            raise InputError("these are no sums of ranks between two ends")

    def __len__(self) -> int:
        return self.size

    @property
    def top(self) -> int:
        """The greatest doubled rank that anybody can have, 2(M - 1)."""
        return 2 * (self.examples - 1)

    @property
    def one_rank(self) -> bool:
        """Whether all examples of the site have the same rank."""
        return self.low == self.high


class SiteRanks(RankFacts):
    """The doubled midranks of one site's examples, and how many examples all have.

    >>> SiteRanks(np.array([0, 3, 3]), examples=5).low
    0
    """

    doubled: IntVector

    def __init__(self, doubled: IntVector, examples: int) -> None:
        if doubled.ndim != 1 or doubled.dtype != np.int64:
            raise InputError("doubled ranks are a vector of 64-bit integers")
        top = 2 * (examples - 1)
        outside = np.count_nonzero((doubled < 0) | (doubled > top))
        if outside and doubled.size <= examples:
            raise InputError(
                f"{outside} of {doubled.size} doubled ranks are outside 0 .. {top}"
            )
        ends = (int(doubled.min()), int(doubled.max())) if doubled.size else (0, 0)
        total = int(doubled.sum())
        super().__init__(examples, doubled.size, *ends, total, _squares(doubled))
        object.__setattr__(self, "doubled", doubled)

    def sums(self, labels: IntVector) -> tuple[int, int]:
        """Return the sum of the positives' doubled ranks, and their number."""
        if labels.shape != self.doubled.shape:
            raise InputError(
                f"{len(self)} ranks need as many labels, got {labels.size}"
            )
        if not np.isin(labels, (0, 1)).all():
            raise InputError("label privacy needs labels 0 and 1")
        return int(self.doubled @ labels.astype(np.int64)), int(labels.sum())


def _squares(doubled: IntVector) -> int:
    """Add up squares, in parts that fit 64 bits each."""
    high, low = doubled >> _LOW_BITS, doubled & (2**_LOW_BITS - 1)
    whole = int(high @ high) << (2 * _LOW_BITS)
    return whole + (int(high @ low) << (_LOW_BITS + 1)) + int(low @ low)


def midranks(scores: FloatVector) -> IntVector:
    """Return the doubled midranks of pooled scores.

    An example with b scores below its own and e equal ones, itself among them,
    stands at b + (e - 1)/2.

    >>> midranks(np.array([0.2, 0.9, 0.2, 0.1])).tolist()
    [3, 6, 3, 0]
    """
    if not np.isfinite(scores).all():
        raise InputError("scores to be ranked must be finite numbers")
    _, place, equal = np.unique(scores, return_inverse=True, return_counts=True)
    below = np.cumsum(equal) - equal
    doubled: IntVector = (2 * below + equal - 1)[place].astype(np.int64)
    return doubled


def rank_sites(scores: Sequence[FloatVector]) -> list[SiteRanks]:
    """Rank the examples of several sites among all of them."""
    sizes = [column.size for column in scores]
    pooled = np.concatenate([np.zeros(0), *scores])
    if pooled.size > MAX_EXAMPLES:
        raise InputError(
            f"{pooled.size} examples are too many to rank; {MAX_EXAMPLES} can be"
        )
    doubled = midranks(pooled)
    pieces = np.split(doubled, np.cumsum(sizes)[:-1])
    return [SiteRanks(piece, pooled.size) for piece in pieces[: len(sizes)]]


class RankTotals(NamedTuple):
    """The positives' rank sum S and their number P: exact, or an estimate."""

    rank_sum: float = 0.0
    positives: float = 0.0

    def auc(self, examples: int) -> float:
        """Return the AUC; NaN where one class is empty."""
        p, n = self.positives, examples - self.positives
        if p <= 0 or n <= 0:
            return math.nan
        return (self.rank_sum - p * (p - 1) / 2) / (p * n)


class TotalsCovariance(NamedTuple):
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
    return RankTotals(*map(math.fsum, zip(*parts, strict=True)))


def add_covariances(parts: Iterable[TotalsCovariance]) -> TotalsCovariance:
    """Add the covariances of independent noises, exactly rounded."""
    return TotalsCovariance(*map(math.fsum, zip(*parts, strict=True)))


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
