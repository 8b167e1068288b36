"""The result of a plan, from the plan and its releases alone.

A simulation and a deployment that release the same sums give the same result. The
statistic's parts decide which it is: one evaluation, several, or two models compared.

A site can send any vector, and a secure sum hides whose it was. From what no honest cohort
can send no metric is estimated; what is only unlikely is told to the reader. False data
within these limits are not seen here: their effect is bounded (``Evaluation.influence``),
and random groups show it (``heterogeneity.random_groups``).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import DisclosureWarning, PlanError, ReleaseError
from discreet.estimate.fit import Estimator, ScalarFit
from discreet.estimate.slopes import covariance_of
from discreet.label.rank_terms import REMEDY, RankFit, RankSumTerms, read
from discreet.metrics.errors import measure
from discreet.metrics.influence import NOISE_SDS
from discreet.metrics.table import METRICS
from discreet.noise.mechanism import NoisyCounts
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release, one_release
from discreet.privacy.claim import Claim
from discreet.report.comparison import JointCounts, ModelComparison
from discreet.report.evaluation import Evaluation, Source
from discreet.report.fairness import weighted_mean
from discreet.report.group_comparison import GroupedComparison
from discreet.report.heterogeneity import RandomGroups, heterogeneity_of
from discreet.report.record import READERS
from discreet.report.several import MultiEvaluation, Pair, PairArea
from discreet.statistic.histogram import PairedInGroups
from discreet.statistic.observed import (
    NoiseDistribution,
    NoisyHistogram,
    cell_variance,
)
from discreet.statistic.protocol import Statistic
from discreet.statistic.rank_sums import RankSums
from discreet.statistic.timed import TimedCounts

if TYPE_CHECKING:
    from discreet.report.timed import Several, TimedEvaluation, TimedEvaluations

FINE: Final = 5
"""Examples in a pair of bin and interval below which an exact table is too fine."""
FAR: Final = 10.0
"""A total so many times larger or smaller than was declared is told to the reader."""
POOLED: Final = "pooled"
"""What the part of all examples is called beside groups or sites."""
Result: TypeAlias = (
    "Evaluation | MultiEvaluation | ModelComparison | GroupedComparison | "
    "TimedEvaluation | TimedEvaluations"
)
"""What a plan can give."""


def result_of(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
    site_names: Sequence[str] = (),
) -> Result:
    """Build the result of a plan from its releases.

    ``estimator`` fits every part; by default the one that suits the plan's noise, or
    a published method where the plan releases the tree that it needs. ``site_names``
    are the sites' where the plan has no roster.
    """
    if isinstance(plan.statistic, RankSums):
        return _rank_sums(plan, releases, claim)
    if plan.roster is not None:
        names = tuple(member.name for member in plan.roster.sites)
    else:
        names = tuple(site_names) if all(site_names) else ()
    in_groups = plan.cohort.random_groups > 1 and bool(releases[0].members)
    together = [pooled(releases)] if in_groups else releases
    revealed = open_release(plan, together)
    if revealed.statistic.time_cuts is not None:
        return _followed(revealed, releases, claim, names)
    if isinstance(revealed.statistic, PairedInGroups):
        pairs_of = partial(_evaluations, claim, estimator, names, together)
        return _in_groups(revealed, revealed.statistic, claim, pairs_of)

    parts_of = partial(_evaluations, claim, estimator, names)
    parts = parts_of(together, revealed)
    if in_groups:
        parts = grouped(
            releases, parts, lambda one: parts_of([one], open_release(plan, [one]))
        )
    if revealed.statistic.compares:
        return _compared(revealed, claim, parts)
    if set(parts) == {""}:
        return parts[""]
    pairs = _pairs(revealed.pairs(), estimator or plan.privacy.estimator())
    whole = parts.pop("", None)
    return MultiEvaluation(parts, claim, pairs, whole)


def _compared(
    revealed: RevealedRound, claim: Claim, parts: Mapping[str, Evaluation]
) -> ModelComparison:
    joint = JointCounts(revealed.counts, revealed.noise)
    first, second = parts.values()
    known = joint if revealed.statistic.joint else None
    return ModelComparison(first, second, claim, known)


def _in_groups(
    revealed: RevealedRound,
    statistic: PairedInGroups,
    claim: Claim,
    evaluations: Callable[[RevealedRound], Mapping[str, Evaluation]],
) -> GroupedComparison:
    """Compare two models in each group, and in all of them together."""
    compared = {}
    blocks = statistic.by_group(revealed.counts, revealed.noise)
    for group, (counts, noise) in blocks.items():
        decoded = replace(revealed.decoded, counts=counts, noise=noise)
        own = replace(revealed, statistic=statistic.inner, decoded=decoded)
        parts = {
            name: replace(part, source=replace(part.source, part=f"{group} {name}"))
            for name, part in evaluations(own).items()
        }
        compared[group] = _compared(own, claim, parts)
    whole = compared.pop("")
    return GroupedComparison(compared, whole, claim)


def _evaluations(
    claim: Claim,
    estimator: Estimator | None,
    site_names: tuple[str, ...],
    releases: Sequence[Release],
    revealed: RevealedRound,
) -> dict[str, Evaluation]:
    """Evaluate every part of one sum."""
    plan, last = revealed.plan, releases[-1]
    observations = revealed.parts()
    if claim.setting != "own data":
        _warn_if_fine(plan, observations.values())
    differ = heterogeneity_of(revealed)
    parts = {}
    for name, observed in observations.items():
        # A tree is fitted by the method that its plan was made for.
        tree = observed.tree is not None
        own = READERS["fedcurve"] if tree else plan.privacy.estimator
        fit = (estimator or own()).fit(observed)
        sites = last.contributors, last.expected
        part = name or (POOLED if len(observations) > 1 else "")
        source = Source(*sites, tuple(releases), part, site_names, estimator)
        parts[name] = Evaluation(fit, claim, source, plan, differ)
    return parts


def _followed(
    revealed: RevealedRound,
    releases: Sequence[Release],
    claim: Claim,
    site_names: tuple[str, ...],
) -> TimedEvaluation | TimedEvaluations:
    """Evaluate tables of follow-up."""
    from discreet.report.timed import timed_result  # noqa: PLC0415 - it loads much

    plan, last, statistic = revealed.plan, releases[-1], revealed.statistic
    tables = revealed.tables()
    if claim.setting != "own data":
        _warn_if_fine_in_time(plan, tables.values())
    sites = last.contributors, last.expected
    source = Source(*sites, tuple(releases), site_names=site_names)
    kind: Several = "groups" if statistic.told_apart else "horizons"
    if statistic.compares:
        kind = "models"
    return timed_result(tables, claim, source, plan.horizons, plan=plan, kind=kind)


def named(result: Result, names: tuple[str, str]) -> Any:
    """Return a comparison of two models that are called by these names."""
    if isinstance(result, ModelComparison):
        return replace(result, names=names)
    if isinstance(result, GroupedComparison):
        return result.named(names)
    from discreet.report.timed import TimedEvaluations  # noqa: PLC0415 - it loads much

    if not isinstance(result, TimedEvaluations) or result.kind != "models":
        raise PlanError("this plan does not compare two models")
    return replace(result, parts=dict(zip(names, result.values(), strict=True)))


def evaluation(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
) -> Evaluation:
    """Build the result of a plan that has one part."""
    result = result_of(plan, releases, claim, estimator=estimator)
    if not isinstance(result, Evaluation):
        raise PlanError(
            f"a {plan.statistic.name} plan has several evaluations; see result_of"
        )
    return result


def _rank_sums(plan: Plan, releases: Sequence[Release], claim: Claim) -> Evaluation:
    """Evaluate what a plan of rank sums revealed."""
    last = one_release(releases, plan.digest(), len(plan.rounds))
    resolved = plan.resolve(len(plan.rounds) - 1, releases[:-1])
    colluders = plan.privacy.colluders_in(plan.cohort)
    terms = RankSumTerms.of(resolved.statistic, resolved.loss, colluders=colluders)
    fit = read(terms, last.total)
    source = Source(last.contributors, last.expected, tuple(releases))
    return rank_result(fit, claim, source, plan)


def rank_result(
    fit: RankFit, claim: Claim, source: Source, plan: Plan | None = None
) -> Evaluation:
    """Return the evaluation of rank sums: an AUC with its errors, and no curve."""
    facts = {"examples": fit.examples}
    revealed = ScalarFit({"auc": fit.auc}, remedy=REMEDY, notes=fit.notes, facts=facts)
    return Evaluation(revealed, claim, source, plan)


def _pairs(
    observed: Mapping[Pair, NoisyHistogram], estimator: Estimator
) -> dict[Pair, PairArea]:
    """Return each pair's AUC, the mean over its two score columns, and its examples."""
    names = list(dict.fromkeys(a for a, _ in observed))
    pairs = {}
    for a, b in combinations(names, 2):
        both = [observed[a, b], observed[b, a]]
        areas = [measure(METRICS["auc"], estimator.fit(part)) for part in both]
        pairs[a, b] = PairArea(
            weighted_mean(areas, [1.0, 1.0]),
            both[0].total_negatives + both[0].total_positives,
        )
    return pairs


def _warn_if_fine(plan: Plan, parts: Iterable[NoisyHistogram]) -> None:
    """Warn once, of the part whose bins are finest beside its examples."""
    if plan.privacy.protects is not None:
        return
    fine = [
        len(part.edges)
        for part in parts
        if part.tree is None
        and 0 < part.total_negatives + part.total_positives < 10 * len(part.edges)
    ]
    if fine:
        bins = max(fine)
        warnings.warn(
            f"an exact histogram of {bins} bins over fewer than {10 * bins} examples "
            "is nearly the data itself: use fewer bins or a private model",
            DisclosureWarning,
            stacklevel=3,
        )


def _warn_if_fine_in_time(plan: Plan, tables: Iterable[TimedCounts]) -> None:
    """Warn once of exact tables with far fewer examples than their cells want."""
    if plan.privacy.protects is not None:
        return
    pairs = [(t.total, len(t.edges) * len(t.cuts)) for t in tables]
    fine = [cells for total, cells in pairs if 0 < total < FINE * cells]
    if fine:
        warnings.warn(
            f"an exact table of {max(fine):,} pairs of bins and intervals over fewer "
            f"than {FINE * max(fine):,} examples is nearly the data itself: use fewer "
            "bins or intervals, or a private model",
            DisclosureWarning,
            stacklevel=4,
        )


# -- decoding ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RevealedRound:
    """The decoded sum of the last round, and the histograms in it."""

    plan: Plan
    statistic: Statistic
    decoded: NoisyCounts
    contributors: int

    @property
    def counts(self) -> FloatVector:
        """The decoded sum."""
        return self.decoded.counts

    @property
    def noise(self) -> NoiseDistribution:
        """What is known about its noise."""
        return self.decoded.noise

    def parts(self) -> Mapping[str, NoisyHistogram]:
        """Return the sum's histograms by name, that of all examples as ''."""
        parts = dict(self.statistic.parts(self.counts, self.noise))
        alone = len(parts) == 1
        if (whole := self.statistic.pooled(self.counts, self.noise)) is not None:
            parts[""] = whole
        return {
            name: _against_sizes(
                self.plan, self._told(part), self.contributors, whole=alone or not name
            )
            for name, part in parts.items()
        }

    def tables(self) -> Mapping[str, TimedCounts]:
        """Return the sum's tables of follow-up by name; the only one is named ''."""
        tables = self.statistic.tables(self.counts, self.noise)
        return {
            name: _followed_sizes(
                self.plan,
                replace(
                    table,
                    refusal=self.decoded.refusal,
                    notes=(*table.notes, *self.decoded.notes),
                    predicts=self._predicted(table),
                ),
                self.contributors,
                whole=len(tables) == 1 or self.statistic.compares,
            )
            for name, table in tables.items()
        }

    def _predicted(self, table: TimedCounts) -> float | None:
        """Return the horizon whose risk the scores are; the last one unless each has its own."""
        if self.plan.facts.scores.kind == "other":
            return None
        return table.predicts or self.plan.horizons[-1]

    def pairs(self) -> Mapping[Pair, NoisyHistogram]:
        """Return the histograms of one class against another, if there are any."""
        pairs = self.statistic.pairs(self.counts, self.noise)
        return {pair: self._told(part) for pair, part in pairs.items()}

    def _told(self, part: NoisyHistogram) -> NoisyHistogram:
        notes = (*part.notes, *self.decoded.notes)
        return replace(part, refusal=self.decoded.refusal, notes=notes)


def open_release(plan: Plan, releases: Sequence[Release]) -> RevealedRound:
    """Check that the releases belong to the plan and decode the last one."""
    last = one_release(releases, plan.digest(), len(plan.rounds))
    resolved = plan.resolve(len(plan.rounds) - 1, releases[:-1])
    least = plan.cohort.min_survivors
    if last.contributors < least:
        raise ReleaseError(
            f"{last.contributors} sites contributed, and the plan asks for at least "
            f"{least}; this sum must not be opened"
        )
    mechanism = plan.privacy.mechanism_for(resolved, plan.cohort)
    size = mechanism.sent(resolved.statistic.size)
    if last.total.size != size:
        raise PlanError(
            f"the plan's statistic has {size} counts, the release {last.total.size}"
        )
    decoded = _without_negatives(mechanism.open(last.total, last.contributors))
    return RevealedRound(plan, resolved.statistic, decoded, last.contributors)


def _without_negatives(decoded: NoisyCounts) -> NoisyCounts:
    """Refuse an exact sum with a negative count, which no honest site sends.

    The sum was charged and revealed. So it gives a result like any other, in which
    every metric is unusable for this reason.
    """
    if decoded.noise.scale > 0 or not (decoded.counts < 0).any():
        return decoded
    reason = (
        "the exact sum holds negative counts, which no data give: a site sent what is "
        "no count; ask again in random groups to find where, or leave out the sites "
        "that are in doubt"
    )
    return replace(decoded, counts=np.maximum(decoded.counts, 0), refusal=reason)


def _against_sizes(
    plan: Plan, part: NoisyHistogram, contributors: int, *, whole: bool
) -> NoisyHistogram:
    """Add what a part's total says about the plan's declared sizes.

    ``whole``: it is the only part. An exact total above what the sites may hold is
    unusable, a noisy one gets a note.
    """
    if plan.cohort.max_examples_per_site is plan.facts.examples is None:
        return part
    total = part.total_negatives + part.total_positives
    variance = 0.0
    if not part.exact:
        variance = covariance_of(part, np.ones((1, 2 * len(part.edges))))[0, 0]
    refusal, notes = _of_sizes(plan, total, variance, contributors, whole=whole)
    return replace(part, refusal=part.refusal or refusal, notes=(*part.notes, *notes))


def _followed_sizes(
    plan: Plan, table: TimedCounts, contributors: int, *, whole: bool
) -> TimedCounts:
    """Add what a table's total says about the plan's declared sizes."""
    variance = 0.0 if table.exact else table.size * cell_variance(table.noise)
    refusal, notes = _of_sizes(plan, table.total, variance, contributors, whole=whole)
    return replace(
        table, refusal=table.refusal or refusal, notes=(*table.notes, *notes)
    )


def _of_sizes(
    plan: Plan, total: float, variance: float, contributors: int, *, whole: bool
) -> tuple[str | None, list[str]]:
    """Return why a total cannot be, and what is odd about it.

    The variance is that of its noise, 0 without.
    """
    each, declared = plan.cohort.max_examples_per_site, plan.facts.examples
    slack = NOISE_SDS * math.sqrt(max(float(variance), 0.0))
    refusal, notes = None, list[str]()
    if each is not None and total > each * contributors + slack:
        above = (
            f"than {contributors} sites of at most {each:,} examples may hold: at "
            "least one site sent what it does not have"
        )
        if not slack:
            refusal = f"the exact sum holds more examples {above}"
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
    return refusal, notes


def _far(side: str, declared: int) -> str:
    return (
        f"the total is more than {FAR:g} times {side} the {declared:,} examples that "
        "the plan declares: the declaration is wrong, or a site's counts are"
    )


# -- random groups -----------------------------------------------------------------


def grouped(
    releases: Sequence[Release],
    together: Mapping[str, Evaluation],
    evaluations: Callable[[Release], Mapping[str, Evaluation]],
) -> dict[str, Evaluation]:
    """Add each group's own evaluation, and those without one group, to all together.

    ``evaluations`` makes the evaluations of one sum, by name.
    """
    members = tuple(r.members for r in releases)
    alone = [evaluations(r) for r in releases]
    without = [evaluations(pooled(releases, leave_out=k)) for k in range(len(releases))]
    parts = {}
    for name, part in together.items():
        own = (group[name] for group in alone)
        groups = RandomGroups(
            members,
            tuple(
                replace(each, source=replace(each.source, part=f"group {k}"))
                for k, each in enumerate(own, 1)
            ),
            tuple(group[name] for group in without),
        )
        differ = replace(part.heterogeneity, random_groups=groups)
        parts[name] = replace(part, heterogeneity=differ)
    return parts


def pooled(releases: Sequence[Release], *, leave_out: int | None = None) -> Release:
    """Add up the groups' sums of one round, all or all but one."""
    taken = [r for place, r in enumerate(releases) if place != leave_out]
    if len({(r.plan_digest, r.round) for r in taken}) != 1:
        raise ReleaseError("the groups' sums are of different plans or rounds")
    return replace(
        taken[0],
        total=np.sum([r.total for r in taken], axis=0),
        contributors=sum(r.contributors for r in taken),
        expected=sum(r.expected for r in taken),
        members=(),
    )
