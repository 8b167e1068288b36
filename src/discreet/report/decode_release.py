"""From releases to what is observed: checked against the plan, decoded, with a law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from discreet.arrays import FloatVector
from discreet.errors import PlanError, ReleaseError
from discreet.noise.mechanism import Opened
from discreet.plan.plan import Plan
from discreet.plan.release import Release, one_release
from discreet.report.plausible import against_sizes, without_negatives
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic


@dataclass(frozen=True, eq=False)
class RevealedRound:
    """The decoded sum of the last round, and the histograms in it."""

    plan: Plan
    statistic: Statistic
    opened: Opened
    contributors: int

    @property
    def counts(self) -> FloatVector:
        """The decoded sum."""
        return self.opened.counts

    @property
    def noise(self) -> NoiseDistribution:
        """What is known about its noise."""
        return self.opened.noise

    def parts(self) -> Mapping[str, NoisyHistogram]:
        """Return the sum's histograms by name; the only one is named ''."""
        found = self.statistic.parts(self.counts, self.noise)
        return {
            name: against_sizes(
                self.plan, self._told(part), self.contributors, whole=len(found) == 1
            )
            for name, part in found.items()
        }

    def pairs(self) -> Mapping[tuple[str, str], NoisyHistogram]:
        """Return the histograms of one class against another, if there are any."""
        found = self.statistic.pairs(self.counts, self.noise)
        return {pair: self._told(part) for pair, part in found.items()}

    def _told(self, part: NoisyHistogram) -> NoisyHistogram:
        notes = (*part.notes, *self.opened.notes)
        return replace(part, refusal=self.opened.refusal, notes=notes)


def open_release(plan: Plan, releases: Sequence[Release]) -> RevealedRound:
    """Check that the releases belong to the plan and decode the last one."""
    last = one_release(releases, plan.digest(), len(plan.rounds))
    this = plan.resolve(len(plan.rounds) - 1, releases[:-1])
    least = plan.cohort.min_survivors
    if last.contributors < least:
        raise ReleaseError(
            f"{last.contributors} sites contributed, and the plan asks for at least "
            f"{least}; this sum must not be opened"
        )
    mechanism = plan.privacy.mechanism_for(this, plan.cohort)
    size = mechanism.sent(this.statistic.size)
    if last.total.size != size:
        raise PlanError(
            f"the plan's statistic has {size} counts, the release {last.total.size}"
        )
    opened = without_negatives(mechanism.open(last.total, last.contributors))
    return RevealedRound(plan, this.statistic, opened, last.contributors)
