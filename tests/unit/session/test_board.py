"""Who is where: names and steps, and nothing that depends on data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.session.board import Board, EventLog
from discreet.session.messages import Message
from unit.session.federations import POLICY, Federation, Losing, plan_for

NAMES = {1: "north", 2: "south", 3: "east"}


def test_a_connection_is_told_once_with_its_name() -> None:
    said: list[str] = []
    board = Board(NAMES, said.append)
    board.connected([2], 200.0)
    board.connected([2], 199.0)
    board.connected([1, 2], 198.0)
    assert said == [
        "south is connected: 1 of 3 sites",
        "north is connected: 2 of 3 sites",
    ]
    assert board.heading == "waiting for east: 198 s left"
    assert board.status == {
        "north": "connected",
        "south": "connected",
        "east": "registered",
    }
    board.connected([1], 190.0)
    assert said[-1] == "south is gone: 1 of 3 sites"


def test_whoever_is_waited_for_is_named_with_the_time_left() -> None:
    drawn: list[str] = []
    board = Board(NAMES, show=lambda b: drawn.append(b.heading))
    board.waiting([1, 2, 3], 120.0)
    board.waiting([3], 60.4)
    assert drawn[-1] == "waiting for east: 60 s left"
    assert board.status["north"] == "has answered"
    assert board.status["east"] == "asked"


def test_a_whole_session_names_every_site_in_every_step(tmp_path: Path) -> None:
    said: list[str] = []
    log = tmp_path / "session.log"
    board = Board(NAMES, said.append, EventLog(log))
    session = Federation(tmp_path).session(
        plan_for(DistributedDP("1"), survivors=3, signed_by=3)
    )
    session.watch = board.finished
    session.run()
    assert len(said) == 5
    assert said[0] == "step 1 of 5, join: 3 of 3 sites"
    assert said[2] == "step 3 of 5, send masked counts: 3 of 3 sites"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [e["step"] for e in events] == [1, 2, 3, 4, 5]
    assert all(sorted(e["answered"]) == sorted(NAMES.values()) for e in events)
    assert log.stat().st_mode & 0o777 == 0o600


def test_who_declines_and_who_is_missing_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    plan = plan_for(LocalDP("1", "laplace"), survivors=2)
    federation = Federation(tmp_path, sites=4, plans={2: plan_for(LocalDP("2", "arc"))})
    board = Board({**NAMES, 4: "west"}, said.append)
    losing = federation.transport(Losing, silent={3: 1})
    session = federation.session(plan, losing)
    session.watch = board.finished
    session.run()
    (line,) = said
    assert line.startswith("step 1 of 1, send protected counts: 2 of 4 sites; ")
    assert line.endswith("declined: south; missing: east")
    assert board.status["east"] == "missing since step 1 of 1"


def test_without_a_path_nothing_is_written(tmp_path: Path) -> None:
    EventLog()("started", plan="x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("forged", [b"", b"\r\n\x1b[31m"])
def test_who_declines_may_say_whom_to_call_and_nothing_that_breaks_a_line(
    tmp_path: Path, forged: bytes
) -> None:
    policy = replace(POLICY, epsilon_total=Fraction(0), when_declining="call ext. 17")
    declining = Federation(tmp_path / "no", policy=policy).transport()
    federation = Federation(tmp_path / "yes")
    willing = federation.transport()

    def transport(messages: Mapping[int, Message], /) -> Mapping[int, Message]:
        no = declining({node: x for node, x in messages.items() if node == 3})
        said = {n: replace(x, body=forged + x.body) for n, x in no.items()}
        return {**willing({n: x for n, x in messages.items() if n < 3}), **said}

    said: list[str] = []
    log = tmp_path / "session.log"
    board = Board(NAMES, said.append, EventLog(log))
    session = federation.session(plan_for(DistributedDP("1"), survivors=2))
    session.transport = transport
    session.watch = board.finished
    session.run()
    shown = ("[31m" if forged else "") + "call ext. 17"
    assert said[0].endswith(f'declined: east ("{shown}")')
    assert board.status["east"] == "declined"
    first = json.loads(log.read_text().splitlines()[0])
    assert first["words"] == {"east": shown}
