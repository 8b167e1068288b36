"""An empirical audit: a lower bound on epsilon from runs on neighbouring data.

A mechanism that is (epsilon, delta)-DP cannot be told apart better than epsilon
allows; whoever tells two neighbouring data sets apart better has a proof, at a
stated confidence, that the claim is false. The converse does not hold: an audit
that finds nothing proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError

_MIN_RUNS: Final = 100
_MAX_CUTS: Final = 200


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found: epsilon is at least ``epsilon_at_least``.

    The statement is wrong with probability at most ``alpha``. ``event`` is the
    event that showed it, in terms of the attacker's score.
    """

    epsilon_at_least: float
    event: str
    runs: int
    alpha: float

    def refutes(self, epsilon: Fraction) -> bool:
        """Whether a claim of this epsilon is refuted."""
        return self.epsilon_at_least > epsilon

    def __str__(self) -> str:
        return (
            f"epsilon is at least {self.epsilon_at_least:.3f} "
            f"({self.runs} runs on each side, {self.event}, alpha {self.alpha:g})"
        )


def clopper_pearson(hits: int, runs: int, *, alpha: float) -> tuple[float, float]:
    """Return one-sided bounds of a probability, each wrong with chance alpha.

    >>> clopper_pearson(0, 10, alpha=0.05)[0]
    0.0
    """
    if not 0 <= hits <= runs:
        raise InputError("hits cannot exceed the runs")
    low = 0.0 if hits == 0 else float(betaincinv(hits, runs - hits + 1, alpha))
    high = (
        1.0 if hits == runs else float(betaincinv(hits + 1, runs - hits, 1.0 - alpha))
    )
    return low, high


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
    and Pearson 1934). The event, a half-line of scores and which data set makes
    it likelier, is chosen on the first half of the runs and judged on the
    second, so that choosing costs no confidence.
    """
    if one.size != other.size or one.size < _MIN_RUNS:
        raise InputError(
            f"an audit needs equally many runs on both sides, at least {_MIN_RUNS}"
        )
    half = one.size // 2
    choose = (one[:half], other[:half])
    judge = (one[half:], other[half:])
    cuts = np.unique(np.concatenate(choose))
    if cuts.size > _MAX_CUTS:
        cuts = np.unique(np.quantile(cuts, np.linspace(0.0, 1.0, _MAX_CUTS)))
    events = [
        _Event(float(c), up, swap) for c in cuts for up in _BOTH for swap in _BOTH
    ]
    best = max(events, key=lambda e: e.bound(*choose, delta=delta, alpha=alpha))
    bound = best.bound(*judge, delta=delta, alpha=alpha)
    return Audit(max(0.0, bound), str(best), half, alpha)


def audit_mechanism(
    run: Callable[[IntVector, Entropy], IntVector],
    neighbours: tuple[IntVector, IntVector],
    *,
    runs: int,
    entropy: Entropy,
    delta: float = 0.0,
    alpha: float = 1e-9,
) -> Audit:
    """Run a release on two neighbouring vectors and audit it.

    The attacker scores an output by its inner product with the difference of the
    two vectors: how far it lies in the direction in which they differ.
    ``run`` must be the whole release as it is opened: for noise shares the sum
    over the sites whose noise the attacker does not know.
    """
    one, other = neighbours
    direction = (one - other).astype(np.float64)
    if not direction.any():
        raise InputError("neighbouring data sets must differ")
    scores = [
        np.array([run(side, entropy) @ direction for _ in range(runs)])
        for side in neighbours
    ]
    return audit_scores(scores[0], scores[1], delta=delta, alpha=alpha)


_BOTH: Final = (False, True)


@dataclass(frozen=True, slots=True)
class _Event:
    """Scores at least (or at most) a cut, thought likelier on one side."""

    cut: float
    upward: bool
    swapped: bool

    def bound(
        self, one: FloatVector, other: FloatVector, *, delta: float, alpha: float
    ) -> float:
        if self.swapped:
            one, other = other, one
        # Half of alpha for each of the two probabilities.
        low, _ = clopper_pearson(self._hits(one), one.size, alpha=alpha / 2)
        _, high = clopper_pearson(self._hits(other), other.size, alpha=alpha / 2)
        return math.log((low - delta) / high) if low > delta else -math.inf

    def _hits(self, scores: FloatVector) -> int:
        inside: NDArray[np.bool_] = (
            scores >= self.cut if self.upward else scores <= self.cut
        )
        return int(np.count_nonzero(inside))

    def __str__(self) -> str:
        side = "second" if self.swapped else "first"
        sign = ">=" if self.upward else "<="
        return f"score {sign} {self.cut:g} likelier on the {side} data set"
