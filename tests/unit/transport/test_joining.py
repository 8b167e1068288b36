"""What a site keeps beside its ledger."""

from __future__ import annotations

from pathlib import Path

from discreet.transport.joining import InFile, response_key_beside


def test_the_response_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    assert response_key_beside(ledger).secret == response_key_beside(ledger).secret
    assert (tmp_path / "ledger.sqlite.response_key").stat().st_mode & 0o077 == 0


def test_a_kept_state_is_its_owners_alone_and_an_empty_one_leaves_no_file(
    tmp_path: Path,
) -> None:
    kept = InFile(tmp_path / "ledger.sqlite.session")
    assert kept.load() == b""
    kept.save(b"state")
    assert kept.load() == b"state"
    assert kept.path.stat().st_mode & 0o077 == 0
    kept.save(b"")
    assert not kept.path.exists()
