"""Sessions over carriers that fail: the same messages, the same answers, one sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bench.unreliable import Faults, Unreliable
from discreet.errors import InputError
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.privacy_model import PrivacyModel
from discreet.session.coordinator import AbortedError
from discreet.session.messages import (
    Ending,
    EndNotice,
    Kind,
    Message,
)
from discreet.session.retrying import (
    AGAIN_SECONDS,
    END_SECONDS,
    LONGEST_PAUSE,
    SILENT_SECONDS,
    Lost,
    Retrying,
)
from discreet.session.state import Progress
from discreet.transport.in_process import InProcess
from unit.session.federations import (
    POLICY,
    Altering,
    Federation,
    Losing,
    fresh,
    own_answer,
    plan_for,
    two_rounds,
)

pytestmark = pytest.mark.long


@dataclass
class Scripted:
    """Answers from a list, one call of ``receive`` after the other."""

    script: list[list[Message | Lost]]
    sent: list[float] = field(default_factory=list)
    time: float = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        assert (node, message) == (1, ASKED)
        assert seconds > 0
        self.sent.append(self.time)

    def receive(self) -> Iterable[tuple[int, Message | Lost]]:
        return [(1, found) for found in (self.script.pop(0) if self.script else [])]

    def transport(self, seconds: float = 60.0) -> Retrying:
        return Retrying(self, seconds, self.now, self.sleep)


ASKED = Message(Kind.STEP, b"p" * 32, b"s" * 32, 0, 1, b"question")
ANSWER = ASKED.reply(Kind.STEP, site=1, body=b"answer")


def test_a_message_that_was_lost_is_sent_again_at_once() -> None:
    carrier = Scripted([[Lost(ASKED.digest())], *[[]] * 30, [ANSWER]])
    assert carrier.transport()({1: ASKED}) == {1: ANSWER}
    assert len(carrier.sent) == 2
    assert carrier.sent[1] - carrier.sent[0] <= AGAIN_SECONDS + 2 * LONGEST_PAUSE


def test_silence_is_asked_again_until_the_step_is_over_and_no_longer() -> None:
    carrier = Scripted([])
    assert carrier.transport(60.0)({1: ASKED}) == {}
    assert len(carrier.sent) == 60 / SILENT_SECONDS
    assert 60 <= carrier.time <= 61


def test_errors_are_asked_again_until_the_step_is_over() -> None:
    carrier = Scripted([[Lost(ASKED.digest())] for _ in range(1000)])
    assert carrier.transport(10.0)({1: ASKED}) == {}
    assert len(carrier.sent) >= 3
    assert carrier.time <= 11


def test_a_site_whose_program_fails_declines_and_is_not_waited_for() -> None:
    carrier = Scripted([[Lost(ASKED.digest(), for_good=True)]])
    (answer,) = carrier.transport()({1: ASKED}).values()
    assert answer.kind is Kind.DECLINED
    assert not carrier.time


def test_a_late_answer_of_another_step_is_not_taken_for_this_ones() -> None:
    other = replace(ASKED, body=b"earlier").reply(Kind.STEP, site=1, body=b"late")
    stale = Lost(replace(ASKED, body=b"earlier").digest())
    carrier = Scripted([[other, stale], [ANSWER, ANSWER]])
    assert carrier.transport()({1: ASKED}) == {1: ANSWER}
    assert len(carrier.sent) == 1


def test_the_last_message_is_not_waited_for_as_long_as_a_step() -> None:
    last = replace(ASKED, kind=Kind.END, body=EndNotice(Ending.REVEALED).encode())
    carrier = Scripted([])
    carrier.send = lambda *_, **__: None  # type: ignore[method-assign]
    carrier.transport(600.0)({1: last})
    assert carrier.time <= END_SECONDS + 1


def test_a_step_waits_a_positive_time() -> None:
    with pytest.raises(InputError, match="positive"):
        Scripted([]).transport(0.0)


@pytest.mark.parametrize("network", range(6))
@pytest.mark.parametrize(
    ("privacy", "signed_by"),
    [(SecureAggregation(), 3), (DistributedDP("1"), 0), (LocalDP("1", "laplace"), 0)],
    ids=["exact", "distributed", "local"],
)
def test_a_bad_network_changes_neither_the_sum_nor_the_charge(
    federation: Federation, privacy: PrivacyModel, signed_by: int, network: int
) -> None:
    plan = plan_for(privacy, survivors=3, signed_by=signed_by)
    answer = federation.transport().answer
    carrier = Unreliable(answer, np.random.default_rng(network), Faults(lost=0.3))
    transport = Retrying(carrier, 300.0, carrier.now, carrier.sleep)
    (release,) = federation.session(plan, transport).run()
    assert np.array_equal(release.total, sum(own_answer(plan, k) for k in (1, 2, 3)))
    assert not federation.reasons, "no site was given a reason to decline"
    cost = 0 if isinstance(privacy, SecureAggregation) else 1
    for place in (1, 2, 3):
        assert federation.spent(place) == cost


@dataclass
class Repeating(InProcess):
    """Asks every message twice, and keeps both answers."""

    pairs: list[tuple[Message, Message]] = field(default_factory=list)
    states_after: list[tuple[bytes, bytes]] = field(default_factory=list)

    def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        first = super().__call__(messages)
        before = dict(self.states)
        second = super().__call__(messages)
        self.pairs += [(first[node], second[node]) for node in messages]
        self.states_after += [(before[n], self.states[n]) for n in messages]
        return second


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_message_that_comes_again_gets_the_very_bytes_of_its_first_answer(
    tmp_path: Path, rounds: int
) -> None:
    """Another answer for the same state would use its masks twice."""
    federation = Federation(tmp_path, entropy=fresh())
    transport = federation.transport(Repeating)
    plan = two_rounds() if rounds == 2 else plan_for(DistributedDP("2"), survivors=3)
    federation.session(plan, transport).run()
    assert len(transport.pairs) == 3 * (4 * rounds + 1)
    for first, second in transport.pairs:
        assert first.encode() == second.encode()
        assert first.kind is not Kind.DECLINED
    assert all(before == after for before, after in transport.states_after)
    assert federation.spent() == 2


@dataclass
class Ended(Losing):
    """Notes how every site was told that it ended."""

    told: dict[int, Ending] = field(default_factory=dict)

    def answer(self, node: int, message: Message) -> Message:
        answer = super().answer(node, message)
        if message.kind is Kind.END:
            assert answer.kind is Kind.END
            self.told[node] = EndNotice.decode(message.body).ending
        return answer


def test_every_site_is_told_that_the_result_was_revealed(
    federation: Federation,
) -> None:
    transport = federation.transport(Ended)
    federation.session(plan_for(DistributedDP("1"), survivors=3), transport).run()
    assert transport.told == dict.fromkeys((1, 2, 3), Ending.REVEALED)
    for state in transport.states.values():
        progress = Progress.decode(state)
        assert progress.ending is Ending.REVEALED
        assert not progress.conversation, "a session that is over keeps no keys"


@pytest.mark.parametrize(
    ("sites", "silent", "told", "reason"),
    [
        (4, {2: 3}, (1, 3, 4), "nothing was revealed"),
        (2, {}, (1, 2), "nothing was asked"),
    ],
)
def test_every_site_is_told_that_too_few_came_or_were_left(
    tmp_path: Path, sites: int, silent: Mapping[int, int], told: tuple, reason: str
) -> None:
    federation = Federation(tmp_path, sites=sites, policy=replace(POLICY, sites=3))
    plan = plan_for(DistributedDP("1"), survivors=4)
    transport = federation.transport(Ended, silent=silent)
    with pytest.raises(AbortedError, match=reason):
        federation.session(plan, transport).run()
    assert transport.told == dict.fromkeys(told, Ending.TOO_FEW_SITES)


def test_a_late_message_does_not_resume_a_session_that_is_over(
    federation: Federation,
) -> None:
    heard: list[Message] = []

    def noted(node: int, message: Message) -> Message:
        heard.extend([message] if node == 1 else [])
        return message

    transport = federation.transport(Altering, message=noted)
    federation.session(plan_for(DistributedDP("1"), survivors=3), transport).run()
    over = transport.states[1]
    for message in tuple(heard):
        again = transport.answer(1, message)
        assert (again.kind is Kind.END) == (message.kind is Kind.END)
        assert transport.states[1] == over
    assert federation.spent() == Fraction(1)


def test_a_message_of_another_session_does_not_end_the_one_in_hand(
    federation: Federation,
) -> None:
    foreign = Message(Kind.STEP, b"p" * 32, b"x" * 32, 0, 1, b"foreign")
    last = replace(foreign, kind=Kind.END, body=EndNotice(Ending.FAILED).encode())

    class Disturbed(InProcess):
        def __call__(self, messages: Mapping[int, Message], /) -> Mapping[int, Message]:
            self.answer(1, foreign)
            self.answer(1, last)
            return super().__call__(messages)

    plan = plan_for(DistributedDP("1"), survivors=3)
    transport = federation.transport(Disturbed)
    (release,) = federation.session(plan, transport).run()
    assert release.contributors == 3


def test_a_refused_message_that_comes_again_is_one_refusal(tmp_path: Path) -> None:
    """A bad network must not use up the refusals that a policy allows in a day."""
    federation = Federation(tmp_path, policy=replace(POLICY, privacy=("local",)))
    transport = federation.transport(Repeating)
    with pytest.raises(AbortedError, match="3 declined"):
        federation.session(plan_for(DistributedDP("1"), survivors=3), transport).run()
    declined = [x for pair in transport.pairs for x in pair if x.kind is Kind.DECLINED]
    assert len(declined) == 6
    assert len(federation.reasons) == 3
    assert all(first.encode() == second.encode() for first, second in transport.pairs)
