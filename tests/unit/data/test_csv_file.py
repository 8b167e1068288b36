"""CSV: a row is a line, and a cell decides about its own row alone."""

import gzip

import numpy as np
import pytest

import discreet
from discreet import InputError
from discreet.data.edges import Edges, Uniform
from discreet.statistic import ClassHistogram, Grouped
from discreet.statistic.weighted import Weighted

pytestmark = pytest.mark.long

FOUR = ClassHistogram(Edges.realise(Uniform(4)))
HEADER = b"y_score,y_true\n"
GOOD = [f"{k / 40},{k % 2},ward {k % 3}".encode() for k in range(40)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.csv"


def refusal(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        discreet.read(path).validate()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("labels", ["true,false", "1,0", "1.0,0.0"])
def test_labels_may_be_words_or_numbers(path, labels):
    first, second = labels.split(",")
    path.write_text(f"y_score,y_true\n.5,{first}\n.6,{second}\n", encoding="utf-8")
    assert discreet.read(path).to_arrays()[1].tolist() == [1, 0]


def test_a_score_column_of_whole_numbers_first_is_still_a_score_column(path):
    path.write_bytes(HEADER + b"1,1\n" * 200_000 + b"0.25,0\n")
    assert len(discreet.read(path)) == 200_001


def test_a_headerless_file_is_recognised_and_its_first_row_not_echoed(path):
    message = refusal(path, b"0.31415926,1\n0.2,0\n")
    assert "looks like data" in message
    assert "3141" not in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"score,label\n0.1,0\n",
            "a.csv: no column y_score, y_true among score, label; name the columns",
        ),
        (
            HEADER + b"0.1,0\nunknown-77,1\n,1\n",
            "a.csv: 1 of 3 scores are text and no numbers; leave out these rows",
        ),
        (HEADER + b"0.1,\n0.2,1\n", "a.csv: 1 of 2 labels are missing"),
        (b"", "a.csv: this is not a readable CSV file"),
        (bytes(range(256)) * 20, "a.csv: "),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence_without_a_cell(path, content, message):
    told = refusal(path, content)
    assert told.startswith(message)
    assert "unknown" not in told


def test_a_packed_file_that_is_cut_off_or_damaged_is_told_so(path):
    packed = gzip.compress(HEADER + b"0.125,1\n0.25,0\n" * 200_000)
    flipped = bytearray(packed)
    flipped[-3] ^= 255
    for damaged in (packed[: len(packed) // 2], packed[:-8], bytes(flipped)):
        message = refusal(path, damaged)
        assert "this packed file is cut off or damaged: copy it again" in message


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_file_that_may_not_be_read_is_told_so(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_bytes(HEADER)

    def forbidden(*_args, **_options):
        raise PermissionError(13, "secret")

    monkeypatch.setattr("pathlib.Path.open", forbidden)
    monkeypatch.setattr("pyarrow.parquet.read_schema", forbidden)
    with pytest.raises(InputError, match="may not be read by you: change its perm"):
        discreet.read(path).validate()


ODD = {"score": "n.a.", "label": "?", "weight": "none", "group": "elsewhere"}


@pytest.mark.parametrize("odd", [*ODD, "all"])
@pytest.mark.parametrize("labels", ["0,1", "no,yes", "1,2", "false,true"])
@pytest.mark.parametrize("rows", [400, 120_000])
def test_one_cell_decides_about_its_own_row_alone(tmp_path, odd, labels, rows):
    """What one row can move is what the noise is sized for."""
    rng = np.random.default_rng(8)
    words = np.array(labels.split(","))
    cells = {
        "score": np.round(rng.random(rows), 6).astype(str),
        "label": words[rng.integers(2, size=rows)],
        "weight": rng.integers(0, 6, rows).astype(str),
        "group": np.array(["ward", "icu"])[rng.integers(2, size=rows)],
    }
    choices = {name: name for name in cells}
    if labels not in {"0,1", "false,true"}:
        choices["positive"] = words[1]
    plain = ClassHistogram(Edges.realise(Uniform(16)))
    statistics = (plain, Grouped(plain, ("ward", "icu")), Weighted(plain, 5))

    def counted(columns, name):
        lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
        (tmp_path / name).write_bytes("\n".join(lines).encode("latin-1"))
        site = discreet.read(tmp_path / name, **choices).fitted()
        return [statistic.count(site) for statistic in statistics]

    before = counted(cells, "before.csv")
    changed = {k: v.astype(object) for k, v in cells.items()}
    for column in ODD if odd == "all" else [odd]:
        changed[column][rows - 3] = ODD[column]
    if rows > 100_000:  # beyond the first block, from which a reader guesses types
        changed["label"][rows - 3] = "caf\xe9"
    after = counted(changed, "after.csv")
    moved = [np.abs(a - b).sum() for a, b in zip(before, after, strict=True)]
    assert all(m <= most for m, most in zip(moved, (2, 2, 10), strict=True))
    assert any(moved)


@pytest.mark.parametrize(
    "odd",
    [
        *(b"0.2,1,a,9,9", b"0.2", b'0.2,1,"a', b'"0.2,1,a', b'0.2,x"y,"a'),
        *(b"0.2,1,caf\xe9", b"caf\xe9,1,a", b"0.2,1," + b"a" * 3_000_000),
        *(b'0.2,1,"' + b'a,"' * 3_000_000, b'0.2,1,"a""b, c"'),
    ],
)
@pytest.mark.parametrize("place", [0, 20, 40])
def test_one_line_decides_about_no_other(path, odd, place):
    """An open quote took in all rows after it; more cells refused the whole file."""
    grouped = Grouped(FOUR, ("ward 0", "ward 1", "other"))

    def counted(rows):
        path.write_bytes(b"\n".join([b"y_score,y_true,ward", *rows]))
        return grouped.count(discreet.read(path, group="ward").fitted())

    alone = counted(GOOD)
    assert alone.sum() == 40
    assert counted([]).sum() == 0
    beside = counted([*GOOD[:place], odd, *GOOD[place:]])
    assert np.abs(beside - alone).sum() <= 1


def test_a_quote_of_one_line_is_not_closed_by_another(path):
    """Two lines whose quotes make a pair would take in every row between them."""
    beside = [b'0.2,1,"a', *GOOD, b'0.2,1,b"']
    path.write_bytes(b"\n".join([b"y_score,y_true,ward", *beside, b""]))
    site = discreet.read(path, group="ward").fitted()
    assert FOUR.count(site).sum() >= len(GOOD)


def test_lines_may_end_with_a_return_alone(path):
    """A file longer than a line may be was cut, unless some row ended otherwise."""
    for rest in (b"", b"0.5,1\n"):
        path.write_bytes(b"y_score,y_true\r" + b"0.5,1\r" * 400_000 + rest)
        assert len(discreet.read(path).fitted()) == 400_000 + bool(rest)


def test_one_word_among_scores_does_not_change_how_others_are_read(path):
    for rest in (b"", b"n.a,1\n"):
        path.write_bytes(HEADER + b"\x1f0.5,1\n" * 10 + rest)
        assert FOUR.count(discreet.read(path).fitted()).sum() == 10


def test_lines_with_other_numbers_of_cells_are_told_before_a_session(path):
    message = refusal(path, HEADER + b"0.1,0\n0.2,1,9,9\n0.3\n")
    assert message.startswith("a.csv: 2 lines have more or fewer cells")
    site = discreet.read(path).fitted()
    assert FOUR.count(site).sum() == 1
    assert site.set_aside == 2
    assert FOUR.count(discreet.read(path).fitted(every_row=True)).sum() == 3


def test_a_file_of_a_header_alone_is_a_valid_site(path):
    path.write_bytes(HEADER)
    assert len(discreet.read(path)) == 0
    assert FOUR.count(discreet.read(path)).sum() == 0
