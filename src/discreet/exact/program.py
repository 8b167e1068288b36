"""Program: one computation that owners and parties agree on, and its executable.

Everything in it is public. Parties compare ``digest`` before they run anything:
it covers the description, the engine's settings and the compiled code, and the
compiler gives the same bytes in every process.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from discreet.arrays import IntVector
from discreet.errors import InputError, PlanError, UndefinedMetricWarning
from discreet.exact.fixed_point import ONE, FixedPoint
from discreet.exact.model import Ties
from discreet.metrics.table import Metric
from discreet.privacy.loss import amount_from_text, decimal_text

PARTIES: Final = 3
VERSION: Final = 1
AREAS: Final[tuple[Metric, ...]] = ("auc", "average_precision", "aupr")
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
        padded: whether some rows may be padding; each owner then shares its
            count as well.
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
        known = len(set(self.metrics)) == len(self.metrics)
        if not (self.metrics and known and set(self.metrics) <= set(AREAS)):
            raise PlanError(f"exact areas are {', '.join(AREAS)}, each once")
        if self.ties not in get_args(Ties):
            raise PlanError("ties are 'exact' or 'none'")
        if self.epsilon is not None and self.metrics != ("auc",):
            raise PlanError("only the AUC can be opened with noise; ask for it alone")
        if self.epsilon is not None and self.padded:
            raise PlanError(
                "noise is sized by the public number of rows: sizes cannot be hidden "
                "from a noisy opening"
            )

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
            if self.padded:
                found.append(Input(f"count{owner}", (), "owner", owner))
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
        from discreet.exact.compiling import compiled  # noqa: PLC0415 - needs an extra

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
