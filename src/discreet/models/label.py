"""Public scores, private labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from discreet.codec.parsing import Amount, exact
from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.errors import PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Estimator
from discreet.label.public_scores import PublicScores, predict_curve
from discreet.label.rank_terms import AGAIN, KEPT_FLIPS, RankedNoise, RankSumTerms
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.mechanism import Mechanism
from discreet.noise.response import RandomizedResponse
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import MALICIOUS, PrivacyModel
from discreet.plan.protocol import PROTOCOLS, SessionProtocol
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import Loss, PureDP, loss_of
from discreet.privacy.unit import LABEL, Unit
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.protocol import Statistic
from discreet.statistic.rank_sums import RANK_MECHANISMS, RankAggregation, RankSums
from discreet.vocabulary import did_you_mean

CurveMechanism: TypeAlias = Literal["response", "binned", "curves"]
CURVE_MECHANISMS: Final[tuple[CurveMechanism, ...]] = get_args(CurveMechanism)
"""Label mechanisms that release counts per bin: curves and calibration."""


@dataclass(frozen=True, slots=True)
class LabelDP(PrivacyModel):
    """The scores are public, the labels are not: one flipped label is protected.

    For sites that hold labels while the coordinator knows the scores anyhow, as in
    vertical federated learning.

    Args:
        epsilon: the loss; a decimal is taken as written.
        delta: 0 for pure DP; above 0 for Gaussian noise on rank sums.
        mechanism: ``choice`` (the default), ``endpoint``, ``slack``, ``staircase``,
            ``global-laplace``, ``local-laplace``, ``orthogonal`` and ``adaptive``
            give the AUC alone. ``response`` flips each label once, for any number of models,
            and gives everything, curves and calibration included; ``binned`` adds
            noise to each site's positives per bin, anew in each evaluation;
            ``curves`` takes the one of these two with the smaller predicted error.
    """

    epsilon: Amount
    delta: Amount = 0
    mechanism: str = "choice"

    name: ClassVar[str] = "label"
    trust: ClassVar[Trust] = Trust.LABELS_ONLY
    carried_by: ClassVar[str] = "ranks"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta, name="delta"))
        known = (*RANK_MECHANISMS, *CURVE_MECHANISMS)
        if self.mechanism not in known:
            near = did_you_mean(self.mechanism, known)
            raise PlanError(f"a label mechanism is one of {', '.join(known)}{near}")
        if self.delta and self.mechanism in CURVE_MECHANISMS:
            raise PlanError(
                f"the label mechanism {self.mechanism} keeps pure DP: omit delta"
            )
        _ = self.loss

    def protocol(self, statistic: Statistic) -> SessionProtocol:
        """Rank sums follow the public ranks; counts travel each on its own."""
        return PROTOCOLS["ranks" if isinstance(statistic, RankSums) else "relay"]()

    @property
    def needs_edges(self) -> bool:
        """Where labels are counted per bin: the edges follow from the public scores."""
        return self.mechanism in CURVE_MECHANISMS

    @property
    def predictable(self) -> bool:
        """Its errors depend on the public scores, which a plan does not hold."""
        return False

    @property
    def protects(self) -> Unit:
        """One label, flipped."""
        return LABEL

    @property
    def loss(self) -> Loss:
        """The loss of each site's messages, and of all of them together."""
        return loss_of(self.epsilon, self.delta)

    @property
    def reusable(self) -> bool:
        """Whether one charge can serve any number of models on the same labels."""
        return self.mechanism == "response"

    @property
    def keeps_keys(self) -> bool:
        """The key of its flips; drawn beforehand whatever the mechanism."""
        return True

    @property
    def computational(self) -> bool:
        """Flips come from a keyed function."""
        return self.mechanism == "response"

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        return (
            "the scores and how many examples each site holds",
            "what a good score says about a label by itself",
            MALICIOUS,
            *(KEPT_FLIPS if self.reusable else AGAIN),
        )

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Refuse more than two classes, groups, and sums by another mechanism."""
        super(LabelDP, self).accepts(rounds, cohort)
        for r in rounds:
            match r.statistic:
                case ClassHistogram() if self.needs_edges:
                    pass
                case RankSums(mechanism) if _is_kind_of(mechanism, self.mechanism):
                    RankSumTerms.of(r.statistic, self.loss)  # epsilon and delta fit it
                case _:
                    raise PlanError(
                        "label privacy counts two classes and no groups, or takes the "
                        "rank sums of its own mechanism"
                    )

    def rounds(self, question: Question, cohort: Cohort) -> tuple[Round, ...]:
        """Take rank sums, or count over edges that somebody else chose."""
        if not question.binary:
            raise PlanError(
                "label privacy counts two classes and no groups or weights, and no follow-up"
            )
        if self.needs_edges:
            return super(LabelDP, self).rounds(question, cohort)
        if question.edges is not None:
            raise PlanError(
                f"the label mechanism {self.mechanism} gives the AUC alone: it has no "
                "edges; use LabelDP(mechanism='curves')"
            )
        return (Round(RankSums(self.mechanism)),)

    def mechanism_for(self, resolved: ResolvedRound, cohort: Cohort) -> Mechanism:
        """Flips, noise on binned positives, or what ranks make of the budget."""
        if isinstance(resolved.statistic, RankSums):
            terms = RankSumTerms.of(
                resolved.statistic, resolved.loss, colluders=self.colluders_in(cohort)
            )
            return RankedNoise(terms)
        if not isinstance(resolved.statistic, ClassHistogram):
            raise PlanError(
                "label privacy counts two classes and no groups or weights, and no follow-up"
            )
        if not isinstance(resolved.loss, PureDP):
            raise PlanError("label mechanisms that count per bin keep pure DP")
        match self.mechanism:
            case "response":
                return RandomizedResponse(resolved.loss)
            case "binned":
                return BinnedPositives(resolved.loss, len(resolved.statistic.edges))
            case name:
                raise PlanError(
                    f"the label mechanism {name} counts nothing per bin: a plan holds "
                    "'response' or 'binned'"
                )

    def estimator(self, interpolation: Interpolation | None = None) -> Estimator:
        """The examples of a bin are known exactly."""
        from discreet.estimate.fit import PublicTotals  # noqa: PLC0415 - scipy

        return PublicTotals(interpolation)

    def plan_for(self, question: Question, sites: Sequence[Examples]) -> Plan:
        """Take the edges from the scores, which are public here."""
        if not question.binary:
            raise PlanError(
                "label privacy measures two classes and no groups or weights, and no time "
                "to event, in which a time says as much as a label"
            )
        if self.needs_edges:
            return plan_curves(
                PublicScores.of(sites),
                self,
                thresholds=question.thresholds,
                edges=question.edges,
                prevalence=question.facts.prevalence,
            )
        if question.thresholds is not None or question.edges is not None:
            raise PlanError(
                f"the label mechanism {self.mechanism} gives the AUC alone: it has no "
                "thresholds, edges or curve; use LabelDP(mechanism='curves')"
            )
        return super(LabelDP, self).plan_for(question, sites)

    def edges(self, facts: PublicFacts, inverse_scale: float | None) -> EdgeRule:
        """Refuse: these edges come from the public scores."""
        del facts, inverse_scale
        raise PlanError(
            "under label privacy the edges come from the public scores: use "
            "discreet.evaluate, or give edges"
        )


def _is_kind_of(mechanism: str, allowed: str) -> bool:
    """Whether rank sums are by the model's mechanism; responses have two protocols."""
    return mechanism == allowed or (
        allowed == "response" and mechanism == "response-labels"
    )


def plan_rank_sums(
    privacy: LabelDP,
    sites: Sequence[Examples],
    *,
    mechanism: str | None = None,
    share: Amount = Fraction(1, 2),
    aggregation: RankAggregation = "plain",
    colluders: int = 0,
) -> Plan:
    """Return a plan of rank sums by any mechanism, or of one sum over all sites.

    Args:
        privacy: the model; ``response`` stands for randomized response.
        sites: the sites' examples, of which their number and kind of scores is used.
        mechanism: the model's own by default; or ``response-labels``.
        share: alpha or beta of the mechanisms that split their budget by hand.
        aggregation: ``secagg`` for one noisy sum of all sites, in a simulation.
        colluders: under ``secagg``, sites that may tell the coordinator their noise.
    """
    sums = RankSums(mechanism or privacy.mechanism, share, aggregation)
    return Plan(
        privacy,
        (Round(sums),),
        metrics=frozenset({"auc"}),
        facts=PublicFacts(None, None, sites[0].scores),
        cohort=Cohort(min_survivors=len(sites), colluders=colluders),
    )


def plan_curves(
    public: PublicScores,
    privacy: LabelDP,
    *,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    prevalence: float | None = None,
    model: ModelRef | None = None,
) -> Plan:
    """Return the plan that every site of these scores can recompute.

    Args:
        public: the scores of all sites.
        privacy: with the mechanism ``response``, ``binned``, or ``curves``, which
            becomes the one of the two with the smaller predicted error.
        thresholds: decision thresholds to report; they become bin edges.
        edges: other edges than those taken from the scores.
        prevalence: public: roughly which share of the examples is positive.
        model: which classifier is measured.
    """
    if not privacy.needs_edges:
        raise PlanError(
            f"the label mechanism {privacy.mechanism} gives the AUC alone; use "
            "LabelDP(mechanism='curves')"
        )
    epsilon = float(exact(privacy.epsilon))
    chosen = predict_curve(public, epsilon, privacy.mechanism, prevalence=prevalence)
    return recommend(
        PublicFacts(public.examples, prevalence, public.range),
        replace(privacy, mechanism=chosen.mechanism),
        thresholds=thresholds,
        edges=edges or chosen.rule,
        cohort=Cohort(min_survivors=len(public.sites)),
        model=model,
    )
