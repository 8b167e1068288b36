"""Differential privacy of the revealed sum: every site adds a share of the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, Self, TypeAlias

from discreet.codec.documents import written
from discreet.codec.parsing import Amount, exact
from discreet.errors import PlanError
from discreet.noise.mechanism import BlockMechanism, Mechanism
from discreet.noise.polya import PolyaShares
from discreet.noise.skellam import SkellamShares
from discreet.plan.cohort import Cohort
from discreet.plan.privacy_model import MALICIOUS, TWO_SITES, SumOnly
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.loss import ApproxDP, Loss, PureDP, fraction_of, loss_of
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.protocol import Block

_OF_COHORT: Final = written(supplied="cohort")
"""A plan's cohort holds these, so that the model cannot contradict it."""
UnitName: TypeAlias = Literal["example", "subject", "client"]


@dataclass(frozen=True, slots=True)
class DistributedDP(SumOnly):
    """Differential privacy of the revealed sum; every site adds a share of the noise.

    Args:
        epsilon: the loss; a decimal is taken as written.
        delta: 0 for discrete Laplace noise (pure DP), above 0 for Gaussian-like.
        unit: who is protected: one ``example``, one ``subject`` (all rows of one
            person at a site) or one ``client`` (all that one site holds).
        max_examples: the most examples that one subject or client may contribute;
            further ones are left out.
        min_survivors: how many sites must be in the sum; all of them by default.
        colluders: how many of these may know or tell their share of the noise beside
            the result. None means one, the site that reads the result: it knows its
            own share, and what is left must keep the promise. A single site has none.

    The noise is sized by min_survivors - colluders, never by a reported count.
    """

    epsilon: Amount
    delta: Amount = 0
    unit: UnitName = "example"
    max_examples: int | None = None
    min_survivors: int | None = field(default=None, metadata=_OF_COHORT)
    colluders: int | None = field(default=None, metadata=_OF_COHORT)

    name: ClassVar[str] = "distributed"

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
        return loss_of(self.epsilon, self.delta)

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        return (MALICIOUS, TWO_SITES)

    def assumptions(self, cohort: Cohort) -> tuple[str, ...]:
        """The shares that the noise is made of."""
        least, told = cohort.min_survivors, self.colluders_in(cohort)
        if not told:
            known = "none of them reads the result or tells a share of the noise"
        else:
            known = (
                f"at most {told} of them, such as the site that reads the result, "
                f"{'knows or tells its' if told == 1 else 'know or tell their'} share "
                "of the noise"
            )
        return (f"at least {least} sites are in the sum, and {known}",)

    def colluders_in(self, cohort: Cohort) -> int:
        """One unless told otherwise, the site that reads the result; a lone site has none."""
        for told in (cohort.colluders, self.colluders):
            if told is not None:
                return told
        return min(1, cohort.min_survivors - 1)

    def masked_from(self, cohort: Cohort) -> int:
        """One colluder less where each site's vector has the whole noise anyhow."""
        return min(self.colluders_in(cohort), max(cohort.min_survivors - 2, 0))

    @property
    def pilots(self) -> bool:
        """A pilot round whose noise is pure."""
        return not self.delta

    def mechanism_for(self, resolved: ResolvedRound, cohort: Cohort) -> Mechanism:
        """Shares for the survivors that are guaranteed and do not collude."""
        blocks = resolved.statistic.blocks(self.protects)
        honest = cohort.min_survivors - self.colluders_in(cohort)
        return block_shares(resolved.loss, blocks, honest)

    def cohort(self, sites: int | None = None) -> Cohort:
        """Ask all sites to survive unless told fewer."""
        least = self.min_survivors or sites or (self.colluders or 0) + 1
        return self.counted(Cohort(least, self.colluders))

    def agreed(self) -> Self:
        """Leave the cohort to the plan; a model that held it could contradict it."""
        return replace(self, min_survivors=None, colluders=None)


def block_shares(loss: Loss, blocks: Sequence[Block], honest: int) -> Mechanism:
    """Return shares of noise for each block, of its own share of the loss."""
    if len(blocks) == 1:
        return noise_shares(loss, blocks[0].sensitivity, honest)
    each = [
        noise_shares(fraction_of(loss, block.share), block.sensitivity, honest)
        for block in blocks
    ]
    return BlockMechanism(loss, tuple(block.size for block in blocks), tuple(each))


def noise_shares(
    loss: Loss, sensitivity: Sensitivity, honest: int
) -> PolyaShares | SkellamShares:
    """Return shares of integer noise that keep a loss when ``honest`` are added."""
    match loss:
        case PureDP():
            return PolyaShares(loss, sensitivity, honest)
        case ApproxDP():
            return SkellamShares(loss, sensitivity, honest)
        case _:
            raise PlanError("distributed noise keeps pure or approximate DP")
