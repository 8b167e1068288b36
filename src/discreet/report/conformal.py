r"""Conformal thresholds from one release: prediction sets that hold the true label.

The true-class score of an example is the probability that the model gives to its own
label. If a future example is exchangeable with n counted ones, the set of all labels of
probability at least :math:`\tau` misses the true one with probability at most

.. math:: \frac{1 + \#\{\text{true-class scores} < \tau\}}{n + 1} \le \alpha

(Vovk et al. 2005; Papadopoulos et al. 2002), so :math:`\tau` is the largest that keeps
the count below :math:`\alpha(n + 1) - 1`. A release gives that count at every edge.
Under noise the 95% quantile of its error is added, and of several crossings the lowest is
taken: noise costs width, not coverage. Between two edges the count follows the fitted
curve, and coverage may differ by what one bin holds.

*Marginal* thresholds hold over all examples; *by class*, among the examples of each label.
Neither holds once the data drift.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.edges import unit_edges
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.fit import Fit
from discreet.estimate.slopes import covariance_of
from discreet.metrics.thresholds import SharesAbove, cut_at
from discreet.statistic.weighted import ScaledNoise

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Given: TypeAlias = Literal["marginal", "class"]
_QUANTILE: Final = 1.6448536269514722
"""The noise's 95% quantile is added to every count."""
_HALVINGS: Final = 40
_Term: TypeAlias = tuple[Fit, bool, bool]
"""A fit, and whether its negatives and its positives are counted."""


@dataclass(frozen=True, slots=True)
class ConformalThresholds:
    """The least probability with which a label is in the set."""

    alpha: float
    given: Given
    negative: float
    positive: float

    def predict(self, scores: ArrayLike) -> NDArray[np.bool_]:
        """Return which labels are in each example's set: columns negative, positive.

        ``scores`` are probabilities of the positive class.
        """
        s = np.asarray(scores, dtype=np.float64)
        return np.column_stack([1 - s >= self.negative, s >= self.positive])

    def __str__(self) -> str:
        held = "of all examples" if self.given == "marginal" else "within each class"
        return (
            f"a set of the labels with a probability of at least {self.negative:.4f} "
            f"(negative) and {self.positive:.4f} (positive) holds the true one in "
            f"{1 - self.alpha:.0%} {held} that are like these"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def conformal(fit: Fit, alpha: float, given: Given = "marginal") -> ConformalThresholds:
    """Return the thresholds of sets that miss the true label in at most ``alpha``."""
    match given:
        case "marginal":
            both = _largest([(fit, True, True)], alpha)
            return ConformalThresholds(alpha, given, both, both)
        case "class":
            negative = _largest([(fit, True, False)], alpha)
            positive = _largest([(fit, False, True)], alpha)
            return ConformalThresholds(alpha, given, negative, positive)
        case _:
            raise InputError("conformal thresholds are given 'marginal' or by 'class'")


def conformal_classes(classes: Mapping[str, Fit], alpha: float) -> float:
    """Return the marginal threshold of a multi-class problem, one for every class.

    Each class's positives against the rest are its true-class scores.
    """
    return _largest([(fit, False, True) for fit in classes.values()], alpha)


def _largest(terms: Sequence[_Term], alpha: float) -> float:
    """Return the lowest place where the count with its noise reaches what is allowed."""
    for fit, _, _ in terms:
        _check(fit, alpha)
    n, spread = _below(terms)
    allowed = alpha * (n - _QUANTILE * spread + 1) - 1
    if allowed < 0:
        raise NotReleasedError(
            f"sets that miss at most {alpha:g} need at least {1 / alpha:.0f} examples "
            "beyond the noise: use more data or a larger alpha"
        )

    def exceeds(tau: float) -> bool:
        count, sd = _below(terms, tau)
        return count + _QUANTILE * sd > allowed

    low, end = 0.0, 1.0
    if not all(fit.observed.exact for fit, _, _ in terms):
        # Noisy counts may cross what is allowed more than once: the first is taken.
        own = np.concatenate([unit_edges(fit.observed.edges) for fit, _, _ in terms])
        for place in np.unique(np.append(own, 1 - own)):
            if exceeds(float(place)):
                end = float(place)
                break
            low = float(place)
    for _ in range(_HALVINGS):
        middle = (low + end) / 2
        if exceeds(middle):
            end = middle
        else:
            low = middle
    return low


def _below(terms: Sequence[_Term], tau: float | None = None) -> tuple[float, float]:
    """Return how many true-class scores there are, or lie below tau, and the noise's sd."""
    count = variance = 0.0
    for fit, negatives, positives in terms:
        observed = fit.observed
        on_n = on_p = np.ones(len(observed.edges))
        if tau is not None:
            on_n = _above(fit, 1 - tau, strictly=True).negatives
            on_p = 1 - _above(fit, tau).positives
        on_n, on_p = negatives * on_n, positives * on_p
        count += float(on_n @ observed.negatives + on_p @ observed.positives)
        if not observed.exact:
            row = np.concatenate([on_n, on_p])[None, :]
            variance += max(float(covariance_of(observed, row)[0, 0]), 0.0)
    return count, math.sqrt(variance)


def _above(fit: Fit, p: float, *, strictly: bool = False) -> SharesAbove:
    """Return the shares of the bins at or above a probability."""
    t = p
    if fit.observed.edges.scores.kind == "logit":
        with np.errstate(divide="ignore"):
            t = float(np.log(p) - np.log1p(-p))
    if strictly and fit.observed.edges.atoms:
        t = float(np.nextafter(t, math.inf))
    return cut_at(fit.counts, t, along=fit.along).curved


def _check(fit: Fit, alpha: float) -> None:
    if not 0 < alpha < 1:
        raise InputError("alpha lies strictly between 0 and 1")
    if fit.observed.edges.scores.kind == "other":
        raise NotReleasedError(
            "conformal sets need probabilities; scores of kind 'other' are none"
        )
    if isinstance(fit.observed.noise, ScaledNoise):
        raise NotReleasedError(
            "conformal sets are for examples of one weight: the next example may weigh "
            "more than these"
        )
