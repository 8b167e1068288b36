"""The one query that a site needs, as an Ibis expression.

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
equal texts            byte by byte: MariaDB's collations know no capitals
text, dates, others    not counted in place: the rows are read
follow-up times        compared with each cut, and replaced by the end of their interval;
                       what is no time (negative, infinite, missing) becomes NULL
=====================  ==========================================================
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from discreet.data.arrow_columns import Names
from discreet.data.edges import Cuts
from discreet.data.scores import ScoreRange
from discreet.data.times import Rounding, TimeCuts
from discreet.errors import InputError
from discreet.optional import load

TESTED: Final = {
    "duckdb": "DuckDB",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "mariadb": "MariaDB",
    "pyspark": "Spark",
}
"""Engines that are tested to count as NumPy does, at every edge's floats."""
_NO_NAN: Final = ("sqlite", "mariadb")
"""Engines whose doubles are never NaN: they have NULL instead."""
_DIALECTS: Final = {"mariadb": "mysql"}
"""What Ibis calls an engine's SQL, where that is not the engine's name."""
_MOST_DIGITS: Final = 15
"""Decimals of so many digits, and the power of ten below them, are exact doubles."""
_MOST_CELLS: Final = 2**22
"""More combinations of rounded scores than this are no fewer than rows."""
_WORD: Final = 2**62
PRIME: Final = 2**31 - 1
MULTIPLIER: Final = 48271
"""A subject's number times this, modulo the prime, says where its sample begins."""


@dataclass(frozen=True)
class RowLimit:
    """Of whom a query keeps how many rows: a plan's unit, and the column of people."""

    kind: str = ""
    relation: str = ""
    most: int | None = None
    subject: str | None = None


UNBOUNDED: Final = RowLimit()


def obstacle(
    table: Any, names: Names, cuts: Sequence[Rounding], engine: str
) -> str | None:
    """Say why an engine cannot count these rows in place; None when it can."""
    if names.weight is not None:
        return "weights are added up here"
    if engine not in TESTED:
        return "this engine is not tested to count as NumPy does"
    scores, _ = _apart(cuts)
    if not all(one.exact for one in scores):
        return "the range of the scores is too wide for exact products"
    if any(number(table[name], engine) is None for name in names.numbers()):
        return "a column of scores or times holds text, long decimals or other values"
    cells = 1
    for one in scores:
        cells *= one.cells + len(one.mixed)
    if len(scores) > 1 and cells > _MOST_CELLS:
        return "the score columns' bins have too many combinations"
    return None


def folded(
    table: Any,
    names: Names,
    cuts: Sequence[Rounding],
    engine: str,
    *,
    bound: RowLimit = UNBOUNDED,
) -> Any:
    """Return the query: label, group, rounded scores, and how many rows that is.

    ``bound`` says of whose rows the table was made.
    """
    ibis = load("ibis", "sql")
    kept = [names.label, *([] if names.group is None else [names.group])]
    scores, times = _apart(cuts)
    each = list(zip(names.scores, scores, strict=True))
    counted = [*names.scores, *([] if names.time is None else [names.time])]
    # In steps: an engine may work out a branch of CASE before it knows that it needs it.
    rows = table.select(*kept, **{n: number(table[n], engine) for n in counted})
    rows = rows.select(
        *kept,
        **{n: _clipped(ibis, rows[n], c, engine) for n, c in each},
        **_with_time(names, lambda n: _interval_end(ibis, rows[n], times, engine)),
    )
    rounded = rows.select(
        *kept,
        **{n: _rounded(ibis, rows[n], c) for n, c in each},
        **_with_time(names, lambda n: rows[n]),
    )
    weight = {weight_name(cuts, bound): rounded.count()}
    texts = [name for name in kept if rounded[name].type().is_string()]
    if engine != "mariadb" or not texts:
        return rounded.aggregate(by=[*kept, *counted], **weight)
    # Its texts are equal whatever their capitals, accents and last spaces: bytes are
    # grouped, and each group shows the one text that it holds.
    in_bytes = ibis.udf.scalar.builtin(name="hex")(_hex)
    # Joined to nothing, a number that a query by hand meets is text too.
    keys = {f"{n}_bytes_": in_bytes(ibis.literal("") + rounded[n]) for n in texts}
    rest = [name for name in (*kept, *counted) if name not in texts]
    shown = {name: rounded[name].max() for name in texts}
    grouped = rounded.group_by(*rest, **keys).aggregate(**shown, **weight)
    return grouped.select(*kept, *counted, *weight)


def _apart(cuts: Sequence[Rounding]) -> tuple[list[Cuts], TimeCuts | None]:
    """Return the cuts of the score columns, and those of the times, the last ones."""
    times = [one for one in cuts if isinstance(one, TimeCuts)]
    return [one for one in cuts if isinstance(one, Cuts)], times[0] if times else None


def _with_time(names: Names, column: Callable[[str], Any]) -> dict[str, Any]:
    return {} if names.time is None else {names.time: column(names.time)}


def _hex(text: str) -> str:  # type: ignore[empty-body]
    """Return a text's bytes in hexadecimal digits, by the engine's own function."""


def bounded(
    table: Any,
    names: Names,
    scores: ScoreRange,
    most: int,
    engine: str,
    *,
    strict: bool = False,
) -> Any | None:
    """Keep at most so many rows of each subject, by the rule of ``session.respond``.

    Rows that do not fit belong to nobody's sample, and go on to the rule for them.
    Without a subject column all rows are one client's. None where an engine would
    order or number rows in its own way: text for labels or subjects, or groups.

    With ``strict`` a row whose label does not fit keeps its score, to be complained of.
    Else it loses it, so that no row counts that was not bounded.
    """
    ibis = load("ibis", "sql")
    numbers = [number(table[name], engine) for name in names.scores]
    label = table[names.label]
    whole = _is_word(label.type()) or label.type().is_boolean()
    known = engine in TESTED and names.group is None
    if any(column is None for column in numbers) or not (whole and known):
        return None
    code = _meant(label, engine)
    if names.subject is None:
        subject, named = ibis.literal(0, "int64"), ibis.literal(True)
    elif _is_word(table[names.subject].type()):
        subject = _meant(table[names.subject], engine)
        named = subject.notnull()
    else:
        return None
    fits = code.isin([0, 1]) & named
    for column in numbers:
        fits &= ~missing(column, engine)
    time = None if names.time is None else number(table[names.time], engine)
    if names.time is not None:
        if time is None:
            return None
        fits &= ~_no_time(ibis, time, engine)
    places = {
        name: ibis.ifelse(fits, _within(ibis, column, scores), ibis.null("float64"))
        for name, column in zip(names.scores, numbers, strict=True)
    }
    rows = table.select(
        code_=ibis.ifelse(fits, code, ibis.null("int64")),
        subject_=ibis.ifelse(fits, subject, ibis.null("int64")),
        **{f"place_{k}_": place for k, place in enumerate(places.values())},
        **{names.label: label},
        **{
            # A row of nobody has no place: it is left out as one without a score.
            name: ibis.ifelse(named if strict else fits, column, ibis.null("float64"))
            for name, column in zip(names.scores, numbers, strict=True)
        },
        **_with_time(names, lambda _: time),
    )
    own = ibis.window(group_by=rows.subject_)
    order = [rows[f"place_{k}_"] for k in range(len(places))]
    order += [rows.code_, *([] if names.time is None else [rows[names.time]])]
    sorted_ = ibis.window(group_by=rows.subject_, order_by=order)
    counted = rows.mutate(
        many_=rows.count().over(own), rank_=ibis.row_number().over(sorted_) + 1
    )
    begin = ((counted.subject_ % PRIME + PRIME) % PRIME * MULTIPLIER) % PRIME
    m, k = counted.many_, ibis.literal(most, "int64")
    kept = (m <= k) | ((counted.rank_ * k + begin % m) % m < k)
    return counted.filter(counted.subject_.isnull() | kept).select(
        *names.scores, names.label, *([] if names.time is None else [names.time])
    )


def _within(ibis: Any, score: Any, scores: ScoreRange) -> Any:
    """Return where a score counts: the nearer end, if it lies outside."""
    if not (math.isfinite(scores.low) and math.isfinite(scores.high)):
        return score
    low, high = _exact(ibis, scores.low), _exact(ibis, scores.high)
    return ibis.cases((score < low, low), (score > high, high), else_=score)


def missing(score: Any, engine: str) -> Any:
    """Say whether a number is none: NULL, or NaN where an engine has it."""
    if engine in _NO_NAN:
        return score.isnull()
    return score.isnull() | score.isnan()


def _no_time(ibis: Any, time: Any, engine: str) -> Any:
    """Say whether a number is no time; NaN is asked for before any comparison."""
    return ibis.cases(
        (missing(time, engine), True),
        (time < _exact(ibis, 0.0), True),
        (time > _exact(ibis, sys.float_info.max), True),
        else_=False,
    )


def _interval_end(ibis: Any, time: Any, cuts: TimeCuts | None, engine: str) -> Any:
    """Replace a time by the end of its interval, as ``TimeCuts.rounded`` does."""
    if cuts is None:
        raise InputError("there are no cuts for these times")
    ends = ((time <= _exact(ibis, t), _exact(ibis, t)) for t in cuts.values[1:])
    return ibis.cases(
        (_no_time(ibis, time, engine), ibis.null("float64")),
        *ends,
        else_=_exact(ibis, cuts.past),
    )


def _is_word(kind: Any) -> bool:
    """Say whether a type holds whole numbers that 64 bits with a sign hold, too."""
    return bool(kind.is_integer()) and not kind.is_uint64()


def _meant(column: Any, engine: str) -> Any:
    """Return a column of whole numbers; NULL where SQLite has something else in it."""
    ibis = load("ibis", "sql")
    if column.type().is_boolean():  # which PostgreSQL casts to small numbers alone
        return ibis.cases((column, 1), (~column, 0), else_=None).cast("int64")
    whole = column.cast("int64")
    if engine != "sqlite":
        return whole
    return ibis.ifelse(column.typeof() == "integer", whole, ibis.null("int64"))


def word(column: Any, engine: str) -> Any:
    """Return labels, groups or subjects in a type that can be fetched whatever they are.

    SQLite's cells have types of their own: they come as the digits of their text's bytes
    (``unhexed``). Text that is no UTF-8 could not be fetched either.
    """
    kind = column.type()
    if engine == "sqlite":
        return load("ibis", "sql").udf.scalar.builtin(name="hex")(_hex_of_any)(column)
    if kind.is_boolean() or kind.is_integer() or kind.is_floating():
        return column
    return column if kind.is_string() or kind.is_binary() else column.cast("string")


def _hex_of_any(cell) -> str:  # type: ignore[empty-body,no-untyped-def]
    """Return any cell's bytes in hexadecimal digits, by SQLite's own function."""


def unhexed(column: pa.Array) -> pa.Array:
    """Return the bytes of what ``word`` made of SQLite's cells."""
    coded = column.dictionary_encode()
    values = [bytes.fromhex(v) for v in coded.dictionary.to_pylist()]
    return pa.array(values, pa.binary()).take(coded.indices)


def weight_name(cuts: Sequence[Rounding], bound: RowLimit = UNBOUNDED) -> str:
    """Return the name of the column of counts: it tells queries of plans apart.

    Counts of another plan's query would fall into wrong bins unseen, or hold more rows
    of a person or client than the noise was sized for.
    """
    digest = hashlib.sha256(repr((tuple(cuts), bound)).encode())
    return f"rows_{digest.hexdigest()[:12]}"


def number(column: Any, engine: str) -> Any | None:
    """Return a score column as doubles; None where engines would differ."""
    kind = column.type()
    if engine == "sqlite":  # whose cells have types of their own
        ibis = load("ibis", "sql")
        meant = column.typeof().isin(["real", "integer"])
        return ibis.ifelse(meant, column.cast("float64"), ibis.null("float64"))
    if kind.is_floating() or kind.is_integer():
        return column.cast("float64")
    if kind.is_decimal():
        digits = kind.precision
        if engine == "postgres" or (digits is not None and digits <= _MOST_DIGITS):
            return column.cast("float64")
    return None


def _clipped(ibis: Any, score: Any, cuts: Cuts, engine: str) -> Any:
    low, high = _exact(ibis, cuts.low), _exact(ibis, cuts.high)
    return ibis.cases(
        (missing(score, engine), ibis.null("float64")),
        (score < low, _exact(ibis, cuts.low - cuts.beyond)),
        (score > high, _exact(ibis, cuts.high + cuts.beyond)),
        else_=score,
    )


def _rounded(ibis: Any, score: Any, cuts: Cuts) -> Any:
    scale = _exact(ibis, 2.0**cuts.exponent)
    cell = (score * scale).floor()
    whole = cell.cast("float64") / scale
    if not cuts.mixed:
        return whole
    return ibis.ifelse(cell.isin(list(cuts.mixed)), score, whole)


def _exact(ibis: Any, value: float) -> Any:
    """Write a double as whole numbers, and products and quotients by powers of two."""
    ratio = Fraction(value)
    above, below = ratio.numerator, ratio.denominator
    factors = []
    while abs(above) >= _WORD:
        factors.append(min(above & -above, _WORD // 2))
        above //= factors[-1]
    exact = ibis.literal(above, "int64").cast("float64")
    for factor in factors:
        exact *= ibis.literal(factor, "int64").cast("float64")
    while below > 1:
        step = min(below, _WORD)
        exact /= ibis.literal(step, "int64").cast("float64")
        below //= step
    return exact


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
    ibis = load("ibis", "sql")
    schema, _, name = table.rpartition(".")
    other = "string" if bound.most is None else "int64"
    columns = {n: "float64" if n in names.numbers() else other for n in names.all()}
    unseen = ibis.table(columns, name=name, database=schema or None)
    reason = obstacle(unseen, names, cuts, engine)
    if reason is None and bound.most is not None:
        unseen = bounded(unseen, names, scores, bound.most, engine)
        reason = None if unseen is not None else "people in groups are not told apart"
    if reason is not None:
        raise InputError(f"there is no such query: {reason}")
    query = folded(unseen, names, cuts, engine, bound=bound)
    return str(ibis.to_sql(query, dialect=_DIALECTS.get(engine, engine)))
