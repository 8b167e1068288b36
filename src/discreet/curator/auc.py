"""One private AUC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from discreet.curator.budget import Budget
from discreet.curator.interval import AucSampling
from discreet.curator.mechanism import MechanismName, Request, Target, release
from discreet.curator.ranking import Ties, rank
from discreet.curator.result import PrivateEstimate
from discreet.curator.smooth import auc_smooth_sensitivity
from discreet.curator.weighted_count import (
    WeightTable,
    auc_weights,
    pair_count_weights,
)
from discreet.entropy import SYSTEM, Entropy
from discreet.privacy.loss import Amount

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def _tables(mechanism: MechanismName, rows: int) -> WeightTable:
    plain = mechanism == "pair-count"
    return pair_count_weights(rows) if plain else auc_weights(rows)


AUC: Final = Target(
    name="AUC",
    value=lambda ranking: ranking.auc,
    smooth=auc_smooth_sensitivity,
    tables=_tables,
    sampling=AucSampling,
)


def auc(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: MechanismName | None = None,
    prevalence: float | None = None,
    ties: Ties = "scikit-learn",
    gamma: Amount = 2,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateEstimate:
    """Release the area under the ROC curve once, with differential privacy.

    One example may be replaced by any other; the number of examples is public,
    the number of positives is not.

    Args:
        y_true: labels, 0/1 or booleans.
        y_score: scores of any range; only their order matters.
        epsilon: the loss; a decimal is taken as written.
        delta: 0, except for ``mechanism="laplace"``.
        mechanism: ``weighted-count`` (the default) or ``pair-count``, both pure
            epsilon; ``power-law`` (the default when a prevalence is declared and
            epsilon times the smaller class is 30 or more); the paper's ``heavy-tailed`` and, with delta, ``laplace``.
        prevalence: public: roughly the share of positives. Never computed from
            these data.
        ties: count tied pairs one half (``scikit-learn``) or not (``paper``).
        gamma: tail of the heavy-tailed noise, above 1; 2 is Cauchy.
        budget: the account that pays.
        entropy: secret bytes; anything but the default is for tests.

    >>> import numpy as np
    >>> labels = np.arange(20_000) % 2
    >>> scores = np.arange(20_000) + 6_000 * labels
    >>> found = auc(labels, scores, epsilon=1)
    >>> abs(found.value - 0.755) < 0.02, str(found.claim.loss)
    (True, '1-DP')
    """
    request = Request.of(
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        prevalence=prevalence,
        gamma=gamma,
    )
    ranking = rank(y_true, y_score, ties=ties)
    return release(AUC, ranking, request, budget=budget, entropy=entropy)
