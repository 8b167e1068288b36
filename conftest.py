"""Examples in Markdown run in a folder that holds the files they read."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(autouse=True)
def _files_of_the_examples(request, tmp_path, monkeypatch):
    if Path(request.node.path).suffix != ".md":
        return
    rng = np.random.default_rng(7)
    for name, rows, prevalence in (("north", 9000, 0.35), ("south", 6000, 0.15)):
        y = (rng.random(rows) < prevalence).astype(int)
        logit = rng.normal(0, 1.4, rows) + 2.2 * y - 1.8
        s = 1 / (1 + np.exp(-logit))
        old = 1 / (1 + np.exp(-logit - np.random.default_rng(8).normal(0, 1.5, rows)))
        table = pa.table(
            {
                "y_true": y,
                "y_score": np.round(s, 6),
                "y_score_old": np.round(old, 6),
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
        table.to_pandas().to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
