"""The one query that a site needs, in an engine's own SQL.

    SELECT label, group, rounded score, COUNT(*) ... GROUP BY label, group, score

Each score is rounded as ``Cuts`` says, by a product with a power of two, a floor and
a quotient: exact in doubles. Numbers are written as quotients of whole numbers, since
engines read decimals in ways of their own. Labels and groups are grouped as they
are: what they mean is decided at the site, by their texts (``data.cells``).

What engines do differently, and the rule here:

=====================  ==========================================================
NULL, NaN              both become NULL; NaN is asked for before any comparison,
                       because PostgreSQL, DuckDB and Spark order it above infinity
infinities, far out    moved to just beyond the range, before a product could overflow
casts to integer       of what a floor made whole only: some round, others truncate
whole numbers, float32 cast to double, the nearest one
decimals               cast to double where every engine rounds alike: up to 15
                       digits, and any in PostgreSQL
text in a number's     SQLite allows it in any column: a text is never a score, and
column                 labels and groups come as the bytes of their texts
other labels, groups   dates, decimals and the like are cast to text by the engine
equal texts            byte by byte, whatever the column's collation (``data.sql``)
text, dates, others    not counted in place: the rows are read
follow-up times        compared with each cut, and replaced by the end of their interval;
                       what is no time (negative, infinite, missing) becomes NULL
=====================  ==========================================================
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from discreet.data.arrow_columns import Names
from discreet.data.edges import Cuts
from discreet.data.scores import ScoreRange
from discreet.data.sql import DIALECTS, Column, Dialect, Holds, Query, cases
from discreet.data.times import Rounding, TimeCuts
from discreet.errors import InputError

_MOST_DIGITS: Final = 15
"""Decimals of so many digits, and the power of ten below them, are exact doubles."""
_MOST_CELLS: Final = 2**22
"""More combinations of rounded scores than this are no fewer than rows."""
_WORD: Final = 2**62
PRIME: Final = 2**31 - 1
MULTIPLIER: Final = 48271
"""A subject's number times this, modulo the prime, says where its sample begins."""
_FETCHED: Final = frozenset(Holds) - {Holds.ANY, Holds.DECIMAL, Holds.OTHER}
"""What is fetched as it is; the rest as text."""


@dataclass(frozen=True)
class RowLimit:
    """Of whom a query keeps how many rows: a plan's unit, and the column of people."""

    kind: str = ""
    relation: str = ""
    most: int | None = None
    subject: str | None = None


UNBOUNDED: Final = RowLimit()


def obstacle(rows: Query, names: Names, cuts: Sequence[Rounding]) -> str | None:
    """Say why an engine cannot count these rows in place; None when it can."""
    if names.weight is not None:
        return "weights are added up here"
    if not rows.dialect.tested:
        return "this engine is not tested to count as NumPy does"
    scores, _ = _apart(cuts)
    if not all(one.exact for one in scores):
        return "the range of the scores is too wide for exact products"
    if any(number(rows, name) is None for name in names.numbers()):
        return "a column of scores or times holds text, long decimals or other values"
    cells = 1
    for one in scores:
        cells *= one.cells + len(one.mixed)
    if len(scores) > 1 and cells > _MOST_CELLS:
        return "the score columns' bins have too many combinations"
    return None


def folded(
    rows: Query, names: Names, cuts: Sequence[Rounding], *, bound: RowLimit = UNBOUNDED
) -> Query:
    """Return the query: label, group, rounded scores, and how many rows that is.

    ``bound`` says of whose rows the table was made.
    """
    dialect = rows.dialect
    scores, times = _apart(cuts)
    keys = [names.label, *([] if names.group is None else [names.group])]
    timed = [] if names.time is None else [names.time]
    cuts_of = dict(zip(names.scores, scores, strict=True))

    # In steps: an engine may work out a branch of CASE before it knows that it needs it.
    made = rows.select(rows.some(keys) | _numbers(rows, [*names.scores, *timed]))
    made = made.select(
        made.some(keys)
        | {n: _float(_clipped(dialect, made[n].sql, c)) for n, c in cuts_of.items()}
        | {n: _float(_interval_end(dialect, made[n].sql, times)) for n in timed}
    )
    made = made.select(
        made.some([*keys, *timed])
        | {n: _float(_rounded(dialect, made[n].sql, c)) for n, c in cuts_of.items()},
        more=dialect.once,
    )
    shown = {n: dialect.of_group(made[n]) for n in keys}
    shown |= made.some([*names.scores, *timed])
    shown |= {weight_name(cuts, bound): Column("COUNT(*)", Holds.INTEGER)}
    # Scores first: an engine that sorts then seldom compares a second key.
    return made.select(
        shown, by=[dialect.key(made[n]) for n in (*names.scores, *timed, *keys)]
    )


def _apart(cuts: Sequence[Rounding]) -> tuple[list[Cuts], TimeCuts | None]:
    """Return the cuts of the score columns, and those of the times, the last ones."""
    times = [one for one in cuts if isinstance(one, TimeCuts)]
    return [one for one in cuts if isinstance(one, Cuts)], times[0] if times else None


def _float(sql: str) -> Column:
    return Column(sql, Holds.FLOAT)


def bounded(
    rows: Query, names: Names, scores: ScoreRange, most: int, *, strict: bool = False
) -> Query | None:
    """Keep at most so many rows of each subject, by the rule of ``session.respond``.

    Rows that do not fit belong to nobody's sample, and go on to the rule for them.
    Without a subject column all rows are one client's. None where an engine would
    order or number rows in its own way: text for labels or subjects, or groups.

    With ``strict`` a row whose label does not fit keeps its score, to be complained of.
    Else it loses it, so that no row counts that was not bounded.
    """
    dialect = rows.dialect
    counted = names.numbers()
    code = _meant(rows, names.label, truths=True)
    subject: str | None = f"CAST(0 AS {dialect.whole})"
    if names.subject is not None:
        subject = _meant(rows, names.subject, truths=False)
    known = dialect.tested and names.group is None
    if code is None or subject is None or not known:
        return None
    if any(number(rows, name) is None for name in counted):
        return None
    timed = [] if names.time is None else [names.time]
    plain = _numbers(rows, counted)
    named = f"({subject}) IS NOT NULL"
    fits = [f"({code}) IN (0, 1)", named]
    fits += [f"NOT {dialect.missing(plain[n].sql)}" for n in names.scores]
    fits += [f"NOT {_no_time(dialect, plain[n].sql)}" for n in timed]
    fit = " AND ".join(fits)

    def where(condition: str, value: str, kind: str) -> str:
        return cases((condition, value), otherwise=dialect.null(kind))

    keep = named if strict else fit
    # A row of nobody has no place: it is left out as one without a score.
    kept = {n: _float(where(keep, plain[n].sql, dialect.double)) for n in names.scores}
    kept |= rows.some([names.label]) | {n: plain[n] for n in timed}
    places = {
        f"place_{k}_": _float(
            where(fit, _within(dialect, plain[n].sql, scores), dialect.double)
        )
        for k, n in enumerate(names.scores)
    }
    codes = {
        name: Column(where(fit, value, dialect.whole), Holds.INTEGER)
        for name, value in (("code_", code), ("subject_", subject))
    }
    made = rows.select(codes | places | kept)
    own = f"PARTITION BY {made['subject_'].sql}"
    # Where engines put NULL does not matter: rows with a subject fit, and have none.
    order = ", ".join(made[name].sql for name in (*places, "code_", *timed))
    made = made.select(
        made.some([*kept, "subject_"])
        | {
            "many_": Column(f"COUNT(*) OVER ({own})", Holds.INTEGER),
            "rank_": Column(
                f"ROW_NUMBER() OVER ({own} ORDER BY {order})", Holds.INTEGER
            ),
        }
    )
    who, many, rank = (made[n].sql for n in ("subject_", "many_", "rank_"))
    begin = f"((({who} % {PRIME} + {PRIME}) % {PRIME} * {MULTIPLIER}) % {PRIME})"
    # The product of a rank and the limit may need more than 32 bits.
    chosen = f"({rank} * CAST({most} AS {dialect.whole}) + {begin} % {many}) % {many}"
    return made.select(
        made.some([*names.scores, names.label, *timed]),
        where=f"{who} IS NULL OR {many} <= {most} OR {chosen} < {most}",
    )


def _within(dialect: Dialect, score: str, scores: ScoreRange) -> str:
    """Return where a score counts: the nearer end, if it lies outside."""
    if not (math.isfinite(scores.low) and math.isfinite(scores.high)):
        return score
    low, high = _exact(dialect, scores.low), _exact(dialect, scores.high)
    return cases(
        (f"{score} < {low}", low), (f"{score} > {high}", high), otherwise=score
    )


def _no_time(dialect: Dialect, time: str) -> str:
    """Say whether a number is no time; NaN is asked for before any comparison."""
    none = cases(
        (dialect.missing(time), "1"),
        (f"{time} < {_exact(dialect, 0.0)}", "1"),
        (f"{time} > {_exact(dialect, sys.float_info.max)}", "1"),
        otherwise="0",
    )
    return f"({none} = 1)"


def _interval_end(dialect: Dialect, time: str, cuts: TimeCuts | None) -> str:
    """Replace a time by the end of its interval, as ``TimeCuts.rounded`` does."""
    if cuts is None:
        raise InputError("there are no cuts for these times")
    ends = [_exact(dialect, end) for end in cuts.values[1:]]
    return cases(
        (_no_time(dialect, time), dialect.null()),
        *((f"{time} <= {end}", end) for end in ends),
        otherwise=_exact(dialect, cuts.past),
    )


def _meant(rows: Query, name: str, *, truths: bool) -> str | None:
    """Return a column of whole numbers; NULL where SQLite has something else in it.

    None for columns of other things, and of numbers beyond 64 bits with a sign.
    """
    column = rows[name]
    match column.holds:
        case Holds.INTEGER:
            return f"CAST({column.sql} AS {rows.dialect.whole})"
        case Holds.BOOLEAN if truths:
            # Which PostgreSQL casts to small numbers alone.
            sides = (column.sql, "1"), (f"NOT {column.sql}", "0")
            return cases(*sides, otherwise="NULL")
        case Holds.ANY:
            whole = f"TYPEOF({column.sql}) = 'integer'"
            return cases((whole, column.sql), otherwise="NULL")
        case _:
            return None


def word(rows: Query, name: str) -> Column:
    """Return labels, groups or subjects in a type that can be fetched whatever they are.

    SQLite's cells have types of their own: they come as the bytes of their text. Text that
    is no UTF-8 could not be fetched either.
    """
    column = rows[name]
    if column.holds is Holds.ANY:
        return Column(f"CAST({column.sql} AS BLOB)", Holds.BYTES)
    return column if column.holds in _FETCHED else rows.dialect.text_of(column)


def weight_name(cuts: Sequence[Rounding], bound: RowLimit = UNBOUNDED) -> str:
    """Return the name of the column of counts: it tells queries of plans apart.

    Counts of another plan's query would fall into wrong bins unseen, or hold more rows
    of a person or client than the noise was sized for.
    """
    digest = hashlib.sha256(repr((tuple(cuts), bound)).encode())
    return f"rows_{digest.hexdigest()[:12]}"


def number(rows: Query, name: str) -> Column | None:
    """Return a column of numbers as doubles; None where engines would differ."""
    column, dialect = rows[name], rows.dialect
    cast = f"CAST({column.sql} AS {dialect.double})"
    match column.holds:
        case Holds.ANY:  # SQLite, whose cells have types of their own
            meant = f"TYPEOF({column.sql}) IN ('real', 'integer')"
            return _float(cases((meant, cast), otherwise=dialect.null()))
        case Holds.FLOAT | Holds.INTEGER | Holds.WIDE:
            return _float(cast)
        case Holds.DECIMAL:
            short = column.digits is not None and column.digits <= _MOST_DIGITS
            return _float(cast) if dialect.every_decimal or short else None
        case _:
            return None


def _numbers(rows: Query, names: Sequence[str]) -> dict[str, Column]:
    """Return the columns among these that are numbers to the engine, as doubles."""
    known = ((name, number(rows, name)) for name in names)
    return {name: column for name, column in known if column is not None}


def worded(rows: Query, names: Names) -> Query:
    """Return the columns that are read, with labels, groups and subjects as words."""
    texts = [n for n in (names.label, names.group, names.subject) if n is not None]
    texts += [n for n in names.all() if rows[n].holds is Holds.OTHER]
    return rows.select(rows.some(names.all()) | {n: word(rows, n) for n in texts})


def readable(rows: Query, names: Names) -> Query:
    """Return the query that reads rows: numbers as doubles, where they are numbers."""
    made = worded(rows, names)
    return made.select(made.columns | _numbers(made, names.numbers()))


def _clipped(dialect: Dialect, score: str, cuts: Cuts) -> str:
    low, high = _exact(dialect, cuts.low), _exact(dialect, cuts.high)
    return cases(
        (dialect.missing(score), dialect.null()),
        (f"{score} < {low}", _exact(dialect, cuts.low - cuts.beyond)),
        (f"{score} > {high}", _exact(dialect, cuts.high + cuts.beyond)),
        otherwise=score,
    )


def _rounded(dialect: Dialect, score: str, cuts: Cuts) -> str:
    scale = _exact(dialect, 2.0**cuts.exponent)
    # What lies below the range was moved to a whole place: only others may be negative.
    short = dialect.truncated if cuts.low >= 0 else None
    cell = (short or dialect.floor).format(f"({score} * {scale})")
    whole = f"CAST({cell} AS {dialect.double}) / {scale}"
    if not cuts.mixed:
        return whole
    mixed = ", ".join(map(str, cuts.mixed))
    return cases((f"{cell} IN ({mixed})", score), otherwise=whole)


def _exact(dialect: Dialect, value: float) -> str:
    """Write a double as whole numbers, and products and quotients by powers of two.

    >>> _exact(DIALECTS["sqlite"], 0.75)
    '(CAST(3 AS REAL) / CAST(4 AS REAL))'
    """
    ratio = Fraction(value)
    above, below = ratio.numerator, ratio.denominator
    factors = []
    while abs(above) >= _WORD:
        factors.append(min(above & -above, _WORD // 2))
        above //= factors[-1]
    exact = f"CAST({above} AS {dialect.double})"
    exact += "".join(f" * CAST({factor} AS {dialect.double})" for factor in factors)
    while below > 1:
        step = min(below, _WORD)
        exact += f" / CAST({step} AS {dialect.double})"
        below //= step
    return f"({exact})"


def written(
    table: str,
    names: Names,
    cuts: Sequence[Rounding],
    engine: str,
    *,
    scores: ScoreRange,
    bound: RowLimit = UNBOUNDED,
) -> str:
    """Return the query in an engine's SQL, for a table that nobody has opened.

    Its score columns are taken to be numbers; where rows of a person are bounded,
    labels and subjects to be whole numbers.
    """
    dialect = DIALECTS[engine]
    other = Holds.TEXT if bound.most is None else Holds.INTEGER

    def holds(name: str) -> Holds:
        if dialect.name == "sqlite":
            return Holds.ANY
        return Holds.FLOAT if name in names.numbers() else other

    columns = {name: dialect.column(name, holds(name)) for name in names.all()}
    unseen = Query(dialect, dialect.table(table), columns)
    kept: Query | None = unseen
    reason = obstacle(unseen, names, cuts)
    if reason is None and bound.most is not None:
        kept = bounded(unseen, names, scores, bound.most)
        reason = "people in groups are not told apart" if kept is None else None
    if reason is not None or kept is None:
        raise InputError(f"there is no such query: {reason}")
    return folded(kept, names, cuts, bound=bound).statement
