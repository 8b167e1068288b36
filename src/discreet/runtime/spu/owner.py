"""A data owner: validates its rows, shares them, sends three packages and leaves.

Everything that can be wrong with the data is found before a connection is made;
shares leave only when all three parties answered under their own names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from discreet.data.examples import Examples
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.exact.encode import encode
from discreet.runtime.spu.certificates import Identity
from discreet.runtime.spu.failure import SessionFailedError
from discreet.runtime.spu.packages import SHARING_BYTES, Kind, Package, split
from discreet.runtime.spu.session import Session
from discreet.runtime.spu.transport import Channel, Tag, client_context, connect_all


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
    values = np.concatenate([encoded.keys, encoded.labels])
    sharing = entropy(SHARING_BYTES)
    return tuple(
        Package(Kind.OWNER, session.digest, party, owner, sharing, pairs)
        for party, pairs in enumerate(split(values, entropy=entropy))
    )


def send_packages(
    session: Session,
    identity: Identity,
    packages: Sequence[bytes],
    *,
    timeout: float,
    report: Callable[[str], None],
) -> None:
    """Send encoded packages to the three parties; all accept, or it fails."""
    context = client_context(identity)

    async def send() -> None:
        channels = await connect_all(session, context, seconds=timeout)
        report(f"{identity.name}: connected to {len(channels)} parties")
        try:
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
