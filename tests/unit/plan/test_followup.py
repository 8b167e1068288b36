"""Plans of time to event: their tables from public facts, their file and their claim."""

import hashlib

import numpy as np
import pytest

import discreet
from discreet import Examples, InputError, PlanError, PublicFacts, recommend
from discreet.codec.parsing import MOST
from discreet.plan.bins import LoneExamples, expected_in_cell
from discreet.plan.file import dumps, loads
from discreet.plan.followup import FollowUpQuestion, exact_table
from discreet.session.policy import Policy, PolicyError
from discreet.session.rehearsal import made_up
from discreet.statistic.timed import TimedGroups, TimedHorizons, causes_of
from policies import open_policy

ASKED = FollowUpQuestion((365.0, 1825.0))
FACTS = PublicFacts(4000, 0.2, censoring=0.3)
EXACT = discreet.SecureAggregation()
NOISY = discreet.DistributedDP(1)


def planned(question=ASKED, facts=FACTS, privacy=EXACT, **more):
    return recommend(facts, privacy, followup=question, **more)


def test_horizons_are_cuts_and_ten_examples_are_left_in_a_pair():
    table = planned().statistic
    assert {365.0, 1825.0} <= set(table.cuts)
    assert table.cuts[-1] == 1825.0
    pairs = len(table.edges) * (table.intervals + 1)
    assert 8 <= 4000 / pairs <= 12


@pytest.mark.parametrize("examples", [50, 500, 5000, 50_000, 5_000_000, MOST])
def test_a_table_grows_with_its_examples_and_ends_somewhere(examples):
    intervals, bins = exact_table(examples)
    assert 2 <= intervals <= 48
    assert 10 <= bins <= 1024
    assert exact_table(examples, 3)[0] == 3


def test_under_noise_a_table_is_small():
    exact, noisy = planned().statistic, planned(privacy=NOISY).statistic
    assert noisy.cuts == (0.0, 365.0, 730.0, 1095.0, 1825.0)
    assert noisy.size < exact.size / 3
    many = planned(FollowUpQuestion(tuple(map(float, range(1, 8)))), privacy=NOISY)
    assert many.statistic.cuts == (0.0, *map(float, range(1, 8)))


def test_cuts_and_intervals_of_ones_own_are_kept():
    own = planned(FollowUpQuestion((2.0,), cuts=(1.0, 4.0)))
    assert own.statistic.cuts == (0.0, 1.0, 2.0, 4.0)
    six = planned(FollowUpQuestion((2.0,), intervals=6))
    assert six.statistic.intervals == 6


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"horizons": ()}, "needs horizons"),
        ({"horizons": (0.0,)}, "above 0"),
        ({"horizons": (float("nan"),)}, "above 0"),
        ({"horizons": (2.0, 1.0)}, "increase"),
        ({"horizons": (2.0,), "cuts": (1.0,)}, "last cut"),
        ({"horizons": (2.0,), "cuts": (1.0, 3.0), "intervals": 3}, "not both"),
        ({"horizons": (2.0,), "intervals": 0}, "intervals"),
        ({"horizons": (2.0,), "scores": "horizons"}, "several horizons"),
    ],
)
def test_a_question_that_means_nothing_is_refused(options, problem):
    with pytest.raises(PlanError, match=problem):
        FollowUpQuestion(**options)


PLANS = {
    "one table": planned,
    "two causes": lambda: planned(FollowUpQuestion((365.0,), causes=2)),
    "groups": lambda: planned(groups=["f", "m"]),
    "models": lambda: planned(FollowUpQuestion((365.0,), scores="models")),
    "horizons": lambda: planned(FollowUpQuestion((1.0, 2.0), scores="horizons")),
    "thresholds": lambda: planned(thresholds=[0.1], privacy=NOISY),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_comes_back_from_its_file_with_its_digest(name):
    plan = PLANS[name]()
    again = loads(dumps(plan))
    assert again == plan
    assert again.digest() == plan.digest()


def test_the_canonical_form_of_a_plan_is_pinned():
    plan = planned(FollowUpQuestion((365.0, 1825.0), cuts=(365.0, 730.0, 1825.0)))
    text = plan.canonical().decode()
    assert '"horizons":["0x1.6d00000000000p+8","0x1.c840000000000p+10"]' in text
    assert '"censoring":"0x1.3333333333333p-2"' in text
    digest = hashlib.sha256(plan.canonical()).hexdigest()
    assert digest == PINNED


def test_plans_of_labels_do_not_mention_time():
    text = recommend(PublicFacts(4000, 0.2), EXACT).canonical()
    assert b"horizons" not in text
    assert b"censoring" not in text


def test_a_horizon_that_is_no_cut_is_refused():
    text = dumps(planned(FollowUpQuestion((2.0,), cuts=(2.0, 4.0))))
    text = "\n".join(line for line in text.splitlines() if "digest = " not in line)
    assert "horizons = [\n    2.0,\n]" in text
    edited = text.replace("horizons = [\n    2.0,\n]", "horizons = [\n    3.0,\n]")
    with pytest.raises(PlanError, match="each is a cut"):
        loads(edited)
    with pytest.raises(PlanError, match="has horizons"):
        loads(text.replace("horizons = [\n    2.0,\n]", ""))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"classes": ["a", "b"]}, "without classes"),
        ({"heterogeneity": discreet.HeterogeneityQuestion()}, "how sites differ"),
        ({"max_weight": 3}, "without time to event"),
        ({"pilot": True}, "time to event"),
        ({"cohort": discreet.Cohort(3, random_groups=3)}, "random groups"),
    ],
)
def test_what_does_not_go_with_follow_up_is_refused_before_a_plan(more, problem):
    with pytest.raises(PlanError, match=problem):
        planned(**more)


def test_groups_and_several_columns_are_not_combined():
    with pytest.raises(PlanError, match="cannot be combined"):
        planned(FollowUpQuestion((1.0, 2.0), scores="horizons"), groups=["a", "b"])


def test_the_claim_says_that_censoring_is_taken_as_independent():
    claim = planned().claim("deployed", sites=3)
    assert any("independent censoring" in each for each in claim.assumes)
    labels = recommend(PublicFacts(4000, 0.2), EXACT).claim("deployed", sites=3)
    assert not any("censoring" in each for each in labels.assumes)


def test_cells_of_time_count_where_a_policy_asks_for_full_ones():
    plan = planned(cohort=discreet.Cohort(3))
    table = plan.statistic
    cells = len(table.edges) * table.intervals
    assert expected_in_cell(table, FACTS) == pytest.approx(4000 * 0.2 / cells)
    alone = LoneExamples.of(table, FACTS)
    assert alone.cells == table.size
    strict = open_policy(
        population="people",
        privacy=("secure-aggregation",),
        exact_sums=9,
        smallest_cell=5,
    )
    assert isinstance(strict, Policy)
    with pytest.raises(PolicyError, match="smaller class in a cell"):
        strict.check(plan)


def test_public_facts_are_possible_ones():
    for facts in ({"censoring": 1.0}, {"censoring": -0.1}):
        with pytest.raises(PlanError, match="censoring"):
            PublicFacts(**facts)
    with pytest.raises(PlanError, match="more than all"):
        PublicFacts(prevalence=0.6, censoring=0.5)


@pytest.mark.parametrize("name", PLANS)
def test_made_up_follow_up_fits_its_plan(name):
    plan = PLANS[name]()
    site = made_up(plan, np.random.default_rng(1))
    counts = plan.statistic.count(site)
    assert counts.sum() == len(site) * len(plan.statistic.columns)
    assert site.timed


def test_sites_that_differ_in_their_columns_are_refused():
    one = Examples([0.1, 0.9], time=[1, 2], event=[0, 1])
    two = Examples([0.1, 0.9], [0, 1])
    with pytest.raises(InputError, match="differ in their columns"):
        discreet.evaluate([one, two], horizons=[2])
    with pytest.raises(InputError, match="need follow-up"):
        discreet.evaluate([two], horizons=[2])
    with pytest.raises(PlanError, match="needs horizons"):
        discreet.evaluate([one])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"horizons": 2}, r"horizons= is a list of numbers, such as"),
        ({"horizons": "12"}, r"horizons= is a list of numbers, such as"),
        ({"horizons": ["soon"]}, r"horizons= is a list of numbers, such as"),
        ({"horizons": [2], "cuts": 2}, r"cuts= is a list of numbers, such as"),
        ({"horizons": [2], "cuts": ["late"]}, r"cuts= is a list of numbers, such as"),
        ({"horizons": [2], "intervals": 2.5}, "must be a whole number"),
        ({"horizons": [2], "interpolation": "linear"}, "leave out method="),
    ],
)
def test_words_that_are_none_of_follow_up_are_refused(given, said):
    site = Examples([0.1, 0.9], time=[1, 2], event=[0, 1])
    with pytest.raises(InputError, match=said):
        discreet.evaluate([site], **given)


def test_a_score_column_for_each_horizon_predicts_it():
    rng = np.random.default_rng(1)
    scores = rng.random((400, 2))
    site = Examples(scores, time=rng.random(400) * 4, event=rng.integers(0, 2, 400))
    result = discreet.evaluate([site], horizons=[1, 3], examples=400)
    assert isinstance(result.first.plan.statistic, TimedHorizons)
    assert {n: p.predicts for n, p in result.items()} == {"1": 1.0, "3": 3.0}
    with pytest.raises(PlanError, match="2 score columns do not fit 3 horizons"):
        discreet.evaluate([site], horizons=[1, 2, 3])


def test_groups_and_causes_reach_the_result():
    rng = np.random.default_rng(1)
    n = 800
    site = Examples(
        rng.random(n),
        time=rng.random(n) * 4,
        event=rng.integers(0, 3, n),
        causes=2,
        groups=rng.choice(["f", "m"], n),
    )
    result = discreet.evaluate([site], horizons=[3], groups=["f", "m"], examples=n)
    plan = result.first.plan
    assert isinstance(plan.statistic, TimedGroups)
    assert causes_of(plan.statistic) == 2
    assert sum(part.table.total for part in result.values()) == n
    assert result["f"].table.events.shape[1] == 2


PINNED = "30ce1928ca2b51956a4116a48d2b1b48a8ffa0667de39afb5bc09443425730b2"
