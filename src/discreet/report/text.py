"""The result as a table of plain text that can be pasted into a paper.

A result in plain words: what a number means, and what was promised.

An evaluation as text, as plain values and as a part of a page: written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Fit, ScalarFit
from discreet.metrics.curve_points import pr_points, roc_points
from discreet.metrics.table import METRICS, RATES
from discreet.privacy.claim import Claim
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.report.heterogeneity import cluster_sentences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from discreet.plan.plan import Plan
    from discreet.report.evaluation import Evaluation

_WIDTH = 18
"""Of the names, unless one is longer."""


def metric_table(rows: Mapping[str, Estimate], title: str = "") -> str:
    """Lay out estimates: value, interval, then each source of error."""
    heading, cells_of = interval_column(rows)
    width = max(_WIDTH, *map(len, rows)) if rows else _WIDTH
    header = (
        f"{title:<{width}} {'value':>8}   {heading:<18} "
        f"{'sampling':>9} {'binning':>9} {'noise':>9}"
    )
    lines = [header]
    for name, found in rows.items():
        cells = cells_of(found)
        if math.isnan(found.value):
            lines.append(f"{name:<{width}} {cells.value:>9}")
            continue
        lines.append(
            f"{name:<{width}} {cells.value:>8}   {cells.interval:<18} "
            f"{cells.sampling:>9} {cells.binning:>9} {cells.noise:>9}"
        )
    return "\n".join(lines)


def interval_column(
    rows: Mapping[str, Estimate],
) -> tuple[str, Callable[[Estimate], EstimateCells]]:
    """Return the heading of a table's intervals, and how its rows are written.

    Where no sampling error is known there is no 95% interval: the limits of binning
    are all that can be said.
    """
    known = any(e.sampling is not None for e in rows.values())
    heading = "95% interval" if known else "binning limits"
    return heading, partial(estimate_cells, worst_case_binning=not known)


class EstimateCells(NamedTuple):
    """One estimate as the cells of a table."""

    value: str
    interval: str = ""
    sampling: str = ""
    binning: str = ""
    noise: str = ""


def estimate_cells(
    found: Estimate, *, worst_case_binning: bool = False
) -> EstimateCells:
    """Write an estimate: its value, its interval, then each source of error."""
    if math.isnan(found.value):
        return EstimateCells("undefined")
    low, high = found.interval(worst_case_binning=worst_case_binning)
    return EstimateCells(
        f"{found.value:.4f}",
        f"[{low:.4f}, {high:.4f}]",
        _source(found.sampling),
        _size(found.binning.usual),
        _source(found.noise),
    )


def titled(metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return estimates by their titles, in the order in which they are shown."""
    return {METRICS[name].title: metrics[name] for name in METRICS if name in metrics}


def rate_line(label: str, rates: Mapping[str, Estimate]) -> str:
    """Put the values of a few rates on one line."""
    parts = [f"{name} {number(found.value)}" for name, found in rates.items()]
    return f"{label} " + "   ".join(parts)


def number(value: float) -> str:
    """Write a rate, or that it is undefined."""
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _source(sd: float | None) -> str:
    if sd is None:
        return "-"
    return f"±{1.96 * sd:.4f}" if sd else "0"


def _size(value: float) -> str:
    if value == 0:
        return "0"
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


UNVERIFIABLE: Final = (
    "This report does not hold the record of its release, so its numbers cannot be "
    "computed again: discreet verify cannot check it."
)


class Headline(NamedTuple):
    """One number that matters, and what it means."""

    title: str
    found: Estimate
    sentence: str


_AREAS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "auc": (
        "AUC",
        lambda share: (
            "Of two people of whom one is positive, the model gives the positive one "
            f"the higher score {share} of the time; chance is 50%."
        ),
    ),
    "average_precision": (
        "Average precision",
        lambda share: (
            "Going down the list from the highest score, on average "
            f"{share} of those seen so far are positive."
        ),
    ),
}


def headlines(result: Evaluation) -> list[Headline]:
    """Return the two or three numbers that matter first."""
    found = []
    for name, (title, sentence) in _AREAS.items():
        if name in result.metrics and (name == "auc" or not result.at_thresholds()):
            estimate = result.metrics[name]
            found.append(Headline(title, estimate, sentence(_share(estimate))))
    for at in result.at_thresholds()[:1]:
        where = f"at {at.threshold:g}"
        found.append(
            Headline(
                f"Sensitivity {where}",
                at["recall"],
                f"Of all positives, {_share(at['recall'])} score {at.threshold:g} or "
                "more.",
            )
        )
        found.append(
            Headline(
                f"Precision {where}",
                at["precision"],
                f"Of all that score {at.threshold:g} or more, "
                f"{_share(at['precision'])} are positive.",
            )
        )
    return found


def _share(found: Estimate) -> str:
    return "an unknown share" if math.isnan(found.value) else f"{found.value:.1%}"


def calibration_words(result: Evaluation) -> str:
    """Say how far predictions are off, and what recalibration would change."""
    effect = result.recalibration()
    before = (
        "On average a predicted probability is off by "
        f"{100 * effect.ece_before.value:.1f} percentage points"
    )
    if result.calibrator.name == "identity":
        return f"{before}; recalibration would not make it better."
    after = 100 * effect.ece_after.value
    return (
        f"{before}; recalibrated from this same release, by {after:.1f} on new examples "
        "of the same kind."
    )


def counted_words(result: Evaluation, others: Sequence[Evaluation]) -> dict[str, str]:
    """Say who took part and how many examples and positives there are.

    ``others`` are further disjoint parts of the same examples, such as groups.
    """
    sites = f"{result.contributors} of {result.expected}"
    if result.site_names:
        sites += f": {', '.join(result.site_names)}"
    found = {"Sites": sites}
    if isinstance(result.fit, Fit):
        seen = [part.observed for part in (result, *others)]
        about = "" if seen[0].exact else "about "
        positives = sum(part.total_positives for part in seen)
        total = positives + sum(part.total_negatives for part in seen)
        kind = ", effective: they have weights" if result.weighted else ""
        found["Examples"] = f"{about}{total:,.0f}{kind}"
        share = f" ({positives / total:.1%})" if total > 0 else ""
        found["Positives"] = f"{about}{positives:,.0f}{share}"
    return found


def exact_sums(plan: Plan | None) -> bool:
    """Whether the sites' sums were released as they are, without noise."""
    return plan is not None and plan.privacy.protects is None


def holds_counts(plan: Plan | None, *, curves: bool) -> str:
    """Say what whoever receives a report of exact sums gets with it."""
    if not exact_sums(plan):
        return ""
    if curves:
        return (
            "This file holds every number that the sites revealed, added up over all "
            "sites, exact and without noise: pass it on only to those who may see them. "
            "A report made with --no-record leaves them out."
        )
    return (
        "The sums that the sites revealed, which are exact, are left out of this file, and "
        "with them the curves, from which they could be worked out."
    )


def plain_claim(claim: Claim) -> list[str]:
    """Say the claim to somebody who never read about differential privacy."""
    match claim.loss:
        case PureDP(epsilon):
            factor = math.exp(min(float(epsilon), 50.0))
            promise = (
                f"Whatever is read from this page, it would have been read almost as "
                f"likely without any one {_unit(claim)}: the chance differs by a factor of "
                f"at most {factor:,.2f} (epsilon {float(epsilon):g})."
            )
        case ApproxDP(epsilon, delta):
            factor = math.exp(min(float(epsilon), 50.0))
            promise = (
                f"Whatever is read from this page, it would have been read almost as "
                f"likely without any one {_unit(claim)}: the chance differs by a factor of "
                f"at most {factor:,.2f} (epsilon {float(epsilon):g}), but for a "
                f"probability of {float(delta):g}."
            )
        case _:
            promise = (
                "The numbers are exact: no noise was added. Whoever knows all the data "
                "but one person's could work that one out."
            )
    found = [promise, claim.trust.value]
    if claim.setting != "deployed":
        found.append(
            "This was computed in one place, as a simulation: the promise is what the "
            "same plan would keep between real sites."
        )
    return found


def _unit(claim: Claim) -> str:
    return "person's part" if claim.unit is None else claim.unit.kind


JSON_VERSION: Final = 1


def evaluation_text(result: Evaluation, *, wide: bool = False) -> str:
    """Return the table, the counts and the claim; wide: every rate's interval."""
    lines = [metric_table(titled(result.metrics))]
    for found in result.at_thresholds():
        rates, label = found.rates(every=wide), f"at {found.threshold:g}:"
        lines.append(metric_table(rates, label) if wide else rate_line(label, rates))
    lines += sentences(result)
    return "\n".join([*lines, count_line(result), str(result.claim)])


def document(result: Evaluation, *, curves: bool = True) -> dict[str, Any]:
    """Return everything as plain values; NaN and infinity become None.

    Without ``curves`` there is nothing from which every bin's count follows: no points
    of curves and no map that was fitted to the bins.
    """
    found: dict[str, Any] = {
        "version": JSON_VERSION,
        "sites": {"contributed": result.contributors, "expected": result.expected},
        "metrics": {name: e.to_dict() for name, e in sorted(result.metrics.items())},
        "refusal": result.refusal,
        "notes": list(result.notes),
        "claim": result.claim.to_dict(),
    }
    if result.plan is not None:
        found["plan_digest"] = result.plan.digest().hex()
    if isinstance(result.fit, ScalarFit):
        return found | {"facts": dict(result.fit.facts)}
    if result.influence:
        found["influence"] = _influence(result)
    if result.random_groups is not None:
        found["random_groups"] = result.random_groups.to_dict(sorted(result.metrics))
    if result.heterogeneity is not None:
        found["heterogeneity"] = result.heterogeneity.to_dict()
    found |= _counted(result, result.fit)
    if curves:
        return found | _drawn(result.fit)
    if found["calibration"] is not None:
        del found["calibration"]["map"]
    return found


def _counted(result: Evaluation, fit: Fit) -> dict[str, Any]:
    """Return what only a histogram has: totals, thresholds, calibration."""
    return {
        "estimator": fit.estimator,
        "interpolation": fit.curves.interpolation,
        "examples": {
            "positives": fit.observed.total_positives,
            "negatives": fit.observed.total_negatives,
            "noisy": not fit.observed.exact,
        },
        "thresholds": [found.to_dict() for found in result.at_thresholds()],
        "calibration": _calibration(result),
    }


def _drawn(fit: Fit) -> dict[str, Any]:
    """Return the points of the curves."""
    fpr, tpr, thresholds = roc_points(fit, inside_bins=False)
    precision, recall, _ = pr_points(fit, inside_bins=False)
    return {
        "curve_points": "edges of the bins",
        "roc": {"fpr": _list(fpr), "tpr": _list(tpr), "thresholds": _list(thresholds)},
        "pr": {"precision": _list(precision), "recall": _list(recall)},
    }


def _influence(result: Evaluation) -> dict[str, Any]:
    """Return what one lying site can do, over all thresholds and at the plan's."""
    at = [
        {"threshold": found.threshold, **result.influence_at(found.threshold)}
        for found in result.at_thresholds()
    ]
    return {**result.influence, "thresholds": at}


def _influence_lines(result: Evaluation) -> list[str]:
    if not result.influence or result.plan is None:
        return []
    most = result.plan.cohort.max_examples_per_site
    bounds = {METRICS[name].title: bound for name, bound in result.influence.items()}
    lines = [f"One lying site of at most {most:,} examples can move {_by(bounds)}."]
    for found in result.at_thresholds():
        rates = result.influence_at(found.threshold)
        titled_rates = {RATES[name].title: bound for name, bound in rates.items()}
        lines.append(f"At {found.threshold:g} it can move {_by(titled_rates)}.")
    return lines


def _by(bounds: Mapping[str, float]) -> str:
    """Write bounds, rounded up."""
    first, *others = (
        f"{name} by at most {math.ceil(bound * 1e4 - 1e-9) / 1e4:.4f}"
        for name, bound in bounds.items()
    )
    shorter = [other.replace(" by at most", "") for other in others]
    return ", ".join([first, *shorter])


def _calibration(result: Evaluation) -> dict[str, Any] | None:
    if not result.calibratable:
        return None
    found = result.recalibration()
    return {
        "ece": found.ece_before.to_dict(),
        "ece_after": found.ece_after.to_dict(),
        "map": dict(result.calibrator.to_dict()),
        "reason": result.calibrator.reason,
    }


def sentences(result: Evaluation) -> tuple[str, ...]:
    """Return what stands below the tables: calibration, refusals, notes."""
    lines = [_calibration_line(result)] if result.calibratable else []
    return (*lines, *note_lines(result))


def note_lines(result: Evaluation) -> tuple[str, ...]:
    """Return refusals, cautions, what a liar can do, and how random groups differ."""
    lines = []
    if result.refusal is not None:
        lines.append(f"Undefined: {result.refusal}.")
    cautions = dict.fromkeys(e.caution for e in result.metrics.values() if e.caution)
    cautious = (f"Note: {note}." for note in (*result.notes, *cautions))
    grouped: tuple[str, ...] = ()
    if result.random_groups is not None:
        titles = {
            name: METRICS[name].title for name in METRICS if name in result.metrics
        }
        grouped = result.random_groups.sentences(titles)
    between: tuple[str, ...] = ()
    if result.heterogeneity is not None:
        between = result.heterogeneity.sentences(result)
    between = (*between, *cluster_sentences(result))
    return (*lines, *cautious, *_influence_lines(result), *grouped, *between)


def extra_pictures(result: Evaluation) -> dict[str, Figure]:
    """Return what a report draws beside the curves: how sites differ."""
    if result.heterogeneity is None:
        return {}
    between = result.heterogeneity.picture(result)
    return {} if between is None else {"What a new site can expect": between}


def _calibration_line(result: Evaluation) -> str:
    found, name = result.recalibration(), result.calibrator.name
    after = (
        "no map would improve it"
        if name == "identity"
        else f"{number(found.ece_after.value)} expected after recalibration, {name}"
    )
    return f"calibration error {number(found.ece_before.value)}   ({after})"


def count_words(result: Evaluation) -> str:
    """Return how many sites took part, and of how many examples it is."""
    counted = "site" if result.expected == 1 else "sites"
    words = f"{result.contributors} of {result.expected} {counted}"
    if isinstance(result.fit, ScalarFit):
        return words
    observed = result.fit.observed
    about = "" if observed.exact else "about "
    total = observed.total_positives + observed.total_negatives
    kind = "effective examples" if result.weighted else "examples"
    return f"{words}, {about}{total:,.0f} {kind}"


def count_line(result: Evaluation) -> str:
    """Return what it rests on and what it cost."""
    if isinstance(result.fit, ScalarFit):
        facts = [f"{name} {value}" for name, value in result.fit.facts.items()]
        return ", ".join([count_words(result), *facts])
    size = sum(r.total.size for r in result.releases) * 8 / 1024
    rule = str(result.fit.observed.edges.rule)
    return f"{count_words(result)}, {rule}, {size:.1f} KB from each site"


def _list(values: FloatVector) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]
