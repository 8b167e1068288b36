"""Graphs made by hand: what exporters write, and what somebody hostile would."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
INPUTS = ("a", "b", "c")


def constant(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)


def graph(
    nodes,
    constants=(),
    *,
    output="score",
    columns=1,
    rows="N",
    wide=3,
    opset=17,
    **more,
):
    """Return a file's bytes: nodes from X (rows, 3) to a score (rows, columns)."""
    ops = [helper.make_node(op, list(i), list(o), **a) for op, i, o, a in nodes]
    made = helper.make_graph(
        ops,
        "made by hand",
        [helper.make_tensor_value_info("X", FLOAT, [rows, wide])],
        [helper.make_tensor_value_info(output, FLOAT, [rows, columns])],
        initializer=list(constants),
    )
    learned = more.pop("ml", 3)
    domains = [
        helper.make_opsetid("", opset),
        helper.make_opsetid("ai.onnx.ml", learned),
    ]
    domains += [helper.make_opsetid(d, 1) for d in more.pop("domains", ())]
    model = helper.make_model(made, opset_imports=domains, ir_version=8, **more)
    names = model.metadata_props.add()
    names.key, names.value = "feature_names", '["a", "b", "c"]'
    return model.SerializeToString()


W = constant("w", [[0.5], [-1.0], [2.0]])
LINEAR = ("MatMul", ("X", "w"), ("z",), {})
SQUASH = ("Sigmoid", ("z",), ("score",), {})


def after(*nodes, constants=()):
    """Return a file in which nodes from X to x2 come before a linear model."""
    linear = [("MatMul", ("x2", "w"), ("z",), {}), SQUASH]
    return graph([*nodes, *linear], [W, *constants])


def before(*nodes, constants=()):
    """Return a file in which nodes follow a linear model's z (rows, 1)."""
    return graph([LINEAR, *nodes], [W, *constants])


def ints(name, *values):
    return constant(name, values, np.int64)


ZERO, ROWS, FLAT, TWO = ints("zero", 0), ints("n", 4096), ints("flat", -1), ints("k", 5)

HOSTILE = {
    "ReduceMean": after(
        ("ReduceMean", ("X",), ("m",), {"axes": [0], "keepdims": 1}),
        ("Sub", ("X", "m"), ("x2",), {}),
    ),
    "ReduceMax": after(
        ("ReduceMax", ("X",), ("m",), {"keepdims": 1}),
        ("Div", ("X", "m"), ("x2",), {}),
    ),
    "ReduceSum": after(
        ("ReduceSum", ("X", "zero"), ("m",), {"keepdims": 1}),
        ("Sub", ("X", "m"), ("x2",), {}),
        constants=[ZERO],
    ),
    "Softmax": before(("Softmax", ("z",), ("score",), {"axis": 0})),
    "LpNormalization": before(("LpNormalization", ("z",), ("score",), {"axis": 0})),
    "CumSum": after(
        ("CumSum", ("X", "axis"), ("x2",), {}), constants=[ints("axis", 0)]
    ),
    "TopK": after(
        ("TopK", ("X", "n"), ("x2", "places"), {"axis": 0}), constants=[ROWS]
    ),
    "ArgMax": before(
        ("ArgMax", ("z",), ("best",), {"axis": 0}),
        ("Cast", ("best",), ("there",), {"to": FLOAT}),
        ("Add", ("z", "there"), ("score",), {}),
    ),
    "MatMul": graph(  # every row with every other
        [
            ("Transpose", ("X",), ("t",), {"perm": [1, 0]}),
            ("MatMul", ("X", "t"), ("all",), {}),
            ("ReduceSum", ("all", "one"), ("score",), {"keepdims": 1}),
        ],
        [ints("one", 1)],
    ),
    "Gemm": graph(
        [
            ("Transpose", ("X",), ("t",), {"perm": [1, 0]}),
            ("Gemm", ("X", "t"), ("all",), {}),
            ("ReduceSum", ("all", "one"), ("score",), {"keepdims": 1}),
        ],
        [ints("one", 1)],
    ),
    "Reshape": after(  # three rows become one and back
        ("Reshape", ("X", "mixed"), ("x2",), {}),
        constants=[ints("mixed", 3, -1)],
    ),
    "Reshape of one axis": after(
        ("Reshape", ("X", "flat"), ("line",), {}),
        ("CumSum", ("line", "axis"), ("sums",), {}),
        ("Reshape", ("sums", "table"), ("x2",), {}),
        constants=[FLAT, ints("axis", 0), ints("table", -1, 3)],
    ),
    "Concat": after(
        ("Concat", ("X", "X"), ("twice",), {"axis": 0}),
        ("Slice", ("twice", "zero", "n"), ("x2",), {}),
        constants=[ZERO, ROWS],
    ),
    "Slice": after(
        ("Slice", ("X", "zero", "one"), ("first",), {}),
        ("Add", ("X", "first"), ("x2",), {}),
        constants=[ZERO, ints("one", 1)],
    ),
    "Gather": after(
        ("Gather", ("X", "zero"), ("first",), {"axis": 0}),
        ("Add", ("X", "first"), ("x2",), {}),
        constants=[ZERO],
    ),
    "Gather by other rows": before(
        ("Cast", ("z",), ("place",), {"to": TensorProto.INT64}),
        ("Gather", ("X", "place"), ("theirs",), {"axis": 0}),
        ("ReduceSum", ("theirs", "axes"), ("score",), {"keepdims": 0}),
        constants=[ints("axes", 2)],
    ),
    "ReduceMax for a condition of all rows": after(  # a condition over the whole batch
        ("ReduceMax", ("X",), ("m",), {"keepdims": 0}),
        ("Greater", ("m", "limit"), ("any",), {}),
        ("Neg", ("X",), ("turned",), {}),
        ("Where", ("any", "X", "turned"), ("x2",), {}),
        constants=[constant("limit", 3.0)],
    ),
    "Add": after(  # a constant for each place in the batch
        ("Add", ("X", "places"), ("x2",), {}),
        constants=[constant("places", np.arange(4096)[:, None])],
    ),
    "Add of an axis turned": graph(
        [
            LINEAR,
            ("Transpose", ("z",), ("t",), {"perm": [1, 0]}),
            ("Add", ("z", "t"), ("all",), {}),
            ("ReduceMean", ("all",), ("score",), {"axes": [1]}),
        ],
        [W],
    ),
    "Mul of signs of zeros": graph(  # 1/0 is not 1/-0: how many rows stand before?
        [
            LINEAR,
            ("Slice", ("X", "zero", "one", "one"), ("a",), {}),
            ("Equal", ("a", "rare"), ("hit",), {}),
            ("Cast", ("hit",), ("gate",), {"to": FLOAT}),
            ("Mul", ("gate", "signs"), ("small",), {}),
            ("Reciprocal", ("small",), ("large",), {}),
            ("Clip", ("large", "low", "high"), ("place",), {}),
            ("Mul", ("place", "gate"), ("gated",), {}),
            ("Add", ("z", "gated"), ("score",), {}),
        ],
        [
            W,
            ZERO,
            ints("one", 1),
            constant("rare", 12345.0),
            constant("low", -5.0),
            constant("high", 5.0),
            constant("signs", np.where(np.arange(4096) % 2, -0.0, 0.0)[:, None]),
        ],
    ),
    "OneHotEncoder": graph(  # of a turned table: its unknown rows are others
        [
            ("Transpose", ("X",), ("t",), {"perm": [1, 0]}),
            ("Cast", ("t",), ("whole",), {"to": TensorProto.INT64}),
            (
                "OneHotEncoder",
                ("whole",),
                ("hot",),
                {"domain": "ai.onnx.ml", "cats_int64s": [0, 1, 2], "zeros": 0},
            ),
            ("ReduceSum", ("hot", "last"), ("many",), {"keepdims": 0}),
            ("Transpose", ("many",), ("score",), {"perm": [1, 0]}),
        ],
        [ints("last", 2)],
        columns=3,
    ),
    "Dropout of a constant": before(
        ("Dropout", ("one", "half", "yes"), ("drawn",), {}),
        ("Mul", ("z", "drawn"), ("score",), {}),
        constants=[
            constant("one", [[1.0]]),
            constant("half", 0.5),
            constant("yes", True, np.bool_),
        ],
    ),
    "Dropout of one row": graph(
        [LINEAR, ("Dropout", ("z", "half", "yes"), ("score",), {})],
        [W, constant("half", 0.5), constant("yes", True, np.bool_)],
        rows=1,
    ),
    "Mul": after(
        ("Shape", ("X",), ("shape",), {}),
        ("Range", ("start", "end", "step"), ("place",), {}),
        ("Reshape", ("place", "tall"), ("column",), {}),
        ("Mul", ("X", "column"), ("x2",), {}),
        constants=[
            constant("start", 0.0),
            constant("end", 4096.0),
            constant("step", 1.0),
            ints("tall", -1, 1),
        ],
    ),
    "ReduceMean that is expanded": after(
        ("ReduceMean", ("X",), ("m",), {"axes": [0]}),
        ("Expand", ("m", "shape"), ("x2",), {}),
        constants=[ints("shape", 4096, 3)],
    ),
    "BatchNormalization": graph(
        [
            LINEAR,
            (
                "BatchNormalization",
                ("z", "one", "zero", "mean", "var"),
                ("score", "m", "v"),
                {"training_mode": 1},
            ),
        ],
        [
            W,
            *(
                constant(n, [v])
                for n, v in zip(
                    ("one", "zero", "mean", "var"), (1, 0, 0, 1), strict=True
                )
            ),
        ],
    ),
    "LayerNormalization": graph(
        [LINEAR, ("LayerNormalization", ("z", "one"), ("score",), {"axis": 0})],
        [W, constant("one", [1.0])],
    ),
    "RandomNormalLike": before(
        ("RandomNormalLike", ("z",), ("noise",), {}),
        ("Add", ("z", "noise"), ("score",), {}),
    ),
    "Bernoulli": before(("Bernoulli", ("z",), ("score",), {})),
    "Dropout": before(
        ("Dropout", ("z", "half", "yes"), ("score",), {}),
        constants=[constant("half", 0.5), constant("yes", True, np.bool_)],
    ),
    "NonZero": before(
        ("NonZero", ("z",), ("where",), {}),
        ("Cast", ("where",), ("places",), {"to": FLOAT}),
        ("ReduceSum", ("places",), ("many",), {"keepdims": 0}),
        ("Add", ("z", "many"), ("score",), {}),
    ),
    "Unique": before(
        ("Unique", ("z",), ("score",), {"axis": 0}),
    ),
    "ScatterND": before(
        ("ScatterND", ("z", "places", "values"), ("score",), {}),
        constants=[ints("places", 0), constant("values", [1.0])],
    ),
    "ReverseSequence": before(
        (
            "ReverseSequence",
            ("z", "lengths"),
            ("score",),
            {"batch_axis": 1, "time_axis": 0},
        ),
        constants=[ROWS],
    ),
    "Einsum": graph(
        [
            ("Einsum", ("X", "X"), ("all",), {"equation": "ij,kj->ik"}),
            ("ReduceSum", ("all", "one"), ("score",), {"keepdims": 1}),
        ],
        [ints("one", 1)],
    ),
    "Tile": after(
        ("Tile", ("X", "twice"), ("long",), {}),
        ("Slice", ("long", "zero", "n"), ("x2",), {}),
        constants=[ints("twice", 2, 1), ZERO, ROWS],
    ),
    "Pad": after(
        ("Pad", ("X", "pads"), ("x1",), {}),
        ("Slice", ("x1", "zero", "n"), ("x2",), {}),
        constants=[ints("pads", 1, 0, 0, 0), ZERO, ROWS],
    ),
    "Split": after(
        ("Split", ("X", "halves"), ("x1", "x3"), {"axis": 0}),
        ("Concat", ("x3", "x1"), ("x2",), {"axis": 0}),
        constants=[ints("halves", 1, 4095)],
    ),
    "ReduceMax of a turned table": graph(
        [
            LINEAR,
            ("Transpose", ("z",), ("t",), {"perm": [1, 0]}),
            ("Transpose", ("t",), ("score",), {"perm": [1, 0]}),
            ("ReduceMax", ("t",), ("m",), {"axes": [1]}),
        ],
        [W],
        output="m",
    ),
}
"""Files in which one row moves another's score, by the operator that is refused."""


def external(path):
    """Return a file that keeps a tensor in another file."""
    model = onnx.load_from_string(graph([LINEAR, SQUASH], [W]))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", path
    return model.SerializeToString()


def branching():
    inner = helper.make_graph(
        [helper.make_node("Identity", ["z"], ["score"])],
        "inner",
        [],
        [helper.make_tensor_value_info("score", FLOAT, None)],
    )
    return graph(
        [
            LINEAR,
            ("If", ("yes",), ("score",), {"then_branch": inner, "else_branch": inner}),
        ],
        [W, constant("yes", True, np.bool_)],
    )


def two_opsets(first, second):
    """Return a file that names two opsets: a softmax over all axes in the older one."""
    raw = before(
        ("Reshape", ("z", "line"), ("u",), {}),
        ("Softmax", ("u",), ("s",), {"axis": 1}),
        ("Reshape", ("s", "table"), ("score",), {}),
        constants=[ints("line", 1, 1, -1), ints("table", -1, 1)],
    )
    model = onnx.load_from_string(raw)
    del model.opset_import[:]
    model.opset_import.extend([helper.make_opsetid(*each) for each in (first, second)])
    return model.SerializeToString()


def tree(child, *, places=False):
    """Return a file with one tree, whose node 3 has ``child`` on its left."""
    left, right = [2, 0, 4, child, 0, 0], [1, 0, 3, 5, 0, 0]
    if places:  # as TreeEnsemble, whose leaves are counted apart
        node = {
            "tree_roots": [0],
            "nodes_featureids": [0, 0, 0],
            "nodes_modes": constant("", [4, 4, 4], np.uint8),
            "nodes_splits": constant("", [100.0, 200.0, 5.0]),
            "nodes_truenodeids": [1, 1, child],
            "nodes_trueleafs": [0, 1, 0 if child < 3 else 1],
            "nodes_falsenodeids": [0, 2, 2],
            "nodes_falseleafs": [1, 0, 1],
            "leaf_targetids": [0] * 4,
            "leaf_weights": constant("", [1.0, 2.0, 3.0, 4.0]),
            "n_targets": 1,
        }
        return graph(
            [("TreeEnsemble", ("X",), ("score",), {"domain": "ai.onnx.ml", **node})],
            ml=5,
        )
    node = {
        "nodes_treeids": [0] * 6,
        "nodes_nodeids": list(range(6)),
        "nodes_featureids": [0] * 6,
        "nodes_modes": ["BRANCH_GT" if k in (0, 2, 3) else "LEAF" for k in range(6)],
        "nodes_values": [100.0, 0.0, 200.0, 5.0, 0.0, 0.0],
        "nodes_truenodeids": left,
        "nodes_falsenodeids": right,
        "target_treeids": [0] * 3,
        "target_nodeids": [1, 4, 5],
        "target_ids": [0] * 3,
        "target_weights": [1.0, 2.0, 3.0],
        "n_targets": 1,
    }
    name = "TreeEnsembleRegressor"
    return graph([(name, ("X",), ("score",), {"domain": "ai.onnx.ml", **node})])


def dividing(op, *, kind=TensorProto.INT64, by="a"):
    """Return a file that divides by the rows' first column, or by a constant."""
    return before(
        ("Slice", ("X", "zero", "one", "one"), ("first",), {}),
        ("Cast", ("first",), ("a",), {"to": kind}),
        (op, ("seven", by) if by == "a" else ("a", by), ("quotient",), {}),
        ("Cast", ("quotient",), ("there",), {"to": FLOAT}),
        ("Add", ("z", "there"), ("score",), {}),
        constants=[
            ZERO,
            ints("one", 1),
            constant("seven", 7, helper.tensor_dtype_to_np_dtype(kind)),
            ints("minus", -1),
            ints("nought", 0),
        ],
    )


def sized(op, *, constants=()):
    """Return a file for one row at a time, which may make as much as the row says."""
    return graph(
        [
            LINEAR,
            ("Cast", ("z",), ("whole",), {"to": TensorProto.INT64}),
            ("Abs", ("whole",), ("many",), {}),
            ("Reshape", ("many", "flat"), ("size",), {}),
            (op, ("size", *(c.name for c in constants)), ("large",), {}),
            ("Cast", ("large",), ("numbers",), {"to": FLOAT}),
            ("ReduceMax", ("numbers",), ("most",), {"keepdims": 0}),
            ("Add", ("z", "most"), ("score",), {}),
        ],
        [W, FLAT, *constants],
        rows=1,
    )


def of_text(*nodes, constants=(), long="1"):
    """Return a file that writes ``long`` for the text "big", and counts after nodes."""
    ml = {"domain": "ai.onnx.ml"}
    words = {"keys_strings": [*(f"k{k}" for k in range(99)), "big"]}
    words["values_strings"] = ["1"] * 99 + [long]
    ones = {"keys_strings": ["1"], "values_floats": [1.0], "default_float": 0.0}
    ops = [
        ("LabelEncoder", ("ward",), ("t",), words | ml),
        *nodes,
        ("LabelEncoder", ("wide",), ("f",), ones | ml),
        ("ReduceMax", ("f",), ("score",), {"axes": [1], "keepdims": 1}),
    ]
    made = helper.make_graph(
        [helper.make_node(op, i, o, **a) for op, i, o, a in ops],
        "text",
        [helper.make_tensor_value_info("ward", TensorProto.STRING, ["N", 1])],
        [helper.make_tensor_value_info("score", FLOAT, ["N", 1])],
        initializer=list(constants),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=8)
    return model.SerializeToString()


MLP = graph(  # as PyTorch exports: a logit, and a shape that is worked out
    [
        ("Gemm", ("X", "w1", "b1"), ("h",), {"transB": 1}),
        ("Relu", ("h",), ("r",), {}),
        ("Shape", ("r",), ("shape",), {}),
        ("Gather", ("shape", "zero"), ("n",), {"axis": 0}),
        ("Concat", ("n", "wide"), ("table",), {"axis": 0}),
        ("Reshape", ("r", "table"), ("same",), {}),
        ("Gemm", ("same", "w2", "b2"), ("score",), {"transB": 1}),
    ],
    [
        constant("w1", np.linspace(-1, 1, 24).reshape(8, 3)),
        constant("b1", np.linspace(0, 1, 8)),
        constant("w2", np.linspace(-1, 1, 8).reshape(1, 8)),
        constant("b2", [0.25]),
        ZERO,
        ints("wide", 8),
    ],
)


def mlp(x):
    """Score rows as ``MLP`` does."""
    h = np.maximum(x @ np.linspace(-1, 1, 24).reshape(8, 3).T + np.linspace(0, 1, 8), 0)
    return h @ np.linspace(-1, 1, 8) + 0.25
