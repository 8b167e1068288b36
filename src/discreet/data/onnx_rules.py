r"""Whether a row's score depends on that row alone, proved on a model's graph.

A model file comes from somebody else, and one that looks across the rows of a batch
(normalises over them, sorts them, draws random numbers) would let one person's row move
everybody's scores: no noise is sized for that. So every tensor between the inputs and the
output that is used is one of two things:

- ``Fixed``: it does not depend on any row;
- ``Rows``: its axis ``a`` has one place for each row, and what is at place i depends on
  row i alone.

A rule for each operator says what its output is, or that nothing can be said; an operator
without a rule is refused by its name. Models are run with batches of one size, so every
shape is a tuple of whole numbers, and a reshape keeps the rows' axis ``a`` if and only if
some axis ``b`` of the result has as many places and

.. math:: \prod_{k<a} n_k = \prod_{k<b} m_k .

A constant that differs along the rows' axis is refused too: it would make a score depend
on the row's place, and so on how many rows stand before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper
from onnx import helper as onnx_helper

from discreet.codec.parsing import shown
from discreet.errors import InputError

MAIN: Final = ""
ML: Final = "ai.onnx.ml"
DOMAINS: Final = {MAIN: MAIN, "ai.onnx": MAIN, ML: ML}
"""Whose operators are run; every other one is refused."""
MOST_ELEMENTS: Final = 2**26
"""Of one tensor while a batch is scored: 256 MB of floats, 16,384 for each row."""
_MOST_FOLDED: Final = 2**22
"""Elements of a constant that is worked out beforehand."""
LONGEST: Final = 80
"""Characters of a name in a message."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A tensor that depends on no row; its value where it is known."""

    shape: tuple[int, ...]
    value: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor with one place for each row along an axis."""

    shape: tuple[int, ...]
    axis: int


State: TypeAlias = Fixed | Rows


class NotRowWiseError(InputError):
    """An operator may let one row decide about another's score."""


def title(node: NodeProto) -> str:
    """Return an operator's name, as a message may show it."""
    return shown(node.op_type[:LONGEST])


def labels_of(node: NodeProto) -> tuple[str, ...] | None:
    """Return the labels that a classifier names, as texts."""
    for attribute in node.attribute:
        if attribute.name in ("classlabels_ints", "classlabels_int64s"):
            if attribute.ints:
                return tuple(str(label) for label in attribute.ints)
        elif attribute.name == "classlabels_strings" and attribute.strings:
            return tuple(label.decode(errors="replace") for label in attribute.strings)
    return None


def array_of(tensor: TensorProto) -> NDArray[Any]:
    """Return a tensor of the file."""
    try:
        array: NDArray[Any] = numpy_helper.to_array(tensor)
    except Exception:  # noqa: BLE001 - as the parser's
        raise InputError("a tensor of the model is damaged") from None
    if array.shape != tuple(tensor.dims):
        raise InputError("a tensor of the model is damaged")
    return array


# One rule for each operator.


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator with its inputs' states; None for one that is left out."""

    node: NodeProto
    attributes: Mapping[str, Any]
    inputs: tuple[State | None, ...]
    opset: int
    batch: int

    def across(self) -> NotRowWiseError:
        """Return the refusal of an operator that may look across rows."""
        return NotRowWiseError(
            f"the model uses {title(self.node)} across rows: a row's score must depend "
            "on that row alone"
        )

    def state(self, place: int = 0) -> State:
        found = self.optional(place)
        if found is None:
            raise InputError(f"{title(self.node)} lacks an input")
        return found

    def optional(self, place: int) -> State | None:
        return self.inputs[place] if place < len(self.inputs) else None

    def rows(self, place: int = 0) -> Rows:
        found = self.state(place)
        if not isinstance(found, Rows):
            raise self.across()
        return found

    def fixed(self, *places: int) -> None:
        """Refuse where one of these inputs depends on rows."""
        if any(isinstance(self.optional(place), Rows) for place in places):
            raise self.across()

    def ints(self, name: str, place: int) -> tuple[int, ...] | None:
        """Return whole numbers from an attribute, or from a constant input."""
        if name in self.attributes:
            value = self.attributes[name]
            return tuple(value) if isinstance(value, list) else (int(value),)
        given = self.optional(place)
        if given is None:
            return None
        if isinstance(given, Rows) or given.value is None:
            raise self.across()
        return tuple(int(v) for v in np.asarray(given.value).ravel())

    def axis(self, default: int, rank: int, name: str = "axis") -> int:
        axis = int(self.attributes.get(name, default))
        return self.place(axis, rank)

    def place(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise InputError(f"{title(self.node)} names an axis that is not there")
        return axis % rank


_BY_RULE: Final = frozenset({"Shape", "Size", "Dropout"})
"""Operators whose rule is asked even where all inputs are constants."""
_GROWING: Final = frozenset({"Expand", "Tile", "Range", "Pad", "OneHot"})
"""Operators whose output may be larger than their inputs, by numbers that these hold."""
_Rule: TypeAlias = Callable[[_Call], "State | list[State]"]


def advance(node: NodeProto, states: dict[str, State], opset: int, batch: int) -> None:
    """Work out what the outputs of an operator are."""
    if any(name and name not in states for name in node.input):
        raise InputError("the model's operators are not in order, or incomplete")
    inputs = tuple(states[name] if name else None for name in node.input)
    attributes = {a.name: onnx_helper.get_attribute_value(a) for a in node.attribute}
    call = _Call(node, attributes, inputs, opset, batch)
    try:
        if any(isinstance(s, Rows) for s in inputs) or node.op_type in _BY_RULE:
            made = RULES[DOMAINS[node.domain], node.op_type](call)
        else:
            made = _folded(call)
    except InputError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        raise InputError(f"{title(node)} has inputs that do not fit") from None
    found = made if isinstance(made, list) else [made]
    for name, state in zip(node.output, found, strict=False):
        _check_size(call, state.shape)
        if name in states:
            raise InputError("two operators of the model make the same tensor")
        if name:
            states[name] = state
    if any(name and name not in states for name in node.output):
        raise NotRowWiseError(
            f"the model uses an output of {title(node)} that is not known"
        )


def _folded(call: _Call) -> list[State]:
    """Work out an operator all of whose inputs are constants."""
    values: list[NDArray[Any] | None] = []
    for state in call.inputs:
        if isinstance(state, Rows):
            raise call.across()
        if state is not None and (
            state.value is None or state.value.size > _MOST_FOLDED
        ):
            raise InputError(f"{title(call.node)} has a constant that is too large")
        values.append(None if state is None else state.value)
    if "value" in call.attributes and call.node.op_type == "Constant":
        array = array_of(call.attributes["value"])
        return [Fixed(array.shape, array)]
    if call.node.op_type == "ConstantOfShape" and values[0] is not None:
        shape = tuple(int(n) for n in values[0])
        _check_size(call, shape)
        fill = call.attributes.get("value")
        single = np.zeros(1, np.float32) if fill is None else array_of(fill).ravel()
        return [Fixed(shape, np.broadcast_to(single[:1], shape))]
    if call.node.op_type in _GROWING and any(
        v is not None and v.dtype.kind in "iu" and v.size and abs(v).max() > 2**16
        for v in values
    ):
        raise InputError(f"{title(call.node)} would make a constant that is too large")
    arrays = [np.asarray(array) for array in _evaluated(call, values)]
    return [Fixed(array.shape, array) for array in arrays]


def _evaluated(call: _Call, values: Sequence[NDArray[Any] | None]) -> Sequence[Any]:
    """Run one operator on constants, by ONNX's own reference in Python."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - of few models

    names = [name for name in call.node.input if name]
    graph = GraphProto(name="constant", node=[call.node])
    for name in dict.fromkeys(names):
        graph.input.append(onnx.ValueInfoProto(name=name))
    for name in call.node.output:
        graph.output.append(onnx.ValueInfoProto(name=name))
    opsets = [onnx_helper.make_opsetid(MAIN, call.opset)]
    opsets.append(onnx_helper.make_opsetid(ML, 3))
    whole = onnx_helper.make_model(graph, opset_imports=opsets)
    given = [v for v in values if v is not None]
    try:
        made: Any = ReferenceEvaluator(whole).run(
            None, dict(zip(names, given, strict=True))
        )
    except Exception:  # noqa: BLE001 - whatever fails, it is not known
        raise InputError(
            f"{title(call.node)} of constants could not be worked out"
        ) from None
    return list(made)


def _check_size(call: _Call, shape: tuple[int, ...]) -> None:
    if any(n < 0 for n in shape) or prod(shape) > MOST_ELEMENTS:
        raise InputError(f"{title(call.node)} would make a constant that is too large")


def _uniform(state: Fixed, axis: int) -> bool:
    """Say whether a constant is the same all along an axis."""
    if axis < 0 or state.shape[axis] == 1:
        return True
    if state.value is None or state.value.size > MOST_ELEMENTS:
        return False
    if state.value.strides[axis] == 0:
        return True
    value = state.value
    if value.dtype.kind != "O":  # by their bits: 0.0 and -0.0 are told apart by 1/x
        value = np.ascontiguousarray(value)
        value = value.view(f"u{value.dtype.itemsize}")
    return bool((value == np.take(value, [0], axis=axis)).all())


def _aligned(call: _Call, states: Sequence[State | None]) -> Rows:
    """Return the broadcast of several tensors, whose rows must lie along one axis."""
    present = [s for s in states if s is not None]
    shape = np.broadcast_shapes(*(s.shape for s in present))
    axes = {len(shape) - len(s.shape) + s.axis for s in present if isinstance(s, Rows)}
    if len(axes) != 1 or shape[axis := axes.pop()] != call.batch:
        raise call.across()
    _uniform_in(call, *present, axis=axis, rank=len(shape))
    return Rows(tuple(shape), axis)


def _uniform_in(call: _Call, *states: State, axis: int, rank: int) -> None:
    """Refuse constants that differ along an axis of what they are broadcast to."""
    for s in states:
        if isinstance(s, Fixed) and not _uniform(s, axis - rank + len(s.shape)):
            raise call.across()


def _elementwise(call: _Call) -> State:
    return _aligned(call, call.inputs)


def _dropout(call: _Call) -> list[State]:
    training = call.optional(2)
    if isinstance(training, Rows) or (
        training is not None and (training.value is None or bool(training.value.any()))
    ):
        raise NotRowWiseError("the model uses Dropout as in training, which is random")
    x = call.state()
    return [x, Rows(x.shape, x.axis) if isinstance(x, Rows) else Fixed(x.shape)]


def _matmul(call: _Call) -> State:
    a, b = call.state(0), call.state(1)
    vector = len(b.shape) == 1
    if not a.shape or not b.shape or a.shape[-1] != b.shape[-1 if vector else -2]:
        raise InputError("MatMul has inputs that do not fit")
    shape = (
        *np.broadcast_shapes(a.shape[:-2], b.shape[:-2]),
        *a.shape[-2:-1],
        *(() if vector else b.shape[-1:]),
    )
    rank, places = len(shape), set()
    if isinstance(a, Rows):
        if a.axis == len(a.shape) - 1:  # summed over
            raise call.across()
        places.add(rank - len(a.shape) + a.axis + vector)
    if isinstance(b, Rows):
        if b.axis == len(b.shape) - (1 if vector else 2) or len(a.shape) == 1:
            raise call.across()
        places.add(rank - len(b.shape) + b.axis)
    if len(places) != 1 or shape[axis := places.pop()] != call.batch:
        raise call.across()
    if axis < rank - 2:
        # A constant with a place for each row would tell rows apart by their place.
        _uniform_in(call, a, b, axis=axis, rank=rank)
    return Rows(shape, axis)


def _gemm(call: _Call) -> State:
    a, b = call.rows(0), call.state(1)
    call.fixed(1)
    turned = bool(call.attributes.get("transA", 0))
    if len(a.shape) != 2 or len(b.shape) != 2 or a.axis != int(turned):
        raise call.across()
    inside, wide = b.shape[::-1] if call.attributes.get("transB", 0) else b.shape
    if a.shape[1 - int(turned)] != inside:
        raise InputError("Gemm has inputs that do not fit")
    product = Rows((call.batch, wide), 0)
    if (c := call.optional(2)) is None:
        return product
    summed = _aligned(call, [product, c])
    if summed.shape != product.shape:
        raise call.across()
    return product


def _conv(call: _Call) -> State:
    x, w = call.rows(), call.state(1)
    call.fixed(*range(1, len(call.inputs)))
    if x.axis != 0:
        raise call.across()
    return Rows(_windows(call, x, w.shape[2:], w.shape[0]), 0)


def _pool(call: _Call) -> list[State]:
    x = call.rows()
    if x.axis != 0 or len(call.node.output) > 1:
        raise call.across()
    kernel = tuple(call.attributes["kernel_shape"])
    return [Rows(_windows(call, x, kernel, x.shape[1]), 0)]


def _windows(
    call: _Call, x: Rows, kernel: tuple[int, ...], channels: int
) -> tuple[int, ...]:
    """Return the shape that a window leaves; one that is not said is refused."""
    many = len(kernel)
    if call.attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or call.attributes.get(
        "ceil_mode", 0
    ):
        raise InputError(f"export {title(call.node)} with explicit pads")
    pads = call.attributes.get("pads", [0] * 2 * many)
    strides = call.attributes.get("strides", [1] * many)
    steps = call.attributes.get("dilations", [1] * many)
    sizes = (
        (x.shape[2 + k] + pads[k] + pads[many + k] - steps[k] * (kernel[k] - 1) - 1)
        // strides[k]
        + 1
        for k in range(many)
    )
    return (call.batch, channels, *sizes)


def _global_pool(call: _Call) -> State:
    x = call.rows()
    if x.axis != 0:
        raise call.across()
    return Rows((*x.shape[:2], *(1 for _ in x.shape[2:])), 0)


def _batch_norm(call: _Call) -> State:
    x = call.rows()
    call.fixed(1, 2, 3, 4)
    if x.axis != 0 or len(x.shape) < 2 or call.attributes.get("training_mode", 0):
        raise call.across()
    if len([name for name in call.node.output if name]) > 1:
        raise call.across()  # the statistics of a batch
    return x


def _instance_norm(call: _Call) -> State:
    x = call.rows()
    call.fixed(1, 2)
    if x.axis != 0:
        raise call.across()
    return x


def _layer_norm(call: _Call) -> State:
    x = call.rows()
    call.fixed(1, 2)
    if x.axis >= call.axis(-1, len(x.shape)) or len(call.node.output) > 1:
        raise call.across()
    return _aligned(call, call.inputs)


def _softmax(call: _Call) -> State:
    x = call.rows()
    rank = len(x.shape)
    if call.opset < 13:  # all axes from this one on are taken together
        if x.axis >= call.axis(1, rank):
            raise call.across()
    elif x.axis == call.axis(-1, rank):
        raise call.across()
    return x


def _one_axis(call: _Call, default: int = -1) -> State:
    x = call.rows()
    if x.axis == call.axis(default, len(x.shape)):
        raise call.across()
    return x


def _cumulate(call: _Call) -> State:
    x = call.rows()
    axes = call.ints("axis", 1) or ()
    if len(axes) != 1 or call.place(axes[0], len(x.shape)) == x.axis:
        raise call.across()
    return x


def _reduce(call: _Call) -> State:
    x = call.rows()
    rank = len(x.shape)
    axes = call.ints("axes", 1)
    if not axes:
        if call.attributes.get("noop_with_empty_axes", 0):
            return x
        raise call.across()
    return _without(call, x, {call.place(a, rank) for a in axes})


def _extreme(call: _Call) -> State:
    x = call.rows()
    return _without(call, x, {call.axis(0, len(x.shape))})


def _without(call: _Call, x: Rows, gone: set[int]) -> Rows:
    """Take axes out of a shape, or leave them with one place."""
    if x.axis in gone:
        raise call.across()
    if call.attributes.get("keepdims", 1):
        return Rows(tuple(1 if k in gone else n for k, n in enumerate(x.shape)), x.axis)
    return _squeezed(x, gone)


def _squeezed(x: Rows, gone: set[int]) -> Rows:
    shape = tuple(n for k, n in enumerate(x.shape) if k not in gone)
    return Rows(shape, x.axis - sum(1 for k in gone if k < x.axis))


def _top(call: _Call) -> list[State]:
    x = call.rows()
    axis = call.axis(-1, len(x.shape))
    many = call.ints("k", 1)
    if axis == x.axis or not many:
        raise call.across()
    shape = tuple(many[0] if k == axis else n for k, n in enumerate(x.shape))
    return [Rows(shape, x.axis)] * 2


def _concat(call: _Call) -> State:
    present = [s for s in call.inputs if s is not None]
    rank = len(present[0].shape)
    if any(len(s.shape) != rank for s in present):
        raise InputError("Concat has inputs that do not fit")
    along = call.axis(1, rank)
    axes = {s.axis for s in present if isinstance(s, Rows)}
    if len(axes) != 1 or (axis := axes.pop()) == along:
        raise call.across()
    for s in present:
        if s.shape[axis] != call.batch or (
            isinstance(s, Fixed) and not _uniform(s, axis)
        ):
            raise call.across()
    total = sum(s.shape[along] for s in present)
    shape = present[0].shape
    return Rows(tuple(total if k == along else n for k, n in enumerate(shape)), axis)


def _split(call: _Call) -> list[State]:
    x = call.rows()
    along = call.axis(0, len(x.shape))
    if along == x.axis:
        raise call.across()
    sizes = call.ints("split", 1)
    if not sizes:
        many = len(call.node.output)
        each = -(-x.shape[along] // many)
        sizes = tuple(min(each, x.shape[along] - each * k) for k in range(many))
    if sum(sizes) != x.shape[along] or min(sizes) < 0:
        raise InputError("Split has parts that do not fit")
    return [
        Rows(tuple(n if k == along else m for k, m in enumerate(x.shape)), x.axis)
        for n in sizes
    ]


def _slice(call: _Call) -> State:
    x = call.rows()
    starts, ends = call.ints("starts", 1), call.ints("ends", 2)
    if starts is None or ends is None:
        raise call.across()
    axes = call.ints("axes", 3) or tuple(range(len(starts)))
    steps = call.ints("steps", 4) or (1,) * len(starts)
    shape = list(x.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = call.place(axis, len(shape))
        taken = len(range(*slice(start, _end(end, step), step).indices(shape[place])))
        if place == x.axis and (taken != call.batch or step != 1):
            raise call.across()
        shape[place] = taken
    return Rows(tuple(shape), x.axis)


def _end(end: int, step: int) -> int | None:
    """Return an end as Python has it: the least number means up to the first one."""
    return None if step < 0 and end < -(2**31) + 1 else end


def _gather(call: _Call) -> State:
    data, places = call.state(0), call.state(1)
    along = call.axis(0, len(data.shape))
    shape = (*data.shape[:along], *places.shape, *data.shape[along + 1 :])
    match data, places:
        case Rows(_, axis), Fixed(chosen, _) if axis != along:
            return Rows(shape, axis if axis < along else axis + len(chosen) - 1)
        case Fixed(), Rows(_, axis):
            return Rows(shape, along + axis)
        case _:
            raise call.across()


def _transpose(call: _Call) -> State:
    x = call.rows()
    order = call.attributes.get("perm", list(range(len(x.shape)))[::-1])
    if sorted(order) != list(range(len(x.shape))):
        raise InputError("Transpose has an order that does not fit")
    return Rows(tuple(x.shape[k] for k in order), order.index(x.axis))


def _reshape(call: _Call) -> State:
    x, wanted = call.rows(), call.ints("shape", 1)
    if wanted is None:
        raise call.across()
    keep = not call.attributes.get("allowzero", 0)
    shape = [x.shape[k] if n == 0 and keep else n for k, n in enumerate(wanted)]
    if shape.count(-1) == 1:
        known = prod(n for n in shape if n != -1)
        if known <= 0 or prod(x.shape) % known:
            raise InputError("Reshape has a shape that does not fit")
        shape[shape.index(-1)] = prod(x.shape) // known
    return _reshaped(call, x, tuple(shape))


def _reshaped(call: _Call, x: Rows, shape: tuple[int, ...]) -> Rows:
    if min(shape, default=1) < 0 or prod(shape) != prod(x.shape):
        raise InputError(f"{title(call.node)} has a shape that does not fit")
    before = prod(x.shape[: x.axis])
    for axis, size in enumerate(shape):
        if size == call.batch and prod(shape[:axis]) == before:
            return Rows(shape, axis)
    raise call.across()


def _flatten(call: _Call) -> State:
    x = call.rows()
    axis = int(call.attributes.get("axis", 1))
    axis = axis + len(x.shape) if axis < 0 else axis
    return _reshaped(call, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _squeeze(call: _Call) -> State:
    x = call.rows()
    axes = call.ints("axes", 1)
    if axes is None:
        axes = tuple(k for k, n in enumerate(x.shape) if n == 1)
    gone = {call.place(a, len(x.shape)) for a in axes}
    if x.axis in gone or any(x.shape[k] != 1 for k in gone):
        raise call.across()
    return _squeezed(x, gone)


def _unsqueeze(call: _Call) -> State:
    x, axes = call.rows(), call.ints("axes", 1)
    if axes is None:
        raise call.across()
    rank = len(x.shape) + len(axes)
    new = {call.place(a, rank) for a in axes}
    old = iter(x.shape)
    shape = tuple(1 if k in new else next(old) for k in range(rank))
    kept = [k for k in range(rank) if k not in new]
    return Rows(shape, kept[x.axis])


def _expand(call: _Call) -> State:
    wanted = call.ints("shape", 1)
    if wanted is None or any(n < 0 for n in wanted):
        raise call.across()
    return _aligned(call, [call.rows(), Fixed(wanted, np.broadcast_to(0, wanted))])


def _tile(call: _Call) -> State:
    x, times = call.rows(), call.ints("repeats", 1)
    if times is None or len(times) != len(x.shape) or times[x.axis] != 1:
        raise call.across()
    return Rows(tuple(n * t for n, t in zip(x.shape, times, strict=True)), x.axis)


def _pad(call: _Call) -> State:
    x, pads = call.rows(), call.ints("pads", 1)
    rank = len(x.shape)
    call.fixed(2)
    if pads is None or len(pads) != 2 * rank or call.optional(3) is not None:
        raise call.across()
    if pads[x.axis] or pads[rank + x.axis]:
        raise call.across()
    return Rows(
        tuple(n + pads[k] + pads[rank + k] for k, n in enumerate(x.shape)), x.axis
    )


def _one_hot(call: _Call) -> State:
    x, depth = call.rows(), call.ints("depth", 1)
    call.fixed(2)
    if not depth:
        raise call.across()
    rank = len(x.shape) + 1
    at = call.axis(-1, rank)
    return Rows((*x.shape[:at], depth[0], *x.shape[at:]), x.axis + (at <= x.axis))


def _shape(call: _Call) -> State:
    """Return a shape as a constant: all batches have the same."""
    given = call.state()
    sizes = np.array(given.shape, dtype=np.int64)
    if call.node.op_type == "Size":
        return Fixed((), np.array(prod(given.shape), dtype=np.int64))
    end = call.attributes.get("end")
    sizes = sizes[call.attributes.get("start", 0) : end]
    return Fixed(sizes.shape, sizes)


def _constant_of_shape(call: _Call) -> State:
    raise call.across()  # a shape that depends on a row


# ai.onnx.ml: a table of rows in, numbers for each row out.


def _table(call: _Call, place: int = 0) -> Rows:
    x = call.rows(place)
    if x.axis != 0 or len(x.shape) != 2:
        raise call.across()
    return x


def _same_table(call: _Call) -> State:
    return _table(call)


def _any_rows(call: _Call) -> State:
    return call.rows()


def _features(call: _Call) -> None:
    """Refuse trees that ask for a feature beyond the row's: it would be the next row's."""
    wide = _table(call).shape[1]
    asked = call.attributes.get("nodes_featureids", ())
    if asked and not 0 <= min(asked) <= max(asked) < wide:
        raise InputError(f"{title(call.node)} asks for a feature that is not there")


def _classifier(call: _Call) -> list[State]:
    _features(call)
    labels = labels_of(call.node)
    many = 2 if labels is None else max(len(labels), 1)
    if call.node.op_type == "SVMClassifier":
        classes = len(call.attributes.get("vectors_per_class", ()))
        calibrated = bool(call.attributes.get("prob_a", ()))
        if not calibrated and classes > 2:
            many = classes * (classes - 1) // 2
    return [Rows((call.batch,), 0), Rows((call.batch, max(many, 2)), 0)]


def _regressor(call: _Call) -> State:
    _features(call)
    many = call.attributes.get("n_targets", call.attributes.get("targets", 1))
    return Rows((call.batch, int(many)), 0)


def _encoded(call: _Call) -> State:
    x = call.rows()
    if x.axis != 0:  # its zeros tell by their place which rows have no score
        raise call.across()
    many = len(call.attributes.get("cats_int64s", ())) or len(
        call.attributes.get("cats_strings", ())
    )
    return Rows((*x.shape, many), x.axis)


def _extracted(call: _Call) -> State:
    x, places = call.state(0), call.state(1)
    if isinstance(x, Rows):
        if isinstance(places, Rows) or x.axis == len(x.shape) - 1:
            raise call.across()
        return Rows((*x.shape[:-1], prod(places.shape)), x.axis)
    if isinstance(places, Rows) and prod(places.shape) == call.batch:
        shape = (*(x.shape[:-1] or (1,)), call.batch)
        return Rows(shape, len(shape) - 1)
    raise call.across()


def _vectorized(call: _Call) -> State:
    tables = [_table(call, place) for place in range(len(call.inputs))]
    if call.attributes.get("inputdimensions") != [t.shape[1] for t in tables]:
        raise InputError("FeatureVectorizer has inputs that do not fit")
    return Rows((call.batch, sum(t.shape[1] for t in tables)), 0)


_ONE_BY_ONE: Final = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot "
    "BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp "
    "Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN "
    "LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow "
    "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"
)
_REDUCTIONS: Final = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare"
)
RULES: Final[Mapping[tuple[str, str], _Rule]] = {
    **{(MAIN, name): _elementwise for name in _ONE_BY_ONE.split()},
    **{(MAIN, name): _reduce for name in _REDUCTIONS.split()},
    (MAIN, "ArgMax"): _extreme,
    (MAIN, "ArgMin"): _extreme,
    (MAIN, "AveragePool"): _pool,
    (MAIN, "BatchNormalization"): _batch_norm,
    (MAIN, "Concat"): _concat,
    (MAIN, "Constant"): _any_rows,
    (MAIN, "ConstantOfShape"): _constant_of_shape,
    (MAIN, "Conv"): _conv,
    (MAIN, "CumSum"): _cumulate,
    (MAIN, "Dropout"): _dropout,
    (MAIN, "Expand"): _expand,
    (MAIN, "Flatten"): _flatten,
    (MAIN, "Gather"): _gather,
    (MAIN, "Gemm"): _gemm,
    (MAIN, "GlobalAveragePool"): _global_pool,
    (MAIN, "GlobalMaxPool"): _global_pool,
    (MAIN, "Hardmax"): _softmax,
    (MAIN, "InstanceNormalization"): _instance_norm,
    (MAIN, "LayerNormalization"): _layer_norm,
    (MAIN, "LogSoftmax"): _softmax,
    (MAIN, "LpNormalization"): _one_axis,
    (MAIN, "MatMul"): _matmul,
    (MAIN, "MaxPool"): _pool,
    (MAIN, "OneHot"): _one_hot,
    (MAIN, "Pad"): _pad,
    (MAIN, "Range"): _constant_of_shape,
    (MAIN, "Reshape"): _reshape,
    (MAIN, "Shape"): _shape,
    (MAIN, "Size"): _shape,
    (MAIN, "Slice"): _slice,
    (MAIN, "Softmax"): _softmax,
    (MAIN, "Split"): _split,
    (MAIN, "Squeeze"): _squeeze,
    (MAIN, "Tile"): _tile,
    (MAIN, "TopK"): _top,
    (MAIN, "Transpose"): _transpose,
    (MAIN, "Unsqueeze"): _unsqueeze,
    (ML, "ArrayFeatureExtractor"): _extracted,
    (ML, "Binarizer"): _any_rows,
    (ML, "CategoryMapper"): _any_rows,
    (ML, "FeatureVectorizer"): _vectorized,
    (ML, "Imputer"): _same_table,
    (ML, "LabelEncoder"): _any_rows,
    (ML, "LinearClassifier"): _classifier,
    (ML, "LinearRegressor"): _regressor,
    (ML, "Normalizer"): _same_table,
    (ML, "OneHotEncoder"): _encoded,
    (ML, "SVMClassifier"): _classifier,
    (ML, "SVMRegressor"): _regressor,
    (ML, "Scaler"): _same_table,
    (ML, "TreeEnsemble"): _regressor,
    (ML, "TreeEnsembleClassifier"): _classifier,
    (ML, "TreeEnsembleRegressor"): _regressor,
}
"""Operators that are run, each with the rule for what its output is."""
