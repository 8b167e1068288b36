r"""Releases by a trusted curator: one number, confusion counts, a curve, an evaluation.

Every release takes one path, ``publish``: charge, draw integers with noise, store them
in the account, return them. The unit is a row: one example replaced by any other.

- ``auc`` and ``average_precision`` release one number by a mechanism of
  ``CURATOR_MECHANISMS``: two integers of a weighted count, or one on a grid with
  smooth noise.
- ``confusion`` and ``evaluate`` release counts. Replacing an example takes one count
  down and another up: the L1 sensitivity is 2 in all (Boyd 2015, section 3, for
  confusion matrices). Noise of scale :math:`2/\varepsilon` in every count then protects
  all of them at once, and every metric and curve is post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.parsing import Amount, exact
from discreet.curator.budget import Budget, publish
from discreet.curator.private_estimate import (
    PrivateEstimate,
    ReleasedScalar,
    SamplingVariance,
    ap_sampling,
    auc_sampling,
    laplace_errors,
    private_estimate,
    symmetric_errors,
    too_little,
    weighted_count_estimate,
)
from discreet.curator.ranking import (
    Ranking,
    TieConvention,
    ap_smooth_sensitivity,
    auc_smooth_sensitivity,
    rank,
)
from discreet.curator.smooth_noise import SmoothNoise, draw_on_grid, grid_steps, tuned
from discreet.curator.weighted_count import (
    WeightTable,
    ap_weights,
    auc_weights,
    protect,
)
from discreet.data.edges import EdgeRule, Edges, Support
from discreet.data.examples import Examples
from discreet.data.scores import ScoreKind
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError, PlanError
from discreet.estimate.curves import Curve
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Flat
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.models.central import CentralDP
from discreet.noise.laplace import DiscreteLaplace
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.rounds import Release
from discreet.privacy.claim import Claim, Trust
from discreet.privacy.loss import ApproxDP, PureDP, loss_of
from discreet.privacy.unit import ROW
from discreet.registry import Registry
from discreet.report.build import evaluation
from discreet.report.evaluation import Evaluation
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Target:
    """A metric that can be released: its value and how far one row moves it."""

    name: str
    value: Callable[[Ranking], Fraction]
    smooth: Callable[[int, int, float], float]
    """Smooth sensitivity from positives, negatives and beta."""
    weights: Callable[[int], WeightTable]
    """Public weights for a weighted count over this many rows."""
    sampling: Callable[[float, float], SamplingVariance]
    """Sampling variance from (released or declared) positives and negatives."""


AUC: Final = Target(
    name="AUC",
    value=lambda ranking: ranking.auc,
    smooth=auc_smooth_sensitivity,
    weights=auc_weights,
    sampling=auc_sampling,
)


def ap_target(bound: str = "exact") -> Target:
    """Return average precision with one of its sensitivity bounds."""
    return Target(
        name="average precision",
        value=lambda ranking: Fraction(ranking.average_precision),
        smooth=lambda n, _, beta: ap_smooth_sensitivity(n, beta, bound),
        weights=ap_weights,
        sampling=ap_sampling,
    )


@dataclass(frozen=True, slots=True)
class Curator:
    """Whoever releases: at which loss, on which account, with which secret bytes."""

    loss: PureDP | ApproxDP
    budget: Budget | None
    entropy: Entropy

    def publish(
        self, draw: Callable[[], IntVector], what: str, *, discloses: str, rows: int
    ) -> tuple[IntVector, Claim]:
        """Publish what is drawn; return it with its claim."""
        drawn, record = publish(draw, loss=self.loss, what=what, budget=self.budget)
        return drawn, Claim(
            unit=ROW,
            loss=self.loss,
            trust=Trust.CURATOR,
            computational=False,
            setting="seeded" if isinstance(self.entropy, Seeded) else "deployed",
            discloses=(discloses, f"the number of examples, {rows:,}"),
            not_protected=(
                "the same person in several rows",
                "how long the release took to compute",
                record,
            ),
        )


_POWER_LEAST: Final = 30
"""Epsilon times the smaller class from which power-law noise is the smaller."""


@dataclass(frozen=True, slots=True)
class ScalarRequest:
    """What the caller asked for: public, validated before any data is read."""

    mechanism: str | None
    """None leaves the choice to ``release``."""
    prevalence: float | None
    gamma: Fraction
    curator: Curator

    def __post_init__(self) -> None:
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise PlanError("the declared prevalence lies strictly between 0 and 1")
        mechanism = CURATOR_MECHANISMS[self.mechanism or "weighted-count"]
        if mechanism.needs_delta and not 0 < self.delta < 1:
            raise PlanError(
                "Laplace noise on smooth sensitivity needs a delta between 0 and 1; "
                "the other mechanisms need none"
            )
        if not mechanism.needs_delta and self.delta != 0:
            raise PlanError(
                f"{self.mechanism or 'the default'} is pure epsilon-DP: leave delta at "
                "0, or ask for mechanism='laplace'"
            )
        if self.mechanism == "power-law" and self.prevalence is None:
            raise PlanError(
                "power-law noise is tuned to a public prevalence: declare it, or use "
                "the weighted count"
            )

    @property
    def epsilon(self) -> Fraction:
        """The loss without its delta."""
        return self.curator.loss.epsilon

    @property
    def delta(self) -> Fraction:
        """The loss's delta, 0 for a pure one."""
        loss = self.curator.loss
        return loss.delta if isinstance(loss, ApproxDP) else Fraction(0)

    def declared(self, rows: int) -> int | None:
        """Return the number of positives that the declared prevalence stands for."""
        if self.prevalence is None:
            return None
        return min(max(round(self.prevalence * rows), 1), rows - 1)

    def release(self, target: Target, ranking: Ranking) -> PrivateEstimate:
        """Release by the mechanism asked for, or by the better one from public facts."""
        name, rows = self.mechanism, ranking.rows
        if name is None:
            declared = self.declared(rows) or 0
            minority = min(declared, rows - declared)
            large = self.epsilon * minority >= _POWER_LEAST
            name = "power-law" if large else "weighted-count"
        request = replace(self, mechanism=name)
        return CURATOR_MECHANISMS[name].release(target, ranking, request)


@dataclass(frozen=True)
class CuratorMechanism(ABC):
    """A way to release one number: an entry of the registry."""

    needs_delta: bool = field(default=False, kw_only=True)

    @abstractmethod
    def release(
        self, target: Target, ranking: Ranking, request: ScalarRequest
    ) -> PrivateEstimate:
        """Draw integers, publish them, and return what may be made public.

        Nothing here raises or warns by the data: a class without examples is noisy
        like any other, and a refusal uses released or declared counts only.
        """


CURATOR_MECHANISMS: Final = Registry[CuratorMechanism](
    "curator mechanism",
    {
        "weighted-count": "discreet.curator.release:WEIGHTED_COUNT",
        "power-law": "discreet.curator.release:POWER_LAW",
        "pair-count": "discreet.published.boyd2015:PAIR_COUNT",
        "heavy-tailed": "discreet.published.boyd2015:HEAVY_TAILED",
        "laplace": "discreet.published.boyd2015:SMOOTH_LAPLACE",
    },
)


@dataclass(frozen=True)
class TwoIntegers(CuratorMechanism):
    """Two integers with discrete Laplace noise: a weighted value, and a code."""

    table: Callable[[Target, int], WeightTable] = lambda target, rows: target.weights(
        rows
    )
    notes: Callable[[Target, int], tuple[str, ...]] = lambda *_: ()

    def release(
        self, target: Target, ranking: Ranking, request: ScalarRequest
    ) -> PrivateEstimate:
        """Release both integers, and compute the value from them."""
        epsilon, rows = request.epsilon, ranking.rows
        table = self.table(target, rows)
        scale = table.scale(epsilon)  # refuses what cannot be drawn, before the charge
        curator = request.curator
        released, claim = curator.publish(
            lambda: protect(
                ranking, target.value(ranking), table, epsilon, curator.entropy
            ),
            target.name,
            discloses=f"a noisy {target.name} and a noisy number of positives",
            rows=rows,
        )
        return weighted_count_estimate(
            released,
            table,
            laplace_errors(float(scale)),
            epsilon=epsilon,
            sampling=target.sampling,
            claim=claim,
            mechanism=f"{request.mechanism}, discrete Laplace noise on two integers",
            notes=self.notes(target, rows),
        )


_ANYWHERE: Final = np.array([-np.inf, np.inf])
"""Errors of noise whose scale is private: the release alone bounds nothing."""


@dataclass(frozen=True)
class OnGrid(CuratorMechanism):
    """One integer: the value on a grid, with noise of its smooth sensitivity."""

    made: Callable[[Target, ScalarRequest, int], SmoothNoise]
    """The noise for a request over this many rows; public choices only."""

    def release(
        self, target: Target, ranking: Ranking, request: ScalarRequest
    ) -> PrivateEstimate:
        """Release the value; its error bars use no private count."""
        rows, steps = ranking.rows, grid_steps(ranking.rows)
        mechanism = self.made(target, request, rows)
        sensitivity = target.smooth(
            ranking.positives, ranking.negatives, mechanism.beta
        )

        def draw() -> IntVector:
            value, noise = target.value(ranking), mechanism.noise(sensitivity)
            secret = request.curator.entropy
            return np.array([draw_on_grid(value, noise, steps=steps, entropy=secret)])

        (place,), claim = request.curator.publish(
            draw,
            target.name,
            discloses=f"a noisy {target.name} on a grid of {steps:,} steps",
            rows=rows,
        )
        declared = request.declared(rows)
        errors: FloatVector = _ANYWHERE
        sampling: SamplingVariance | None = None
        note = "the size of the noise depends on the private class counts: declare a "
        note += "prevalence to get an interval"
        if declared is not None:
            smooth = target.smooth(declared, rows - declared, mechanism.beta)
            errors = symmetric_errors(mechanism.noise(smooth))
            sampling = target.sampling(declared, rows - declared)
            note = "the interval rests on the declared prevalence, the claim does not"
        likely = rows / 2 if declared is None else declared
        return private_estimate(
            ReleasedScalar(int(place) / steps, errors, sampling),
            claim=claim,
            mechanism=f"{request.mechanism} noise on smooth sensitivity",
            positives=None if declared is None else float(declared),
            refusal=too_little(float(request.epsilon), likely, rows),
            notes=(note,),
        )


def _power_law(target: Target, request: ScalarRequest, rows: int) -> SmoothNoise:
    declared = request.declared(rows) or 1
    return tuned(
        request.epsilon, lambda beta: target.smooth(declared, rows - declared, beta)
    )


WEIGHTED_COUNT: Final = TwoIntegers()
POWER_LAW: Final = OnGrid(_power_law)


def auc(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: str | None = None,
    prevalence: float | None = None,
    ties: TieConvention = "scikit-learn",
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
            epsilon times the smaller class is 30 or more); the paper's
            ``heavy-tailed`` and, with delta, ``laplace``.
        prevalence: public: roughly the share of positives. Never computed from
            these data.
        ties: count tied pairs one half (``scikit-learn``) or not (``paper``).
        gamma: tail of the heavy-tailed noise, above 1; 2 is Cauchy.
        budget: the account that is charged.
        entropy: secret bytes; anything but the default is for tests.

    >>> import numpy as np
    >>> labels = np.arange(20_000) % 2
    >>> scores = np.arange(20_000) + 6_000 * labels
    >>> area = auc(labels, scores, epsilon=1)
    >>> abs(area.value - 0.755) < 0.02, str(area.claim.loss)
    (True, '1-DP')
    """
    curator = Curator(loss_of(epsilon, delta), budget, entropy)
    request = ScalarRequest(mechanism, prevalence, exact(gamma, name="gamma"), curator)
    return request.release(AUC, rank(y_true, y_score, ties=ties))


def average_precision(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: str | None = None,
    prevalence: float | None = None,
    ties: TieConvention = "scikit-learn",
    bound: str = "exact",
    gamma: Amount = 2,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateEstimate:
    """Release the average precision once, with differential privacy.

    The value is cut to 0 .. 1 and never to the least average precision that the
    class counts allow, because these are private. The arguments are those of ``auc``,
    without ``pair-count``; ``ties`` gives tied scores one threshold (``scikit-learn``)
    or ranks negatives first (``paper``). ``bound`` is the sensitivity under smooth
    noise: ``exact``, or the paper's ``equation-10`` or ``equation-33``.

    >>> import numpy as np
    >>> labels = np.arange(20_000) % 2
    >>> scores = np.arange(20_000) + 6_000 * labels
    >>> ap = average_precision(labels, scores, epsilon=1, prevalence=0.5)
    >>> abs(ap.value - 0.7915) < 0.05
    True
    """
    curator = Curator(loss_of(epsilon, delta), budget, entropy)
    request = ScalarRequest(mechanism, prevalence, exact(gamma, name="gamma"), curator)
    return request.release(ap_target(bound), rank(y_true, y_score, ties=ties))


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
    >>> rates = confusion(scores > 0.4, scores, epsilon=1)
    >>> abs(rates.accuracy.value - 0.9) < 0.01
    True
    """
    loss = PureDP(exact(epsilon))
    if math.isnan(threshold):
        raise InputError("the threshold is NaN; give a number")
    scores, labels = Examples(y_score, y_true, kind="logit").to_arrays()
    chosen = Examples((scores >= threshold).astype(np.float64), labels)
    statistic = ClassHistogram(Edges.realise(Support((0.0, 1.0))))
    mechanism = DiscreteLaplace(loss, statistic.sensitivity(ROW))
    noisy, claim = Curator(loss, budget, entropy).publish(
        lambda: mechanism.protect(statistic.count(chosen), entropy=entropy),
        "confusion counts",
        discloses="four noisy confusion counts",
        rows=len(chosen),
    )
    counts = statistic.split(noisy.astype(np.float64))
    observed = NoisyHistogram(
        statistic.edges, counts.negatives, counts.positives, mechanism.noise(1)
    )
    rates = at_threshold(Flat().fit(observed), 0.5)
    return PrivateRates(threshold, rates.estimates, claim=claim)


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
    """Release one class histogram, for every metric and curve.

    For a single number ``auc`` and ``average_precision`` are several times more
    accurate at the same epsilon: a histogram's noise covers the whole curve.

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
    session, releases = SYSTEM(16), list[Release]()

    def draw() -> IntVector:
        """Answer every round of the plan, which is charged at once."""
        for index in range(len(plan.rounds)):
            round_ = plan.resolve(index, releases)
            mechanism = plan.privacy.mechanism_for(round_, plan.cohort)
            total = mechanism.protect(round_.statistic.count(examples), entropy=entropy)
            release = Release(plan.digest(), session, index, total, 1, 1, round_.loss)
            releases.append(release)
        return np.concatenate([release.total for release in releases])

    _, record = publish(
        draw,
        loss=plan.privacy.loss,
        what="evaluation",
        budget=budget,
        plan=plan.digest(),
    )
    claim = plan.claim("seeded" if isinstance(entropy, Seeded) else "deployed", sites=1)
    told = replace(claim, not_protected=(*claim.not_protected, record))
    return evaluation(plan, releases, told)


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


CURVE_OF_AUC: Final = Registry[Callable[[PrivateEstimate], PrivateRoc]](
    "ROC curve of an AUC",
    {"binormal": "discreet.published.boyd2015:binormal_roc"},
)
"""Curves that follow from one released AUC."""


def roc_curve(  # noqa: PLR0913 - every public choice is a keyword
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: Amount,
    method: str = "histogram",
    prevalence: float | None = None,
    kind: ScoreKind = "probability",
    low: float | None = None,
    high: float | None = None,
    budget: Budget | None = None,
    entropy: Entropy = SYSTEM,
) -> PrivateRoc:
    """Release an ROC curve.

    The method ``histogram`` follows any curve; ``kind``, ``low`` and ``high`` say what
    its scores are, as for ``evaluate``. ``binormal`` spends all on the AUC and draws the
    symmetric binormal curve of that area: less noise, and wrong where the classes'
    spreads differ.
    """
    if method in CURVE_OF_AUC:
        area = auc(
            y_true,
            y_score,
            epsilon=epsilon,
            prevalence=prevalence,
            budget=budget,
            entropy=entropy,
        )
        return CURVE_OF_AUC[method](area)
    if method != "histogram":
        names = ", ".join(("histogram", *CURVE_OF_AUC))
        raise InputError(f"a private ROC curve is made by one of {names}")
    result = evaluate(
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
    fpr, tpr, thresholds = result.roc_curve()
    return PrivateRoc(fpr, tpr, thresholds, result.curves.roc, result.auc, result.claim)
