"""``discreet evaluate``: several files, as if they could not be pooled."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from discreet.cli import choices
from discreet.cli import files as options
from discreet.cli.loading import with_option_groups
from discreet.data.tables import is_address
from discreet.errors import InputError
from discreet.plan.cohort import PublicFacts
from discreet.report.build import Result
from discreet.transport.simulation import evaluate as evaluate_sites


@with_option_groups
def evaluate(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[str],
        typer.Argument(
            help="One place a site: a Parquet or CSV file, a folder of Parquet files, "
            "a DuckDB or SQLite file, or a database's address.",
            show_default=False,
        ),
    ],
    protection: choices.Protection,
    rows: choices.ScoredRows,
    asked: choices.Asked,
    database: options.InDatabase,
    output: options.Output,
    weight: options.WeightColumn = None,
    secagg: Annotated[
        bool,
        typer.Option(
            "--secagg", help="Add up by the real secure aggregation protocol."
        ),
    ] = False,
    examples: Annotated[
        int | None,
        typer.Option(help="Public: roughly how many examples there are in all."),
    ] = None,
    score: Annotated[
        list[str],
        typer.Option(
            help="Column of scores; repeat it in the order of --class for more "
            "classes than two."
        ),
    ] = ["y_score"],  # noqa: B006 - typer copies it
    ovo: Annotated[
        bool, typer.Option("--ovo", help="Also compare each pair of classes.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(help="Column of groups; needs --in-group for each."),
    ] = None,
    model_name: Annotated[
        str, typer.Option("--name", help="Name of the measured model.")
    ] = "",
) -> None:
    """Evaluate the pooled data of several files, as if they could not be pooled."""
    model = protection.model()
    if (group is None) != (asked.groups is None):
        raise InputError(
            "--group names the column and --in-group each group in it: give both"
        )
    columns = {"group": group, "weight": weight, "classes": asked.classes}
    sites = [
        rows.read(
            path, score, **columns, **(asdict(database) if is_address(path) else {})
        )
        for path in files
    ]
    facts = PublicFacts(examples, asked.prevalence, sites[0].scores)
    screen = Console(stderr=True)
    with Progress(
        console=screen, transient=True, disable=not screen.is_terminal
    ) as progress:
        task = progress.add_task("Counting", total=len(sites))
        result: Result = evaluate_sites(
            sites,
            privacy=model,
            examples=examples,
            prevalence=asked.prevalence,
            thresholds=asked.threshold,
            edges=asked.edges(facts),
            classes=asked.classes,
            multiclass="ovo" if ovo else "ovr",
            groups=asked.groups,
            max_weight=asked.max_weight,
            pilot=asked.pilot,
            name=model_name,
            max_examples_per_site=asked.max_examples_per_site,
            random_groups=asked.random_groups,
            heterogeneity=asked.heterogeneity_question() or False,
            aggregation="secagg" if secagg else "plain",
            progress=lambda done: progress.update(task, completed=done),
        )
    output.write(result)
