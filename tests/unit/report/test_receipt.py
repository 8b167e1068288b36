"""Receipts: a site's signed word, checked with the roster, shown in the report."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet.codec.documents import to_table
from discreet.data.scores import ScoreRange
from discreet.entropy import Seeded
from discreet.errors import ReleaseError
from discreet.estimate.fit import Flat
from discreet.plan.cohort import Member, PublicFacts, Roster
from discreet.privacy.account import Use
from discreet.privacy.loss import fraction_of
from discreet.report.record import Made, Receipt
from discreet.report.verification import attach, verify
from discreet.transport.simulation import run

pytestmark = pytest.mark.long

AT = "2026-01-01T09:30:00+00:00"
KEYS = {name: Ed25519PrivateKey.generate() for name in ("east", "north")}


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(2)
    scores = rng.random(2000)
    sites = [
        discreet.Examples(scores[i::2], (rng.random(2000) < scores)[i::2])
        for i in range(2)
    ]
    members = [
        Member(name, key.public_key().public_bytes_raw()) for name, key in KEYS.items()
    ]
    privacy = discreet.DistributedDP(2)
    plan = discreet.recommend(
        PublicFacts(2000, 0.5), privacy, cohort=privacy.cohort(2), thresholds=[0.5]
    )
    plan = replace(plan, roster=Roster(tuple(members)))
    return run(plan, sites, entropy=Seeded(b"receipts"), estimator=Flat("linear"))


def receipt(result, site="east"):
    return to_table(signed(result.plan, 0, site))


def signed(plan, k, site="east"):
    """Return a site's receipt of a round."""
    loss = fraction_of(plan.privacy.loss, plan.rounds[k].budget)
    people = "ward-7-secret"
    unit = plan.privacy.protects
    use = Use(people, b"j" * 32, k, loss, plan=plan.digest(), unit=unit)
    return Receipt.of(use, AT, site).signed(KEYS[site].sign)


@pytest.mark.parametrize("form", ["html", "json"])
def test_receipts_are_shown_and_the_report_still_holds(result, form):
    text = (
        result.exports.html(Made("2026-01-01")) if form == "html" else result.to_json()
    )
    both = [receipt(result, "north"), receipt(result, "east")]
    added = attach(text, [*both, both[0]])  # the same twice is there once
    found = verify(added, trusted=result.plan)
    assert found.receipts == ("east", "north")
    assert found.unpaid == ()
    assert any("receipts of east, north fit" in line for line in found.sentences())
    alone = attach(text, both[:1])
    one = verify(alone, trusted=result.plan)
    assert one.unpaid == ("east",)
    assert any("no receipt of every round of east" in s for s in one.sentences())
    assert "ward-7" not in added
    if form == "html":
        assert found.same_bytes
        assert "2026-01-01 09:30:00" in added
        assert added.count(">2-DP</td>") == 2
    assert verify(text).receipts == ()


def test_receipts_prove_nothing_by_a_roster_that_nobody_trusts(result):
    """Whoever invents a report invents its sites and their keys too."""
    added = attach(result.to_json(), [receipt(result, "north")])
    found = verify(added)
    assert found.receipts == ()
    assert any("1 receipts were not checked" in line for line in found.sentences())
    assert not any("fit" in line for line in found.sentences())


def test_a_round_of_two_is_charged_its_share(result):
    plan = discreet.recommend(
        PublicFacts(2000, scores=ScoreRange("other", 0, 9)), discreet.DistributedDP(2)
    )
    assert len(plan.rounds) == 2
    plan = replace(plan, roster=result.plan.roster)
    for k, loss in enumerate(["0.4-DP", "1.6-DP"]):
        made = signed(plan, k)
        assert made.loss == loss
        made.check(plan)
        with pytest.raises(ReleaseError, match="another loss"):
            replace(made, round=1 - k).check(plan)
        with pytest.raises(ReleaseError, match="another unit"):
            replace(made, unit="label").check(plan)
        with pytest.raises(ReleaseError, match="a round that the plan does not have"):
            replace(made, round=2).check(plan)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"plan": "00" * 32}, "another plan"),
        ({"loss": "1-DP"}, "another loss"),
        ({"signature": "00"}, "signature does not fit"),
        ({"signature": "no"}, "signature does not fit"),
        ({"at": "2027"}, "signature does not fit"),
        ({"site": "west"}, "not in the plan's roster"),
        ({"site": "north"}, "signature does not fit"),
        ({"round": True}, "round in a receipt must be a whole number"),
        ({"unit": 3}, "unit in a receipt must be a text"),
        ({"unit": "a\x1b[2J"}, "damaged"),
        ({"more": ""}, "a receipt has unknown keys: more"),
    ],
)
def test_a_receipt_that_does_not_fit_is_refused(result, changes, sentence):
    wrong = receipt(result) | changes
    document = json.loads(result.to_json())
    document["release"]["receipts"] = [wrong]
    with pytest.raises(ReleaseError, match=sentence):
        verify(json.dumps(document))


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (3, "no record"),
        ("receipts", "no record"),
        ([3], "a receipt must be a table"),
        ({"a": 1}, "no record"),
        ([{}] * 5000, "at most 4,096 receipts"),  # before a signature is checked
    ],
    ids=range(5),
)
def test_what_is_no_list_of_receipts_says_so(result, tables, sentence):
    document = json.loads(result.to_json())
    document["release"]["receipts"] = tables
    with pytest.raises(ReleaseError, match=sentence):
        verify(json.dumps(document))


def test_a_receipt_stands_in_a_report_once_and_as_it_was_signed(result):
    document = json.loads(attach(result.to_json(), [receipt(result)]))
    (once,) = document["release"]["receipts"]
    for forged in (
        [once, once],
        [once | {"signature": once["signature"].upper()}],
        [once | {"signature": once["signature"].replace("a", "a ", 1)}],
        [],
    ):
        document["release"]["receipts"] = forged
        with pytest.raises(ReleaseError, match=r"twice|not fit|does not follow"):
            verify(json.dumps(document), trusted=result.plan)
