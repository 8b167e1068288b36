"""``discreet ledger``: what a site has given away, and whether the record is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from discreet.cli.preview import spent_text
from discreet.privacy.account import charged, paid_losses, tighter_epsilon
from discreet.site.fingerprint import LedgerError
from discreet.site.ledger import Ledger
from discreet.site.ledger_entries import Charge, Settled, Stored, public_dict
from discreet.site.preview import spent_dict

app = typer.Typer(
    no_args_is_help=True, help="Look at a site's record of all that it gave away."
)

_Path = Annotated[Path, typer.Argument(help="The ledger's file.")]
_Delta = Annotated[
    float, typer.Option(help="At which delta the tighter total is reported.")
]


@app.callback()
def _root() -> None:
    """Look at a site's record of all that it gave away."""


@app.command()
def show(
    path: _Path,
    population: Annotated[
        str | None, typer.Option(help="Only this population.")
    ] = None,
    delta: _Delta = 1e-6,
) -> None:
    """Show every charge, and what each population has spent."""
    with Ledger.read(path) as ledger:
        entries = ledger.entries()
        count, tag = ledger.head()
        names = [population] if population is not None else _populations(ledger)
        totals = [(name, ledger.spent(name), ledger.uses(name)) for name in names]
    charges = [e for e in entries if isinstance(e, Charge)]
    stored = {(e.session, e.round) for e in entries if isinstance(e, Stored)}
    survivors = {(e.session, e.round): e for e in entries if isinstance(e, Settled)}
    table = Table(title=f"{len(charges)} charges in {path.name}")
    for heading in ("UTC", "population", "plan", "session", "round", "loss", "what"):
        table.add_column(heading, overflow="fold")
    for i, entry in enumerate(charges):
        use = entry.use
        if use.population not in names:
            continue
        free = not charged(use, [c.use for c in charges[:i]])
        key = (use.session, use.round)
        what = [use.note] if use.note else []
        if free:
            what.append("the same flipped labels, free")
        if key not in stored:
            what.append("no message stored")
        if key in survivors:
            what.append(f"{len(survivors[key].sites)} sites in the sum")
        table.add_row(
            entry.at.removesuffix("+00:00").replace("T", " "),
            use.population,
            use.plan.hex()[:8],
            use.session.hex()[:8],
            str(use.round + 1),
            str(use.loss),
            "; ".join(what),
        )
    Console().print(table)
    for name, spent, uses in totals:
        rounds = "1 round" if len(uses) == 1 else f"{len(uses)} rounds"
        typer.echo(f"{name}: {spent_text(spent)} spent in {rounds}.")
        losses = paid_losses(uses, name)
        if spent.epsilon and not spent.exact_sums and len(losses) > 1:
            tighter = tighter_epsilon(losses, delta=delta)
            typer.echo(f"  together ({tighter:.4g}, {delta:g})-DP by dp-accounting")
    typer.echo(f"{count} entries; note the last tag elsewhere: {tag or 'none yet'}")


@app.command()
def verify(
    path: _Path,
    noted: Annotated[
        str | None,
        typer.Option(help="A tag that was noted earlier: it must be in the chain."),
    ] = None,
) -> None:
    """Check every entry and message; exit with 1 if anything was changed."""
    try:
        with Ledger.read(path) as ledger:
            ledger.verify(noted=noted)
            count, tag = ledger.head()
    except LedgerError as err:
        typer.echo(f"Not intact: {err}.", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Intact: {count} entries, last tag {tag}")


@app.command()
def export(
    path: _Path,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file.")
    ] = None,
    delta: _Delta = 1e-6,
) -> None:
    """Write the record as JSON, without secrets, fingerprints and messages."""
    with Ledger.read(path) as ledger:
        entries = ledger.entries()
        count, tag = ledger.head()
        document: dict[str, Any] = {
            "discreet": "ledger",
            "version": 1,
            "entries": [public_dict(entry) for entry in entries],
            "head": {"entries": count, "tag": tag},
            "populations": {
                name: _totals(ledger, name, delta) for name in _populations(ledger)
            },
        }
    text = json.dumps(document, indent=1)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")


def _totals(ledger: Ledger, name: str, delta: float) -> dict[str, Any]:
    tighter = tighter_epsilon(paid_losses(ledger.uses(name), name), delta=delta)
    bounded = tighter < float("inf")
    composed = {"epsilon": tighter if bounded else None, "delta": delta}
    return {"basic": spent_dict(ledger.spent(name)), "composed": composed}


def _populations(ledger: Ledger) -> list[str]:
    charges = [e for e in ledger.entries() if isinstance(e, Charge)]
    return sorted({entry.use.population for entry in charges})
