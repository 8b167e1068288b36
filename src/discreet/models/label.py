"""Public scores, private labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from discreet.data.edges import EdgeRule
from discreet.errors import PlanError
from discreet.estimate.estimator import Estimator
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.mechanism import Mechanism
from discreet.noise.response import RandomizedResponse
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.privacy_model import LIARS, PrivacyModel, Route
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import (
    Amount,
    ApproxDP,
    Loss,
    PureDP,
    amount_from_text,
    decimal_text,
    exact,
)
from discreet.privacy.unit import LABEL, Unit
from discreet.statistic.histogram import ClassHistogram

CurveMechanism: TypeAlias = Literal["response", "binned", "curves"]
RankMechanism: TypeAlias = Literal[
    "choice",
    "endpoint",
    "slack",
    "staircase",
    "global-laplace",
    "local-laplace",
    "orthogonal",
    "adaptive",
]
LabelMechanism: TypeAlias = RankMechanism | CurveMechanism
CURVE_MECHANISMS: Final[tuple[CurveMechanism, ...]] = get_args(CurveMechanism)
"""Label mechanisms that release counts per bin: curves and calibration."""
RANK_MECHANISMS: Final[tuple[RankMechanism, ...]] = get_args(RankMechanism)
"""Label mechanisms that release sums of ranks: the AUC alone, more precisely."""


@dataclass(frozen=True, slots=True)
class LabelDP(PrivacyModel):
    """The scores are public, the labels are not: one flipped label is protected.

    For sites that hold labels while the coordinator knows the scores anyhow, as in
    vertical federated learning.

    Args:
        epsilon: the loss; a decimal is taken as written.
        delta: 0 for pure DP; above 0 for Gaussian noise on rank sums.
        mechanism: the default, ``choice``, and every other rank mechanism give the
            AUC alone. ``response`` flips each label once, for any number of models,
            and gives everything, curves and calibration included; ``binned`` adds
            noise to each site's positives per bin, anew in each evaluation;
            ``curves`` takes the one of these two with the smaller predicted error.
    """

    epsilon: Amount
    delta: Amount = 0
    mechanism: LabelMechanism = "choice"

    name: ClassVar[str] = "label"
    trust: ClassVar[Trust] = Trust.LABELS_ONLY

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta, name="delta"))
        known = (*RANK_MECHANISMS, *CURVE_MECHANISMS)
        if self.mechanism not in known:
            raise PlanError(f"a label mechanism is one of {', '.join(known)}")
        if self.delta and self.mechanism in CURVE_MECHANISMS:
            raise PlanError(
                f"the label mechanism {self.mechanism} keeps pure DP: omit delta"
            )
        _ = self.loss

    @property
    def route(self) -> Route:
        """Each answer on its own; rank sums after the public ranks."""
        return "relay" if self.mechanism in CURVE_MECHANISMS else "ranks"

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
        epsilon, delta = exact(self.epsilon), exact(self.delta, name="delta")
        return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)

    @property
    def reusable(self) -> bool:
        """Whether one charge serves any number of models on the same labels."""
        return self.mechanism == "response"

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        again = (
            "the charge covers every model measured on the same labels and key"
            if self.reusable
            else "a further model on the same labels is charged again"
        )
        return (
            "the scores and how many examples each site holds",
            "what a good score says about a label by itself",
            LIARS,
            again,
        )

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Refuse more than two classes, and groups."""
        super(LabelDP, self).accepts(rounds, cohort)
        if not all(isinstance(r.statistic, ClassHistogram) for r in rounds):
            raise PlanError("label privacy counts two classes and no groups")

    def rounds(self, asked: Question, cohort: Cohort) -> tuple[Round, ...]:
        """Refuse more than two classes, and groups, before anything is chosen."""
        if not asked.binary:
            raise PlanError("label privacy counts two classes and no groups")
        return super(LabelDP, self).rounds(asked, cohort)

    def noise(self, this: ResolvedRound, cohort: Cohort) -> Mechanism:
        """Flips that were drawn once and for all, or noise on binned positives."""
        del cohort
        if not isinstance(this.statistic, ClassHistogram):
            raise PlanError("label privacy counts two classes and no groups")
        if not isinstance(this.loss, PureDP):
            raise PlanError("label mechanisms that count per bin keep pure DP")
        match self.mechanism:
            case "response":
                return RandomizedResponse(this.loss)
            case "binned":
                return BinnedPositives(this.loss, len(this.statistic.edges))
            case name:
                raise PlanError(
                    f"the label mechanism {name} counts nothing per bin: a plan holds "
                    "'response' or 'binned'"
                )

    def estimator(self) -> Estimator:
        """The examples of a bin are known exactly."""
        from discreet.estimate.known_totals import KnownTotals  # noqa: PLC0415 - scipy

        return KnownTotals()

    def edges(self, facts: PublicFacts, signal: float | None) -> EdgeRule:
        """Refuse: these edges come from the public scores."""
        del facts, signal
        raise PlanError(
            "under label privacy the edges come from the public scores: use "
            "discreet.evaluate, or give edges"
        )

    def table(self) -> dict[str, Any]:
        """Return what a plan's file says beside the model's name."""
        return {
            **super(LabelDP, self).table(),
            "delta": decimal_text(exact(self.delta)),
            "mechanism": self.mechanism,
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Read what ``table`` wrote."""
        return cls(
            amount_from_text(table["epsilon"]),
            amount_from_text(table["delta"], name="delta"),
            table["mechanism"],
        )
