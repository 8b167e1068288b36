r"""Curves over all thresholds beside ROC, PR and DET: one row each, ready to be drawn.

- *decision curve* (Vickers and Elkin 2006): net benefit at each threshold probability, of
  the model, of treating all and of treating none;
- *cost curve* (Drummond and Holte 2006): the least normalised expected cost
  :math:`(1-T)c + F(1-c)` over thresholds at each share c of the cost that misses carry;
- *gains* and *lift*: which share of positives is among the highest scores, and how many
  times more than among all;
- *PR gain* (Flach and Kull 2015); *predictiveness curve* (Pepe et al. 2008): the score
  below which a share of the examples lies, and the smooth observed rate there;
- *risk distribution*: how scores are spread in either class.

ValueLimits are 95%, sampling and noise, at each point by itself: not of a curve as a whole,
and not of the place of a best threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.fit import Fit
from discreet.metrics.logistic import SmoothCurve
from discreet.metrics.measure import Placed
from discreet.metrics.table import MetricRow
from discreet.metrics.thresholds import at_threshold, confusion_noise, confusions
from discreet.registry import Registry

_POINTS: Final = 50
_GROUPS: Final = 20
_Z: Final = 1.959963984540054


@dataclass(frozen=True, eq=False)
class MeasureCurve:
    """A curve with its limits, and others to compare it with at the same places."""

    title: str
    x_title: str
    y_title: str
    x: FloatVector
    y: FloatVector
    low: FloatVector | None = None
    high: FloatVector | None = None
    references: Mapping[str, FloatVector] = field(default_factory=dict)
    """Other curves over the same x, by what they are called."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is not finite becomes null."""
        columns = {"x": self.x, "y": self.y, "low": self.low, "high": self.high}
        points = {k: _plain(v) for k, v in columns.items() if v is not None}
        others = {name: _plain(v) for name, v in self.references.items()}
        titles = {"title": self.title, "x_title": self.x_title, "y_title": self.y_title}
        return {**titles, **points, "references": others}


Draw: TypeAlias = Callable[[Fit], MeasureCurve]


def decision_curve(fit: Fit, thresholds: FloatVector | None = None) -> MeasureCurve:
    """Return net benefit at threshold probabilities, 0.02 to 0.98 by default."""
    x = np.linspace(0.02, 0.98, _POINTS - 1) if thresholds is None else thresholds
    if not ((x > 0) & (x < 1)).all():
        raise InputError("thresholds of a decision curve lie strictly between 0 and 1")
    logits = fit.observed.edges.scores.kind == "logit"
    places = np.log(x / (1 - x)) if logits else x
    at_each = [at_threshold(fit, float(t)) for t in places]
    low, high = np.array([at.net_benefit.interval() for at in at_each]).T
    return MeasureCurve(
        "Decision curve",
        "threshold probability",
        "net benefit",
        x,
        np.array([at.net_benefit.value for at in at_each]),
        low,
        high,
        {
            "treat all": np.array([at.net_benefit_all.value for at in at_each]),
            "treat none": np.zeros_like(x),
        },
    )


def _some(fit: Fit) -> FloatVector:
    """Return thresholds at which even shares of the examples are called positive."""
    tp, _, fp, _ = confusions(fit.counts).T
    called = (tp + fp) / max(float((tp + fp)[-1]), 1e-300)
    wanted = np.arange(1, _POINTS + 1) / _POINTS
    above = np.unique(np.searchsorted(called, wanted - 1e-12).clip(1, tp.size - 1))
    values = fit.observed.edges.array
    lowest = values[:-1][::-1][above - 1]
    return np.where(np.isfinite(lowest), lowest, -np.inf)


def _gains(fit: Fit, name: str, title: str) -> MeasureCurve:
    at_each = [at_threshold(fit, float(t)) for t in _some(fit)]
    low, high = np.array([at[name].interval() for at in at_each]).T
    x = np.array([at.alert_rate.value for at in at_each])
    chance = x if name == "recall" else np.ones_like(x)
    return MeasureCurve(
        title,
        "share called positive, highest scores first",
        "share of positives found" if name == "recall" else "lift",
        x,
        np.array([at[name].value for at in at_each]),
        low,
        high,
        {"at random": chance},
    )


def _cost_curve(fit: Fit) -> MeasureCurve:
    tp, _, fp, _ = confusions(fit.counts).T
    p, n = tp[-1], fp[-1]
    t, f = tp / p, fp / n
    x = np.linspace(0, 1, _POINTS + 1)
    costs = np.outer(x, 1 - t) + np.outer(1 - x, f)
    best = costs.argmin(axis=1)
    y = costs[np.arange(x.size), best]
    variance = x**2 * t[best] * (1 - t[best]) / p
    variance += (1 - x) ** 2 * f[best] * (1 - f[best]) / n
    on = np.array(
        [
            *(-x * (1 - t[best]) / p, x * t[best] / p),
            *((1 - x) * (1 - f[best]) / n, -(1 - x) * f[best] / n),
        ]
    )
    noise = [confusion_noise(fit.observed, int(k)) for k in best]
    variance += np.einsum("ik,kij,jk->k", on, noise, on)
    reach = _Z * np.sqrt(np.maximum(variance, 0.0))
    return MeasureCurve(
        "Cost curve",
        "share of the cost that misses carry",
        "least normalised expected cost",
        x,
        y,
        np.maximum(y - reach, 0.0),
        np.minimum(y + reach, 1.0),
        {"all or none": np.minimum(x, 1 - x)},
    )


def _pr_gain(fit: Fit) -> MeasureCurve:
    tp, _, fp, _ = confusions(fit.counts).T
    odds = tp[-1] / fp[-1]
    kept = tp >= tp[-1] * tp[-1] / (tp[-1] + fp[-1])
    tp, fp = tp[kept], fp[kept]
    return MeasureCurve(
        "Precision and recall gain",
        "recall gain",
        "precision gain",
        1 - odds * (tp[-1] - tp) / tp,
        1 - odds * fp / tp,
        references={"always positive": np.zeros(tp.size)},
    )


def _predictiveness(fit: Fit) -> MeasureCurve:
    curve = SmoothCurve.of(fit.bins)
    order = np.argsort(curve.scores, kind="stable")
    running = np.cumsum(curve.weights[order])
    x = (np.arange(_POINTS * 2) + 0.5) / (_POINTS * 2)
    places = np.minimum(np.searchsorted(running, x), order.size - 1)
    y = curve.scores[order][places]
    return MeasureCurve(
        "Predictiveness curve",
        "share of examples with a lower score",
        "predicted risk",
        x,
        y,
        references={"observed, smooth": curve.rates(y)},
    )


def _distribution(fit: Fit) -> MeasureCurve:
    at = Placed.of(fit.bins)
    ends = np.linspace(0, 1, _GROUPS + 1)
    shares = [
        np.histogram(scores, ends, weights=mass)[0] / max(float(mass.sum()), 1e-300)
        for scores, mass in zip(
            (at.of_negatives, at.of_positives), at.masses, strict=True
        )
    ]
    return MeasureCurve(
        "Risk distribution",
        "score",
        "share of a class in each twentieth",
        (ends[:-1] + ends[1:]) / 2,
        shares[1],
        references={"negatives": shares[0]},
    )


# fmt: off
_ROWS: Final[tuple[MetricRow[Draw], ...]] = (
    MetricRow("decision", "Decision curve", decision_curve, "higher",
        source="Vickers and Elkin 2006; dcurves", needs_probabilities=True),
    MetricRow("cost", "Cost curve", _cost_curve, "lower",
        source="Drummond and Holte 2006"),
    MetricRow("gains", "Cumulative gains",
        lambda fit: _gains(fit, "recall", "Cumulative gains"), "higher",
        source="scikit-plot"),
    MetricRow("lift", "Lift", lambda fit: _gains(fit, "lift", "Lift"), "higher",
        source="scikit-plot"),
    MetricRow("pr_gain", "Precision and recall gain", _pr_gain, "higher",
        source="Flach and Kull 2015"),
    MetricRow("predictiveness", "Predictiveness curve", _predictiveness,
        source="Pepe et al. 2008", needs_probabilities=True),
    MetricRow("risk_distribution", "Risk distribution", _distribution,
        source="Van Calster et al. 2025", needs_probabilities=True),
)
# fmt: on
CURVES: Final[Registry[MetricRow[Draw]]] = Registry("curve")
"""Every curve over thresholds beside ROC, PR and DET."""
for _row in _ROWS:
    CURVES.add(_row.name, _row)


def _plain(values: FloatVector) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]
