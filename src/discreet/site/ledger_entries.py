r"""The ledger's entries, their bytes, and the chain that binds them.

An entry is canonical JSON. Its tag is

.. math::
    t_i = \text{HMAC}_s(t_{i-1}, i, \text{body}_i), \qquad t_0 = 0^{32},

with the site's secret s: whoever changes, removes or inserts an entry needs s to
make the tags fit again. Dropping the last entries is seen by the head, the tag of
the number of entries and the last tag. Putting back an old copy of all files is seen
only by whoever noted a head elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from discreet.privacy.account import Use
from discreet.privacy.loss import (
    ZCDP,
    ApproxDP,
    Loss,
    PureDP,
    Unbounded,
    amount_from_text,
    decimal_text,
)
from discreet.site.fingerprint import LedgerError, SiteSecret

START: Final = bytes(32)
"""The tag before the first entry."""


class TamperedLedgerError(LedgerError):
    """An entry is not what was written: changed, removed, inserted or cut off."""

    def __init__(self, entry: int, what: str) -> None:
        super().__init__(f"entry {entry} of the ledger {what}")
        self.entry = entry


@dataclass(frozen=True, slots=True)
class Charge:
    """A use was charged. Its intent and reusable digest are marks, not digests."""

    at: str
    use: Use


@dataclass(frozen=True, slots=True)
class Stored:
    """The outgoing bytes of a charged round were stored; this is their mark."""

    at: str
    session: bytes
    round: int
    mark: bytes


@dataclass(frozen=True, slots=True)
class Settled:
    """Which sites survived in an exact sum, as this site was told."""

    at: str
    session: bytes
    round: int
    sites: tuple[str, ...]


Entry: TypeAlias = Charge | Stored | Settled


def encode(entry: Entry) -> bytes:
    """Return the canonical bytes of an entry."""
    return json.dumps(to_dict(entry), sort_keys=True, separators=(",", ":")).encode()


def decode(body: bytes) -> Entry:
    """Read what ``encode`` wrote. Only for bodies whose tag was checked."""
    document = json.loads(body)
    at, session = document["at"], bytes.fromhex(document["session"])
    number = document["round"]
    match document["entry"]:
        case "charge":
            reusable = document["reusable"]
            return Charge(
                at,
                Use(
                    document["population"],
                    session,
                    number,
                    _loss(document["loss"]),
                    bytes.fromhex(document["intent"]),
                    bytes.fromhex(document["plan"]),
                    tuple(document["sites"]),
                    None if reusable is None else bytes.fromhex(reusable),
                    document["note"],
                ),
            )
        case "stored":
            return Stored(at, session, number, bytes.fromhex(document["mark"]))
        case "settled":
            return Settled(at, session, number, tuple(document["sites"]))
        case _:
            raise LedgerError(
                "the ledger holds an entry that this discreet cannot read"
            )


def to_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain values."""
    match entry:
        case Charge(at, use):
            return {
                "entry": "charge",
                "at": at,
                "population": use.population,
                "session": use.session.hex(),
                "round": use.round,
                "loss": _loss_table(use.loss),
                "intent": use.intent.hex(),
                "plan": use.plan.hex(),
                "sites": list(use.sites),
                "reusable": None if use.reusable is None else use.reusable.hex(),
                "note": use.note,
            }
        case Stored(at, session, number, mark):
            named = {"session": session.hex(), "round": number, "mark": mark.hex()}
            return {"entry": "stored", "at": at, **named}
        case Settled(at, session, number, sites):
            told = {"session": session.hex(), "round": number, "sites": list(sites)}
            return {"entry": "settled", "at": at, **told}


def public_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry without the marks of data and messages, for export."""
    document = to_dict(entry)
    for mark in ("intent", "mark"):
        document.pop(mark, None)
    if "reusable" in document:
        document["reusable"] = document["reusable"] is not None
    return document


def entry_tag(secret: SiteSecret, previous: bytes, number: int, body: bytes) -> bytes:
    """Return the tag of an entry after the previous one's."""
    return secret.mark("entry", previous, number.to_bytes(8, "big"), body)


def head_tag(secret: SiteSecret, entries: int, last: bytes) -> bytes:
    """Return the tag of the whole chain."""
    return secret.mark("head", entries.to_bytes(8, "big"), last)


def message_mark(secret: SiteSecret, session: bytes, number: int, raw: bytes) -> bytes:
    """Return the mark of a stored message."""
    return secret.mark("message", session, number.to_bytes(8, "big"), raw)


def _loss_table(loss: Loss) -> dict[str, str]:
    match loss:
        case PureDP(epsilon):
            return {"kind": "pure", "epsilon": decimal_text(epsilon)}
        case ApproxDP(epsilon, delta):
            amounts = {"epsilon": decimal_text(epsilon), "delta": decimal_text(delta)}
            return {"kind": "approximate", **amounts}
        case ZCDP(rho):
            return {"kind": "zcdp", "rho": decimal_text(rho)}
        case Unbounded():
            return {"kind": "exact"}


def _loss(table: dict[str, str]) -> Loss:
    match table["kind"]:
        case "pure":
            return PureDP(amount_from_text(table["epsilon"]))
        case "approximate":
            epsilon, delta = table["epsilon"], table["delta"]
            return ApproxDP(amount_from_text(epsilon), amount_from_text(delta))
        case "zcdp":
            return ZCDP(amount_from_text(table["rho"]))
        case "exact":
            return Unbounded()
        case _:
            raise LedgerError("the ledger holds a loss that this discreet cannot read")
