"""The site's secret, and fingerprints under it.

A fingerprint of data is only ever compared with another one, to see that something
changed. A plain hash of a few counts could be found by trying counts; a keyed one
(HMAC-SHA256) says nothing to whoever lacks the secret, and the secret stays in a
file beside the ledger that only its owner may read.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from discreet import secret_files
from discreet.errors import BudgetError, InputError

SECRET_SIZE: Final = 32
_DOMAIN: Final = b"discreet/1/site/"


class LedgerError(BudgetError):
    """The ledger cannot be read or written, or is not what was written."""


@dataclass(frozen=True, slots=True)
class SiteSecret:
    """A key that never leaves the site: it marks data, entries and messages."""

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_SIZE:
            raise InputError(f"a site's secret has {SECRET_SIZE} bytes")

    def mark(self, purpose: str, *parts: bytes) -> bytes:
        """Return the HMAC of the parts, each with its length, for one purpose."""
        name = purpose.encode()
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        message = _DOMAIN + len(name).to_bytes(1, "big") + name + framed
        return hmac.digest(self.secret, message, "sha256")


def secret_path(ledger: Path) -> Path:
    """Return where the secret of a ledger is kept."""
    return ledger.with_name(ledger.name + ".secret")


def read_secret(path: Path) -> SiteSecret:
    """Read a ledger's secret; refuse one that others could have read."""
    content = read_private(path)
    if len(content) != SECRET_SIZE:
        raise LedgerError(
            f"the ledger's secret {path.name} has {len(content)} bytes instead of "
            f"{SECRET_SIZE}; restore it from a backup"
        )
    return SiteSecret(content)


def check_private(path: Path) -> None:
    """Refuse a file that others may read or write, or that is not there."""
    read_private(path, size=0)


def check_folder(path: Path) -> None:
    """Refuse a ledger whose folder others may write to."""
    try:
        secret_files.check_folder(path)
    except secret_files.SecretFileError as err:
        raise LedgerError(str(err)) from None


def read_private(path: Path, *, size: int = -1) -> bytes:
    """Read a file that is its owner's alone."""
    try:
        return secret_files.read_secret(path, what="the ledger's file", size=size)
    except secret_files.SecretFileError as err:
        raise LedgerError(
            f"{err}; restore it from a backup if it is lost, for without it nothing "
            "can be charged"
        ) from None


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone: whole and on disk, or as it was before."""
    try:
        secret_files.write_secret(path, content, over=True)
    except secret_files.SecretFileError as err:
        raise LedgerError(f"{err}; nothing was sent") from None
