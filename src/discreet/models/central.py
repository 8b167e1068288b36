"""A trusted curator who holds the data and publishes a noisy histogram of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from discreet.codec.parsing import Amount, exact
from discreet.data.examples import Examples
from discreet.errors import PlanError
from discreet.models.distributed import noise_shares
from discreet.noise.mechanism import Mechanism
from discreet.plan.cohort import Cohort
from discreet.plan.plan import Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import Loss, loss_of
from discreet.privacy.unit import ROW, Unit


@dataclass(frozen=True, slots=True)
class CentralDP(PrivacyModel):
    """Differential privacy of what a trusted curator publishes: one row replaced.

    The number of rows is public. Single numbers with less noise than a histogram
    gives them are in ``discreet.curator``.

    Args:
        epsilon: the loss; a decimal is taken as written.
        delta: 0 for discrete Laplace noise (pure DP), above 0 for Gaussian-like.
    """

    epsilon: Amount
    delta: Amount = 0

    name: ClassVar[str] = "central"
    trust: ClassVar[Trust] = Trust.CURATOR
    carried_by: ClassVar[str] = "in-place"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta, name="delta"))
        _ = self.loss

    @property
    def protects(self) -> Unit:
        """One row, replaced."""
        return ROW

    @property
    def loss(self) -> Loss:
        """The loss of the whole plan."""
        return loss_of(self.epsilon, self.delta)

    def caveats(self, sites: int) -> tuple[str, ...]:
        """What this model does not protect."""
        del sites
        return (
            "the number of rows",
            "the same person in several rows",
            "how long the release took to compute",
        )

    @property
    def pilots(self) -> bool:
        """A pilot round whose noise is pure."""
        return not self.delta

    def accepts(self, rounds: Sequence[Round], cohort: Cohort) -> None:
        """Refuse several holders."""
        super(CentralDP, self).accepts(rounds, cohort)
        if cohort.min_survivors != 1 or cohort.colluders:
            raise PlanError(
                "a curator holds all the data: one holder and no colluders; for "
                "several sites use distributed noise"
            )

    def mechanism_for(self, resolved: ResolvedRound, cohort: Cohort) -> Mechanism:
        """The whole noise at one place."""
        del cohort
        return noise_shares(
            resolved.loss, resolved.statistic.sensitivity(self.protects), honest=1
        )

    def cohort(self, sites: int | None = None) -> Cohort:
        """The curator alone."""
        del sites
        return Cohort()

    def plan_for(self, question: Question, sites: Sequence[Examples]) -> Plan:
        """Refuse several holders: a curator has all the data in one place."""
        if len(sites) != 1:
            raise PlanError(
                f"a curator holds all the data: give one source, not {len(sites)}; for "
                "several sites use distributed noise"
            )
        return super(CentralDP, self).plan_for(question, sites)

    def inverse_scale(self, cohort: Cohort, *, cells: int = 1) -> float | None:
        """A replaced row leaves one cell and enters another."""
        alone = super(CentralDP, self).inverse_scale(cohort, cells=cells)
        return None if alone is None else alone / 2
