"""``discreet evaluate`` and ``compare``: several files, as if they could not be pooled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from discreet.cli import choices
from discreet.cli import files as options
from discreet.data.tables import is_address
from discreet.errors import InputError
from discreet.plan.cohort import PublicFacts
from discreet.report.build import Result
from discreet.transport.comparison import compare as compare_sites
from discreet.transport.simulation import evaluate as evaluate_sites


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
    measured: choices.MeasureOptions,
    database: options.InDatabase,
    output: options.Output,
    scored: choices.ModelOptions,
    weight: options.WeightColumn = None,
    secagg: bool = False,
    examples: int | None = None,
    score: list[str] = ["y_score"],  # noqa: B006 - typer copies it
    ovo: bool = False,
    group: str | None = None,
    name: str = "",
) -> None:
    """Evaluate the pooled data of files, as if they could not be pooled.

    Options:
        secagg: Add up by the real secure aggregation protocol.
        examples: Public: roughly how many examples there are in all.
        score: Column of scores; repeat it in the order of --class for more classes than
            two.
        ovo: Also compare each pair of classes.
        group: Column of groups; needs --in-group for each.
        name: Name of the measured model.
    """
    model = protection.model()
    if (group is None) != (measured.groups is None):
        raise InputError(
            "--group names the column and --in-group each group in it: give both"
        )
    file = scored.open(
        choices.ScoreOptions(kind=rows.kind, low=rows.low, high=rows.high)
    )
    sites: list[Any] = list(files)
    named: dict[str, Any] = {}
    if file is None:
        columns = {"group": group, "weight": weight, "classes": measured.classes}
        sites = [
            rows.read(
                path, score, **columns, **(asdict(database) if is_address(path) else {})
            )
            for path in files
        ]
    else:
        if score != ["y_score"]:
            raise InputError("the model makes the scores: leave out --score")
        named = {"label": rows.label, "positive": rows.positive, "weight": weight}
        named |= {"subject": rows.subject, "group": group, "model": file}
    declared = sites[0].scores if file is None else file.scores
    facts = PublicFacts(examples, measured.prevalence, declared)
    screen = Console(stderr=True)
    with Progress(
        console=screen, transient=True, disable=not screen.is_terminal
    ) as progress:
        task = progress.add_task("Counting", total=len(sites))
        result: Result = evaluate_sites(
            sites,
            privacy=model,
            examples=examples,
            prevalence=measured.prevalence,
            thresholds=measured.threshold,
            edges=measured.edges(facts),
            classes=measured.classes,
            multiclass="ovo" if ovo else "ovr",
            groups=measured.groups,
            max_weight=measured.max_weight,
            pilot=measured.pilot,
            name=name,
            max_examples_per_site=measured.max_examples_per_site,
            random_groups=measured.random_groups,
            heterogeneity=measured.heterogeneity_question() or False,
            aggregation="secagg" if secagg else "plain",
            progress=lambda done: progress.update(task, completed=done),
            **named,
        )
    output.write(result)


def compare(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[Path],
        typer.Argument(help="One Parquet or CSV file a site.", show_default=False),
    ],
    score: list[str],
    protection: choices.Protection,
    rows: choices.ScoredRows,
    output: options.Output,
    name: list[str] | None = None,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint/--marginals",
            help="Count pairs of bins, which tell how the models' errors go together; "
            "or each model apart, in finer bins, their errors taken as uncorrelated.",
        ),
    ] = True,
    examples: int | None = None,
    prevalence: float | None = None,
) -> None:
    """Compare two models on the same examples of several files: one release.

    Options:
        score: Column of one model's scores; give it twice.
        name: What a model is called, in the order of --score.
        examples: Public: roughly how many examples there are in all.
        prevalence: Public: roughly which share of them is positive.
    """
    if len(score) != 2:
        raise InputError(
            f"a comparison is of two models: give --score twice, not {len(score)} times"
        )
    names = name or score
    if len(names) != 2:
        raise InputError("two models have two names: give --name twice or not at all")
    result = compare_sites(
        [rows.read(path, score) for path in files],
        privacy=protection.model(),
        form="joint" if joint else "marginals",
        examples=examples,
        prevalence=prevalence,
        names=(names[0], names[1]),
    )
    output.write(result)
