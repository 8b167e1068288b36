"""The whole protocol in one process, with sites going silent at chosen steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.secagg import site as steps
from discreet.secagg.coordinator import (
    CollectingConfirmations,
    CoordinatorState,
    RevealedSum,
    invite,
)
from discreet.secagg.errors import TooFewHoldersError
from discreet.secagg.site_state import AwaitingRequest, AwaitingSurvivors
from discreet.secagg.terms import Terms

State = TypeVar("State")
Next = TypeVar("Next")


class Step(Enum):
    """A message of a site; a site that is silent from there on sends no more."""

    ADVERTISE = "advertise"
    SHARE = "share"
    MASK = "mask"
    CONFIRM = "confirm"
    REVEAL = "reveal"


class SecureSum(NamedTuple):
    """The opened sum, and the places of the vectors that are in it."""

    total: IntVector
    contributors: tuple[int, ...]
    session: bytes


def secure_sum(
    vectors: Sequence[IntVector],
    *,
    plan_digest: bytes,
    min_survivors: int,
    entropy: Entropy,
    colluders: int = 0,
    identities: Sequence[Ed25519PrivateKey] | None = None,
    silent: Mapping[Step, Collection[int]] | None = None,
) -> SecureSum:
    """Add the vectors by the real protocol, every site and the coordinator here.

    Args:
        vectors: one vector of 64-bit integers a site.
        plan_digest: the plan that the sum belongs to.
        min_survivors: fewer sites are never summed.
        entropy: where keys, seeds, nonces and holders come from.
        colluders: how many sites may work with the coordinator.
        identities: one signing key a site; parameters are then for a malicious
            coordinator and the sites sign who survived.
        silent: for each step the sites (places in ``vectors``) that go silent there.

    Raises:
        TooFewSitesError: more sites went silent than the terms allow.

    >>> import numpy as np
    >>> from discreet.entropy import SYSTEM
    >>> sites = [np.array([1, -2]), np.array([10, 20]), np.array([100, 200])]
    >>> opened = secure_sum(
    ...     sites, plan_digest=bytes(32), min_survivors=2, entropy=SYSTEM,
    ...     silent={Step.MASK: [1]},
    ... )
    >>> opened.total.tolist(), opened.contributors
    ([101, 198], (0, 2))
    """
    if len(vectors) < 2:
        raise InputError(
            f"secure aggregation needs 2 sites or more, got {len(vectors)}"
        )
    if identities is not None and len(identities) != len(vectors):
        raise InputError(
            f"{len(identities)} identities were given for {len(vectors)} sites"
        )
    sites = range(1, len(vectors) + 1)
    keys = dict(zip(sites, identities or (), strict=False))
    terms = Terms(
        plan_digest,
        length=len(vectors[0]),
        min_survivors=min_survivors,
        colluders=colluders,
        identities={s: k.public_key().public_bytes_raw() for s, k in keys.items()}
        if keys
        else None,
    )
    run = _Run(terms, vectors, keys, entropy, silent or {})
    opened = run.through()
    places = tuple(site - 1 for site in opened.contributors)
    return SecureSum(opened.total, places, opened.session)


class _Run:
    """One session: the sites' states by number, and who has gone silent."""

    def __init__(
        self,
        terms: Terms,
        vectors: Sequence[IntVector],
        keys: Mapping[int, Ed25519PrivateKey],
        entropy: Entropy,
        silent: Mapping[Step, Collection[int]],
    ) -> None:
        self.terms = terms
        self.vectors = vectors
        self.keys = keys
        self.entropy = entropy
        self.leaving = {step: {p + 1 for p in gone} for step, gone in silent.items()}
        self.gone: set[int] = set()

    def through(self) -> RevealedSum:
        """Play every round."""
        terms, entropy = self.terms, self.entropy
        collecting, invitations = invite(
            range(1, len(self.vectors) + 1), terms=terms, entropy=entropy
        )
        advertised = self._round(
            Step.ADVERTISE,
            collecting,
            invitations,
            dict.fromkeys(invitations),
            lambda site, _, raw: steps.advertise(
                raw,
                site=site,
                terms=terms,
                entropy=entropy,
                identity=self.keys.get(site),
            ),
        )
        sharing, rosters = collecting.advance()
        shared = self._round(
            Step.SHARE,
            sharing,
            rosters,
            advertised,
            lambda _, state, raw: steps.share(state, raw, entropy=entropy),
        )
        masking, deliveries = sharing.advance()
        masked = self._round(
            Step.MASK,
            masking,
            deliveries,
            shared,
            lambda site, state, raw: steps.mask(
                state, raw, lambda: self.vectors[site - 1]
            ),
        )
        current, requests = masking.advance()
        if isinstance(current, CollectingConfirmations):
            masked = self._round(Step.CONFIRM, current, requests, masked, self._confirm)
            current, requests = current.advance()
        self._round(
            Step.REVEAL,
            current,
            requests,
            masked,
            lambda _, state, raw: steps.reveal(_ready(state), raw),
        )
        return current.advance()

    def _confirm(
        self, site: int, state: AwaitingSurvivors | AwaitingRequest, raw: bytes
    ) -> tuple[AwaitingSurvivors | AwaitingRequest, bytes]:
        if not isinstance(state, AwaitingSurvivors):
            raise TypeError("a site with an identity confirms before it reveals")
        return steps.confirm(state, raw, identity=self.keys[site])

    def _round(
        self,
        step: Step,
        collecting: CoordinatorState,
        messages: Mapping[int, bytes],
        states: dict[int, State],
        act: Callable[[int, State, bytes], tuple[Next, bytes]],
    ) -> dict[int, Next]:
        """Let each site that is still there take its step; pass on the answers."""
        self.gone |= self.leaving.get(step, set())
        following = {}
        for site, message in messages.items():
            if site in self.gone:
                continue
            try:
                following[site], answer = act(site, states.pop(site), message)
            except TooFewHoldersError:
                continue  # this site has too few holders left: it goes silent
            collecting.receive(site, answer)
        return following


def _ready(state: AwaitingSurvivors | AwaitingRequest) -> AwaitingRequest:
    if not isinstance(state, AwaitingRequest):
        raise TypeError("a site reveals only after it has confirmed")
    return state
