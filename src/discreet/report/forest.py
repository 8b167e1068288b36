"""A forest table: one row per site or group, the pooled row, and what a new site can expect.

The prediction interval is that of :class:`discreet.metrics.heterogeneity.RandomEffects`,
over the effects that ``heterogeneity=`` adds up (:mod:`discreet.metrics.site_effects`).
Where rows carry noise, or a metric has no such effect, a site's effect is its estimate on
the logit scale, or as it is where the metric is no share, and its variance holds sampling
and noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.errors import InputError
from discreet.estimate.estimate import UNIT, Estimate
from discreet.estimate.fit import Fit
from discreet.metrics.heterogeneity import AnchoredSums, RandomEffects
from discreet.metrics.table import METRICS, RATES
from discreet.optional import load
from discreet.report.heterogeneity import inverse
from discreet.report.plot import PALETTE, Display, display
from discreet.report.text import title_of
from discreet.report.views import measured_at
from discreet.statistic.effect_terms import SITE_EFFECTS, Effect, EffectTerms, Link
from discreet.statistic.protocol import BinCounts
from discreet.vocabulary import SYNONYMS, did_you_mean, metric_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.evaluation import Evaluation

_EFFECTS: Final = {
    "auc": "auc",
    "observed_expected": "log_oe",
    "calibration_slope": "calibration_slope",
    "calibration_in_the_large": "calibration_intercept",
    "recall": "recall",
    "specificity": "specificity",
    "net_benefit": "net_benefit",
}
"""Measures whose effect at a site is registered, and its name."""
_ANCHOR: Final = 0.1
"""Of other measures: the variance between sites that is usual on a logit scale."""


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of a forest plot: a value and the ends of its interval, NaN if undefined."""

    name: str
    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, name: str, estimate: Estimate, level: float = 0.95) -> ForestRow:
        """Return an estimate as a row."""
        return cls(name, estimate.value, *estimate.interval(level))

    def __str__(self) -> str:
        if math.isnan(self.estimate):
            return "undefined"
        return f"{self.estimate:8.4f}   [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, slots=True)
class Forest:
    """One metric of every site or group, beside that of all examples together.

    It prints as a table, shows itself in a notebook, and ``plot`` draws it.

    Args:
        metric: its name in ``METRICS`` or ``RATES``.
        rows: the sites or groups, in the result's order.
        pooled: all examples together, where the release adds up to them.
        prediction: where a new site's own value is expected; None for groups, and
            where too few sites have a value.
        at: the threshold, for a rate at one.
        level: of the intervals.
        note: why there is no prediction interval, or how sites differ.
        shown: the metric's title, where it is not that of its name.
    """

    metric: str
    rows: tuple[ForestRow, ...]
    pooled: ForestRow | None = None
    prediction: tuple[float, float] | None = None
    at: float | None = None
    level: float = 0.95
    note: str = ""
    shown: str = ""

    @property
    def title(self) -> str:
        """The metric's title, with its threshold if it has one."""
        title = self.shown or title_of(self.metric)
        return title if self.at is None else f"{title} at {self.at:g}"

    @property
    def lines(self) -> tuple[ForestRow, ...]:
        """All rows from top to bottom: the sites or groups, then the pooled one."""
        return self.rows if self.pooled is None else (*self.rows, self.pooled)

    def __str__(self) -> str:
        names = [row.name for row in self.lines]
        width = max(map(len, [*names, self.title, "a new site"]))
        table = [f"{self.title:<{width}}    value   {self.level:.0%} interval"]
        table += [f"{row.name:<{width}} {row}" for row in self.lines]
        if self.prediction is not None:
            low, high = self.prediction
            table.append(f"{'a new site':<{width}} {'':8}   [{low:.4f}, {high:.4f}]")
        return "\n".join([*table, *([self.note] if self.note else ())])

    def _repr_html_(self) -> str:
        cells = [(row.name, *str(row).split(maxsplit=1)) for row in self.lines]
        if self.prediction is not None:
            low, high = self.prediction
            cells.append(("a new site", "", f"[{low:.4f}, {high:.4f}]"))
        body = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
            for name, *rest in cells
        )
        head = f"<tr><th>{escape(self.title)}</th><th>value</th><th>{self.level:.0%} interval</th></tr>"
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{note}"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one tidy row per site or group, then the pooled one and a new site."""
        kind = ["part"] * len(self.rows) + ["pooled"] * (self.pooled is not None)
        rows: list[dict[str, Any]] = [
            {
                "name": row.name,
                "row": which,
                "value": row.estimate,
                "low": row.low,
                "high": row.high,
            }
            for row, which in zip(self.lines, kind, strict=True)
        ]
        if self.prediction is not None:
            low, high = self.prediction
            ends = {"value": math.nan, "low": low, "high": high}
            rows.append({"name": "a new site", "row": "prediction", **ends})
        return rows

    def to_frame(self) -> Any:
        """Return ``to_rows`` as a pandas ``DataFrame``."""
        return load("pandas", "frames").DataFrame(self.to_rows())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes null."""

        def plain(row: ForestRow) -> dict[str, Any]:
            ends = {"value": row.estimate, "low": row.low, "high": row.high}
            known = {k: None if math.isnan(v) else v for k, v in ends.items()}
            return {"name": row.name, **known}

        return {
            "metric": self.metric,
            "at": self.at,
            "level": self.level,
            "rows": [plain(row) for row in self.rows],
            "pooled": None if self.pooled is None else plain(self.pooled),
            "prediction": None if self.prediction is None else list(self.prediction),
            "note": self.note,
        }

    def plot(
        self, path: str | Path | None = None, *, ax: Axes | None = None
    ) -> Display:
        """Draw the rows from top to bottom; a new site's range is the last line."""
        return display(self._draw, ax=ax, path=path, size=(5.6, self._height))

    @property
    def _height(self) -> float:
        return 1.3 + 0.32 * (len(self.lines) + (self.prediction is not None))

    def _draw(self, axes: Axes) -> None:
        names: list[str] = []
        for row in self.rows:
            _line(axes, len(names), row, PALETTE[0], "s", 4.5)
            names.append(row.name)
        if self.pooled is not None:
            _line(axes, len(names), self.pooled, PALETTE[1], "D", 6.5)
            axes.axvline(
                self.pooled.estimate, color=PALETTE[1], lw=0.8, ls=":", zorder=1
            )
            names.append(self.pooled.name)
        if self.prediction is not None:
            low, high = self.prediction
            axes.plot([low, high], [len(names)] * 2, color=PALETTE[2], lw=5, alpha=0.5)
            names.append("a new site")
        axes.set_yticks(range(len(names)), names)
        for label in (*axes.get_yticklabels(), axes.xaxis.label):
            label.set_parse_math(False)  # names are no formulas
        axes.set(
            ylim=(len(names) - 0.5, -0.5), xlabel=f"{self.title}, {self.level:.0%}"
        )
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.93", lw=0.6)
        if self.shown:  # a difference: no difference is the line to see
            axes.axvline(0.0, color="0.6", lw=0.9, ls=":", zorder=0)
        if self.metric == "auc" and not self.shown:
            axes.axvline(0.5, color="0.6", lw=0.9, ls=":", zorder=0)
            known = [r.low for r in self.lines if not math.isnan(r.low)]
            axes.set_xlim(left=min([0.49, *known, *(self.prediction or ())]))


def _line(
    axes: Axes, place: int, row: ForestRow, color: str, marker: str, size: float
) -> None:
    if math.isnan(row.estimate):
        return
    axes.plot([row.low, row.high], [place, place], color=color, lw=1.8, zorder=2)
    axes.plot([row.estimate], [place], marker, color=color, ms=size, zorder=3)


def row_of(word: str, at: float | None) -> tuple[str, float | None]:
    """Return the name of a metric or rate that people call so, and a rate's threshold."""
    metric = metric_name(word, (*METRICS, *RATES))
    if metric in METRICS:
        return metric, None
    if metric not in RATES:
        near = did_you_mean(metric, (*METRICS, *RATES, *SYNONYMS))
        raise InputError(
            f"there is no metric of this name{near or '; docs/measures.md lists them'}"
        )
    if at is None:
        raise InputError(
            f"{metric} is taken at a threshold: give at=, for instance 0.5"
        )
    return metric, at


def forest_of(
    parts: Mapping[str, Evaluation],
    pooled: Evaluation | None,
    metric: str = "auc",
    *,
    at: float | None = None,
    level: float = 0.95,
    sites: bool = False,
) -> Forest:
    """Return the forest table of some evaluations; ``sites``: with a new site's range."""
    metric, at = row_of(metric, at)

    def estimate(part: Evaluation) -> Estimate:
        if at is None:
            return part.metrics[metric]
        return measured_at(part.fit, at, title_of(metric))[metric]

    estimates = {name: estimate(part) for name, part in parts.items()}
    rows = tuple(ForestRow.of(n, e, level) for n, e in estimates.items())
    whole = None if pooled is None else ForestRow.of("pooled", estimate(pooled), level)
    forest = Forest(metric, rows, whole, at=at, level=level)
    if not sites:
        return forest
    link, anchor = _scale(metric, estimates)
    known = [
        effect
        for name, part in parts.items()
        if (effect := _effect(part, estimates[name], metric, at, link)) is not None
    ]
    left = len(parts) - len(known)
    are = (
        "site without an estimate is" if left == 1 else "sites without an estimate are"
    )
    out = f"; {left} {are} left out" if left else ""
    if len(known) < 3:
        few = f"no prediction interval: fewer than three sites have an estimate{out}"
        return replace(forest, note=f"{few}.")
    values, variances = (np.array(each) for each in zip(*known, strict=True))
    effects = RandomEffects(AnchoredSums.of_sites(values, variances, anchor))
    if effects.refusal is not None:
        return replace(forest, note=f"no prediction interval: {effects.refusal}{out}.")
    ends = effects.prediction(level)
    low, high = (inverse(link, end) for end in ends)
    scale = {"logit": "logit ", "log": "log ", "identity": ""}[link]
    spread = math.sqrt(effects.tau2)
    note = (
        f"A new site's {forest.title} is expected between {low:.4f} and {high:.4f} "
        f"({level:.0%}); between sites {scale}sd {spread:.3f}{out}."
    )
    return replace(forest, prediction=(low, high), note=note)


def _scale(metric: str, estimates: Mapping[str, Estimate]) -> tuple[Link, float]:
    """Return the scale on which sites are near normal, and the weights' anchor."""
    if metric in _EFFECTS:
        row = SITE_EFFECTS[_EFFECTS[metric]]
        return row.link, row.defaults.anchor
    if all(each.support == UNIT for each in estimates.values()):
        return "logit", _ANCHOR
    known = [e.value for e in estimates.values() if not math.isnan(e.value)]
    return "identity", max(float(np.var(known)) if known else 0.0, 1e-9)


def _effect(  # noqa: PLR0911 - one return a scale
    part: Evaluation, estimate: Estimate, metric: str, at: float | None, link: Link
) -> Effect | None:
    """Return a site's value and variance on the scale of the link; None without one."""
    fit = part.fit
    if (
        not isinstance(fit, Fit)
        or fit.refusal is not None
        or math.isnan(estimate.value)
    ):
        return None
    edges = fit.observed.edges
    cut = at is None or at in edges.values
    if metric in _EFFECTS and fit.observed.exact and cut:
        terms = EffectTerms.of(_EFFECTS[metric], private=False, at=at)
        counts = BinCounts(fit.observed.negatives, fit.observed.positives)
        if min(float(each.sum()) for each in counts) < terms.fewest:
            return None
        with np.errstate(all="ignore"):
            effect = terms.row.of(edges, counts, at)
        value = min(max(effect.value, terms.low), terms.high)
        variance = max(effect.variance, terms.least)
        known = math.isfinite(value) and math.isfinite(variance)
        return Effect(value, variance) if known else None
    value, sd = estimate.value, math.hypot(estimate.sampling or 0.0, estimate.noise)
    if not sd > 0:
        return None
    match link:
        case "logit":
            if not 0 < value < 1:
                return None
            return Effect(
                math.log(value / (1 - value)), (sd / (value * (1 - value))) ** 2
            )
        case "log":
            return Effect(math.log(value), (sd / value) ** 2) if value > 0 else None
        case "identity":
            return Effect(value, sd**2)
