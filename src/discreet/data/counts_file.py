"""Counts that somebody had the engine make by hand, for a site that lets no tool connect.

``discreet query`` writes the query of a plan; its result, saved as CSV with its
header, stands for the rows. The header says which query it was: counts of another plan,
of another unit of privacy or by another column of people are refused. A file of counts
holds no rows, so plans that look at each row by itself cannot use one.

A cell that is no count (negative, or no whole number) counts as 0, and so do more rows
than a client may have; ``damage`` says so, for the site's own checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.data.arrow_columns import Names, taken
from discreet.data.batches import Columns
from discreet.data.csv_file import CsvFile, numbers
from discreet.data.cuts import Cuts
from discreet.data.pushdown import UNBOUNDED, RowLimit, weight_name
from discreet.data.scores import ScoreRange

_MOST: Final = 2**40
"""No table has more rows alike: sums of such counts are exact."""


@dataclass(eq=False)
class CountsFile:
    """The result of a plan's query, as a source that has counted itself."""

    path: Path
    names: Names
    cuts: tuple[Cuts, ...]
    """How the query rounded: as all of the plan's rounds need it."""
    bound: RowLimit = UNBOUNDED
    """Of whom the query kept how many rows, as the plan says it."""
    _wrong: int = field(default=0, init=False)
    _beyond: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise self.names.problem("no such file")
        header = self._file.header()
        if self.weight not in header:
            raise self.names.problem(
                "these are not the counts of this plan's query, with its unit of privacy "
                f"and its column of people: no column {self.weight}; run `discreet "
                "query` for this plan and save its result with the header"
            )
        self.names.check(header)

    @property
    def weight(self) -> str:
        """The column of counts; its name tells which query they come from."""
        return weight_name(self.cuts, self.bound)

    @property
    def _file(self) -> CsvFile:
        return CsvFile(self.path, self.names, (self.weight,))

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> CountsFile | None:
        """Return itself, if the query has bounded these people's rows like this."""
        del scores, strict
        kind = "subject" if alone else "client"
        return self if (kind, most) == (self.bound.kind, self.bound.most) else None

    def __call__(self) -> Iterator[Columns]:
        """Refuse: there are no rows."""
        raise self.names.problem(
            "a file of counts holds no rows, and this plan looks at each of them"
        )

    def folded(self, cuts: Sequence[Cuts]) -> Iterator[Columns]:
        """Return the counts, if they were made for these cuts."""
        if not all(
            mine.covers(asked) for mine, asked in zip(self.cuts, cuts, strict=True)
        ):
            raise self.names.problem("these counts were made for other edges")
        return self._rows()

    def query(self, cuts: Sequence[Cuts]) -> None:
        """Return nothing: it has been asked already."""
        del cuts

    def damage(self) -> str | None:
        """Say what was wrong with the counts of the last pass."""
        if self._wrong:
            return (
                f"{self._wrong} lines have a count that is no whole number from 0 on: "
                "run the query of `discreet query` again and save its result as it is"
            )
        if self._beyond:
            return (
                f"these are counts of more than the {self.bound.most} rows that the plan "
                "takes of a client: run the query of `discreet query` again"
            )
        return None

    def _rows(self) -> Iterator[Columns]:
        self._wrong, self._beyond, file = 0, False, self._file
        left = self.bound.most if self.bound.kind == "client" else None
        for batch in file.batches():
            rows = taken(batch, self.names, numbers)
            given = numbers(batch.column(batch.schema.get_field_index(self.weight)))
            fits = (given >= 0) & (given <= _MOST) & (given == np.floor(given))
            self._wrong += int(np.count_nonzero(~fits))
            many: IntVector = np.where(fits, given, 0).astype(np.int64)
            if left is not None:
                allowed = np.minimum(np.cumsum(many), left)
                kept = np.diff(allowed, prepend=0)
                fits &= kept == many
                self._beyond |= bool((kept != many).any())
                many, left = kept, left - int(kept.sum())
            # A score that is missing leads whoever checks the file to ``damage``.
            scores = (np.where(fits, s, np.nan) for s in rows.scores)
            yield replace(rows, scores=tuple(scores), weights=many)
