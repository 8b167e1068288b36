"""Every privacy model x every statistic x every driver.

The drivers: simulated; deployed sites behind the bytes of messages; Flower's own apps
with a grid in this process (real processes: ``tests/e2e/test_flower.py``).

Each cell either gives the evaluation that plain counting gives (exactly without
noise, closely with a large epsilon), or refuses before anything is charged.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet.data.batches import RawBatch
from discreet.data.edges import Edges, Uniform, Warped
from discreet.data.labels import LabelCode
from discreet.data.prior_spread import PriorSpread
from discreet.entropy import SYSTEM
from discreet.errors import DiscreetError
from discreet.mpc.evaluate import run as run_exact
from discreet.noise.mechanism import NoNoise
from discreet.noise.response import ResponseKey
from discreet.plan.cohort import Member, PublicFacts, Roster
from discreet.plan.file import dumps
from discreet.plan.plan import Plan
from discreet.plan.privacy_model import MODELS as KNOWN
from discreet.plan.rounds import Round
from discreet.privacy.ledger import Ledger
from discreet.report.group_comparison import GroupedComparison
from discreet.report.timed import TimedEvaluations
from discreet.report.timed_evaluation import TimedEvaluation
from discreet.session import coordinator
from discreet.session.coordinator import Coordinator, evaluation_of
from discreet.session.policy import UNIT_NAMES
from discreet.session.site import Site
from discreet.session.state import InMemory
from discreet.statistic import (
    ClassHistogram,
    EquiDepthFrom,
    Grouped,
    Hierarchy,
    MultiLabel,
    OneVsOne,
    OneVsRest,
    Paired,
    PairedInGroups,
    PlacedFrom,
)
from discreet.statistic.adaptive import Refined
from discreet.statistic.effect_terms import EffectTerms
from discreet.statistic.rank_sums import RankSums
from discreet.statistic.site_sums import SiteSums
from discreet.statistic.timed import (
    TimedGroups,
    TimedHistogram,
    TimedHorizons,
    TimedPair,
)
from discreet.statistic.weighted import Weighted
from discreet.transport.in_process import InProcess
from discreet.transport.simulation import run
from mpc_reference import Reference
from policies import open_policy

pytestmark = pytest.mark.long

SITES = 3
BINS = Edges.realise(Warped(16))
LOOK = Edges.realise(PriorSpread(32, 0.4))
TREE = Hierarchy(Edges.realise(Uniform(16)))
CLASSES = ("cat", "dog", "eel")
HORIZONS = (1.0, 3.0)
TIMED = TimedHistogram(BINS, (0.0, 1.0, 2.0, 3.0))
NEAR = 0.03

MODELS = {
    "secure-aggregation": discreet.SecureAggregation(),
    "distributed": discreet.DistributedDP(30),
    "distributed, delta": discreet.DistributedDP(30, "1e-6"),
    "local, arc": discreet.LocalDP(16),
    "local, unary": discreet.LocalDP(30, "unary"),
    "local, levels": discreet.LocalDP(30, "levels"),
    "local, laplace": discreet.LocalDP(30, "laplace"),
    "label, response": discreet.LabelDP(30, mechanism="response"),
    "label, binned": discreet.LabelDP(30, mechanism="binned"),
    "label, choice": discreet.LabelDP(30),
    "central": discreet.CentralDP(30),
    "exact": discreet.ExactMPC(),
}
STATISTICS = {
    "histogram": (Round(ClassHistogram(BINS)),),
    "hierarchy": (Round(TREE),),
    "equi-depth": (
        Round(TREE, Fraction(1, 5)),
        Round(EquiDepthFrom(TREE, 8), Fraction(4, 5)),
    ),
    "placed": (
        Round(ClassHistogram(LOOK), Fraction(1, 10)),
        Round(PlacedFrom(ClassHistogram(LOOK), 24), Fraction(9, 10)),
    ),
    "one-vs-rest": (Round(OneVsRest(BINS, CLASSES)),),
    "one-vs-one": (Round(OneVsOne(BINS, CLASSES)),),
    "grouped": (Round(Grouped(ClassHistogram(BINS), ("a", "b"))),),
    "paired": (Round(Paired(BINS, BINS)),),
    "paired, joint": (Round(Paired(BINS, BINS, "joint")),),
    "paired in groups": (Round(PairedInGroups(BINS, BINS, groups=("a", "b"))),),
    "multi-label": (Round(MultiLabel(BINS, ("x", "y", "z"))),),
    "site-sums": (
        Round(SiteSums(ClassHistogram(BINS), (EffectTerms.of("auc", private=True),))),
    ),
    "rank-sums": (Round(RankSums("choice")),),
    "weighted": (Round(Weighted(ClassHistogram(BINS), 4)),),
    "weighted, exact": (Round(Weighted(ClassHistogram(BINS), 4, squares=True)),),
    "timed": (Round(TIMED),),
    "timed, two causes": (Round(replace(TIMED, causes=2)),),
    "timed, groups": (Round(TimedGroups(TIMED, ("a", "b"))),),
    "timed, two models": (Round(TimedPair(TIMED)),),
    "timed, horizons": (Round(TimedHorizons(TIMED, HORIZONS)),),
}


def followed(statistic, n=6000):
    rng = np.random.default_rng(4)
    z, w = rng.normal(0, 1, n), rng.normal(0, 1, n)
    times, until = rng.exponential(4 * np.exp(-z)), rng.uniform(0, 9, n)
    causes = 2 if "causes" in statistic else 1
    columns = {
        "time": np.minimum(times, until),
        "event": np.where(times <= until, rng.integers(1, causes + 1, n), 0),
        "groups": np.where(np.arange(n) % 7 < 3, "a", "b"),
        "subjects": np.array([f"person {i}" for i in range(n)]),
    }
    scores = 1 / (1 + np.exp(-z))
    if "models" in statistic or "horizons" in statistic:
        scores = np.column_stack([scores, 1 / (1 + np.exp(-z - w))])
    return [
        discreet.Examples(
            scores[i::SITES],
            causes=causes,
            **{k: v[i::SITES] for k, v in columns.items()},
        )
        for i in range(SITES)
    ]


def data(statistic):
    if statistic.startswith("timed"):
        return followed(statistic)
    rng = np.random.default_rng(4)
    n = 6000
    y = rng.random(n) < 0.4
    z = rng.normal(1.6 * y - 0.8, 1.0)
    s, more = 1 / (1 + np.exp(-z)), {}
    if statistic.startswith("one-vs"):
        k = rng.integers(0, 3, n)
        raw = np.exp(rng.normal(0, 1, (n, 3)) + 1.5 * np.eye(3)[k])
        s, y = raw / raw.sum(axis=1, keepdims=True), np.array(CLASSES)[k]
    elif statistic == "multi-label":
        y = rng.random((n, 3)) < (0.2, 0.4, 0.5)
        s = 1 / (1 + np.exp(-rng.normal(1.6 * y - 0.8, 1.0)))
    elif statistic.startswith("paired"):
        s = np.column_stack([s, 1 / (1 + np.exp(-rng.normal(1.0 * y - 0.5, 1.0)))])
        if statistic.endswith("groups"):
            more["groups"] = np.where(np.arange(n) % 7 < 3, "a", "b")
    else:
        more["groups"] = np.where(np.arange(n) % 7 < 3, "a", "b")
        more["subjects"] = np.array([f"person {i}" for i in range(n)])
    if statistic.startswith("weighted"):
        more["weights"] = 1 + np.arange(n) % 4
    classes = CLASSES if statistic.startswith("one-vs") else None
    parts = [slice(i, None, SITES) for i in range(SITES)]
    return [
        discreet.Examples(
            s[i], y[i], classes=classes, **{k: v[i] for k, v in more.items()}
        )
        for i in parts
    ]


def planned(privacy, rounds, sites=SITES):
    cohort = privacy.cohort(sites)
    timed = rounds[-1].statistic.time_cuts is not None
    return Plan(
        privacy.agreed(),
        rounds,
        metrics=frozenset({"auc", "average_precision"}),
        facts=PublicFacts(6000, 0.4),
        cohort=cohort,
        horizons=HORIZONS if timed else (),
    )


def areas(result):
    """Every AUC of a result, by name; of follow-up every count as a share, too."""
    if isinstance(result, TimedEvaluation | TimedEvaluations):
        parts = {"": result} if isinstance(result, TimedEvaluation) else result
        values = {n: p.auc(HORIZONS[-1]).value for n, p in parts.items()}
        for name, part in parts.items():
            for k, block in enumerate(part.table.counts):
                shares = block.ravel() / part.table.total
                values |= {f"{name}, {k}, {i}": v for i, v in enumerate(shares)}
        return values
    if isinstance(result, discreet.Evaluation):
        return {"": result.auc.value}
    if isinstance(result, GroupedComparison):
        return {
            (group, name): part.auc.value
            for group, each in (*result.items(), ("", result.pooled))
            for name, part in each.items()
        }
    return {name: part.auc.value for name, part in result.items()}


def oracle(rounds, sites):
    """Plain counting: the same statistic's parts, summed without anything else."""
    statistic = rounds[-1].statistic
    if isinstance(statistic, RankSums | Refined):
        statistic = ClassHistogram(Edges.realise(Warped(256)))
    if isinstance(statistic, SiteSums):  # exact ones are for more sites
        statistic = statistic.inner
    plan = planned(discreet.SecureAggregation(), (Round(statistic),), len(sites))
    return areas(run(plan, sites))


def simulated(plan, sites, tmp_path):
    del tmp_path
    if plan.privacy.carried_by == "shares":
        return run_exact(plan, sites, engine=Reference())
    return run(plan, sites)


POLICY = open_policy(
    population="people",
    privacy=tuple(KNOWN),
    units=UNIT_NAMES,
    groups=("*",),
    epsilon_per_plan=100,
    epsilon_total=100,
    delta_total=discreet.DistributedDP(1, "1e-5").delta,
    exact_sums=9,
    sites=1,
)


@dataclass
class Ledgers:
    """The ledgers of deployed sites, by node."""

    paths: dict[int, Path]

    @classmethod
    def new(cls, folder):
        paths = {k: folder / str(k) / "ledger.sqlite" for k in range(1, SITES + 1)}
        for path in paths.values():
            path.parent.mkdir()
            Ledger.new(path).close()
        return cls(paths)

    def charged(self):
        found = []
        for path in self.paths.values():
            with Ledger(path) as ledger:
                found += ledger.uses("people")
        return found

    @contextmanager
    def charged_in_full_or_not_at_all(self, plan):
        try:
            yield
        except DiscreetError:
            assert self.charged() == [], "it was charged before it was refused"
            raise
        assert len(self.charged()) == SITES * len(plan.rounds)


def key_of(site):
    return Ed25519PrivateKey.from_private_bytes(bytes([site]) * 32)


def signed(plan):
    """Give a plan of exact sums its roster: every site must sign."""
    if plan.privacy.name != "secure-aggregation":
        return plan
    members = [
        Member(f"site {k}", key_of(k).public_key().public_bytes_raw())
        for k in range(1, SITES + 1)
    ]
    return replace(plan, roster=Roster(tuple(members)))


def by_letters(plan, sites, tmp_path):
    """Deployed sites with policy and ledger, behind the bytes that would travel."""
    plan = signed(plan)
    ledgers = Ledgers.new(tmp_path)
    onces = {k: InMemory() for k in ledgers.paths}

    def site(k):
        return Site(
            lambda _: sites[k - 1],
            POLICY,
            Ledger(ledgers.paths[k], limits=POLICY.limits()),
            SYSTEM,
            onces[k],
            plan,
            key_of(k),
            response_key=ResponseKey(bytes([k]) * 32),
        )

    told = []
    exchange = InProcess(
        {k: partial(site, k) for k in onces}, lambda _, reason: told.append(reason)
    )
    with ledgers.charged_in_full_or_not_at_all(plan):
        releases = Coordinator(plan, list(onces), exchange).run()
    assert told == []
    return evaluation_of(plan, releases)


def by_flower(plan, sites, tmp_path):
    """Flower's server and client apps, with a grid in this process."""
    from flwr.clientapp import ClientApp

    from discreet.flower import add_evaluation, evaluate
    from flower_loop import LoopGrid, equipped

    plan, app = signed(plan), ClientApp()
    add_evaluation(app, lambda _, context: sites[context.node_id - 1])
    ledgers = Ledgers.new(tmp_path)
    nodes = {
        k: equipped(app, k, ledger.parent, POLICY, key_of(k))
        for k, ledger in ledgers.paths.items()
    }
    steps = []
    with ledgers.charged_in_full_or_not_at_all(plan):
        found = evaluate(LoopGrid(nodes), plan, sites=SITES, watch=steps.append)
    assert not any(step.refused or step.missing for step in steps)
    return found


FLOWER = pytest.param(by_flower, marks=pytest.mark.flower)


def can_be_planned(model, statistic):
    try:
        planned(MODELS[model], STATISTICS[statistic])
    except DiscreetError:
        return False  # nobody was asked
    return True


CELLS = [cell for cell in product(MODELS, STATISTICS) if can_be_planned(*cell)]


def test_enough_cells_are_carried_out():
    """The matrix must not pass because everything refuses."""
    assert len(CELLS) >= 40


@pytest.mark.parametrize("driver", [simulated, by_letters, FLOWER])
@pytest.mark.parametrize(("model", "statistic"), CELLS)
def test_a_cell_equals_plain_counting_or_refuses_before_a_charge(
    model, statistic, driver, tmp_path
):
    plan, sites = planned(MODELS[model], STATISTICS[statistic]), data(statistic)
    if model == "central":
        sites = sites[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.DisclosureWarning)
        try:
            found = areas(driver(plan, sites, tmp_path))
        except DiscreetError:
            carried = driver is simulated or plan.protocol.between_sites
            assert not carried, "a plan that was made is carried out"
            return
        expected = oracle(STATISTICS[statistic], sites)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=NEAR)


class Read:
    """A source of rows that knows how often it was read."""

    def __init__(self, examples):
        self.examples, self.times = examples, 0

    def __call__(self):
        self.times += 1
        for batch in self.examples.batches():
            yield RawBatch(batch.scores, batch.labels, batch.groups, batch.subjects)


@pytest.mark.parametrize(
    ("model", "statistic", "times"),
    [
        ("secure-aggregation", "histogram", 1),
        ("distributed", "equi-depth", 2),
        ("local, laplace", "histogram", 1),
        ("label, response", "histogram", 1),
        # Scores, then sums: between the two letters a site may be started again.
        ("label, choice", "rank-sums", 2),
    ],
)
def test_a_site_reads_its_data_once_a_round(model, statistic, times, tmp_path):
    plan = planned(MODELS[model], STATISTICS[statistic])
    sources = [Read(examples) for examples in data(statistic)]
    sites = [
        discreet.Examples.from_source(
            source, labels=LabelCode(), scores=plan.facts.scores, columns=1, name="site"
        )
        for source in sources
    ]
    by_letters(plan, sites, tmp_path)
    assert [source.times for source in sources] == [times] * SITES


@pytest.mark.parametrize("statistic", [s for s in STATISTICS if s.startswith("timed")])
def test_follow_up_is_refused_by_models_that_protect_no_time(statistic):
    refused = {m for m in MODELS if not can_be_planned(m, statistic)}
    assert refused == {
        *("local, arc", "local, unary", "local, levels", "exact"),
        *("label, response", "label, binned", "label, choice"),
    }


@pytest.mark.parametrize("statistic", [s for s in STATISTICS if s.startswith("timed")])
def test_an_exact_sum_of_follow_up_is_the_pooled_count(statistic, tmp_path):
    rounds, sites = STATISTICS[statistic], data(statistic)
    plan = planned(MODELS["secure-aggregation"], rounds)
    found = by_letters(plan, sites, tmp_path)
    tables = [found] if isinstance(found, TimedEvaluation) else [*found.values()]
    pooled = sum(rounds[0].statistic.count(site) for site in sites)
    expected = rounds[0].statistic.tables(pooled.astype(float), NoNoise())
    for part, counts in zip(tables, expected.values(), strict=True):
        assert np.array_equal(part.table.events[0], counts.events)
        assert np.array_equal(part.table.censored[0], counts.censored)
        assert np.array_equal(part.table.beyond[0], counts.beyond)


def test_a_plan_is_written_and_hashed_once(monkeypatch):
    """However many sites there are: each of these texts holds every edge."""
    plan, computed = planned(MODELS["distributed"], STATISTICS["histogram"]), []
    for name in ("_digest", "_asked"):
        kept = vars(Plan)[name]
        monkeypatch.setattr(
            kept,
            "func",
            lambda self, f=kept.func: (computed.append(f.__name__), f(self))[1],
        )
    written = []
    monkeypatch.setattr(coordinator, "dumps", lambda p: written.append(p) or dumps(p))
    run(plan, data("histogram"))
    assert sorted(computed) == ["_asked", "_digest"]
    assert len(written) == 1


def test_a_curator_has_one_source():
    with pytest.raises(discreet.PlanError, match="one source, not 3"):
        discreet.evaluate(data("histogram"), privacy=discreet.CentralDP(1), groups=[])
