"""What every statistic is, and how one is counted over a stream of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.errors import InputError
from discreet.privacy.unit import Sensitivity, Unit


class Statistic(Protocol):
    """A frozen description of an integer vector that sites can add up."""

    @property
    def size(self) -> int:
        """Length of the vector."""
        ...

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples, batch by batch."""
        ...

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """How far the vector moves when one unit changes."""
        ...


class BinCounts(NamedTuple):
    """Counts of the two classes per bin, exact or noisy."""

    negatives: FloatVector
    positives: FloatVector


def check_columns(examples: Examples, *edges: Edges) -> None:
    """Refuse examples whose scores are not what the edges were made for."""
    if examples.columns != len(edges):
        raise InputError(
            f"the plan counts {len(edges)} score columns, the examples have "
            f"{examples.columns}"
        )
    for wanted in edges:
        if examples.scores != wanted.scores:
            raise InputError(
                f"the plan expects scores of kind {wanted.scores.kind} in "
                f"{wanted.scores}, the examples declare {examples.scores.kind} in "
                f"{examples.scores}"
            )


def check_binary(examples: Examples) -> None:
    """Refuse multi-class labels where two classes are counted."""
    classes = examples.label_code.classes
    if classes is not None and len(classes) != 2:
        raise InputError(
            f"the plan counts two classes, the examples declare {len(classes)}"
        )


def tally(
    examples: Examples, size: int, cells: Callable[[Batch], CodeVector]
) -> IntVector:
    """Add one to the cell of every entry that ``cells`` returns, over all batches."""
    total = np.zeros(size, dtype=np.int64)
    for batch in examples.batches():
        total += np.bincount(cells(batch), minlength=size)
    return total
