"""The terms of a secure sum, its session, and the words that sites sign.

Terms are public, agreed before a sum starts, and the same for all. A session is a
hash of the terms (with the plan's digest), the coordinator's nonce and all
advertised keys. Every key, mask and signature is bound to it, so that two runs of
one plan share nothing, and sites that were shown different rosters cannot even
read each other's shares.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Final

import numpy as np

from discreet.codec.messages import MAX_ENTRIES, MAX_SITE, Several, SiteSet
from discreet.errors import InputError
from discreet.secagg.graph import (
    FEWEST_GROUPS,
    Adversary,
    Parameters,
    drawn_groups,
    parameters,
)
from discreet.secagg.keys import DIGEST_SIZE, KEY_SIZE, tagged, tagged_hash
from discreet.secagg.messages import Advert, Digest, KeyRoster

MAX_LENGTH: Final = 2**27
"""A gigabyte of words."""


@dataclass(frozen=True)
class Terms:
    """What every site and the coordinator agree on.

    Args:
        plan_digest: the digest of the plan that the sum belongs to.
        length: words of each site's vector.
        min_survivors: fewer sites are never summed. Noise is sized by it.
        colluders: how many sites may work together with the coordinator.
        identities: Ed25519 public keys by site number. With them the protocol
            withstands a malicious coordinator, without them a curious one.
        groups: how many random groups the sites are split into once their keys are
            known; each is summed by itself, and ``min_survivors`` holds in each.
        everyone_signs: whether each listed survivor, in every group, must sign before
            any sum is revealed. It is for sums without noise: there one site must be
            able to stop a sum that shows too much together with earlier ones.
    """

    plan_digest: bytes
    length: int
    min_survivors: int
    colluders: int = 0
    identities: Mapping[int, bytes] | None = field(default=None, repr=False)
    groups: int = 1
    everyone_signs: bool = False

    def __post_init__(self) -> None:
        if len(self.plan_digest) != DIGEST_SIZE:
            raise InputError(f"a plan's digest has {DIGEST_SIZE} bytes")
        if not 1 <= self.length <= MAX_LENGTH:
            raise InputError(f"a vector has between 1 and {MAX_LENGTH} words")
        if self.min_survivors < 2:
            raise InputError("min_survivors must be at least 2: one site has no cover")
        if not 0 <= self.colluders <= self.min_survivors - 2:
            raise InputError(
                f"with {self.colluders} colluding sites at least "
                f"{self.colluders + 2} must survive, so that two honest ones are "
                f"summed; min_survivors is {self.min_survivors}"
            )
        if self.groups != 1 and self.groups < FEWEST_GROUPS:
            raise InputError(f"there is one group, or at least {FEWEST_GROUPS}")
        if self.everyone_signs and self.identities is None:
            raise InputError("everyone signs only where the roster has identities")
        if self.identities is not None:
            identities = MappingProxyType(dict(sorted(self.identities.items())))
            object.__setattr__(self, "identities", identities)
            self._check_identities(identities)

    def _check_identities(self, identities: Mapping[int, bytes]) -> None:
        if not self.least_sites <= len(identities) <= MAX_ENTRIES:
            raise InputError(
                f"the roster names {len(identities)} sites, between "
                f"{self.least_sites} and {MAX_ENTRIES} are needed"
            )
        if not all(1 <= site <= MAX_SITE for site in identities):
            raise InputError(f"site numbers lie between 1 and {MAX_SITE}")
        if any(len(key) != KEY_SIZE for key in identities.values()):
            raise InputError(f"an identity is an Ed25519 key of {KEY_SIZE} bytes")
        if len(set(identities.values())) != len(identities):
            raise InputError("two sites of the roster have the same identity")
        # Every site of a group can sign, whether or not it takes part.
        self.parameters(-(-len(identities) // self.groups))

    @property
    def least_sites(self) -> int:
        """How many must advertise keys for every group to reach its floor."""
        return self.groups * self.min_survivors

    def split(self, roster: KeyRoster, nonce: bytes) -> tuple[KeyRoster, ...]:
        """Draw the groups of a closed roster: anybody who sees it draws the same."""
        if self.groups == 1:
            return (roster,)
        session = tagged_hash(b"groups", self.digest, nonce)
        drawn = drawn_groups(session, roster.advertised(), self.groups)
        return tuple(roster.only(members) for members in drawn)

    @property
    def coordinator(self) -> Adversary:
        """What the coordinator may be without learning more than the sum."""
        return "curious" if self.identities is None else "malicious"

    def parameters(self, sites: int) -> Parameters:
        """Return degree and threshold when ``sites`` sites have advertised keys."""
        return parameters(
            sites,
            corrupt=self.colluders,
            survivors=self.min_survivors,
            coordinator=self.coordinator,
        )

    @cached_property
    def digest(self) -> bytes:
        """One hash of all terms: it enters the session and every saved state."""
        identities = self.identities or {}
        listed = b"".join(s.to_bytes(4, "big") + k for s, k in identities.items())
        numbers = struct.pack(
            ">III?",
            self.length,
            self.min_survivors,
            self.colluders,
            self.identities is not None,
        )
        # What came later is hashed where it is used: other sums keep their digest.
        more = [] if self.groups == 1 else [self.groups.to_bytes(4, "big")]
        if self.everyone_signs:
            more.append(b"everyone signs")
        return tagged_hash(b"terms", self.plan_digest, numbers, listed, *more)


def listed(sites: Sequence[int]) -> bytes:
    """Return a set of sites as bytes to hash or sign."""
    if len(sites) > MAX_ENTRIES:
        raise ValueError(f"at most {MAX_ENTRIES} sites can be listed")
    return np.array(sites, dtype=">u4").tobytes()


def advert_statement(terms: Terms, nonce: bytes, site: int, advert: Advert) -> bytes:
    """Return what a site signs about its keys."""
    keys = advert.channel_key + advert.mask_key
    return tagged(b"advert", terms.digest, nonce, site.to_bytes(4, "big"), keys)


def survivor_statement(
    session: bytes, sharers: Sequence[int], survivors: Sequence[int]
) -> bytes:
    """Return what a site signs about the others.

    Who shared is part of it: sites that were told different sets of sharers have
    different masks, and a coordinator could reveal the parts one by one.
    """
    return tagged(b"survivors", session, listed(sharers), listed(survivors))


def withdrawal_statement(session: bytes, site: int) -> bytes:
    """Return what a site signs when it will never sign a sum of this session."""
    return tagged(b"withdrawal", session, site.to_bytes(4, "big"))


@dataclass(frozen=True, slots=True)
class Signing:
    """Which sums a site signs for.

    Lists of sharers and survivors run over all of them. Under noise it is the sum of
    the site's own group. Exact sums of all groups are signed for together, because a
    ledger must know every sum that a session reveals.
    """

    session: Digest
    """What the signed sums have in common; the group's own session if it is one sum."""
    others: Annotated[tuple[tuple[int, ...], ...], Several(SiteSet())] = ()
    """The members of the other groups whose sums are signed for."""

    def sums(self, listed: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """Split listed sites by the sum that they are in; the own sum comes first."""
        left = set(listed)
        parts = []
        for group in self.others:
            parts.append(tuple(site for site in group if site in left))
            left.difference_update(group)
        return (tuple(sorted(left)), *parts)


@dataclass(frozen=True)
class Roll:
    """A session whose roster is closed: what all later states have in common.

    ``roster`` is the group whose sum it is, out of ``everybody``.
    """

    terms: Terms
    nonce: bytes
    roster: KeyRoster = field(repr=False)
    everybody: KeyRoster = field(repr=False)

    @cached_property
    def chosen(self) -> Parameters:
        """Degree and threshold for this many sites."""
        return self.terms.parameters(len(self.roster))

    @property
    def receipted(self) -> bool:
        """Whether holders return receipts: signed, and the graph is not complete."""
        partial = self.chosen.degree < len(self.roster) - 1
        return partial and self.terms.identities is not None

    @cached_property
    def session(self) -> bytes:
        """The session's name: a hash of all that must be agreed before shares are dealt."""
        numbers = (self.chosen.degree, self.chosen.threshold)
        graph = b"".join(number.to_bytes(4, "big") for number in numbers)
        everybody = self.everybody.identified()
        alone = () if self.terms.groups == 1 else (self.roster.identified(),)
        return tagged_hash(
            b"session", self.terms.digest, self.nonce, graph, everybody, *alone
        )

    @cached_property
    def signing(self) -> Signing:
        """What a site of the group signs for: its own sum, or all of them."""
        terms, own = self.terms, self.roster.sites
        if not terms.everyone_signs or terms.groups == 1:
            return Signing(self.session)
        groups = [group.sites for group in terms.split(self.everybody, self.nonce)]
        common = tagged_hash(
            b"all groups", terms.digest, self.nonce, self.everybody.identified()
        )
        return Signing(common, tuple(group for group in groups if group != own))
