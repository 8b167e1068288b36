"""``discreet verify``: compute a report again from the release in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from discreet.cli.files import read_plan
from discreet.codec.parsing import read_text
from discreet.errors import ReleaseError
from discreet.report.verification import verify as verify_report

WRONG: Final = 1
UNCHECKED: Final = 3


def verify(
    report: Annotated[
        Path,
        typer.Argument(help="A report, .html or .json.", show_default=False),
    ],
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The plan that you agreed to: its digest must be the report's, and "
            "its roster's coordinator must have signed."
        ),
    ] = None,
) -> None:
    """Compute a report again, compare every word and number, check who signed it.

    Exits with 0 when all of it holds, with 1 when something does not, and with 3 when
    something could not be checked here: it says what.
    """
    text = read_text(report, "a report")
    trusted = None if plan is None else read_plan(plan)
    try:
        found = verify_report(text, trusted=trusted)
    except ReleaseError as err:
        typer.echo(f"{report.name} does not hold: {err}.")
        raise typer.Exit(WRONG) from None
    outcome = "holds" if found.holds else "could not be fully checked"
    typer.echo(f"{report.name} {outcome}.")
    for line in found.sentences():
        typer.echo(line)
    if not found.holds:
        raise typer.Exit(UNCHECKED)
