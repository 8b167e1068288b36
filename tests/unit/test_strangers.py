"""A model, a statistic, a metric, a protocol and a transport from another package."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli.main import app
from discreet.data.edges import Edges
from discreet.entropy import Seeded
from discreet.estimate.estimate import Binning
from discreet.estimate.slopes import Slopes
from discreet.metrics.measure import Measure
from discreet.metrics.table import METRICS, MetricRow
from discreet.noise.polya import PolyaShares
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort
from discreet.plan.privacy_model import MODELS, PrivacyModel
from discreet.plan.protocol import PROTOCOLS
from discreet.plan.rounds import Round
from discreet.privacy.account import MemoryAccount
from discreet.privacy.claim import Trust
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, additive
from discreet.session.coordinator import Coordinator
from discreet.session.messages import Kind, Message
from discreet.session.retrying import Lost, Retrying
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.protocol import STATISTICS, Statistic, tally
from discreet.transport.in_process import InProcess
from discreet.transport.simulation import run
from examples.extending.in_bodies import InBodies, register
from examples.extending.plain_http import HttpTransport, served
from policies import open_policy


@dataclass(frozen=True, slots=True)
class Whispered(PrivacyModel):
    """Every site tells its noisy counts to whoever asks.

    Args:
        epsilon: the loss, split over the listeners.
        listeners: how many hear each site's counts.
        loudly: tell the site's name too.
    """

    epsilon: Fraction
    listeners: int = 1
    loudly: bool = False

    name: ClassVar[str] = "whispered"
    trust: ClassVar[Trust] = Trust.NOBODY
    carried_by: ClassVar[str] = "relay"

    @property
    def protects(self):
        return EXAMPLE

    @property
    def loss(self):
        return PureDP(self.epsilon / self.listeners)

    def caveats(self, sites):
        del sites
        return ("whatever its author forgot",)

    def mechanism_for(self, this, cohort):
        del cohort
        return PolyaShares(
            this.loss, this.statistic.sensitivity(self.protects), honest=1
        )


@dataclass(frozen=True)
class Mirrored(Statistic):
    """The class histogram, and the same once more with labels turned around."""

    edges: Edges

    name: ClassVar[str] = "mirrored"

    @property
    def size(self):
        return 4 * len(self.edges)

    @property
    def binnings(self):
        return (self.edges,)

    def count(self, examples):
        inner = ClassHistogram(self.edges)

        def cells(batch):
            own = inner.cells(batch)
            other = (own + len(self.edges)) % inner.size
            return np.concatenate([own, other + inner.size])

        return tally(examples, self, cells)

    def sensitivity(self, unit) -> Sensitivity:
        return additive(unit, cells=2, cells_flipped=4)

    def parts(self, counts, noise):
        own, other = np.split(counts, 2)
        return {
            name: NoisyHistogram(
                self.edges, *ClassHistogram(self.edges).split(c), noise
            )
            for name, c in (("straight", own), ("mirrored", other))
        }


def prevalence(counts):
    return counts.total_positives / (counts.total_positives + counts.total_negatives)


def prevalence_slopes(cells):
    total = cells.negatives.sum() + cells.positives.sum()
    share = cells.positives.sum() / total
    ones = np.ones_like(cells.positives) / total
    return Slopes(-share * ones, (1 - share) * ones)


PREVALENCE = MetricRow(
    "prevalence",
    "prevalence",
    Measure(
        value=lambda fit: prevalence(fit.counts),
        slopes=prevalence_slopes,
        limits=lambda _, value: Binning(value, value, 0.0),
    ),
    better="one",
    source="another package",
)


@pytest.fixture(autouse=True)
def _added():
    MODELS.add("whispered", Whispered)
    STATISTICS.add("mirrored", Mirrored)
    METRICS.add("prevalence", PREVALENCE)
    register()
    yield
    for registry, name in (
        (MODELS, "whispered"),
        (STATISTICS, "mirrored"),
        (METRICS, "prevalence"),
        (PROTOCOLS, "in-bodies"),
    ):
        del registry._entries[name]


def sites():
    rng = np.random.default_rng(5)
    y = rng.random(9000) < 0.3
    s = 1 / (1 + np.exp(-rng.normal(1.5 * y - 1, 1)))
    return [discreet.Examples(s[i::3], y[i::3]) for i in range(3)]


def planned(privacy=None, **more):
    facts = discreet.PublicFacts(9000, 0.3)
    privacy = privacy or Whispered(Fraction(1))
    plan = discreet.recommend(facts, privacy, cohort=Cohort(3), thresholds=())
    edges = plan.statistic.edges
    return discreet.Plan(
        plan.privacy,
        (Round(Mirrored(edges)),),
        metrics=frozenset({"auc", "prevalence"}),
        facts=facts,
        cohort=Cohort(3),
        **more,
    )


def test_all_three_run_end_to_end_and_survive_their_file():
    plan = planned()
    assert planfile.loads(planfile.dumps(plan)) == plan
    result = run(plan, sites(), entropy=Seeded(b"s"))
    straight, mirrored = result["straight"], result["mirrored"]
    assert straight.auc.value + mirrored.auc.value == pytest.approx(1, abs=0.02)
    share = straight.metrics["prevalence"]
    assert share.value == pytest.approx(0.3, abs=0.02)
    low, high = share.interval()
    assert low < share.value < high
    for text in (str(straight), straight.to_json()):
        assert "prevalence" in text
    assert "each of the 3 sites' own" in str(straight.claim)
    assert "whatever its author forgot" in str(straight.claim)


def test_a_policy_knows_an_added_model():
    allowed = open_policy(population="p", privacy=("whispered",), epsilon_per_plan=1)
    with pytest.raises(discreet.DiscreetError, match="at least 4"):
        replace(allowed, sites=4).check(planned())
    replace(allowed, sites=3).check(planned())


class InBodiesModel(Whispered):
    """The same model, with answers that travel by another package's protocol."""

    carried_by: ClassVar[str] = "in-bodies"


def deployed_sites(plan):
    policy = open_policy(
        population="p", privacy=(plan.privacy.name,), epsilon_per_plan=1, sites=3
    )
    return {
        node: Site(
            lambda _, examples=examples: examples,
            policy,
            MemoryAccount(),
            Seeded(bytes([node])),
            InMemory(),
            plan,
        )
        for node, examples in enumerate(sites(), 1)
    }


def released(plan, transport):
    releases = Coordinator(plan, (1, 2, 3), transport, Seeded(b"c")).run()
    return [(each.contributors, each.total.tolist()) for each in releases]


def in_process(plan):
    reasons = []
    of_node = {node: lambda s=site: s for node, site in deployed_sites(plan).items()}
    answers = released(plan, InProcess(of_node, lambda *why: reasons.append(why)))
    assert not reasons
    return answers


def secure_sum_plan():
    private = discreet.DistributedDP(1)
    facts = discreet.PublicFacts(9000, 0.3)
    return discreet.recommend(facts, private, cohort=Cohort(3), thresholds=())


def over_http(plan):
    reasons = []
    with ExitStack() as open_ports:
        addresses = {
            node: open_ports.enter_context(served(site, reasons.append))
            for node, site in deployed_sites(plan).items()
        }
        answers = released(plan, Retrying(HttpTransport(addresses), 240.0))
    assert not reasons
    return answers


def test_a_secure_sum_over_http_is_the_one_in_process():
    plan = secure_sum_plan()
    assert plan.protocol.masked
    assert over_http(plan) == in_process(plan)


def test_an_http_transport_reports_what_was_not_answered_as_lost():
    message = Message(Kind.STEP, b"p" * 32, b"s" * 32, 0)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        address = f"http://127.0.0.1:{closed.server_port}/"
    transport = HttpTransport({1: address})
    transport.send(1, message, seconds=1.0)
    while not (arrived := list(transport.receive())):
        time.sleep(0.01)
    assert arrived == [(1, Lost(message.digest()))]


def test_bytes_that_are_no_message_change_nothing_at_a_site_behind_http():
    site = deployed_sites(secure_sum_plan())[1]
    with served(site, pytest.fail) as address, pytest.raises(HTTPError) as refused:
        urlopen(address, b"no message", 60.0)  # noqa: S310 - our own server
    refused.value.close()
    assert refused.value.code == 400


def test_another_packages_protocol_carries_a_plan_between_sites():
    plan = planned(privacy=InBodiesModel(Fraction(1)))
    assert isinstance(plan.protocol, InBodies)
    relayed = in_process(planned())
    assert in_process(plan) == over_http(plan) == relayed


WHISPERED = ("--privacy", "whispered")
FACTS = ("--examples", "9000", "--prevalence", "0.3")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = []
    for k, site in enumerate(sites()):
        scores, labels = site.to_arrays()
        rows = [f"{s:.6f},{int(y)}" for s, y in zip(scores, labels, strict=True)]
        names.append(f"{k}.csv")
        Path(names[-1]).write_text("\n".join(["y_score,y_true", *rows]))
    return names


def command(*words):
    return CliRunner().invoke(app, words)


def test_the_fields_of_an_added_model_are_options_of_the_command_line(files):
    whispered = (*WHISPERED, "--epsilon", "1", "--listeners", "2")
    result = command("evaluate", *files, *FACTS, *whispered)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "0.5-DP" in result.output
    few = ("--bins", "20", "--repetitions", "2", "--sites", "3")
    result = command("plan", *FACTS, *few, *whispered, "--loudly", "-o", "plan.toml")
    assert result.exit_code == 0, (result.output, result.exception)
    plan = planfile.loads(Path("plan.toml").read_text())
    assert plan.privacy == Whispered(Fraction(1), 2, loudly=True)
    text = " ".join(command("evaluate", "--help").output.replace("│", " ").split())
    for words in ("whispered: Every site", "--listeners", "--loudly", "[default: 1]"):
        assert words in text
    assert "For whispered: the loss, split over the listeners." in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (WHISPERED, "--privacy whispered needs --epsilon, for instance 1"),
        ((*WHISPERED, "--epsilon", "much"), "epsilon must be a decimal number"),
        ((*WHISPERED, "--epsilon", "1", "--unit", "client"), "whispered has no --unit"),
        (("--listeners", "3"), "leave out --listeners, or choose --privacy whispered"),
    ],
)
def test_options_that_an_added_model_lacks_or_needs_are_named(files, options, message):
    result = command("evaluate", *files, *options)
    assert isinstance(result.exception, discreet.DiscreetError)
    assert message in str(result.exception)
