"""A long pass tells how far it is, a quick one nothing; counts are the same."""

import threading
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.data import batches
from discreet.data.edges import Edges, Uniform
from discreet.statistic import ClassHistogram

PATIENCE = 120.0
"""Seconds in which whatever is waited for happens, on any machine that is busy."""
SMALL = ClassHistogram(Edges.realise(Uniform(16)))


class Heard:
    """A listener; the pass may go on only after it was told something."""

    def __init__(self):
        self.shares, self.told = [], threading.Event()

    def __call__(self, share, seconds):
        assert seconds >= 0
        self.shares.append(share)
        self.told.set()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(batches, "_QUIET", 0)
    monkeypatch.setattr(batches, "_EVERY", 0)


def rows(n):
    rng = np.random.default_rng(0)
    return pa.table({"y_score": rng.random(n), "y_true": rng.integers(0, 2, n)})


@pytest.mark.usefixtures("impatient")
def test_row_groups_that_were_read_are_told_and_the_end_too(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pq.write_table(rows(4000), path, row_group_size=100)
    site, plain = discreet.read(path), discreet.read(path)
    expected = SMALL.count(plain)
    site.listener = heard = Heard()
    read = pq.ParquetFile.iter_batches

    def told_before(*words, **options):
        assert heard.told.wait(PATIENCE)
        return read(*words, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", told_before)
    assert np.array_equal(SMALL.count(site.fitted()), expected)
    assert heard.shares[-1] == 1.0
    assert heard.shares == sorted(heard.shares)
    assert min(heard.shares) >= 0


def test_a_quick_pass_tells_nothing(monkeypatch):
    monkeypatch.setattr(batches, "_QUIET", PATIENCE)  # any pass is quick
    site = discreet.read(rows(1000))
    site.listener = heard = Heard()
    SMALL.count(site)
    assert heard.shares == []


@pytest.mark.usefixtures("impatient")
def test_time_alone_is_told_of_a_source_that_is_one_part():
    heard = Heard()

    def part():
        assert heard.told.wait(PATIENCE)
        return iter(())

    assert batches.spread([part], list, heard) == [[]]
    assert heard.shares[0] is None
    assert heard.shares[-1] == 1.0


def test_a_failing_pass_ends_the_telling():
    def broken():
        raise discreet.InputError("damaged")

    with pytest.raises(discreet.InputError, match="damaged"):
        batches.spread([broken], list, Heard())
    assert all(thread.name != "pace" for thread in threading.enumerate())


def test_duckdb_says_how_far_its_query_is(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(path) as made:
        made.execute(
            "CREATE TABLE t AS SELECT random() AS y_score, 1 AS y_true "
            "FROM range(1000000)"
        )
    site = discreet.read(path, table="t")
    source = site._source
    assert source.pace() is None  # nothing runs
    shares = []
    over = threading.Event()

    def ask():
        while not over.wait(0.005):
            shares.append(source.pace())

    asking = threading.Thread(target=ask)
    asking.start()
    end = time.monotonic() + PATIENCE
    while not any(shares) and time.monotonic() < end:
        SMALL.count(site)
    over.set()
    asking.join()
    known = [share for share in shares if share is not None]
    assert any(known)
    assert all(0 <= share <= 1 for share in known)
