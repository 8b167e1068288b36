"""All rankings of a few examples, all their neighbours, and metrics by definition.

A ranking is a tuple of groups from the highest score down; a group (p, n) holds p
positives and n negatives of one score. Without ties every group has one example.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache


def strict_rankings(rows):
    """Every ranking of so many examples without ties."""
    if rows == 0:
        return [()]
    shorter = strict_rankings(rows - 1)
    return [(g, *rest) for rest in shorter for g in ((1, 0), (0, 1))]


def tied_rankings(rows):
    """Every ranking of so many examples, ties and all."""
    if rows == 0:
        return [()]
    return [
        ((p, size - p), *rest)
        for size in range(1, rows + 1)
        for p in range(size + 1)
        for rest in tied_rankings(rows - size)
    ]


def rankings(rows, ties):
    return tied_rankings(rows) if ties else strict_rankings(rows)


def _without_one(groups):
    for k, (p, n) in enumerate(groups):
        for taken in ((1, 0), (0, 1)):
            left = (p - taken[0], n - taken[1])
            if min(left) < 0:
                continue
            middle = (left,) if sum(left) else ()
            yield groups[:k] + middle + groups[k + 1 :]


def neighbours(groups, *, ties):
    """Every ranking that has one example replaced."""
    for rest in set(_without_one(groups)):
        for new in ((1, 0), (0, 1)):
            for k in range(len(rest) + 1):
                yield (*rest[:k], new, *rest[k:])
            if ties:
                for k, (p, n) in enumerate(rest):
                    yield (*rest[:k], (p + new[0], n + new[1]), *rest[k + 1 :])


def class_counts(groups):
    return sum(p for p, _ in groups), sum(n for _, n in groups)


@cache
def doubled_wins(groups, half_credit=True):
    """Twice the pairs that are in the right order, ties one half or nothing."""
    wins, (_, below) = 0, class_counts(groups)
    for p, n in groups:
        below -= n
        wins += p * (2 * below + (n if half_credit else 0))
    return wins


def auc(groups, half_credit=True):
    n, m = class_counts(groups)
    if n * m == 0:
        return Fraction(1, 2)
    return Fraction(doubled_wins(groups, half_credit), 2 * n * m)


@cache
def average_precision(groups, grouped=True):
    """Mean precision at the positives: at their threshold, or negatives first."""
    total = class_counts(groups)[0]
    if total == 0:
        return Fraction(1, 2)
    tp = fp = 0
    found = Fraction(0)
    for p, n in groups:
        fp += n
        for i in range(1, p + 1):
            at = tp + (p if grouped else i)
            found += Fraction(at, at + fp)
        tp += p
    return found / total


def to_arrays(groups):
    """Scores and labels of a ranking."""
    scores, labels = [], []
    for level, (p, n) in enumerate(groups):
        scores += [-float(level)] * (p + n)
        labels += [1] * p + [0] * n
    return scores, labels
