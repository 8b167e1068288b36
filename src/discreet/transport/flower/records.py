"""Messages as Flower's records: numbers in an ArrayRecord, the rest as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any, Final

import numpy as np
import numpy.lib.format as npy
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from discreet.arrays import IntVector
from discreet.codec.messages import MalformedMessageError
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.session.messages import Message as SessionMessage
from discreet.session.messages import MessageError
from discreet.session.state import InFolder
from discreet.transport.joining import Answering, Report

ACTION: Final = "discreet"
MESSAGE_TYPE: Final = f"query.{ACTION}"
MODEL: Final = "discreet.model"
"""The record of the model that a federation is training, when it travels along."""
_MESSAGE: Final = "discreet.letter"
_NUMBERS: Final = "discreet.numbers"
_STATE: Final = "discreet.state"
_PLAN: Final = "discreet.plan"
_HEADER: Final = 1000
"""Bytes of a vector's header; NumPy writes 118."""


def to_content(message: SessionMessage) -> RecordDict:
    """Return a session's message as the content of one of Flower's."""
    parts: dict[str, ConfigRecord | ArrayRecord] = {
        _MESSAGE: ConfigRecord({"head": message.head, "body": message.body})
    }
    if message.numbers.size:
        parts[_NUMBERS] = ArrayRecord({"numbers": Array(message.numbers)})
    return RecordDict(parts)  # type: ignore[arg-type]


def from_content(content: RecordDict) -> SessionMessage:
    """Read a session's message from the content of one of Flower's."""
    record = content.config_records.get(_MESSAGE, ConfigRecord())
    head, body = record.get("head"), record.get("body")
    if not isinstance(head, bytes) or not isinstance(body, bytes):
        raise MessageError("Flower's message holds none of a session")
    numbers = np.zeros(0, dtype=np.int64)
    if _NUMBERS in content.array_records:
        array = content.array_records[_NUMBERS].get("numbers")
        if array is None or array.dtype != "int64" or len(array.shape) != 1:
            raise MessageError("a message carries a vector of 64-bit integers")
        numbers = _vector(array.data)
    return SessionMessage.of(head, body, numbers)


def _vector(raw: bytes) -> IntVector:
    """Read a vector as NumPy saves one, of the size that came and no other.

    NumPy's own reader makes room for what a header announces, before it looks at
    what follows, and unpacks archives.
    """
    file = BytesIO(raw)
    try:
        magic: Any = npy.read_magic
        version = magic(file)
        if version != (1, 0):
            raise MessageError("a message's numbers are in another form than 1.0")
        # Typed without its third argument, which NumPy has had since 1.24.
        read: Any = npy.read_array_header_1_0
        shape, _, dtype = read(file, max_header_size=_HEADER)
    except (ValueError, TypeError, EOFError, OverflowError, RecursionError):
        raise MessageError("a message's numbers cannot be read") from None
    left = raw[file.tell() :]
    if dtype != np.dtype("<i8") or shape != (len(left) // 8,) or len(left) % 8:
        raise MessageError("a message announces other numbers than it carries")
    return np.frombuffer(left, dtype="<i8").astype(np.int64)


def reply_with(answer: Answering, message: Message, *, report: Report) -> Message:
    """Return the reply to one of Flower's messages.

    Raises:
        MalformedMessageError: it carries no message of a session; ``report`` is told.
    """
    try:
        received = from_content(message.content)
    except MalformedMessageError as error:
        report(str(error))
        raise
    return Message(to_content(answer(received)), reply_to=message)


@dataclass(frozen=True, slots=True)
class InContext:
    """Keeps a site's state with Flower, which starts an app anew for every message."""

    context: Context

    def load(self) -> bytes:
        """Return what was saved last, nothing at first."""
        record = self.context.state.config_records.get(_STATE, ConfigRecord())
        state = record.get("state", b"")
        if not isinstance(state, bytes):
            raise MessageError("the kept state is not bytes")
        return state

    def save(self, state: bytes) -> None:
        """Keep the state for the next message; the old one is written over."""
        self.context.state[_STATE] = ConfigRecord({"state": state})


@dataclass(frozen=True, slots=True)
class MemoryInContext:
    """Keeps the plan of a joined session with Flower, where no folder outlives a process.

    So it is in a simulation and in a rehearsal, whose ledgers are thrown away: each
    message may find another process with another folder of used states.
    """

    context: Context
    folder: InFolder

    def take(self, name: bytes) -> None:
        """Mark a name as used, or raise when it already was."""
        self.folder.take(name)

    def keep(self, plan: Plan, text: str) -> None:
        """Keep the plan of a session that is joined."""
        del plan
        self.context.state[_PLAN] = ConfigRecord({"text": text})

    def plan(self, digest: bytes) -> Plan:
        """Return the plan that was kept."""
        record = self.context.state.config_records.get(_PLAN, ConfigRecord())
        plan = planfile.loads(str(record.get("text", "")))
        if plan.digest() != digest:
            raise MessageError("the plan of this session is not known here")
        return plan


def keep_model(message: Message, context: Context) -> ArrayRecord | None:
    """Return the model that came along, now or with an earlier message."""
    if MODEL in message.content.array_records:
        context.state[MODEL] = message.content.array_records[MODEL]
    return context.state.array_records.get(MODEL)


def model_digest(model: ArrayRecord) -> str:
    """Identify a model by its arrays: names, types, shapes and bytes.

    >>> zeros, ones = ArrayRecord([np.zeros(2)]), ArrayRecord([np.ones(2)])
    >>> model_digest(zeros) == model_digest(ones)
    False
    """
    whole = sha256()
    for name, array in model.items():
        values = array.numpy()
        header = f"{name}\0{values.dtype.str}\0{values.shape}\0"
        whole.update(header.encode() + values.tobytes())
    return f"sha256:{whole.hexdigest()}"
