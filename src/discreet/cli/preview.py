"""``discreet preview`` and ``query``: what would leave this site, before anything does."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from textwrap import indent
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from discreet.cli import files
from discreet.codec.parsing import shown
from discreet.data.arrow_columns import Names
from discreet.data.pushdown import written
from discreet.errors import InputError
from discreet.plan.revocation import RevokedKeys
from discreet.privacy.ledger import Ledger
from discreet.report.disclosures import spent_text
from discreet.session import policy as policyfile
from discreet.session.preview import (
    CONFIRM,
    OwnRows,
    Preview,
    own_rows,
    plan_bound,
    plan_cuts,
)
from discreet.session.preview import preview as make_preview
from discreet.statistic.weighted import Weighted
from discreet.transport.joining import limits_of
from discreet.transport.keys import LEDGER, POLICY

Confirmed: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--confirmed",
        help="This site's own rows are right, although their prevalence is far from the "
        "plan's or their AUC below one half.",
    ),
]


def preview(
    plan: files.PlanFile,
    rows: files.Rows,
    keys: Path | None = None,
    policy: Path | None = None,
    ledger: Path | None = None,
    json: Path | None = None,
    confirmed: Confirmed = False,
) -> None:
    """Show what would leave this site: shapes, sizes, the claim, the charge.

    Draws no noise, charges nothing, sends nothing. Exits with 1 when this site
    would decline the plan, or when its own prevalence or AUC is odd and nobody
    confirms it; these two are shown on this screen and are not in the JSON file.

    Options:
        keys: This site's folder: its policy, its ledger and its revoked.toml are used.
        policy: The site's policy, policy.toml; revoked.toml beside it is compared, too.
        ledger: The site's ledger, to see what is left.
        json: Write the preview to this JSON file too.
    """
    agreed = files.read_plan(plan)
    if keys is not None:
        policy, ledger = policy or keys / POLICY, ledger or keys / LEDGER
    rules = None if policy is None else policyfile.load(policy)
    if ledger is not None and rules is None:
        raise InputError("--ledger needs --policy, which names the population")
    if rules is not None and agreed.model.scoring is not None:
        rules.check(agreed)  # before a model file is run
    examples = rows.read(agreed)
    folder = keys if keys is not None or policy is None else policy.parent
    revoked = RevokedKeys() if folder is None else RevokedKeys.beside(folder)
    ledger_file = (
        nullcontext()
        if ledger is None or rules is None
        else Ledger(ledger, limits=limits_of(rules, revoked))
    )
    with ledger_file as account:
        outcome = make_preview(
            agreed, examples, policy=rules, ledger=account, revoked=revoked
        )
    _show(outcome)
    if json is not None:
        text = json_text.dumps(outcome.to_dict(), indent=1)
        json.write_text(text, encoding="utf-8")
    if outcome.refusal is not None:
        raise typer.Exit(1)
    if not _confirmed(own_rows(agreed, examples), asking(confirmed)):
        raise typer.Exit(1)


def asking(confirmed: bool) -> Callable[[str], bool]:
    """Return what asks the operator: the option, or a question on a terminal."""

    def agrees(text: str) -> bool:
        if confirmed:
            return True
        if not sys.stdin.isatty():
            return False
        typer.echo(text, err=True)
        return typer.confirm("Are these the rows that you mean?", err=True)

    return agrees


def _confirmed(rows: OwnRows, agrees: Callable[[str], bool]) -> bool:
    """Show the operator the site's own rows, and ask about what is odd."""
    typer.echo(f"Your own rows, shown here alone: {rows}.")
    concerns = "; ".join(rows.concerns())
    if not concerns:
        return True
    if agrees(f"Look again: {concerns}."):
        typer.echo(f"Confirmed by the operator: {concerns}.")
        return True
    typer.echo(f"Not confirmed: {concerns}. Do not join; {CONFIRM}.")
    return False


def _show(outcome: Preview) -> None:
    model = outcome.plan.model.name or "(no model named)"
    typer.echo(f"Plan {outcome.plan.digest().hex()[:16]}, model {shown(model)}")
    if outcome.plan.purpose:
        typer.echo(f"Purpose: {shown(outcome.plan.purpose)}")
    measured = outcome.plan.model
    made = f"made here by the model file {measured.digest}"
    typer.echo(f"Scores: {made if measured.scoring else 'a column of this site'}")
    if outcome.query is None:
        typer.echo(f"{outcome.examples:,} examples were read, and stay here")
    else:
        typer.echo(f"{outcome.examples:,} examples were counted where they are, by")
        typer.echo(indent(outcome.query, "    "))
    table = Table(title=Text(f"What would leave this site, {outcome.sent}"))
    for heading in ("round", "counted in", "numbers", "bytes", "loss"):
        table.add_column(heading, overflow="fold")
    for i, r in enumerate(outcome.rounds):
        cells = (str(i + 1), r.statistic, f"{r.numbers:,}", f"{r.size:,}", str(r.loss))
        table.add_row(*(Text(shown(cell)) for cell in cells))
    Console().print(table)
    typer.echo(str(outcome.claim))
    typer.echo(f"Would be charged: {spent_text(outcome.charged())}.")
    if outcome.spent is not None:
        typer.echo(f"Spent so far: {spent_text(outcome.spent)}.")
    typer.echo(f"Checked: {outcome.checked}.")
    if outcome.refusal is not None:
        typer.echo(f"This site would decline: {outcome.refusal}.")
    else:
        unchecked = f", {outcome.unchecked}" if outcome.unchecked else ""
        typer.echo(f"This site would take part{unchecked}.")


class SqlDialect(StrEnum):
    """Engines that take a query by hand, and count as NumPy does."""

    duckdb = "duckdb"
    sqlite = "sqlite"
    postgres = "postgres"
    mariadb = "mariadb"


def query(  # noqa: PLR0913, PLR0917 - one option a choice
    plan: files.PlanFile,
    engine: SqlDialect,
    table: str,
    score: files.ScoreColumns = ["y_score"],  # noqa: B006 - typer copies it
    label: files.LabelColumn = "y_true",
    time: files.TimeColumn = None,
    event: files.EventColumn = None,
    group: files.GroupColumn = None,
    subject: files.SubjectColumn = None,
) -> None:
    """Print the query that counts a plan's rows in a database, to run by hand.

    Nothing is opened or read. Save the result as CSV with its header, and take part
    with it: `discreet site plan.toml --counts counts.csv`.

    Options:
        engine: Whose SQL to write.
        table: The table or view of scored rows.
    """
    agreed = files.read_plan(plan)
    if isinstance(agreed.statistic, Weighted):
        raise InputError(
            "the plan adds up weights, which a database does not do for it: take part "
            "with the rows themselves"
        )
    files.check_followed(agreed, time, event)
    bound = plan_bound(agreed, subject)
    text = written(
        table,
        Names(tuple(score), event or label, group, bound.subject, time=time),
        plan_cuts(agreed, len(score)),
        engine.value,
        scores=agreed.facts.scores,
        bound=bound,
    )
    typer.echo(text + ";")
