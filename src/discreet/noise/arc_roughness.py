r"""How rough the counts behind arcs are: forms that a decoder adds to its likelihood.

A form is :math:`\int f^{(k)}(x)^2\,dx` in divided differences, and what it does not
see is free. Of the log-odds of the label, against the logit z of a bin's score:

- ``line``: the second derivative. Any line is free, so that a classifier off by
  Platt scaling costs nothing; where the symbols tell little, odds go on as they came.
- ``constant``: the first. Only constant odds are free; where the symbols tell little, odds
  stop rising.

Of the log-density of both classes, against :math:`\theta = \arcsin\sqrt u` with u the
bin's place in warped (0, 1): the third derivative, so that it may be quadratic.
"""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges, unit_edges

WARP: Final = 1.5
"""Exponent of the bins' places u; the default edges are even in it."""
Odds: TypeAlias = Literal["line", "constant"]
"""What the log-odds of the label are where nothing else is known."""
_ORDERS: Final[dict[Odds, int]] = {"line": 2, "constant": 1}


class Form(NamedTuple):
    """A quadratic form on eta, scaled to a mean diagonal of 1, and its rank."""

    matrix: FloatArray
    rank: int

    @classmethod
    def of(cls, rows: FloatArray) -> Form:
        """Return the sum of the squares of rows times eta, scaled."""
        square = rows.T @ rows
        return cls(square * (square.shape[0] / np.trace(square)), rows.shape[0])


class Forms(NamedTuple):
    """What is charged of the log-odds, and of the log-density."""

    odds: Form
    density: Form


def _places(edges: Edges) -> FloatVector:
    """Return the edges in warped (0, 1); by number where scores are no probabilities."""
    if edges.atoms or edges.scores.kind == "other":
        return np.arange(len(edges) + 1) / len(edges)
    s = unit_edges(edges)
    up, down = s ** (1 / WARP), (1 - s) ** (1 / WARP)
    places: FloatVector = up / (up + down)
    return places


def _centres(edges: Edges) -> FloatVector:
    places = _places(edges)
    middle: FloatVector = (places[1:] + places[:-1]) / 2
    return middle


def _logit(edges: Edges) -> FloatVector:
    u = _centres(edges)
    z: FloatVector = WARP * np.log(u / (1 - u))
    return z


def log_widths(edges: Edges) -> FloatVector:
    """Return the logarithms of the bins' widths in warped (0, 1), for either class."""
    return np.tile(np.log(np.diff(_places(edges)) * len(edges)), 2)


def start(edges: Edges) -> FloatVector:
    """Log-odds that rise with the score at half the rate of a calibrated model."""
    z = _logit(edges)
    rising: FloatVector = np.concatenate([-z, z]) / 4 - math.log(2 * z.size)
    return rising


def roughness(
    edges: Edges, odds: Odds, *, first: bool = False, last: bool = False
) -> Forms:
    """Return both forms; ends may be left out of the density's."""
    one = np.eye(len(edges))
    charged = _derivative(_logit(edges), _ORDERS[odds]) @ np.hstack([-one, one])
    angle = np.arcsin(np.sqrt(_centres(edges)))
    kept = slice(int(first), len(edges) - int(last))
    density = _derivative(angle[kept], 3) @ np.hstack([one[kept], one[kept]]) / 2
    return Forms(Form.of(charged), Form.of(density))


def _derivative(x: FloatVector, order: int) -> FloatArray:
    r"""Return rows whose squares add up to :math:`\int f^{(k)}(x)^2 dx`."""
    rows = np.eye(x.size)
    for k in range(1, order + 1):
        rows = np.diff(rows, axis=0) * (k / (x[k:] - x[:-k]))[:, None]
    scaled: FloatArray = rows * np.sqrt((x[order:] - x[:-order]) / order)[:, None]
    return scaled
