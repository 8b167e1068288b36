"""What a revealed sum shows of a site with false data, and what the report says of it."""

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


def released(plan, sites, false=0):
    """Reveal the sum as if one site had added false counts to its vector."""
    (release,) = simulate(plan, sites, entropy=Seeded(b"false"))
    return replace(release, total=release.total + false)


def found_in(plan, release: Release):
    claim = plan.claim("simulated", sites=SITES)
    return evaluation(plan, [release], claim)


def perfect_rows(plan, count):
    """So many negatives in the lowest bin and positives in the highest."""
    bins = len(plan.statistic.edges)
    rows = np.zeros(2 * bins, dtype=np.int64)
    rows[0] = rows[-1] = count
    return rows


@pytest.mark.parametrize(
    ("bound", "place", "count", "why"),
    [
        (500, [0, -1], 500_000, "8 sites of at most 500 examples"),
        (None, [3], -SITES * EACH, "negative counts"),
    ],
)
def test_what_no_honest_sites_can_send_is_a_result_without_a_usable_metric(
    rng, bound, place, count, why
):
    """What was revealed was charged: it is a result, in which nothing is usable."""
    plan = plan_of(max_examples_per_site=bound)
    false = np.zeros(2 * len(plan.statistic.edges), dtype=np.int64)
    false[place] = count
    release = released(plan, honest(rng), false)
    with pytest.warns(UndefinedMetricWarning, match=why):
        found = found_in(plan, release)
    for name in ("auc", "average_precision", "brier"):
        assert found.metrics[name].unusable is not None
    assert np.isnan(found.auc.value)
    assert why in found.to_text()
    assert why in found.to_json()


def test_without_a_bound_they_are_told_by_the_declared_size(rng):
    plan = plan_of()
    found = found_in(plan, released(plan, honest(rng), perfect_rows(plan, 500_000)))
    assert found.auc.value > 0.99
    assert "10 times above the 3,200 examples" in " ".join(found.fit.notes)
    assert "10 times above" in found.to_text()
    fewer = plan_of(examples=100 * SITES * EACH)
    (note,) = found_in(fewer, released(fewer, honest(rng))).fit.notes
    assert "10 times below" in note
    bounded = plan_of(max_examples_per_site=EACH)
    assert found_in(bounded, released(bounded, honest(rng))).fit.notes == ()


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
    false = np.zeros_like(release.total)
    false[-1] = int(SITES * EACH + sds * sd - release.total.sum())
    found = found_in(plan, replace(release, total=release.total + false))
    assert any("beyond 6 standard deviations" in n for n in found.fit.notes) == told


def test_the_report_prints_the_influence_bound_everywhere(rng, tmp_path):
    plan = plan_of(max_examples_per_site=EACH)
    found = found_in(plan, released(plan, honest(rng)))
    smaller = min(found.observed.total_positives, found.observed.total_negatives)
    assert found.influence()["auc"] == pytest.approx(EACH / smaller)
    line = "One malicious site of at most 400 examples can move AUC by at most 0."
    printed = found.to_text().split("move AUC by at most ")[1].split(",")[0]
    assert found.influence()["auc"] <= float(printed) < found.influence()["auc"] + 1e-4
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


def test_the_bound_goes_through_the_plans_file_and_without_it_there_is_no_key():
    plain, bounded = plan_of(), plan_of(max_examples_per_site=500)
    assert b"max_examples_per_site" not in plain.canonical()
    assert "max_examples_per_site" not in planfile.dumps(plain)
    assert bounded.digest() != plain.digest()
    assert planfile.loads(planfile.dumps(bounded)) == bounded


@pytest.mark.parametrize(
    ("most", "least"), [(0, 0), (-1, 0), (True, 0), (3.5, 0), (2**60, 0), (9, 10)]
)
def test_a_bound_that_is_no_number_of_examples_is_refused(most, least):
    with pytest.raises(PlanError, match="the most examples of a site"):
        Cohort(3, min_examples_per_site=least, max_examples_per_site=most)
