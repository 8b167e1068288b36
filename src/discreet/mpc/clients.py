"""Who calls the compute parties: data owners share rows, the analyst collects.

**An owner** asks its policy and its account, shares its rows once, and leaves. The
order is that of every site: the session is read and checked, then the policy, then
whether this session was answered before, then the account is charged, and only then
are rows shared. Shares leave when all three parties answered under their own names,
once a session: the parties draw fresh noise in every run, so that a second sending
would buy a second noisy value for nothing. Until shares have left, a retry costs
nothing more.

Under noise the charge comes before the data are read: whether rows fit a session is
itself about the data. An exact value is charged with a digest of the rows, by which
the account refuses a second value of changed ones.

**The analyst** collects the three shares of the result and adds them up. No party ever
holds the value. Each word of the result arrives twice; when the copies differ, or a
party fails, nothing is revealed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import BudgetError, DiscreetError, InputError
from discreet.mpc.engine import RevealedAreas, Traffic
from discreet.mpc.party import COSTS_BYTES, ResultShare
from discreet.mpc.session import MpcSession
from discreet.mpc.shares import (
    OVERHEAD,
    PAIR_BYTES,
    RESULT_OWNER,
    Package,
    PackageError,
    PackageKind,
    combine,
    encode,
)
from discreet.mpc.transport import (
    Channel,
    FrameTag,
    MemberIdentity,
    PeerFailedError,
    SessionFailedError,
    connected,
)
from discreet.privacy.account import Account, Permit
from discreet.session.policy import Policy, PolicyError
from discreet.session.respond import use_of

SENT: Final = (
    "this owner's shares have left for this session already, and the parties may have "
    "revealed a value; agree on a new session"
)


@dataclass(frozen=True)
class Owner:
    """One owner in one session: its rules, its account, how to read its rows."""

    session: MpcSession
    name: str
    policy: Policy
    account: Account
    rows: Callable[[], Examples]

    def answer(self, *, entropy: Entropy) -> tuple[tuple[Package, ...], Permit]:
        """Check, charge, and share; return what may leave once, and the permit.

        Raises:
            PolicyError: the session is not allowed here.
            BudgetError: the population's budget is spent, or this session was answered.
            InputError: the rows are not what the session says.
        """
        session, plan = self.session, self.session.plan
        session.owner_index(self.name)
        self.policy.check(plan)
        if self.account.replay(session.digest, 0) is not None:
            raise BudgetError(SENT)
        permit = self.account.reserve(
            use_of(
                plan,
                plan.resolve(0, []),
                session=session.digest,
                population=self.policy.population,
                sites=[owner.name for owner in session.owners],
            )
        )
        made = make_packages(session, self.name, self._examples(), entropy=entropy)
        return made, permit

    def leaving(self, permit: Permit, packages: Sequence[Package]) -> None:
        """Note that shares leave, before the first byte does.

        Of exact values it is noted which rows they are about: two that differ by a
        few rows would give these away.
        """
        if self.account.replay(self.session.digest, 0) is not None:
            raise BudgetError(SENT)
        about = packages[0].sharing
        if self.session.plan.privacy.protects is None:
            encoded = encode(self._examples())
            about = hashlib.sha256(encoded.words.tobytes()).digest()
        self.account.record(permit, about)

    def _examples(self) -> Examples:
        examples = self.rows()
        if len(examples) < self.policy.examples:
            raise PolicyError(
                f"this site has fewer than the {self.policy.examples} examples that "
                "its policy asks for"
            )
        return examples


def make_packages(
    session: MpcSession, name: str, examples: Examples, *, entropy: Entropy
) -> tuple[Package, ...]:
    """Share an owner's examples: one package per party; ``InputError`` on bad data."""
    owner = session.owner_index(name)
    rows = session.owners[owner].rows
    hidden = session.program().model.hide_sizes
    encoded = encode(examples, padded_to=rows if hidden else None)
    if encoded.rows != rows:
        raise InputError(
            f"{name} has {encoded.rows} examples, the session says {rows}; agree on a "
            "new session, or on one that hides sizes"
        )
    return Package.for_parties(
        PackageKind.DATA, session.digest, owner, encoded.words, entropy=entropy
    )


def send_packages(
    session: MpcSession,
    identity: MemberIdentity,
    packages: Sequence[bytes],
    *,
    timeout: float,
    report: Callable[[str], None],
    leaving: Callable[[], None] = lambda: None,
) -> None:
    """Send encoded packages to the three parties; all accept, or it fails.

    ``leaving`` is called when the parties are there and nothing was sent.
    """
    context = identity.client_context()

    async def send() -> None:
        async with connected(session, context, seconds=timeout) as channels:
            report(f"{identity.name}: connected to {len(channels)} parties")
            leaving()
            try:
                async with asyncio.timeout(timeout):
                    for channel, package in zip(channels, packages, strict=True):
                        await channel.send(FrameTag.SHARES, package)
                    for channel in channels:
                        await _accepted(channel)
            except TimeoutError:
                raise SessionFailedError(
                    f"the parties did not accept the shares within {timeout:g} s"
                ) from None
        sent = sum(len(package) for package in packages)
        report(f"{identity.name}: three parties accepted {sent:,} bytes of shares")

    asyncio.run(send())


async def _accepted(channel: Channel) -> None:
    try:
        await channel.receive(FrameTag.ACCEPTED, limit=0)
    except PeerFailedError as err:
        raise SessionFailedError(f"{channel.name} refused: {err}") from None


def collect(
    session: MpcSession,
    identity: MemberIdentity,
    *,
    timeout: float,
    report: Callable[[str], None],
) -> list[ResultShare]:
    """Wait for the parties' shares of the result, in the order of the parties.

    ``timeout`` bounds every silence, not the computation: parties that are alive
    say so all the time.
    """
    context = identity.client_context()

    async def ask_all() -> list[ResultShare]:
        failure: DiscreetError | None = None
        async with connected(session, context, seconds=timeout) as channels:
            asking = (_ask(session, channel, timeout, report) for channel in channels)
            tasks = [asyncio.create_task(work) for work in asking]
            try:
                results = await asyncio.gather(*tasks)
                check(session, results)
                for channel in channels:
                    await channel.send(FrameTag.ACCEPTED)
            except DiscreetError as err:
                failure = err
                raise
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for channel in channels:
                    await channel.close(failure)
        return results

    return asyncio.run(ask_all())


async def _ask(
    session: MpcSession,
    channel: Channel,
    timeout: float,  # noqa: ASYNC109 - of each silence
    report: Callable[[str], None],
) -> ResultShare:
    await channel.send(FrameTag.COLLECT, session.digest)
    limit = COSTS_BYTES + OVERHEAD + PAIR_BYTES * session.program().revealed
    heard = ""
    while True:
        frame = await channel.receive(
            FrameTag.RESULT, FrameTag.ALIVE, limit=limit, seconds=timeout
        )
        if frame.tag is FrameTag.RESULT:
            return ResultShare.decode(frame.payload)
        if frame.sentence != heard:
            heard = frame.sentence
            report(f"{channel.name}: {heard}")


def check(session: MpcSession, results: Sequence[ResultShare]) -> None:
    """Refuse shares of other sessions, parties, sizes or agreements."""
    for party, result in enumerate(results):
        result.package.require(
            kind=PackageKind.RESULT,
            session=session.digest,
            party=party,
            owner=RESULT_OWNER,
            values=session.program().revealed,
        )
    if len({result.package.sharing for result in results}) != 1:
        raise PackageError("the result shares come from different agreements")


def revealed_areas(results: Sequence[ResultShare]) -> RevealedAreas:
    """Add the shares up: the only place where the value exists."""
    traffic = [
        Traffic(int(r.costs["bytes_sent"]), int(r.costs["messages"])) for r in results
    ]
    return RevealedAreas.of(
        combine([result.package.pairs for result in results]),
        traffic,
        max(float(r.costs["compute_seconds"]) for r in results),
    )


def costs(results: Sequence[ResultShare]) -> dict[str, Any]:
    """Return what the run cost: sums of bytes, the slowest party's seconds."""

    def worst(what: str) -> float:
        return max(float(result.costs[what]) for result in results)

    def total(what: str) -> int:
        return sum(int(result.costs[what]) for result in results)

    return {
        "bytes_between_parties": total("bytes_sent"),
        "bytes_from_owners": total("share_bytes"),
        "messages": total("messages"),
        "compute_seconds": worst("compute_seconds"),
        "cpu_seconds": sum(float(r.costs["cpu_seconds"]) for r in results),
        "compile_seconds": worst("compile_seconds"),
        "connect_seconds": worst("connect_seconds"),
        "ready_seconds": worst("ready_seconds"),
        "party_memory_bytes": worst("memory_bytes"),
    }
