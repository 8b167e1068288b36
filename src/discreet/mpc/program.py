r"""Program: one computation that owners and parties agree on, and its executable.

Everything in it is public. Parties compare ``digest`` before they run anything:
it covers the description, the engine's settings and the compiled code, and the
compiler gives the same bytes in every process.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import IntVector
from discreet.errors import (
    InputError,
    PlanError,
    ReleaseError,
    UndefinedMetricWarning,
)
from discreet.metrics.table import Metric
from discreet.mpc.model import (
    AREAS,
    SPREAD,
    ExactMPC,
    SharedRows,
    Ties,
    shared_rows,
)
from discreet.mpc.tables import ONE, Tables
from discreet.plan.cohort import Cohort
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round
from discreet.privacy.loss import amount_from_text, decimal_text, exact

PARTIES: Final = 3
VERSION: Final = 4
"""Moves with what is computed: 4 since an AUC may be opened with its spread."""
SETTINGS: Final = "spu 0.9.5; protocol ABY3; ring 2^64"
"""What the engine must be set to; part of the digest."""
ZERO: Final = "zero"
TABLES: Final = ("by_rank", "by_count")

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
        ties: ``exact``, or ``none`` to take equal scores as different ones, as the
            paper's first algorithm does: negatives first.
        padded: whether some rows may be padding, which their secret words tell.
        epsilon: None opens exact areas; otherwise two integers with noise of
            this loss, from which an AUC is estimated.
        interval: open the sums of DeLong's variance beside the AUC.
    """

    sizes: tuple[int, ...]
    metrics: tuple[Metric, ...] = AREAS
    ties: Ties = "exact"
    padded: bool = False
    epsilon: Fraction | None = None
    interval: bool = False

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise InputError("each owner sends at least one row; leave out empty ones")
        Tables(self.rows)  # refuses too many rows
        asked = SharedRows(self.rows, self.metrics)  # refuses other metrics
        self.model.accepts((Round(asked),), Cohort())
        if self.interval and "auc" not in self.metrics:
            raise PlanError("an interval is opened beside the AUC; ask for that too")

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
        return cls(
            tuple(sizes),
            asked.metrics,
            model.ties,
            model.hide_sizes,
            epsilon,
            model.spread_of(asked) > 0,
        )

    @property
    def model(self) -> ExactMPC:
        """The privacy model that this program carries out."""
        return ExactMPC(self.ties, self.padded, self.epsilon, self.interval)

    @property
    def rows(self) -> int:
        """All rows, padding included."""
        return sum(self.sizes)

    @property
    def noisy(self) -> bool:
        """Whether noise is added before opening."""
        return self.epsilon is not None

    @property
    def opens(self) -> int:
        """How many integers are opened: whether all runs were in order, and values."""
        if self.noisy:
            return 3
        return 1 + len(self.metrics) + (SPREAD if self.interval else 0)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The executable's only output: the vector that is opened."""
        return ("opened",)

    def inputs(self) -> tuple[Input, ...]:
        """Return the executable's inputs in order."""
        found = [
            Input(f"words{owner}", (rows,), "owner", owner)
            for owner, rows in enumerate(self.sizes)
        ]
        if self.noisy:
            found += [Input(f"noise{p}", (2,), "party", p) for p in range(PARTIES)]
        found += [
            Input(name, values.shape, "public", 0)
            for name, values in self.public_inputs().items()
        ]
        return tuple(found)

    def public_inputs(self) -> dict[str, NDArray[np.int64]]:
        """Return what every party knows: a zero, and the tables of reciprocals.

        They are inputs because as constants they would be part of the compiled
        code, eight bytes a row and more.
        """
        zero = {ZERO: np.zeros((), dtype=np.int64)}
        if self.noisy:
            return zero
        tables = _tables(self.rows)
        return zero | dict(zip(TABLES, (tables.by_rank, tables.by_count), strict=True))

    def compile(self) -> bytes:
        """Return the serialised executable; seconds, hardly growing with the rows."""
        from discreet.mpc.circuit import compiled  # noqa: PLC0415 - needs an extra

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
            "interval": self.interval,
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` wrote; anything else is a ``PlanError``."""
        keys = {
            *("version", "sizes", "metrics", "ties", "padded", "epsilon", "interval")
        }
        if set(found) != keys or found["version"] != VERSION:
            raise PlanError(f"this is not a program of version {VERSION}")
        sizes, epsilon = found["sizes"], found["epsilon"]
        whole = isinstance(sizes, list) and all(type(n) is int for n in sizes)
        if not (
            whole
            and isinstance(found["metrics"], list)
            and isinstance(found["padded"], bool)
            and isinstance(found["interval"], bool)
            and isinstance(epsilon, str | None)
        ):
            raise PlanError("a program's fields have the wrong types")
        return cls(
            tuple(sizes),
            tuple(found["metrics"]),
            found["ties"],
            found["padded"],
            None if epsilon is None else amount_from_text(epsilon),
            found["interval"],
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

    def checked(self, opened: IntVector) -> IntVector:
        """Return what was opened behind the check of the owners' order.

        Raises:
            ReleaseError: an owner's rows were not in order; nothing was opened.
        """
        if opened.shape != (self.opens,):
            raise InputError(
                f"{self.opens} opened integers were expected, got {opened.size}: this "
                "opening belongs to another program"
            )
        if opened[0] != 1:
            raise ReleaseError(
                "an owner shared rows that are not in order, and nothing was opened; "
                "which owner it was cannot be seen: run smaller sessions to find it"
            )
        return opened[1:]

    def decode(self, opened: IntVector) -> dict[Metric, float]:
        """Turn what was opened, the check first, into areas."""
        return self.areas(self.checked(opened))

    def areas(self, values: IntVector) -> dict[Metric, float]:
        """Turn opened integers into areas; NaN where a class is empty.

        What an interval needs stands behind them (``exact.spread``).

        An empty class opens as more than 1, and nothing else does by more than
        rounding.
        """
        if self.noisy:
            raise PlanError("a noisy opening holds no areas; read it with exact.noisy")
        found = {
            metric: _area(int(value) / (2 if metric == "aupr" else 1))
            for metric, value in zip(self.metrics, values, strict=False)
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


def _area(opened: float) -> float:
    # An empty class adds 2^60 or makes every digit 15; a rounded 1 stays far below.
    if opened > ONE + ONE // 2:
        return math.nan
    return min(opened / ONE, 1.0)


@lru_cache(maxsize=2)
def _tables(rows: int) -> Tables:
    """Keep the tables of the last programs: parties ask for them more than once."""
    return Tables(rows)


def forget_tables() -> None:
    """Let go of the tables: whoever has handed them to an engine needs them no more."""
    _tables.cache_clear()
