"""Shares, and shares as bytes: from an owner to a party, from a party to the analyst.

Values are shared by replicated secret sharing over the integers modulo 2^64: a value is x = x_0 + x_1 + x_2 (mod 2^64) with x_0 and x_1 uniform; party i holds
the pair (x_i, x_{i+1}), indices modulo 3 (Araki et al. 2016; Mohassel and Rindal
2018, ABY3). One party alone holds two uniform words and learns nothing; any two
hold all three. This is the layout that SPU keeps for ``aby3.AShr<FM64>``, so an
owner needs no engine to make shares and the analyst none to add them.

Format 1, integers big-endian, words little-endian as the engine keeps them:

    8   magic        b"discreet"
    1   version      1
    1   kind         1 an owner's data, 2 the result, 3 a party's noise
    32  session      SHA-256 of the session's canonical bytes
    1   party        whose shares these are, 0 to 2
    2   owner        number in the session's list, of the party for noise,
                     0xffff in a result
    16  sharing      fresh random bytes of the owner, the same at the three parties;
                     in a result the first 16 bytes of the parties' agreement
    8   values       number of shared values
    16v pairs        (x_i, x_{i+1}) for each value
    32  check        SHA-256 of everything before

The check finds truncation and damage in files and memory; authenticity comes from
TLS. A package of another session, party, owner or size is refused by name.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.entropy import Entropy, words
from discreet.errors import DiscreetError

PARTIES: Final = 3
WORD_BYTES: Final = 8
PAIR_BYTES: Final = 2 * WORD_BYTES

Pairs: TypeAlias = NDArray[np.uint64]
"""One party's shares: a row (x_i, x_{i+1}) for each value."""


class InconsistentSharesError(DiscreetError, ValueError):
    """Three result shares do not fit: a party's disk, program or honesty failed."""


def split(values: IntVector, *, entropy: Entropy) -> tuple[Pairs, Pairs, Pairs]:
    """Split signed 64-bit values into the pairs of the three parties.

    >>> from discreet.entropy import SYSTEM
    >>> combine(split(np.array([3, -4]), entropy=SYSTEM))
    array([ 3, -4])
    """
    whole = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    first, second = words(entropy, len(whole)), words(entropy, len(whole))
    parts = (first, second, whole - first - second)
    zero, one, two = (
        np.stack([parts[i], parts[(i + 1) % PARTIES]], axis=1) for i in range(PARTIES)
    )
    return zero, one, two


def combine(pairs: Sequence[Pairs]) -> IntVector:
    """Add the parties' pairs up again, in the order of the parties.

    Every word is held twice; when the two copies differ the shares are not of one
    value, and nothing is returned.
    """
    if len(pairs) != PARTIES or len({p.shape for p in pairs}) != 1:
        raise InconsistentSharesError(
            f"the result needs equally long shares of {PARTIES} parties"
        )
    for i in range(PARTIES):
        if not np.array_equal(pairs[i][:, 1], pairs[(i + 1) % PARTIES][:, 0]):
            raise InconsistentSharesError(
                f"the result shares of party {i} and party {(i + 1) % PARTIES} do not "
                "fit together; nothing was opened, run the session again"
            )
    total = pairs[0][:, 0] + pairs[1][:, 0] + pairs[2][:, 0]
    return np.asarray(total, dtype=np.uint64).view(np.int64)


MAGIC: Final = b"discreet"
VERSION: Final = 1
SHARING_BYTES: Final = 16
RESULT_OWNER: Final = 0xFFFF
_HEADER: Final = struct.Struct(">8sBB32sBH16sQ")
_CHECK_BYTES: Final = 32
OVERHEAD: Final = _HEADER.size + _CHECK_BYTES
"""Bytes of a package beside its pairs."""


class PackageError(DiscreetError, ValueError):
    """A package of shares is damaged or not the one that was expected."""


class Kind(IntEnum):
    """What a package holds."""

    OWNER = 1
    RESULT = 2
    NOISE = 3


_WORDS: Final = {Kind.OWNER: "data", Kind.RESULT: "result", Kind.NOISE: "noise"}


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """One party's shares with what they belong to. The shares never print."""

    kind: Kind
    session: bytes
    party: int
    owner: int
    sharing: bytes
    pairs: Pairs = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.session) != 32 or len(self.sharing) != SHARING_BYTES:
            raise PackageError("a session has 32 bytes and a sharing 16")
        if not 0 <= self.party < PARTIES:
            raise PackageError(f"parties are numbered 0 to {PARTIES - 1}")
        if self.pairs.ndim != 2 or self.pairs.shape[1] != 2:
            raise PackageError("shares are pairs of words")

    def encode(self) -> bytes:
        """Return the bytes of this package."""
        header = _HEADER.pack(
            MAGIC,
            VERSION,
            self.kind,
            self.session,
            self.party,
            self.owner,
            self.sharing,
            len(self.pairs),
        )
        body = header + self.pairs.astype("<u8", copy=False).tobytes()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def decode(cls, raw: bytes) -> Package:
        """Read a package; raise ``PackageError`` for anything but a whole one."""
        if not raw.startswith(MAGIC):
            raise PackageError("this is not a package of shares")
        if len(raw) <= len(MAGIC) or raw[len(MAGIC)] != VERSION:
            raise PackageError(
                f"the shares are not in format {VERSION}; "
                "run the same release of discreet everywhere"
            )
        if len(raw) < OVERHEAD:
            raise PackageError(f"the shares are truncated at {len(raw)} bytes")
        _, _, kind, session, party, owner, sharing, count = _HEADER.unpack_from(raw)
        expected = OVERHEAD + PAIR_BYTES * count
        if len(raw) != expected:
            raise PackageError(
                f"the shares are truncated or too long: {len(raw)} bytes, "
                f"expected {expected}; send them again in a new session"
            )
        body = memoryview(raw)[:-_CHECK_BYTES]
        if hashlib.sha256(body).digest() != raw[-_CHECK_BYTES:]:
            raise PackageError("the shares are damaged: their checksum does not fit")
        if kind not in tuple(Kind):
            raise PackageError(f"a package of kind {kind} is unknown")
        words = np.frombuffer(body[_HEADER.size :], dtype="<u8").astype(np.uint64)
        return cls(Kind(kind), session, party, owner, sharing, words.reshape(count, 2))

    def require(
        self, *, kind: Kind, session: bytes, party: int, owner: int, values: int
    ) -> None:
        """Refuse a package that is whole but meant for something else."""
        if self.kind is not kind:
            raise PackageError(
                f"these are {_WORDS[self.kind]} shares, not {_WORDS[kind]} ones"
            )
        if self.session != session:
            raise PackageError("the shares are for another session")
        if self.party != party:
            raise PackageError(
                f"the shares are for party {self.party}, not for party {party}"
            )
        if self.owner != owner:
            raise PackageError("the shares are of another owner than the sender")
        if len(self.pairs) != values:
            raise PackageError(
                f"the shares hold {len(self.pairs)} values, the session says {values}"
            )
