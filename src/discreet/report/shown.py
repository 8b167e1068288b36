"""How every result shows itself: as text, plain values, pictures, tables, a report."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.privacy.claim import Claim
from discreet.report.exports import export
from discreet.report.made import Made
from discreet.report.page import Page, save
from discreet.report.pictures import picture
from discreet.report.plot import AnyPlot, Display
from discreet.report.record import Sign
from discreet.report.words import UNVERIFIABLE, exact_sums

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.evaluation import Evaluation


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
    def _values(self, *, curves: bool) -> dict[str, Any]:
        """Return everything but the record as plain values, with or without curves."""

    @abstractmethod
    def _page(self) -> Page:
        """Return the report without the record."""

    @abstractmethod
    def _record(self, made: Made) -> dict[str, Any] | None:
        """Return the record of the release; None where this is not all of a release."""

    def to_dict(
        self, made: Made | None = None, *, record: bool = True
    ) -> dict[str, Any]:
        """Return everything as plain values.

        Without ``record`` what the sites revealed is left out, and nobody can verify
        the rest; of exact sums the curves are left out too, which tell every count.
        """
        release = self._record(made or Made()) if record else None
        found = {**self._values(curves=self._curves(record)), "release": release}
        return found if release else {**found, "unverifiable": UNVERIFIABLE}

    def page(self, made: Made | None = None, *, record: bool = True) -> Page:
        """Return the report, made on a day; ``record`` as for :meth:`to_dict`."""
        when = made or Made()
        release = self._record(when) if record else None
        curves = self._curves(record)
        return replace(self._page(), made=when, release=release, curves=curves)

    def _curves(self, record: bool) -> bool:
        first = next(iter(self.named().values()))
        return record or not exact_sums(first.plan)

    def __str__(self) -> str:
        return self.to_text()

    def to_json(self, *, indent: int | None = None, record: bool = True) -> str:
        """Return everything as JSON; NaN and infinity become null.

        ``record`` as for :meth:`to_dict`.
        """
        found = self.to_dict(record=record)
        return json.dumps(found, indent=indent, allow_nan=False)

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

    def save(
        self, path: str | Path, *, sign: Sign | None = None, record: bool = True
    ) -> None:
        """Save the result: .html (a report with pictures), .json or .txt.

        ``sign`` is a coordinator's: ``discreet verify`` checks it. ``record`` as for
        :meth:`to_dict`.
        """
        save(self, path, sign, record=record)

    def export(self, folder: str | Path, *, min_cell_count: int = 5) -> list[Path]:
        """Write the measures, curves, OHDSI's tables and a model card's metrics."""
        return export(self.named(), folder, min_cell_count=min_cell_count)
