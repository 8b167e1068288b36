"""How the noise of a release spreads into a number, to first order."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.estimate import Normal, ScalarLaw, Zero
from discreet.noise.arc_decoder import DecodedLaw
from discreet.statistic.observed import NoisyHistogram

_STEP = 1e-4


def covariance_of(observed: NoisyHistogram, weights: FloatArray) -> FloatArray:
    """Return the noise's covariance of linear combinations of the counts.

    ``weights`` has a row a combination and a column a count: the negatives'
    bins, then the positives'.
    """
    at = np.concatenate([observed.negatives, observed.positives])
    if isinstance(observed.law, DecodedLaw):
        found: FloatArray = weights @ observed.law.matrix @ weights.T
        return found
    noise = observed.law.covariance(at)
    w_n, w_p = np.split(weights, 2, axis=1)
    cross = (w_n * noise.cross) @ w_p.T
    own = (w_n * noise.negatives) @ w_n.T + (w_p * noise.positives) @ w_p.T
    total: FloatArray = own + cross + cross.T
    return total


def propagated(
    function: Callable[[FloatVector], float], at: FloatVector, covariance: FloatArray
) -> ScalarLaw:
    r"""Return the law of a function of noisy numbers: :math:`\nabla f^T C \nabla f`."""
    if not covariance.any():
        return Zero()
    step = _STEP * max(float(np.abs(at).sum()), 1.0)
    slopes = np.array(
        [
            (function(at + step * unit) - function(at - step * unit)) / (2 * step)
            for unit in np.eye(at.size)
        ]
    )
    if not np.isfinite(slopes).all():
        return Zero()
    return Normal(math.sqrt(max(float(slopes @ covariance @ slopes), 0.0)))
