"""``discreet site own``: this site beside the consortium, at home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import files
from discreet.cli.site import PlanFile
from discreet.errors import InputError
from discreet.parsing import read_text
from discreet.result.own_view import own_view


def own(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: PlanFile,
    result: Annotated[
        Path,
        typer.Option(help="The opened result: the coordinator's JSON file."),
    ],
    scores: Annotated[str | None, files.PLACE] = None,
    score: files.ScoreColumns = ["y_score"],  # noqa: B006 - typer copies it
    label: files.LabelColumn = "y_true",
    positive: files.PositiveLabel = None,
    group: files.GroupColumn = None,
    subject: files.SubjectColumn = None,
    weight: files.WeightColumn = None,
    table: files.TableName = None,
    where: files.WhereClause = None,
    query: files.SelectQuery = None,
    counts: files.CountsPath = None,
) -> None:
    """Compare this site's own values with the opened result; nothing leaves.

    For plans that were made with `--between`. Nothing is charged or sent.
    """
    agreed = files.read_plan(plan)
    try:
        opened = json.loads(read_text(result, "a result"))
    except ValueError:
        raise InputError(f"{result.name} is no JSON file") from None
    if not isinstance(opened, dict):
        raise InputError("this file is no result of discreet, as JSON")
    examples = files.read_for(
        agreed,
        scores,
        score,
        label,
        positive=positive,
        group=group,
        subject=subject,
        weight=weight,
        table=table,
        where=where,
        query=query,
        counts=counts,
    )
    for line in own_view(agreed, examples, opened):
        typer.echo(line)
