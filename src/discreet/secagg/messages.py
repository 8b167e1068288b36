"""Every message, its bytes, and the roster that is read in place.

    site                                    coordinator
    ----                                    -----------
                        <- SumInvitation <-
                        -> Advert     ->
                        <- Roster     <-    the same for all
                        -> Shares     ->
                        <- Delivery   <-
                        -> Masked     ->
                        <- Survivors  <-    only with identities
                        -> Confirmation ->  only with identities; or Withdrawal
                        <- Request    <-    the same for all
                        -> Revealed   ->

The first byte is the version of the format, the second the kind of message. Sets
and maps are written in increasing order of the site number and read back strictly,
so that a message has one encoding.

Receipts travel only with identities, on a graph that is not complete: a holder
returns one with its masked vector for each box that it opened, and each dealer gets
those of its holders with the survivors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.secagg.errors import MalformedMessageError
from discreet.secagg.keys import (
    BOX_OVERHEAD,
    KEY_SIZE,
    RECEIPT_SIZE,
    SIGNATURE_SIZE,
)
from discreet.secagg.shamir import SHARE_SIZE
from discreet.secagg.wire import (
    DIGEST_SIZE,
    NONCE_SIZE,
    SESSION_SIZE,
    Reader,
    Writer,
)

PACKET_SIZE: Final = 2 * SHARE_SIZE
"""What a site deals to a holder: a share of its mask key and one of its seed."""
BOX_SIZE: Final = PACKET_SIZE + BOX_OVERHEAD
_ROSTER_HEADER: Final = 7
"""Version, tag, the flag that says whether it is signed, and the count."""


class Tag(IntEnum):
    """The second byte of every message."""

    INVITATION = 1
    ADVERT = 2
    ROSTER = 3
    SHARES = 4
    DELIVERY = 5
    MASKED = 6
    SURVIVORS = 7
    CONFIRMATION = 8
    REQUEST = 9
    REVEALED = 10
    WITHDRAWAL = 11


@dataclass(frozen=True, slots=True)
class SumInvitation:
    """Coordinator to all: the terms it means, and a nonce that nobody saw before."""

    terms_digest: bytes
    nonce: bytes

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.INVITATION).fixed(self.terms_digest, DIGEST_SIZE)
        return out.fixed(self.nonce, NONCE_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> SumInvitation:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.INVITATION, "an invitation")
        message = cls(read.fixed(DIGEST_SIZE), read.fixed(NONCE_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Advert:
    """Site to coordinator: two public keys, signed when there are identities."""

    channel_key: bytes
    mask_key: bytes
    signature: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.ADVERT).fixed(self.channel_key, KEY_SIZE)
        return out.fixed(self.mask_key, KEY_SIZE).rest(self.signature).done()

    @classmethod
    def decode(cls, raw: bytes) -> Advert:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.ADVERT, "an advert")
        message = cls(read.fixed(KEY_SIZE), read.fixed(KEY_SIZE), read.rest())
        if len(message.signature) not in (0, SIGNATURE_SIZE):
            raise MalformedMessageError("an advert has a signature of a wrong size")
        return message


class Roster:
    """Coordinator to all: who takes part, with which keys.

    It is the largest message of a big session and the same for every site, so it
    is kept as the bytes that arrived and looked up in place.
    """

    __slots__ = ("_count", "_width", "raw", "signed")

    def __init__(self, raw: bytes) -> None:
        read = Reader(raw, Tag.ROSTER, "a roster")
        flag = read.fixed(1)
        if flag not in (b"\0", b"\1"):
            raise MalformedMessageError("a roster has an unknown flag")
        self.raw = raw
        self.signed = flag == b"\1"
        self._width = 4 + 2 * KEY_SIZE + (SIGNATURE_SIZE if self.signed else 0)
        self._count = read.count(self._width)
        read.fixed(self._count * self._width)
        read.done()
        read.check_order(self.sites)

    @classmethod
    def of(cls, adverts: Mapping[int, Advert], *, signed: bool) -> Roster:
        """Collect adverts into a roster."""
        out = Writer(Tag.ROSTER).fixed(bytes((signed,)), 1).number(len(adverts))
        for site, advert in sorted(adverts.items()):
            out.number(site).fixed(advert.channel_key, KEY_SIZE)
            out.fixed(advert.mask_key, KEY_SIZE)
            out.fixed(advert.signature, SIGNATURE_SIZE if signed else 0)
        return cls(out.done())

    @property
    def sites(self) -> tuple[int, ...]:
        """The listed sites, in increasing order."""
        return tuple(self._numbers().tolist())

    def __len__(self) -> int:
        return self._count

    def __contains__(self, site: int) -> bool:
        at = self._find(site)
        return at < self._count and self._site_at(at) == site

    def advert(self, site: int) -> Advert:
        """Return what a listed site advertised."""
        place = self._find(site)
        if place == self._count or self._site_at(place) != site:
            raise KeyError(f"site {site} is not in the roster")
        start = _ROSTER_HEADER + place * self._width + 4
        middle, end = start + KEY_SIZE, start + 2 * KEY_SIZE
        signature = self.raw[end : end + SIGNATURE_SIZE] if self.signed else b""
        return Advert(self.raw[start:middle], self.raw[middle:end], signature)

    def channel_keys(self, sites: Collection[int]) -> dict[int, bytes]:
        """Return the channel keys of listed sites, looked up at once."""
        return self._keys_of(sites, 4)

    def mask_keys(self, sites: Collection[int]) -> dict[int, bytes]:
        """Return the mask keys of listed sites, looked up at once."""
        return self._keys_of(sites, 4 + KEY_SIZE)

    def _keys_of(self, sites: Collection[int], start: int) -> dict[int, bytes]:
        numbers = self._numbers()
        wanted = np.fromiter(sites, dtype=np.int64, count=len(sites))
        places = np.searchsorted(numbers, wanted)
        if not np.array_equal(numbers.take(places, mode="clip"), wanted):
            raise KeyError("a site is not in the roster")
        keys = self._rows()[places, start : start + KEY_SIZE]
        return {s: key.tobytes() for s, key in zip(sites, keys, strict=True)}

    def keys(self) -> Iterator[bytes]:
        """Yield every public key in the roster, channel and mask keys alike."""
        packed = self._rows()[:, 4 : 4 + 2 * KEY_SIZE].tobytes()
        return (packed[i : i + KEY_SIZE] for i in range(0, len(packed), KEY_SIZE))

    def advertised(self) -> dict[int, bytes]:
        """Return each site's two public keys, one after the other."""
        keys = self._rows()[:, 4 : 4 + 2 * KEY_SIZE]
        return {s: row.tobytes() for s, row in zip(self.sites, keys, strict=True)}

    def only(self, members: Iterable[int]) -> Roster:
        """Return the part of some sites."""
        return Roster.of({s: self.advert(s) for s in members}, signed=self.signed)

    def identified(self) -> bytes:
        """Return site numbers and keys, without signatures: what a session binds."""
        return self._rows()[:, : 4 + 2 * KEY_SIZE].tobytes()

    def _rows(self) -> NDArray[np.uint8]:
        """View the entries as a table of bytes, without copying."""
        table = np.frombuffer(self.raw, dtype=np.uint8, offset=_ROSTER_HEADER)
        return table.reshape(self._count, self._width)

    def _numbers(self) -> NDArray[np.int64]:
        return self._rows()[:, :4].copy().view(">u4").ravel().astype(np.int64)

    def _site_at(self, place: int) -> int:
        start = _ROSTER_HEADER + place * self._width
        return int.from_bytes(self.raw[start : start + 4], "big")

    def _find(self, site: int) -> int:
        return bisect_left(range(self._count), site, key=self._site_at)


@dataclass(frozen=True, slots=True)
class Shares:
    """Site to coordinator: an encrypted packet for each of its holders."""

    session: bytes
    commitment: bytes
    boxes: Mapping[int, bytes] = field(repr=False)

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.SHARES).fixed(self.session, SESSION_SIZE)
        out.fixed(self.commitment, DIGEST_SIZE)
        return out.records(self.boxes.items(), BOX_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Shares:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.SHARES, "a set of shares")
        session, commitment = read.fixed(SESSION_SIZE), read.fixed(DIGEST_SIZE)
        message = cls(session, commitment, read.records(BOX_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Delivery:
    """Coordinator to one site: who shared, and the packets addressed to it."""

    session: bytes
    sharers: tuple[int, ...]
    boxes: Mapping[int, bytes] = field(repr=False)

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.DELIVERY).fixed(self.session, SESSION_SIZE)
        out.sites(self.sharers)
        return out.records(self.boxes.items(), BOX_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Delivery:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.DELIVERY, "a delivery")
        session, sharers = read.fixed(SESSION_SIZE), read.sites()
        message = cls(session, sharers, read.records(BOX_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Masked:
    """Site to coordinator: its vector under masks, uniform on its own.

    ``receipts`` go to the sites whose boxes this one has opened.
    """

    session: bytes
    words: NDArray[np.uint64] = field(repr=False)
    receipts: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.MASKED).fixed(self.session, SESSION_SIZE)
        out.records(self.receipts.items(), RECEIPT_SIZE)
        return out.rest(self.words.astype("<u8", copy=False).tobytes()).done()

    @classmethod
    def decode(cls, raw: bytes) -> Masked:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.MASKED, "a masked vector")
        session, receipts = read.fixed(SESSION_SIZE), read.records(RECEIPT_SIZE)
        rest = read.rest()
        if len(rest) % 8:
            raise MalformedMessageError("a masked vector is not a number of words")
        words = np.frombuffer(rest, dtype="<u8").astype(np.uint64, copy=False)
        return cls(session, words, receipts)


@dataclass(frozen=True, slots=True)
class Survivors:
    """Coordinator to one site: whose vectors are in the sum, and its receipts."""

    session: bytes
    survivors: tuple[int, ...]
    receipts: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.SURVIVORS).fixed(self.session, SESSION_SIZE)
        out.sites(self.survivors)
        return out.records(self.receipts.items(), RECEIPT_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Survivors:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.SURVIVORS, "a list of survivors")
        session, survivors = read.fixed(SESSION_SIZE), read.sites()
        message = cls(session, survivors, read.records(RECEIPT_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Site to coordinator: its signature on who shared and who survived."""

    session: bytes
    signature: bytes

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.CONFIRMATION).fixed(self.session, SESSION_SIZE)
        return out.fixed(self.signature, SIGNATURE_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Confirmation:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.CONFIRMATION, "a confirmation")
        message = cls(read.fixed(SESSION_SIZE), read.fixed(SIGNATURE_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Site to coordinator: its signature that it never signs this sum."""

    session: bytes
    signature: bytes

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.WITHDRAWAL).fixed(self.session, SESSION_SIZE)
        return out.fixed(self.signature, SIGNATURE_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Withdrawal:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.WITHDRAWAL, "a withdrawal")
        message = cls(read.fixed(SESSION_SIZE), read.fixed(SIGNATURE_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Request:
    """Coordinator to all: unmask these survivors, whom these sites confirmed."""

    session: bytes
    survivors: tuple[int, ...]
    signatures: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.REQUEST).fixed(self.session, SESSION_SIZE)
        out.sites(self.survivors)
        return out.records(self.signatures.items(), SIGNATURE_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Request:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.REQUEST, "an unmask request")
        session, survivors = read.fixed(SESSION_SIZE), read.sites()
        message = cls(session, survivors, read.records(SIGNATURE_SIZE))
        read.done()
        return message


@dataclass(frozen=True, slots=True)
class Revealed:
    """Site to coordinator: one share of each site that dealt to it.

    Of a survivor the share of its seed, of a silent site the share of its mask
    key: never both, since together they open a single vector.
    """

    session: bytes
    seed_shares: Mapping[int, bytes] = field(repr=False)
    key_shares: Mapping[int, bytes] = field(repr=False)

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.REVEALED).fixed(self.session, SESSION_SIZE)
        out.records(self.seed_shares.items(), SHARE_SIZE)
        return out.records(self.key_shares.items(), SHARE_SIZE).done()

    @classmethod
    def decode(cls, raw: bytes) -> Revealed:
        """Read the bytes on the wire."""
        read = Reader(raw, Tag.REVEALED, "a set of revealed shares")
        session = read.fixed(SESSION_SIZE)
        message = cls(session, read.records(SHARE_SIZE), read.records(SHARE_SIZE))
        read.done()
        return message
