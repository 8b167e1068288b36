"""What there is to reproduce: papers, and the items (figures, tables) of each.

A paper is a package of this one that holds a ``PAPER``. To add one, write the package
and put its name in ``NAMES``. An item is two functions: ``measure``, one independent
run, and ``report``, what all runs together say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError
from papers.data import Data
from papers.figures import Figure
from papers.tables import Check, Table

Measured: TypeAlias = Mapping[str, FloatVector]
"""What one run found: named vectors, for instance an error at each x of a figure."""

NAMES: Final = ("boyd2015", "cormode2023", "sun2022", "unal2023", "xu2025", "index")
"""Every paper that can be asked for, and the page that compares them all."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The same vectors from every run, one row a run."""

    found: Sequence[Measured]

    def __post_init__(self) -> None:
        if not self.found:
            raise InputError("no run has been made: ask for at least 1")

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.found)

    def all(self, name: str) -> FloatArray:
        """Return every run's vector."""
        return np.array([one[name] for one in self.found], dtype=np.float64)

    def pooled(self, name: str) -> FloatVector:
        """Return the values of all runs after each other."""
        return np.concatenate([np.asarray(one[name]) for one in self.found])

    def mean(self, name: str) -> FloatVector:
        """Return the mean over runs; a NaN (an honest refusal) is left out."""
        table = self.all(name)
        good = np.isfinite(table)
        total = np.where(good, table, 0.0).sum(axis=0)
        count = good.sum(axis=0)
        blank = np.full_like(total, np.nan)
        return np.asarray(np.divide(total, count, out=blank, where=count > 0))

    def error(self, name: str) -> FloatVector:
        """Return the standard error of ``mean``; NaN for a single run."""
        table = self.all(name)
        good = np.isfinite(table)
        count = good.sum(axis=0)
        off = np.where(good, table - self.mean(name), 0.0)
        squared = (off**2).sum(axis=0)
        many = count > 1
        each = np.divide(
            squared,
            count * (count - 1.0),
            out=np.full_like(squared, np.nan),
            where=many,
        )
        found: FloatVector = np.sqrt(each)
        return found


@dataclass(frozen=True, eq=False)
class Report:
    """What an item shows: tables, figures, and each statement of the paper checked."""

    tables: tuple[Table, ...]
    checks: tuple[Check, ...]
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Item:
    """One figure, table or theorem of a paper."""

    name: str
    title: str
    measure: Callable[[Data, np.random.Generator], Measured]
    report: Callable[[Data, Runs], Report]
    runs: int = 1
    """The default number of runs; 1 is exact, with nothing random in it."""
    also: tuple[str, ...] = ()
    """Other names: figures of the paper that come from the same runs."""
    needs: tuple[str, ...] = ()
    """The scored sets that it reads: without them it is not begun."""

    @property
    def exact(self) -> bool:
        """Whether one run says everything."""
        return self.runs == 1


@dataclass(frozen=True, eq=False)
class Paper:
    """A paper and the items that are reproduced."""

    name: str
    citation: str
    items: tuple[Item, ...]

    def chosen(self, names: Sequence[str]) -> tuple[Item, ...]:
        """Return the items asked for, all when none is."""
        if not names:
            return self.items
        known = {word: item for item in self.items for word in (item.name, *item.also)}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InputError(
                f"{self.name} has no item {unknown[0]}; its items are "
                f"{', '.join(known)}"
            )
        return tuple(dict.fromkeys(known[name] for name in names))


def paper(name: str) -> Paper:
    """Return a paper by its name.

    >>> paper("boyd2015").chosen(["figure-3"])[0].exact
    True
    """
    if name not in NAMES:
        raise InputError(f"there is no {name} here, only {', '.join(NAMES)}")
    found = import_module(f"papers.{name}").PAPER
    if not isinstance(found, Paper):
        raise InputError(f"papers.{name} holds no paper")
    return found
