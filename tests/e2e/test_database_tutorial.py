"""The database tutorial's commands, executed as they are written, on a real PostgreSQL."""

import json
import shutil

import pytest

from bench import postgres_cluster
from e2e.tutorials import commands, execute


@pytest.mark.slow
@pytest.mark.page("docs/tutorial-database.md")
def test_the_database_tutorial(tmp_path, monkeypatch):
    if postgres_cluster.programs() is None or shutil.which("psql") is None:
        pytest.skip("no PostgreSQL: run tests/engines/install.sh")
    with postgres_cluster.cluster() as address:
        parts = dict(part.split("=") for part in address.split())
        monkeypatch.setenv("PGHOST", parts["host"])
        monkeypatch.setenv("PGPORT", parts["port"])
        monkeypatch.setenv("PGUSER", parts["user"])
        monkeypatch.setenv("PGDATABASE", parts["dbname"])
        said = execute(commands("tutorial-database.md"), tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    assert 0.5 < result["metrics"]["auc"]["value"] < 1
    assert "3 of 3 sites" in said
    assert "examples were counted where they are" in said
    assert "rows are read instead of counted" not in said
    assert "GROUP BY" in (tmp_path / "query.sql").read_text()
