"""Labels: how the values in a file become the codes 0 .. K-1."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.arrays import CodeVector
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LabelCode:
    """How raw labels become codes 0 .. K-1; binary 0/1 unless told otherwise."""

    positive: object | None = None
    classes: tuple[object, ...] | None = None

    def __post_init__(self) -> None:
        if self.positive is not None and self.classes is not None:
            raise InputError("give positive= (two labels) or classes= (more), not both")
        if self.classes is not None and (
            len(set(self.classes)) != len(self.classes) or len(self.classes) < 2
        ):
            raise InputError("classes must be at least two distinct labels")


class Coder:
    """Codes the labels of one pass; remembers which other label it has met."""

    def __init__(self, code: LabelCode) -> None:
        self._code = code
        self._other: object | None = None
        self._too_many = False
        self._met = False

    def encode(self, labels: NDArray[Any]) -> CodeVector | None:
        """Return codes, or None when a label is missing or not of the code."""
        if self._code.classes is not None:
            return _codes_of_classes(labels, self._code.classes)
        if self._code.positive is not None:
            return self._codes_of_two(labels, self._code.positive)
        return _codes_of_bits(labels)

    @property
    def other(self) -> object | None:
        """The label that stands for the negatives, as met; None if none was."""
        return self._other

    def strangers(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark the labels that cannot be coded (all of them, if none can)."""
        if self.encode(labels) is not None:
            return np.zeros(labels.shape, dtype=np.bool_)
        if self._code.positive is not None:
            return _nulls(labels)
        classes: tuple[object, ...] = self._code.classes or (0, 1)
        known = _places(classes, labels)
        marks = (not _known(label, known) for label in labels.tolist())
        return np.fromiter(marks, dtype=np.bool_, count=labels.size)

    def complaint(self, strange: int, rows: int) -> str:
        """Say what is wrong with the labels."""
        if self._too_many and not self._met:
            return (
                "no label equals the one that positive= names; check its spelling, "
                "capitals and kind"
            )
        if self._too_many:
            return (
                "labels take more than two values; declare a multi-class problem "
                "with classes="
            )
        if self._code.classes is not None:
            return f"{strange} of {rows} labels are missing or not one of the classes"
        if self._code.positive is not None:
            return f"{strange} of {rows} labels are missing"
        return (
            f"{strange} of {rows} labels are missing or other than 0 and 1; name "
            "the positive label with positive=, or more classes with classes="
        )

    def _codes_of_two(
        self, labels: NDArray[Any], positive: object
    ) -> CodeVector | None:
        if _nulls(labels).any():
            return None
        codes = _equal(labels, positive)
        self._met = self._met or bool(codes.any())
        rest = labels[~codes]
        if rest.size:
            if self._other is None:
                self._other = rest[0]
            if not np.asarray(rest == self._other).all():
                self._too_many = True
                return None
        return codes.view(np.uint8)


def codes_row_by_row(
    labels: NDArray[Any], code: LabelCode
) -> tuple[CodeVector, NDArray[np.bool_]]:
    """Return codes and which of them are meant; no row decides about another.

    With a positive label, any other value that is there is a negative one: which
    second value comes first must not decide which rows count.
    """
    missing = _nulls(labels)
    if code.positive is not None:
        same = _equal(labels, code.positive)
        return same.astype(np.int64), ~missing
    classes: tuple[object, ...] = (0, 1) if code.classes is None else code.classes
    if labels.dtype.kind in "iufb":
        codes = np.full(labels.shape, -1, dtype=np.int64)
        for k, label in enumerate(classes):
            codes[_equal(labels, label)] = k
    else:
        places = _places(classes, labels)
        found = (places[v] if _known(v, places) else -1 for v in labels.tolist())
        codes = np.fromiter(found, dtype=np.int64, count=labels.size)
    return np.maximum(codes, 0), (codes >= 0) & ~missing


def _codes_of_bits(labels: NDArray[Any]) -> CodeVector | None:
    if labels.dtype == np.bool_:
        return labels.view(np.uint8)
    if labels.dtype.kind == "O" and all(isinstance(v, bool) for v in labels.tolist()):
        return labels.astype(np.uint8)
    if labels.dtype.kind not in "iuf":
        return None if labels.size else np.zeros(0, dtype=np.uint8)
    if labels.dtype.kind == "f":
        whole = (labels == 0) | (labels == 1)  # NaN is neither
        return labels.astype(np.uint8) if whole.all() else None
    # Only 0 and 1 have no other bit: one pass instead of two.
    found = np.bitwise_or.reduce(labels) if labels.size else 0
    return labels if 0 <= found <= 1 else None


def _codes_of_classes(
    labels: NDArray[Any], classes: tuple[object, ...]
) -> CodeVector | None:
    code = _places(classes, labels)
    try:
        return np.fromiter(
            (code[label] for label in labels.tolist()),
            dtype=np.int64,
            count=labels.size,
        )
    except (KeyError, TypeError):
        return None


def _readings(label: object, labels: NDArray[Any]) -> tuple[object, ...]:
    """Return what cells may hold that mean this label.

    A command line and a plan only have text, and a column may hold 0, 1 and 2. A column
    of objects may hold both: there a number is the text that it stands for.
    """
    if not isinstance(label, str) or labels.dtype.kind not in "iufbO":
        return (label,)
    try:
        value: object = float(label)
    except ValueError:
        value = {"true": True, "false": False}.get(label.lower(), label)
    return (label, value) if labels.dtype.kind == "O" else (value,)


def _places(classes: tuple[object, ...], labels: NDArray[Any]) -> dict[object, int]:
    """Return the code of everything that means a class."""
    return {
        reading: k
        for k, label in enumerate(classes)
        for reading in _readings(label, labels)
    }


def _equal(labels: NDArray[Any], label: object) -> NDArray[np.bool_]:
    """Mark the cells that mean a label."""
    found = np.zeros(labels.shape, dtype=np.bool_)
    for reading in _readings(label, labels):
        same = np.asarray(labels == reading)
        if same.shape == labels.shape:  # else compared as different types: none equal
            found |= same.astype(np.bool_)
    return found


def _known(label: object, known: Container[object]) -> bool:
    try:
        return label in known
    except TypeError:
        return False


def _nulls(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark None and NaN, the two ways in which a label can be missing."""
    if column.dtype.kind == "f":
        missing: NDArray[np.bool_] = np.isnan(column)
        return missing
    if column.dtype.kind == "O":
        return np.fromiter(
            (v is None or v != v for v in column.tolist()),  # noqa: PLR0124 - NaN
            dtype=np.bool_,
            count=column.size,
        )
    return np.zeros(column.shape, dtype=np.bool_)
