"""A site's patience: it answers messages, and tries again when the line is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from discreet.errors import DiscreetError
from discreet.session.policy import DECLINED
from discreet.session.retrying import pause
from discreet.transport.addresses import SilenceError, UnreachableError
from discreet.transport.flower.node import FleetNode
from discreet.transport.flower.reaching import explained, no_coordinator
from discreet.transport.keys import SiteKeys

Replying: TypeAlias = Callable[[Message, Context], Message]
"""Turns one message into its reply; a ``ClientApp`` does."""
Tell: TypeAlias = Callable[[str], None]

TROUBLE_SECONDS: Final = 2.0
"""How long a failure must last before it is told."""
_DECLINED: Final = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, DECLINED)


def serve(
    keys: SiteKeys,
    address: str,
    answer: Replying,
    *,
    until: Callable[[], bool],
    wait_seconds: float,
    tell: Tell = lambda _: None,
) -> None:
    """Connect a site and answer messages until told to stop.

    A coordinator may be about to start: so whoever finds nobody tries again. A site
    that was connected tries again whatever happens, as long as it waits for a word:
    the coordinator may come back and go on. What cannot mend itself (a certificate, a
    name, a key, a clock) ends a first attempt at once.

    Args:
        keys: the site's.
        address: where the coordinator listens.
        answer: turns a message into its reply.
        until: whether the site has heard its last word.
        wait_seconds: how long to wait for a word.
        tell: told when the connection comes, and why it does not.

    Raises:
        UnreachableError: it could not connect.
        SilenceError: no message came for that long.
    """
    serving = _Serving(address, answer, until, wait_seconds, tell)
    while not until():
        try:
            with FleetNode(keys, address) as node:
                serving.run(node)
        except httpx.HTTPError as error:
            serving.failed(explained(error, address))
        except DiscreetError:
            raise
        except ValueError:  # what came is none of Flower's messages
            serving.failed(no_coordinator(address, 200))


@dataclass
class _Serving:
    """A site's patience with its coordinator."""

    address: str
    answer: Replying
    until: Callable[[], bool]
    wait_seconds: float
    tell: Tell
    last: float = field(default_factory=time.monotonic)
    """When a word of the coordinator came last."""
    known: bool = False
    trouble: str = ""
    since: float = 0.0
    """What the connection fails with, and since when."""
    told: str = ""

    def connected(self) -> None:
        if self.told or not self.known:
            self.tell(f"connected to {self.address}")
        self.known, self.trouble, self.told = True, "", ""

    def run(self, node: FleetNode) -> None:
        """Answer messages until told to stop."""
        own = node.node.node_id
        context = Context(0, own, {}, RecordDict(), {})
        while not self.until():
            try:
                message = node.receive()
            except httpx.TransportError as error:
                # The node is the same one when the line is back.
                self.failed(explained(error, self.address))
                continue
            self.connected()
            if message is None:
                waited = time.monotonic() - self.last
                if waited > self.wait_seconds:
                    raise SilenceError(
                        f"no word from the coordinator for {self.wait_seconds:.0f} s; "
                        "nothing more is sent"
                    )
                time.sleep(pause(waited))
                continue
            self.last = time.monotonic()
            try:
                reply = self.answer(message, context)
            except Exception:  # noqa: BLE001 - a stranger's message must not end us
                reply = Message(_DECLINED, reply_to=message)
            try:
                node.send(reply)
            except httpx.TransportError as error:
                self.failed(explained(error, self.address))
                continue  # the coordinator asks again, and gets the stored answer
            self.last = time.monotonic()

    def failed(self, error: UnreachableError) -> None:
        """Wait before the next attempt, or give up."""
        now = time.monotonic()
        if str(error) != self.trouble:
            self.trouble, self.since = str(error), now
        failing, silent = now - self.since, now - self.last
        hopeless = not self.known and failing >= error.worth_seconds
        if hopeless or silent > self.wait_seconds:
            raise error
        if failing > TROUBLE_SECONDS and self.told != self.trouble:
            left = min(self.wait_seconds - silent, error.worth_seconds)
            self.tell(f"{error} (trying again for {left:.0f} s)")
            self.told = self.trouble
        time.sleep(max(0.2, pause(failing)))
