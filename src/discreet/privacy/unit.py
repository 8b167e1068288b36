"""Whose data is protected, and how two neighbouring data sets may differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from discreet.codec.parsing import whole
from discreet.errors import PlanError
from discreet.vocabulary import did_you_mean

UnitKind: TypeAlias = Literal["example", "row", "label", "score", "client", "subject"]
Relation: TypeAlias = Literal["add_remove", "replace", "flip"]

_RELATIONS: Final[dict[UnitKind, tuple[Relation, ...]]] = {
    "example": ("add_remove", "replace"),
    "row": ("replace",),
    "label": ("flip",),
    "score": ("replace",),
    "client": ("add_remove", "replace"),
    "subject": ("add_remove", "replace"),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of privacy: what one person's presence may change.

    - ``example``: add or remove (or replace) one example.
    - ``row``: replace one example; the number of rows is public.
    - ``label``: flip one label; the scores are public.
    - ``score``: replace one score; the labels are not protected.
    - ``client``, ``subject``: all that one client or person holds, at most
      ``max_examples`` examples.
    """

    kind: UnitKind
    relation: Relation
    max_examples: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in _RELATIONS:
            near = did_you_mean(self.kind, _RELATIONS)
            raise PlanError(f"a unit is one of {', '.join(_RELATIONS)}{near}")
        if self.relation not in _RELATIONS[self.kind]:
            allowed = " or ".join(_RELATIONS[self.kind])
            raise PlanError(f"unit {self.kind} takes the relation {allowed}")
        many = self.kind in ("client", "subject")
        if many and self.max_examples is None:
            raise PlanError(
                f"unit {self.kind} needs max_examples, the most examples that one "
                f"{self.kind} may contribute"
            )
        if many:
            # 1.01 examples would keep two rows and size the noise for one.
            whole(self.max_examples, "max_examples", least=1)
        if not many and self.max_examples is not None:
            raise PlanError(f"unit {self.kind} is one example; omit max_examples")

    @property
    def examples(self) -> int:
        """How many examples one unit may touch."""
        return self.max_examples or 1

    def __str__(self) -> str:
        what = {
            "example": "one example",
            "row": "one row",
            "label": "one label",
            "score": "one score",
            "client": f"one client (at most {self.max_examples} examples)",
            "subject": f"one subject (at most {self.max_examples} examples a site)",
        }[self.kind]
        how = {"add_remove": "added or removed", "replace": "replaced"}
        return f"{what} {how.get(self.relation, 'flipped')}"


EXAMPLE: Final = Unit("example", "add_remove")
"""Add or remove one example: the unit of Cormode 2023 and Xu 2025."""
ROW: Final = Unit("row", "replace")
"""One example replaced: the number of examples is public, the class counts not."""
LABEL: Final = Unit("label", "flip")
"""Flip one label, scores public: the unit of Sun 2022."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far a statistic moves, in three norms, when one unit changes."""

    l1: int
    l2_squared: int
    linf: int
    unit: Unit

    def __post_init__(self) -> None:
        for norm in (self.l1, self.l2_squared, self.linf):
            whole(norm, "a sensitivity, which an example always has,", least=1)


def additive(unit: Unit, *, cells: int, cells_flipped: int) -> Sensitivity:
    r"""Sensitivity of a sum of 0/1 vectors, one vector an example.

    An example adds 1 to ``cells`` entries. With c examples a unit, adding or
    removing it moves the sum by at most :math:`c \cdot cells` in L1, and when
    all c fall into the same entries by :math:`c^2 \cdot cells` in squared L2.
    Replacing it does both a removal and an addition to disjoint entries.
    A flipped label changes ``cells_flipped`` entries by one.
    """
    c = unit.examples
    match unit.relation:
        case "add_remove":
            return Sensitivity(c * cells, c * c * cells, c, unit)
        case "replace":
            return Sensitivity(2 * c * cells, 2 * c * c * cells, c, unit)
        case "flip":
            return Sensitivity(cells_flipped, cells_flipped, 1, unit)
