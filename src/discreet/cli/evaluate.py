"""``discreet evaluate`` and ``compare``: several files, as if they could not be pooled."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from discreet.cli import choices
from discreet.cli import files as options
from discreet.cli.entry import was_given
from discreet.data.tables import is_address
from discreet.errors import InputError
from discreet.plan.cohort import PublicFacts
from discreet.plan.privacy_model import PrivacyModel
from discreet.report.build import Result
from discreet.transport.comparison import compare as compare_sites
from discreet.transport.simulation import evaluate as evaluate_sites


def evaluate(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[str],
        typer.Argument(
            help="One place a site: a Parquet, CSV, TSV or Excel file, a folder of "
            "Parquet files, a DuckDB or SQLite file, or a database's address.",
            show_default=False,
        ),
    ],
    protection: choices.Protection,
    rows: choices.ScoredRows,
    measured: choices.MeasureOptions,
    followed: choices.FollowUpOptions,
    database: options.InDatabase,
    output: options.Output,
    scored: choices.ModelOptions,
    weight: options.WeightColumn = None,
    secagg: bool = False,
    examples: int | None = None,
    score: list[str] = ["y_score"],  # noqa: B006 - typer copies it
    ovo: bool = False,
    group: str | None = None,
    site: str | None = None,
    per_site: bool = False,
    name: str = "",
) -> None:
    """Evaluate the pooled data of files, as if they could not be pooled.

    Options:
        secagg: Add up by the real secure aggregation protocol.
        examples: Public: roughly how many examples there are in all.
        score: Column of scores; repeat it in the order of --class for more classes than
            two, or of --labels for several labels.
        ovo: Also compare each pair of classes.
        group: Column of groups; needs --in-group for each.
        site: Column of one file that says at which site a row is: one row per site, the
            pooled row, and what a new site can expect. Without --privacy the file is
            your own data.
        per_site: Under --privacy with noise: release one row per site too, and charge
            for it.
        name: Name of the measured model.
    """
    model: PrivacyModel | None = protection.model()
    if (group is None) != (measured.groups is None):
        raise InputError(
            "--group names the column and --in-group each group in it: give both"
        )
    file = scored.open(rows.declared_scores())
    columns: dict[str, Any] = {
        "group": group,
        "weight": weight,
        "classes": measured.classes,
        "causes": followed.causes,
    }
    if measured.labels:
        columns["label"] = measured.labels
    sites: Any = list(files)
    more: dict[str, Any] = {"per_site": per_site or None}
    if file is None:
        sites = [
            rows.read(
                path, score, **columns, **(asdict(database) if is_address(path) else {})
            )
            for path in files
        ]
    else:
        if score != ["y_score"] or site is not None or measured.labels:
            raise InputError(
                "the model makes the scores: leave out --score, --site and --labels"
            )
        made = ("score", "kind", "low", "high")
        named = {k: v for k, v in rows.columns(score).items() if k not in made}
        more |= {**named, "weight": weight, "group": group, "model": file}
    if site is not None:
        if len(files) != 1 or group is not None:
            raise InputError("--site names a column of one file, without --group")
        where = asdict(database) if is_address(files[0]) else {}
        more |= {"site": site, "weight": weight, **rows.columns(score), **where}
        if measured.labels:
            raise InputError("--site and --labels are two evaluations: give one")
        sites = files[0]
        if not was_given("privacy"):
            model = None
    declared = rows.declared() if file is None else file.scores
    facts = PublicFacts(examples, measured.prevalence, declared)
    screen = Console(stderr=True)
    with Progress(
        console=screen, transient=True, disable=not screen.is_terminal
    ) as progress:
        task = progress.add_task("Counting", total=None if site else len(files))
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
            labels=measured.labels,
            max_weight=measured.max_weight,
            pilot=measured.pilot,
            name=name,
            max_examples_per_site=measured.max_examples_per_site,
            random_groups=measured.random_groups,
            heterogeneity=measured.heterogeneity_question() or False,
            horizons=followed.horizon,
            cuts=followed.cut,
            intervals=followed.intervals,
            censoring=followed.censoring,
            aggregation="secagg" if secagg else "plain",
            progress=lambda done: progress.update(task, completed=done),
            **more,
        )
    output.write(result)


def compare(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[str],
        typer.Argument(
            help="One place a site: a file, a folder of Parquet files, or a database.",
            show_default=False,
        ),
    ],
    score: list[str],
    protection: choices.Protection,
    rows: choices.ScoredRows,
    database: options.InDatabase,
    followed: choices.FollowUpOptions,
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
    group: str | None = None,
    in_group: list[str] | None = None,
) -> None:
    """Compare two models on the same examples of several files: one release.

    Options:
        score: Column of one model's scores; give it twice.
        name: What a model is called, in the order of --score.
        examples: Public: roughly how many examples there are in all.
        prevalence: Public: roughly which share of them is positive.
        group: Column of groups; needs --in-group for each.
        in_group: A declared group, in which the models are compared too; repeat for
            each.
    """
    if (group is None) != (in_group is None):
        raise InputError(
            "--group names the column and --in-group each group in it: give both"
        )
    if len(score) != 2:
        raise InputError(
            f"a comparison is of two models: give --score twice, not {len(score)} times"
        )
    names = name or score
    if len(names) != 2:
        raise InputError("two models have two names: give --name twice or not at all")
    sites = [
        rows.read(
            path,
            score,
            causes=followed.causes,
            group=group,
            **(asdict(database) if is_address(path) else {}),
        )
        for path in files
    ]
    for site in sites:
        if not site.timed:
            site.settled = frozenset({"classes"})
    result = compare_sites(
        sites,
        privacy=protection.model(),
        form="joint" if joint else "marginals",
        examples=examples,
        prevalence=prevalence,
        names=(names[0], names[1]),
        horizons=followed.horizon,
        cuts=followed.cut,
        intervals=followed.intervals,
        censoring=followed.censoring,
        groups=in_group,
    )
    output.write(result)
