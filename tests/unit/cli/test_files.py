"""Names that others wrote: as files they stay in their folder, as text they are text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import Examples, failures
from discreet.cli.files import Output, safe_file_name
from discreet.errors import DiscreetError

NAMES = [
    *("../../outside", "/etc/passwd", "..", ".", "a/b", "a\\b", "C:\\x", "nul"),
    *("[/]", "[bold red]x", "$\\frac{$", "x" * 190, " ", "-rf", "naïve", "a.b"),
]


def test_every_name_becomes_one_file_in_its_folder_and_no_two_the_same(
    tmp_path: Path,
) -> None:
    made = {name: safe_file_name(name) for name in [*NAMES, "female", "male"]}
    assert len(set(made.values())) == len(made)
    assert made["female"] == "female"
    for safe in made.values():
        path = tmp_path / f"{safe}-roc.png"
        assert path.resolve().parent == tmp_path.resolve()
        assert safe.isascii()
        assert not safe.startswith(("-", "."))
        path.write_bytes(b"")


def test_plots_of_hostile_groups_stay_in_their_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ["../../outside", "[/]", "$\\frac{$"]
    rng = np.random.default_rng(1)
    labels = rng.random(600) < 0.4
    scores = np.clip(rng.normal(0.4 + 0.2 * labels, 0.2), 0, 1)
    site = Examples(
        scores, labels, groups=np.array(groups, dtype=object)[np.arange(600) % 3]
    )
    result = discreet.evaluate([site], edges=discreet.Warped(16), groups=groups)
    folder = tmp_path / "a" / "b" / "plots"
    Output(wide=True, plots=folder).write(result)
    assert "../../outside" in capsys.readouterr().out
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 9
    assert all(path.parent == folder for path in written)


def test_an_error_that_quotes_a_stranger_does_not_steer_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures.tell(failures.sentence(DiscreetError("unknown keys: a\x1b[2J\rb")))
    assert capsys.readouterr().err == "discreet: unknown keys: a?[2J?b\n"
