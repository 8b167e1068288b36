r"""Curves when the examples of each bin are public and only the labels are noisy.

Under label privacy the release holds :math:`\tilde p_b`, the positives of bin b with an
unbiased noise, and the examples :math:`t_b` of the bin exactly; the noise of the
negatives is the opposite of that of the positives.

*Counts.* The cumulative positives nearest (in least squares) to the released ones
that rise in every bin by at least 0 and at most :math:`t_b`: then neither rate
falls and no count is negative. Clipping bins one by one would add the positive part of
the noise to each. Dykstra's (1983) alternating projections, each an isotonic regression,
find the nearest point of the intersection of both conditions.

*Noise.* A metric A whose slopes are :math:`g^+, g^-` moves, per label that looks
positive instead of negative, by :math:`g^+ - g^-`, so that with the noise's
variance :math:`v_b`

.. math::
    \operatorname{Var} A = \sum_b (g^+_b - g^-_b)^2\, v_b .

For the AUC under randomized response, bins of one example, this is
:math:`\frac{e^\varepsilon}{(e^\varepsilon-1)^2}\sum_i\frac{(r_i-c)^2}{(PN)^2}` with
:math:`c = P - \frac12 + A(N - P)`, the ranks r from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Fit, flat_fit, too_little, unusable_fit
from discreet.estimate.ties import choose_interpolation
from discreet.statistic.observed import NoisyHistogram

_MOST_ROUNDS: Final = 2000
_CLOSE: Final = 1e-3
"""Examples by which the corrections of the last two rounds may differ."""


@dataclass(frozen=True, slots=True)
class PublicTotals:
    """Fits a histogram whose bin totals are exact, such as one of flipped labels."""

    interpolation: Interpolation | None = None

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "known bin totals, monotone projection of the positives"

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Project the cumulative positives; every bin keeps its total."""
        totals = np.maximum(observed.totals, 0.0)
        positives = rising_within(observed.positives, totals)
        counts = replace(observed, negatives=totals - positives, positives=positives)
        reason = too_little(observed, "few labels", least=1.0)
        if reason is not None:
            return unusable_fit(
                observed, counts, reason, estimator=self.name, noise_path="slopes"
            )
        return flat_fit(
            observed,
            counts,
            self.interpolation or choose_interpolation(observed),
            estimator=self.name,
            way="totals",
            noise_path="slopes",
        )


def rising_within(steps: FloatVector, most: FloatVector) -> FloatVector:
    r"""Return steps in [0, most] whose running sum is nearest to the given one's.

    Dykstra's algorithm between two closed convex sets: running sums x that start at
    0 or above and do not fall, and those for which :math:`\sum most - x` does so
    (clipping an isotonic regression at 0 projects on such a set). The corrections u
    and v make it converge to the nearest point, not to any common point.

    >>> steps = rising_within(np.array([1.0, -1.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    >>> steps.round(2).tolist()
    [0.67, 0.0, 2.0]
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    if not steps.size:
        return steps
    ceiling = np.cumsum(most)
    x = np.cumsum(steps)
    u, v = np.zeros_like(x), np.zeros_like(x)
    for _ in range(_MOST_ROUNDS):
        before = u, v
        rising = np.maximum(isotonic_regression(x + u).x, 0.0)
        u = x + u - rising
        below = isotonic_regression(ceiling - (rising + v)).x
        bounded = ceiling - np.maximum(below, 0.0)
        v = rising + v - bounded
        x = bounded
        # x may rest while the corrections still move it on (Birgin and Raydan
        # 2005): the end is where these rest.
        if max(np.abs(u - before[0]).max(), np.abs(v - before[1]).max()) < _CLOSE:
            break
    return np.clip(np.diff(x, prepend=0.0), 0.0, most)
