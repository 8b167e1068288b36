"""Engine: whoever computes a program on owners' rows and opens its one result.

``Reference`` is the plaintext oracle: what a program opens, from the definitions. It
sees all rows: it is for tests and for explaining, and protects nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError
from discreet.mpc.encode import PAD, Encoded
from discreet.mpc.program import PARTIES, Program
from discreet.mpc.tables import SCALE, UNDEFINED

Progress: TypeAlias = Callable[[str], None]
"""Called with a few words at the start of each phase."""


@dataclass(frozen=True, eq=False)
class Opened:
    """What a computation opened, and what it cost.

    ``bytes_sent`` is the sum over the parties; ``rounds`` the messages that one
    party sends on average, which bounds how often they wait for each other.
    """

    values: IntVector
    bytes_sent: int
    rounds: int
    seconds: float


class Engine(Protocol):
    """One narrow door: rows in, one small vector of integers out."""

    @property
    def name(self) -> str:
        """What the result says about who computed it."""
        ...

    def run(
        self,
        program: Program,
        owners: Sequence[Encoded],
        *,
        noise: Sequence[IntVector] = (),
        progress: Progress | None = None,
    ) -> Opened:
        """Compute and open; ``noise`` is one share a party in a noisy program."""
        ...


def check_inputs(
    program: Program, owners: Sequence[Encoded], noise: Sequence[IntVector]
) -> None:
    """Refuse rows or noise that the program did not ask for."""
    if tuple(owner.rows for owner in owners) != program.sizes:
        raise InputError("the owners' rows do not have the sizes that were agreed on")
    if not program.padded and any(owner.count != owner.rows for owner in owners):
        raise InputError("padding rows in a program without padding would be counted")
    wanted = PARTIES if program.noisy else 0
    if len(noise) != wanted or any(share.shape != (2,) for share in noise):
        raise InputError(
            f"{wanted} shares of noise, two integers each, belong to this program"
        )


_GUARD_BITS = 100


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Positives and rows at or above each distinct score, as Python integers."""

    positives: list[int]
    rows: list[int]

    @classmethod
    def of(cls, words: IntVector, *, ties: bool) -> Thresholds:
        """Sort by descending score; without ties every row is a threshold."""
        words = np.sort(words)
        keys, labels = words >> 1, words & 1
        differs = np.append(np.diff(keys) != 0, True) if keys.size else keys == 0
        last = np.flatnonzero(differs if ties else np.ones(keys.size, dtype=bool))
        return cls(np.cumsum(labels)[last].tolist(), (last + 1).tolist())

    def doubled_wins(self) -> int:
        """Return twice the pairs of a positive above a negative, ties one half."""
        wins = earlier_tp = earlier_fp = 0
        for tp, rows in zip(self.positives, self.rows, strict=True):
            wins += (rows - tp - earlier_fp) * (tp + earlier_tp)
            earlier_tp, earlier_fp = tp, rows - tp
        return wins

    def squares(self) -> tuple[int, int]:
        """Return the sums of squares of DeLong's variance, of negatives, of positives.

        Of each negative the doubled positives before it, of each positive the doubled
        negatives, ties one half.
        """
        negative = positive = earlier_tp = earlier_fp = 0
        for tp, rows in zip(self.positives, self.rows, strict=True):
            fp = rows - tp
            negative += (fp - earlier_fp) * (tp + earlier_tp) ** 2
            positive += (tp - earlier_tp) * (fp + earlier_fp) ** 2
            earlier_tp, earlier_fp = tp, fp
        return negative, positive

    def precision_sum(self) -> int:
        r"""Return :math:`\sum (t_k - t_{k-1})\,t_k/r_k`, scaled by 2^100."""
        found = earlier = 0
        for tp, rows in zip(self.positives, self.rows, strict=True):
            found += ((tp - earlier) * tp << _GUARD_BITS) // rows
            earlier = tp
        return found

    def trapezoid_sum(self) -> int:
        """Return twice the area under precision over positives found, scaled."""
        found = earlier = 0
        precision = 1 << _GUARD_BITS
        for tp, rows in zip(self.positives, self.rows, strict=True):
            here = (tp << _GUARD_BITS) // rows
            found += (tp - earlier) * (precision + here)
            earlier, precision = tp, here
        return found


@dataclass(frozen=True, slots=True)
class Reference:
    """Pools the rows and computes with exact integers."""

    @property
    def name(self) -> str:
        """It says that nothing was protected."""
        return "plaintext reference"

    def run(
        self,
        program: Program,
        owners: Sequence[Encoded],
        *,
        noise: Sequence[IntVector] = (),
        progress: Progress | None = None,
    ) -> Opened:
        """Compute what the parties would open."""
        check_inputs(program, owners, noise)
        if progress is not None:
            progress(f"computing on {program.rows:,} rows in the clear")
        start = time.perf_counter()
        words = np.concatenate([owner.words for owner in owners])
        real = words[(words != PAD) | (not program.padded)]
        found = Thresholds.of(real, ties=program.ties == "exact")
        values = (
            _noisy_pair(program, found, noise)
            if program.noisy
            else _areas(program, found)
        )
        opened = np.append(np.int64(1), values)
        return Opened(opened, 0, 0, time.perf_counter() - start)


def _areas(program: Program, found: Thresholds) -> IntVector:
    positives = found.positives[-1] if found.positives else 0
    negatives = (found.rows[-1] if found.rows else 0) - positives
    unit = 1 << _GUARD_BITS
    fractions = {
        "auc": (found.doubled_wins(), 2 * positives * negatives),
        "average_precision": (found.precision_sum(), positives * unit),
        "aupr": (found.trapezoid_sum(), positives * unit),  # opened doubled
    }
    opened = [_opened(*fractions[m]) for m in program.metrics]
    if program.interval:
        opened += [positives, *found.squares()]
    return np.array(opened, dtype=np.int64)


def _opened(numerator: int, denominator: int) -> int:
    if denominator == 0:
        return UNDEFINED
    return int(Fraction(numerator << SCALE, denominator))


def _noisy_pair(
    program: Program, found: Thresholds, noise: Sequence[IntVector]
) -> IntVector:
    positives = found.positives[-1]
    balance = found.doubled_wins() - positives * (program.rows - positives)
    exact = np.array([balance, program.rows * positives], dtype=np.int64)
    for share in noise:
        exact += share
    return exact
