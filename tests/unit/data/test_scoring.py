"""Model files of ten kinds give the library's own scores; what is wrong is one sentence."""

from __future__ import annotations

import json
import os
import resource
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import discreet
import forked
from discreet.cli.main import app
from discreet.data import model_process
from discreet.data.labels import LabelCode
from discreet.data.model_process import ModelProcess
from discreet.data.scoring import ModelFile, Scoring
from discreet.entropy import SYSTEM
from discreet.errors import InputError, PlanError
from discreet.plan.file import dumps, loads
from discreet.plan.plan import ModelRef
from discreet.privacy.account import MemoryAccount
from discreet.session.policy import AllowAll
from discreet.session.respond import respond
from discreet.session.site import Site
from discreet.session.state import InMemory
from unit.data import onnx_files as files

COLUMNS = list("abcde")
ROWS = 5000


def table(seed, rows):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5)).astype(np.float32)
    risk = x[:, 0] - 0.5 * x[:, 1] + x[:, 2] * x[:, 3]
    y = (risk + rng.normal(size=rows) > 0.3).astype(int)
    return x, y


X, Y = table(1, 600)
HELD_OUT, HELD_OUT_Y = table(2, ROWS)


def frame(x, y, **more):
    return pd.DataFrame(dict(zip(COLUMNS, np.asarray(x).T, strict=True))).assign(
        died=y, **more
    )


def mixed(x, y):
    """Return a table with text, whole numbers and missing values."""
    wide = frame(x, y)
    wide["ward"] = np.where(x[:, 2] > 0, "icu", np.where(x[:, 3] > 0, " er", "007"))
    wide["visits"] = np.clip(np.round(np.abs(x[:, 4]) * 3), 0, 9).astype(np.int64)
    wide.loc[wide.index % 7 == 0, "a"] = np.nan
    return wide[["a", "b", "ward", "visits", "died"]]


def sklearn_file(model, sample, **options):
    from skl2onnx import to_onnx

    return to_onnx(model, sample, **options).SerializeToString()


def boosted_file(library, model):
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    convert = getattr(onnxmltools, f"convert_{library}")
    return convert(
        model, initial_types=[("X", FloatTensorType([None, 5]))]
    ).SerializeToString()


def fitted(kind):
    """Return a fitted model of a library, the bytes of its file and its held-out rows."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC

    plain = {
        "logistic": LogisticRegression(),
        "random forest": RandomForestClassifier(20, max_depth=5, random_state=0),
        "gradient boosting": GradientBoostingClassifier(
            n_estimators=20, random_state=0
        ),
        "support vectors": SVC(probability=True, random_state=0),
        "calibrated": CalibratedClassifierCV(LogisticRegression(), cv=3),
        "naive Bayes": GaussianNB(),
        "network": MLPClassifier((8,), max_iter=60, random_state=0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind in plain:
            model = plain[kind].fit(X, Y)
            return model, sklearn_file(model, X[:1]), HELD_OUT
        if kind == "multi-class":
            model = LogisticRegression().fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
            return (
                model,
                sklearn_file(model, X[:1], options={"zipmap": False}),
                HELD_OUT,
            )
        if kind == "LightGBM":
            import lightgbm

            model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(X, Y)
            return model, boosted_file("lightgbm", model), HELD_OUT
        if kind == "XGBoost":
            import xgboost

            model = xgboost.XGBClassifier(n_estimators=20).fit(X, Y)
            return model, boosted_file("xgboost", model), HELD_OUT
        assert kind == "pipeline"
        train = mixed(X, Y)
        numeric = make_pipeline(SimpleImputer(), StandardScaler())
        columns = ColumnTransformer(
            [
                ("numbers", numeric, ["a", "b", "visits"]),
                ("texts", OneHotEncoder(), ["ward"]),
            ]
        )
        model = make_pipeline(columns, LogisticRegression())
        model.fit(train.drop(columns="died"), train["died"])
        sample = train.drop(columns="died")[1:2]
        return model, sklearn_file(model, sample), mixed(HELD_OUT, HELD_OUT_Y)


KINDS = [
    "logistic",
    "pipeline",
    "random forest",
    "gradient boosting",
    "support vectors",
    "multi-class",
    "LightGBM",
    "XGBoost",
    "calibrated",
    "naive Bayes",
    "network",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return the path of a kind's file; each kind is fitted once."""
    folder, made = tmp_path_factory.mktemp("models"), {}

    def path(kind):
        if kind not in made:
            model, raw, rows = fitted(kind)
            place = folder / f"{kind}.onnx"
            place.write_bytes(raw)
            made[kind] = place, model, rows
        return made[kind]

    return path


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_library(saved, kind, capsys):
    path, model, rows = saved(kind)
    named = None if kind == "pipeline" else COLUMNS
    file = ModelFile(path, inputs=named)
    assert file.scores.kind == "probability"
    features = rows if named is None else frame(rows, HELD_OUT_Y)
    truth = (
        np.digitize(HELD_OUT[:, 0], [-0.5, 0.5])
        if kind == "multi-class"
        else HELD_OUT_Y
    )
    classes = [0, 1, 2] if kind == "multi-class" else None
    given = features.assign(died=truth)
    examples = discreet.read(given, model=file, label="died", classes=classes)
    scores, labels = examples.to_arrays()
    wanted = model.predict_proba(rows)
    expected = wanted if kind == "multi-class" else wanted[:, 1]
    assert np.array_equal(labels, truth)
    far = np.abs(scores - expected) > 1e-5
    edges = np.linspace(0, 1, 129)
    moved = np.searchsorted(edges, scores, "right") != np.searchsorted(
        edges, expected, "right"
    )
    with capsys.disabled():
        print(  # noqa: T201 - a figure that is asked for
            f"\n{kind}: of {scores.size} scores {far.sum()} differ by more than 1e-5, "
            f"{moved.sum()} lie in another of 128 bins"
        )
    # A split of 32 bits may send a row that lies on it the other way.
    assert far.mean() <= (1e-3 if kind in TREES else 0)
    assert moved.mean() < 2e-3
    file.close()


TREES = {"random forest", "gradient boosting", "LightGBM", "XGBoost"}


def test_a_logit_as_pytorch_exports_it_is_told_from_the_file(tmp_path):
    path = tmp_path / "mlp.onnx"
    path.write_bytes(files.MLP)
    model = ModelFile(path)
    assert model.scores.kind == "logit"
    x = np.random.default_rng(3).normal(size=(9000, 3))
    given = pd.DataFrame(x, columns=list("abc")).assign(y_true=x[:, 0] > 0)
    scores, _ = discreet.read(given, model=model).to_arrays()
    assert np.allclose(scores, files.mlp(x), atol=1e-5)
    result = discreet.evaluate([given], model=model)
    assert result.plan.facts.scores.kind == "logit"
    assert result.plan.model.scoring.softmax is False


def test_two_raw_outputs_become_probabilities_by_a_softmax_that_the_plan_names(
    tmp_path,
):
    path = tmp_path / "two.onnx"
    weights = files.constant("w", [[0.5, -1.0], [1.0, 0.0], [0.0, 2.0]])
    path.write_bytes(
        files.graph([("MatMul", ("X", "w"), ("score",), {})], [weights], columns=2)
    )
    model = ModelFile(path)
    assert model.scoring(LabelCode()).softmax
    x = np.random.default_rng(3).normal(size=(40, 3))
    z = x @ np.array([[0.5, -1.0], [1.0, 0.0], [0.0, 2.0]])
    scores = model.score(list(x.T))
    assert np.allclose(scores[:, 1], 1 / (1 + np.exp(z[:, 0] - z[:, 1])), atol=1e-6)


def test_an_output_that_the_file_does_not_explain_must_be_declared(tmp_path):
    path = tmp_path / "odd.onnx"
    path.write_bytes(files.before(("Exp", ("z",), ("score",), {})))
    with pytest.raises(InputError, match="declare kind="):
        ModelFile(path)
    assert ModelFile(path, kind="other", low=0, high=50).scores.high == 50


@pytest.mark.parametrize("change", ["missing", "text", "date", "extra"])
def test_wrong_columns_are_one_sentence_before_a_row_is_read(saved, tmp_path, change):
    path, _, _ = saved("logistic")
    given = frame(X, Y)
    if change == "missing":
        given, words = given.drop(columns=["b", "e"]), "b, e are missing"
    elif change == "text":
        given, words = given.assign(b="12"), "declares numbers in column b"
    elif change == "date":
        given["b"] = pd.Timestamp("2025-01-31")
        words = "declares numbers in column b"
    else:
        given, words = given.assign(patient="p"), None
    file = tmp_path / "rows.parquet"
    given.to_parquet(file)
    model = ModelFile(path, inputs=COLUMNS)
    for source in (file, pl.read_parquet(file), pq.read_table(file), given):
        if words is None:
            assert len(discreet.read(source, model=model, label="died")) == len(X)
        else:
            with pytest.raises(InputError, match=words):
                discreet.read(source, model=model, label="died")


def test_a_number_where_text_is_declared_is_refused(saved):
    path, _, rows = saved("pipeline")
    with pytest.raises(InputError, match="declares text in column ward"):
        discreet.read(rows.assign(ward=3), model=ModelFile(path), label="died")


def test_a_csv_file_gives_the_scores_of_its_parquet(saved, tmp_path):
    path, _, rows = saved("pipeline")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    model = ModelFile(path)
    scores = [
        discreet.read(tmp_path / f"rows.{end}", model=model, label="died").to_arrays()
        for end in ("csv", "parquet")
    ]
    assert np.allclose(scores[0][0], scores[1][0], atol=1e-6)
    assert np.array_equal(scores[0][1], scores[1][1])


def test_a_row_without_a_score_follows_the_rule_and_moves_no_other(saved):
    path, _, rows = saved("pipeline")
    model = ModelFile(path)
    odd = rows.head(300).copy()
    odd.loc[5, "ward"] = "a ward that the model does not know"
    odd["visits"] = odd["visits"].astype("float64")
    odd.loc[9, "visits"] = np.nan
    odd.loc[11, "visits"] = 1.5
    own = discreet.read(rows.head(300), model=model, label="died").to_arrays()[0]
    with pytest.raises(InputError, match="gives 3 rows no score"):
        len(discreet.read(odd, model=model, label="died"))
    lenient = discreet.read(odd, model=model, label="died").fitted()
    kept = lenient.to_arrays()[0]
    assert lenient.set_aside == 3
    assert np.array_equal(kept, np.delete(own, [5, 9, 11]))


def test_a_rows_score_is_the_same_bits_in_any_company(saved):
    rng = np.random.default_rng(5)
    for kind in ("logistic", "random forest", "naive Bayes"):
        path, _, rows = saved(kind)
        model = ModelFile(path, inputs=COLUMNS)
        whole = model.score(list(rows.T))
        for many in (1, 7, 4095):
            chosen = rng.permutation(len(rows))[:many]
            assert np.array_equal(model.score(list(rows[chosen].T)), whole[chosen])
        model.close()


def test_neighbouring_tables_differ_by_one_count(saved):
    """Brute force: adding a row moves the counts by one, whatever the row is."""
    path, _, rows = saved("naive Bayes")
    model = ModelFile(path, inputs=COLUMNS)
    plan = discreet.recommend(
        discreet.PublicFacts(100, 0.4), discreet.DistributedDP(1), model=model
    )
    some = frame(rows[:60], HELD_OUT_Y[:60])
    whole = plan.statistic.count(
        discreet.read(some, model=model, label="died").fitted()
    )
    for k in range(60):
        without = discreet.read(some.drop(index=k), model=model, label="died").fitted()
        assert np.abs(whole - plan.statistic.count(without)).sum() == 1


def test_the_plan_names_the_file_and_other_scores_are_refused(saved):
    path, _, _ = saved("logistic")
    model = ModelFile(path, inputs=COLUMNS)
    plan = discreet.recommend(
        discreet.PublicFacts(600, 0.4), discreet.DistributedDP(4), model=model
    )
    assert loads(dumps(plan)) == plan
    assert plan.model.digest == model.digest
    sites = [frame(X[k::3], Y[k::3]) for k in range(3)]
    result = discreet.run(plan, sites, model=path, label="died")
    assert f"by the model file {model.digest}" in str(result.claim)
    column = [discreet.Examples(np.linspace(0, 1, 200), [0, 1] * 100)] * 3
    with pytest.raises(InputError, match="made at each site by the model file"):
        discreet.run(plan, column)
    other, _, _ = saved("gradient boosting")
    with pytest.raises(InputError, match="another file than the plan's"):
        discreet.run(plan, sites, model=other, label="died")


def test_a_plan_without_a_model_file_has_the_digest_that_it_had():
    plan = discreet.recommend(discreet.PublicFacts(600, 0.4), discreet.DistributedDP(4))
    assert b"scoring" not in plan.canonical()
    assert "scoring" not in dumps(plan)


def test_a_digest_of_a_model_file_is_a_digest():
    model = ModelRef("m", "sha256:" + "0" * 64)
    scoring = replace(model, scoring=None)
    assert scoring.origin() is None
    with pytest.raises(PlanError, match="sha256:HEX"):
        ModelRef("m", "sha256:0", Scoring(("a",), "score", (0,)))


def test_sites_with_a_python_object_are_simulated_and_the_claim_says_so(saved):
    _, model, rows = saved("random forest")
    given = frame(rows, HELD_OUT_Y)
    columns = given[[*COLUMNS, "died"]]
    result = discreet.evaluate([columns, columns], model=model, label="died")
    assert "from a Python object in this process" in str(result.claim)
    by_hand = discreet.evaluate(
        [discreet.Examples(model.predict_proba(rows)[:, 1], HELD_OUT_Y)] * 2
    )
    assert result.auc.value == by_hand.auc.value


def test_a_packed_file_that_is_cut_or_damaged_is_refused_beside_a_python_object(
    saved, tmp_path
):
    _, model, rows = saved("logistic")
    path = tmp_path / "rows.csv.gz"
    frame(rows, HELD_OUT_Y).to_csv(path, index=False)
    whole = path.read_bytes()
    discreet.evaluate(path, model=model, label="died")
    for broken in (whole[: len(whole) // 2], whole[:200] + b"\0" * 50 + whole[250:]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="not read as it is"):
            discreet.evaluate(path, model=model, label="died")


def test_a_decision_function_needs_its_public_range():
    from sklearn.svm import LinearSVC

    model = LinearSVC().fit(X, Y)
    given = frame(HELD_OUT, HELD_OUT_Y)
    with pytest.raises(InputError, match="low and high"):
        discreet.evaluate([given], model=model, label="died")
    result = discreet.evaluate([given], model=model, label="died", low=-9, high=9)
    assert result.plan.facts.scores.kind == "other"


def test_classes_are_matched_by_their_labels(saved):
    path, model, rows = saved("multi-class")
    file = ModelFile(path, inputs=COLUMNS)
    with pytest.raises(InputError, match="3 classes"):
        file.columns_for(LabelCode())
    assert file.columns_for(LabelCode(classes=("2", "0", "1"))) == (2, 0, 1)
    truth = np.digitize(HELD_OUT[:, 0], [-0.5, 0.5])
    results = discreet.evaluate(
        [frame(rows, truth)], model=file, label="died", classes=["0", "1", "2"]
    )
    one = discreet.Examples(model.predict_proba(rows)[:, 2], truth == 2)
    assert results["2"].auc.value == pytest.approx(
        discreet.evaluate([one]).auc.value, abs=1e-4
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m.joblib", "skl2onnx"),
        ("m.pkl", "never opened"),
        ("m.pt", "torch.onnx.export"),
        ("m.json", "convert_xgboost"),
        ("m.txt", "convert_lightgbm"),
        ("m.exe", "ends in .onnx"),
        ("none.onnx", "no such file"),
    ],
)
def test_other_files_are_never_opened(tmp_path, name, words):
    if name != "none.onnx":
        (tmp_path / name).write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(InputError, match=words):
        ModelFile(tmp_path / name)


def test_a_database_cannot_score(saved, tmp_path):
    import duckdb

    path, _, _ = saved("logistic")
    place = tmp_path / "rows.duckdb"
    with duckdb.connect(str(place)) as database:
        database.execute("create table t as select 1 as a, 1 as died")
    with pytest.raises(InputError, match="export the features to Parquet"):
        discreet.read(
            place, table="t", model=ModelFile(path, inputs=COLUMNS), label="died"
        )


def test_a_model_that_takes_too_much_memory_is_refused():
    def bomb(copies):
        return files.graph(
            [
                ("Expand", ("X", "shape"), ("h",), {}),
                ("Exp", ("h",), ("e",), {}),
                ("ReduceSum", ("e", "axes"), ("s",), {"keepdims": 0}),
                ("Sigmoid", ("s",), ("score",), {}),
            ],
            [files.ints("shape", copies, 4096, 3), files.ints("axes", 0)],
            columns=3,
        )

    process = ModelProcess(memory=2**27)
    with pytest.raises(InputError, match="more memory than it may"):
        process.load(bomb(4000), {})
    with pytest.raises(InputError, match="Expand"):
        process.load(bomb(10**9), {})
    assert process.load(files.MLP, {})["columns"] == 1  # it lives on
    process.close()


def test_time_is_limited(monkeypatch):
    weights = np.ones((2000, 2000), np.float32)
    layers = 4_000  # many minutes, if nobody ended it
    raw = files.graph(
        [
            ("MatMul", ("X", "w0"), ("h0",), {}),
            *(("MatMul", (f"h{k}", "w"), (f"h{k + 1}",), {}) for k in range(layers)),
            ("ReduceMax", (f"h{layers}",), ("m",), {"axes": [1]}),
            ("Sigmoid", ("m",), ("score",), {}),
        ],
        [files.constant("w", weights), files.constant("w0", weights[:3])],
    )
    monkeypatch.setattr(model_process, "LOAD_SECONDS", 0.6)
    process = ModelProcess()
    with pytest.raises(InputError, match="longer than it may"):
        process.load(raw, {})
    process.close()


def test_a_program_with_a_thousand_open_files_can_score():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1300:
        pytest.skip(f"a process may not open 1,300 files here, but {hard}")
    with ExitStack() as opened:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1300), hard))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            opened.enter_context(Path(os.devnull).open("rb"))
        process = ModelProcess()
        opened.callback(process.close)
        assert process._process.stdout.fileno() >= 1024
        assert process.load(files.MLP, {})["columns"] == 1


def test_the_process_inherits_no_secret(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    process = ModelProcess()
    held = Path(f"/proc/{process._process.pid}/environ").read_bytes()
    process.close()
    assert b"hunter2" not in held


def test_without_the_extra_one_sentence_says_what_to_install(saved, monkeypatch):
    path, _, _ = saved("logistic")
    real = model_process.importlib.util.find_spec
    monkeypatch.setattr(
        model_process.importlib.util,
        "find_spec",
        lambda name: None if name == "onnxruntime" else real(name),
    )
    with pytest.raises(discreet.MissingExtraError, match=r"\[score\]"):
        ModelFile(path, inputs=COLUMNS)


def test_names_of_columns_come_from_the_file_where_it_has_them(saved, tmp_path):
    path, _, _ = saved("logistic")
    with pytest.raises(InputError, match="takes 5 columns and does not name them"):
        ModelFile(path)
    model = onnx.load(path)
    entry = model.metadata_props.add()
    entry.key, entry.value = "feature_names", json.dumps(COLUMNS)
    named = tmp_path / "named.onnx"
    onnx.save(model, named)
    assert ModelFile(named).inputs == tuple(COLUMNS)
    with pytest.raises(InputError, match="5 columns, and 2 are named"):
        ModelFile(named, inputs=["a", "b"])


def test_many_rows_in_parts_are_scored_once_each(saved):
    path, _, rows = saved("logistic")
    many = np.tile(rows, (30, 1))
    source = pa.table(
        dict(zip(COLUMNS, many.T.copy(), strict=True))
        | {"died": np.tile(HELD_OUT_Y, 30)}
    )
    model = ModelFile(path, inputs=COLUMNS)
    examples = discreet.read(source, model=model, label="died")
    once = discreet.read(
        frame(rows, HELD_OUT_Y), model=model, label="died"
    ).to_arrays()[0]
    assert np.array_equal(examples.to_arrays()[0], np.tile(once, 30))
    assert len(examples) == len(many)


def test_two_columns_of_predict_proba_are_told_what_to_do(saved):
    _, model, rows = saved("logistic")
    with pytest.raises(InputError, match=r"predict_proba\(X\)\[:, 1\]"):
        discreet.evaluate([discreet.Examples(model.predict_proba(rows), HELD_OUT_Y)])


def test_a_site_refuses_scores_of_another_origin_before_it_is_charged(saved):
    path, _, _ = saved("logistic")
    model = ModelFile(path, inputs=COLUMNS)
    plan = discreet.recommend(
        discreet.PublicFacts(600, 0.4), discreet.DistributedDP(4), model=model
    )
    account = MemoryAccount()
    column = discreet.Examples([0.1, 0.9], [0, 1])
    site = Site(
        lambda _: column,
        AllowAll(population="p", privacy=()),
        account,
        SYSTEM,
        InMemory(),
        plan,
        simulated=True,
    )
    with pytest.raises(InputError, match="made at each site by the model file"):
        respond(site, plan, plan.resolve(0, []), session=b"s" * 32)
    assert account.spent("p").epsilon == 0


def _as_files(rows, folder):
    """Write rows as hospitals have them; return each file with its options."""
    rows.to_parquet(folder / "rows.parquet")
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_csv(folder / "german.csv", index=False, sep=";", decimal=",")
    rows.to_csv(folder / "bars.csv", index=False, sep="|", decimal=",")
    rows.to_excel(folder / "rows.xlsx", index=False)
    return {
        "rows.parquet": {},
        "rows.csv": {},
        "german.csv": {"decimal": ","},
        "bars.csv": {"delimiter": "|", "decimal": ","},
        "rows.xlsx": {},
    }


def test_every_file_of_the_same_rows_gives_the_same_scores(saved, tmp_path):
    path, _, rows = saved("pipeline")
    model, some = ModelFile(path), rows.head(400)
    found = {
        name: discreet.read(
            tmp_path / name, model=model, label="died", **options
        ).to_arrays()
        for name, options in _as_files(some, tmp_path).items()
    }
    scores, labels = found.pop("rows.parquet")
    for other in found.values():
        assert np.allclose(other[0], scores, atol=1e-6)
        assert np.array_equal(other[1], labels)


def test_a_label_that_is_also_a_feature_is_read_as_both(saved, tmp_path):
    path, _, x = saved("logistic")
    model = ModelFile(path, inputs=COLUMNS)
    rows = frame(x[:300], 0).drop(columns="died").assign(e=HELD_OUT_Y[:300])
    own = model.score([rows[c].to_numpy() for c in COLUMNS])[:, 1]
    for name, options in _as_files(rows, tmp_path).items():
        read = discreet.read(tmp_path / name, model=model, label="e", **options)
        scores, labels = read.to_arrays()
        assert np.allclose(scores, own, atol=1e-6)
        assert np.array_equal(labels, HELD_OUT_Y[:300])


def test_a_cell_that_cannot_be_read_does_not_pass_for_a_missing_one(saved, tmp_path):
    """The model replaces what is missing: undeclared commas would give other scores."""
    path, _, rows = saved("pipeline")
    model, some = ModelFile(path), rows.head(200)
    _as_files(some, tmp_path)
    with pytest.raises(
        InputError, match=r"features are written .* declare decimal=','"
    ):
        discreet.read(tmp_path / "german.csv", model=model, label="died").validate()
    plain = discreet.read(tmp_path / "rows.csv", model=model, label="died").to_arrays()
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    words = some.astype({"b": object})
    words.loc[3, "b"] = "1,5"
    lines[4] = lines[4].replace(f",{lines[4].split(',')[1]},", ',"1,5",', 1)
    (tmp_path / "odd.csv").write_text("\n".join(lines))
    words.to_excel(tmp_path / "odd.xlsx", index=False)
    for name in ("odd.csv", "odd.xlsx"):
        odd = discreet.read(tmp_path / name, model=model, label="died").fitted()
        assert np.allclose(odd.to_arrays()[0], np.delete(plain[0], 3), atol=1e-6)
        assert odd.set_aside == 1


def test_the_command_scores_every_file_alike(saved, tmp_path):
    path, _, rows = saved("pipeline")
    made = {}
    for name, options in _as_files(rows.head(300), tmp_path).items():
        words = ["score", str(path), str(tmp_path / name)]
        words += ["--out", str(tmp_path / f"{name}.scored.parquet")]
        for option, value in options.items():
            words += [f"--{option}", value]
        run = CliRunner().invoke(app, words)
        assert run.exit_code == 0, (name, run.exception)
        made[name] = pq.read_table(tmp_path / f"{name}.scored.parquet").to_pandas()
    own = made.pop("rows.parquet")
    for other in made.values():
        assert list(other.columns) == ["died", "y_score"]
        assert np.allclose(other["y_score"], own["y_score"], atol=1e-6)
        assert other["died"].astype(int).tolist() == own["died"].tolist()


def test_the_command_says_why_rows_have_no_score(tmp_path):
    """Rows with other text are scored as missing; nobody should learn it in a session."""
    (tmp_path / "m.onnx").write_bytes(files.MLP)
    lines = ["a;b;c", "0.5;1;2", "0,5;1;2"]
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    for text, code in ((lines, 0), ([lines[0], lines[2]], 2)):
        rows.write_text("\n".join(text), encoding="utf-8")
        words = ["score", tmp_path / "m.onnx", rows, "--out", out]
        run = forked.run(list(map(str, words)))
        assert run.returncode == code
        assert 'a decimal comma: declare --decimal ","' in run.stderr
        assert out.exists() == (code == 0)
        out.unlink(missing_ok=True)


def test_a_row_without_a_score_is_set_aside_in_a_session(saved):
    """Under noise a site answers whatever its rows are, and counts the others."""
    path, _, rows = saved("pipeline")
    model = ModelFile(path)
    plan = discreet.recommend(
        discreet.PublicFacts(300, 0.4), discreet.DistributedDP(1000), model=model
    )
    odd = rows.head(300).copy()
    odd.loc[5, "ward"] = "a ward that the model does not know"
    answers = []
    for one in (rows.head(300).drop(index=5), odd):
        examples = discreet.read(one, model=model, label="died")
        site = Site(
            lambda _, examples=examples: examples,
            AllowAll(population="p", privacy=()),
            MemoryAccount(),
            SYSTEM,
            InMemory(),
            plan,
            simulated=True,
        )
        answer = respond(site, plan, plan.resolve(0, []), session=b"s" * 32)
        answers.append(plan.statistic.count(examples.fitted()))
        assert len(answer) == len(answers[0])
    assert np.array_equal(*answers)


def test_a_batch_that_fails_is_halved_until_the_failing_rows_are_alone():
    """Against the model row by row: who fails, and every other row's score."""
    worker = model_process._Worker(None, 1, 0, batch=8)

    def run(columns, many):
        padded = columns[0][np.arange(worker.batch) % many]
        runs.append(many)
        if (padded[:, 0] < 0).any():
            raise ValueError
        return np.column_stack([padded[:many, 0], 2 * padded[:many, 0]])

    worker._batch = run
    rng = np.random.default_rng(3)
    for rows in (1, 2, 7, 8, 9, 40):
        for share in (0, 0.1, 0.5, 1):
            runs = []
            x = np.arange(1.0, rows + 1)[:, None]
            x[rng.random(rows) < share] *= -1
            scores = worker.scored([x], rows)
            expected = np.where(x < 0, np.nan, np.hstack([x, 2 * x]))
            wide = scores.shape[1]
            assert np.array_equal(scores, expected[:, :wide], equal_nan=True)
            assert wide == 2 or (x < 0).all()
            fails = int((x < 0).sum())
            assert len(runs) <= -(-rows // 8) + 2 * fails * 3


def test_a_batch_without_memory_is_not_halved():
    worker = model_process._Worker(None, 1, 0, batch=8)
    runs = []

    def run(_columns, many):
        runs.append(many)
        raise RuntimeError("Failed to allocate memory")

    worker._batch = run
    with pytest.raises(MemoryError):
        worker.scored([np.ones((8, 1))], 8)
    assert runs == [8]
