"""How a result shows itself in a notebook: the table, small pictures, the claim in a fold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Final

from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.report import report
from discreet.report.plot import AnyPlot, Display, png
from discreet.report.text import interval_column, titled

if TYPE_CHECKING:
    from discreet.report.evaluation import Evaluation

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
    return f"{names or 'Evaluation'}: {report.count_words(result)}"


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
