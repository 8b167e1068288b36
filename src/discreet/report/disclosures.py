"""A site's record of processing: every disclosure in its ledger, for an auditor.

One row for each charge: when, under which plan and for which purpose, who coordinated,
what it cost, and what became of the answer. It is made from the ledger alone and holds no
data, no stored answer and no mark. Purpose and coordinator are the plan's own words and
key; a charge without them is shown so.

Tables are opened in spreadsheets: a cell that a program would take for a formula is
written with an apostrophe before it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Final

from discreet.codec.parsing import decimal_text, shown
from discreet.plan.cohort import fingerprint, key_from_text
from discreet.privacy.account import Use, charged, spent_by
from discreet.privacy.composition import Spent
from discreet.privacy.ledger_entries import Charge, Entry, Purged, Released, Stored

NOT_RECORDED: Final = "not recorded"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_STYLE: Final = """
@page { size: A4 landscape; margin: 12mm }
body { font: 10pt/1.35 "DejaVu Sans", Arial, sans-serif; color: #111; margin: 1.5em }
h1 { font-size: 15pt; margin: 0 0 .3em }
table { border-collapse: collapse; width: 100%; margin: .6em 0 1.2em }
thead { display: table-header-group }
tr { break-inside: avoid }
th, td { border: 1px solid #999; padding: .25em .4em; text-align: left; vertical-align: top }
th { background: #eee; font-size: 8pt }
td { font-size: 8pt; overflow-wrap: anywhere }
p { max-width: 70em; margin: .4em 0 }
"""
_HEADINGS: Final = {
    "at": "UTC",
    "population": "population",
    "purpose": "purpose",
    "model": "model and unit",
    "coordinator": "coordinator's fingerprint",
    "loss": "charge",
    "counted": "counts toward the caps",
    "answer": "stored answer",
    "plan": "plan",
    "session": "session",
    "round": "round",
    "sites": "sites",
}
"""The columns of the page and of the table, in their order."""


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One charge of a ledger, as texts."""

    at: str
    population: str
    purpose: str
    model: str
    coordinator: str
    loss: str
    counted: str
    answer: str
    plan: str
    session: str
    round: str
    sites: str


def disclosures(entries: Sequence[Entry]) -> list[Disclosure]:
    """Return every charge of a ledger, in its order."""
    keys = [(e.session, e.round) for e in entries if isinstance(e, Stored)]
    released = {(e.session, e.round) for e in entries if isinstance(e, Released)}
    purged = {e.session: e.at for e in entries if isinstance(e, Purged)}
    earlier: list[Use] = []
    rows = []
    for entry in entries:
        if not isinstance(entry, Charge):
            continue
        use = entry.use
        key = (use.session, use.round)
        if key not in keys:
            answer = "none was stored"
        elif use.session in purged:
            answer = f"erased {purged[use.session][:10]}"
        else:
            answer = "stored"
        if key in released:
            counted = "no: released, it cannot be revealed"
        elif not charged(use, earlier):
            counted = "no: the same randomized responses again"
        else:
            counted = "yes"
        earlier.append(use)
        rows.append(
            Disclosure(
                entry.at.removesuffix("+00:00").replace("T", " "),
                use.population,
                use.purpose or NOT_RECORDED,
                use.note or NOT_RECORDED,
                _coordinator(use),
                str(use.loss),
                counted,
                answer,
                use.plan.hex(),
                use.session.hex(),
                str(use.round + 1),
                str(len(use.sites)) if use.sites else NOT_RECORDED,
            )
        )
    return rows


def _coordinator(use: Use) -> str:
    return (
        fingerprint(key_from_text(use.coordinator))
        if use.coordinator
        else (NOT_RECORDED)
    )


def to_csv(entries: Sequence[Entry]) -> str:
    """Return the record as a table, one line per disclosure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f.name for f in fields(Disclosure)])
    for row in disclosures(entries):
        writer.writerow([_cell(value) for value in asdict(row).values()])
    return text.getvalue()


def _cell(value: str) -> str:
    plain = shown(value)
    return f"'{plain}" if plain.startswith(_FORMULA) else plain


def to_html(
    entries: Sequence[Entry], *, title: str, head: tuple[int, str], made: str
) -> str:
    """Return the record as a page to print.

    Args:
        entries: of the ledger.
        title: whose record it is.
        head: how many entries there are, and the last tag.
        made: the day of the export.
    """
    rows = disclosures(entries)
    count, tag = head
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        (
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'\">"
        ),
        f"<title>{escape(shown(title))}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(shown(title))}</h1>",
        (
            f"<p>Every disclosure in the ledger of this site, {escape(made)}. "
            f"{many(len(rows), 'charge')} in {count} entries"
            f"{f'; last tag {escape(tag)}' if count else ''}. "
            "The page holds no data and no stored answer. What left this site by other "
            "software is not in it.</p>"
        ),
        *_totals(entries),
        "<table><thead><tr>",
        *(f"<th>{escape(heading)}</th>" for heading in _HEADINGS.values()),
        "</tr></thead><tbody>",
    ]
    for row in rows:
        values = asdict(row)
        cells = (f"<td>{escape(shown(values[name]))}</td>" for name in _HEADINGS)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table></body></html>")
    return "\n".join(lines) + "\n"


def _totals(entries: Sequence[Entry]) -> Iterator[str]:
    released = {(e.session, e.round) for e in entries if isinstance(e, Released)}
    standing = [
        e.use
        for e in entries
        if isinstance(e, Charge) and (e.use.session, e.use.round) not in released
    ]
    yield "<table><thead><tr><th>population</th><th>spent in all</th></tr></thead>"
    for name in sorted({use.population for use in standing}):
        spent = escape(spent_text(spent_by(standing, name)))
        yield f"<tr><td>{escape(shown(name))}</td><td>{spent}</td></tr>"
    yield "</table>"


def many(count: int, what: str) -> str:
    """Return a number of things in words.

    >>> many(1, "charge"), many(2, "charge")
    ('1 charge', '2 charges')
    """
    return f"1 {what}" if count == 1 else f"{count} {what}s"


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
        parts.append(many(spent.exact_sums, "exact sum"))
    return ", ".join(parts) or "nothing"
