"""How often intervals about sites hold: new sites, the mean site, clusters; and noise.

Four tables. *Sites*: the share of prediction intervals that hold a new site's true AUC
and of intervals that hold the mean site's, for sites of 50 to 20,000 patients. The
anchor and the method were chosen with AUC .8 and .87 at prevalence .25 and .4; here
are others.
*Clusters*: people with 1 to 10 rows that are alike; plain and clustered intervals.
*Alike*: sites whose patients are alike (shifted scores, other signal, other prevalence);
plain intervals and those that take the sites as clusters, of a population of sites.
*Noise*: DistributedDP(unit="client", epsilon=1), 30 to 1,000 sites: what the planner
predicts and what simulated releases have.

    python bench/heterogeneity.py [--repetitions 500] [--only TABLE] [--save]
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from typing import TypeAlias, cast

import numpy as np
from scipy.special import expit, logit, ndtri

import discreet
from discreet.arrays import FloatVector
from discreet.data.edges import Edges, Warped
from discreet.metrics.heterogeneity import AnchoredSums, RandomEffects, lost_in_noise
from discreet.noise.mechanism import BlockMechanism
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.heterogeneity import predicted_spreads
from discreet.plan.rounds import ResolvedRound
from discreet.statistic.effect_terms import Effect, EffectTerms
from discreet.statistic.protocol import BinCounts
from discreet.statistic.site_sums import SiteSums
from evidence import FITS, Cell, Evidence, Figure

EDGES = Edges.realise(Warped(512))
SIZES = (50, 20_000)
METRICS = ("auc", "average_precision", "brier")
Rows: TypeAlias = list[list[Cell]]


def share(number: float) -> Figure:
    return Figure(number, digits=3)


def site(
    rng: np.random.Generator, auc: float, size: int, prevalence: float
) -> BinCounts:
    """Return the counts of a site whose scores are two normals of this AUC."""
    positives = rng.binomial(size, prevalence)
    shift = math.sqrt(2) * ndtri(auc)
    found = []
    for mean, n in ((0.0, size - positives), (shift, positives)):
        scores = expit(rng.normal(mean, 1.0, n) - 0.8)
        bins = EDGES.bins_of(scores).astype(np.intp)
        found.append(np.bincount(bins, minlength=len(EDGES)).astype(float))
    return BinCounts(*found)


def cohorts(
    rng: np.random.Generator, sites: int, tau: float, auc: float, prevalence: float
) -> Iterator[tuple[FloatVector, float]]:
    """Draw a site's true logit AUC and its counts, and a new site's true one."""
    terms = EffectTerms.of("auc", private=False)
    spread = tau / (auc * (1 - auc))
    while True:
        truths = rng.normal(logit(auc), spread, sites)
        sizes = np.exp(
            rng.uniform(math.log(SIZES[0]), math.log(SIZES[1]), sites)
        ).astype(int)
        total = np.zeros(terms.size)
        for truth, size in zip(truths, sizes, strict=True):
            total += terms.encoded(EDGES, site(rng, expit(truth), size, prevalence))
        yield total, rng.normal(logit(auc), spread)


def sites_table(repetitions: int, seed: int) -> Rows:
    rows: Rows = []
    terms = EffectTerms.of("auc", private=False)
    print(f"Sites of {SIZES[0]} to {SIZES[1]:,} patients, {repetitions} cohorts a row")
    print("  AUC  prev  sites   tau | new site  textbook | mean   | fixed effect")
    for auc, prevalence in ((0.75, 0.15), (0.83, 0.3)):
        for sites in (10, 30, 100):
            for tau in (0.02, 0.05, 0.1):
                rng = np.random.default_rng([seed, sites, int(1000 * tau)])
                drawn = cohorts(rng, sites, tau, auc, prevalence)
                new = usual = mean = fixed = done = 0
                for total, truth in (next(drawn) for _ in range(repetitions)):
                    sums = AnchoredSums.of_numbers(terms.totals(total), terms.anchor)
                    found = RandomEffects(sums)
                    if found.refusal is not None:
                        continue
                    done += 1
                    new += inside(found.prediction(), truth)
                    usual += inside(found.textbook_prediction(), truth)
                    mean += inside(found.interval(), logit(auc))
                    reach = 1.96 * math.sqrt(float(sums.variance(0.0)))
                    fixed += abs(sums.mean - truth) <= reach
                shares = [x / done for x in (new, usual, mean, fixed)]
                print(
                    f"  {auc:.2f} {prevalence:.2f} {sites:5d} {tau:6.2f} |  {shares[0]:.3f} "
                    f"     {shares[1]:.3f}   | {shares[2]:.3f}  | {shares[3]:.3f}",
                    flush=True,
                )
                rows.append(
                    [f"{auc:g}, {prevalence:g}", str(sites), f"{tau:g}"]
                    + [share(x) for x in shares]
                )
    return rows


def inside(ends: tuple[float, float], truth: float) -> bool:
    return ends[0] <= truth <= ends[1]


def people(rng: np.random.Generator, size: int) -> discreet.Examples:
    """Draw people with 1 to 10 rows, alike by a share of .64 of the variance."""
    y = rng.random(size) < 0.35
    rows = rng.integers(1, 11, size)
    own = np.repeat(rng.normal(0, 0.8, size), rows)
    labels = np.repeat(y, rows)
    z = 1.3 * labels - 0.9 + own + rng.normal(0, 0.6, rows.sum())
    who = np.repeat(np.arange(size), rows)
    return discreet.Examples(expit(z), labels, subjects=who, check=False)


def clusters_table(repetitions: int, seed: int) -> Rows:
    """Ten sites of 60 people; the truth from 400,000 people."""
    rng = np.random.default_rng([seed, 77])
    heterogeneity = discreet.HeterogeneityQuestion((), within=False, clusters="subject")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        large = discreet.evaluate(
            [people(rng, 400_000)], edges=Warped(1024), interpolation="linear"
        )
        truth = {m: large.metrics[m].value for m in METRICS}
        plain = dict.fromkeys(METRICS, 0)
        over = dict.fromkeys(METRICS, 0)
        for _ in range(repetitions):
            drawn = [people(rng, 60) for _ in range(10)]
            found = discreet.evaluate(
                drawn, edges=Warped(256), heterogeneity=heterogeneity
            )
            for m in METRICS:
                plain[m] += inside(found.metrics[m].interval(), truth[m])
                ends = found.metrics[m].interval(cluster="subject")
                over[m] += inside(ends, truth[m])
    print(f"Clusters: 600 people with 1 to 10 rows, {repetitions} cohorts")
    for m in METRICS:
        print(
            f"  {m:18} plain {plain[m] / repetitions:.3f}   clustered "
            f"{over[m] / repetitions:.3f}",
            flush=True,
        )
    rows: Rows = []
    for m in METRICS:
        both = (share(x[m] / repetitions) for x in (plain, over))
        rows.append([m.replace("_", " "), *both])
    return rows


def alike(rng: np.random.Generator, size: int) -> tuple[FloatVector, FloatVector]:
    """Draw a site: its own shift of the scores, signal, and prevalence."""
    shift, signal, odds = rng.normal((0.0, 1.3, -0.8), (0.35, 0.25, 0.4))
    y = rng.random(size) < expit(odds)
    z = signal * y - 0.9 + shift + rng.normal(0, 1, size)
    return expit(z), y.astype(np.float64)


def alike_table(repetitions: int, seed: int) -> Rows:
    """Sites of 200 to 2,000 patients; the truth from 20,000 sites of the same kind."""
    rows: Rows = []
    rng = np.random.default_rng([seed, 78])
    heterogeneity = discreet.HeterogeneityQuestion((), within=False, clusters="site")

    def size() -> int:
        return round(math.exp(rng.uniform(math.log(200), math.log(2000))))

    print(f"Alike: sites as clusters, {repetitions} cohorts a row; plain, clustered")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = [alike(rng, size()) for _ in range(20_000)]
        whole = discreet.Examples(
            *map(np.concatenate, zip(*drawn, strict=True)), check=False
        )
        large = discreet.evaluate([whole], edges=Warped(1024), interpolation="linear")
        truth = {m: large.metrics[m].value for m in METRICS}
        for sites in (10, 20, 50):
            plain, over = dict.fromkeys(METRICS, 0), dict.fromkeys(METRICS, 0)
            for _ in range(repetitions):
                found = discreet.evaluate(
                    [
                        discreet.Examples(*alike(rng, size()), check=False)
                        for _ in range(sites)
                    ],
                    edges=Warped(256),
                    heterogeneity=heterogeneity,
                )
                for m in METRICS:
                    plain[m] += inside(found.metrics[m].interval(), truth[m])
                    ends = found.metrics[m].interval(cluster="site")
                    over[m] += inside(ends, truth[m])
            shares = ", ".join(
                f"{m} {plain[m] / repetitions:.3f} {over[m] / repetitions:.3f}"
                for m in METRICS
            )
            print(f"  {sites:3d} sites: {shares}", flush=True)
            pairs = (x for m in METRICS for x in (plain[m], over[m]))
            rows.append([str(sites), *(share(x / repetitions) for x in pairs)])
    return rows


def noise_table(repetitions: int, seed: int) -> Rows:
    rows: Rows = []
    print(f"DistributedDP(epsilon=1, unit='client'), {repetitions} releases a row")
    print("  sites  share | sd of tau2: predicted  measured  ratio | refused  new site")
    for sites in (30, 100, 300, 1000, 3000):
        model = discreet.DistributedDP(1, unit="client", max_examples=1000)
        plan = discreet.recommend(
            PublicFacts(examples=1000 * sites, prevalence=0.25),
            model,
            heterogeneity=discreet.HeterogeneityQuestion(within=False),
            cohort=Cohort(sites, 1),
        )
        statistic = cast("SiteSums", plan.statistic)
        terms = statistic.effects[0]
        told = predicted_spreads(statistic, plan.privacy, plan.facts, plan.cohort)[0]
        this = ResolvedRound(0, statistic, plan.privacy.loss)
        noise = (
            cast("BlockMechanism", plan.privacy.mechanism_for(this, plan.cohort))
            .noise(sites)
            .noises[1]
        )
        rng = np.random.default_rng([seed, sites])
        errors: list[float] = []
        refused = held = read = 0
        for _ in range(repetitions):
            sizes = np.exp(rng.uniform(math.log(100), math.log(5000), sites))
            variances = 2.2 / (sizes * 0.15 * 0.85)
            effects = rng.normal(1.2, np.sqrt(variances + 0.09))
            total = np.zeros(terms.size)
            for effect in map(Effect, effects, variances):
                total += terms.of_effect(effect)
            noisy = total + noise.sample(total, 1, rng)[0]
            both = [
                AnchoredSums.of_numbers(terms.totals(t), terms.anchor)
                for t in (total, noisy)
            ]
            if not both[1].leverage > 0:  # not even the number of sites is left
                refused += 1
                continue
            exact, seen = ((s.noisy_q - s.expected_q(0)) / s.leverage for s in both)
            errors.append(float(seen - exact))
            matrix = terms.sums()
            variance = float(noise.covariance(np.zeros(2)).negatives[0])
            found = RandomEffects(both[1], noise=variance * (matrix @ matrix.T))
            if found.refusal or lost_in_noise(terms, found):
                refused += 1
                continue
            read += 1
            held += inside(found.prediction(), rng.normal(1.2, 0.3))
        spread = float(np.median(np.abs(errors))) / 0.6745
        covered = f"{held / read:.3f}" if read else "  -  "
        print(
            f"  {sites:5d}  {float(statistic.share):5.2f} | {told.noise_of_tau2:21.4f} "
            f"{spread:9.4f} {told.noise_of_tau2 / spread:6.2f} | "
            f"{refused / repetitions:6.1%}  {covered}",
            flush=True,
        )
        errors_of = (share(told.noise_of_tau2), share(spread))
        lost = f"{refused / repetitions:.0%}"
        rows.append([f"{sites:,}", str(statistic.share), *errors_of, lost, covered])
    return rows


CLUSTERED = ("plain interval", "clustered")
TABLES = {
    "sites": (
        sites_table,
        (
            *("AUC, prevalence", "sites", "tau", "new site", "textbook's new site"),
            *("mean site", "fixed effect, for a new site"),
        ),
    ),
    "clusters": (clusters_table, ("of 600 people", *CLUSTERED)),
    "alike": (
        alike_table,
        ("sites", *(f"{m}: {c}" for m in ("AUC", "AP", "Brier") for c in CLUSTERED)),
    ),
    "noise": (
        noise_table,
        (
            *("sites", "share", "noise of tau^2, predicted", "measured", "refused"),
            "a new site's interval holds",
        ),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--save", action="store_true", help="into results/")
    args = parser.parse_args()
    evidence = Evidence(
        "heterogeneity",
        FITS,
        {"repetitions": args.repetitions, "seed": args.seed},
    )
    for name, (table, columns) in TABLES.items():
        if args.only in (None, name):
            evidence.table(name, columns, table(args.repetitions, args.seed))
    if args.save:
        evidence.save()


if __name__ == "__main__":
    main()
