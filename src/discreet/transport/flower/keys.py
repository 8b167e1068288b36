"""The keys of a site and of a coordinator: made by each, and read from its folder.

A site has two keys. Its *node key* (P-384) lets it connect: Flower checks it. Its
*identity* (Ed25519) is in the plan's roster and signs who is in a sum: the other
sites check it, so the coordinator cannot invent sites. Private halves are written
where they are used and stay there; one public file leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
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

from discreet.errors import InputError
from discreet.plan.cohort import Member, Roster
from discreet.plan.plan import Plan
from discreet.secret_files import (
    SecretFileError,
    check_secret,
    read_secret,
    write_secret,
)
from discreet.transport.certificates import (
    SERVER_DAYS,
    check_dates,
    hosts_of,
    make_authority,
    make_server,
    read_certificate,
)
from discreet.transport.flower.public_file import SUFFIX, PublicFile, check_name

CA: Final = "ca.pem"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "server.pem"
SERVER_KEY: Final = "server.key"
IDENTITY: Final = "identity.key"
NODE_KEY: Final = "node.key"
NODES: Final = "nodes"
COORDINATOR: Final = "coordinator"
_RENEW: Final = "run `discreet keys renew` in its folder"


@dataclass(frozen=True, slots=True)
class CoordinatorKeys:
    """The folder of a coordinator."""

    folder: Path

    def __post_init__(self) -> None:
        _present(self.folder, CA, CERTIFICATE, SERVER_KEY, NODES)
        check_secret(self.folder / SERVER_KEY, what="the server key")

    def certificate(self) -> x509.Certificate:
        """Return the coordinator's certificate."""
        pem = (self.folder / CERTIFICATE).read_bytes()
        return read_certificate(pem, CERTIFICATE)

    def check_dates(self) -> str | None:
        """Refuse a certificate out of its time; return a warning before its end."""
        return check_dates(
            self.certificate(),
            "the coordinator's certificate",
            remedy=_RENEW,
            now=datetime.now(UTC),
        )

    def admit(self, public: PublicFile) -> None:
        """Let a site's node key connect; another key of its name is not replaced."""
        public.node_key()
        path, node = self.folder / NODES / f"{public.name}.pub", f"{public.node}\n"
        if path.exists() and path.read_text(encoding="utf-8") != node:
            raise InputError(
                f"{path.name} is another node key of {public.name}: compare the "
                "fingerprints by voice, and remove the old one"
            )
        path.write_text(node, encoding="utf-8")

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

    def admitted(self, plan: Plan) -> dict[str, bytes]:
        """Return the node keys of the plan's own sites; no other may connect."""
        nodes = self.nodes()
        if plan.roster is None:
            return nodes
        named = [site.name for site in plan.roster.sites]
        missing = [name for name in named if name not in nodes]
        if missing:
            raise InputError(
                f"the coordinator has no node key of {len(missing)} sites of the "
                f"roster, {missing[0]!r} for one: `discreet roster` puts it there"
            )
        return {name: nodes[name] for name in named}


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


def new_site(folder: Path, name: str) -> PublicFile:
    """Make a site's keys in its own folder; return the public file that leaves it."""
    check_name(name)
    if name == COORDINATOR:
        raise InputError(f"a site is not called {COORDINATOR!r}")
    _new_folder(folder)
    identity = _identity(folder)
    node = ec.generate_private_key(ec.SECP384R1())
    write_secret(
        folder / NODE_KEY,
        node.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    )
    text = node.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return _publish(folder, PublicFile.signed(name, identity, node=text.decode()))


def new_coordinator(
    folder: Path, hosts: Sequence[str], *, days: int = SERVER_DAYS
) -> PublicFile:
    """Make the coordinator's identity, its authority and its first certificate.

    Args:
        folder: its own folder, a new one.
        hosts: names and addresses under which the sites reach it.
        days: how long its certificate holds; see ``renew``.
    """
    _new_folder(folder)
    (folder / NODES).mkdir(exist_ok=True)
    ca_key, ca = make_authority()
    pem = ca.public_bytes(Encoding.PEM)
    key, certificate = make_server(ca_key, ca, hosts, days)
    write_secret(folder / CA_KEY, _pem(ca_key))
    write_secret(folder / SERVER_KEY, _pem(key))
    (folder / CA).write_bytes(pem)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    identity = _identity(folder)
    public = PublicFile.signed(COORDINATOR, identity, authority=pem.decode())
    return _publish(folder, public)


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
    ca = read_certificate((folder / CA).read_bytes(), CA)
    check_dates(
        ca,
        "the authority's certificate",
        remedy="make new coordinator keys, and send their public file to every site",
        now=datetime.now(UTC),
    )
    old = read_certificate((folder / CERTIFICATE).read_bytes(), CERTIFICATE)
    key, certificate = make_server(ca_key, ca, hosts or hosts_of(old), days)
    write_secret(folder / SERVER_KEY, _pem(key), over=True)
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    return certificate.not_valid_after_utc


def trust(folder: Path, coordinator: PublicFile) -> None:
    """Let a site connect to whoever shows a certificate of this coordinator."""
    if not coordinator.authority:
        raise InputError(
            f"the public file of {coordinator.name} is a site's: trust is for the "
            "coordinator's"
        )
    _present(folder, NODE_KEY)
    (folder / CA).write_text(coordinator.authority, encoding="utf-8")


def assemble(sites: Sequence[PublicFile], coordinator: PublicFile | None) -> Roster:
    """Return the roster of the sites whose public files came."""
    strange = [public.name for public in sites if not public.node]
    if strange:
        raise InputError(f"{strange[0]} is no site: its public file has no node key")
    members = tuple(Member(public.name, public.identity) for public in sites)
    return Roster(members, None if coordinator is None else coordinator.identity)


def make_consortium(
    folder: Path, sites: Sequence[str], *, hosts: Sequence[str]
) -> Roster:
    """Make every key and certificate of a *rehearsal* in one place.

    In a real consortium each member calls ``new_site`` or ``new_coordinator`` at
    home: nobody should hold what this function writes.

    Args:
        folder: gets one folder for the coordinator and one for each site.
        sites: the sites' names.
        hosts: names and addresses under which the coordinator is reached.
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
    coordinator = new_coordinator(folder / COORDINATOR, hosts)
    keys, public = CoordinatorKeys(folder / COORDINATOR), []
    for site in sites:
        public.append(new_site(folder / site, site))
        trust(folder / site, coordinator)
        keys.admit(public[-1])
    return assemble(public, coordinator)


def public_file_in(folder: Path) -> PublicFile:
    """Return the public file that was written with a folder's keys."""
    found = sorted(folder.glob(f"*{SUFFIX}"))
    if len(found) != 1:
        raise InputError(
            f"{folder} holds {len(found)} public files, and its own is needed; `discreet "
            "keys` writes it"
        )
    return PublicFile.read(found[0])


def _new_folder(folder: Path) -> None:
    if any((folder / name).exists() for name in (IDENTITY, NODE_KEY, CA_KEY)):
        raise InputError(f"{folder} has keys; keys are never written over")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _publish(folder: Path, public: PublicFile) -> PublicFile:
    path = folder / f"{public.name}{SUFFIX}"
    path.write_text(public.dumps(), encoding="utf-8")
    return public


def _present(folder: Path, *names: str) -> None:
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}; `discreet keys` makes them, and "
            "`discreet consortium` all of them for a rehearsal"
        )


def _identity(folder: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    write_secret(folder / IDENTITY, _pem(key))
    return key


def _pem(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
