"""Real engines that hold a test's rows, and tables of them as Ibis would give them."""

# ruff: noqa: S608 - our own tables
import contextlib
import importlib.util
import os
import shutil
import sqlite3
import tempfile
import warnings
from types import SimpleNamespace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import mariadb_cluster, postgres_cluster


class IbisTable:
    """What discreet asks of a table of Ibis, over a driver's own connection.

    Ibis itself holds DuckDB, sqlglot and Spark below their newest versions, so no
    environment of ours has it. What its tables are asked for is public: their
    backend's connection, and their SQL.
    """

    def __init__(self, connection, text, backend=""):
        self.connection, self.text, self.backend = connection, text, backend

    def get_backend(self):
        own = "_session" if self.backend == "pyspark" else "con"
        return SimpleNamespace(name=self.backend, **{own: self.connection})

    def compile(self):
        return self.text


IbisTable.__module__ = "ibis.expr.types.relations"


def loaded(connection, name, rows):
    """Put rows into a table of DuckDB."""
    connection.register("given", rows)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    connection.unregister("given")
    return IbisTable(connection, f"SELECT * FROM {name}")


def in_duckdb(rows, tmp_path):
    del tmp_path
    return loaded(duckdb.connect(), "rows", rows)


def in_sqlite(rows, tmp_path):
    kinds = {"double": "REAL", "int64": "INTEGER", "bool": "BOOLEAN", "string": "TEXT"}
    columns = ", ".join(f'"{f.name}" {kinds[str(f.type)]}' for f in rows.schema)
    path = tmp_path / "rows.sqlite"
    values = zip(*(c.to_pylist() for c in rows.columns), strict=True)
    executed(path, f"CREATE TABLE rows ({columns})", rows=values)
    return IbisTable(sqlite3.connect(path), "SELECT * FROM rows")


def executed(path, *statements, rows=()):
    """Run statements on a SQLite file, and put rows into its table ``rows``."""
    with contextlib.closing(sqlite3.connect(path)) as made, made:
        found = [made.execute(text).fetchall() for text in statements]
        columns = made.execute("PRAGMA table_info(rows)").fetchall()
        marks = ", ".join("?" * len(columns))
        if columns:
            made.executemany(f"INSERT INTO rows VALUES ({marks})", rows)
    return found


class Engine:
    """Where rows are put; ``storable`` says what of them the engine can hold."""

    tables, double = 0, "double"
    collations = ()
    """Types of texts, each with a collation that calls some different texts equal."""

    def storable(self, rows):
        return rows

    def created(self, rows, cursor, text="text"):
        """Make a table with the columns of these rows; return its name."""
        kinds = {"int64": "bigint", "bool": "boolean", "string": text}
        kinds["double"] = self.double
        self.tables += 1
        columns = ", ".join(f"{f.name} {kinds[str(f.type)]}" for f in rows.schema)
        cursor.execute(f"CREATE TABLE rows{self.tables} ({columns})")
        return f"rows{self.tables}"


class DuckDB(Engine):
    name = "duckdb"
    collations = (
        "VARCHAR COLLATE NOCASE",
        "VARCHAR COLLATE NOCASE.NOACCENT",
        "default",
    )

    def __init__(self, folder):
        del folder
        self.connection = duckdb.connect()

    def held(self, rows, text="VARCHAR"):
        if text == "default":
            self.connection.execute("SET default_collation = 'nocase'")
            text = "VARCHAR"
        name = self.created(rows, self.connection, text)
        self.connection.register("given", rows)
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM given")
        self.connection.unregister("given")
        return IbisTable(self.connection, f"SELECT * FROM {name}")


class SQLite(Engine):
    name = "sqlite"
    collations = ("TEXT COLLATE NOCASE", "TEXT COLLATE RTRIM")

    def __init__(self, folder):
        self.address = folder / "rows.sqlite"
        self.connection = sqlite3.connect(self.address)

    def held(self, rows, text="TEXT"):
        name = self.created(rows, self.connection, text)
        marks = ", ".join("?" * rows.num_columns)
        values = zip(*(c.to_pylist() for c in rows.columns), strict=True)
        self.connection.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
        self.connection.commit()
        return IbisTable(self.connection, f"SELECT * FROM {name}")


class Postgres(Engine):
    name = "postgres"
    double = "double precision"
    collations = ("text COLLATE nocase", "citext", "varchar(40) COLLATE nocase")

    def __init__(self, address):
        import psycopg

        parts = dict(part.split("=") for part in address.split())
        self.address = (
            "postgres:///{dbname}?host={host}&port={port}&user={user}".format(**parts)
        )
        self.connection = psycopg.connect(address, autocommit=True)
        self.connection.execute("CREATE EXTENSION citext")
        self.connection.execute(
            "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level1', "
            "deterministic = false)"
        )

    def held(self, rows, text="text"):
        name = self.created(rows, self.connection, text)
        copied = f"COPY {name} FROM STDIN (FORMAT csv, NULL '\\N')"
        with self.connection.cursor() as cursor, cursor.copy(copied) as copy:
            for batch in rows.to_batches(2**20):
                copy.write(_as_csv(batch))
        return IbisTable(self.connection, f"SELECT * FROM {name}")


class Maria(Engine):
    name = "mariadb"
    collations = (
        "varchar(40) COLLATE utf8mb4_general_ci",
        "text COLLATE utf8mb4_unicode_ci",
        "varchar(40) COLLATE utf8mb4_bin",
        "varchar(40) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        "varchar(40) CHARACTER SET ucs2 COLLATE ucs2_general_ci",
    )

    def __init__(self, port):
        import pymysql

        self.connection = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="discreet",
            password=mariadb_cluster.PASSWORD,
            database="discreet",
            charset="utf8mb4",
            autocommit=True,
            local_infile=True,
        )
        self.address = f"mysql://discreet@127.0.0.1:{port}/discreet"

    def storable(self, rows):
        """Its doubles are finite: NaN is NULL there, and infinity the widest number."""
        for k, column in enumerate(rows.columns):
            if pa.types.is_floating(column.type):
                null = column.is_null(nan_is_null=True).to_numpy()
                wide = np.clip(column.to_numpy(), -1.7e308, 1.7e308)
                finite = pa.array(wide, mask=null)
                rows = rows.set_column(k, rows.column_names[k], finite)
        return rows

    def held(self, rows, text="text"):
        cursor = self.connection.cursor()
        name = self.created(rows, cursor, text)
        places = [
            place if str(place.type) != "bool" else place.cast("int64")
            for place in rows.columns
        ]
        plain = pa.table(places, names=rows.column_names)
        with tempfile.NamedTemporaryFile() as file:
            for batch in plain.to_batches(2**20):
                file.write(_as_csv(batch).encode())
            file.flush()
            cursor.execute(
                f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {name} "
                "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' "
                "OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '\\\\'"
            )
        return IbisTable(self.connection, f"SELECT * FROM {name}")


class Spark(Engine):
    collations = ("UTF8_LCASE", "UNICODE_CI_AI", "UNICODE_RTRIM")

    def __init__(self, session, folder):
        self.session, self.folder = session, folder

    def held(self, rows, text=None):
        self.tables += 1
        path = self.folder / f"rows{self.tables}.parquet"
        pq.write_table(rows, path)
        frame = self.session.read.parquet(str(path))
        if text is None:
            return frame
        columns = [
            f"{f.name} COLLATE {text} AS {f.name}"
            if pa.types.is_string(f.type)
            else f.name
            for f in rows.schema
        ]
        return frame.selectExpr(*columns)


def _as_csv(batch):
    """Write rows as the servers read them: 17 digits a double, \\N for null."""
    columns = []
    for column in batch.columns:
        null = column.is_null(nan_is_null=False).to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            plain = column.to_numpy(zero_copy_only=False).tolist()
            texts = [repr(v) for v in plain]
        else:
            texts = [
                f'"{str(v).replace(chr(34), chr(34) * 2)}"' for v in column.to_pylist()
            ]
        columns.append(["\\N" if n else t for n, t in zip(null, texts, strict=True)])
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))


@contextlib.contextmanager
def started(name, folder):
    """Start an engine, or skip the test where it is not installed."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")  # the drivers' own
        match name:
            case "duckdb" | "sqlite":
                made = (DuckDB if name == "duckdb" else SQLite)(folder)
                stack.callback(made.connection.close)
            case "postgres":
                if postgres_cluster.programs() is None:
                    pytest.skip("no PostgreSQL: run tests/engines/install.sh")
                address = stack.enter_context(postgres_cluster.cluster())
                made = Postgres(address)
                stack.callback(made.connection.close)
            case "mariadb":
                pytest.importorskip("pymysql", reason="run tests/engines/install.sh")
                if not mariadb_cluster.programs():
                    pytest.skip("no MariaDB: run tests/engines/install.sh")
                made = Maria(stack.enter_context(mariadb_cluster.cluster()))
                stack.callback(made.connection.close)
            case _:
                made = Spark(stack.enter_context(_session()), folder)
        yield made


@contextlib.contextmanager
def _session():
    if shutil.which("java") is None or importlib.util.find_spec("pyspark") is None:
        pytest.skip("no Java or pyspark: run tests/engines/install.sh")
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("discreet")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()
