"""What an exact sum's claim says of sites that conspire with the coordinator."""

from __future__ import annotations

from dataclasses import replace

import pytest

import discreet
from discreet.plan.cohort import Cohort, Member, PublicFacts, Roster
from discreet.plan.plan import Plan, recommend
from discreet.secagg.graph import check_counts, fewest_against, parameters

FACTS = PublicFacts(50_000, 0.3)


def exact(sites: int, least: int, *, colluders: int | None = None) -> Plan:
    """Return a plan of exact sums whose roster lists so many sites."""
    cohort = Cohort(least, colluders=colluders)
    plan = recommend(FACTS, discreet.SecureAggregation(), cohort=cohort)
    members = tuple(
        Member(f"s{place}", place.to_bytes(32, "big")) for place in range(1, sites + 1)
    )
    return replace(plan, roster=Roster(members, bytes(32)))


@pytest.mark.parametrize(
    ("sites", "least", "colluders", "said"),
    [
        (3, 3, None, "fewer than 2 sites conspire with the coordinator: 2 could"),
        (12, 12, None, "fewer than 11 sites conspire"),
        (12, 9, None, "fewer than 5 sites conspire"),
        (12, 7, None, "no site conspires with the coordinator: 1 could"),
        (2, 2, None, "no site conspires with the coordinator: 1 could"),
        (400, 300, None, "no site conspires"),
        (400, 300, 20, "fewer than 21 sites conspire"),
    ],
)
def test_an_exact_claim_says_how_many_conspirators_are_too_many(
    sites: int, least: int, colluders: int | None, said: str
) -> None:
    claim = str(exact(sites, least, colluders=colluders).claim("deployed", sites=least))
    assert said in claim


def test_a_noisy_claim_counts_shares_of_the_noise_instead() -> None:
    plan = recommend(FACTS, discreet.DistributedDP(1), cohort=Cohort(3))
    claim = str(plan.claim("simulated", sites=3))
    assert "conspire" not in claim
    assert "share of the noise" in claim


@pytest.mark.parametrize("sites", range(2, 30))
def test_fewer_conspirators_hold_no_two_kinds_of_shares(sites: int) -> None:
    """By counting: each honest holder gives one kind of share, each conspirator both."""
    for least in range(sites // 2 + 2, sites + 1):
        few = fewest_against(sites, corrupt=0, survivors=least)
        check_counts(sites, 0, least, "malicious")
        chosen = parameters(sites, corrupt=0, survivors=least, coordinator="malicious")
        for conspirators in range(sites - 1):
            honest = chosen.degree - conspirators
            both = any(
                one + conspirators >= chosen.threshold
                and honest - one + conspirators >= chosen.threshold
                for one in range(honest + 1)
            )
            assert both == (conspirators >= few)
