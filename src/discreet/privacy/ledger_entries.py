r"""The ledger's entries, their bytes, and the chain that binds them.

An entry is canonical JSON. Its tag is

.. math::
    t_i = \text{HMAC}_s(t_{i-1}, i, \text{body}_i), \qquad t_0 = 0^{32},

with the site's secret s: whoever changes, removes or inserts an entry needs s to
make the tags fit again. Dropping the last entries is seen by the sealed head, a file of
its own with the number of entries and the last tag. Putting back old copies of
all files is seen only by whoever noted a tag elsewhere.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import Any, Final, TypeAlias

from discreet.errors import PlanError
from discreet.parsing import read_json, whole
from discreet.privacy.account import Use
from discreet.privacy.fingerprint import LedgerError, SiteSecret
from discreet.privacy.loss import (
    ApproxDP,
    Loss,
    PureDP,
    Unbounded,
    amount_from_text,
    decimal_text,
)
from discreet.privacy.unit import Unit

START: Final = bytes(32)
"""The tag before the first entry."""
_HEAD_WORDS: Final = 3
_DIGITS: Final = 19
"""Fewer digits than this fit eight bytes."""


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
    """Which sites are in each exact sum of a session, before this site signs it."""

    at: str
    session: bytes
    round: int
    sums: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Released:
    """The charge of an exact sum was given back, because it cannot be revealed.

    Either this site never signed it, or the named sites signed that they will not.
    """

    at: str
    session: bytes
    round: int
    withdrawn: tuple[tuple[str, bytes], ...] = ()
    """Who withdrew, by key, and the signatures."""


@dataclass(frozen=True, slots=True)
class Refused:
    """This site declined something; there are only so many of these a day."""

    at: str


Entry: TypeAlias = Charge | Stored | Settled | Released | Refused


def encode(entry: Entry) -> bytes:
    """Return the canonical bytes of an entry."""
    return json.dumps(to_dict(entry), sort_keys=True, separators=(",", ":")).encode()


def decode(body: bytes) -> Entry:
    """Read what ``encode`` wrote; anything else is a ``LedgerError``."""
    try:
        return _entry(read_json(body, "an entry of the ledger", error=LedgerError))
    except (KeyError, TypeError, ValueError, AttributeError, PlanError):
        raise LedgerError(
            "the ledger holds an entry that this discreet cannot read"
        ) from None


def _entry(document: dict[str, Any]) -> Entry:
    at = _text(document["at"])
    if document["entry"] == "refused":
        return Refused(at)
    session = bytes.fromhex(document["session"])
    number = whole(document["round"], "a round")
    match document["entry"]:
        case "charge":
            reusable, unit = document["reusable"], document["unit"]
            return Charge(
                at,
                Use(
                    _text(document["population"]),
                    session,
                    number,
                    _loss(document["loss"]),
                    bytes.fromhex(document["intent"]),
                    bytes.fromhex(document["plan"]),
                    _texts(document["sites"]),
                    None if reusable is None else bytes.fromhex(reusable),
                    _text(document["note"]),
                    None if unit is None else Unit(*unit),
                    bytes.fromhex(document["asked"]),
                    # Charges of older releases do not say it: they are never released.
                    signed=_flag(document.get("signed", False)),
                ),
            )
        case "stored":
            return Stored(at, session, number, bytes.fromhex(document["mark"]))
        case "settled":
            # Older releases settled the one sum that the site was in.
            sums = document["sums"] if "sums" in document else [document["sites"]]
            return Settled(at, session, number, tuple(_texts(s) for s in _list(sums)))
        case "released":
            withdrawn = document["withdrawn"]
            return Released(
                at,
                session,
                number,
                tuple(
                    (key, bytes.fromhex(withdrawn[key])) for key in sorted(withdrawn)
                ),
            )
        case _:
            raise LedgerError(
                "the ledger holds an entry that this discreet cannot read"
            )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a yes or no is needed")
    return value


def _list(values: object) -> list[object]:
    if not isinstance(values, list):
        raise TypeError("a list is needed")
    return values


def _texts(values: object) -> tuple[str, ...]:
    return tuple(_text(value) for value in _list(values))


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
                "unit": None if use.unit is None else list(astuple(use.unit)),
                "asked": use.asked.hex(),
                "signed": use.signed,
            }
        case Stored(at, session, number, mark):
            named = {"session": session.hex(), "round": number, "mark": mark.hex()}
            return {"entry": "stored", "at": at, **named}
        case Settled(at, session, number, sums):
            told = {"session": session.hex(), "round": number}
            return {"entry": "settled", "at": at, **told, "sums": [*map(list, sums)]}
        case Released(at, session, number, withdrawn):
            told = {"session": session.hex(), "round": number}
            proof = {key: signature.hex() for key, signature in withdrawn}
            return {"entry": "released", "at": at, **told, "withdrawn": proof}
        case Refused(at):
            return {"entry": "refused", "at": at}


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


def seal(secret: SiteSecret, entries: int, last: bytes) -> bytes:
    """Return the bytes of the sealed head: how many entries, the last tag, a mark."""
    mark = secret.mark("sealed head", entries.to_bytes(8, "big"), last)
    return f"{entries} {last.hex()} {mark.hex()}\n".encode()


def unseal(secret: SiteSecret, raw: bytes) -> tuple[int, bytes]:
    """Return the number of entries and the last tag that were sealed."""
    words = raw.split()
    if len(words) == _HEAD_WORDS and words[0].isdigit() and len(words[0]) < _DIGITS:
        with suppress(ValueError):
            found = int(words[0]), bytes.fromhex(words[1].decode())
            if seal(secret, *found) == raw:
                return found
    raise LedgerError(
        "the ledger's head was changed, or belongs to another secret; restore the "
        "ledger, its head and its secret from one backup"
    )


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
        case Unbounded():
            return {"kind": "exact"}


def _loss(table: dict[str, str]) -> Loss:
    match table["kind"]:
        case "pure":
            return PureDP(amount_from_text(table["epsilon"]))
        case "approximate":
            epsilon, delta = table["epsilon"], table["delta"]
            return ApproxDP(amount_from_text(epsilon), amount_from_text(delta))
        case "exact":
            return Unbounded()
        case _:
            raise LedgerError("the ledger holds a loss that this discreet cannot read")
