"""A row's score depends on that row alone, or the file is refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import discreet
from discreet.data.model_process import (
    LONGEST_TEXT,
    Feature,
    ModelProcess,
    _Worker,
)
from discreet.data.onnx_graph import inputs_of, outputs_of, parsed, prepared
from discreet.data.onnx_rules import RULES, NotRowWiseError
from discreet.data.scoring import ModelFile
from discreet.errors import InputError
from unit.data import onnx_files as files


def checked(raw):
    model = parsed(raw)
    inputs = inputs_of(model)
    widths = {each.name: each.width for each in inputs}
    return prepared(model, inputs, widths, outputs_of(model)[0].tensor)


@pytest.mark.parametrize("name", files.HOSTILE)
def test_a_graph_that_looks_across_rows_is_refused_by_the_operators_name(name):
    with pytest.raises(NotRowWiseError, match=name.split()[0]):
        checked(files.HOSTILE[name])


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (files.branching(), "branches or loops"),
        (files.external("weights.bin"), "other files"),
        (
            files.graph(
                [("Odd", ("X",), ("score",), {"domain": "evil"})], domains=["evil"]
            ),
            "only those of ai.onnx",
        ),
        (b"\x80\x04no model at all", "no ONNX file"),
        (b"", "no ONNX file"),
        (files.graph([files.LINEAR, files.SQUASH], [files.W], opset=6), "opset"),
        (
            files.before(
                (
                    "FeatureVectorizer",
                    ("z", "z"),
                    ("score",),
                    {"domain": "ai.onnx.ml", "inputdimensions": [3, 3]},
                )
            ),
            "do not fit",
        ),
        (
            files.graph(
                [
                    ("ConstantOfShape", ("huge",), ("h",), {}),
                    ("ReduceSum", ("h",), ("s",), {"keepdims": 0}),
                    ("Add", ("X", "s"), ("score",), {}),
                ],
                [files.ints("huge", 10**6, 10**6)],
            ),
            "too large",
        ),
    ],
    ids=["branch", "external", "domain", "damaged", "empty", "old", "vectors", "bomb"],
)
def test_a_file_that_reaches_beyond_a_plain_graph_is_refused(raw, words):
    with pytest.raises(InputError, match=words):
        checked(raw)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("ReduceMean", {"axes": [None]}),
        ("ReduceL2", {"axes": [None]}),
        ("ArgMax", {"axis": None}),
        ("Softmax", {"axis": None}),
        ("LogSoftmax", {"axis": None}),
        ("LpNormalization", {"axis": None}),
    ],
)
def test_an_axis_is_taken_if_and_only_if_it_is_not_that_of_the_rows(
    op, attributes, axis
):
    def given(value):
        return [axis] if isinstance(value, list) else axis

    raw = files.graph(
        [
            (op, ("X",), ("y",), {k: given(v) for k, v in attributes.items()}),
            ("Cast", ("y",), ("score",), {"to": files.FLOAT}),
        ],
        columns=None,
    )
    if axis == 1:
        assert checked(raw).batch == 4096
    else:
        with pytest.raises(InputError, match=f"{op} across rows"):
            checked(raw)


@pytest.mark.parametrize(
    "shape", [(-1, 3), (0, 3), (4096, 1, 3), (-1, 3, 1), (1, -1, 3)]
)
def test_a_reshape_that_keeps_the_rows_apart_is_taken(shape):
    back = files.ints("back", -1, 3)
    raw = files.after(
        ("Reshape", ("X", "shape"), ("x1",), {}),
        ("Reshape", ("x1", "back"), ("x2",), {}),
        constants=[files.ints("shape", *shape), back],
    )
    assert checked(raw).batch == 4096


def test_every_rule_agrees_with_brute_force_on_random_small_graphs():
    """Whatever chain of operators is accepted moves no other row, when it is run."""
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(7)
    steps = {
        "mean0": ("ReduceMean", {"axes": [0], "keepdims": 1}, ()),
        "mean1": ("ReduceMean", {"axes": [1], "keepdims": 1}, ()),
        "softmax0": ("Softmax", {"axis": 0}, ()),
        "softmax1": ("Softmax", {"axis": 1}, ()),
        "turn": ("Transpose", {"perm": [1, 0]}, ()),
        "tanh": ("Tanh", {}, ()),
        "add": ("Add", {}, ("X",)),
        "flatten0": ("Flatten", {"axis": 0}, ()),
        "flatten1": ("Flatten", {"axis": 1}, ()),
        "sum0": ("CumSum", {}, ("zero",)),
        "sum1": ("CumSum", {}, ("one",)),
    }
    accepted = refused = 0
    for _ in range(300):
        chain = rng.choice(list(steps), size=rng.integers(1, 4))
        nodes, last = [], "X"
        for k, name in enumerate(chain):
            op, attributes, more = steps[name]
            nodes.append((op, (last, *more), (f"t{k}",), attributes))
            last = f"t{k}"
        nodes.append(("Identity", (last,), ("score",), {}))
        raw = files.graph(
            nodes,
            [files.constant("zero", 0, np.int64), files.constant("one", 1, np.int64)],
            columns=None,
            rows=8,
        )
        try:
            ready = checked(raw)
        except InputError:
            refused += 1
            continue
        accepted += 1
        session = onnxruntime.InferenceSession(ready.model.SerializeToString())
        x = rng.normal(size=(8, 3)).astype(np.float32)
        y = x.copy()
        y[3] = rng.normal(size=3)
        others = np.arange(8) != 3
        (before,), (after,) = (session.run(None, {"X": v}) for v in (x, y))
        assert np.array_equal(before[others], after[others]), list(chain)
    assert accepted > 40
    assert refused > 40


def test_what_the_proof_misses_is_found_by_the_trial_and_run_row_by_row(
    tmp_path, monkeypatch
):
    """The proof and the trial are two checks: here the first one is broken."""
    source = Path(discreet.__file__).parents[1]
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys; sys.path.insert(0, {str(source)!r})\n"
        "from discreet.data import onnx_rules\n"
        "onnx_rules.RULES['', 'Softmax'] = lambda call: call.rows()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name, size in (("softmax", 1), ("sigmoid", 4096)):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(
            files.before(("Softmax", ("z",), ("score",), {"axis": 0}))
            if name == "softmax"
            else files.before(files.SQUASH)
        )
        model = ModelFile(path, kind="probability")
        assert model._found["batch"] == size
        model.close()


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_file_that_names_two_opsets_is_refused(domain):
    """The proof would follow one of them, and the runtime the other."""
    for first, second in ((17, 11), (11, 17)):
        with pytest.raises(InputError, match="several opsets"):
            checked(files.two_opsets(("", first), (domain, second)))
    assert checked(files.two_opsets(("", 17), (domain, 17))).batch == 4096


@pytest.mark.parametrize("places", [False, True])
def test_a_tree_that_leads_back_is_refused(places):
    """A row that reaches the circle would keep the process for ever."""
    circles = (1, 2) if places else (0, 2, 3)
    for child in circles:
        with pytest.raises(InputError, match="circle in a tree"):
            checked(files.tree(child, places=places))
    assert checked(files.tree(3 if places else 4, places=places)).last.startswith(
        "Tree"
    )


def test_a_tree_whose_child_is_not_there_is_refused():
    with pytest.raises(InputError, match="damaged"):
        checked(files.tree(77))


@pytest.mark.parametrize("places", [False, True])
def test_a_tree_does_not_ask_for_a_feature_of_the_next_row(places):
    """The proof says so, whether or not the runtime looks at the place."""
    model = onnx.load_from_string(files.tree(3 if places else 4, places=places))
    (asked,) = (
        a for a in model.graph.node[0].attribute if a.name == "nodes_featureids"
    )
    for feature in (3, 10**6, -1):
        asked.ints[0] = feature
        with pytest.raises(InputError, match="a feature that is not there"):
            checked(model.SerializeToString())
    asked.ints[0] = 2
    assert checked(model.SerializeToString()).batch == 4096


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_whole_numbers_are_not_divided_by_what_a_row_holds(tmp_path, op):
    """The processor stops at 7/0, and at the least number divided by -1."""
    path = tmp_path / "m.onnx"
    path.write_bytes(files.dividing(op))
    with pytest.raises(InputError, match="divides whole numbers"):
        ModelFile(path)
    for by in ("minus", "nought"):
        path.write_bytes(files.dividing(op, by=by))
        with pytest.raises(InputError, match="by 0 or by -1"):
            ModelFile(path)
    path.write_bytes(files.dividing(op, by="one"))
    ModelFile(path, kind="logit").close()


@pytest.mark.parametrize(
    ("op", "constants"),
    [
        ("ConstantOfShape", []),
        ("Range", [files.ints("end", 5), files.ints("step", 1)]),
    ],
)
def test_a_row_does_not_decide_how_much_memory_is_taken(tmp_path, op, constants):
    """A file for one row at a time is not proved, and has other sizes for each row."""
    path = tmp_path / "m.onnx"
    path.write_bytes(files.sized(op, constants=constants))
    with pytest.raises(InputError, match=f"{op} with a size that a row decides"):
        ModelFile(path, kind="logit")


@pytest.mark.parametrize(
    ("op", "extra"),
    [
        ("Expand", ()),
        ("Tile", ()),
        ("Reshape", ()),
        ("Slice", ("flat", "flat", "flat")),
        ("ReduceSum", ()),
    ],
)
def test_a_size_that_is_computed_from_a_row_is_refused_behind_other_operators(
    op, extra
):
    with pytest.raises(InputError, match=f"{op} with a size that a row decides"):
        checked(
            files.graph(
                [
                    ("Cast", ("X",), ("whole",), {"to": 7}),
                    ("ReduceMax", ("whole",), ("most",), {"axes": [1]}),
                    ("Squeeze", ("most", "axis"), ("size",), {}),
                    (op, ("X", "size", *extra), ("score",), {}),
                ],
                [files.ints("axis", 1), files.FLAT],
                rows=1,
            )
        )


def test_a_file_for_one_row_may_work_out_its_shapes(tmp_path):
    """As PyTorch exports it without dynamic axes."""
    model = onnx.load_from_string(files.MLP)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    file = ModelFile(path)
    x = np.random.default_rng(4).normal(size=(9, 3))
    assert np.allclose(file.score(list(x.T))[:, 0], files.mlp(x), atol=1e-5)
    file.close()


def test_no_text_takes_more_memory_than_there_is(tmp_path):
    """One row with a long text, copied often, would end the process for all rows."""
    path = tmp_path / "m.onnx"
    copied = ("Gather", ("t", "places"), ("wide",), {"axis": 1})
    for times, long, words in (
        (3, "1", None),
        (3, "y" * (LONGEST_TEXT + 1), "a text of more than"),
        (3000, "1", "more cells of text than fit"),
    ):
        places = files.constant("places", np.zeros(times), np.int64)
        path.write_bytes(files.of_text(copied, constants=[places], long=long))
        if words is None:
            model = ModelFile(path, kind="logit")
            cells = np.array(["big", "k1", "w"], dtype=object)
            assert model.score([cells])[:, 0].tolist() == [1, 1, 0]
            model.close()
        else:
            with pytest.raises(InputError, match=words):
                ModelFile(path, kind="logit")


def test_it_does_not_depend_on_how_many_rows_there_are_whether_memory_suffices():
    """Two batches side by side would need more than there is; one after the other fit."""
    ops = ["Neg", "Abs", "Relu", "Ceil", "Floor", "Sign"]
    made = [f"{op}{k}" for k, op in enumerate(ops)]
    raw = files.graph(
        [
            files.LINEAR,
            ("Tile", ("z", "wide"), ("t",), {}),
            *(
                (o, (i,), (m,), {})
                for o, i, m in zip(ops, ["t", *made], made, strict=False)
            ),
            ("Sum", made, ("all",), {}),
            ("ReduceMean", ("all",), ("score",), {"axes": [1]}),
        ],
        [files.W, files.ints("wide", 1, 16384)],
        rows=256,
    )
    x = np.zeros((513, 3), np.float32)
    with closing(ModelProcess(memory=300 * 2**20, threads=2)) as process:
        features = [Feature(**each) for each in process.load(raw, {})["features"]]
        for many in (256, 257, 513):
            assert process.score(features, [x[:many]], many).shape == (many, 1)


def test_a_row_that_fails_does_not_fill_the_batch_that_it_is_alone_in(tmp_path):
    """Its copies would take a batch's time, or memory, of the dearest row there is."""
    path = tmp_path / "m.onnx"
    path.write_bytes(files.before(files.SQUASH))
    worker = _Worker(onnxruntime, 1, 0)
    worker.load(path.read_bytes())
    x = np.full((1, 3), 7, np.float32)
    seen = []
    run = worker.session.run
    worker.session = SimpleNamespace(
        run=lambda names, given: seen.append(given["X"]) or run(names, given)
    )
    worker.scored([x], 1)
    assert (seen[0] == 7).all(axis=1).sum() == 1


def test_floats_are_divided_by_what_a_row_holds(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(files.dividing("Div", kind=files.FLOAT))
    model = ModelFile(path, kind="logit")
    assert model.score([np.array([0.0]), *[np.zeros(1)] * 2])[0, 0] == np.inf
    model.close()


def test_what_was_proved_constant_is_a_constant_of_what_is_run():
    """A second evaluation, by other code, could come to another axis or shape."""
    ready = checked(files.MLP)
    assert [node.op_type for node in ready.model.graph.node] == [
        "Gemm",
        "Relu",
        "Reshape",
        "Gemm",
    ]
    held = {t.name: numpy_helper.to_array(t) for t in ready.model.graph.initializer}
    assert held["table"].tolist() == [4096, 8]


def test_a_shape_that_the_proof_misses_is_found_by_a_run(tmp_path, monkeypatch):
    source = Path(discreet.__file__).parents[1]
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys; sys.path.insert(0, {str(source)!r})\n"
        "from discreet.data import onnx_rules\n"
        "onnx_rules.RULES['', 'Tile'] = lambda call: call.rows()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = tmp_path / "m.onnx"
    for times in (1, 2):
        path.write_bytes(
            files.before(
                ("Tile", ("z", "times"), ("wide",), {}),
                ("ReduceSum", ("wide", "last"), ("score",), {"keepdims": 1}),
                constants=[files.ints("times", 1, times), files.ints("last", 1)],
            )
        )
        if times == 1:
            ModelFile(path, kind="logit").close()
        else:
            with pytest.raises(InputError, match="another shape"):
                ModelFile(path, kind="logit")


def test_a_row_that_fails_is_alone_whatever_the_operator_is_called(tmp_path):
    """The runtime's message holds an operator's name, which the file's author chose."""
    path = tmp_path / "m.onnx"
    path.write_bytes(
        files.before(
            ("Slice", ("X", "zero", "one", "one"), ("a",), {}),
            ("Cast", ("a",), ("place",), {"to": 7}),
            ("Gather", ("table", "place"), ("there",), {"name": "alloc"}),
            ("Add", ("z", "there"), ("score",), {}),
            constants=[
                files.ZERO,
                files.ints("one", 1),
                files.constant("table", np.zeros(5)),
            ],
        )
    )
    model = ModelFile(path, kind="logit")
    x = np.zeros((9, 3))
    x[4] = 99
    assert np.flatnonzero(np.isnan(model.score(list(x.T))[:, 0])).tolist() == [4]
    model.close()


def test_operators_that_draw_or_branch_have_no_rule():
    names = {name for _, name in RULES}
    for word in ("Random", "Bernoulli", "Multinomial", "Loop", "Scan", "If", "Einsum"):
        assert not any(name.startswith(word) for name in names if name != "Identity")


def test_a_constant_is_taken_where_it_is_the_same_for_every_place():
    raw = files.after(
        ("Shape", ("X",), ("shape",), {}),
        (
            "ConstantOfShape",
            ("shape",),
            ("ones",),
            {"value": numpy_helper.from_array(np.ones(1, np.float32))},
        ),
        ("Add", ("X", "ones"), ("x2",), {}),
    )
    assert checked(raw).batch == 4096


def test_a_model_for_one_row_is_run_row_by_row(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(files.graph([files.LINEAR, files.SQUASH], [files.W], rows=1))
    x = np.random.default_rng(1).normal(size=(50, 3))
    scores = ModelFile(path).score(list(x.T))[:, 0]
    expected = 1 / (1 + np.exp(-(x @ [0.5, -1.0, 2.0])))
    assert np.allclose(scores, expected, atol=1e-6)


def test_a_text_that_is_too_long_has_no_score_and_moves_no_other(tmp_path):
    node = helper.make_node(
        "LabelEncoder",
        ["ward"],
        ["z"],
        domain="ai.onnx.ml",
        keys_strings=["icu", "er"],
        values_floats=[2.0, -2.0],
        default_float=0.0,
    )
    squash = helper.make_node("Sigmoid", ["z"], ["score"])
    graph = helper.make_graph(
        [node, squash],
        "text",
        [helper.make_tensor_value_info("ward", 8, ["N", 1])],
        [helper.make_tensor_value_info("score", 1, ["N", 1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    cells = np.array(["icu", "x" * (LONGEST_TEXT + 1), None, "er"], dtype=object)
    scores = ModelFile(path).score([cells])[:, 0]
    assert np.allclose(scores, [0.880797, np.nan, 0.5, 0.119203], equal_nan=True)
