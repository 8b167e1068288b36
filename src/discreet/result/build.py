"""From a plan and its releases to its result: the only way to make one.

Nothing but the plan and what was opened is read, so a simulation and a deployment
that release the same sums give the same result. The statistic's parts decide which
it is: one evaluation, several, or two models compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from discreet.arrays import FloatVector
from discreet.errors import DisclosureWarning, PlanError
from discreet.estimate.estimate import Estimate
from discreet.estimate.fedcurve import FedCurve
from discreet.estimate.reading import Estimator
from discreet.estimate.tree_reading import histogram_of
from discreet.metrics.errors import measure
from discreet.metrics.table import METRICS
from discreet.plan.plan import Plan
from discreet.plan.release import Release
from discreet.privacy.claim import Claim
from discreet.result.comparison import JointCounts, ModelComparison
from discreet.result.decode_release import Opened, default_estimator, open_release
from discreet.result.evaluation import Evaluation
from discreet.result.several import MultiEvaluation, Pair, weighted_mean
from discreet.statistic import (
    ClassHistogram,
    Grouped,
    Hierarchy,
    OneVsOne,
    OneVsRest,
    Paired,
)
from discreet.statistic.observed import NoiseLaw, NoisyHistogram
from discreet.statistic.summed import SummedLaw
from discreet.statistic.tree import released_tree

Result: TypeAlias = Evaluation | MultiEvaluation | ModelComparison
"""What a plan can give."""


def result_of(
    plan: Plan,
    releases: Sequence[Release],
    claim: Claim,
    *,
    estimator: Estimator | None = None,
) -> Result:
    """Build the result of a plan from its releases.

    ``estimator`` reads every part; by default the one that suits the plan's noise, or
    a published method where the plan releases the tree that it reads.
    """
    opened = open_release(plan, releases)
    last = releases[-1]
    _warn_if_fine(plan, opened)
    tree = isinstance(opened.statistic, Hierarchy)
    chosen = estimator or (FedCurve() if tree else default_estimator(plan))
    parts = {
        name: Evaluation(
            chosen.read(observed),
            claim,
            last.contributors,
            last.expected,
            plan,
            tuple(releases),
            name,
        )
        for name, observed in _parts(opened).items()
    }
    if isinstance(opened.statistic, Paired):
        joint = JointCounts(opened.counts, opened.law)
        known = joint if opened.statistic.form == "joint" else None
        return ModelComparison(parts["a"], parts["b"], claim, known)
    if list(parts) == [""]:
        return parts[""]
    return MultiEvaluation(parts, claim, *_pairs(opened, chosen))


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
        raise PlanError(f"this plan has {len(found)} evaluations; see result_of")
    return found


def _parts(opened: Opened) -> Mapping[str, NoisyHistogram]:
    """Return the class histograms that a release holds, the only one named ''."""
    counts, law = opened.counts, opened.law
    match opened.statistic:
        case Hierarchy() as hierarchy:
            tree = released_tree(hierarchy, counts, law)
            return {"": histogram_of(tree, law)}
        case ClassHistogram() as histogram:
            split = histogram.split(counts)
            return {"": opened.histogram(histogram.edges, split)}
        case OneVsRest() | Grouped() as several:
            edges = (
                several.inner.edges if isinstance(several, Grouped) else several.edges
            )
            found = several.split(counts).items()
            return {name: opened.histogram(edges, split) for name, split in found}
        case OneVsOne() as pairs:
            rest = len(pairs.classes) - 1  # released cells in each count of a rest
            found = pairs.split(counts).items()
            return {
                name: opened.histogram(pairs.edges, split, cells=rest)
                for name, split in found
            }
        case Paired() as paired:
            return _models(paired, counts, law)
        case _:
            raise PlanError("this statistic has no parts to evaluate")


def _models(
    paired: Paired, counts: FloatVector, law: NoiseLaw
) -> dict[str, NoisyHistogram]:
    first, second = paired.split(counts)
    laws: tuple[NoiseLaw, NoiseLaw] = (law, law)
    if paired.form == "joint":
        table = counts.reshape(2, len(paired.a), len(paired.b))
        laws = (SummedLaw(law, table, 2), SummedLaw(law, table, 1))
    return {
        "a": NoisyHistogram(paired.a, *first, laws[0]),
        "b": NoisyHistogram(paired.b, *second, laws[1]),
    }


def _pairs(
    opened: Opened, estimator: Estimator
) -> tuple[dict[Pair, Estimate], dict[Pair, float]]:
    """Return each pair's AUC, the mean over its two score columns, and its examples."""
    if not isinstance(opened.statistic, OneVsOne):
        return {}, {}
    edges, counts = opened.statistic.edges, opened.statistic.pairs(opened.counts)
    areas, weights = {}, {}
    names = opened.statistic.classes
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            both = [
                measure(
                    METRICS["auc"], estimator.read(opened.histogram(edges, counts[key]))
                )
                for key in ((a, b), (b, a))
            ]
            areas[a, b] = weighted_mean(both, [1.0, 1.0])
            weights[a, b] = float(sum(c.sum() for c in counts[a, b]))
    return areas, weights


def _warn_if_fine(plan: Plan, opened: Opened) -> None:
    if not isinstance(opened.statistic, ClassHistogram):
        return
    bins, total = len(opened.statistic.edges), opened.counts.sum()
    if plan.privacy.protects is None and 0 < total < 10 * bins:
        warnings.warn(
            f"an exact histogram of {bins} bins over fewer than {10 * bins} examples "
            "is nearly the data itself: use fewer bins or a private model",
            DisclosureWarning,
            stacklevel=4,
        )
