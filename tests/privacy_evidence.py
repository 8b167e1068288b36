"""What each claim says and what its release really loses, on cases small enough.

``python tests/privacy_evidence.py --write`` writes the table into
docs/privacy-evidence.md. Every row goes the way of a plan: the plan makes the
mechanism, the statistic counts real rows, and neighbours are enumerated.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

import curator_oracles as oracle
from audits import audit_scores
from discreet.curator.weighted_count import ap_weights, auc_weights
from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.data.prior_spread import PriorSpread
from discreet.entropy import Seeded
from discreet.label.released_sums import SummedEndpoint
from discreet.label.sum_noise import discrete_delta
from discreet.models.central import CentralDP
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.mpc.model import PartyNoise
from discreet.noise.binned_positives import BinnedPositives
from discreet.noise.mechanism import Mechanism
from discreet.noise.polya import PolyaNoise, PolyaShares
from discreet.noise.response import flip_threshold
from discreet.noise.skellam import SkellamShares, SymmetricTable, skellam_table
from discreet.noise.unary import LevelReports, UnaryEncoding, UnaryReports
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Release, Round
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import Unit
from discreet.session.respond import bounded
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
from discreet.statistic.protocol import Statistic
from discreet.statistic.site_sums import SiteSums
from discreet.statistic.timed import (
    TimedGroups,
    TimedHistogram,
    TimedHorizons,
    TimedPair,
)
from discreet.statistic.weighted import Weighted
from label_cases import GAUSSIAN, GAUSSIAN_BUDGET, LINEAR, linear_of, random_sites
from label_cases import loss_of_move as loss_of_sums
from label_cases import moves as flips
from oracles import polya_log_pmf

PAGE = Path(__file__).parents[1] / "docs" / "privacy-evidence.md"
SITES = 3
MOST = 2  # examples of a subject or client
BINS = Edges.realise(Uniform(2))
TREE = Hierarchy(Edges.realise(Uniform(4)), 2)
LOOK = ClassHistogram(Edges.realise(PriorSpread(4, 0.2)))
CLASSES = ("x", "y", "z")
HEAVIEST = 3
FOLLOWED = TimedHistogram(BINS, (0.0, 1.0, 2.0))
STATISTICS: dict[str, Statistic] = {
    "histogram": ClassHistogram(BINS),
    "groups": Grouped(ClassHistogram(BINS), ("a", "b")),
    "one-vs-rest": OneVsRest(BINS, CLASSES),
    "one-vs-one": OneVsOne(BINS, CLASSES),
    "two models, marginals": Paired(BINS, BINS, "marginals"),
    "two models, joint": Paired(BINS, BINS, "joint"),
    "two models in groups": PairedInGroups(BINS, BINS, "joint", ("a", "b")),
    "several labels": MultiLabel(BINS, ("x", "y")),
    "tree": TREE,
    "weights": Weighted(ClassHistogram(BINS), HEAVIEST),
    "follow-up": FOLLOWED,
    "follow-up in groups": TimedGroups(FOLLOWED, ("a", "b")),
    "two models on follow-up": TimedPair(FOLLOWED),
    "scores for two horizons": TimedHorizons(FOLLOWED, (1.0, 2.0)),
}
ROUNDING = 1e-9
FLIP = "one label flipped"


@dataclass(frozen=True)
class Row:
    """One line of the table; ``computed`` is in the unit of what is claimed."""

    model: str
    statistic: str
    unit: str
    claimed: str
    limit: float
    computed: float
    method: str

    @property
    def kept(self) -> bool:
        return self.computed <= self.limit * (1 + ROUNDING)


# -- neighbours ------------------------------------------------------------


def kinds(statistic: Statistic) -> list[tuple]:
    """All rows that the statistic can tell apart: scores, label, group."""
    columns = 1
    labels: tuple = (0, 1)
    grouped = isinstance(statistic, Grouped | PairedInGroups | TimedGroups)
    groups = ("a", "b") if grouped else ("",)
    if isinstance(statistic, OneVsRest | OneVsOne):
        columns, labels = len(CLASSES), CLASSES
    if isinstance(statistic, Paired | TimedPair | TimedHorizons):
        columns = 2
    if statistic.time_cuts is not None:  # a time in each interval, and past the last
        labels = tuple(itertools.product((0.5, 1.5, 3.0), (0, 1)))
    if isinstance(statistic, MultiLabel):
        columns = len(statistic.labels)
        labels = tuple(itertools.product((0, 1), repeat=columns))
    if isinstance(statistic, Weighted):
        groups = tuple(range(HEAVIEST + 1))  # what a row weighs, in a group's place
    middles = statistic.binnings[0].array
    middles = (middles[1:] + middles[:-1]) / 2
    scores = itertools.product(middles.tolist(), repeat=columns)
    return list(itertools.product(scores, labels, groups))


def counted(statistic: Statistic, unit: Unit, rows, subjects) -> tuple[int, ...]:
    """Count rows as a site does, with its bound on each unit's rows."""
    multi = isinstance(statistic, OneVsRest | OneVsOne)
    columns = len(statistic.binnings) if isinstance(statistic, Paired) else 1
    columns = len(CLASSES) if multi else columns
    timed = statistic.time_cuts is not None
    columns = len(statistic.columns) if timed else columns
    several = isinstance(statistic, MultiLabel)
    columns = len(statistic.labels) if several else columns
    scores = np.array([row[0] for row in rows], dtype=float).reshape(-1, columns)
    of_labels = object if multi else np.float64
    labels = np.array([row[1] for row in rows], dtype=of_labels)
    labels = labels if multi else labels.astype(np.int64)
    if timed:
        times, labels = np.array([row[1] for row in rows]).reshape(-1, 2).T
        outcome = {"time": times, "event": labels.astype(np.int64)}
    else:
        outcome = {"labels": labels.reshape(-1, columns) if several else labels}
    examples = Examples(
        scores if columns > 1 else scores[:, 0],
        **outcome,
        groups=np.array([row[2] for row in rows], dtype=object),
        subjects=np.array(subjects, dtype=object),
        classes=CLASSES if multi else None,
        weights=[row[2] for row in rows] if isinstance(statistic, Weighted) else None,
        check=False,
    ).fitted()
    return tuple(statistic.count(bounded(examples, unit)).tolist())


@cache
def moves(name: str, unit: Unit) -> frozenset[tuple[int, ...]]:
    """How far neighbours' counts lie apart, cell by cell, without sign and order."""
    statistic = STATISTICS[name]
    found = set()
    for here, there in neighbours(statistic, unit):
        one, two = (counted(statistic, unit, *side) for side in (here, there))
        apart = sorted(abs(a - b) for a, b in zip(one, two, strict=True) if a != b)
        found.add(tuple(apart))
    return frozenset(found - {()})


def neighbours(statistic: Statistic, unit: Unit) -> Iterator[tuple]:
    every = kinds(statistic)
    others = [every[0], every[-1]]
    known = ["other 1", "other 2"]
    if unit.relation == "replace":
        for a, b in itertools.combinations(every, 2):
            yield ([*others, a], [*known, "p"]), ([*others, b], [*known, "p"])
        return
    if unit.kind == "client":  # all that the site holds
        others, known = [], []
    units = [[a] for a in every]
    if unit.kind in ("client", "subject"):
        units += [[a, b] for a, b in itertools.combinations_with_replacement(every, 2)]
        units += [[a] * (MOST + 2) for a in every]  # beyond the bound
    for held in units:
        more = ["p"] * len(held)
        yield ([*others, *held], [*known, *more]), (others, known)


# -- exact losses ----------------------------------------------------------


def loss_of(mechanism: Mechanism, apart: tuple[int, ...], unknown: int) -> float:
    """The exact epsilon, or delta at epsilon, of additive noise that nobody knows."""
    if isinstance(mechanism, PolyaShares):
        noise = PolyaNoise(float(mechanism.gamma), unknown / mechanism.honest)
        logs = polya_log_pmf(noise, np.arange(-80, 81))
        return sum(float(np.abs(logs[d:] - logs[:-d]).max()) for d in apart)
    assert isinstance(mechanism, SkellamShares)
    table = skellam_table(mechanism.variance * unknown)
    return delta_of(table, apart, float(mechanism.budget.epsilon))


def delta_of(table: SymmetricTable, apart: tuple[int, ...], epsilon: float) -> float:
    """Delta of several moved cells: losses rounded up to a grid and convolved."""
    if len(apart) == 1:
        return table.hockey_stick(epsilon, shift=apart[0])
    step = 1e-3
    whole, low, lost = np.ones(1), 0, 0.0
    for d in apart:
        p, q = table.probabilities[:-d], table.probabilities[d:]
        likely = p > 1e-30
        lost += float(p[~likely].sum() + table.probabilities[-d:].sum())
        places = np.ceil(np.log(p[likely] / q[likely]) / step).astype(int)
        noise = np.bincount(places - places.min(), weights=p[likely])
        whole, low = np.convolve(whole, noise), low + int(places.min())
    losses = (low + np.arange(whole.size)) * step
    gain = np.maximum(-np.expm1(epsilon - losses), 0.0)
    return float(whole @ gain) + lost


TABLES = "exact table of the noise, all neighbours"


def added(model: PrivacyModel, name: str) -> Row:
    """A plan of one round with additive noise."""
    cohort = model.cohort(SITES)
    statistic = STATISTICS[name]
    timed = statistic.time_cuts is not None
    plan = Plan(
        *(model, (Round(statistic),)),
        facts=PublicFacts(),
        cohort=cohort,
        horizons=(1.0, 2.0) if timed else (),
    )
    mechanism = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    # One share less than is in the sum: the reader of the result knows its own.
    alone = plan.privacy.carried_by != "secure-sum"
    unknown = 1 if alone else cohort.min_survivors - cohort.colluders
    unit = plan.privacy.protects
    worst = max(loss_of(mechanism, apart, unknown) for apart in moves(name, unit))
    loss = plan.privacy.loss
    pure = isinstance(loss, PureDP)
    kind = "laplace" if plan.privacy.name == "local" else "pure" if pure else "delta"
    title, limit = f"{plan.privacy.name}, {kind}", loss.epsilon if pure else loss.delta
    return Row(title, name, str(unit), str(loss), float(limit), worst, TABLES)


def two_rounds(unit_name: str, second: Refined) -> Row:
    """A pilot round of a tree or of cells, then counts over the edges that it gives."""
    most = None if unit_name == "example" else MOST
    model = DistributedDP(1, unit=unit_name, max_examples=most)
    pilot = second.follows
    rounds = (Round(pilot, Fraction(1, 5)), Round(second, Fraction(4, 5)))
    plan = Plan(model, rounds, facts=PublicFacts(), cohort=model.cohort(SITES))
    unit, unknown = plan.privacy.protects, SITES - 1
    first = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(3):  # whatever was released first
        total = rng.integers(-5, 20, pilot.size)
        release = Release(plan.digest(), b"", 0, total, SITES, SITES, PureDP(1))
        this = plan.resolve(1, [release])
        then = plan.privacy.mechanism_for(this, plan.cohort)
        for here, there in neighbours(pilot, unit):
            loss = 0.0
            for statistic, mechanism in ((pilot, first), (this.statistic, then)):
                one, two = (counted(statistic, unit, *side) for side in (here, there))
                apart = [abs(a - b) for a, b in zip(one, two, strict=True) if a != b]
                loss += loss_of(mechanism, tuple(apart), unknown)
            worst = max(worst, loss)
    name = f"two rounds, {second.name}"
    return Row("distributed, pure", name, str(unit), "1-DP", 1.0, worst, TABLES)


SITES_MODELS = (
    DistributedDP(1),
    DistributedDP(1, unit="client", max_examples=5),
    LocalDP(1, "laplace"),
)


def site_effects(model: PrivacyModel) -> Row:
    """A histogram and the sites' AUC, each block with its own noise and share."""
    terms = replace(EffectTerms.of("auc", private=True), unit=16, fewest=2)
    statistic = SiteSums(ClassHistogram(BINS), (terms,), share=Fraction(1, 4))
    cohort = Cohort(SITES, 0 if model.carried_by == "relay" else 1)
    plan = Plan(model, (Round(statistic),), facts=PublicFacts(), cohort=cohort)
    mechanism = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    unknown = 1 if model.carried_by == "relay" else SITES - 1
    unit = plan.privacy.protects
    every = kinds(statistic)
    worst = 0.0
    for size in (4, 5):
        for rows in itertools.combinations_with_replacement(every, size):
            here = counted(statistic, unit, rows, range(size))
            others = [()] if unit.kind == "client" else map(rows.__add__, zip(every))
            for other in others:
                there = counted(statistic, unit, other, range(len(other)))
                apart = np.abs(np.subtract(here, there))
                cuts = np.split(apart, np.cumsum(mechanism.sizes)[:-1])
                worst = max(
                    worst,
                    sum(
                        loss_of(noise, tuple(cut[cut > 0].tolist()), unknown)
                        for noise, cut in zip(mechanism.mechanisms, cuts, strict=True)
                    ),
                )
    name = "local, laplace" if model.carried_by == "relay" else f"{model.name}, pure"
    how = "exact table of the noise, all sites of 4 and 5 rows, all neighbours"
    return Row(name, "sites' AUC", str(unit), str(model.loss), 1.0, worst, how)


# -- channels --------------------------------------------------------------


def local(mechanism_name: str) -> Row:
    """One message an example: the largest ratio of the channel's rows."""
    model = LocalDP(1, mechanism_name)
    statistic = TREE if mechanism_name == "levels" else ClassHistogram(BINS)
    plan = Plan(model, (Round(statistic),), facts=PublicFacts(), cohort=Cohort(SITES))
    mechanism = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    if isinstance(mechanism, UnaryReports):
        worst = bits_loss(mechanism.budget, 2 * len(BINS))
    elif isinstance(mechanism, LevelReports):
        widths = [2 * 2**level for level in range(1, TREE.height + 1)]
        worst = max(bits_loss(mechanism.budget, width) for width in widths)
    else:
        weights = mechanism.weights()
        assert (weights.sum(axis=1) == mechanism.total_weight).all()
        ratio = max(
            Fraction(int(a), int(b)) for c in weights.T for a in set(c) for b in set(c)
        )
        worst = math.log(ratio)
    name = "tree" if mechanism_name == "levels" else "histogram"
    unit, how = str(plan.privacy.protects), "exact channel, all pairs of rows"
    return Row(f"local, {mechanism_name}", name, unit, "1-DP", 1.0, worst, how)


def bits_loss(budget: PureDP, cells: int) -> float:
    """The largest log ratio of all bit vectors under any two own cells."""
    q = UnaryEncoding(budget).other_probability
    vectors = np.array(list(itertools.product((0, 1), repeat=cells)))
    logs = []
    for own in range(cells):
        ones = np.full(cells, q)
        ones[own] = 0.5
        logs.append((np.log(ones) * vectors + np.log1p(-ones) * (1 - vectors)).sum(1))
    return max(float(np.abs(a - b).max()) for a in logs for b in logs)


def response() -> Row:
    threshold = flip_threshold(Fraction(1))
    ratio = Fraction(2**128 - threshold, threshold)
    loss, how = math.log(ratio), "exact channel; the key's responses taken as random"
    return Row("label, response", "histogram", FLIP, "1-DP", 1.0, loss, how)


BINNED = np.array([3, 0, 2, 1]), np.array([2, 0, 3, 1])
LONE = np.array([0, 3, 1, 1]), np.array([1, 3, 0, 1])
RUNS = 60_000


def binned(*, sized_for: int = 1, pairs=None) -> Row:
    """Audited: a crowded bin's label flipped, and a lone one.

    Bins are protected independently: RUNS copies of the bins are RUNS releases.
    """
    mechanism = BinnedPositives(PureDP(Fraction(sized_for)), RUNS * len(BINS))

    def released(exact, entropy):
        copies = np.concatenate([np.tile(part, RUNS) for part in np.split(exact, 2)])
        sent = mechanism.protect(copies, entropy=entropy).reshape(5, RUNS, -1)
        return np.hstack([sent[0] + sent[2], sent[1] + sent[3]])

    worst = 0.0
    for one, other in pairs or (BINNED, LONE):
        entropy, direction = Seeded(b"evidence"), (one - other).astype(float)
        scores = [released(side, entropy) @ direction for side in (one, other)]
        worst = max(worst, audit_scores(*scores, alpha=1e-6).epsilon_at_least)
    how = (
        f"audit of {RUNS} runs, a lower bound; its twin with half the noise is refuted"
    )
    return Row("label, binned", "histogram", FLIP, "1-DP", 1.0, worst, how)


# -- sums of ranks, single numbers, exact areas ----------------------------


def ranks(name: str) -> Row:
    worst = Fraction(0)
    for site in random_sites(12, np.random.default_rng(7)):
        if name == "endpoint in total":
            made = SummedEndpoint(site.examples, PureDP(Fraction(1)), honest=1)
            scale = 1 / made._shares.gamma  # the law of the honest shares
            costs = (int(np.abs(m).sum()) / scale for m in flips(made, site))
        else:
            found = linear_of(name, site, PureDP(Fraction(1)))
            if found is None:
                continue  # the choice fell on flips: the row above
            costs = (loss_of_sums(found, m) for m in flips(found, site))
        worst = max(worst, *costs)
    return _of_ranks(name, "1-DP", 1.0, float(worst))


def gaussian_ranks(name: str) -> Row:
    worst = 0.0
    for site in random_sites(8, np.random.default_rng(7)):
        found = linear_of(name, site, GAUSSIAN_BUDGET)
        moved = [tuple(m.tolist()) for m in flips(found, site)]
        noises = [row.noise for row in found.rows]
        epsilon = float(GAUSSIAN_BUDGET.epsilon)
        worst = max(worst, discrete_delta(epsilon, moved, noises))
    limit = float(GAUSSIAN_BUDGET.delta)
    return _of_ranks(f"{name}, delta", str(GAUSSIAN_BUDGET), limit, worst)


def _of_ranks(name: str, claimed: str, limit: float, worst: float) -> Row:
    how = "noise distribution, all labels of small sites, all flipped labels"
    return Row(f"label, {name}", "rank sums", FLIP, claimed, limit, worst, how)


def curator(what: str) -> Row:
    weights, metric = {
        "AUC": (auc_weights, oracle.auc),
        "average precision": (ap_weights, oracle.average_precision),
    }[what]
    rows, epsilon = 5, Fraction(1)
    table = weights(rows)
    scale = table.scale(epsilon)

    def integers(ranking):
        n = oracle.class_counts(ranking)[0]
        value = round((metric(ranking) - Fraction(1, 2)) * int(table.weights[n]))
        return value, int(table.codes[n])

    worst = 0.0
    for ranking in oracle.strict_rankings(rows):
        for other in oracle.neighbours(ranking, ties=False):
            pairs = zip(integers(ranking), integers(other), strict=True)
            worst = max(worst, float(sum(abs(a - b) for a, b in pairs) / scale))
    how = "noise distribution, all rankings of 5 rows, all neighbours"
    return Row("central", what, "one row replaced", "1-DP", 1.0, worst, how)


def noisy_opening() -> Row:
    rows, worst = 4, 0
    table = {}
    for ranking in oracle.tied_rankings(rows):
        n, m = oracle.class_counts(ranking)
        table[ranking] = (oracle.doubled_wins(ranking) - n * m, n * rows)
    for ranking, pair in table.items():
        for other in oracle.neighbours(ranking, ties=True):
            apart = zip(pair, table[other], strict=True)
            worst = max(worst, sum(abs(a - b) for a, b in apart))
    gamma = PartyNoise(rows, Fraction(1)).shares.gamma
    how = "distribution of two parties' noise, all rankings of 4 rows, all neighbours"
    loss = float(worst * gamma)
    return Row("exact, epsilon", "AUC", "one row replaced", "1-DP", 1.0, loss, how)


# -- the table -------------------------------------------------------------


def cases() -> dict[str, object]:
    """Every row by its name, each made when it is called."""
    found = {}
    for name in STATISTICS:
        for unit in ("example", "subject", "client"):
            most = None if unit == "example" else MOST
            for delta in (0, "0.001"):
                model = DistributedDP(1, delta, unit, most)
                key = f"distributed {delta} {name} {unit}"
                found[key] = lambda m=model, n=name: added(m, n)
        found[f"laplace {name}"] = lambda n=name: added(LocalDP(1, "laplace"), n)
        for delta in (0, "0.001"):
            found[f"central {delta} {name}"] = lambda d=delta, n=name: added(
                CentralDP(1, d), n
            )
    found |= {
        f"two rounds {second.name} {unit}": lambda u=unit, s=second: two_rounds(u, s)
        for unit in ("example", "subject", "client")
        for second in (EquiDepthFrom(TREE, 2), PlacedFrom(LOOK, 3))
    }
    found |= {
        f"sites {model.name} {model.protects}": lambda m=model: site_effects(m)
        for model in SITES_MODELS
    }
    for name in ("arc", "unary", "levels"):
        found[f"local {name}"] = lambda n=name: local(n)
    found["response"] = response
    found["binned"] = binned
    for name in (*LINEAR, "endpoint in total"):
        found[f"ranks {name}"] = lambda n=name: ranks(n)
    for name in GAUSSIAN:
        found[f"ranks {name}, delta"] = lambda n=name: gaussian_ranks(n)
    for name in ("AUC", "average precision"):
        found[f"curator {name}"] = lambda n=name: curator(n)
    found["noisy opening"] = noisy_opening
    return found


@cache
def row(name: str) -> Row:
    return cases()[name]()


def page() -> str:
    """Return the page: statistics with the same result share a line."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for name in cases():
        r = row(name)
        number = f"{r.computed:.4f}" if r.limit == 1.0 else f"{r.computed:.3g}"
        key = (r.model, r.unit, r.claimed, number, r.method)
        lines.setdefault(key, []).append(r.statistic)
    text = "".join(
        f"| {model} | {'; '.join(counted)} | {' | '.join(rest)} |\n"
        for (model, *rest), counted in lines.items()
    )
    rule = "|---|---|---|---|---|---|\n"
    return PAGE.read_text().partition(rule)[0] + rule + text


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        sys.stdout.write(page())
