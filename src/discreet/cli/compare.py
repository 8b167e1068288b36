"""``discreet compare``: two models on the same examples, one release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli import choices
from discreet.cli import files as options
from discreet.cli.loading import with_option_groups
from discreet.errors import InputError
from discreet.transport.comparison import compare as compare_sites


@with_option_groups
def compare(  # noqa: PLR0913, PLR0917 - one option a choice
    files: Annotated[
        list[Path],
        typer.Argument(help="One Parquet or CSV file a site.", show_default=False),
    ],
    score: Annotated[
        list[str],
        typer.Option(help="Column of one model's scores; give it twice."),
    ],
    protection: choices.Protection,
    rows: choices.ScoredRows,
    output: options.Output,
    name: Annotated[
        list[str] | None,
        typer.Option(help="What a model is called, in the order of --score."),
    ] = None,
    joint: Annotated[
        bool,
        typer.Option(
            "--joint/--marginals",
            help="Count pairs of bins, which tell how the models' errors go together; "
            "or each model apart, in finer bins, their errors taken as uncorrelated.",
        ),
    ] = True,
    examples: Annotated[
        int | None,
        typer.Option(help="Public: roughly how many examples there are in all."),
    ] = None,
    prevalence: choices.Prevalence = None,
) -> None:
    """Compare two models on the same examples of several files: one release."""
    if len(score) != 2:
        raise InputError(
            f"a comparison is of two models: give --score twice, not {len(score)} times"
        )
    names = name or score
    if len(names) != 2:
        raise InputError("two models have two names: give --name twice or not at all")
    found = compare_sites(
        [rows.read(path, score) for path in files],
        privacy=protection.model(),
        form="joint" if joint else "marginals",
        examples=examples,
        prevalence=prevalence,
        names=(names[0], names[1]),
    )
    output.write(found)
