"""What strangers write is read in little time, or refused with one sentence."""

import re
import time
from fractions import Fraction

import pytest

from discreet import (
    DistributedDP,
    InputError,
    PlanError,
    PublicFacts,
    recommend,
)
from discreet.codec.parsing import (
    MOST_BYTES,
    amount_from_text,
    exact,
    name,
    read_json,
    read_text,
    read_toml,
    whole,
)
from discreet.data.edges import Edges, Uniform, Warped
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort
from discreet.privacy.unit import Unit
from discreet.session.policy import Policy, PolicyError

HOSTILE_AMOUNTS = [
    "1e999999999",
    "1e-100000",
    "-1e60",
    "9" * 10**6,
    "1/" + "9" * 10**6,
    "nan",
    "inf",
    "",
    "one",
    True,
]


@pytest.mark.parametrize("amount", HOSTILE_AMOUNTS, ids=lambda a: str(a)[:12])
def test_an_amount_that_nobody_means_is_refused_at_once(amount):
    start = time.thread_time()  # what else runs here does not count
    with pytest.raises(PlanError):
        exact(amount) if isinstance(amount, bool) else amount_from_text(amount)
    assert time.thread_time() - start < 0.5


def test_amounts_that_people_write_are_read_as_written():
    assert exact(0.1) == amount_from_text("1/10") == Fraction(1, 10)
    assert exact("1e-9") == Fraction(1, 10**9)


@pytest.mark.parametrize("value", [True, 3.5, 3.0, float("inf"), "3", None, -1, 2**60])
def test_what_is_no_whole_number_within_limits_is_refused(value):
    with pytest.raises(PlanError):
        whole(value, "it")
    with pytest.raises(PlanError):
        Cohort(min_survivors=value)
    with pytest.raises(PlanError):
        Unit("client", "add_remove", value)
    with pytest.raises(InputError):
        Edges.realise(Uniform(value))


@pytest.mark.parametrize("bins", [3 * 10**8, 10**12])
def test_more_bins_than_the_grid_has_cells_are_refused_before_they_are_made(bins):
    with pytest.raises(InputError, match="bins"):
        Edges.realise(Warped(bins))


def test_names_that_a_terminal_would_obey_are_refused():
    for bad in ("a\x1b[2J", "a\nb", "x" * 201, 7):
        with pytest.raises(PlanError, match="printable"):
            name(bad, "a name")


def test_documents_are_bounded_in_size_and_depth():
    with pytest.raises(PlanError, match="nested"):
        read_toml("a = " + "[" * 100_000, "the plan")
    with pytest.raises(PlanError, match="nested"):
        read_json("[" * 100_000, "the message")
    with pytest.raises(PlanError, match="bytes"):
        read_toml(" " * (MOST_BYTES + 1), "the plan")


@pytest.mark.parametrize(
    ("written", "hostile"),
    [
        ('epsilon = "1"', 'epsilon = "1e999999999"'),
        ("min_survivors = 3", "min_survivors = inf"),
        ("min_survivors = 3", "min_survivors = 3.5"),
        ("bins = 40", "bins = true"),
        ("bins = 40", "bins = 300000000"),
        ("bins = 40", "bins = 1000000000000"),
        ("bins = 40", "bins = nan"),
        ("prevalence = 0.05", "prevalence = nan"),
        ('"auc"', '["auc"]'),
        ("version = 1", "version = true"),
    ],
)
def test_a_hostile_line_of_a_plan_is_one_sentence(written, hostile):
    plan = recommend(PublicFacts(), DistributedDP(1), cohort=Cohort(3))
    text = re.sub(r"digest = .sha256.*", "", planfile.dumps(plan))
    assert written in text
    with pytest.raises(PlanError):
        planfile.loads(text.replace(written, hostile))


@pytest.mark.parametrize("key", ["exact_sums", "sites", "examples"])
@pytest.mark.parametrize("value", [True, 3.5, 3.0, float("inf"), "3", None, 2**60])
def test_a_policys_numbers_are_whole(key, value):
    with pytest.raises(PolicyError):
        Policy(population="people", privacy=("local",), **{key: value})


def test_a_file_that_is_too_long_is_not_read_whole(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(InputError, match="more than the"):
        read_text(path, "a policy")
