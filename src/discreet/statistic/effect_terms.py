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
noise the last number is left out (``squared``), which halves the noise of the others:
the sum of b^2 is then taken as (sum of b)^2/k, as if the sites weighed the same; it
enters results with a factor of 1/k.

*Sensitivity.* The first four are at least 0 and add up to :math:`1 - b\varphi(1-\varphi)
\le 1`, the last is at most 1. A whole site that is added or removed moves the four by at
most 1 in L1 and squared L2, any change of one site's data by 2 and 2 (from one corner
to another); the fifth adds 1 to each. Rounding adds half an integer a number, on both
sides of a change.

*Rounding.* Every number is off by at most 1/2 an integer a site, so that k sites' sums of a theta^2
are off by at most :math:`k\,(high-low)^2/(unit\,(v_{least}+t))` and less in the others.

*Overflow.* Every number is at most ``unit`` a site, and ``unit`` times the most sites
that a sum can have is below 2^62.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.errors import PlanError
from discreet.parsing import whole
from discreet.privacy.unit import Sensitivity, Unit
from discreet.registry import Registry
from discreet.statistic.protocol import BinCounts

Link: TypeAlias = Literal["logit", "log", "identity"]

NUMBERS: Final = 5
"""Integers an anchor, one less without squares."""
MOST_SITES: Final = 100_000
"""As many as a secure sum can have."""
MOST_UNIT: Final = 2**45
PRIVATE_UNIT: Final = 2**8
"""Under noise, which is far coarser; samplers work longer for larger integers."""
FEWEST: Final = 5
"""Examples of each class that a site must have for an effect of its own."""


class Effect(NamedTuple):
    """A site's value on the scale of the sum, and its variance."""

    value: float
    variance: float


class Defaults(NamedTuple):
    """What a plan says of an effect when nobody says otherwise."""

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
"""Every effect that sites can compare, a stranger's own too."""


@dataclass(frozen=True, slots=True)
class EffectTerms:
    """How one effect is added up, as a plan says it.

    Args:
        effect: its name in ``SITE_EFFECTS``.
        low: effects below are moved to it.
        high: effects above are moved to it.
        least: variances below are raised to it.
        anchors: the variances between sites for which the weights are made.
        unit: what a 1 is, in integers.
        fewest: examples of each class without which a site has no effect.
        at: the threshold, for effects that have one.
        squared: whether the squares of the weights are added up too.
    """

    effect: str
    low: float
    high: float
    least: float
    anchors: tuple[float, ...]
    unit: int
    fewest: int = FEWEST
    at: float | None = None
    squared: bool = True

    def __post_init__(self) -> None:
        row = SITE_EFFECTS[self.effect]
        limits = (self.low, self.high, self.least, *self.anchors)
        if not all(math.isfinite(x) for x in limits):
            raise PlanError("an effect's range, least variance and anchors are numbers")
        if not self.low < self.high or not self.least > 0:
            raise PlanError("an effect has a range, and a least variance above 0")
        if not 1 <= len(self.anchors) <= 2 or min(self.anchors) < 0:
            raise PlanError("an effect has one or two anchors, none below 0")
        if len(set(self.anchors)) != len(self.anchors):
            raise PlanError("the anchors of an effect differ")
        whole(self.unit, "the unit of an effect", least=16, most=MOST_UNIT)
        whole(self.fewest, "the fewest examples of a class", least=2)
        if row.at != (self.at is not None):
            raise PlanError(
                f"{row.title} is taken at a threshold"
                if row.at
                else f"{row.title} is not taken at a threshold"
            )

    @classmethod
    def of(cls, name: str, *, private: bool, at: float | None = None) -> EffectTerms:
        """Return the usual terms: narrow and with one anchor under noise."""
        usual = SITE_EFFECTS[name].defaults
        low, high = usual.private if private else (usual.low, usual.high)
        anchors = (usual.anchor,) if private else (0.0, usual.anchor)
        return cls(
            name,
            float(low),
            float(high),
            usual.least,
            anchors,
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
        """What people call it."""
        return self.row.title if self.at is None else f"{self.row.title} at {self.at:g}"

    @property
    def key(self) -> str:
        """What results call it: its name, with its threshold if it has one."""
        return self.effect if self.at is None else f"{self.effect}@{self.at:g}"

    @property
    def size(self) -> int:
        """Integers that a site adds."""
        return self.numbers * len(self.anchors)

    @property
    def numbers(self) -> int:
        """Integers an anchor."""
        return NUMBERS if self.squared else NUMBERS - 1

    def encoded(self, edges: Edges, counts: BinCounts) -> IntVector:
        """Return a site's integers, from its own exact counts."""
        if min(float(c.sum()) for c in counts) < self.fewest:
            return np.zeros(self.size, dtype=np.int64)
        return self.of_effect(self.row.of(edges, counts, self.at))

    def of_effect(self, effect: Effect) -> IntVector:
        """Return the integers of an effect, kept in its range."""
        if not math.isfinite(effect.value) or not effect.variance >= 0:
            return np.zeros(self.size, dtype=np.int64)
        share = (effect.value - self.low) / (self.high - self.low)
        phi = min(max(share, 0.0), 1.0)
        variance = max(effect.variance, self.least)
        numbers = []
        for anchor in self.anchors:
            b = (self.least + anchor) / (variance + anchor)
            b_phi = b * phi
            parts = [b_phi * phi, b_phi * (1 - phi), b * (1 - phi) ** 2, 1 - b, b * b]
            numbers += parts[: self.numbers]
        found: IntVector = np.rint(np.array(numbers) * self.unit).astype(np.int64)
        return found

    def sums(self, anchor: float) -> FloatArray:
        """Return the matrix from the totals to 1, a, a^2, a theta, a theta^2.

        Without squares the third row is empty.
        """
        g, low, width = self.least + anchor, self.low, self.high - self.low
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
        matrix: FloatArray = np.stack(rows)[:, : self.numbers] / self.unit
        return matrix

    def totals(self, numbers: FloatVector) -> dict[float, FloatVector]:
        """Return the sums of 1, a, a^2, a theta and a theta^2 by anchor."""
        found = {}
        cuts = np.split(numbers, len(self.anchors))
        for anchor, cut in zip(self.anchors, cuts, strict=True):
            total: FloatVector = self.sums(anchor) @ cut
            if not self.squared:
                total[2] = total[1] ** 2 / max(total[0], 1.0)
            found[anchor] = total
        return found

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """Return the bounds that the module derives, for all anchors together."""
        s, times = self.unit, len(self.anchors)
        present = unit.kind == "client" and unit.relation == "add_remove"
        most = (1 if present else 2) + self.squared  # in both norms, before rounding
        off = self.numbers if not present else -(-self.numbers // 2)
        # (sqrt(most) s + sqrt(numbers) r)^2, r the rounding of one number
        squares = most * s * s + math.isqrt(4 * most * self.numbers * s * s) + 1
        return Sensitivity(
            times * (most * s + off),
            times * (squares + self.numbers),
            s if present else s + 1,
            unit,
        )

    def table(self) -> dict[str, Any]:
        """Return what a plan's file says."""
        table: dict[str, Any] = {
            "effect": self.effect,
            "low": self.low,
            "high": self.high,
            "least": self.least,
            "anchors": list(self.anchors),
            "unit": self.unit,
            "fewest": self.fewest,
        }
        if not self.squared:
            table["squared"] = False
        return table if self.at is None else {**table, "at": self.at}

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> EffectTerms:
        """Read what ``table`` wrote."""
        at = table.get("at")
        return cls(
            table["effect"],
            float(table["low"]),
            float(table["high"]),
            float(table["least"]),
            tuple(float(anchor) for anchor in table["anchors"]),
            table["unit"],
            table["fewest"],
            None if at is None else float(at),
            table.get("squared", True),
        )
