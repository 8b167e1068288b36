"""Keys and masks from secrets: HKDF-SHA256, then AES-256 in counter mode.

Every key is bound to the session, to the sites that it belongs to and to its one
purpose, so that no two uses share a key. A mask is the key stream itself; its key
serves one mask only, so the counter starts at zero.
"""

from __future__ import annotations

import hashlib
import struct
from enum import Enum
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

KEY_SIZE: Final = 32
RECEIPT_SIZE: Final = 16
"""Bytes that a holder returns for a box: a guess is right once in 2^128."""
_DOMAIN: Final = b"discreet/secagg/2/"


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


def tagged(tag: bytes, *parts: bytes) -> bytes:
    """Return the parts under a domain tag, each with its length: injective."""
    framed = [len(part).to_bytes(4, "big") + part for part in (tag, *parts)]
    return _DOMAIN + b"".join(framed)


def tagged_hash(tag: bytes, *parts: bytes) -> bytes:
    """Return the SHA-256 of :func:`tagged`."""
    return hashlib.sha256(tagged(tag, *parts)).digest()


def derive_key(secret: bytes, purpose: Purpose, session: bytes, *sites: int) -> bytes:
    """Derive the key for one purpose between these sites in this session."""
    info = tagged(purpose.value, session, struct.pack(f">{len(sites)}I", *sites))
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


def expand(key: bytes, length: int) -> NDArray[np.uint64]:
    """Expand a key to ``length`` words that look uniform on [0, 2^64)."""
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(stream.update(bytes(8 * length)), dtype="<u8")
    return words.astype(np.uint64, copy=False)


def seed_commitment(seed: bytes, session: bytes, site: int) -> bytes:
    """Commit to a site's self-mask seed.

    The seed is 32 uniform bytes, so its hash hides it; the coordinator compares
    it with the seed that it restores from shares, and so never opens a wrong sum.
    """
    return tagged_hash(b"seed-commitment", session, site.to_bytes(4, "big"), seed)
