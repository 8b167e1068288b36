r"""How a site adds its own effect to a sum without showing it: five bounded integers.

A site has an effect :math:`\theta` (its logit AUC, say) with a variance v. Its weight
is :math:`a = 1/(v + t)`, t the plan's anchor. The plan also says in which range
:math:`\theta` is kept, and below which variance no site may be: so

.. math::
    b = a\,(v_{least} + t) \in (0, 1], \qquad
    \varphi = (\theta - low)/(high - low) \in [0, 1],

and a site adds, each times ``unit`` and rounded to the nearest integer,

.. math::
    b\varphi^2, \quad b\varphi(1-\varphi), \quad b(1-\varphi)^2, \quad 1 - b, \quad b^2 .

The sums of 1, a, a^2, a theta and a theta^2 are linear in them
(:meth:`EffectTerms.sums`). A site that cannot estimate its effect adds zeros. Under
noise the last number is left out (``squared``), which halves the noise of the others. The
sum of b^2 is then taken as (sum of b)^2/k; it enters results with a factor of 1/k.

*Sensitivity.* The first four are at least 0 and add up to :math:`1 - b\varphi(1-\varphi)
\le 1`, the last is at most 1. A whole site that is added or removed moves the four by at
most 1 in L1 and squared L2, any change of one site's data by 2 and 2 (from one corner
to another); the fifth adds 1 to each. Rounding adds half an integer a number, on both
sides of a change.

*Rounding.* Every number is off by at most 1/2 an integer a site: k sites' sums of a theta^2
by at most :math:`k\,(high-low)^2/(unit\,(v_{least}+t))`, the others by less. A finer unit
than ``MOST_UNIT`` is refused: the digits of an exact sum tell the sites' own values.

*Ranges.* Within ``_LIMITS`` nothing that is computed from the terms overflows; each number
is clipped to [0, unit], and what is not a number is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.codec.documents import written
from discreet.codec.parsing import number, whole
from discreet.data.edges import Edges
from discreet.errors import PlanError
from discreet.privacy.unit import Sensitivity, Unit
from discreet.registry import Registry
from discreet.statistic.protocol import BinCounts, Bound

Link: TypeAlias = Literal["logit", "log", "identity"]

NUMBERS: Final = 5
"""Integers of an effect, one less without squares."""
MOST_UNIT: Final = 2**12
"""Of an exact sum."""
PRIVATE_UNIT: Final = 2**8
"""Under noise, which is far coarser; samplers work longer for larger integers."""
FEWEST: Final = 5
"""Examples of each class that a site must have for an effect of its own."""
_LIMITS: Final = {
    "low": (-100.0, 100.0),
    "high": (-100.0, 100.0),
    "least": (1e-9, 100.0),
    "anchor": (1e-9, 100.0),
}
"""Between which a plan's numbers lie; a variance of 100 on a logit says nothing."""
_NARROWEST: Final = 1e-3


class Effect(NamedTuple):
    """A site's value on the scale of the sum, and its variance."""

    value: float
    variance: float


class Defaults(NamedTuple):
    """The default terms of an effect."""

    low: float
    high: float
    least: float
    anchor: float
    private: tuple[float, float]
    """The range under noise, where every width costs."""
    usual: float
    """A variance between sites that is usual; what a plan under noise must show."""


@dataclass(frozen=True, slots=True)
class SiteEffect:
    """One effect that sites can compare."""

    name: str
    title: str
    link: Link
    """From the measure to the scale on which sites are near normal."""
    of: Callable[[Edges, BinCounts, float | None], Effect]
    """The effect of a site with both classes, at a threshold if it has one."""
    defaults: Defaults
    needs_probabilities: bool = False
    at: bool = False
    """Whether it is taken at a threshold."""


SITE_EFFECTS: Final[Registry[SiteEffect]] = Registry(
    "effect of a site",
    {
        "auc": "discreet.metrics.site_effects:AUC",
        "log_oe": "discreet.metrics.site_effects:LOG_OE",
        "calibration_slope": "discreet.metrics.site_effects:SLOPE",
        "calibration_intercept": "discreet.metrics.site_effects:IN_THE_LARGE",
        "recall": "discreet.metrics.site_effects:RECALL",
        "specificity": "discreet.metrics.site_effects:SPECIFICITY",
        "net_benefit": "discreet.metrics.site_effects:NET_BENEFIT",
    },
)
"""Every effect that sites can compare, those of other packages too."""


@dataclass(frozen=True, slots=True)
class EffectTerms:
    """How one effect is added up, as a plan says it.

    Args:
        effect: its name in ``SITE_EFFECTS``.
        low: effects below are moved to it.
        high: effects above are moved to it.
        least: variances below are raised to it.
        anchor: the variance between sites for which the weights are made.
        unit: what a 1 is, in integers.
        fewest: examples of each class without which a site has no effect.
        squared: whether the squares of the weights are added up too.
        at: the threshold, for effects that have one.
    """

    effect: str
    low: float
    high: float
    least: float
    anchor: float
    unit: int
    fewest: int = FEWEST
    squared: bool = field(default=True, metadata=written(left_out=True))
    at: float | None = None

    def __post_init__(self) -> None:
        row = SITE_EFFECTS[self.effect]
        for key, (least, most) in _LIMITS.items():
            name, value = f"{key!r} of an effect", getattr(self, key)
            value = number(value, name, least=least, most=most)
            object.__setattr__(self, key, value)
        if not self.high - self.low >= _NARROWEST:
            raise PlanError(f"an effect has a range of at least {_NARROWEST:g}")
        whole(self.unit, "the unit of an effect", least=16, most=MOST_UNIT)
        whole(self.fewest, "the fewest examples of a class", least=2)
        if type(self.squared) is not bool:
            raise PlanError("squares of weights are added up or not: true or false")
        if row.at != (self.at is not None):
            taken = "is" if row.at else "is not"
            raise PlanError(f"{row.title} {taken} taken at a threshold")

    @classmethod
    def of(cls, name: str, *, private: bool, at: float | None = None) -> EffectTerms:
        """Return the usual terms: narrower and without squares under noise."""
        usual = SITE_EFFECTS[name].defaults
        low, high = usual.private if private else (usual.low, usual.high)
        return cls(
            name,
            float(low),
            float(high),
            usual.least,
            usual.anchor,
            PRIVATE_UNIT if private else MOST_UNIT,
            at=at,
            squared=not private,
        )

    @property
    def row(self) -> SiteEffect:
        """What the effect is."""
        return SITE_EFFECTS[self.effect]

    @property
    def title(self) -> str:
        """The title of the effect."""
        return self.row.title if self.at is None else f"{self.row.title} at {self.at:g}"

    @property
    def key(self) -> str:
        """What results call it: its name, with its threshold if it has one."""
        return self.effect if self.at is None else f"{self.effect}@{self.at:g}"

    @property
    def size(self) -> int:
        """Integers that a site adds."""
        return NUMBERS if self.squared else NUMBERS - 1

    def encoded(self, edges: Edges, counts: BinCounts) -> IntVector:
        """Return a site's integers, from its own exact counts."""
        if min(float(c.sum()) for c in counts) < self.fewest:
            return np.zeros(self.size, dtype=np.int64)
        try:
            with np.errstate(all="ignore"):
                effect = self.row.of(edges, counts, self.at)
        except (ArithmeticError, ValueError):  # a fit that found no end
            return np.zeros(self.size, dtype=np.int64)
        return self.of_effect(effect)

    def of_effect(self, effect: Effect) -> IntVector:
        """Return the integers of an effect, kept in its range."""
        if not math.isfinite(effect.value) or not effect.variance >= 0:
            return np.zeros(self.size, dtype=np.int64)
        share = (effect.value - self.low) / (self.high - self.low)
        phi = min(max(share, 0.0), 1.0)
        variance = max(effect.variance, self.least)
        b = (self.least + self.anchor) / (variance + self.anchor)
        b_phi = b * phi
        parts = [b_phi * phi, b_phi * (1 - phi), b * (1 - phi) ** 2, 1 - b, b * b]
        numbers = np.clip(np.nan_to_num(parts[: self.size], nan=0.0), 0.0, 1.0)
        rounded: IntVector = np.rint(numbers * self.unit).astype(np.int64)
        return rounded

    def bounds(self) -> tuple[Bound, ...]:
        """The four parts of 1, each rounded by a half at most, and the square."""
        four = Bound(NUMBERS - 1, self.unit, self.unit + 2)
        return (four, Bound(1, self.unit)) if self.squared else (four,)

    def sums(self) -> FloatArray:
        """Return the matrix from the totals to 1, a, a^2, a theta, a theta^2.

        Without squares the third row is empty.
        """
        g, low, width = self.least + self.anchor, self.low, self.high - self.low
        b = np.array([1.0, 2.0, 1.0, 0.0, 0.0])
        b_phi = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
        b_phi2 = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
        rest = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
        squared = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
        rows = [
            b + rest,
            b / g,
            squared / g**2,
            (low * b + width * b_phi) / g,
            (low * low * b + 2 * low * width * b_phi + width * width * b_phi2) / g,
        ]
        matrix: FloatArray = np.stack(rows)[:, : self.size] / self.unit
        return matrix

    def totals(self, numbers: FloatVector) -> FloatVector:
        """Return the sums of 1, a, a^2, a theta and a theta^2."""
        total: FloatVector = self.sums() @ numbers
        if not self.squared:
            total[2] = total[1] ** 2 / max(total[0], 1.0)
        return total

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Return the bounds that the module derives."""
        s = self.unit
        present = unit.kind == "client" and unit.relation == "add_remove"
        most = (1 if present else 2) + self.squared  # in both norms, before rounding
        off = self.size if not present else -(-self.size // 2)
        # (sqrt(most) s + sqrt(numbers) r)^2, r the rounding of one number
        squares = most * s * s + math.isqrt(4 * most * self.size * s * s) + 1
        return Sensitivity(
            most * s + off, squares + self.size, s if present else s + 1, unit
        )
