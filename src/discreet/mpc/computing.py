"""The disposable process that runs the engine of one party, and who watches it.

A native engine may crash, hang in a system call or exit on its own; here that costs
one process and never the party. It uses three pipes: orders on standard input,
events as JSON lines on standard output, the engine's own log on standard error. It
ends when nobody hears its beats, so it cannot outlive the party; ``Watchdog`` is the
party's end, which kills the process in every case.

    -> {"session": ..., "party": 0, "name": ..., "folder": ..., "timeout": 60.0,
        "executable": null or a file that was compiled before}
    <- {"event": "alive"}                                    twice a second
    <- {"event": "compiled", "digest": hex, "seconds": s}
    -> {"packages": [bytes of each, owners first, then noise]}, then the packages
    <- {"event": "connected"}
    <- {"event": "result", "pairs": hex, "bytes_sent": ..., ...}
    <- {"event": "failed", "sentence": ...}                  instead of any of these

SPU's own link between the engines encrypts and refuses a peer without a certificate of
the authority, but it compares no name: any member of the authority that reaches the
port could pose as a party there. Names are compared on our own channel between the
parties (``peers``), which must agree on session, executable and sharings first.

**Kept executables.** Compiling takes seconds of every start and depends on the public
program alone. A kept executable is taken when the program, the engine's settings, this
package's code and the versions of compiler and engine are those that it was compiled
from, and its own digest holds. A folder or file that another account owns or may write
is passed over. Parties of different accounts compare the executable's digest anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import resource
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias

import numpy as np

from discreet.errors import DiscreetError
from discreet.failures import guard, record
from discreet.mpc.engine import read_traffic, runtime_config
from discreet.mpc.program import OUTPUT, SETTINGS, Program, kept_tables
from discreet.mpc.session import MpcSession
from discreet.mpc.shares import PARTIES, Package, Pairs
from discreet.mpc.transport import (
    EXIT_SESSION,
    MemberIdentity,
    PartyRun,
    SessionFailedError,
)
from discreet.optional import load
from discreet.secret_files import SecretFileError, write_secret

BEAT_SECONDS: Final = 0.5
MAX_LINE: Final = 2**20
"""The longest event: the shares of a few results in hexadecimal."""
MOST_KEPT: Final = 32
"""Executables that are kept, the last used ones; some hundred kilobytes each."""
_COMPILERS: Final = ("spu", "jax", "jaxlib")
_RETRY_MS: Final = 200
_STORAGE: Final = "aby3.AShr<FM64>"

EngineEvent: TypeAlias = dict[str, Any]
"""What the computing process reports; its fields depend on its kind."""


class Watchdog:
    """The computing process of one party, as a context that leaves nothing behind.

    When the process is silent for ``timeout`` seconds, or ends, the alarm rings; when
    the context is left, the process is killed.
    """

    def __init__(self, run: PartyRun, executable: Path | None = None) -> None:
        self._order = {
            "session": run.session.to_toml(),
            "party": run.party,
            "name": run.identity.name,
            "folder": str(run.identity.certificate.parent),
            "timeout": run.timeout,
            "executable": None if executable is None else str(executable.resolve()),
        }
        loop = asyncio.get_running_loop()
        self._events: dict[str, asyncio.Future[EngineEvent]] = {
            kind: loop.create_future() for kind in ("compiled", "connected", "result")
        }
        self._name = run.identity.name
        self._alarm = run.alarm
        self._timeout = run.timeout

    async def __aenter__(self) -> Self:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __aexit__
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "discreet.mpc.computing",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            limit=MAX_LINE,
        )
        await self._write(json.dumps(self._order).encode() + b"\n")
        self._listener = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self._log.close()

    async def expect(self, kind: str) -> EngineEvent:
        """Wait for an event."""
        return await self._events[kind]

    async def submit(self, packages: Sequence[bytes]) -> None:
        """Hand the shares over; the run starts."""
        sizes = json.dumps({"packages": [len(p) for p in packages]})
        await self._write(sizes.encode() + b"\n")
        for package in packages:
            await self._write(package)

    async def _write(self, content: bytes) -> None:
        stream = self._process.stdin
        if stream is None:
            raise SessionFailedError(f"the engine of {self._name} has no input")
        try:
            stream.write(content)
            await stream.drain()
        except OSError:
            raise SessionFailedError(await self._ended()) from None

    async def _listen(self) -> None:
        try:
            while not self._events["result"].done():
                await self._hear()
        except SessionFailedError as err:
            self._alarm.ring(err)

    async def _hear(self) -> None:
        stream = self._process.stdout
        if stream is None:
            raise SessionFailedError(f"the engine of {self._name} has no output")
        try:
            async with asyncio.timeout(self._timeout):
                line = await stream.readline()
        except TimeoutError:
            raise SessionFailedError(
                f"the engine of {self._name} was silent for {self._timeout:g} s"
            ) from None
        if not line:
            raise SessionFailedError(await self._ended())
        event = json.loads(line)
        if event["event"] == "failed":
            raise SessionFailedError(f"{self._name}: {event['sentence']}")
        if event["event"] in self._events:
            self._events[event["event"]].set_result(event)

    async def _ended(self) -> str:
        code = await self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the engine of {self._name} ended with {how}"


class EventStream:
    """Writes events; one line each, from any thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, event: str, **fields: object) -> None:
        """Write one event."""
        line = json.dumps({"event": event, **fields}).encode() + b"\n"
        with self._lock:
            self._stream.write(line)
            self._stream.flush()

    def beat(self) -> None:
        """Show twice a second that the process lives; end it when the party does."""
        try:
            while True:
                time.sleep(BEAT_SECONDS)
                self.send("alive")
        except OSError:
            os._exit(EXIT_SESSION)  # the party is gone: nobody hears the result


def compute(orders: IO[bytes], events: EventStream) -> None:
    """Compile, wait for the shares, run, report this party's share of the result."""
    order = json.loads(orders.readline())
    session = MpcSession.from_toml(order["session"])
    party, timeout = int(order["party"]), float(order["timeout"])
    identity = MemberIdentity.within(Path(order["folder"]), order["name"])
    program = session.program()
    started = time.monotonic()
    given = order["executable"]
    executable = (
        Path(given).read_bytes() if given else executable_of(program, own_folder())
    )
    events.send(
        "compiled",
        digest=program.digest(executable).hex(),
        seconds=time.monotonic() - started,
    )
    inputs = place(program, _packages(orders))
    started = time.monotonic()
    try:
        link = open_link(session, party, identity, timeout=timeout)
    except RuntimeError:
        raise SessionFailedError(
            "the engines did not connect: a link address is wrong or taken, or a "
            "certificate is not of this authority"
        ) from None
    events.send("connected", seconds=time.monotonic() - started)
    parsed = load("spu.libspu", "mpc").Executable()
    parsed.ParseFromString(executable)
    try:
        runtime = load("spu.api", "mpc").Runtime(link, runtime_config())
        _hand_over(runtime, program, inputs, party)
        started, busy = time.monotonic(), time.process_time()
        runtime.run(parsed)
        seconds, cpu_seconds = time.monotonic() - started, time.process_time() - busy
        pairs = pairs_of(runtime.get_var(OUTPUT))
    except RuntimeError:
        raise SessionFailedError(
            "the engines' link broke while computing: a party died or was silent "
            f"for {timeout:g} s"
        ) from None
    traffic = read_traffic(_log())[-1]
    events.send(
        "result",
        pairs=pairs.astype("<u8").tobytes().hex(),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        bytes_sent=traffic.bytes_sent,
        messages=traffic.messages,
        memory_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    link.stop_link()


def _packages(orders: IO[bytes]) -> list[Package]:
    line = orders.readline()
    if not line:
        os._exit(EXIT_SESSION)  # the party is gone; nobody waits for an event
    return [Package.decode(orders.read(n)) for n in json.loads(line)["packages"]]


def place(program: Program, packages: Sequence[Package]) -> Mapping[str, Pairs]:
    """Name the packages as the program's secret inputs, in their order."""
    placed: dict[str, Pairs] = {}
    secret = [each for each in program.inputs() if each.secret]
    for package, wanted in zip(packages, secret, strict=True):
        if (len(package.pairs),) != wanted.shape:
            raise SessionFailedError("a package does not fit the program")
        placed[wanted.name] = package.pairs
    return placed


def open_link(
    session: MpcSession, party: int, identity: MemberIdentity, *, timeout: float
) -> Any:
    """Connect the engine of one party with the two others."""
    native = load("spu.libspu", "mpc").link
    link = native.Desc()
    link.id = session.digest.hex()
    link.recv_timeout_ms = int(1000 * timeout)
    link.http_timeout_ms = int(1000 * timeout)
    link.connect_retry_interval_ms = _RETRY_MS
    link.connect_retry_times = max(1, int(1000 * timeout / _RETRY_MS))
    link.enable_ssl = True
    for options in (link.client_ssl_opts, link.server_ssl_opts):
        options.cert.certificate_path = str(identity.certificate)
        options.cert.private_key_path = str(identity.key)
        options.verify.verify_depth = 1
        options.verify.ca_file_path = str(identity.authority)
    for entry in session.parties:
        link.add_party(entry.name, str(entry.link))
    return native.create_brpc(link, party)


def _hand_over(
    runtime: Any, program: Program, inputs: Mapping[str, Pairs], party: int
) -> None:
    """Give the engine its inputs; no other copy of the tables outlives this."""
    public = load("spu.api", "mpc").Io(PARTIES, runtime_config())
    visible = load("spu.libspu", "mpc").Visibility.VIS_PUBLIC
    for name, values in program.public_inputs().items():
        runtime.set_var(name, public.make_shares(values, visible)[party])
    for name, pairs in inputs.items():
        runtime.set_var(name, native_share(pairs))
    kept_tables.cache_clear()


def native_share(pairs: Pairs) -> Any:
    """Wrap one party's pairs as the engine's arithmetic share of 64-bit integers."""
    native = load("spu.libspu", "mpc")
    meta = native.ValueMeta()
    meta.data_type = native.DataType.DT_I64
    meta.visibility = native.Visibility.VIS_SECRET
    meta.storage_type = _STORAGE
    meta.shape = [len(pairs)]
    chunk = native.ValueChunk()
    chunk.content = pairs.astype("<u8", copy=False).tobytes()
    chunk.total_bytes = len(chunk.content)
    chunk.chunk_offset = 0
    share = native.Share()
    share.meta = meta.SerializeToString()
    share.share_chunks = [chunk.SerializeToString()]
    return share


def pairs_of(share: Any) -> Pairs:
    """Take the pairs out of the engine's share; refuse any other kind of share."""
    native = load("spu.libspu", "mpc")
    meta = native.ValueMeta()
    meta.ParseFromString(share.meta)
    if meta.storage_type != _STORAGE:
        raise SessionFailedError("the engine returned a share of another kind")
    parts = []
    for raw in share.share_chunks:
        chunk = native.ValueChunk()
        chunk.ParseFromString(raw)
        parts.append(bytes(chunk.content))
    return np.frombuffer(b"".join(parts), dtype="<u8").reshape(-1, 2)


def _log() -> str:
    """Return the engine's log so far: standard error is a file."""
    size = os.fstat(2).st_size
    return os.pread(2, size, 0).decode("utf-8", errors="replace")


def own_folder() -> Path | None:
    """Return where this user's executables are kept; None if nowhere."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        base = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # an account without a home
        return None
    return base / "discreet" / "exact"


def executable_of(program: Program, folder: Path | None) -> bytes:
    """Return the executable that was kept, or compile it and keep it.

    Where the folder cannot be read or written the program is compiled, as without one.
    """
    if folder is None:
        return program.compile()
    path = folder / _name_of(program)
    size = hashlib.sha256().digest_size
    with contextlib.suppress(OSError):
        raw = path.read_bytes()
        digest, kept = raw[:size], raw[size:]
        if _own(folder) and _own(path) and hashlib.sha256(kept).digest() == digest:
            path.touch()
            return kept
    compiled = program.compile()
    with contextlib.suppress(OSError, SecretFileError):
        _keep(path, compiled)
    return compiled


def _own(path: Path) -> bool:
    """Whether this account alone may write it."""
    status = path.lstat()
    mine = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return mine and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _name_of(program: Program) -> str:
    """Name everything that decides the executable."""
    parts = [program.canonical(), SETTINGS.encode()]
    sources = sorted(Path(__file__).parent.glob("*.py"))
    parts += [path.read_bytes() for path in sources]
    parts += [metadata.version(name).encode() for name in _COMPILERS]
    hashed = hashlib.sha256(b"discreet kept program\0")
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()


def _keep(path: Path, executable: bytes) -> None:
    """Write the file whole or not at all, and delete those that were used longest ago."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_secret(path, hashlib.sha256(executable).digest() + executable, over=True)
    kept = sorted(path.parent.iterdir(), key=lambda p: p.stat().st_mtime)
    for old in kept[:-MOST_KEPT]:
        old.unlink(missing_ok=True)


def main() -> None:
    """Run the computing process; it exits at once, past the engine's teardown."""
    # The engine logs to standard output: keep a copy of it for the events and
    # send what the engine writes to standard error, where the party keeps it.
    guard()
    events = EventStream(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    threading.Thread(target=events.beat, daemon=True).start()
    try:
        compute(sys.stdin.buffer, events)
    except DiscreetError as err:
        events.send("failed", sentence=str(err))
        os._exit(EXIT_SESSION)
    except Exception as err:  # noqa: BLE001 - the process ends here in every case
        record(err, doing="the engine of exact areas")
        events.send("failed", sentence=f"the engine failed ({type(err).__name__})")
        os._exit(EXIT_SESSION)
    os._exit(0)


if __name__ == "__main__":
    main()
