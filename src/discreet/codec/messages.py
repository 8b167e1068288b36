"""Binary messages and saved states: one layout for each frozen dataclass.

A field's annotation says how it is written, so that no class writes its own bytes:

>>> @dataclass(frozen=True, slots=True)
... class Vote(BinaryMessage):
...     tag: ClassVar = 200
...     called: ClassVar = "a vote"
...     session: Annotated[bytes, Fixed(4)]
...     voters: Annotated[tuple[int, ...], SiteSet()]
>>> Vote(b"abcd", (7, 2)).encode().hex()
'01c861626364000000020000000200000007'
>>> Vote.decode(Vote(b"abcd", (7, 2)).encode())
Vote(session=b'abcd', voters=(2, 7))

The first byte is the version, the second the tag. Integers are big-endian. A count
must fit the bytes that follow before anything is allocated, so a short message cannot
make its reader allocate a large one. Sets and maps are written in increasing order and
read back strictly, and no byte may be left over: a value has one encoding. Errors name
the message and hold none of its content.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cache
from operator import lt
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray

from discreet.errors import DiscreetError, InputError, PlanError

VERSION: Final = 1
MAX_ENTRIES: Final = 100_000
"""No list, set or map is longer, and so no session has more sites."""
MAX_SITE: Final = 2**32 - 1
"""Site numbers are 32-bit and positive: they are Shamir's points, and 0 is taken."""


class MalformedMessageError(DiscreetError):
    """Bytes that no correct sender writes. The receiver turns it into a blame."""


class Reader:
    """The bytes of one message and the place up to which they are read.

    ``known`` is what the reader has already, for fields that travel as a digest.
    """

    def __init__(self, raw: bytes, called: str, known: object = None) -> None:
        self.known = known
        self._raw = raw
        self._called = called
        self._at = 0

    def check_head(self, tag: int) -> None:
        """Read version and tag, and refuse others."""
        if len(self._raw) < 2:
            raise self.error("is empty")
        version, got = self.take(2)
        if version != VERSION:
            raise self.error(
                f"has version {version}, and this release of discreet reads version "
                f"{VERSION}: install the same release at both ends"
            )
        if got != tag:
            raise self.error(f"was expected, a message with tag {got} came")

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self._raw) - self._at

    def take(self, size: int) -> bytes:
        """Read a number of bytes."""
        if size > self.left:
            raise self.error("ends too early")
        start, self._at = self._at, self._at + size
        return self._raw[start : self._at]

    def number(self, size: int = 4) -> int:
        """Read an unsigned number."""
        return int.from_bytes(self.take(size), "big")

    def count(self, size: int) -> int:
        """Read how many entries of ``size`` bytes or more follow; they must fit."""
        count = self.number()
        if count > MAX_ENTRIES:
            raise self.error(f"lists {count} entries, at most {MAX_ENTRIES} can be")
        if count * size > self.left:
            raise self.error("ends too early")
        return count

    def check_order(self, sites: Sequence[int]) -> None:
        """Refuse site numbers that are zero, repeated or out of order."""
        if not all(map(lt, (0, *sites), sites)):
            raise self.error("lists sites that repeat or do not increase")

    def check_end(self) -> None:
        """Refuse bytes that are left over."""
        if self.left:
            raise self.error(f"has {self.left} bytes too many")

    def error(self, problem: str) -> MalformedMessageError:
        """Name the message and what is wrong with it."""
        return MalformedMessageError(f"{self._called} {problem}")


class FieldCodec(ABC):
    """How one field is written and read; it stands in the field's annotation."""

    @abstractmethod
    def write(self, value: Any) -> bytes:
        """Return a value's bytes; ``ValueError`` if it has none."""

    @abstractmethod
    def read(self, reader: Reader) -> Any:
        """Read a value strictly: ``write`` gives back the same bytes."""


@dataclass(frozen=True)
class Fixed(FieldCodec):
    """Bytes of one size that both ends know."""

    size: int

    def write(self, value: bytes) -> bytes:
        """Return the bytes themselves."""
        if len(value) != self.size:
            raise ValueError(f"a field of {self.size} bytes got {len(value)}")
        return value

    def read(self, reader: Reader) -> bytes:
        """Read that many bytes."""
        return reader.take(self.size)


@dataclass(frozen=True)
class Number(FieldCodec):
    """An integer of a few bytes."""

    size: int = 4
    signed: bool = False

    def write(self, value: int) -> bytes:
        """Return the integer, most significant byte first."""
        return value.to_bytes(self.size, "big", signed=self.signed)

    def read(self, reader: Reader) -> int:
        """Read an integer."""
        return int.from_bytes(reader.take(self.size), "big", signed=self.signed)


@dataclass(frozen=True)
class Choice(FieldCodec):
    """A member of an ``IntEnum``."""

    members: type[IntEnum]
    size: int = 1

    def write(self, value: int) -> bytes:
        """Return the member's number."""
        return value.to_bytes(self.size, "big")

    def read(self, reader: Reader) -> IntEnum:
        """Read a member; another number is refused."""
        number = reader.number(self.size)
        if number not in self.members.__members__.values():
            raise reader.error(f"has an unknown {self.members.__name__}")
        return self.members(number)


@dataclass(frozen=True)
class Blob(FieldCodec):
    """Bytes with their length in front, up to a limit."""

    limit: int = 2**32 - 1

    def write(self, value: bytes) -> bytes:
        """Return length and bytes."""
        if len(value) > self.limit:
            raise ValueError(f"{len(value)} bytes do not fit a field of {self.limit}")
        return len(value).to_bytes(4, "big") + value

    def read(self, reader: Reader) -> bytes:
        """Read the length, check it, and read the bytes."""
        size = reader.number()
        if size > self.limit:
            raise reader.error(f"has a field of {size} bytes, at most {self.limit} fit")
        return reader.take(size)


class SiteSet(FieldCodec):
    """A set of site numbers; read as a tuple in increasing order."""

    def write(self, value: Sequence[int]) -> bytes:
        """Return the count and the numbers in increasing order."""
        return struct.pack(f">{len(value) + 1}I", len(value), *sorted(value))

    def read(self, reader: Reader) -> tuple[int, ...]:
        """Read the numbers; they must increase."""
        count = reader.count(4)
        sites = struct.unpack(f">{count}I", reader.take(4 * count))
        reader.check_order(sites)
        return sites


Sites: TypeAlias = Annotated[tuple[int, ...], SiteSet()]
"""A field that lists sites, in increasing order."""


@dataclass(frozen=True)
class SiteMap(FieldCodec):
    """A map from site numbers to bytes of one size."""

    size: int

    def write(self, value: Mapping[int, bytes]) -> bytes:
        """Return the count and the entries in increasing order of the sites."""
        item = Fixed(self.size)
        entries = [
            part
            for site, entry in sorted(value.items())
            for part in (site.to_bytes(4, "big"), item.write(entry))
        ]
        return b"".join([len(value).to_bytes(4, "big"), *entries])

    def read(self, reader: Reader) -> dict[int, bytes]:
        """Read the entries; the sites must increase."""
        entry = struct.Struct(f">I{self.size}s")
        packed = reader.take(reader.count(entry.size) * entry.size)
        pairs = list(entry.iter_unpack(packed))
        reader.check_order([site for site, _ in pairs])
        return dict(pairs)


@dataclass(frozen=True)
class Several(FieldCodec):
    """A tuple of values of one kind, in the order in which they were given."""

    item: FieldCodec

    def write(self, value: Sequence[Any]) -> bytes:
        """Return the count and the values."""
        return len(value).to_bytes(4, "big") + b"".join(map(self.item.write, value))

    def read(self, reader: Reader) -> tuple[Any, ...]:
        """Read the values; each takes a byte or more."""
        return tuple(self.item.read(reader) for _ in range(reader.count(1)))


@dataclass(frozen=True)
class Maybe(FieldCodec):
    """A value or ``None``, after a byte that says which."""

    item: FieldCodec

    def write(self, value: Any) -> bytes:
        """Return one byte, and the value if there is one."""
        return b"\0" if value is None else b"\1" + self.item.write(value)

    def read(self, reader: Reader) -> Any:
        """Read the byte, and the value if there is one."""
        present = reader.number(1)
        if present > 1:
            raise reader.error("has a field that is neither there nor absent")
        return self.item.read(reader) if present else None


@dataclass(frozen=True)
class Array(FieldCodec):
    """A vector of numbers that runs to the end of the message."""

    dtype: str
    """As it is written, byte order included, such as ``"<u8"``."""

    def write(self, value: NDArray[Any]) -> bytes:
        """Return the numbers one after the other."""
        return value.astype(self.dtype, copy=False).tobytes()

    def read(self, reader: Reader) -> NDArray[Any]:
        """Read all numbers that are left."""
        dtype = np.dtype(self.dtype)
        if reader.left % dtype.itemsize:
            raise reader.error("does not hold a whole number of words")
        numbers = np.frombuffer(reader.take(reader.left), dtype=dtype)
        return numbers.astype(dtype.newbyteorder("="), copy=False)


@dataclass(frozen=True)
class Rest(FieldCodec):
    """Bytes that run to the end of the message."""

    sizes: tuple[int, ...] = ()
    """The lengths that are allowed; all if it is empty."""

    def write(self, value: bytes) -> bytes:
        """Return the bytes themselves."""
        return value

    def read(self, reader: Reader) -> bytes:
        """Read all bytes that are left."""
        if self.sizes and reader.left not in self.sizes:
            raise reader.error("has a last field of a wrong size")
        return reader.take(reader.left)


@dataclass(frozen=True)
class Nested(FieldCodec):
    """The fields of another dataclass, without a head of their own."""

    type: type

    def write(self, value: object) -> bytes:
        """Return the fields one after the other."""
        return _written(value)

    def read(self, reader: Reader) -> object:
        """Read the fields."""
        return _read(self.type, reader)


@dataclass(frozen=True)
class Whole(FieldCodec):
    """Another message, its head included, that runs to the end of this one."""

    type: type[BinaryMessage]

    def write(self, value: BinaryMessage) -> bytes:
        """Return the whole message."""
        return value.encode()

    def read(self, reader: Reader) -> BinaryMessage:
        """Read the message from all bytes that are left."""
        return self.type.decode(reader.take(reader.left))


@dataclass(frozen=True)
class Known(FieldCodec):
    """A value with a ``digest`` that the reader has already: the digest is written."""

    called: str
    size: int = 32

    def write(self, value: Any) -> bytes:
        """Return the digest."""
        return Fixed(self.size).write(value.digest)

    def read(self, reader: Reader) -> Any:
        """Compare the digest and return the value that the reader has."""
        known: Any = reader.known
        if reader.take(self.size) != known.digest:
            raise reader.error(f"was made under other {self.called}")
        return known


class BinaryMessage:
    """A frozen dataclass with bytes; a field without a codec is not written."""

    __slots__ = ()
    tag: ClassVar[int]
    """The second byte: no two types that one end could receive share it."""
    called: ClassVar[str]
    """What an error calls it, with its article."""

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        return bytes((VERSION, self.tag)) + _written(self)

    @classmethod
    def decode(cls, raw: bytes, *, known: object = None) -> Self:
        """Read the bytes, strictly.

        Raises:
            MalformedMessageError: no correct sender writes them.
        """
        reader = Reader(raw, cls.called, known)
        reader.check_head(cls.tag)
        message: Self = _read(cls, reader)
        reader.check_end()
        return message


@cache
def _layout(cls: type) -> tuple[tuple[str, FieldCodec], ...]:
    """Return the codecs of a dataclass's fields, in order."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        (field.name, extra)
        for field in fields(cls)
        for extra in getattr(hints[field.name], "__metadata__", ())
        if isinstance(extra, FieldCodec)
    )


def _written(value: object) -> bytes:
    cls: type = type(value)
    parts = [codec.write(getattr(value, name)) for name, codec in _layout(cls)]
    return b"".join(parts)


def _read(cls: Any, reader: Reader) -> Any:
    values = {name: codec.read(reader) for name, codec in _layout(cls)}
    try:
        return cls(**values)
    except (InputError, PlanError) as error:
        raise reader.error(f"cannot be: {error}") from None
