r"""The Hosmer-Lemeshow test, for those whom a form asks for it, and why not to use it.

Scores are put into ten groups of equal size; with P positives, T examples and F the sum of
scores in a group,

.. math:: \chi^2 = \sum_g \frac{(P_g - F_g)^2}{F_g (1 - F_g/T_g)}

has, for a model that was not fitted to these data, as many degrees of freedom as groups.
Noise in the counts adds to every deviation, so a noisy release has no such test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.errors import NotReleasedError
from discreet.estimate.fit import Fit
from discreet.metrics.score_groups import Groups

_GROUPS: Final = 10
WHY_NOT: Final = (
    "its p-value follows the number of examples and the choice of groups, and says "
    "neither how large a miscalibration is nor where: report the calibration curve, "
    "its slope and its intercept instead (Van Calster et al. 2019)"
)


@dataclass(frozen=True, slots=True)
class HosmerLemeshow:
    """The statistic, its degrees of freedom, its p-value, and what it is worth."""

    statistic: float
    degrees: int
    p_value: float
    sentence: str = WHY_NOT


def hosmer_lemeshow(fit: Fit) -> HosmerLemeshow:
    """Return the test over ten groups of equal size, where counts are exact."""
    if not fit.observed.exact:
        raise NotReleasedError(
            "there is no Hosmer-Lemeshow test of noisy counts, whose noise would count "
            f"as miscalibration; and {WHY_NOT}"
        )
    from scipy.stats import chi2  # noqa: PLC0415 - slow to import

    groups = Groups.of(fit.counts, _GROUPS, "mass")
    kept = groups.totals > 0
    t, f, p = groups.totals[kept], groups.predicted[kept], groups.positives[kept]
    under = np.maximum(f * (1 - f / t), 1e-12)
    statistic = float(((p - f) ** 2 / under).sum())
    degrees = int(kept.sum())
    return HosmerLemeshow(statistic, degrees, float(chi2.sf(statistic, degrees)))
