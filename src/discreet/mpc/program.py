r"""Program: one computation that owners and parties agree on, and its public tables.

Everything in it is public. Parties compare ``Program.digest`` before they run anything:
it covers the description, the engine's settings and the compiled code, and the
compiler gives the same bytes in every process.

``Tables`` replace division of secrets by reciprocals, cut into limbs. Precision at rank
i is a count over i, and i is public. The number of positives P is secret, but there are
only n of them to be: the parties make a secret vector with a one at place P, and its
product with a public table of 1/1, 1/2, ... is a share of 1/P.

Everything stays in 64-bit integers. With n rows, :math:`b = \lceil\log_2(n+1)\rceil`:

- 1/i has K limbs of w bits and 1/P has M limbs of v bits, each at least 52 + b + 2
  bits in all. A sum over rows with one limb is below :math:`2^{2b+1+w}`, times a limb
  of 1/P below :math:`2^{2b+1+w+v} \le 2^{62}`.
- AUROC is W/(2PN) with :math:`W < 2^{2b-1}`. The reciprocal has its 52 bits, and
  behind them A limbs of :math:`u = 63 - 2b` bits, until what is cut off cannot move
  the last bit of the product by more than one.

Each limb is a digit of a long division, so numpy does all places at once. Cutting
off costs at most a few units of :math:`2^{-52}`.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.codec.parsing import decimal_text, exact
from discreet.errors import (
    InputError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)
from discreet.metrics.table import Metric
from discreet.mpc.model import AREAS, ExactMPC, PartyNoise, SharedRows, shared_rows
from discreet.mpc.shares import PARTIES
from discreet.optional import load
from discreet.plan.cohort import Cohort
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round

VERSION: Final = 1
"""Changes with what is computed."""
SETTINGS: Final = "spu 0.9.5; protocol ABY3; ring 2^64"
"""What the engine must be set to; part of the digest."""
ZERO: Final = "zero"
TABLES: Final = ("by_rank", "by_count")
OUTPUT: Final = "opened"
"""The executable's only output: the vector that is revealed."""
SCALE: Final = 52
"""Bits behind the point of a revealed area, as many as a float64 has."""
ONE: Final = 1 << SCALE
"""A revealed area of exactly 1."""
UNDEFINED: Final = 1 << 60
"""What is added to an area that a class without examples leaves undefined."""
MAX_ROWS: Final = 2**21 - 1
"""Rows for which limbs of a few bits remain."""
_ROOM: Final = 62


class Tables:
    """How long the limbs are, and the limbs, for a public number of rows."""

    def __init__(self, rows: int) -> None:
        if not 1 <= rows <= MAX_ROWS:
            raise InputError(
                f"exact areas take between 1 and {MAX_ROWS:,} rows in all, got "
                f"{rows:,}; a histogram has no such limit"
            )
        self.rows = rows
        self.bits = bits = rows.bit_length()  # b, of a count
        self.rank_bits = (_ROOM - 2 * bits - 1) // 2  # w, of a limb of 1/i
        self.count_bits = _ROOM - 2 * bits - 1 - self.rank_bits  # v, of a limb of 1/P
        self.pair_bits = 63 - 2 * bits  # u, of a low limb of 1/(2PN)
        self.rank_limbs = -(-(SCALE + bits + 2) // self.rank_bits)  # K
        self.count_limbs = -(-(SCALE + bits + 2) // self.count_bits)  # M
        # A, with the one of 52 bits
        self.pair_limbs = 1 - (-(2 * bits - 1) // self.pair_bits)

    @cached_property
    def by_rank(self) -> NDArray[np.int64]:
        """Limbs of 1/1, ..., 1/n, the highest first."""
        ranks = np.arange(1, self.rows + 1, dtype=np.int64)
        return _digits(np.ones_like(ranks), ranks, self.rank_limbs, self.rank_bits)

    @cached_property
    def by_count(self) -> NDArray[np.int64]:
        """For 0, ..., n positives: what is undefined, 1/(2PN), and 1/P, in limbs.

        The first row marks counts for which there are no pairs, the second the one
        without a positive.
        """
        counts = np.arange(self.rows + 1, dtype=np.int64)
        empty = np.where(counts == 0, UNDEFINED, 0)
        one_class = np.where(counts == self.rows, UNDEFINED, empty)
        pairs = np.maximum(2 * counts * (self.rows - counts), 1)
        whole, rest = np.divmod(np.int64(ONE), pairs)
        low = _digits(rest, pairs, self.pair_limbs - 1, self.pair_bits)
        ways = np.vstack([whole, low]) * (one_class == 0)
        ones = np.ones_like(counts)
        single = _digits(ones, np.maximum(counts, 1), self.count_limbs, self.count_bits)
        return np.vstack([one_class, empty, ways, single * (counts > 0)])

    def products(self) -> Iterator[tuple[int, int, int]]:
        """Yield limb k of 1/i, limb m of 1/P, and how far their product is shifted.

        The product stands for :math:`2^{-(k+1)w-(m+1)v}`; what would be shifted out
        altogether is left out.
        """
        most = 2 * self.bits + 1 + self.rank_bits + self.count_bits
        for k in range(self.rank_limbs):
            for m in range(self.count_limbs):
                shift = (k + 1) * self.rank_bits + (m + 1) * self.count_bits - SCALE
                if shift < most:
                    yield k, m, shift


def _digits(
    numerator: IntVector, denominator: IntVector, limbs: int, bits: int
) -> NDArray[np.int64]:
    """Return so many digits of a fraction below or at 1, by long division."""
    digits, rest = [], numerator
    for _ in range(limbs):
        digit, rest = np.divmod(rest << bits, denominator)
        digits.append(digit)
    return np.array(digits, dtype=np.int64).reshape(limbs, denominator.size)


kept_tables: Final = lru_cache(maxsize=2)(Tables)
"""The tables of the last programs: parties ask for them more than once."""


@dataclass(frozen=True, slots=True)
class ProgramInput:
    """One input of the executable: a vector (or scalar) of 64-bit integers."""

    name: str
    shape: tuple[int, ...]
    secret: bool


@dataclass(frozen=True)
class Program:
    """What is computed from whose rows.

    Args:
        sizes: the rows that each owner sends, padding included. Public.
        model: how ties and sizes are treated, and what is revealed.
        metrics: which areas are revealed, in this order.
    """

    sizes: tuple[int, ...]
    model: ExactMPC
    metrics: tuple[Metric, ...] = AREAS

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise InputError("each owner sends at least one row; leave out empty ones")
        Tables(self.rows)  # refuses too many rows
        shared = SharedRows(self.rows, self.metrics)  # refuses other metrics
        self.model.accepts((Round(shared),), Cohort())

    @classmethod
    def of(cls, plan: Plan, sizes: Sequence[int]) -> Self:
        """Return the program of a plan, over owners of these sizes."""
        model, shared = plan.privacy, shared_rows(plan.rounds)
        if not isinstance(model, ExactMPC):
            raise PlanError("this plan asks no compute parties; it has no program")
        if sum(sizes) != shared.rows:
            raise PlanError(
                f"the owners share {sum(sizes):,} rows, the plan is about "
                f"{shared.rows:,}; agree on another plan"
            )
        return cls(tuple(sizes), model, shared.metrics)

    @property
    def rows(self) -> int:
        """All rows, padding included."""
        return sum(self.sizes)

    @property
    def noise(self) -> PartyNoise | None:
        """What the parties draw their noise from; None for exact areas."""
        epsilon = self.model.epsilon
        return None if epsilon is None else PartyNoise(self.rows, exact(epsilon))

    @property
    def interval_sums(self) -> int:
        """How many integers are revealed for an interval."""
        return self.model.interval_sums(SharedRows(self.rows, self.metrics))

    @property
    def revealed(self) -> int:
        """How many integers are revealed: whether all runs were in order, and values."""
        if self.model.epsilon is not None:
            return 3
        return 1 + len(self.metrics) + self.interval_sums

    def inputs(self) -> tuple[ProgramInput, ...]:
        """Return the executable's inputs in order: owners, parties, public ones."""
        secret = {f"words{k}": (rows,) for k, rows in enumerate(self.sizes)}
        if self.model.epsilon is not None:
            secret |= {f"noise{party}": (2,) for party in range(PARTIES)}
        public = {name: table.shape for name, table in self.public_inputs().items()}
        return tuple(
            ProgramInput(name, shape, is_secret)
            for is_secret, group in ((True, secret), (False, public))
            for name, shape in group.items()
        )

    def public_inputs(self) -> dict[str, NDArray[np.int64]]:
        """Return what every party knows: a zero, and the tables of reciprocals.

        They are inputs because as constants they would be part of the compiled
        code, eight bytes per row and more.
        """
        zero = {ZERO: np.zeros((), dtype=np.int64)}
        if self.model.epsilon is not None:
            return zero
        tables = kept_tables(self.rows)
        return zero | dict(zip(TABLES, (tables.by_rank, tables.by_count), strict=True))

    def compile(self) -> bytes:
        """Return the serialised executable; seconds, hardly growing with the rows."""
        load("jax", "mpc")  # says which extra is missing
        from discreet.mpc.circuit import compiled  # noqa: PLC0415 - needs an extra

        return compiled(self)

    def canonical(self) -> bytes:
        """Return bytes that are the same for the same program."""
        epsilon = self.model.epsilon
        terms = {
            "version": VERSION,
            "sizes": list(self.sizes),
            "metrics": list(self.metrics),
            "ties": self.model.ties,
            "padded": self.model.hide_sizes,
            "epsilon": None if epsilon is None else decimal_text(exact(epsilon)),
            "interval": self.interval_sums > 0,
        }
        return json.dumps(terms, sort_keys=True).encode()

    def digest(self, executable: bytes) -> bytes:
        """Return SHA-256 over the description, the settings and the executable."""
        hashed = hashlib.sha256(b"discreet exact program\0")
        for part in (self.canonical(), SETTINGS.encode(), executable):
            hashed.update(len(part).to_bytes(8, "big") + part)
        return hashed.digest()

    def checked(self, values: IntVector) -> IntVector:
        """Return the revealed values behind the check of the owners' order.

        Raises:
            ReleaseError: an owner's rows were not in order; nothing was revealed.
        """
        if values.shape != (self.revealed,):
            raise InputError(
                f"{self.revealed} revealed integers were expected, got {values.size}: "
                "they belong to another program"
            )
        if values[0] != 1:
            raise ReleaseError(
                "an owner shared rows that are not in order, and nothing was revealed; "
                "which owner it was cannot be seen: run smaller sessions to find it"
            )
        return values[1:]

    def areas(self, values: IntVector) -> dict[Metric, float]:
        """Turn checked integers into areas; NaN where a class is empty.

        An empty class is revealed as more than 1, and nothing else is by more than
        rounding. What an interval needs stands behind the areas.
        """
        if self.model.epsilon is not None:
            raise PlanError("a noisy result holds no areas; it has one noisy AUC")
        areas = {
            metric: _area(int(value) / (2 if metric == "aupr" else 1))
            for metric, value in zip(self.metrics, values, strict=False)
        }
        undefined = [metric for metric, value in areas.items() if math.isnan(value)]
        if undefined:
            warnings.warn(
                f"{', '.join(undefined)} undefined (NaN): {empty_class(areas)}",
                UndefinedMetricWarning,
                stacklevel=2,
            )
        return areas


def empty_class(areas: Mapping[Metric, float]) -> str:
    """Say which class must be empty when some of these areas are undefined."""
    if any(math.isnan(areas.get(m, 0.0)) for m in ("average_precision", "aupr")):
        return "the pooled data have no positive example"
    if len(areas) > 1:
        return "the pooled data have no negative example"
    return "the pooled data have examples of one class only"


def _area(revealed: float) -> float:
    # An empty class adds 2^60 or makes every digit 15; a rounded 1 stays far below.
    if revealed > ONE + ONE // 2:
        return math.nan
    return min(revealed / ONE, 1.0)
