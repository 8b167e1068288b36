"""The analyst: collects the three shares of the result and adds them up.

No party ever holds the value. The analyst sees three shares, of which each word
arrives twice; when the copies differ, or a party fails, nothing is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from discreet.errors import DiscreetError
from discreet.mpc.certificates import Identity
from discreet.mpc.engine import Opened
from discreet.mpc.failure import SessionFailedError
from discreet.mpc.intake import Result
from discreet.mpc.model import AREAS
from discreet.mpc.packages import (
    OVERHEAD,
    PAIR_BYTES,
    RESULT_OWNER,
    Kind,
    PackageError,
    combine,
)
from discreet.mpc.session import Session
from discreet.mpc.spu_engine import Traffic, rounds, total_bytes
from discreet.mpc.transport import Channel, Tag, client_context, connect_all

_COSTS_BYTES: Final = 4096


def collect(
    session: Session,
    identity: Identity,
    *,
    timeout: float,
    report: Callable[[str], None],
) -> list[Result]:
    """Wait for the parties' shares of the result, in the order of the parties.

    ``timeout`` bounds every silence, not the computation: parties that are alive
    say so all the time.
    """
    context = client_context(identity)

    async def ask_all() -> list[Result]:
        channels = await connect_all(session, context, seconds=timeout)
        try:
            results = await _all_or_first_failure(
                [
                    asyncio.create_task(_ask(session, channel, timeout, report))
                    for channel in channels
                ]
            )
            check(session, results)
            for channel in channels:
                await channel.send(Tag.ACCEPTED)
        except DiscreetError as err:
            for channel in channels:
                await channel.fail(str(err))
            raise
        finally:
            for channel in channels:
                await channel.close()
        return results

    return asyncio.run(ask_all())


def check(session: Session, results: Sequence[Result]) -> None:
    """Refuse shares of other sessions, parties, sizes or agreements."""
    program = session.program()
    for party, result in enumerate(results):
        result.package.require(
            kind=Kind.RESULT,
            session=session.digest,
            party=party,
            owner=RESULT_OWNER,
            values=program.opens,
        )
    if len({result.package.sharing for result in results}) != 1:
        raise PackageError("the result shares come from different agreements")


def opened(results: Sequence[Result]) -> Opened:
    """Add the shares up: the only place where the value exists."""
    traffic = [
        Traffic(int(r.statistics["bytes_sent"]), int(r.statistics["messages"]))
        for r in results
    ]
    return Opened(
        combine([result.package.pairs for result in results]),
        total_bytes(traffic),
        rounds(traffic),
        max(float(r.statistics["compute_seconds"]) for r in results),
    )


def costs(results: Sequence[Result]) -> dict[str, Any]:
    """Return what the run cost: sums of bytes, the slowest party's seconds."""

    def worst(what: str) -> float:
        return max(float(result.statistics[what]) for result in results)

    def total(what: str) -> int:
        return sum(int(result.statistics[what]) for result in results)

    return {
        "bytes_between_parties": total("bytes_sent"),
        "bytes_from_owners": total("share_bytes"),
        "messages": total("messages"),
        "compute_seconds": worst("compute_seconds"),
        "cpu_seconds": sum(float(r.statistics["cpu_seconds"]) for r in results),
        "compile_seconds": worst("compile_seconds"),
        "connect_seconds": worst("connect_seconds"),
        "ready_seconds": worst("ready_seconds"),
        "party_memory_bytes": worst("memory_bytes"),
    }


async def _ask(
    session: Session,
    channel: Channel,
    patience: float,
    report: Callable[[str], None],
) -> Result:
    await channel.send(Tag.COLLECT, session.digest)
    heard = ""
    while True:
        try:
            async with asyncio.timeout(patience):
                frame = await channel.receive(
                    {Tag.RESULT, Tag.ALIVE},
                    limit=_COSTS_BYTES + OVERHEAD + PAIR_BYTES * len(AREAS),
                )
        except TimeoutError:
            raise SessionFailedError(
                f"{channel.name} was silent for {patience:g} s"
            ) from None
        match frame.tag:
            case Tag.FAILED:
                raise SessionFailedError(frame.sentence)
            case Tag.RESULT:
                return Result.decode(frame.payload)
            case _ if frame.sentence != heard:
                heard = frame.sentence
                report(f"{channel.name}: {heard}")


async def _all_or_first_failure(tasks: Sequence[asyncio.Task[Result]]) -> list[Result]:
    """Wait for all, or stop all at the first failure."""
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
