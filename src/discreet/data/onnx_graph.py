"""What a model file holds, and the part of its graph that is run.

A file is refused that is no plain graph: operators of other packages, branches and
loops, tensors in other files. What is run is the part before one output, for batches of
one size, once ``onnx_rules`` has proved that it scores each row by itself.

The functions here run in the process that ``model_process`` starts: a hostile file is
parsed there and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    numpy_helper,
)
from onnx import helper as onnx_helper

from discreet.codec.parsing import shown
from discreet.data.onnx_hazards import (
    check_sizes,
    check_texts,
    check_trees,
    divisors,
)
from discreet.data.onnx_rules import (
    DOMAINS,
    LONGEST,
    MAIN,
    ML,
    RULES,
    Fixed,
    NotRowWiseError,
    Rows,
    State,
    advance,
    array_of,
    labels_of,
    title,
)
from discreet.errors import InputError

BATCH: Final = 4096
"""Rows of one run; a model that was exported for another number is run with that."""
MOST_NODES: Final = 100_000
_OLDEST: Final = 7
"""Before, operators had other rules for shapes that differ."""
_NEWEST: Final = 21
"""For files that say nothing, because all operators are of ai.onnx.ml."""
TEXT: Final = "text"
_TYPES: Final = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.INT64: "int64",
    TensorProto.INT32: "int32",
    TensorProto.BOOL: "bool",
    TensorProto.STRING: TEXT,
}
"""What a column of a model may be declared as."""


# What a file holds, before anything of it is run.


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a model: its type, and how many columns of a site's file it takes."""

    name: str
    kind: str
    width: int | None
    flat: bool
    """Whether it is a vector, a number for each row, and not a matrix."""


@dataclass(frozen=True, slots=True)
class Output:
    """An output that can be a score: the tensor that holds it, and its classes."""

    name: str
    tensor: str
    labels: tuple[str, ...] | None


def parsed(raw: bytes) -> ModelProto:
    """Parse a file and refuse whatever reaches beyond it, or is no plain graph."""
    try:
        model = onnx.load_model_from_string(raw)
    except Exception:  # noqa: BLE001 - the parser's own errors quote the file
        raise InputError("this is no ONNX file, or it is damaged") from None
    if not model.graph.node:
        raise InputError("this is no ONNX file, or its graph is empty")
    if len(model.graph.node) > MOST_NODES:
        raise InputError(f"the model has more than {MOST_NODES:,} operators")
    if model.functions:
        raise InputError("the model defines functions of its own: export it inlined")
    if model.training_info or model.graph.sparse_initializer:
        raise InputError("the model holds training steps or sparse tensors")
    for node in model.graph.node:
        _check_operator(node)
    for tensor in _tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise InputError(
                "the model keeps tensors in other files: save it as one file, with "
                "onnx.save(model, path, save_as_external_data=False)"
            )
    return model


def _check_operator(node: NodeProto) -> None:
    if node.domain not in DOMAINS:
        raise InputError(
            f"the model uses {title(node)}, an operator of "
            f"{shown(node.domain[:LONGEST])!r}; only those of ai.onnx and "
            "ai.onnx.ml are run"
        )
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            raise InputError(
                f"the model uses {title(node)}, whose branches or loops are not "
                "run: export it without"
            )


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def inputs_of(model: ModelProto) -> list[Input]:
    """Return the inputs in the file's order; refuse what is no column of a table."""
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name in held:
            continue
        title = shown(value.name[:LONGEST])
        kind = _TYPES.get(value.type.tensor_type.elem_type)
        if not value.type.HasField("tensor_type") or kind is None:
            raise InputError(
                f"input {title!r} is no column of numbers or text: export the model with "
                "float, double, int64, bool or string inputs"
            )
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(f"input {title!r} declares no shape: export it with one")
        sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if len(sizes) not in (1, 2):
            raise InputError(
                f"input {title!r} has {len(sizes)} axes: a table has rows and columns"
            )
        flat = len(sizes) == 1
        inputs.append(Input(value.name, kind, 1 if flat else sizes[1] or None, flat))
    if not inputs:
        raise InputError("the model has no input")
    return inputs


def batch_of(model: ModelProto) -> int:
    """Return with how many rows the model is run: its own number, if it has one."""
    held = {tensor.name for tensor in model.graph.initializer}
    sizes = {
        value.type.tensor_type.shape.dim[0].dim_value
        for value in model.graph.input
        if value.name not in held
    } - {0}
    if not sizes:
        return BATCH
    size = int(min(sizes))
    if len(sizes) > 1 or size > 2**16:
        raise InputError("the inputs are declared for different numbers of rows")
    return size


def outputs_of(model: ModelProto) -> list[Output]:
    """Return the outputs that are numbers; of a ZipMap, the tensor that it takes."""
    made = {name: node for node in model.graph.node for name in node.output}
    outputs = []
    for value in model.graph.output:
        node = made.get(value.name)
        if node is not None and node.op_type == "ZipMap":
            outputs.append(Output(value.name, node.input[0], labels_of(node)))
        elif value.type.tensor_type.elem_type in (
            TensorProto.FLOAT,
            TensorProto.DOUBLE,
        ):
            outputs.append(Output(value.name, value.name, _labels_before(model)))
    return outputs


def _labels_before(model: ModelProto) -> tuple[str, ...] | None:
    """Return the labels of the one classifier in a graph; None where there are more."""
    labels = {labels_of(node) for node in model.graph.node} - {None}
    return labels.pop() if len(labels) == 1 else None


def feature_names(model: ModelProto) -> tuple[str, ...] | None:
    """Return the names of the columns that whoever wrote the file put beside it."""
    for entry in model.metadata_props:
        if entry.key == "feature_names":
            try:
                names = json.loads(entry.value)
            except ValueError:
                return None
            if isinstance(names, list) and all(isinstance(n, str) for n in names):
                return tuple(names)
    return None


# What is run: the part of the graph before one output, for batches of one size.


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph that was found to be row-wise, and what its output is."""

    model: ModelProto
    batch: int
    unknown: tuple[str, ...]
    """Outputs that are all zero in a row with a category that the model does not know."""
    last: str
    """The operator that makes the output: whether scores are logits is told by it."""
    shapes: Mapping[str, tuple[int, ...]]
    """Every tensor with rows, and the shape that the proof gave it."""
    divisors: tuple[str, ...]
    """Tensors that are divided by: whole numbers there are refused."""


def prepared(
    model: ModelProto,
    inputs: Sequence[Input],
    widths: Mapping[str, int],
    tensor: str,
    *,
    softmax: bool = False,
    one_by_one: bool = False,
) -> Prepared:
    """Cut the graph down to what makes one tensor, and prove that it is row-wise.

    What the proof took as constant is a constant of the graph that is run, so that no
    second evaluation of it can come to another value. With ``one_by_one`` what is
    returned takes one row at a time.
    """
    batch, graph = batch_of(model), model.graph
    nodes = [_plain(node) for node in _needed(graph, tensor)]
    read = {name for node in nodes for name in node.input} | {tensor}
    kept = [t for t in graph.initializer if t.name in read]
    shapes = {
        each.name: (batch,) if each.flat else (batch, widths[each.name])
        for each in inputs
    }
    unknown = _openly(nodes)
    states = _prove(nodes, kept, shapes, tensor, opset=_opset(model), batch=batch)
    last = _last(nodes, tensor)
    proved = {name: s.shape for name, s in states.items() if isinstance(s, Rows)}
    if one_by_one:
        proved = {}  # a row at a time: of other shapes, and alone by construction
    elif states:
        nodes, kept = _folded(nodes, kept, states)
        unknown = tuple(name for name in unknown if name in proved)
    asked = divisors(nodes, kept)
    if softmax:
        raw, tensor = tensor, "discreet_softmax"
        nodes.append(onnx_helper.make_node("Softmax", [raw], [tensor], axis=-1))
    cut = GraphProto(name="score", node=nodes, initializer=kept)
    for value in graph.input:
        if value.name in shapes:
            shape = shapes[value.name]
            kind = value.type.tensor_type.elem_type
            if one_by_one:
                shape = (1, *shape[1:])
            cut.input.append(
                onnx_helper.make_tensor_value_info(value.name, kind, shape)
            )
    for name in (tensor, *unknown):
        cut.output.append(onnx.ValueInfoProto(name=name))
    whole = ModelProto(ir_version=model.ir_version, graph=cut)
    known = {o.domain: o for o in model.opset_import if o.domain in DOMAINS}
    whole.opset_import.extend(known.values())
    if not known.keys() & {MAIN, "ai.onnx"}:
        whole.opset_import.append(onnx_helper.make_opsetid(MAIN, _NEWEST))
    rows = 1 if one_by_one else batch
    return Prepared(whole, rows, unknown, last, proved, asked)


def _folded(
    nodes: Sequence[NodeProto],
    constants: Sequence[TensorProto],
    states: Mapping[str, State],
) -> tuple[list[NodeProto], list[TensorProto]]:
    """Put the values of the proof in the place of the operators that make them."""

    def fixed(name: str) -> bool:
        return isinstance(states[name], Fixed)

    left = [n for n in nodes if not all(fixed(name) for name in n.output if name)]
    written = {tensor.name: tensor for tensor in constants}
    kept = []
    for name in dict.fromkeys(name for n in left for name in n.input if name):
        if name in written:
            kept.append(written[name])
        elif isinstance(state := states[name], Fixed):
            value = np.array(state.value)
            if value.dtype.kind == "U":
                value = value.astype(object)
            kept.append(numpy_helper.from_array(value, name))
    return left, kept


def _opset(model: ModelProto) -> int:
    """Return which rules the operators have; a file that names two is refused."""
    versions: dict[str, set[int]] = {MAIN: set(), ML: set()}
    for opset in model.opset_import:
        if opset.domain in DOMAINS:
            versions[DOMAINS[opset.domain]].add(opset.version)
    if any(len(each) > 1 for each in versions.values()):
        raise InputError("the model names several opsets of one domain: export it anew")
    main = max(versions[MAIN], default=_NEWEST)
    if main < _OLDEST:
        raise InputError(f"the model is of opset {main}: export it with {_OLDEST} on")
    return main


def _prove(
    nodes: Sequence[NodeProto],
    constants: Sequence[TensorProto],
    inputs: Mapping[str, tuple[int, ...]],
    tensor: str,
    *,
    opset: int,
    batch: int,
) -> dict[str, State]:
    """Refuse a graph unless each row of a tensor depends on that row alone.

    Returns what each tensor is; nothing for a model that takes one row at a time.
    """
    for node in nodes:
        if (DOMAINS[node.domain], node.op_type) not in RULES:
            raise NotRowWiseError(
                f"the model uses {title(node)}, which is not known to score each row "
                "by itself"
            )
        check_trees(node)
    check_texts(nodes, constants)
    if batch == 1:
        _refuse_training(nodes, constants)
        check_sizes(nodes, inputs)
        return {}  # one row at a time, by operators that draw nothing at random
    states: dict[str, State] = {
        held.name: Fixed(tuple(held.dims), array_of(held)) for held in constants
    }
    states |= {name: Rows(shape, 0) for name, shape in inputs.items()}
    for node in nodes:
        advance(node, states, opset, batch)
    state = states.get(tensor)
    if not isinstance(state, Rows):
        raise InputError("this output does not depend on the model's inputs")
    if state.axis != 0 or len(state.shape) > 2:
        raise InputError("this output is no vector of numbers for each row")
    return states


def _refuse_training(
    nodes: Sequence[NodeProto], constants: Sequence[TensorProto]
) -> None:
    """Refuse Dropout that draws, where no rule looks at its inputs."""
    off = {t.name for t in constants if not array_of(t).any()}
    for node in nodes:
        training = node.input[2] if len(node.input) > 2 else ""
        if node.op_type == "Dropout" and training and training not in off:
            raise NotRowWiseError(
                "the model uses Dropout as in training, which is random"
            )


def _needed(graph: GraphProto, tensor: str) -> list[NodeProto]:
    """Return the operators that a tensor is made by, in the file's order."""
    wanted, kept = {tensor}, []
    for node in reversed(graph.node):
        if any(name in wanted for name in node.output if name):
            wanted.update(name for name in node.input if name)
            kept.append(node)
    return kept[::-1]


def _plain(node: NodeProto) -> NodeProto:
    copied = NodeProto()
    copied.CopyFrom(node)
    copied.name = ""  # it would be in the runtime's messages
    return copied


def _openly(nodes: Sequence[NodeProto]) -> tuple[str, ...]:
    """Let encoders go on at a category that they do not know; return their outputs.

    Such an encoder fails, and with it the whole batch. Here it writes zeros, and its
    output says which rows those are: they have no score.
    """
    named = []
    for node in nodes:
        if node.op_type != "OneHotEncoder":
            continue
        for attribute in node.attribute:
            if attribute.name == "zeros" and attribute.i == 0:
                attribute.i = 1
                named.append(node.output[0])
    return tuple(named)


_ALONG: Final = frozenset(
    {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout"}
)


def _last(nodes: Sequence[NodeProto], tensor: str) -> str:
    """Return the operator that makes a tensor, beyond those that only hand it on."""
    made = {name: node for node in nodes for name in node.output}
    while (node := made.get(tensor)) is not None:
        if node.op_type not in _ALONG:
            return str(node.op_type)
        tensor = node.input[0]
    return ""
