"""Messages put together from their parts; their bytes: tests/properties."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.session.messages import (
    Kind,
    Message,
    MessageError,
    joined_totals,
)


def test_a_head_and_its_content_are_put_together_again() -> None:
    message = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body")
    assert Message.of(message.head, b"body", message.numbers) == message
    with pytest.raises(MessageError, match="has content"):
        Message.of(message.encode(), b"body", message.numbers)


def test_totals_of_no_earlier_round_are_an_empty_vector() -> None:
    assert joined_totals([]).dtype == np.int64
    assert joined_totals([]).size == 0
