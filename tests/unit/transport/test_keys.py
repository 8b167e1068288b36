"""Folders of keys and public files: complete, private, and never written over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import InputError
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts, Roster
from discreet.plan.plan import Plan, recommend
from discreet.transport.keys import (
    CoordinatorKeys,
    PublicFile,
    SiteKeys,
    make_consortium,
    new_coordinator,
    new_site,
    read_identity,
    trust,
)


def test_a_consortiums_keys_fit_its_roster(tmp_path: Path) -> None:
    roster = make_consortium(tmp_path, ["b", "a"], hosts=["127.0.0.1", "example.org"])
    own = SiteKeys(tmp_path / "a").identity()
    assert own.public_key().public_bytes_raw() == roster.key_of("a")
    coordinator = SiteKeys(tmp_path / "a").coordinator()
    assert coordinator.identity == roster.coordinator
    assert coordinator.address == "127.0.0.1:9443"
    for key in tmp_path.rglob("*.key"):
        assert key.stat().st_mode & 0o077 == 0, key
    with pytest.raises(InputError, match="never written over"):
        make_consortium(tmp_path, ["b", "a"], hosts=["127.0.0.1"])


def test_wrong_key_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"lacks identity\.key"):
        SiteKeys(tmp_path)
    (tmp_path / "identity.key").touch(mode=0o600)
    (tmp_path / "identity.key").write_text("no key")
    with pytest.raises(InputError, match="Ed25519"):
        read_identity(tmp_path / "identity.key")


@pytest.mark.parametrize(
    "name", ["../north", "a/b", "", "a b", "..", ".a", "x" * 64, "a\x1b[2J", "[red]"]
)
def test_a_name_is_one_of_a_folder_and_of_nothing_else(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(InputError, match="a name has 1 to 63"):
        new_site(tmp_path / "keys", name)
    with pytest.raises(InputError, match="a name has 1 to 63"):
        PublicFile.signed(name, Ed25519PrivateKey.generate())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version = 1",
        'version = 1\nname = "n"\nidentity = 3',
        'version = 1\nname = "n"\nidentity = "ed25519:zz"\nsignature = "00"',
        "a = " + "[" * 100_000,
    ],
)
def test_what_is_no_public_file_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError):
        PublicFile.loads(text)


def test_a_site_with_two_identities_is_asked_about_by_voice(tmp_path: Path) -> None:
    new_coordinator(tmp_path / "c", ["localhost"])
    folder = CoordinatorKeys(tmp_path / "c")
    first = new_site(tmp_path / "one", "north")
    folder.admit(first)
    folder.admit(first)
    with pytest.raises(InputError, match="compare the fingerprints"):
        folder.admit(new_site(tmp_path / "two", "north"))


def plan_with(roster: Roster | None) -> Plan:
    plan = recommend(PublicFacts(1200, 0.3), DistributedDP("1"), cohort=Cohort(2))
    return replace(plan, roster=roster)


def test_whoever_is_in_the_roster_may_connect_else_whoever_was_admitted(
    tmp_path: Path,
) -> None:
    roster = make_consortium(tmp_path, ["b", "a"], hosts=["localhost"])
    own = CoordinatorKeys(tmp_path / "coordinator")
    later = new_site(tmp_path / "later", "later")
    own.admit(later)
    keys = {site.name: site.key for site in roster.sites}
    assert own.admitted(plan_with(roster)) == keys
    assert own.admitted(plan_with(None)) == {**keys, "later": later.identity}


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("north", {"authority": "pem", "address": "hub:9443"}),
        ("coordinator", {}),
        ("coordinator", {"authority": "pem"}),
        ("coordinator", {"authority": "pem", "address": "hub:9443"}),
        ("north", {"address": "x" * 20_000}),
    ],
)
def test_only_the_coordinators_public_file_holds_an_authority_and_an_address(
    name: str, held: dict[str, str]
) -> None:
    with pytest.raises(InputError):
        PublicFile.signed(name, Ed25519PrivateKey.generate(), **held)


@pytest.mark.parametrize(("old", "new"), [("9443", "9444"), ("BEGIN", "BEGUN")])
def test_a_coordinators_file_that_was_changed_on_its_way_is_refused(
    tmp_path: Path, old: str, new: str
) -> None:
    """Who compares the identity by voice has compared address and authority, too."""
    public = new_coordinator(tmp_path, ["::1"])
    assert public.address == "[::1]:9443"
    assert PublicFile.loads(public.dumps()) == public
    with pytest.raises(InputError, match="not signed by its identity"):
        PublicFile.loads(public.dumps().replace(old, new))


def test_a_site_trusts_a_coordinators_file_and_no_sites(tmp_path: Path) -> None:
    other = new_site(tmp_path / "south", "south")
    new_site(tmp_path / "north", "north")
    with pytest.raises(InputError, match="trust is for the coordinator's"):
        trust(tmp_path / "north", other)
    with pytest.raises(InputError, match="discreet join"):
        SiteKeys(tmp_path / "north").coordinator()
