"""The privacy models that a plan can choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from discreet.privacy.claim import Trust
from discreet.privacy.loss import Loss, Unbounded
from discreet.privacy.unit import Unit


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
    def unit(self) -> Unit | None:
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
            "lying sites",
        )


PrivacyModel: TypeAlias = SecureAggregation
"""Every model that a plan can hold."""
