"""``discreet evaluate``: several files, as if they could not be pooled."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from discreet.cli.choices import (
    Between,
    Bins,
    Classes,
    ClusterChoice,
    Colluders,
    Delta,
    Epsilon,
    Groups,
    High,
    Kind,
    KindOfScores,
    Look,
    Low,
    MaxExamples,
    MaxExamplesPerSite,
    MaxWeight,
    MechanismName,
    MinSurvivors,
    Prevalence,
    Privacy,
    PrivacyChoice,
    RandomGroups,
    Thresholds,
    Unit,
    UnitChoice,
    chosen_between,
    chosen_model,
)
from discreet.cli.files import (
    ExportFolder,
    JsonFile,
    LabelColumn,
    PlotFolder,
    PositiveLabel,
    ReportFile,
    SelectQuery,
    SubjectColumn,
    TableName,
    WeightColumn,
    WhereClause,
    Wide,
    write_result,
)
from discreet.data.sources import read
from discreet.data.tables import is_address
from discreet.errors import InputError
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.result.build import Result
from discreet.runtime.simulation import evaluate as evaluate_sites


def evaluate(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[str],
        typer.Argument(
            help="One place a site: a Parquet or CSV file, a folder of Parquet files, "
            "a DuckDB or SQLite file, or a database's address.",
            show_default=False,
        ),
    ],
    privacy: PrivacyChoice = Privacy.secure_aggregation,
    epsilon: Epsilon = None,
    delta: Delta = "0",
    unit: UnitChoice = Unit.example,
    max_examples: MaxExamples = None,
    subject: SubjectColumn = None,
    weight: WeightColumn = None,
    max_weight: MaxWeight = None,
    min_survivors: MinSurvivors = None,
    colluders: Colluders = None,
    mechanism: MechanismName = None,
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
    prevalence: Prevalence = None,
    score: Annotated[
        list[str],
        typer.Option(
            help="Column of scores; repeat it in the order of --class for more "
            "classes than two."
        ),
    ] = ["y_score"],  # noqa: B006 - typer copies it
    label: LabelColumn = "y_true",
    positive: PositiveLabel = None,
    table: TableName = None,
    where: WhereClause = None,
    query: SelectQuery = None,
    classes: Classes = None,
    ovo: Annotated[
        bool, typer.Option("--ovo", help="Also compare each pair of classes.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(help="Column of groups; needs --in-group for each."),
    ] = None,
    groups: Groups = None,
    kind: KindOfScores = Kind.probability,
    low: Low = None,
    high: High = None,
    threshold: Thresholds = None,
    bins: Bins = None,
    look: Look = False,
    max_examples_per_site: MaxExamplesPerSite = None,
    model_name: Annotated[
        str, typer.Option("--model", help="Name of the measured model.")
    ] = "",
    random_groups: RandomGroups = None,
    between: Between = None,
    clusters: ClusterChoice = None,
    wide: Wide = False,
    json: JsonFile = None,
    report: ReportFile = None,
    plots: PlotFolder = None,
    export: ExportFolder = None,
) -> None:
    """Evaluate the pooled data of several files, as if they could not be pooled."""
    model = chosen_model(
        privacy,
        epsilon=epsilon,
        delta=delta,
        unit=unit,
        max_examples=max_examples,
        mechanism=mechanism,
        min_survivors=min_survivors,
        colluders=colluders,
    )
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
            kind=kind.value,
            low=low,
            high=high,
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
            between=chosen_between(between, clusters) or False,
            aggregation="secagg" if secagg else "plain",
            progress=lambda done: progress.update(task, completed=done),
        )
    write_result(
        result, wide=wide, json=json, report=report, plots=plots, export=export
    )
