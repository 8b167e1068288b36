"""Key agreement and identities: X25519 and Ed25519, keys as raw bytes."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.entropy import Entropy

KEY_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64
_NONCE_SIZE: Final = 12
BOX_OVERHEAD: Final = _NONCE_SIZE + 16
"""Bytes that sealing adds: a nonce and a tag."""

_PROBE: Final = X25519PrivateKey.from_private_bytes(bytes(range(32)))


class WeakKeyError(ValueError):
    """A public key of low order: everybody could compute what is agreed with it."""


def public_of(secret: bytes) -> bytes:
    """Return the X25519 public key of a secret."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


class Agreement:
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


def check_strong(public: bytes) -> None:
    """Raise ``WeakKeyError`` unless the key is usable for agreement."""
    try:
        _PROBE.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise WeakKeyError("a public key of low order") from error


def signature_holds(identity: bytes, signature: bytes, message: bytes) -> bool:
    """Tell whether the owner of ``identity`` signed the message."""
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def seal(key: bytes, plain: bytes, *, bound_to: bytes, entropy: Entropy) -> bytes:
    """Encrypt and authenticate with AES-256-GCM under a random nonce.

    The key serves one message, yet the nonce is random: a step that is repeated
    after a crash must not encrypt two plaintexts under one nonce.
    """
    nonce = entropy(_NONCE_SIZE)
    return nonce + AESGCM(key).encrypt(nonce, plain, bound_to)


def unseal(key: bytes, box: bytes, *, bound_to: bytes) -> bytes | None:
    """Return the plaintext, or ``None`` when the box was not made with this key."""
    nonce, sealed = box[:_NONCE_SIZE], box[_NONCE_SIZE:]
    try:
        return AESGCM(key).decrypt(nonce, sealed, bound_to)
    except InvalidTag:
        return None
