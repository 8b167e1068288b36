"""The real protocol under an evaluation."""

import numpy as np
import pytest

import discreet
from discreet import InputError
from discreet.entropy import Seeded
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.transport.in_process import simulate

PRIVACY = {
    "exact": discreet.SecureAggregation(),
    "distributed": discreet.DistributedDP(1),
    "local": discreet.LocalDP(2),
}


@pytest.fixture
def sites(rng):
    return [
        discreet.Examples(rng.random(n), rng.random(n) < 0.3)
        for n in (6000, 4000, 300, 5000)
    ]


def test_secure_aggregation_opens_the_same_sum_as_plain_addition(sites):
    plan = recommend(PublicFacts(), discreet.SecureAggregation(), cohort=Cohort(4))
    plain = simulate(plan, sites)[0]
    secure = simulate(plan, sites, aggregation="secagg")[0]
    np.testing.assert_array_equal(plain.total, secure.total)
    assert secure.contributors == 4


@pytest.mark.parametrize("name", PRIVACY)
def test_every_model_runs_over_the_real_protocol(sites, name):
    options = {"privacy": PRIVACY[name], "examples": 15_000, "prevalence": 0.3}
    result = discreet.evaluate(sites, aggregation="secagg", **options)
    assert 0.4 < result.auc.value < 0.6
    assert result.source.releases[0].contributors == 4


def test_shares_of_noise_are_added_before_masking(sites):
    """With one seed the noise is drawn first, so both ways open the same sum."""
    plan = recommend(PublicFacts(), discreet.DistributedDP(1), cohort=Cohort(4))
    plain = simulate(plan, sites, entropy=Seeded(b"n"))[0]
    secure = simulate(plan, sites, entropy=Seeded(b"n"), aggregation="secagg")[0]
    np.testing.assert_array_equal(plain.total, secure.total)
    exact = simulate(
        recommend(
            PublicFacts(), discreet.SecureAggregation(), edges=plan.statistic.edges.rule
        ),
        sites,
    )[0]
    assert not np.array_equal(secure.total, exact.total)


def test_one_site_has_nobody_to_hide_among(sites):
    with pytest.raises(InputError, match="2 sites or more"):
        discreet.evaluate(sites[:1], aggregation="secagg")
    with pytest.raises(InputError, match="'plain' or 'secagg'"):
        discreet.evaluate(sites, aggregation="trust me")
