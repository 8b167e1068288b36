"""How every result shows itself: as text, JSON, pictures, a saved report, in a notebook."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.report.exports import Exports
from discreet.report.plot import AnyPlot, Display, picture, png
from discreet.report.record import Made, Sign
from discreet.report.text import count_words, interval_column, metric_table, titled
from discreet.report.tracking import log_mlflow
from discreet.report.views import calibratable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.report.evaluation import Evaluation

SUFFIXES: Final = (".html", ".json", ".txt")
_NOTEBOOK_ROWS: Final = ("auc", "average_precision", "brier")
"""The rows of a notebook's small table; ``print(result)`` has all."""
_PICTURE_WIDTH: Final = 230


def check_suffix(path: str | Path) -> Path:
    """Return the path of a report, or say which kinds there are."""
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise InputError("a report is saved as .html, .json or .txt")
    return file


class Shown(ABC):
    """A result: one evaluation, or several by name."""

    claim: Claim

    @property
    @abstractmethod
    def exports(self) -> Exports:
        """The result for other programs: plain values, rows, tables, the page."""

    @abstractmethod
    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim; wide: the interval of every rate too."""

    def __str__(self) -> str:
        return self.to_text()

    def to_json(self, *, indent: int | None = None, record: bool = True) -> str:
        """Return everything as JSON; NaN and infinity become null.

        Without ``record`` what the sites revealed is left out, and nobody can verify
        the rest; of exact sums the curves are left out too, which tell every count.
        """
        values = self.exports.to_dict(record=record)
        return json.dumps(values, indent=indent, allow_nan=False)

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
        parts = self.exports.parts
        drawn = {name: p for name, p in parts.items() if p.fit.refusal is None}
        return picture(drawn or parts, kind, ax=ax, path=path)

    def log_mlflow(self, *, page: bool = True, record: bool = True) -> str:
        """Log the result to the active MLflow run, or to a new one; return its id.

        Every metric with the ends of its interval, the plan's digest and the claim, and
        the page as an artifact; ``record`` as for :meth:`to_json`.
        """
        return log_mlflow(self.exports, page=page, record=record)

    def save(
        self, path: str | Path, *, sign: Sign | None = None, record: bool = True
    ) -> None:
        """Save the result: .html (a report with pictures), .json or .txt.

        ``sign`` is a coordinator's: ``discreet verify`` checks it. ``record`` as for
        :meth:`to_json`.
        """
        file, made = check_suffix(path), Made.today()
        match file.suffix:
            case ".html":
                content = self.exports.html(made, record=record, sign=sign)
            case ".json":
                values = self.exports.to_dict(made, record=record, sign=sign)
                content = json.dumps(values, indent=1, allow_nan=False)
            case _:
                content = self.to_text(wide=True) + "\n"
        file.write_text(content, encoding="utf-8")


class Parts(Shown, Mapping[str, "Evaluation"]):
    """Evaluations by name: of classes, of groups, or of two models."""

    def _lines(self) -> list[str]:
        """Return what stands between the table and the claim."""
        return []

    def to_text(self, *, wide: bool = False) -> str:
        """Return the table and the claim; wide: every part's own table too."""
        parts = [f"{name}\n{part.to_text(wide=True)}\n" for name, part in self.items()]
        table = metric_table(self.exports.summary())
        return "\n".join(
            [*(parts if wide else ()), table, *self._lines(), str(self.claim)]
        )

    def __repr__(self) -> str:
        claim = f"{self.claim.loss}, {self.claim.setting}"
        return f"{type(self).__name__}({', '.join(self)}; {claim})"

    def _repr_html_(self) -> str:
        pictures = picture_html(self.plot("roc")) if self.exports.drawn else ""
        table = table_html(self.exports.summary())
        return table + pictures + claim_html(self.claim)


def estimates_html(rows: Mapping[str, Estimate], claim: Claim) -> str:
    """Return a table of estimates and the claim as a piece of HTML."""
    return table_html(rows) + claim_html(claim)


def evaluation_html(result: Evaluation) -> str:
    """Return an evaluation as a piece of HTML that needs no style sheet."""
    shown = {n: result.metrics[n] for n in _NOTEBOOK_ROWS if n in result.metrics}
    rows = titled(shown or result.metrics)
    for at in result.thresholds.planned()[:1]:
        rates = list(at.rates().items())[:2]
        rows |= {f"{name} at {at.threshold:g}": rate for name, rate in rates}
    model = result.plan.model.name if result.plan is not None else ""
    names = ", ".join(word for word in (model, result.source.part) if word)
    heading = f"{names or 'Evaluation'}: {count_words(result)}"
    kinds: tuple[AnyPlot, ...] = ("roc", "pr") if result.exports.drawn else ()
    if calibratable(result.fit):
        kinds = (*kinds, "calibration")
    pictures = "".join(picture_html(result.plot(kind)) for kind in kinds)
    return (
        f"<p><b>{escape(heading)}</b></p>{table_html(rows)}"
        f"{pictures}{claim_html(result.claim)}"
    )


def table_html(rows: Mapping[str, Estimate]) -> str:
    """Return estimates as a table: value and interval."""
    heading, cells_of = interval_column(rows)
    written = ((escape(name), cells_of(estimate)) for name, estimate in rows.items())
    body = "".join(
        f"<tr><th style='text-align:left'>{name}</th>"
        f"<td>{cells.value}</td><td>{cells.interval}</td></tr>"
        for name, cells in written
    )
    return (
        f"<table><thead><tr><th></th><th>value</th><th>{heading}</th></tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def claim_html(claim: Claim) -> str:
    """Return the claim, which a reader unfolds."""
    promise, *rest = str(claim).splitlines()
    lines = "<br>".join(escape(line) for line in rest)
    return f"<details><summary>{escape(promise)}</summary><p>{lines}</p></details>"


def picture_html(drawn: Display) -> str:
    """Return a small picture that its HTML holds itself."""
    encoded = base64.b64encode(png(drawn.figure_, dpi=70)).decode()
    shows = escape(drawn.ax_.get_title(loc="left"))
    return (
        f"<img src='data:image/png;base64,{encoded}' alt='{shows}' "
        f"width={_PICTURE_WIDTH} style='display:inline-block'>"
    )
