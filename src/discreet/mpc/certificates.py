"""A private test authority, and a certificate for every member of a session.

One authority a consortium: SPU's link accepts every certificate that the authority
signed and looks at no name, so the authority must sign nobody else. A real
consortium issues the same files from its own authority; the keys made here all
come from one machine and are for tests and demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from discreet.errors import InputError
from discreet.secret_files import check_secret, write_secret
from discreet.transport.certificates import make_authority, make_server

VALID_DAYS: Final = 30
AUTHORITY: Final = "ca"


@dataclass(frozen=True, slots=True)
class Identity:
    """Paths of one member's certificate and key, and of the authority it trusts."""

    name: str
    certificate: Path
    key: Path
    authority: Path

    def __post_init__(self) -> None:
        for path in (self.certificate, self.key, self.authority):
            if not path.is_file():
                raise InputError(
                    f"{self.name} has no file {path.name}; "
                    "make test certificates with: discreet exact certificates"
                )
        check_secret(self.key, what="the key")

    @classmethod
    def within(cls, folder: Path, name: str) -> Identity:
        """Return the identity that ``make_certificates`` wrote for a name."""
        return cls(
            name,
            folder / f"{name}.crt",
            folder / f"{name}.key",
            folder / f"{AUTHORITY}.crt",
        )


def default_names(parties: int, owners: int) -> tuple[str, ...]:
    """Return ``party-0 ..``, ``owner-1 ..`` and ``analyst``."""
    return (
        *(f"party-{i}" for i in range(parties)),
        *(f"owner-{i + 1}" for i in range(owners)),
        "analyst",
    )


def make_certificates(
    folder: Path, names: Sequence[str], *, days: int = VALID_DAYS
) -> None:
    """Write ``ca.crt`` and, for every name, ``NAME.crt`` and ``NAME.key`` (0600).

    The authority's own key is used once and never written: nobody can add a member
    later, a new session of other members needs a new folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.crt")):
        raise InputError(f"{folder.name} holds certificates already; name a new folder")
    ca_key, ca = make_authority("discreet test authority", days)
    for name in names:
        key, certificate = make_server(
            ca_key, ca, [name], days, name=name, also_calls=True
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_secret(folder / f"{name}.key", private)
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / f"{AUTHORITY}.crt").write_bytes(ca.public_bytes(Encoding.PEM))
