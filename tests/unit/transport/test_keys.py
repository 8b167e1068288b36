"""Folders of keys and public files: complete, private, and never written over."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import InputError
from discreet.transport.keys import (
    CoordinatorKeys,
    PublicFile,
    SiteKeys,
    make_consortium,
    new_coordinator,
    new_site,
    read_identity,
)


def test_a_consortiums_keys_fit_its_roster(tmp_path: Path) -> None:
    roster = make_consortium(tmp_path, ["b", "a"], hosts=["127.0.0.1", "example.org"])
    own = SiteKeys(tmp_path / "a").identity()
    assert own is not None
    assert own.public_key().public_bytes_raw() == roster.key_of("a")
    coordinator = CoordinatorKeys(tmp_path / "coordinator")
    assert set(coordinator.nodes()) == {"a", "b"}
    for key in tmp_path.rglob("*.key"):
        assert key.stat().st_mode & 0o077 == 0, key
    with pytest.raises(InputError, match="never written over"):
        make_consortium(tmp_path, ["b", "a"], hosts=["127.0.0.1"])


def test_wrong_key_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"lacks ca\.pem, node\.key"):
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
        PublicFile.signed(name, Ed25519PrivateKey.generate(), node="ssh")


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


def test_a_site_with_two_node_keys_is_asked_about_by_voice(tmp_path: Path) -> None:
    new_coordinator(tmp_path / "c", ["localhost"])
    folder = CoordinatorKeys(tmp_path / "c")
    first = new_site(tmp_path / "one", "north")
    folder.admit(first)
    folder.admit(first)
    with pytest.raises(InputError, match="compare the fingerprints"):
        folder.admit(new_site(tmp_path / "two", "north"))
