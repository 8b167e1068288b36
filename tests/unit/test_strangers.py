"""A model, a statistic and a metric of a stranger's, added from outside the house."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

import discreet
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
from discreet.plan.rounds import Round
from discreet.privacy.claim import Trust
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity, additive
from discreet.session.policy import Policy
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.protocol import STATISTICS, Statistic, tally
from discreet.transport.simulation import run
from policies import open_policy


@dataclass(frozen=True, slots=True)
class Whispered(PrivacyModel):
    """Every site tells its noisy counts to whoever asks."""

    epsilon: Fraction

    name: ClassVar[str] = "whispered"
    trust: ClassVar[Trust] = Trust.NOBODY
    carried_by: ClassVar[str] = "relay"

    @property
    def protects(self):
        return EXAMPLE

    @property
    def loss(self):
        return PureDP(self.epsilon)

    def caveats(self, sites):
        del sites
        return ("whatever a stranger forgot",)

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
    source="a stranger",
)


@pytest.fixture(autouse=True)
def _added():
    MODELS.add("whispered", Whispered)
    STATISTICS.add("mirrored", Mirrored)
    METRICS.add("prevalence", PREVALENCE)
    yield
    for registry, name in (
        (MODELS, "whispered"),
        (STATISTICS, "mirrored"),
        (METRICS, "prevalence"),
    ):
        del registry._entries[name]


def sites():
    rng = np.random.default_rng(5)
    y = rng.random(9000) < 0.3
    s = 1 / (1 + np.exp(-rng.normal(1.5 * y - 1, 1)))
    return [discreet.Examples(s[i::3], y[i::3]) for i in range(3)]


def planned(**more):
    facts = discreet.PublicFacts(9000, 0.3)
    plan = discreet.recommend(
        facts, Whispered(Fraction(1)), cohort=Cohort(3), thresholds=()
    )
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
    found = straight.metrics["prevalence"]
    assert found.value == pytest.approx(0.3, abs=0.02)
    low, high = found.interval()
    assert low < found.value < high
    for text in (str(straight), straight.to_json()):
        assert "prevalence" in text
    assert "each of the 3 sites' own" in str(straight.claim)
    assert "whatever a stranger forgot" in str(straight.claim)


def test_a_policy_knows_the_strangers_model():
    allowed = open_policy(population="p", privacy=("whispered",), epsilon_per_plan=1)
    with pytest.raises(discreet.DiscreetError, match="at least 4"):
        Policy(**{**vars_of(allowed), "sites": 4}).check(planned())
    Policy(**{**vars_of(allowed), "sites": 3}).check(planned())


def vars_of(policy):
    return {name: getattr(policy, name) for name in policy.__slots__}
