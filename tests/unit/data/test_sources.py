"""Files, folders, Arrow and frames give the same counts, on every core."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import discreet
from discreet import InputError
from discreet.data import batches
from discreet.data.edges import Edges, Warped
from discreet.statistic import ClassHistogram, Grouped
from discreet.statistic.weighted import Weighted

HISTOGRAM = ClassHistogram(Edges.realise(Warped(64), thresholds=(0.3,)))
SCORES = [0.1, 0.8, 0.4, 0.9]
LABELS = [0, 1, 1, 0]


def refusal(*args, **options):
    with pytest.raises(InputError) as caught:
        discreet.read(*args, **options).validate()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_kind_of_source_reads_the_same_examples(tmp_path):
    table = pa.table({"y_score": SCORES, "y_true": LABELS, "ward": list("abab")})
    pq.write_table(table, tmp_path / "a.parquet")
    frame = table.to_pandas()
    frame.to_csv(tmp_path / "a.csv", index=False)
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        frame.to_csv(file, index=False)
    sources = [
        tmp_path / "a.parquet",
        str(tmp_path / "a.csv"),
        tmp_path / "a.csv.gz",
        table,
        frame,
        pl.DataFrame(frame),
        table.to_reader(),
    ]
    for source in sources:
        site = discreet.read(source, group="ward")
        for _ in range(2):  # two rounds read the data twice
            (batch,) = site.batches()
            assert batch.scores[0].tolist() == SCORES
            assert batch.labels.tolist() == LABELS
            assert list(batch.groups) == ["a", "b", "a", "b"]


def test_other_columns_and_labels_by_option():
    table = pa.table({"risk": [-2.5, 1.5], "outcome": ["died", "alive"]})
    site = discreet.read(
        table, score="risk", label="outcome", positive="died", kind="logit"
    )
    scores, labels = site.to_arrays()
    assert scores.tolist() == [-2.5, 1.5]
    assert labels.tolist() == [1, 0]


def test_a_null_is_a_missing_value():
    table = pa.table({"y_score": [0.1, None], "y_true": [1, 0]})
    assert "1 of 2 scores are missing" in refusal(table)
    table = pa.table({"y_score": [0.1, 0.2], "y_true": [1, None]})
    assert "1 of 2 labels are missing" in refusal(table)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.parquet", "not a readable Parquet file"),
        ("a.txt", "must end in .parquet"),
        ("nowhere.csv", "nowhere.csv: no such file"),
    ],
)
def test_unreadable_files_get_one_sentence(tmp_path, name, message):
    if name != "nowhere.csv":
        (tmp_path / name).write_text("no rows", encoding="utf-8")
    assert message in refusal(tmp_path / name)


def test_other_objects_are_refused():
    assert "Examples(scores, labels)" in refusal([[0.1, 0]])


def test_dictionaries_categories_and_decimals_are_read():
    words = ["n", "y", "y", "n"]
    decimals = pa.array(SCORES).cast(pa.decimal128(4, 3))
    coded = pa.array(words).dictionary_encode()
    for source in (
        pa.table({"y_score": decimals, "y_true": coded}),
        pd.DataFrame({"y_score": SCORES, "y_true": pd.Categorical(words)}),
    ):
        scores, labels = discreet.read(source, positive="y").to_arrays()
        assert (scores.tolist(), labels.tolist()) == (SCORES, LABELS)


@pytest.mark.long
def test_an_arrow_table_of_many_chunks_and_parts_is_counted_whole(rng):
    rows = 2 * batches.PART_ROWS + 12_345
    scores = rng.random(rows, dtype=np.float32)
    labels = scores > rng.random(rows)
    whole = pa.table({"y_score": scores, "y_true": labels})
    cut = [whole.slice(k, 400_000) for k in range(0, rows, 400_000)]
    site = discreet.read(pa.concat_tables(cut))
    np.testing.assert_array_equal(
        HISTOGRAM.count(site), HISTOGRAM.count(discreet.Examples(scores, labels))
    )
    assert len(site) == rows
    assert site.to_arrays()[0].size == rows


@pytest.fixture
def scored(rng):
    n = 30_000
    labels = (rng.random(n) < 0.3).astype(np.int64)
    wards = rng.choice(["a", "b", "c"], n)
    return pa.table({"y_score": rng.random(n), "y_true": labels, "ward": wards})


@pytest.fixture(params=[1, 3])
def on_cores(request, monkeypatch):
    monkeypatch.setattr(batches, "cores", lambda: request.param)


def counted_in_memory(table, statistic=HISTOGRAM, **options):
    groups = table["ward"].to_numpy(zero_copy_only=False)
    scores, labels = table["y_score"].to_numpy(), table["y_true"].to_numpy()
    return statistic.count(discreet.Examples(scores, labels, groups=groups, **options))


@pytest.mark.usefixtures("on_cores")
def test_a_partitioned_folder_counts_as_its_rows_do(tmp_path, scored):
    ds.write_dataset(
        scored,
        tmp_path / "lake",
        format="parquet",
        partitioning=["ward"],
        partitioning_flavor="hive",
        max_rows_per_group=1000,
        max_rows_per_file=4000,
    )
    site = discreet.read(tmp_path / "lake", group="ward")
    grouped = Grouped(HISTOGRAM, ("a", "b", "other"))
    assert np.array_equal(grouped.count(site), counted_in_memory(scored, grouped))
    assert len(site) == scored.num_rows


def test_the_name_of_one_folder_decides_about_no_other(tmp_path, scored):
    """Arrow takes folders' names for whole numbers, unless one of them is a word."""
    grouped = Grouped(HISTOGRAM, ("01", "1", "other"))

    def counted(*names):
        for name in names:
            (tmp_path / f"ward={name}").mkdir()
            own = scored.slice(0, 10).drop_columns("ward")
            pq.write_table(own, tmp_path / f"ward={name}" / "a.parquet")
        counts = grouped.count(discreet.read(tmp_path, group="ward").fitted())
        return counts.reshape(3, -1).sum(axis=1).tolist()

    assert counted("01", "1") == [10, 10, 0]
    assert counted("b") == [10, 10, 10]


@pytest.mark.usefixtures("on_cores")
def test_a_file_and_a_dataset_of_many_row_groups_count_alike(tmp_path, scored):
    path = tmp_path / "scores.parquet"
    pq.write_table(scored, path, row_group_size=777)
    expected = counted_in_memory(scored)
    for source in (path, ds.dataset(path), ds.dataset(scored)):
        site = discreet.read(source)
        for _ in range(2):
            assert np.array_equal(HISTOGRAM.count(site), expected)
            assert np.array_equal(HISTOGRAM.count(site.fitted()), expected)


@pytest.mark.usefixtures("on_cores")
def test_rows_that_do_not_fit_are_counted_over_all_parts(tmp_path):
    scores = pa.array([0.5, None, float("nan"), 7.0, -1.0] * 40)
    labels = pa.array([1, 0, 1, None, 0] * 40)
    table = pa.table({"y_score": scores, "y_true": labels})
    path = tmp_path / "scores.parquet"
    pq.write_table(table, path, row_group_size=7)
    site = discreet.read(path)
    with pytest.raises(
        InputError, match=r"80 of 200 scores are outside .*, and 80 are missing"
    ):
        site.validate()
    fitted = site.fitted()
    assert HISTOGRAM.count(fitted).sum() == 80
    assert fitted.set_aside == 120


@pytest.mark.usefixtures("on_cores")
def test_two_parts_with_different_other_labels_are_refused(tmp_path):
    labels, path = ["sick"] * 4 + ["a", "b"] * 2, tmp_path / "scores.parquet"
    table = pa.table({"y_score": [0.1, 0.2] * 4, "y_true": labels})
    pq.write_table(table, path, row_group_size=1)
    assert "more than two values" in refusal(path, positive="sick")


def test_a_label_written_as_text_means_the_number_beside_nulls_too():
    table = pa.table({"y_score": [0.1, 0.9, 0.4], "y_true": pa.array([0, 2, None])})
    fitted = discreet.read(table, positive="2").fitted()
    assert HISTOGRAM.count(fitted).reshape(2, -1).sum(axis=1).tolist() == [1, 1]


def test_a_failing_part_ends_the_others_and_says_what_is_wrong(tmp_path, scored):
    pq.write_table(scored, tmp_path / "a.parquet")
    pq.write_table(scored.drop_columns("y_true"), tmp_path / "b.parquet")
    assert "no column y_true among y_score, ward" in refusal(tmp_path)


def test_a_folder_without_parquet_is_refused(tmp_path):
    assert "no file of this folder ends in .parquet" in refusal(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    assert "not every file" in refusal(tmp_path)


def test_arrays_are_counted_at_once_in_several_threads(monkeypatch, rng):
    monkeypatch.setattr(batches, "cores", lambda: 3)
    n = 2_200_000
    scores, labels = rng.random(n), rng.integers(0, 2, n)
    expected = np.bincount(
        labels * len(HISTOGRAM.edges) + HISTOGRAM.edges.bins_of(scores),
        minlength=HISTOGRAM.size,
    )
    site = discreet.Examples(scores, labels)
    assert np.array_equal(HISTOGRAM.count(site), expected)
    labels[-1] = 2
    with pytest.raises(InputError, match=f"1 of {n} labels"):
        HISTOGRAM.count(site)


def test_a_delta_table_counts_as_it_is_now_and_not_with_what_was_deleted(
    tmp_path, scored
):
    deltalake = pytest.importorskip("deltalake")
    table = tmp_path / "table"
    deltalake.write_deltalake(table, scored, partition_by=["ward"])
    deltalake.write_deltalake(table, scored.slice(0, 100), mode="append")
    deltalake.DeltaTable(table).delete("ward = 'a'")
    now = deltalake.DeltaTable(table).to_pyarrow_table()
    assert 0 < now.num_rows < scored.num_rows
    scores, labels = discreet.read(table).to_arrays()
    assert sorted(zip(scores, labels, strict=True)) == sorted(
        zip(now["y_score"].to_numpy(), now["y_true"].to_numpy() == 1, strict=True)
    )


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        ("metadata/v1.metadata.json", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
        ("_delta_log/0.json", "Delta"),
    ],
)
def test_a_folder_that_is_holds_or_is_part_of_a_lakes_table_is_refused(
    tmp_path, scored, mark, kind
):
    table = tmp_path / "house" / "scores"
    (table / mark).parent.mkdir(parents=True)
    (table / mark).write_text("{}")
    (table / "data").mkdir()
    pq.write_table(scored, table / "data" / "a.parquet")
    with pytest.raises(InputError, match=f"is or holds a table of {kind}, whose files"):
        discreet.read(tmp_path / "house")
    with pytest.raises(InputError, match=f"is a part of a table of {kind}"):
        discreet.read(table / "data")
    if kind != "Delta":  # which its own library reads
        with pytest.raises(InputError, match="is or holds a table of"):
            discreet.read(table)


def test_what_a_writer_left_behind_is_not_counted(tmp_path, scored):
    for place in ("part-0", "_temporary/0/part-0", ".part-0.tmp", "year=1/.x/part-0"):
        path = tmp_path / f"{place}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(scored, path)
    assert len(discreet.read(tmp_path)) == scored.num_rows


def test_a_column_that_is_null_in_one_file_of_a_delta_table_is_a_column(
    tmp_path, scored
):
    """What a lake knows about a file must not decide whether a site can answer."""
    deltalake = pytest.importorskip("deltalake")
    empty = pa.array([None] * scored.num_rows, pa.string())
    deltalake.write_deltalake(tmp_path, scored.append_column("discharged", empty))
    weights = pa.array([3] * scored.num_rows)
    later = scored.append_column("weight", weights)
    deltalake.write_deltalake(tmp_path, later, mode="append", schema_mode="merge")
    assert len(discreet.read(tmp_path)) == 2 * scored.num_rows
    site = discreet.read(tmp_path, weight="weight").fitted()
    sums = Weighted(HISTOGRAM, 5).count(site)
    assert sums.sum() == 3 * scored.num_rows  # a file without the column has no weights


def test_a_damaged_delta_table_is_refused_in_a_sentence(tmp_path):
    pytest.importorskip("deltalake")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    assert "this Delta table cannot be read" in refusal(tmp_path)
