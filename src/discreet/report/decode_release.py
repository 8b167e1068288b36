"""From releases to what is observed: checked against the plan, decoded, with a law.

Whether an opened sum can be one of counts, as far as the sum alone shows it.

A site can send any vector, and a secure sum hides whose it was. From what is impossible
for every honest cohort no metric is read; what is only unlikely, or impossible but for the noise,
is told to the reader. A lie within these limits is not seen here: its effect is
bounded (``metrics.influence``), and random groups show it (``result.random_groups``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.slopes import covariance_of
from discreet.metrics.influence import NOISE_SDS
from discreet.noise.mechanism import NoisyCounts
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release, one_release
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Statistic


@dataclass(frozen=True, eq=False)
class RevealedRound:
    """The decoded sum of the last round, and the histograms in it."""

    plan: Plan
    statistic: Statistic
    opened: NoisyCounts
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


FAR: Final = 10.0
"""A total so many times larger or smaller than was declared is told to the reader."""


def without_negatives(opened: NoisyCounts) -> NoisyCounts:
    """Read nothing from an exact sum with a negative count: no site counts below none.

    The sum was paid for and opened. So it gives a result like any other, in which
    every metric is unusable for this reason.
    """
    if opened.noise.scale > 0 or not (opened.counts < 0).any():
        return opened
    reason = (
        "the exact sum holds negative counts, which no data give: a site sent what is "
        "no count; ask again in random groups to find where, or leave out the sites "
        "that are in doubt"
    )
    return replace(opened, counts=np.maximum(opened.counts, 0), refusal=reason)


def against_sizes(
    plan: Plan, part: NoisyHistogram, contributors: int, *, whole: bool
) -> NoisyHistogram:
    """Add what a part's total says about the plan's declared sizes.

    ``whole``: it is the only part. An exact total above what the sites may hold is
    unusable, a noisy one gets a note.
    """
    each, declared = plan.cohort.max_examples_per_site, plan.facts.examples
    if each is None and declared is None:
        return part
    total = part.total_negatives + part.total_positives
    slack = NOISE_SDS * _noise_sd(part)
    refusal, notes = part.refusal, []
    if each is not None and total > each * contributors + slack:
        above = (
            f"than {contributors} sites of at most {each:,} examples may hold: at "
            "least one site sent what it does not have"
        )
        if part.exact:
            refusal = refusal or f"the exact sum holds more examples {above}"
        else:
            notes.append(
                f"this release holds more examples {above}, or the noise is beyond "
                f"{NOISE_SDS:g} standard deviations"
            )
    if declared is not None:
        if total > FAR * declared + slack:
            notes.append(_far("above", declared))
        # One of several groups may be small without anybody's lie.
        elif whole and total < declared / FAR - slack:
            notes.append(_far("below", declared))
    return replace(part, refusal=refusal, notes=(*part.notes, *notes))


def _far(side: str, declared: int) -> str:
    return (
        f"the total is more than {FAR:g} times {side} the {declared:,} examples that "
        "the plan declares: the declaration is wrong, or a site's counts are"
    )


def _noise_sd(part: NoisyHistogram) -> float:
    """Return the standard deviation of the noise in the number of examples."""
    if part.exact:
        return 0.0
    variance = covariance_of(part, np.ones((1, 2 * len(part.edges))))[0, 0]
    return math.sqrt(max(float(variance), 0.0))
