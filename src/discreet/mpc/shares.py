r"""What owners share: words in the order of the scores, split among three parties.

**Words.** The bits of a float64, read as an integer, order the non-negative numbers; a
negative number stands at minus the integer of its magnitude. Of these places a word
keeps 62 bits and the label one:

.. math:: \text{word} = 2\,\text{key} + \text{label} \in [0, 2^{63} - 3],

with keys that ascend where scores descend. Nothing is rounded: scores that differ in
the last bit have different keys, and equal scores have equal ones. The 62 bits hold
zero, every magnitude from 2^-446 to 7e19 and both infinities; what lies outside is
refused. Owners sort their own words, so that the parties only have to merge.

**Shares** are replicated secret sharing over the integers modulo 2^64: a value is
x = x_0 + x_1 + x_2 (mod 2^64) with x_0 and x_1 uniform; party i holds the pair
(x_i, x_{i+1}), indices modulo 3 (Araki et al. 2016; Mohassel and Rindal 2018, ABY3).
One party alone holds two uniform words and learns nothing; any two hold all three.
SPU keeps the same layout for ``aby3.AShr<FM64>``, so an owner needs no engine to make
shares and the analyst none to add them.

**Packages** are shares as bytes, from an owner to a party and from a party to the
analyst: the fields of ``Package`` in their order, then SHA-256 of everything before.
The check finds truncation and damage in files and memory; authenticity comes from
TLS. A package of another session, party, owner or size is refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector, IntVector
from discreet.codec.messages import (
    Array,
    BinaryMessage,
    Choice,
    Fixed,
    MalformedMessageError,
    Number,
    Reader,
)
from discreet.data.examples import Examples
from discreet.entropy import Entropy, words
from discreet.errors import DiscreetError, InputError

PARTIES: Final = 3
PAIR_BYTES: Final = 16
PAD: Final = 2**63 - 2
"""A padding row: it has no label, and stands after every score."""
_MAGNITUDE: Final = np.int64(2**63 - 1)
_INFINITE: Final = np.int64(0x7FF << 52)
_SMALLEST: Final = np.int64((1023 - 446) << 52)
_LAST: Final = np.int64(2**61 - 1)
"""The place of infinity; finite magnitudes stand before it."""

Pairs: TypeAlias = NDArray[np.uint64]
"""One party's shares: a row (x_i, x_{i+1}) for each value."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """One owner's rows, ready to be shared. It never prints them.

    ``PAD`` words are padding. The length is public; how many rows are real is not,
    if there is room for padding.
    """

    words: IntVector

    def __post_init__(self) -> None:
        if self.words.ndim != 1 or self.words.dtype != np.int64:
            raise InputError("an owner shares a vector of 64-bit integers")
        if self.words.size and (self.words.min() < 0 or self.words.max() > PAD):
            raise InputError("an owner's words lie between 0 and 2^63 - 2")
        if (self.words[1:] < self.words[:-1]).any():
            raise InputError("an owner's words ascend: sort them before sharing")

    @property
    def rows(self) -> int:
        """How many rows are shared, padding included: public."""
        return int(self.words.size)

    @property
    def count(self) -> int:
        """How many rows are real: secret where padding hides it."""
        return int(np.count_nonzero(self.words != PAD))

    def __repr__(self) -> str:
        return f"Encoded(rows={self.rows})"


def encode(examples: Examples, *, padded_to: int | None = None) -> Encoded:
    """Validate one owner's examples and turn them into sorted words.

    Args:
        examples: scores of any declared kind and 0/1 labels (or ``positive``).
        padded_to: a public number of rows to hide the owner's own behind.

    >>> encode(Examples([0.25, 1.0], [0, 1]), padded_to=4)
    Encoded(rows=4)
    """
    if examples.columns != 1 or examples.label_code.classes is not None:
        raise InputError(
            "exact areas take one score a row and two classes; compare one class "
            "with the rest, or one model at a time"
        )
    scores, labels = examples.to_arrays()
    count = int(scores.size)
    rows = count if padded_to is None else padded_to
    if rows < count:
        raise InputError(
            f"more examples than the agreed {rows} padded rows: agree on a larger size"
        )
    padded = np.full(rows, PAD, dtype=np.int64)
    padded[:count] = np.sort(2 * keys_of(scores) + labels.astype(np.int64))
    return Encoded(padded)


def keys_of(scores: FloatVector) -> IntVector:
    """Return keys of 62 bits that ascend where scores descend, one to one.

    >>> zero = keys_of(np.array([0.0]))[0]
    >>> (zero - keys_of(np.array([-0.0, np.inf, -np.inf]))).tolist()
    [0, 2305843009213693951, -2305843009213693951]
    """
    bits = np.ascontiguousarray(scores, dtype=np.float64).view(np.int64)
    magnitude = bits & _MAGNITUDE
    place = np.where(magnitude == 0, 0, magnitude - _SMALLEST + 1)
    place = np.where(magnitude == _INFINITE, _LAST, place)
    outside = (place < 0) | ((magnitude != 0) & (place == 0)) | (place > _LAST)
    outside |= (place == _LAST) & (magnitude != _INFINITE)
    if outside.any():
        raise InputError(
            f"{np.count_nonzero(outside)} scores are not 0 and nearer to it than "
            "1e-134, or beyond 7e19: share logarithms or ranks of them instead"
        )
    keys: IntVector = _LAST - np.where(bits < 0, -place, place)
    return keys


def padded_size(largest: int) -> int:
    """Return the power of two at or above the largest owner's size.

    >>> padded_size(1000), padded_size(1024)
    (1024, 1024)
    """
    if largest < 1:
        raise InputError("there is nothing to pad: no owner has an example")
    return 1 << (largest - 1).bit_length()


class InconsistentSharesError(DiscreetError, ValueError):
    """Three result shares do not fit: a party's disk, program or honesty failed."""


def split(values: IntVector, *, entropy: Entropy) -> tuple[Pairs, ...]:
    """Split signed 64-bit values into the pairs of the three parties.

    >>> from discreet.entropy import SYSTEM
    >>> combine(split(np.array([3, -4]), entropy=SYSTEM))
    array([ 3, -4])
    """
    whole = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    first, second = words(entropy, len(whole)), words(entropy, len(whole))
    parts = (first, second, whole - first - second)
    return tuple(
        np.stack([parts[i], parts[(i + 1) % PARTIES]], axis=1) for i in range(PARTIES)
    )


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
                "fit together; nothing was revealed, run the session again"
            )
    total = pairs[0][:, 0] + pairs[1][:, 0] + pairs[2][:, 0]
    return np.asarray(total, dtype=np.uint64).view(np.int64)


SHARING_BYTES: Final = 16
RESULT_OWNER: Final = 0xFFFF
_CHECK_BYTES: Final = 32
OVERHEAD: Final = 2 + 1 + 32 + 1 + 2 + SHARING_BYTES + _CHECK_BYTES
"""Bytes of a package beside its pairs."""


class PackageError(MalformedMessageError, ValueError):
    """A package of shares is damaged or not the one that was expected."""


class PackageKind(IntEnum):
    """What a package holds."""

    DATA = 1
    RESULT = 2
    NOISE = 3


class PairRows(Array):
    """Pairs of words up to the end, little-endian as the engine keeps them."""

    def read(self, reader: Reader) -> Pairs:
        """Read all pairs; no word may be left over."""
        if reader.left % PAIR_BYTES:
            raise reader.error("does not hold a whole number of pairs")
        return Array.read(self, reader).reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Package(BinaryMessage):
    """One party's shares with what they belong to. The shares never print.

    ``party`` is whose shares these are. ``owner`` is a number in the session's list,
    of the party for noise, ``RESULT_OWNER`` in a result. ``sharing`` is fresh random
    bytes of the owner, the same at the three parties; in a result the first bytes of
    the parties' agreement.
    """

    tag: ClassVar[int] = 64
    called: ClassVar[str] = "a package of shares"

    kind: Annotated[PackageKind, Choice(PackageKind)]
    session: Annotated[bytes, Fixed(32)]
    party: Annotated[int, Number(1)]
    owner: Annotated[int, Number(2)]
    sharing: Annotated[bytes, Fixed(SHARING_BYTES)]
    pairs: Annotated[Pairs, PairRows("<u8")] = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.session) != 32 or len(self.sharing) != SHARING_BYTES:
            raise PackageError("a session has 32 bytes and a sharing 16")
        if not 0 <= self.party < PARTIES:
            raise PackageError(f"parties are numbered 0 to {PARTIES - 1}")
        if self.pairs.ndim != 2 or self.pairs.shape[1] != 2:
            raise PackageError("shares are pairs of words")

    @classmethod
    def for_parties(
        cls,
        kind: PackageKind,
        session: bytes,
        owner: int,
        values: IntVector,
        *,
        entropy: Entropy,
    ) -> tuple[Package, ...]:
        """Share values afresh: one package for each party."""
        sharing = entropy(SHARING_BYTES)
        return tuple(
            cls(kind, session, party, owner, sharing, pairs)
            for party, pairs in enumerate(split(values, entropy=entropy))
        )

    def encode(self) -> bytes:
        """Return the bytes of this package."""
        body = super(Package, self).encode()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def decode(cls, raw: bytes, *, known: object = None) -> Self:
        """Read a package; ``MalformedMessageError`` for anything but a whole one."""
        body, check = raw[:-_CHECK_BYTES], raw[-_CHECK_BYTES:]
        package = super(Package, cls).decode(body, known=known)
        if hashlib.sha256(body).digest() != check:
            raise PackageError("the shares are damaged: their checksum does not fit")
        return package

    def require(
        self, *, kind: PackageKind, session: bytes, party: int, owner: int, values: int
    ) -> None:
        """Refuse a package that is whole but meant for something else."""
        if self.kind is not kind:
            raise PackageError(
                f"these are {self.kind.name.lower()} shares, not {kind.name.lower()} ones"
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
