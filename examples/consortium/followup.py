# ruff: noqa: INP001 - a script
"""Write the followed-up patients of three simulated hospitals: two files, one database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HORIZON = 1825.0
rng = np.random.default_rng(7)
for name, size, hazard in (
    ("north", 3000, 1.0),
    ("south", 2200, 1.6),
    ("east", 1500, 0.7),
):
    z = rng.normal(0.0, 1.1, size)
    rate = 0.25 * hazard * np.exp(z) / HORIZON
    died = rng.exponential(1 / rate)
    left = rng.uniform(200.0, 3000.0, size)
    table = pa.table(
        {
            "risk": 1 - np.exp(-0.25 * np.exp(z)),  # by five years, where hazard is 1
            "days": np.floor(np.minimum(died, left)),
            "died": (died <= left).astype(np.int64),
            "sex": rng.choice(["f", "m"], size),
        }
    )
    if name != "east":
        pq.write_table(table, f"{name}.parquet")
        continue
    Path("east.sqlite").unlink(missing_ok=True)
    with sqlite3.connect("east.sqlite") as database:
        database.execute(
            "CREATE TABLE patients (risk REAL, days REAL, died INT, sex TEXT)"
        )
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        database.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", rows)
    database.close()
