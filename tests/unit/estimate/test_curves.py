"""Where noise hides the highest scores, precision and its band stay sensible."""

from functools import cache

import numpy as np
import pytest

import discreet
from discreet.cli.demo import simulate_hospitals
from discreet.data.edges import Edges, Uniform
from discreet.entropy import Seeded
from discreet.estimate.curves import Curves
from discreet.noise.laplace import LaplaceNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.transport.simulation import run
from histograms import histogram

pytestmark = pytest.mark.long


@cache
def _tutorial():
    return [hospital.examples() for hospital in simulate_hospitals()[:3]]


def _rounded():
    """Scores of two digits: gaps between heavy bins, and empty bins at the top."""
    rng = np.random.default_rng(1)
    y = rng.random(8000) < 0.2
    s = np.round(rng.beta(2 + 3 * y, 6), 2)
    return [discreet.Examples(s[i::3], y[i::3]) for i in range(3)]


def _releases(sites, epsilon, seeds):
    privacy = discreet.DistributedDP(epsilon)
    total = sum(len(site) for site in sites)
    facts = PublicFacts(total, 0.25, sites[0].scores)
    plan = recommend(facts, privacy, cohort=privacy.cohort(len(sites)))
    return [run(plan, sites, entropy=Seeded(b"start%d" % k)) for k in range(seeds)]


def _broken(recall, precision):
    """Whether precision below recall .01 is under half of that at recall .05."""
    later = np.interp(0.05, recall, precision)
    return bool((precision[recall < 0.01] < later / 2).any())


@pytest.mark.parametrize("seeds", [3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [1, 0.3])
@pytest.mark.parametrize("sites", [_tutorial, _rounded])
def test_precision_does_not_fall_to_zero_at_recall_zero(sites, epsilon, seeds):
    for result in _releases(sites(), epsilon, seeds):
        line = result.curves.pr.polyline(8)
        assert not _broken(line.x, line.y)
        precision, recall, _ = result.precision_recall_curve()
        assert not _broken(recall[::-1], precision[::-1])
        band = result.curves.band("pr")
        later = np.interp(0.05, line.x, line.y)
        assert (band.low[band.x < 0.01] >= later / 3).all()
        assert (band.low <= band.value).all()
        assert (band.high >= band.value).all()


def test_counts_within_their_noise_lend_no_precision():
    edges, law = Edges.realise(Uniform(4)), LaplaceNoise(5.0)
    released = histogram(edges, [900, 300, 100, 5], [100, 200, 300, 0], law)
    curves = Curves.from_histogram(released, "linear")
    assert curves.counted_precision[1] == 0.0
    assert curves.lead == 2
    assert curves.precision[1] == curves.precision[2] == 300 / 405
    assert curves.precision[0] == 1.0  # scikit-learn's convention


@pytest.mark.usefixtures("small_is_fine")
def test_exact_counts_are_believed_to_the_last_example():
    scores = np.array([0.95, 0.9, 0.5, 0.2])
    labels = np.array([0, 1, 1, 0])
    result = discreet.evaluate([discreet.Examples(scores, labels)])
    precision, recall, _ = result.precision_recall_curve()
    assert result.fit.curves.lead == 0
    assert precision[recall == 0].min() == 0.0
