"""The commands of ``discreet``."""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

import discreet
from discreet.cli.demo import run_demo
from discreet.edges import Warped
from discreet.errors import DiscreetError
from discreet.evaluation import Evaluation
from discreet.multievaluation import MultiEvaluation
from discreet.scores import ScoreKind

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Measure a classifier on data you may not see.",
)


class Privacy(StrEnum):
    """Privacy models of the command line."""

    secure_aggregation = "secure-aggregation"


class Kind(StrEnum):
    """Kinds of scores."""

    probability = "probability"
    logit = "logit"
    other = "other"


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
        Privacy, typer.Option(help="Who may learn what.")
    ] = Privacy.secure_aggregation,
    score: Annotated[
        list[str],
        typer.Option(
            help="Column of scores; repeat it in the order of --class for more "
            "classes than two."
        ),
    ] = ["y_score"],  # noqa: B006 - typer copies it
    label: Annotated[str, typer.Option(help="Column of true labels.")] = "y_true",
    positive: Annotated[
        str | None,
        typer.Option(help="The positive label, when labels are not 0/1."),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", help="A class of a multi-class problem; repeat for each."
        ),
    ] = None,
    ovo: Annotated[
        bool, typer.Option("--ovo", help="Also compare each pair of classes.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(help="Column of groups; needs --in-group for each."),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--in-group", help="A declared group; repeat for each."),
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="What the scores are; 'other' needs --low, --high.")
    ] = Kind.probability,
    low: Annotated[
        float | None,
        typer.Option(help="Public lower limit of the scores."),
    ] = None,
    high: Annotated[
        float | None,
        typer.Option(help="Public upper limit of the scores."),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(help="Decision threshold to report; repeat for more."),
    ] = None,
    bins: Annotated[
        int | None,
        typer.Option(help="Number of warped bins; 1,024 by default."),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(help="Write every number to this JSON file."),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option(help="Write ROC, PR and DET plots into this folder."),
    ] = None,
) -> None:
    """Evaluate the pooled data of several files, as if they could not be pooled."""
    score_kind: ScoreKind = kind.value
    sites = [
        discreet.read(
            path,
            label=label,
            score=score[0] if len(score) == 1 else score,
            group=group,
            positive=positive,
            classes=classes,
            kind=score_kind,
            low=low,
            high=high,
        )
        for path in files
    ]
    edges = None if bins is None else Warped(bins)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Counting", total=len(sites))

        def tick(done: int) -> None:
            progress.update(task, completed=done)

        result: Evaluation | MultiEvaluation
        if classes:
            result = discreet.evaluate(
                sites,
                thresholds=threshold,
                edges=edges,
                classes=classes,
                multiclass="ovo" if ovo else "ovr",
                progress=tick,
            )
        elif groups:
            result = discreet.evaluate(
                sites, thresholds=threshold, edges=edges, groups=groups, progress=tick
            )
        else:
            result = discreet.evaluate(
                sites, thresholds=threshold, edges=edges, progress=tick
            )
    del privacy  # the only model so far is the default
    typer.echo(str(result))
    if json is not None:
        json.write_text(result.to_json(indent=1), encoding="utf-8")
    if plots is not None:
        _write_plots(result, plots)


def _write_plots(result: Evaluation | MultiEvaluation, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"": result} if isinstance(result, Evaluation) else dict(result)
    for name, part in parts.items():
        stem = f"{name}-" if name else ""
        part.plot("roc", folder / f"{stem}roc.png")
        part.plot("pr", folder / f"{stem}pr.png")
        part.plot("det", folder / f"{stem}det.png")
    typer.echo(f"Plots are in {folder}/")


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the plots and the JSON file.")
    ] = Path("discreet-demo"),
) -> None:
    """Measure a real model at twelve simulated hospitals that cannot pool data."""
    run_demo(out)


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
