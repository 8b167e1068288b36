r"""Masks: the ring in which they are uniform, their words, and taking them off.

Masks need a group in which they are uniform; sums of counts need integers. Both
meet in :math:`\mathbb{Z}_{2^{64}}`, in two's complement: a signed sum is read off
the ring correctly as long as it lies in :math:`[-2^{63}, 2^{63})`. A site therefore
refuses a vector with an entry beyond :func:`largest_entry`, and the sum cannot wrap.

A mask is the key stream of AES-256 in counter mode; its key serves one mask only,
so the counter starts at zero. The masks come off the sum, and never off a single
vector, once enough shares are revealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.errors import InputError
from discreet.secagg import shamir
from discreet.secagg.errors import TooFewSitesError, UnknownFaultySiteError
from discreet.secagg.keys import (
    KeyAgreement,
    Purpose,
    derive_key,
    pair_mask_key,
    public_of,
    seed_commitment,
)
from discreet.secagg.messages import RevealedShares
from discreet.secagg.terms import Roll

_CHUNK: Final = 8192
"""Words that take all masks in turn: 64 KB."""
_AT_ONCE: Final = 128
"""Streams that are open at once, so that a large session does not hold them all."""


def largest_entry(sites: int) -> int:
    """Return the largest magnitude that each of ``sites`` entries may have.

    >>> largest_entry(2) == (2**63 - 1) // 2
    True
    """
    return (2**63 - 1) // sites


def into_ring(vector: IntVector, *, length: int, sites: int) -> NDArray[np.uint64]:
    """Check one site's vector and copy it into the ring."""
    if vector.dtype != np.int64 or vector.shape != (length,):
        raise InputError(f"a site's vector must be {length} 64-bit integers")
    bound = largest_entry(sites)
    if length and (int(vector.max()) > bound or int(vector.min()) < -bound):
        raise InputError(
            f"an entry of the vector exceeds {bound}, the most that {sites} sites "
            "can add without wrapping; nothing was sent"
        )
    return vector.astype(np.uint64)


def expand(key: bytes, length: int) -> NDArray[np.uint64]:
    """Expand a key to ``length`` words that look uniform on [0, 2^64)."""
    words = np.zeros(length, dtype=np.uint64)
    add_masks(words, plus=[key])
    return words


def add_masks(
    words: NDArray[np.uint64],
    *,
    plus: Iterable[bytes] = (),
    minus: Iterable[bytes] = (),
) -> None:
    """Add and subtract, in place, the masks that keys :func:`expand` to.

    Every key has its own stream from counter zero on, run once and to the end. A few
    thousand words take all streams in turn while they are in the processor's cache,
    through one small buffer: no mask is ever held whole.
    """
    buffer = np.zeros(_CHUNK + 2, dtype="<u8")  # the cipher wants a block of room
    raw, zeros = buffer.data.cast("B"), memoryview(bytes(8 * _CHUNK))
    for combine, keys in ((np.add, plus), (np.subtract, minus)):
        waiting = iter(keys)
        while some := list(islice(waiting, _AT_ONCE)):
            streams = [
                Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
                for key in some
            ]
            for start in range(0, words.size, _CHUNK):
                part = words[start : start + _CHUNK]
                mask, nothing = buffer[: part.size], zeros[: 8 * part.size]
                for stream in streams:
                    stream.update_into(nothing, raw)
                    combine(part, mask, out=part)


@dataclass(frozen=True)
class Dealt:
    """Who dealt shares to whom, and the commitments to the seeds."""

    holders: Mapping[int, tuple[int, ...]]
    commitments: Mapping[int, bytes] = field(repr=False)

    def to_holder(self) -> dict[int, frozenset[int]]:
        """Return for each sharer the sharers that dealt to it."""
        dealers: dict[int, set[int]] = {site: set() for site in self.holders}
        for dealer, holders in self.holders.items():
            for holder in holders:
                if holder in dealers:
                    dealers[holder].add(dealer)
        return {site: frozenset(each) for site, each in dealers.items()}


@dataclass(frozen=True)
class MaskedSum:
    """The sum of the survivors' masked vectors, and all that is public about it."""

    roll: Roll = field(repr=False)
    dealt: Dealt = field(repr=False)
    survivors: frozenset[int]
    words: NDArray[np.uint64] = field(repr=False)


def unmask(
    masked: MaskedSum, revealed: Mapping[int, RevealedShares]
) -> NDArray[np.uint64]:
    """Restore every secret that is needed, check each, and remove the masks.

    A survivor's own mask goes with its seed. A silent site's masks, which its
    surviving neighbours still carry, go with its mask key.

    Raises:
        TooFewSitesError: some secret has fewer shares than the threshold.
        UnknownFaultySiteError: some shares give back a wrong secret.
    """
    pairs = _surviving_neighbours(masked)
    # In a complete graph every secret is restored from all but one of these.
    near = tuple(sorted(revealed)[: masked.roll.chosen.threshold + 1])
    needed = (*sorted(masked.survivors), *sorted(pairs))
    secrets = {site: _restore(masked, site, revealed, near) for site in needed}
    words = masked.words.copy()
    session, listed = (
        masked.roll.session,
        masked.roll.roster.keys_of(masked.survivors, "mask_key"),
    )
    peers = {s: X25519PublicKey.from_public_bytes(k) for s, k in listed.items()}
    add_masks(
        words,
        minus=(
            derive_key(secrets[site], Purpose.SELF_MASK, session, site)
            for site in sorted(masked.survivors)
        ),
    )
    for silent in sorted(pairs):
        agreement = KeyAgreement(secrets[silent])
        # Undo what the survivors did for pairs whose other half is missing.
        pair = {
            site: pair_mask_key(agreement.with_peer(peers[site]), session, site, silent)
            for site in pairs[silent]
        }
        add_masks(
            words,
            plus=(key for site, key in pair.items() if site > silent),
            minus=(key for site, key in pair.items() if site < silent),
        )
    return words


def _surviving_neighbours(masked: MaskedSum) -> dict[int, set[int]]:
    """Return the survivors that carry a mask shared with each silent site."""
    pairs: dict[int, set[int]] = {}
    for dealer, holders in masked.dealt.holders.items():
        for holder in holders:
            if holder not in masked.dealt.holders:
                continue  # it never shared, so nobody masked with it
            if dealer in masked.survivors and holder not in masked.survivors:
                pairs.setdefault(holder, set()).add(dealer)
            elif holder in masked.survivors and dealer not in masked.survivors:
                pairs.setdefault(dealer, set()).add(holder)
    return pairs


def _shares_of(
    masked: MaskedSum, site: int, revealed: Mapping[int, RevealedShares]
) -> dict[int, bytes]:
    """Take as many shares of one site's secret as restore it."""
    survives = site in masked.survivors
    shares = {}
    for holder in masked.dealt.holders[site]:
        answer = revealed.get(holder)
        if answer is not None:
            kind = answer.seed_shares if survives else answer.key_shares
            shares[holder] = kind[site]
            if len(shares) == masked.roll.chosen.threshold:
                return shares
    raise TooFewSitesError("reveal", len(shares), masked.roll.chosen.threshold)


def _restore(
    masked: MaskedSum,
    site: int,
    revealed: Mapping[int, RevealedShares],
    near: tuple[int, ...],
) -> bytes:
    """Restore one site's secret, and check it against what is public about it."""
    shares = _shares_of(masked, site, revealed)
    secret = shamir.restore(shares, near=near)
    if secret is not None:
        if site in masked.survivors:
            got = seed_commitment(secret, masked.roll.session, site)
            public = masked.dealt.commitments[site]
        else:
            got, public = public_of(secret), masked.roll.roster.advert(site).mask_key
        if got == public:
            return secret
    raise UnknownFaultySiteError(site, tuple(shares))
