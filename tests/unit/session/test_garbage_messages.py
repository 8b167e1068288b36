"""What a coordinator that sends garbage costs a site: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from discreet.entropy import Seeded
from discreet.errors import DiscreetError
from discreet.models.distributed import DistributedDP
from discreet.plan import file as planfile
from discreet.plan.plan import Plan
from discreet.session import messages
from discreet.session.coordinator import AbortedError, Coordinator
from discreet.session.messages import (
    Invitation,
    Kind,
    Message,
    session_of,
)
from discreet.transport.in_process import InProcess
from unit.session.federations import COORDINATOR, POLICY, Federation, plan_for

pytestmark = pytest.mark.long

PATIENT = replace(POLICY, sessions_per_plan=9)
STEPS = {"advertise": 1, "share": 2, "mask": 3, "confirm": 4, "reveal": 5}
GARBAGE = {
    "nothing": lambda _: b"",
    "noise": lambda body: Seeded(b"garbage")(max(len(body), 64)),
    "cut short": lambda body: body[:-1],
    "one bit": lambda body: body[:-1] + bytes([body[-1] ^ 1]),
}


@dataclass
class Garbling(InProcess):
    """An exchange that spoils the letter to site 1 at one turn."""

    at: int = 0
    how: str = "noise"
    turn: int = 0

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        self.turn += 1
        if self.turn == self.at and 1 in messages:
            spoilt = replace(messages[1], body=GARBAGE[self.how](messages[1].body))
            messages = {**messages, 1: spoilt}
        return super().__call__(messages)


def garbled(federation: Federation, plan: Plan, *, at: int, how: str, run: int) -> None:
    """Run a session in which site 1 gets garbage; it has two survivors or none."""
    exchange = Garbling(federation.exchange().sites, lambda *_: None, at=at, how=how)
    entropy = Seeded(b"run" + bytes([run]))
    with suppress(AbortedError, DiscreetError):
        Coordinator(plan, range(1, 4), exchange, entropy, COORDINATOR).run()
    assert exchange.turn >= at, "the session never came to the step that is spoilt"


@pytest.mark.parametrize("how", GARBAGE)
@pytest.mark.parametrize("step", ["advertise", "share", "mask"])
def test_three_garbage_letters_at_a_step_cost_the_site_nothing(
    tmp_path: Path, step: str, how: str
) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    federation = Federation(tmp_path, policy=PATIENT)
    for run in range(3):
        garbled(federation, plan, at=STEPS[step], how=how, run=run)
    assert federation.ledger(1).spent("people").epsilon == 0


@pytest.mark.parametrize("step", ["confirm", "reveal"])
def test_garbage_after_the_vector_was_sent_costs_no_more_than_the_vector(
    tmp_path: Path, step: str
) -> None:
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    federation = Federation(tmp_path, policy=PATIENT)
    for run in range(3):
        garbled(federation, plan, at=STEPS[step], how="noise", run=run)
    assert federation.ledger(1).spent("people").epsilon == 3


def _invited(plan: Plan, text: bytes) -> Message:
    """An invitation that names a plan and carries some other text in its place."""
    nonce = bytes(32)
    invitation = Invitation(text.decode(), nonce, b"")
    message = Message(Kind.INVITE, plan.digest(), session_of(plan, nonce), 0, 1)
    return replace(message, body=invitation.encode())


def test_a_site_that_agreed_to_a_plan_parses_no_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Digest and signature come first: a hostile text is never looked at."""
    plan = plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    parsed: list[str] = []

    def noting(text: str) -> Plan:
        parsed.append(text)
        return planfile.loads(text)

    monkeypatch.setattr(messages, "loads", noting)
    federation = Federation(tmp_path, plans={1: plan})
    hostile = _invited(plan, b"a = " + b"[" * 100_000)
    other = replace(hostile, plan_digest=bytes(32))
    for message, reason in ((hostile, "not signed"), (other, "another plan")):
        with pytest.raises(DiscreetError, match=reason):
            federation.site(1).receive(b"", message)
    assert parsed == []
    with pytest.raises(DiscreetError, match="no valid plan"):
        federation.site(2).receive(b"", hostile)  # it agreed to none, and must read
    assert len(parsed) == 1
