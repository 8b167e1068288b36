"""Random groups of sites: a site with false data spoils one group, and it shows."""

import json

import numpy as np
import pytest

import discreet
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.report.prediction import check_protocol
from discreet.transport import simulation

pytestmark = pytest.mark.long

SITES = 20
EACH = 800
GROUPS = 5


def honest(rng, count=SITES, *, differ=0.0):
    sites = []
    for _ in range(count):
        labels = rng.random(EACH) < 0.4
        apart = 0.15 + differ * rng.normal()
        scores = np.clip(rng.normal(0.4 + apart * labels, 0.15), 0, 1)
        sites.append(Examples(scores, labels))
    return sites


def false_data():
    """Fifty thousand invented rows, perfectly sorted."""
    labels = np.arange(50_000) % 2 == 0
    return Examples(np.where(labels, 0.999, 0.001), labels)


def plan_of(privacy=None):
    return recommend(
        PublicFacts(prevalence=0.4),
        privacy or discreet.SecureAggregation(),
        edges=discreet.Warped(64),
        cohort=Cohort(SITES // GROUPS, random_groups=GROUPS),
    )


def run(sites, privacy=None, seed=b"groups"):
    return simulation.run(plan_of(privacy), sites, entropy=Seeded(seed))


def test_groups_add_up_to_the_sum_of_all_sites(rng):
    sites = honest(rng)
    grouped = run(sites)
    together = discreet.evaluate(sites, edges=discreet.Warped(64))
    assert grouped.source.contributors == SITES
    assert np.array_equal(
        grouped.source.releases[0].total, together.source.releases[0].total
    )
    assert grouped.auc.value == together.auc.value


def test_one_malicious_site_stands_out_and_the_median_is_not_moved(rng):
    sites = honest(rng)
    truth = discreet.evaluate(sites, edges=discreet.Warped(64)).auc.value
    sites[7] = false_data()
    found = run(sites)
    groups = found.heterogeneity.random_groups
    (place,) = groups.stands_out("auc")
    assert 8 in groups.members[place]
    assert found.auc.value > truth + 0.15  # the pooled value is the false_data's
    assert abs(groups.median("auc") - truth) < 0.02
    low, high = groups.without_one("auc")
    assert abs(low - truth) < 0.02 < high - truth
    assert groups.spread("auc").high - groups.spread("auc").low > 0.1


def test_one_malicious_site_stands_out_under_noise(rng):
    sites = honest(rng)
    sites[7] = false_data()
    groups = run(sites, discreet.DistributedDP(epsilon=2)).heterogeneity.random_groups
    (place,) = groups.stands_out("auc")
    assert 8 in groups.members[place]


@pytest.mark.parametrize("differ", [0.0, 0.03])
def test_honest_sites_do_not_stand_out_even_when_hospitals_differ(rng, differ):
    for k in range(5):
        found = run(honest(rng, differ=differ), seed=b"%d" % k)
        assert found.heterogeneity.random_groups.stands_out("auc") == ()


def test_the_report_says_it_everywhere(rng, tmp_path):
    sites = honest(rng)
    sites[7] = false_data()
    found = run(sites)
    text = found.to_text()
    assert "AUC in 5 random groups of sites: 0." in text
    assert text.count("stands out in AUC") == 1
    assert "the sum of each of 5 random groups of sites" in str(found.claim)
    written = json.loads(found.to_json())["random_groups"]
    assert sorted(n for g in written["members"] for n in g) == list(range(1, 21))
    assert len(written["metrics"]["auc"]["values"]) == GROUPS
    assert written["metrics"]["auc"]["stands_out"]
    found.save(tmp_path / "report.html")
    assert "random groups" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_group_costs_no_more_than_one_sum(rng):
    """Each site answers once: the loss is that of the plan."""
    privacy = discreet.DistributedDP(epsilon=2)
    found = run(honest(rng), privacy)
    assert str(found.claim.loss) == str(plan_of(privacy).privacy.loss)


def test_evaluate_sizes_the_noise_for_the_smallest_group(rng):
    found = discreet.evaluate(
        honest(rng),
        privacy=discreet.DistributedDP(epsilon=2),
        edges=discreet.Warped(32),
        random_groups=GROUPS,
        max_examples_per_site=EACH,
    )
    assert found.plan.cohort.min_survivors == SITES // GROUPS
    assert found.plan.cohort.max_examples_per_site == EACH
    assert found.heterogeneity.random_groups is not None
    assert found.influence()


@pytest.mark.parametrize(
    ("sites", "choices", "sentence"),
    [
        *(
            (4, {"random_groups": n}, "number of random groups")
            for n in (1, 2, True, 2.5)
        ),
        (SITES, {"random_groups": 4, "privacy": discreet.LocalDP(2)}, "are summed"),
        (4, {"random_groups": 5}, "5 random groups need at least as many"),
    ],
)
def test_groups_that_cannot_be_are_refused_in_a_sentence(rng, sites, choices, sentence):
    with pytest.raises((InputError, PlanError), match=sentence):
        discreet.evaluate(honest(rng, sites), **choices)


def test_too_few_sites_for_the_groups_of_a_plan_are_refused(rng):
    with pytest.raises(InputError, match="at least 20 sites, got 19"):
        simulation.run(plan_of(), honest(rng, SITES - 1))
    with pytest.raises(InputError, match="at least 4 sites need 20 sites"):
        check_protocol(plan_of(), sites=SITES - 1)
    check_protocol(plan_of(), sites=SITES)
