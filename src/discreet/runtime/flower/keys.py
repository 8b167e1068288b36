"""Keys and certificates: read those of a site or coordinator, make a consortium's.

A site has two keys. Its *node key* (P-384) lets it connect: Flower checks it. Its
*identity* (Ed25519) is in the plan's roster and signs who is in a sum: the other
sites check it, so the coordinator cannot invent sites.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from discreet.errors import InputError
from discreet.plan.roster import Member, Roster
from discreet.site.secret_files import (
    SecretFileError,
    check_secret,
    read_secret,
    write_secret,
)

CA: Final = "ca.pem"
CERTIFICATE: Final = "server.pem"
SERVER_KEY: Final = "server.key"
IDENTITY: Final = "identity.key"
NODE_KEY: Final = "node.key"
NODES: Final = "nodes"
COORDINATOR: Final = "coordinator"
_VALID: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class CoordinatorKeys:
    """The folder of a coordinator."""

    folder: Path

    def __post_init__(self) -> None:
        _present(self.folder, CA, CERTIFICATE, SERVER_KEY, NODES)
        check_secret(self.folder / SERVER_KEY, what="the server key")

    def identity(self) -> Ed25519PrivateKey | None:
        """Return the key that signs invitations, when there is one."""
        path = self.folder / IDENTITY
        return read_identity(path) if path.exists() else None

    def secret(self) -> bytes:
        """Return bytes that only this coordinator has: its identity, or its TLS key."""
        own = self.folder / IDENTITY
        return (own if own.exists() else self.folder / SERVER_KEY).read_bytes()

    def nodes(self) -> dict[str, bytes]:
        """Return the public node keys that may connect, by name, as PEM."""
        keys = {}
        for path in sorted((self.folder / NODES).glob("*.pub")):
            try:
                key = load_ssh_public_key(path.read_bytes())
            except ValueError:
                raise InputError(f"{path} holds no public key of a node") from None
            keys[path.stem] = key.public_bytes(
                Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
            )
        return keys


@dataclass(frozen=True, slots=True)
class SiteKeys:
    """The folder of a site."""

    folder: Path

    def __post_init__(self) -> None:
        _present(self.folder, CA, NODE_KEY)
        check_secret(self.folder / NODE_KEY, what="the node key")

    def identity(self) -> Ed25519PrivateKey | None:
        """Return the key that the roster knows this site by, when there is one."""
        path = self.folder / IDENTITY
        return read_identity(path) if path.exists() else None


def read_identity(path: Path) -> Ed25519PrivateKey:
    """Read an Ed25519 key from a PEM file."""
    try:
        key = load_pem_private_key(
            read_secret(path, what="the identity"), password=None
        )
    except SecretFileError:
        raise
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds no Ed25519 private key in PEM form")
    return key


def make_consortium(
    folder: Path, sites: Sequence[str], *, hosts: Sequence[str]
) -> Roster:
    """Make every key and certificate of a *test* consortium in one place.

    In a real one each site makes its own keys and sends the public halves: nobody
    should hold what this function writes.

    Args:
        folder: gets one folder for the coordinator and one for each site.
        sites: the sites' names.
        hosts: names and addresses under which the coordinator is reached.
    """
    if len(set(sites)) != len(sites) or COORDINATOR in sites or not sites:
        raise InputError(
            f"name each site once, and none {COORDINATOR!r}; got {len(sites)} names"
        )
    own = folder / COORDINATOR
    taken = [name for name in (COORDINATOR, *sites) if (folder / name).exists()]
    if taken:
        raise InputError(
            f"{folder} already has {', '.join(taken)}; keys are never written over"
        )
    (own / NODES).mkdir(parents=True, exist_ok=True)
    ca_key, ca = _authority()
    server_key, certificate = _server(ca_key, ca, hosts)
    for place in (own, *(folder / site for site in sites)):
        place.mkdir(exist_ok=True)
        (place / CA).write_bytes(ca.public_bytes(Encoding.PEM))
    (own / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    write_secret(own / SERVER_KEY, _pem(server_key))
    coordinator = _identity(own)
    members = []
    for site in sites:
        node = ec.generate_private_key(ec.SECP384R1())
        write_secret(
            folder / site / NODE_KEY,
            node.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        )
        public = node.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        (own / NODES / f"{site}.pub").write_bytes(public + b"\n")
        members.append(Member(site, _identity(folder / site)))
    return Roster(tuple(members), coordinator)


def _present(folder: Path, *names: str) -> None:
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}; `discreet consortium` makes them "
            "for a test"
        )


def _identity(folder: Path) -> bytes:
    key = Ed25519PrivateKey.generate()
    write_secret(folder / IDENTITY, _pem(key))
    return key.public_key().public_bytes_raw()


def _pem(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Make a certificate authority for one consortium; its key is not kept."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "discreet consortium")])
    builder = _certificate(name, name, key.public_key())
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return key, builder.sign(key, hashes.SHA384())


def _server(
    ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, hosts: Sequence[str]
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "discreet coordinator")])
    builder = _certificate(name, ca.subject, key.public_key())
    alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts])
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    serving = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(serving, critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.add_extension(authority, critical=False)
    return key, builder.sign(ca_key, hashes.SHA384())


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1))
    builder = builder.not_valid_after(now + _VALID)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key)
    return builder.add_extension(identifier, critical=False)


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
        return x509.DNSName(host)
