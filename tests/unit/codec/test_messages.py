"""Every kind of field: strict, bounded, one encoding for each value."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, ClassVar

import numpy as np
import pytest

from discreet.codec.messages import (
    MAX_ENTRIES,
    VERSION,
    Array,
    BinaryMessage,
    Blob,
    Choice,
    Fixed,
    Known,
    MalformedMessageError,
    Maybe,
    Nested,
    Number,
    Rest,
    Several,
    SiteMap,
    SiteSet,
    Whole,
)
from discreet.errors import InputError


class Colour(IntEnum):
    RED = 3
    BLUE = 7


@dataclass(frozen=True)
class Pair:
    low: Annotated[int, Number()]
    high: Annotated[int, Number(2)]

    def __post_init__(self):
        if self.low > self.high:
            raise InputError("low exceeds high")


@dataclass(frozen=True)
class Terms:
    digest: bytes


@dataclass(frozen=True, slots=True)
class Full(BinaryMessage):
    tag: ClassVar = 9
    called: ClassVar = "a full message"
    terms: Annotated[Terms, Known("terms", size=3)]
    name: Annotated[bytes, Fixed(2)]
    delta: Annotated[int, Number(8, signed=True)]
    colour: Annotated[Colour, Choice(Colour)]
    blob: Annotated[bytes, Blob(limit=5)]
    sites: Annotated[tuple[int, ...], SiteSet()]
    fixed: Annotated[dict[int, bytes], SiteMap(2)]
    groups: Annotated[tuple[tuple[int, ...], ...], Several(SiteSet())]
    there: Annotated[int | None, Maybe(Number())]
    absent: Annotated[int | None, Maybe(Number())]
    pair: Annotated[Pair, Nested(Pair)]
    rest: Annotated[bytes, Rest(sizes=(0, 4))]
    not_written: int = field(default=5)


TERMS = Terms(b"abc")
FULL = Full(
    TERMS,
    b"hi",
    -2,
    Colour.BLUE,
    b"xyz",
    (1, 9),
    {4: b"ab", 70000: b"cd"},
    ((1, 2), ()),
    8,
    None,
    Pair(1, 2),
    b"tail",
)


@dataclass(frozen=True, slots=True, eq=False)
class Numbers(BinaryMessage):
    tag: ClassVar = 10
    called: ClassVar = "a vector"
    values: Annotated[np.ndarray, Array(">i8")]


@dataclass(frozen=True, slots=True)
class Envelope(BinaryMessage):
    tag: ClassVar = 11
    called: ClassVar = "an envelope"
    inside: Annotated[Numbers, Whole(Numbers)]


def one(codec):
    """Return a message of one field."""

    @dataclass(frozen=True, slots=True)
    class One(BinaryMessage):
        tag: ClassVar[int] = 12
        called: ClassVar[str] = "a message"
        value: object

    One.__annotations__["value"] = Annotated[object, codec]
    return One


def raw(*parts):
    return bytes((VERSION, 12)) + b"".join(parts)


def four(number):
    return number.to_bytes(4, "big")


def test_a_message_of_every_kind_comes_back_from_its_bytes():
    back = Full.decode(FULL.encode(), known=TERMS)
    assert back == FULL
    assert back.terms is TERMS
    assert type(back.colour) is Colour
    assert back.encode() == FULL.encode()


def test_every_byte_counts():
    """Cut anywhere, prolonged, or changed in any bit: refused, or another value."""
    good = FULL.encode()
    for end in range(len(good)):
        if end != len(good) - 4:  # without its optional tail it is a message
            with pytest.raises(MalformedMessageError, match="a full message"):
                Full.decode(good[:end], known=TERMS)
    with pytest.raises(MalformedMessageError, match="wrong size"):
        Full.decode(good + b"\0", known=TERMS)
    for place in range(8 * len(good)):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        try:
            back = Full.decode(bytes(bad), known=TERMS)
        except MalformedMessageError:
            continue
        assert back != FULL
        assert back.encode() == bytes(bad)


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (b"", "is empty"),
        (b"\1", "is empty"),
        (b"\3\x0a", "version 3, .* reads version 1: install the same release"),
        (b"\1\x63", "was expected, a message with tag 99 came"),
    ],
)
def test_another_head_is_refused(head, problem):
    with pytest.raises(MalformedMessageError, match=f"a vector.* {problem}"):
        Numbers.decode(head)


@pytest.mark.parametrize(
    ("codec", "body", "problem"),
    [
        (Fixed(2), b"abc", "1 bytes too many"),
        (Choice(Colour), b"\4", "unknown Colour"),
        (Blob(limit=3), four(4) + b"abcd", "4 bytes, at most 3"),
        (Blob(), four(2**32 - 1) + b"abcd", "too early"),
        (SiteSet(), four(MAX_ENTRIES + 1), "entries"),
        (SiteSet(), four(MAX_ENTRIES), "too early"),
        (SiteSet(), four(2) + four(2) + four(1), "do not increase"),
        (SiteSet(), four(2) + four(1) + four(1), "do not increase"),
        (SiteSet(), four(1) + four(0), "do not increase"),
        (SiteMap(1), four(2) + four(2) + b"a" + four(1) + b"b", "do not increase"),
        (SiteMap(1), four(MAX_ENTRIES) + four(2) + b"a", "too early"),
        (SiteMap(1), four(2) + (four(1) + b"a") * 2, "do not increase"),
        (Several(SiteSet()), four(5) + four(0), "too early"),
        (Several(SiteSet()), four(2**31), "entries"),
        (Maybe(Number()), b"\2", "neither there nor absent"),
        (Nested(Pair), four(9) + b"\0\1", "cannot be: low exceeds high"),
        (Rest(sizes=(0, 4)), b"abc", "wrong size"),
        (Array("<u8"), b"abc", "whole number"),
        (Known("terms", size=3), b"abd", "made under other terms"),
    ],
)
def test_what_no_sender_writes_is_refused(codec, body, problem):
    with pytest.raises(MalformedMessageError, match=f"^a message .*{problem}") as error:
        one(codec).decode(raw(body), known=TERMS)
    assert "abc" not in str(error.value)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Fixed(32), bytes(31)),
        (Blob(limit=3), bytes(4)),
        (SiteMap(3), {1: bytes(4)}),
        (Known("terms"), TERMS),
    ],
)
def test_a_field_of_the_wrong_size_cannot_be_written(codec, value):
    with pytest.raises(ValueError, match=r"bytes (got|do not fit)|got"):
        one(codec)(value).encode()


def test_sets_and_maps_have_one_encoding():
    assert SiteSet().write((5, 2)) == SiteSet().write((2, 5))
    assert SiteMap(1).write({5: b"a", 2: b"b"}) == SiteMap(1).write({2: b"b", 5: b"a"})


def test_a_vector_comes_back_in_this_machines_order_also_from_inside():
    values = np.array([-1, 2**62])
    back = Envelope.decode(Envelope(Numbers(values)).encode()).inside.values
    assert back.dtype == np.int64
    np.testing.assert_array_equal(back, values)
    with pytest.raises(MalformedMessageError, match="a vector has version 0"):
        Envelope.decode(bytes((VERSION, 11, 0, 10)))
