r"""Randomized response: flipped labels, and the sums that they give.

Every label is flipped with probability :math:`\rho = 1/(1 + e^\varepsilon)`, and
:math:`\hat y = (y' - \rho)/(1 - 2\rho)` is unbiased (section 4 of Sun et al. 2022).
Their debiasing of the AUC by alpha and beta is algebraically the same plug-in.
Two protocols carry the same information to the AUC: a site sends the two sums of
its flipped labels, or the flipped labels beside its scores.

With :math:`v = \rho(1-\rho)/(1-2\rho)^2 = e^\varepsilon/(e^\varepsilon-1)^2` the
covariance of the decoded (S, P) is :math:`v \sum_i (r_i, 1)(r_i, 1)^T`; the paper's
equation 7 lacks the debiasing factor and the covariance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import ReleaseError
from discreet.noise.coins import bernoulli_logistic, stretched
from discreet.privacy.loss import Loss, PureDP
from discreet.ranks.ranks import SiteRanks, check_labels
from discreet.ranks.sums import RankSums, SumsCovariance

Form: TypeAlias = Literal["sums", "labels"]


@dataclass(frozen=True)
class ResponseSums:
    """Flipped labels of one site, sent as two sums or as they are."""

    ranks: SiteRanks
    budget: PureDP
    form: Form = "sums"

    @property
    def length(self) -> int:
        """Two sums, or one label an example."""
        return 2 if self.form == "sums" else len(self.ranks)

    @property
    def flip_probability(self) -> float:
        """The probability rho that a label is flipped."""
        return 1.0 / (1.0 + math.exp(float(self.budget.epsilon)))

    def exact(self, labels: IntVector) -> IntVector:
        """Return what would be sent of labels that were not flipped."""
        check_labels(labels, self.ranks)
        if self.form == "labels":
            return labels.astype(np.int64)
        doubled = int(self.ranks.doubled @ labels.astype(np.int64))
        return np.array([doubled, int(labels.sum())], dtype=np.int64)

    def protect(self, labels: IntVector, *, entropy: Entropy) -> IntVector:
        """Flip afresh and return what is sent: charged at every evaluation.

        Flips that a site keeps (:mod:`discreet.ranks.flipped_labels`) are charged
        once; what is sent of them is ``exact`` of the flipped labels.
        """
        check_labels(labels, self.ranks)
        flips = bernoulli_logistic(self.budget.epsilon, labels.size, stretched(entropy))
        return self.exact(np.where(flips, 1 - labels, labels).astype(np.int64))

    def flipped_sums(self, released: IntVector) -> RankSums:
        """Return the sums of the flipped labels, without debiasing."""
        if released.shape != (self.length,):
            raise ReleaseError(
                f"{self.length} released numbers were expected, got {released.size}"
            )
        if self.form == "labels":
            if not np.isin(released, (0, 1)).all():
                raise ReleaseError("flipped labels are 0 or 1")
            doubled, count = int(self.ranks.doubled @ released), int(released.sum())
        else:
            doubled, count = (int(v) for v in released)
        return RankSums(doubled / 2, float(count))

    def decode(self, released: IntVector) -> RankSums:
        """Undo the flips on average."""
        seen = self.flipped_sums(released)
        rho = self.flip_probability
        all_ranks = int(self.ranks.doubled.sum()) / 2
        return RankSums(
            (seen.rank_sum - rho * all_ranks) / (1 - 2 * rho),
            (seen.positives - rho * len(self.ranks)) / (1 - 2 * rho),
        )

    @property
    def covariance(self) -> SumsCovariance:
        """The covariance of the noise in (S, P), whatever the labels are."""
        r = self.ranks.doubled / 2
        v = response_variance(float(self.budget.epsilon))
        return SumsCovariance(v * float(r @ r), v * float(r.sum()), v * r.size)

    def loss(self) -> Loss:
        """The whole budget: once a label set for kept flips, else each time."""
        return self.budget


def response_variance(epsilon: float) -> float:
    r"""Return the variance :math:`e^\varepsilon/(e^\varepsilon-1)^2` of one label."""
    return math.exp(-epsilon) / math.expm1(-epsilon) ** 2


def predicted_response(
    size: FloatVector,
    rank_total: FloatVector,
    square_total: FloatVector,
    *,
    epsilon: float,
    prior_mean: float,
    prior_sd: float,
) -> FloatVector:
    """Return the expected variance of S - cP for a random c, for each site."""
    around = square_total - 2 * prior_mean * rank_total
    around = around + size * (prior_mean**2 + prior_sd**2)
    predicted: FloatVector = response_variance(epsilon) * around
    return predicted


def simulate_response_errors(
    ranks: FloatVector,
    labels: IntVector,
    epsilon: float,
    size: int,
    rng: np.random.Generator,
) -> tuple[FloatVector, FloatVector]:
    r"""Draw errors of the decoded (S, P), fast and *not secretly*.

    A label's error is :math:`(f - \rho)(1 - 2y)/(1 - 2\rho)`, f its flip.
    """
    rho = 1.0 / (1.0 + math.exp(epsilon))
    sign = (1.0 - 2.0 * labels) / (1.0 - 2.0 * rho)
    both = np.column_stack([ranks * sign, sign])
    mean = rho * both.sum(axis=0)
    errors = np.empty((size, 2))
    for run in range(size):
        flips = np.flatnonzero(rng.random(labels.size, dtype=np.float32) < rho)
        errors[run] = both[flips].sum(axis=0) - mean
    return errors[:, 0], errors[:, 1]
