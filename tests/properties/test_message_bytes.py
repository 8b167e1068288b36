"""Every type of message: one encoding, and no other bytes are read.

A value of each type comes back from its bytes. Cut, prolonged or with another head they
are refused by ``MalformedMessageError``, whatever the type is.
"""

from __future__ import annotations

import numpy as np
import pytest

from discreet.codec.messages import BinaryMessage, MalformedMessageError
from discreet.label.mechanisms import Option, SumKind
from discreet.label.rank_terms import RankAnswer, RanksMessage, Scores, SentOrder
from discreet.label.ranks import SiteRanks
from discreet.secagg.keys import RECEIPT_SIZE
from discreet.secagg.messages import (
    BOX_SIZE,
    Advert,
    BoxDelivery,
    Confirmation,
    MaskedVector,
    RevealedShares,
    RevealRequest,
    SealedShares,
    SumInvitation,
    Survivors,
    Withdrawal,
)
from discreet.session.journal import Heard, SavedJournal
from discreet.session.messages import Ending, EndNotice, Invitation, Kind, Message
from discreet.session.protocols.ranks import SummedState
from discreet.session.state import Progress, RefusedSession

A, B, SIGNATURE = b"a" * 32, b"b" * 32, b"s" * 64
BOX, SHARE, RECEIPT = b"x" * BOX_SIZE, bytes(33), b"x" * RECEIPT_SIZE
NUMBERS = np.array([-1, 2**62], dtype=np.int64)
MESSAGES: list[BinaryMessage] = [
    Message(Kind.STEP, A, B, 1, 7, b"body", NUMBERS),
    Invitation("a plan", A, b"opening", SIGNATURE),
    EndNotice(Ending.FAILED, {3: SIGNATURE}),
    Progress(A, 1, B, 7, A, NUMBERS, b"secret", {B: b"reply"}, Ending.REVEALED),
    RefusedSession(A),
    SavedJournal((1, 2), 0, (b"nonce",), ((Heard(1, b"answer"),), ())),
    SummedState(b"ranks", b"masking"),
    Scores(np.array([0.5, 2.0])),
    RanksMessage(SiteRanks(np.array([0, 3, 3]), 9)),
    RankAnswer(Option(SumKind.SLACK, -9, 50), np.array([-7, 2**40])),
    SentOrder(np.array([2, 0, 1])),
    SumInvitation(A, B),
    Advert(A, B),
    SealedShares(A, B, {2: BOX, 9: BOX}),
    BoxDelivery(A, (1, 2, 9), {2: BOX}),
    MaskedVector(A, {7: RECEIPT}, np.array([0, 1, 2**64 - 1], dtype=np.uint64)),
    Survivors(A, (1, 2, 9), {2: RECEIPT, 9: RECEIPT}),
    Confirmation(A, SIGNATURE),
    Withdrawal(A, SIGNATURE),
    RevealRequest(A, (1, 2), {2: SIGNATURE}),
    RevealedShares(A, {2: SHARE}, {7: SHARE, 8: SHARE}),
]


ENDLESS = (Scores, RanksMessage, RankAnswer, SentOrder, MaskedVector)
"""They end in a vector: without its last numbers it is another message."""


def test_every_type_of_message_is_here() -> None:
    """But rosters of keys and a site's states, which are read under known terms."""
    packages = ("discreet.session", "discreet.label")
    known = {
        kind.__name__
        for kind in BinaryMessage.__subclasses__()
        if kind.__module__.startswith(packages)
    }
    assert known <= {type(message).__name__ for message in MESSAGES}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_has_one_encoding_and_nothing_else_is_read(
    message: BinaryMessage,
) -> None:
    kind, raw = type(message), message.encode()
    assert kind.decode(raw).encode() == raw
    flipped = [
        bytes([*raw[:k], raw[k] ^ (1 << bit), *raw[k + 1 :]])
        for k in (0, 1)
        for bit in range(8)
    ]
    shorter = 0
    for bad in (*(raw[:end] for end in range(len(raw))), raw + b"\0", *flipped):
        try:
            assert kind.decode(bad).encode() == bad
            shorter += 1
        except MalformedMessageError:
            pass
    assert shorter <= 3 if kind in ENDLESS else shorter == 0
