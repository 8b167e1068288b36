"""``discreet preview``: exactly what would leave this site, before anything does."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from discreet.cli import files
from discreet.cli.confirming import Confirmed, asking
from discreet.cli.loading import with_option_groups
from discreet.codec.parsing import decimal_text, shown
from discreet.errors import InputError
from discreet.privacy.composition import Spent
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.preview import CONFIRM, OwnRows, Preview, own_rows
from discreet.session.preview import preview as make_preview


@with_option_groups
def preview(
    plan: Annotated[Path, typer.Argument(help="The plan, plan.toml.")],
    rows: files.Rows,
    policy: Annotated[
        Path | None, typer.Option(help="The site's policy, policy.toml.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The site's ledger, to see what is left.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write the preview to this JSON file too.")
    ] = None,
    confirmed: Confirmed = False,
) -> None:
    """Show what would leave this site: shapes, sizes, the claim, the charge.

    Draws no noise, charges nothing, sends nothing. Exits with 1 when this site
    would decline the plan, or when its own prevalence or AUC is odd and nobody
    confirms it; these two are shown on this screen and are not in the JSON file.
    """
    asked = files.read_plan(plan)
    examples = rows.read(asked)
    rules = None if policy is None else policyfile.load(policy)
    if ledger is not None and rules is None:
        raise InputError("--ledger needs --policy, which names the population")
    opened = (
        nullcontext()
        if ledger is None or rules is None
        else Ledger(ledger, limits=rules.limits())
    )
    with opened as account:
        found = make_preview(asked, examples, policy=rules, ledger=account)
    _show(found)
    if json is not None:
        text = json_text.dumps(found.to_dict(), indent=1)
        json.write_text(text, encoding="utf-8")
    if found.refusal is not None:
        raise typer.Exit(1)
    if not _confirmed(own_rows(asked, examples), asking(confirmed)):
        raise typer.Exit(1)


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


def _show(found: Preview) -> None:
    console = Console()
    model = found.plan.model.name or "(no model named)"
    typer.echo(f"Plan {found.plan.digest().hex()[:16]}, model {model}")
    if found.query is None:
        typer.echo(f"{found.examples:,} examples were read, and stay here")
    else:
        typer.echo(f"{found.examples:,} examples were counted where they are, by")
        typer.echo(indent(found.query, "    "))
    table = Table(title=Text(f"What would leave this site, {found.sent}"))
    for heading in ("round", "counted in", "numbers", "bytes", "loss"):
        table.add_column(heading, overflow="fold")
    for i, r in enumerate(found.rounds):
        cells = (str(i + 1), r.statistic, f"{r.numbers:,}", f"{r.size:,}", str(r.loss))
        table.add_row(*(Text(shown(cell)) for cell in cells))
    console.print(table)
    typer.echo(str(found.claim))
    typer.echo(f"Would be charged: {spent_text(found.charged())}.")
    if found.spent is not None:
        typer.echo(f"Spent so far: {spent_text(found.spent)}.")
    typer.echo(f"Checked: {found.checked}.")
    if found.refusal is not None:
        typer.echo(f"This site would decline: {found.refusal}.")
    elif found.unchecked:
        typer.echo(f"This site would take part, {found.unchecked}.")
    else:
        typer.echo("This site would take part.")


def spent_text(spent: Spent) -> str:
    """Return a total in words.

    >>> from fractions import Fraction
    >>> spent_text(Spent(Fraction(3, 2), exact_sums=1))
    'epsilon 1.5, 1 exact sum'
    """
    parts = []
    if spent.epsilon:
        parts.append(f"epsilon {decimal_text(spent.epsilon)}")
    if spent.delta:
        parts.append(f"delta {decimal_text(spent.delta)}")
    if spent.exact_sums:
        many = "" if spent.exact_sums == 1 else "s"
        parts.append(f"{spent.exact_sums} exact sum{many}")
    return ", ".join(parts) or "nothing"
