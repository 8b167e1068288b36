"""Private ROC curves: a binormal one from the AUC, or the full one from a histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from discreet.arrays import FloatVector
from discreet.curator.auc import auc
from discreet.curator.binormal import BinormalCurve
from discreet.curator.budget import Budget
from discreet.curator.histogram import evaluate
from discreet.data.scores import ScoreKind
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.estimate.curves import Curve
from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.privacy.loss import Amount

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RocMethod: TypeAlias = Literal["histogram", "binormal"]


@dataclass(frozen=True, eq=False)
class PrivateRoc:
    """A private ROC curve: points, the area under it, and the claim.

    ``thresholds`` is None for a binormal curve, which has no scores.
    """

    fpr: FloatVector
    tpr: FloatVector
    thresholds: FloatVector | None
    curve: Curve
    auc: Estimate
    claim: Claim


def roc_curve(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    method: RocMethod = "histogram",
    prevalence: float | None = None,
    kind: ScoreKind = "probability",
    low: float | None = None,
    high: float | None = None,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateRoc:
    """Release an ROC curve.

    Args:
        y_true: labels, 0/1 or booleans.
        y_score: scores.
        epsilon: the loss.
        method: ``histogram`` follows any curve; ``binormal`` spends all on the AUC
            and draws the symmetric binormal curve of that area: less noise, and
            wrong where the classes' spreads differ.
        prevalence: public: roughly the share of positives.
        kind: what the scores are, for the histogram's bins.
        low: lower limit of scores of kind ``other``.
        high: upper limit of scores of kind ``other``.
        budget: the account that pays.
        entropy: secret bytes; anything but the default is for tests.
    """
    match method:
        case "histogram":
            found = evaluate(
                y_true,
                y_score,
                epsilon=epsilon,
                prevalence=prevalence,
                kind=kind,
                low=low,
                high=high,
                budget=budget,
                entropy=entropy,
            )
            fpr, tpr, thresholds = found.roc_curve()
            return PrivateRoc(
                fpr, tpr, thresholds, found.curves.roc, found.auc, found.claim
            )
        case "binormal":
            area = auc(
                y_true,
                y_score,
                epsilon=epsilon,
                prevalence=prevalence,
                budget=budget,
                entropy=entropy,
            )
            curve = BinormalCurve(area)
            fpr, tpr = curve.points()
            return PrivateRoc(fpr, tpr, None, curve, area, area.claim)
        case _:
            raise InputError("a private ROC curve is made by histogram or binormal")
