r"""Guessing labels from scores alone: the top k are called positive (Sun 2022, R).

No mechanism that protects labels protects them from this: it uses no label, only
scores that are public. What sites can do is to send their scores *shuffled*, so
that a score is seen but not whose it is. The adversary then still knows how many of
the top k a site holds and calls as many of its examples positive, any of them: it
succeeds at the site's own rate of positives. So shuffling hides nothing in a site
with one example, and little in sites whose labels are nearly all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.statistic.protocol import check_binary

TOP: Final = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
"""The k of the paper's Table 8."""


@dataclass(frozen=True, slots=True)
class Guessed:
    """How many of a number of guesses were right."""

    positives: float
    """Positives among the guesses; where scores tie, as many as to be expected."""
    precision: float
    recall: float


@dataclass(frozen=True, slots=True)
class TopScores:
    """One row of the paper's Table 8, and the same guess on shuffled scores."""

    top: int
    in_order: Guessed
    shuffled: Guessed


def guess_top_scores(
    sites: Sequence[Examples], top: Sequence[int] = TOP
) -> list[TopScores]:
    r"""Call the k highest scores positive, for each k that there are examples for.

    With i over the top k, :math:`\sum_i y_i` guesses are right when scores come
    with their examples, and :math:`\sum_i P_{s(i)}/M_{s(i)}` are to be expected
    when site s(i) has shuffled its :math:`M_s` scores, :math:`P_s` of them of
    positives. Both are worked out, not drawn.

    >>> site = Examples([0.9, 0.8, 0.3, 0.1], [1, 1, 0, 0])
    >>> guess_top_scores([site], [2])[0].in_order.precision
    1.0
    >>> guess_top_scores([site], [2])[0].shuffled.precision
    0.5
    """
    scores, labels, rates = _pooled(sites)
    positives = float(labels.sum())
    if positives == 0:
        raise InputError("there are no positives to be guessed")
    if any(k < 1 for k in top):
        raise InputError("the number of guesses must be at least 1")
    return [
        TopScores(
            k,
            _guessed(_among_top(scores, labels, k), k, positives),
            _guessed(_among_top(scores, rates, k), k, positives),
        )
        for k in top
        if k <= scores.size
    ]


def _pooled(
    sites: Sequence[Examples],
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return scores from the highest down, labels, and the rates of their sites."""
    scores, labels, rates = [], [], []
    for site in sites:
        check_binary(site)
        if site.columns != 1:
            raise InputError("the attack reads one column of scores")
        own, y = site.to_arrays()
        scores.append(own)
        labels.append(y.astype(np.float64))
        rates.append(np.full(own.size, y.mean() if own.size else 0.0))
    pooled = np.concatenate(scores)
    order = np.argsort(-pooled, kind="stable")
    return pooled[order], np.concatenate(labels)[order], np.concatenate(rates)[order]


def _among_top(scores: FloatVector, values: FloatVector, k: int) -> float:
    """Add up the values of the top k; of ties at the end any may be taken."""
    first = int(np.searchsorted(-scores, -scores[k - 1], side="left"))
    after = int(np.searchsorted(-scores, -scores[k - 1], side="right"))
    share = (k - first) / (after - first)
    return float(values[:first].sum() + share * values[first:after].sum())


def _guessed(right: float, k: int, positives: float) -> Guessed:
    return Guessed(right, right / k, right / positives)
