"""The three messages of the ranks conversation, and their bytes.

    site                                    coordinator
    ----                                    -----------
                        <- (invitation) <-
                        -> Scores       ->  shuffled; the site keeps the order
                        <- RanksMessage        <-  in the order of the scores
                        -> RankAnswer       ->  each site's own; not under a secure sum

They are the bodies of session messages, which name the plan, the session and the site.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.messages import Array, BinaryMessage, FieldCodec, Nested, Reader
from discreet.errors import InputError
from discreet.label.mechanisms import Option
from discreet.label.ranks import SiteRanks


class RankMessageTag(IntEnum):
    """The second byte of every message; secure aggregation has the low ones."""

    SCORES = 66
    RANKS = 67
    ANSWER = 68
    ORDER = 69


class _ScoreCodec(Array):
    """Finite scores; a negative zero is written as zero."""

    def write(self, value: FloatVector) -> bytes:
        return super().write(value + 0.0)

    def read(self, reader: Reader) -> FloatVector:
        scores: FloatVector = super().read(reader)
        if not np.isfinite(scores).all():
            raise reader.error("holds values that are not finite")
        if np.any(np.signbit(scores) & (scores == 0)):
            raise reader.error("holds a negative zero")
        return scores


class _OrderCodec(Array):
    """A permutation of 0, 1, ..., n - 1."""

    def read(self, reader: Reader) -> IntVector:
        order: IntVector = super().read(reader).astype(np.int64)
        if not np.array_equal(np.sort(order), np.arange(order.size)):
            raise reader.error("does not hold an order of the scores")
        return order


class _RankCodec(FieldCodec):
    """The number of all examples, and a site's doubled ranks among them."""

    def write(self, value: SiteRanks) -> bytes:
        return value.examples.to_bytes(4, "big") + Array(">u4").write(value.doubled)

    def read(self, reader: Reader) -> SiteRanks:
        examples = reader.number()
        doubled = Array(">u4").read(reader).astype(np.int64)
        try:
            return SiteRanks(doubled, examples)
        except InputError as error:
            raise reader.error(f"cannot be: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Scores(BinaryMessage):
    """Site to coordinator: its scores in an order that only the site knows."""

    tag: ClassVar = RankMessageTag.SCORES
    called: ClassVar = "a message of scores"
    scores: Annotated[FloatVector, _ScoreCodec(">f8")]


@dataclass(frozen=True, slots=True, eq=False)
class RanksMessage(BinaryMessage):
    """Coordinator to site: the doubled midranks of its scores, among all."""

    tag: ClassVar = RankMessageTag.RANKS
    called: ClassVar = "a message of ranks"
    ranks: Annotated[SiteRanks, _RankCodec()]


@dataclass(frozen=True, slots=True, eq=False)
class RankAnswer(BinaryMessage):
    """Site to coordinator: its option, which is public, and the protected integers."""

    tag: ClassVar = RankMessageTag.ANSWER
    called: ClassVar = "an answer"
    option: Annotated[Option, Nested(Option)]
    released: Annotated[IntVector, Array(">i8")]


@dataclass(frozen=True, slots=True, eq=False)
class SentOrder(BinaryMessage):
    """What a site keeps between its two steps: secret, it says whose a score is."""

    tag: ClassVar = RankMessageTag.ORDER
    called: ClassVar = "the saved state"
    order: Annotated[IntVector, _OrderCodec(">u4")]
