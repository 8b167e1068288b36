"""What a site keeps between two messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from discreet.models.distributed import DistributedDP
from discreet.plan.file import dumps
from discreet.session.coordinator import AbortedError
from discreet.session.messages import MessageError
from discreet.session.state import InFolder, UsedStateError
from unit.session.federations import POLICY, Federation, plan_for

PLAN = plan_for(DistributedDP("1"), survivors=3)


def test_a_plan_that_the_policy_refuses_is_not_kept(tmp_path: Path) -> None:
    """Or whoever can send messages could fill the disk of a site."""
    refusing = Federation(tmp_path / "no", policy=replace(POLICY, privacy=("local",)))
    with pytest.raises(AbortedError):
        refusing.session(PLAN).run()
    assert [memory.plans for memory in refusing.onces.values()] == [{}, {}, {}]
    willing = Federation(tmp_path / "yes")
    willing.session(PLAN).run()
    assert [set(m.plans) for m in willing.onces.values()] == [{PLAN.digest()}] * 3


def test_a_folder_keeps_used_states_and_plans_for_another_process(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "steps"
    memory = InFolder(folder)
    memory.take(b"state")
    memory.keep(PLAN, dumps(PLAN))
    again = InFolder(folder)
    assert again.plan(PLAN.digest()) == PLAN
    with pytest.raises(UsedStateError):
        again.take(b"state")
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


def test_a_kept_plan_that_was_changed_is_not_known(tmp_path: Path) -> None:
    InFolder(tmp_path).keep(PLAN, dumps(PLAN))
    (path,) = tmp_path.glob("plan-*")
    path.write_text(dumps(plan_for(DistributedDP("2"), survivors=3)))
    with pytest.raises(MessageError, match="not known here"):
        InFolder(tmp_path).plan(PLAN.digest())
