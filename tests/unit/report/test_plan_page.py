"""The planner's page: predictions against what can be varied, and where not to run."""

import json
import re

import pytest

import discreet
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import ModelRef, recommend
from discreet.report.plan_page import plan_page

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def page():
    privacy = discreet.DistributedDP(0.3)
    plan = recommend(
        PublicFacts(3000, 0.1),
        privacy,
        cohort=privacy.cohort(3),
        model=ModelRef("<b>sepsis"),
    )
    return plan_page(plan, sites=3, auc=0.8, repetitions=2)


def test_each_thing_is_varied_around_the_plan(page):
    data = json.loads(
        re.search(r'id="plan-data">(.*?)</script>', page, re.DOTALL).group(1)
    )
    assert list(data) == ["epsilon", "examples", "prevalence", "sites"]
    assert "0.3" in [row["value"] for row in data["epsilon"]]
    sizes = [
        float(row["auc"].removeprefix("± "))
        for row in data["epsilon"]
        if row["auc"] != "no result"
    ]
    assert sizes[0] > sizes[-1]


def test_what_should_not_be_run_is_shaded_and_said(page):
    assert "do not run</td>" in page
    assert 'class="band c5"' in page


def test_a_models_name_cannot_break_out(page):
    assert "<b>sepsis" not in page
    assert "unsafe" not in page
