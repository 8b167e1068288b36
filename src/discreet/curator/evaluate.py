r"""Whole evaluations and curves by a curator, and confusion counts at one threshold.

Replacing an example takes one count down and another up: the L1 sensitivity is 2 in
all (Boyd 2015, section 3, for confusion matrices). Noise of scale
:math:`2/\varepsilon` in every count then protects all of them at once, and every
metric and curve is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.curator.areas import BinormalCurve, auc
from discreet.curator.budget import NO_RECORD, Budget, charge
from discreet.curator.private_estimate import curator_claim
from discreet.data.edges import EdgeRule, Edges, Support
from discreet.data.examples import Examples
from discreet.data.scores import ScoreKind
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.estimate.curves import Curve
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Flat
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.models.central import CentralDP
from discreet.noise.laplace import DiscreteLaplace
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.recommend import recommend
from discreet.plan.release import Release
from discreet.privacy.account import Account, MemoryAccount, Use
from discreet.privacy.claim import Claim
from discreet.privacy.loss import Amount, PureDP, exact
from discreet.privacy.unit import ROW
from discreet.report.build import evaluation
from discreet.report.evaluation import Evaluation
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, kw_only=True)
class PrivateRates(AtThreshold):
    """Confusion counts and the rates made of them, with their claim."""

    claim: Claim


def confusion(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    threshold: float = 0.5,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateRates:
    """Release the confusion counts when ``score >= threshold`` is positive.

    Precision, recall, specificity, accuracy and F1 follow from the same four
    noisy counts at no further cost.

    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 10_000)
    >>> found = confusion(scores > 0.4, scores, epsilon=1)
    >>> abs(found.accuracy.value - 0.9) < 0.01
    True
    """
    loss = PureDP(exact(epsilon))
    if math.isnan(threshold):
        raise InputError("the threshold is NaN; give a number")
    scores, labels = Examples(y_score, y_true, kind="logit").to_arrays()
    chosen = Examples((scores >= threshold).astype(np.float64), labels)
    statistic = ClassHistogram(Edges.realise(Support((0.0, 1.0))))
    mechanism = DiscreteLaplace(loss, statistic.sensitivity(ROW))
    exact_counts = statistic.count(chosen)
    record = charge(budget, loss, "confusion counts")
    noisy = mechanism.protect(exact_counts, entropy=entropy).astype(np.float64)
    counts = statistic.split(noisy)
    observed = NoisyHistogram(
        statistic.edges, counts.negatives, counts.positives, mechanism.noise(1)
    )
    found = at_threshold(Flat().fit(observed), 0.5)
    claim = curator_claim(
        loss,
        what="four noisy confusion counts",
        rows=len(chosen),
        entropy=entropy,
        record=record,
    )
    return PrivateRates(threshold, found.estimates, claim=claim)


def evaluate(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    prevalence: float | None = None,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    kind: ScoreKind = "probability",
    low: float | None = None,
    high: float | None = None,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> Evaluation:
    """Release one class histogram and read every metric and curve from it.

    For a single number ``auc`` and ``average_precision`` are several times more
    accurate at the same epsilon: a histogram pays for the whole curve.

    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 20_000)
    >>> result = evaluate(scores > 0.4, scores**2, epsilon=1, prevalence=0.6)
    >>> result.auc.value > 0.99, str(result.claim.loss)
    (True, '1-DP')
    """
    examples = Examples(y_score, y_true, kind=kind, low=low, high=high)
    plan = recommend(
        PublicFacts(len(examples), prevalence, examples.scores),
        CentralDP(epsilon, delta),
        thresholds=thresholds,
        edges=edges,
    )
    account = MemoryAccount() if budget is None else budget
    releases = publish(plan, examples, account, entropy=entropy)
    claim = plan.claim("seeded" if isinstance(entropy, Seeded) else "deployed", sites=1)
    record = NO_RECORD if budget is None else budget.caveat
    told = replace(claim, not_protected=(*claim.not_protected, record))
    return evaluation(plan, releases, told)


def publish(
    plan: Plan, examples: Examples, account: Account, *, entropy: Entropy
) -> list[Release]:
    """Charge for the whole plan at once, then count, add noise, store, and return."""
    session, releases = SYSTEM(16), list[Release]()
    permit = account.reserve(
        Use(
            "the curator's data",
            session,
            0,
            plan.privacy.loss,
            b"",
            plan=plan.digest(),
            note="evaluation",
            unit=plan.privacy.protects,
        )
    )
    for index in range(len(plan.rounds)):
        this = plan.resolve(index, releases)
        mechanism = plan.privacy.mechanism_for(this, plan.cohort)
        total = mechanism.protect(this.statistic.count(examples), entropy=entropy)
        releases.append(Release(plan.digest(), session, index, total, 1, 1, this.loss))
    account.record(permit, b"".join(r.total.astype("<i8").tobytes() for r in releases))
    return releases


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
