"""Slow, obvious recalibration: one example at a time, integers and loops."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise


def quantile_cuts(totals, groups):
    """Edges nearest to j/B of the examples, lower ones first, none at an end."""
    whole = sum(totals)
    below = [sum(totals[: k + 1]) for k in range(len(totals))]
    cuts = set()
    for j in range(1, groups):
        target = Fraction(whole * j, groups)
        best = min(range(len(totals)), key=lambda k: (abs(below[k] - target), k))
        if 0 < below[best] < whole:
            cuts.add(below[best])
    return [1 + below.index(mass) for mass in sorted(cuts)]


def members(bins, cuts):
    """Which group each bin belongs to."""
    return [sum(k >= cut for cut in cuts) for k in range(bins)]


def binning(examples, bins, groups):
    """Rate of positives in each bin's group; examples are (bin, label)."""
    totals = [sum(b == k for b, _ in examples) for k in range(bins)]
    group = members(bins, quantile_cuts(totals, groups))
    rates = []
    for k in range(bins):
        own = [y for b, y in examples if group[b] == group[k]]
        rates.append(sum(own) / len(own))
    return rates


def log_evidence(examples, group, middles):
    """Log probability of the labels, predicted one by one (a Polya urn)."""
    count = len(middles)
    seen = [[0, 0] for _ in middles]
    total = 0.0
    for b, y in examples:
        g = group[b]
        positive = (2 / count * middles[g] + seen[g][1]) / (2 / count + sum(seen[g]))
        total += math.log(positive if y else 1 - positive)
        seen[g][y] += 1
    return total


def bbq(examples, bins, edges):
    """Average of all binnings, weighted by the evidence of each."""
    totals = [sum(b == k for b, _ in examples) for k in range(bins)]
    root = math.cbrt(len(examples))
    most = min(math.floor(10 * root), bins)
    found = {}
    for groups in range(min(max(math.floor(root / 10), 1), most), most + 1):
        cuts = quantile_cuts(totals, groups)
        if tuple(cuts) in found:
            continue
        group = members(bins, cuts)
        ends = [0, *cuts, bins]
        middles = [(edges[a] + edges[b]) / 2 for a, b in pairwise(ends)]
        rates = []
        for k in range(bins):
            own = [y for b, y in examples if group[b] == group[k]]
            prior = 2 / len(middles)
            rates.append((sum(own) + prior * middles[group[k]]) / (len(own) + prior))
        found[tuple(cuts)] = (log_evidence(examples, group, middles), rates)
    highest = max(log for log, _ in found.values())
    weights = [math.exp(log - highest) for log, _ in found.values()]
    return [
        sum(w * rates[k] for w, (_, rates) in zip(weights, found.values(), strict=True))
        / sum(weights)
        for k in range(bins)
    ]


def calibration_error(said, labels, groups):
    """ECE of predictions that are put into given groups."""
    total = 0.0
    for g in set(groups):
        own = [k for k, group in enumerate(groups) if group == g]
        total += abs(sum(labels[k] - said[k] for k in own))
    return total / len(labels)
