"""From a plan and its releases to its result: the only way to make one.

Nothing but the plan and what was revealed is read, so a simulation and a deployment
that release the same sums give the same result. The statistic's parts decide which
it is: one evaluation, several, or two models compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from discreet.errors import DisclosureWarning, PlanError
from discreet.estimate.fit import Estimator, ScalarFit
from discreet.label.rank_terms import REMEDY, RankFit, RankSumTerms, read
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release, one_release
from discreet.privacy.claim import Claim
from discreet.report.comparison import JointCounts, ModelComparison
from discreet.report.decode_release import RevealedRound, open_release
from discreet.report.evaluation import Evaluation, Source
from discreet.report.heterogeneity import heterogeneity_of
from discreet.report.random_groups import grouped, pooled
from discreet.report.record import READERS
from discreet.report.several import MultiEvaluation, Pair, PairArea, weighted_mean
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.rank_sums import RankSums

Result: TypeAlias = Evaluation | MultiEvaluation | ModelComparison
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
    names = _names(plan, site_names)
    together: Sequence[Release] = releases
    in_groups = plan.cohort.random_groups > 1 and bool(releases[0].members)
    if in_groups:
        together = [pooled(releases)]
    revealed = open_release(plan, together)

    def parts_of(each: Sequence[Release]) -> dict[str, Evaluation]:
        decoded = revealed if each is together else open_release(plan, each)
        return _evaluations(decoded, each, claim, estimator, names)

    if in_groups:
        parts = grouped(releases, parts_of(together), lambda one: parts_of([one]))
    else:
        parts = parts_of(releases)
    if revealed.statistic.compares:
        joint = None
        if revealed.statistic.joint:
            joint = JointCounts(revealed.counts, revealed.noise)
        a, b = parts.values()
        return ModelComparison(a, b, claim, joint)
    if set(parts) == {""}:
        return parts[""]
    pairs = _pairs(revealed.pairs(), estimator or plan.privacy.estimator())
    return MultiEvaluation(parts, claim, pairs)


def _evaluations(
    revealed: RevealedRound,
    releases: Sequence[Release],
    claim: Claim,
    estimator: Estimator | None,
    site_names: tuple[str, ...],
) -> dict[str, Evaluation]:
    """Evaluate every part of one sum."""
    plan, last = revealed.plan, releases[-1]
    observations = revealed.parts()
    _warn_if_fine(plan, observations.values())
    differ = heterogeneity_of(revealed)
    parts = {}
    for name, observed in observations.items():
        fit = (estimator or _estimator(plan, observed)).fit(observed)
        source = Source(
            last.contributors,
            last.expected,
            tuple(releases),
            name,
            site_names,
            estimator,
        )
        parts[name] = Evaluation(fit, claim, source, plan, differ)
    return parts


def evaluation(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
) -> Evaluation:
    """Build the result of a plan that has one part."""
    found = result_of(plan, releases, claim, estimator=estimator)
    if not isinstance(found, Evaluation):
        raise PlanError(
            f"a {plan.statistic.name} plan has several evaluations; see result_of"
        )
    return found


def _rank_sums(plan: Plan, releases: Sequence[Release], claim: Claim) -> Evaluation:
    """Evaluate what a plan of rank sums revealed."""
    last = one_release(releases, plan.digest(), len(plan.rounds))
    this = plan.resolve(len(plan.rounds) - 1, releases[:-1])
    told = plan.privacy.colluders_in(plan.cohort)
    terms = RankSumTerms.of(this.statistic, this.loss, colluders=told)
    fit = read(terms, last.total)
    source = Source(last.contributors, last.expected, tuple(releases))
    return rank_result(fit, claim, source, plan)


def rank_result(
    fit: RankFit, claim: Claim, source: Source, plan: Plan | None = None
) -> Evaluation:
    """Return the evaluation of rank sums: an AUC with its errors, and no curve."""
    revealed = ScalarFit(
        {"auc": fit.auc},
        remedy=REMEDY,
        notes=fit.notes,
        facts={"examples": fit.examples},
    )
    return Evaluation(revealed, claim, source, plan)


def _estimator(plan: Plan, observed: NoisyHistogram) -> Estimator:
    """Return the plan's own estimator; a tree has that of the method that asks for it."""
    if observed.tree is None:
        return plan.privacy.estimator()
    return READERS["fedcurve"]()


def _pairs(
    observed: Mapping[Pair, NoisyHistogram], estimator: Estimator
) -> dict[Pair, PairArea]:
    """Return each pair's AUC, the mean over its two score columns, and its examples."""
    names = list(dict.fromkeys(a for a, _ in observed))
    found = {}
    for a, b in combinations(names, 2):
        both = [observed[a, b], observed[b, a]]
        areas = [measure(METRICS["auc"], estimator.fit(part)) for part in both]
        found[a, b] = PairArea(
            weighted_mean(areas, [1.0, 1.0]),
            both[0].total_negatives + both[0].total_positives,
        )
    return found


def _names(plan: Plan, given: Sequence[str]) -> tuple[str, ...]:
    if plan.roster is not None:
        return tuple(member.name for member in plan.roster.sites)
    return tuple(given) if all(given) else ()


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
            stacklevel=4,
        )
