"""TLS 1.3 with a name on both ends, frames on a stream, and how a session fails.

A frame is version (1 byte, 1), tag (1 byte), length (8 bytes, big-endian), payload.
The reader knows how long each frame may be and refuses a longer one before it
reads it. A peer is whoever its certificate names; the certificate must come from
the session's own authority.

One authority per consortium: SPU's link accepts every certificate that the authority
signed and compares no name, so the authority must sign nobody else. A real consortium
issues the same files from its own authority; the keys made here all come from one
machine and are for tests and demonstrations.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Sequence,
)
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from discreet.errors import DiscreetError, InputError
from discreet.mpc.session import Address, MpcSession
from discreet.mpc.shares import PARTIES
from discreet.secret_files import check_secret, write_secret
from discreet.transport.keys import make_authority, make_server

EXIT_SESSION: Final = 3
"""The session failed, here or elsewhere; nothing was revealed."""
VALID_DAYS: Final = 30
VERSION: Final = 1
SENTENCE_BYTES: Final = 1000
"""The longest explanation that a peer may send."""
_HEADER: Final = struct.Struct(">BBQ")
_CHUNK: Final = 2**18
_RETRY_SECONDS: Final = 0.1
_CLOSE_SECONDS: Final = 1.0
REPORT_SECONDS: Final = 5.0
"""Between two lines about a long phase."""
T = TypeVar("T")


class SessionFailedError(DiscreetError):
    """The session ended without a result; the sentence says at whom and why."""


class HungUpError(SessionFailedError):
    """A peer closed the connection before it sent anything."""


class PeerFailedError(SessionFailedError):
    """A peer said that the session is over; the sentence is the peer's."""


class Alarm:
    """Rings once; everybody who waits through it stops with the same reason."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._reason: SessionFailedError | None = None

    def ring(self, reason: SessionFailedError) -> None:
        """Fail the session; only the first reason counts."""
        if self._reason is None:
            self._reason = reason
            self._rung.set()

    async def guard(
        self,
        work: Coroutine[Any, Any, T],
        *,
        seconds: float | None = None,
        late: Callable[[], str] = lambda: "time is up",
    ) -> T:
        """Wait for some work, for the alarm or for the time, whichever is first."""
        task = asyncio.create_task(work)
        alarm = asyncio.create_task(self._rung.wait())
        try:
            await asyncio.wait(
                {task, alarm}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if self._reason is not None:
                raise self._reason
            if not task.done():
                raise SessionFailedError(late())
            return task.result()
        finally:
            for pending in (task, alarm):
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, SessionFailedError):
                    await pending


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Paths of one member's certificate and key, and of the authority it trusts."""

    name: str
    certificate: Path
    key: Path
    authority: Path

    def __post_init__(self) -> None:
        for path in (self.certificate, self.key, self.authority):
            if not path.is_file():
                raise InputError(
                    f"{self.name} has no file {path.name}; "
                    "make test certificates with: discreet exact certificates"
                )
        check_secret(self.key, what="the key")

    @classmethod
    def within(cls, folder: Path, name: str) -> MemberIdentity:
        """Return the identity that ``make_certificates`` wrote for a name."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        return cls(name, certificate, key, folder / "ca.crt")

    def server_context(self) -> ssl.SSLContext:
        """Accept TLS 1.3 from members of the authority only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._load(context)

    def client_context(self) -> ssl.SSLContext:
        """Connect by TLS 1.3; the server must prove the name that is called."""
        return self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except ssl.SSLError:
            raise InputError(
                f"the certificate, key and authority of {self.name} do not fit together"
            ) from None
        return context


class PartyLog:
    """The phase of a party: told to its operator, its peers and the analyst."""

    def __init__(self, name: str, rows: int, report: Callable[[str], None]) -> None:
        self._name = name
        self._rows = rows
        self._report = report
        self._started = time.monotonic()
        self._phase = "starting"

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._started

    def enter(self, phase: str) -> None:
        """Go on to a phase."""
        self._phase = phase
        self.write(self.line())

    def write(self, text: str) -> None:
        """Report a line with the time since the start."""
        self._report(f"{self._name} {self.seconds:7.1f} s  {text}")

    def line(self) -> str:
        """Return the phase and the rows."""
        return f"{self._phase}, {self._rows:,} rows"

    async def repeat(self) -> None:
        """Report the phase now and then, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self.write(self.line())


@dataclass(frozen=True)
class PartyRun:
    """What all of one party's process shares: its session, its name, how it fails."""

    session: MpcSession
    identity: MemberIdentity
    timeout: float
    log: PartyLog
    alarm: Alarm = field(default_factory=Alarm)

    @cached_property
    def party(self) -> int:
        """The party's number in the session."""
        return self.session.party_index(self.identity.name)


def default_names(owners: int) -> tuple[str, ...]:
    """Return ``party-0 ..``, ``owner-1 ..`` and ``analyst``."""
    parties = (f"party-{i}" for i in range(PARTIES))
    return (*parties, *(f"owner-{i + 1}" for i in range(owners)), "analyst")


def make_certificates(
    folder: Path, names: Sequence[str], *, days: int = VALID_DAYS
) -> None:
    """Write ``ca.crt`` and, for every name, ``NAME.crt`` and ``NAME.key`` (0600).

    The authority's own key is used once and never written: nobody can add a member
    later, a new session of other members needs a new folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.crt")):
        raise InputError(f"{folder.name} holds certificates already; name a new folder")
    ca_key, ca = make_authority("discreet test authority", days)
    for name in names:
        key, certificate = make_server(
            ca_key, ca, [name], days, name=name, also_calls=True
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_secret(folder / f"{name}.key", private)
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "ca.crt").write_bytes(ca.public_bytes(Encoding.PEM))


class FrameTag(IntEnum):
    """What a frame is."""

    SHARES = 1  # Owner to party: a package
    ACCEPTED = 2  # Party to owner, analyst to party: received and kept
    COLLECT = 3  # Analyst to party: the session's digest; asks for the result
    RESULT = 4  # Party to analyst: a package and the statistics of the run
    HELLO = 5  # Party to party: the session's digest; opens the peers' channel
    NOISE = 6  # Party to party: a package with the sender's share of noise
    AGREE = 7  # Party to party: digests of session, executable and sharings
    DONE = 8  # Party to party: my share of the result is ready
    ALIVE = 9  # To a waiting peer: still here; the payload is the phase
    FAILED = 10  # To anybody: the session is over; the payload is the reason


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """One message on a stream."""

    tag: FrameTag
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

    async def send(self, tag: FrameTag, payload: bytes = b"") -> None:
        """Send one frame; a lost connection is a ``SessionFailedError``."""
        try:
            self._writer.write(_HEADER.pack(VERSION, tag, len(payload)))
            for start in range(0, len(payload), _CHUNK):
                self._writer.write(payload[start : start + _CHUNK])
                await self._writer.drain()
            await self._writer.drain()
        except OSError as err:
            raise SessionFailedError(lost(self.name, err)) from None

    async def receive(
        self, *allowed: FrameTag, limit: int, seconds: float | None = None
    ) -> StreamFrame:
        """Read one frame of an allowed kind and size, within so many seconds.

        A peer may always send FAILED, which is raised as a ``PeerFailedError``.
        """
        try:
            async with asyncio.timeout(seconds):
                header = await self._reader.readexactly(_HEADER.size)
                version, tag, size = _HEADER.unpack(header)
                self._check(version, tag, size, allowed, limit)
                payload = await self._reader.readexactly(size)
        except TimeoutError as err:
            silent = f"{self.name} was silent for {seconds:g} s" if seconds else None
            raise SessionFailedError(silent or lost(self.name, err)) from None
        except asyncio.IncompleteReadError as err:
            raise self._gone(partial=bool(err.partial)) from None
        except ConnectionError:
            raise self._gone(partial=False) from None
        except OSError as err:
            raise SessionFailedError(lost(self.name, err)) from None
        self._heard = True
        frame = StreamFrame(FrameTag(tag), payload)
        if frame.tag is FrameTag.FAILED:
            raise PeerFailedError(frame.sentence)
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
        self,
        version: int,
        tag: int,
        size: int,
        allowed: Collection[FrameTag],
        limit: int,
    ) -> None:
        if version != VERSION:
            raise SessionFailedError(
                f"{self.name} speaks format {version}, this process {VERSION}; "
                "run the same release of discreet everywhere"
            )
        if tag not in {*allowed, FrameTag.FAILED}:
            raise SessionFailedError(f"{self.name} sent a message out of turn")
        short = tag in {FrameTag.FAILED, FrameTag.ALIVE}
        bound = SENTENCE_BYTES if short else limit
        if size > bound:
            raise SessionFailedError(
                f"{self.name} announced {size} bytes where at most {bound} belong"
            )

    async def keep_alive(self, phase: Callable[[], str], *, every: float) -> None:
        """Tell the peer now and then what this process is at, until it is gone."""
        with contextlib.suppress(SessionFailedError):  # the reader hears why
            while True:
                await self.send(FrameTag.ALIVE, phase().encode())
                await asyncio.sleep(every)

    async def close(self, failure: DiscreetError | None = None) -> None:
        """Close; after a failure say why. A peer that does not answer is not waited for."""
        if failure is not None:
            await self.fail(str(failure))
        if self._writer.is_closing():
            return
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    async def fail(self, sentence: str) -> None:
        """Tell the peer why the session is over, if it still listens, and close."""
        with contextlib.suppress(SessionFailedError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.send(FrameTag.FAILED, sentence.encode()[:SENTENCE_BYTES])
        await self.close()


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


@contextlib.asynccontextmanager
async def connected(
    session: MpcSession, context: ssl.SSLContext, *, seconds: float
) -> AsyncIterator[list[Channel]]:
    """Connect to the three parties in their order, or to none; close them at the end."""
    channels: list[Channel] = []
    try:
        try:
            async with asyncio.timeout(seconds):
                while len(channels) < len(session.parties):
                    party = session.parties[len(channels)]
                    channels.append(await connect(party.name, party.intake, context))
        except TimeoutError:
            silent = session.parties[len(channels)].name
            raise SessionFailedError(
                f"{silent} did not answer within {seconds:g} s"
            ) from None
        yield channels
    finally:
        for channel in channels:
            await channel.close()


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
