"""A consortium's own certificate authority, and the certificates that it gives.

Sites trust the authority, whose certificate is in the coordinator's public file; the
coordinator's own certificate is short-lived and renewed under the same authority, so
that a renewal asks nothing of the sites.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from discreet.errors import InputError

AUTHORITY_DAYS: Final = 5 * 365
SERVER_DAYS: Final = 90
SOON: Final = timedelta(days=14)
"""How long before its end a certificate is called old."""


def make_authority(
    name: str = "discreet consortium", days: int = AUTHORITY_DAYS
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Make a certificate authority for one consortium."""
    key = ec.generate_private_key(ec.SECP384R1())
    builder = _certificate(_subject(name), _subject(name), key.public_key(), days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return key, builder.sign(key, hashes.SHA384())


def make_server(
    ca_key: ec.EllipticCurvePrivateKey,
    ca: x509.Certificate,
    hosts: Sequence[str],
    days: int = SERVER_DAYS,
    *,
    name: str = "discreet coordinator",
    also_calls: bool = False,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Make a key, and its certificate for the names that its holder is reached by.

    ``also_calls`` is for a member that others know by its certificate when it calls.
    """
    if not hosts or days < 1:
        raise InputError("a server's certificate is for one host at least, and a day")
    roles = [ExtendedKeyUsageOID.SERVER_AUTH]
    if also_calls:
        roles.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    key = ec.generate_private_key(ec.SECP384R1())
    builder = _certificate(_subject(name), ca.subject, key.public_key(), days)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    for extension, critical in (
        (x509.SubjectAlternativeName([_host(host) for host in hosts]), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage(roles), False),
        (issuer, False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return key, builder.sign(ca_key, hashes.SHA384())


def read_certificate(pem: bytes, what: str) -> x509.Certificate:
    """Read a certificate from PEM."""
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise InputError(f"{what} is no certificate in PEM form") from None


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names]


def check_dates(
    certificate: x509.Certificate, what: str, *, remedy: str, now: datetime
) -> str | None:
    """Refuse a certificate out of its time; say so when it has little left.

    Raises:
        InputError: it is not valid yet, or no longer.
    """
    end = certificate.not_valid_after_utc
    if not certificate.not_valid_before_utc <= now <= end:
        raise InputError(
            f"{what} holds from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{end:%Y-%m-%d}, and not now: {remedy}"
        )
    if end - now < SOON:
        return f"{what} holds until {end:%Y-%m-%d}: {remedy}"
    return None


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1))
    builder = builder.not_valid_after(now + timedelta(days=days))
    identifier = x509.SubjectKeyIdentifier.from_public_key(key)
    return builder.add_extension(identifier, critical=False)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InputError("a host is an address or a name in ASCII letters") from None
