"""Rotating and revoking the keys of a member, and what it keeps of the others'.

The private half that is replaced is gone from the folder: whoever wants receipts of an old
plan makes them before. The order outlives a crash: first the revocation is on disk, then
the new key, then the public file; the same command once more makes another new key.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from discreet.errors import InputError
from discreet.plan.cohort import fingerprint, key_from_text
from discreet.plan.revocation import REVOKED, SUFFIX, Revocation, RevokedKeys
from discreet.secret_files import PUBLIC, write_secret
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


def _day(since: str | None, known: Revocation | None) -> str:
    """Return the day that was given, else the one that was noted, else today."""
    if since is not None and since > today():
        raise InputError(
            f"a key is revoked from today ({today()}, UTC) on or from an earlier day: "
            "plans with it are refused at once"
        )
    return since or (known.since if known is not None else today())


def revoke_own(folder: Path, *, since: str | None = None) -> tuple[Path, Revocation]:
    """Revoke the identity in a folder; return the file for the others.

    The key stays in the folder and is refused by whoever learns of it: ``rotate`` makes
    the next one.
    """
    own, key = public_file_in(folder), read_identity(folder / IDENTITY)
    known = RevokedKeys.beside(folder).of(own.identity)
    revocation = Revocation(
        name=own.name, key=own.identity, since=_day(since, known)
    ).signed(key.sign)
    return _note(folder, revocation), revocation


def learn(
    folder: Path,
    given: str,
    *,
    name: str = "",
    following: str | None = None,
    since: str | None = None,
) -> tuple[Revocation, ...]:
    """Note in a member's folder that somebody's keys are revoked; return what was noted.

    Args:
        folder: the folder of keys of whoever learns it.
        given: the file that the owner sent, or the text of a key that was lost.
        name: whose lost key it was.
        following: the text of that member's next key.
        since: the day from which it counts no longer; today by default.

    Of two days that were told for a key the earlier one is noted: whoever stole it could
    sign a later one.

    Raises:
        InputError: not signed, or another next key was noted already.
    """
    known = RevokedKeys.beside(folder)
    if given.startswith("ed25519:"):
        key = key_from_text(given)
        lost = Revocation(
            name=name or "a member",
            key=key,
            since=_day(since, known.of(key)),
            successor=None if following is None else key_from_text(following),
        )
        learnt = RevokedKeys((lost,))
    else:
        learnt = RevokedKeys.sent(Path(given))
    if not (folder / IDENTITY).exists():
        raise InputError(f"{folder} has no {IDENTITY}: it is no member's folder")
    noted = []
    for revocation in learnt.revoked:
        before = known.of(revocation.key)
        _check_same_successor(before, revocation)
        noted.append(_from(before, revocation))
        known = known.adding(noted[-1])
    _remember(folder, known)
    return tuple(noted)


def _from(before: Revocation | None, revocation: Revocation) -> Revocation:
    """Return a revocation with an earlier day that was noted; then nobody signed it."""
    if before is None or before.since >= revocation.since:
        return revocation
    return replace(
        revocation, since=before.since, signature=b"", successor_signature=b""
    )


def _check_same_successor(known: Revocation | None, revocation: Revocation) -> None:
    """Refuse another next key: a thief has the revoked key, and signs with it."""
    if known is not None and known.successor not in {None, revocation.successor}:
        raise InputError(
            f"another next key of {known.name} was noted already, with the fingerprint "
            f"{fingerprint(known.successor or b'')}: call its owner; if that one is "
            f"wrong, take its entry out of {REVOKED}"
        )


def rotate_identity(folder: Path, *, since: str | None = None) -> PublicFile:
    """Revoke the identity in a folder and make the next one; return its public file."""
    own, old = public_file_in(folder), read_identity(folder / IDENTITY)
    new, key = Ed25519PrivateKey.generate(), old.public_key().public_bytes_raw()
    revocation = Revocation(
        name=own.name,
        key=key,
        since=_day(since, RevokedKeys.beside(folder).of(key)),
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
    write_secret(folder / CA, authority, over=True, mode=PUBLIC)
    shown = certificate.public_bytes(Encoding.PEM)
    write_secret(folder / CERTIFICATE, shown, over=True, mode=PUBLIC)
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
    path, known = folder / f"{revocation.name}{SUFFIX}", RevokedKeys.beside(folder)
    sent = known.leading_to(revocation).dumps().encode()
    write_secret(path, sent, over=True, mode=PUBLIC)
    _remember(folder, known.adding(revocation))
    return path


def _remember(folder: Path, known: RevokedKeys) -> None:
    write_secret(folder / REVOKED, known.dumps().encode(), over=True)
