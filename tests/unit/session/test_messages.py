"""Messages put together from their parts; their bytes: tests/properties."""

from __future__ import annotations

import pytest

from discreet.session.messages import (
    Kind,
    Message,
    MessageError,
)


def test_a_head_and_its_content_are_put_together_again() -> None:
    message = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body")
    assert Message.of(message.head, b"body", message.numbers) == message
    with pytest.raises(MessageError, match="has content"):
        Message.of(message.encode(), b"body", message.numbers)
