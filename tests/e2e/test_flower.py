"""A SuperLink and SuperNodes as their manual starts them: TLS, registered keys."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.privacy.ledger import Ledger
from e2e.tutorials import REPOSITORY, commands, execute

pytestmark = pytest.mark.flower

APP = Path(__file__).with_name("flower_app")
WEST = f"""\
mkdir west
ssh-keygen -q -t ecdsa -b 384 -N "" -f west/node
flwr supernode register west/node.pub trial
flower-supernode --superlink 127.0.0.1:9443 --port 9104 --root-certificates server.pem \
--auth-supernode-private-key west/node --node-config "partition-id=3" > west/log 2>&1 &
flwr run {APP} trial --stream --run-config "result=\\"$PWD/mod.json\\""
"""
"""A fourth node without a policy, and another app on the same nodes."""


def spent(ledger: Path) -> Fraction:
    with Ledger(ledger) as kept:
        kept.verify()
        return kept.spent("icu-2025-test").epsilon


@pytest.mark.page("docs/tutorial-fl-engineer.md")
def test_the_tutorials_app_and_one_with_a_mod_on_the_same_nodes(tmp_path: Path) -> None:
    output = execute(commands("tutorial-fl-engineer.md", before_last=WEST), tmp_path)
    trained = json.loads((tmp_path / "evaluation.json").read_text())
    assert 0.6 < trained["metrics"]["auc"]["value"] < 1
    assert trained["claim"]["loss"] == "1-DP"
    assert trained["claim"]["setting"] == "deployed"
    assert "3 of 3 sites" in output
    by_mod = json.loads((tmp_path / "mod.json").read_text())
    assert by_mod["rounds"] == [2], "every second of three rounds"
    assert 0.6 < by_mod["auc"][0] < 0.9
    assert by_mod["contributors"] == [3]
    assert by_mod["declined"] == [1]
    assert "this node has no policy" in (tmp_path / "west" / "log").read_text()
    for site in ("north", "south", "east"):
        charged = spent(tmp_path / site / "ledger.sqlite")
        assert charged == 2, "no server makes a deployed node take itself for simulated"


def test_the_tutorial_shows_the_policy_that_it_copies() -> None:
    policy = (REPOSITORY / "examples" / "flower-site" / "policy.toml").read_text()
    page = (REPOSITORY / "docs" / "tutorial-fl-engineer.md").read_text()
    assert f"```toml\n{policy}```" in page
