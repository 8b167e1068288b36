"""What one row could do to a model's process: end it, or never let it finish.

A process that dies or hangs takes the scores of all rows with it, and whoever made the
file could choose the row. So four things are refused before a row is scored:

- **Trees with a way back.** A row that reaches a circle of nodes never leaves it.
- **Whole numbers divided by what a row holds.** A processor stops at a division by 0, and
  at the least number divided by -1. Constants as divisors are looked at, and must be
  neither; so nothing is lost, since exporters divide floats.
- **Sizes that a row decides.** A row could ask for more memory than there is. For batches
  ``onnx_rules`` proves every size; ``check_sizes`` does for files that take one row.
- **Texts without a bound.** Of all tensors of text, as many as a batch may make, each cell
  may have ``LONGEST_TEXT`` bytes: that must fit in memory.

A fifth one is checked by a run (``shapes``): every tensor must have the shape that the
proof of ``onnx_rules`` gave it, or what it says about rows is about other places.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx import helper as onnx_helper

from discreet.data.model_process import LONGEST_TEXT
from discreet.data.onnx_rules import array_of, title
from discreet.errors import InputError

_DIVISIONS: Final = frozenset({"Div", "Mod"})
_WHOLE: Final = ("tensor(int", "tensor(uint")
"""How onnxruntime writes the types of whole numbers."""
_SHAPE: Final = "discreet_shape_"
_MOST_TEXT: Final = 2**31
"""Bytes that the texts of a batch may take."""
_SIZES: Final[Mapping[str, Sequence[int]]] = {
    **dict.fromkeys(("ConstantOfShape", "Range"), (0, 1, 2)),
    **dict.fromkeys(("Pad", "Slice"), (1, 2, 3, 4)),
}
"""Which inputs decide how large an output is, where it is not the second one alone."""
_SIZED: Final = (
    "ConstantOfShape Expand OneHot Pad Range Reshape Slice Split Squeeze Tile TopK "
    "Unsqueeze"
)


def check_trees(node: NodeProto) -> None:
    """Refuse an ensemble of trees in which a row can walk in a circle.

    Nodes without a parent are taken away, again and again (Kahn's algorithm): what
    remains lies on a circle or behind one.
    """
    if not node.op_type.startswith("TreeEnsemble"):
        return
    held: dict[str, Any] = {
        a.name: np.array(a.ints or (), dtype=np.int64) for a in node.attribute
    }
    try:
        children = _children(node, held)
    except (KeyError, IndexError, ValueError):
        raise InputError(f"{title(node)} has trees that are damaged") from None
    parents = np.bincount(children[children >= 0], minlength=children.shape[1])
    free = np.flatnonzero(parents == 0)
    left = children.shape[1]
    while free.size:
        left -= free.size
        below = children[:, free].ravel()
        reached, times = np.unique(below[below >= 0], return_counts=True)
        parents[reached] -= times
        free = reached[parents[reached] == 0]
    if left:
        raise InputError(
            f"the model uses {title(node)} with a circle in a tree: a row could walk in "
            "it for ever"
        )


def _children(node: NodeProto, held: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the two children of each node by their places; -1 where there is none."""
    sides = np.stack([held["nodes_truenodeids"], held["nodes_falsenodeids"]])
    if node.op_type == "TreeEnsemble":  # children are named by their places
        leaves = np.stack([held["nodes_trueleafs"], held["nodes_falseleafs"]])
        places = np.where(leaves == 0, sides, -1)
        if places.size and not -1 <= places.min() <= places.max() < sides.shape[1]:
            raise ValueError
        return places
    (modes,) = (a.strings for a in node.attribute if a.name == "nodes_modes")
    branch = np.array([mode != b"LEAF" for mode in modes], dtype=np.bool_)
    trees = np.unique(held["nodes_treeids"], return_inverse=True)[1]
    names, ids = np.unique(held["nodes_nodeids"], return_inverse=True)
    keys = trees * max(names.size, 1) + ids
    order = np.argsort(keys, kind="stable")
    if np.unique(keys).size != keys.size or branch.size != keys.size:
        raise ValueError
    places = np.full(sides.shape, -1)
    for side, found in zip(sides[:, branch], places, strict=True):
        at = np.searchsorted(names, side)
        wanted = trees[branch] * names.size + at
        place = np.searchsorted(keys, wanted, sorter=order)
        found[branch] = order[place]  # beyond the end: an IndexError
        if (names[at] != side).any() or (keys[found[branch]] != wanted).any():
            raise ValueError
    return places


def check_sizes(nodes: Sequence[NodeProto], inputs: Collection[str]) -> None:
    """Refuse operators whose output is as large as what a row holds.

    Whatever comes from an input depends on rows, but for shapes: they are the same for
    all rows if every operator before them passed.
    """
    by_row = set(inputs)
    for node in nodes:
        kind = node.op_type
        if kind in _SIZED.split() or kind.startswith("Reduce"):
            places = _SIZES.get(kind, (1,))
            if by_row & {node.input[k] for k in places if k < len(node.input)}:
                raise InputError(
                    f"the model uses {title(node)} with a size that a row decides: one "
                    "row could take all memory"
                )
        if kind not in ("Shape", "Size") and by_row.intersection(node.input):
            by_row.update(name for name in node.output if name)


def check_texts(nodes: Sequence[NodeProto], constants: Sequence[TensorProto]) -> None:
    """Refuse a file with a text that no category is as long as."""
    held = [s for t in constants for s in t.string_data]
    for node in nodes:
        for attribute in node.attribute:
            held += [*attribute.strings, *attribute.t.string_data, attribute.s]
    if max(map(len, held), default=0) > LONGEST_TEXT:
        raise InputError(
            f"the model holds a text of more than {LONGEST_TEXT} bytes: shorten its "
            "categories"
        )


def divisors(
    nodes: Sequence[NodeProto], constants: Sequence[TensorProto]
) -> tuple[str, ...]:
    """Return the tensors that rows are divided by; refuse constants that cannot be.

    The types of the returned ones are the runtime's to say.
    """
    held = {tensor.name: tensor for tensor in constants}
    asked = []
    for node in nodes:
        if node.op_type not in _DIVISIONS or len(node.input) < 2:
            continue
        divisor = node.input[1]
        if divisor not in held:
            asked.append(divisor)
            continue
        value = array_of(held[divisor])
        least = -1 if value.dtype.kind == "i" else 0
        if value.dtype.kind in "iu" and ((value <= 0) & (value >= least)).any():
            raise InputError(
                f"{title(node)} divides whole numbers by 0 or by -1: export the model "
                "with floats"
            )
    return tuple(dict.fromkeys(asked))


def probe(model: ModelProto, tensors: Sequence[str], asked: Sequence[str]) -> bytes:
    """Return a model that tells the shapes of tensors, and has ``asked`` as outputs.

    Where there is text, the types of all tensors are told too.
    """
    copied = ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    if _has_text(graph):
        asked = [*asked, *tensors]
    for k, name in enumerate(tensors):
        graph.node.append(onnx_helper.make_node("Shape", [name], [f"{_SHAPE}{k}"]))
        graph.output.append(ValueInfoProto(name=f"{_SHAPE}{k}"))
    held = {value.name for value in graph.output}
    asked = [name for name in dict.fromkeys(asked) if name not in held]
    graph.output.extend(ValueInfoProto(name=name) for name in asked)
    raw: bytes = copied.SerializeToString()
    return raw


def _has_text(graph: GraphProto) -> bool:
    return (
        any(v.type.tensor_type.elem_type == TensorProto.STRING for v in graph.input)
        or any(t.data_type == TensorProto.STRING for t in graph.initializer)
        or any(
            a.strings
            or a.t.data_type == TensorProto.STRING
            or (a.name == "to" and a.i == TensorProto.STRING)
            for node in graph.node
            for a in node.attribute
        )
    )


def check_types(session: Any, asked: Sequence[str]) -> None:
    """Refuse a model in which a row's own whole number is a divisor."""
    for output in session.get_outputs():
        if output.name in asked and output.type.startswith(_WHOLE):
            raise InputError(
                "the model divides whole numbers by what a row holds, which could end "
                "its process: export it with floats"
            )


def check_room(session: Any, sizes: Mapping[str, Sequence[int]]) -> None:
    """Refuse a model whose texts could take more memory than a batch may."""
    cells = sum(
        prod(sizes[output.name])
        for output in session.get_outputs()
        if output.name in sizes and output.type == "tensor(string)"
    )
    if cells * LONGEST_TEXT > _MOST_TEXT:
        raise InputError(
            "the model makes more cells of text than fit in memory: encode its text "
            "columns first, and pass numbers on"
        )


def shapes(
    session: Any, tensors: Sequence[str], given: Mapping[str, Any]
) -> list[tuple[int, ...]]:
    """Return the shapes that tensors have in a run."""
    names = [f"{_SHAPE}{k}" for k in range(len(tensors))]
    made = session.run(names, given) if names else ()
    return [tuple(int(n) for n in shape) for shape in made]
