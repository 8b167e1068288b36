"""``discreet site own``: this site beside the consortium, at home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import files
from discreet.cli.loading import with_option_groups
from discreet.cli.site import PlanFile
from discreet.codec.parsing import read_text
from discreet.errors import InputError
from discreet.report.heterogeneity import own_view


@with_option_groups
def own(
    plan: PlanFile,
    result: Annotated[
        Path,
        typer.Option(help="The opened result: the coordinator's JSON file."),
    ],
    rows: files.Rows,
) -> None:
    """Compare this site's own values with the opened result; nothing leaves.

    For plans that were made with `--heterogeneity`. Nothing is charged or sent.
    """
    agreed = files.read_plan(plan)
    try:
        opened = json.loads(read_text(result, "a result"))
    except ValueError:
        raise InputError(f"{result.name} is no JSON file") from None
    if not isinstance(opened, dict):
        raise InputError("this file is no result of discreet, as JSON")
    examples = rows.read(agreed)
    for line in own_view(agreed, examples, opened):
        typer.echo(line)
