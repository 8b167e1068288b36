"""Counts that somebody had the engine make by hand, for a site that lets no tool connect.

``discreet query`` writes the query of a plan; its result, saved as CSV with its
header, stands for the rows. The header says which query it was: another plan's
counts are refused. A file of counts holds no rows, so plans that look at each row
by itself cannot use one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from discreet.data.arrow_columns import Names, plain_columns
from discreet.data.batches import Columns
from discreet.data.cuts import Cuts
from discreet.data.pushdown import weight_name
from discreet.data.scores import ScoreRange
from discreet.errors import InputError


@dataclass(frozen=True)
class CountsFile:
    """The result of a plan's query, as a source that has counted itself."""

    path: Path
    names: Names
    cuts: tuple[Cuts, ...]
    """How the query rounded: as all of the plan's rounds need it."""
    bound: int | None = None
    """How many rows of a person the query counted at most, if the plan says so."""

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise self.names.problem("no such file")
        header = self._header()
        if self.weight not in header:
            raise self.names.problem(
                "these are not the counts of this plan's query: no column "
                f"{self.weight}; run `discreet query` for this plan and save "
                "its result with the header"
            )
        self.names.check(header)

    @property
    def weight(self) -> str:
        """The column of counts; its name tells which query they come from."""
        return weight_name(self.cuts, self.bound)

    def bounded(
        self, most: int, scores: ScoreRange, *, alone: bool, strict: bool
    ) -> CountsFile | None:
        """Return itself, if the query has bounded people's rows like this."""
        del scores, alone, strict
        return self if most == self.bound else None

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
        return plain_columns(self._batches(), self.names, self.weight)

    def query(self, cuts: Sequence[Cuts]) -> None:
        """Return nothing: it has been asked already."""
        del cuts

    def _header(self) -> list[str]:
        try:
            with pa.csv.open_csv(self.path) as reader:
                return list(reader.schema.names)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise self._unreadable() from None

    def _batches(self) -> Iterator[pa.RecordBatch]:
        kinds = dict.fromkeys(self.names.scores, pa.float64())
        options = pa.csv.ConvertOptions(
            include_columns=[*self.names.all(), self.weight],
            column_types={**kinds, self.weight: pa.int64()},
            strings_can_be_null=True,
        )
        try:
            with pa.csv.open_csv(self.path, convert_options=options) as reader:
                yield from reader
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise self._unreadable() from None

    def _unreadable(self) -> InputError:
        return self.names.problem(
            "this is not a readable CSV file of counts, with its header"
        )
