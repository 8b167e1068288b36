# ruff: noqa: INP001 - a script
"""Write the scored test patients of three simulated hospitals, a file each."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from discreet.cli.demo import simulate_hospitals

for name, hospital in zip(
    ("north", "south", "east"), simulate_hospitals(), strict=False
):
    table = pa.table({"y_true": hospital.labels, "y_score": hospital.scores})
    pq.write_table(table, f"{name}.parquet")
