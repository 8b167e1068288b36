"""The site's secret, and fingerprints under it.

A fingerprint of data is only ever compared with another one, to see that something
changed. A plain hash of a few counts could be found by trying counts; a keyed one
(HMAC-SHA256) says nothing to whoever lacks the secret, and the secret stays in a
file beside the ledger that only its owner may read.
"""

from __future__ import annotations

import hmac
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from discreet.errors import BudgetError, InputError

SECRET_SIZE: Final = 32
_OWNER_ONLY: Final = 0o600
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
    """Read a secret; refuse one that others could have read."""
    content = read_private(path)
    if len(content) != SECRET_SIZE:
        raise LedgerError(
            f"the ledger's secret {path.name} has {len(content)} bytes instead of "
            f"{SECRET_SIZE}; restore it from a backup"
        )
    return SiteSecret(content)


def check_private(path: Path) -> None:
    """Refuse a file that others may read or write."""
    try:
        mode = path.stat().st_mode
    except OSError as err:
        raise _unreadable(path, err) from None
    if stat.S_IMODE(mode) & 0o077:
        raise LedgerError(
            f"{path.name} may be read by others; make it private with chmod 600 "
            f"{path.name}"
        )


def read_private(path: Path) -> bytes:
    """Read a file that is its owner's alone."""
    check_private(path)
    try:
        return path.read_bytes()
    except OSError as err:
        raise _unreadable(path, err) from None


def _unreadable(path: Path, err: OSError) -> LedgerError:
    return LedgerError(
        f"{path.name} cannot be read ({err.strerror}); restore it from a backup, for "
        "without it nothing can be charged"
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file for its owner alone: whole and on disk, or as it was before."""
    half_written = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        with os.fdopen(os.open(half_written, flags, _OWNER_ONLY), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half_written.replace(path)
        sync_folder(path.parent)
    except OSError as err:
        half_written.unlink(missing_ok=True)
        raise LedgerError(
            f"{path.name} cannot be written ({err.strerror}); nothing was sent"
        ) from None


def sync_folder(folder: Path) -> None:
    """Put the names of new files on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
