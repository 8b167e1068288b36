"""AUC under label privacy: the paper's Table 1 again, and what does better.

    python bench/label_privacy.py [--quick] [--runs 100] [--seed 1] [--save]

Scores are calibrated binormal posteriors with the size, prevalence and AUC of the
paper's small Criteo set: M = 458,407, P = 117,317, AUC .7702. IID sites get random
examples, non-IID sites neighbouring scores. Printed figures are from Table 1 of Sun,
Yang, Yao, Xie, Wu and Wang, "Differentially Private AUC Computation in Vertical
Federated Learning" (2022). Noise is simulated with the ``simulate_`` samplers, which
the tests show to have the mechanisms' distributions; each released sum is otherwise
made and read by the mechanisms themselves.

Three things are judged: agreement with the paper (a log ratio within .3); our per-site
choice against the paper's adaptive allocation at equal epsilon, by delta-method
standard deviations that 5,000 runs confirm; and secure aggregation.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from scipy.special import ndtri

from discreet.arrays import FloatVector, IntVector
from discreet.label.mechanisms import build, option_for
from discreet.label.ranks import (
    RankTotals,
    SiteRanks,
    add_covariances,
    midranks,
    noise_sd,
)
from discreet.label.released_sums import SiteMechanism, SummedEndpoint
from discreet.noise.polya import simulate_polya_difference
from discreet.privacy.loss import PureDP
from discreet.published.sun2022 import STEPS, on_grid
from evidence import FITS, Evidence, Figure
from simulated_sums import simulate_errors, simulate_laplace

EXAMPLES: Final = 458_407
POSITIVES: Final = 117_317
AUC: Final = 0.7702
SITES: Final = (10, 458, 4584, 45_840)
EPSILONS: Final = (1, 2, 4, 8)
AGREES: Final = 0.3
Split: TypeAlias = str

# Table 1, standard deviations of the AUC over 100 runs; columns are SITES.
_RESPONSE: Final = {1: 2.17e-3, 2: 1.02e-3, 4: 3.49e-4, 8: 4.41e-5}
PAPER: Final[dict[tuple[str, Split, int], tuple[float, ...]]] = {
    ("global-laplace", "IID", 1): (1.22e-4, 8.48e-4, 2.39e-3, 8.08e-3),
    ("local-laplace", "IID", 1): (1.13e-4, 9.64e-4, 2.26e-3, 7.39e-3),
    ("local-laplace", "non-IID", 1): (8.98e-5, 5.29e-4, 1.86e-3, 5.45e-3),
    ("adaptive", "IID", 1): (5.15e-5, 3.92e-4, 1.22e-3, 3.80e-3),
    ("adaptive", "non-IID", 1): (2.93e-5, 1.22e-4, 3.92e-4, 1.03e-3),
    ("global-laplace", "IID", 2): (5.85e-5, 4.15e-4, 1.28e-3, 3.95e-3),
    ("local-laplace", "IID", 2): (5.74e-5, 4.72e-4, 1.21e-3, 4.09e-3),
    ("local-laplace", "non-IID", 2): (4.59e-5, 2.91e-4, 9.45e-4, 3.09e-3),
    ("adaptive", "IID", 2): (2.60e-5, 1.84e-4, 6.48e-4, 1.66e-3),
    ("adaptive", "non-IID", 2): (1.59e-5, 6.01e-5, 1.52e-4, 5.54e-4),
    ("global-laplace", "IID", 4): (2.92e-5, 2.09e-4, 6.58e-4, 1.88e-3),
    ("local-laplace", "IID", 4): (3.11e-5, 1.94e-4, 5.80e-4, 1.86e-3),
    ("local-laplace", "non-IID", 4): (2.49e-5, 1.48e-4, 4.44e-4, 1.53e-3),
    ("adaptive", "IID", 4): (1.36e-5, 8.20e-5, 2.87e-4, 9.08e-4),
    ("adaptive", "non-IID", 4): (7.80e-6, 2.81e-5, 8.72e-5, 2.77e-4),
    ("global-laplace", "IID", 8): (1.54e-5, 9.82e-5, 3.31e-4, 1.05e-3),
    ("local-laplace", "IID", 8): (1.51e-5, 1.06e-4, 3.27e-4, 8.52e-4),
    ("local-laplace", "non-IID", 8): (1.06e-5, 6.99e-5, 2.19e-4, 7.50e-4),
    ("adaptive", "IID", 8): (7.01e-6, 4.55e-5, 1.37e-4, 4.61e-4),
    ("adaptive", "non-IID", 8): (3.89e-6, 1.36e-5, 4.34e-5, 1.38e-4),
}
# Table 9, last epoch: the AUC of noisy scores.
SCORE_NOISE: Final = {1: 0.5420, 2: 0.5830, 4: 0.6387, 8: 0.7022, 10: 0.7191}
CONFIRMED: Final[tuple[tuple[str, Split, int, int], ...]] = (
    ("adaptive", "IID", 458, 1),
    ("adaptive", "non-IID", 458, 4),
    ("choice", "IID", 458, 1),
    ("choice", "non-IID", 458, 4),
)


@dataclass(frozen=True, eq=False)
class Data:
    """All examples by rank: ranks are 0 .. M - 1, labels in that order."""

    labels: IntVector
    posteriors: FloatVector

    @property
    def sums(self) -> RankTotals:
        """The exact sums."""
        places = np.flatnonzero(self.labels)
        return RankTotals(float(places.sum()), float(places.size))

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Data:
        """Draw binormal scores and sort them."""
        apart = math.sqrt(2) * float(ndtri(AUC))
        labels = np.zeros(EXAMPLES, dtype=np.int64)
        labels[:POSITIVES] = 1
        scores = rng.standard_normal(EXAMPLES) + apart * labels
        order = np.argsort(scores)
        odds = np.log(POSITIVES / (EXAMPLES - POSITIVES))
        logits = odds + apart * scores[order] - apart**2 / 2
        return cls(labels[order], 1 / (1 + np.exp(-logits)))

    def split(
        self, sites: int, how: Split, rng: np.random.Generator
    ) -> tuple[list[SiteRanks], list[IntVector]]:
        """Give the examples to sites."""
        places = np.arange(EXAMPLES)
        if how == "IID":
            places = rng.permutation(EXAMPLES)
        pieces = np.array_split(places, sites)
        ranks = [SiteRanks(2 * piece.astype(np.int64), EXAMPLES) for piece in pieces]
        return ranks, [self.labels[piece] for piece in pieces]


@dataclass(frozen=True)
class Cell:
    """One mechanism at one epsilon: predicted and simulated standard deviation."""

    predicted: float
    simulated: float


def released(
    name: str, ranks: Sequence[SiteRanks], epsilon: int
) -> list[SiteMechanism]:
    budget = PureDP(Fraction(epsilon))
    options = [option_for(name, site, budget) for site in ranks]
    return [build(o, r, budget) for o, r in zip(options, ranks, strict=True)]


def simulated_aucs(data: Data, errors: tuple[FloatVector, FloatVector]) -> FloatVector:
    exact = data.sums
    count = exact.positives + errors[1]
    rest = exact.rank_sum + errors[0] - count * (count - 1) / 2
    aucs: FloatVector = rest / (count * (EXAMPLES - count))
    return aucs


def measure(
    data: Data,
    used: Sequence[SiteMechanism],
    ranks: Sequence[SiteRanks],
    labels: Sequence[IntVector],
    runs: int,
    rng: np.random.Generator,
    *,
    over: int = 1,
) -> Cell:
    """Simulate and predict; ``over`` divides the noise."""
    rank_sum, positives = simulate_errors(used, ranks, labels, runs, rng)
    covariance = add_covariances(m.covariance for m in used)
    predicted = noise_sd(data.sums, EXAMPLES, covariance) / over
    aucs = simulated_aucs(data, (rank_sum / over, positives / over))
    return Cell(predicted, float(aucs.std()))


def table_one(
    data: Data, sites: Sequence[int], runs: int, rng: np.random.Generator
) -> dict[tuple[str, Split, int, int], Cell]:
    """Measure every cell, and our choice beside them.

    The paper's noise is Laplace noise on a grid so fine that it scales as 1/epsilon:
    its mechanisms are made once, and their fresh errors divided.
    """
    cells = {}
    for count in sites:
        for how in ("IID", "non-IID"):
            ranks, labels = data.split(count, how, rng)
            for name in _mechanisms(how):
                used: list[SiteMechanism] = []
                for epsilon in EPSILONS:
                    scaled = name != "choice"
                    if not (scaled and used):
                        used = released(name, ranks, 1 if scaled else epsilon)
                    cells[name, how, count, epsilon] = measure(
                        data,
                        used,
                        ranks,
                        labels,
                        runs,
                        rng,
                        over=epsilon if scaled else 1,
                    )
    return cells


def _mechanisms(how: Split) -> tuple[str, ...]:
    both: tuple[str, ...] = ("local-laplace", "adaptive", "choice")
    return ("global-laplace", *both) if how == "IID" else both


def print_table_one(
    cells: dict[tuple[str, Split, int, int], Cell], sites: Sequence[int]
) -> tuple[int, int]:
    """Print Table 1 beside ours; return how many cells agree, and how many there are."""
    print("\nTable 1: standard deviation of the AUC, paper | ours")
    agreeing = total = 0
    for (name, how, epsilon), figures in PAPER.items():
        line = []
        for count, printed in zip(SITES, figures, strict=True):
            if count not in sites:
                continue
            ours = cells[name, how, count, epsilon].simulated
            agrees = abs(math.log(ours / printed)) <= AGREES
            agreeing, total = agreeing + agrees, total + 1
            line.append(f"{printed:.2e} | {ours:.2e} {'ok' if agrees else 'NO'}")
        print(f"  eps {epsilon} {name:14s} {how:8s} " + "   ".join(line))
    print(f"  {agreeing} of {total} cells agree (|log ratio| <= {AGREES})")
    return agreeing, total


def print_response(data: Data, runs: int, rng: np.random.Generator) -> tuple[int, int]:
    """Print randomized response beside the paper's; return how many cells agree."""
    print("\nRandomized response (any number of sites), paper | ours | predicted")
    ranks, labels = data.split(1, "IID", rng)
    agreeing = 0
    for epsilon, printed in _RESPONSE.items():
        cell = measure(
            data, released("response", ranks, epsilon), ranks, labels, runs, rng
        )
        agrees = abs(math.log(cell.simulated / printed)) <= AGREES
        agreeing += agrees
        print(
            f"  eps {epsilon} {printed:.2e} | {cell.simulated:.2e} | "
            f"{cell.predicted:.2e} {'ok' if agrees else 'NO'}"
        )
    return agreeing, len(_RESPONSE)


def print_ours(
    cells: dict[tuple[str, Split, int, int], Cell], sites: Sequence[int]
) -> list[list[str | Figure]]:
    """Print our choice's deviations over the adaptive allocation's; return the table."""
    print("\nOur choice over the paper's adaptive allocation, predicted deviations")
    worst = worst_iid = 0.0
    table: list[list[str | Figure]] = []
    for how in ("IID", "non-IID"):
        for epsilon in EPSILONS:
            ratios = []
            for count in sites:
                ours = cells["choice", how, count, epsilon].predicted
                theirs = cells["adaptive", how, count, epsilon].predicted
                ratios.append(ours / theirs)
            worst = max(worst, *ratios)
            if how == "IID" and epsilon <= 2:
                worst_iid = max(worst_iid, *ratios)
            print(f"  {how:8s} eps {epsilon} " + "  ".join(f"{r:.3f}" for r in ratios))
            where = "IID" if how == "IID" else "neighbouring scores"
            table.append([where, str(epsilon), *(Figure(r, digits=3) for r in ratios)])
    print(f"  IID at eps 1 and 2: at most {worst_iid:.3f} (goal .75)")
    print(f"  anywhere: at most {worst:.3f} (goal 1.05)")
    return table


def print_confirmed(data: Data, runs: int, rng: np.random.Generator) -> float:
    """Print predicted deviations beside runs; return the largest relative difference."""
    furthest = 0.0
    print(f"\nPredicted deviation against {runs} runs (goal: within 3%)")
    for name, how, count, epsilon in CONFIRMED:
        ranks, labels = data.split(count, how, rng)
        cell = measure(data, released(name, ranks, epsilon), ranks, labels, runs, rng)
        off = cell.simulated / cell.predicted - 1
        furthest = max(furthest, abs(off))
        print(
            f"  {name:9s} {how:8s} K {count} eps {epsilon}: predicted "
            f"{cell.predicted:.3e}, runs {cell.simulated:.3e}, {off:+.1%}"
        )
    return furthest


def print_secure_sum(data: Data, runs: int, rng: np.random.Generator) -> float:
    """Print deviations under secure aggregation; return the largest, times epsilon."""
    largest = 0.0
    print("\nSecure aggregation, noise added once (goal 1.3e-5/eps, any K)")
    for epsilon in EPSILONS:
        line = []
        for count in SITES:
            common = SummedEndpoint(EXAMPLES, PureDP(Fraction(epsilon)), count)
            distribution = common.noise(count)
            noise = simulate_polya_difference(
                distribution.gamma, distribution.shape, (runs, 2), rng
            )
            errors = (noise[:, 0] / 2, noise.sum(axis=1) / common.reach)
            sd = noise_sd(data.sums, EXAMPLES, common.covariance(count))
            largest = max(largest, sd * epsilon)
            seen = float(simulated_aucs(data, errors).std())
            line.append(f"{sd * epsilon:.2e} (runs {seen * epsilon:.2e})")
        print(f"  eps {epsilon} sd x eps: " + "  ".join(line))
    return largest


def print_score_noise(data: Data, rng: np.random.Generator) -> None:
    print("\nNoise on the scores instead (Table 9), AUC: paper | binormal posteriors")
    for epsilon, printed in SCORE_NOISE.items():
        noise = simulate_laplace(STEPS / epsilon, data.posteriors.shape, rng)
        noisy = on_grid(data.posteriors) + noise
        doubled = midranks(noisy)
        found = RankTotals(int(doubled @ data.labels) / 2, data.sums.positives)
        print(f"  eps {epsilon:2d} {printed:.4f} | {found.auc(EXAMPLES):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="AUC under label privacy")
    parser.add_argument("--quick", action="store_true", help="leave out K = 45,840")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--confirm", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="into results/")
    args = parser.parse_args()
    sites = SITES[:-1] if args.quick else SITES
    began = time.perf_counter()
    rng = np.random.default_rng(args.seed)
    data = Data.draw(rng)
    print(
        f"M = {EXAMPLES:,}, P = {POSITIVES:,}, AUC {data.sums.auc(EXAMPLES):.4f}, "
        f"K = {', '.join(f'{k:,}' for k in sites)}"
    )
    response = print_response(data, args.runs, rng)
    secure = print_secure_sum(data, 10 * args.runs, rng)
    print_score_noise(data, rng)
    furthest = print_confirmed(data, args.confirm, rng)
    cells = table_one(data, sites, args.runs, rng)
    laplace = print_table_one(cells, sites)
    ratios = print_ours(cells, sites)
    print(f"\n{time.perf_counter() - began:.0f} s")
    evidence = Evidence(
        "label_privacy",
        (*FITS, "label", "published/sun2022"),
        {"runs": args.runs, "confirm": args.confirm, "seed": args.seed},
    )
    evidence.table(
        "choice", ["sites", "epsilon", *(f"K = {k:,}" for k in sites)], ratios
    )
    for name, (agreeing, total) in (("laplace", laplace), ("response", response)):
        evidence.figure(f"{name}_agreeing", Figure(agreeing, digits=0))
        evidence.figure(f"{name}_cells", Figure(total, digits=0))
    evidence.figure("furthest", Figure(100 * furthest, digits=1, unit="%"))
    evidence.figure("secure_sum", Figure(1e5 * secure))
    if args.save:
        evidence.save()


if __name__ == "__main__":
    main()
