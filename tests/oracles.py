"""Slow, obvious implementations: the definitions, by brute force."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from discreet.noise.skellam import SymmetricTable


def auc_by_pairs(scores, labels):
    """Pairs in the right order; ties count one half."""
    pos = [s for s, y in zip(scores, labels, strict=True) if y]
    neg = [s for s, y in zip(scores, labels, strict=True) if not y]
    wins = sum((p > n) + 0.5 * (p == n) for p in pos for n in neg)
    return wins / (len(pos) * len(neg))


def pr_points(scores, labels):
    """Recall and precision at each distinct threshold, from (0, 1) on."""
    recall, precision = [0.0], [1.0]
    for t in sorted(set(scores), reverse=True):
        chosen = [y for s, y in zip(scores, labels, strict=True) if s >= t]
        recall.append(sum(chosen) / sum(labels))
        precision.append(sum(chosen) / len(chosen))
    return np.array(recall), np.array(precision)


def average_precision(scores, labels):
    recall, precision = pr_points(scores, labels)
    return float(np.sum(np.diff(recall) * precision[1:]))


def trapezoid_aupr(scores, labels):
    recall, precision = pr_points(scores, labels)
    return float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1])) / 2)


def arrangements(negatives, positives):
    """Every way to order and tie the examples inside their bins, as scores.

    Inside a bin each example gets one of as many levels as there are examples:
    all weak orders appear.
    """
    bins = [[0] * n + [1] * p for n, p in zip(negatives, positives, strict=True)]
    choices = [
        list(product(range(len(members)), repeat=len(members))) or [()]
        for members in bins
    ]
    labels = [y for members in bins for y in members]
    for levels in product(*choices):
        scores = [
            k + (level + 1) / (len(members) + 2)
            for k, (members, found) in enumerate(zip(bins, levels, strict=True))
            for level in found
        ]
        yield scores, labels


def gaussian_table(variance):
    """The discrete Gaussian by its definition, as a table of probabilities."""
    reach = int(17.0 * float(variance) ** 0.5) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * float(variance)))
    return SymmetricTable(weights / weights.sum())


def polya_log_pmf(noise, values):
    """Log probabilities of sums of Polya shares, where floats underflow too.

    The generating function G satisfies (1+a^2-az-a/z) zG' = ra(z-1/z) G, so
    (1+a^2) k p_k = a(k+1-r) p_(k+1) + a(k-1+r) p_(k-1). The ratios p_k/p_(k-1)
    follow downwards from far out, where they tend to a; an error shrinks by a^2 a step.
    """
    a, shape, distance = math.exp(-noise.gamma), noise.shape, np.abs(values)
    common = math.ceil(12 * math.sqrt(noise.variance) + 45 / noise.gamma)
    reach = max(common, int(distance.max(initial=0))) + 1
    log_ratios, ratio = np.zeros(reach), a
    for k in range(reach + math.ceil(25 / noise.gamma), 0, -1):
        ratio = a * (k - 1 + shape) / ((1 + a * a) * k - a * (k + 1 - shape) * ratio)
        if k < reach:
            log_ratios[k] = math.log(ratio)
    logs = np.cumsum(log_ratios)
    logs -= logs.max()
    return (logs - math.log(2 * np.exp(logs).sum() - math.exp(logs[0])))[distance]


def polya_pmf(noise):
    """The probability of each integer under sums of Polya shares, as a function."""
    values = np.arange(400)
    table = np.exp(polya_log_pmf(noise, values))
    return lambda k: float(table[abs(k)])
