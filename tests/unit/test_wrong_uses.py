"""Forty wrong uses, each with its sentence; on the command line also with its exit code.

A sentence says what is wrong and what to do, in the words of the entry point that was
used. ``docs/wrong-uses.md`` has the sentences and the commands.
"""

import json
import re
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


def _evaluate(**options):
    return discreet.evaluate([SITE], **options)


def _read(**options):
    return discreet.evaluate({"north": FRAME}, **options)


def _result():
    return _evaluate(privacy="distributed", epsilon=1)


PYTHON = {
    "a column of sites in a list of sites": lambda: discreet.evaluate(
        [FRAME], site="ward"
    ),
    "a column of sites of Examples": lambda: discreet.evaluate(
        discreet.Examples(S, Y), site="ward"
    ),
    "exact rows per site under secure aggregation": lambda: discreet.evaluate(
        [FRAME, FRAME], per_site=True, privacy="secure-aggregation"
    ),
    "rows per site and per group": lambda: discreet.evaluate(
        [FRAME, FRAME], per_site=True, groups=["a"]
    ),
    "several labels without their scores": lambda: discreet.evaluate(
        [FRAME], labels=["a", "b"]
    ),
    "fewer scores than labels": lambda: discreet.evaluate(
        [FRAME], labels=["a", "b"], scores=["s"]
    ),
    "a rate without its threshold": lambda: discreet.evaluate(
        FRAME, group="sex"
    ).forest("recall"),
    "a forest plot of one evaluation": lambda: _evaluate().plot("forest"),
    "a number of sites": lambda: discreet.evaluate(3),
    "no sites": lambda: discreet.evaluate([]),
    "an array for a site": lambda: discreet.evaluate([S]),
    "a file that is not there": lambda: discreet.evaluate(["nowhere.csv"]),
    "a column that is not there": lambda: _read(score="risk"),
    "column names beside Examples": lambda: _evaluate(label="died"),
    "percents": lambda: _read(score="percent"),
    "logits as probabilities": lambda: _read(score="logit"),
    "a positive label in capitals": lambda: _read(label="died", positive="YES"),
    "text labels without a positive one": lambda: _read(label="died"),
    "two kinds of scores": lambda: discreet.evaluate(
        [SITE, discreet.Examples([2.0], [1], kind="logit", name="south")]
    ),
    "a model by an unknown name": lambda: _evaluate(privacy="federated"),
    "a name without its epsilon": lambda: _evaluate(privacy="distributed"),
    "epsilon without a model": lambda: _evaluate(epsilon=1),
    "epsilon of exact sums": lambda: _evaluate(privacy="secure-aggregation", epsilon=1),
    "epsilon beside a model": lambda: _evaluate(
        privacy=discreet.DistributedDP(1), epsilon=1
    ),
    "epsilon zero": lambda: _evaluate(privacy="distributed", epsilon=0),
    "several columns of groups": lambda: discreet.read(FRAME, group=["sex", "died"]),
    "groups that nobody asks for": lambda: _read(group="sex"),
    "groups without a column": lambda: _evaluate(groups=["f", "m"]),
    "exact groups that are nearly the data": lambda: _read(
        group="sex", groups=["f", "m"], examples=10**6
    ),
    "a threshold in percent": lambda: _result().at(95),
    "a threshold that is NaN": lambda: _result().at(float("nan")),
    "an unknown plot": lambda: _result().plot("pie"),
    "an unknown file of a report": lambda: _result().save("report.pdf"),
    "one score column to compare": lambda: discreet.compare([FRAME]),
    "weights without their largest": lambda: _read(weight="n"),
    "a largest weight without weights": lambda: _evaluate(max_weight=3),
    "weights that are fractions": lambda: _read(weight="percent", max_weight=100),
    "two models of one name": lambda: discreet.compare(
        [FRAME],
        score=["y_score", "second"],
        names=("new", "new"),
        privacy="distributed",
        epsilon=1,
    ),
}
PAGE = (Path(__file__).parents[2] / "docs" / "wrong-uses.md").read_text("utf-8")
SENTENCES = dict(re.findall(r"^\| ([^`|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)[1:])
COMMANDS = {
    command: (int(code), sentence)
    for command, code, sentence in re.findall(
        r"^\| `discreet (.+)` \(.+\) \| (\d) \| (.+) \|$", PAGE, re.MULTILINE
    )
}

DRIVER = """
import contextlib, io, json, sys
from discreet.cli.main import main
found = {}
for command in json.loads(sys.argv[1]):
    sys.argv = ["discreet", *command.split()]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            found[command] = [end.code, said.getvalue()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Every wrong command, one after the other in one process."""
    folder = tmp_path_factory.mktemp("wrong")
    FRAME.to_csv(folder / "n.csv", index=False)
    (folder / "n.txt").write_text("y_true,y_score\n", encoding="utf-8")
    run = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", DRIVER, json.dumps(list(COMMANDS))],
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_the_page_has_all_of_them_and_there_are_forty():
    assert list(SENTENCES) == list(PYTHON)
    rows = len(re.findall(r"^\| [^-]", PAGE, re.MULTILINE)) - 2
    assert len(PYTHON) + len(COMMANDS) == rows >= 40


@pytest.mark.parametrize("name", PYTHON)
def test_a_wrong_use_in_python_gets_its_sentence(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisclosureWarning)
        warnings.simplefilter("error", IgnoredWarning)
        with pytest.raises((DiscreetError, DisclosureWarning, IgnoredWarning)) as err:
            PYTHON[name]()
    assert SENTENCES[name] in str(err.value)
    assert "\n" not in str(err.value)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_use_of_the_command_line_gets_its_sentence_and_code(command, commands):
    code, sentence = COMMANDS[command]
    ended, said = commands[command]
    words = " ".join(said.replace("│", " ").split())
    assert sentence in words
    assert ended == code
    assert "Traceback" not in said
    assert "=" not in words.replace("==", "")


@pytest.mark.usefixtures("small_is_fine")
def test_every_friendly_input_is_taken():
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
