"""Measures at many thresholds, for a page's threshold slider.

The numbers are those of ``result.at(t)``; no script computes them again. The thresholds
are those of the plan, round numbers where scores are probabilities, and all edges of the
release, or of many edges those that cut the examples into about equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from discreet.estimate.estimate import Binning, Estimate
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.report.views import counted, prevalence_of

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
SHORT: Final[Mapping[str, str]] = {
    "recall": "Sensitivity",
    "specificity": "Specificity",
    "precision": "Precision (PPV)",
    "npv": "NPV",
    "alert_rate": "Alert rate",
    "net_benefit": "Net benefit",
}
"""Headings of columns, and names beside a threshold."""
COUNTS: Final[Mapping[str, str]] = {
    "true_positives": "positive, alarm",
    "false_negatives": "positive, no alarm",
    "false_positives": "negative, alarm",
    "true_negatives": "negative, no alarm",
}
POOLED: Final = "Pooled"
_EVEN: Final = 100
_ALONE: Final = 200
"""Edges of the release that one evaluation's slider stops at, at most."""
_TOGETHER: Final = 60
"""Likewise, of several evaluations: each threshold is measured in all of them."""
_LABELS: Final = 0.085
"""The least distance of two labels below the slider, of its width."""


class Tick(NamedTuple):
    """A mark below the slider."""

    place: float
    """From 0 at the left to 1 at the right."""
    label: str
    planned: bool


def ticks(values: Sequence[float], planned: Collection[float]) -> list[Tick]:
    """Return the marks below a slider that stops at these values, evenly apart.

    What was planned is marked first, then round numbers where there is room.
    """
    last = max(len(values) - 1, 1)
    places = {value: k / last for k, value in enumerate(values)}
    placed: list[Tick] = []
    # The fewer digits, the rounder.
    for value in sorted(places, key=lambda v: (v not in planned, len(f"{v:.6g}"))):
        label, wanted = f"{value:.6g}", value in planned
        if len(label) > 5 and not wanted:
            continue
        if all(abs(places[value] - other.place) > _LABELS for other in placed):
            placed.append(Tick(places[value], label, wanted))
    return sorted(placed)


@dataclass(frozen=True, eq=False)
class Explorer:
    """The measures of some evaluations at many thresholds."""

    parts: Mapping[str, Evaluation]
    gap: Callable[[str, float], Estimate] | None = None
    """How far the parts lie apart in a measure at a threshold, where that has an
    interval; without one the distance of the largest value to the least is shown."""
    pooled: Evaluation | None = None
    """All parts together, where these are groups or sites."""

    @property
    def first(self) -> Evaluation:
        """The evaluation whose plan and scores stand for all."""
        return self.pooled or next(iter(self.parts.values()))

    @cached_property
    def shown_parts(self) -> dict[str, Evaluation]:
        """The parts, and then all of them together."""
        pooled = {} if self.pooled is None else {POOLED: self.pooled}
        return {**self.parts, **pooled}

    @property
    def several(self) -> bool:
        """Whether there are parts to compare, if only one with all together."""
        return len(self.shown_parts) > 1

    @property
    def probabilities(self) -> bool:
        """Whether a threshold is a probability, which net benefit needs."""
        return self.first.observed.edges.scores.kind == "probability"

    @cached_property
    def thresholds(self) -> list[float]:
        """The thresholds, ascending."""
        edges, counts = self.first.observed.edges, counted(self.first.fit).curves
        even = np.arange(1, _EVEN) / _EVEN if self.probabilities else np.zeros(0)
        # Each point of the curve is an edge; the share called positive rises along it.
        above = (counts.true_positives + counts.false_positives)[1:]
        shares = above / max(float(above[-1]), 1e-300)
        most = _TOGETHER if self.several else _ALONE
        places = np.searchsorted(shares, np.arange(1, most) / most)
        known = counts.thresholds[1:]
        if known.size > most:
            known = known[np.minimum(places, shares.size - 1)]
        chosen = np.concatenate([even[4::5] if self.several else even, known])
        inside = chosen[(chosen > edges.scores.low) & (chosen < edges.scores.high)]
        lead = self.first.thresholds.lead()
        wanted = self._planned if lead is None else (*self._planned, lead.value)
        return sorted({float(t) for t in (*inside, *wanted)})

    @property
    def _planned(self) -> tuple[float, ...]:
        plan = self.first.plan
        return () if plan is None else plan.thresholds

    @cached_property
    def start(self) -> int:
        """The threshold that is shown first: the plan's, or one at the prevalence."""
        lead = self.first.thresholds.lead()
        if lead is None:
            return len(self.thresholds) // 2
        return self.thresholds.index(lead.value)

    @cached_property
    def ticks(self) -> list[Tick]:
        """The marks below the slider: the plan's thresholds, then round numbers."""
        return ticks(self.thresholds, self._planned)

    @cached_property
    def measured(self) -> list[list[AtThreshold]]:
        """All measures at each threshold, evaluation by evaluation, then pooled."""
        return [
            [at_threshold(counted(part.fit), t) for t in self.thresholds]
            for part in self.shown_parts.values()
        ]

    @property
    def measures(self) -> list[str]:
        """The measures that these scores define."""
        return [m for m in MEASURES if self.probabilities or m != "net_benefit"]

    def gap_at(self, measure: str, place: int) -> Estimate:
        """Return how far the parts lie apart at one of the thresholds."""
        if self.gap is not None:
            return self.gap(measure, self.thresholds[place])
        measured = self.measured[: len(self.parts)]
        known = [v for at in measured if not math.isnan(v := at[place][measure].value)]
        if len(known) < 2:
            return Estimate.undefined("fewer than two parts have a value")
        width = max(known) - min(known)
        return Estimate(width, None, 0.0, Binning(width, width, 0.0))

    @cached_property
    def gaps(self) -> dict[str, list[list[float | None]]]:
        """Every gap that has an interval, and its ends, at each threshold."""
        if not self.several or self.gap is None:
            return {}
        places = range(len(self.thresholds))
        return {m: [_ends(self.gap_at(m, k)) for k in places] for m in self.measures}

    def data(self) -> dict[str, Any]:
        """Return what the script reads."""
        return {
            "thresholds": self.thresholds,
            "start": self.start,
            "measures": self.measures,
            "compared": len(self.parts),
            "gaps": self.gaps,
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
                    self.shown_parts.items(), self.measured, strict=True
                )
            ],
        }

    def shown(self, measure: str) -> list[Estimate]:
        """Return a measure of each evaluation at the threshold that is shown first."""
        return [measured[self.start][measure] for measured in self.measured]


def _ends(estimate: Estimate) -> list[float | None]:
    return [_plain(v) for v in (estimate.value, *estimate.interval())]


def _plain(value: float) -> float | None:
    """Keep twelve digits: more than any reader can use, and a smaller file."""
    return float(f"{value:.12g}") if math.isfinite(value) else None
