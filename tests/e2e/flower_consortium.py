"""A consortium of real processes on loopback, for the tests.

Run as a script it is one site: it connects and answers every session that its policy
allows, with seeded entropy, until it is ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import IO

import numpy as np
from discreet.transport.flower.processes import OFFLINE, FlowerProcess, superlink
from discreet.transport.flower.serving import serve
from discreet.transport.flower.tasks import register

from discreet.arrays import IntVector
from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.plan.cohort import Cohort, PublicFacts, Roster
from discreet.plan.file import dumps, loads
from discreet.plan.plan import ModelRef, Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import ResolvedRound
from discreet.privacy.account import MemoryAccount
from discreet.privacy.composition import compose
from discreet.privacy.ledger import Ledger
from discreet.session import policy as policyfile
from discreet.session.policy import Policy
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.keys import (
    CA,
    CoordinatorKeys,
    SiteKeys,
    make_consortium,
)
from policies import respond

SITES = ("north", "east", "south", "west")
POLICY = Policy(
    population="people",
    privacy=("secure-aggregation", "distributed", "local", "label"),
    coordinators=("*",),
    models=("*",),
    units=("example", "label"),
    epsilon_per_plan=Fraction(2),
    epsilon_total=Fraction(50),
    exact_sums=20,
    sessions_per_plan=20,
    sites=2,
    examples=100,
    require_roster=False,
)


def examples(site: str) -> Examples:
    """A site's data; one site has too few to take part where 400 are asked for."""
    place = SITES.index(site)
    rng = np.random.default_rng(place)
    labels = rng.random(300 + 100 * place) < 0.3
    scores = np.clip(rng.normal(0.4 + 0.3 * labels, 0.2), 0, 1)
    return Examples(scores, labels, weights=rng.integers(0, 5, labels.size))


def plan_for(
    privacy: PrivacyModel,
    *,
    survivors: int,
    roster: Roster | None = None,
    floor: int = 0,
) -> Plan:
    """A small plan."""
    # No site reads the result here: of four, one may fall silent.
    cohort = Cohort(survivors, colluders=0, min_examples_per_site=floor)
    plan = recommend(PublicFacts(1500, 0.3), privacy, edges=Warped(32), cohort=cohort)
    return replace(plan, model=ModelRef("model", "sha256:00"), roster=roster)


def own_answer(site: str, plan: Plan, this: ResolvedRound) -> IntVector:
    """What a site sends, with the entropy of its process."""
    return respond(
        examples(site),
        MemoryAccount(),
        plan,
        this,
        session=b"",
        population="",
        entropy=Seeded(site.encode()),
    )


def process(*arguments: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start this file as a process."""
    source = Path(__file__).resolve()
    path = os.pathsep.join((str(source.parents[1]), os.environ.get("PYTHONPATH", "")))
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(source), *arguments],
        env={**os.environ, **OFFLINE, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )


@dataclass
class Consortium:
    """One SuperLink, and the sites' processes by name."""

    folder: Path
    roster: Roster
    link: FlowerProcess
    sites: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def authority(self) -> bytes:
        """The certificate that every site trusts."""
        return (self.folder / "coordinator" / CA).read_bytes()

    def start(self, site: str) -> None:
        """Start a site's process."""
        with (self.folder / f"{site}.log").open("ab") as log:
            self.sites[site] = process(
                "site", str(self.folder), site, self.link.runtime, output=log
            )

    def kill(self, site: str) -> None:
        """End a site as a crash would."""
        self.sites[site].send_signal(signal.SIGKILL)
        self.sites.pop(site).wait()

    def said(self, site: str) -> str:
        """Return what a site wrote for its operator."""
        return (self.folder / f"{site}.log").read_text()

    def spent(self, site: str) -> Fraction:
        """Return the sum of the losses in a site's ledger, whatever their units."""
        path = self.folder / site / "ledger.sqlite"
        if not path.exists():
            return Fraction(0)
        with Ledger(path) as ledger:
            ledger.verify()
            return compose(use.loss for use in ledger.uses("people")).epsilon

    def stop(self) -> None:
        """End the sites, by their pids."""
        for process in self.sites.values():
            process.terminate()
        for process in self.sites.values():
            process.wait(60)


@contextmanager
def consortium(
    folder: Path, *, started: tuple[str, ...] = SITES
) -> Iterator[Consortium]:
    """Start a SuperLink with TLS and authentication, and the sites."""
    roster = make_consortium(folder, SITES, hosts=[LOOPBACK])
    keys = CoordinatorKeys(folder / "coordinator")
    with superlink(keys, host=LOOPBACK, port=free_port()) as link:
        running = Consortium(folder, roster, link)
        register(link, running.authority, keys.nodes())
        try:
            for site in started:
                running.start(site)
            yield running
        finally:
            running.stop()


def _be_a_site(folder: Path, site: str, address: str) -> None:
    from flwr.app import Context, Message

    from discreet.codec import messages
    from discreet.session.site import Site
    from discreet.session.state import memory_beside
    from discreet.transport.flower.mod import handler
    from discreet.transport.joining import InFile

    if (folder / site / "older").exists():
        messages.VERSION = 0  # type: ignore[misc]
    keys = SiteKeys(folder / site)
    ledger = folder / site / "ledger.sqlite"
    if not ledger.exists():
        Ledger.new(ledger).close()

    def site_of(message: Message, context: Context) -> Site:
        del message, context
        rules = folder / site / "policy.toml"
        policy = policyfile.load(rules) if rules.exists() else POLICY
        return Site(
            lambda _: _after_a_while(folder / site / "slow", examples(site)),
            policy,
            Ledger(ledger, limits=policy.limits()),
            Seeded(site.encode()),
            memory_beside(ledger),
            _agreed(folder / site / "plan.toml"),
            keys.identity(),
        )

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    answer = handler(site_of, kept=InFile(folder / site / "session"))
    serve(keys, address, answer, until=lambda: False, wait_seconds=600)


def _after_a_while(path: Path, data: Examples) -> Examples:
    if path.exists():
        time.sleep(float(path.read_text()))
    return data


def _agreed(path: Path) -> Plan | None:
    return loads(path.read_text()) if path.exists() else None


def agree(folder: Path, site: str, plan: Plan | None) -> None:
    """Make a site answer one plan only, or every plan that its policy allows."""
    path = folder / site / "plan.toml"
    path.unlink(missing_ok=True)
    if plan is not None:
        path.write_text(dumps(plan))


def _be_the_coordinator(folder: Path, plan: Path, port: int) -> None:
    from discreet.transport.flower.runtime import FlowerRuntime

    from discreet.session.board import Board
    from discreet.transport.coordinating import coordinate, saved_session

    agreed, keys = loads(plan.read_text()), CoordinatorKeys(folder / "coordinator")
    result = coordinate(
        agreed,
        keys,
        FlowerRuntime(),
        host=LOOPBACK,
        port=port,
        wait_seconds=120,
        step_seconds=60,
        board=lambda names: Board(names, lambda line: print(line, flush=True)),  # noqa: T201
        saved=saved_session(agreed, keys),
    )
    print(json.dumps(result.source.releases[-1].total.tolist()), flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1] == "site":
        _be_a_site(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        _be_the_coordinator(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
