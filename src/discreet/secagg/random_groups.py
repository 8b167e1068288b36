"""A draw of disjoint random groups of sites, the same for whoever makes it.

A liar among n sites hides in their one sum. Split into g groups at random, with one sum
each, it can spoil one group alone. Every site is in one group, so an answer costs what it
costs in one sum (parallel composition).

The order is a permutation seeded by a hash of the session and of what every site has
said: the fresh keys that it advertised and signed. So every site draws the same groups
and nobody picks them. It is uniform as soon as one key is drawn at random after all
others are fixed. A coordinator that works with a site may try that site's keys until it
likes the groups. It gains no data by it: each sum holds its own floor of sites and is
noised for colluders who are all in one group. What it can undo is the use of the groups
against that site, and such a coordinator could as well print another result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np

from discreet.entropy import Seeded
from discreet.errors import InputError
from discreet.noise.coins import uniform_below

FEWEST_GROUPS: Final = 3
"""Of two groups that differ nobody can tell which one lies."""

SiteGroups: TypeAlias = tuple[tuple[int, ...], ...]
"""The numbers of the sites of each group, rising."""


def drawn_groups(session: bytes, said: Mapping[int, bytes], groups: int) -> SiteGroups:
    """Split sites into groups whose sizes differ by at most one.

    ``said`` is fresh and of one length for all, by the sites' numbers.

    >>> drawn_groups(b"session", {s: bytes([s]) * 32 for s in range(1, 7)}, 3)
    ((3, 5), (4, 6), (1, 2))
    """
    sites = sorted(said)
    if len({len(words) for words in said.values()}) != 1:
        raise InputError("what the sites say for the groups has one length for all")
    words = b"".join(site.to_bytes(4, "big") + said[site] for site in sites)
    named = hashlib.sha256(session).digest() + groups.to_bytes(4, "big")
    seed = hashlib.sha256(b"discreet random groups\0" + named + words).digest()
    # The seed is public once all have spoken: a stream that anybody can draw again.
    # Fisher and Yates: the k-th place takes one of the k sites that are left.
    left = np.arange(len(sites), 0, -1, dtype=np.uint64)
    picks = uniform_below(left, Seeded(seed))
    order = [sites.pop(int(pick)) for pick in picks]
    return tuple(tuple(sorted(order[k::groups])) for k in range(groups))
