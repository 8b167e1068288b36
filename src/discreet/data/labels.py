"""Labels: how the values in a file become the codes 0 .. K-1.

A label is what its text is (``discreet.data.cells``): a column of 0 and 1, of 0.0 and
1.0, of truths and of their texts all hold the labels 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.arrays import CodeVector
from discreet.data.cells import canonical, equal, texts
from discreet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class LabelCode:
    """How raw labels become codes 0 .. K-1; binary 0/1 unless told otherwise."""

    positive: object | None = None
    classes: tuple[object, ...] | None = None

    def __post_init__(self) -> None:
        if self.positive is not None and self.classes is not None:
            raise InputError("give positive= (two labels) or classes= (more), not both")
        if self.positive is not None and canonical(self.positive) is None:
            raise InputError("positive= names a missing value; name a label")
        named = set(self.names)
        if self.classes is not None and (
            None in named or len(named) != len(self.classes) or len(named) < 2
        ):
            raise InputError("classes must be at least two distinct labels")

    @cached_property
    def names(self) -> tuple[str | None, ...]:
        """The texts of the classes: of 0 and 1 where none are declared."""
        classes = (0, 1) if self.classes is None else self.classes
        return tuple(canonical(label) for label in classes)

    @cached_property
    def positive_name(self) -> str | None:
        """The text of the positive label, where one is named."""
        return canonical(self.positive)


class Coder:
    """Codes the labels of one pass; remembers which other label it has met."""

    def __init__(self, code: LabelCode) -> None:
        self._code = code
        self.other: str | None = (
            None  # the text of the negatives' label, if one was met
        )
        self._too_many = self._met = False

    def encode(self, labels: NDArray[Any]) -> CodeVector | None:
        """Return codes, or None when a label is missing or not of the code."""
        if self._code.positive_name is not None:
            return self._codes_of_two(labels, self._code.positive_name)
        if self._code.classes is None and labels.dtype.kind in "iufb":
            return _codes_of_bits(labels)
        codes, known = codes_row_by_row(labels, self._code)
        return codes if known.all() else None

    def unknown(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark the labels that cannot be coded."""
        self.encode(labels)  # notices a third label
        return ~codes_row_by_row(labels, self._code)[1]

    def complaint(
        self, strange: int, rows: int, settled: frozenset[str] = frozenset()
    ) -> str:
        """Say what is wrong with the labels; what is settled is not the caller's."""
        if self._too_many and not self._met:
            return (
                "no label equals the one that positive= names; check its spelling, "
                "capitals and kind"
            )
        if self._too_many:
            remedy = "declare a multi-class problem with classes="
            if "classes" in settled:
                remedy = (
                    "keep the rows of two of them, or write one label for the others"
                )
            return f"labels take more than two values; {remedy}"
        if self._code.classes is not None:
            return f"{strange} of {rows} labels are missing or not one of the classes"
        if self._code.positive is not None:
            return f"{strange} of {rows} labels are missing; leave out these rows"
        remedies = [
            "write 0 and 1"
            if "positive" in settled
            else "name the positive label with positive=, such as positive='yes'"
        ]
        if "classes" not in settled:
            remedies.append("more classes with classes=")
        return (
            f"{strange} of {rows} labels are missing or other than 0 and 1; "
            f"{', or '.join(remedies)}"
        )

    def _codes_of_two(self, labels: NDArray[Any], positive: str) -> CodeVector | None:
        codes = equal(labels, positive)
        self._met = self._met or bool(codes.any())
        rest = labels[~codes]
        if rest.size and rest.dtype.kind in "iufb" and (rest == rest[0]).all():
            rest = rest[:1]
        others = set(texts(rest).tolist())
        if None in others:
            return None
        self.other = self.other if self.other or not others else min(others)
        if others - {self.other}:
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
    if labels.dtype.kind not in "iufb":
        return _codes_of_texts(texts(labels), code)
    if code.positive_name is not None:
        known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.True_
        codes = equal(labels, code.positive_name).astype(np.int64)
        return codes, np.broadcast_to(known, codes.shape).copy()
    codes = np.full(labels.shape, -1, dtype=np.int64)
    for k, name in enumerate(code.names):
        codes[equal(labels, str(name))] = k
    return np.maximum(codes, 0), codes >= 0


def _codes_of_texts(
    labels: NDArray[Any], code: LabelCode
) -> tuple[CodeVector, NDArray[np.bool_]]:
    if code.positive_name is not None:
        known = np.asarray(labels != None, dtype=np.bool_)  # noqa: E711 - each cell
        return np.equal(labels, code.positive_name).astype(np.int64), known
    places = {name: k for k, name in enumerate(code.names)}
    codes = np.array([places.get(t, -1) for t in labels.tolist()], dtype=np.int64)
    return np.maximum(codes, 0), codes >= 0


def _codes_of_bits(labels: NDArray[Any]) -> CodeVector | None:
    if labels.dtype == np.bool_:
        return labels.view(np.uint8)
    if labels.dtype.kind == "f":
        whole = (labels == 0) | (labels == 1)  # NaN is neither
        return labels.astype(np.uint8) if whole.all() else None
    # Only 0 and 1 have no other bit: one pass instead of two.
    bits = np.bitwise_or.reduce(labels) if labels.size else 0
    return labels if 0 <= bits <= 1 else None
