"""Tables of numbers and the verdicts on a paper's statements, as text, CSV, Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from discreet.errors import InputError

Cell: TypeAlias = str | float | int


@dataclass(frozen=True)
class Table:
    """Named columns and rows; a row has a cell a column."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise InputError(
                f"every row of table {self.name} needs {len(self.columns)} cells"
            )

    def texts(self) -> list[list[str]]:
        """Return the cells as they are shown."""
        return [[shown(cell) for cell in row] for row in self.rows]

    def to_csv(self) -> str:
        """Return the table with every digit."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return lines.getvalue()

    def to_markdown(self) -> str:
        """Return the table for a page."""
        rows = [list(self.columns), ["---"] * len(self.columns), *self.texts()]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def shown(cell: Cell) -> str:
    """Write a cell in few digits.

    >>> [shown(c) for c in (0.00012345, 7607.4, 1234567.0, 0.5, 12, "word", math.nan)]
    ['0.000123', '7,607', '1.23e+06', '0.5', '12', 'word', '-']
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if math.isnan(cell):
        return "-"
    return f"{cell:,.0f}" if 999.5 <= abs(cell) < 1e6 else f"{cell:.3g}"


class Verdict(StrEnum):
    """What became of a statement of the paper."""

    agrees = "agrees"
    explained = "differs, reason given"
    wrong = "the paper is wrong"
    unexplained = "DIFFERS"
    ours = "ours: holds"


@dataclass(frozen=True)
class Check:
    """One statement of the paper, ours beside it, the better method beside both."""

    statement: str
    paper: str
    ours: str
    better: str
    verdict: Verdict
    note: str = ""

    COLUMNS = ("statement", "paper", "ours", "better method", "verdict", "note")

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of a table of checks."""
        return (
            self.statement,
            self.paper,
            self.ours,
            self.better,
            self.verdict.value,
            self.note,
        )


def check_number(
    statement: str,
    *,
    paper: float,
    ours: float,
    error: float,
    tolerance: float,
    better: str = "",
    reason: str = "",
) -> Check:
    """Compare a number that the paper prints with ours.

    It agrees within ``tolerance`` (what the paper's digits, its data or its wording
    leave open) plus three standard errors of our runs; otherwise ``reason`` must
    say why it does not.

    >>> check_number("AUC", paper=.79, ours=.80, error=.004, tolerance=0).verdict.value
    'agrees'
    """
    room = tolerance + (3.0 * error if math.isfinite(error) else 0.0)
    good = abs(ours - paper) <= room
    spread = f" +-{shown(error)}" if math.isfinite(error) and error > 0 else ""
    note = f"tolerance {shown(tolerance)} + 3 standard errors"
    return Check(
        statement,
        shown(paper),
        f"{shown(ours)}{spread}",
        better,
        _verdict(good, reason),
        note if good or not reason else reason,
    )


def check_that(
    statement: str,
    holds: bool,
    *,
    paper: str,
    ours: str,
    better: str = "",
    reason: str = "",
    wrong: bool = False,
    note: str = "",
) -> Check:
    """Check a statement in words: an order, a sign, a bound.

    ``wrong`` says that a failure is the paper's error, with ``reason`` as evidence.
    """
    verdict = _verdict(holds, reason)
    if wrong and verdict is Verdict.explained:
        verdict = Verdict.wrong
    return Check(
        statement, paper, ours, better, verdict, note if holds or not reason else reason
    )


def check_ours(statement: str, holds: bool, *, ours: str, better: str = "") -> Check:
    """Check a statement of ours that the paper does not make."""
    verdict = Verdict.ours if holds else Verdict.unexplained
    return Check(statement, "", ours, better, verdict)


def _verdict(good: bool, reason: str) -> Verdict:
    if good:
        return Verdict.agrees
    return Verdict.explained if reason else Verdict.unexplained


def checks_table(name: str, checks: Sequence[Check]) -> Table:
    """Return checks as a table."""
    return Table(
        f"{name}-checks",
        "What the paper says, and what was found",
        Check.COLUMNS,
        tuple(check.row for check in checks),
    )
