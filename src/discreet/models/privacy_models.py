"""The privacy models that a plan can choose."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from discreet.errors import PlanError
from discreet.privacy.claim import Trust
from discreet.privacy.loss import Amount, ApproxDP, Loss, PureDP, Unbounded, exact
from discreet.privacy.unit import EXAMPLE, LABEL, Unit
from discreet.statistic.rank_sums import RANK_MECHANISMS, RankMechanism

UnitName: TypeAlias = Literal["example", "subject", "client"]
LocalMechanism: TypeAlias = Literal["arc", "unary", "levels", "laplace"]
CurveMechanism: TypeAlias = Literal["response", "binned", "curves"]
LabelMechanism: TypeAlias = RankMechanism | CurveMechanism
CURVE_MECHANISMS: Final[tuple[CurveMechanism, ...]] = get_args(CurveMechanism)
"""Label mechanisms that release counts per bin: curves and calibration."""

_TWO_SITES = "the same person at two sites counts as two"
_LIES = "lying sites"


@dataclass(frozen=True, slots=True)
class SecureAggregation:
    """Exact sums, opened only in total: the coordinator learns nothing else.

    There is no differential privacy: whoever reads the result learns the exact
    pooled counts, and a bin that a single example fills shows that example.
    """

    name: ClassVar[str] = "secure-aggregation"
    trust: ClassVar[Trust] = Trust.SUM_ONLY
    computational: ClassVar[bool] = True

    @property
    def protects(self) -> Unit | None:
        """No unit is protected by an exact sum."""
        return None

    @property
    def loss(self) -> Loss:
        """An exact sum has no bound; it is recorded as such."""
        return Unbounded()

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect, for this many sites."""
        alone = (
            "a single site's sum is that site's own counts",
            "with two sites, each can subtract its own counts and read the other's",
        )
        few = alone[sites - 1 : sites] if sites in (1, 2) else ()
        return (
            *few,
            "an example alone in its bin is visible in the exact sum",
            "two exact sums that differ by a few examples or sites give these away",
            _LIES,
        )


@dataclass(frozen=True, slots=True)
class DistributedDP:
    """Differential privacy of the opened sum; every site adds a share of the noise.

    Args:
        epsilon: the loss; a decimal is taken as written.
        delta: 0 for discrete Laplace noise (pure DP), above 0 for Gaussian-like.
        unit: who is protected: one ``example``, one ``subject`` (all rows of one
            person at a site) or one ``client`` (all that one site holds).
        max_examples: the most examples that one subject or client may contribute;
            further ones are left out.
        min_survivors: how many sites must be in the sum; all of them by default.
        colluders: how many of these may tell the coordinator their share.

    The noise is sized by min_survivors - colluders, never by a reported count.
    """

    epsilon: Amount
    delta: Amount = 0
    unit: UnitName = "example"
    max_examples: int | None = None
    min_survivors: int | None = None
    colluders: int = 0

    name: ClassVar[str] = "distributed"
    trust: ClassVar[Trust] = Trust.SUM_ONLY
    computational: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta, name="delta"))
        _ = self.protects, self.loss  # both validate

    @property
    def protects(self) -> Unit:
        """The unit, added or removed."""
        return Unit(self.unit, "add_remove", self.max_examples)

    @property
    def loss(self) -> Loss:
        """The loss of the whole plan."""
        epsilon, delta = exact(self.epsilon), exact(self.delta, name="delta")
        return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        return (_LIES, _TWO_SITES)


@dataclass(frozen=True, slots=True)
class LocalDP:
    """Every message is private on its own: nobody has to be trusted.

    Args:
        epsilon: the loss; a decimal is taken as written.
        mechanism: ``arc`` (the default: each example is sent as one random symbol
            near its bin), ``unary`` (each example as a vector of random bits) and
            ``levels`` (the papers' way: bits of one random level of a tree)
            protect a replaced example, for clients with one example each;
            ``laplace`` adds noise to a site's own histogram and protects an added or
            removed example, for sites with many.
    """

    epsilon: Amount
    mechanism: LocalMechanism = "arc"

    name: ClassVar[str] = "local"
    trust: ClassVar[Trust] = Trust.NOBODY
    computational: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        if self.mechanism not in ("arc", "unary", "levels", "laplace"):
            raise PlanError("a local mechanism is arc, unary, levels or laplace")
        _ = self.loss

    @property
    def protects(self) -> Unit:
        """One example: replaced, or added or removed at a site that adds noise."""
        if self.mechanism == "laplace":
            return EXAMPLE
        return Unit("example", "replace")

    @property
    def loss(self) -> Loss:
        """The loss of each message."""
        return PureDP(exact(self.epsilon))

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        if self.mechanism == "laplace":
            return (_LIES, _TWO_SITES)
        return (_LIES, _TWO_SITES, "how many examples a site holds")


@dataclass(frozen=True, slots=True)
class LabelDP:
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
    def protects(self) -> Unit:
        """One label, flipped."""
        return LABEL

    @property
    def loss(self) -> Loss:
        """The loss of each site's messages, and of all of them together."""
        epsilon, delta = exact(self.epsilon), exact(self.delta, name="delta")
        return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)

    @property
    def computational(self) -> bool:
        """Whether it rests on cryptography: flips come from a keyed function."""
        return self.mechanism == "response"

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        kept = (
            "a further model is charged again unless the examples have ids",
            "where they have, that a label was changed since an earlier evaluation",
        )
        again = ("a further model on the same labels is charged again",)
        return (
            "the scores and how many examples each site holds",
            "what a good score says about a label by itself",
            _LIES,
            *(kept if self.mechanism == "response" else again),
        )


HistogramPrivacy: TypeAlias = SecureAggregation | DistributedDP | LocalDP
"""Models under which sites count scores and labels that nobody else knows."""
PrivacyModel: TypeAlias = HistogramPrivacy | LabelDP
"""Every model that a plan can hold."""


def epsilon_of(privacy: PrivacyModel) -> Fraction | None:
    """Return the epsilon of a model, None when its sums are exact."""
    match privacy:
        case SecureAggregation():
            return None
        case _:
            return exact(privacy.epsilon)
