"""The four messages of a rank-sum evaluation, and their bytes.

    site                                    coordinator
    ----                                    -----------
                        <- Invitation <-
                        -> Scores     ->    shuffled; the site keeps the order
                        <- Ranks      <-    in the order of the scores
                        -> Answer     ->    plain aggregation only

Every message starts with the version, a tag, the digest of the terms, the session and
the site's number. Numbers are big-endian, and a message has one encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError, PlanError
from discreet.ranks.choice import Kind, Option
from discreet.ranks.ranks import SiteRanks
from discreet.secagg.errors import MalformedMessageError
from discreet.secagg.wire import MAX_SITE, Reader, Writer

DIGEST_SIZE: Final = 32
SESSION_SIZE: Final = 32


class Tag(IntEnum):
    """The second byte of every message; secure aggregation has the low ones."""

    INVITATION = 65
    SCORES = 66
    RANKS = 67
    ANSWER = 68
    JOINED = 69
    ANSWERED = 70


@dataclass(frozen=True, slots=True)
class Header:
    """What a message belongs to."""

    terms_digest: bytes
    session: bytes
    site: int

    def __post_init__(self) -> None:
        if not 1 <= self.site <= MAX_SITE:
            raise InputError(f"sites are numbered from 1 to {MAX_SITE}")

    def writer(self, tag: Tag) -> Writer:
        """Start a message."""
        out = Writer(tag).fixed(self.terms_digest, DIGEST_SIZE)
        return out.fixed(self.session, SESSION_SIZE).number(self.site)

    @classmethod
    def read(cls, reader: Reader, what: str) -> Header:
        """Read the start of a message."""
        digest, session = reader.fixed(DIGEST_SIZE), reader.fixed(SESSION_SIZE)
        site = reader.number()
        if site < 1:
            raise MalformedMessageError(f"{what} names site 0; sites start at 1")
        return cls(digest, session, site)


@dataclass(frozen=True, slots=True)
class Invitation:
    """Coordinator to site: come and be ranked."""

    header: Header

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        return self.header.writer(Tag.INVITATION).done()

    @classmethod
    def decode(cls, raw: bytes) -> Invitation:
        """Read the bytes, strictly."""
        what = "an invitation"
        reader = Reader(raw, Tag.INVITATION, what)
        header = Header.read(reader, what)
        reader.done()
        return cls(header)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Site to coordinator: its scores in an order that only the site knows."""

    header: Header
    scores: FloatVector

    def encode(self) -> bytes:
        """Return the bytes on the wire; a negative zero becomes zero."""
        cells = (self.scores + 0.0).astype(">f8").tobytes()
        return self.header.writer(Tag.SCORES).rest(cells).done()

    @classmethod
    def decode(cls, raw: bytes) -> Scores:
        """Read the bytes, strictly."""
        what = "a message of scores"
        reader = Reader(raw, Tag.SCORES, what)
        header = Header.read(reader, what)
        cells = _cells(reader.rest(), ">f8", what).astype(np.float64)
        if not np.isfinite(cells).all():
            raise MalformedMessageError(f"{what} holds values that are not finite")
        if np.any(np.signbit(cells) & (cells == 0)):
            raise MalformedMessageError(f"{what} holds a negative zero")
        return cls(header, cells)


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Coordinator to site: the doubled midranks of its scores, among all."""

    header: Header
    ranks: SiteRanks

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = self.header.writer(Tag.RANKS).number(self.ranks.examples)
        return out.rest(self.ranks.doubled.astype(">u4").tobytes()).done()

    @classmethod
    def decode(cls, raw: bytes) -> Ranks:
        """Read the bytes, strictly."""
        what = "a message of ranks"
        reader = Reader(raw, Tag.RANKS, what)
        header = Header.read(reader, what)
        examples = reader.number()
        doubled = _cells(reader.rest(), ">u4", what).astype(np.int64)
        try:
            return cls(header, SiteRanks(doubled, examples))
        except InputError as error:
            raise MalformedMessageError(f"{what} cannot be: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Site to coordinator: its option, which is public, and the protected integers."""

    header: Header
    option: Option
    released: IntVector

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = self.header.writer(Tag.ANSWER).number(self.option.kind)
        out.fixed(self.option.centre.to_bytes(8, "big", signed=True), 8)
        out.number(self.option.part)
        return out.rest(self.released.astype(">i8").tobytes()).done()

    @classmethod
    def decode(cls, raw: bytes) -> Answer:
        """Read the bytes, strictly."""
        what = "an answer"
        reader = Reader(raw, Tag.ANSWER, what)
        header = Header.read(reader, what)
        kind = reader.number()
        centre = int.from_bytes(reader.fixed(8), "big", signed=True)
        part = reader.number()
        try:
            option = Option(Kind(kind), centre, part)
        except (ValueError, PlanError):
            raise MalformedMessageError(f"{what} names an unknown option") from None
        released = _cells(reader.rest(), ">i8", what).astype(np.int64)
        return cls(header, option, released)


def _cells(raw: bytes, dtype: str, what: str) -> NDArray[Any]:
    if len(raw) % np.dtype(dtype).itemsize:
        raise MalformedMessageError(f"{what} ends within a number")
    return np.frombuffer(raw, dtype=dtype)
