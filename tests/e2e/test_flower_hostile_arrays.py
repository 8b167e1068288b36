"""Arrays that a hostile site may send: the site is left out, the coordinator goes on."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, RecordDict

from discreet.session.messages import Kind, Message, MessageError
from discreet.session.retrying import Lost
from discreet.transport.flower.records import from_content, to_content
from discreet.transport.flower.server import _read

pytestmark = pytest.mark.flower

LETTER = Message(Kind.STEP, bytes(32), bytes(32), 0, numbers=np.arange(4))


def with_numbers(raw: bytes) -> RecordDict:
    content = to_content(LETTER)
    array = Array("int64", (4,), "numpy.ndarray", raw)
    content["discreet.numbers"] = ArrayRecord({"numbers": array})
    return content


def announcing(shape: str, dtype: str = "<i8", *, data: bytes = bytes(32)) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    padded = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + data


def archive() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, numbers=np.zeros(10**6, dtype=np.int64))
    return file.getvalue()


HOSTILE = {
    "ten million millions": announcing("(10000000000000,)"),
    "negative": announcing("(-1,)"),
    "two ways": announcing("(2, 2)"),
    "deep": announcing("(" * 300 + "4" + ",)" * 300),
    "objects": announcing("(4,)", "|O"),
    "floats": announcing("(4,)", "<f8"),
    "short": announcing("(4,)", data=bytes(31)),
    "long header": b"\x93NUMPY\x01\x00\xff\xff" + b" " * 65535,
    "another version": b"\x93NUMPY\x02\x00" + bytes(100),
    "an archive": archive(),
    "nothing": b"",
}


def test_a_vector_reads_back_as_sent() -> None:
    assert from_content(to_content(LETTER)).numbers.tolist() == [0, 1, 2, 3]
    assert from_content(with_numbers(announcing("(4,)"))).numbers.tolist() == [0] * 4


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_hostile_arrays_are_no_letter_and_end_nobody(raw: bytes) -> None:
    content = with_numbers(raw)
    with pytest.raises(MessageError):
        from_content(content)
    reply = SimpleNamespace(has_error=lambda: False, content=content)
    found = _read(reply, LETTER.digest())  # type: ignore[arg-type]
    assert found == Lost(LETTER.digest(), for_good=True)
