r"""Products of clusters' sums: what a sandwich variance needs, in 21 numbers.

Rows of one person, or of one site, are alike, and an interval that takes them as
independent is too short. A metric moves by :math:`\sum_j g^T h_j` when the counts
:math:`h_j` of its clusters do, and its variance over clusters is
:math:`\sum_j (g^T h_j)^2`. The slopes g are known only once the sum is open, so a site
cannot add that up. It adds up instead

.. math::
    M = \sum_j z_j z_j^T, \qquad z_j = \sum_{rows\ of\ j} x, \qquad
    x = (1, u, u^2)\ \text{of the row's own class},

u the place of the row's bin, from 0 to 1. With c the slopes' least-squares
coefficients on x, :math:`c^T M c` is nearly the sum above, and its ratio to the same
with single rows for clusters, which the opened histogram gives, is the *design effect*
by which the plain variance is multiplied: what the slopes have beside x cancels.

Exact sums only. *Overflow:* a person counts as at most 256 rows and a site as at most
2^20; further ones scale its own sums down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.examples import Batch, Examples
from discreet.statistic.bounds import Bound
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.within_site import MOST_EXAMPLES, coarse

Clusters: TypeAlias = Literal["site", "subject"]

TERMS: Final = 3
"""Coefficients a class."""
SIZE: Final = TERMS * (2 * TERMS + 1)
"""The upper triangle of a matrix of 6 x 6."""
BOUND: Final = Bound(SIZE, 2**46)
_DIGITS: Final = 22
"""Binary digits of each number; design effects are differences of them."""
_MOST_ROWS: Final = 256
_UNIT: Final[dict[Clusters, int]] = {"site": 2**4, "subject": 2**16}
"""What a 1 is: 2^20 rows as one cluster, or as clusters of 256, stay below 2^45."""
_UPPER: Final = np.triu_indices(2 * TERMS)


def features(bins: int) -> FloatArray:
    """Return x of every cell: the negatives' bins, then the positives'."""
    u = (np.arange(bins) + 0.5) / bins
    one = np.stack([np.ones(bins), u, u * u], axis=1)
    zero = np.zeros_like(one)
    return np.concatenate([np.hstack([one, zero]), np.hstack([zero, one])])


def encoded(
    kind: Clusters, inner: ClassHistogram, counts: IntVector, examples: Examples
) -> IntVector:
    """Return a site's 21 integers; the data are read again only for people."""
    x = features(len(inner.edges))
    if kind == "site":
        sums = (counts @ x)[None, :]
    else:
        sums = _sums_by_subject(inner, examples, x)
    rows = sums[:, 0] + sums[:, TERMS]
    most = MOST_EXAMPLES if kind == "site" else _MOST_ROWS
    sums = sums * np.minimum(1.0, most / np.maximum(rows, 1.0))[:, None]
    kept = np.minimum(rows, most).sum()
    shrunk = min(1.0, MOST_EXAMPLES / max(float(kept), 1.0))
    products = (sums.T @ sums)[_UPPER] * shrunk * _UNIT[kind]
    return np.array([coarse(x, _DIGITS) for x in products.tolist()], dtype=np.int64)


def decoded(kind: Clusters, numbers: FloatVector) -> FloatArray:
    """Return the matrix of products."""
    found = np.zeros((2 * TERMS, 2 * TERMS))
    found[_UPPER] = numbers / _UNIT[kind]
    full: FloatArray = found + np.triu(found, 1).T
    return full


def _sums_by_subject(
    inner: ClassHistogram, examples: Examples, x: FloatArray
) -> FloatArray:
    """Return each person's sums; rows that name nobody are clusters of their own."""
    places: dict[object, int] = {}
    cells: list[int] = []
    owners: list[int] = []
    times: list[float] = []
    for batch in examples.batches():
        kept = batch.where(inner.fits(batch)) if examples.lenient else batch
        cells += inner.cells(kept).tolist()
        each = np.ones(len(kept)) if kept.weights is None else kept.weights
        for subject, number in zip(_subjects(kept), each.tolist(), strict=True):
            key = object() if subject is None else subject
            owners.append(places.setdefault(key, len(places)))
            # Rows of nobody that were counted together are clusters of one each.
            times.append(math.sqrt(number) if subject is None else number)
    sums = np.zeros((max(len(places), 1), 2 * TERMS))
    moved = x[np.array(cells, dtype=np.intp)] * np.array(times)[:, None]
    np.add.at(sums, np.array(owners, dtype=np.intp), moved)
    return sums


def _subjects(batch: Batch) -> Iterator[str | None]:
    if batch.subjects is None:
        yield from (None for _ in range(len(batch)))
        return
    yield from batch.subjects.tolist()
