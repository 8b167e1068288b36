r"""Everything from one noisy class histogram, and the confusion counts at one threshold.

Replacing an example takes one count down and another up: the L1 sensitivity is 2 in
all (Boyd 2015, section 3, for confusion matrices). Noise of scale
:math:`2/\varepsilon` in every count then protects all of them at once, and every
metric and curve is post-processing.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from discreet.curator.budget import Budget, charge
from discreet.curator.private_estimate import ROW, curator_claim
from discreet.data.edges import EdgeRule, Edges, Support
from discreet.data.examples import Examples
from discreet.data.scores import ScoreKind
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError, PlanError
from discreet.estimate.estimator import Flat
from discreet.estimate.thresholds import AtThreshold
from discreet.estimate.with_errors import at_with_errors
from discreet.models.distributed import DistributedDP
from discreet.models.recommend import recommend
from discreet.noise.laplace import DiscreteLaplace
from discreet.noise.polya import PolyaShares
from discreet.plan.cohort import PublicFacts
from discreet.plan.release import Release
from discreet.privacy.claim import Claim
from discreet.privacy.loss import Amount, PureDP, exact
from discreet.result.evaluation import Evaluation, evaluation
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True, kw_only=True)
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
        statistic.edges, counts.negatives, counts.positives, mechanism.law(1)
    )
    found = replace(at_with_errors(Flat(), observed, 0.5), threshold=threshold)
    claim = curator_claim(
        loss,
        what="four noisy confusion counts",
        rows=len(chosen),
        entropy=entropy,
        record=record,
    )
    values = {f.name: getattr(found, f.name) for f in fields(found)}
    return PrivateRates(**values, claim=claim)


def evaluate(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
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

    A replaced example is one removed and one added: a histogram that is
    epsilon/2-DP for the latter is epsilon-DP for a row, so the plan inside the
    result names epsilon/2 and the claim names epsilon.

    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 20_000)
    >>> result = evaluate(scores > 0.4, scores**2, epsilon=1, prevalence=0.6)
    >>> result.auc.value > 0.99, str(result.claim.loss)
    (True, '1-DP')
    """
    total = exact(epsilon)
    loss = PureDP(total)
    examples = Examples(y_score, y_true, kind=kind, low=low, high=high)
    rows = len(examples)
    plan = recommend(
        PublicFacts(rows, prevalence, examples.scores),
        DistributedDP(epsilon=total / 2),
        thresholds=thresholds,
        edges=edges,
    )
    record = charge(budget, loss, "evaluation")
    session, releases = secrets.token_bytes(16), list[Release]()
    for index in range(len(plan.rounds)):
        this = plan.resolve(index, releases)
        mechanism = plan.privacy.noise(this, plan.cohort)
        if not isinstance(mechanism, PolyaShares) or mechanism.honest != 1:
            raise PlanError("a curator adds the whole noise alone")
        exact_counts = this.statistic.count(examples)
        noisy = mechanism.protect(exact_counts, entropy=entropy)
        releases.append(
            Release(plan.digest(), session, index, noisy, 1, 1, mechanism.loss())
        )
    cells = sum(r.total.size for r in releases)
    claim = curator_claim(
        loss,
        what=f"{cells:,} noisy counts of examples",
        rows=rows,
        entropy=entropy,
        record=record,
    )
    return evaluation(plan, releases, claim)
