r"""Re-identification from one AUC (Boyd 2015, section 3.1), with a null control.

The adversary knows every example but one and the released AUC. It places the
missing example at every place of the ranking, once as a positive and once as a
negative, works out the AUC each time, and guesses the class that comes closest (on a
tie the class that is more frequent among the known).

The paper's design has exactly as many positives as negatives: then the known
examples alone give the missing class away. Here labels are independent fair
coins, and a *null control* hands the adversary the AUC of unrelated data: it must
succeed half the time, and what exceeds it is due to the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from discreet.curator.ranking import rank, rank_arrays
from discreet.curator.weighted_count import auc_weights, simulate_weighted_count
from discreet.data.examples import Examples
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Design: TypeAlias = Literal["independent", "balanced"]
_MOST_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Reidentification:
    """How often the class of the missing example was guessed.

    ``null`` is the success with an unrelated AUC, ``private`` with a private one.
    """

    size: int
    digits: int
    success: float
    null: float
    private: float
    trials: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """The AUCs that are possible if the missing example is positive, or negative."""

    if_positive: FloatVector
    if_negative: FloatVector
    frequent: bool
    """Whether positives are at least as frequent among the known."""

    @classmethod
    def of(cls, scores: FloatVector, positive: NDArray[np.bool_]) -> Candidates:
        """Place the missing example between all known scores, and at repeated ones."""
        p, n = np.sort(scores[positive]), np.sort(scores[~positive])
        if p.size == 0 or n.size == 0:
            raise InputError("the adversary needs known examples of both classes")
        wins = rank_arrays(scores, positive, ties="scikit-learn").doubled_wins
        places, times = np.unique(scores, return_counts=True)
        tied = places[times > 1]  # scores that repeat: the missing one may as well
        beaten = _doubled_below(n, places, tied)
        above = 2 * p.size - _doubled_below(p, places, tied)
        return cls(
            (wins + beaten) / (2 * (p.size + 1) * n.size),
            (wins + above) / (2 * p.size * (n.size + 1)),
            p.size >= n.size,
        )

    def guess(self, released: float, digits: int) -> bool:
        """Return the guessed class; candidates are rounded as the release is."""
        seen = np.round(released * 10**digits)
        positive, negative = (
            float(np.min(np.abs(np.round(found * 10**digits) - seen)))
            for found in (self.if_positive, self.if_negative)
        )
        return self.frequent if positive == negative else positive < negative


def _doubled_below(
    known: FloatVector, places: FloatVector, tied: FloatVector
) -> FloatVector:
    """Return twice the known that are below a place in the ranking, ties once."""
    between = 2.0 * np.searchsorted(known, places, side="right")
    low = np.searchsorted(known, tied, side="left")
    high = np.searchsorted(known, tied, side="right")
    return np.concatenate([[0.0], between, (low + high).astype(np.float64)])


def reidentify_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    rng: np.random.Generator,
    sizes: Sequence[int] = (100, 500, 1000, 2500),
    digits: Sequence[int] = (2, 3, 4, 5, 6, 7),
    trials: int = 1000,
    epsilon: float = 1.0,
    design: Design = "independent",
) -> list[Reidentification]:
    """Attack releases on samples of the given examples and count the successes.

    Args:
        y_true: labels of a pool of examples.
        y_score: their scores.
        rng: draws the samples and simulates the private release.
        sizes: numbers of examples, the missing one among them.
        digits: to how many decimals the AUC is released.
        trials: samples a size.
        epsilon: of the private release that the attack is also tried on.
        design: ``independent`` labels, or the paper's ``balanced`` halves.

    >>> rng = np.random.default_rng(1)
    >>> y = rng.integers(0, 2, 4000)
    >>> s = rng.normal(y, 1.0)
    >>> (found,) = reidentify_auc(y, s, rng=rng, sizes=[60], digits=[6], trials=200)
    >>> found.success > 0.9, 0.3 < found.null < 0.7, 0.3 < found.private < 0.7
    (True, True, True)
    """
    scores, labels = Examples(y_score, y_true, kind="logit").to_arrays()
    pools = (scores[labels == 0], scores[labels == 1])
    _check(pools, sizes, digits, trials)
    found = []
    for size in sizes:
        hits = np.zeros((len(digits), 3))
        for _ in range(trials):
            hits += _trial(pools, size, digits, epsilon, design, rng)
        found += [
            Reidentification(size, d, hit, null, private, trials)
            for d, (hit, null, private) in zip(
                digits, (hits / trials).tolist(), strict=True
            )
        ]
    return found


def _check(
    pools: tuple[FloatVector, FloatVector],
    sizes: Sequence[int],
    digits: Sequence[int],
    trials: int,
) -> None:
    least = min(pool.size for pool in pools)
    if not sizes or min(sizes) < 10 or max(sizes) > least:
        raise InputError(
            f"sizes range from 10 to the smaller class of the pool, {least}"
        )
    if not digits or min(digits) < 1 or max(digits) > _MOST_DIGITS:
        raise InputError(f"digits range from 1 to {_MOST_DIGITS}")
    if trials < 1:
        raise InputError("at least one trial is needed")


def _trial(
    pools: tuple[FloatVector, FloatVector],
    size: int,
    digits: Sequence[int],
    epsilon: float,
    design: Design,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return hits by digits: of the release, of the null control, of a private one."""
    scores, positive = _sample(pools, size, design, rng)
    candidates = Candidates.of(scores[1:], positive[1:])
    ranking = rank(positive, scores, ties="scikit-learn")
    other = rank(*_sample(pools, size, design, rng)[::-1], ties="scikit-learn")
    private = simulate_weighted_count(
        float(ranking.auc), ranking.positives, auc_weights(size), epsilon, 1, rng
    )
    releases = (float(ranking.auc), float(other.auc), float(private[0]))
    truth = bool(positive[0])
    return np.array(
        [[candidates.guess(auc, d) == truth for auc in releases] for d in digits],
        dtype=np.float64,
    )


def _sample(
    pools: tuple[FloatVector, FloatVector],
    size: int,
    design: Design,
    rng: np.random.Generator,
) -> tuple[FloatVector, NDArray[np.bool_]]:
    """Draw labels, then a score for each from its class; row 0 is the target."""
    match design:
        case "independent":
            positive = rng.random(size) < 0.5
            positive[1:3] = True, False  # known examples of both classes
        case "balanced":
            positive = rng.permutation(np.arange(size) % 2 == 0)
        case _:
            raise InputError("labels are drawn independent or balanced")
    scores = np.empty(size)
    for label, pool in enumerate(pools):
        mine = positive == bool(label)
        scores[mine] = rng.choice(pool, int(mine.sum()), replace=False)
    return scores, positive
