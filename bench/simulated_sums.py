"""Fast twins of the rank sums' noise, for many runs over many sites; never secret.

The noise of each released sum has its mechanism's law (the tests compare the two), and
is read as the mechanism reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.label.ranks import SiteRanks
from discreet.label.released_sums import LinearSums, ResponseSums, SiteMechanism
from discreet.label.sum_noise import (
    GaussianSumNoise,
    LaplaceSumNoise,
    RowNoise,
    StaircaseSumNoise,
)

_CELLS: Final = 1 << 22
"""Noise values held at once."""


def simulate_errors(
    mechanisms: Sequence[SiteMechanism],
    ranks: Sequence[SiteRanks],
    labels: Sequence[IntVector],
    size: int,
    rng: np.random.Generator,
) -> tuple[FloatVector, FloatVector]:
    """Draw errors of the summed (S, P) of all sites, ``size`` times."""
    rank_sum, positives = np.zeros(size), np.zeros(size)
    rows = [
        (row.noise, m.fit[:, j])
        for m in mechanisms
        if isinstance(m, LinearSums)
        for j, row in enumerate(m.rows)
    ]
    for noise, fit in _noise_of(rows, size, rng):
        rank_sum += noise @ fit[:, 0]
        positives += noise @ fit[:, 1]
    flipped = [
        (m, r, y)
        for m, r, y in zip(mechanisms, ranks, labels, strict=True)
        if isinstance(m, ResponseSums)
    ]
    if flipped:
        pooled = np.concatenate([r.doubled for _, r, _ in flipped]) / 2
        both = np.concatenate([y for _, _, y in flipped])
        epsilon = float(flipped[0][0].budget.epsilon)
        errors = simulate_response_errors(pooled, both, epsilon, size, rng)
        rank_sum += errors[0]
        positives += errors[1]
    return rank_sum, positives


def _noise_of(
    rows: Sequence[tuple[RowNoise, FloatVector]], size: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield noise, one column a released sum, with the matrix that reads it."""
    width = max(1, _CELLS // size)
    for kind in (LaplaceSumNoise, StaircaseSumNoise, GaussianSumNoise):
        same = [(noise, read) for noise, read in rows if isinstance(noise, kind)]
        for start in range(0, len(same), width):
            piece = same[start : start + width]
            fit = np.array([read for _, read in piece])
            yield _draw([noise for noise, _ in piece], size, rng), fit


def _draw(
    noises: Sequence[RowNoise], size: int, rng: np.random.Generator
) -> FloatArray:
    """Draw one column a law, all of one kind."""
    shape = (size, len(noises))
    laplace = [
        float(noise.scale) for noise in noises if isinstance(noise, LaplaceSumNoise)
    ]
    if laplace:
        return simulate_laplace(laplace, shape, rng)
    stairs = [noise for noise in noises if isinstance(noise, StaircaseSumNoise)]
    if stairs:
        steps, widths = (
            [noise.step for noise in stairs],
            [noise.width for noise in stairs],
        )
        epsilons = [float(noise.epsilon) for noise in stairs]
        return simulate_staircase(steps, widths, epsilons, size, rng)
    return simulate_gaussian([noise.variance for noise in noises], shape, rng)


def simulate_laplace(
    scale: ArrayLike, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw discrete Laplace noise of one scale a column.

    A geometric variable is the whole part of an exponential one.
    """
    wide = np.asarray(scale, dtype=np.float64)
    drawn: FloatArray = np.floor(rng.standard_exponential(shape) * wide)
    drawn -= np.floor(rng.standard_exponential(shape) * wide)
    return drawn


def simulate_gaussian(
    sigma_squared: ArrayLike, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Draw the nearest integers to normal variables."""
    sd = np.sqrt(np.asarray(sigma_squared, dtype=np.float64))
    drawn: FloatArray = np.rint(rng.standard_normal(shape) * sd)
    return drawn


def simulate_staircase(
    step: ArrayLike,
    width: ArrayLike,
    epsilon: ArrayLike,
    size: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw staircase noise of one law a column."""
    d, w, e = (np.asarray(a, dtype=np.float64) for a in (step, width, epsilon))
    shape = (size, d.size)
    outside = 2 * d / np.expm1(e)
    centre = rng.random(shape) * (2 * w - 1 + outside) < 2 * w - 1
    inner = np.floor(rng.random(shape) * (2 * w - 1)) - (w - 1)
    level = np.floor(rng.standard_exponential(shape) / e)
    outer = w + d * level + np.floor(rng.random(shape) * d)
    sign = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    drawn: FloatArray = np.where(centre, inner, sign * outer)
    return drawn


def simulate_response_errors(
    ranks: FloatVector,
    labels: IntVector,
    epsilon: float,
    size: int,
    rng: np.random.Generator,
) -> tuple[FloatVector, FloatVector]:
    r"""Draw errors of the decoded (S, P) of flipped labels.

    A label's error is :math:`(f - \rho)(1 - 2y)/(1 - 2\rho)`, f its flip.
    """
    rho = 1.0 / (1.0 + math.exp(epsilon))
    sign = (1.0 - 2.0 * labels) / (1.0 - 2.0 * rho)
    both = np.column_stack([ranks * sign, sign])
    mean = rho * both.sum(axis=0)
    errors = np.empty((size, 2))
    for run in range(size):
        response_key = np.flatnonzero(rng.random(labels.size, dtype=np.float32) < rho)
        errors[run] = both[response_key].sum(axis=0) - mean
    return errors[:, 0], errors[:, 1]
