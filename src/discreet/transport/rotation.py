"""Rotating and revoking the keys of a member, and what it keeps of the others'.

The private half that is replaced is gone from the folder: whoever wants receipts of an old
plan makes them before. The order outlives a crash: first the revocation is on disk, then
the new key, then the public file; the same command once more makes another new key.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from discreet.errors import InputError
from discreet.plan.cohort import key_from_text
from discreet.plan.revocation import REVOKED, SUFFIX, Revocation, RevokedKeys
from discreet.secret_files import write_secret
from discreet.transport.joining import kept_progress
from discreet.transport.keys import (
    CA,
    CA_KEY,
    CERTIFICATE,
    IDENTITY,
    LEDGER,
    SERVER_KEY,
    PublicFile,
    certificate_in,
    hosts_of,
    make_authority,
    make_server,
    pem,
    public_file_in,
    publish,
    read_identity,
)


def today() -> str:
    """Return the day, UTC."""
    return datetime.now(UTC).date().isoformat()


def revoke_own(folder: Path, *, since: str | None = None) -> tuple[Path, Revocation]:
    """Revoke the identity in a folder; return the file for the others.

    The key stays in the folder and is refused by whoever learns of it: ``rotate`` makes
    the next one.
    """
    own, key = public_file_in(folder), read_identity(folder / IDENTITY)
    revocation = Revocation(
        name=own.name, key=own.identity, since=since or today()
    ).signed(key.sign)
    return _note(folder, revocation), revocation


def learn(
    folder: Path, given: str, *, name: str = "", since: str | None = None
) -> Revocation:
    """Note in a member's folder that somebody's key is revoked; return what was noted.

    Args:
        folder: the folder of keys of whoever learns it.
        given: the file that the owner sent, or the text of a key that was lost.
        name: whose lost key it was.
        since: the day from which it counts no longer; today by default.
    """
    if given.startswith("ed25519:"):
        revocation = Revocation(
            name=name or "a member", key=key_from_text(given), since=since or today()
        )
    else:
        revocation = Revocation.read(Path(given))
    if not (folder / IDENTITY).exists():
        raise InputError(f"{folder} has no {IDENTITY}: it is no member's folder")
    _remember(folder, revocation)
    return revocation


def rotate_identity(folder: Path, *, since: str | None = None) -> PublicFile:
    """Revoke the identity in a folder and make the next one; return its public file."""
    own, old = public_file_in(folder), read_identity(folder / IDENTITY)
    new = Ed25519PrivateKey.generate()
    revocation = Revocation(
        name=own.name,
        key=old.public_key().public_bytes_raw(),
        since=since or today(),
        successor=new.public_key().public_bytes_raw(),
    ).signed(old.sign, new.sign)
    _note(folder, revocation)
    write_secret(folder / IDENTITY, pem(new), over=True)
    return publish(
        folder,
        PublicFile.signed(own.name, new, authority=own.authority, address=own.address),
    )


def rotate_authority(folder: Path, *, days: int) -> PublicFile:
    """Make a new authority and certificate of a coordinator; return its public file.

    Sites trust it once they have the public file, which the identity signs.
    """
    own, identity = public_file_in(folder), read_identity(folder / IDENTITY)
    hosts = hosts_of(certificate_in(folder, CERTIFICATE))
    ca_key, ca = make_authority()
    key, certificate = make_server(ca_key, ca, hosts, days)
    authority = ca.public_bytes(Encoding.PEM)
    write_secret(folder / CA_KEY, pem(ca_key), over=True)
    write_secret(folder / SERVER_KEY, pem(key), over=True)
    (folder / CA).write_bytes(authority)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    signed = PublicFile.signed(
        own.name, identity, authority=authority.decode(), address=own.address
    )
    return publish(folder, signed)


def check_idle(folder: Path) -> None:
    """Refuse to replace a key that an interrupted session needs.

    Raises:
        InputError: says which session, and how to go on.
    """
    progress = kept_progress(folder / LEDGER)
    waits = progress is not None and progress.ending is None
    if waits or any(folder.glob("session-*.sealed")):
        raise InputError(
            f"{folder} holds an interrupted session, which a new key cannot resume: "
            "finish it first, or say --anyway; what was charged stays charged"
        )


def _note(folder: Path, revocation: Revocation) -> Path:
    """Write the file for the others, and remember it here."""
    path = folder / f"{revocation.name}{SUFFIX}"
    path.write_text(revocation.dumps(), encoding="utf-8")
    _remember(folder, revocation)
    return path


def _remember(folder: Path, revocation: Revocation) -> None:
    known = RevokedKeys.beside(folder).adding(revocation)
    write_secret(folder / REVOKED, known.dumps().encode(), over=True)
