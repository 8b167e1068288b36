"""``discreet attack``: what a release gives away, shown on the user's own data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from discreet.attack.reidentify import reidentify_auc
from discreet.attack.top_scores import TOP, Guessed, guess_top_scores
from discreet.cli.files import LabelColumn, PositiveLabel
from discreet.cli.loading import with_option_groups
from discreet.data.examples import Examples
from discreet.data.sources import read
from discreet.errors import InputError

app = typer.Typer(
    no_args_is_help=True, help="Show what a release gives away about one person."
)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Options: in which columns scores and labels are."""

    score: Annotated[str, typer.Option(help="Column of scores.")] = "y_score"
    label: LabelColumn = "y_true"
    positive: PositiveLabel = None

    def read(self, file: Path) -> Examples:
        """Read rows; any score will do, since only their order matters."""
        return read(
            file,
            score=self.score,
            label=self.label,
            positive=self.positive,
            kind="logit",
        )


@app.callback()
def _root() -> None:
    """Show what a release gives away about one person."""


@app.command()
@with_option_groups
def auc(
    file: Annotated[Path, typer.Argument(help="Parquet or CSV file of scored rows.")],
    data: Columns,
    size: Annotated[
        list[int], typer.Option(help="Rows in the released AUC; repeat for more.")
    ] = [100, 1000],  # noqa: B006 - typer copies it
    digits: Annotated[
        list[int], typer.Option(help="Decimals of the released AUC; repeat.")
    ] = [2, 3, 4, 5, 6],  # noqa: B006
    trials: Annotated[int, typer.Option(help="Attacks for each size.")] = 500,
    epsilon: Annotated[
        float, typer.Option(help="Of the private release that is attacked too.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the simulated attacks.")] = 1,
) -> None:
    """Guess one row's class from a published AUC and all other rows.

    An attacker who knows every row but the class of one reads it off an AUC with
    enough digits. The null control gets an unrelated AUC: near one half, it shows
    that the guess comes from the release and not from what was known already.
    """
    scores, labels = data.read(file).to_arrays()
    if len(scores) < max(size):
        raise InputError(
            f"the file has {len(scores)} rows, fewer than --size {max(size)}"
        )
    found = reidentify_auc(
        labels,
        scores,
        rng=np.random.default_rng(seed),
        sizes=size,
        digits=digits,
        trials=trials,
        epsilon=epsilon,
    )
    typer.echo(
        f"{'rows':>7}{'digits':>8}{'guessed':>10}{'null control':>14}"
        f"{f'private, eps {epsilon:g}':>20}"
    )
    for row in found:
        typer.echo(
            f"{row.size:7,}{row.digits:8}{row.success:10.2f}{row.null:14.2f}"
            f"{row.private:20.2f}"
        )


@app.command()
@with_option_groups
def top_scores(
    files: Annotated[
        list[Path],
        typer.Argument(help="One Parquet or CSV file a site.", show_default=False),
    ],
    data: Columns,
    top: Annotated[
        list[int], typer.Option(help="How many scores are guessed; repeat.")
    ] = list(TOP),  # noqa: B006 - typer copies it
) -> None:
    """Guess that the examples with the k highest scores are positive.

    Label privacy takes scores as public, and this guess needs nothing else. Sites
    that send their scores shuffled leave the guess their own rate of positives.
    """
    sites = [data.read(path) for path in files]
    typer.echo(f"{'':9}{'scores in order':^33}{'scores shuffled':^33}")
    columns = f"{'positives':>11}{'precision':>11}{'recall':>11}"
    typer.echo(f"{'top':>9}{columns}{columns}")
    for row in guess_top_scores(sites, top):
        typer.echo(f"{row.top:9,}{_cells(row.in_order)}{_cells(row.shuffled)}")


def _cells(guessed: Guessed) -> str:
    return f"{guessed.positives:11,.6g}{guessed.precision:11.4f}{guessed.recall:11.3g}"
