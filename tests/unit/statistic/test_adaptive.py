"""Edges that a pilot round places: where the scores are, the same for every reader."""

from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet import DistributedDP, LocalDP, SecureAggregation
from discreet.data.edges import Edges, Warped
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.errors import PlanError
from discreet.plan.cohort import PublicFacts
from discreet.plan.file import dumps, loads
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Round
from discreet.statistic import ClassHistogram, PlacedFrom
from discreet.transport.simulation import run, simulate

LOGITS = ScoreRange.declare("logit")
CELLS = Edges.realise(PriorSpread(64, 0.05))
LOOK = ClassHistogram(CELLS)


def edges_of(counts, *, bins=20, thresholds=()):
    released = np.concatenate([np.asarray(c, dtype=float) for c in counts])
    return PlacedFrom(LOOK, bins, thresholds).resolve(released).edges


def seen(low, high, *, heavy=1000.0):
    """Counts of a class whose scores all lie between two cells."""
    counts = np.zeros(64)
    counts[low:high] = heavy
    return counts


def test_bins_lie_where_the_look_saw_scores():
    edges = edges_of([seen(20, 30), seen(22, 32)])
    low, high = CELLS.array[18], CELLS.array[34]
    inside = np.count_nonzero((edges.array > low) & (edges.array < high))
    assert inside >= 0.75 * len(edges)


def test_a_tenth_of_the_examples_is_a_class_like_the_other():
    """Bins follow the classes' shares: a rare class has its own."""
    rare = edges_of([seen(10, 20), seen(40, 50, heavy=10.0)])
    even = edges_of([seen(10, 20), seen(40, 50)])
    assert rare == even


def test_a_look_that_saw_nothing_but_noise_leaves_the_bins_to_the_prior():
    edges = edges_of([np.full(64, -3.0)] * 2, bins=30)
    z = np.log(edges.array[1:-1] / (1 - edges.array[1:-1]))
    cells = np.log(CELLS.array[1:-1] / (1 - CELLS.array[1:-1]))
    even = np.interp(np.arange(1, 30) / 30, np.linspace(0, 1, 63), cells)
    np.testing.assert_allclose(z, even, atol=1e-4)


def test_the_farthest_edges_are_edges_where_scores_lie_beyond_them():
    zeros = np.zeros(64)
    zeros[0] = 5_000
    tied = edges_of([seen(20, 40) + zeros, seen(20, 40)])
    without = edges_of([seen(20, 40), seen(20, 40)])
    assert tied.values[1] == CELLS.values[1]
    assert without.values[1] > CELLS.values[1]


def test_thresholds_become_edges_of_the_second_round():
    assert {0.123, 0.5} <= set(
        edges_of([seen(0, 64)] * 2, thresholds=(0.123, 0.5)).values
    )


def test_one_wrong_count_hardly_moves_the_edges():
    """A draw of the noise is spread over its neighbours."""
    once = [seen(20, 40), seen(20, 40)]
    moved = [seen(20, 40), seen(20, 40)]
    moved[0][50] += 300  # 15 noise scales of a look with 5% of eps 1
    z, there = (
        np.log(e.array[1:-1] / (1 - e.array[1:-1]))
        for e in map(edges_of, (once, moved))
    )
    assert np.abs(z[:15] - there[:15]).max() < 0.1


@pytest.mark.parametrize("scores", [ScoreRange(), LOGITS])
def test_logits_and_probabilities_have_the_same_edges(scores):
    pilot = ClassHistogram(Edges.realise(PriorSpread(64, 0.05), scores))
    counts = np.concatenate([seen(20, 40), seen(25, 45)])
    found = PlacedFrom(pilot, 20).resolve(counts).edges.array[1:-1]
    z = found if scores is LOGITS else np.log(found / (1 - found))
    there = edges_of([seen(20, 40), seen(25, 45)]).array[1:-1]
    np.testing.assert_allclose(z, np.log(there / (1 - there)), atol=2e-5)


def test_a_plan_says_that_it_looks_first_and_what_the_look_costs():
    facts = PublicFacts(100_000, 0.01)
    plan = recommend(facts, DistributedDP(1), pilot=True)
    assert [r.budget for r in plan.rounds] == [Fraction(6, 100), Fraction(94, 100)]
    assert plan.rounds[0].statistic == ClassHistogram(
        Edges.realise(PriorSpread(64, 0.01), thresholds=(0.5,))
    )
    assert isinstance(plan.statistic, PlacedFrom)
    assert plan.statistic.thresholds == (0.5,)
    assert loads(dumps(plan)) == plan
    few = recommend(PublicFacts(2_000, 0.1), DistributedDP(1), pilot=True)
    assert few.rounds[0].budget == Fraction(20, 100)
    blind = recommend(PublicFacts(), DistributedDP(1), pilot=True)
    assert blind.rounds[0].budget == Fraction(5, 100)


@pytest.mark.parametrize(
    "privacy", [SecureAggregation(), LocalDP(1), DistributedDP(1, "1e-6")]
)
def test_a_pilot_round_is_refused_where_its_noise_is_not_pure(privacy):
    with pytest.raises(PlanError, match="pilot round needs pure"):
        recommend(PublicFacts(1000, 0.5), privacy, pilot=True)


@pytest.mark.parametrize(
    "also", [{"edges": Warped(8)}, {"groups": ["a", "b"]}, {"max_weight": 3}]
)
def test_a_pilot_round_is_refused_with_what_it_cannot_place(also):
    with pytest.raises(PlanError, match="places the bins of two classes"):
        recommend(PublicFacts(1000, 0.5), DistributedDP(1), pilot=True, **also)


def test_placed_bins_follow_their_own_pilot_round():
    facts = PublicFacts(1000, 0.5)
    plan = recommend(facts, DistributedDP(1), pilot=True)
    with pytest.raises(PlanError, match="follow that round"):
        Plan(DistributedDP(1), (Round(plan.statistic),), facts=facts)
    with pytest.raises(PlanError, match="between 2 and"):
        PlacedFrom(LOOK, 1)


def test_scores_that_nobody_expected_are_measured_after_a_look(rng):
    """Scores within .001 of .01, the expected prevalence one half."""
    y = rng.random(40_000) < 0.5
    z = -4.6 + 0.05 * (rng.normal(size=40_000) + y)
    sites = [discreet.Examples(1 / (1 + np.exp(-z)), y)]
    plan = recommend(PublicFacts(40_000, 0.5), DistributedDP(1), pilot=True)
    releases = simulate(plan, sites, entropy=Seeded(b"1"))
    result = run(plan, sites, entropy=Seeded(b"1"))
    assert result.observed.edges == plan.resolve(1, releases[:1]).statistic.edges
    low, high = result.auc.interval()
    assert low < 0.7602 < high  # Phi(1/sqrt 2)
    assert result.auc.value == pytest.approx(0.7602, abs=0.01)
