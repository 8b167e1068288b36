"""A site that reads the result knows its own share: the rest must keep the promise."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.data.edges import Uniform
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan import file as planfile
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.report.prediction import check_protocol
from privacy_evidence import loss_of

pytestmark = pytest.mark.long


def loss_of_the_reader(privacy, sites):
    """The exact loss of the sum of all shares but one, over one count moved by 1."""
    plan = recommend(PublicFacts(), privacy, cohort=privacy.cohort(sites))
    shares = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    return loss_of(shares, (1,), sites - 1)


@pytest.mark.parametrize("sites", [2, 3, 5, 12])
def test_what_is_left_without_the_readers_share_keeps_epsilon(sites):
    assert loss_of_the_reader(DistributedDP(1), sites) <= 1 + 1e-9


@pytest.mark.parametrize(("sites", "loss"), [(2, 1.68), (5, 1.21)])
def test_shares_for_all_sites_would_not(sites, loss):
    found = loss_of_the_reader(DistributedDP(1, colluders=0), sites)
    assert found == pytest.approx(loss, abs=0.01)


@pytest.mark.parametrize("sites", [2, 5])
def test_what_is_left_without_the_readers_share_keeps_delta(sites):
    assert loss_of_the_reader(DistributedDP(1, "1e-6"), sites) <= 1e-6
    assert loss_of_the_reader(DistributedDP(1, "1e-6", colluders=0), sites) > 1.1e-6


def test_a_single_site_has_no_colluder_and_a_stated_number_stays():
    assert DistributedDP(1).cohort(1) == DistributedDP(1).cohort() == Cohort(1, 0)
    assert DistributedDP(1).cohort(4) == Cohort(4, 1)
    assert DistributedDP(1, min_survivors=3).cohort(4) == Cohort(3, 1)
    assert DistributedDP(1, colluders=0).cohort(4) == Cohort(4, 0)


def test_every_entry_point_counts_on_one_reader(tmp_path):
    """The model, a cohort without a number, the command line and a written plan."""
    facts, privacy = PublicFacts(), DistributedDP(1)
    given = recommend(facts, privacy, cohort=Cohort(3))
    assert given == recommend(facts, privacy, cohort=privacy.cohort(3))
    assert given.cohort == Cohort(3, 1)
    lines = planfile.dumps(given).splitlines()
    kept = [line for line in lines if not line.startswith(("colluders", "digest"))]
    assert planfile.loads("\n".join(kept)) == given
    wanted = ("--privacy", "distributed", "--epsilon", "1", "--sites", "3")
    file = tmp_path / "plan.toml"
    asked = [*wanted, "--examples", "9000", "-o", str(file)]
    assert CliRunner().invoke(app, ["plan", *asked]).exit_code == 0
    assert planfile.loads(file.read_text()).cohort == Cohort(3, 1)
    assert replace(given, cohort=Cohort(5)).cohort == Cohort(5, 1)


@pytest.mark.parametrize("sites", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("privacy", "readers"),
    [
        (DistributedDP(1), 1),
        (SecureAggregation(), 0),
        (DistributedDP(1, colluders=0), 0),
    ],
)
def test_distributed_noise_alone_counts_on_a_reader(sites, privacy, readers):
    plan = recommend(PublicFacts(), privacy, cohort=Cohort(sites))
    assert plan.cohort.colluders == min(readers, sites - 1)


def test_the_claim_names_the_reader():
    def assumed(sites, **options):
        privacy = DistributedDP(1, **options)
        plan = recommend(PublicFacts(), privacy, cohort=privacy.cohort(sites))
        return str(plan.claim("simulated", sites=sites))

    reader = "at most 1 of them, such as the site that reads the result"
    assert reader in assumed(3)
    assert "none of them reads the result" in assumed(3, colluders=0)


def test_two_sites_can_still_form_a_secure_sum():
    """Each vector has the whole noise: the masks need to withstand nobody."""
    privacy = DistributedDP(1)
    plan = recommend(PublicFacts(), privacy, cohort=privacy.cohort(2))
    check_protocol(plan, sites=2)
    shares = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    assert shares.honest == 1
    assert math.isclose(shares.gamma, Fraction(1))


@pytest.mark.parametrize(
    ("privacy", "seen"),
    [
        (LocalDP(1, "laplace"), "each of the 3 sites' own 8 noisy counts"),
        (LabelDP(1, mechanism="binned"), "each of the 3 sites' own 8 noisy counts"),
        (DistributedDP(1), "the sum over 3 sites of 8 noisy counts"),
    ],
)
def test_what_is_disclosed_follows_from_how_answers_travel(privacy, seen):
    plan = recommend(PublicFacts(), privacy, edges=Uniform(4), cohort=Cohort(3))
    assert plan.claim("simulated", sites=3).discloses[0].startswith(seen)
