"""A coordinator's session on disk: resume a killed session without a second charge.

A session is a function of the bytes that its coordinator drew (the nonces) and of
the answers that it heard. Both are written down, in order, before anything that
follows from them is sent. To resume is to run the session again from the beginning,
with the recorded bytes and answers, and to ask the sites only for what is missing:
they get the very messages that they got before, and answer with what they stored.

What the coordinator hears is no secret of a site by itself, but it is not for others:
the file is sealed (ChaCha20-Poly1305) with a key that is derived from the
coordinator's own, and bound to the plan and the nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from discreet.codec.messages import (
    BinaryMessage,
    Blob,
    MalformedMessageError,
    Nested,
    Number,
    Several,
)
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.secret_files import remove_unfinished, write_secret
from discreet.session.coordinator import ReliableTransport
from discreet.session.messages import Kind, Message, SessionTag, pack

VERSION: Final = 1
_NONCE_SIZE: Final = 12


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer, and the node that it came from."""

    node: Annotated[int, Number(8)]
    answer: Annotated[bytes, Blob()]


@dataclass(frozen=True, slots=True)
class SavedJournal(BinaryMessage):
    """A journal as it is written to disk."""

    tag: ClassVar = SessionTag.JOURNAL
    called: ClassVar = "a journal"
    nodes: Annotated[tuple[int, ...], Several(Number(8))]
    over: Annotated[int, Number(1)]
    drawn: Annotated[tuple[bytes, ...], Several(Blob())]
    heard: Annotated[tuple[tuple[Heard, ...], ...], Several(Several(Nested(Heard)))]


@dataclass(frozen=True)
class SavedSession:
    """Where a session of one plan is saved, in a file that is its owner's alone.

    The sealing key is derived from ``secret``; ``bound_to`` is the plan's digest and
    whatever else must not change meanwhile.
    """

    path: Path
    secret: bytes = field(repr=False)
    bound_to: bytes

    def save(self, content: bytes) -> None:
        """Write the whole file anew, or leave the old one."""
        nonce = SYSTEM(_NONCE_SIZE)
        sealed = self._cipher().encrypt(nonce, content, self.bound_to)
        write_secret(self.path, bytes([VERSION]) + nonce + sealed, over=True)

    def load(self) -> bytes | None:
        """Return what was saved, None if nothing was.

        Raises:
            InputError: the file was changed, or belongs to another plan or key.
        """
        if not self.path.exists():
            return None
        raw = self.path.read_bytes()
        nonce, sealed = raw[1 : 1 + _NONCE_SIZE], raw[1 + _NONCE_SIZE :]
        if raw[:1] == bytes([VERSION]) and len(nonce) == _NONCE_SIZE:
            try:
                return self._cipher().decrypt(nonce, sealed, self.bound_to)
            except InvalidTag:
                pass
        raise InputError(
            f"{self.path} is no saved session of this plan, these keys and this "
            "release; drop it with --fresh"
        )

    def discard(self) -> None:
        """Forget the session: it is over, or somebody said so."""
        self.path.unlink(missing_ok=True)
        remove_unfinished(self.path)

    def _cipher(self) -> ChaCha20Poly1305:
        kdf = HKDF(hashes.SHA256(), 32, salt=None, info=b"discreet saved session")
        return ChaCha20Poly1305(kdf.derive(self.secret))


def binding(plan_digest: bytes, nodes: Sequence[str]) -> bytes:
    """Name a plan and the nodes' names, in the order of their numbers."""
    names = (name.encode() for name in nodes)
    return hashlib.sha256(pack(plan_digest, *names)).digest()


@dataclass
class Journal:
    """What a session drew and heard; an entropy and a transport that repeat it.

    ``keep`` is told the whole journal whenever it has grown; ``over`` is whether the
    sites were told how the session ended.
    """

    nodes: tuple[int, ...]
    entropy: Entropy = field(default=SYSTEM, repr=False)
    keep: Callable[[bytes], None] = field(default=lambda _: None, repr=False)
    drawn: list[bytes] = field(default_factory=list, repr=False)
    heard: list[Mapping[int, Message]] = field(default_factory=list, repr=False)
    over: bool = False
    _drawn_again: int = field(default=0, init=False)
    _heard_again: int = field(default=0, init=False)

    def draw(self, size: int) -> bytes:
        """Return the bytes that were drawn here before, or fresh ones."""
        if self._drawn_again == len(self.drawn):
            self.drawn.append(self.entropy(size))
        self._drawn_again += 1
        return self.drawn[self._drawn_again - 1]

    def through(self, transport: ReliableTransport) -> ReliableTransport:
        """Return a transport that hears again what was heard, and then goes on."""

        def carry(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
            self._heard_again += 1
            if self._heard_again <= len(self.heard):
                return _fitting(messages, self.heard[self._heard_again - 1])
            self.keep(self.to_bytes())  # what was drawn, before it is shown
            answers = transport(messages)
            self.heard.append(answers)
            self.over = all(x.kind is Kind.END for x in messages.values())
            self.keep(self.to_bytes())
            return answers

        return carry

    def ask_again(self) -> None:
        """Forget the last answers: a resumed session sends the same messages again."""
        self.heard.pop()
        self.keep(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the journal as bytes."""
        heard = tuple(
            tuple(Heard(node, answer.encode()) for node, answer in each.items())
            for each in self.heard
        )
        return SavedJournal(
            self.nodes, int(self.over), tuple(self.drawn), heard
        ).encode()

    @classmethod
    def of(
        cls,
        raw: bytes,
        *,
        entropy: Entropy = SYSTEM,
        keep: Callable[[bytes], None] = lambda _: None,
    ) -> Journal:
        """Read a journal, to go on with it."""
        try:
            saved = SavedJournal.decode(raw)
            heard: list[Mapping[int, Message]] = [
                {each.node: Message.decode(each.answer) for each in answers}
                for answers in saved.heard
            ]
        except MalformedMessageError as error:
            raise InputError(f"a saved session cannot be read: {error}") from error
        return cls(
            saved.nodes, entropy, keep, list(saved.drawn), heard, bool(saved.over)
        )


def _fitting(
    messages: Mapping[int, Message], answers: Mapping[int, Message]
) -> Mapping[int, Message]:
    """Refuse answers to other messages: another release would have written these."""
    for node, answer in answers.items():
        if node not in messages or answer.about != messages[node].digest():
            raise InputError(
                "the saved session was run by another release of discreet; drop it "
                "with --fresh"
            )
    return answers
