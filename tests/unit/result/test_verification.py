"""A report is checked by computing it again; whatever is changed on it is noticed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet.errors import ReleaseError
from discreet.plan.roster import Member, Roster
from discreet.result.page import render
from discreet.result.record import SIGNED, digest
from discreet.result.verification import verify

pytestmark = pytest.mark.long


def _sites(**more):
    rng = np.random.default_rng(4)
    s = rng.random((6000, 2))
    y = rng.random(6000) < s[:, 0]
    scores = s if more.pop("two", False) else s[:, 0]
    groups = np.where(rng.random(6000) < 0.5, "f", "m") if more else None
    return [
        discreet.Examples(
            scores[i::3], y[i::3], groups=None if groups is None else groups[i::3]
        )
        for i in range(3)
    ]


RESULTS = {
    "private": lambda: discreet.evaluate(_sites(), privacy="distributed", epsilon=1),
    "local": lambda: discreet.evaluate(_sites(), privacy="local", epsilon=4),
    "groups": lambda: discreet.evaluate(
        _sites(groups=True), privacy="distributed", epsilon=2, groups=["f", "m"]
    ),
    "models": lambda: discreet.compare(
        _sites(two=True), privacy="distributed", epsilon=2, names=("new", "old")
    ),
    "straight lines": lambda: discreet.evaluate(
        _sites(), privacy="distributed", epsilon=1, interpolation="linear"
    ),
    "published method": lambda: discreet.evaluate(
        _sites(), privacy="distributed", epsilon=1, method=discreet.FedCurve(64)
    ),
    "another method": lambda: discreet.evaluate(
        _sites(),
        privacy="distributed",
        epsilon=1,
        method=discreet.RangeQueries(norm="l1"),
    ),
    "labels": lambda: discreet.evaluate(
        _sites(),
        privacy=discreet.LabelDP(epsilon=1, mechanism="curves"),
        interpolation="linear",
    ),
    "random groups": lambda: discreet.evaluate(
        _sites() * 2, privacy="distributed", epsilon=3, random_groups=3
    ),
}


@pytest.fixture(scope="module")
def result():
    return RESULTS["private"]()


@pytest.mark.parametrize("name", RESULTS)
def test_an_untouched_report_holds(name):
    found = RESULTS[name]()
    page = verify(render(found.page("2026-01-01")))
    assert page.same_bytes
    assert page.numbers > 100
    assert verify(found.to_json()).numbers > 50


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("AUC", "AUROC", "something on it was changed"),
        ('"contributors":3', '"contributors":2', "digest does not match"),
        ('"setting":"simulated"', '"setting":"deployed"', "digest does not match"),
    ],
)
def test_a_changed_page_is_noticed(result, old, new, sentence):
    text = render(result.page())
    assert old in text
    with pytest.raises(ReleaseError, match=sentence):
        verify(text.replace(old, new, 1))


def test_a_changed_number_of_a_document_is_named(result):
    document = json.loads(result.to_json())
    document["metrics"]["auc"]["value"] += 0.001
    with pytest.raises(ReleaseError, match=r"metrics\.auc\.value does not follow"):
        verify(json.dumps(document))


def test_a_total_that_was_changed_with_its_digest_changes_the_numbers(result):
    document = json.loads(result.to_json())
    record = document["release"]
    record["releases"][0]["total"][3] += 50
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="does not follow from the release"):
        verify(json.dumps(document))


@pytest.mark.parametrize("reader", [{}, {"name": "tea leaves"}, {"name": 3}])
def test_what_an_unknown_estimator_read_is_not_computed_another_way(result, reader):
    record = result.to_dict()["release"] | {"reader": reader}
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="an estimator that is not known here"):
        verify(json.dumps({"release": record}))


@pytest.mark.parametrize("text", ["", "{}", "[]", "<html></html>", '{"release": 3}'])
def test_what_is_no_report_says_so(text):
    with pytest.raises(ReleaseError, match="holds no re"):
        verify(text)


def test_the_readers_plan_and_the_coordinators_signature_are_checked(result):
    key, stranger = (Ed25519PrivateKey.generate() for _ in range(2))
    members = tuple(
        Member(name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
        for name in ("east", "north", "south")
    )
    roster = Roster(members, key.public_key().public_bytes_raw())
    plan = replace(result.plan, roster=roster)
    releases = tuple(replace(r, plan_digest=plan.digest()) for r in result.releases)
    claim = plan.claim("deployed", sites=3)
    found = replace(
        result,
        plan=plan,
        releases=releases,
        claim=claim,
        site_names=("east", "north", "south"),
    )
    record = found.to_dict()["release"]

    def signed(by):
        signature = by.sign(SIGNED + record["digest"].encode()).hex()
        return render(found.page("2026-01-01"), signature=signature)

    assert verify(signed(key), trusted=plan).signed
    assert not verify(signed(key)).signed
    with pytest.raises(ReleaseError, match="signature does not fit"):
        verify(signed(stranger), trusted=plan)
    with pytest.raises(ReleaseError, match="did not sign"):
        verify(render(found.page()), trusted=plan)
    with pytest.raises(ReleaseError, match="another plan"):
        verify(signed(key), trusted=result.plan)
