"""Tables for a trusted curator: ours beside the mechanisms of Boyd (2015).

Figure 5 (mean absolute error against epsilon, estimation error beside it), 10%
prevalence, the share left for the count, declared prevalences that are wrong,
realised losses, run times, and figure 2 (the attack with its null control).

    python bench/curator.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from datasets import lacking, load
from discreet.arrays import FloatVector
from discreet.attack.reidentify import reidentify_auc
from discreet.curator import auc
from discreet.curator.ranking import (
    ap_smooth_sensitivity,
    auc_smooth_sensitivity,
    rank_arrays,
)
from discreet.curator.release import AUC, Target, ap_target
from discreet.curator.smooth_noise import SmoothNoise, power_law, simulate_smooth, tuned
from discreet.curator.weighted_count import (
    WeightTable,
    auc_weights,
    pair_count_weights,
    simulate_weighted_count,
)
from discreet.published.boyd2015 import heavy_tailed, smooth_laplace
from simulated_releases import log_density

DATA: Final = "adult-lr"
DELTAS: Final = ("0.000001", "0.0001", "0.01")
AP: Final = ap_target("exact")
PAPER_AP: Final = ap_target("equation-10")


@dataclass(frozen=True, eq=False)
class Pool:
    """Scored examples that samples are drawn from, by class."""

    negatives: FloatVector
    positives: FloatVector

    def sample(self, n: int, m: int, rng: np.random.Generator) -> tuple[float, float]:
        """Return AUC and average precision of n positives and m negatives."""
        scores = np.append(
            rng.choice(self.positives, n, replace=False),
            rng.choice(self.negatives, m, replace=False),
        )
        found = rank_arrays(scores, np.arange(n + m) < n, ties="scikit-learn")
        return float(found.auc), found.average_precision


@dataclass(frozen=True, eq=False)
class Setting:
    """Class counts and epsilon of one cell, and how much is drawn for it."""

    positives: int
    negatives: int
    epsilon: Fraction
    draws: int
    rng: np.random.Generator

    @property
    def rows(self) -> int:
        """All examples."""
        return self.positives + self.negatives

    def weighted(self, value: float, table: WeightTable) -> FloatVector:
        """Return absolute errors of a weighted count."""
        found = simulate_weighted_count(
            value, self.positives, table, float(self.epsilon), self.draws, self.rng
        )
        off: FloatVector = np.abs(found - value)
        return off

    def smooth(
        self, value: float, target: Target, mechanism: SmoothNoise
    ) -> FloatVector:
        """Return absolute errors of noise on smooth sensitivity."""
        size = target.smooth(self.positives, self.negatives, mechanism.beta)
        found = simulate_smooth(value, mechanism.noise(size), self.draws, self.rng)
        off: FloatVector = np.abs(found - value)
        return off

    def power_law(self, target: Target, declared: float) -> SmoothNoise:
        """Return power-law noise tuned to a declared prevalence."""
        n = max(round(declared * self.rows), 1)
        return tuned(self.epsilon, lambda b: target.smooth(n, self.rows - n, b))


def errors(metric: str, here: Setting, value: float) -> dict[str, FloatVector]:
    """Return the absolute errors of every mechanism on one sample."""
    ours, paper = (AUC, AUC) if metric == "AUC" else (AP, PAPER_AP)
    prevalence = here.positives / here.rows
    found = {
        "cauchy": here.smooth(value, paper, heavy_tailed(here.epsilon)),
        **{
            d: here.smooth(value, paper, smooth_laplace(here.epsilon, Fraction(d)))
            for d in DELTAS
        },
        "wcl": here.weighted(value, ours.weights(here.rows)),
        "power": here.smooth(value, ours, here.power_law(ours, prevalence)),
    }
    if metric == "AUC":
        found["pairs"] = here.weighted(value, pair_count_weights(here.rows))
    return found


def mean_errors(
    pool: Pool, metric: str, here: Setting, samples: int, population: float
) -> tuple[dict[str, tuple[float, float]], float]:
    """Return mean and standard error by mechanism, and the estimation error."""
    collected: dict[str, list[FloatVector]] = {}
    off = []
    for _ in range(samples):
        both = pool.sample(here.positives, here.negatives, here.rng)
        value = both[0] if metric == "AUC" else both[1]
        off.append(abs(value - population))
        for name, found in errors(metric, here, value).items():
            collected.setdefault(name, []).append(found)
    table = {}
    for name, parts in collected.items():
        whole = np.concatenate(parts)
        table[name] = (float(whole.mean()), float(whole.std() / math.sqrt(whole.size)))
    return table, float(np.mean(off))


def population_value(pool: Pool, metric: str, prevalence: float) -> float:
    """Return the metric of a large sample at a prevalence."""
    n = pool.positives.size
    m = min(pool.negatives.size, round(n * (1 - prevalence) / prevalence))
    n = round(m * prevalence / (1 - prevalence))
    both = pool.sample(n, m, np.random.default_rng(0))
    return both[0] if metric == "AUC" else both[1]


def figure_5(pool: Pool, *, samples: int, draws: int) -> None:
    rng = np.random.default_rng(5)
    for metric in ("AUC", "AP"):
        population = population_value(pool, metric, 0.5)
        print(f"\nFigure 5, {metric} of {DATA}, n = m: mean absolute error")
        print(
            "    n  eps  estimation |  paper d=0    1e-6    1e-4     .01 |"
            "    WCL  power law | WCL/.01  power/.01  WCL/d=0"
        )
        for n in (30, 100, 300, 1000):
            for epsilon in ("0.1", "0.3", "1"):
                here = Setting(n, n, Fraction(epsilon), draws, rng)
                table, off = mean_errors(pool, metric, here, samples, population)
                e = {name: mean for name, (mean, _) in table.items()}
                laplace = e[DELTAS[2]]
                print(
                    f"{n:5d}  {epsilon:>3}      {off:.4f} |     {e['cauchy']:.4f}"
                    f"  {e[DELTAS[0]]:.4f}  {e[DELTAS[1]]:.4f}  {laplace:.4f} |"
                    f" {e['wcl']:.4f}     {e['power']:.4f} |"
                    f"    {e['wcl'] / laplace:.2f}       {e['power'] / laplace:.2f}"
                    f"     {e['wcl'] / e['cauchy']:.2f}"
                )
    print("Sought: AUC, eps 1, n >= 100: WCL/.01 <= .75 and WCL/d=0 <= .2.")
    print("Sought: AP, eps 1, n = 1000: <= .38 of the paper's .01.")


def rare_positives(pool: Pool, *, samples: int, draws: int) -> None:
    rng = np.random.default_rng(6)
    for metric in ("AUC", "AP"):
        population = population_value(pool, metric, 0.1)
        print(f"\n10% positives, {metric}: mean absolute error")
        print(
            " rows  eps  estimation | paper d=0     .01 |    WCL  power law |"
            " WCL/best of the paper's   power/best"
        )
        worse = 0
        for rows in (300, 1000, 3000):
            for epsilon in ("0.3", "1", "3"):
                n = rows // 10
                here = Setting(n, rows - n, Fraction(epsilon), draws, rng)
                table, off = mean_errors(pool, metric, here, samples, population)
                best = min(table[k] for k in ("cauchy", *DELTAS))
                for name in ("wcl", "power"):
                    gap = table[name][0] - best[0]
                    worse += gap > 2 * math.hypot(table[name][1], best[1])
                print(
                    f"{rows:5d}  {epsilon:>3}      {off:.4f} |"
                    f"    {table['cauchy'][0]:.4f}  {table[DELTAS[2]][0]:.4f} |"
                    f" {table['wcl'][0]:.4f}     {table['power'][0]:.4f} |"
                    f"                    {table['wcl'][0] / best[0]:.2f}"
                    f"         {table['power'][0] / best[0]:.2f}"
                )
        print(f"Worse than the paper's best by two standard errors: {worse} of 18.")


def share_for_the_count(*, draws: int) -> None:
    print("\nWhat is left for the count: AUC .85, error x eps x smaller class")
    prevalences = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    print("share  " + "  ".join(f"{p:4.0%}" for p in prevalences) + "   worst")
    rng = np.random.default_rng(7)
    shares = ("0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.35")
    tables: dict[str, Callable[[int], WeightTable]] = {
        share: partial(auc_weights, left=Fraction(share)) for share in shares
    }
    tables["pairs"] = pair_count_weights
    for name, table in tables.items():
        row = []
        for p in prevalences:
            here = Setting(200, round(200 / p) - 200, Fraction(1), draws, rng)
            row.append(200 * float(here.weighted(0.85, table(here.rows)).mean()))
        cells = "  ".join(f"{v:4.2f}" for v in row)
        print(f"{name:>5}  {cells}    {max(row):.2f}")


def wrong_prevalence(*, draws: int) -> None:
    print("\nPower law with a wrong prevalence: AUC .85, 1,000 rows, eps 1, MAE x 1e4")
    declared = (0.05, 0.1, 0.2, 0.35, 0.5)
    print("true    WCL  " + "  ".join(f"decl. {d:.0%}" for d in declared))
    rng = np.random.default_rng(8)
    for true in (0.03, 0.1, 0.3, 0.5):
        n = round(1000 * true)
        here = Setting(n, 1000 - n, Fraction(1), draws, rng)
        wcl = float(here.weighted(0.85, auc_weights(1000)).mean())
        found = [
            float(here.smooth(0.85, AUC, here.power_law(AUC, d)).mean())
            for d in declared
        ]
        cells = "  ".join(f"{1e4 * v:8.0f}" for v in found)
        print(f"{true:4.0%}  {1e4 * wcl:5.0f}  {cells}")


def realised_losses() -> None:
    print("\nRealised loss over epsilon (the largest log density ratio of neighbours)")
    print(
        " eps  cauchy  power law, beta = eps/10   its first term alone, beta = .7 eps"
    )
    for text in ("0.1", "0.5", "1", "2", "4", "8"):
        epsilon = Fraction(text)
        cauchy = heavy_tailed(epsilon)
        power = power_law(epsilon, Fraction(1, 10))
        wide = power_law(epsilon, Fraction(7, 10))
        a = 1 + 1 / 0.7
        first = math.exp(-wide.beta) / math.expm1((float(epsilon) - wide.beta) / a)
        row = [
            _loss(cauchy, float(cauchy.noise(1.0).scale)),
            _loss(power, float(power.noise(1.0).scale)),
            _loss(wide, first),
        ]
        cells = [found / float(epsilon) for found in row]
        print(f"{text:>4}   {cells[0]:.3f}   {cells[1]:22.3f}   {cells[2]:36.3f}")


def _loss(mechanism: SmoothNoise, factor: float) -> float:
    tail = mechanism.noise(1.0).tail
    places = np.append(0.0, np.logspace(-6, 9, 4001)) * factor
    x = np.append(-places[::-1], places)
    largest = 0.0
    for theta in np.linspace(-1.0, 1.0, 17):
        other = math.exp(theta * mechanism.beta)
        for shift in np.linspace(0.0, min(1.0, other), 9):
            at = np.append(x, x + shift)
            gap = log_density(tail, at / factor) + math.log(other)
            gap -= log_density(tail, (at - shift) / (factor * other))
            largest = max(largest, float(np.abs(gap).max()))
    return largest


def run_times(*, rows: int) -> None:
    print(f"\nProcessor time at {rows:,} rows, seconds")
    rng = np.random.default_rng(9)
    labels = (rng.random(rows) < 0.5).astype(np.uint8)
    scores = rng.normal(labels, 1.0)
    half = rows // 2
    jobs: dict[str, Callable[[], object]] = {
        "smooth sensitivity, AUC": lambda: auc_smooth_sensitivity(half, half, 0.1),
        "smooth sensitivity, AP": lambda: ap_smooth_sensitivity(half, 0.1),
        "weights": lambda: auc_weights(rows),
        "auc(...), ranking included": lambda: auc(labels, scores, epsilon=1),
    }
    for name, job in jobs.items():
        start = time.process_time()
        job()
        print(f"{name:28s} {time.process_time() - start:.3f}")


def figure_2(pool: Pool, *, trials: int) -> None:
    sizes, digits = (100, 500, 1000, 2500), (2, 3, 4, 5, 6, 7)
    scores = np.append(pool.negatives, pool.positives)
    labels = np.arange(scores.size) >= pool.negatives.size
    for design in ("independent", "balanced"):
        found = reidentify_auc(
            labels,
            scores,
            rng=np.random.default_rng(2),
            sizes=sizes,
            digits=digits,
            trials=trials,
            design=design,
        )
        print(f"\nFigure 2, {design} labels: success of the attack / null control")
        print("digits  " + "  ".join(f"{s:>11d}" for s in sizes))
        for d in digits:
            cells = [f for f in found if f.digits == d]
            row = "  ".join(f"{c.success:5.2f}/{c.null:5.2f}" for c in cells)
            print(f"{d:6d}  {row}")
        private = [f for f in found if f.digits == digits[-1]]
        row = "  ".join(f"{c.private:5.2f}      " for c in private)
        print(f"eps 1   {row} (private release, {digits[-1]} digits)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    quick = parser.parse_args().quick
    samples, draws, trials = (5, 1000, 100) if quick else (40, 2500, 1000)
    if line := lacking(DATA):
        print(f"{line} (figures 2 and 5, rare positives)")
    else:
        data = load(DATA)
        pool = Pool(data.scores[data.labels == 0], data.scores[data.labels == 1])
        figure_5(pool, samples=samples, draws=draws)
        rare_positives(pool, samples=samples, draws=draws)
        figure_2(pool, trials=trials)
    share_for_the_count(draws=20 * draws)
    wrong_prevalence(draws=20 * draws)
    realised_losses()
    run_times(rows=10**6 if quick else 10**7)


if __name__ == "__main__":
    main()
