"""``discreet verify`` and ``attack``: what a report proves, what a release gives away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from discreet.attack.reidentify import reidentify_auc
from discreet.attack.top_scores import TOP, Guessed, guess_top_scores
from discreet.cli.files import InDatabase, LabelColumn, PositiveLabel, read_plan
from discreet.cli.main import with_option_groups
from discreet.codec.parsing import read_text
from discreet.data.examples import Examples
from discreet.data.file_format import FileFormat
from discreet.data.sources import read
from discreet.data.tables import is_address
from discreet.errors import InputError, ReleaseError
from discreet.plan.revocation import RevokedKeys
from discreet.report.verification import verify as verify_report

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, kw_only=True)
class AttackedColumns(FileFormat, InDatabase):
    """In which columns scores and labels are.

    Options:
        score: Column of scores.
    """

    score: str = "y_score"
    label: LabelColumn = "y_true"
    positive: PositiveLabel = None

    def read(self, file: Path) -> Examples:
        """Read rows; any score will do, since only their order matters."""
        database: dict[str, Any] = {
            "table": self.table,
            "where": self.where,
            "query": self.query,
        }
        rows = read(
            file,
            score=self.score,
            label=self.label,
            positive=self.positive,
            kind="logit",
            **self.keywords(),
            **(database if is_address(file) else {}),
        )
        rows.settled = frozenset({"kind", "classes"})
        return rows


@app.callback()
def _root() -> None:
    """Show what a release gives away about one person."""


@app.command()
@with_option_groups
def auc(
    file: Annotated[Path, typer.Argument(help="Parquet or CSV file of scored rows.")],
    data: AttackedColumns,
    size: list[int] = [100, 1000],  # noqa: B006 - typer copies it
    digits: list[int] = [2, 3, 4, 5, 6],  # noqa: B006
    trials: int = 500,
    epsilon: float = 1.0,
    seed: int = 1,
) -> None:
    """Guess one row's class from a published AUC and all other rows.

    An attacker who knows every row but the class of one infers it from an AUC with
    enough digits. The null control gets an unrelated AUC: near one half, it shows
    that the guess comes from the release and not from what was known already.

    Options:
        size: Rows in the released AUC; repeat for more.
        digits: Decimals of the released AUC; repeat.
        trials: Attacks for each size.
        epsilon: Of the private release that is attacked too.
        seed: Of the simulated attacks.
    """
    scores, labels = data.read(file).to_arrays()
    if len(scores) < max(size):
        raise InputError(
            f"the file has {len(scores)} rows, fewer than --size {max(size)}"
        )
    guesses = reidentify_auc(
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
    for row in guesses:
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
    data: AttackedColumns,
    top: list[int] = list(TOP),  # noqa: B006 - typer copies it
) -> None:
    """Guess that the examples with the k highest scores are positive.

    Label privacy takes scores as public, and this guess needs nothing else. Sites
    that send their scores shuffled leave the guess their own rate of positives.

    Options:
        top: How many scores are guessed; repeat.
    """
    sites = [data.read(path) for path in files]
    typer.echo(f"{'':9}{'scores in order':^33}{'scores shuffled':^33}")
    columns = f"{'positives':>11}{'precision':>11}{'recall':>11}"
    typer.echo(f"{'top':>9}{columns}{columns}")
    for row in guess_top_scores(sites, top):
        typer.echo(f"{row.top:9,}{_cells(row.in_order)}{_cells(row.shuffled)}")


def _cells(guessed: Guessed) -> str:
    return f"{guessed.positives:11,.6g}{guessed.precision:11.4f}{guessed.recall:11.3g}"


WRONG: Final = 1
UNCHECKED: Final = 3


def verify(
    report: Annotated[
        Path,
        typer.Argument(help="A report, .html or .json.", show_default=False),
    ],
    plan: Path | None = None,
    revoked: list[Path] | None = None,
) -> None:
    """Compute a report again, compare all words and numbers, check who signed.

    Exits with 0 when all of it holds, with 1 when something does not, and with 3 when
    something could not be checked here: it says what.

    Options:
        plan: The plan that you agreed to: its digest must be the report's, and its
            roster's coordinator must have signed.
        revoked: Revoked keys, revoked.toml of your folder or a member's
            NAME.revoked.toml; repeat for more.
    """
    text = read_text(report, "a report")
    trusted = None if plan is None else read_plan(plan)
    lists = map(RevokedKeys.read, revoked or ())
    every = (r for keys in lists for r in keys.revoked)
    known = RevokedKeys(tuple(sorted(every, key=lambda r: r.since)))  # the earliest day
    try:
        verification = verify_report(text, trusted=trusted, revoked=known)
    except ReleaseError as err:
        typer.echo(f"{report.name} does not hold: {err}.")
        raise typer.Exit(WRONG) from None
    outcome = "holds" if verification.holds else "could not be fully checked"
    typer.echo(f"{report.name} {outcome}.")
    for line in verification.sentences():
        typer.echo(line)
    if not verification.holds:
        raise typer.Exit(UNCHECKED)
