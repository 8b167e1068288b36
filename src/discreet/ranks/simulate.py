"""Fast simulations of the errors of many sites' releases; never secret."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.ranks.gaussian_row import GaussianNoise, simulate_gaussian
from discreet.ranks.laplace_row import LaplaceNoise, simulate_laplace
from discreet.ranks.linear import LinearSums, RowNoise
from discreet.ranks.response_sums import ResponseSums, simulate_response_errors
from discreet.ranks.staircase_row import StaircaseNoise, simulate_staircase
from discreet.ranks.sums import LabelMechanism

_CELLS = 1 << 22
"""Noise values held at once."""
Law = TypeVar("Law", LaplaceNoise, StaircaseNoise, GaussianNoise)


def simulate_errors(
    mechanisms: Sequence[LabelMechanism],
    labels: Sequence[IntVector],
    size: int,
    rng: np.random.Generator,
) -> tuple[FloatVector, FloatVector]:
    """Draw errors of the summed (S, P) of all sites, ``size`` times, *not secretly*.

    The noise of each released sum has its mechanism's law (tested equal), and is
    read as the mechanism reads it.
    """
    rank_sum, positives = np.zeros(size), np.zeros(size)
    linear = [m for m in mechanisms if isinstance(m, LinearSums)]
    rows = [
        (row.noise, m.reading[:, j]) for m in linear for j, row in enumerate(m.rows)
    ]
    for noise, reading in _noise_of(rows, size, rng):
        rank_sum += noise @ reading[:, 0]
        positives += noise @ reading[:, 1]
    flipped = [
        (m, y)
        for m, y in zip(mechanisms, labels, strict=True)
        if isinstance(m, ResponseSums)
    ]
    if flipped:
        ranks = np.concatenate([m.ranks.doubled for m, _ in flipped]) / 2
        pooled = np.concatenate([y for _, y in flipped])
        epsilon = float(flipped[0][0].budget.epsilon)
        errors = simulate_response_errors(ranks, pooled, epsilon, size, rng)
        rank_sum += errors[0]
        positives += errors[1]
    return rank_sum, positives


def _noise_of(
    rows: Sequence[tuple[RowNoise, FloatVector]], size: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield noise, one column a released sum, with the matrix that reads it."""
    width = max(1, _CELLS // size)
    for kind, draw in (
        (LaplaceNoise, _laplace),
        (StaircaseNoise, _staircase),
        (GaussianNoise, _gaussian),
    ):
        same = [(noise, read) for noise, read in rows if isinstance(noise, kind)]
        for start in range(0, len(same), width):
            piece = same[start : start + width]
            reading = np.array([read for _, read in piece])
            yield draw([noise for noise, _ in piece], size, rng), reading


def _laplace(
    laws: Sequence[RowNoise], size: int, rng: np.random.Generator
) -> FloatArray:
    scales = [float(law.scale) for law in _only(laws, LaplaceNoise)]
    return simulate_laplace(scales, (size, len(scales)), rng)


def _staircase(
    laws: Sequence[RowNoise], size: int, rng: np.random.Generator
) -> FloatArray:
    known = _only(laws, StaircaseNoise)
    return simulate_staircase(
        [law.step for law in known],
        [law.width for law in known],
        [float(law.epsilon) for law in known],
        size,
        rng,
    )


def _gaussian(
    laws: Sequence[RowNoise], size: int, rng: np.random.Generator
) -> FloatArray:
    variances = [law.variance for law in _only(laws, GaussianNoise)]
    return simulate_gaussian(variances, (size, len(variances)), rng)


def _only(laws: Sequence[RowNoise], kind: type[Law]) -> list[Law]:
    return [law for law in laws if isinstance(law, kind)]
