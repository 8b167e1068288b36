"""Coverage of the 95% intervals of measures of follow-up.

    python bench/timed_coverage.py                      # printed
    python bench/timed_coverage.py --save               # and with few examples, into results/

Tables are the planner's defaults, exact and at epsilon 1. Beside each share are the bias
over the standard deviation, and the intervals' mean width over what it should be.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import (  # type: ignore[import-untyped]
    threadpool_limits,
)

from discreet.data.edges import Edges, Warped
from discreet.estimate.estimate import Estimate
from discreet.metrics.timed import FollowUp
from discreet.metrics.timed_table import TIMED, net_benefit
from discreet.noise.laplace import LaplaceNoise
from discreet.plan.cohort import PublicFacts
from discreet.statistic.timed import TimedCounts
from evidence import Evidence
from timed import (
    HELD_OUT,
    MEASURED,
    MEASURES,
    SIZES,
    Population,
    populations,
    table_for,
    tabulate,
)

REPETITIONS: Final = 300
FEW: Final = (300, 1_000)
"""So few examples are measured without noise."""
ALL: Final = (*MEASURES, "net_benefit")
TITLES: Final = ("AUC", "Brier", "Harrell", "Uno", "risk", "net benefit")


def measured(counts: TimedCounts, population: Population) -> dict[str, Estimate]:
    """Return the measures whose coverage is checked."""
    table = FollowUp.of(counts)
    time = population.horizon
    found = {name: TIMED[name].measure(table, time) for name in MEASURES}
    return found | {"net_benefit": net_benefit(table, time, population.threshold)}


def truth(population: Population, censoring: float) -> dict[str, float]:
    """Return the population's values: without censoring by definition, C by a fine table."""
    rng = np.random.default_rng(99)
    size = 2_000_000
    rows = population.draw(size, rng)
    t, p = population.horizon, population.threshold
    fine = Edges.realise(Warped(1024, 1.5), thresholds=[p])
    cuts = np.linspace(0, t, 401)
    when = rng.exponential(censoring, size)
    exact = measured(tabulate(rows.censored_at(when), fine, cuts), population)
    values = {name: e.value for name, e in exact.items()}
    if rows.event.all():
        case = rows.time <= t
        above = rows.score >= p
        values["auc"] = float(roc_auc_score(case, rows.score))
        values["brier"] = float(((case - rows.score) ** 2).mean())
        values["observed_risk"] = float(case.mean())
        odds = p / (1 - p)
        values["net_benefit"] = float((above * (case - (~case) * odds)).mean())
    return values


@dataclass(frozen=True)
class Cell:
    """One line of the table: which population, how much censoring, how many, what noise."""

    population: str
    censoring: str
    examples: int
    noisy: bool

    @property
    def noise(self) -> str:
        """As the table says it."""
        return "epsilon 1" if self.noisy else "exact"


@cache
def _known(name: str, censoring: str) -> tuple[Population, float, dict[str, float]]:
    """Return a population, the mean time to its censoring, and its values."""
    population = next(p for p in populations() if p.name == name)
    mean = population.light if censoring == "light" else population.heavy
    return population, mean, truth(population, mean)


def cells(only: str | None, sizes: Sequence[int]) -> list[Cell]:
    """Return the cells to measure; below 5,000 examples without noise alone."""
    return [
        Cell(population.name, censoring, n, noisy)
        for population in populations()
        if not only or only in population.name
        for censoring in ("light", "heavy")
        for n in sizes
        for noisy in (False, True)[: 1 + (n >= SIZES[0])]
    ]


def coverage(cell: Cell, repetitions: int) -> dict[str, float]:
    """Return how often 95% intervals hold the population's values."""
    population, mean, values = _known(cell.population, cell.censoring)
    n = cell.examples
    edges, cuts = table_for(
        population.horizon,
        PublicFacts(n, round(values["observed_risk"], 2)),
        thresholds=(population.threshold,),
        noisy=cell.noisy,
    )
    rng = np.random.default_rng([n, int(cell.noisy), len(population.name)])
    noise = LaplaceNoise(1.0) if cell.noisy else None
    held: dict[str, list[bool]] = {name: [] for name in values}
    off: dict[str, list[float]] = {name: [] for name in values}
    reach: dict[str, list[float]] = {name: [] for name in values}
    for _ in range(repetitions):
        rows = population.draw(n, rng)
        rows = rows.censored_at(rng.exponential(mean, n))
        found = measured(tabulate(rows, edges, cuts, noise, rng), population)
        for name, estimate in found.items():
            low, high = estimate.interval()
            held[name].append(bool(low <= values[name] <= high))
            off[name].append(estimate.value - values[name])
            reach[name].append((high - low) / 2)
    return {
        **{name: float(np.mean(h)) for name, h in held.items()},
        **{f"{name} bias/sd": float(np.mean(o) / np.std(o)) for name, o in off.items()},
        **{
            f"{name} ratio": float(np.mean(reach[name]) / 1.96 / np.std(off[name]))
            for name in off
        },
    }


def _line(cell: Cell, found: dict[str, float]) -> str:
    shown = "  ".join(
        f"{100 * found[n]:5.1f} ({found[n + ' bias/sd']:+.2f}, {found[n + ' ratio']:.2f})"
        for n in ALL
    )
    head = (
        f"{cell.population:<13} {cell.censoring:<6} {cell.examples:>6} {cell.noise:>9}"
    )
    return f"{head}  {shown}"


def _tables(
    evidence: Evidence, measured: Sequence[tuple[Cell, dict[str, float]]]
) -> None:
    """Add the tables of the page: large, few examples, and the held-out population."""
    parts: dict[str, list[tuple[Cell, dict[str, float]]]] = {}
    for cell, found in measured:
        few = "few" if cell.examples < SIZES[0] else "coverage"
        name = "held-out" if cell.population == HELD_OUT else few
        parts.setdefault(name, []).append((cell, found))
    for name, part in parts.items():
        rows = [
            [c.population, c.censoring, f"{c.examples:,}", c.noise]
            + [f"{100 * found[n]:.1f}" for n in ALL]
            for c, found in part
        ]
        every = [[100 * found[n] for _, found in part] for n in ALL]
        mean = [f"{np.mean(each):.1f}" for each in every]
        ends = [f"{min(each):.1f}, {max(each):.1f}" for each in every]
        rows += [["**mean**", "", "", "", *mean]]
        rows += [["**least, most**", "", "", "", *ends]]
        columns = ("population", "censoring", "examples", "noise", *TITLES)
        evidence.table(name, columns, rows)


def main() -> None:
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--only", help="one population")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--save", action="store_true", help="into results/")
    parser.add_argument("--partly", action="store_true", help="save after each cell")
    options = parser.parse_args()
    sizes = (*FEW, *options.sizes) if options.save else options.sizes
    every, found = cells(options.only, sizes), []
    # One thread each: on busy cores the algebra's own threads wait for each other.
    with ProcessPoolExecutor(
        options.jobs, initializer=threadpool_limits, initargs=(1,)
    ) as pool:
        work = partial(coverage, repetitions=options.repetitions)
        for cell, shares in zip(every, pool.map(work, every), strict=True):
            found.append((cell, shares))
            print(_line(cell, shares), flush=True)
            if options.save and (len(found) == len(every) or options.partly):
                settings = {"repetitions": options.repetitions, "sizes": sizes}
                evidence = Evidence("timed_coverage", MEASURED, settings)
                _tables(evidence, found)
                evidence.save()


if __name__ == "__main__":
    main()
