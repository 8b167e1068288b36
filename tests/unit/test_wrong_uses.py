"""A hundred wrong uses, each with its sentence; on the command line also with its exit code.

A sentence says what is wrong and what to do, in the words of the entry point that was
used. ``docs/wrong-uses.md`` has the sentences and the commands.
"""

import copy
import gzip
import inspect
import json
import re
import subprocess
import sys
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

import discreet
from discreet.cli.main import _load
from discreet.errors import DisclosureWarning, DiscreetError, IgnoredWarning
from discreet.plan.file import dumps
from unit.data import onnx_files

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


def _plan(model=None):
    scores = {} if model is None else {"scores": model.scores}
    facts = discreet.PublicFacts(3000, 0.3, **scores)
    return discreet.recommend(facts, discreet.DistributedDP(1), model=model)


class _Predicts:
    """Scores the first rows alone."""

    def predict_proba(self, rows):
        return np.full((len(rows) // 2, 2), 0.5)


class _Constant:
    """Gives one number, whatever the rows."""

    def predict_proba(self, _rows):
        return np.float64(0.5)


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
    "a column of patients for sites": lambda: discreet.evaluate(
        FRAME.assign(patient=range(ROWS)), site="patient"
    ),
    "gaps between labels": lambda: discreet.evaluate(
        FRAME.assign(y_true2=1 - Y),
        labels=["y_true", "y_true2"],
        scores=["y_score", "second"],
    ).fairness(),
    "an unknown average": lambda: discreet.evaluate(
        FRAME.assign(y_true2=1 - Y),
        labels=["y_true", "y_true2"],
        scores=["y_score", "second"],
    ).average("auc", "micro"),
    "one label where several are named": lambda: discreet.evaluate(
        FRAME, labels="died", scores="y_score"
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
    "a group that is called pooled": lambda: discreet.compare(
        FRAME.replace({"sex": {"f": "pooled"}}),
        score=["y_score", "second"],
        group="sex",
    ),
    "groups without a column": lambda: _evaluate(groups=["f", "m"]),
    "exact groups that are nearly the data": lambda: _read(
        group="sex", groups=["f", "m"], examples=10**6
    ),
    "a number for the thresholds": lambda: _evaluate(thresholds=0.5),
    "a threshold in percent": lambda: _result().at(95),
    "a threshold that is NaN": lambda: _result().at(float("nan")),
    "an unknown plot": lambda: _result().plot("pie"),
    "an unknown file of a report": lambda: _result().save("report.pdf"),
    "one score column to compare": lambda: discreet.compare([FRAME]),
    "weights without their largest": lambda: _read(weight="n"),
    "a largest weight without weights": lambda: _evaluate(max_weight=3),
    "weights that are fractions": lambda: _read(weight="percent", max_weight=100),
    "one name for two models": lambda: discreet.compare(
        [FRAME], score=["y_score", "second"], names=("new",)
    ),
    "two models of one name": lambda: discreet.compare(
        [FRAME],
        score=["y_score", "second"],
        names=("new", "new"),
        privacy="distributed",
        epsilon=1,
    ),
    "a misspelled keyword of evaluate": lambda: _read(lable="died"),
    "a misspelled keyword of read": lambda: discreet.read(FRAME, lable="died"),
    "a misspelled keyword of compare": lambda: discreet.compare([FRAME], pirvacy="x"),
    "a misspelled keyword of run": lambda: discreet.run(
        _plan(), [SITE], agregation="x"
    ),
    "a misspelled keyword of recommend": lambda: discreet.recommend(
        discreet.PublicFacts(), discreet.SecureAggregation(), treshold=[0.5]
    ),
    "a misspelled keyword of Examples": lambda: discreet.Examples(S, Y, weigths=[1]),
    "pandas' word for the delimiter": lambda: discreet.read("n.csv", sep=";"),
    "scikit-learn's word for the positive label": lambda: _read(pos_label="yes"),
    "eps for epsilon": lambda: discreet.DistributedDP(eps=1),
    "a model without its epsilon": discreet.DistributedDP,
    "no sites at all": discreet.evaluate,
    "facts without a privacy model": lambda: discreet.recommend(
        discreet.PublicFacts(3000, 0.3)
    ),
    "two words for one keyword": lambda: _read(label="died", y_true="died"),
    "two sites without a list": lambda: discreet.evaluate(SITE, SITE),
    "both columns of predict_proba": lambda: discreet.Examples(
        np.column_stack([1 - S, S]), Y
    ),
    "labels first, then scores": lambda: discreet.Examples(Y.astype(int), S),
    "arrays of text with decimal commas": lambda: discreet.Examples(["0,8"], [1]),
    "arrays of percents": lambda: discreet.Examples(100 * S, Y),
    "arrays of words for labels": lambda: discreet.Examples(S, FRAME["died"]),
    "scores that are missing": lambda: discreet.Examples([0.1, np.nan], [0, 1]),
    "a frame with decimal commas": lambda: discreet.evaluate(
        [FRAME.assign(y_score="0,8")]
    ),
    "a frame with percent signs": lambda: discreet.evaluate(
        [FRAME.assign(y_score="80%")]
    ),
    "a delimiter of a frame": lambda: _read(delimiter=";"),
    "a misspelled unit": lambda: discreet.DistributedDP(1, unit="exmaple"),
    "patients as the unit": lambda: discreet.DistributedDP(1, unit="patient"),
    "subjects without their most rows": lambda: discreet.DistributedDP(
        1, unit="subject"
    ),
    "a misspelled mechanism": lambda: discreet.LabelDP(1, mechanism="respone"),
    "a misspelled model": lambda: _evaluate(privacy="distribted", epsilon=1),
    "a misspelled metric of a forest": lambda: discreet.evaluate(
        FRAME, group="sex"
    ).forest("aucc"),
    "a misspelled metric": lambda: _result().metrics["aucc"],
    "an aim that is none": lambda: _result().threshold(recal=0.8),
    "two aims of a threshold": lambda: _result().threshold(recall=0.8, precision=0.5),
    "an aim without its value": lambda: _result().threshold("recall"),
    "an aim in percent": lambda: _result().threshold(recall=80),
    "a misspelled plot": lambda: _result().plot("calibraton"),
    "a misspelled effect of sites": lambda: _evaluate(heterogeneity=["aucc"]),
    "a misspelled column": lambda: _read(score="y_scor"),
    "a model that is a class": lambda: discreet.evaluate([FRAME], model=_Predicts),
    "an array for a fitted object": lambda: discreet.evaluate(
        [FRAME.to_numpy()], model=_Predicts()
    ),
    "a file that a fitted object cannot read": lambda: discreet.evaluate(
        ["rows.csv"], model=_Predicts(), decimal=","
    ),
    "follow-up beside a fitted object": lambda: discreet.evaluate(
        [FRAME], model=_Predicts(), time="n", event="y_true"
    ),
    "a column that a fitted object needs": lambda: discreet.evaluate(
        [FRAME[["y_score"]]], model=_Predicts(), label="risk"
    ),
    "a fitted object that skips rows": lambda: discreet.evaluate(
        [FRAME], model=_Predicts()
    ),
    "a fitted object that gives one number": lambda: discreet.evaluate(
        [FRAME], model=_Constant()
    ),
    "a model that is a pickle": lambda: _read(model="model.pkl"),
    "a model file that is not there": lambda: _read(model="nowhere.onnx"),
    "a model beside a column of scores": lambda: _read(
        model="model.onnx", score="y_score"
    ),
    "a model that cannot predict": lambda: _read(model=3),
    "a fitted object to read with": lambda: discreet.read("rows.csv", model=object()),
    "a model without its file": discreet.ModelFile,
    "a misspelled keyword of ModelFile": lambda: discreet.ModelFile("m.onnx", input=[]),
}
PAGE = (Path(__file__).parents[2] / "docs" / "wrong-uses.md").read_text("utf-8")
SENTENCES = dict(re.findall(r"^\| ([^`|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)[1:])
COMMANDS = {
    command: (int(code), sentence)
    for command, code, sentence in re.findall(
        r"^\| `discreet (.+)` \(.+\) \| (\d) \| (.+) \|$", PAGE, re.MULTILINE
    )
}


def _as_hospitals_have_them(folder):
    """Write files that need an option, or are none."""
    rows = [f"{int(y)},{s:.4f}" for y, s in zip(Y[:200], S[:200], strict=True)]
    plain = "\n".join(["y_true,y_score", *rows])
    german = plain.replace(",", ";").replace(".", ",")
    files = {
        "german.csv": german.encode(),
        "latin.csv": plain.replace("y_true", "größe,y_true").encode("latin-1"),
        "utf16.csv": plain.encode("utf-16-le"),
        "signs.csv": b"y_true,y_score\n1,83%\n0,12%",
        "both.csv": b"y_true;y_score\n1;83,5%\n0;12%",
        "grouped.csv": b"y_true;y_score\n1;1.200,5\n0;0",
        "ragged.csv": plain.replace(".", ",").encode(),
        "headerless.csv": "\n".join(rows).encode(),
        "missing.csv": (plain + "\n1,\n").encode(),
        "empty.csv": b"",
        "workbook.csv": b"PK\x03\x04" + bytes(60),
        "parquet.csv": b"PAR1" + bytes(60),
        "old.xls": b"\xd0\xcf\x11\xe0",
        "spss.sav": b"$FL2",
        "model.onnx": onnx_files.MLP,
        "damaged.onnx": onnx_files.MLP[:100],
        "sized.onnx": onnx_files.sized("ConstantOfShape"),
        "commas.csv": b"a;b;c\n0,5;1,5;2,5\n",
        "none.csv": b"a,b,c\n",
        "words.csv": "a,b,c,ward\n1,2,3,Süd\n".encode("latin-1"),
        "titled.csv": b"Export\n" + plain.encode(),
        "cut.csv.gz": gzip.compress(plain.encode())[:-8],
        "means.onnx": onnx_files.HOSTILE["ReduceMean"],
        "broken.xlsx": b"PK\x03\x04" + bytes(60),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    openpyxl.Workbook().save(folder / "nothing.xlsx")
    for name, score in (("sheets.xlsx", 0.5), ("dates.xlsx", date(2025, 5, 1))):
        book = openpyxl.Workbook()
        book.active.title = "Scores"
        book.active.append(["y_true", "y_score"])
        book.active.append([1, score])
        if name == "sheets.xlsx":
            book.create_sheet("Notes")
        book.save(folder / name)


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
    (folder / "plan.toml").write_text(dumps(_plan()), encoding="utf-8")
    _as_hospitals_have_them(folder)
    model = discreet.ModelFile(folder / "model.onnx")
    (folder / "m.toml").write_text(dumps(_plan(model)), encoding="utf-8")
    model.close()
    run = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", DRIVER, json.dumps(list(COMMANDS))],
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def test_the_page_has_all_of_them_and_there_are_a_hundred():
    assert list(SENTENCES) == list(PYTHON)
    rows = len(re.findall(r"^\| [^-]", PAGE, re.MULTILINE)) - 2
    assert len(PYTHON) + len(COMMANDS) == rows >= 100


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


@pytest.mark.parametrize(
    "command",
    [c for c in COMMANDS if c.split()[0] in ("evaluate", "compare", "preview")],
)
def test_a_sentence_names_no_option_that_its_command_lacks(command, commands):
    verb, *rest = command.split()
    known = {o for p in _load(verb).params for o in (*p.opts, *p.secondary_opts)}
    planning = {"--max-weight", "--help"}  # of the plan that has to be made
    advised = set(re.findall(r"--[a-z-]*[a-z]", commands[command][1])) - {*rest}
    assert advised <= known | planning


@pytest.mark.parametrize("name", ["CentralDP", "DistributedDP", "LabelDP", "LocalDP"])
def test_a_privacy_model_needs_its_epsilon_and_can_be_copied(name):
    model = getattr(discreet, name)
    with pytest.raises(discreet.InputError, match=rf"^{name} needs epsilon=, for"):
        model()
    assert next(iter(inspect.signature(model).parameters)) == "epsilon"
    made = model(epsilon=1)
    assert copy.deepcopy(made) == copy.copy(made) == made


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
