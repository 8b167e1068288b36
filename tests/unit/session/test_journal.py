"""A coordinator that is killed at any instant goes on with the session it began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.entropy import SYSTEM
from discreet.errors import InputError
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release
from discreet.privacy.account import Permit
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import Coordinator, ReliableTransport
from discreet.session.journal import Journal, SavedSession, binding
from discreet.session.messages import Kind, Message
from unit.session.federations import (
    COORDINATOR,
    Dying,
    Federation,
    KilledError,
    fresh,
    plan_for,
    two_rounds,
)

pytestmark = pytest.mark.long


def saved_in(folder: Path, plan: Plan) -> SavedSession:
    bound = binding(plan.digest(), ["a", "b", "c"])
    return SavedSession(folder / "session.sealed", b"secret", bound)


def run(plan: Plan, transport: ReliableTransport, saved: SavedSession) -> list[Release]:
    raw = saved.load()
    if raw is None:
        journal = Journal((1, 2, 3), keep=saved.save)
    else:
        journal = Journal.of(raw, keep=saved.save)
    signer = COORDINATOR if plan.roster is not None else None
    session = Coordinator(
        plan, journal.nodes, journal.through(transport), journal.draw, signer
    )
    return session.run()


PLANS = {
    "signed": plan_for(DistributedDP("2"), survivors=3, signed_by=3),
    "two rounds": two_rounds(),
    "local": plan_for(LocalDP("2", "laplace"), survivors=3),
}
EXCHANGES = {"signed": 6, "two rounds": 9, "local": 2}


@pytest.mark.parametrize("sites_answer", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_a_coordinator_killed_in_any_step_goes_on_and_nobody_pays_twice(
    tmp_path: Path, name: str, sites_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = PLANS[name]
    recorded: dict[tuple[Path, bytes, int], bytes] = {}
    record = Ledger.record

    def noting(ledger: Ledger, permit: Permit, message: bytes) -> None:
        record(ledger, permit, message)
        recorded[ledger.path, permit.use.session, permit.use.round] = message

    monkeypatch.setattr(Ledger, "record", noting)
    for kill_in in range(1, EXCHANGES[name] + 1):
        folder = tmp_path / str(kill_in)
        federation = Federation(folder, entropy=fresh())
        transport = federation.transport(
            Dying, kill_in=kill_in, sites_answer=sites_answer
        )
        saved = saved_in(folder, plan)
        with pytest.raises(KilledError):
            run(plan, transport, saved)
        releases = run(plan, transport, saved)
        assert releases[-1].contributors == 3
        assert not federation.reasons
        total = sum(
            np.frombuffer(message, "<i8")
            for (path, _, number), message in recorded.items()
            if path.parent == folder and number == len(releases) - 1
        )
        assert np.array_equal(releases[-1].total, total)
        for place in (1, 2, 3):
            assert federation.spent(place) == 2
            assert not federation.ledger(place).held()


def test_a_session_that_is_over_is_read_again_without_any_site(tmp_path: Path) -> None:
    plan = PLANS["signed"]
    saved = saved_in(tmp_path, plan)
    first = run(plan, Federation(tmp_path / "f").transport(), saved)

    def nobody(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        raise AssertionError(messages)

    again = run(plan, nobody, saved)
    assert np.array_equal(first[0].total, again[0].total)
    raw = saved.load()
    assert raw is not None
    assert Journal.of(raw).over


def test_a_saved_session_is_sealed_and_its_owners_alone(tmp_path: Path) -> None:
    plan = PLANS["local"]
    saved = saved_in(tmp_path, plan)
    run(plan, Federation(tmp_path / "f").transport(), saved)
    assert saved.path.stat().st_mode & 0o077 == 0
    raw, content = saved.path.read_bytes(), saved.load()
    assert content is not None
    assert content[:16] not in raw
    assert plan.digest() not in raw
    others = [
        replace(saved, secret=b"other"),
        replace(saved, bound_to=binding(plan.digest(), ["a", "b"])),
        replace(saved, bound_to=binding(PLANS["signed"].digest(), ["a", "b", "c"])),
    ]
    for other in others:
        with pytest.raises(InputError, match="--fresh"):
            other.load()
    for changed in (raw[:-1], bytes([raw[0] ^ 1]) + raw[1:], b""):
        saved.path.write_bytes(changed)
        with pytest.raises(InputError, match="--fresh"):
            saved.load()
    saved.discard()
    assert saved.load() is None


def test_a_session_that_is_over_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    """A killed process may have written one that never got its name."""
    saved = saved_in(tmp_path, PLANS["local"])
    saved.save(b"a session")
    unfinished = saved.path.with_name(f".{saved.path.name}.abcd1234")
    unfinished.write_bytes(b"a part")
    saved.discard()
    assert not list(tmp_path.iterdir())


def test_the_nonces_are_saved_before_the_first_message_leaves(tmp_path: Path) -> None:
    """A session that sites have paid for must have a name that is known again."""
    plan = PLANS["local"]
    saved = saved_in(tmp_path, plan)
    seen: list[bytes | None] = []
    inner = Federation(tmp_path / "f").transport()

    def watching(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        seen.append(saved.load())
        return inner(messages)

    run(plan, watching, saved)
    assert seen[0] is not None
    assert len(Journal.of(seen[0]).drawn) == 1


def test_a_journal_of_other_messages_is_refused() -> None:
    asked = Message(Kind.STEP, b"p" * 32, b"s" * 32, 0, 1, b"new")
    old = replace(asked, body=b"old").reply(Kind.STEP, site=1)
    journal = Journal((1,), SYSTEM, heard=[{1: old}])
    transport = journal.through(lambda _: {})
    with pytest.raises(InputError, match="another release"):
        transport({1: asked})


def test_bytes_that_are_no_journal_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Journal.of(b"nothing")
