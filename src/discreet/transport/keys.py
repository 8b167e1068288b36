"""The keys of a site and of a coordinator, their certificates and public files.

A site has one key, its *identity* (Ed25519). It is in the plan's roster. It signs the
site's requests, which the coordinator checks, and who is in a sum, which the other sites
check: so the coordinator cannot invent sites.

The private half is written where it is used and stays there; one public file leaves.
A site's public file holds its identity; the coordinator's also the authority that signs
its certificate, and its address. The identity signs the rest: comparing the fingerprint
of an identity, by voice, compares the whole file.

Sites trust the authority. The coordinator's own certificate is short-lived and renewed
under the same authority, so that a renewal asks nothing of the sites.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from discreet.codec.parsing import read_text, read_toml
from discreet.errors import InputError, PlanError
from discreet.plan.cohort import Member, Roster, key_from_text, key_text
from discreet.plan.plan import Plan
from discreet.plan.revocation import RevokedKeys
from discreet.secagg.keys import signature_holds
from discreet.secret_files import (
    PUBLIC,
    SecretFileError,
    check_secret,
    read_secret,
    write_secret,
)
from discreet.transport.addresses import host_and_port

CA: Final = "ca.pem"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "server.pem"
SERVER_KEY: Final = "server.key"
IDENTITY: Final = "identity.key"
POLICY: Final = "policy.toml"
LEDGER: Final = "ledger.sqlite"
SITES: Final = "sites"
"""The coordinator's folder of the sites' public files, for plans without a roster."""
COORDINATOR: Final = "coordinator"
_RENEW: Final = "run `discreet keys renew` in its folder"
AUTHORITY_DAYS: Final = 5 * 365
SERVER_DAYS: Final = 90
SOON: Final = timedelta(days=14)
"""How long before its end a certificate is called old."""
VERSION: Final = 1
PORT: Final = 9443
SUFFIX: Final = ".public.toml"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_KEYS: Final = {"version", "name", "identity", "authority", "address", "signature"}
_LONGEST: Final = 2**14


def check_name(name: str) -> str:
    """Return a name that is also a safe name of a folder and of a file."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise InputError(
            "a name has 1 to 63 letters, digits, dots, underscores and hyphens, and "
            "starts and ends with a letter or digit"
        )
    return name


@dataclass(frozen=True, slots=True)
class PublicFile:
    """The public halves of one member's keys, signed by its identity."""

    name: str
    identity: bytes
    authority: str = ""
    """The coordinator's authority, a certificate in PEM form; a site has none."""
    address: str = ""
    """Where sites reach the coordinator, as host:port."""
    signature: bytes = b""

    def __post_init__(self) -> None:
        check_name(self.name)
        if len(self.authority) + len(self.address) > _LONGEST:
            raise InputError("a public file holds a text that is too long for one")
        if self.is_coordinator != bool(self.authority and self.address):
            raise InputError(
                "the coordinator's public file, and no other, holds its authority and "
                "address"
            )
        if not signature_holds(self.identity, self.signature, self._statement()):
            raise InputError(
                f"the public file of {self.name} is not signed by its identity: ask "
                "for it again"
            )
        if self.is_coordinator:
            read_certificate(self.authority.encode(), "the authority")
            host_and_port(self.address)

    @property
    def is_coordinator(self) -> bool:
        """Whether it is the coordinator's."""
        return self.name == COORDINATOR

    @classmethod
    def signed(
        cls,
        name: str,
        key: Ed25519PrivateKey,
        *,
        authority: str = "",
        address: str = "",
    ) -> Self:
        """Sign the public halves."""
        identity = key.public_key().public_bytes_raw()
        statement = _statement(name, identity, authority, address)
        return cls(name, identity, authority, address, key.sign(statement))

    def _statement(self) -> bytes:
        return _statement(self.name, self.identity, self.authority, self.address)

    def dumps(self) -> str:
        """Write the file."""
        texts = {"authority": self.authority, "address": self.address}
        return tomli_w.dumps(
            {
                "version": VERSION,
                "name": self.name,
                "identity": key_text(self.identity),
                **{name: text for name, text in texts.items() if text},
                "signature": self.signature.hex(),
            }
        )

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read the file, and check its signature."""
        table = read_toml(text, "the public file", error=InputError)
        if set(table) - _KEYS or table.get("version") != VERSION:
            raise InputError(
                f"this is no public file of version {VERSION}; `discreet join` writes one"
            )
        texts = {key: table.get(key, "") for key in _KEYS - {"version"}}
        if not all(isinstance(text, str) for text in texts.values()):
            raise InputError("a public file holds texts alone")
        try:
            identity = key_from_text(texts["identity"])
            signature = bytes.fromhex(texts["signature"])
        except (PlanError, ValueError):
            raise InputError(
                "the identity or the signature in the public file cannot be read"
            ) from None
        return cls(
            texts["name"], identity, texts["authority"], texts["address"], signature
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that somebody sent."""
        return cls.loads(read_text(path, "a public file"))


def _statement(name: str, identity: bytes, authority: str, address: str) -> bytes:
    fields = (name.encode(), identity, authority.encode(), address.encode())
    sized = b"".join(len(f).to_bytes(4, "big") + f for f in fields)
    return b"discreet public file\0" + sized


@dataclass(frozen=True, slots=True)
class CoordinatorKeys:
    """The folder of a coordinator."""

    folder: Path

    def __post_init__(self) -> None:
        _present(self.folder, CA, CERTIFICATE, SERVER_KEY, IDENTITY)
        check_secret(self.folder / SERVER_KEY, what="the server key")

    def certificate(self) -> x509.Certificate:
        """Return the coordinator's certificate."""
        return certificate_in(self.folder, CERTIFICATE)

    def check_dates(self) -> str | None:
        """Refuse a certificate out of its time; return a warning before its end."""
        return check_dates(
            self.certificate(),
            "the coordinator's certificate",
            remedy=_RENEW,
            now=datetime.now(UTC),
        )

    def revoked(self) -> RevokedKeys:
        """Return the revoked keys that this coordinator knows of."""
        return RevokedKeys.beside(self.folder)

    def admit(self, public: PublicFile) -> None:
        """Keep a site's public file; one of its name is replaced if it was revoked."""
        path, revoked = self.folder / SITES / f"{public.name}{SUFFIX}", self.revoked()
        check_counts(public, revoked)
        path.parent.mkdir(exist_ok=True)
        kept = PublicFile.read(path).identity if path.exists() else public.identity
        if kept != public.identity and revoked.of(kept) is None:
            raise InputError(
                f"{path} holds another identity of {public.name}: compare the "
                "fingerprints by voice, and revoke or remove the old one"
            )
        publish(path.parent, public)

    def identity(self) -> Ed25519PrivateKey:
        """Return the key that signs invitations and results."""
        return read_identity(self.folder / IDENTITY)

    def secret(self) -> bytes:
        """Return bytes that only this coordinator has."""
        return (self.folder / IDENTITY).read_bytes()

    def admitted(self, plan: Plan) -> dict[str, bytes]:
        """Return the identities that may connect, by name.

        They are those of the plan's roster; without one, those whose public files the
        coordinator keeps.
        """
        if plan.roster is not None:
            return {site.name: site.key for site in plan.roster.sites}
        files = sorted((self.folder / SITES).glob(f"*{SUFFIX}"))
        revoked = self.revoked()
        return {
            public.name: public.identity
            for public in map(PublicFile.read, files)
            if revoked.of(public.identity) is None
        }


@dataclass(frozen=True, slots=True)
class SiteKeys:
    """The folder of a site."""

    folder: Path

    def __post_init__(self) -> None:
        _present(self.folder, IDENTITY)
        check_secret(self.folder / IDENTITY, what="the identity")

    def identity(self) -> Ed25519PrivateKey:
        """Return the key that the roster knows this site by."""
        return read_identity(self.folder / IDENTITY)

    def revoked(self) -> RevokedKeys:
        """Return the revoked keys that this site knows of."""
        return RevokedKeys.beside(self.folder)

    def coordinator(self) -> PublicFile:
        """Return the public file of the coordinator that this site trusts.

        Raises:
            InputError: there is none, or its key was revoked.
        """
        path = self.folder / f"{COORDINATOR}{SUFFIX}"
        if not path.exists():
            raise InputError(
                f"{self.folder} has no {path.name}: `discreet join` or `discreet keys "
                "trust` puts the coordinator's public file there"
            )
        public = PublicFile.read(path)
        check_counts(public, self.revoked())
        return public


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


def new_site(folder: Path, name: str) -> PublicFile:
    """Make a site's identity in its own folder; return the public file that leaves it."""
    check_name(name)
    if name == COORDINATOR:
        raise InputError(f"a site is not called {COORDINATOR!r}")
    _new_folder(folder)
    return publish(folder, PublicFile.signed(name, _identity(folder)))


def site_in(folder: Path, name: str) -> PublicFile:
    """Return the public file of a site's folder; make what is missing there."""
    if not (folder / IDENTITY).exists():
        return new_site(folder, name)
    others = [f for f in folder.glob(f"*{SUFFIX}") if f.name != COORDINATOR + SUFFIX]
    if not others:
        return publish(folder, PublicFile.signed(name, SiteKeys(folder).identity()))
    own = public_file_in(folder)
    if own.name != name:
        raise InputError(f"{folder} is the folder of {own.name}: name another --folder")
    return own


def new_coordinator(
    folder: Path, hosts: Sequence[str], *, port: int = PORT, days: int = SERVER_DAYS
) -> PublicFile:
    """Make the coordinator's identity, its authority and its first certificate.

    Args:
        folder: its own folder, a new one.
        hosts: names and addresses under which the sites reach it, the usual one first.
        port: where they reach it.
        days: how long its certificate holds; see ``renew``.
    """
    _new_folder(folder)
    ca_key, ca = make_authority()
    authority = ca.public_bytes(Encoding.PEM)
    key, certificate = make_server(ca_key, ca, hosts, days)
    write_secret(folder / CA_KEY, pem(ca_key))
    write_secret(folder / SERVER_KEY, pem(key))
    (folder / CA).write_bytes(authority)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    identity = _identity(folder)
    first = f"[{hosts[0]}]" if ":" in hosts[0] else hosts[0]
    public = PublicFile.signed(
        COORDINATOR, identity, authority=authority.decode(), address=f"{first}:{port}"
    )
    return publish(folder, public)


def renew(
    folder: Path, hosts: Sequence[str] = (), *, days: int = SERVER_DAYS
) -> datetime:
    """Make a new key and certificate under the same authority; return its end.

    The sites notice nothing: they trust the authority. Without ``hosts`` the new
    certificate is for those of the old one.
    """
    _present(folder, CA, CA_KEY, CERTIFICATE)
    ca_key = load_pem_private_key(
        read_secret(folder / CA_KEY, what="the authority's key"), password=None
    )
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{CA_KEY} holds no key of an authority")
    ca = certificate_in(folder, CA)
    check_dates(
        ca,
        "the authority's certificate",
        remedy="make new coordinator keys, and send their public file to every site",
        now=datetime.now(UTC),
    )
    names = hosts or hosts_of(certificate_in(folder, CERTIFICATE))
    key, certificate = make_server(ca_key, ca, names, days)
    write_secret(folder / SERVER_KEY, pem(key), over=True)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    return certificate.not_valid_after_utc


def check_counts(public: PublicFile, revoked: RevokedKeys) -> None:
    """Refuse a public file whose identity was revoked."""
    revocation = revoked.of(public.identity)
    if revocation is not None:
        raise InputError(f"the public file holds {revocation}: ask for the new one")


def check_same(folder: Path, coordinator: PublicFile) -> None:
    """Refuse another coordinator than the one that a site's folder trusts already."""
    _check_coordinators(coordinator)
    check_counts(coordinator, RevokedKeys.beside(folder))
    trusted = folder / f"{COORDINATOR}{SUFFIX}"
    if trusted.exists() and PublicFile.read(trusted).identity != coordinator.identity:
        raise InputError(
            f"{folder} trusts another coordinator: compare the fingerprints by voice, "
            "then run `discreet keys trust`"
        )


def trust(folder: Path, coordinator: PublicFile) -> None:
    """Let a site connect to whoever shows a certificate of this coordinator.

    Raises:
        InputError: its key was revoked, or its authority was replaced.
    """
    _check_coordinators(coordinator)
    check_counts(coordinator, RevokedKeys.beside(folder))
    _present(folder, IDENTITY)
    trusted = folder / f"{COORDINATOR}{SUFFIX}"
    if trusted.exists():
        _check_newer(PublicFile.read(trusted), coordinator)
    publish(folder, coordinator)


def _check_newer(trusted: PublicFile, given: PublicFile) -> None:
    """Refuse an authority that was replaced: its fingerprint would be the same."""
    made = [
        read_certificate(
            public.authority.encode(), "the authority"
        ).not_valid_before_utc
        for public in (trusted, given)
    ]
    if trusted.identity == given.identity and made[1] < made[0]:
        raise InputError(
            f"this public file has an older authority, of {made[1]:%Y-%m-%d}, than the "
            "one that is trusted: ask the coordinator for its present file"
        )


def _check_coordinators(public: PublicFile) -> None:
    if not public.is_coordinator:
        raise InputError(
            f"the public file of {public.name} is a site's: trust is for the "
            "coordinator's"
        )


def assemble(sites: Sequence[PublicFile], coordinator: PublicFile | None) -> Roster:
    """Return the roster of the sites whose public files came."""
    if any(public.is_coordinator for public in sites):
        raise InputError("the coordinator is no site: leave its public file out")
    members = tuple(Member(public.name, public.identity) for public in sites)
    return Roster(members, None if coordinator is None else coordinator.identity)


def make_consortium(
    folder: Path, sites: Sequence[str], *, hosts: Sequence[str], port: int = PORT
) -> Roster:
    """Make every key and certificate of a *rehearsal* in one place.

    In a real consortium each member calls ``new_site`` or ``new_coordinator`` at
    home: nobody should hold what this function writes.

    Args:
        folder: gets one folder for the coordinator and one for each site.
        sites: the sites' names.
        hosts: names and addresses under which the coordinator is reached.
        port: where it is reached.
    """
    if len(set(sites)) != len(sites) or COORDINATOR in sites or not sites:
        raise InputError(
            f"name each site once, and none {COORDINATOR!r}; got {len(sites)} names"
        )
    taken = [name for name in (COORDINATOR, *sites) if (folder / name).exists()]
    if taken:
        raise InputError(
            f"{folder} already has {', '.join(taken)}; keys are never written over"
        )
    coordinator = new_coordinator(folder / COORDINATOR, hosts, port=port)
    keys, public = CoordinatorKeys(folder / COORDINATOR), []
    for site in sites:
        public.append(new_site(folder / site, site))
        trust(folder / site, coordinator)
        keys.admit(public[-1])
    return assemble(public, coordinator)


def public_file_in(folder: Path) -> PublicFile:
    """Return the public file that was written with a folder's keys."""
    files = sorted(folder.glob(f"*{SUFFIX}"))
    own = [f for f in files if f.name != COORDINATOR + SUFFIX] or files
    if len(own) != 1:
        raise InputError(
            f"{folder} holds {len(own)} public files, and its own is needed; `discreet "
            "join` writes it"
        )
    return PublicFile.read(own[0])


def _new_folder(folder: Path) -> None:
    if any((folder / name).exists() for name in (IDENTITY, CA_KEY)):
        raise InputError(f"{folder} has keys; keys are never written over")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def publish(folder: Path, public: PublicFile) -> PublicFile:
    """Write a member's public file into its folder."""
    path = folder / f"{public.name}{SUFFIX}"
    write_secret(path, public.dumps().encode(), over=True, mode=PUBLIC)
    return public


def _present(folder: Path, *names: str) -> None:
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}: `discreet join` makes a site's "
            "files, and `discreet keys coordinator` a coordinator's"
        )


def _identity(folder: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    write_secret(folder / IDENTITY, pem(key))
    return key


def pem(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    """Return a private key as it is written to its file."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


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


def certificate_in(folder: Path, name: str) -> x509.Certificate:
    """Read a certificate in a folder of keys."""
    return read_certificate((folder / name).read_bytes(), name)


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
    if now < certificate.not_valid_before_utc:
        raise InputError(
            f"{what} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} on, "
            f"and this machine's clock says {now:%Y-%m-%d %H:%M}: set it by NTP"
        )
    if now > end:
        raise InputError(
            f"{what} was valid until {end:%Y-%m-%d}, and this machine's clock says "
            f"{now:%Y-%m-%d}: {remedy}"
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
