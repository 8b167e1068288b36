"""What several evaluations of one release have in common: how they show themselves."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.result.evaluation import Evaluation
from discreet.result.exports import export
from discreet.result.notebook import claim_html, picture_html, table_html
from discreet.result.page import Page, save
from discreet.result.pictures import picture
from discreet.result.plot import AnyPlot, Display
from discreet.result.record import Sign

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Parts(Mapping[str, Evaluation]):
    """Evaluations by name: of classes, of groups, or of two models."""

    claim: Claim

    @abstractmethod
    def summary(self) -> dict[str, Estimate]:
        """Return the table that stands for all of them, by the rows' names."""

    @abstractmethod
    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim; wide: every part's own table too."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""

    @abstractmethod
    def page(self, made: str = "") -> Page:
        """Return the report, made on a day."""

    def plot(
        self,
        kind: AnyPlot = "roc",
        path: str | Path | None = None,
        *,
        ax: Axes | None = None,
    ) -> Display:
        """Draw the curves of all parts that have one into one picture."""
        drawn = {name: part for name, part in self.items() if part.refusal is None}
        return picture(drawn or self, kind, ax=ax, path=path)

    def __repr__(self) -> str:
        claim = f"{self.claim.loss}, {self.claim.setting}"
        return f"{type(self).__name__}({', '.join(self)}; {claim})"

    def _repr_html_(self) -> str:
        drawable = any(
            part.refusal is None and part.reading.has_curves for part in self.values()
        )
        pictures = picture_html(self.plot("roc")) if drawable else ""
        return table_html(self.summary()) + pictures + claim_html(self.claim)

    def __str__(self) -> str:
        return self.to_text()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON; NaN and infinity become null."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def export(self, folder: str | Path, *, min_cell_count: int = 5) -> list[Path]:
        """Write the measures, curves, OHDSI's tables and a model card's metrics."""
        return export(self, folder, min_cell_count=min_cell_count)

    def save(self, path: str | Path, *, sign: Sign | None = None) -> None:
        """Save the result: .html (a report with pictures), .json or .txt."""
        save(self, path, sign)
