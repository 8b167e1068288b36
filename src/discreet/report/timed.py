"""The result of a plan of follow-up: every measure of a risk model over time.

Made from the plan and its release alone. One table gives a :class:`TimedEvaluation`;
groups, horizons with a score column each, and two models give several in a
:class:`TimedEvaluations`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Interval
from discreet.metrics.timed_table import (
    TIMED,
)
from discreet.plan.plan import Plan
from discreet.privacy.claim import Claim
from discreet.report.evaluation import Source
from discreet.report.shown import Shown, estimates_html
from discreet.report.text import metric_table
from discreet.report.timed_evaluation import (
    WITHIN,
    TimedEvaluation,
    TimedPlot,
    too_few,
)
from discreet.statistic.timed import TimedCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.plot import Display
    from discreet.report.timed_exports import TimedExports

__all__ = ("Several", "TimedEvaluation", "TimedEvaluations", "timed_result")

Several: TypeAlias = Literal["groups", "horizons", "models"]


@dataclass(frozen=True, eq=False, repr=False)
class TimedEvaluations(Shown, Mapping[str, TimedEvaluation]):
    """Results of follow-up by name: groups, horizons with their own scores, or models.

    Args:
        parts: the results by name.
        claim: what was promised to whom.
        kind: what the parts are.
    """

    parts: Mapping[str, TimedEvaluation]
    claim: Claim
    kind: Several = "groups"

    def __getitem__(self, name: str) -> TimedEvaluation:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def first(self) -> TimedEvaluation:
        """The part that stands for all where they agree."""
        return next(iter(self.parts.values()))

    def together(self, *, within_groups: bool = True) -> TimedEvaluation:
        """Return the result of all groups, censoring estimated within each of them.

        Without ``within_groups`` censoring is that of everybody. Where it is estimated
        within groups, those with too few examples are left out, and a note says so.
        """
        if self.kind != "groups":
            raise InputError("only groups hold each example once: there is no sum")
        few = self.left_out if within_groups else {}
        tables = [part.table for name, part in self.items() if name not in few]
        blocks = [
            np.concatenate([getattr(t, name) for t in tables])
            for name in ("events", "censored", "beyond")
        ]
        if not within_groups:
            blocks = [block.sum(0, keepdims=True) for block in blocks]
        noise = tables[0].noise
        if not within_groups and not tables[0].exact:
            noise = _SummedCells(noise, len(tables))
        table = replace(
            tables[0],
            events=blocks[0],
            censored=blocks[1],
            beyond=blocks[2],
            noise=noise,
            refusal=None,
            notes=(
                *dict.fromkeys(n for t in tables for n in t.notes),
                *(f"{name} is left out: {reason}" for name, reason in few.items()),
            ),
        )
        own = [
            part.table.refusal
            for name, part in self.items()
            if part.table.refusal != too_few(part.table)
        ]
        table = replace(table, refusal=next(filter(None, own), too_few(table)))
        source = replace(self.first.source, part="")
        return replace(self.first, table=table, source=source)

    @property
    def left_out(self) -> dict[str, str]:
        """Why all groups together are without some of them, by the groups' names."""
        if self.kind != "groups":
            return {}
        few = {
            name: reason
            for name, part in self.items()
            if (reason := too_few(part.table)) and reason == part.table.refusal
        }
        return few if len(few) < len(self) else {}

    @property
    def integrated_brier(self) -> Estimate:
        r"""The Brier score over the horizons, each with its own scores.

        Trapezoids over time, divided by its length. The tables are of the same examples,
        and how their errors go together was not released: the error is as if they all
        went the same way, which is the most that it can be.
        """
        if self.kind != "horizons":
            return Estimate.undefined("it needs a score column for each horizon")
        scores = [part.brier(part.predicts) for part in self.parts.values()]
        times = np.array([part.predicts or math.nan for part in self.parts.values()])
        if any(math.isnan(e.value) for e in scores):
            return Estimate.undefined("a Brier score of a horizon is undefined")
        width = np.diff(times)
        weights = (np.append(width, 0.0) + np.append(0.0, width)) / (2 * width.sum())
        return weighted_sum(scores, weights.tolist(), support=Interval(0.0, 1.0))

    def difference(self, name: str, time: float | None = None) -> Estimate:
        """Return a measure of the first model less that of the second."""
        if self.kind != "models":
            raise InputError("only two models have a difference")
        first, second = self.parts.values()
        both = [part.measure(name, time) for part in (first, second)]
        if any(math.isnan(e.value) for e in both):
            return Estimate.undefined("one of the two is undefined")
        reals = Interval(-math.inf, math.inf)
        caution = "each model's table was released alone: the error is the most that it can be"
        found = weighted_sum(both, [1.0, -1.0], support=reals)
        return replace(found, caution=caution)

    def for_cause(self, cause: int) -> TimedEvaluations:
        """Return all measures of another cause, as :meth:`TimedEvaluation.for_cause`."""
        parts = {name: part.for_cause(cause) for name, part in self.items()}
        return replace(self, parts=parts)

    @property
    def notes(self) -> tuple[tuple[str, str], ...]:
        """What a reader should know, and of which part; '' is of all."""
        every = [part.notes for part in self.values()]
        shared = [note for note in every[0] if all(note in notes for notes in every)]
        return (
            *(("", note) for note in shared),
            *(
                (name, note)
                for name, part in self.items()
                for note in part.notes
                if note not in shared
            ),
        )

    def summary(self) -> dict[str, Estimate]:
        """Return the measures of every part by its name, and what is over all."""
        rows: dict[str, Estimate] = {}
        for name, part in self.parts.items():
            time = part.predicts or max(part.horizons)
            shown = ("auc", "brier") if part.risk_horizon else ("auc",)
            for measure in shown:
                title = f"{TIMED[measure].title} by {time:g}"
                label = title if self.kind == "horizons" else f"{name}: {title}"
                rows[label] = part.measure(measure, time)
        if self.kind == "horizons":
            rows["integrated Brier score"] = self.integrated_brier
        if self.kind == "models":
            rows["AUC, first less second"] = self.difference(
                "auc", max(self.first.horizons)
            )
        return rows

    def to_text(self, *, wide: bool = False) -> str:
        """Return the summary and the claim; wide: every part's own tables too."""
        lines: list[str] = []
        for name, part in self.items() if wide else ():
            lines += [name, *part._lines(wide=True), ""]  # noqa: SLF001 - its own parts
        lines.append(metric_table(self.summary()))
        lines += [] if wide else self._undefined()
        if self.kind == "groups":
            without = f", without {', '.join(self.left_out)}" if self.left_out else ""
            lines.append(f"All groups together{without}; {WITHIN}:")
            tables = self.together().tables()
            lines += [metric_table(rows, title) for title, rows in tables.items()]
        for name, note in self.notes if not wide else ():
            if not name or self.kind != "horizons":
                lines.append(f"{name}: note: {note}." if name else f"Note: {note}.")
        counted = self.together() if self.kind == "groups" else self.first
        lines.append(counted.count_words())
        return "\n".join([*lines, str(self.claim)])

    def _undefined(self) -> Iterator[str]:
        """Say of which parts nothing can be told, and why; each reason once."""
        refusals = {name: part.table.refusal for name, part in self.items()}
        for reason in filter(None, dict.fromkeys(refusals.values())):
            names = [name for name, own in refusals.items() if own == reason]
            every = len(names) == len(self)
            yield f"{'Undefined' if every else ', '.join(names) + ': undefined'}: {reason}."

    def __repr__(self) -> str:
        claim = f"{self.claim.loss}, {self.claim.setting}"
        return f"TimedEvaluations({', '.join(self)}; {claim})"

    def _repr_html_(self) -> str:
        return estimates_html(self.summary(), self.claim)

    @property
    def exports(self) -> TimedExports:  # type: ignore[override]
        """The result for other programs: plain values, rows, tables, the page."""
        from discreet.report.timed_exports import TimedExports  # noqa: PLC0415 - cycle

        return TimedExports(self.parts, self.claim, self)

    def to_frame(self) -> Any:
        """Return every measure of every part as a row of a pandas ``DataFrame``."""
        return self.exports.to_frame()

    def plot(  # type: ignore[override]
        self,
        kind: TimedPlot = "auc",
        path: str | Path | None = None,
        *,
        time: float | None = None,
        ax: Axes | None = None,
    ) -> Display:
        """Draw one kind of picture of the first part that has one."""
        told = (part for part in self.values() if part.table.refusal is None)
        return next(told, self.first).plot(kind, path, time=time, ax=ax)


@dataclass(frozen=True)
class _SummedCells:
    """The noise of sums of so many cells."""

    one: Any
    cells: int

    @property
    def scale(self) -> float:
        return float(self.one.scale) * math.sqrt(self.cells)

    def covariance(self, at: FloatVector) -> Any:
        each = self.one.covariance(at)
        parts = (each.negatives, each.positives, each.cross)
        return type(each)(*(self.cells * part for part in parts))

    def sample(self, at: FloatVector, size: int, rng: np.random.Generator) -> Any:
        return sum(self.one.sample(at, size, rng) for _ in range(self.cells))


def weighted_sum(
    estimates: Sequence[Estimate], weights: Sequence[float], support: Interval
) -> Estimate:
    """Add estimates of the same examples: their sampling errors at the most."""
    value = sum(w * e.value for w, e in zip(weights, estimates, strict=True))
    sampling = sum(
        abs(w) * (e.sampling or 0.0) for w, e in zip(weights, estimates, strict=True)
    )
    noise = math.sqrt(
        sum((w * e.noise) ** 2 for w, e in zip(weights, estimates, strict=True))
    )
    ends = [
        sum(
            w * (e.binning.low if (w > 0) is lower else e.binning.high)
            for w, e in zip(weights, estimates, strict=True)
        )
        for lower in (True, False)
    ]
    typical = sum(
        abs(w) * e.binning.usual for w, e in zip(weights, estimates, strict=True)
    )
    return Estimate(
        value, sampling, noise, Binning(ends[0], ends[1], typical), support=support
    )


def timed_result(
    tables: Mapping[str, TimedCounts],
    claim: Claim,
    source: Source,
    horizons: Sequence[float],
    *,
    plan: Plan | None = None,
    kind: Several = "groups",
) -> TimedEvaluation | TimedEvaluations:
    """Return the result of the tables of one release; the only one is named ''."""
    if set(tables) == {""}:
        return TimedEvaluation.of(tables[""], claim, source, horizons, plan=plan)
    parts = {
        name: TimedEvaluation.of(
            counts, claim, replace(source, part=name), horizons, plan=plan
        )
        for name, counts in tables.items()
    }
    return TimedEvaluations(parts, claim, kind)
