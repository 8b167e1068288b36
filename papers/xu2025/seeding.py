"""The released code's seed: every client and level draws the same noise."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.polya import simulate_polya_difference
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.statistic.hierarchy import NoisyTree
from papers.data import Data
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_number, check_ours, shown
from papers.xu2025.curves import paper_errors, tree_counts

CLIENTS: Final = 10
QUANTILES: Final = (32, 128, 1024)
EPSILON: Final = 1.0
DATA: Final = "adult-xgb"
_SOURCE: Final = (
    "The paper's column is what its released code does, not a number it prints: one seed "
    "is handed to every client and every level."
)
_MEASURED: Final = 9.25
"""The variance ratio that the released code was measured to have at 10 clients."""


def simulate_shared_seed(
    sizes: list[int], scale: float, rng: np.random.Generator
) -> FloatVector:
    """Return the sum of 10 clients' noise when each draws each level from one seed.

    A level is the start of the longest draw, and all clients' are equal.
    """
    longest = simulate_polya_difference(1 / scale, 1 / CLIENTS, (max(sizes),), rng)
    return np.concatenate([CLIENTS * longest[:size] for size in sizes])


def simulate_own_seeds(
    sizes: list[int], scale: float, rng: np.random.Generator
) -> FloatVector:
    """Return the sum of 10 clients' independent noise."""
    shape = (CLIENTS, sum(sizes))
    drawn = simulate_polya_difference(1 / scale, 1 / CLIENTS, shape, rng)
    total: FloatVector = drawn.sum(axis=0)
    return total


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Return the variance of the summed noise and the area errors, both ways."""
    scored = data.scored(DATA)
    found: dict[str, list[FloatVector]] = {}
    for q in QUANTILES:
        method = FedCurve(quantiles=q)
        distribution = LaplaceNoise(method.height / EPSILON)
        sizes = [2**level for level in range(1, method.height + 1)]
        exact = tree_counts(scored, method)
        for word, draw in (
            ("shared", simulate_shared_seed),
            ("own", simulate_own_seeds),
        ):
            both = [
                draw(sizes, distribution.scale, rng) for _ in range(2)
            ]  # two classes
            noise = np.concatenate(
                [
                    np.append(*parts)
                    for parts in zip(*(_cut(b, sizes) for b in both), strict=True)
                ]
            )
            tree = NoisyTree.from_release(
                method.hierarchy(), exact + noise, variance=distribution.variance
            )
            leaves = np.concatenate([b[-sizes[-1] :] for b in both])
            ratio = np.array([float(leaves.var()) / distribution.variance])
            off = paper_errors(scored, method, tree)
            found.setdefault(word, []).append(np.append(off, ratio))
    names = ("ROC", "PR", "variance")
    return {
        f"{word}/{name}": np.array(each)[:, k]
        for word, each in found.items()
        for k, name in enumerate(names)
    }


def _cut(noise: FloatVector, sizes: list[int]) -> list[FloatVector]:
    return np.split(noise, np.cumsum(sizes)[:-1])


def report(data: Data, runs: Runs) -> Report:
    """Show the effect on variance and curves."""
    rows = [
        (
            q,
            *(
                float(runs.mean(f"{word}/{name}")[k])
                for name in ("variance", "ROC", "PR")
                for word in ("own", "shared")
            ),
        )
        for k, q in enumerate(QUANTILES)
    ]
    ratio = float(runs.mean("shared/variance")[-1])
    spread = float(runs.error("shared/variance")[-1])
    lost = float(runs.mean("shared/ROC")[-1] / runs.mean("own/ROC")[-1])
    own = float(runs.mean("own/variance")[-1])
    return Report(
        (
            Table(
                "seeding",
                f"{DATA}, 10 clients, eps 1, {len(runs)} runs; variance over that of "
                "discrete Laplace noise",
                (
                    "Q",
                    "variance, own seeds",
                    "variance, one seed",
                    "ROC, own",
                    "ROC, one",
                    "PR, own",
                    "PR, one",
                ),
                tuple(rows),
            ),
        ),
        (
            check_number(
                "variance with one seed over what it should be",
                paper=_MEASURED,
                ours=ratio,
                error=spread,
                tolerance=1.0,
                better=f"{shown(own)} with seeds of their own",
                reason="n equal shares of variance V/n add up to n V: 10 here",
            ),
            check_ours(
                "the bug costs accuracy in the released figures",
                lost > 1.3,
                ours=f"ROC area error x {shown(lost)} at Q = 1024",
                better="entropy is an argument here, and a test sees two sites draw alike",
            ),
        ),
        (),
        (
            data.scored(DATA).source,
            _SOURCE,
        ),
    )


SEEDING: Final = Item(
    "seeding",
    "The released code's one seed for all clients",
    measure,
    report,
    runs=30,
    needs=(DATA,),
)
