"""The one file that leaves whoever made keys: its name and its public halves.

A site's file holds its identity and its node key; the coordinator's its identity and
the authority that signs its certificate. The identity signs the rest, so that whoever
has compared the fingerprint of an identity, by voice, has compared the whole file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import tomli_w
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)

from discreet.codec.parsing import read_text, read_toml
from discreet.errors import InputError, PlanError
from discreet.plan.cohort import key_from_text, key_text
from discreet.secagg.keys import signature_holds
from discreet.transport.certificates import read_certificate

VERSION: Final = 1
SUFFIX: Final = ".public.toml"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_KEYS: Final = {"version", "name", "identity", "node", "authority", "signature"}
_LONGEST: Final = 2**14
_GROUPS: Final = 8


def check_name(name: str) -> str:
    """Return a name that is also a safe name of a folder and of a file."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise InputError(
            "a name has 1 to 63 letters, digits, dots, underscores and hyphens, and "
            "starts and ends with a letter or digit"
        )
    return name


def fingerprint(identity: bytes) -> str:
    """Return what two people compare by voice: 128 bits of an identity's digest.

    >>> fingerprint(bytes(32))
    '3ca0 76be ef4b 458b e3d3 279a 5a0f 7de0'
    """
    digest = hashlib.sha256(b"discreet fingerprint\0" + identity).hexdigest()
    return " ".join(digest[4 * i : 4 * i + 4] for i in range(_GROUPS))


@dataclass(frozen=True, slots=True)
class PublicFile:
    """The public halves of one member's keys, signed by its identity."""

    name: str
    identity: bytes
    node: str = ""
    """A site's node key, a P-384 key as OpenSSH writes it."""
    authority: str = ""
    """The coordinator's authority, a certificate in PEM form."""
    signature: bytes = b""

    def __post_init__(self) -> None:
        check_name(self.name)
        if bool(self.node) == bool(self.authority):
            raise InputError(
                "a public file holds a node key (a site's) or an authority (the "
                "coordinator's)"
            )
        if len(self.node) + len(self.authority) > _LONGEST:
            raise InputError("a public file holds a key that is too long for one")
        if not signature_holds(self.identity, self.signature, self._statement()):
            raise InputError(
                f"the public file of {self.name} is not signed by its identity: ask "
                "for it again"
            )
        if self.node:
            self.node_key()
        else:
            read_certificate(self.authority.encode(), "the authority")

    @classmethod
    def signed(
        cls, name: str, key: Ed25519PrivateKey, *, node: str = "", authority: str = ""
    ) -> Self:
        """Sign the public halves."""
        identity = key.public_key().public_bytes_raw()
        statement = _statement(name, identity, node, authority)
        return cls(name, identity, node, authority, key.sign(statement))

    def _statement(self) -> bytes:
        return _statement(self.name, self.identity, self.node, self.authority)

    def node_key(self) -> bytes:
        """Return the node key as PEM."""
        return self._node().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )

    def node_numbers(self) -> ec.EllipticCurvePublicNumbers:
        """Return the node key as numbers, to compare."""
        return self._node().public_numbers()

    def _node(self) -> ec.EllipticCurvePublicKey:
        try:
            key = load_ssh_public_key(self.node.encode())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.key_size != 384:
            raise InputError(f"the node key of {self.name} is no P-384 public key")
        return key

    def dumps(self) -> str:
        """Write the file."""
        keys = {"node": self.node, "authority": self.authority}
        return tomli_w.dumps(
            {
                "version": VERSION,
                "name": self.name,
                "identity": key_text(self.identity),
                **{name: text for name, text in keys.items() if text},
                "signature": self.signature.hex(),
            }
        )

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read the file, and check its signature."""
        table = read_toml(text, "the public file", error=InputError)
        if set(table) - _KEYS or table.get("version") != VERSION:
            raise InputError(
                f"this is no public file of version {VERSION}; `discreet keys new` "
                "writes one"
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
            texts["name"], identity, texts["node"], texts["authority"], signature
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file that somebody sent."""
        return cls.loads(read_text(path, "a public file"))


def _statement(name: str, identity: bytes, node: str, authority: str) -> bytes:
    fields = (name.encode(), identity, node.encode(), authority.encode())
    sized = b"".join(len(f).to_bytes(4, "big") + f for f in fields)
    return b"discreet public file\0" + sized
