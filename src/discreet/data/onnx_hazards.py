"""What one row could do to a model's process: end it, or never let it finish.

A process that dies or hangs takes the scores of all rows with it, and whoever made the
file could choose the row. So two things are refused before a row is scored:

- **Trees with a way back.** A row that reaches a circle of nodes never leaves it.
- **Whole numbers divided by what a row holds.** A processor stops at a division by 0, and
  at the least number divided by -1. Constants as divisors are looked at, and must be
  neither; so nothing is lost, since exporters divide floats.

A third one is checked by a run (``shapes``): every tensor must have the shape that the
proof of ``onnx_rules`` gave it, or what it says about rows is about other places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx import helper as onnx_helper

from discreet.data.onnx_rules import array_of, title
from discreet.errors import InputError

_DIVISIONS: Final = frozenset({"Div", "Mod"})
_WHOLE: Final = ("tensor(int", "tensor(uint")
"""How onnxruntime writes the types of whole numbers."""
_SHAPE: Final = "discreet_shape_"


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
    """Return a model that tells the shapes of tensors, and has ``asked`` as outputs."""
    copied = ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    for k, name in enumerate(tensors):
        graph.node.append(onnx_helper.make_node("Shape", [name], [f"{_SHAPE}{k}"]))
        graph.output.append(ValueInfoProto(name=f"{_SHAPE}{k}"))
    held = {value.name for value in graph.output}
    graph.output.extend(ValueInfoProto(name=name) for name in asked if name not in held)
    raw: bytes = copied.SerializeToString()
    return raw


def check_types(session: Any, asked: Sequence[str]) -> None:
    """Refuse a model in which a row's own whole number is a divisor."""
    for output in session.get_outputs():
        if output.name in asked and output.type.startswith(_WHOLE):
            raise InputError(
                "the model divides whole numbers by what a row holds, which could end "
                "its process: export it with floats"
            )


def shapes(
    session: Any, tensors: Sequence[str], given: Mapping[str, Any]
) -> list[tuple[int, ...]]:
    """Return the shapes that tensors have in a run."""
    names = [f"{_SHAPE}{k}" for k in range(len(tensors))]
    made = session.run(names, given) if names else ()
    return [tuple(int(n) for n in shape) for shape in made]
