"""A result in words and plain values: tables, sentences, what was promised, JSON."""

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
from discreet.metrics.thresholds import at_threshold
from discreet.phone import REPORT_SIZE
from discreet.privacy.claim import Claim
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.report.poisoning import FALSE_SHARE
from discreet.report.views import calibratable, prevalence_of
from discreet.statistic.weighted import Weighted

if TYPE_CHECKING:
    from discreet.plan.plan import Plan
    from discreet.report.evaluation import Evaluation, Source

JSON_VERSION: Final = 1
UNVERIFIABLE: Final = (
    "This report does not hold the record of its release, so its numbers cannot be "
    "computed again: discreet verify cannot check it."
)
_WIDTH: Final = 18
"""Of the names, unless one is longer."""
_SURE: Final = 4.0
"""So many standard deviations of its noise show that a difference is no noise."""


# -- tables ------------------------------------------------------------------------


def metric_table(rows: Mapping[str, Estimate], title: str = "") -> str:
    """Lay out estimates: value, interval, then each source of error."""
    heading, cells_of = interval_column(rows)
    width = max(_WIDTH, *map(len, rows)) if rows else _WIDTH
    header = (
        f"{title:<{width}} {'value':>8}   {heading:<18} "
        f"{'sampling':>9} {'binning':>9} {'noise':>9}"
    )
    lines = [header]
    for name, estimate in rows.items():
        cells = cells_of(estimate)
        lines.append(
            f"{name:<{width}} {cells.value:>9}"
            if math.isnan(estimate.value)
            else f"{name:<{width}} {cells.value:>8}   {cells.interval:<18} "
            f"{cells.sampling:>9} {cells.binning:>9} {cells.noise:>9}"
        )
    return "\n".join(lines)


class EstimateCells(NamedTuple):
    """One estimate as the cells of a table."""

    value: str
    interval: str = ""
    sampling: str = ""
    binning: str = ""
    noise: str = ""


def interval_column(
    rows: Mapping[str, Estimate],
) -> tuple[str, Callable[[Estimate], EstimateCells]]:
    """Return the heading of a table's intervals, and how its rows are written.

    Where no sampling error is known there is no 95% interval: the limits of binning
    are all that can be said.
    """
    known = any(e.sampling is not None for e in rows.values())
    heading = "95% interval" if known else "binning limits"
    return heading, partial(_cells, worst_case_binning=not known)


def _cells(estimate: Estimate, *, worst_case_binning: bool) -> EstimateCells:
    if math.isnan(estimate.value):
        return EstimateCells("undefined")

    def source(sd: float | None) -> str:
        if sd is None:
            return "-"
        return f"±{1.96 * sd:.4f}" if sd else "0"

    low, high = estimate.interval(worst_case_binning=worst_case_binning)
    usual = estimate.binning.usual
    binning = "<0.0001" if 0 < usual < 0.0001 else f"{usual:.4f}"
    return EstimateCells(
        f"{estimate.value:.4f}",
        f"[{low:.4f}, {high:.4f}]",
        source(estimate.sampling),
        binning if usual else "0",
        source(estimate.noise),
    )


def titled(metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return estimates by their titles, in the order in which they are shown."""
    return {METRICS[name].title: metrics[name] for name in METRICS if name in metrics}


def distinct(part: Evaluation) -> dict[str, Estimate]:
    """Return all that was asked for, one row per meaning.

    AUPR is average precision but for ties: it is shown where the two differ.
    """
    shown = dict(part.metrics)
    areas = [shown[n] for n in ("average_precision", "aupr") if n in shown]
    if len(areas) == 2 and f"{areas[0].value:.4f}" == f"{areas[1].value:.4f}":
        del shown["aupr"]
    return shown


def number_cell(estimate: Estimate) -> tuple[str, str]:
    """Write a value and its interval, which needs a sampling error."""
    value, interval = between(estimate.value, estimate.interval())
    return value, "" if estimate.sampling is None else interval


def between(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    """Write a value and the ends of its interval."""
    if math.isnan(value):
        return "undefined", ""
    return f"{value:.3f}", f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def title_of(measure: str) -> str:
    """Return the title of a metric or of a rate at a threshold."""
    return RATES[measure].title if measure in RATES else METRICS[measure].title


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def evaluation_text(result: Evaluation, *, wide: bool = False) -> str:
    """Return the table, the counts and the claim; wide: every rate's interval."""
    lines = [metric_table(titled(result.metrics))]
    for at in result.thresholds.planned():
        rates, label = at.rates(every=wide), f"at {at.threshold:g}:"
        if wide:
            lines.append(metric_table(rates, label))
        else:
            values = (f"{name} {_number(e.value)}" for name, e in rates.items())
            lines.append(f"{label} {'   '.join(values)}")
    if calibratable(result.fit):
        lines.append(_calibration_line(result))
    return "\n".join([*lines, *notes(result), _count_line(result), str(result.claim)])


def _calibration_line(result: Evaluation) -> str:
    effect, name = result.recalibration.effect, result.recalibration.map.name
    after = f"{_number(effect.ece_after.value)} expected after recalibration, {name}"
    if name == "identity":
        after = "no map would improve it"
    return f"calibration error {_number(effect.ece_before.value)}   ({after})"


# -- counts ------------------------------------------------------------------------


def weighted(plan: Plan | None) -> bool:
    """Whether examples have weights: counts are then of effective examples."""
    return plan is not None and isinstance(plan.statistic, Weighted)


def of_clients(plan: Plan | None) -> bool:
    """Whether every answer is one client's report."""
    return plan is not None and plan.protocol.of_clients


def count_words(result: Evaluation) -> str:
    """Return how many sites took part, and how many examples they hold."""
    source = result.source
    noun = "site" if source.expected == 1 else "sites"
    words = f"{source.contributors} of {source.expected} {noun}"
    if of_clients(result.plan):
        return f"{source.contributors:,} reports of one example each"
    if isinstance(result.fit, ScalarFit):
        return words
    observed = result.fit.observed
    about = "" if observed.exact else "about "
    total = observed.total_positives + observed.total_negatives
    kind = "effective examples" if weighted(result.plan) else "examples"
    return f"{words}, {about}{total:,.0f} {kind}"


def _count_line(result: Evaluation) -> str:
    """Return sites, examples, bins and bytes on one line."""
    if isinstance(result.fit, ScalarFit):
        facts = [f"{name} {value}" for name, value in result.fit.facts.items()]
        return ", ".join([count_words(result), *facts])
    size = sum(r.total.size for r in result.source.releases) * 8 / 1024
    rule = str(result.fit.observed.edges.rule)
    if of_clients(result.plan):
        return f"{count_words(result)}, {rule}, {REPORT_SIZE} bytes from each client"
    return f"{count_words(result)}, {rule}, {size:.1f} KB from each site"


def counted_words(result: Evaluation, others: Sequence[Evaluation]) -> dict[str, str]:
    """Return who took part and how many examples and positives there are.

    ``others`` are further disjoint parts of the same examples, such as groups.
    """
    source = result.source
    sites = f"{source.contributors} of {source.expected}"
    if source.site_names:
        sites += f": {', '.join(source.site_names)}"
    words = {"Sites": sites}
    if of_clients(result.plan):
        words = {"Reports": f"{source.contributors:,}, one example each"}
    if isinstance(result.fit, Fit):
        seen = [part.observed for part in (result, *others)]
        about = "" if seen[0].exact else "about "
        positives = sum(part.total_positives for part in seen)
        total = positives + sum(part.total_negatives for part in seen)
        kind = ", effective: they have weights" if weighted(result.plan) else ""
        words["Examples"] = f"{about}{total:,.0f}{kind}"
        share = f" ({positives / total:.1%})" if total > 0 else ""
        words["Positives"] = f"{about}{positives:,.0f}{share}"
    return words


def positives_of(parts: Mapping[str, Evaluation]) -> str:
    """Return how many positives each class or label has: examples may be in several."""
    words = []
    for name, part in parts.items():
        if isinstance(part.fit, Fit):
            about = "" if part.observed.exact else "about "
            words.append(f"{about}{part.observed.total_positives:,.0f} {name}")
    return ", ".join(words)


def labelled_of(parts: Mapping[str, Evaluation]) -> str | None:
    """Return how many examples have each label; None where noise explains the gaps."""
    counts, noise = {}, 0.0
    for name, part in parts.items():
        if isinstance(part.fit, Fit):
            seen, cells = part.observed, part.observed.covariance
            counts[name] = seen.total_positives + seen.total_negatives
            variance = cells.negatives + cells.positives + 2 * cells.cross
            noise = max(noise, float(variance.sum()))
    values = counts.values()
    if not counts or max(values) - min(values) <= _SURE * math.sqrt(2 * noise):
        return None
    about = "about " if noise else ""
    return ", ".join(f"{about}{count:,.0f} {name}" for name, count in counts.items())


def measured_where(source: Source, claim: Claim, plan: Plan | None) -> str:
    """Say on which data a result was measured, to end a sentence."""
    if of_clients(plan):
        return f"by {source.expected:,} private reports of single clients"
    if claim.setting == "own data":
        return "on own data, all in one place"
    if source.expected == 1:
        return "at one site"
    return f"over {source.expected} sites, without pooling data"


# -- sentences ---------------------------------------------------------------------


class Headline(NamedTuple):
    """One number that matters, and what it means."""

    title: str
    estimate: Estimate
    sentence: str
    chance: float | None = None
    """What scores that say nothing would have."""


def headlines(result: Evaluation, *, curves: bool = True) -> list[Headline]:
    """Return the two or three numbers that matter first.

    Without ``curves`` no rate is shown at a threshold that the plan does not name.
    """

    def share(estimate: Estimate) -> str:
        known = not math.isnan(estimate.value)
        return f"{estimate.value:.1%}" if known else "an unknown share"

    rows, fit = [], result.fit
    lead = result.thresholds.lead(planned_only=not curves)
    if "auc" in result.metrics:
        sentence = (
            "Of two people of whom one is positive, the model gives the positive one the "
            f"higher score {share(result.auc)} of the time; chance is 50%."
        )
        rows.append(Headline("AUC", result.auc, sentence, 0.5))
    if lead is not None and isinstance(fit, Fit):
        at, prevalence = at_threshold(fit, lead.value), prevalence_of(fit.observed)
        t, recall, precision = f"{lead.value:g}", at["recall"], at["precision"]
        named = "" if lead.planned else ", the prevalence"
        sentence = f"Of all positives, {share(recall)} score {t} or more."
        rows.append(Headline(f"Sensitivity at {t}{named}", recall, sentence))
        sentence = (
            f"Of all that score {t} or more, {share(precision)} are positive; chance is "
            f"{prevalence:.1%}."
        )
        rows.append(
            Headline(f"Precision at {t}{named}", precision, sentence, prevalence)
        )
    elif "average_precision" in result.metrics:
        estimate = result.average_precision
        sentence = (
            "Going down the list from the highest score, on average "
            f"{share(estimate)} of those seen so far are positive."
        )
        rows.append(Headline("Average precision", estimate, sentence))
    return rows


def calibration_words(result: Evaluation) -> str:
    """Say how far predictions are off, and what recalibration would change."""
    effect = result.recalibration.effect
    before = (
        "On average a predicted probability is off by "
        f"{100 * effect.ece_before.value:.1f} percentage points"
    )
    if result.recalibration.map.name == "identity":
        return f"{before}; recalibration would not make it better."
    after = 100 * effect.ece_after.value
    return (
        f"{before}; recalibrated from this same release, by {after:.1f} on new examples "
        "of the same kind."
    )


def notes(result: Evaluation) -> tuple[str, ...]:
    """Return refusals, cautions, what one malicious site can do, how sites differ."""
    fit = result.fit
    refusal = () if fit.refusal is None else (f"Undefined: {fit.refusal}.",)
    cautions = dict.fromkeys(e.caution for e in result.metrics.values() if e.caution)
    cautious = (f"Note: {note}." for note in (*fit.notes, *cautions))
    sites = result.heterogeneity.sentences(result)
    return (*refusal, *cautious, *_influence_lines(result), *sites)


def _influence_lines(result: Evaluation) -> list[str]:
    if not result.influence() or result.plan is None:
        return []
    if of_clients(result.plan):
        return [poisoning_line(result)]
    most = result.plan.cohort.max_examples_per_site
    bounds = _by(result.influence())
    return [
        f"One malicious site of at most {most:,} examples can move {bounds}.",
        *(
            f"At {t:g} it can move {_by(result.influence(t))}."
            for t in result.plan.thresholds
        ),
    ]


def poisoning_line(result: Evaluation) -> str:
    """Say what false reports can do."""
    many = math.ceil(FALSE_SHARE * result.source.contributors)
    return (
        f"If {FALSE_SHARE:.0%} of the reports are false ({many:,}), they can move "
        f"{_by(result.influence())}: searched, not proved (docs/phones.md)."
    )


def _by(bounds: Mapping[str, float]) -> str:
    """Write bounds, rounded up."""
    first, *others = (
        f"{title_of(name)} by at most {math.ceil(bound * 1e4 - 1e-9) / 1e4:.4f}"
        for name, bound in bounds.items()
    )
    shorter = [other.replace(" by at most", "") for other in others]
    return ", ".join([first, *shorter])


def exact_sums(plan: Plan | None) -> bool:
    """Whether the sites' sums were released as they are, without noise."""
    return plan is not None and plan.privacy.protects is None


def holds_counts(plan: Plan | None, claim: Claim, *, curves: bool) -> str:
    """Say what whoever receives a report of exact sums gets with it."""
    if not exact_sums(plan):
        return ""
    if claim.setting == "own data":
        if curves:
            return (
                "This file holds exact counts of the rows by score and label: whoever "
                "receives it can read them. A report made with --no-record "
                "(record=False in Python) leaves them out."
            )
        return (
            "The exact counts of the rows are left out of this file, and with them the "
            "curves, from which they could be worked out."
        )
    if curves:
        rows = (
            "for each group or site"
            if plan and plan.statistic.told_apart
            else ("added up over all sites")
        )
        return (
            f"This file holds every number that the sites revealed, {rows}, "
            "exact and without noise: pass it on only to those who may see them. "
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
            promise = _promise(claim, float(epsilon))
        case ApproxDP(epsilon, delta):
            promise = _promise(claim, float(epsilon))
            promise += f", but for a probability of {float(delta):g}"
        case _:
            promise = (
                "The numbers are exact: no noise was added. Whoever knows all the data "
                "but one person's could work that one out"
            )
    lines = [f"{promise}.", claim.trust.value]
    if claim.setting not in ("deployed", "own data"):
        lines.append(
            "This was computed in one place, as a simulation: the promise is what the "
            "same plan would keep between real sites."
        )
    return lines


def _promise(claim: Claim, epsilon: float) -> str:
    unit = "person's part" if claim.unit is None else claim.unit.kind
    return (
        f"Whatever is read from this page, it would have been read almost as likely "
        f"without any one {unit}: the chance differs by a factor of at most "
        f"{math.exp(min(epsilon, 50.0)):,.2f} (epsilon {epsilon:g})"
    )


# -- plain values ------------------------------------------------------------------


def document(result: Evaluation, *, curves: bool = True) -> dict[str, Any]:
    """Return everything as plain values; NaN and infinity become None.

    Without ``curves`` there is nothing from which every bin's count follows: no points
    of curves and no map that was fitted to the bins.
    """
    source, fit = result.source, result.fit
    values: dict[str, Any] = {
        "version": JSON_VERSION,
        "sites": {"contributed": source.contributors, "expected": source.expected},
        "metrics": {name: e.to_dict() for name, e in sorted(result.metrics.items())},
        "refusal": fit.refusal,
        "notes": list(fit.notes),
        "claim": result.claim.to_dict(),
    }
    if result.plan is not None:
        values["plan_digest"] = result.plan.digest().hex()
    if isinstance(fit, ScalarFit):
        return values | {"facts": dict(fit.facts)}
    planned = result.thresholds.planned()
    if bounds := result.influence():
        by_threshold = [
            {"threshold": at.threshold, **result.influence(at.threshold)}
            for at in planned
        ]
        values["influence"] = {**bounds, "thresholds": by_threshold}
    values |= result.heterogeneity.to_dict(sorted(result.metrics))
    values |= {
        "estimator": fit.estimator,
        "interpolation": fit.curves.interpolation,
        "examples": {
            "positives": fit.observed.total_positives,
            "negatives": fit.observed.total_negatives,
            "noisy": not fit.observed.exact,
        },
        "thresholds": [at.to_dict() for at in planned],
        "calibration": _calibration(result, with_map=curves),
    }
    if not curves:
        return values
    fpr, tpr, thresholds = roc_points(fit, inside_bins=False)
    precision, recall, _ = pr_points(fit, inside_bins=False)
    return values | {
        "curve_points": "edges of the bins",
        "roc": {"fpr": _list(fpr), "tpr": _list(tpr), "thresholds": _list(thresholds)},
        "pr": {"precision": _list(precision), "recall": _list(recall)},
    }


def _calibration(result: Evaluation, *, with_map: bool) -> dict[str, Any] | None:
    if not calibratable(result.fit):
        return None
    effect, fitted = result.recalibration.effect, result.recalibration.map
    return {
        "ece": effect.ece_before.to_dict(),
        "ece_after": effect.ece_after.to_dict(),
        **({"map": dict(fitted.to_dict())} if with_map else {}),
        "reason": fitted.reason,
    }


def _list(values: FloatVector) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]
