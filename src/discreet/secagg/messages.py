"""Every message, its bytes, and the roster that is read in place.

    site                                    coordinator
    ----                                    -----------
                        <- SumInvitation  <-
                        -> Advert         ->
                        <- KeyRoster      <-    the same for all
                        -> SealedShares   ->
                        <- BoxDelivery    <-
                        -> MaskedVector   ->
                        <- Survivors      <-    only with identities
                        -> Confirmation   ->    only with identities; or Withdrawal
                        <- RevealRequest  <-    the same for all
                        -> RevealedShares ->

Receipts travel only with identities, on a graph that is not complete. A holder returns
one with its masked vector for each box that it decrypted. Each dealer gets those of its
holders with the survivors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.codec.messages import (
    VERSION,
    Array,
    BinaryMessage,
    Fixed,
    Reader,
    Rest,
    SiteMap,
    Sites,
)
from discreet.secagg.keys import (
    BOX_OVERHEAD,
    DIGEST_SIZE,
    KEY_SIZE,
    NONCE_SIZE,
    RECEIPT_SIZE,
    SIGNATURE_SIZE,
)
from discreet.secagg.shamir import SHARE_SIZE

PACKET_SIZE: Final = 2 * SHARE_SIZE
"""What a site deals to a holder: a share of its mask key and one of its seed."""
BOX_SIZE: Final = PACKET_SIZE + BOX_OVERHEAD
_ROSTER_HEADER: Final = 7
"""Version, tag, the flag that says whether it is signed, and the count."""
_UNSIGNED: Final = [
    ("site", ">u4"),
    ("channel_key", f"V{KEY_SIZE}"),
    ("mask_key", f"V{KEY_SIZE}"),
]
_ENTRY: Final = {
    False: np.dtype(_UNSIGNED),
    True: np.dtype([*_UNSIGNED, ("signature", f"V{SIGNATURE_SIZE}")]),
}
"""One site of a roster, without and with its signature."""

Digest: TypeAlias = Annotated[bytes, Fixed(DIGEST_SIZE)]
"""A hash: of terms, of a seed, or of all that a session binds, which names it."""
Nonce: TypeAlias = Annotated[bytes, Fixed(NONCE_SIZE)]
Key: TypeAlias = Annotated[bytes, Fixed(KEY_SIZE)]
Signature: TypeAlias = Annotated[bytes, Fixed(SIGNATURE_SIZE)]
Boxes: TypeAlias = Annotated[Mapping[int, bytes], SiteMap(BOX_SIZE)]
Receipts: TypeAlias = Annotated[Mapping[int, bytes], SiteMap(RECEIPT_SIZE)]
ShareMap: TypeAlias = Annotated[Mapping[int, bytes], SiteMap(SHARE_SIZE)]


class MessageTag(IntEnum):
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
class SumInvitation(BinaryMessage):
    """Coordinator to all: the terms it means, and a nonce that nobody saw before."""

    tag: ClassVar = MessageTag.INVITATION
    called: ClassVar = "an invitation"
    terms_digest: Digest
    nonce: Nonce


@dataclass(frozen=True, slots=True)
class Advert(BinaryMessage):
    """Site to coordinator: two public keys, signed when there are identities."""

    tag: ClassVar = MessageTag.ADVERT
    called: ClassVar = "an advert"
    channel_key: Key
    mask_key: Key
    signature: Annotated[bytes, Rest(sizes=(0, SIGNATURE_SIZE))] = b""


class KeyRoster(BinaryMessage):
    """Coordinator to all: who takes part, with which keys.

    It is the largest message of a big session and the same for every site, so it is
    kept as the bytes that arrived, and entries are found in place.
    """

    __slots__ = ("raw", "signed")
    tag: ClassVar = MessageTag.ROSTER
    called: ClassVar = "a roster"

    def __init__(self, raw: bytes) -> None:
        reader = Reader(raw, self.called)
        reader.check_head(self.tag)
        flag = reader.number(1)
        if flag > 1:
            raise reader.error("has an unknown flag")
        self.raw = raw
        self.signed = flag == 1
        entry = _ENTRY[self.signed].itemsize
        reader.take(entry * reader.count(entry))
        reader.check_end()
        reader.check_order(self.sites)

    @classmethod
    def of(cls, adverts: Mapping[int, Advert], *, signed: bool) -> KeyRoster:
        """Collect adverts into a roster."""
        signature = Fixed(SIGNATURE_SIZE if signed else 0)
        parts = [bytes((VERSION, cls.tag, signed)), len(adverts).to_bytes(4, "big")]
        for site, advert in sorted(adverts.items()):
            parts += [site.to_bytes(4, "big"), advert.channel_key, advert.mask_key]
            parts.append(signature.write(advert.signature))
        return cls(b"".join(parts))

    def encode(self) -> bytes:
        """Return the bytes that arrived."""
        return self.raw

    @classmethod
    def decode(cls, raw: bytes, *, known: object = None) -> Self:  # noqa: ARG003
        """Read the bytes, strictly; nothing is copied out of them."""
        return cls(raw)

    @property
    def sites(self) -> tuple[int, ...]:
        """The listed sites, in increasing order."""
        return tuple(self._table["site"].tolist())

    def __len__(self) -> int:
        return self._table.size

    def __contains__(self, site: int) -> bool:
        numbers = self._table["site"]
        place = bisect_left(numbers, site)
        return place < numbers.size and int(numbers[place]) == site

    def advert(self, site: int) -> Advert:
        """Return what a listed site advertised."""
        if site not in self:
            raise KeyError(f"site {site} is not in the roster")
        entry = self._table[bisect_left(self._table["site"], site)]
        return Advert(*(entry[name].tobytes() for name in entry.dtype.names[1:]))

    def keys_of(
        self, sites: Collection[int], kind: Literal["channel_key", "mask_key"]
    ) -> dict[int, bytes]:
        """Return one kind of keys of listed sites, found all at once."""
        numbers = self._table["site"].astype(np.int64)
        wanted = np.fromiter(sites, dtype=np.int64, count=len(sites))
        places = np.searchsorted(numbers, wanted)
        if not np.array_equal(numbers.take(places, mode="clip"), wanted):
            raise KeyError("a site is not in the roster")
        return dict(zip(sites, self._table[kind][places].tolist(), strict=True))

    def keys(self) -> Iterator[bytes]:
        """Yield every public key in the roster, channel and mask keys alike."""
        for name in ("channel_key", "mask_key"):
            yield from self._table[name].tolist()

    def advertised(self) -> dict[int, bytes]:
        """Return each site's two public keys, one after the other."""
        entries = self._table[["site", "channel_key", "mask_key"]].tolist()
        return {site: channel + mask for site, channel, mask in entries}

    def only(self, members: Iterable[int]) -> KeyRoster:
        """Return the part of some sites."""
        return KeyRoster.of({s: self.advert(s) for s in members}, signed=self.signed)

    def identified(self) -> bytes:
        """Return site numbers and keys, without signatures: what a session binds."""
        rows = self._table.view(np.uint8).reshape(len(self), -1)
        return rows[:, : 4 + 2 * KEY_SIZE].tobytes()

    @property
    def _table(self) -> NDArray[np.void]:
        """View the entries, without copying."""
        return np.frombuffer(self.raw, _ENTRY[self.signed], offset=_ROSTER_HEADER)


@dataclass(frozen=True, slots=True)
class SealedShares(BinaryMessage):
    """Site to coordinator: an encrypted packet for each of its holders."""

    tag: ClassVar = MessageTag.SHARES
    called: ClassVar = "a set of shares"
    session: Digest
    commitment: Digest
    boxes: Boxes = field(repr=False)


@dataclass(frozen=True, slots=True)
class BoxDelivery(BinaryMessage):
    """Coordinator to one site: who shared, and the packets addressed to it."""

    tag: ClassVar = MessageTag.DELIVERY
    called: ClassVar = "a delivery"
    session: Digest
    sharers: Sites
    boxes: Boxes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MaskedVector(BinaryMessage):
    """Site to coordinator: its vector under masks, uniform on its own.

    ``receipts`` go to the sites whose boxes this one has decrypted.
    """

    tag: ClassVar = MessageTag.MASKED
    called: ClassVar = "a masked vector"
    session: Digest
    receipts: Receipts = field(repr=False)
    words: Annotated[NDArray[np.uint64], Array("<u8")] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Survivors(BinaryMessage):
    """Coordinator to one site: whose vectors are in the sum, and its receipts."""

    tag: ClassVar = MessageTag.SURVIVORS
    called: ClassVar = "a list of survivors"
    session: Digest
    survivors: Sites
    receipts: Receipts = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Confirmation(BinaryMessage):
    """Site to coordinator: its signature on who shared and who survived."""

    tag: ClassVar = MessageTag.CONFIRMATION
    called: ClassVar = "a confirmation"
    session: Digest
    signature: Signature


@dataclass(frozen=True, slots=True)
class Withdrawal(BinaryMessage):
    """Site to coordinator: its signature that it never signs this sum."""

    tag: ClassVar = MessageTag.WITHDRAWAL
    called: ClassVar = "a withdrawal"
    session: Digest
    signature: Signature


@dataclass(frozen=True, slots=True)
class RevealRequest(BinaryMessage):
    """Coordinator to all: unmask these survivors, whom these sites confirmed."""

    tag: ClassVar = MessageTag.REQUEST
    called: ClassVar = "an unmask request"
    session: Digest
    survivors: Sites
    signatures: Annotated[Mapping[int, bytes], SiteMap(SIGNATURE_SIZE)] = field(
        default_factory=dict, repr=False
    )


@dataclass(frozen=True, slots=True)
class RevealedShares(BinaryMessage):
    """Site to coordinator: one share of each site that dealt to it.

    Of a survivor the share of its seed, of a silent site the share of its mask
    key: never both, since together they reveal a single vector.
    """

    tag: ClassVar = MessageTag.REVEALED
    called: ClassVar = "a set of revealed shares"
    session: Digest
    seed_shares: ShareMap = field(repr=False)
    key_shares: ShareMap = field(repr=False)
