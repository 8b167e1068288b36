"""Files as hospitals have them: the header says how cells are apart, all else is declared."""

import gzip
import math
import re

import numpy as np
import openpyxl
import pandas as pd
import pytest

import discreet
from discreet import InputError
from discreet.data.edges import Edges, Uniform
from discreet.data.file_format import FileFormat
from discreet.statistic import ClassHistogram

RNG = np.random.default_rng(5)
Y = (RNG.random(60) < 0.4).astype(int)
S = np.round(RNG.random(60), 4)
ROWS = [f"{y},{s}" for y, s in zip(Y, S, strict=True)]
PLAIN = "\n".join(["y_true,y_score", *ROWS])
SIXTEEN = ClassHistogram(Edges.realise(Uniform(16)))


def _semicolons(text):
    return text.replace(",", ";")


def _commas(text):
    return text.replace(".", ",")


def _percents(sign):
    cells = [f"{y},{f'{100 * s:.2f}'}{sign}" for y, s in zip(Y, S, strict=True)]
    return "\n".join(["y_true,y_score", *cells])


FILES = {
    "a.csv": (PLAIN, {}),
    "semicolons.csv": (_semicolons(PLAIN), {}),
    "tabs.csv": (PLAIN.replace(",", "\t"), {}),
    "tabs.tsv": (PLAIN.replace(",", "\t"), {}),
    "bars.csv": (PLAIN.replace(",", "|"), {}),
    "more.csv": (
        _semicolons(PLAIN).replace("\n", ";x\n").replace("x", "a, b, c, d", 1) + ";x",
        {},
    ),
    "sep.csv": ("sep=;\n" + _semicolons(PLAIN), {}),
    "blank.csv": ("\n\n" + PLAIN, {}),
    "mac.csv": (PLAIN.replace("\n", "\r"), {}),
    "windows.csv": (PLAIN.replace("\n", "\r\n") + "\r\n", {}),
    "names.csv": (PLAIN.replace("y_true,y_score", '"y_true" , " y_score "'), {}),
    "trailing.csv": (PLAIN.replace("\n", ",,\n") + ",,", {}),
    "mark.csv": (PLAIN.encode("utf-8-sig"), {}),
    "utf16.csv": (PLAIN.encode("utf-16"), {}),
    "utf16be.csv": (b"\xfe\xff" + PLAIN.encode("utf-16-be"), {}),
    "unmarked.csv": (PLAIN.encode("utf-16-le"), {"encoding": "utf-16"}),
    "latin.csv": (PLAIN.replace("y_", "é_").encode("latin-1"), {"encoding": "latin-1"}),
    "zipped.csv": (gzip.compress(PLAIN.encode()), {}),
    "zipped.tsv.gz": (gzip.compress(PLAIN.replace(",", "\t").encode()), {}),
    "german.csv": (_commas(_semicolons(PLAIN)), {"decimal": ","}),
    "quoted.csv": (re.sub(r"0\.(\d+)", r'"0,\1"', PLAIN), {"decimal": ","}),
    "signs.csv": (_percents("%"), {"percent": True}),
    "spaced.csv": (_percents(" %"), {"percent": True}),
    "percents.csv": (_percents(""), {"percent": True}),
    "any.txt": (PLAIN, {"delimiter": "comma"}),
}


def _written(folder, name):
    content, options = FILES[name]
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if name == "latin.csv":
        options = {**options, "label": "é_true", "score": "é_score"}
    return path, options


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_the_rows_that_it_holds(tmp_path, name):
    path, options = _written(tmp_path, name)
    scores, labels = discreet.read(path, **options).to_arrays()
    assert scores.tolist() == S.tolist()
    assert labels.tolist() == Y.tolist()


@pytest.mark.parametrize("name", [n for n in FILES if FILES[n][1]])
def test_without_its_option_a_file_is_refused_by_its_name(tmp_path, name):
    path, options = _written(tmp_path, name)
    declared = FILES[name][1]
    with pytest.raises(InputError) as caught:
        discreet.read(
            path, **{k: v for k, v in options.items() if k not in declared}
        ).validate()
    message = str(caught.value)
    assert all(f"{option}=" in message for option in declared)
    assert not any(str(s).removeprefix("0.") in message for s in S if s)


@pytest.mark.parametrize(
    "odd", ["0,5", "50%", "1.234,5", "n.a.", '"0,5', "a\tb", "1;2", "é", "", "0.5e"]
)
@pytest.mark.parametrize("options", [{}, {"decimal": ","}, {"percent": True}])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("place", [1, 30])
def test_one_row_decides_about_no_other(tmp_path, odd, options, delimiter, place):
    """What one row can move is what the noise is sized for, in every format."""
    path = tmp_path / "a.csv"

    def counted(cells):
        lines = [("y_true", "y_score"), *cells]
        text = "\n".join(map(delimiter.join, lines))
        path.write_text(text, encoding="utf-8")
        return SIXTEEN.count(discreet.read(path, **options).fitted())

    rows = [tuple(row.split(",")) for row in ROWS]
    if "decimal" in options:
        rows = [(y, f'"{s.replace(".", ",")}"') for y, s in rows]
    before = counted(rows)
    assert before.sum() == len(ROWS)
    beside = counted([*rows[:place], ("1", odd), *rows[place:]])
    assert np.abs(beside - before).sum() <= 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_half_of_a_letter_takes_in_no_other_row(tmp_path, encoding):
    half = "\ud800".encode(encoding, "surrogatepass")
    lines = [PLAIN.encode(encoding), "\n1,".encode(encoding) + half]
    lines.append("\n1,0.5".encode(encoding))
    path = tmp_path / "a.csv"
    path.write_bytes(b"".join(lines))
    site = discreet.read(path, encoding=encoding).fitted()
    assert SIXTEEN.count(site).sum() == len(ROWS) + 1
    assert site.set_aside == 1


CELLS = {
    "decimal": ["0,5", "0.5", "1,5e-3", "-0,25", "1,2,3", "", "x", "5"],
    "thousands": ["1.200,5", "12.5", "1.200", "1.2000", "1.200.300", "7"],
    "percent": ["12%", "12 %", "1.1%", "12.5", "1e1%", "%", "x%", "0.07%"],
}
FORMATS = {
    "decimal": FileFormat(decimal=","),
    "thousands": FileFormat(decimal=",", thousands="."),
    "percent": FileFormat(percent=True),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_column_and_a_cell_are_read_alike(name):
    import pyarrow as pa

    each = [FORMATS[name].number(cell) for cell in CELLS[name]]
    for cells in (
        CELLS[name],
        [c for c, v in zip(CELLS[name], each, strict=True) if not math.isnan(v)],
    ):
        column = FORMATS[name].texts(pa.array([c.encode() for c in cells], pa.binary()))
        assert np.array_equal(
            column, [FORMATS[name].number(c) for c in cells], equal_nan=True
        )


def test_a_percent_is_the_nearest_share():
    for k in range(10_001):
        assert FORMATS["percent"].number(f"{k / 100:.2f}%") == k / 10_000


@pytest.fixture
def book(tmp_path):
    def write(rows, header=("y_true", "y_score"), shown=None, more=()):
        workbook = openpyxl.Workbook()
        sheet = workbook.active
        sheet.append(header)
        for row in rows:
            sheet.append(row)
            if shown:
                sheet.cell(sheet.max_row, 2).number_format = shown
        for title in more:
            workbook.create_sheet(title)
        workbook.save(tmp_path / "a.xlsx")
        return tmp_path / "a.xlsx"

    return write


PAIRS = list(zip(Y.tolist(), S.tolist(), strict=True))


@pytest.mark.parametrize(
    ("rows", "shown", "options"),
    [
        (PAIRS, None, {}),
        ([(str(y), str(s)) for y, s in PAIRS], None, {}),
        ([(y, str(s).replace(".", ",")) for y, s in PAIRS], None, {"decimal": ","}),
        (PAIRS, "0.00%", {"percent": True}),
        ([(y, f"{100 * s:.2f}%") for y, s in PAIRS], None, {"percent": True}),
        ([*PAIRS, (None, None)], None, {}),
    ],
)
def test_a_workbook_gives_the_rows_of_its_sheet(book, rows, shown, options):
    site = discreet.read(book(rows, shown=shown), **options)
    for _ in range(2):  # as often as there are rounds
        scores, labels = site.to_arrays()
        assert scores.tolist() == S.tolist()
        assert labels.tolist() == Y.tolist()


def test_a_workbook_of_several_sheets_needs_one_of_them(book):
    path = book(PAIRS, more=["Notes"])
    with pytest.raises(InputError, match="2 sheets: name one with sheet="):
        discreet.read(path)
    assert len(discreet.read(path, sheet="Sheet")) == len(S)


def test_one_cell_of_a_workbook_decides_about_its_own_row(book):
    before = SIXTEEN.count(discreet.read(book(PAIRS)).fitted())
    for odd in ("x", None, "0,5", True, "#N/A"):
        after = SIXTEEN.count(discreet.read(book([(1, odd), *PAIRS])).fitted())
        assert np.abs(after - before).sum() <= 1


def test_a_workbook_gives_follow_up_and_several_labels_as_csv_does(tmp_path):
    rows = pd.DataFrame({"y_true": Y, "y_score": S, "second": 1 - Y})
    rows["risk"] = np.round(1 - S, 4)
    rows["days"] = np.arange(1, len(rows) + 1) / 4
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.to_excel(tmp_path / "a.xlsx", index=False)
    timed = {"time": "days", "event": "y_true"}
    several = {"label": ["y_true", "second"], "score": ["y_score", "risk"]}
    for columns in (timed, several):
        csv, book = (
            list(discreet.read(tmp_path / f"a.{end}", **columns).batches())
            for end in ("csv", "xlsx")
        )
        assert [b.which for b in csv] == [b.which for b in book]
        for one, other in zip(csv, book, strict=True):
            assert one.labels.tolist() == other.labels.tolist()
            assert one.scores[0].tolist() == other.scores[0].tolist()
            if columns is timed:
                assert one.times.tolist() == other.times.tolist() == rows.days.tolist()


def test_without_openpyxl_a_workbook_says_how_to_save_it(book, monkeypatch):
    path = book(PAIRS)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(InputError, match="pip install openpyxl, or save the sheet"):
        discreet.read(path)


def test_a_frame_is_read_as_its_text_is_declared():
    text = pd.DataFrame({"y_true": Y, "y_score": [f"{100 * s:.2f}%" for s in S]})
    assert discreet.read(text, percent=True).to_arrays()[0].tolist() == S.tolist()
    for kind in (object, "string"):
        comma = pd.DataFrame(
            {"y_true": Y, "y_score": [str(s).replace(".", ",") for s in S]}
        )
        site = discreet.read(comma.astype({"y_score": kind}), decimal=",")
        assert site.to_arrays()[0].tolist() == S.tolist()
    numbers = pd.DataFrame({"y_true": Y, "y_score": 100 * S})
    scores = discreet.read(numbers, percent=True).to_arrays()[0]
    assert np.allclose(scores, S, rtol=1e-15)


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": "ab"},
        {"delimiter": '"'},
        {"decimal": "x"},
        {"thousands": "."},
        {"thousands": ",", "decimal": ","},
        {"encoding": "utf-7"},
        {"encoding": "shift_jis"},
        {"encoding": "none"},
    ],
)
def test_a_format_in_which_cells_are_not_told_apart_is_refused(options):
    with pytest.raises(InputError):
        FileFormat(**({"decimal": "."} | options))


def test_a_file_that_misses_a_column_lists_a_few_of_many(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"x{k}" for k in range(300)), encoding="utf-8")
    with pytest.raises(InputError, match="and 276 more"):
        discreet.read(path)


def test_a_number_that_is_none_is_nan():
    assert math.isnan(FileFormat(decimal=",").number(None))
    assert math.isnan(FileFormat(decimal=",").number(b"\xff"))
