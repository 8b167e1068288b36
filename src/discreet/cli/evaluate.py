"""``discreet evaluate``: several files, as if they could not be pooled."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from discreet.cli import choices
from discreet.cli import files as options
from discreet.cli.loading import with_option_groups
from discreet.data.sources import read
from discreet.data.tables import is_address
from discreet.errors import InputError
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.result.build import Result
from discreet.runtime.simulation import evaluate as evaluate_sites


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
    scores: choices.ScoresAre,
    output: options.Output,
    subject: options.SubjectColumn = None,
    weight: options.WeightColumn = None,
    max_weight: choices.MaxWeight = None,
    min_survivors: choices.MinSurvivors = None,
    colluders: choices.Colluders = None,
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
    prevalence: choices.Prevalence = None,
    score: Annotated[
        list[str],
        typer.Option(
            help="Column of scores; repeat it in the order of --class for more "
            "classes than two."
        ),
    ] = ["y_score"],  # noqa: B006 - typer copies it
    label: options.LabelColumn = "y_true",
    positive: options.PositiveLabel = None,
    table: options.TableName = None,
    where: options.WhereClause = None,
    query: options.SelectQuery = None,
    classes: choices.Classes = None,
    ovo: Annotated[
        bool, typer.Option("--ovo", help="Also compare each pair of classes.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(help="Column of groups; needs --in-group for each."),
    ] = None,
    groups: choices.Groups = None,
    threshold: choices.Thresholds = None,
    bins: choices.Bins = None,
    look: choices.Look = False,
    max_examples_per_site: choices.MaxExamplesPerSite = None,
    model_name: Annotated[
        str, typer.Option("--model", help="Name of the measured model.")
    ] = "",
    random_groups: choices.RandomGroups = None,
    between: choices.Between = None,
    clusters: choices.ClusterChoice = None,
) -> None:
    """Evaluate the pooled data of several files, as if they could not be pooled."""
    model = protection.model(min_survivors, colluders)
    if (group is None) != (groups is None):
        raise InputError(
            "--group names the column and --in-group each group in it: give both"
        )
    asked = {"table": table, "where": where, "query": query}
    sites = [
        read(
            path,
            label=label,
            score=score[0] if len(score) == 1 else score,
            group=group,
            subject=subject,
            weight=weight,
            positive=positive,
            classes=classes,
            kind=scores.kind.value,
            low=scores.low,
            high=scores.high,
            **({} if not is_address(path) else asked),
        )
        for path in files
    ]
    facts = PublicFacts(examples, prevalence, sites[0].scores)
    binning = None if bins is None else spread_over(bins, facts)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Counting", total=len(sites))
        result: Result = evaluate_sites(
            sites,
            privacy=model,
            examples=examples,
            prevalence=prevalence,
            thresholds=threshold,
            edges=binning,
            classes=classes,
            multiclass="ovo" if ovo else "ovr",
            groups=groups,
            max_weight=max_weight,
            look=look,
            model=model_name,
            max_examples_per_site=max_examples_per_site,
            random_groups=random_groups,
            between=choices.chosen_between(between, clusters) or False,
            aggregation="secagg" if secagg else "plain",
            progress=lambda done: progress.update(task, completed=done),
        )
    output.write(result)
