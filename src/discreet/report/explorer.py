"""Measures at many thresholds and their pictures, for a page's threshold slider.

The numbers are those of ``result.at(t)``; no script computes them again. The thresholds
are those of the plan, round numbers where scores are probabilities, and all edges of the
release, or of many edges those that cut the examples into about equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.estimate.estimate import Binning, Estimate
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.report.plot import PlotKind, curve_band, curve_line
from discreet.report.svg import Frame, Stroke
from discreet.report.views import calibratable, counted, prevalence_of

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation

MEASURES: Final[Mapping[str, str]] = {
    "recall": "Sensitivity (recall)",
    "specificity": "Specificity",
    "precision": "Positive predictive value (precision)",
    "npv": "Negative predictive value",
    "alert_rate": "Alert rate",
    "net_benefit": "Net benefit",
}
COUNTS: Final[Mapping[str, str]] = {
    "true_positives": "positive, alarm",
    "false_negatives": "positive, no alarm",
    "false_positives": "negative, alarm",
    "true_negatives": "negative, no alarm",
}
_EVEN: Final = 100
_ALONE: Final = 200
"""Edges of the release that one evaluation's slider stops at, at most."""
_TOGETHER: Final = 60
"""Likewise, of several evaluations: each threshold is measured in all of them."""
_DIAGONAL: Final = Stroke(np.array([0.0, 1.0]), np.array([0.0, 1.0]), dashed=True)


@dataclass(frozen=True, eq=False)
class Explorer:
    """The measures of some evaluations at many thresholds."""

    parts: Mapping[str, Evaluation]
    gap: Callable[[str, float], Estimate] | None = None
    """How far the parts lie apart in a measure at a threshold, where that has an
    interval; without one the distance of the largest value to the least is shown."""

    @property
    def first(self) -> Evaluation:
        """The evaluation whose plan and scores stand for all."""
        return next(iter(self.parts.values()))

    @property
    def probabilities(self) -> bool:
        """Whether a threshold is a probability, which net benefit needs."""
        return self.first.observed.edges.scores.kind == "probability"

    @cached_property
    def thresholds(self) -> list[float]:
        """The thresholds, ascending."""
        plan = self.first.plan
        planned = () if plan is None else plan.thresholds
        edges, counts = self.first.observed.edges, counted(self.first.fit).curves
        even = np.arange(1, _EVEN) / _EVEN if self.probabilities else np.zeros(0)
        # Each point of the curve is an edge; the share called positive rises along it.
        above = (counts.true_positives + counts.false_positives)[1:]
        shares = above / max(float(above[-1]), 1e-300)
        several = len(self.parts) > 1
        most = _TOGETHER if several else _ALONE
        places = np.searchsorted(shares, np.arange(1, most) / most)
        known = counts.thresholds[1:]
        if known.size > most:
            known = known[np.minimum(places, shares.size - 1)]
        chosen = np.concatenate([even[4::5] if several else even, known])
        inside = chosen[(chosen > edges.scores.low) & (chosen < edges.scores.high)]
        return sorted({float(t) for t in (*inside, *planned)})

    @cached_property
    def start(self) -> int:
        """The threshold that is shown first: the plan's, or the one nearest to 1/2."""
        plan = self.first.plan
        aim = plan.thresholds[0] if plan is not None and plan.thresholds else 0.5
        return int(np.argmin(np.abs(np.array(self.thresholds) - aim)))

    @cached_property
    def measured(self) -> list[list[AtThreshold]]:
        """All measures at each threshold, evaluation by evaluation."""
        return [
            [at_threshold(counted(part.fit), t) for t in self.thresholds]
            for part in self.parts.values()
        ]

    @property
    def measures(self) -> list[str]:
        """The measures that these scores define."""
        return [m for m in MEASURES if self.probabilities or m != "net_benefit"]

    def gap_at(self, measure: str, place: int) -> Estimate:
        """Return how far the parts lie apart at one of the thresholds."""
        if self.gap is not None:
            return self.gap(measure, self.thresholds[place])
        known = [
            v for at in self.measured if not math.isnan(v := at[place][measure].value)
        ]
        if len(known) < 2:
            return Estimate.undefined("fewer than two parts have a value")
        width = max(known) - min(known)
        return Estimate(width, None, 0.0, Binning(width, width, 0.0))

    def data(self) -> dict[str, Any]:
        """Return what the script reads."""
        return {
            "thresholds": self.thresholds,
            "start": self.start,
            "measures": self.measures,
            "gaps": {
                m: [_ends(self.gap_at(m, k)) for k in range(len(self.thresholds))]
                for m in (self.measures if len(self.parts) > 1 and self.gap else ())
            },
            "parts": [
                {
                    "name": name,
                    "prevalence": _plain(prevalence_of(part.observed)),
                    **{
                        m: [_ends(at[m]) for at in measured]
                        for m in (*self.measures, *COUNTS)
                    },
                }
                for (name, part), measured in zip(
                    self.parts.items(), self.measured, strict=True
                )
            ],
        }

    def frames(self) -> list[Frame]:
        """Return the pictures whose points the slider moves, then the calibration."""
        frames = [self._roc(), self._pr()]
        if self.probabilities:
            frames.append(self._decision())
        if calibratable(self.first.fit):
            frames.append(self._calibration())
        return frames

    def shown(self, measure: str) -> list[Estimate]:
        """Return a measure of each evaluation at the threshold that is shown first."""
        return [measured[self.start][measure] for measured in self.measured]

    def _markers(self, x: str, y: str) -> list[tuple[float, float]]:
        places = zip(self.shown(x), self.shown(y), strict=True)
        return [(one.value, other.value) for one, other in places]

    def _lines(self, kind: PlotKind) -> list[Stroke]:
        """Return the bands, then the curves, of one kind."""
        return [
            Stroke(line.x, line.y, k, upper=line.upper)
            for described in (curve_band, curve_line)
            for k, part in enumerate(self.parts.values())
            if (line := described(part, kind)) is not None
        ]

    def _roc(self) -> Frame:
        return Frame(
            "roc",
            "ROC curve",
            "True positive rate against false positive rate, with a 95% band; dashed: "
            "chance. The point is the threshold that is shown.",
            "false positive rate",
            "true positive rate (sensitivity)",
            [_DIAGONAL, *self._lines("roc")],
            markers=[(1 - x, y) for x, y in self._markers("specificity", "recall")],
        )

    def _pr(self) -> Frame:
        shares = [prevalence_of(part.observed) for part in self.parts.values()]
        span = np.array([0.0, 1.0])
        quiet = [Stroke(span, np.array([s, s]), dashed=True) for s in shares]
        return Frame(
            "pr",
            "Precision and recall",
            "Precision against recall, with a 95% band; dashed: the prevalence, which "
            "is the precision of chance.",
            "recall (sensitivity)",
            "precision",
            [*quiet, *self._lines("pr")],
            markers=self._markers("recall", "precision"),
        )

    def _decision(self) -> Frame:
        # Between two edges the counts are interpolated, and the band scallops.
        edges = set(counted(self.first.fit).curves.thresholds.tolist())
        drawn = [k for k, t in enumerate(self.thresholds) if t in edges]
        t = np.array(self.thresholds)[drawn]
        share = prevalence_of(self.first.observed)
        strokes = [
            Stroke(t, share - (1 - share) * t / (1 - t), dashed=True),
            Stroke(t, np.zeros_like(t), dashed=True),
        ]
        best = share
        for k, measured in enumerate(self.measured):
            there = [measured[place]["net_benefit"] for place in drawn]
            ends = [(e.value, *e.interval()) for e in there]
            value, low, high = np.array(ends).reshape(-1, 3).T
            known = np.isfinite(value)
            strokes.append(Stroke(t[known], low[known], k, upper=high[known]))
            strokes.append(Stroke(t[known], value[known], k))
            best = max(best, float(np.nanmax(high)) if known.any() else best)
        return Frame(
            "decision",
            "Decision curve",
            "Net benefit against the threshold, with a 95% band; dashed: an alarm for "
            "everybody, and for nobody.",
            "threshold",
            "net benefit",
            strokes,
            y_range=(-0.15 * best, 1.05 * best),
            markers=[
                (self.thresholds[self.start], e.value)
                for e in self.shown("net_benefit")
            ],
        )

    def _calibration(self) -> Frame:
        strokes = [_DIAGONAL]
        curves = [part.calibration for part in self.parts.values()]
        if len(curves) == 1 and (after := self.first.recalibration.after) is not None:
            curves.append(after)
        for k, curve in enumerate(curves):
            if k == 0 or len(self.parts) > 1:  # one band: that of the scores
                strokes.append(Stroke(curve.predicted, curve.low, k, upper=curve.high))
            strokes.append(Stroke(curve.predicted, curve.rate, k))
            strokes.append(Stroke(curve.predicted, curve.rate, k, points=True))
        return Frame(
            "calibration",
            "Calibration",
            "Share of positives against the predicted probability; dashed: as "
            "predicted.",
            "predicted probability",
            "share of positives",
            strokes,
        )


def _ends(estimate: Estimate) -> list[float | None]:
    return [_plain(v) for v in (estimate.value, *estimate.interval())]


def _plain(value: float) -> float | None:
    """Keep twelve digits: more than any reader can use, and a smaller file."""
    return float(f"{value:.12g}") if math.isfinite(value) else None
