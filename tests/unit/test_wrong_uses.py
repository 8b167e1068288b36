"""Forty wrong uses, each with its sentence; on the command line also with its exit code.

A sentence says what is wrong and what to do, in the words of the door that was used.
``docs/wrong-uses.md`` is this table.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.errors import DisclosureWarning, DiscreetError, IgnoredWarning

pytestmark = pytest.mark.long

RNG = np.random.default_rng(7)
ROWS = 3000
Y = RNG.random(ROWS) < 0.3
S = 1 / (1 + np.exp(-RNG.normal(2 * Y - 1, 1)))
FRAME = pd.DataFrame(
    {
        "y_true": Y.astype(int),
        "y_score": S,
        "percent": 100 * S,
        "logit": np.log(S / (1 - S)),
        "died": np.where(Y, "yes", "no"),
        "sex": np.where(RNG.random(ROWS) < 0.5, "f", "m"),
        "second": np.clip(S + 0.01, 0, 1),
        "n": 1 + Y,
    }
)
SITE = discreet.Examples(S, Y.astype(int), name="north")


def _result():
    return discreet.evaluate([SITE], privacy="distributed", epsilon=1)


PYTHON = {
    "one frame, no list": (
        lambda: discreet.evaluate(FRAME),
        "sites is a list, one entry a site; put even a single site into [...]",
    ),
    "one path, no list": (
        lambda: discreet.evaluate("north.csv"),
        "sites is a list, one entry a site; put even a single site into [...]",
    ),
    "a number of sites": (
        lambda: discreet.evaluate(3),
        "sites is a list of Examples, frames or paths, or a mapping of names to them",
    ),
    "no sites": (
        lambda: discreet.evaluate([]),
        "there are no sites: give at least one",
    ),
    "an array for a site": (
        lambda: discreet.evaluate([S]),
        "site 1: read takes a path",
    ),
    "a file that is not there": (
        lambda: discreet.evaluate(["nowhere.csv"]),
        "nowhere.csv: no such file",
    ),
    "a column that is not there": (
        lambda: discreet.evaluate({"north": FRAME}, score="risk"),
        "north: ",
    ),
    "column names beside Examples": (
        lambda: discreet.evaluate([SITE], label="died"),
        "north: Examples know their columns already; leave out label=",
    ),
    "percents": (
        lambda: discreet.evaluate({"north": FRAME}, score="percent"),
        "if they are percents, divide them by 100",
    ),
    "logits as probabilities": (
        lambda: discreet.evaluate({"north": FRAME}, score="logit"),
        "drop what is missing or no number, or declare kind='logit' or kind='other'",
    ),
    "a positive label in capitals": (
        lambda: discreet.evaluate({"north": FRAME}, label="died", positive="YES"),
        "north: no label equals the one that positive= names; check its spelling",
    ),
    "text labels without a positive one": (
        lambda: discreet.evaluate({"north": FRAME}, label="died"),
        "name the positive label with positive=",
    ),
    "two kinds of scores": (
        lambda: discreet.evaluate(
            [SITE, discreet.Examples([2.0], [1], kind="logit", name="south")]
        ),
        "different kinds or ranges of scores: north and south",
    ),
    "a model by an unknown name": (
        lambda: discreet.evaluate([SITE], privacy="federated"),
        "or the name of one: secure-aggregation, distributed",
    ),
    "a name without its epsilon": (
        lambda: discreet.evaluate([SITE], privacy="distributed"),
        "privacy='distributed' needs epsilon=, for instance epsilon=1",
    ),
    "epsilon without a model": (
        lambda: discreet.evaluate([SITE], epsilon=1),
        "epsilon= needs a privacy model, for instance privacy='distributed'",
    ),
    "epsilon of exact sums": (
        lambda: discreet.evaluate([SITE], privacy="secure-aggregation", epsilon=1),
        "privacy='secure-aggregation' has no epsilon",
    ),
    "epsilon beside a model": (
        lambda: discreet.evaluate([SITE], privacy=discreet.DistributedDP(1), epsilon=1),
        "the privacy model holds its own loss: leave out epsilon=",
    ),
    "epsilon zero": (
        lambda: discreet.evaluate([SITE], privacy="distributed", epsilon=0),
        "epsilon",
    ),
    "several columns of groups": (
        lambda: discreet.read(FRAME, group=["sex", "died"]),
        "group= names one column: join several columns into one first",
    ),
    "groups that nobody asks for": (
        lambda: discreet.evaluate({"north": FRAME}, group="sex"),
        "the sites' groups are not used: name them with groups=[...]",
    ),
    "groups without a column": (
        lambda: discreet.evaluate([SITE], groups=["f", "m"]),
        "group",
    ),
    "exact groups that are nearly the data": (
        lambda: discreet.evaluate(
            {"n": FRAME}, group="sex", groups=["f", "m"], examples=10**6
        ),
        "is nearly the data itself: use fewer bins or a private model",
    ),
    "a threshold in percent": (
        lambda: _result().at(95),
        "the threshold 95 lies outside the scores' range [0, 1]; divide a percentage",
    ),
    "a threshold that is NaN": (lambda: _result().at(float("nan")), "NaN"),
    "an unknown plot": (lambda: _result().plot("pie"), "a plot is one of roc, pr, det"),
    "an unknown file of a report": (
        lambda: _result().save("report.pdf"),
        "a report is saved as .html, .json or .txt",
    ),
    "one score column to compare": (
        lambda: discreet.compare([FRAME]),
        "score=[first, second]",
    ),
    "weights without their largest": (
        lambda: discreet.evaluate({"north": FRAME}, weight="n"),
        "name the largest one with max_weight=",
    ),
    "a largest weight without weights": (
        lambda: discreet.evaluate([SITE], max_weight=3),
        "max_weight= needs weights at every site: name their column with weight=",
    ),
    "weights that are fractions": (
        lambda: discreet.evaluate({"north": FRAME}, weight="percent", max_weight=100),
        "multiply and round them, or declare a larger max_weight=",
    ),
    "two models of one name": (
        lambda: discreet.compare(
            [FRAME],
            score=["y_score", "second"],
            names=("new", "new"),
            privacy="distributed",
            epsilon=1,
        ),
        "two models need two different names",
    ),
}

COMMAND_LINE = {
    "no file": (["evaluate"], 2, "Missing argument"),
    "a file that is not there": (["evaluate", "no.csv"], 2, "no.csv: no such file"),
    "a file of another kind": (["evaluate", "n.txt"], 2, "must end in .parquet"),
    "a column that is not there": (
        ["evaluate", "n.csv", "--score", "risk"],
        2,
        "n.csv: ",
    ),
    "percents": (
        ["evaluate", "n.csv", "--score", "percent"],
        2,
        "or declare --kind logit or --kind other",
    ),
    "text labels without a positive one": (
        ["evaluate", "n.csv", "--label", "died"],
        2,
        "name the positive label with --positive, or more classes with --class",
    ),
    "a positive label in capitals": (
        ["evaluate", "n.csv", "--label", "died", "--positive", "YES"],
        2,
        "no label equals the one that --positive names",
    ),
    "a name without its epsilon": (
        ["evaluate", "n.csv", "--privacy", "distributed"],
        2,
        "--privacy distributed needs --epsilon, for instance 1",
    ),
    "a column of groups alone": (
        ["evaluate", "n.csv", "--group", "sex"],
        2,
        "--group names the column and --in-group each group in it: give both",
    ),
    "groups without a column": (
        ["evaluate", "n.csv", "--in-group", "f"],
        2,
        "--group names the column and --in-group each group in it: give both",
    ),
    "scores of kind other without limits": (
        ["evaluate", "n.csv", "--kind", "other"],
        2,
        "need their public range: low and high",
    ),
    "an unknown file of a report": (
        ["evaluate", "n.csv", "--report", "r.pdf"],
        2,
        ".html, .json or .txt",
    ),
    "one model to compare": (
        ["compare", "n.csv", "--score", "y_score"],
        2,
        "a comparison is of two models: give --score twice, not 1 times",
    ),
    "an unknown command": (["evalute"], 2, "No such command"),
}

DRIVER = """
import contextlib, io, json, sys
from discreet.cli.main import main
found = {}
for name, arguments in json.loads(sys.argv[1]).items():
    sys.argv = ["discreet", *arguments]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            found[name] = [end.code, said.getvalue()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Every wrong command, one after the other in one process."""
    folder = tmp_path_factory.mktemp("wrong")
    FRAME.to_csv(folder / "n.csv", index=False)
    (folder / "n.txt").write_text("y_true,y_score\n", encoding="utf-8")
    asked = json.dumps({name: case[0] for name, case in COMMAND_LINE.items()})
    run = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", DRIVER, asked],
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_there_are_forty():
    assert len(PYTHON) + len(COMMAND_LINE) >= 40


@pytest.mark.parametrize("name", PYTHON)
def test_a_wrong_use_in_python_gets_its_sentence(name):
    wrong, sentence = PYTHON[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisclosureWarning)
        warnings.simplefilter("error", IgnoredWarning)
        with pytest.raises((DiscreetError, DisclosureWarning, IgnoredWarning)) as err:
            wrong()
    assert sentence in str(err.value)
    assert "\n" not in str(err.value)


@pytest.mark.parametrize("name", COMMAND_LINE)
def test_a_wrong_use_of_the_command_line_gets_its_sentence_and_code(name, commands):
    _, code, sentence = COMMAND_LINE[name]
    ended, said = commands[name]
    words = " ".join(said.replace("│", " ").split())
    assert sentence in words
    assert ended == code
    assert "Traceback" not in said
    assert "=" not in words.replace("==", "")


@pytest.mark.usefixtures("small_is_fine")
def test_every_friendly_door_opens():
    exact = discreet.evaluate({"north": FRAME, "south": FRAME}, examples=6000)
    assert exact.source.site_names == ("north", "south")
    private = discreet.evaluate(
        [FRAME], privacy="distributed", epsilon=1, label="died", positive="yes"
    )
    assert str(private.claim.loss) == "1-DP"
    assert discreet.evaluate([FRAME], name="sepsis").plan.model.name == "sepsis"


@pytest.mark.usefixtures("small_is_fine")
def test_two_models_are_called_by_their_names():
    found = discreet.compare([FRAME], score=["y_score", "second"])
    assert list(found) == ["y_score", "second"]
    assert "AUC y_score" in str(found)
    assert "y_score - second" in found.verdict()


def _table():
    lines = ["| in Python | sentence |", "|---|---|"]
    lines += [f"| {name} | {sentence} |" for name, (_, sentence) in PYTHON.items()]
    lines += ["", "| command | exit code | sentence |", "|---|---|---|"]
    lines += [
        f"| `discreet {' '.join(asked)}` ({name}) | {code} | {sentence} |"
        for name, (asked, code, sentence) in COMMAND_LINE.items()
    ]
    return "\n".join(lines)


def test_the_documented_table_is_this_one():
    page = Path(__file__).parents[2] / "docs" / "wrong-uses.md"
    assert page.read_text(encoding="utf-8").endswith(_table() + "\n")
