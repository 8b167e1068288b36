"""Two models compared in each of several groups, from one release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.estimate.estimate import Estimate
from discreet.metrics.table import METRICS
from discreet.privacy.claim import Claim
from discreet.report.comparison import ModelComparison
from discreet.report.exports import Exports
from discreet.report.forest import Forest, ForestRow, row_of
from discreet.report.plot import AnyPlot, Display
from discreet.report.shown import Shown, estimates_html
from discreet.report.text import metric_table, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.evaluation import Evaluation


@dataclass(frozen=True, eq=False, repr=False)
class GroupedComparison(Shown, Mapping[str, ModelComparison]):
    """Two models' differences within each group, and over all groups together.

    Args:
        groups: the comparisons by group.
        pooled: the comparison over all groups, computed from the same release.
        claim: what was promised to whom.
    """

    groups: Mapping[str, ModelComparison]
    pooled: ModelComparison
    claim: Claim

    def __getitem__(self, group: str) -> ModelComparison:
        return self.groups[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def names(self) -> tuple[str, str]:
        """The names of the two models."""
        return self.pooled.names

    def named(self, names: tuple[str, str]) -> GroupedComparison:
        """Return the same with other names of the two models."""
        groups = {g: replace(each, names=names) for g, each in self.items()}
        return replace(self, groups=groups, pooled=replace(self.pooled, names=names))

    def difference(
        self, metric: str = "auc", at: float | None = None
    ) -> dict[str, Estimate]:
        """Return the first model's metric minus the second's, in each group."""
        return {g: each.difference(metric, at) for g, each in self.items()}

    def forest(
        self, metric: str = "auc", *, at: float | None = None, level: float = 0.95
    ) -> Forest:
        """Return the differences of a metric in each group beside the pooled one."""
        metric, at = row_of(metric, at)
        gaps = self.difference(metric, at)
        rows = tuple(ForestRow.of(g, gap, level) for g, gap in gaps.items())
        whole = ForestRow.of("pooled", self.pooled.difference(metric, at), level)
        title = f"{title_of(metric)}, {self.names[0]} less {self.names[1]}"
        return Forest(metric, rows, whole, at=at, level=level, shown=title)

    def plot(
        self,
        kind: AnyPlot = "forest",
        path: str | Path | None = None,
        *,
        ax: Axes | None = None,
    ) -> Display:
        """Draw the differences in each group, or the curves of both models in all."""
        if kind == "forest":
            return self.forest().plot(path, ax=ax)
        return super().plot(kind, path, ax=ax)

    def _metrics(self) -> list[str]:
        return list(self.pooled.a.metrics)

    def _summary(self) -> dict[str, Estimate]:
        """Return the differences: each group's, then the pooled one."""
        rows: dict[str, Estimate] = {}
        for metric in self._metrics():
            title = f"{METRICS[metric].title} {'-'.join(self.names)}"
            gaps = self.difference(metric) if metric == self._metrics()[0] else {}
            rows |= {f"{title} {group}": gap for group, gap in gaps.items()}
            rows[f"{title} pooled"] = self.pooled.difference(metric)
        return rows

    def verdicts(self, metric: str = "auc") -> dict[str, str]:
        """Say of each group and of all together what the difference allows to say."""
        every = {**self.groups, "pooled": self.pooled}
        return {group: each.verdict(metric) for group, each in every.items()}

    def _lines(self) -> list[str]:
        said = self.verdicts()
        said = {"pooled": said.pop("pooled"), **said}
        lines = [f"{group}: {words}." for group, words in said.items()]
        return [*lines, f"Assumed: {self.pooled.dependence}."]

    def to_text(self, *, wide: bool = False) -> str:
        """Return the differences and the claim; wide: every group's own tables too."""
        parts = [f"{g}\n{each.to_text(wide=True)}\n" for g, each in self.items()]
        table = metric_table(self._summary())
        return "\n".join(
            [*(parts if wide else ()), table, *self._lines(), str(self.claim)]
        )

    def __repr__(self) -> str:
        claim = f"{self.claim.loss}, {self.claim.setting}"
        return (
            f"GroupedComparison({', '.join(self)}; {' and '.join(self.names)}; {claim})"
        )

    def _repr_html_(self) -> str:
        return estimates_html(self._summary(), self.claim)

    def _values(self, *, curves: bool) -> dict[str, Any]:
        def values(each: ModelComparison) -> dict[str, Any]:
            return each.exports.values(curves=curves)

        return {
            "groups": {group: values(each) for group, each in self.items()},
            "pooled": values(self.pooled),
            "forest": self.forest(self._metrics()[0]).to_dict(),
        }

    @property
    def exports(self) -> Exports:
        """The result for other programs: the differences, then both models by group."""
        parts: dict[str, Evaluation] = {
            f"{group}, {model}": part
            for group, each in (("pooled", self.pooled), *self.items())
            for model, part in each.items()
        }
        return Exports(
            parts,
            self.claim,
            self._values,
            self._summary,
            verdict=lambda: "\n".join(self._lines()),
            forest=self.forest,
            named=self.names,
            gap=self.pooled.exports.gap,
        )
