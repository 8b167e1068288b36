"""TLS 1.3 with a name on both ends, and frames on a stream.

A frame is version (1 byte, 1), tag (1 byte), length (8 bytes, big-endian), payload.
The reader knows how long each frame may be and refuses a longer one before it
reads it. A peer is whoever its certificate names; the certificate must come from
the session's own authority.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from discreet.errors import InputError
from discreet.mpc.certificates import Identity
from discreet.mpc.failure import HungUpError, SessionFailedError
from discreet.mpc.session import Address, Session

VERSION: Final = 1
SENTENCE_BYTES: Final = 1000
"""The longest explanation that a peer may send."""
_HEADER: Final = struct.Struct(">BBQ")
_CHUNK: Final = 2**18
_RETRY_SECONDS: Final = 0.1
_CLOSE_SECONDS: Final = 1.0


class Tag(IntEnum):
    """What a frame is."""

    SHARES = 1
    """Owner to party: a package."""
    ACCEPTED = 2
    """Party to owner, analyst to party: received and kept."""
    COLLECT = 3
    """Analyst to party: the session's digest; asks for the result."""
    RESULT = 4
    """Party to analyst: a package and the statistics of the run."""
    HELLO = 5
    """Party to party: the session's digest; opens the peers' channel."""
    NOISE = 6
    """Party to party: a package with the sender's share of noise."""
    AGREE = 7
    """Party to party: digests of session, executable and sharings."""
    DONE = 8
    """Party to party: my share of the result is ready."""
    ALIVE = 9
    """To a waiting peer: still here; the payload is the phase."""
    FAILED = 10
    """To anybody: the session is over; the payload is the reason."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message on a stream."""

    tag: Tag
    payload: bytes

    @property
    def sentence(self) -> str:
        """The payload as text for people, stripped of anything that is not."""
        text = self.payload[:SENTENCE_BYTES].decode("utf-8", errors="replace")
        return "".join(c for c in text if c.isprintable())


class Channel:
    """A stream to a named peer."""

    def __init__(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = name
        self._reader = reader
        self._writer = writer
        self._heard = False

    async def send(self, tag: Tag, payload: bytes = b"") -> None:
        """Send one frame; a lost connection is a ``SessionFailedError``."""
        try:
            self._writer.write(_HEADER.pack(VERSION, tag, len(payload)))
            for start in range(0, len(payload), _CHUNK):
                self._writer.write(payload[start : start + _CHUNK])
                await self._writer.drain()
            await self._writer.drain()
        except OSError as err:
            raise SessionFailedError(lost(self.name, err)) from None

    async def receive(self, allowed: Collection[Tag], *, limit: int) -> Frame:
        """Read one frame of an allowed kind and size; FAILED is always allowed."""
        try:
            version, tag, size = _HEADER.unpack(
                await self._reader.readexactly(_HEADER.size)
            )
            self._check(version, tag, size, allowed, limit)
            frame = Frame(Tag(tag), await self._reader.readexactly(size))
        except asyncio.IncompleteReadError as err:
            raise self._gone(partial=bool(err.partial)) from None
        except ConnectionError:
            raise self._gone(partial=False) from None
        except OSError as err:
            raise SessionFailedError(lost(self.name, err)) from None
        self._heard = True
        return frame

    def _gone(self, *, partial: bool) -> SessionFailedError:
        if partial:
            return SessionFailedError(
                f"{self.name} went away in the middle of a message"
            )
        if self._heard:
            return SessionFailedError(f"{self.name} went away")
        # A server that refuses a certificate in TLS 1.3 may just hang up.
        return HungUpError(
            f"{self.name} hung up without a word: it ended, or it does not accept "
            "the certificate of this process"
        )

    def _check(
        self, version: int, tag: int, size: int, allowed: Collection[Tag], limit: int
    ) -> None:
        if version != VERSION:
            raise SessionFailedError(
                f"{self.name} speaks format {version}, this process {VERSION}; "
                "run the same release of discreet everywhere"
            )
        if tag not in {*allowed, Tag.FAILED}:
            raise SessionFailedError(f"{self.name} sent a message out of turn")
        bound = SENTENCE_BYTES if tag in {Tag.FAILED, Tag.ALIVE} else limit
        if size > bound:
            raise SessionFailedError(
                f"{self.name} announced {size} bytes where at most {bound} belong"
            )

    async def close(self) -> None:
        """Close; a peer that does not answer is not waited for."""
        if self._writer.is_closing():
            return
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    async def fail(self, sentence: str) -> None:
        """Tell the peer why the session is over, if it still listens."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.send(Tag.FAILED, sentence.encode()[:SENTENCE_BYTES])
        except (SessionFailedError, TimeoutError):
            pass
        await self.close()


def server_context(identity: Identity) -> ssl.SSLContext:
    """Accept TLS 1.3 from members of the authority only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _load(context, identity)


def client_context(identity: Identity) -> ssl.SSLContext:
    """Connect by TLS 1.3; the server must have the name that is asked for."""
    return _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity)


def _load(context: ssl.SSLContext, identity: Identity) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(identity.certificate, identity.key)
        context.load_verify_locations(identity.authority)
    except ssl.SSLError:
        raise InputError(
            f"the certificate, key and authority of {identity.name} do not fit together"
        ) from None
    return context


def peer_name(writer: asyncio.StreamWriter) -> str:
    """Return the one name in the peer's verified certificate."""
    certificate = writer.get_extra_info("peercert") or {}
    names = [value for kind, value in certificate.get("subjectAltName", ())]
    if len(names) != 1:
        raise SessionFailedError("a peer's certificate must hold exactly one name")
    return str(names[0])


async def connect(name: str, address: Address, context: ssl.SSLContext) -> Channel:
    """Connect to a named process; try again while nobody listens there yet.

    The caller bounds the time. A peer that listens but cannot prove its name ends
    the attempt at once.
    """
    while True:
        try:
            reader, writer = await asyncio.open_connection(
                address.host, address.port, ssl=context, server_hostname=name
            )
        except ssl.SSLCertVerificationError:
            raise SessionFailedError(
                f"{address} has a certificate that does not prove it is {name}"
            ) from None
        except ssl.SSLError as err:
            raise SessionFailedError(lost(f"{name} at {address}", err)) from None
        except OSError:
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return Channel(name, reader, writer)


async def connect_all(
    session: Session, context: ssl.SSLContext, *, seconds: float
) -> list[Channel]:
    """Connect to the three parties in their order, or to none."""
    channels: list[Channel] = []
    try:
        async with asyncio.timeout(seconds):
            while len(channels) < len(session.parties):
                party = session.parties[len(channels)]
                channels.append(await connect(party.name, party.intake, context))
    except (TimeoutError, SessionFailedError) as err:
        for channel in channels:
            await channel.close()
        if isinstance(err, SessionFailedError):
            raise
        silent = session.parties[len(channels)].name
        raise SessionFailedError(
            f"{silent} did not answer within {seconds:g} s"
        ) from None
    return channels


def lost(name: str, err: OSError) -> str:
    """Say in a sentence how a connection ended, without a library's jargon."""
    reason = (getattr(err, "reason", None) or "").upper()
    if "ALERT" in reason and any(
        word in reason for word in ("CERTIFICATE", "UNKNOWN_CA")
    ):
        return f"{name} refused the certificate of this process"
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
        return f"{name} does not speak TLS"
    if isinstance(err, ssl.SSLError):
        return f"{name} failed in TLS ({(err.reason or 'handshake').lower()})"
    return f"{name} went away"
