"""A whole coordinator and whole sites, over a runtime without a network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from discreet.data.edges import Warped
from discreet.data.examples import Examples
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.privacy.ledger import Ledger
from discreet.session.coordinator import AbortedError
from discreet.session.messages import Ending, Message
from discreet.transport.addresses import LOOPBACK, free_port
from discreet.transport.coordinating import (
    connected,
    coordinate,
    purge_sessions,
    saved_session,
)
from discreet.transport.joining import Answering, Ended, JoiningSite, kept_beside
from discreet.transport.keys import CoordinatorKeys, SiteKeys, make_consortium
from policies import open_policy

SITES = ("north", "south", "east")
POLICY = open_policy(
    population="people",
    privacy=("distributed",),
    epsilon_per_plan=Fraction(1),
    epsilon_total=Fraction(1),
    sessions_per_plan=1,
    sites=3,
)


class StoppedError(Exception):
    """The coordinator's process ended."""


@dataclass
class InThreads:
    """A runtime in this process: its sites are threads."""

    names: list[str] = field(default_factory=list)
    sites: dict[str, Answering] = field(default_factory=dict)
    replies: list[tuple[int, Message]] = field(default_factory=list)
    vector_bytes: int = 0
    sent: int = 0
    stop_at: int | None = None
    """The message at which the coordinator is stopped."""

    def serve(
        self,
        keys: SiteKeys,
        address: str,
        answer: Answering,
        *,
        until: Callable[[], bool],
        **_: object,
    ) -> None:
        del address
        self.sites[keys.folder.name] = answer
        while not until():
            time.sleep(0.01)

    @contextmanager
    def listen(
        self,
        keys: CoordinatorKeys,
        plan: Plan,
        sites: Mapping[str, bytes],
        *,
        vector_bytes: int,
        **_: object,
    ) -> Iterator[InThreads]:
        del keys, plan
        self.names, self.vector_bytes = list(sites), vector_bytes
        yield self

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def connected(self) -> Iterable[int]:
        return [n for n, name in enumerate(self.names, 1) if name in self.sites]

    def send(self, node: int, message: Message, *, seconds: float) -> None:
        del seconds
        if self.sent == self.stop_at:
            raise StoppedError
        self.sent += 1
        self.replies.append((node, self.sites[self.names[node - 1]](message)))

    def receive(self) -> list[tuple[int, Message]]:
        arrived, self.replies = self.replies, []
        return arrived


@pytest.mark.parametrize("stop_at", [None, 0, 4, 7, 10])
def test_a_stopped_coordinator_resumes_without_a_second_charge(
    tmp_path: Path, stop_at: int | None
) -> None:
    roster = make_consortium(tmp_path, SITES, hosts=[LOOPBACK])
    facts, model = PublicFacts(1200, 0.3), DistributedDP("1")
    plan = recommend(facts, model, edges=Warped(16), cohort=Cohort(3))
    plan = replace(plan, roster=roster)
    scores, labels = np.linspace(0, 1, 200), np.arange(200) % 2
    keys = CoordinatorKeys(tmp_path / "coordinator")
    saved, runtime = saved_session(plan, keys), InThreads(stop_at=stop_at)

    def run() -> list[int]:
        address = {"host": LOOPBACK, "port": free_port()}
        result = coordinate(plan, keys, runtime, **address, saved=saved)
        return result.source.releases[0].total.tolist()

    with ThreadPoolExecutor(len(SITES)) as pool:
        ended = []
        for name in SITES:
            ledger = tmp_path / name / "ledger.sqlite"
            Ledger.new(ledger).close()
            own = SiteKeys(tmp_path / name)
            data = Examples(scores, labels)
            site = JoiningSite(plan, data, POLICY, ledger, own)
            ended.append(pool.submit(site.join, runtime, "hub:9443"))
        if stop_at is not None:
            with pytest.raises(StoppedError):
                run()
            runtime.stop_at = None
        total = run()
    for name, future in zip(SITES, ended, strict=True):
        # The policy allows one charge: a second one would have been declined.
        assert future.result() == Ended(Ending.REVEALED, declined=False, charged=True)
        assert not kept_beside(tmp_path / name / "ledger.sqlite").path.exists()
    # The result is saved until the caller discards it, and no site is asked again.
    runtime.stop_at = runtime.sent
    assert run() == total
    saved.discard()
    assert not saved.path.exists()


def test_only_nodes_that_are_named_count_as_connected() -> None:
    present = connected(lambda: [3, 9, 4], wanted=2, wait_seconds=0.0, among={3, 4, 5})
    assert present == [3, 4]


@pytest.mark.parametrize(
    ("privacy", "examples"), [(DistributedDP("1"), 0), (LabelDP(2), 2_000_000)]
)
def test_a_request_may_be_as_long_as_the_protocol_needs(
    tmp_path: Path, privacy: PrivacyModel, examples: int
) -> None:
    """Counts are as many as the plan says; ranked scores as many as a site has."""
    roster = make_consortium(tmp_path, SITES, hosts=[LOOPBACK])
    plan = recommend(PublicFacts(1200, 0.3), privacy, cohort=Cohort(3))
    plan = replace(plan, roster=roster)
    keys, runtime = CoordinatorKeys(tmp_path / "coordinator"), InThreads()
    with pytest.raises(AbortedError):
        coordinate(plan, keys, runtime, host=LOOPBACK, port=9443, wait_seconds=0)
    assert runtime.vector_bytes >= 8 * examples
    assert runtime.vector_bytes >= 8 * sum(r.statistic.size for r in plan.rounds)


def test_old_sessions_are_erased_with_what_was_written_of_one(tmp_path: Path) -> None:
    make_consortium(tmp_path, SITES, hosts=(LOOPBACK,))
    keys = CoordinatorKeys(tmp_path / "coordinator")
    before = set(keys.folder.iterdir())
    new, old, part = (
        keys.folder / name
        for name in (
            "session-1.sealed",
            "session-2.sealed",
            ".session-3.sealed.abcd1234",
        )
    )
    for path, days in ((new, 1), (old, 31), (part, 31)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - 86_400 * days,) * 2)
    assert set(purge_sessions(keys, 30)) == {old, part}
    assert purge_sessions(keys, 0) == [new]
    assert set(keys.folder.iterdir()) == before
