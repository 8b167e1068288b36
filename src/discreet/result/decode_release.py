"""From releases to what is observed: checked against the plan, decoded, with a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.deconvolve import decode
from discreet.estimate.estimate import Unusable
from discreet.estimate.public_totals import PublicTotals
from discreet.estimate.reading import Estimator, Flat
from discreet.estimate.smooth_reading import Smooth
from discreet.models.privacy_models import LabelDP, LocalDP, SecureAggregation
from discreet.noise.arc import CircularArc
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.choose import decoder_for
from discreet.noise.level_reports import LevelReports
from discreet.noise.reports import UnaryReports
from discreet.plan.plan import Plan
from discreet.plan.release import Release, one_release
from discreet.statistic import BinCounts, Statistic
from discreet.statistic.observed import NoiseLaw, NoisyHistogram
from discreet.statistic.summed import SummedNegatives


def default_estimator(plan: Plan) -> Estimator:
    """Return the estimator for a plan's noise: a smooth model where counts have it.

    Decoded arcs are smooth already, and exact counts need no smoothing. Under label
    privacy the examples of a bin are known exactly.
    """
    match plan.privacy:
        case SecureAggregation() | LocalDP(mechanism="arc"):
            return Flat()
        case LabelDP():
            return PublicTotals()
        case _:
            return Smooth()


@dataclass(frozen=True, eq=False)
class Opened:
    """The decoded sum of the last round and what is known about its noise."""

    statistic: Statistic
    counts: FloatVector
    law: NoiseLaw
    refusal: str | None = None
    notes: tuple[str, ...] = ()

    def histogram(
        self, edges: Edges, counts: BinCounts, *, cells: int = 1
    ) -> NoisyHistogram:
        """Put edges, one histogram of the sum, and its law together.

        ``cells`` says how many released cells each negative count adds up.
        """
        law = self.law
        if cells > 1 and law.scale:
            law = SummedNegatives(law, cells)
        return NoisyHistogram(
            edges, counts.negatives, counts.positives, law, self.refusal, self.notes
        )


def open_release(plan: Plan, releases: Sequence[Release]) -> Opened:
    """Check the releases against the plan and decode the last one."""
    last = one_release(releases, plan.digest(), len(plan.rounds))
    this = plan.resolve(len(plan.rounds) - 1, releases[:-1])
    least = plan.cohort.min_survivors
    if last.contributors < least:
        raise ReleaseError(
            f"{last.contributors} sites contributed, and the plan asks for at least "
            f"{least}; this sum must not be opened"
        )
    mechanism = decoder_for(plan, this)
    size = this.statistic.size
    if isinstance(mechanism, UnaryReports | LevelReports | BinnedPositives):
        size = mechanism.size  # these also say how many spoke
    if last.total.size != size:
        raise PlanError(
            f"the plan's statistic has {size} counts, the release {last.total.size}"
        )
    match mechanism:
        case CircularArc():
            return _opened_arcs(this.statistic, last.total, mechanism)
        case UnaryReports() | LevelReports() | BinnedPositives():
            counts, law = mechanism.opened(last.total)
            return Opened(this.statistic, counts, law)
        case _:
            counts = mechanism.decode(last.total, last.contributors)
            return Opened(this.statistic, counts, mechanism.law(last.contributors))


def _opened_arcs(statistic: Statistic, total: IntVector, arc: CircularArc) -> Opened:
    decoded = decode(total, arc)
    status = decoded.status
    return Opened(
        statistic,
        np.concatenate(decoded.counts),
        decoded.law,
        status.reason if isinstance(status, Unusable) else None,
        () if decoded.warning is None else (decoded.warning,),
    )
