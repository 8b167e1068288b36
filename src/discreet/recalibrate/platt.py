r"""Platt's map of the log-odds: :math:`\operatorname{logit} q = c + a \operatorname{logit} s`.

Platt (1999) fitted a sigmoid to margins; a probability's margin is its log-odds. The
map holds the identity (c = 0, a = 1), and a is 0 or more.
"""

from __future__ import annotations

import numpy as np

from discreet.recalibrate.logistic_map import LogisticMap, logarithms
from discreet.statistic.observed import NoisyHistogram


def fit_platt(counts: NoisyHistogram) -> LogisticMap:
    """Fit an intercept and one slope."""
    log, rest = logarithms(counts)
    return LogisticMap.fitted(
        "platt", counts, np.stack([np.ones_like(log), log + rest])
    )
