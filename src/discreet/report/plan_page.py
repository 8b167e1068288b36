"""A planner's page: what would be known, against epsilon, examples, prevalence and sites.

One thing is varied at a time around the plan that was asked for, and each variation is
predicted as ``discreet plan`` predicts it: from public facts, with simulated
populations. Where the prediction says "do not run", the picture is shaded and the
table says why. The page computes nothing: its sliders look predictions up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from discreet.errors import DiscreetError
from discreet.plan.plan import Plan, recommend
from discreet.report.page import page_parts, render_template, script_json
from discreet.report.prediction import predict
from discreet.report.svg import Frame, Stroke

_Z: Final = 1.96
_FACTORS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
_PREVALENCES: Final = (0.01, 0.03, 0.1, 0.3, 0.5)
_SITES: Final = (2.0, 5.0, 20.0)
REPETITIONS: Final = 6
"""Fewer than for a plan's own prediction: a picture's curve, good to a fifth."""


@dataclass(frozen=True)
class Sweep:
    """One thing that is varied: its name, its values and what is planned for each."""

    name: str
    title: str
    values: Sequence[float]
    wanted: float
    """The value of the plan itself."""
    plan: Callable[[float], Plan]

    @property
    def start(self) -> int:
        """The place of the value that is nearest to the plan's."""
        return int(np.argmin([abs(value - self.wanted) for value in self.values]))


@dataclass(frozen=True)
class Predicted:
    """One point of a sweep: halves of 95% intervals, NaN where there is no result."""

    value: float
    refusal: str | None
    auc: float = math.nan
    noise: float = math.nan
    """What noise alone gives of the AUC's."""
    sampling: float = math.nan
    precision: float = math.nan
    """Average precision's."""


def predicted(
    sweep: Sweep, *, sites: int | None, auc: float, repetitions: int
) -> list[Predicted]:
    """Predict every variation; one that cannot be planned says why."""
    points = []
    for value in sweep.values:
        many = int(value) if sweep.name == "sites" else sites
        try:
            expected = predict(
                sweep.plan(value), sites=many, auc=auc, repetitions=repetitions
            )
        except DiscreetError as err:
            points.append(Predicted(value, str(err)))
            continue
        area = expected.auc
        errors = (
            area.total,
            area.noise,
            area.sampling,
            expected.average_precision.total,
        )
        halves = (_Z * error for error in errors)
        points.append(Predicted(value, expected.refusal, *halves))
    return points


def plan_page(
    plan: Plan,
    *,
    sites: int | None = None,
    auc: float,
    repetitions: int = REPETITIONS,
) -> str:
    """Return the page of a plan as HTML."""
    shown = []
    for sweep in sweeps(plan, sites):
        points = predicted(sweep, sites=sites, auc=auc, repetitions=repetitions)
        shown.append(
            {
                "name": sweep.name,
                "title": sweep.title,
                "start": sweep.start,
                "last": len(sweep.values) - 1,
                "svg": _frame(sweep, points).svg(),
                "rows": [_row(point) for point in points],
            }
        )
    return render_template(
        "plan.html.j2",
        title=plan.model.name or "A plan",
        facts=_facts(plan, sites),
        auc=f"{auc:g}",
        sweeps=shown,
        data=script_json({s["name"]: s["rows"] for s in shown}),
        **page_parts("plan.js"),
    )


def sweeps(plan: Plan, sites: int | None) -> list[Sweep]:
    """Return what can be varied around a plan, each with the plan's own value."""
    facts, model, cohort = plan.facts, plan.privacy, plan.cohort
    examples, share = facts.examples or 10_000, facts.prevalence or 0.5
    known = float(sites or cohort.min_survivors)

    def again(**changed: Any) -> Plan:
        terms = {"facts": facts, "privacy": model, "cohort": cohort, **changed}
        return recommend(**terms, thresholds=plan.thresholds)

    varied = [
        Sweep(
            "examples",
            "examples in all",
            [float(round(examples * k)) for k in _FACTORS],
            float(examples),
            lambda n: again(facts=replace(facts, examples=int(n))),
        ),
        Sweep(
            "prevalence",
            "prevalence",
            sorted({*_PREVALENCES, share}),
            share,
            lambda p: again(facts=replace(facts, prevalence=p)),
        ),
        Sweep(
            "sites",
            "sites",
            sorted({*_SITES, known}),
            known,
            lambda n: again(cohort=model.cohort(int(n))),
        ),
    ]
    if model.budget is None or not hasattr(model, "epsilon"):
        return varied
    epsilon = float(model.budget)
    budgets = Sweep(
        "epsilon",
        "epsilon",
        [float(f"{epsilon * k:.3g}") for k in _FACTORS],
        epsilon,
        lambda e: again(privacy=replace(model, epsilon=f"{e:g}")),  # type: ignore[type-var]
    )
    return [budgets, *varied]


def _facts(plan: Plan, sites: int | None) -> dict[str, str]:
    facts = {"Privacy": f"{plan.privacy.name}, {plan.privacy.loss}"}
    if plan.facts.examples is not None:
        facts["Examples"] = f"{plan.facts.examples:,}"
    if plan.facts.prevalence is not None:
        facts["Prevalence"] = f"{plan.facts.prevalence:g}"
    if sites is not None:
        facts["Sites"] = f"{sites}"
    if (alone := plan.lone_examples()) is not None:
        facts["Without noise"] = str(alone)
    return facts | {"Plan": f"sha256:{plan.digest().hex()}"}


def _row(point: Predicted) -> dict[str, Any]:
    def size(value: float) -> str:
        return "no result" if math.isnan(value) else f"± {value:.4f}"

    return {
        "value": f"{point.value:,.6g}",
        "auc": size(point.auc),
        "precision": size(point.precision),
        "sampling": size(point.sampling),
        "noise": size(point.noise),
        "refusal": point.refusal or "",
    }


def _frame(sweep: Sweep, points: Sequence[Predicted]) -> Frame:
    """Draw the half widths; shade where the plan should not be run."""
    places = np.arange(len(points), dtype=np.float64)
    series = {
        "total": np.array([p.auc for p in points]),
        "noise": np.array([p.noise for p in points]),
        "sampling": np.array([p.sampling for p in points]),
    }
    known = np.isfinite(series["total"])
    top = 1.1 * float(np.max(series["total"][known])) if known.any() else 1.0
    top = min(max(top, 1e-3), 0.5)
    strokes = []
    for k, point in enumerate(points):
        if point.refusal is not None:
            x = np.array([max(k - 0.5, 0.0), min(k + 0.5, places[-1])])
            strokes.append(Stroke(x, np.zeros(2), 5, upper=np.full(2, top)))
    for color, values in enumerate(series.values()):
        strokes.append(Stroke(places[known], values[known], color))
    k = sweep.start
    return Frame(
        f"sweep-{sweep.name}",
        f"Predicted error against {sweep.title}",
        f"Half the 95% interval of the AUC against {sweep.title}: in all, from noise, "
        "from sampling; shaded: do not run.",
        sweep.title,
        "half of the AUC's 95% interval",
        strokes,
        x_range=(0.0, float(max(len(points) - 1, 1))),
        y_range=(0.0, top),
        x_ticks=[(float(i), f"{p.value:,.6g}") for i, p in enumerate(points)],
        markers=[(0, float(k), float(series["total"][k]))],
    )
