r"""Who masks with whom: everybody, or a random graph; and random groups of sites.

Each site hands shares of its secrets to ``degree`` other sites of its own choice,
its holders, and shares a mask with its holders and with those who chose it. A
coordinator that drew the graph could surround a victim with corrupt sites.

Up to ``COMPLETE_UP_TO`` sites everybody holds for everybody, and the guarantees
are certain. Above, a site's holders are a uniform sample of k of the n - 1 others,
so the number of corrupt or surviving ones among them is hypergeometric, and k and
the threshold t are the smallest degree and the largest threshold with

- privacy: P(one of the following) :math:`\le 2^{-40}`, half of it for holders and
  half for groups:

  - holders, curious coordinator: some site has t or more corrupt ones;
  - holders, malicious coordinator: some site has x corrupt ones with
    :math:`2t \le k + x`. It could ask one half of a victim's holders for one kind
    of share and the rest for the other kind;
  - groups: honest survivors fall apart into some whose sums are told apart;
  - groups, malicious coordinator: a site that signed is left out of the sum;

- recovery: P(some site is left with fewer than t surviving holders)
  :math:`\le 2^{-20}`.

The approach is that of Bell et al. (2020, section 3 and appendix), with sums of
exact tails in place of their closed forms.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.special import gammaln

from discreet.arrays import FloatVector
from discreet.entropy import Entropy, Seeded
from discreet.errors import InputError
from discreet.noise.coins import uniform_below

Adversary: TypeAlias = Literal["curious", "malicious"]
"""What the coordinator may do: read along, or deviate as it likes."""

COMPLETE_UP_TO: Final = 100
PRIVACY_BITS: Final = 40
FAILURE_BITS: Final = 20
FEWEST_GROUPS: Final = 3
"""Of two groups that differ nobody can tell which one has false data."""

SiteGroups: TypeAlias = tuple[tuple[int, ...], ...]
"""The numbers of the sites of each group, rising."""
_EACH: Final = -PRIVACY_BITS - 1
"""log2 of what corrupt holders and groups may each add to the failure of privacy."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """How many holders each site chooses, and how many of them restore a secret."""

    degree: int
    threshold: int

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= self.degree:
            raise InputError(
                f"a threshold of {self.threshold} does not fit {self.degree} holders"
            )


@lru_cache(maxsize=128)
def parameters(
    sites: int, *, corrupt: int, survivors: int, coordinator: Adversary
) -> Parameters:
    """Compute degree and threshold for at most ``corrupt`` sites and dropouts.

    Up to ``sites - survivors`` sites may go silent, at any step.

    >>> parameters(1000, corrupt=100, survivors=700, coordinator="curious")
    Parameters(degree=88, threshold=36)
    """
    check_counts(sites, corrupt, survivors, coordinator)
    if sites > COMPLETE_UP_TO:
        chosen = sparse(
            sites, corrupt=corrupt, survivors=survivors, coordinator=coordinator
        )
        if chosen is not None:
            return chosen
    # In a complete graph the threshold is as high as ``survivors`` sites can meet. With
    # fewer the sites refuse to unmask anyway, and more corrupt sites are withstood.
    return Parameters(sites - 1, survivors - 1)


def fewest_against(sites: int, *, corrupt: int, survivors: int) -> int:
    """Return how many sites together with a malicious coordinator can unmask another.

    In a complete graph x conspirators suffice once 2t <= k + x. A sparse graph is
    chosen for ``corrupt`` of them.

    >>> fewest_against(12, corrupt=0, survivors=12)
    11
    >>> fewest_against(12, corrupt=0, survivors=9)
    5
    """
    chosen = parameters(
        sites, corrupt=corrupt, survivors=survivors, coordinator="malicious"
    )
    if chosen.degree < sites - 1:
        return corrupt + 1
    return 2 * chosen.threshold - chosen.degree


def sparse(
    sites: int, *, corrupt: int, survivors: int, coordinator: Adversary
) -> Parameters | None:
    """Find the smallest degree below complete that meets every bound, if any."""
    union = math.log2(sites)
    others = sites - 1
    for degree in range(2, others):
        few = _fewest_negligible(others, corrupt, degree, _EACH - union)
        if coordinator == "curious":
            lowest = max(2, few)  # one holder alone never knows a secret
        else:
            lowest = (degree + few - 1) // 2 + 1
        highest = _most_certain(others, survivors - 1, degree, -FAILURE_BITS - union)
        if lowest > highest:
            continue
        chosen = Parameters(degree, highest)
        if coordinator == "curious":
            apart = log2_split_curious(sites, corrupt, survivors, chosen)
        else:
            least = chosen.threshold - (few - 1) + 1
            split = log2_split_malicious(sites, corrupt, chosen)
            left_out = log2_left_out(sites, corrupt, survivors, chosen, least=least)
            apart = float(np.logaddexp2(split, left_out))
        if apart <= _EACH:
            return chosen
    return None


def check_counts(
    sites: int, corrupt: int, survivors: int, coordinator: Adversary
) -> None:
    """Refuse numbers that no graph can serve.

    Against a malicious coordinator 2 (survivors - 1) > sites - 1 + corrupt. Then the
    holders of a complete graph cannot give both kinds of shares; and two lists of
    survivors with ``survivors`` signatures each have an honest signer in common,
    who signs one only, for 2 survivors > sites + corrupt.
    """
    if not 2 <= survivors <= sites:
        raise InputError(
            f"min_survivors must be between 2 and the {sites} sites, got {survivors}"
        )
    if not 0 <= corrupt <= survivors - 2:
        raise InputError(
            f"with {corrupt} colluding sites at least {corrupt + 2} must survive, so "
            f"that two honest ones are summed; min_survivors is {survivors}"
        )
    if coordinator == "malicious" and 2 * (survivors - 1) <= sites - 1 + corrupt:
        needed = (sites + 1 + corrupt) // 2 + 1
        raise InputError(
            f"against a malicious coordinator at least {needed} of {sites} sites "
            f"must survive when {corrupt} may collude; min_survivors is {survivors}"
        )


def log2_split_curious(
    sites: int, corrupt: int, survivors: int, chosen: Parameters
) -> float:
    r"""Bound log2 P(the honest survivors' masks do not connect them).

    Silence does not depend on the graph. A group of a among h honest survivors is
    cut off when its members chose nobody in the rest and nobody there chose them;
    the bound sums over groups, at the fewest and at the most survivors.
    """
    bounds = []
    for honest in (survivors - corrupt, sites - corrupt):
        group = np.arange(1, honest // 2 + 1, dtype=np.float64)
        rest = honest - group
        inward = group * _log2_avoid(sites - 1, rest, chosen.degree)
        outward = rest * _log2_avoid(sites - 1, group, chosen.degree)
        terms = _log2_choose(honest, group) + inward + outward
        bounds.append(float(np.logaddexp2.reduce(terms)))
    return max(bounds)


def log2_split_malicious(sites: int, corrupt: int, chosen: Parameters) -> float:
    r"""Bound log2 P(some group of honest sites can be revealed on its own).

    Here the coordinator sees the graph and decides who counts as silent. A
    survivor's self-mask comes off only with t of its holders, each of whom is corrupt
    or an honest survivor that shares a mask with it. A group of a that is revealed
    on its own therefore has members with t holders each inside the group or
    among the corrupt, and the smaller of two such groups has at most half of the
    honest sites.
    """
    honest = sites - corrupt
    group = np.arange(1, honest // 2 + 1, dtype=np.float64)
    tail = _log2_tail_bound(
        sites - 1, group - 1 + corrupt, chosen.degree, chosen.threshold
    )
    terms = _log2_choose(honest, group) + group * tail
    return float(np.logaddexp2.reduce(terms))


def log2_left_out(
    sites: int, corrupt: int, survivors: int, chosen: Parameters, *, least: int
) -> float:
    r"""Bound log2 P(a site that signed is not in the revealed sum).

    A malicious coordinator may keep a site's boxes from its holders, or tell some
    sites of other sharers than the rest. Let A be the honest signers whose vectors
    are in the sum. Each has t holders in A or among the corrupt, so A is more than
    half of the honest sites (:func:`log2_split_malicious`). An honest signer outside
    A has receipts of t holders, of whom all but the corrupt ones mask with it:
    ``least`` sites with itself, B, none of them in A. Whoever is in A masks with
    every holder that it chose, and nothing takes off a mask that it has in common
    with a listed survivor outside A. So nobody in A chose anybody in B.

    The bound sums over B of b sites and over the s others, who did not sign and so
    number at most sites - survivors; a = honest - b - s sites avoid B. The terms
    grow with s, and the largest stands for all.
    """
    honest = sites - corrupt
    half = (honest - 1) // 2
    group = np.arange(least, half + 1, dtype=np.float64)
    if not group.size:
        return -math.inf
    others = np.minimum(sites - survivors, half - group)
    avoided = _log2_avoid(sites - 1, group, chosen.degree)
    ways = _log2_choose(honest, group) + _log2_choose(honest - group, others)
    terms = ways + np.log2(others + 1) + (honest - group - others) * avoided
    return float(np.logaddexp2.reduce(terms))


def choose_holders(
    others: tuple[int, ...], degree: int, entropy: Entropy
) -> tuple[int, ...]:
    """Draw ``degree`` of the other sites, uniformly, without replacement."""
    if degree >= len(others):
        return others
    bound = np.full(degree, len(others), dtype=np.uint64)
    drawn: dict[int, None] = {}
    while len(drawn) < degree:
        drawn.update(dict.fromkeys(uniform_below(bound, entropy).tolist()))
    # The first distinct draws of a uniform sequence are a uniform sample.
    return tuple(sorted(others[i] for i in list(drawn)[:degree]))


def drawn_groups(
    session: bytes, contributions: Mapping[int, bytes], groups: int
) -> SiteGroups:
    """Split sites into random groups whose sizes differ by at most one.

    A malicious site spoils the sum of its own group alone. Every site is in one group, so
    an answer costs what it costs in one sum (parallel composition).

    ``contributions`` are fresh and of one length, by site: the keys that each advertised
    and signed. They and the session seed a permutation, so every site draws the same
    groups and nobody picks them. It is uniform as soon as one key is drawn at random
    after all others are fixed. A coordinator that works with a site may try that site's
    keys until it likes the groups. It gains no data: each sum has its own floor of sites,
    and its noise is sized for colluders who are all in one group.

    >>> drawn_groups(b"session", {s: bytes([s]) * 32 for s in range(1, 7)}, 3)
    ((3, 5), (4, 6), (1, 2))
    """
    sites = sorted(contributions)
    if len({len(words) for words in contributions.values()}) != 1:
        raise InputError("what the sites contribute to the draw has one length for all")
    words = b"".join(site.to_bytes(4, "big") + contributions[site] for site in sites)
    named = hashlib.sha256(session).digest() + groups.to_bytes(4, "big")
    seed = hashlib.sha256(b"discreet random groups\0" + named + words).digest()
    # The seed is public by now: a stream that anybody can draw again.
    # Fisher and Yates: the k-th place takes one of the k sites that are left.
    left = np.arange(len(sites), 0, -1, dtype=np.uint64)
    picks = uniform_below(left, Seeded(seed))
    order = [sites.pop(int(pick)) for pick in picks]
    return tuple(tuple(sorted(order[k::groups])) for k in range(groups))


def _log2_choose(n: int | FloatVector, k: FloatVector | int) -> FloatVector:
    n, k = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    logs: FloatVector = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return logs / math.log(2)


def _log2_pmf(population: int, marked: int, drawn: int) -> tuple[int, FloatVector]:
    """Return the hypergeometric distribution: its lowest value and log2 probabilities."""
    low = max(0, drawn - (population - marked))
    x = np.arange(low, min(marked, drawn) + 1, dtype=np.float64)
    ways = _log2_choose(marked, x) + _log2_choose(population - marked, drawn - x)
    return low, ways - _log2_choose(population, drawn)


def _fewest_negligible(population: int, marked: int, drawn: int, bits: float) -> int:
    """Return the least x with log2 P(X >= x) <= bits."""
    low, pmf = _log2_pmf(population, marked, drawn)
    tails = np.logaddexp2.accumulate(pmf[::-1])[::-1]
    return low + int(np.count_nonzero(tails > bits))


def _most_certain(population: int, marked: int, drawn: int, bits: float) -> int:
    """Return the largest x with log2 P(X < x) <= bits."""
    low, pmf = _log2_pmf(population, marked, drawn)
    below = np.logaddexp2.accumulate(pmf)
    return low + int(np.count_nonzero(below <= bits))


def _log2_avoid(population: int, avoided: FloatVector, drawn: int) -> FloatVector:
    """Return log2 P(a sample misses a set of ``avoided`` others)."""
    left = population - np.asarray(avoided)
    possible = np.maximum(left, drawn)
    logs = _log2_choose(possible, drawn) - _log2_choose(population, drawn)
    return np.where(left >= drawn, logs, -np.inf)


def _log2_tail_bound(
    population: int, marked: FloatVector, drawn: int, at_least: int
) -> FloatVector:
    """Bound log2 P(X >= x) for several numbers of marked others.

    The ratio r of successive hypergeometric probabilities falls, so the tail is
    at most P(X = x)/(1 - r) with r taken at x, wherever that is below 1.
    """
    marked = np.asarray(marked, dtype=np.float64)
    unmarked = population - marked
    spare = unmarked - drawn + at_least
    reachable = (marked >= at_least) & (spare >= 0)
    inside = np.where(reachable, marked, float(at_least))
    outside = np.where(reachable, unmarked, float(drawn))
    pmf = (
        _log2_choose(inside, at_least)
        + _log2_choose(outside, drawn - at_least)
        - _log2_choose(population, drawn)
    )
    ratio = (marked - at_least) * (drawn - at_least) / ((at_least + 1) * (spare + 1))
    ratio = np.where(reachable, ratio, 0.0)
    usable = ratio < 1
    slack = np.log2(1 - np.where(usable, ratio, 0.0))
    bound = np.where(usable, np.minimum(pmf - slack, 0.0), 0.0)
    # Too few marked: impossible. Too few unmarked: the event is certain.
    bound = np.where(marked < at_least, -np.inf, bound)
    return np.where((marked >= at_least) & (spare < 0), 0.0, bound)
