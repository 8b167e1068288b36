"""Public bin edges, fixed before any site reads its data.

Bin k holds the scores e_k <= s < e_(k+1); the last bin is closed, so a score of
exactly 1 is counted. With ``score >= threshold`` as the positive decision, the
counts above an edge are exact.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from discreet.arrays import BoolVector, CodeVector, FloatVector
from discreet.codec.documents import tagged
from discreet.codec.parsing import whole
from discreet.data.scores import FARTHEST, ScoreRange
from discreet.errors import InputError
from discreet.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

GRID: Final = 2**20
"""Computed edges are multiples of 1/GRID of the range, so that they are the same
numbers on every machine and a product with GRID finds a score's cell exactly."""
MOST_BINS: Final = GRID
"""More bins than cells of the grid would be empty."""
_NARROWEST: Final = 1e-3
_APART: Final = 1e-8
_FARTHEST: Final = 40.0
_SNAP: Final = 2.0**32
"""Places are multiples of 1/_SNAP, far finer than the least distance between them."""
_MOST_STEPS: Final = 1000
_WHOLE: Final = 1e-6
_MOST_EXPONENT: Final = 64
"""Beyond it all edges fall on the ends."""
_MANY_BINS: Final = 2**16 - 1
"""From so many bins on there is no table."""
_MIXED: Final = np.uint16(_MANY_BINS)
_TOGETHER: Final = 16
_BITS: Final = 20
"""The finest grid of cuts has 2^20 cells, or up to twice as many, over the range."""
_EXACT: Final = 2.0**52
"""Below it every whole number and its neighbours are floats."""
_MOST_GRID_EXPONENT: Final = 60


class EdgeRule(ABC):
    """Where edges come from: public facts, written in a plan as a few numbers."""

    name: ClassVar[str]
    """What a plan's file calls it."""
    atoms: ClassVar[bool] = False
    """Whether every bin holds exactly one score value."""

    @abstractmethod
    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return the edges inside the range, the same on every machine."""

    @abstractmethod
    def __str__(self) -> str:
        """Say in a few words where the edges come from."""


@dataclass(frozen=True, slots=True)
class Warped(EdgeRule):
    r"""Edges :math:`s = u^a/(u^a + (1-u)^a)`, :math:`u = k/B`: fine at both ends.

    Curves are invariant under monotone maps of the score, so warping costs
    nothing, and classifiers push most scores towards 0 and 1. On logits the
    same edges are taken after the sigmoid.
    """

    bins: int
    exponent: float = 1.5

    name: ClassVar[str] = "warped"

    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return the warped edges on the scale of the scores."""
        check_bins(self.bins)
        if not (math.isfinite(self.exponent) and 0 < self.exponent <= _MOST_EXPONENT):
            raise InputError(
                f"the warp's exponent must be positive and at most {_MOST_EXPONENT}"
            )
        u = np.arange(1, self.bins) / self.bins
        up, down = u**self.exponent, (1.0 - u) ** self.exponent
        cells = np.unique(np.round(up / (up + down) * GRID))
        inner: FloatVector = cells[(cells > 0) & (cells < GRID)] / GRID
        if scores.kind == "logit":
            # Snapped again: the logarithm's last digit differs between machines.
            snapped: FloatVector = np.round(np.log(inner / (1.0 - inner)) * GRID) / GRID
            return snapped
        return scores.low + (scores.high - scores.low) * inner

    def __str__(self) -> str:
        return f"{self.bins} warped bins (exponent {self.exponent:g})"


@dataclass(frozen=True, slots=True)
class Uniform(EdgeRule):
    """Bins of equal width."""

    bins: int

    name: ClassVar[str] = "uniform"

    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return even steps through the range, which must be finite."""
        check_bins(self.bins)
        if scores.kind == "logit":
            raise InputError(
                "logits have no finite range to cut uniformly; use PriorSpread"
            )
        u = np.arange(1, self.bins) / self.bins
        return scores.low + (scores.high - scores.low) * u

    def __str__(self) -> str:
        return f"{self.bins} uniform bins"


@dataclass(frozen=True, slots=True)
class _OfValues(EdgeRule):
    """A rule that is a list of numbers."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        # The limits of logits are infinite, and edges begin and end at them.
        if any(abs(v) > FARTHEST and not math.isinf(v) for v in self.values):
            raise InputError(f"edges are numbers of at most {FARTHEST:g}")


@dataclass(frozen=True, slots=True)
class Listed(_OfValues):
    """Edges given one by one, from the lower to the upper end of the range."""

    name: ClassVar[str] = "listed"

    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return what was listed between the limits."""
        check_bins(max(len(self.values) - 1, 1))
        if self.values[:1] != (scores.low,) or self.values[-1:] != (scores.high,):
            raise InputError(
                f"listed edges must start and end at the limits {scores} of the scores"
            )
        _check_increasing(np.asarray(self.values))
        return np.asarray(self.values[1:-1], dtype=np.float64)

    def __str__(self) -> str:
        return f"{len(self.values) - 1} listed bins"


@dataclass(frozen=True, slots=True)
class Support(_OfValues):
    """Scores take only these values (a kNN's votes, a points score): a bin each."""

    name: ClassVar[str] = "support"
    atoms: ClassVar[bool] = True

    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return the values, each the lower edge of its bin."""
        if not self.values:
            raise InputError("the support needs at least one value")
        check_bins(len(self.values))
        if scores.outside(np.asarray(self.values)):
            raise InputError(f"the support leaves the range {scores}")
        return np.asarray(self.values, dtype=np.float64)

    def __str__(self) -> str:
        return f"{len(self.values)} known score values"


@dataclass(frozen=True, slots=True)
class Grid(EdgeRule):
    """Scores are multiples of a step of [0, 1] (votes, rounded scores): a bin each.

    >>> len(Edges.realise(Grid(1 / 50)))
    51
    """

    step: float

    name: ClassVar[str] = "grid"
    atoms: ClassVar[bool] = True

    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return the multiples, each the lower edge of its bin."""
        if scores.kind != "probability":
            raise InputError("a grid is for probabilities; use Support for others")
        steps = round(1 / self.step) if 0 < self.step <= 1 else 0
        if not 0 < steps <= _MOST_STEPS or abs(steps * self.step - 1) > _WHOLE:
            raise InputError(
                f"a grid's step is one over a whole number up to {_MOST_STEPS}"
            )
        return np.arange(steps + 1) / steps

    def __str__(self) -> str:
        return f"multiples of 1/{round(1 / self.step)}"


EDGE_RULES: Final[Registry[type[EdgeRule]]] = Registry(
    "rule for edges",
    {
        "prior": "discreet.data.prior_spread:PriorSpread",
        **{
            kind: f"discreet.data.edges:{kind.capitalize()}"
            for kind in ("warped", "uniform", "listed", "support", "grid")
        },
    },
)
"""Every rule that a plan can hold, by its name there."""
tagged(EdgeRule, "rule", EDGE_RULES)


class CellTable:
    """Which bin each cell of the unit interval lies in.

    A product with a power of two is exact, so truncation finds a score's cell without
    error. Sixteen cells at once make a coarse table that stays in the processor's nearest
    cache. The few scores whose sixteen cells differ are looked up in the fine table, and
    those whose cell an edge cuts are searched.

    >>> CellTable(np.array([0.5])).bins_of(np.array([0.0, 0.4999, 0.5, 1.0])).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, inner: FloatVector) -> None:
        """Take the edges between 0 and 1, in increasing order."""
        self._inner = inner
        place = inner * GRID
        first = np.ceil(place)
        cut = place != first
        # An edge is at or below the cells from its ceiling on.
        ends = np.bincount(first.astype(np.intp), minlength=GRID + 1)
        fine: NDArray[np.uint16] = np.cumsum(ends, dtype=np.uint16)
        fine[place[cut].astype(np.intp)] = _MIXED
        cells = fine[:-1].reshape(-1, _TOGETHER)
        # Bins increase, so that the first and the last cell tell of all.
        coarse = np.where(cells[:, 0] == cells[:, -1], cells[:, 0], _MIXED)
        self._fine = fine
        self._coarse: NDArray[np.uint16] = np.append(coarse, fine[-1])
        self._is_mixed = bool((coarse == _MIXED).any())
        self._is_cut = bool(cut.any())

    def bins_of(self, scores: FloatVector) -> NDArray[np.uint16]:
        """Return each score's bin, as ``searchsorted`` finds it."""
        bins = _looked_up(self._coarse, scores)
        if not self._is_mixed:
            return bins
        rest = np.flatnonzero(bins == _MIXED)
        if rest.size:
            near = scores[rest]
            fine = _looked_up(self._fine, near)
            if self._is_cut:
                mixed = np.flatnonzero(fine == _MIXED)
                fine[mixed] = np.searchsorted(self._inner, near[mixed], side="right")
            bins[rest] = fine
        return bins


def _looked_up(table: NDArray[np.uint16], scores: FloatVector) -> NDArray[np.uint16]:
    """Return the entry of each score's cell; the last entry is that of 1 itself."""
    # Processors convert several doubles at once to 32 bits, but only one to 64.
    cells = np.empty(scores.shape, dtype=np.int32)
    np.multiply(scores, table.size - 1, out=cells, casting="unsafe")
    # No index is out of range; "clip" only spares the check of each one.
    return table.take(cells, mode="clip")


@dataclass(frozen=True)
class Edges:
    """Realised bin edges, and the rule that they come from.

    ``atoms`` says that each bin holds one score value, its lower edge: then
    binning loses nothing.

    >>> edges = Edges.realise(Uniform(4))
    >>> edges.values
    (0.0, 0.25, 0.5, 0.75, 1.0)
    >>> edges.bins_of(np.array([0.0, 0.25, 0.99, 1.0])).tolist()
    [0, 1, 3, 3]
    """

    values: tuple[float, ...]
    rule: EdgeRule
    scores: ScoreRange = field(default_factory=ScoreRange)

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise InputError(f"need at least 2 edges, got {len(self.values)}")
        # The last atom's bin is a single point.
        _check_increasing(self.array[: -1 if self.atoms else None])

    @classmethod
    def realise(
        cls,
        rule: EdgeRule,
        scores: ScoreRange | None = None,
        *,
        thresholds: Iterable[float] = (),
    ) -> Edges:
        """Compute the edges of a rule; each threshold becomes an edge too."""
        scores = scores or ScoreRange()
        inner = rule.inner(scores).tolist()
        if rule.atoms:
            return cls((*inner, inner[-1]), rule, scores)
        added = {float(t) for t in thresholds if scores.low < t < scores.high}
        merged = sorted(added.union(inner))
        return cls((scores.low, *merged, scores.high), rule, scores)

    @property
    def atoms(self) -> bool:
        """Whether every bin holds exactly one score value."""
        return self.rule.atoms

    def __len__(self) -> int:
        """Return the number of bins, one less than the number of edges."""
        return len(self.values) - 1

    @cached_property
    def array(self) -> FloatVector:
        """The edges as an array."""
        return np.asarray(self.values, dtype=np.float64)

    def holds(self, scores: FloatVector) -> BoolVector:
        """Say which scores have a bin: all in the range, or those of the support."""
        if not self.atoms:
            return np.ones(scores.shape, dtype=np.bool_)
        return np.isin(scores, self.array[:-1])

    def bins_of(self, scores: FloatVector) -> CodeVector:
        """Return each score's bin; the scores must lie in the declared range.

        Equal to ``searchsorted(edges, scores, side="right") - 1`` at every
        float, with the last bin closed.
        """
        if self._table is not None:
            return self._table.bins_of(scores)
        if not self.atoms:
            return np.searchsorted(self.array[1:-1], scores, side="right")
        support = self.array[:-1]
        bins = np.searchsorted(support, scores, side="right") - 1
        strange = int(np.count_nonzero(support[bins] != scores))
        if strange:
            raise InputError(
                f"{strange} of {scores.size} scores are not in the declared "
                f"support of {len(self)} values; declare them all or use bins"
            )
        return bins

    @cached_property
    def _table(self) -> CellTable | None:
        unit = (self.scores.low, self.scores.high) == (0.0, 1.0)
        if self.atoms or not unit or len(self) >= _MANY_BINS:
            return None
        return CellTable(self.array[1:-1])


def reference_quantiles(
    reference: ArrayLike, bins: int, scores: ScoreRange | None = None
) -> Listed:
    """Edges at the quantiles of *public* scores, such as the training scores.

    Never call this with the scores that are to be measured: edges are public.
    """
    check_bins(bins)
    scores = scores or ScoreRange()
    sample = np.asarray(reference, dtype=np.float64)
    if sample.size == 0 or scores.outside(sample):
        raise InputError(f"reference scores must be a non-empty sample from {scores}")
    inner = np.unique(np.quantile(sample, np.arange(1, bins) / bins))
    inner = inner[(inner > scores.low) & (inner < scores.high)]
    return Listed((scores.low, *inner.tolist(), scores.high))


def unit_edges(edges: Edges) -> FloatVector:
    """Return the edges on the probability scale: the sigmoid of logit edges."""
    values = edges.array
    match edges.scores.kind:
        case "probability":
            return values
        case "logit":
            with np.errstate(over="ignore"):
                return 1.0 / (1.0 + np.exp(-values))
        case "other":
            raise InputError("scores of kind 'other' are not probabilities")


def even_places(edges: Edges) -> FloatVector:
    r"""Return the edges on a scale u from 0 to 1 on which bins are about even.

    .. math:: u = \sigma\left(\frac{z - m}{c}\right), \qquad
              z = \log\frac{s}{1 - s}

    with m the edges' median and c their interquartile range over 2 ln 3, so that the
    logit of u is the score's up to a line, and even edges lie as logistic quantiles do.
    Scores that are no probabilities, or known values, take their rank.

    >>> even_places(Edges.realise(Warped(4))).round(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    places: FloatVector = np.arange(len(edges) + 1) / len(edges)
    if not (edges.atoms or edges.scores.kind == "other" or len(edges) < 4):
        inner = edges.array[1:-1]
        z = inner if edges.scores.kind == "logit" else np.log(inner / (1 - inner))
        ranks = np.array([0.25, 0.5, 0.75]) * len(edges)
        low, middle, high = np.interp(ranks, np.arange(1, len(edges)), z)
        scale = max((high - low) / (2 * math.log(3)), _NARROWEST)
        x = np.clip((z - middle) / scale, -_FARTHEST, _FARTHEST)
        places = np.concatenate([[0.0], 1 / (1 + np.exp(-x)), [1.0]])
        if (np.diff(places) < _APART).any():  # edges far outside of the others' middle
            places = np.maximum.accumulate(places) + _APART * np.arange(places.size)
            places /= places[-1]
    # Without the last digits 1 - u is exact, and symmetric edges stay symmetric.
    snapped: FloatVector = np.round(places * _SNAP) / _SNAP
    return snapped


def check_bins(bins: int) -> None:
    """Refuse a number of bins that is no whole number in reach."""
    whole(bins, "the number of bins", least=1, most=MOST_BINS, error=InputError)


def _check_increasing(values: FloatVector) -> None:
    rising = np.diff(values) > 0
    if not rising.all():
        k = int(np.argmin(rising))
        raise InputError(
            f"edges must increase strictly, but edge {k + 1} does not exceed edge {k}"
        )


@dataclass(frozen=True)
class Cuts:
    r"""The scores of one column at which something changes, and how to round others.

    Only a score's bin counts. So each score s is replaced by
    :math:`\lfloor s\,2^g \rfloor / 2^g`, except in the few cells of that grid that an
    edge cuts, where it stays as it is. The product with a power of two, the floor and
    the quotient are exact in every engine that has IEEE doubles. Rounded scores fall
    into the same bins as the scores themselves, and a table has few of them.

    Args:
        low: below it all scores count alike, or lie outside.
        high: above it all scores count alike, or lie outside.
        edges: where a bin begins, between the two.
        alone: scores that count each by itself (a declared support).

    >>> cuts = Cuts(0.0, 1.0, (0.25, 0.3))
    >>> cuts.rounded(np.array([-0.1, 0.2, 0.25, 0.3, 1.0, 1.5, np.nan])).tolist()
    [-1.0, 0.19999980926513672, 0.25, 0.3, 1.0, 2.0, nan]
    """

    low: float
    high: float
    edges: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()

    @classmethod
    def within(
        cls, scores: ScoreRange, *every: Edges, thresholds: Sequence[float] = ()
    ) -> Cuts:
        """Return the cuts of a range, and of all these edges and thresholds in it."""
        inner = {v for e in every if not e.atoms for v in e.values[1:-1]}
        inner.update(t for t in thresholds if scores.low < t < scores.high)
        alone = {v for e in every if e.atoms for v in e.values}
        low, high = scores.low, scores.high
        if not (math.isfinite(low) and math.isfinite(high)):
            # Beyond the outermost edges all scores count alike.
            ends = inner | alone or {0.0}
            low, high = float(math.floor(min(ends))), float(math.ceil(max(ends)))
        return cls(low, high, tuple(sorted(inner)), tuple(sorted(alone)))

    @cached_property
    def exponent(self) -> int:
        """The grid's g: as coarse as the edges allow."""
        width = max(self.high - self.low, 2.0**-_BITS)
        finest = _BITS - math.ceil(math.log2(width))
        ends = (self.low, *self.edges)
        if self.alone or not _on_grid(ends, finest):
            return finest
        return next(g for g in range(min(finest, 0), finest + 1) if _on_grid(ends, g))

    @property
    def exact(self) -> bool:
        """Whether rounding loses nothing, in this range."""
        small = abs(self.exponent) < _MOST_GRID_EXPONENT
        scale = 2.0**self.exponent if small else math.inf
        return max(abs(self.low), abs(self.high)) * max(scale, 1.0) < _EXACT

    @property
    def beyond(self) -> float:
        """How far out scores are moved that lie outside: a cell, at least."""
        return max(1.0, 2.0**-self.exponent)

    @property
    def cells(self) -> int:
        """Most different rounded scores, but for those that stay as they are."""
        return int((self.high - self.low) * 2.0**self.exponent) + 3

    @cached_property
    def mixed(self) -> tuple[int, ...]:
        """The grid's cells in which scores stay as they are."""
        scale = 2.0**self.exponent
        places = np.array([self.low, *self.edges]) * scale
        cut = places[places != np.floor(places)]
        alone = np.array(self.alone, dtype=np.float64) * scale
        return tuple(int(c) for c in np.unique(np.floor([*cut, *alone])))

    def covers(self, other: Cuts) -> bool:
        """Say whether scores that were rounded for these cuts do for others."""
        own = {*self.edges, *self.alone}
        return own.issuperset(other.edges) and {*self.alone}.issuperset(other.alone)

    def rounded(self, scores: FloatVector) -> FloatVector:
        """Round scores as an engine is asked to: what is meant, in NumPy."""
        scale = 2.0**self.exponent
        scores = np.where(scores < self.low, self.low - self.beyond, scores)
        scores = np.where(scores > self.high, self.high + self.beyond, scores)
        cells = np.floor(scores * scale)
        return np.where(np.isin(cells, self.mixed), scores, cells / scale)


def _on_grid(values: Sequence[float], exponent: int) -> bool:
    places = np.array(values) * 2.0**exponent
    return bool((places == np.floor(places)).all())
