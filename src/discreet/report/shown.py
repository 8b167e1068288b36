"""How every result shows itself: as text, plain values, pictures, tables, a report.

What several evaluations of one release have in common.

How a result shows itself in a notebook: the table, small pictures, the claim in a fold.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.report.exports import export
from discreet.report.page import Page, save
from discreet.report.plot import AnyPlot, Display, picture, png
from discreet.report.record import Made, Sign
from discreet.report.text import (
    UNVERIFIABLE,
    count_words,
    exact_sums,
    interval_column,
    titled,
)

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


class Parts(Shown, Mapping[str, "Evaluation"]):
    """Evaluations by name: of classes, of groups, or of two models."""

    def named(self) -> Mapping[str, Evaluation]:
        """Return the parts."""
        return self

    @abstractmethod
    def summary(self) -> dict[str, Estimate]:
        """Return the table that stands for all of them, by the rows' names."""

    def __repr__(self) -> str:
        claim = f"{self.claim.loss}, {self.claim.setting}"
        return f"{type(self).__name__}({', '.join(self)}; {claim})"

    def _repr_html_(self) -> str:
        drawable = any(
            part.refusal is None and part.fit.has_curves for part in self.values()
        )
        pictures = picture_html(self.plot("roc")) if drawable else ""
        return table_html(self.summary()) + pictures + claim_html(self.claim)


_SHOWN: Final = ("auc", "average_precision", "brier")
"""The rows of the small table; ``print(result)`` and ``to_frame()`` have all."""
_WIDTH: Final = 230


def evaluation_html(result: Evaluation) -> str:
    """Return an evaluation as a piece of HTML that needs no style sheet."""
    shown = {n: result.metrics[n] for n in _SHOWN if n in result.metrics}
    rows = titled(shown or result.metrics)
    for found in result.at_thresholds()[:1]:
        at = f" at {found.threshold:g}"
        rows |= {f"{name}{at}": e for name, e in list(found.rates().items())[:2]}
    pictures = "".join(picture_html(result.plot(kind)) for kind in _kinds(result))
    return (
        f"<p><b>{escape(_heading(result))}</b></p>{table_html(rows)}"
        f"{pictures}{claim_html(result.claim)}"
    )


def table_html(rows: Mapping[str, Estimate]) -> str:
    """Return estimates as a table: value and interval."""
    heading, cells_of = interval_column(rows)
    body = ""
    for name, found in rows.items():
        cells = cells_of(found)
        body += (
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td>{cells.value}</td><td>{cells.interval}</td></tr>"
        )
    return (
        f"<table><thead><tr><th></th><th>value</th><th>{heading}</th></tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def claim_html(claim: Claim) -> str:
    """Return the claim in a fold."""
    promise, *rest = str(claim).splitlines()
    lines = "<br>".join(escape(line) for line in rest)
    return f"<details><summary>{escape(promise)}</summary><p>{lines}</p></details>"


def _heading(result: Evaluation) -> str:
    plan = result.plan
    model = plan.model.name if plan is not None else ""
    names = ", ".join(word for word in (model, result.name) if word)
    return f"{names or 'Evaluation'}: {count_words(result)}"


def _kinds(result: Evaluation) -> tuple[AnyPlot, ...]:
    if not result.fit.has_curves or result.refusal is not None:
        return ()
    return ("roc", "pr", "calibration") if result.calibratable else ("roc", "pr")


def picture_html(drawn: Display) -> str:
    """Return a small picture that its HTML holds itself."""
    encoded = base64.b64encode(png(drawn.figure_, dpi=70)).decode()
    shows = escape(drawn.ax_.get_title(loc="left"))
    return (
        f"<img src='data:image/png;base64,{encoded}' alt='{shows}' width={_WIDTH} "
        "style='display:inline-block'>"
    )
