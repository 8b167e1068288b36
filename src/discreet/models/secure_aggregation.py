"""Exact sums, revealed only in total."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Estimator, Flat
from discreet.noise.mechanism import ExactSum, Mechanism
from discreet.plan.bins import bins_of_exact_sum, spread_over
from discreet.plan.cohort import Cohort
from discreet.plan.privacy_model import MALICIOUS, SumOnly
from discreet.plan.rounds import Question, ResolvedRound, Round
from discreet.privacy.loss import Loss, Unbounded
from discreet.privacy.unit import Unit


@dataclass(frozen=True, slots=True)
class SecureAggregation(SumOnly):
    """Exact sums, revealed only in total: the coordinator learns nothing else.

    There is no differential privacy: whoever reads the result learns the exact
    pooled counts, and a bin that a single example fills shows that example.
    """

    name: ClassVar[str] = "secure-aggregation"

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
            MALICIOUS,
        )

    def mechanism_for(self, resolved: ResolvedRound, cohort: Cohort) -> Mechanism:
        """No noise."""
        del resolved, cohort
        return ExactSum()

    def rounds(self, question: Question, cohort: Cohort) -> tuple[Round, ...]:
        """Leave some ten examples in a bin of every sum that is revealed."""
        chosen = question.edges is not None or question.followup is not None
        if not chosen and not question.pilot:
            sums = max(len(question.groups or ()), 1) * cohort.random_groups
            bins = bins_of_exact_sum(question.facts.examples, sums)
            question = replace(question, edges=spread_over(bins, question.facts))
        return super(SecureAggregation, self).rounds(question, cohort)

    def estimator(self, interpolation: Interpolation | None = None) -> Estimator:
        """Exact counts need no smoothing."""
        return Flat(interpolation)
