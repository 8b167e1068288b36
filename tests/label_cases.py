"""Every rank-sum mechanism on small sites, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.codec.parsing import Amount
from discreet.label.mechanisms import build, mechanism_named, option_for
from discreet.label.rank_terms import RankSumTerms
from discreet.label.ranks import SiteRanks
from discreet.label.released_sums import LinearSums, SiteMechanism
from discreet.label.sum_noise import StaircaseSumNoise
from discreet.privacy.loss import ApproxDP, PureDP, loss_of
from discreet.statistic.rank_sums import RANK_MECHANISMS, RESPONSES, RankSums

LINEAR = tuple(RANK_MECHANISMS)
EVERY = (*LINEAR, *RESPONSES)
GAUSSIAN = tuple(name for name in LINEAR if mechanism_named(name).gaussian)
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(7, 3), Fraction(8))
GAUSSIAN_BUDGET = ApproxDP(Fraction(1), Fraction(1, 10**6))


def rank_terms(
    epsilon: Amount = 1, delta: Amount = 0, colluders: int = 0, **sums: Any
) -> RankSumTerms:
    """Return terms of rank sums, amounts as a plan writes them."""
    return RankSumTerms(RankSums(**sums), loss_of(epsilon, delta), colluders)


def random_sites(count: int, rng: np.random.Generator) -> Iterator[SiteRanks]:
    """Yield small sites: ties, one rank, one example, narrow and wide ones."""
    for k in range(count):
        examples = int(rng.integers(2, 60))
        size = int(rng.integers(1, min(5, examples) + 1))
        if k % 4 == 0:
            doubled = np.full(size, rng.integers(0, 2 * examples - 1))
        elif k % 4 == 1:
            low = rng.integers(0, 2 * examples - 1)
            doubled = np.minimum(low + rng.integers(0, 3, size), 2 * examples - 2)
        else:
            doubled = rng.integers(0, 2 * examples - 1, size)
        yield SiteRanks(doubled.astype(np.int64), examples)


def mechanism_of(
    name: str, ranks: SiteRanks, budget: PureDP | ApproxDP
) -> SiteMechanism:
    """Return what a site releases under a name."""
    option = option_for(name, ranks, budget, share=Fraction(3, 10))
    return build(option, ranks, budget)


def linear_of(
    name: str, ranks: SiteRanks, budget: PureDP | ApproxDP
) -> LinearSums | None:
    """Return the mechanism if it releases noisy sums, None if it flips labels."""
    found = mechanism_of(name, ranks, budget)
    return found if isinstance(found, LinearSums) else None


def staircase_pmf(noise: StaircaseSumNoise, values: IntVector) -> FloatVector:
    """Return the probability of each integer, by the definition of a staircase."""
    beyond = np.abs(values) - noise.width
    level = np.where(beyond < 0, 0, 1 + beyond // noise.step)
    e = float(noise.epsilon)
    mass = 2 * noise.width - 1 + 2 * noise.step / np.expm1(e)
    return np.exp(-e * level) / mass
