"""An evaluation as text, as plain values and as a part of a page: written once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.fit import Fit, ScalarFit
from discreet.metrics.rates import RATES
from discreet.metrics.scikit_points import pr_points, roc_points
from discreet.metrics.table import METRICS
from discreet.report.heterogeneity import cluster_sentences
from discreet.report.text import metric_table, number, rate_line, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from discreet.report.evaluation import Evaluation

JSON_VERSION: Final = 1


def text(result: Evaluation, *, wide: bool = False) -> str:
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
    return (*lines, *notes(result))


def notes(result: Evaluation) -> tuple[str, ...]:
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


def pictures(result: Evaluation) -> dict[str, Figure]:
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
