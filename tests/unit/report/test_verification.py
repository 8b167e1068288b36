"""A report is checked by computing it again; whatever is changed on it is noticed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import discreet
from discreet.errors import ReleaseError
from discreet.plan.cohort import Member, Roster
from discreet.report.record import Made, digest
from discreet.report.verification import verify

pytestmark = pytest.mark.long


def evaluated(privacy=None, **more):
    rng = np.random.default_rng(4)
    s = rng.random(6000)
    y = rng.random(6000) < s
    sites = [discreet.Examples(s[i::3], y[i::3]) for i in range(3)]
    return discreet.evaluate(
        sites, privacy=privacy or discreet.DistributedDP(1), **more
    )


@pytest.fixture(scope="module")
def result():
    return evaluated()


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"privacy": discreet.LocalDP(4)},
        {"interpolation": "linear"},
        {"method": discreet.FedCurve(64)},
        {"method": discreet.RangeQueries(norm="l1")},
        {
            "privacy": discreet.LabelDP(epsilon=1, mechanism="curves"),
            "interpolation": "linear",
        },
    ],
    ids=["own", "local", "straight", "published", "another", "labels"],
)
def test_an_untouched_report_holds_whoever_read_the_release(choices):
    """``test_forged_reports`` has groups, classes, models and random groups."""
    found = evaluated(**choices)
    page = verify(found.exports.html(Made("2026-01-01")))
    assert page.same_bytes
    assert page.numbers > 100
    assert verify(found.to_json()).numbers > 50


def test_a_total_that_was_changed_with_its_digest_changes_the_numbers(result):
    document = json.loads(result.to_json())
    record = document["release"]
    record["releases"][0]["total"][3] += 50
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="does not follow from the release"):
        verify(json.dumps(document))


@pytest.mark.parametrize("reader", [{}, {"name": "tea leaves"}, {"name": 3}])
def test_what_an_unknown_estimator_read_is_not_computed_another_way(result, reader):
    record = result.exports.to_dict()["release"] | {"reader": reader}
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="an estimator that is not known here"):
        verify(json.dumps({"release": record}))


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "<html></html>", "AUC 0.9", '{"release": null}'],
)
def test_a_file_without_a_record_is_not_called_holding(text):
    found = verify(text)
    assert not found.holds
    (line,) = found.sentences()
    assert line.startswith("It holds no record of a release, so nothing in it could be")


@pytest.mark.parametrize(
    "text",
    [
        '{"release": 3}',
        '{"release": {}}',
        '{"release": {"record": true}}',
        '{"release": {"record": 1}}',
        "{",
        '{"a": 1, "a": 1}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a":' * 100_000,
        "{" + " " * 2**23,
    ],
    ids=range(10),
)
def test_a_damaged_file_does_not_hold(text):
    with pytest.raises(ReleaseError):
        verify(text)


def test_a_record_of_another_form_is_left_to_the_version_that_made_it(result):
    document = json.loads(result.to_json())
    document["release"]["record"] = 2
    found = verify(json.dumps(document))
    assert not found.holds
    assert "verify it with the version that made it" in found.sentences()[0]


@pytest.mark.parametrize("change", [{"record": 1.0}, {"more": 1}, {"sites": "north"}])
def test_a_record_has_its_own_keys_and_types_alone(result, change):
    record = result.exports.to_dict()["release"] | change
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="no record of a release"):
        verify(json.dumps({"release": record}))


def test_a_signature_is_no_place_for_words(result):
    document = json.loads(result.to_json())
    document["release"]["signature"] = "signed by the ministry"
    with pytest.raises(ReleaseError, match="signature was damaged"):
        verify(json.dumps(document))


def _many_releases(result):
    """Return a report of a stranger: its own digest fits, and it holds many releases."""
    record = dict(result.exports.to_dict()["release"])
    record["releases"] = [record["releases"][0] | {"total": []}] * 40_000
    record["digest"] = digest(record)
    return json.dumps({"release": record})


def test_nothing_is_computed_of_more_releases_than_the_plan_has(result, monkeypatch):
    monkeypatch.setattr("discreet.report.record._release", _never)
    with pytest.raises(ReleaseError, match="more or fewer releases than its plan"):
        verify(_many_releases(result))


def _never(*_, **__):
    raise AssertionError


def test_nothing_is_computed_before_the_signature_was_checked(result, monkeypatch):
    monkeypatch.setattr("discreet.report.verification.result_from", _never)
    found = _with_roster(result, Ed25519PrivateKey.generate())
    with pytest.raises(ReleaseError, match="did not sign"):
        verify(_many_releases(found), trusted=found.plan)
    with pytest.raises(ReleaseError, match="another plan"):
        verify(_many_releases(result), trusted=found.plan)


def _with_roster(result, coordinator):
    """Return a result as a deployment with a roster gives it."""
    names = ("east", "north", "south")
    members = tuple(
        Member(name, Ed25519PrivateKey.generate().public_key().public_bytes_raw())
        for name in names
    )
    roster = Roster(members, coordinator.public_key().public_bytes_raw())
    plan = replace(result.plan, roster=roster)
    releases = tuple(
        replace(r, plan_digest=plan.digest()) for r in result.source.releases
    )
    claim = plan.claim("deployed", sites=3)
    source = replace(result.source, releases=releases, site_names=names)
    return replace(result, plan=plan, source=source, claim=claim)


def test_the_readers_plan_and_the_coordinators_signature_are_checked(result):
    key, stranger = (Ed25519PrivateKey.generate() for _ in range(2))
    found = _with_roster(result, key)
    plan = found.plan

    def signed(by):
        return found.exports.html(Made("2026-01-01"), sign=by.sign)

    assert verify(signed(key), trusted=plan).signed
    assert not verify(signed(key)).signed
    with pytest.raises(ReleaseError, match="signature does not fit"):
        verify(signed(stranger), trusted=plan)
    with pytest.raises(ReleaseError, match="did not sign"):
        verify(found.exports.html(), trusted=plan)
    with pytest.raises(ReleaseError, match="another plan"):
        verify(signed(key), trusted=result.plan)
