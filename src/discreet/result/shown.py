"""How every result shows itself: as text, plain values, pictures, tables, a report."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.privacy.claim import Claim
from discreet.result.exports import export
from discreet.result.page import Page, save
from discreet.result.pictures import picture
from discreet.result.plot import AnyPlot, Display
from discreet.result.record import Sign

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.result.evaluation import Evaluation


class Shown(ABC):
    """A result: one evaluation, or several by name."""

    claim: Claim

    @abstractmethod
    def named(self) -> Mapping[str, Evaluation]:
        """Return the evaluations by name; one alone has its own, which may be empty."""

    @abstractmethod
    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim; wide: the interval of every rate too."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""

    @abstractmethod
    def page(self, made: str = "") -> Page:
        """Return the report, made on a day."""

    def __str__(self) -> str:
        return self.to_text()

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON; NaN and infinity become null."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def plot(
        self,
        kind: AnyPlot = "roc",
        path: str | Path | None = None,
        *,
        ax: Axes | None = None,
    ) -> Display:
        """Draw the curves of one kind into one picture, into ``ax`` when it is given.

        The display shows itself in a notebook; ``figure_`` and ``ax_`` are
        matplotlib's own. It is saved when a path is given.
        """
        every = self.named()
        drawn = {name: part for name, part in every.items() if part.refusal is None}
        return picture(drawn or every, kind, ax=ax, path=path)

    def save(self, path: str | Path, *, sign: Sign | None = None) -> None:
        """Save the result: .html (a report with pictures), .json or .txt.

        ``sign`` is a coordinator's: ``discreet verify`` checks it.
        """
        save(self, path, sign)

    def export(self, folder: str | Path, *, min_cell_count: int = 5) -> list[Path]:
        """Write the measures, curves, OHDSI's tables and a model card's metrics."""
        return export(self.named(), folder, min_cell_count=min_cell_count)
