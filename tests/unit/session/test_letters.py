"""Letters as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.session.messages import (
    Kind,
    Message,
    MessageError,
    joined_totals,
    pack,
    unpack,
)


def test_letters_survive_their_bytes() -> None:
    numbers = np.array([-1, 2**62], dtype=np.int64)
    message = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body", numbers)
    read = Message.decode(message.encode())
    assert read == message
    assert np.array_equal(read.numbers, numbers)


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 40, 80, 86, -1])
def test_a_letter_that_is_cut_short_is_refused(cut: int) -> None:
    raw = Message(Kind.STEP, b"p" * 32, b"s" * 32, 1, 7, b"body").encode()
    with pytest.raises(MessageError):
        Message.decode(raw[:cut])


def test_packed_fields_leave_nothing_over() -> None:
    assert unpack(pack(b"a", b"", b"ccc"), 3) == (b"a", b"", b"ccc")
    with pytest.raises(MessageError, match="left over"):
        unpack(pack(b"a", b"b"), 1)


def test_totals_of_no_earlier_round_are_an_empty_vector() -> None:
    assert joined_totals([]).dtype == np.int64
    assert joined_totals([]).size == 0
