"""An empirical audit: a lower bound on epsilon from runs on neighbouring data.

A mechanism that is (epsilon, delta)-DP cannot be told apart better than epsilon
allows; whoever tells two neighbouring data sets apart better has a proof, at a
stated confidence, that the claim is false. The converse does not hold: an audit
that finds nothing proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from scipy.special import betaincinv

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError

_MIN_RUNS: Final = 100
_MAX_CUTS: Final = 200


@dataclass(frozen=True, slots=True)
class Audit:
    """Epsilon is at least this, from so many runs; wrong with probability alpha."""

    epsilon_at_least: float
    runs: int

    def refutes(self, epsilon: Fraction) -> bool:
        """Whether a claim of this epsilon is refuted."""
        return self.epsilon_at_least > epsilon


def clopper_pearson(
    hits: IntVector, runs: int, *, alpha: float
) -> tuple[FloatVector, FloatVector]:
    """Return one-sided bounds of probabilities, each wrong with chance alpha."""
    low = betaincinv(np.maximum(hits, 1), runs - hits + 1, alpha)
    high = betaincinv(hits + 1, np.maximum(runs - hits, 1), 1.0 - alpha)
    return np.where(hits == 0, 0.0, low), np.where(hits == runs, 1.0, high)


def audit_scores(
    one: FloatVector,
    other: FloatVector,
    *,
    delta: float = 0.0,
    alpha: float = 1e-9,
) -> Audit:
    r"""Bound epsilon from an attacker's scores on two neighbouring data sets.

    For every event E, :math:`P_1(E) \le e^\varepsilon P_2(E) + \delta`, so
    :math:`\varepsilon \ge \log\frac{P_1(E) - \delta}{P_2(E)}`, with a lower
    bound for the first probability and an upper bound for the second (Clopper
    and Pearson 1934), half of alpha for each. The event, a half-line of scores and
    which data set makes it likelier, is chosen on the first half of the runs and
    judged on the second, so that choosing costs no confidence.
    """
    if one.size != other.size or one.size < _MIN_RUNS:
        raise InputError(
            f"an audit needs equally many runs on both sides, at least {_MIN_RUNS}"
        )
    half = one.size // 2
    cuts = np.unique(np.concatenate([one[:half], other[:half]]))
    if cuts.size > _MAX_CUTS:
        cuts = np.unique(np.quantile(cuts, np.linspace(0.0, 1.0, _MAX_CUTS)))

    def bounds(*sides: FloatVector) -> FloatVector:
        """Of each cut, of scores at most and at least it, likelier on either side."""
        hits = []
        for scores in map(np.sort, sides):
            at_most = np.searchsorted(scores, cuts, side="right")
            at_least = scores.size - np.searchsorted(scores, cuts)
            hits.append((at_most, at_least))
        low, high = clopper_pearson(np.array(hits), sides[0].size, alpha=alpha / 2)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(low - delta, 0.0) / high[::-1]).T.ravel()

    best = int(np.argmax(bounds(one[:half], other[:half])))
    bound = float(bounds(one[half:], other[half:])[best])
    return Audit(max(0.0, bound), half)
