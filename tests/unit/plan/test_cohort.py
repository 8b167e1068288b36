"""The roster: who takes part, by key, covered by the plan's digest."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet.errors import InputError, PlanError
from discreet.models.label import LabelDP
from discreet.plan import file as planfile
from discreet.plan.cohort import (
    Cohort,
    Member,
    PublicFacts,
    Roster,
    key_from_text,
    key_text,
)
from discreet.plan.plan import recommend
from discreet.secagg.terms import Terms


def key(seed):
    secret = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    return secret.public_key().public_bytes_raw()


ROSTER = Roster(
    (Member("north", key(1)), Member("south", key(2)), Member("east", key(3))),
    coordinator=key(9),
)
PLAN = recommend(
    PublicFacts(),
    discreet.DistributedDP(1),
    cohort=Cohort(3, 1, min_examples_per_site=0),
)


def test_a_key_survives_its_text_in_base64_and_in_hexadecimal():
    assert key_from_text(key_text(key(1))) == key(1)
    assert key_from_text("ed25519:" + key(1).hex()) == key(1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519:",
        "rsa:" + "00" * 32,
        "ed25519:" + "00" * 31,
        "ed25519:" + "zz" * 32,
    ],
)
def test_a_text_that_is_no_key_is_refused(text):
    with pytest.raises(PlanError):
        key_from_text(text)


def test_sites_are_numbered_by_name_as_secure_aggregation_wants_them():
    assert ROSTER.numbered() == {"east": 1, "north": 2, "south": 3}
    assert ROSTER.identities() == {1: key(3), 2: key(1), 3: key(2)}
    terms = Terms(bytes(32), 4, 3, identities=ROSTER.identities())
    assert terms.coordinator == "malicious"


def test_names_and_keys_lead_to_each_other():
    assert ROSTER.key_of("south") == key(2)
    assert ROSTER.name_of(key(2)) == "south"
    with pytest.raises(InputError, match="no site 'west'"):
        ROSTER.key_of("west")
    with pytest.raises(InputError, match="no site with this key"):
        ROSTER.name_of(key(9))


@pytest.mark.parametrize(
    "sites",
    [
        (),
        (Member("a", key(1)), Member("a", key(2))),
        (Member("a", key(1)), Member("b", key(1))),
    ],
)
def test_an_empty_or_ambiguous_roster_is_refused(sites):
    with pytest.raises(PlanError):
        Roster(sites)


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb"])
def test_a_site_needs_a_printable_name(name):
    with pytest.raises(PlanError, match="printable"):
        Member(name, key(1))


def test_the_plans_digest_covers_every_part_of_the_roster():
    renamed = replace(ROSTER, sites=(Member("west", key(1)), *ROSTER.sites[::2]))
    rekeyed = replace(ROSTER, sites=(Member("north", key(4)), *ROSTER.sites[::2]))
    rosters = [None, ROSTER, renamed, rekeyed, replace(ROSTER, coordinator=None)]
    digests = {replace(PLAN, roster=roster).digest() for roster in rosters}
    assert len(digests) == len(rosters)


def test_a_plan_with_a_roster_survives_toml():
    plan = replace(PLAN, roster=ROSTER)
    text = planfile.dumps(plan)
    assert planfile.loads(text) == plan
    assert planfile.loads(text).digest() == plan.digest()


def test_a_key_exchanged_in_the_file_is_seen_by_the_digest():
    text = planfile.dumps(replace(PLAN, roster=ROSTER))
    forged = text.replace(key_text(key(2)), key_text(key(7)))
    with pytest.raises(PlanError, match="edited after it was written"):
        planfile.loads(forged)


def test_an_unknown_key_in_the_roster_is_refused():
    text = planfile.dumps(replace(PLAN, roster=ROSTER))
    with pytest.raises(PlanError, match="roster in the plan has unknown keys: site;"):
        planfile.loads(text.replace("[roster.sites]", "[roster.site]"))


def test_a_roster_smaller_than_the_cohort_is_refused():
    with pytest.raises(PlanError, match="names 2 sites"):
        replace(PLAN, roster=replace(ROSTER, sites=ROSTER.sites[:2]))


def test_the_claim_says_that_identities_withstand_a_malicious_coordinator():
    assert "Even a coordinator" not in str(PLAN.claim("deployed", sites=3))
    claim = replace(PLAN, roster=ROSTER).claim("deployed", sites=3)
    assert "Even a coordinator that breaks the protocol sees only the sum" in str(claim)


def test_label_privacy_counts_two_classes_and_no_groups():
    grouped = recommend(PublicFacts(), discreet.DistributedDP(1), groups=["a", "b"])
    with pytest.raises(PlanError, match="two classes and no groups"):
        replace(grouped, privacy=LabelDP(1, mechanism="binned"))
