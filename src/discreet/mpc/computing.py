"""The disposable process that runs the engine of one party.

A native engine may crash, hang in a system call or exit on its own; here that costs
one process and never the party. It speaks on three pipes: orders on standard input,
events as JSON lines on standard output, the engine's own log on standard error. It
ends when nobody hears its beats, so it cannot outlive the party.

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
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from discreet.errors import DiscreetError
from discreet.failures import guard, record
from discreet.mpc.certificates import Identity
from discreet.mpc.failure import EXIT_SESSION, SessionFailedError
from discreet.mpc.kept_programs import executable_of, own_folder
from discreet.mpc.packages import PARTIES, Package, Pairs
from discreet.mpc.program import Program, forget_tables
from discreet.mpc.session import Session
from discreet.mpc.spu_engine import read_traffic, runtime_config
from discreet.optional import load

_RETRY_MS: Final = 200


def open_link(
    session: Session, party: int, identity: Identity, *, timeout: float
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


BEAT_SECONDS: Final = 0.5
_STORAGE: Final = "aby3.AShr<FM64>"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """This party's share of the result, and how long it took."""

    pairs: Pairs = field(repr=False)
    seconds: float
    cpu_seconds: float


class Events:
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


def compute(orders: IO[bytes], events: Events) -> None:
    """Compile, wait for the shares, run, report this party's share of the result."""
    order = json.loads(orders.readline())
    session = Session.from_toml(order["session"])
    party, timeout = int(order["party"]), float(order["timeout"])
    identity = Identity.within(Path(order["folder"]), order["name"])
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
    packages = _packages(orders)
    inputs = place(program, packages)
    started = time.monotonic()
    try:
        link = open_link(session, party, identity, timeout=timeout)
    except RuntimeError:
        raise SessionFailedError(
            "the engines did not connect: a link address is wrong or taken, or a "
            "certificate is not of this authority"
        ) from None
    events.send("connected", seconds=time.monotonic() - started)
    try:
        run = _run(program, executable, inputs, link, party)
    except RuntimeError:
        raise SessionFailedError(
            "the engines' link broke while computing: a party died or was silent "
            f"for {timeout:g} s"
        ) from None
    traffic = read_traffic(_log())[-1]
    events.send(
        "result",
        pairs=run.pairs.astype("<u8").tobytes().hex(),
        seconds=run.seconds,
        cpu_seconds=run.cpu_seconds,
        bytes_sent=traffic.bytes_sent,
        messages=traffic.messages,
        memory_bytes=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    link.stop_link()


def place(program: Program, packages: Sequence[Package]) -> Mapping[str, Pairs]:
    """Name the packages as the program's secret inputs, in their order."""
    secret = [i for i in program.inputs() if i.source != "public"]
    placed: dict[str, Pairs] = {}
    for package, wanted in zip(packages, secret, strict=True):
        if len(package.pairs) != math.prod(wanted.shape):
            raise SessionFailedError("a package does not fit the program")
        placed[wanted.name] = package.pairs
    return placed


def _run(
    program: Program,
    executable: bytes,
    inputs: Mapping[str, Pairs],
    link: Any,
    party: int,
) -> Run:
    native, api = load("spu.libspu", "mpc"), load("spu.api", "mpc")
    runtime = api.Runtime(link, runtime_config())
    _hand_over(runtime, program, inputs, party)
    parsed = native.Executable()
    parsed.ParseFromString(executable)
    started, busy = time.monotonic(), time.process_time()
    runtime.run(parsed)
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - busy
    (name,) = program.output_names
    return Run(pairs_of(runtime.get_var(name)), seconds, cpu_seconds)


def _hand_over(
    runtime: Any, program: Program, inputs: Mapping[str, Pairs], party: int
) -> None:
    """Give the engine its inputs; no other copy of the tables outlives this."""
    native, api = load("spu.libspu", "mpc"), load("spu.api", "mpc")
    public = api.Io(PARTIES, runtime_config())
    visible = program.public_inputs()
    for wanted in program.inputs():
        if wanted.source == "public":
            copies = public.make_shares(
                visible[wanted.name], native.Visibility.VIS_PUBLIC
            )
            runtime.set_var(wanted.name, copies[party])
        else:
            runtime.set_var(
                wanted.name, native_share(inputs[wanted.name], wanted.shape)
            )
    forget_tables()


def native_share(pairs: Pairs, shape: tuple[int, ...]) -> Any:
    """Wrap one party's pairs as the engine's arithmetic share of 64-bit integers."""
    native = load("spu.libspu", "mpc")
    meta = native.ValueMeta()
    meta.data_type = native.DataType.DT_I64
    meta.visibility = native.Visibility.VIS_SECRET
    meta.storage_type = _STORAGE
    meta.shape = list(shape)
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


def _packages(orders: IO[bytes]) -> list[Package]:
    line = orders.readline()
    if not line:
        os._exit(EXIT_SESSION)  # the party is gone; nobody waits for an event
    return [Package.decode(orders.read(n)) for n in json.loads(line)["packages"]]


def _beat(events: Events) -> None:
    """Show twice a second that the process lives; end it when the party does."""

    def beat() -> None:
        try:
            while True:
                time.sleep(BEAT_SECONDS)
                events.send("alive")
        except OSError:
            os._exit(EXIT_SESSION)  # the party is gone: nobody hears the result

    threading.Thread(target=beat, daemon=True).start()


def _log() -> str:
    """Return the engine's log so far: standard error is a file."""
    size = os.fstat(2).st_size
    return os.pread(2, size, 0).decode("utf-8", errors="replace")


def main() -> None:
    """Run the computing process; it exits at once, past the engine's teardown."""
    # The engine logs to standard output: keep a copy of it for the events and
    # send what the engine writes to standard error, where the party keeps it.
    guard()
    events = Events(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    _beat(events)
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
