"""A notebook, executed: a result shows itself shortly, with its pictures inline."""

import re

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = (
    """
import numpy as np
import discreet
rng = np.random.default_rng(1)
y = rng.random(9000) < 0.3
s = 1 / (1 + np.exp(-rng.normal(2 * y - 1.5, 1)))
old = rng.random(9000) < 0.4
group = np.where(old, "old", "young")
sites = [discreet.Examples(s[i::3], y[i::3], groups=group[i::3]) for i in range(3)]
result = discreet.evaluate(sites, privacy=discreet.DistributedDP(1))
""",
    "result",
    "result.auc",
    'f"{result.auc:.3f}", result.auc > 0.5',
    'result.plot("roc")',
    """
from matplotlib.figure import Figure
ax = Figure().add_subplot()
shown = result.plot("calibration", ax=ax)
shown.ax_ is ax, shown.figure_ is ax.figure
""",
    'discreet.evaluate(sites, groups=["old", "young"])',
)


@pytest.fixture(scope="module")
def outputs():
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    NotebookClient(book, timeout=300, kernel_name="python3").execute()
    shown = [
        [out["data"] for out in cell.outputs if "data" in out] for cell in book.cells
    ]
    errors = [
        out for cell in book.cells for out in cell.outputs if out.output_type == "error"
    ]
    assert errors == []
    return [data[-1] if data else {} for data in shown]


def _words(html):
    return re.sub(r"<[^>]*>", " ", html)


@pytest.mark.parametrize("cell", [1, 6])
def test_a_result_is_short_and_has_its_pictures_inline(outputs, cell):
    shown = outputs[cell]
    assert len(shown["text/plain"]) < 400
    assert len(_words(shown["text/html"])) < 2000
    assert "data:image/png;base64," in shown["text/html"]
    assert "<details><summary>Claim: " in shown["text/html"]


def test_an_estimate_prints_and_formats_like_a_number(outputs):
    number = r"0\.\d{3}"
    assert re.fullmatch(
        rf"{number}\d? \[{number}\d?, {number}\d?\]", outputs[2]["text/plain"]
    )
    assert re.fullmatch(rf"\('{number}', True\)", outputs[3]["text/plain"])


def test_a_plot_shows_itself_and_draws_into_the_readers_axes(outputs):
    assert "image/png" in outputs[4]
    assert outputs[5]["text/plain"] == "(True, True)"
