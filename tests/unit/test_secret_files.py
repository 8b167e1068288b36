"""Secrets on disk: whole, private from the first byte, never written over."""

import os
import stat
import threading

import pytest

from discreet.errors import InputError
from discreet.mpc.transport import MemberIdentity, make_certificates
from discreet.secret_files import (
    SecretExistsError,
    SecretFileError,
    check_secret,
    read_secret,
    write_secret,
)
from discreet.transport.joining import response_key_beside
from discreet.transport.keys import COORDINATOR, SiteKeys, make_consortium


def test_a_secret_comes_back_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "identity.key"
    before = os.umask(0)
    try:
        write_secret(path, b"secret")
    finally:
        os.umask(before)
    assert read_secret(path) == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["identity.key"]


@pytest.mark.parametrize("links", [True, False])
def test_a_secret_is_never_written_over(tmp_path, monkeypatch, links):
    """A file system without links gets a rename."""

    def unsupported(_source, _target):
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", unsupported)
    path = tmp_path / "identity.key"
    write_secret(path, b"first")
    with pytest.raises(SecretExistsError, match=r"identity\.key exists"):
        write_secret(path, b"second")
    assert read_secret(path) == b"first"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_secret_is_replaced_whole_where_that_is_asked_for(tmp_path):
    path = tmp_path / "head.seal"
    write_secret(path, b"first", over=True)
    path.chmod(0o644)
    write_secret(path, b"second", over=True)
    assert read_secret(path) == b"second"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_secret_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "secret")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SecretFileError, match="No space left on device"):
        write_secret(tmp_path / "a.key", b"secret")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SecretFileError, match="No such file"):
        write_secret(tmp_path / "no" / "a.key", b"secret")


def test_of_many_who_make_a_secret_at_once_one_wins(tmp_path):
    path = tmp_path / "a.key"
    won = []

    def make(k):
        try:
            write_secret(path, bytes([k]) * 32)
        except SecretExistsError:
            return
        won.append(k)

    threads = [threading.Thread(target=make, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = won
    assert read_secret(path) == bytes([winner]) * 32


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_secret_that_others_may_touch_is_refused_with_the_remedy(tmp_path, mode):
    path = tmp_path / "a.key"
    write_secret(path, b"secret")
    path.chmod(mode)
    for pilot in (read_secret, check_secret):
        with pytest.raises(SecretFileError, match=r"chmod 600 a\.key") as refused:
            pilot(path)
        assert "secret" not in str(refused.value).replace("the secret", "")


def test_every_key_of_a_session_is_private_and_checked(tmp_path):
    make_consortium(tmp_path, ["north"], hosts=["localhost"])
    make_certificates(tmp_path / "exact", ["party-0"])
    response_key_beside(tmp_path / "ledger.sqlite")
    keys = [*tmp_path.rglob("*.key"), tmp_path / "ledger.sqlite.response_key"]
    assert len(keys) == 6, COORDINATOR
    for key in keys:
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        key.chmod(0o644)
    opened = [
        lambda: SiteKeys(tmp_path / "north"),
        lambda: MemberIdentity.within(tmp_path / "exact", "party-0"),
        lambda: response_key_beside(tmp_path / "ledger.sqlite"),
    ]
    for open_keys in opened:
        with pytest.raises(InputError, match="may be read by others"):
            open_keys()
