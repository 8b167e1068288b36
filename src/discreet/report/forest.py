"""A forest table: one row per site or group, the pooled row, and what a new site can expect."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.report.text import title_of


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One line of a forest plot: a value and the ends of its interval, NaN if undefined."""

    name: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Forest:
    """One metric of every site or group, beside that of all examples together.

    Args:
        metric: its name in ``METRICS`` or ``RATES``.
        rows: the sites or groups, in the result's order.
        pooled: all examples together, where the release adds up to them.
        prediction: where a new site's own value is expected; None for groups, and
            where too few sites have a value.
        at: the threshold, for a rate at one.
        level: of the intervals.
        note: why there is no prediction interval, or how sites differ.
    """

    metric: str
    rows: tuple[ForestRow, ...]
    pooled: ForestRow | None = None
    prediction: tuple[float, float] | None = None
    at: float | None = None
    level: float = 0.95
    note: str = ""

    @property
    def title(self) -> str:
        """The metric's title, with its threshold if it has one."""
        title = title_of(self.metric)
        return title if self.at is None else f"{title} at {self.at:g}"
