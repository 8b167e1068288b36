"""Who takes part: public facts about the data, the cohort, and the roster of sites.

The roster is part of the plan, so the digest covers it: a coordinator cannot show two sites
two rosters of one plan. A key is an Ed25519 public key; its text is ``ed25519:``
and base64, and hexadecimal is read too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import Final

from discreet.codec.documents import written
from discreet.codec.parsing import whole
from discreet.data.scores import ScoreRange
from discreet.errors import InputError, PlanError
from discreet.secagg.graph import FEWEST_GROUPS


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What is known without looking: rough size, rough prevalence, kind of scores.

    Of time to event, the prevalence is the share with an event by the last horizon, and
    ``censoring`` the share whose follow-up ends before it without one.
    """

    examples: int | None = None
    prevalence: float | None = None
    scores: ScoreRange = field(default_factory=ScoreRange)
    censoring: float | None = field(default=None, metadata=written(left_out=True))

    def __post_init__(self) -> None:
        if self.examples is not None:
            whole(self.examples, "the expected number of examples", least=1)
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise PlanError("the expected prevalence lies strictly between 0 and 1")
        if self.censoring is not None and not 0 <= self.censoring < 1:
            raise PlanError("the expected share of censoring is from 0 to below 1")
        if (self.censoring or 0) + (self.prevalence or 0) > 1:
            raise PlanError("events and censoring cannot be more than all examples")


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who must take part for the sum to be revealed, and with how much.

    Args:
        min_survivors: how many sites are in every revealed sum.
        colluders: how many of them may tell their shares of the noise. None means the
            privacy model's own default, which a plan fills in
            (:meth:`~discreet.plan.privacy_model.PrivacyModel.colluders_in`).
        min_examples_per_site: sites with fewer stay out.
        max_examples_per_site: no site has more; bounds what false data of one can do.
        random_groups: split the sites at random into so many groups and reveal a sum of
            each; every group must keep ``min_survivors``.
    """

    min_survivors: int = 1
    colluders: int | None = None
    min_examples_per_site: int = 0
    max_examples_per_site: int | None = field(
        default=None, metadata=written(left_out=True)
    )
    random_groups: int = field(default=1, metadata=written(left_out=True))

    def __post_init__(self) -> None:
        whole(self.min_survivors, "the number of sites that survive", least=1)
        if self.colluders is not None:
            whole(self.colluders, "the number of colluders")
            if self.colluders >= self.min_survivors:
                raise PlanError("colluders must be fewer than the surviving sites")
        whole(self.min_examples_per_site, "the floor of examples a site")
        if self.max_examples_per_site is not None:
            whole(
                self.max_examples_per_site,
                "the most examples of a site",
                least=max(self.min_examples_per_site, 1),
            )
        whole(self.random_groups, "the number of random groups", least=1)
        if 1 < self.random_groups < FEWEST_GROUPS:
            raise PlanError(
                f"random groups are at least {FEWEST_GROUPS}: of two that differ nobody "
                "can tell which one is false"
            )

    @property
    def least_sites(self) -> int:
        """How many sites must take part in all for every group to keep its floor."""
        return self.random_groups * self.min_survivors


KEY_SIZE: Final = 32
_SCHEME: Final = "ed25519:"
_LONGEST_NAME: Final = 64
_GROUPS: Final = 8


def key_text(key: bytes) -> str:
    """Write a public key.

    >>> key_text(bytes(32))
    'ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='
    """
    return _SCHEME + base64.b64encode(key).decode("ascii")


def key_from_text(text: object) -> bytes:
    """Read a public key in base64 or hexadecimal.

    >>> key_from_text("ed25519:" + "00" * 32) == bytes(32)
    True
    """
    if not isinstance(text, str) or not text.startswith(_SCHEME):
        raise PlanError(f"a key is written {_SCHEME} and base64 or hexadecimal")
    digits = text.removeprefix(_SCHEME)
    try:
        hexadecimal = len(digits) == 2 * KEY_SIZE
        key = (
            bytes.fromhex(digits)
            if hexadecimal
            else base64.b64decode(digits, validate=True)
        )
    except (binascii.Error, ValueError):
        raise PlanError("a key is neither base64 nor hexadecimal") from None
    if len(key) != KEY_SIZE:
        raise PlanError(f"an Ed25519 public key has {KEY_SIZE} bytes, got {len(key)}")
    return key


def fingerprint(identity: bytes) -> str:
    """Return what two people compare by voice: 128 bits of an identity's digest.

    >>> fingerprint(bytes(32))
    '3ca0 76be ef4b 458b e3d3 279a 5a0f 7de0'
    """
    digest = hashlib.sha256(b"discreet fingerprint\0" + identity).hexdigest()
    return " ".join(digest[4 * i : 4 * i + 4] for i in range(_GROUPS))


@dataclass(frozen=True, slots=True)
class Member:
    """One site: how people call it, and the key that it signs with."""

    name: str
    key: bytes

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= _LONGEST_NAME or not self.name.isprintable():
            raise PlanError(
                f"a site's name has between 1 and {_LONGEST_NAME} printable characters"
            )
        if len(self.key) != KEY_SIZE:
            raise PlanError(f"an Ed25519 public key has {KEY_SIZE} bytes")


@dataclass(frozen=True, slots=True)
class Roster:
    """The sites of a plan, in the order of their names, and who coordinates.

    >>> north, south = Member("north", b"n" * 32), Member("south", b"s" * 32)
    >>> Roster((south, north)) == Roster((north, south))
    True
    >>> Roster((south, north)).numbered()
    {'north': 1, 'south': 2}
    """

    sites: tuple[Member, ...]
    coordinator: bytes | None = None

    def __post_init__(self) -> None:
        if not self.sites:
            raise PlanError("a roster names at least one site")
        if len({site.name for site in self.sites}) != len(self.sites):
            raise PlanError("two sites of the roster have the same name")
        if len({site.key for site in self.sites}) != len(self.sites):
            raise PlanError("two sites of the roster have the same key")
        if self.coordinator is not None and len(self.coordinator) != KEY_SIZE:
            raise PlanError(f"the coordinator's key has {KEY_SIZE} bytes")
        # One order, so that two people who list the same sites agree on the digest.
        ordered = tuple(sorted(self.sites, key=lambda site: site.name))
        object.__setattr__(self, "sites", ordered)

    def numbered(self) -> dict[str, int]:
        """Return each site's number, from 1 on."""
        return {site.name: number for number, site in enumerate(self.sites, start=1)}

    def identities(self) -> dict[int, bytes]:
        """Return each number's key, as secure aggregation wants them."""
        return {number: site.key for number, site in enumerate(self.sites, start=1)}

    def keys(self) -> tuple[str, ...]:
        """Return the texts of the sites' keys, sorted: who is in a sum."""
        return tuple(sorted(key_text(site.key) for site in self.sites))

    @property
    def coordinator_text(self) -> str:
        """The text of the coordinator's key, empty where there is none."""
        return "" if self.coordinator is None else key_text(self.coordinator)

    def key_of(self, name: str) -> bytes:
        """Return the key of a site."""
        for site in self.sites:
            if site.name == name:
                return site.key
        raise InputError(f"the roster has no site {name!r}")

    def name_of(self, key: bytes) -> str:
        """Return the name of the site that signs with a key."""
        for site in self.sites:
            if site.key == key:
                return site.name
        raise InputError("the roster has no site with this key")
