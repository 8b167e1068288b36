"""Fast simulations of the releases, for benchmarks and audits; never secret."""

from __future__ import annotations

import numpy as np

from discreet.arrays import FloatVector
from discreet.curator.grid import ScaledNoise
from discreet.curator.weighted_count import WeightTable
from discreet.noise.laplace import simulate_discrete_laplace


def simulate_weighted_count(
    value: float,
    positives: int,
    table: WeightTable,
    epsilon: float,
    size: int,
    rng: np.random.Generator,
) -> FloatVector:
    """Draw released values of a weighted count, cut to 0 .. 1."""
    weighted = round((value - 0.5) * int(table.weights[positives]))
    noise = simulate_discrete_laplace(table.l1 / epsilon, (2, size), rng)
    weights = table.weights_of(table.counts_of(table.codes[positives] + noise[1]))
    quotient = np.divide(
        weighted + noise[0], weights, out=np.zeros(size), where=weights > 0
    )
    return np.clip(0.5 + quotient, 0.0, 1.0)


def simulate_smooth(
    value: float, noise: ScaledNoise, size: int, rng: np.random.Generator
) -> FloatVector:
    """Draw values with noise on smooth sensitivity, cut to 0 .. 1."""
    magnitude = noise.tail.quantile(0.5 * (1.0 - rng.random(size)))
    sign = np.where(rng.random(size) < 0.5, -1.0, 1.0)
    return np.clip(value + float(noise.scale) * sign * magnitude, 0.0, 1.0)
