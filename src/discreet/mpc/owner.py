"""A data owner: asks its policy and its account, shares its rows once, and leaves.

The order is that of every site: the session is read and checked, then the policy,
then whether this session was answered before, then the account is charged, and only
then are rows shared. Shares leave when all three parties answered under their own
names, once a session: the parties draw fresh noise in every run, so that a second
sending would buy a second noisy value for nothing. Until shares have left, trying
again costs nothing more.

Under noise the charge comes before the data are read: whether rows fit a session is
itself about the data. An exact value is charged with a digest of the rows, by which
the account refuses a second value of changed ones.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import BudgetError, InputError
from discreet.mpc.certificates import Identity
from discreet.mpc.encode import encode
from discreet.mpc.failure import SessionFailedError
from discreet.mpc.packages import SHARING_BYTES, Kind, Package, split
from discreet.mpc.session import Session
from discreet.mpc.transport import Channel, Tag, client_context, connect_all
from discreet.privacy.account import Account, Permit
from discreet.session.policy import Policy, PolicyError
from discreet.session.respond import use_of

SENT: Final = (
    "this owner's shares have left for this session already, and the parties may have "
    "opened a value; agree on a new session"
)


@dataclass(frozen=True)
class Owner:
    """One owner in one session: its rules, its account, how to read its rows."""

    session: Session
    name: str
    policy: Policy
    account: Account
    rows: Callable[[], Examples]

    def answer(self, *, entropy: Entropy) -> tuple[tuple[Package, ...], Permit]:
        """Check, charge, and share; return what may leave once, and the permit.

        Raises:
            PolicyError: the session is not allowed here.
            BudgetError: the population cannot pay, or this session was answered.
            InputError: the rows are not what the session says.
        """
        session, plan = self.session, self.session.plan()
        session.owner_index(self.name)
        self.policy.check(plan)
        if self.account.replay(session.digest, 0) is not None:
            raise BudgetError(SENT)
        this = plan.resolve(0, [])
        permit = self.account.reserve(
            use_of(
                plan,
                this,
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
        if self.session.plan().privacy.protects is None:
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
    session: Session, name: str, examples: Examples, *, entropy: Entropy
) -> tuple[Package, ...]:
    """Share an owner's examples: one package a party; ``InputError`` on bad data."""
    owner = session.owner_index(name)
    rows = session.owners[owner].rows
    encoded = encode(examples, padded_to=rows if session.hide_sizes else None)
    if encoded.rows != rows:
        raise InputError(
            f"{name} has {encoded.rows} examples, the session says {rows}; agree on a "
            "new session, or on one that hides sizes"
        )
    sharing = entropy(SHARING_BYTES)
    return tuple(
        Package(Kind.OWNER, session.digest, party, owner, sharing, pairs)
        for party, pairs in enumerate(split(encoded.words, entropy=entropy))
    )


def send_packages(
    session: Session,
    identity: Identity,
    packages: Sequence[bytes],
    *,
    timeout: float,
    report: Callable[[str], None],
    leaving: Callable[[], None] = lambda: None,
) -> None:
    """Send encoded packages to the three parties; all accept, or it fails.

    ``leaving`` is called when the parties are there and nothing was sent.
    """
    context = client_context(identity)

    async def send() -> None:
        channels = await connect_all(session, context, seconds=timeout)
        report(f"{identity.name}: connected to {len(channels)} parties")
        try:
            leaving()
            async with asyncio.timeout(timeout):
                for channel, package in zip(channels, packages, strict=True):
                    await channel.send(Tag.SHARES, package)
                for channel in channels:
                    await _accepted(channel)
        except TimeoutError:
            raise SessionFailedError(
                f"the parties did not accept the shares within {timeout:g} s"
            ) from None
        finally:
            for channel in channels:
                await channel.close()
        sent = sum(len(package) for package in packages)
        report(f"{identity.name}: three parties accepted {sent:,} bytes of shares")

    asyncio.run(send())


async def _accepted(channel: Channel) -> None:
    answer = await channel.receive({Tag.ACCEPTED}, limit=0)
    if answer.tag is Tag.FAILED:
        raise SessionFailedError(f"{channel.name} refused: {answer.sentence}")
