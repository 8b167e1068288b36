"""Removing the masks from the sum, once enough shares are revealed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from numpy.typing import NDArray

from discreet.secagg import prg, shamir
from discreet.secagg.errors import TooFewSitesError, UnknownFaultySiteError
from discreet.secagg.keys import Agreement
from discreet.secagg.messages import Revealed, Roster
from discreet.secagg.prg import Purpose


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
        return {site: frozenset(found) for site, found in dealers.items()}


@dataclass(frozen=True)
class MaskedSum:
    """The sum of the survivors' masked vectors, and all that is public about it."""

    session: bytes
    threshold: int
    roster: Roster = field(repr=False)
    dealt: Dealt = field(repr=False)
    survivors: frozenset[int]
    words: NDArray[np.uint64] = field(repr=False)


def unmask(masked: MaskedSum, revealed: Mapping[int, Revealed]) -> NDArray[np.uint64]:
    """Restore every secret that is needed, check each, and remove the masks.

    A survivor's own mask goes with its seed. A silent site's masks, which its
    surviving neighbours still carry, go with its mask key.

    Raises:
        TooFewSitesError: some secret has fewer shares than the threshold.
        UnknownFaultySiteError: some shares give back a wrong secret.
    """
    pairs = _surviving_neighbours(masked)
    # In a complete graph every secret is restored from all but one of these.
    near = tuple(sorted(revealed)[: masked.threshold + 1])
    seeds = {
        site: _restore_seed(masked, site, _shares_of(masked, site, revealed), near)
        for site in sorted(masked.survivors)
    }
    keys = {
        site: _restore_key(masked, site, _shares_of(masked, site, revealed), near)
        for site in sorted(pairs)
    }
    peers = {
        site: X25519PublicKey.from_public_bytes(masked.roster.advert(site).mask_key)
        for site in masked.survivors
    }
    words = masked.words.copy()
    for site, seed in seeds.items():
        key = prg.derive_key(seed, Purpose.SELF_MASK, masked.session, site)
        words -= prg.expand(key, words.size)
    for silent, agreement in keys.items():
        for site in pairs[silent]:
            # Undo what the survivor did for a pair whose other half is missing.
            secret = agreement.with_peer(peers[site])
            pair = prg.expand(
                prg.pair_mask_key(secret, masked.session, site, silent), words.size
            )
            if site < silent:
                words -= pair
            else:
                words += pair
    return words


def _surviving_neighbours(masked: MaskedSum) -> dict[int, set[int]]:
    """Return the survivors that carry a mask shared with each silent site."""
    pairs: dict[int, set[int]] = {}
    for dealer, holders in masked.dealt.holders.items():
        for holder in holders:
            if holder not in masked.dealt.holders:
                continue  # it never shared, so nobody masked with it
            if (dealer in masked.survivors) == (holder in masked.survivors):
                continue
            alive, silent = dealer, holder
            if holder in masked.survivors:
                alive, silent = holder, dealer
            pairs.setdefault(silent, set()).add(alive)
    return pairs


def _shares_of(
    masked: MaskedSum, site: int, revealed: Mapping[int, Revealed]
) -> dict[int, bytes]:
    """Take as many shares of one site's secret as restore it."""
    survives = site in masked.survivors
    shares = {}
    for holder in masked.dealt.holders[site]:
        answer = revealed.get(holder)
        if answer is not None:
            found = answer.seed_shares if survives else answer.key_shares
            shares[holder] = found[site]
            if len(shares) == masked.threshold:
                return shares
    raise TooFewSitesError("reveal", len(shares), masked.threshold)


def _restore_seed(
    masked: MaskedSum, site: int, shares: Mapping[int, bytes], near: tuple[int, ...]
) -> bytes:
    seed = shamir.restore(shares, near=near)
    expected = masked.dealt.commitments[site]
    if seed is None or prg.seed_commitment(seed, masked.session, site) != expected:
        raise UnknownFaultySiteError(site, tuple(shares))
    return seed


def _restore_key(
    masked: MaskedSum, site: int, shares: Mapping[int, bytes], near: tuple[int, ...]
) -> Agreement:
    secret = shamir.restore(shares, near=near)
    if secret is None:
        raise UnknownFaultySiteError(site, tuple(shares))
    agreement = Agreement(secret)
    if agreement.public() != masked.roster.advert(site).mask_key:
        raise UnknownFaultySiteError(site, tuple(shares))
    return agreement
