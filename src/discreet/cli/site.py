"""``discreet site``: take part in a plan with a site's data."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.files import (
    PLACE,
    CountsPath,
    GroupColumn,
    LabelColumn,
    PositiveLabel,
    ScoreColumns,
    SelectQuery,
    SubjectColumn,
    TableName,
    WhereClause,
    read_for,
    read_plan,
)
from discreet.errors import MissingExtraError
from discreet.runtime.delivery import WAIT_SECONDS
from discreet.runtime.flower.keys import SiteKeys
from discreet.site import policyfile
from discreet.site.letters import Ending, Kind, Letter

PORT = 9443


def site(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: Annotated[Path, typer.Argument(help="The plan that was agreed on.")],
    policy: Annotated[Path, typer.Option(help="What this site allows.")],
    keys: Annotated[Path, typer.Option(help="Folder of this site's keys.")],
    scores: Annotated[str | None, PLACE] = None,
    coordinator: Annotated[
        str, typer.Option(help="Where the coordinator listens, as host:port.")
    ] = f"127.0.0.1:{PORT}",
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger; by default beside the policy."),
    ] = None,
    score: ScoreColumns = ["y_score"],  # noqa: B006 - typer copies it
    label: LabelColumn = "y_true",
    positive: PositiveLabel = None,
    group: GroupColumn = None,
    subject: SubjectColumn = None,
    table: TableName = None,
    where: WhereClause = None,
    query: SelectQuery = None,
    counts: CountsPath = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a word of the coordinator.")
    ] = WAIT_SECONDS,
) -> None:
    """Take part in a plan with this site's data, once.

    Exits with 0 when the result was opened, with 1 when the session was aborted or
    this site declined, and with 2 when it could not take part or never heard how it
    ended. Started again after a crash, it goes on where it was.
    """
    # Only whoever joins pays for loading Flower.
    try:
        from discreet.runtime.flower.joining import JoiningSite  # noqa: PLC0415
    except ModuleNotFoundError as err:
        raise missing_flower(err) from err
    # Being ended by pid leaves as cleanly as by the keyboard.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    agreed = read_plan(plan)
    joining = JoiningSite(
        agreed,
        read_for(
            agreed,
            scores,
            score,
            label,
            positive=positive,
            group=group,
            subject=subject,
            table=table,
            where=where,
            query=query,
            counts=counts,
        ),
        policyfile.load(policy),
        ledger or policy.with_name("ledger.sqlite"),
        SiteKeys(keys),
        answered=_show_answer,
        tell=lambda text: typer.echo(text, err=True),
    )
    joining.check()
    typer.echo(
        f"Waiting for {coordinator}: plan {agreed.digest().hex()[:16]}", err=True
    )
    ended = joining.join(coordinator, wait_seconds=wait)
    if ended.declined:
        typer.echo(f"This site declined, see above; {ended.ending.sentence}.", err=True)
    elif ended.ending is Ending.OPENED:
        typer.echo(f"Done: {ended.ending.sentence}.", err=True)
    else:
        typer.echo(
            f"Aborted: {ended.ending.sentence}; what was charged stays charged.",
            err=True,
        )
    if ended.declined or ended.ending is not Ending.OPENED:
        raise typer.Exit(1)


def _show_answer(answer: Letter) -> None:
    if answer.kind is Kind.STEP:
        size = len(answer.encode())
        typer.echo(f"round {answer.round + 1}: sent {size:,} bytes", err=True)


def missing_flower(
    error: ModuleNotFoundError,
) -> ModuleNotFoundError | MissingExtraError:
    """Say which extra a missing module belongs to."""
    if (error.name or "").split(".")[0] != "flwr":
        return error
    return MissingExtraError("joining a federation", "flower")
