"""A site as a Flower ClientApp: every letter may find a new process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from flwr.app import Context, Message

from discreet.codec.messages import MalformedMessageError
from discreet.entropy import SYSTEM
from discreet.failures import sentence
from discreet.noise.response import ResponseKey
from discreet.secret_files import SecretExistsError, read_secret, write_secret
from discreet.session.messages import Kind
from discreet.session.messages import Message as SessionMessage
from discreet.session.site import Site
from discreet.session.state import after_refusal
from discreet.transport.flower.records import (
    from_content,
    load_state,
    save_state,
    to_content,
)

SiteOf: TypeAlias = Callable[[Message, Context], Site]
"""Returns what the site brings, anew for every message."""
Report: TypeAlias = Callable[[str], None]


class Kept(Protocol):
    """Keeps a site's state between two letters, before the answer is sent."""

    def load(self, context: Context) -> bytes:
        """Return what was saved last, nothing at first."""
        ...

    def save(self, context: Context, state: bytes) -> None:
        """Keep the state for the next letter; the old one is written over."""
        ...


@dataclass(frozen=True, slots=True)
class InContext:
    """With Flower, for an app that Flower starts anew for every message."""

    def load(self, context: Context) -> bytes:
        """Return what was saved last."""
        return load_state(context)

    def save(self, context: Context, state: bytes) -> None:
        """Keep the state for the next letter."""
        save_state(context, state)


@dataclass(frozen=True, slots=True)
class InFile:
    """On disk, for its owner alone: it outlives a lost connection and a crash."""

    path: Path

    def load(self, context: Context) -> bytes:
        """Return what was saved last."""
        del context
        return self.path.read_bytes() if self.path.exists() else b""

    def save(self, context: Context, state: bytes) -> None:
        """Replace the file as a whole; an empty state leaves none."""
        del context
        if state:
            write_secret(self.path, state, over=True)
        else:
            self.path.unlink(missing_ok=True)


def flip_key(ledger: Path) -> ResponseKey:
    """Return the key of a site's label flips, kept beside its ledger.

    It is made once: other flips of the same labels would average out.
    """
    path = ledger.with_name(ledger.name + ".response_key")
    if not path.exists():
        with suppress(SecretExistsError):  # another process was faster
            write_secret(path, SYSTEM(32))
    return ResponseKey(read_secret(path, what="the key of the label flips"))


def report_on_stderr(reason: str) -> None:
    """Tell the operator why the site declines."""
    sys.stderr.write(f"discreet: declined: {reason}\n")
    sys.stderr.flush()


def handler(
    site_of: SiteOf,
    *,
    report: Report = report_on_stderr,
    answered: Callable[[SessionMessage, SessionMessage], None] | None = None,
    kept: Kept | None = None,
) -> Callable[[Message, Context], Message]:
    """Return the function that turns one message into its reply.

    Args:
        site_of: what the site brings.
        report: told why the site declines.
        answered: told each letter with its answer.
        kept: where the state is between two letters; by default with Flower.
    """
    keeper = InContext() if kept is None else kept

    def answer(message: Message, context: Context) -> Message:
        try:
            letter = from_content(message.content)
        except MalformedMessageError as error:
            report(str(error))
            raise
        state = keeper.load(context)
        try:
            site = site_of(message, context)
        except Exception as error:  # noqa: BLE001 - a failure must not tell about data
            report(sentence(error, doing="opening the site"))
            following = after_refusal(state, letter)
            reply = letter.reply(Kind.DECLINED, site=0)
        else:
            try:
                following, reply = site.answer(state, letter, report=report)
            finally:
                site.close()
        keeper.save(context, following)
        if answered is not None:
            answered(letter, reply)
        return Message(to_content(reply), reply_to=message)

    return answer
