"""Every command of the page for privacy reviewers, executed as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.data.sources import read
from discreet.entropy import Seeded
from discreet.models.central import CentralDP
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan import file as planfile
from discreet.plan.cohort import Member, PublicFacts, Roster
from discreet.plan.plan import recommend
from discreet.privacy.ledger import Ledger
from discreet.report.build import result_of
from discreet.session.policy import load
from discreet.transport.simulation import run
from forked import write_command
from policies import respond

PAGE = Path(__file__).resolve().parents[2] / "docs" / "for-privacy-reviewers.md"
SITES = ("east", "north", "south")
POLICY = """
population = "icu-2025"
[allow]
privacy = ["distributed"]
units = ["example"]
coordinators = ["*"]
models = ["*"]
[caps]
epsilon_per_plan = "1"
epsilon_total = "3"
sessions_per_plan = 3
[floors]
sites = 3
examples = 100
require_roster = false
"""


@pytest.fixture
def folder(tmp_path):
    """What a reviewer is given: data of three sites, plan, policy, a used ledger."""
    rng = np.random.default_rng(1)
    for name in SITES:
        y = (rng.random(400) < 0.3).astype(int)
        s = 1 / (1 + np.exp(-rng.normal(1.6 * y - 1.2, 1.1)))
        rows = "".join(f"{a},{b:.6f}\n" for a, b in zip(y, s, strict=True))
        (tmp_path / f"{name}.csv").write_text("y_true,y_score\n" + rows)
    privacy = DistributedDP(1)
    plan = recommend(PublicFacts(1200, 0.3), privacy, cohort=privacy.cohort(3))
    plan = replace(plan, roster=_roster())
    (tmp_path / "plan.toml").write_text(planfile.dumps(plan))
    _report(plan, tmp_path)
    (tmp_path / "policy.toml").write_text(POLICY)
    policy = load(tmp_path / "policy.toml")
    ledger = Ledger.new(tmp_path / "ledger.sqlite", limits=policy.limits())
    respond(
        read(tmp_path / "north.csv"),
        ledger,
        plan,
        plan.resolve(0, []),
        session=bytes(32),
        population=policy.population,
        entropy=Seeded(b"site"),
        policy=policy,
    )
    assert ledger.spent("icu-2025").epsilon == Fraction(1)
    return tmp_path


def _key(name):
    return Ed25519PrivateKey.from_private_bytes(name.ljust(32).encode())


def _roster():
    members = tuple(
        Member(name, _key(name).public_key().public_bytes_raw()) for name in SITES
    )
    return Roster(members, _key("coordinator").public_key().public_bytes_raw())


def _report(plan, folder):
    """Write what the coordinator of a deployment hands out, signed."""
    sites = [read(folder / f"{name}.csv") for name in SITES]
    simulated = run(plan, sites, entropy=Seeded(b"coordinator"))
    claim = plan.claim("deployed", sites=len(sites))
    result = result_of(plan, simulated.source.releases, claim)
    for name in ("report.html", "result.json"):
        result.save(folder / name, sign=_key("coordinator").sign)


def test_every_line_of_a_claim_on_the_page_is_printed_by_some_claim():
    table = PAGE.read_text().partition("| line |")[2].partition("\n\n")[0]
    quoted = [
        part.strip()
        for row in table.splitlines()[2:]
        for line in re.findall(r"`([^`]*)`", row.split("|")[1])
        for part in line.split("...")
    ]
    assert len(quoted) > 8
    distributed = DistributedDP(1)
    plan = recommend(PublicFacts(1200, 0.3), distributed, cohort=distributed.cohort(3))
    claims = [
        plan.claim("simulated", sites=3),
        replace(plan, roster=_roster()).claim("deployed", sites=3),
    ]
    for privacy in (
        DistributedDP(1, delta="0.000001"),
        LabelDP(1),
        CentralDP(1),
        SecureAggregation(),
    ):
        claims.append(replace(claims[0], loss=privacy.loss, unit=privacy.protects))
    printed = "\n".join(map(str, claims))
    assert [line for line in quoted if line not in printed] == []


@pytest.mark.page("docs/for-privacy-reviewers.md")
def test_every_command_of_the_page_runs_and_shows_what_it_says(folder):
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    typed = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in typed)
    tools = folder / "tools"
    tools.mkdir()
    write_command(tools / "discreet")
    own = Path(sys.executable).parent
    path = os.pathsep.join((str(tools), str(own), os.environ["PATH"]))
    done = subprocess.run(  # noqa: S603 - our own documentation
        ["/bin/bash", "-c", "\n".join(["set -e", *(line[2:] for line in typed)])],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        'unit = "example"',
        "colluders = 1",
        "Claim: 1-DP for one example added or removed.",
        "such as the site that reads the result",
        "Would be charged: epsilon 1.",
        "This site would take part.",
        "and the policy allows epsilon 1 a plan",
        "Intact: 2 entries",
        "report.html holds.",
        "result.json holds.",
        "The coordinator of the roster signed",
        "changed.html does not hold",
        "'contributed': 3",
    ):
        assert said in done.stdout + done.stderr, said
    assert (folder / "ledger.json").exists()
