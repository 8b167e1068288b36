"""What every statistic is, and how one is counted over a stream of batches.

*Bounds.* Noise is sized for what a statistic argues that a unit can change. ``within_bounds``
makes the argument true: it brings a vector into the declared range, whatever computed it. The
move depends on that vector alone and changes none that is in range, so neighbours get no
further apart than the range allows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import CodeVector, FloatVector, IntVector
from discreet.codec.documents import tagged
from discreet.codec.parsing import MOST
from discreet.data.edges import Cuts, Edges
from discreet.data.examples import Batch, Examples
from discreet.data.times import Rounding, TimeCuts
from discreet.errors import InputError
from discreet.privacy.unit import Sensitivity, Unit
from discreet.registry import Registry
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram

if TYPE_CHECKING:
    from discreet.statistic.timed import TimedCounts

MOST_COUNT: Final = MOST
"""No site counts more in one number: a float still holds it exactly."""


class Block(NamedTuple):
    """Some numbers of a vector, how far one unit moves them, and their share."""

    size: int
    sensitivity: Sensitivity
    share: Fraction = Fraction(1)


class Bound(NamedTuple):
    """Some consecutive numbers of a vector: none below 0, none above ``each``."""

    size: int
    each: int = MOST_COUNT
    total: int | None = None
    """The most that they add up to, where the statistic knows it."""


def within_bounds(vector: NDArray[np.generic], bounds: Sequence[Bound]) -> IntVector:
    """Return the vector in its range; what is not a number there is 0.

    >>> within_bounds(np.array([3, -1, 9, 9]), [Bound(2), Bound(2, each=5, total=8)])
    array([3, 0, 5, 3])
    """
    size = sum(bound.size for bound in bounds)
    if vector.shape != (size,) or vector.dtype.kind not in "iufb":
        return np.zeros(size, dtype=np.int64)
    if vector.dtype.kind == "f":
        limit = float(MOST_COUNT)
        vector = np.rint(np.nan_to_num(vector, nan=0, posinf=limit, neginf=0))
        vector = np.clip(vector, 0, limit)
    numbers: IntVector = np.clip(vector, 0, MOST_COUNT).astype(np.int64)
    start = 0
    for bound in bounds:
        block = numbers[start : start + bound.size]
        start += bound.size
        np.minimum(block, min(bound.each, MOST_COUNT), out=block)
        if bound.total is None or not block.size:
            continue
        # A float holds this sum exactly as far as any total reaches.
        left = min(bound.total, MOST_COUNT)
        if block.sum(dtype=np.float64) > left:
            for place in np.flatnonzero(block):
                block[place] = min(int(block[place]), left)
                left -= int(block[place])
    return numbers


class Statistic(ABC):
    """A frozen description of an integer vector that sites can add up."""

    name: ClassVar[str]
    """What a plan's file calls it."""
    only_for: ClassVar[str | None] = None
    """The one privacy model that can carry it, where it is no sum of counts."""
    compares: ClassVar[bool] = False
    """Whether its parts are two models on the same examples."""
    label_columns: int = 1
    """How many labels each example has, each with a score of its own."""
    edges_hold_thresholds: ClassVar[bool] = True
    """Whether a plan's thresholds become edges."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the vector."""

    @property
    @abstractmethod
    def binnings(self) -> tuple[Edges, ...]:
        """The edges of every score column that is counted."""

    @abstractmethod
    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples, batch by batch."""

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Say for each row, by itself, whether the vector has a place for it."""
        kept = np.ones(len(batch), dtype=np.bool_)
        for edges, scores in zip(self.columns, batch.scores, strict=True):
            kept &= edges.holds(scores)
        return kept

    @property
    def columns(self) -> tuple[Edges, ...]:
        """The edges of each score column; some statistics have one rule for all."""
        return self.binnings

    def check(self, examples: Examples, *, binary: bool = True) -> None:
        """Refuse examples whose scores or classes are not those that are counted."""
        if examples.label_columns != self.label_columns:
            raise InputError(
                f"the plan counts {self.label_columns} labels of each example, and the "
                f"examples have {examples.label_columns}: name as many label columns"
            )
        if examples.columns != len(self.columns):
            two = (
                "; of two columns of predict_proba(X) give one, predict_proba(X)[:, 1]"
            )
            raise InputError(
                f"the plan counts {len(self.columns)} score columns, the examples have "
                f"{examples.columns}"
                + (two if (examples.columns, len(self.columns)) == (2, 1) else "")
            )
        self.check_followed(examples)
        for wanted in self.columns:
            if examples.scores != wanted.scores:
                raise InputError(
                    f"the plan expects scores of kind {wanted.scores.kind} in "
                    f"{wanted.scores}, the examples declare {examples.scores.kind} in "
                    f"{examples.scores}"
                )
        if binary:
            check_binary(examples)

    def check_followed(self, examples: Examples) -> None:
        """Refuse follow-up where labels are counted, and the other way round."""
        if examples.timed != (self.time_cuts is not None):
            raise InputError(
                "the examples are follow-up, a time and an event, and the plan counts "
                "labels: name the labels instead, or plan with horizons"
                if examples.timed
                else "the plan counts follow-up: name time= and event= instead of labels"
            )

    @abstractmethod
    def sensitivity(self, unit: Unit) -> Sensitivity:
        """How far the vector moves when one unit changes."""

    def blocks(self, unit: Unit) -> tuple[Block, ...]:
        """Return the blocks that have noise of their own size; one, by default."""
        return (Block(self.size, self.sensitivity(unit)),)

    def bounds(self, unit: Unit | None) -> tuple[Bound, ...]:
        """Return the range of one site's numbers, to which its answer is clipped.

        Counts are at least 0. Where all that a site holds is one unit, its numbers
        lie as far from none at all as that unit moves them.
        """
        if unit is None or unit.kind != "client":
            return (Bound(self.size),)
        alone = self.sensitivity(Unit("client", "add_remove", unit.max_examples))
        return (Bound(self.size, alone.linf, alone.l1),)

    @abstractmethod
    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """Return the class histograms of a decoded sum; the only one is named ''."""

    def pooled(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> NoisyHistogram | None:
        """Return the histogram of all examples, where disjoint parts add up to it."""
        del counts, noise
        return None

    def pairs(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[tuple[str, str], NoisyHistogram]:
        """Return the histograms of one class against another, where there are any."""
        del counts, noise
        return {}

    def tables(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, TimedCounts]:
        """Return the tables of follow-up in a decoded sum, where time is counted."""
        del counts, noise
        return {}

    @property
    def time_cuts(self) -> TimeCuts | None:
        """The cuts of follow-up times; None where labels are counted."""
        return None

    @property
    def joint(self) -> bool:
        """Whether the vector counts pairs of the two models' bins."""
        return False

    @property
    def told_apart(self) -> tuple[str, ...]:
        """Names of the groups of people that the vector tells apart."""
        return ()

    @property
    def beside_counts(self) -> Mapping[str, int]:
        """What the vector holds that counts no examples: how many numbers, of what."""
        return {}

    def admits(self, unit: Unit | None, sites: int) -> None:
        """Raise ``PlanError`` if a sum over so few sites must not be revealed."""
        del unit, sites

    @property
    def chooses_sites(self) -> bool:
        """Whether ``takes`` may refuse a site for what it counted."""
        return False

    def takes(self, exact: IntVector) -> None:
        """Raise ``InputError`` if a site with these counts stays out of exact sums."""
        del exact

    @property
    def follows(self) -> Statistic | None:
        """The statistic of the round before, when this one is worked out from it."""
        return None

    def resolve(self, released: FloatVector) -> Statistic:
        """Work out what is counted from the total of the round before."""
        del released
        return self


STATISTICS: Final[Registry[type[Statistic]]] = Registry(
    "statistic",
    {
        "histogram": "discreet.statistic.histogram:ClassHistogram",
        "one-vs-rest": "discreet.statistic.multiclass:OneVsRest",
        "one-vs-one": "discreet.statistic.multiclass:OneVsOne",
        "multi-label": "discreet.statistic.multilabel:MultiLabel",
        "site-sums": "discreet.statistic.site_sums:SiteSums",
        "grouped": "discreet.statistic.histogram:Grouped",
        "weighted": "discreet.statistic.weighted:Weighted",
        "paired": "discreet.statistic.histogram:Paired",
        "paired-in-groups": "discreet.statistic.histogram:PairedInGroups",
        "hierarchy": "discreet.statistic.hierarchy:Hierarchy",
        "equi-depth": "discreet.statistic.adaptive:EquiDepthFrom",
        "placed": "discreet.statistic.adaptive:PlacedFrom",
        "rank-sums": "discreet.statistic.rank_sums:RankSums",
        "shared-rows": "discreet.mpc.model:SharedRows",
        "timed": "discreet.statistic.timed:TimedHistogram",
        "timed-grouped": "discreet.statistic.timed:TimedGroups",
        "timed-paired": "discreet.statistic.timed:TimedPair",
        "timed-horizons": "discreet.statistic.timed:TimedHorizons",
    },
)
"""Every statistic that a plan can hold, those of other packages too."""
tagged(Statistic, "statistic", STATISTICS)


class BinCounts(NamedTuple):
    """Counts of the two classes per bin, exact or noisy."""

    negatives: FloatVector
    positives: FloatVector


def check_binary(examples: Examples) -> None:
    """Refuse multi-class labels where two classes are counted."""
    classes = examples.label_code.classes
    if classes is not None and len(classes) != 2:
        raise InputError(
            f"the plan counts two classes, the examples declare {len(classes)}"
        )


def tally(
    examples: Examples,
    statistic: Statistic,
    cells: Callable[[Batch], CodeVector],
    amounts: Callable[[Batch, bool], IntVector] | None = None,
) -> IntVector:
    """Add one to the cell of every entry that ``cells`` returns, over all batches.

    Under the rule for rows that do not fit, rows for which the statistic has no place
    are left out, or counted in the first cell where every row has to count.

    ``cells`` may use a score's bin and a time's interval alone, and gives a row's further entries after
    those of all rows: a source may count rows that are alike in that (``Cuts``).
    ``amounts`` says how much each entry adds instead of one, and whether rows that do
    not fit may be refused.
    """
    statistic.check(examples)

    def counted(batches: Iterator[Batch]) -> tuple[IntVector, int]:
        total, aside = np.zeros(statistic.size, dtype=np.int64), 0
        for batch in batches:
            if examples.lenient:
                kept = statistic.fits(batch)
                aside += batch.number(~kept)
                if examples.every_row:
                    columns = statistic.columns[: len(batch.scores)]
                    first = [edges.values[0] for edges in columns]
                    batch = batch.moved(~kept, first)  # noqa: PLW2901 - the same rows
                else:
                    batch = batch.where(kept)  # noqa: PLW2901 - the same rows, fewer
            each = None if amounts is None else amounts(batch, examples.lenient)
            total += batch.tally(cells(batch), statistic.size, each)
        return total, aside

    cuts: list[Rounding] = [
        Cuts.within(examples.scores, edges) for edges in statistic.columns
    ]
    if statistic.time_cuts is not None:
        cuts.append(statistic.time_cuts)
    sums = examples.scan(counted, cuts)
    examples.set_aside += sum(aside for _, aside in sums)
    return sum((total for total, _ in sums), np.zeros(statistic.size, dtype=np.int64))
