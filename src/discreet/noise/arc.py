r"""The circular arc randomiser: one example, one symbol, epsilon-DP on its own.

A client's example is a cell x of the class histogram, a class and a bin, laid
on the circle :math:`\mathbb Z_{2B}`: the negatives' bins ascending, then the
positives'. The client sends one symbol of the same circle, the start of an arc
of L cells that more likely than not holds x:

.. math::
    \Pr[o \mid x] = \frac{1}{W}\begin{cases}
        n & \text{if } x \in \{o, \dots, o + L - 1\} \\
        D & \text{otherwise}\end{cases},
    \qquad W = L n + (2B - L) D,\quad \frac nD \le e^\varepsilon .

**Privacy.** The unit is one example replaced: score and label together. W does
not depend on x, and each numerator is n or D, so for every symbol o and all
cells x, x' the ratio :math:`\Pr[o \mid x]/\Pr[o \mid x']` is n/D, 1 or D/n:
at most :math:`n/D \le e^\varepsilon`, without delta and without trust in
anybody. n/D is a rational below :math:`e^\varepsilon` (a truncated series of
positive terms, rounded down to a multiple of 1/D), and a symbol comes from one
exactly uniform integer below W, so the claim holds for the program and not only
for its real-number ideal. Adding up symbols is post-processing. A client that
sends c symbols spends c epsilon. The number of clients is public.

**Why arcs.** Neighbouring bins share most of their arcs, so what the noise
leaves unseen are the fine details of the histogram, which a smooth curve does
not have: an interval-shaped case of subset selection (Ye and Barg 2018), whose
subsets of d/(e^eps + 1) cells are the best for unstructured inputs. The channel
may be singular (an arc of 16 on a circle of 64 hides every fourth frequency):
:mod:`discreet.noise.arc_decoder` decodes it with a smoothness penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from discreet.arrays import FloatArray, IntVector
from discreet.data.edges import Edges
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.noise.coins import MAX_BOUND, uniform
from discreet.noise.mechanism import NoisyCounts
from discreet.phone import DENOMINATOR, MAX_EPSILON, arc_length, exp_below
from discreet.privacy.loss import PureDP


@dataclass(frozen=True)
class CircularArc:
    """Randomise each example of a class histogram over ``edges`` on its own.

    >>> from discreet.data.edges import Warped
    >>> arc = CircularArc(Fraction(1), Edges.realise(Warped(32)))
    >>> arc.cells, arc.length, round(float(arc.odds), 6)
    (64, 16, 2.718282)
    """

    epsilon: Fraction
    edges: Edges

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= MAX_EPSILON:
            raise PlanError(
                f"the arc randomiser takes an epsilon above 0 and at most {MAX_EPSILON}"
            )
        if self.total_weight >= MAX_BOUND:
            raise PlanError(
                f"{len(self.edges)} bins are too many for this epsilon; use fewer"
            )

    def loss(self) -> PureDP:
        """Return what one symbol costs its client."""
        return PureDP(self.epsilon)

    @property
    def cells(self) -> int:
        """The size of the circle, 2B: two classes, every bin."""
        return 2 * len(self.edges)

    @cached_property
    def length(self) -> int:
        """The arc's length L, which falls as epsilon grows."""
        return arc_length(len(self.edges), self.epsilon)

    @cached_property
    def odds(self) -> Fraction:
        r"""The ratio n/D of the two probabilities, never above :math:`e^\varepsilon`."""
        return Fraction(exp_below(self.epsilon, DENOMINATOR), DENOMINATOR)

    @cached_property
    def _likely(self) -> int:
        """n, the weight of a symbol whose arc holds the example's cell."""
        return int(self.odds * DENOMINATOR)

    @cached_property
    def total_weight(self) -> int:
        """W, what the weights of all symbols add up to, whatever the cell."""
        return self.length * self._likely + (self.cells - self.length) * DENOMINATOR

    def weighed(self) -> tuple[int, int]:
        """Return n and D, the weights of a likely symbol and of any other."""
        return self._likely, DENOMINATOR

    def weights(self) -> IntVector:
        """Return W times the channel: integers, one row per cell, one column per symbol."""
        cell, symbol = np.ogrid[: self.cells, : self.cells]
        held = (cell - symbol) % self.cells < self.length
        return np.where(held, self._likely, DENOMINATOR).astype(np.int64)

    def channel(self) -> FloatArray:
        """Return the probability of each symbol (column) for each cell (row)."""
        return self.weights() / self.total_weight

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Randomise the examples behind a class histogram and tally the symbols."""
        if exact.shape != (self.cells,) or (exact < 0).any():
            raise InputError(f"expected {self.cells} exact counts, none negative")
        cells = np.repeat(np.arange(self.cells, dtype=np.int64), exact)
        symbols = self.randomise(cells, entropy)
        return np.bincount(symbols, minlength=self.cells).astype(np.int64)

    def sent(self, cells: int) -> int:
        """One number per symbol: as many as cells."""
        return cells

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Estimate the counts behind the tally of all symbols."""
        from discreet.noise.arc_decoder import decode  # noqa: PLC0415 - imports arcs

        del contributors
        return decode(total, self)

    def randomise(self, cells: IntVector, entropy: Entropy) -> IntVector:
        """Return the symbol that the client of each example's cell sends."""
        drawn = uniform(self.total_weight, cells.size, entropy)
        return self._symbols(cells, drawn.astype(np.int64))

    def _symbols(self, cells: IntVector, drawn: IntVector) -> IntVector:
        """Map a cell and an integer below W to a symbol.

        The first L n integers go, n each, to the arcs that hold the cell
        (starting 0 to L - 1 before it), the rest, D each, to the other arcs.
        """
        inside = self.length * self._likely
        back = drawn // self._likely
        ahead = (drawn - inside) // DENOMINATOR + 1
        steps: IntVector = np.where(drawn < inside, -back, ahead)
        symbols: IntVector = np.mod(cells + steps, self.cells)
        return symbols


def simulate_arc_counts(
    arc: CircularArc, exact: IntVector, rng: np.random.Generator
) -> IntVector:
    """Draw the total symbol counts of all clients at once: simulation only.

    ``exact`` are the clients' examples per cell. One multinomial per cell, so that
    ten million clients cost as much as ten; the distribution is that of
    ``protect``, and not secret.
    """
    total: IntVector = rng.multinomial(exact, arc.channel()).sum(axis=0)
    return total
