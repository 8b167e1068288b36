"""Whole sessions in one event loop: real TLS, real parties, no engine.

The engine that stands in returns the first values of the first owner, which every
party can cut out of its own shares: enough to see the whole conversation.
"""

import asyncio
import gc
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from discreet import Examples
from discreet.entropy import Seeded
from discreet.mpc import party as party_module
from discreet.mpc.clients import collect, make_packages, send_packages
from discreet.mpc.fleet import local_session
from discreet.mpc.party import Party
from discreet.mpc.shares import Package
from discreet.mpc.transport import (
    MemberIdentity,
    SessionFailedError,
    default_names,
    make_certificates,
)

SIZES = (7, 8)  # the first owner has as many words as are revealed


def owner_examples(size, seed):
    rng = np.random.default_rng(seed)
    return Examples(np.round(rng.random(size), 2), np.arange(size) % 2)


class CuttingEngine:
    """Stands in for the computing process; ``behave`` may make it fail."""

    digests = ("11" * 32,) * 3

    def __init__(self, run, executable):
        assert run.timeout > 0
        assert executable is None
        self._values = run.session.program().revealed
        self._party = run.party
        self._alarm = run.alarm

    @staticmethod
    def behave(party, alarm):
        """Work; a test that wants a failure rings the alarm here."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def submit(self, packages):
        self._pairs = Package.decode(packages[0]).pairs[: self._values]
        await asyncio.sleep(0.05)
        self.behave(self._party, self._alarm)

    async def expect(self, kind):
        if kind == "result":
            return {
                "pairs": self._pairs.astype("<u8").tobytes().hex(),
                **dict.fromkeys(("bytes_sent", "messages", "memory_bytes"), 1),
                "seconds": 0.5,
                "cpu_seconds": 0.25,
            }
        return {"digest": self.digests[self._party], "seconds": 0.1}


@dataclass
class Outcome:
    """What became of every member: None, or the sentence it ended with."""

    ends: dict[str, str | None] = field(default_factory=dict)
    revealed: list | None = None
    log: list[str] = field(default_factory=list)


class InProcess:
    """A session whose parties run in one loop, for a test to interfere with."""

    def __init__(self, folder: Path, monkeypatch, *, timeout=5.0, engine=CuttingEngine):
        monkeypatch.setattr(party_module, "Watchdog", engine)
        self.session = local_session(SIZES)
        self.folder = folder / "certificates"
        make_certificates(self.folder, default_names(len(SIZES) + 1))
        self.timeout = timeout
        self.outcome = Outcome()
        self.data = [owner_examples(n, seed) for seed, n in enumerate(SIZES)]
        self.parties = {}

    def identity(self, name, folder=None):
        return MemberIdentity.within(folder or self.folder, name)

    def packages(self, owner, session=None):
        return make_packages(
            session or self.session,
            f"owner-{owner + 1}",
            self.data[owner],
            entropy=Seeded(b"owner" + bytes((owner,))),
        )

    def send(self, owner, packages=None, *, identity=None):
        made = packages or [p.encode() for p in self.packages(owner)]
        send_packages(
            self.session,
            identity or self.identity(f"owner-{owner + 1}"),
            made,
            timeout=self.timeout,
            report=self.outcome.log.append,
        )

    def collect(self):
        self.outcome.revealed = collect(
            self.session,
            self.identity("analyst"),
            timeout=self.timeout,
            report=self.outcome.log.append,
        )

    async def serve(self, number, *, session=None, folder=None):
        identity = self.identity(f"party-{number}", folder)
        member = Party(
            session or self.session,
            identity,
            timeout=self.timeout,
            report=self.outcome.log.append,
        )
        self.parties[number] = member
        await member.run(identity.server_context(), identity.client_context(), None)

    async def attempt(self, name, work):
        try:
            await work
        except SessionFailedError as err:
            self.outcome.ends[name] = str(err)
        else:
            self.outcome.ends[name] = None

    def run(self, *members, parties=(0, 1, 2), **serve):
        """Run the parties beside some members: (name, function or coroutine)."""

        async def together():
            jobs = [
                self.attempt(f"party-{i}", self.serve(i, **serve.get(f"p{i}", {})))
                for i in parties
            ]
            for name, what in members:
                work = what if asyncio.iscoroutine(what) else asyncio.to_thread(what)
                jobs.append(self.attempt(name, work))
            async with asyncio.timeout(10 * self.timeout):
                await asyncio.gather(*jobs)

        asyncio.run(together())
        gc.collect()  # a connection cut in its handshake is dropped here, not later
        return self.outcome

    def run_with_second(self, packages):
        """Run a session in which the second owner sends these packages."""
        first, _, analyst = self.owners_and_analyst()
        return self.run(first, ("owner-2", lambda: self.send(1, packages)), analyst)

    def run_despite(self, intrusion):
        """Run a session after something that must not end it; everybody succeeds."""

        async def owners():
            await intrusion
            await asyncio.to_thread(self.send, 0)
            await asyncio.to_thread(self.send, 1)

        outcome = self.run(("owners", owners()), ("analyst", self.collect))
        assert set(outcome.ends.values()) == {None}
        return outcome

    def owners_and_analyst(self):
        return (
            ("owner-1", lambda: self.send(0)),
            ("owner-2", lambda: self.send(1)),
            ("analyst", self.collect),
        )
