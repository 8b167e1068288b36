"""A private test authority, and a certificate for every member of a session.

One authority a consortium: SPU's link accepts every certificate that the authority
signed and looks at no name, so the authority must sign nobody else. A real
consortium issues the same files from its own authority; the keys made here all
come from one machine and are for tests and demonstrations.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from discreet.errors import InputError
from discreet.site.secret_files import check_secret, write_secret

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
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, days)
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _member(name, key, authority, authority_key, days)
        write_secret(
            folder / f"{name}.key",
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        (folder / f"{name}.crt").write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
        )
    (folder / f"{AUTHORITY}.crt").write_bytes(
        authority.public_bytes(serialization.Encoding.PEM)
    )


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of a consortium differ by some minutes.
        .not_valid_before(now - dt.timedelta(minutes=10))
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _authority(key: ec.EllipticCurvePrivateKey, days: int) -> x509.Certificate:
    name = "discreet test authority"
    return (
        _builder(name, _subject(name), key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )


def _member(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.Certificate:
    roles = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _builder(name, authority.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(roles), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                authority_key.public_key()
            ),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
