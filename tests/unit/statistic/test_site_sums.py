"""What sites add beside their counts: bounded, exact enough, within its sensitivity."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.codec.messages import MAX_ENTRIES
from discreet.data.edges import Edges, Uniform, Warped
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.metrics.heterogeneity import AnchoredSums
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.rounds import ResolvedRound, Round
from discreet.privacy.loss import Unbounded
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.protocols.secure_sum import can_release
from discreet.statistic import BinCounts, ClassHistogram
from discreet.statistic.effect_terms import (
    MOST_UNIT,
    SITE_EFFECTS,
    Effect,
    EffectTerms,
)
from discreet.statistic.site_sums import (
    MOST_BYTES,
    SiteSums,
    WithinSums,
    decoded_products,
    encoded_pairs,
    encoded_products,
    features,
)

EDGES = Edges.realise(Warped(64), thresholds=(0.5,))
INNER = ClassHistogram(EDGES)
CLIENT = Unit("client", "add_remove", 4)


def site(rng, n, auc_shift=1.5, shift=0.0):
    y = rng.random(n) < 0.3
    z = rng.normal(auc_shift * y - 0.8 + shift, 1)
    return 1 / (1 + np.exp(-z)), y


def halves(examples):
    return INNER.split(INNER.count(examples).astype(float))


def added_up(terms, effects, variances):
    """Return the totals over sites with these effects, as they are revealed."""
    pairs = zip(effects, variances, strict=True)
    total = sum(terms.of_effect(Effect(*pair)) for pair in pairs)
    return terms.totals(total.astype(float))


@pytest.mark.parametrize("draw", range(5))
@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_fixed_point_sums_are_the_textbooks_to_a_hundredth(draw, spread):
    """Weights that differ by four orders of magnitude, effects to the range's ends."""
    rng = np.random.default_rng(draw)
    variances = np.exp(rng.normal(-4, 1 + spread / 2, 30)).clip(1e-4, 3)
    effects = rng.normal(1.3, 0.3 + spread / 3, 30).clip(-1, 5)
    terms = EffectTerms.of("auc", private=False)
    known = AnchoredSums.of_sites(effects, variances, terms.anchor)
    sums = AnchoredSums(*added_up(terms, effects, variances).tolist(), terms.anchor)
    assert sums.sites == pytest.approx(known.sites, abs=0.01)
    assert sums.mean == pytest.approx(known.mean, abs=1e-3)
    assert sums.tau2 == pytest.approx(known.tau2, rel=0.01, abs=2e-3)
    assert sums.q == pytest.approx(known.q, rel=0.01, abs=0.2)


def test_rounding_is_within_the_bound_of_the_docstring():
    rng = np.random.default_rng(2)
    terms = replace(EffectTerms.of("auc", private=False), unit=1000)
    effects, variances = rng.normal(1, 1, 200), np.exp(rng.normal(-3, 1, 200))
    found = added_up(terms, effects, variances)
    kept = effects.clip(terms.low, terms.high)
    exact = AnchoredSums.of_sites(kept, variances.clip(terms.least), terms.anchor)
    bound = 200 * 6.0**2 / (1000 * (1e-4 + terms.anchor))
    assert abs(found[4] - exact.effect_squared) <= bound
    assert abs(found[1] - exact.weight) <= bound


def test_no_sum_can_overflow():
    assert MOST_UNIT * MAX_ENTRIES < 2**62
    full = BinCounts(np.full(65, 1e9), np.full(65, 1e9))
    assert encoded_pairs(full).max() * MAX_ENTRIES < 2**62
    counts = np.full(INNER.size, 10**9)
    for kind in ("site", "subject"):
        examples = Examples([0.99] * 2000, [1] * 2000, subjects=["one"] * 2000)
        numbers = encoded_products(kind, INNER, counts, examples)
        assert numbers.max() * MAX_ENTRIES < 2**62
    with pytest.raises(PlanError, match="unit of an effect"):
        replace(EffectTerms.of("auc", private=False), unit=MOST_UNIT + 1)


@pytest.mark.parametrize("unit", [16, 101, 2**8])
@pytest.mark.parametrize("squared", [False, True])
def test_no_change_of_a_site_moves_its_numbers_further_than_is_said(unit, squared):
    """All pairs of extreme and random effects; presence and change."""
    rng = np.random.default_rng(1)
    terms = replace(EffectTerms.of("auc", private=True), unit=unit, squared=squared)
    effects = [
        Effect(v, s)
        for v in (-9.0, terms.low, 0.3, 1.5, terms.high, 9.0)
        for s in (0.0, terms.least, 0.01, 0.03, 1.0, 1e9)
    ]
    effects += [
        Effect(rng.uniform(-1, 4), np.exp(rng.normal(-3, 2))) for _ in range(60)
    ]
    numbers = [terms.of_effect(e) for e in effects] + [
        np.zeros(terms.size, dtype=np.int64)
    ]
    client, any_change = terms.sensitivity(CLIENT), terms.sensitivity(EXAMPLE)
    largest = 0
    for a, b in itertools.product(numbers, numbers):
        moved = np.abs(a - b)
        assert moved.sum() <= any_change.l1
        assert (moved**2).sum() <= any_change.l2_squared
        assert moved.max() <= any_change.linf
        largest = max(largest, moved.sum())
    for a in numbers:
        assert np.abs(a).sum() <= client.l1
        assert (a**2).sum() <= client.l2_squared
        assert np.abs(a).max() <= client.linf
    assert largest > 0.99 * (2 + squared) * unit - 5, "the bound is far off"
    assert max(a.sum() for a in numbers) > (1 + squared) * unit - 5


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_blocks_bound_every_neighbour_of_small_sites(relation):
    """Brute force over rows: the histogram's block and the effects' block."""
    inner = ClassHistogram(Edges.realise(Uniform(2)))
    terms = replace(EffectTerms.of("auc", private=True), fewest=2, unit=64)
    statistic = SiteSums(inner, (terms,))
    rows = [(s, y) for s in (0.2, 0.8) for y in (0, 1)]
    unit = Unit("example", relation)
    first, second = statistic.blocks(unit)
    for size in (4, 5):
        for held in itertools.combinations_with_replacement(rows, size):
            here = _counted(statistic, held)
            if relation == "add_remove":
                others = [held[:i] + held[i + 1 :] for i in range(size)]
            else:
                others = [(*held[1:], row) for row in rows]
            for other in others:
                moved = np.abs(here - _counted(statistic, other))
                assert moved[: inner.size].sum() <= first.sensitivity.l1
                assert moved[inner.size :].sum() <= second.sensitivity.l1
                beside = moved[inner.size :].astype(float)
                assert (beside**2).sum() <= second.sensitivity.l2_squared


def _counted(statistic, held):
    return statistic.count(Examples([s for s, _ in held], [y for _, y in held]))


def test_a_one_class_or_tiny_site_adds_zeros_beside_its_counts():
    statistic = SiteSums(INNER, (EffectTerms.of("auc", private=False),), within=True)
    one_class = statistic.count(Examples([0.1, 0.9, 0.4], [1, 1, 1]))
    assert not one_class[INNER.size :].any()
    tiny = statistic.count(Examples([0.1, 0.9, 0.4], [0, 1, 1]))
    assert not tiny[INNER.size : INNER.size + 5].any()
    assert tiny[INNER.size + 5 :].any(), "it has pairs within the site"


def test_pairs_within_sites_equal_brute_force():
    rng = np.random.default_rng(6)
    data = [site(rng, n, shift=s) for n, s in ((60, -1), (200, 0), (35, 1.5))]
    statistic = SiteSums(INNER, within=True)
    total = sum(statistic.count(Examples(*d)) for d in data)
    found = WithinSums.decoded(statistic.pair_sums(total.astype(float)))
    concordant = pairs = weighted = size = 0.0
    variance = 0.0
    for s, y in data:
        bins = EDGES.bins_of(s).astype(int)
        wins = [
            (p > n) + (p == n) / 2
            for p, n in itertools.product(bins[y].tolist(), bins[~y].tolist())
        ]
        area = np.mean(wins)
        concordant += sum(wins)
        pairs += len(wins)
        weighted += area * y.size
        size += y.size
        table = np.reshape(wins, (y.sum(), -1))
        delong = table.mean(1).var(ddof=1) / y.sum()
        delong += table.mean(0).var(ddof=1) / (~y).sum()
        variance += len(wins) ** 2 * delong
    assert found.by_pairs()[0] == pytest.approx(concordant / pairs, abs=2.0**-12)
    assert found.by_pairs()[1] == pytest.approx(np.sqrt(variance) / pairs, abs=2.0**-12)
    assert found.by_size()[0] == pytest.approx(weighted / size, abs=2.0**-12)


def test_every_effect_is_what_its_name_says():
    """Each against the definition on the site's own rows; the bins are narrow."""
    rng = np.random.default_rng(7)
    edges = Edges.realise(Uniform(4096), thresholds=(0.5,))
    inner = ClassHistogram(edges)
    s, y = site(rng, 4000)
    counts = inner.split(inner.count(Examples(s, y)).astype(float))
    recall, specificity = np.mean(s[y] >= 0.5), np.mean(s[~y] < 0.5)
    known = {
        "log_oe": np.log(y.sum() / s.sum()),
        "recall": np.log(recall / (1 - recall)),
        "specificity": np.log(specificity / (1 - specificity)),
        "net_benefit": np.mean((s >= 0.5) & y) - np.mean((s >= 0.5) & ~y),
    }
    for name, value in known.items():
        row = SITE_EFFECTS[name]
        found = row.of(edges, counts, 0.5 if row.at else None)
        assert found.value == pytest.approx(value, abs=5e-3), name
    for name in SITE_EFFECTS:
        row = SITE_EFFECTS[name]
        drawn = []
        for _ in range(60):
            s, y = site(rng, 1500)
            counts = inner.split(inner.count(Examples(s, y)).astype(float))
            drawn.append(row.of(edges, counts, 0.5 if row.at else None))
        spread = np.std([e.value for e in drawn])
        said = np.sqrt(np.mean([e.variance for e in drawn]))
        assert 0.7 < said / spread < 1.4, name


def test_a_perfect_ranking_has_an_effect():
    counts = halves(Examples([0.1] * 8 + [0.9] * 8, [0] * 8 + [1] * 8))
    effect = SITE_EFFECTS["auc"].of(EDGES, counts, None)
    assert 3 < effect.value < 7
    assert effect.variance > 0.05


def test_clusters_products_equal_brute_force():
    rng = np.random.default_rng(9)
    s, y = site(rng, 300)
    who = rng.integers(0, 90, 300)
    statistic = SiteSums(INNER, clusters="subject")
    numbers = statistic.count(Examples(s, y, subjects=who))
    found = decoded_products("subject", statistic.cluster_sums(numbers * 1.0))
    x = features(len(EDGES))
    cells = INNER.cells(next(iter(Examples(s, y).batches())))
    known = np.zeros((6, 6))
    for person in range(90):
        z = x[cells[who == person]].sum(axis=0)
        known += np.outer(z, z)
    assert found == pytest.approx(known, abs=1e-3)


def test_rows_that_name_nobody_are_clusters_of_their_own():
    s, y = [0.2, 0.2, 0.9], [0, 0, 1]
    named = SiteSums(INNER, clusters="subject").count(
        Examples(s, y, subjects=np.array([None, None, "a"], dtype=object))
    )
    alone = SiteSums(INNER, clusters="subject").count(Examples(s, y))
    assert named.tolist() == alone.tolist()


def test_at_most_400_further_bytes():
    usual = SiteSums(
        INNER, (EffectTerms.of("auc", private=False),), within=True, clusters="site"
    )
    assert 8 * usual.further <= MOST_BYTES
    many = tuple(
        EffectTerms.of(n, private=False, at=0.5 if SITE_EFFECTS[n].at else None)
        for n in SITE_EFFECTS
    )
    with pytest.raises(PlanError, match="400"):
        SiteSums(INNER, many, within=True, clusters="site")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"low": 7.0, "high": 7.0}, "range"),
        ({"low": -1e308, "high": 1e308}, "'low' of an effect"),
        ({"least": 0.0}, "'least' of an effect"),
        ({"least": 1e308, "anchor": 1e308}, "'least' of an effect"),
        ({"anchor": 1e308}, "'anchor' of an effect"),
        ({"anchor": -1.0}, "'anchor' of an effect"),
        ({"anchor": float("nan")}, "'anchor' of an effect"),
        ({"anchor": "0.1"}, "'anchor' of an effect"),
        ({"squared": 1}, "true or false"),
        ({"unit": 3}, "unit of an effect"),
        ({"unit": 2**13}, "unit of an effect"),
        ({"fewest": 1}, "fewest examples"),
        ({"at": 0.5}, "not taken at a threshold"),
        ({"effect": "charm"}, "unknown effect"),
        ({"high": float("inf")}, "'high' of an effect"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(change, match):
    with pytest.raises(PlanError, match=match):
        replace(EffectTerms.of("auc", private=False), **change)


AREA = EffectTerms.of("auc", private=False)
BETWEEN = EffectTerms.of("recall", private=False, at=0.123)


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({}, "at least one thing"),
        ({"effects": (AREA, AREA)}, "once"),
        ({"effects": (AREA,), "share": Fraction(1)}, "share"),
        ({"effects": (BETWEEN,)}, "one of the plan's thresholds"),
        ({"effects": (AREA,), "clusters": "ward"}, "of a site or of a subject"),
    ],
)
def test_sums_that_cannot_be_meant_are_refused(parts, match):
    with pytest.raises(PlanError, match=match):
        SiteSums(INNER, **parts)


@pytest.mark.parametrize(
    ("parts", "fewest"),
    [({"effects": (AREA,)}, 10), ({"within": True}, 12), ({"clusters": "site"}, 10)],
)
def test_so_few_sites_that_sums_determine_them_are_refused(parts, fewest):
    statistic = SiteSums(INNER, **parts)
    statistic.admits(None, fewest)
    for fewer in (3, fewest - 1):  # of three, clusters' sums tell each site's own
        with pytest.raises(PlanError, match=f"at least {fewest}"):
            statistic.admits(None, fewer)


def test_pairs_within_sites_are_not_added_up_under_noise():
    with pytest.raises(PlanError, match="added up exactly"):
        SiteSums(INNER, (AREA,), within=True).admits(EXAMPLE, 30)


def test_who_takes_part_in_an_exact_sum_tells_no_size_that_a_plan_chooses():
    """A coordinator would raise the floor until a site stays out."""
    terms = replace(EffectTerms.of("auc", private=False), fewest=37)
    with pytest.raises(PlanError, match="5 of each class"):
        SiteSums(INNER, (terms,)).admits(None, 30)


def test_a_charge_stands_where_going_on_is_an_answer():
    plain = ResolvedRound(0, INNER, Unbounded())
    chosen = SiteSums(INNER, (EffectTerms.of("auc", private=False),))
    assert can_release(plain)
    assert not can_release(ResolvedRound(0, chosen, Unbounded()))


def test_colluding_sites_do_not_count_among_those_that_hide_each_other():
    rounds = (Round(SiteSums(INNER, (EffectTerms.of("auc", private=False),))),)
    exact = SecureAggregation()
    facts = PublicFacts()
    Plan(exact, rounds, (0.5,), facts=facts, cohort=Cohort(11, 1))
    with pytest.raises(PlanError, match="do not collude"):
        Plan(exact, rounds, (0.5,), facts=facts, cohort=Cohort(10, 1))


def test_a_threshold_far_out_on_the_logit_scale_is_refused():
    """Its odds overflow, at sites with enough examples of both classes alone."""
    far = 800.0
    edges = Edges.realise(Warped(8), ScoreRange.declare("logit"), thresholds=(far,))
    for name in ("net_benefit", "recall"):
        terms = EffectTerms.of(name, private=True, at=far)
        with pytest.raises(PlanError, match="logits up to 30"):
            SiteSums(ClassHistogram(edges), (terms,))


def test_without_squares_sites_weigh_the_same_and_little_changes():
    rng = np.random.default_rng(4)
    variances = np.exp(rng.normal(-4.5, 0.7, 60))
    effects = rng.normal(1.3, np.sqrt(0.1 + variances))
    found = {}
    for squared in (True, False):
        terms = EffectTerms.of("auc", private=True)
        terms = replace(terms, unit=2**12, squared=squared)
        assert terms.size == 4 + squared
        totals = added_up(terms, effects, variances)
        found[squared] = AnchoredSums.of_numbers(totals, 0.1)
    assert found[False].mean == found[True].mean
    assert found[False].tau2 == pytest.approx(found[True].tau2, rel=0.02)
