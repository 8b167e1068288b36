"""A release: the record of one sum that left the sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import ReleaseError
from discreet.privacy.loss import Loss


@dataclass(frozen=True, eq=False)
class Release:
    """The opened total of one round, and what it cost.

    Everything in an evaluation is a function of the plan and its releases; no
    example is looked at again. ``members`` are the numbers of the sites of a random
    group, when the total is that group's and not everybody's.
    """

    plan_digest: bytes
    session: bytes
    round: int
    total: IntVector
    contributors: int
    expected: int
    loss: Loss
    members: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.total.ndim != 1 or self.total.dtype != np.int64:
            raise ReleaseError("a released total is a vector of 64-bit integers")
        if not 0 <= self.contributors <= self.expected:
            raise ReleaseError("there cannot be more contributors than expected sites")
        frozen = self.total.copy()
        frozen.flags.writeable = False
        object.__setattr__(self, "total", frozen)


def one_release(releases: Sequence[Release], digest: bytes, rounds: int) -> Release:
    """Return the last round's release after checking that all belong to the plan."""
    if [r.round for r in releases] != list(range(rounds)):
        raise ReleaseError(f"the plan has {rounds} rounds, in order, one release each")
    for release in releases:
        if release.plan_digest != digest:
            raise ReleaseError("this release was made under another plan")
        if release.session != releases[0].session:
            raise ReleaseError("the releases come from different sessions")
    return releases[-1]
