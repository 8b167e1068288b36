"""A draw of disjoint random groups of sites, the same for whoever makes it.

A liar among n sites hides in their one sum. Split into g groups at random, with one sum
each, it can spoil one group alone. Every site is in one group, so an answer costs what it
costs in one sum (parallel composition).

The order is a permutation seeded by a hash of the session and of a fresh nonce of every
site. It is uniform as soon as one nonce is drawn at random and kept secret until all
others are fixed; whoever has seen all the others and may still choose could try nonces
until it likes the groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from discreet.entropy import Seeded
from discreet.errors import PlanError
from discreet.noise.coins import uniform_below
from discreet.parsing import whole

FEWEST_GROUPS: Final = 3
"""Of two groups that differ nobody can tell which one lies."""
NONCE_SIZE: Final = 32

SiteGroups: TypeAlias = tuple[tuple[int, ...], ...]
"""The numbers of the sites of each group, rising."""


def check_groups(sites: int, groups: int, *, least: int) -> None:
    """Refuse a split whose smallest group would open a sum of too few sites."""
    whole(groups, "the number of random groups", least=FEWEST_GROUPS)
    if sites // groups < least:
        raise PlanError(
            f"{sites} sites in {groups} random groups leave {sites // groups} in the "
            f"smallest, and the plan asks for at least {least} in every sum: make fewer "
            "groups"
        )


def drawn_groups(
    session: bytes, nonces: Mapping[int, bytes], groups: int
) -> SiteGroups:
    """Split sites into groups whose sizes differ by at most one.

    >>> drawn_groups(b"session", {s: bytes([s]) * 32 for s in range(1, 7)}, 3)
    ((3, 5), (4, 6), (1, 2))
    """
    sites = sorted(nonces)
    if any(len(nonces[site]) != NONCE_SIZE for site in sites):
        raise PlanError(f"a site's nonce for the groups has {NONCE_SIZE} bytes")
    said = b"".join(site.to_bytes(4, "big") + nonces[site] for site in sites)
    named = hashlib.sha256(session).digest() + groups.to_bytes(4, "big")
    seed = hashlib.sha256(b"discreet random groups\0" + named + said).digest()
    # The seed is public once all nonces are: a stream that anybody can draw again.
    # Fisher and Yates: the k-th place takes one of the k sites that are left.
    left = np.arange(len(sites), 0, -1, dtype=np.uint64)
    picks = uniform_below(left, Seeded(seed))
    order = [sites.pop(int(pick)) for pick in picks]
    return tuple(tuple(sorted(order[k::groups])) for k in range(groups))
