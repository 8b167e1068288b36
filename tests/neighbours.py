"""Neighbouring sites through every source: one odd row, and how far the counts move.

    PYTHONPATH=. python tests/neighbours.py 700        # pairs of sites of each source; prints the cases
    PYTHONPATH=. python tests/neighbours.py 700 postgres mariadb spark

A pair of sites differs in one unit (a row, a person, or all rows). Both go through a real
source and the rules of a session, and every statistic counts both: the difference must be
within the sensitivity that the noise is sized for.
"""

import contextlib
import csv
import hashlib
import io
import math
import shutil
import sqlite3
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import discreet
from discreet.data.arrow_columns import Names
from discreet.data.cells import canonical
from discreet.data.csv_file import CountsFile
from discreet.data.edges import Cuts, Edges, Uniform
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.pushdown import UNBOUNDED, weight_name
from discreet.data.scores import ScoreRange
from discreet.errors import ReadHereWarning
from discreet.privacy.unit import EXAMPLE, Unit
from discreet.session.respond import bounded
from discreet.statistic import ClassHistogram, Grouped, OneVsRest, Paired
from discreet.statistic.timed import TimedGroups, TimedHistogram, TimedPair
from discreet.statistic.weighted import Weighted
from engine_tables import IbisTable, started

EDGES = Edges.realise(Uniform(4))
PLAIN = ClassHistogram(EDGES)
TIMED = TimedHistogram(EDGES, (0.0, 1.0, 2.5))
CAUSES = TimedHistogram(EDGES, (0.0, 1.0, 2.5), causes=2)
SOME = Grouped(PLAIN, ("1", "2", "a"))
ALL = Grouped(PLAIN, ("1", "a", "other"))
REPLACED = Unit("example", "replace")
PERSON = Unit("subject", "add_remove", 2)
CLIENT = Unit("client", "add_remove", 3)
CLASSES = ("0", "1", "2")
SCORES = ("s0", "s1", "s2")
COLUMNS = (*SCORES, "y", "g", "who", "w", "t")


@dataclass(frozen=True)
class Case:
    """What a plan asks, of which columns, for which unit."""

    statistic: object
    unit: Unit
    group: str | None = None
    weight: str | None = None
    scores: int = 1
    labels: dict = field(default_factory=dict)
    timed: bool = False

    @property
    def subject(self):
        return "who" if self.unit.kind == "subject" else None

    def options(self):
        return {
            "score": list(SCORES[: self.scores]) if self.scores > 1 else "s0",
            **({"event": "y", "time": "t"} if self.timed else {"label": "y"}),
            "group": self.group,
            "subject": self.subject,
            "weight": self.weight,
            **self.labels,
        }


CASES = {
    "histogram": Case(PLAIN, EXAMPLE),
    "histogram, a row replaced": Case(PLAIN, REPLACED),
    "groups": Case(SOME, EXAMPLE, group="g"),
    "groups and the rest": Case(ALL, EXAMPLE, group="g"),
    "groups, a row replaced": Case(ALL, REPLACED, group="g"),
    "weights": Case(Weighted(PLAIN, 5), EXAMPLE, weight="w"),
    "a positive number": Case(PLAIN, EXAMPLE, labels={"positive": 1}),
    "a positive text": Case(PLAIN, EXAMPLE, labels={"positive": "1"}),
    "classes": Case(
        OneVsRest(EDGES, CLASSES), EXAMPLE, scores=3, labels={"classes": CLASSES}
    ),
    "two models": Case(Paired(EDGES, EDGES, "joint"), EXAMPLE, scores=2),
    "people": Case(PLAIN, PERSON),
    "people in groups": Case(ALL, PERSON, group="g"),
    "people with weights": Case(Weighted(PLAIN, 5), PERSON, weight="w"),
    "people, a positive text": Case(PLAIN, PERSON, labels={"positive": "1"}),
    "a client": Case(PLAIN, CLIENT),
    "a client in groups": Case(ALL, CLIENT, group="g"),
    "follow-up": Case(TIMED, EXAMPLE, timed=True),
    "follow-up, a row replaced": Case(TIMED, REPLACED, timed=True),
    "follow-up of two causes": Case(CAUSES, EXAMPLE, labels={"causes": 2}, timed=True),
    "follow-up, two models": Case(TimedPair(TIMED), EXAMPLE, scores=2, timed=True),
    "follow-up of people": Case(TIMED, PERSON, timed=True),
    "follow-up of a client in groups": Case(
        TimedGroups(TIMED, ("1", "a", "other")), CLIENT, group="g", timed=True
    ),
}

BIG = 2**60 + 1
STYLES = {
    "s": [lambda r: float(np.round(r.random(), 3)), lambda r: int(r.integers(2))],
    "y": [
        lambda r: int(r.integers(2)),
        lambda r: float(r.integers(2)),
        lambda r: bool(r.integers(2)),
        lambda r: str(r.integers(2)),
    ],
    "g": [
        lambda r: int(r.integers(4)),
        lambda r: float(r.integers(4)),
        lambda r: "abc"[r.integers(3)],
        lambda r: "aAá"[r.integers(3)],
        lambda r: str(r.integers(4)),
        lambda r: bool(r.integers(2)),
    ],
    "who": [
        lambda r: int(r.integers(6)),
        lambda r: float(r.integers(6)),
        lambda r: "p" + str(r.integers(6)),
        lambda r: str(r.integers(6)),
    ],
    "w": [lambda r: int(r.integers(6)), lambda r: float(r.integers(6))],
    "t": [lambda r: float(np.round(4 * r.random(), 1)), lambda r: int(r.integers(4))],
}
"""How a site's plain columns are written: one way for a whole column."""
ODD = {
    "s": [
        *(None, math.nan, "high", "0.5", True, 7.0, -3, math.inf, -math.inf, 10**400),
        *("", 1e308, " 0.25", 10**20, "1_0"),
    ],
    "y": [
        *(None, math.nan, 1.0, "1", "0.0", True, False, "yes", "", 7, "x", 0.5, 10**30),
        *("NA", "true", " 1", 2, "2.0", "01", "X", "Yes"),
    ],
    "g": [
        *(None, math.nan, 1.0, "1", "1.0", True, "a", "", "NA", BIG, 10**30, 1.5),
        *(" a ", "other", "é", "z" * 3000, 2, "false", "007", "nan", "A", "á", "Other"),
    ],
    "who": [
        *(None, math.nan, 3.0, "3", "3.0", 3, "p", True, "", BIG, "NA", 2.5, "p3"),
        "P3",
    ],
    "w": [None, math.nan, "3", "many", -2, 2.5, 1e9, True, 10**30, math.inf, ""],
    "t": [
        *(None, math.nan, "1", "late", -1, -0.0, 0, True, math.inf, -math.inf, ""),
        *(10**30, 10**400, 1e308, 2.5, " 1.0", 5e-324),
    ],
}


def kind_of(column):
    return "s" if column in SCORES else column


@dataclass
class Site:
    """Rows of a random site: plain ones, and odd ones at a place of their own."""

    rows: list
    odd: list
    stand_in: dict
    place: int

    @classmethod
    def drawn(cls, rng):
        ways = {c: STYLES[kind_of(c)] for c in COLUMNS}
        style = {c: way[rng.integers(len(way))] for c, way in ways.items()}

        def plain():
            return {c: style[c](rng) for c in COLUMNS}

        rows = [plain() for _ in range(rng.integers(0, 14))]
        odd = plain()
        for c in rng.permutation(COLUMNS)[: 1 + rng.integers(3)]:
            choices = ODD[kind_of(c)]
            odd[c] = choices[rng.integers(len(choices))]
        several = [odd]
        if canonical(odd["who"]) == "3":
            more = [{**plain(), "who": who} for who in (3, 3.0, "3", "3.0")]
            several += more[: rng.integers(5)]
        return cls(rows, several, plain(), int(rng.integers(len(rows) + 1)))

    def pair(self, unit):
        """Return two sites that differ in one unit."""
        first, last = self.rows[: self.place], self.rows[self.place :]
        if unit.kind == "client":
            return [*first, *self.odd, *last], []
        if unit.kind == "subject":
            whole = [*first, *self.odd, *last]
            who = canonical(self.odd[0]["who"])
            if who is None:
                return whole, [*first, *self.odd[1:], *last]
            return whole, [row for row in whole if canonical(row["who"]) != who]
        other = [self.stand_in] if unit.relation == "replace" else []
        return [*first, self.odd[0], *last], [*first, *other, *last]


def column_of(rows, name):
    return [row[name] for row in rows]


# Sources: rows and a case in, examples out. Each does what a user of it would do.


def examples(rows, case, make):
    if case.scores == 1:
        scores = make(column_of(rows, "s0"))
    else:
        matrix = [[row[c] for c in SCORES[: case.scores]] for row in rows]
        scores = make(matrix) if rows else np.zeros((0, case.scores))
    wanted = {"groups": case.group, "subjects": case.subject, "weights": case.weight}
    more = {k: make(column_of(rows, c)) for k, c in wanted.items() if c}
    outcome = make(column_of(rows, "y"))
    if case.timed:
        more |= {"event": outcome, "time": make(column_of(rows, "t"))}
    else:
        more["labels"] = outcome
    return Examples(scores, **more, **case.labels, check=False)


def arrays(make):
    return lambda rows, case, _: examples(rows, case, make)


def frames(make):
    return lambda rows, case, _: discreet.read(make(rows), **case.options())


def pandas_frame(rows):
    import pandas as pd

    return pd.DataFrame({c: column_of(rows, c) for c in COLUMNS})


def polars_frame(rows):
    import polars as pl

    def series(name):
        cells = column_of(rows, name)
        try:
            return pl.Series(name, cells)
        except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
            return pl.Series(name, cells, dtype=pl.Object)

    return pl.DataFrame([series(c) for c in COLUMNS])


def arrow_table(rows):
    import pyarrow as pa

    def column(name):
        cells = column_of(rows, name)
        try:
            return pa.array(cells)
        except (pa.ArrowException, OverflowError, TypeError):  # all become text
            return pa.array([None if c is None else str(c) for c in cells])

    return pa.table({c: column(c) for c in COLUMNS})


def from_parquet(rows, case, folder):
    import pyarrow.parquet as pq

    def written(path):
        pq.write_table(arrow_table(rows), path, row_group_size=3)

    return discreet.read(kept(folder, rows, written, ".parquet"), **case.options())


def from_folder(rows, case, folder):
    """One file of each group: folders' names are the groups, files have their own types."""
    import urllib.parse

    import pyarrow.parquet as pq

    def written(path):
        (path / "g=a").mkdir(parents=True)
        pq.write_table(arrow_table([]).drop_columns(["g"]), path / "g=a" / "no.parquet")
        for k, row in enumerate(rows):
            text = "" if row["g"] is None else str(row["g"])
            name = urllib.parse.quote(text, safe="") or "__HIVE_DEFAULT_PARTITION__"
            inner = path / f"g={name[:200]}"
            inner.mkdir(exist_ok=True)
            own = arrow_table([row]).drop_columns(["g"])
            pq.write_table(own, inner / f"{k}.parquet")

    return discreet.read(kept(folder, rows, written, ""), **case.options())


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def from_csv(rows, case, folder):
    def written(path):
        write_csv(path, COLUMNS, ([row[c] for c in COLUMNS] for row in rows))

    return discreet.read(kept(folder, rows, written, ".csv"), **case.options())


def from_damaged_csv(rows, case, folder):
    """Rows with an empty group are written as lines that are no rows."""
    lines = [",".join(COLUMNS)]
    for row in rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([row[c] for c in COLUMNS])
        line = text.getvalue()
        match row["g"]:
            case "":
                line = line.partition(",")[2]
            case "NA":
                line = line.replace("NA", '"NA')
            case "nan":
                line = '"' + line
            case None:
                line += ',more,"cells'
            case "é":
                line = line.replace("é", 'x"y,"z')
        lines.append(line)
    text = "\n".join(lines).encode("latin-1")
    path = kept(folder, rows, lambda path: path.write_bytes(text), ".csv")
    return discreet.read(path, **case.options())


def from_counts(rows, case, folder):
    """Counts by label, group and score, as an engine writes them."""
    time_column = "t" if case.timed else None
    names = Names(
        SCORES[: case.scores], "y", case.group, title="counts", time=time_column
    )
    cuts = [Cuts.within(ScoreRange(), edges) for edges in case.statistic.columns]
    cuts += [case.statistic.time_cuts] if case.timed else []
    keys = ["y", *(["g"] if case.group else []), *SCORES[: case.scores]]
    keys += ["t"] if case.timed else []
    counts = {}
    for row in rows:
        key = tuple("" if row[c] is None else str(row[c]) for c in keys)
        counts[key] = counts.get(key, 0) + 1

    def written(path):
        header = [*keys, weight_name(cuts, UNBOUNDED)]
        write_csv(path, header, ([*key, many] for key, many in counts.items()))

    path = kept(folder, (rows, case.options()), written, ".csv")
    classes = case.labels.get("classes")
    if "causes" in case.labels:
        classes = tuple(range(case.labels["causes"] + 1))
    code = LabelCode(case.labels.get("positive"), classes)
    source = CountsFile(path, names, cuts, UNBOUNDED)
    return Examples.from_source(
        source,
        labels=code,
        scores=ScoreRange(),
        columns=case.scores,
        timed=case.timed,
    )


def from_duckdb(rows, case, folder):
    """One database a pair: opening a file takes longer than all its counts."""
    import duckdb

    if CONNECTED.get("folder") != folder:
        if "duckdb" in CONNECTED:
            CONNECTED["duckdb"].close()
        CONNECTED.update(folder=folder, duckdb=duckdb.connect(), made=set())
    connection = CONNECTED["duckdb"]
    name = f"rows_{digest_of(rows)}"
    if name not in CONNECTED["made"]:
        table = arrow_table(rows)
        columns = typed(table, "VARCHAR COLLATE NOCASE.NOACCENT")
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.register("given", table)
        connection.execute(f"INSERT INTO {name} SELECT * FROM given")  # noqa: S608 - our own name
        connection.unregister("given")
        CONNECTED["made"].add(name)
    table = IbisTable(connection, f"SELECT * FROM {name}")  # noqa: S608 - as above
    return discreet.read(table, **case.options())


def typed(table, text, double="DOUBLE"):
    """Return the columns of a table as an engine takes them; texts have a collation."""
    kinds = {"int64": "BIGINT", "double": double, "bool": "BOOLEAN"}
    return ", ".join(f"{f.name} {kinds.get(str(f.type), text)}" for f in table.schema)


CONNECTED = {}
DECLARED = {"s": "REAL", "w": "NUMERIC", "t": "REAL", "g": "COLLATE NOCASE"}
DECLARED |= dict.fromkeys(("y", "who"), "INTEGER COLLATE NOCASE")


def from_sqlite(rows, case, folder):
    """Columns of declared types, and one of none; a cell may hold anything."""

    def written(path):
        columns = ", ".join(f"{c} {DECLARED[kind_of(c)]}" for c in COLUMNS)
        with sqlite3.connect(path) as made:
            made.execute(f"CREATE TABLE rows ({columns})")
            marks = ", ".join("?" * len(COLUMNS))
            made.executemany(
                f"INSERT INTO rows VALUES ({marks})",  # noqa: S608 - our own columns
                [[storable(row[c]) for c in COLUMNS] for row in rows],
            )
        made.close()

    path = kept(folder, rows, written, ".sqlite")
    return discreet.read(path, table="rows", **case.options())


def storable(cell):
    """SQLite's numbers end at 64 bits."""
    if isinstance(cell, int) and abs(cell) >= 2**63:
        return math.inf if abs(cell) > 1e308 else float(cell)
    return cell


def digest_of(rows):
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def kept(folder, rows, written, ending):
    """Write the same rows once for all cases of a pair."""
    path = Path(folder) / f"{digest_of(rows)}{ending}"
    if not path.exists():
        written(path)
    return path


@contextlib.contextmanager
def server(name):
    """Start an engine of its own; yield it as a source whose texts have a collation."""
    with tempfile.TemporaryDirectory() as folder, started(name, Path(folder)) as engine:
        held = {}

        def source(rows, case, folder):
            del folder
            key = digest_of(rows)
            if key not in held:
                table = engine.storable(arrow_table(rows))
                nothing = [f.name for f in table.schema if str(f.type) == "null"]
                for place in map(table.column_names.index, nothing):
                    texts = table.column(place).cast("string")
                    table = table.set_column(place, table.column_names[place], texts)
                held[key] = engine.held(table, COLLATED[name])
            return discreet.read(held[key], **case.options())

        yield source


COLLATED = {
    "postgres": "text COLLATE nocase",
    "mariadb": "text COLLATE utf8mb4_general_ci",
    "spark": "UTF8_LCASE",
}
ROWS = list(CASES)
COUNTED = [
    name
    for name, case in CASES.items()
    if case.weight is None and case.unit.kind == "example"
]
SOURCES = {
    "lists": (arrays(list), ROWS),
    "NumPy arrays": (arrays(np.asarray), ROWS),
    "arrays of objects": (arrays(lambda c: np.array(c, dtype=object)), ROWS),
    "pandas": (frames(pandas_frame), ROWS),
    "polars": (frames(polars_frame), ROWS),
    "Arrow": (frames(arrow_table), ROWS),
    "CSV": (from_csv, ROWS),
    "damaged CSV": (from_damaged_csv, ROWS),
    "Parquet": (from_parquet, ROWS),
    "a folder of Parquet": (from_folder, ROWS),
    "counts": (from_counts, COUNTED),
    "DuckDB": (from_duckdb, ROWS),
    "SQLite": (from_sqlite, ROWS),
}


def counted(source, rows, case, folder):
    """Count as a site in a session does: nothing may be refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadHereWarning)
        held = source(rows, case, folder)
        fitted = held.fitted(every_row=case.unit.relation == "replace")
        return case.statistic.count(bounded(fitted, case.unit))


def check_pair(source, seed, folder, names=None):
    """Compare both sites of a pair in every case; return how many were compared."""
    made, own = SOURCES[source] if isinstance(source, str) else (source, ROWS)
    site = Site.drawn(np.random.default_rng(seed))
    for name in names or own:
        case = CASES[name]
        one, other = (
            counted(made, rows, case, folder) for rows in site.pair(case.unit)
        )
        moved = np.abs(one - other)
        most = case.statistic.sensitivity(case.unit)
        found = (moved.sum(), (moved**2).sum(), moved.max())
        allowed = (most.l1, most.l2_squared, most.linf)
        assert all(f <= a for f, a in zip(found, allowed, strict=True)), (
            f"{source}, {name}, pair {seed}: moved by {found}, allowed {allowed}"
        )
    return len(names or own)


def main():
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    chosen = sys.argv[2:] or SOURCES
    for source in chosen:
        start, cases = time.monotonic(), 0
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            made = source
            if source in COLLATED:
                made = stack.enter_context(server(source))
            for seed in range(pairs):
                inner = Path(folder) / str(seed)
                inner.mkdir()
                cases += check_pair(made, seed, inner)
                shutil.rmtree(inner)
        spent = time.monotonic() - start
        line = f"{source:24}{pairs:8,} pairs {cases:9,} cases {spent:8.0f} s"
        print(line, flush=True)  # noqa: T201 - a program


if __name__ == "__main__":
    main()
