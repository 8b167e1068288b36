"""The pictures of a page, whose points its threshold slider moves.

One evaluation has one picture of each kind. Two models share it, and have their differences
over all thresholds. Groups and classes have small pictures beside each other on the same
axes, with the pooled curve behind each: bands that overlap cannot be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from discreet.report.explorer import MEASURES, SHORT, Explorer
from discreet.report.plot import PlotKind, curve_band, curve_line
from discreet.report.svg import LARGE, SMALL, Frame, Stroke, round_up, treated
from discreet.report.views import calibratable, counted, prevalence_of

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation

_SPAN: Final = np.array([0.0, 1.0])
_DIAGONAL: Final = Stroke(_SPAN, _SPAN, dashed=True)


class Panel(NamedTuple):
    """A picture and the words above it."""

    caption: str
    frame: Frame
    note: str = ""


class Figure(NamedTuple):
    """The pictures of one kind."""

    title: str
    panels: Sequence[Panel]
    note: str = ""


@dataclass(frozen=True, eq=False)
class Figures:
    """The pictures of an explorer's evaluations."""

    explorer: Explorer
    overlaid: bool = False
    """Whether the parts share a picture, as two models do."""

    def every(self) -> list[Figure]:
        """Return the pictures whose points the slider moves, then the calibration."""
        kinds = [("ROC curve", self._roc), ("Precision and recall", self._pr)]
        if self.explorer.probabilities:
            kinds.append(("Decision curve", self._decision))
        if calibratable(self.explorer.first.fit):
            kinds.append(("Calibration", self._calibration))
        names = list(self.explorer.parts)
        if self.overlaid or not self.explorer.several:
            every = list(range(len(names)))
            figures = [Figure(t, [Panel(t, draw(every))]) for t, draw in kinds]
        else:
            figures = [
                Figure(
                    title,
                    [
                        Panel(name, draw([k]), self._note(title, name))
                        for k, name in enumerate(names)
                    ],
                )
                for title, draw in kinds
            ]
        return [*figures, *self._differences()] if self.overlaid else figures

    def _note(self, title: str, name: str) -> str:
        if title != "Calibration" or not calibratable(self.explorer.parts[name].fit):
            return ""
        effect = self.explorer.parts[name].recalibration.effect
        off, after = (100 * e.value for e in (effect.ece_before, effect.ece_after))
        better = f", {after:.1f} if recalibrated" if after < off else ""
        return f"Off by {off:.1f} percentage points{better}."

    def _part(self, k: int) -> Evaluation:
        return list(self.explorer.shown_parts.values())[k]

    def _named(self, kind: str, shown: Sequence[int]) -> dict[str, Any]:
        """Return a frame's name, what its markers follow, and its size."""
        if self.explorer.several and not self.overlaid:
            return {"name": f"{kind}-{shown[0]}", "kind": kind, "side": SMALL}
        return {"name": kind, "kind": kind, "side": LARGE}

    def _title(self, title: str, shown: Sequence[int]) -> str:
        alone = self.explorer.several and not self.overlaid
        return f"{title}, {list(self.explorer.parts)[shown[0]]}" if alone else title

    def _markers(
        self, shown: Sequence[int], x: str, y: str
    ) -> list[tuple[int, float, float]]:
        across, up = self.explorer.shown(x), self.explorer.shown(y)
        return [(k, across[k].value, up[k].value) for k in shown]

    def _lines(self, kind: PlotKind, shown: Sequence[int]) -> list[Stroke]:
        """Return the pooled curve, the bands, then the curves, of one kind."""
        behind = []
        if self.explorer.pooled is not None:
            together = curve_line(self.explorer.pooled, kind)
            behind = [Stroke(together.x, together.y, quiet=True)]
        return behind + [
            Stroke(line.x, line.y, color, upper=line.upper)
            for described in (curve_band, curve_line)
            for color, k in enumerate(shown)
            if (line := described(self._part(k), kind)) is not None
        ]

    def _roc(self, shown: Sequence[int]) -> Frame:
        small = self.explorer.several and not self.overlaid
        return Frame(
            title=self._title("ROC curve", shown),
            description="True positive rate against false positive rate, with a 95% "
            "band; dashed: chance. The point is the threshold that is shown.",
            x_label="false positive rate",
            y_label="sensitivity" if small else "true positive rate (sensitivity)",
            strokes=[_DIAGONAL, *self._lines("roc", shown)],
            markers=[
                (k, 1 - x, y)
                for k, x, y in self._markers(shown, "specificity", "recall")
            ],
            **self._named("roc", shown),
        )

    def _pr(self, shown: Sequence[int]) -> Frame:
        shares = [prevalence_of(self._part(k).observed) for k in shown]
        chance = [Stroke(_SPAN, np.array([s, s]), dashed=True) for s in shares]
        return Frame(
            title=self._title("Precision and recall", shown),
            description="Precision against recall, with a 95% band; dashed: the "
            "prevalence, which is the precision of chance.",
            x_label="recall (sensitivity)",
            y_label="precision",
            strokes=[*chance, *self._lines("pr", shown)],
            markers=self._markers(shown, "recall", "precision"),
            **self._named("pr", shown),
        )

    @cached_property
    def _worth(self) -> tuple[float, float]:
        """How far the axes of net benefit reach: the last threshold, and the best value.

        No model's net benefit exceeds the prevalence, so its axis ends there, however
        wide the band is. Thresholds end where almost nobody is above them.
        """
        shares = [prevalence_of(part.observed) for part in self.explorer.parts.values()]
        best = max((s for s in shares if s > 0), default=1.0)
        most = 0.0
        for measured in self.explorer.measured[: len(self.explorer.parts)]:
            for t, at in zip(self.explorer.thresholds, measured, strict=True):
                some = at["alert_rate"].value > 0.02 * best
                if some and at["net_benefit"].value > 0.01 * best:
                    most = max(most, t)
        return round_up(max(most, 1.5 * best, 0.01)) if best < 0.5 else 1.0, best

    def _decision(self, shown: Sequence[int]) -> Frame:
        # Between two edges the counts are interpolated, and the band scallops.
        edges = set(counted(self.explorer.first.fit).curves.thresholds.tolist())
        last, best = self._worth
        last = min(last, 1.0)
        drawn = [k for k, t in enumerate(self.explorer.thresholds) if t in edges]
        t = np.array(self.explorer.thresholds)[drawn]
        low, high = -0.22 * best, 1.08 * best
        shares = [prevalence_of(self._part(k).observed) for k in shown]
        fine = np.linspace(0.0, min(last, 0.999), 200)
        all_of = shares[0] - (1 - shares[0]) * fine / (1 - fine)
        strokes = [
            Stroke(fine, all_of, dashed=True),
            Stroke(_SPAN, np.zeros(2), dashed=True),
        ]
        for color, k in enumerate(shown):
            there = [self.explorer.measured[k][place]["net_benefit"] for place in drawn]
            ends = [(e.value, *e.interval()) for e in there]
            value, least, most = np.array(ends).reshape(-1, 3).T
            known = np.isfinite(value)
            strokes.append(Stroke(t[known], least[known], color, upper=most[known]))
            strokes.append(Stroke(t[known], value[known], color))
        return Frame(
            title=self._title("Decision curve", shown),
            description="Net benefit against the threshold, with a 95% band; dashed: an "
            "alarm for everybody (treat all), and for nobody (treat none).",
            x_label="threshold",
            y_label="net benefit",
            strokes=strokes,
            labels=treated(fine, all_of, low, last),
            x_range=(0.0, last),
            y_range=(low, high),
            markers=[
                (
                    k,
                    self.explorer.thresholds[self.explorer.start],
                    self.explorer.shown("net_benefit")[k].value,
                )
                for k in shown
            ],
            **self._named("decision", shown),
        )

    @cached_property
    def _predicted(self) -> float:
        """How far the axes of the calibration curves reach."""
        highest = max(
            float(np.max(np.append(curve.predicted, curve.rate), initial=0.01))
            for part in self.explorer.parts.values()
            for curve in [part.calibration]
        )
        return 1.0 if highest > 0.6 else round_up(highest)

    def _calibration(self, shown: Sequence[int]) -> Frame:
        strokes = [_DIAGONAL]
        if self.explorer.pooled is not None:
            behind = self.explorer.pooled.calibration
            strokes.append(Stroke(behind.predicted, behind.rate, quiet=True))
        curves = [self._part(k).calibration for k in shown]
        recalibrated = (
            None if self.explorer.several else self.explorer.first.recalibration.after
        )
        for color, curve in enumerate(curves):
            band = Stroke(curve.predicted, curve.low, color, upper=curve.high)
            strokes.append(band)
        if recalibrated is not None:
            curves.append(recalibrated)
        for color, curve in enumerate(curves):
            strokes.append(Stroke(curve.predicted, curve.rate, color))
            strokes.append(Stroke(curve.predicted, curve.rate, color, points=True))
        return Frame(
            title=self._title("Calibration", shown),
            description="Share of positives against the predicted probability; dashed: "
            "as predicted.",
            x_label="predicted probability",
            y_label="share of positives",
            strokes=strokes,
            x_range=(0.0, self._predicted),
            y_range=(0.0, self._predicted),
            **self._named("calibration", shown),
        )

    def _differences(self) -> list[Figure]:
        """Return the first model less the second in each measure, over all thresholds."""
        edges = set(counted(self.explorer.first.fit).curves.thresholds.tolist())
        places = [k for k, t in enumerate(self.explorer.thresholds) if t in edges]
        t = np.array(self.explorer.thresholds)[places]
        names = " less ".join(self.explorer.parts)
        span = (
            (0.0, 1.0) if self.explorer.probabilities else (float(t[0]), float(t[-1]))
        )
        panels = []
        for measure in self.explorer.measures:
            ends = [
                [_number(v) for v in self.explorer.gaps[measure][k]] for k in places
            ]
            value, low, high = np.array(ends).reshape(-1, 3).T
            known = np.isfinite(value + low + high)
            width = np.median(high[known] - low[known]) if known.any() else 0.1
            # Where almost nobody is above a threshold, differences grow without bound.
            size = np.abs(value[known]) if known.any() else np.zeros(1)
            usual = min(np.quantile(size, 0.9), 4 * np.median(size))
            reach = 1.3 * max(float(usual), float(width), 0.005)
            panels.append(
                Panel(
                    SHORT[measure],
                    Frame(
                        name=f"difference-{measure}",
                        kind=f"difference {measure}",
                        title=f"{MEASURES[measure]}: {names}",
                        description=f"{names} at every threshold, with a 95% band; "
                        "dashed: no difference.",
                        x_label="threshold",
                        y_label="difference",
                        strokes=[
                            Stroke(np.array(span), np.zeros(2), dashed=True),
                            Stroke(t[known], low[known], upper=high[known]),
                            Stroke(t[known], value[known]),
                        ],
                        x_range=span,
                        y_range=(-min(reach, 1.0), min(reach, 1.0)),
                        markers=[
                            (
                                0,
                                self.explorer.thresholds[self.explorer.start],
                                self.explorer.gap_at(
                                    measure, self.explorer.start
                                ).value,
                            )
                        ],
                        side=SMALL,
                    ),
                )
            )
        first = next(iter(self.explorer.parts))
        note = f"Above the dashed line of no difference, {first} has the higher value."
        return [Figure(f"Difference at each threshold: {names}", panels, note)]


def _number(value: float | None) -> float:
    return math.nan if value is None else value
