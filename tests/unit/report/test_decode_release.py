"""What an opened sum shows of a site that lies, and what the report says of it."""

import json
from dataclasses import replace

import numpy as np
import pytest

import discreet
from discreet import DistributedDP, SecureAggregation
from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError, UndefinedMetricWarning
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.rounds import Release
from discreet.report.build import evaluation
from discreet.transport.in_process import simulate

SITES = 8
EACH = 400


def honest(rng, count=SITES, each=EACH):
    sites = []
    for _ in range(count):
        labels = rng.random(each) < 0.4
        scores = np.clip(rng.normal(0.45 + 0.1 * labels, 0.15), 0, 1)
        sites.append(Examples(scores, labels))
    return sites


def plan_of(privacy=None, *, examples=SITES * EACH, **cohort):
    return recommend(
        PublicFacts(examples=examples, prevalence=0.4),
        privacy or SecureAggregation(),
        edges=discreet.Warped(32),
        cohort=Cohort(SITES, **cohort),
    )


def released(plan, sites, lie=0):
    """Open the sum as if one site had added the lie to its vector."""
    (release,) = simulate(plan, sites, entropy=Seeded(b"liars"))
    return replace(release, total=release.total + lie)


def found_in(plan, release: Release):
    claim = plan.claim("simulated", sites=SITES)
    return evaluation(plan, [release], claim)


def perfect_rows(plan, count):
    """So many negatives in the lowest bin and positives in the highest."""
    bins = len(plan.statistic.edges)
    lie = np.zeros(2 * bins, dtype=np.int64)
    lie[0] = lie[-1] = count
    return lie


def assert_unusable(plan, release, why):
    """What was opened was paid for: it is a result in which nothing is usable."""
    with pytest.warns(UndefinedMetricWarning, match=why):
        found = found_in(plan, release)
    for name in ("auc", "average_precision", "brier"):
        assert found.metrics[name].unusable is not None
    assert np.isnan(found.auc.value)
    assert why in found.to_text()
    assert why in found.to_json()


def test_a_million_perfect_rows_of_one_site_are_refused(rng):
    plan = plan_of(max_examples_per_site=500)
    release = released(plan, honest(rng), perfect_rows(plan, 500_000))
    assert_unusable(plan, release, "8 sites of at most 500 examples")


def test_without_a_bound_they_are_told_by_the_declared_size(rng):
    plan = plan_of()
    found = found_in(plan, released(plan, honest(rng), perfect_rows(plan, 500_000)))
    assert found.auc.value > 0.99
    assert "10 times above the 3,200 examples" in " ".join(found.fit.notes)
    assert "10 times above" in found.to_text()


def test_a_total_far_below_the_declared_size_is_told(rng):
    plan = plan_of(examples=100 * SITES * EACH)
    (note,) = found_in(plan, released(plan, honest(rng))).fit.notes
    assert "10 times below" in note


def test_honest_sums_have_no_such_note(rng):
    plan = plan_of(max_examples_per_site=EACH)
    assert found_in(plan, released(plan, honest(rng))).fit.notes == ()


def test_negative_counts_of_an_exact_sum_are_refused(rng):
    plan = plan_of()
    lie = np.zeros(2 * len(plan.statistic.edges), dtype=np.int64)
    lie[3] = -SITES * EACH
    assert_unusable(plan, released(plan, honest(rng), lie), "negative counts")


def test_negative_counts_of_a_noisy_sum_are_noise(rng):
    plan = plan_of(DistributedDP(epsilon=1))
    release = released(plan, honest(rng))
    assert (release.total < 0).any()
    assert found_in(plan, release).fit.refusal is None


@pytest.mark.parametrize(("sds", "told"), [(5.5, False), (7.0, True)])
def test_a_noisy_total_is_told_only_beyond_what_the_noise_allows(rng, sds, told):
    plan = plan_of(DistributedDP(epsilon=1), max_examples_per_site=EACH)
    release = released(plan, honest(rng))
    distribution = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort).noise(
        SITES
    )
    noise = distribution.covariance(release.total.astype(float))
    sd = np.sqrt(noise.negatives.sum() + noise.positives.sum())
    excess = int(SITES * EACH + sds * sd - release.total.sum())
    lie = np.zeros_like(release.total)
    lie[-1] = excess
    found = found_in(plan, replace(release, total=release.total + lie))
    assert any("beyond 6 standard deviations" in n for n in found.fit.notes) == told


def test_the_report_prints_the_influence_bound_everywhere(rng, tmp_path):
    plan = plan_of(max_examples_per_site=EACH)
    found = found_in(plan, released(plan, honest(rng)))
    smaller = min(found.observed.total_positives, found.observed.total_negatives)
    assert found.influence()["auc"] == pytest.approx(EACH / smaller)
    line = "One malicious site of at most 400 examples can move AUC by at most 0."
    assert line in found.to_text()
    assert "At 0.5 it can move precision by at most" in found.to_text()
    document = json.loads(found.to_json())["influence"]
    assert document["auc"] == found.influence()["auc"]
    assert document["thresholds"][0]["recall"] == pytest.approx(
        EACH / found.observed.total_positives
    )
    assert "aupr" not in document
    found.save(tmp_path / "report.html")
    assert line in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_printed_bound_is_never_below_the_bound(rng):
    plan = plan_of(max_examples_per_site=EACH)
    found = found_in(plan, released(plan, honest(rng)))
    printed = found.to_text().split("move AUC by at most ")[1].split(",")[0]
    assert found.influence()["auc"] <= float(printed) < found.influence()["auc"] + 1e-4


def test_under_noise_the_bound_rests_on_totals_less_the_noise(rng):
    plan = plan_of(DistributedDP(epsilon=1), max_examples_per_site=EACH)
    found = found_in(plan, released(plan, honest(rng)))
    noise = found.observed.noise.covariance(
        found.source.releases[0].total.astype(float)
    )
    least = found.observed.total_positives - 6 * np.sqrt(noise.positives.sum())
    assert least < found.observed.total_negatives
    assert found.influence()["auc"] == pytest.approx(EACH / least)
    assert found.influence(0.5)["recall"] == pytest.approx(EACH / least)


def test_without_a_bound_on_a_site_nothing_is_said(rng):
    found = found_in(plan_of(), released(plan_of(), honest(rng)))
    assert found.influence() == {}
    assert "One malicious site" not in found.to_text()
    assert "influence" not in found.exports.to_dict()


def test_a_site_with_more_examples_than_allowed_says_so_before_it_is_asked(rng):
    plan = plan_of(max_examples_per_site=EACH - 1)
    with pytest.raises(InputError, match="more than the 399 examples"):
        simulate(plan, honest(rng))


def test_a_plan_without_the_bound_keeps_its_bytes():
    plan = plan_of()
    assert b"max_examples_per_site" not in plan.canonical()
    assert "max_examples_per_site" not in planfile.dumps(plan)


def test_a_plan_with_the_bound_goes_through_its_file():
    plan = plan_of(max_examples_per_site=500)
    assert plan.digest() != plan_of().digest()
    assert planfile.loads(planfile.dumps(plan)) == plan


@pytest.mark.parametrize("most", [0, -1, True, 3.5, 2**60])
def test_a_bound_that_is_no_number_of_examples_is_refused(most):
    with pytest.raises(PlanError, match="the most examples of a site"):
        Cohort(3, max_examples_per_site=most)


def test_the_bound_is_not_below_the_floor():
    with pytest.raises(PlanError, match="the most examples of a site"):
        Cohort(3, min_examples_per_site=10, max_examples_per_site=9)
