r"""Beta calibration: :math:`\operatorname{logit} q = c + a \log s - b \log(1 - s)`.

Kull, Silva Filho and Flach (2017): the right family when scores of both classes have
beta distributions, and unlike Platt's it bends differently at both ends. As its
authors do, a negative slope is held at 0 and the rest fitted again.
"""

from __future__ import annotations

import numpy as np

from discreet.recalibrate.logistic_map import LogisticMap, logarithms
from discreet.statistic.observed import NoisyHistogram


def fit_beta(counts: NoisyHistogram) -> LogisticMap:
    """Fit an intercept and a slope on each logarithm."""
    log, rest = logarithms(counts)
    return LogisticMap.fitted("beta", counts, np.stack([np.ones_like(log), log, rest]))
