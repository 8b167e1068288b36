"""An attacker at the coordinator's port, while a healthy session waits there.

    python bench/hostile_requests.py                       # a few minutes of it
    python bench/hostile_requests.py --requests 30000      # the documented run

Two sites of a session are connected, a third is late. Meanwhile an attacker, who may have
recorded requests, and may hold the key of one site of the roster, sends mutated and
replayed requests, wrong signatures, other plans, messages that are none, bodies that never
end, and connections without a request. The port must refuse each by a status 4xx or by
closing the connection, in bounded memory, and the session must finish once the third site
comes. The process fails when it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.models.local import LocalDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan, recommend
from discreet.privacy.ledger import Ledger
from discreet.report.evaluation import Evaluation
from discreet.session.messages import Ending
from discreet.session.policy import Policy
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.coordinating import coordinate
from discreet.transport.https.client import HttpsSite
from discreet.transport.https.server import HttpsCoordinator
from discreet.transport.https.signing import CHECK, CLOCK_SECONDS, MESSAGES, Signer
from discreet.transport.joining import Ended, JoiningSite
from discreet.transport.keys import CA, CoordinatorKeys, SiteKeys, make_consortium

HEALTHY = ("east", "north", "south")
MALLORY = "mallory"
"""A site of the roster whose key the attacker holds."""
POLICY = Policy(
    population="people",
    privacy=("local",),
    coordinators=("*",),
    models=("*",),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    sessions_per_plan=1,
    sites=2,
)
AT_ONCE = 16
REPLY_SECONDS = 60.0
MOST_GROWTH = 150 * 10**6
"""Bytes that the coordinator may grow by, whatever comes: 1,000 connections take 60 MB."""
CLOSED, HELD = "closed", "held"
"""A connection was closed by the port; or it was young when the attack was over."""


@dataclass
class Attacker:
    """Sends requests, and counts what came back, by kind of request."""

    port: int
    plan: Plan
    folder: Path
    rng: np.random.Generator
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    recorded: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        authority = self.folder / "coordinator" / CA
        self.trusting = ssl.create_default_context(cafile=authority)
        self.mallory = self.signer(MALLORY)
        # Of an earlier process of a site that is connected by another one now.
        earlier = self.signer("north")
        bodies = [b"", b"an answer", bytes(300)]
        self.recorded = [
            self.request(earlier, body=bodies[i % 3], prefer="wait=0")
            for i in range(30)
        ]

    def signer(self, site: str, plan: str | None = None) -> Signer:
        """Return a new process of a site."""
        identity = SiteKeys(self.folder / site).identity()
        return Signer(identity, plan or self.plan.digest().hex())

    def request(
        self,
        signer: Signer,
        method: str = "POST",
        path: str = MESSAGES,
        body: bytes = b"",
        *,
        sent: bytes | None = None,
        created: float | None = None,
        **headers: str,
    ) -> bytes:
        """Return a signed request; ``headers`` replace its own, ``sent`` the body."""
        signed = {
            "host": "coordinator",
            "content-length": str(len(body)),
            **signer.headers(method, path, body, created=created),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in signed.items() if value]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()
        return head + (body if sent is None else sent)

    async def connect(
        self, *, tls: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        context = self.trusting if tls else None
        return await asyncio.open_connection(LOOPBACK, self.port, ssl=context)

    async def send(self, raw: bytes, *parts: bytes) -> str:
        """Send a request in parts; return the status of the reply, or "closed"."""
        try:
            reader, writer = await self.connect()
        except OSError:
            return CLOSED
        try:
            for part in (raw, *parts):
                writer.write(part)
                await asyncio.wait_for(writer.drain(), REPLY_SECONDS)
            head = await asyncio.wait_for(reader.read(64), REPLY_SECONDS)
            return head.split(b" ", 2)[1].decode() if head else CLOSED
        except TimeoutError:
            return "NO REPLY"
        except OSError:
            with suppress(OSError, IndexError, TimeoutError):  # it said why, and closed
                head = await asyncio.wait_for(reader.read(64), 1)
                return head.split(b" ", 2)[1].decode()
            return CLOSED
        finally:
            writer.transport.abort()

    def note(self, kind: str, status: str) -> None:
        """Count a reply."""
        self.counts.setdefault(kind, Counter())[status] += 1

    # Each returns the status of one request.

    async def mutated(self) -> str:
        """A recorded request with some bytes changed, inserted, left out or doubled."""
        raw = bytearray(self.recorded[self.rng.integers(len(self.recorded))])
        for _ in range(self.rng.integers(1, 9)):
            place, size = int(self.rng.integers(len(raw))), int(self.rng.integers(1, 9))
            match self.rng.integers(4):
                case 0:
                    raw[place] ^= int(self.rng.integers(1, 256))
                case 1:
                    raw[place:place] = self.rng.bytes(size)
                case 2:
                    del raw[place : place + size]
                case _:
                    raw[place:place] = raw[place : place + 10 * size]
            raw = raw or bytearray(b"x")
        # The end of a head, so that the port need not wait for one.
        return await self.send(bytes(raw) + b"\r\n\r\n")

    async def replayed(self) -> str:
        """A recorded request, as it was."""
        return await self.send(self.recorded[self.rng.integers(len(self.recorded))])

    async def twice(self) -> str:
        """A request of the attacker's own site once more: the second one counts."""
        again = self.request(self.mallory, prefer="wait=0")
        await self.send(again)
        return await self.send(again)

    async def wrong_signature(self) -> str:
        """The right key's name, and another key's signature."""
        stranger = Ed25519PrivateKey.generate()
        signer = Signer(stranger, self.plan.digest().hex())
        signer._name = self.mallory._name  # noqa: SLF001 - the lie
        return await self.send(self.request(signer, body=b"an answer"))

    async def stranger(self) -> str:
        """A request that nobody of the roster signed."""
        signer = Signer(Ed25519PrivateKey.generate(), self.plan.digest().hex())
        paths = (("POST", MESSAGES), ("GET", CHECK), ("GET", "/v1/plan"))
        method, path = paths[self.rng.integers(3)]
        return await self.send(self.request(signer, method, path))

    async def another_plan(self) -> str:
        """A request about a plan that is not run here."""
        signer = self.signer(MALLORY, self.rng.bytes(32).hex())
        return await self.send(self.request(signer))

    async def wrong_time(self) -> str:
        """A signature of some minutes ago, or hence."""
        late = float(self.rng.choice([-1, 1])) * (CLOCK_SECONDS + 60)
        raw = self.request(self.mallory, created=time.time() + late)
        return await self.send(raw)

    async def forged_body(self) -> str:
        """A body that its digest does not fit."""
        sent = self.rng.bytes(9)
        return await self.send(self.request(self.mallory, body=b"an answer", sent=sent))

    async def no_message(self) -> str:
        """Rightly signed by a site of the roster, and no message of the protocol."""
        body = self.rng.bytes(int(self.rng.integers(1, 5000)))
        return await self.send(self.request(self.mallory, body=body))

    async def odd_request(self) -> str:
        """Methods, paths, lengths and headers that no site sends."""
        odd = (
            {"method": "PUT"},
            {"path": MESSAGES + "/"},
            {"path": "/"},
            {"path": "/v1/../v1/messages"},
            {"content_length": "9" * 12},
            {"content_length": "-1"},
            {"content_length": ""},
            {"transfer_encoding": "gzip"},
            {"x": "y" * 100_000},
            {"signature_input": "discreet=(" + '"@method" ' * 3000 + ")"},
            {"signature": "a=:" + "A" * 8000 + ":"},
            {"x": "1\r\nx: 2"},
            {"expect": "100-continue", "signature": ""},
            {"upgrade": "websocket", "connection": "upgrade", "signature": ""},
        )
        chosen = odd[self.rng.integers(len(odd))]
        return await self.send(self.request(self.mallory, **chosen))  # type: ignore[arg-type]

    async def large_body(self) -> str:
        """A body of 100 MB: announced, announced as less, or in chunks."""
        announced: tuple[dict[str, str], ...] = (
            {"content_length": "100000000"},
            {"content_length": "100000000", "signature": ""},
            {"transfer_encoding": "chunked"},
            {"transfer_encoding": "chunked", "content_length": ""},
        )
        chosen = announced[self.rng.integers(len(announced))]
        chunk = b"f4240\r\n" + bytes(10**6) + b"\r\n"
        raw = self.request(self.mallory, **chosen)  # type: ignore[arg-type]
        return await self.send(raw, *[chunk] * 100)

    async def slow_body(self) -> str:
        """A body of which all but the first byte is missing."""
        raw = self.request(self.mallory, body=bytes(100), sent=b"0")
        return await self.send(raw)


async def attack(attacker: Attacker, requests: int, idle: int, slow: int) -> None:
    """Send everything; connections without a request stay open meanwhile."""
    kinds: dict[str, tuple[float, Callable[[], Awaitable[str]]]] = {
        "mutated": (0.5, attacker.mutated),
        "replayed": (0.1, attacker.replayed),
        "sent twice": (0.05, attacker.twice),
        "wrong signature": (0.05, attacker.wrong_signature),
        "stranger": (0.05, attacker.stranger),
        "another plan": (0.05, attacker.another_plan),
        "wrong time": (0.05, attacker.wrong_time),
        "forged body": (0.05, attacker.forged_body),
        "no message": (0.05, attacker.no_message),
        "odd request": (0.047, attacker.odd_request),
        "100 MB body": (0.003, attacker.large_body),
    }
    names = [
        name
        for name, (share, _) in kinds.items()
        for _ in range(max(1, round(share * requests)))
    ]
    attacker.rng.shuffle(names)
    left = iter(names)

    async def worker() -> None:
        for name in left:
            attacker.note(name, await kinds[name][1]())

    over = asyncio.Event()

    async def hold(number: int) -> None:
        began, status = time.monotonic(), CLOSED
        with suppress(OSError):
            reader, writer = await attacker.connect(tls=number % 2 == 0)
            if number % 4 == 0:
                writer.write(b"POST /v1/messages HTTP/1.1\r\n")
            reading = asyncio.create_task(reader.read())
            waited = [reading, asyncio.create_task(over.wait())]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():  # within the time that a head may take
                status = HELD if time.monotonic() - began < 20 else "KEPT"
            writer.transport.abort()
            await asyncio.wait(waited)
        attacker.note("idle connection", status)

    async def slowly() -> None:
        attacker.note("slow body", await attacker.slow_body())

    async with asyncio.TaskGroup() as group:
        for number in range(idle):
            group.create_task(hold(number))
        sending = [group.create_task(slowly()) for _ in range(slow)]
        sending += [group.create_task(worker()) for _ in range(AT_ONCE)]
        await asyncio.wait(sending)
        over.set()


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return 1024 * int(line.split()[1])
    return 0


@contextmanager
def watching(pid: int) -> Iterator[list[int]]:
    """Note a process's memory until the end; the list holds its highest."""
    highest, over = [resident(pid)], threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            highest[0] = max(highest[0], resident(pid))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield highest
    finally:
        over.set()
        thread.join()


def examples(site: str) -> Examples:
    rng = np.random.default_rng(HEALTHY.index(site))
    labels = rng.random(400) < 0.3
    return Examples(np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1), labels)


def prepare(folder: Path) -> Plan:
    """Make keys, ledgers and a plan of which three of four sites are enough."""
    roster = make_consortium(folder, [*HEALTHY, MALLORY], hosts=[LOOPBACK])
    facts, model = PublicFacts(1600, 0.3), LocalDP("1", "laplace")
    plan = recommend(facts, model, edges=Warped(16), cohort=Cohort(3, colluders=0))
    plan = replace(plan, roster=roster)
    (folder / "plan.toml").write_text(dumps(plan))
    for site in HEALTHY:
        Ledger.new(folder / site / "ledger.sqlite").close()
    return plan


def be_the_coordinator(folder: Path, port: int) -> None:
    keys = CoordinatorKeys(folder / "coordinator")
    result = coordinate(
        loads((folder / "plan.toml").read_text()),
        keys,
        HttpsCoordinator(),
        host=LOOPBACK,
        port=port,
        wait_seconds=7200,
        step_seconds=3,
    )
    if not isinstance(result, Evaluation):
        raise TypeError("the plan asks for one evaluation")
    release = result.source.releases[-1]
    print(json.dumps({"sites": release.contributors, "of": release.expected}))


def join(folder: Path, site: str, port: int, ended: dict[str, Ended]) -> None:
    ledger = folder / site / "ledger.sqlite"
    plan = loads((folder / "plan.toml").read_text())
    keys = SiteKeys(folder / site)
    joining = JoiningSite(plan, examples(site), POLICY, ledger, keys)
    ended[site] = joining.join(HttpsSite(), f"{LOOPBACK}:{port}", wait_seconds=7200)


def be_a_site(folder: Path, site: str, port: int) -> None:
    ended: dict[str, Ended] = {}
    join(folder, site, port, ended)
    fine = ended[site] == Ended(Ending.REVEALED, declined=False, charged=True)
    sys.exit(0 if fine else 1)


def started(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, str(Path(__file__).resolve()), *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_PROXY": LOOPBACK},
    )


async def linger(attacker: Attacker, coordinator: subprocess.Popen[str]) -> None:
    """Stay connected as the attacker's site, answer nothing, until the session is over."""
    while coordinator.poll() is None:
        await attacker.send(attacker.request(attacker.mallory, prefer="wait=0"))
        await asyncio.sleep(0.5)


def run(requests: int, idle: int, slow: int, seed: int) -> bool:
    """Attack; print a table; return whether everything went as it must."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        plan = prepare(folder)
        processes = [started("--be", "coordinator", folder, port)]
        try:
            return _attacked(
                processes, folder, port, plan, (requests, idle, slow, seed)
            )
        finally:
            for process in processes:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def _attacked(
    processes: list[subprocess.Popen[str]],
    folder: Path,
    port: int,
    plan: Plan,
    sizes: tuple[int, int, int, int],
) -> bool:
    requests, idle, slow, seed = sizes
    (coordinator,) = processes
    attacker = Attacker(port, plan, folder, np.random.default_rng(seed))
    while asyncio.run(attacker.send(attacker.recorded[0])) == CLOSED:
        time.sleep(0.1)  # and a first process of north was there
    attacker.recorded += [
        attacker.request(attacker.signer("north"), prefer="wait=0") for _ in range(2)
    ]
    for raw in attacker.recorded[1:]:
        asyncio.run(attacker.send(raw))
    processes += [started("--be", site, folder, port) for site in HEALTHY[:2]]
    while not _superseded(attacker):
        time.sleep(0.1)
    before, began = resident(coordinator.pid), time.monotonic()
    with watching(coordinator.pid) as highest:
        asyncio.run(attack(attacker, requests, idle, slow))
        took, after = time.monotonic() - began, resident(coordinator.pid)
    processes.append(started("--be", HEALTHY[2], folder, port))
    asyncio.run(linger(attacker, coordinator))
    said = coordinator.communicate()[0]
    healthy = [process.wait(60) for process in processes[1:]]
    _show(attacker.counts)
    print(f"\n{sum(c.total() for c in attacker.counts.values()):,} in {took:.0f} s")
    megabytes = [f"{bytes_ / 1e6:.0f}" for bytes_ in (before, highest[0], after)]
    print(f"resident MB before, at most, after: {', '.join(megabytes)}")
    print(f"the healthy session: {said.strip()}, exit codes of its sites {healthy}")
    clean = all(
        status in {CLOSED, HELD} or status.startswith("4")
        for counts in attacker.counts.values()
        for status in counts
    )
    bounded = highest[0] - before < MOST_GROWTH
    finished = json.loads(said or "{}").get("sites") == 3 and not any(healthy)
    print(f"clean refusals: {clean}, memory bounded: {bounded}, finished: {finished}")
    return clean and bounded and finished


def _superseded(attacker: Attacker) -> bool:
    """Whether the healthy process of north has connected."""
    return asyncio.run(attacker.send(attacker.recorded[-1])) == "409"


def _show(counts: dict[str, Counter[str]]) -> None:
    statuses = sorted({status for each in counts.values() for status in each})
    print(f"{'':16}" + "".join(f"{status:>9}" for status in (*statuses, "in all")))
    for kind, each in sorted(counts.items()):
        cells = [each[status] or "" for status in statuses]
        print(f"{kind:16}" + "".join(f"{cell:>9}" for cell in (*cells, each.total())))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--idle", type=int, default=1000, help="connections")
    parser.add_argument("--slow", type=int, default=50, help="bodies that never end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--be", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.be is not None:
        role, folder, port = chosen.be
        if role == "coordinator":
            be_the_coordinator(Path(folder), int(port))
        else:
            be_a_site(Path(folder), role, int(port))
        return 0
    return 0 if run(chosen.requests, chosen.idle, chosen.slow, chosen.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
