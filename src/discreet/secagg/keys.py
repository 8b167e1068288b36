"""Keys: agreed (X25519), derived (HKDF-SHA256), signing (Ed25519), sealing (AES-GCM).

Every derived key is bound to the session, to the sites that it belongs to and to
its one purpose, so that no two uses share a key. Keys are raw bytes.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from discreet.entropy import Entropy

DIGEST_SIZE: Final = 32
NONCE_SIZE: Final = 32
KEY_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64
_BOX_NONCE_SIZE: Final = 12
BOX_OVERHEAD: Final = _BOX_NONCE_SIZE + 16
"""Bytes that sealing adds: a nonce and a tag."""

RECEIPT_SIZE: Final = 16
"""Bytes that a holder returns for a box: a guess is right once in 2^128."""
_DOMAIN: Final = b"discreet/secagg/2/"
_MANY_SIGNATURES: Final = 32
"""From here on threads are worth their start: a signature takes a tenth of a ms."""


class WeakKeyError(ValueError):
    """A public key of low order: everybody could compute what is agreed with it."""


class KeyAgreement:
    """One secret X25519 key, loaded once and used with many peers."""

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)

    def public(self) -> bytes:
        """Return the public key."""
        return self._key.public_key().public_bytes_raw()

    def with_peer(self, public: bytes | X25519PublicKey) -> bytes:
        """Return the secret that is shared with the owner of ``public``."""
        if isinstance(public, bytes):
            public = X25519PublicKey.from_public_bytes(public)
        try:
            return self._key.exchange(public)
        except ValueError as error:
            raise WeakKeyError("a public key of low order") from error


def public_of(secret: bytes) -> bytes:
    """Return the X25519 public key of a secret."""
    return KeyAgreement(secret).public()


PROBE: Final = KeyAgreement(bytes(range(32)))
"""Agrees with every key but those of low order; its secret is public."""


def signature_holds(identity: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether the owner of ``identity`` signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def forged(claims: Sequence[tuple[int, bytes, bytes, bytes]]) -> int | None:
    """Return a site whose signature does not hold, if there is one.

    A claim is a site, its identity, its signature and what it is said to have signed.
    Verifying lets go of the interpreter's lock, so many are shared among the cores.
    """

    def false(some: Sequence[tuple[int, bytes, bytes, bytes]]) -> list[int]:
        return [site for site, *claim in some if not signature_holds(*claim)]

    workers = (os.cpu_count() or 1) if len(claims) >= _MANY_SIGNATURES else 1
    if workers == 1:
        return min(false(claims), default=None)
    with ThreadPoolExecutor(workers) as pool:
        forgeries = pool.map(false, [claims[k::workers] for k in range(workers)])
        return min((site for some in forgeries for site in some), default=None)


def seal(key: bytes, plain: bytes, *, bound_to: bytes, entropy: Entropy) -> bytes:
    """Encrypt and authenticate with AES-256-GCM under a random nonce.

    The key serves one message, yet the nonce is random: a step that is repeated
    after a crash must not encrypt two plaintexts under one nonce.
    """
    nonce = entropy(_BOX_NONCE_SIZE)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound_to)


def unseal(key: bytes, box: bytes, *, bound_to: bytes) -> bytes | None:
    """Return the plaintext, or ``None`` when the box was not made with this key."""
    nonce, sealed = box[:_BOX_NONCE_SIZE], box[_BOX_NONCE_SIZE:]
    try:
        return AESGCM(key).decrypt(nonce, sealed, bound_to)
    except InvalidTag:
        return None


class Purpose(Enum):
    """What a derived key is for."""

    PAIR_MASK = b"pair-mask"
    """Added by the lower site of a pair, subtracted by the higher one."""
    SELF_MASK = b"self-mask"
    """Added by one site alone, removed once it is known to have survived."""
    SHARE_BOX = b"share-box"
    """Encrypts the shares that one site sends to another."""
    RECEIPT = b"receipt"
    """Proves to the sender of shares that their holder has opened them."""


def tagged(*parts: bytes) -> bytes:
    """Return the parts, a tag first, each with its length: injective."""
    framed = [len(part).to_bytes(4, "big") + part for part in parts]
    return b"".join([_DOMAIN, *framed])


def tagged_hash(*parts: bytes) -> bytes:
    """Return the SHA-256 of :func:`tagged`."""
    return hashlib.sha256(tagged(*parts)).digest()


@lru_cache(maxsize=16)
def _opening(purpose: bytes, session: bytes) -> bytes:
    """Begin what a session binds its keys to: public, and the same for every site."""
    return tagged(purpose, session)


def derive_key(secret: bytes, purpose: Purpose, session: bytes, *sites: int) -> bytes:
    """Derive the key for one purpose between these sites in this session."""
    framed = struct.pack(f">I{len(sites)}I", 4 * len(sites), *sites)
    info = _opening(purpose.value, session) + framed
    return HKDF(SHA256(), KEY_SIZE, None, info).derive(secret)


def pair_mask_key(secret: bytes, session: bytes, one: int, other: int) -> bytes:
    """Derive the key of a pair's mask; both ends get the same."""
    low, high = sorted((one, other))
    return derive_key(secret, Purpose.PAIR_MASK, session, low, high)


def receipt(secret: bytes, session: bytes, dealer: int, holder: int) -> bytes:
    """Return what a holder sends back to a dealer whose shares it has opened.

    Only these two can compute it, so that no coordinator can say in a holder's
    name that a box has arrived.
    """
    key = derive_key(secret, Purpose.RECEIPT, session, dealer, holder)
    return key[:RECEIPT_SIZE]


def seed_commitment(seed: bytes, session: bytes, site: int) -> bytes:
    """Commit to a site's self-mask seed.

    The seed is 32 uniform bytes, so its hash hides it; the coordinator compares
    it with the seed that it restores from shares, and so never opens a wrong sum.
    """
    return tagged_hash(b"seed-commitment", session, site.to_bytes(4, "big"), seed)
