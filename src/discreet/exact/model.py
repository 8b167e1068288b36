"""ExactMPC: the privacy model of areas that compute parties find from shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from discreet.errors import PlanError
from discreet.privacy.claim import Trust
from discreet.privacy.loss import Amount, Loss, PureDP, Unbounded, exact
from discreet.privacy.unit import Unit

Ties: TypeAlias = Literal["exact", "none"]
ROW: Final = Unit("row", "replace")


@dataclass(frozen=True, slots=True)
class ExactMPC:
    """Exact areas of the pooled data; nothing but their values is opened.

    Owners share their scores and labels among three compute parties, who follow
    the protocol and of whom no two collude. Order and curve stay secret. There is
    no differential privacy on an exact value: it can betray an example to somebody
    who knows the others, and its digits betray the class counts, though these are
    not opened.

    Args:
        ties: ``exact`` counts tied pairs one half and gives tied scores one
            threshold, as scikit-learn does; ``none`` is the paper's cheaper
            version, which takes equal scores in the order in which they come and
            is exact only when no two scores are equal.
        hide_sizes: pad every owner's rows to one power of two, so that the
            parties do not learn how many examples an owner holds.
        epsilon: with a number, only an AUC with noise of this loss is opened;
            each compute party adds a share of it inside.
    """

    ties: Ties = "exact"
    hide_sizes: bool = False
    epsilon: Amount | None = None

    name: ClassVar[str] = "exact-mpc"
    trust: ClassVar[Trust] = Trust.COMPUTE_PARTIES
    computational: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.ties not in get_args(Ties):
            raise PlanError("ties are 'exact' or 'none'")
        if self.epsilon is None:
            return
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        _ = self.loss  # validates
        if self.hide_sizes:
            raise PlanError(
                "noise is sized by the public number of examples: leave out "
                "hide_sizes, or open exact values"
            )

    @property
    def protects(self) -> Unit | None:
        """One replaced row under noise; no unit is protected by an exact value."""
        return None if self.epsilon is None else ROW

    @property
    def loss(self) -> Loss:
        """An exact value has no bound; it is recorded as such."""
        return Unbounded() if self.epsilon is None else PureDP(exact(self.epsilon))

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect, for this many owners."""
        always = (
            "a compute party that deviates from the protocol, or two that collude",
            "lying owners",
        )
        if self.epsilon is not None:
            return (*always, "the same person in several rows")
        few = ("with two owners, each can look for data of the other that fit",)
        value = (
            "the exact values themselves: who knows all examples but one can often "
            "tell that one from them"
        )
        counts = (
            "the class counts, which follow from all digits of an exact AUC and the "
            "number of examples"
        )
        return (
            value,
            counts,
            "two exact values of data that differ by a few examples give these away",
            *(few if sites == 2 else ()),
            *always,
        )
