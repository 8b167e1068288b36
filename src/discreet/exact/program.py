r"""Program: one computation that owners and parties agree on, and its executable.

Everything in it is public. Parties compare ``digest`` before they run anything:
it covers the description, the engine's settings and the compiled code, and the
compiler gives the same bytes in every process.

**Fixed point.** Precision at rank i is a count over i, and i is public: so instead of dividing
secrets, the program multiplies by :math:`c_i = \lfloor 2^{s+l}/i \rfloor`, cut into
a high limb of s bits and a low limb of l bits. Everything stays in 64-bit integers:
with r rows and :math:`b = \lceil\log_2(r+1)\rceil`

- the denominator of AUPR is :math:`P\,2^{s+1}`, and division by sixteen at a time
  multiplies it by up to 16: :math:`b + s + 1 + 4 \le 63`;
- the low limbs add up to at most :math:`2P^2 2^l`: :math:`1 + 2b + l \le 63`.

Rounding each :math:`c_i` down lowers an area by at most :math:`P/2^{s+l}`, cutting
the sum of the low limbs by at most :math:`1/(P\,2^s)`: together at most 5e-13 for
100,000 rows, 5e-12 for a million and 2e-11 for ``MAX_ROWS``. The AUC has no
reciprocals: it is exact up to the last of its 52 bits.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np

from discreet.arrays import IntVector
from discreet.errors import InputError, PlanError, UndefinedMetricWarning
from discreet.exact.model import AREAS, ExactMPC, SharedRows, Ties, shared_rows
from discreet.metrics.table import Metric
from discreet.plan.cohort import Cohort
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round
from discreet.privacy.loss import amount_from_text, decimal_text, exact

MAX_ROWS: Final = 2**21 - 1
"""Rows for which a few bits remain behind the point."""
_MOST_BITS: Final = 62
"""What a limb and its fraction may take of a signed 64-bit integer."""
DIGIT_BITS: Final = 4
DIGITS: Final = 13
"""Hexadecimal digits of an opened area: 52 bits, as many as a float64 has."""
ONE: Final = 1 << (DIGIT_BITS * DIGITS)
"""An opened area of exactly 1."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Bits behind the point in the two limbs, for a public number of rows."""

    rows: int

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= MAX_ROWS:
            raise InputError(
                f"exact areas take between 1 and {MAX_ROWS:,} rows in all, got "
                f"{self.rows:,}; a histogram has no such limit"
            )

    @property
    def high_bits(self) -> int:
        """The bits s of the high limb."""
        return 58 - self.rows.bit_length()

    @property
    def low_bits(self) -> int:
        """The bits l of the low limb."""
        return min(62 - 2 * self.rows.bit_length(), _MOST_BITS - self.high_bits)

    def reciprocals(self) -> tuple[IntVector, IntVector]:
        """Return high and low limbs of 1/1, 1/2, ..., 1/rows.

        >>> high, low = FixedPoint(3).reciprocals()
        >>> bits = FixedPoint(3).low_bits
        >>> round(float((high[2] * 2.0**bits + low[2]) / (high[0] * 2.0**bits)), 9)
        0.333333333
        """
        ranks = np.arange(1, self.rows + 1, dtype=np.int64)
        whole = np.int64(1 << (self.high_bits + self.low_bits)) // ranks
        return whole >> self.low_bits, whole & np.int64((1 << self.low_bits) - 1)


PARTIES: Final = 3
VERSION: Final = 2
"""Moves with what is computed: 2 since labels are made bits inside."""
SETTINGS: Final = "spu 0.9.5; protocol ABY3; ring 2^64; sort radix"
"""What the engine must be set to; part of the digest."""
RECIPROCALS: Final = ("reciprocal_high", "reciprocal_low")

Source: TypeAlias = Literal["owner", "party", "public"]


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the executable: a vector (or scalar) of 64-bit integers."""

    name: str
    shape: tuple[int, ...]
    source: Source
    index: int
    """Which owner or party; 0 for public inputs."""


@dataclass(frozen=True)
class Program:
    """What is computed from whose rows.

    Args:
        sizes: the rows that each owner sends, padding included. Public.
        metrics: which areas are opened, in this order.
        ties: ``exact``, or ``none`` to take equal scores in the order in which
            they come, as the paper's first algorithm does.
        padded: whether some rows may be padding, which their secret keys tell.
        epsilon: None opens exact areas; otherwise two integers with noise of
            this loss, from which an AUC is estimated.
    """

    sizes: tuple[int, ...]
    metrics: tuple[Metric, ...] = AREAS
    ties: Ties = "exact"
    padded: bool = False
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise InputError("each owner sends at least one row; leave out empty ones")
        FixedPoint(self.rows)  # refuses too many rows
        asked = SharedRows(self.rows, self.metrics)  # refuses other metrics
        self.model.accepts((Round(asked),), Cohort())

    @classmethod
    def of(cls, plan: Plan, sizes: Sequence[int]) -> Self:
        """Return the program that a plan asks for, over owners of these sizes."""
        model, asked = plan.privacy, shared_rows(plan.rounds)
        if not isinstance(model, ExactMPC):
            raise PlanError("this plan asks no compute parties; it has no program")
        if sum(sizes) != asked.rows:
            raise PlanError(
                f"the owners share {sum(sizes):,} rows, the plan is about "
                f"{asked.rows:,}; agree on another plan"
            )
        epsilon = None if model.epsilon is None else exact(model.epsilon)
        return cls(tuple(sizes), asked.metrics, model.ties, model.hide_sizes, epsilon)

    @property
    def model(self) -> ExactMPC:
        """The privacy model that this program carries out."""
        return ExactMPC(self.ties, self.padded, self.epsilon)

    @property
    def rows(self) -> int:
        """All rows, padding included."""
        return sum(self.sizes)

    @property
    def noisy(self) -> bool:
        """Whether noise is added before opening."""
        return self.epsilon is not None

    @property
    def output_names(self) -> tuple[str, ...]:
        """The executable's only output: the vector that is opened."""
        return ("opened",)

    def inputs(self) -> tuple[Input, ...]:
        """Return the executable's inputs in order."""
        found: list[Input] = []
        for owner, rows in enumerate(self.sizes):
            found.append(Input(f"keys{owner}", (rows,), "owner", owner))
            found.append(Input(f"labels{owner}", (rows,), "owner", owner))
        if self.noisy:
            found += [Input(f"noise{p}", (2,), "party", p) for p in range(PARTIES)]
        else:
            found += [Input(name, (self.rows,), "public", 0) for name in RECIPROCALS]
        return tuple(found)

    def public_inputs(self) -> dict[str, IntVector]:
        """Return what every party knows: the reciprocals of the ranks.

        They are inputs because as constants they would be part of the compiled
        code, eight bytes a row.
        """
        if self.noisy:
            return {}
        limbs = FixedPoint(self.rows).reciprocals()
        return dict(zip(RECIPROCALS, limbs, strict=True))

    def compile(self) -> bytes:
        """Return the serialised executable; seconds, hardly growing with the rows."""
        from discreet.exact.circuit import compiled  # noqa: PLC0415 - needs an extra

        return compiled(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain values."""
        return {
            "version": VERSION,
            "sizes": list(self.sizes),
            "metrics": list(self.metrics),
            "ties": self.ties,
            "padded": self.padded,
            "epsilon": None if self.epsilon is None else decimal_text(self.epsilon),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` wrote; anything else is a ``PlanError``."""
        keys = {"version", "sizes", "metrics", "ties", "padded", "epsilon"}
        if set(found) != keys or found["version"] != VERSION:
            raise PlanError(f"this is not a program of version {VERSION}")
        sizes, epsilon = found["sizes"], found["epsilon"]
        whole = isinstance(sizes, list) and all(type(n) is int for n in sizes)
        if not (
            whole
            and isinstance(found["metrics"], list)
            and isinstance(found["padded"], bool)
            and isinstance(epsilon, str | None)
        ):
            raise PlanError("a program's fields have the wrong types")
        return cls(
            tuple(sizes),
            tuple(found["metrics"]),
            found["ties"],
            found["padded"],
            None if epsilon is None else amount_from_text(epsilon),
        )

    def canonical(self) -> bytes:
        """Return bytes that are the same for the same program."""
        return json.dumps(self.to_dict(), sort_keys=True).encode()

    def digest(self, executable: bytes) -> bytes:
        """Return SHA-256 over the description, the settings and the executable."""
        hashed = hashlib.sha256(b"discreet exact program\0")
        for part in (self.canonical(), SETTINGS.encode(), executable):
            hashed.update(len(part).to_bytes(8, "big") + part)
        return hashed.digest()

    def decode(self, opened: IntVector) -> dict[Metric, float]:
        """Turn the opened integers into areas; NaN where a class is empty.

        Division by zero opens as more than 1 (``circuit.divide``), and nothing else
        does by more than rounding.
        """
        if self.noisy:
            raise PlanError("a noisy opening holds no areas; read it with exact.noisy")
        if opened.shape != (len(self.metrics),):
            raise InputError(
                f"{len(self.metrics)} opened integers were expected, got "
                f"{opened.size}: this opening belongs to another program"
            )
        found = {
            metric: _area(int(value))
            for metric, value in zip(self.metrics, opened, strict=True)
        }
        undefined = [metric for metric, value in found.items() if math.isnan(value)]
        if undefined:
            warnings.warn(
                f"{', '.join(undefined)} undefined (NaN): {empty_class(found)}",
                UndefinedMetricWarning,
                stacklevel=2,
            )
        return found


def empty_class(areas: Mapping[Metric, float]) -> str:
    """Say which class must be empty when some of these areas are undefined."""
    if any(math.isnan(areas.get(m, 0.0)) for m in ("average_precision", "aupr")):
        return "the pooled data have no positive example"
    if len(areas) > 1:
        return "the pooled data have no negative example"
    return "the pooled data have examples of one class only"


def _area(opened: int) -> float:
    # 0/0 makes every digit 15 and the whole part 1; a rounded 1 stays far below.
    if opened > ONE + ONE // 2:
        return math.nan
    return min(opened / ONE, 1.0)
