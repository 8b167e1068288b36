"""The port of privacy models: all that differs between them, asked in one place.

A model is one file in ``discreet.models``: what it promises and to whom, which
rounds it accepts, which mechanism keeps the promise, how the answers travel, what
it chooses when nobody else does, and its table in a plan's file. Nothing else in
the package asks which model it is.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from discreet.codec.documents import tagged
from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.errors import PlanError
from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Estimator, Flat
from discreet.noise.mechanism import Mechanism
from discreet.plan.bins import bins_for, spread_over
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.heterogeneity import shared
from discreet.plan.protocol import PROTOCOLS, SessionProtocol
from discreet.plan.rounds import Question, ResolvedRound, Round, two_rounds
from discreet.privacy.claim import Trust
from discreet.privacy.loss import ApproxDP, Loss, PureDP
from discreet.privacy.unit import Unit
from discreet.registry import Registry
from discreet.statistic.protocol import Statistic
from discreet.vocabulary import check_fields

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

MALICIOUS: Final = "malicious sites, which may send false data"
TWO_SITES: Final = "the same person at two sites, who has twice the epsilon"


class _Explained(ABCMeta):
    """Explains a wrong or a missing keyword before a dataclass raises."""

    def __call__(cls, *args: Any, **given: Any) -> Any:
        if hasattr(cls, "__dataclass_fields__"):
            check_fields(cls, args, given)
        return super().__call__(*args, **given)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's own arguments, as ``help`` shows them."""
        own = inspect.signature(cls.__init__)  # type: ignore[misc]  # of the class
        return own.replace(parameters=tuple(own.parameters.values())[1:])


class PrivacyModel(metaclass=_Explained):
    """Who is protected, from whom, at which loss, and how that is kept."""

    name: ClassVar[str]
    """What a plan's file and a policy call it."""
    trust: ClassVar[Trust]

    carried_by: ClassVar[str]
    """The session protocol by which answers travel, by its name in ``PROTOCOLS``."""

    def protocol(self, statistic: Statistic) -> SessionProtocol:
        """Return how answers of a statistic travel."""
        del statistic
        return PROTOCOLS[self.carried_by]()

    # -- the promise -------------------------------------------------------

    @property
    @abstractmethod
    def protects(self) -> Unit | None:
        """The unit of privacy; None when nothing but the sum's cover protects."""

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The loss of the whole plan."""

    @property
    def reusable(self) -> bool:
        """Whether one charge serves any number of answers on the same data."""
        return False

    @property
    def pilots(self) -> bool:
        """Whether a first round may find out where the scores lie."""
        return False

    @property
    def keeps_keys(self) -> bool:
        """Whether a site keeps a key from one session to the next."""
        return False

    @property
    def needs_edges(self) -> bool:
        """Whether edges do not follow from public facts, but must be given."""
        return False

    @property
    def predictable(self) -> bool:
        """Whether the errors of a plan can be predicted from public facts."""
        return True

    @property
    def computational(self) -> bool:
        """Whether the claim rests on cryptography."""
        return False

    @property
    def budget(self) -> Fraction | None:
        """Epsilon, None when sums are exact."""
        match self.loss:
            case PureDP(epsilon) | ApproxDP(epsilon, _):
                return epsilon
            case _:
                return None

    @abstractmethod
    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect, for this many sites."""

    def assumptions(self, cohort: Cohort) -> tuple[str, ...]:
        """What the promise rests on beside the trust."""
        del cohort
        return ()

    # -- what keeps it -----------------------------------------------------

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Raise ``PlanError`` for rounds that this model cannot keep private."""
        sites = cohort.min_survivors
        if self.protects is None:  # colluding sites take their own numbers off a sum
            sites -= self.colluders_in(cohort)
        for r in rounds:
            r.statistic.admits(self.protects, sites)
            if self.protects is not None:
                r.statistic.blocks(self.protects)  # norms that no noise is sized for
            if r.statistic.only_for not in (None, self.name):
                raise PlanError(
                    f"{r.statistic.name} are no sums of counts: they belong to the "
                    f"privacy model {r.statistic.only_for}"
                )
        if len(rounds) > 1 and not self.pilots:
            # An exact first sum would be as fine as the data itself.
            raise PlanError("two rounds need pure distributed differential privacy")

    @abstractmethod
    def mechanism_for(self, resolved: ResolvedRound, cohort: Cohort) -> Mechanism:
        """Return the mechanism of one round, the same at every site and reader."""

    def estimator(self, interpolation: Interpolation | None = None) -> Estimator:
        """Return what reads this model's releases: a smooth model of both classes.

        Somebody who names an interpolation gets curves through the counts instead.
        """
        from discreet.estimate.smooth_fit import Smooth  # noqa: PLC0415 - loads scipy

        return Smooth() if interpolation is None else Flat(interpolation)

    # -- what it chooses by default ----------------------------------------

    def cohort(self, sites: int | None = None) -> Cohort:
        """Ask all sites to survive; one when their number is not known."""
        return Cohort(min_survivors=sites or 1)

    def colluders_in(self, cohort: Cohort) -> int:
        """Return how many colluding sites a plan counts on: none unless it is told."""
        return cohort.colluders or 0

    def counted(self, cohort: Cohort) -> Cohort:
        """Return the cohort with the number of colluders filled in."""
        return replace(cohort, colluders=self.colluders_in(cohort))

    def masked_from(self, cohort: Cohort) -> int:
        """Return how many colluding sites the masks of a secure sum must withstand."""
        return self.colluders_in(cohort)

    def agreed(self) -> Self:
        """Return the model as a plan holds it: the cohort is the plan's own."""
        return self

    def inverse_scale(self, cohort: Cohort, *, cells: int = 1) -> float | None:
        """Return the inverse of the noise's scale in a count, None without noise.

        ``cells`` is how many counts one example enters: K for K classes.
        """
        del cohort
        if self.budget is None:
            return None
        reach = cells * (1 if self.protects is None else self.protects.examples)
        return float(self.budget) / reach

    def edges(self, facts: PublicFacts, inverse_scale: float | None) -> EdgeRule:
        """Return the bins for this kind of scores and noise."""
        return spread_over(bins_for(facts, inverse_scale), facts)

    def rounds(self, question: Question, cohort: Cohort) -> tuple[Round, ...]:
        """Return the rounds that answer a question; one, unless a pilot round helps."""
        inverse_scale = self.inverse_scale(cohort, cells=question.cells)
        if self.pilots and inverse_scale is not None:
            piloted = two_rounds(question, inverse_scale)
            if piloted is not None:
                return piloted
        if question.pilot:
            raise PlanError(
                "a pilot round needs pure distributed differential privacy, or a "
                "curator's: an exact one would be as fine as the data itself"
            )
        if inverse_scale is not None and question.heterogeneity is not None:
            heterogeneity = shared(question.heterogeneity, self, question.facts, cohort)
            question = replace(question, heterogeneity=heterogeneity)
            inverse_scale *= 1 - float(heterogeneity.share or 0)
        if question.followup is not None:
            table = question.followup.statistic(
                question.facts,
                rule=question.edges,
                thresholds=question.cuts,
                groups=question.groups,
                inverse_scale=inverse_scale,
            )
            return (Round(table),)
        rule = question.edges or self.edges(question.facts, inverse_scale)
        return (Round(question.statistic(rule, self.protects)),)

    def plan_for(self, question: Question, sites: Sequence[Examples]) -> Plan:
        """Return the plan that answers a question over these sites.

        Of the sites it uses their number, and what the model itself calls public.
        """
        from discreet.plan.plan import planned  # noqa: PLC0415 - it knows plans

        return planned(question, self, cohort=self.cohort(len(sites)))


class SumOnly(PrivacyModel):
    """A model whose answers are masked, so that only their sum is revealed."""

    trust: ClassVar[Trust] = Trust.SUM_ONLY
    carried_by: ClassVar[str] = "secure-sum"

    @property
    def computational(self) -> bool:
        """Secure aggregation rests on cryptography."""
        return True


MODELS: Final[Registry[type[PrivacyModel]]] = Registry(
    "privacy model",
    {
        "secure-aggregation": "discreet.models.secure_aggregation:SecureAggregation",
        "distributed": "discreet.models.distributed:DistributedDP",
        "local": "discreet.models.local:LocalDP",
        "label": "discreet.models.label:LabelDP",
        "central": "discreet.models.central:CentralDP",
        "exact": "discreet.mpc.model:ExactMPC",
    },
)
"""Every model that a plan can hold, those of other packages too."""
tagged(PrivacyModel, "model", MODELS)
