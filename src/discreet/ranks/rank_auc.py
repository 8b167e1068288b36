"""From the two sums to an AUC with its errors, or an honest refusal."""

from __future__ import annotations

import math
from typing import Final

from discreet.estimate.estimate import (
    Binning,
    Estimate,
    Normal,
    NotYet,
    Unusable,
    Usable,
    Zero,
)
from discreet.ranks.delta_method import noise_sd, sampling_sd
from discreet.ranks.sums import RankSums, SumsCovariance

_TOO_FEW: Final = 3.0
"""Positives or negatives within so many standard deviations of none are noise."""
_TOO_WIDE: Final = 0.25
"""Noise of this standard deviation leaves no AUC out."""
_EXACT: Final = SumsCovariance()


def rank_auc(
    sums: RankSums, examples: int, *, covariance: SumsCovariance = _EXACT
) -> Estimate:
    """Return the AUC of estimated sums.

    The noise is that of the delta method, to first order. The sampling error is a
    bound that holds for any scores (:func:`~.delta_method.sampling_sd`): the release
    has too little for DeLong's. A value outside [0, 1] is cut and marked, and where
    the estimated number of positives leaves 0 .. M there is no value at all.

    >>> rank_auc(RankSums(9.0, 4.0), 6).value
    0.375
    """
    p, n = sums.positives, examples - sums.positives
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
    raw = sums.auc(examples)
    value = min(max(raw, 0.0), 1.0)
    sd = noise_sd(sums, examples, covariance)
    caution = None
    if value != raw:
        caution = (
            f"the estimate fell outside [0, 1] and was cut to {value:g}: the noise is "
            "as large as the distance to the end"
        )
    return Estimate(
        value,
        Normal(sampling_sd(value, p, n)),
        Zero() if exact else Normal(sd),
        Binning(value, value, 0.0),
        status=_status(p, n, sd, covariance),
        caution=caution,
    )


def _status(
    positives: float, negatives: float, sd: float, covariance: SumsCovariance
) -> Usable | Unusable:
    rarer = min(positives, negatives)
    if rarer < _TOO_FEW * math.sqrt(covariance.positives):
        return Unusable(
            f"the rarer class is estimated at {rarer:.0f} examples, within "
            f"{_TOO_FEW:g} standard deviations of the noise in that number from none; "
            "use a larger epsilon or more data"
        )
    if sd > _TOO_WIDE:
        return Unusable(
            f"the noise has a standard deviation of {sd:.2f}; use a larger epsilon or "
            "more data"
        )
    return Usable()


def noisy_auc(flipped: RankSums, examples: int) -> Estimate:
    """Return the AUC of flipped labels as they are, biased towards one half.

    The noisy AUC of Sun et al. (2022), Table 3; use the debiased one.
    """
    value = flipped.auc(examples)
    if math.isnan(value):
        return Estimate.undefined("all flipped labels are equal")
    return Estimate(
        value,
        NotYet("the flips bias this value towards one half"),
        Zero(),
        Binning(value, value, 0.0),
        status=Unusable("the AUC of flipped labels is biased; use the debiased one"),
    )
