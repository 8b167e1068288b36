"""The result as one HTML file: numbers, pictures, claim and plan, nothing to load.

The file holds its styles and pictures, runs no script and asks no server, so it can
be mailed, archived and opened behind a hospital's firewall.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from discreet.errors import InputError
from discreet.estimate.estimate import Estimate
from discreet.privacy.claim import Claim
from discreet.result.text import interval_column

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

_TEMPLATES: Final = Path(__file__).parent / "templates"
_DOCTYPE: Final = re.compile(r"^.*?(?=<svg)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Section:
    """One evaluation on the page: its tables, then its pictures."""

    tables: Mapping[str, Mapping[str, Estimate]]
    """Estimates by name, by the table's heading."""
    counts: str
    lines: tuple[str, ...] = ()
    """Sentences below the tables: calibration, notes, refusals."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """Pictures by what they show, for readers who cannot see them."""
    name: str = ""


@dataclass(frozen=True, eq=False)
class Page:
    """What the file says, from the headline to the small print."""

    title: str
    sections: tuple[Section, ...]
    claim: Claim
    plan: str = ""
    """The plan file, so that a reader can check what was asked."""
    digest: str = ""


def save(
    path: str | Path,
    *,
    html: Callable[[], Page],
    json: Callable[[], str],
    text: Callable[[], str],
) -> None:
    """Save a result in the form that the file's name asks for."""
    found = check_suffix(path)
    match found.suffix:
        case ".html":
            content = render(html())
        case ".json":
            content = json()
        case _:
            content = text() + "\n"
    found.write_text(content, encoding="utf-8")


def render(page: Page) -> str:
    """Return the HTML of a page; the same page always gives the same bytes."""
    sections = [
        {
            "name": section.name,
            "counts": section.counts,
            "lines": section.lines,
            "tables": [_cells(*table) for table in section.tables.items()],
            "figures": {
                shows: _svg(figure, salt=f"{section.name}{shows}")
                for shows, figure in section.figures.items()
            },
        }
        for section in page.sections
    ]
    promise, *rest = str(page.claim).splitlines()
    return _template().render(
        title=page.title,
        sections=sections,
        promise=promise.removeprefix("Claim: "),
        claim=rest,
        plan=page.plan,
        digest=page.digest,
    )


def _cells(heading: str, rows: Mapping[str, Estimate]) -> dict[str, object]:
    interval, cells_of = interval_column(rows)
    written = {name: cells_of(found) for name, found in rows.items()}
    return {"heading": heading, "interval": interval, "rows": written}


def check_suffix(path: str | Path) -> Path:
    """Return the path of a report, or say which kinds there are."""
    found = Path(path)
    if found.suffix not in (".html", ".json", ".txt"):
        raise InputError("a report is saved as .html, .json or .txt")
    return found


@cache
def _template() -> Template:
    from jinja2 import (  # noqa: PLC0415 - only a report needs it
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _svg(figure: Figure, *, salt: str) -> str:
    """Return a figure as an SVG element whose ids are its own and never change."""
    from matplotlib import rc_context  # noqa: PLC0415 - slow to import

    drawn = io.StringIO()
    with rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return _DOCTYPE.sub("", drawn.getvalue())
