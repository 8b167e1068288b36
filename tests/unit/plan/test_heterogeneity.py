"""The planner: how much of a budget goes to how sites differ, and when it is no use."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import discreet
from discreet.metrics.heterogeneity import AnchoredSums
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.heterogeneity import SHARES, predicted_spreads
from discreet.plan.rounds import ResolvedRound
from discreet.statistic.effect_terms import Effect


def planned(sites, epsilon=1, unit="client", **choices):
    most = 500 if unit == "client" else None
    return discreet.recommend(
        PublicFacts(examples=1000 * sites, prevalence=0.25),
        discreet.DistributedDP(epsilon, unit=unit, max_examples=most),
        heterogeneity=discreet.HeterogeneityQuestion(within=False, **choices),
        cohort=Cohort(sites, 1),
    )


def predicted(plan):
    return predicted_spreads(plan.statistic, plan.privacy, plan.facts, plan.cohort)[0]


def test_more_sites_need_a_smaller_share_of_the_budget():
    shares = [planned(sites).statistic.share for sites in (30, 1000, 10_000)]
    assert shares == [SHARES[-1], SHARES[1], SHARES[0]]
    assert planned(30, share=Fraction(1, 3)).statistic.share == Fraction(1, 3)


def test_thirty_sites_are_too_few_for_epsilon_one_and_enough_for_ten():
    assert "more sites or a larger epsilon" in (predicted(planned(30)).refusal or "")
    assert predicted(planned(30, epsilon=20)).refusal is None
    assert predicted(planned(1000)).refusal is None


def test_protecting_one_example_costs_more_than_one_site():
    """A change of one site's data moves its numbers by twice as much."""
    site, example = planned(1000), planned(1000, unit="example")
    blocks = [p.statistic.blocks(p.privacy.protects)[1] for p in (site, example)]
    assert blocks[1].sensitivity.l1 > 1.9 * blocks[0].sensitivity.l1


def test_the_predicted_noise_is_what_simulated_releases_have():
    """Within 1.5 times, on sites that are not like the planner's."""
    plan = planned(300, epsilon=4)
    statistic, cohort = plan.statistic, plan.cohort
    terms = statistic.effects[0]
    mechanism = plan.privacy.mechanism_for(
        ResolvedRound(0, statistic, plan.privacy.loss), cohort
    )
    noise = mechanism.noise(300).noises[1]
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(200):
        variances = np.exp(rng.normal(np.log(0.012), 0.8, 300))
        effects = rng.normal(1.1, np.sqrt(variances + 0.07))
        pairs = zip(effects, variances, strict=True)
        total = sum(terms.of_effect(Effect(*e)) for e in pairs).astype(float)
        noisy = total + noise.sample(total, 1, rng)[0]
        exact, read = (
            AnchoredSums.of_numbers(terms.totals(t), 0.1) for t in (total, noisy)
        )
        errors.append(
            (read.noisy_q - read.expected_q(0)) / read.leverage
            - (exact.noisy_q - exact.expected_q(0)) / exact.leverage
        )
    ratio = predicted(plan).noise_of_tau2 / np.std(errors)
    assert 1 / 1.5 < ratio < 1.5


def test_a_release_whose_noise_hides_the_sites_says_so():
    rng = np.random.default_rng(3)
    sites = []
    for _ in range(30):
        y = rng.random(100) < 0.4
        s = 1 / (1 + np.exp(-rng.normal(1.5 * y - 0.7, 1)))
        sites.append(discreet.Examples(s, y))
    result = discreet.evaluate(
        sites,
        privacy=discreet.DistributedDP(60, unit="client", max_examples=60),
        edges=discreet.Uniform(4),
        heterogeneity=discreet.HeterogeneityQuestion(
            within=False, share=Fraction(1, 100)
        ),
    )
    assert "more sites or a larger epsilon" in str(result.heterogeneity["auc"].refusal)
    assert "more sites or a larger epsilon" in str(result)


def test_exact_sums_have_no_noise_to_predict():
    model = discreet.SecureAggregation()
    plan = discreet.recommend(
        PublicFacts(),
        model,
        heterogeneity=discreet.HeterogeneityQuestion(),
        cohort=Cohort(12),
    )
    found = predicted_spreads(plan.statistic, model, plan.facts, plan.cohort)[0]
    assert found.noise_of_tau2 == 0
    assert found.reach == found.reach_without_noise
