"""Messages as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.codec.messages import MalformedMessageError
from discreet.session.messages import (
    Kind,
    Message,
    MessageError,
    joined_totals,
)


def test_messages_survive_their_bytes() -> None:
    numbers = np.array([-1, 2**62], dtype=np.int64)
    message = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body", numbers)
    read = Message.decode(message.encode())
    assert read == message
    assert np.array_equal(read.numbers, numbers)


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 40, 80, 86, -1])
def test_a_message_that_is_cut_short_is_refused(cut: int) -> None:
    raw = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body").encode()
    with pytest.raises(MalformedMessageError):
        Message.decode(raw[:cut])


def test_a_head_and_its_content_are_put_together_again() -> None:
    message = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body")
    assert Message.of(message.head, b"body", message.numbers) == message
    with pytest.raises(MessageError, match="has content"):
        Message.of(message.encode(), b"body", message.numbers)


def test_totals_of_no_earlier_round_are_an_empty_vector() -> None:
    assert joined_totals([]).dtype == np.int64
    assert joined_totals([]).size == 0
