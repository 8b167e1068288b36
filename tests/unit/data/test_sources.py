import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet import InputError
from discreet.data.batches import PART_ROWS
from discreet.data.edges import Edges, Uniform
from discreet.statistic import ClassHistogram, Grouped
from discreet.statistic.weighted import Weighted

pytestmark = pytest.mark.long

SCORES = [0.1, 0.8, 0.4, 0.9]
LABELS = [0, 1, 1, 0]


@pytest.fixture
def table():
    return pa.table({"y_score": SCORES, "y_true": LABELS, "ward": ["a", "b", "a", "b"]})


def refusal(*args, **options):
    with pytest.raises(InputError) as caught:
        discreet.read(*args, **options).validate()
    message = str(caught.value)
    assert "\n" not in message
    return message


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_every_door_reads_the_same_examples(tmp_path, table):
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


def test_other_columns_and_labels_by_option(tmp_path):
    path = write(tmp_path / "a.csv", "risk,outcome\n-2.5,died\n1.5,alive\n")
    site = discreet.read(
        path, score="risk", label="outcome", positive="died", kind="logit"
    )
    scores, labels = site.to_arrays()
    assert scores.tolist() == [-2.5, 1.5]
    assert labels.tolist() == [1, 0]


@pytest.mark.parametrize("labels", ["true,false", "1,0", "1.0,0.0"])
def test_csv_labels_may_be_words_or_numbers(tmp_path, labels):
    first, second = labels.split(",")
    path = write(tmp_path / "a.csv", f"y_score,y_true\n.5,{first}\n.6,{second}\n")
    assert discreet.read(path).to_arrays()[1].tolist() == [1, 0]


def test_a_score_column_of_whole_numbers_first_is_still_a_score_column(tmp_path):
    rows = ["1,1"] * 200_000 + ["0.25,0"]
    path = write(tmp_path / "a.csv", "y_score,y_true\n" + "\n".join(rows) + "\n")
    assert len(discreet.read(path)) == 200_001


def test_a_headerless_file_is_recognised_and_its_first_row_not_echoed(tmp_path):
    path = write(tmp_path / "a.csv", "0.31415926,1\n0.2,0\n")
    message = refusal(path)
    assert "looks like data" in message
    assert "3141" not in message


def test_a_missing_column_names_the_ones_there_are(tmp_path):
    path = write(tmp_path / "a.csv", "score,label\n0.1,0\n")
    message = refusal(path)
    assert message == (
        "a.csv: no column y_score, y_true among score, label; name the columns with "
        "score= and label="
    )


def test_text_among_the_scores_is_counted_and_not_echoed(tmp_path):
    path = write(tmp_path / "a.csv", "y_score,y_true\n0.1,0\nunknown-77,1\n,1\n")
    message = refusal(path)
    assert message.startswith("a.csv: 2 of 3 scores are NaN or outside [0, 1]")
    assert "unknown" not in message


ODD = {"score": "n.a.", "label": "?", "weight": "none", "group": "elsewhere"}


@pytest.mark.parametrize("odd", [*ODD, "all"])
@pytest.mark.parametrize("labels", ["0,1", "no,yes", "1,2", "false,true"])
@pytest.mark.parametrize("rows", [400, 120_000])
def test_one_cell_of_a_csv_decides_about_its_own_row_alone(tmp_path, odd, labels, rows):
    """What one row can move is what the noise is sized for."""
    rng = np.random.default_rng(8)
    words = np.array(labels.split(","))
    cells = {
        "score": np.round(rng.random(rows), 6).astype(str),
        "label": words[rng.integers(2, size=rows)],
        "weight": rng.integers(0, 6, rows).astype(str),
        "group": np.array(["ward", "icu"])[rng.integers(2, size=rows)],
    }
    choices = {"score": "score", "label": "label", "weight": "weight", "group": "group"}
    if labels not in {"0,1", "false,true"}:
        choices["positive"] = words[1]

    def counted(columns, name):
        lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
        (tmp_path / name).write_bytes("\n".join(lines).encode("latin-1"))
        return [
            statistic.count(discreet.read(tmp_path / name, **choices).fitted())
            for statistic in (
                plain,
                Grouped(plain, ("ward", "icu")),
                Weighted(plain, 5),
            )
        ]

    plain = ClassHistogram(Edges.realise(Uniform(16)))
    before = counted(cells, "before.csv")
    changed = {k: v.astype(object) for k, v in cells.items()}
    for column in ODD if odd == "all" else [odd]:
        changed[column][rows - 3] = ODD[column]
    if rows > 100_000:  # beyond the first block, at which a reader looks
        changed["label"][rows - 3] = "caf\xe9"
    after = counted(changed, "after.csv")
    for a, b, most in zip(before, after, (2, 2, 10), strict=True):
        assert np.abs(a - b).sum() <= most
    assert any(np.abs(a - b).sum() > 0 for a, b in zip(before, after, strict=True))


def test_empty_cells_are_missing_scores_and_missing_labels(tmp_path):
    path = write(tmp_path / "a.csv", "y_score,y_true\n0.1,0\n,1\n")
    assert "1 of 2 scores are NaN" in refusal(path)
    path = write(tmp_path / "b.csv", "y_score,y_true\n0.1,\n0.2,1\n")
    assert "1 of 2 labels are missing" in refusal(path)


def test_a_null_is_a_missing_value():
    table = pa.table({"y_score": [0.1, None], "y_true": [1, 0]})
    assert "1 of 2 scores are NaN" in refusal(table)
    table = pa.table({"y_score": [0.1, 0.2], "y_true": [1, None]})
    assert "1 of 2 labels are missing" in refusal(table)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", "not parquet", "not a readable Parquet file"),
        ("a.csv", "", "not a readable CSV file"),
        ("a.txt", "x", "must end in .parquet"),
    ],
)
def test_unreadable_files_get_one_sentence(tmp_path, name, content, message):
    assert message in refusal(write(tmp_path / name, content))


def test_a_missing_file_is_named():
    assert refusal("nowhere.csv") == "nowhere.csv: no such file"


def test_damaged_rows_get_one_sentence(tmp_path):
    path = write(tmp_path / "a.csv", "y_score,y_true\n0.1,0\n0.2,1,9,9\n")
    assert "as many cells in every row" in refusal(path)


GOOD = "".join(f"{k / 40},{k % 2},ward {k % 3}\n" for k in range(40))


@pytest.mark.parametrize(
    "odd",
    [
        b"0.2,1,a,9,9",
        b"0.2",
        b'0.2,1,"a',
        b'"0.2,1,a',
        b'0.2,x"y,"a',
        b"0.2,1,caf\xe9",
        b"caf\xe9,1,a",
        b"0.2,1," + b"a" * 3_000_000,
        b'0.2,1,"' + b'a,"' * 3_000_000,
        b'0.2,1,"a""b, c"',
    ],
)
@pytest.mark.parametrize("place", [0, 20, 40])
def test_one_line_of_a_csv_decides_about_no_other(tmp_path, odd, place):
    """An open quote took in all rows after it; more cells refused the whole file."""
    grouped = Grouped(
        ClassHistogram(Edges.realise(Uniform(4))), ("ward 0", "ward 1", "other")
    )
    lines = GOOD.encode().splitlines()

    def counted(rows):
        path = tmp_path / "a.csv"
        path.write_bytes(b"\n".join([b"y_score,y_true,ward", *rows]))
        return grouped.count(discreet.read(path, group="ward").fitted())

    alone = counted(lines)
    assert alone.sum() == 40
    assert counted([]).sum() == 0
    beside = counted([*lines[:place], odd, *lines[place:]])
    assert np.abs(beside - alone).sum() <= 1


def test_a_quote_of_one_line_is_not_closed_by_another(tmp_path):
    """Two lines whose quotes make a pair would take in every row between them."""
    lines = GOOD.encode().splitlines()
    beside = [b'0.2,1,"a', *lines, b'0.2,1,b"']
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n".join([b"y_score,y_true,ward", *beside, b""]))
    histogram = ClassHistogram(Edges.realise(Uniform(4)))
    site = discreet.read(path, group="ward").fitted()
    assert histogram.count(site).sum() >= len(lines)


def test_lines_may_end_with_a_return_alone(tmp_path):
    """A file longer than a line may be was cut, unless some row ended otherwise."""
    path = tmp_path / "a.csv"
    for rest in (b"", b"0.5,1\n"):
        path.write_bytes(b"y_score,y_true\r" + b"0.5,1\r" * 400_000 + rest)
        assert len(discreet.read(path).fitted()) == 400_000 + bool(rest)


def test_one_word_among_scores_does_not_change_how_others_are_read(tmp_path):
    path = tmp_path / "a.csv"
    histogram = ClassHistogram(Edges.realise(Uniform(4)))
    for rest in (b"", b"n.a,1\n"):
        path.write_bytes(b"y_score,y_true\n" + b"\x1f0.5,1\n" * 10 + rest)
        assert histogram.count(discreet.read(path).fitted()).sum() == 10


def test_lines_with_other_numbers_of_cells_are_told_before_a_session(tmp_path):
    path = write(tmp_path / "a.csv", "y_score,y_true\n0.1,0\n0.2,1,9,9\n0.3\n")
    message = refusal(path)
    assert message.startswith("a.csv: 2 lines have more or fewer cells")
    site = discreet.read(path).fitted()
    histogram = ClassHistogram(Edges.realise(Uniform(4)))
    assert histogram.count(site).sum() == 1
    assert site.set_aside == 2
    every = discreet.read(path).fitted(every_row=True)
    assert histogram.count(every).sum() == 3


def test_binary_rubbish_gets_one_sentence(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(bytes(range(256)) * 20)
    refusal(path)


def test_other_objects_are_refused():
    assert "Examples(scores, labels)" in refusal([[0.1, 0]])


def test_dictionary_and_decimal_columns_are_read():
    labels = pa.array(["y", "n", "y"]).dictionary_encode()
    scores = pa.array([0.5, 0.25, 0.125]).cast(pa.decimal128(4, 3))
    site = discreet.read(pa.table({"y_score": scores, "y_true": labels}), positive="y")
    found, codes = site.to_arrays()
    assert found.tolist() == [0.5, 0.25, 0.125]
    assert codes.tolist() == [1, 0, 1]


def test_a_category_frame_is_read():
    frame = pd.DataFrame(
        {"y_score": SCORES, "y_true": pd.Categorical(["n", "y", "y", "n"])}
    )
    assert discreet.read(frame, positive="y").to_arrays()[1].tolist() == LABELS


def test_an_empty_table_is_a_valid_site(tmp_path):
    path = write(tmp_path / "a.csv", "y_score,y_true\n")
    assert len(discreet.read(path)) == 0
    histogram = ClassHistogram(Edges.realise(Uniform(4)))
    assert histogram.count(discreet.read(path)).sum() == 0


def test_a_parquet_file_of_many_row_groups_is_counted_whole(tmp_path, rng):
    scores = rng.random(300_000)
    labels = scores > rng.random(300_000)
    path = tmp_path / "big.parquet"
    pq.write_table(
        pa.table({"y_score": scores, "y_true": labels}), path, row_group_size=70_000
    )
    histogram = ClassHistogram(Edges.realise(Uniform(64)))
    np.testing.assert_array_equal(
        histogram.count(discreet.read(path)),
        histogram.count(discreet.Examples(scores, labels)),
    )


def test_an_arrow_table_of_many_chunks_and_parts_is_counted_whole(rng):
    rows = 2 * PART_ROWS + 12_345
    scores = rng.random(rows, dtype=np.float32)
    labels = scores > rng.random(rows)
    whole = pa.table({"y_score": scores, "y_true": labels})
    cut = [whole.slice(k, 400_000) for k in range(0, rows, 400_000)]
    histogram = ClassHistogram(Edges.realise(Uniform(64)))
    site = discreet.read(pa.concat_tables(cut))
    np.testing.assert_array_equal(
        histogram.count(site), histogram.count(discreet.Examples(scores, labels))
    )
    assert len(site) == rows
    assert site.to_arrays()[0].size == rows
