"""``discreet ledger``: a site's record of its releases, and whether it is intact."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from discreet.cli.files import read_plan
from discreet.codec.documents import to_table
from discreet.codec.parsing import read_text, shown
from discreet.errors import InputError, MissingExtraError, ReleaseError
from discreet.privacy.account import Use, charged, paid, spent_by
from discreet.privacy.composition import (
    About,
    charged_total,
    compose,
    losses_about,
    tighter_epsilon,
    units_of,
)
from discreet.privacy.ledger import Held, Ledger
from discreet.privacy.ledger_entries import (
    START,
    Charge,
    Entry,
    LedgerError,
    Purged,
    Refused,
    Released,
    Settled,
    Stored,
    public_dict,
)
from discreet.privacy.ledger_file import secret_path
from discreet.privacy.unit import Unit
from discreet.report.disclosures import many, spent_text, to_csv, to_html
from discreet.session.policy import MOST_DAYS
from discreet.session.preview import spent_dict

app = typer.Typer(no_args_is_help=True)

_Path = Annotated[Path, typer.Argument(help="The ledger's file.")]
_Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file.")]


def _checked_delta(delta: float) -> float:
    if not 0 <= delta < 1:
        raise InputError("--delta lies in [0, 1), and far below one over the people")
    return delta


_Delta = Annotated[
    float,
    typer.Option(
        help="At which delta the tighter total is reported.", callback=_checked_delta
    ),
]


@app.callback()
def _root() -> None:
    """Make and read a site's record of all its releases."""


@app.command()
def new(path: _Path) -> None:
    """Make an empty ledger, once in a site's life."""
    Ledger.new(path).close()
    typer.echo(f"Made {path}; keep it with its .head and its .secret.")


@app.command()
def show(
    path: _Path,
    population: Annotated[
        str | None, typer.Option(help="Only this population.")
    ] = None,
    delta: _Delta = 1e-6,
) -> None:
    """Show every charge, what each population has spent, and what is still stored."""
    with Ledger(path) as ledger:
        entries, (count, tag) = ledger.entries(), ledger.head()
        held = ledger.held()
    charges = _standing(entries)
    names = _populations(entries)
    if population is not None:
        if population not in names:
            raise InputError(
                f"no charge of population {population!r} is in this ledger; it has "
                f"charges of {', '.join(map(repr, names)) or 'none'}"
            )
        names = [population]
    Console().print(_table(path.name, entries, names))
    lacking: set[str] = set()
    for name in names:
        uses = [c.use for c in charges if c.use.population == name]
        rounds = "1 round" if len(uses) == 1 else f"{len(uses)} rounds"
        spent = spent_text(spent_by(uses, name))
        typer.echo(f"{shown(name)}: {spent} spent in {rounds}.")
        for line in _by_unit(paid(uses, name), delta, lacking):
            typer.echo(f"  {line}")
    for sentence in lacking:
        typer.echo(sentence)
    refusals = sum(isinstance(e, Refused) for e in entries)
    if refusals:
        often = "once" if refusals == 1 else f"{refusals} times"
        typer.echo(f"Declined {often}, each day up to the policy's limit counted.")
    for line in _still_held(path, held, entries):
        typer.echo(line)
    typer.echo(_to_note(count, tag))


def _still_held(
    path: Path, held: Sequence[Held], entries: Sequence[Entry]
) -> Iterator[str]:
    """Yield what is stored that is as secret as the data."""
    from discreet.transport.joining import kept_beside  # noqa: PLC0415 - loads sessions

    purged = sum(isinstance(e, Purged) for e in entries)
    if purged:
        yield f"The stored answers of {many(purged, 'session')} were erased."
    for each in held:
        yield (
            f"Still stored: {each.bytes:,} bytes of answers of session "
            f"{each.session.hex()[:8]}, since {each.last[:10]}; as secret as the data, "
            "until the session ends or `discreet ledger purge`."
        )
    if not held:
        yield "No answer is stored."
    kept = kept_beside(path).path
    if kept.exists():
        yield f"{kept.name} holds the keys of an interrupted session."


@app.command()
def purge(
    path: _Path,
    days: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_DAYS,
            help="Sessions that nobody went on with for so many days; 0 for all. By "
            "default caps.retention_days of policy.toml beside the ledger; 30 without.",
        ),
    ] = None,
) -> None:
    """Erase stored answers, and the keys of an interrupted session; charges stay.

    A session that has ended is purged by itself. An interrupted one cannot be resumed
    after this command: what was charged stays charged.
    """
    from discreet.transport.joining import purge_site  # noqa: PLC0415 - loads sessions

    for each in (erased := purge_site(path, days)):
        typer.echo(
            f"Erased {each.bytes:,} bytes of session {each.session.hex()[:8]}, stored "
            f"{each.last[:10]}."
        )
    with Ledger(path) as ledger:
        left, (count, tag) = len(ledger.held()), ledger.head()
    typer.echo(
        f"{many(len(erased), 'session')} erased, {left} still stored; free space of the "
        "file was overwritten. Backups hold what they held."
    )
    typer.echo(_to_note(count, tag))


@app.command()
def rotate(path: _Path) -> None:
    """Replace the ledger's secret, after others may have read it.

    Entries and totals stay, and stay checkable. Whoever has the old secret alone can
    neither change them unseen nor add to them. The old secret stays in the same file:
    it checks what it sealed. Destroy backups that hold it without the new one.
    """
    from discreet.transport.joining import only_process  # noqa: PLC0415 - as above

    with only_process(path), Ledger(path) as ledger:
        ledger.verify()
        ledger.rotate_secret()
        ledger.verify()
        count, tag = ledger.head()
    typer.echo(f"{secret_path(path).name} holds a new secret; back it up anew.")
    typer.echo(_to_note(count, tag))


def _to_note(count: int, tag: str) -> str:
    if not count:
        return "No entry yet: note the last tag elsewhere once there is one."
    return f"{count} entries; note the last tag elsewhere: {tag}"


def _table(title: str, entries: Sequence[Entry], names: Sequence[str]) -> Table:
    charges = [e for e in entries if isinstance(e, Charge)]
    stored = {(e.session, e.round) for e in entries if isinstance(e, Stored)}
    settled = {(e.session, e.round): e for e in entries if isinstance(e, Settled)}
    released = {(e.session, e.round) for e in entries if isinstance(e, Released)}
    table = Table(title=Text(shown(f"{many(len(charges), 'charge')} in {title}")))
    for heading in ("UTC", "population", "plan", "session", "round", "loss", "what"):
        table.add_column(heading, overflow="fold")
    for i, entry in enumerate(charges):
        use = entry.use
        if use.population not in names:
            continue
        key = (use.session, use.round)
        what = [use.note] if use.note else []
        if not charged(use, [c.use for c in charges[:i]]):
            what.append("the same flipped labels, free")
        if key not in stored:
            what.append("no message stored")
        if key in settled:
            sizes = [str(len(sites)) for sites in settled[key].sums]
            sums = "the sum" if len(sizes) == 1 else f"{len(sizes)} sums"
            what.append(f"{', '.join(sizes)} sites in {sums}")
        if key in released:
            what.append("released: it cannot be revealed")
        cells = (
            entry.at.removesuffix("+00:00").replace("T", " "),
            use.population,
            use.plan.hex()[:8],
            use.session.hex()[:8],
            str(use.round + 1),
            str(use.loss),
            "; ".join(what),
        )
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def _tighter(
    unit: Unit | None, charges: Sequence[About], delta: float, lacking: set[str]
) -> float | None:
    """Return a unit's tighter total; None, and what to install, without the extra."""
    try:
        return tighter_epsilon(losses_about(unit, charges)[0], delta=delta)
    except MissingExtraError as error:
        text = str(error)
        lacking.add(f"{text[0].upper()}{text[1:]}.")
        return None


def _by_unit(uses: Sequence[Use], delta: float, lacking: set[str]) -> Iterator[str]:
    """Yield what was spent about each unit that was ever protected."""
    charges = [use.about for use in uses]
    for unit in units_of(charges):
        losses, silent = losses_about(unit, charges)
        name = unit or "a unit that was not recorded"
        line = f"{name}: {spent_text(compose(losses))}"
        if len(losses) > 1:
            tighter = _tighter(unit, charges, delta, lacking)
            if tighter is not None:
                line += f", together ({tighter:.4g}, {delta:g})-DP by dp-accounting"
        if silent:
            many = "1 release says" if silent == 1 else f"{silent} releases say"
            line += f"; {many} nothing about it"
        yield line


@app.command()
def receipt(
    path: _Path,
    plan: Annotated[
        Path, typer.Argument(help="The plan that was answered.", show_default=False)
    ],
    keys: Annotated[Path, typer.Option(help="This site's keys: its identity signs.")],
    out: _Out = None,
) -> None:
    """Sign what this ledger was charged for a plan, to be shown to a reviewer.

    It holds the plan, the loss, the unit and when; no data, and not the population.
    """
    from discreet.report.record import Receipt  # noqa: PLC0415 - loads the results
    from discreet.transport.keys import SiteKeys  # noqa: PLC0415 - likewise

    agreed, identity = read_plan(plan), SiteKeys(keys).identity()
    if agreed.roster is None or identity is None:
        raise InputError(
            "a receipt needs a plan with a roster and this site's identity"
        )
    name = agreed.roster.name_of(identity.public_key().public_bytes_raw())
    with Ledger(path) as ledger:
        charges = _standing(ledger.entries())
    receipts = [
        to_table(Receipt.of(entry.use, entry.at, name).signed(identity.sign))
        for entry in charges
        if entry.use.plan == agreed.digest()
    ]
    if not receipts:
        raise InputError("this ledger holds no charge for this plan")
    _write(receipts, out)


@app.command()
def attach(
    report: Annotated[
        Path, typer.Argument(help="A report, .html or .json.", show_default=False)
    ],
    receipts: Annotated[
        list[Path],
        typer.Argument(help="The sites' receipts.", show_default=False),
    ],
) -> None:
    """Put the sites' receipts into a report, after checking it and them."""
    from discreet.report.verification import (  # noqa: PLC0415 - loads the results
        attach as attach_receipts,
    )

    tables: list[object] = []
    for each in receipts:
        try:
            read = json.loads(read_text(each, "a receipt"))
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, list):
            raise InputError(f"{each.name} holds no receipt of a ledger")
        tables += read
    try:
        text = attach_receipts(read_text(report, "a report"), tables)
    except ReleaseError as err:
        typer.echo(f"{report.name} was left as it was: {err}.")
        raise typer.Exit(1) from None
    report.write_text(text, encoding="utf-8")
    typer.echo(f"{len(tables)} receipts are in {report.name}.")


@app.command()
def verify(
    path: _Path,
    noted: Annotated[
        str | None,
        typer.Option(help="A tag that was noted earlier: it must be in the chain."),
    ] = None,
) -> None:
    """Check every entry and message; exit with 1 if anything was changed."""
    if noted == START.hex():
        raise InputError(
            "the tag of zeros is every empty ledger's and tells nothing: note the last "
            "tag after a charge"
        )
    try:
        with Ledger(path) as ledger:
            ledger.verify(noted=noted)
            count, tag = ledger.head()
    except LedgerError as err:
        typer.echo(f"Not intact: {err}.", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Intact: {count} entries" + (f", last tag {tag}" if count else ""))


@app.command()
def export(
    path: _Path,
    out: _Out = None,
    delta: _Delta = 1e-6,
) -> None:
    """Write the record for an auditor: every disclosure, without secrets and messages.

    As .csv or .html: when, plan, purpose, coordinator, charge, one row each; the page can
    be printed. As .json, or on the screen: every entry and the totals.
    """
    if out is not None and out.suffix not in {".csv", ".html", ".json"}:
        raise InputError(
            "a record is written as .csv, .html or .json; for a PDF, print the .html"
        )
    with Ledger(path) as ledger:
        entries, (count, tag) = ledger.entries(), ledger.head()
    if out is not None and out.suffix == ".csv":
        out.write_text(to_csv(entries), encoding="utf-8")
        return
    if out is not None and out.suffix == ".html":
        made = datetime.now(UTC).date().isoformat()
        title = f"Record of disclosures: {path.name}"
        page = to_html(entries, title=title, head=(count, tag), made=made)
        out.write_text(page, encoding="utf-8")
        return
    uses = [charge.use for charge in _standing(entries)]
    totals, lacking = {}, set[str]()
    for name in _populations(entries):
        charges = [use.about for use in paid(uses, name)]
        totals[name] = {
            "capped": spent_dict(charged_total(charges)),
            "units": [
                _unit_totals(unit, charges, delta, lacking)
                for unit in units_of(charges)
            ],
        }
    document: dict[str, Any] = {
        "discreet": "ledger",
        "version": 1,
        "entries": [public_dict(entry) for entry in entries],
        "head": {"entries": count, "tag": tag},
        "populations": totals,
    }
    _write(document, out)
    for sentence in lacking:
        typer.echo(sentence, err=True)  # the document may be on the screen


def _write(document: Any, out: Path | None) -> None:
    text = json.dumps(document, indent=1)
    if out is None:
        typer.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")


def _unit_totals(
    unit: Unit | None, charges: Sequence[About], delta: float, lacking: set[str]
) -> dict[str, Any]:
    losses, silent = losses_about(unit, charges)
    tighter = _tighter(unit, charges, delta, lacking)
    epsilon = None if tighter == float("inf") else tighter
    return {
        "unit": None if unit is None else str(unit),
        "basic": spent_dict(compose(losses)),
        # An epsilon of None holds at no delta; without the extra nothing is said.
        "composed": None if tighter is None else {"epsilon": epsilon, "delta": delta},
        "silent": silent,
    }


def _standing(entries: Sequence[Entry]) -> list[Charge]:
    """Return the charges that were not released."""
    released = {(e.session, e.round) for e in entries if isinstance(e, Released)}
    return [
        e
        for e in entries
        if isinstance(e, Charge) and (e.use.session, e.use.round) not in released
    ]


def _populations(entries: Sequence[Entry]) -> list[str]:
    return sorted({e.use.population for e in entries if isinstance(e, Charge)})
