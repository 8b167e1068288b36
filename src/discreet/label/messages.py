"""The three messages of the ranks conversation, and their bytes.

    site                                    coordinator
    ----                                    -----------
                        <- (invitation) <-
                        -> Scores       ->  shuffled; the site keeps the order
                        <- Ranks        <-  in the order of the scores
                        -> Answer       ->  each site's own; not under a secure sum

They are the bodies of letters, which say to which plan, session and site they belong.
Numbers are big-endian, and a message has one encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector, IntVector
from discreet.errors import InputError, PlanError
from discreet.label.midranks import SiteRanks
from discreet.label.rank_mechanisms import Kind, Option
from discreet.secagg.errors import MalformedMessageError
from discreet.secagg.wire import Reader, Writer


class Tag(IntEnum):
    """The second byte of every message; secure aggregation has the low ones."""

    SCORES = 66
    RANKS = 67
    ANSWER = 68
    JOINED = 69


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Site to coordinator: its scores in an order that only the site knows."""

    scores: FloatVector

    def encode(self) -> bytes:
        """Return the bytes on the wire; a negative zero becomes zero."""
        cells = (self.scores + 0.0).astype(">f8").tobytes()
        return Writer(Tag.SCORES).rest(cells).done()

    @classmethod
    def decode(cls, raw: bytes) -> Scores:
        """Read the bytes, strictly."""
        what = "a message of scores"
        rest = Reader(raw, Tag.SCORES, what).rest()
        cells = _cells(rest, ">f8", what).astype(np.float64)
        if not np.isfinite(cells).all():
            raise MalformedMessageError(f"{what} holds values that are not finite")
        if np.any(np.signbit(cells) & (cells == 0)):
            raise MalformedMessageError(f"{what} holds a negative zero")
        return cls(cells)


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Coordinator to site: the doubled midranks of its scores, among all."""

    ranks: SiteRanks

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.RANKS).number(self.ranks.examples)
        return out.rest(self.ranks.doubled.astype(">u4").tobytes()).done()

    @classmethod
    def decode(cls, raw: bytes) -> Ranks:
        """Read the bytes, strictly."""
        what = "a message of ranks"
        reader = Reader(raw, Tag.RANKS, what)
        examples = reader.number()
        doubled = _cells(reader.rest(), ">u4", what).astype(np.int64)
        try:
            return cls(SiteRanks(doubled, examples))
        except InputError as error:
            raise MalformedMessageError(f"{what} cannot be: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Site to coordinator: its option, which is public, and the protected integers."""

    option: Option
    released: IntVector

    def encode(self) -> bytes:
        """Return the bytes on the wire."""
        out = Writer(Tag.ANSWER).number(self.option.kind)
        out.fixed(self.option.centre.to_bytes(8, "big", signed=True), 8)
        out.number(self.option.part)
        return out.rest(self.released.astype(">i8").tobytes()).done()

    @classmethod
    def decode(cls, raw: bytes) -> Answer:
        """Read the bytes, strictly."""
        what = "an answer"
        reader = Reader(raw, Tag.ANSWER, what)
        kind = reader.number()
        centre = int.from_bytes(reader.fixed(8), "big", signed=True)
        part = reader.number()
        try:
            option = Option(Kind(kind), centre, part)
        except (ValueError, PlanError):
            raise MalformedMessageError(f"{what} names an unknown option") from None
        released = _cells(reader.rest(), ">i8", what).astype(np.int64)
        return cls(option, released)


def encode_order(order: IntVector) -> bytes:
    """Return what a site keeps between its two steps: secret, it says whose a score is."""
    return Writer(Tag.JOINED).rest(order.astype(">u4").tobytes()).done()


def decode_order(raw: bytes) -> IntVector:
    """Read the order in which a site sent its scores."""
    what = "the saved state"
    order = _cells(Reader(raw, Tag.JOINED, what).rest(), ">u4", what).astype(np.int64)
    if not np.array_equal(np.sort(order), np.arange(order.size)):
        raise MalformedMessageError(f"{what} does not hold an order of the scores")
    return order


def _cells(raw: bytes, dtype: str, what: str) -> NDArray[Any]:
    if len(raw) % np.dtype(dtype).itemsize:
        raise MalformedMessageError(f"{what} ends within a number")
    return np.frombuffer(raw, dtype=dtype)
