r"""The ledger's entries, their bytes, and the chain that binds them.

An entry is canonical JSON. Its tag is

.. math::
    t_i = \text{HMAC}_s(t_{i-1}, i, \text{body}_i), \qquad t_0 = 0^{32},

with the site's secret s: whoever changes, removes or inserts an entry needs s to
make the tags fit again. Dropping the last entries is seen by the sealed head, a file of
its own with the number of entries and the last tag. Putting back old copies of
all files is seen only by whoever noted a tag elsewhere.

Data and messages are marked by the same secret. A plain hash of a few counts could be
found by trying counts; a keyed one (HMAC-SHA256) tells nothing to whoever lacks the
secret, which stays in a file beside the ledger that only its owner may read.

A secret that others may have seen is rotated. The entry ``Rotated`` carries the first tag
under the new secret, and that tag covers the last one under the old: whoever has the old
secret alone can neither change what came before nor add what comes after.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from discreet.codec.documents import canonical, from_table, tagged, to_table
from discreet.codec.parsing import read_json
from discreet.errors import BudgetError, InputError
from discreet.privacy.account import Use
from discreet.privacy.loss import Loss
from discreet.registry import Registry

SECRET_SIZE: Final = 32
START: Final = bytes(32)
"""The tag before the first entry."""
_DOMAIN: Final = b"discreet/1/site/"


class LedgerError(BudgetError):
    """The ledger cannot be read or written, or is not what was written."""


@dataclass(frozen=True, slots=True)
class SiteSecret:
    """A key that never leaves the site: it marks data, entries and messages."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_SIZE:
            raise InputError(f"a site's secret has {SECRET_SIZE} bytes")

    def mark(self, purpose: str, *parts: bytes) -> bytes:
        """Return the HMAC of the parts, each with its length, for one purpose."""
        name = purpose.encode()
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        message = _DOMAIN + len(name).to_bytes(1, "big") + name + framed
        return hmac.digest(self.secret, message, "sha256")


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
class Purged:
    """The stored messages of a session were erased; its charges and marks stay.

    From then on the session is over for this site: nothing of it is sent again.
    """

    at: str
    session: bytes


@dataclass(frozen=True, slots=True)
class Rotated:
    """The site's secret was replaced; this entry's tag is the first under the new one."""

    at: str


@dataclass(frozen=True, slots=True)
class Refused:
    """This site declined something; there are only so many of these a day."""

    at: str


Entry: TypeAlias = Charge | Stored | Settled | Released | Purged | Rotated | Refused


KINDS: Final[Registry[type[Entry]]] = Registry(
    "entry of a ledger",
    {
        kind.__name__.lower(): f"{__name__}:{kind.__name__}"
        for kind in (Charge, Stored, Settled, Released, Purged, Rotated, Refused)
    },
)
LOSSES: Final[Registry[type[Loss]]] = Registry(
    "privacy loss",
    {
        "pure": "discreet.privacy.loss:PureDP",
        "approximate": "discreet.privacy.loss:ApproxDP",
        "exact": "discreet.privacy.loss:Unbounded",
    },
)
tagged(Entry, "entry", KINDS)
tagged(Loss, "kind", LOSSES)


def encode(entry: Entry) -> bytes:
    """Return the canonical bytes of an entry."""
    return canonical(to_table(entry, Entry))


def decode(body: bytes) -> Entry:
    """Read what ``encode`` wrote; anything else is a ``LedgerError``."""
    document = read_json(body, "an entry of the ledger", error=LedgerError)
    entry: Entry = from_table(
        cast("Any", Entry), document, "an entry of the ledger", error=LedgerError
    )
    return entry


def public_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry without the marks of data and messages, for export."""
    document = to_table(entry, Entry)
    document |= document.pop("use", {})
    for mark in ("intent", "mark"):
        document.pop(mark, None)
    if isinstance(entry, Charge):
        document["reusable"] = entry.use.reusable is not None
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
    with suppress(ValueError, OverflowError):
        entries, last, _ = raw.split()
        head = int(entries), bytes.fromhex(last.decode())
        if seal(secret, *head) == raw:
            return head
    raise LedgerError(
        "the ledger's head was changed, or belongs to another secret; restore the "
        "ledger, its head and its secret from one backup"
    )


def message_mark(secret: SiteSecret, session: bytes, number: int, raw: bytes) -> bytes:
    """Return the mark of a stored message."""
    return secret.mark("message", session, number.to_bytes(8, "big"), raw)
