"""How near the planner's predicted noise is to what real scores get.

For each set of real scores, size and epsilon, test sets are drawn with replacement, the
plan that public facts recommend is carried out on each, and the error against the same
test set's exact value is taken: root mean square over the repetitions. The planner is
told the size, the prevalence and the AUC, nothing else.

    python bench/prediction.py [--half tuning|held-out] [--scores real|shared|trained]
        [--repetitions 20] [--save]

Each entry: predicted over measured, for the AUC and average precision. Sets of the
``tuning`` half were used to choose how errors are predicted; docs quote the other.
``real`` scores are those of ``bench/real_sets.py``, on which nothing was chosen,
``shared`` ones lie in ``../shared/data``, ``trained`` ones are of models trained here
(``bench/trained.py``); of the first and the last, three of the nine sizes and epsilons
each.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from datasets import lacking
from discreet.models.distributed import DistributedDP
from discreet.noise.mechanism import AdditiveNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Release
from discreet.report.build import evaluation
from discreet.report.evaluation import Evaluation
from discreet.report.prediction import predict
from evidence import FITS, Evidence, Figure
from real_sets import real_sets
from synthetic import Population, population
from trained import trained

METRICS: Final = ("auc", "average_precision")
SETS: Final = {
    "tuning": ("bank-xgb", "adult-xgb"),
    "held-out": ("adult-lr", "adult-xgb-oof", "bank-xgb-oof", "cover-xgb"),
}
SIZES: Final = (2_000, 6_000, 20_000)
EPSILONS: Final = ("0.3", "1", "3")
NEAR: Final = 1.5
TITLES: Final = {
    "real": "real sets on which nothing was chosen",
    "shared": "adult, bank and cover types, held-out half",
    "trained": "models trained on made classes, held-out half",
}
SCORES: Final = tuple(TITLES)
COLUMNS: Final = (
    *("scores", "cells", "AUC within 1.5 times (range)", "median"),
    *("average precision within 1.5 times (range)", "median"),
)
_EACH: Final = 3
Errors = dict[str, float]


def releases(
    data: Population, plan: Plan, repetitions: int, rng: np.random.Generator
) -> Iterator[tuple[Population, Evaluation]]:
    """Draw test sets with replacement, and carry the plan out on each."""
    this = plan.resolve(0, [])
    mechanism = plan.privacy.mechanism_for(this, plan.cohort)
    if not isinstance(mechanism, AdditiveNoise):
        raise TypeError("only noise that is added is measured here")
    sites = plan.cohort.min_survivors
    distribution, (edges,) = mechanism.noise(sites), this.statistic.binnings
    shares = data.counts.ravel() / data.examples
    for _ in range(repetitions):
        drawn = rng.multinomial(plan.facts.examples or 0, shares).reshape(2, -1)
        seen = drawn.any(axis=0)
        sample = replace(data, scores=data.scores[seen], counts=drawn[:, seen])
        exact = sample.cells(edges).ravel()
        noise = np.rint(distribution.sample(exact, 1, rng)[0])
        total = (exact + noise).astype(np.int64)
        release = Release(plan.digest(), b"made", 0, total, sites, sites, this.loss)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            claim = plan.claim("simulated", sites=sites)
            yield sample, evaluation(plan, [release], claim)


def measured(
    data: Population, plan: Plan, repetitions: int, rng: np.random.Generator
) -> Errors | None:
    """Return the root mean square errors of noise, None where most are refused."""
    errors = [
        [found.metrics[m].value - getattr(sample, m) for m in METRICS]
        for sample, found in releases(data, plan, repetitions, rng)
        if found.fit.refusal is None
    ]
    if len(errors) < repetitions / 2:
        return None
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    return dict(zip(METRICS, map(float, rms), strict=True))


def cells(half: str, scores: str) -> Iterator[tuple[Population, int, str]]:
    """Return populations with sizes and epsilons."""
    every = [(n, e) for n in SIZES for e in EPSILONS]
    if scores == "shared":
        for name in SETS[half]:
            if line := lacking(name):
                print(line)
                continue
            data = population(f"real:{name}")
            yield from ((data, *cell) for cell in every)
        return
    rng = np.random.default_rng(len(half))
    held_out = half == "held-out"
    some = trained(held_out=held_out) if scores == "trained" else real_sets()
    for data in some if held_out or scores == "trained" else ():
        for i in rng.permutation(len(every))[:_EACH]:
            yield data, *every[i]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=tuple(SETS), default="held-out")
    parser.add_argument("--scores", choices=SCORES, default="real")
    parser.add_argument("--save", action="store_true", help="all scores, into results/")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2026)
    chosen = parser.parse_args()
    rows: list[list[str | Figure]] = []
    for scores in SCORES if chosen.save else [chosen.scores]:
        near = compared(scores, chosen)
        rows.append([TITLES[scores], Figure(len(near[METRICS[0]]), digits=0)])
        for metric, ratios in near.items():
            within = sum(1 / NEAR <= r <= NEAR for r in ratios)
            rows[-1] += [f"{within} ({min(ratios):.2f} to {max(ratios):.2f})"]
            rows[-1] += [Figure(float(np.median(ratios)))]
            print(
                f"{metric}: {within} of {len(ratios)} within a factor of {NEAR}, "
                f"median {np.median(ratios):.2f}"
            )
    if chosen.save:
        evidence = Evidence(
            "prediction",
            (*FITS, "report/build", "report/prediction"),
            {"repetitions": chosen.repetitions, "seed": chosen.seed},
        )
        evidence.table("near", COLUMNS, rows)
        evidence.save()


def compared(scores: str, chosen: argparse.Namespace) -> dict[str, list[float]]:
    """Return predicted over measured noise, by metric."""
    near: dict[str, list[float]] = {m: [] for m in METRICS}
    for data, examples, epsilon in cells(chosen.half, scores):
        facts = PublicFacts(examples, data.prevalence)
        plan = recommend(facts, DistributedDP(epsilon))
        rng = np.random.default_rng([chosen.seed, examples])
        real = measured(data, plan, chosen.repetitions, rng)
        said = predict(plan, auc=data.auc, repetitions=chosen.repetitions)
        name = data.name.removeprefix("real:")
        row = f"{name:16}{examples:7,} eps {epsilon:4}"
        if real is None:
            print(row, "refused; predicted:", said.refusal)
            continue
        for metric in METRICS:
            predicted = getattr(said, metric)
            ratio = predicted.noise / real[metric]
            near[metric].append(ratio)
            row += f"  {metric} {real[metric]:.4f} x {ratio:.2f}"
        print(row, flush=True)
    return near


if __name__ == "__main__":
    main()
