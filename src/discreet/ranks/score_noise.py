r"""Noise on the scores themselves: the alternative of Sun et al. (2022), Table 9.

Scores in [0, 1] are put on a grid of :math:`2^{20}` steps and get discrete Laplace
noise of scale :math:`2^{20}/\varepsilon`: whatever one score was, any other is as
likely within :math:`e^\varepsilon`. It protects *scores and not labels*: the AUC is
then computed from the exact labels. The noise pulls it far towards one half, by an
amount that depends on the scores, so that no interval can be given.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.noise.coins import stretched
from discreet.noise.laplace import discrete_laplace
from discreet.ranks.sum_noise import drawable

STEPS: Final = 2**20
"""Grid steps of the interval [0, 1]: the L1 sensitivity of a replaced score."""


def on_grid(scores: FloatVector) -> IntVector:
    """Put scores on the grid."""
    if scores.size and not 0 <= scores.min() <= scores.max() <= 1:
        raise InputError("noise on scores needs scores in [0, 1]")
    steps: IntVector = np.rint(scores * STEPS).astype(np.int64)
    return steps


def noisy_scores(
    scores: FloatVector, *, epsilon: Fraction, entropy: Entropy
) -> IntVector:
    """Return the scores on the grid with noise."""
    scale = drawable(Fraction(STEPS) / epsilon)
    return on_grid(scores) + discrete_laplace(scale, scores.size, stretched(entropy))
