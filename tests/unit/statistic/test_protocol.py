"""A site's numbers are in their statistic's range before noise is added to them."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import discreet
from discreet.data.edges import Edges, Uniform
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM
from discreet.metrics.site_effects import AUC
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round
from discreet.privacy.account import MemoryAccount
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.policy import Policy
from discreet.statistic import ClassHistogram
from discreet.statistic.effect_terms import SITE_EFFECTS, Effect, EffectTerms
from discreet.statistic.protocol import MOST_COUNT, Bound, within_bounds
from discreet.statistic.site_sums import SiteSums
from policies import respond

EDGES = Edges.realise(Uniform(4))
CLIENT = Unit("client", "add_remove", 3)
HUGE = [-(2**63), 2**63 - 1, -1, 0, 5, 2**53 + 1, 1, 2]


def test_whatever_a_vector_holds_it_ends_in_its_range():
    found = within_bounds(np.array(HUGE), [Bound(4, each=7), Bound(4, total=9)])
    assert found.tolist() == [0, 7, 0, 0, 5, 4, 0, 0]
    plain = within_bounds(np.array(HUGE), [Bound(8)])
    assert plain.tolist() == [0, MOST_COUNT, 0, 0, 5, MOST_COUNT, 1, 2]
    odd = np.array([np.nan, np.inf, -np.inf, 1e300, 2.6])
    assert within_bounds(odd, [Bound(5, each=9)]).tolist() == [0, 9, 0, 9, 3]


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2)), np.array(["a"] * 4)])
def test_what_is_no_vector_of_the_declared_size_counts_nothing(wrong):
    assert within_bounds(wrong, [Bound(4)]).tolist() == [0, 0, 0, 0]


def test_a_vector_in_its_range_is_not_touched():
    rng = np.random.default_rng(1)
    for _ in range(200):
        vector = rng.integers(0, 50, 6)
        bounds = [Bound(3, 49, int(vector[:3].sum())), Bound(3)]
        assert within_bounds(vector, bounds).tolist() == vector.tolist()


def test_clipping_never_moves_two_vectors_apart_beyond_what_the_bounds_allow():
    rng = np.random.default_rng(2)
    bounds = [Bound(4, each=20, total=30)]
    for _ in range(500):
        one, two = rng.integers(-(2**62), 2**62, (2, 4))
        a, b = within_bounds(one, bounds), within_bounds(two, bounds)
        assert np.abs(a - b).sum() <= 60
        assert max(a.max(), b.max()) <= 20


@dataclass(frozen=True)
class Wild(ClassHistogram):
    """A statistic whose count leaves its range, or fails."""

    name: ClassVar[str] = "wild"
    result: ClassVar[object] = None

    def count(self, examples):
        if len(examples) and isinstance(self.result, Exception):
            raise self.result
        return np.array(self.result if len(examples) else [0] * 8)


def asked(privacy, statistic, examples, said):
    """Ask a site whose policy allows everything."""
    plan = Plan(privacy, (Round(statistic),), cohort=Cohort(3))
    policy = Policy(
        population="p",
        privacy=("distributed", "secure-aggregation"),
        coordinators=("*",),
        models=("*",),
        require_roster=False,
        epsilon_per_plan=10_000,
        epsilon_total=10_000,
        exact_sums=1,
    )
    return respond(
        examples,
        MemoryAccount(),
        plan,
        plan.resolve(0, []),
        session=b"s",
        population="p",
        entropy=SYSTEM,
        policy=policy,
        log=said.append,
    )


def answered(monkeypatch, privacy, result, said):
    monkeypatch.setattr(Wild, "result", result)
    return asked(privacy, Wild(EDGES), Examples([0.1, 0.9], [0, 1]), said)


def test_numbers_outside_their_range_are_clipped_and_the_sites_log_says_so(monkeypatch):
    said = []
    found = answered(monkeypatch, discreet.SecureAggregation(), HUGE, said)
    assert found.tolist() == [0, MOST_COUNT, 0, 0, 5, MOST_COUNT, 1, 2]
    assert len(said) == 1
    assert "clipped" in said[0]


def test_a_client_never_sends_more_than_its_examples(monkeypatch):
    said = []
    loud = discreet.DistributedDP(10_000, unit="client", max_examples=3)
    assert answered(monkeypatch, loud, HUGE, said).tolist() == [0, 3, 0, 0, 0, 0, 0, 0]
    assert "clipped" in said[0]


def test_counting_that_fails_on_a_row_is_answered_with_zeros_under_noise(
    monkeypatch,
):
    """To decline after the charge would tell that some row led there."""
    said = []
    failing = ValueError("patient 7 has a strange score")
    found = answered(monkeypatch, discreet.DistributedDP(10_000), failing, said)
    assert found.tolist() == [0] * 8
    assert "zeros" in said[0]
    assert "patient" not in said[0]
    with pytest.raises(ValueError, match="strange"):
        answered(monkeypatch, discreet.SecureAggregation(), failing, said)


def test_columns_that_no_row_could_mend_are_refused_as_before():
    logits = Examples([0.1, 9.0], [0, 1], kind="logit")
    with pytest.raises(discreet.InputError, match="of kind probability"):
        asked(discreet.DistributedDP(1), ClassHistogram(EDGES), logits, [])


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("name", SITE_EFFECTS)
def test_effects_of_any_kind_stay_in_their_bounds(name, squared):
    at = 0.5 if SITE_EFFECTS[name].at else None
    terms = replace(EffectTerms.of(name, private=True, at=at), squared=squared)
    odd = [0.0, 1e-300, 0.3, 1.0, 1e9, 1e308, np.inf, np.nan, -0.1, -1e308, -np.inf]
    for value in odd:
        for variance in odd:
            found = terms.of_effect(Effect(value, variance))
            assert within_bounds(found, terms.bounds()).tolist() == found.tolist()


def test_terms_that_escaped_their_limits_still_give_numbers_in_range():
    """Two large finite floats made NaN, and NaN as an integer is -2^63."""
    terms = EffectTerms.of("auc", private=True)
    for key in ("least", "anchor"):
        object.__setattr__(terms, key, 1e308)
    found = terms.of_effect(Effect(1.0, 0.01))
    assert found.min() >= 0
    assert found.max() <= terms.unit


@pytest.mark.parametrize("error", [ZeroDivisionError(), OverflowError(), ValueError()])
def test_an_effect_that_cannot_be_computed_adds_zeros(monkeypatch, error):
    def failing(*_):
        raise error

    terms = EffectTerms.of("auc", private=True)
    broken = replace(AUC, of=failing)
    monkeypatch.setattr(EffectTerms, "row", property(lambda _: broken))
    inner = ClassHistogram(EDGES)
    counts = inner.split(np.full(8, 50.0))
    assert not terms.encoded(EDGES, counts).any()


def test_two_large_floats_in_a_plan_are_refused():
    """The sum of a least variance and an anchor, both finite, is not."""
    plan = discreet.recommend(
        PublicFacts(1000, 0.3),
        discreet.DistributedDP(1, min_survivors=3),
        heterogeneity=discreet.HeterogeneityQuestion(within=False),
    )
    from discreet.plan import file as planfile

    text = planfile.dumps(plan)
    digest = next(line for line in text.splitlines() if line.startswith("digest"))
    text = text.replace(digest, "")
    assert planfile.loads(text) == plan
    for old in ("least = 0.0001", "anchor = 0.1"):
        assert old in text
        text = text.replace(old, f"{old.split()[0]} = 1e308")
    with pytest.raises(discreet.PlanError, match="between 1e-09 and 100"):
        planfile.loads(text)


@pytest.mark.parametrize("unit", [EXAMPLE, CLIENT])
def test_what_sites_count_is_in_the_bounds_of_their_statistic(unit):
    rng = np.random.default_rng(3)
    terms = EffectTerms.of("auc", private=True)
    statistic = SiteSums(ClassHistogram(EDGES), (terms,))
    most = 3 if unit is CLIENT else 400
    for _ in range(50):
        n = int(rng.integers(0, most + 1))
        counted = statistic.count(Examples(rng.random(n), rng.integers(0, 2, n)))
        kept = within_bounds(counted, statistic.bounds(unit))
        assert kept.tolist() == counted.tolist()
