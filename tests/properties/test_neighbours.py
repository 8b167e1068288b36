"""One odd row, through every source: the counts move by no more than the noise hides."""

import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neighbours
from fuzzing import draws

pytestmark = pytest.mark.long

SLOW = ("pandas", "Parquet", "a folder of Parquet", "counts", "DuckDB", "SQLite")
"""Sources of which a pair takes a tenth of a second and more."""


def checked(source, seed):
    with tempfile.TemporaryDirectory() as folder:
        neighbours.check_pair(source, seed, folder)


@pytest.mark.parametrize("source", sorted({*neighbours.SOURCES} - {*SLOW}))
@draws(12)
@given(seed=st.integers(0, 2**32))
def test_one_unit_moves_the_counts_by_no_more_than_the_sensitivity(source, seed):
    checked(source, seed)


@pytest.mark.parametrize("source", SLOW)
@draws(1)
@given(seed=st.integers(0, 2**32))
def test_one_unit_moves_the_counts_in_files_and_engines_no_further(source, seed):
    checked(source, seed)


def portable(rng):
    """Rows that every source can hold, in columns of one type each."""
    n = 30
    return [
        {
            "s0": float(np.round(rng.random(), 3)),
            "s1": float(np.round(rng.random(), 3)),
            "s2": float(rng.integers(2)),
            "y": int(rng.integers(2)),
            "g": [1, 2, None, 5][rng.integers(4)],
            "who": int(rng.integers(9)),
            "w": [1, 2, 5, None][rng.integers(4)],
            "t": [0.0, 1.0, 1.5, 2.5, 9.0, -1.0, None][rng.integers(7)],
        }
        for _ in range(n)
    ]


@pytest.mark.parametrize("name", neighbours.CASES)
def test_the_same_rows_give_the_same_counts_through_every_source(name, rng, tmp_path):
    case, rows = neighbours.CASES[name], portable(rng)
    expected = None
    for source, (made, cases) in neighbours.SOURCES.items():
        if name in cases and source != "damaged CSV":
            counts = neighbours.counted(made, rows, case, tmp_path).tolist()
            expected = expected or counts
            assert counts == expected, source
    assert sum(expected) > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # pyspark's own
@pytest.mark.parametrize(
    ("name", "pairs"), [("postgres", 40), ("mariadb", 40), ("spark", 2)]
)
def test_one_unit_moves_the_counts_in_a_server_no_further(name, pairs):
    with neighbours.server(name) as source, tempfile.TemporaryDirectory() as folder:
        for seed in range(pairs):
            neighbours.check_pair(source, seed, folder)
