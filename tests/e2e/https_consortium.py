"""A consortium of real commands on loopback, for the tests.

Run as a script it is the command ``discreet`` with seeded entropy. ``REVEALED`` names a
file that a coordinator writes its sums to. ``DIE_AFTER`` lets a process die, as by
SIGKILL, once it has stored so many states: a site's before it sends the answer, a
coordinator's before it sends what follows. ``WAITS_WITH`` lets a coordinator's wait for
its sites begin when so many of them are connected.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import forked
from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy.account import MemoryAccount
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.keys import make_consortium
from policies import open_policy, respond

SITES = ("east", "north", "south")
POLICY = open_policy(
    population="people",
    privacy=("secure-aggregation", "distributed", "local", "label"),
    units=("example", "label"),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    exact_sums=1,
    sessions_per_plan=1,
    sites=2,
)
"""It allows one charge: a second one would be declined."""
PATIENCE = 300.0
"""Seconds in which whatever is waited for happens, on any machine that is busy."""
OWN_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY")


def examples(site: str) -> Examples:
    rng = np.random.default_rng(SITES.index(site))
    labels = rng.random(400) < 0.3
    scores = np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1)
    return Examples(scores, labels)


def own_answer(site: str, plan: Plan) -> list[int]:
    """What a site sends, with the entropy of its process."""
    return respond(
        examples(site),
        MemoryAccount(),
        plan,
        plan.resolve(0, []),
        session=b"",
        population="",
        entropy=Seeded(site.encode()),
    ).tolist()


def make(folder: Path) -> None:
    """Make what every session starts from: keys, policies, empty ledgers, data."""
    make_consortium(folder, SITES, hosts=[LOOPBACK])
    for site in SITES:
        (folder / site / "policy.toml").write_text(policyfile.dumps(POLICY))
        Ledger.new(folder / site / "ledger.sqlite").close()
        scores, labels = examples(site).to_arrays()
        table = {"y_true": labels.astype(int), "y_score": scores}
        pq.write_table(pa.table(table), folder / f"{site}.parquet")


@dataclass
class Command:
    """A command that runs, and what it has said."""

    process: forked.Forked | subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str, seconds: float = PATIENCE) -> None:
        """Wait until it has said these words."""
        deadline = time.monotonic() + seconds
        while words not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)

    def ends(self, seconds: float = PATIENCE) -> int:
        """Return its exit code."""
        return self.process.wait(seconds)

    def end(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.ends()


@dataclass
class Consortium:
    """Keys, data and a plan in a folder, and the commands that were started there."""

    folder: Path
    plan: Plan
    port: int
    commands: list[Command] = field(default_factory=list)

    def start(
        self, *words: str, env: Mapping[str, str] | None = None, name: str = ""
    ) -> Command:
        """Start a command."""
        source = Path(__file__).resolve()
        path = (str(source.parents[1]), os.environ.get("PYTHONPATH", ""))
        clean = {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES}
        output = self.folder / f"{len(self.commands)}-{name or words[0]}.txt"
        with output.open("wb") as log:
            process = forked.start(
                source,
                words,
                env={**clean, "PYTHONPATH": os.pathsep.join(path), **(env or {})},
                cwd=self.folder,
                log=log,
            )
        self.commands.append(Command(process, output))
        return self.commands[-1]

    def site(
        self,
        name: str,
        *words: str,
        env: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> Command:
        """Start ``discreet site``."""
        return self.start(
            *("site", "plan.toml", f"{name}.parquet", "--keys", name, "--confirmed"),
            *("--coordinator", f"{LOOPBACK}:{port or self.port}", "--wait", "900"),
            *words,
            env=env,
            name=name,
        )

    def coordinate(
        self, *words: str, wait: int = 900, env: Mapping[str, str] | None = None
    ) -> Command:
        """Start ``discreet coordinate``."""
        return self.start(
            *("coordinate", "plan.toml", "--keys", "coordinator"),
            *("--port", str(self.port), "--wait", str(wait), "--step", "300"),
            *words,
            env={"REVEALED": "revealed.json", **(env or {})},
        )

    def revealed(self) -> list[int]:
        """Return the sum that the coordinator revealed last."""
        return json.loads((self.folder / "revealed.json").read_text())[-1]

    def expected(self, *sites: str) -> list[int]:
        """Return the sum of the sites' own answers."""
        answers = [own_answer(site, self.plan) for site in sites or SITES]
        return np.sum(answers, axis=0).tolist()

    def charges(self, site: str) -> int:
        """Return how often a site's ledger was charged."""
        with Ledger(self.folder / site / "ledger.sqlite") as ledger:
            ledger.verify()
            return len(ledger.uses("people"))


def plan_for(privacy: PrivacyModel, folder: Path, *, survivors: int = 3) -> Plan:
    """A small plan with the roster of a folder's consortium."""
    from discreet.transport.keys import assemble, public_file_in

    cohort = Cohort(survivors, colluders=0)
    plan = recommend(PublicFacts(1200, 0.3), privacy, edges=Warped(16), cohort=cohort)
    sites = [public_file_in(folder / site) for site in SITES]
    roster = assemble(sites, public_file_in(folder / "coordinator"))
    return replace(plan, model=ModelRef("model", "sha256:00"), roster=roster)


@contextmanager
def consortium(
    made: Path, folder: Path, privacy: PrivacyModel, *, survivors: int = 3
) -> Iterator[Consortium]:
    """Copy what was made, write the plan; end whatever is started, by its pid."""
    shutil.copytree(made, folder)
    plan = plan_for(privacy, folder, survivors=survivors)
    (folder / "plan.toml").write_text(dumps(plan))
    started = Consortium(folder, plan, free_port())
    try:
        yield started
    finally:
        for command in started.commands:
            if command.process.poll() is None:
                command.process.kill()
        for command in started.commands:
            command.process.wait(60)


def _die_after(count: int, store: Callable[..., Any]) -> Callable[..., Any]:
    left = [count]

    def stored(*arguments: Any) -> None:
        store(*arguments)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return stored


def _begun_with(few: int, connected: Callable[..., list[int]]) -> Callable[..., Any]:
    def begun(*words: Any, wanted: int, wait_seconds: float, **others: Any) -> Any:
        connected(*words, wanted=few, wait_seconds=PATIENCE, **others)
        return connected(*words, wanted=wanted, wait_seconds=wait_seconds, **others)

    return begun


def _run() -> None:
    from discreet.cli import site
    from discreet.cli.main import main
    from discreet.session.journal import SavedSession
    from discreet.session.site import Site
    from discreet.transport import coordinating
    from discreet.transport.joining import InFile, JoiningSite

    class SeededSite(JoiningSite):
        """Every message finds the entropy of the site's name from its beginning."""

        def _site(self) -> Site:
            self.entropy = Seeded(self.keys.folder.name.encode())
            return super()._site()

    site.JoiningSite = SeededSite  # type: ignore[misc]
    if count := int(os.environ.get("DIE_AFTER", "0")):
        InFile.save = _die_after(count, InFile.save)  # type: ignore[method-assign]
        SavedSession.save = _die_after(count, SavedSession.save)  # type: ignore[method-assign]
    if few := int(os.environ.get("WAITS_WITH", "0")):
        coordinating.connected = _begun_with(few, coordinating.connected)
    if name := os.environ.get("REVEALED"):
        evaluation_of = coordinating.evaluation_of

        def revealed(plan: Plan, releases: Any) -> Any:
            totals = [release.total.tolist() for release in releases]
            Path(name).write_text(json.dumps(totals))
            return evaluation_of(plan, releases)

        coordinating.evaluation_of = revealed  # type: ignore[assignment]
    main()


if __name__ == "__main__":
    _run()
