"""``discreet verify``: compute a report's numbers again from the release in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.files import read_plan
from discreet.errors import ReleaseError
from discreet.parsing import read_text
from discreet.result.verification import verify as verify_report


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
    """Compute every number of a report again and check its digest and signature.

    Exits with 1 when something does not hold.
    """
    text = read_text(report, "a report")
    trusted = None if plan is None else read_plan(plan)
    try:
        found = verify_report(text, trusted=trusted)
    except ReleaseError as err:
        typer.echo(f"{report.name} does not hold: {err}.")
        raise typer.Exit(1) from None
    typer.echo(f"{report.name} holds.")
    for line in found.sentences():
        typer.echo(line)
