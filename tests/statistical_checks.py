"""Statistical assertions with a stated false-positive rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

ALPHA = 1e-9
"""Chance that one check fails on correct code. A few hundred checks a run then
fail by bad luck less than once in a million runs."""
MIN_EXPECTED = 100.0
"""Below this count the chi-squared tail cannot be trusted at ALPHA."""


def fit_p_value(
    sample: np.ndarray, pmf: Callable[[int], float], support: range
) -> float:
    """Chi-squared p-value of integers against a pmf; what lies outside is pooled.

    ``support`` must leave a tail that is worth a cell of its own, and every cell
    must be expected ``MIN_EXPECTED`` times, else the choice of cells is refused.
    """
    inside = np.array([pmf(k) for k in support])
    expected = sample.size * np.append(inside, 1.0 - inside.sum())
    if expected.min() < MIN_EXPECTED:
        raise ValueError(
            f"a cell is expected {expected.min():.0f} times, below {MIN_EXPECTED:.0f}; "
            "draw more or pool cells"
        )
    observed = [int(np.count_nonzero(sample == k)) for k in support]
    observed.append(sample.size - sum(observed))
    return chi_squared_p_value(np.array(observed), expected)


def assert_fits(
    sample: np.ndarray,
    pmf_of: Callable[[float], Callable[[int], float]],
    scale: float,
    support: range,
    wrong: Sequence[float] = (0.85, 1.15),
) -> None:
    """Check that integers follow a pmf, and that scales 15 percent off are rejected."""
    assert fit_p_value(sample, pmf_of(scale), support) > ALPHA
    for factor in wrong:
        assert fit_p_value(sample, pmf_of(factor * scale), support) < ALPHA


def assert_coin(
    heads: int, flips: int, probability: float, wrong: Sequence[float] = (0.85,)
) -> None:
    """Check a coin's probability, and that those which are off are rejected."""
    assert stats.binomtest(heads, flips, probability).pvalue > ALPHA
    for factor in wrong:
        assert stats.binomtest(heads, flips, factor * probability).pvalue < ALPHA


def laplace_pmf(scale: float) -> Callable[[int], float]:
    """The discrete Laplace distribution."""
    return lambda k: math.tanh(0.5 / scale) * math.exp(-abs(k) / scale)


def around_zero(reach: float) -> range:
    """The integers at most so far from 0, and at least 1."""
    whole = max(1, math.ceil(reach))
    return range(-whole, whole + 1)


def chi_squared_p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """P-value of observed counts against expected ones of the same total."""
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, observed.size - 1))


def same_law_p_value(a: np.ndarray, b: np.ndarray, support: range) -> float:
    """Chi-squared p-value that two integer samples follow one distribution."""
    table = np.array([_tally(a, support), _tally(b, support)])
    if table.sum(axis=0).min() < 2 * MIN_EXPECTED:
        raise ValueError("a cell holds too few draws of the two samples; pool cells")
    return float(stats.chi2_contingency(table, correction=False).pvalue)


def _tally(sample: np.ndarray, support: range) -> np.ndarray:
    clipped = np.clip(sample, support.start - 1, support.stop)
    moved = (clipped - support.start + 1).astype(np.int64)
    return np.bincount(moved, minlength=len(support) + 2)
