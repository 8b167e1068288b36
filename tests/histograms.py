"""Class histograms for tests: given, counted from scores, or with simulated noise."""

from dataclasses import replace

import numpy as np

from discreet.estimate.spline_model import Response
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram


def histogram(edges, negatives, positives, noise=None, **more):
    counts = (np.array(each, dtype=np.float64) for each in (negatives, positives))
    return NoisyHistogram(edges, *counts, noise or NoNoise(), **more)


def counted(scores, labels, edges):
    place = edges.bins_of(np.asarray(scores, dtype=float))
    both = (place[np.asarray(labels) == y] for y in (0, 1))
    return histogram(edges, *(np.bincount(b, minlength=len(edges)) for b in both))


def noisy(exact, scale, rng):
    """Add discrete Laplace noise."""
    noise = simulate_discrete_laplace(scale, (2, len(exact.edges)), rng)
    negatives, positives = exact.negatives + noise[0], exact.positives + noise[1]
    law = LaplaceNoise(scale)
    return replace(exact, negatives=negatives, positives=positives, noise=law)


def no_examples(edges):
    return histogram(edges, np.zeros(len(edges)), np.zeros(len(edges)))


def following(own):
    """The response of counts that follow nothing but their own released ones."""
    return Response(own, *np.zeros((2, own.size, 0)))
