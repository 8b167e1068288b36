"""``discreet query``: the one query of a plan, for a site that lets no tool connect."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.files import (
    GroupColumn,
    LabelColumn,
    ScoreColumns,
    SubjectColumn,
    read_plan,
)
from discreet.data.arrow_columns import Names
from discreet.data.pushdown import written
from discreet.errors import InputError
from discreet.session.preview import plan_bound, plan_cuts
from discreet.statistic.weighted import Weighted


class Engine(StrEnum):
    """Engines that take a query by hand, and count as NumPy does."""

    duckdb = "duckdb"
    sqlite = "sqlite"
    postgres = "postgres"
    mariadb = "mariadb"


def query(
    plan: Annotated[Path, typer.Argument(help="The plan, plan.toml.")],
    engine: Annotated[Engine, typer.Option(help="Whose SQL to write.")],
    table: Annotated[str, typer.Option(help="The table or view of scored rows.")],
    score: ScoreColumns = ["y_score"],  # noqa: B006 - typer copies it
    label: LabelColumn = "y_true",
    group: GroupColumn = None,
    subject: SubjectColumn = None,
) -> None:
    """Print the query that counts a plan's rows in a database, to run by hand.

    Nothing is opened or read. Save the result as CSV with its header, and take part
    with it: `discreet site plan.toml --counts counts.csv`.
    """
    asked = read_plan(plan)
    if isinstance(asked.statistic, Weighted):
        raise InputError(
            "the plan adds up weights, which a database does not do for it: take part "
            "with the rows themselves"
        )
    bound = plan_bound(asked, subject)
    names = Names(tuple(score), label, group, bound.subject)
    text = written(
        table,
        names,
        plan_cuts(asked, len(score)),
        engine.value,
        scores=asked.facts.scores,
        bound=bound,
    )
    typer.echo(text + ";")
