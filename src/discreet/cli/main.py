"""The commands of ``discreet``."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast, get_args

import typer
from rich.console import Console
from rich.progress import Progress

import discreet
from discreet.cli.attack import app as attack
from discreet.cli.choices import (
    Bins,
    Classes,
    Colluders,
    Delta,
    Groups,
    High,
    Kind,
    KindOfScores,
    Low,
    MaxExamples,
    MinSurvivors,
    Prevalence,
    Thresholds,
    Unit,
    UnitChoice,
    Wide,
)
from discreet.cli.demo import run_demo
from discreet.cli.exact import app as exact
from discreet.cli.federation import app as federation
from discreet.cli.files import (
    JsonFile,
    LabelColumn,
    PlotFolder,
    PositiveLabel,
    ReportFile,
    SubjectColumn,
    write_result,
)
from discreet.cli.ledger import app as ledger
from discreet.cli.plan import plan
from discreet.cli.preview import preview
from discreet.data.edges import Warped
from discreet.errors import DiscreetError, InputError
from discreet.models.label import (
    CURVE_MECHANISMS,
    RANK_MECHANISMS,
    LabelDP,
    LabelMechanism,
)
from discreet.models.local import LocalMechanism
from discreet.models.recommend import recommend
from discreet.plan.cohort import PublicFacts
from discreet.plan.privacy_model import PrivacyModel
from discreet.result.build import Result
from discreet.runtime.label import evaluate_labels
from discreet.runtime.simulation import run
from discreet.runtime.summing import Aggregation

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Measure a classifier on data you may not see.",
)


class Privacy(StrEnum):
    """Privacy models of the command line."""

    secure_aggregation = "secure-aggregation"
    distributed = "distributed"
    local = "local"
    label = "label"


def _version(value: bool) -> None:
    if value:
        typer.echo(f"discreet {discreet.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Measure a classifier on data you may not see."""


@app.command()
def evaluate(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[Path],
        typer.Argument(help="One Parquet or CSV file a site.", show_default=False),
    ],
    privacy: Annotated[
        Privacy,
        typer.Option(
            help="Who may learn what: exact sums only, sums with distributed noise, "
            "private messages, or public scores with private labels."
        ),
    ] = Privacy.secure_aggregation,
    epsilon: Annotated[
        str | None,
        typer.Option(help="Privacy loss, for distributed, local and label."),
    ] = None,
    delta: Delta = "0",
    unit: UnitChoice = Unit.example,
    max_examples: MaxExamples = None,
    subject: SubjectColumn = None,
    min_survivors: MinSurvivors = None,
    colluders: Colluders = 0,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="How messages are randomised. Local: "
            f"{', '.join(get_args(LocalMechanism))}. Label: "
            f"{', '.join((*RANK_MECHANISMS, *CURVE_MECHANISMS))}; the last three "
            "give curves, the others the AUC alone."
        ),
    ] = None,
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
    wide: Wide = False,
    json: JsonFile = None,
    report: ReportFile = None,
    plots: PlotFolder = None,
) -> None:
    """Evaluate the pooled data of several files, as if they could not be pooled."""
    model = _model(
        privacy,
        epsilon,
        {
            Privacy.distributed: lambda e: discreet.DistributedDP(
                e, delta, unit.value, max_examples, min_survivors, colluders
            ),
            Privacy.local: lambda e: discreet.LocalDP(
                e, cast("LocalMechanism", mechanism or "arc")
            ),
            Privacy.label: lambda e: LabelDP(
                e, delta, cast("LabelMechanism", mechanism or "choice")
            ),
        },
    )
    sites = [
        discreet.read(
            path,
            label=label,
            score=score[0] if len(score) == 1 else score,
            group=group,
            subject=subject,
            positive=positive,
            classes=classes,
            kind=kind.value,
            low=low,
            high=high,
        )
        for path in files
    ]
    binning = None if bins is None else Warped(bins)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Counting", total=len(sites))
        aggregation: Aggregation = "secagg" if secagg else "plain"
        result: Result
        if isinstance(model, LabelDP):
            if classes or groups:
                raise InputError("label privacy measures two classes and no groups")
            result = evaluate_labels(
                sites,
                privacy=model,
                prevalence=prevalence,
                thresholds=threshold,
                edges=binning,
                aggregation=aggregation,
                progress=lambda done: progress.update(task, completed=done),
            )
        else:
            plan = recommend(
                PublicFacts(examples, prevalence, sites[0].scores),
                model,
                thresholds=threshold,
                edges=binning,
                classes=classes,
                multiclass="ovo" if ovo else "ovr",
                groups=groups,
                cohort=model.cohort(len(sites)),
            )
            result = run(
                plan,
                sites,
                aggregation=aggregation,
                progress=lambda done: progress.update(task, completed=done),
            )
    write_result(result, wide=wide, json=json, report=report, plots=plots)


def _model(
    privacy: Privacy,
    epsilon: str | None,
    make: Mapping[Privacy, Callable[[str], PrivacyModel]],
) -> PrivacyModel:
    if privacy is Privacy.secure_aggregation:
        if epsilon is not None:
            raise InputError(
                "exact sums have no epsilon; choose --privacy distributed, local or "
                "label"
            )
        return discreet.SecureAggregation()
    if epsilon is None:
        raise InputError(f"--privacy {privacy.value} needs --epsilon, for instance 1")
    return make[privacy](epsilon)


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the plots and the JSON file.")
    ] = Path("discreet-demo"),
) -> None:
    """Measure a real model at twelve simulated hospitals that cannot pool data."""
    run_demo(out)


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def reproduce(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Say where the papers went."""
    asked = " ".join(names or ["NAME"])
    raise InputError(
        f"the papers left the package: run python -m papers {asked} from a clone"
    )


app.command()(plan)
app.command()(preview)
app.add_typer(federation)
app.add_typer(ledger, name="ledger")
app.add_typer(exact, name="exact")
app.add_typer(attack, name="attack")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    *rest: object,
    **more: object,
) -> None:
    del category, rest, more
    typer.echo(f"Warning: {message}", err=True)


def main() -> None:
    """Run the command line: exit 2 with one clear line on bad input."""
    warnings.showwarning = _show_warning
    try:
        app()
    except DiscreetError as err:
        typer.echo(f"discreet: {err}", err=True)
        sys.exit(2)
    except OSError as err:
        typer.echo(f"discreet: {err.strerror}: {err.filename}", err=True)
        sys.exit(2)
