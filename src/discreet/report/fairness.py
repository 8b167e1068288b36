r"""Gaps and ratios of measures between groups, with simultaneous intervals.

Groups are disjoint, so their errors are independent. A gap of two groups has the interval
of Zou and Donner (2008, "MOVER"): with values v and ends l, u of each group's interval,

.. math:: d \pm \ldots:\quad l = d - \sqrt{(v_1 - l_1)^2 + (u_2 - v_2)^2}, \quad
    u = d + \sqrt{(u_1 - v_1)^2 + (v_2 - l_2)^2},

and a ratio the same on the logarithm's scale. All pairs hold at once: z is the simulated
quantile of the largest standardised difference of groups of these sizes (Tukey and
Kramer's range), in the place of 1.96. So the largest gap lies between the largest lower
and the largest upper end of any pair, although that pair was picked for its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from html import escape
from itertools import combinations
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from discreet.arrays import FloatArray
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.metrics.table import RATES
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.optional import load
from discreet.report.evaluation import Evaluation
from discreet.report.text import title_of
from discreet.report.views import counted
from discreet.vocabulary import metric_name

CRITERIA: Final[Mapping[str, tuple[str, ...]]] = {
    "demographic parity": ("alert_rate",),
    "equal opportunity": ("recall",),
    "equalised odds": ("recall", "false_positive_rate"),
    "predictive parity": ("precision",),
    "calibration within groups": ("observed_expected", "calibration_slope"),
    "ranking within groups": ("auc",),
}
"""What each criterion asks to be equal; fairlearn's names where it has them."""
MEASURES: Final = tuple(dict.fromkeys(m for row in CRITERIA.values() for m in row))
_DRAWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference of a measure between two groups, and its ratio."""

    measure: str
    first: str
    second: str
    difference: float
    interval: Interval
    """Simultaneous over all pairs of groups."""
    ratio: float
    ratio_interval: Interval


@dataclass(frozen=True, eq=False, repr=False)
class Fairness:
    """Every group's measures at a threshold, and the gaps between them.

    It prints as a table and shows itself in a notebook; ``to_frame`` is the same for
    pandas.
    """

    groups: Mapping[str, Evaluation]
    threshold: float
    level: float = 0.95

    def __post_init__(self) -> None:
        if len(self.groups) < 2:
            raise InputError("gaps need two or more groups; this result has one")
        if not 0 < self.level < 1:
            raise InputError("the level of an interval lies strictly between 0 and 1")

    @cached_property
    def by_group(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Every measure of every group: by measure, then by group, none left out."""
        return {name: self._of(name) for name in MEASURES}

    @cached_property
    def _rates(self) -> Mapping[str, AtThreshold]:
        fits = ((name, counted(part.fit)) for name, part in self.groups.items())
        return {name: at_threshold(fit, self.threshold) for name, fit in fits}

    def small(self) -> Mapping[str, str]:
        """Return the groups that are too small or too noisy to be sure of, and why."""
        reasons: dict[str, str] = {}
        for group in self.groups:
            for estimates in self.by_group.values():
                reason = estimates[group].caution or estimates[group].unusable
                if reason and group not in reasons:
                    reasons[group] = reason
        return reasons

    def gaps(self, measure: str) -> tuple[Gap, ...]:
        """Return all pairs' gaps of a measure; pairs without a value have NaN."""
        estimates = self._of(measure)
        level = 1 - 2 * (1 - NormalDist().cdf(self._z(estimates)))
        return tuple(
            _gap(measure, (a, estimates[a]), (b, estimates[b]), level)
            for a, b in combinations(estimates, 2)
        )

    def largest(self, measure: str) -> Estimate:
        """Return the largest gap of a measure with an interval that holds."""
        gaps = [g for g in self.gaps(measure) if not math.isnan(g.difference)]
        if not gaps:
            return Estimate.undefined("fewer than two groups have a value")
        value = max(abs(g.difference) for g in gaps)
        low = max(max(g.interval.low, -g.interval.high, 0.0) for g in gaps)
        high = max(max(g.interval.high, -g.interval.low) for g in gaps)
        return Estimate(
            value,
            (high - low) / (2 * 1.959963984540054),
            0.0,
            Binning(0.0, high, 0.0),
            support=Interval(0.0, math.inf),
            shape=GivenInterval(low, high),
            caution=next(
                (e.caution for e in self._of(measure).values() if e.caution), None
            ),
        )

    def standardised(self, measure: str, mix: Mapping[str, float]) -> Estimate:
        """Return a measure at a declared mix of the groups: direct standardisation.

        ``mix`` gives every group's share of the population that is meant.
        """
        estimates = self._of(measure)
        if set(mix) != set(estimates) or not all(w >= 0 for w in mix.values()):
            raise InputError(
                "the mix names every group once, with a share of 0 or more"
            )
        if not sum(mix.values()) > 0:
            raise InputError("the shares of a mix add up to more than 0")
        meant = [group for group, share in mix.items() if share > 0]
        return weighted_mean(
            [estimates[group] for group in meant],
            [mix[group] for group in meant],
            independent=True,
        )

    def sentences(self) -> tuple[str, ...]:
        """Return the largest gap of every measure, and which groups are small."""
        sentences = []
        for row in self.rows():
            criterion, title, gap = row["criterion"], row["title"], row["largest"]
            low, high = gap.interval(self.level)
            sentences.append(
                f"{criterion}: no gap of {title} can be told"
                if math.isnan(gap.value)
                else f"{criterion}: the largest gap of {title} is {gap.value:.3f} "
                f"({self.level:.0%} interval {low:.3f} to {high:.3f})"
            )
        marked = (f"{group} is unsure: {why}" for group, why in self.small().items())
        return (*sentences, *marked)

    def rows(self) -> list[dict[str, Any]]:
        """Return a table: every criterion's measures, their largest and all gaps."""
        return [
            {
                "criterion": criterion,
                "title": title_of(name),
                "largest": self.largest(name),
                "gaps": self.gaps(name),
            }
            for criterion, names in CRITERIA.items()
            for name in names
        ]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and cells of the table of all groups."""
        heads = ["criterion", "measure", *self.groups, "largest gap"]
        rows = []
        for criterion, names in CRITERIA.items():
            for name in names:
                values = [self.by_group[name][group] for group in self.groups]
                gap = self.largest(name)
                cells = [_cell(e, *e.interval(self.level)) for e in values]
                cells.append(_cell(gap, *gap.interval(self.level)))
                rows.append([criterion, title_of(name), *cells])
        return heads, rows

    def __str__(self) -> str:
        heads, rows = self._table()
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = [
            "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
            for row in (heads, *rows)
        ]
        title = (
            f"Groups at {self.threshold:g}; all gaps hold at once ({self.level:.0%})"
        )
        unsure = (f"Note: {group}: {why}." for group, why in self.small().items())
        return "\n".join([title, *lines, *unsure])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads, rows = self._table()
        head = "".join(f"<th>{escape(one)}</th>" for one in heads)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in rows
        )
        unsure = "".join(
            f"<p>{escape(group)}: {escape(why)}</p>"
            for group, why in self.small().items()
        )
        return (
            f"<p><b>Groups at {self.threshold:g}</b>, {self.level:.0%} intervals; all "
            f"gaps hold at once</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{unsure}"
        )

    def to_frame(self, *, pairs: bool = False) -> Any:
        """Return a pandas ``DataFrame``: one row per measure, or per pair of groups.

        A measure's row has every group's value and the largest gap; a pair's row has
        the difference and the ratio, each with the ends of its interval.
        """
        rows: list[dict[str, Any]] = []
        for row in self.rows():
            names = {"criterion": row["criterion"], "measure": row["title"]}
            if pairs:
                rows += [{**names, **_plain_gap(gap)} for gap in row["gaps"]]
                continue
            measure = row["gaps"][0].measure
            values = {g: e.value for g, e in self.by_group[measure].items()}
            low, high = row["largest"].interval(self.level)
            gap = {"gap": row["largest"].value, "gap_low": low, "gap_high": high}
            rows.append({**names, **values, **gap})
        return load("pandas", "frames").DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "threshold": self.threshold,
            "groups": {
                name: {g: e.to_dict() for g, e in by.items()}
                for name, by in self.by_group.items()
            },
            "largest": {name: self.largest(name).to_dict() for name in MEASURES},
            "small": dict(self.small()),
        }

    def _of(self, measure: str) -> Mapping[str, Estimate]:
        measure = metric_name(measure, RATES)
        if measure in RATES:
            return {g: at[measure] for g, at in self._rates.items()}
        return {g: r.metrics[measure] for g, r in self.groups.items()}

    def _z(self, estimates: Mapping[str, Estimate]) -> float:
        """Return the quantile of the largest standardised difference of these groups."""
        sds = np.array(
            [math.hypot(e.sampling or 0.0, e.noise) for e in estimates.values()
             if not math.isnan(e.value)]
        )  # fmt: skip
        sds = sds[sds > 0]
        if sds.size <= 2:  # one pair at most: nothing to choose from
            return NormalDist().inv_cdf(0.5 + self.level / 2)
        drawn = _drawn(sds.size) * sds
        largest = np.zeros(_DRAWS)
        for j, k in combinations(range(sds.size), 2):
            apart = np.abs(drawn[:, j] - drawn[:, k]) / math.hypot(sds[j], sds[k])
            largest = np.maximum(largest, apart)
        return float(np.quantile(largest, self.level))


def _cell(estimate: Estimate, low: float, high: float) -> str:
    if math.isnan(estimate.value):
        return "undefined"
    return f"{estimate.value:.3f} [{low:.3f}, {high:.3f}]"


def _plain_gap(gap: Gap) -> dict[str, Any]:
    return {
        "first": gap.first,
        "second": gap.second,
        "difference": gap.difference,
        "low": gap.interval.low,
        "high": gap.interval.high,
        "ratio": gap.ratio,
        "ratio_low": gap.ratio_interval.low,
        "ratio_high": gap.ratio_interval.high,
    }


@lru_cache(maxsize=8)
def _drawn(groups: int) -> FloatArray:
    """Return the same standard normal values each time, one column per group."""
    return np.random.default_rng(0).normal(size=(_DRAWS, groups))


@dataclass(frozen=True, slots=True)
class GivenInterval:
    """An interval that was made elsewhere, at its own level."""

    low: float
    high: float

    def ends(
        self, value: float, sampling: float, noise: float, z: float
    ) -> tuple[float, float]:
        """Return the two ends."""
        del sampling, noise, z
        return min(self.low, value), max(self.high, value)


def _gap(
    measure: str,
    first: tuple[str, Estimate],
    second: tuple[str, Estimate],
    level: float,
) -> Gap:
    (name_a, a), (name_b, b) = first, second
    v, w = a.value, b.value
    nothing = Interval(math.nan, math.nan)
    if math.isnan(v) or math.isnan(w):
        return Gap(measure, name_a, name_b, math.nan, nothing, math.nan, nothing)
    (l1, u1), (l2, u2) = a.interval(level), b.interval(level)
    interval = Interval(
        v - w - math.hypot(v - l1, u2 - w), v - w + math.hypot(u1 - v, w - l2)
    )
    ratio, ratios = math.nan, nothing
    if v > 0 and w > 0:
        ratio = v / w
        down = math.hypot(math.log(v / l1) if l1 > 0 else math.inf, math.log(u2 / w))
        up = math.hypot(math.log(u1 / v), math.log(w / l2) if l2 > 0 else math.inf)
        ratios = Interval(ratio * math.exp(-down), ratio * math.exp(min(up, 700.0)))
    return Gap(measure, name_a, name_b, v - w, interval, ratio, ratios)


def weighted_mean(
    estimates: Sequence[Estimate],
    weights: Sequence[float],
    *,
    independent: bool = False,
) -> Estimate:
    """Average estimates of one measure, as fully correlated unless told independent."""
    w = np.asarray(weights, dtype=np.float64)
    if any(math.isnan(e.value) for e in estimates) or w.sum() <= 0:
        return Estimate.undefined("a class or group has no value in the pooled data")
    w = w / w.sum()

    def spread(sds: Sequence[float]) -> float:
        return float(np.linalg.norm(w * sds) if independent else w @ sds)

    unknown = any(e.sampling is None for e in estimates)
    return Estimate(
        float(w @ [e.value for e in estimates]),
        None if unknown else spread([e.sampling or 0.0 for e in estimates]),
        spread([e.noise for e in estimates]),
        Binning(*(w @ [astuple(e.binning) for e in estimates]).tolist()),
        support=estimates[0].support,
    )
